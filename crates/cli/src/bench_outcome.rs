// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of `crosslane bench`, as `--json` prints them and pages show them.

use crosslane_results::{Bench, Interrupted, Outcome, Platform, SCHEMA, Scenario};

use crate::why::Why;

/// Builds the outcome of a benchmark.
pub fn bench_outcome(
    bench: &str,
    platform: Platform,
    seed: u64,
    scenarios: Vec<Scenario>,
    interrupted: Option<Interrupted>,
) -> Outcome {
    Outcome::Bench(Bench {
        schema: SCHEMA,
        bench: bench.to_owned(),
        platform,
        seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenarios,
        interrupted,
    })
}

/// Adds what limits a run to its outcome.
pub fn explained(scenario: Scenario, why: &Why) -> Scenario {
    Scenario {
        why_not_faster: why.explanation().cloned(),
        not_explained: why.not_explained().map(str::to_owned),
        ..scenario
    }
}
