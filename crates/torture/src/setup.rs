// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How seeds are run.

use std::fmt;
use std::sync::Arc;

use crosslane_lab::EngineKind;

use crate::lab_text::LabText;

/// Takes a line about what happens in a seed.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// How seeds are run.
#[derive(Clone, Default)]
pub struct Setup {
    /// The lab of every seed; none: each seed makes its own.
    pub lab: Option<LabText>,
    /// What its engines are.
    pub engines: EngineKind,
    /// Is told of everything that is done and of how it ended.
    pub note: Option<Note>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lab = self.lab.as_ref().map(|lab| &lab.name);
        f.debug_struct("Setup").field("lab", &lab).finish_non_exhaustive()
    }
}
