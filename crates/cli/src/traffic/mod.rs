// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench traffic`: flows between generic requesters and memories.

use std::sync::Arc;

use crosslane::experiment::{Choices, ScenarioError, TrafficOutcome, TrafficRun};
use crosslane::lab::Lab;
use crosslane::results::{Platform, Scenario};
use crosslane_report::text::Notes;

use crate::arguments::TrafficArguments;
use crate::bench_outcome::{bench_outcome, explained, print_outcome};
use crate::error::CommandError;
use crate::interrupt::{Watch, kept, unless_interrupted};
use crate::output::{print_error, print_hint};
use crate::output_file::not_written;
use crate::progress::Progress;
use crate::report_file::{report_of, write_outcome_page};
use crate::trace_file::traced;
use crate::why::{Made, Why, explain_all};

/// Errors that are printed before deadlocks, which all are; further ones are counted.
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
    let file = report_of(arguments.report.as_ref())?;
    let progress = Progress::new(bytes);
    let watch = Watch::begin(runs.len() as u64, "sizes");
    let made: Result<Vec<Option<TrafficOutcome>>, ScenarioError> = match &arguments.trace {
        Some(path) => traced(path, lab.name(), arguments.trace_unit, running, |trace| {
            watch.each(&runs, |run| unless_interrupted(run.run(&progress, Some(trace.sink()))))
        })?,
        // Each run is a simulation of its own; no simulation is ever split.
        None => watch.each(&runs, |run| unless_interrupted(run.run(&progress, None))),
    };
    progress.finish();
    let (runs, outcomes) = kept(runs, made?);
    let whys = whys(arguments, &runs, &outcomes);
    let scenarios = outcomes.iter().zip(&whys);
    let scenarios = scenarios.map(|(outcome, why)| explained(outcome.scenario(), why));
    let scenarios: Vec<Scenario> = scenarios.collect();
    let platform = Platform::Lab { lab: lab.name().to_owned() };
    let outcome =
        bench_outcome("traffic", platform, arguments.seed, scenarios, watch.interrupted());
    let modes = if arguments.relaxed { "relaxed ordering" } else { "" };
    print_outcome(&outcome, arguments.json, Notes { modes, ..Notes::default() })?;
    watch.end(&not_written([&file]))?;
    if let Some(file) = &file {
        let loads = outcomes.last().map(|outcome| &outcome.loads[..]);
        write_outcome_page(&outcome, Some(&lab), loads, file)?;
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
        measured: Some(outcome.figure),
        account: outcome.account.as_ref(),
        has_errors: outcome.error_count > 0,
    });
    explain_all(&made.collect::<Vec<_>>(), arguments.json)
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

/// Prints the first of `errors` and all of `deadlocks`, `count` together, and is an error if there
/// are any. Errors that differ in their numbers only are one line. A deadlock comes last, behind
/// the errors that cause it.
///
/// # Errors
/// [`CommandError::Run`].
pub fn print_errors<'a>(
    count: u64,
    deadlocks: impl Iterator<Item = &'a String>,
    errors: impl Iterator<Item = &'a String>,
) -> Result<(), CommandError> {
    let mut shown = 0;
    for (error, times) in alike(errors).into_iter().take(PRINTED_ERRORS) {
        match times {
            1 => print_error(error),
            times => print_error(&format!("{error} (and {} more like it)", times - 1)),
        }
        shown += times;
    }
    for deadlock in deadlocks {
        print_error(deadlock);
        shown += 1;
    }
    if count > shown {
        print_hint(&format!("{shown} of {count} errors are shown"));
    }
    if count > 0 { Err(CommandError::Run) } else { Ok(()) }
}

/// The first of all errors that say the same but for their numbers, and how many they are.
fn alike<'a>(errors: impl Iterator<Item = &'a String>) -> Vec<(&'a str, u64)> {
    let mut groups: Vec<(String, &str, u64)> = Vec::new();
    for error in errors {
        let words = without_numbers(error);
        match groups.iter_mut().find(|(known, ..)| *known == words) {
            Some((.., times)) => *times += 1,
            None => groups.push((words, error, 1)),
        }
    }
    groups.into_iter().map(|(_, error, times)| (error, times)).collect()
}

/// A sentence without times, addresses and counts. The numbers of names, as in `fpga1`, stay.
fn without_numbers(sentence: &str) -> String {
    let mut text = String::new();
    let (mut before, mut is_number) = (' ', false);
    for letter in sentence.chars() {
        if !is_number && letter.is_ascii_digit() && !before.is_alphanumeric() {
            text.push('#');
            is_number = true;
        } else if is_number && !letter.is_alphanumeric() && letter != '.' {
            is_number = false;
        }
        if !is_number {
            text.push(letter);
        }
        before = letter;
    }
    // Times have the unit that suits them.
    ["# ns", "# us", "# ms"].iter().fold(text, |text, time| text.replace(time, "# s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_only_are_one() {
        let errors = [
            "fpga1 at 35.089 us: no answer from 0x1f00, tag 3",
            "fpga1 at 360 ns: no answer from 0x2f00, tag 15",
            "fpga2 at 36 us: no answer from 0x2f00, tag 15",
            "fpga1 at 37 us: no answer from 0x3f00, tag 4",
        ]
        .map(str::to_owned);
        assert_eq!(alike(errors.iter()), [(errors[0].as_str(), 3), (errors[2].as_str(), 1)]);
    }
}
