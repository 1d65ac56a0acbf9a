// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a core into a memory card as a case.

use std::sync::Arc;

use crosslane_experiment::{MmioOptions, StoreRun};
use crosslane_lab::Lab;
use crosslane_results::Figure;
use crosslane_results::quantity::size_words;

use super::{Case, LENGTHS, Short};
use crate::error::ExplainError;

/// Most bytes of a shortened run, before it is lengthened: the bytes that fill queues ahead of the
/// rate then count for little.
const SHORT_BYTES: u64 = 256 << 10;

impl Case for StoreRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        Ok(self.figure()?)
    }

    fn shortened(&self) -> Vec<Short<Self>> {
        let MmioOptions { size_bytes, passes, .. } = self.options;
        let mut shortened = Vec::new();
        for bytes in LENGTHS.map(|times| SHORT_BYTES * times) {
            let mut short = self.clone();
            short.options.size_bytes = size_bytes.min(bytes);
            short.options.passes = (bytes / size_bytes).clamp(1, passes);
            let MmioOptions { size_bytes: bytes, passes: fewer, .. } = short.options;
            if (bytes, fewer) == (size_bytes, passes) {
                shortened.push((short, None));
                break;
            }
            let [size, whole] = [bytes, size_bytes].map(size_words);
            let words = format!("{fewer} x {size} instead of {passes} x {whole}");
            shortened.push((short, Some(words)));
        }
        shortened
    }
}
