// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of seeds.

use std::fmt;
use std::sync::Arc;

use crosslane_lab::EngineKind;

use crate::lab_text::LabText;

/// Receives lines about the events of a seed.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of seeds.
#[derive(Clone, Default)]
pub struct Setup {
    /// The lab of every seed; `None` to generate one for each.
    pub lab: Option<LabText>,
    /// Kind of its engines.
    pub engines: EngineKind,
    /// Receives every action and its end, if set.
    pub note: Option<Note>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lab = self.lab.as_ref().map(|lab| &lab.name);
        f.debug_struct("Setup").field("lab", &lab).finish_non_exhaustive()
    }
}
