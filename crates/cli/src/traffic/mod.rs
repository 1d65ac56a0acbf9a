// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench traffic`: flows between generic requesters and memories.

mod json;
mod report;

use std::sync::Arc;

use crosslane_explain::{Choices, ExplainError, TrafficOutcome, TrafficRun};
use crosslane_lab::Lab;
use rayon::prelude::*;

use crate::arguments::TrafficArguments;
use crate::error::CommandError;
use crate::output::{print, print_error, print_hint, print_json};
use crate::perfetto::traced;
use crate::progress::Progress;
use crate::report_file::write_bench_page;
use crate::why::{Made, Why, explain_all};

/// Errors that are printed beside deadlocks, which all are; further ones are counted.
const PRINTED_ERRORS: usize = 10;

/// Runs every scenario and prints what came of it.
///
/// # Errors
/// A lab or a flow that cannot be, an output that cannot be written, and
/// [`CommandError::Run`] where anything went wrong in a run.
pub fn run(arguments: &TrafficArguments) -> Result<(), CommandError> {
    let why = "its flows are a lab's generators, which --flow names";
    let lab = Arc::new(Lab::load(&arguments.place.named()?.whole_lab(why)?)?);
    let runs: Vec<TrafficRun> = scenario_sizes(arguments)?
        .into_iter()
        .map(|sizes| TrafficRun {
            lab: Arc::clone(&lab),
            flows: arguments.flows.iter().zip(sizes).map(|(f, size)| f.request(size)).collect(),
            choices: Choices {
                operations: arguments.operations,
                outstanding: arguments.outstanding,
                relaxed: arguments.relaxed,
                relaxed_reads: false,
            },
            seed: arguments.seed,
            shuffle: arguments.shuffle,
            max_payload_bytes: arguments.mps,
            dllps_free: false,
        })
        .collect();
    if arguments.trace.is_some() && runs.len() > 1 {
        let sentence = "--trace writes one run; give each --flow one size instead of a range";
        return Err(CommandError::Usage(sentence.into()));
    }
    // A flow that cannot be is said before anything runs, and is the first one of the line.
    let running = lab.build(arguments.seed)?;
    let mut bytes = 0_u64;
    for run in &runs {
        bytes = bytes.saturating_add(run.total_bytes(&running)?);
    }
    let progress = Progress::new(bytes);
    let outcomes: Result<Vec<TrafficOutcome>, ExplainError> = match &arguments.trace {
        Some(path) => traced(path, lab.name(), arguments.trace_unit, running, |trace| {
            runs.iter().map(|run| run.run(&progress, Some(trace.sink()))).collect()
        })?,
        // Each run is a simulation of its own; no simulation is ever split.
        None => runs.par_iter().map(|run| run.run(&progress, None)).collect(),
    };
    progress.finish();
    let outcomes = outcomes?;
    let whys = whys(arguments, &runs, &outcomes);
    let document = json::document(lab.name(), arguments.seed, &outcomes, &whys);
    if arguments.json {
        print_json(&document)?;
    } else {
        print(&report::page(&outcomes, &whys))?;
    }
    if let Some(folder) = &arguments.report {
        let loads = outcomes.last().map(|outcome| &outcome.loads[..]);
        write_bench_page(&document, Some(&lab), loads, folder)?;
    }
    print_outcome_errors(&outcomes)
}

fn whys(
    arguments: &TrafficArguments,
    runs: &[TrafficRun],
    outcomes: &[TrafficOutcome],
) -> Vec<Why> {
    if arguments.no_why {
        return vec![Why::LeftOut; runs.len()];
    }
    let made = runs.iter().zip(outcomes).map(|(case, outcome)| Made {
        case,
        account: outcome.account.as_ref(),
        has_errors: outcome.error_count > 0,
    });
    explain_all(&made.collect::<Vec<_>>())
}

/// The sizes of the flows in each scenario: one scenario for each size of the ranges, which all
/// have the same number of sizes, or one.
fn scenario_sizes(arguments: &TrafficArguments) -> Result<Vec<Vec<u64>>, CommandError> {
    let sizes: Vec<Vec<u64>> = arguments.flows.iter().map(|f| f.sizes.sizes().collect()).collect();
    let count = sizes.iter().map(Vec::len).max().unwrap_or(0);
    for (flow, sizes) in arguments.flows.iter().zip(&sizes) {
        if sizes.len() != 1 && sizes.len() != count {
            return Err(CommandError::Usage(format!(
                "--flow {flow}: a range of {} sizes beside one of {count}; ranges of one run need \
                 the same number of sizes",
                sizes.len()
            )));
        }
    }
    let of_scenario = |index: usize| sizes.iter().map(|s| s[index.min(s.len() - 1)]).collect();
    Ok((0..count).map(of_scenario).collect())
}

/// Prints what went wrong, and is an error if anything did.
fn print_outcome_errors(outcomes: &[TrafficOutcome]) -> Result<(), CommandError> {
    let count = outcomes.iter().map(|outcome| outcome.error_count).sum();
    let deadlocks = outcomes.iter().filter_map(|outcome| outcome.deadlock.as_ref());
    let errors = outcomes.iter().flat_map(|outcome| &outcome.errors);
    print_errors(count, deadlocks, errors)
}

/// Prints all of `deadlocks` and the first of `errors`, `count` together, and is an error if there
/// are any.
///
/// # Errors
/// [`CommandError::Run`].
pub fn print_errors<'a>(
    count: u64,
    deadlocks: impl Iterator<Item = &'a String>,
    errors: impl Iterator<Item = &'a String>,
) -> Result<(), CommandError> {
    let mut printed = 0;
    for error in deadlocks.chain(errors.take(PRINTED_ERRORS)) {
        print_error(error);
        printed += 1;
    }
    if count > printed {
        print_hint(&format!("{printed} of {count} errors are shown"));
    }
    if count > 0 { Err(CommandError::Run) } else { Ok(()) }
}
