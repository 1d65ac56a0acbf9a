// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of `crosslane bench`, as `--json` prints them and pages show them.

use crosslane::results::{Bench, Flow, Interrupted, Outcome, Platform, SCHEMA, Scenario};
use crosslane_report::text::{Notes, text};

use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::output_file::{OutputFile, not_written};
use crate::place_argument::is_served;
use crate::progress::Steps;
use crate::report_file::{Where, write_outcome_page};
use crate::terminal::columns;
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

/// Returns the platform of an outcome.
pub fn platform(place: Where<'_>) -> Platform {
    match place {
        Where::Lab(lab) => Platform::Lab { lab: lab.name().to_owned() },
        Where::Cards(names) => Platform::Cards {
            devices: names.iter().map(ToString::to_string).collect(),
            served: is_served(names),
        },
    }
}

/// Prints an outcome as JSON or text.
///
/// # Errors
/// Standard output that cannot be written.
pub fn print_outcome(
    outcome: &Outcome,
    is_json: bool,
    notes: Notes<'_>,
) -> Result<(), CommandError> {
    match is_json {
        true => print_json(outcome),
        false => print(&text(outcome, notes, columns())),
    }
}

/// Runs of a benchmark that have ended, one flow each.
pub struct Runs<'a> {
    /// Name of the benchmark.
    pub bench: &'a str,
    /// The lab or the cards.
    pub place: Where<'a>,
    /// Random seed.
    pub seed: u64,
    /// The flows, in the order of the runs.
    pub flows: Vec<Flow>,
    /// Their limits, if known.
    pub whys: Vec<Why>,
}

impl Runs<'_> {
    /// Prints the runs, and writes their page.
    ///
    /// # Errors
    /// An interruption, or an output that cannot be written.
    pub fn show(
        self,
        steps: Option<&Steps>,
        is_json: bool,
        notes: Notes<'_>,
        file: Option<OutputFile>,
    ) -> Result<(), CommandError> {
        let whys = self.whys.iter().map(Some).chain(std::iter::repeat(None));
        let scenarios = self.flows.into_iter().zip(whys).map(|(flow, why)| {
            let bytes = Some(flow.bytes);
            let scenario = Scenario { bytes, flows: vec![flow], ..Scenario::default() };
            explained(scenario, why.unwrap_or(&Why::LeftOut))
        });
        let (platform, scenarios) = (platform(self.place), scenarios.collect());
        let interrupted = steps.and_then(|steps| steps.watch.interrupted());
        let outcome = bench_outcome(self.bench, platform, self.seed, scenarios, interrupted);
        print_outcome(&outcome, is_json, notes)?;
        if let Some(steps) = steps {
            steps.watch.end(&not_written([&file]))?;
        }
        match file {
            Some(file) => write_outcome_page(&outcome, self.place.lab(), None, &file),
            None => Ok(()),
        }
    }
}
