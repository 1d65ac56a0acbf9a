// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of network processors as cases: gets, and exchanges in a torus.

use crosslane_experiment::{GetWork, HaloOptions, NgetOptions, Scenario};

use super::{Explainable, SHORT_BYTES, Short, lengthened};
use crate::error::ExplainError;
use crate::limits;
use crate::search::Lever;

/// Fewest loops of a shortened run of gets.
const SHORT_LOOPS: u64 = 16;

impl Explainable for GetWork {
    const HAS_ACCOUNT: bool = true;

    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let NgetOptions { size_bytes, in_flight, per_loop, loops, .. } = scenario.work.options;
        let each = size_bytes * u64::from(per_loop);
        let least = SHORT_LOOPS.max(4 * u64::from(in_flight) / u64::from(per_loop));
        lengthened(|times| {
            let fewer = (SHORT_BYTES * times / each.max(1)).max(least * times).min(loops);
            let mut short = scenario.clone();
            short.work.options.loops = fewer;
            let words = format!("{fewer} loops instead of {loops}");
            (short, (fewer != loops).then_some(words))
        })
    }

    fn levers(
        scenario: &Scenario<Self>,
        first: &Scenario<Self>,
    ) -> Result<Vec<Lever<Scenario<Self>>>, ExplainError> {
        limits::of_gets(scenario, first)
    }
}

impl Explainable for HaloOptions {
    const HAS_ACCOUNT: bool = false;

    /// Shortens the number of exchanges: all are alike.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let exchanges = scenario.work.exchanges;
        let mut short = scenario.clone();
        short.work.exchanges = 1;
        match exchanges {
            0 | 1 => vec![(short, None)],
            2.. => vec![
                (short, Some(format!("1 exchange instead of {exchanges}"))),
                (scenario.clone(), None),
            ],
        }
    }

    fn levers(
        scenario: &Scenario<Self>,
        first: &Scenario<Self>,
    ) -> Result<Vec<Lever<Scenario<Self>>>, ExplainError> {
        limits::of_exchanges(scenario, first)
    }
}
