// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a core into a memory card as a case.

use crosslane_experiment::{MmioOptions, Scenario, StoreWork};
use crosslane_results::quantity::size_words;

use super::{Explainable, Short, lengthened};
use crate::error::ExplainError;
use crate::limits;
use crate::search::Lever;

/// Most bytes of a shortened run, before it is lengthened: the bytes that fill queues ahead of the
/// rate then count for little.
const SHORT_BYTES: u64 = 256 << 10;

impl Explainable for StoreWork {
    const HAS_ACCOUNT: bool = false;

    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let MmioOptions { size_bytes, passes, .. } = scenario.work.options;
        lengthened(|times| {
            let most = SHORT_BYTES * times;
            let (bytes, fewer) = (size_bytes.min(most), (most / size_bytes).clamp(1, passes));
            let mut short = scenario.clone();
            (short.work.options.size_bytes, short.work.options.passes) = (bytes, fewer);
            let [size, whole] = [bytes, size_bytes].map(size_words);
            let is_whole = (bytes, fewer) == (size_bytes, passes);
            let words = format!("{fewer} x {size} instead of {passes} x {whole}");
            (short, (!is_whole).then_some(words))
        })
    }

    fn levers(
        scenario: &Scenario<Self>,
        first: &Scenario<Self>,
    ) -> Result<Vec<Lever<Scenario<Self>>>, ExplainError> {
        limits::of_stores(scenario, first)
    }
}
