// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads on cards that are opened by name: boards, and cards that a server shows on a socket.
//! Time is the machine's there.

use crosslane::experiment::{NoObserver, Workload, WorkloadOutcome};
use crosslane::open::{CardError, DeviceName, OpenError, Session, SessionOptions};
use crosslane::results::{Platform, Scenario};
use crosslane_report::text::Notes;

use super::arguments::WorkloadArguments;
use super::ends::Ends;
use super::modes;
use crate::bench_outcome::{bench_outcome, print_outcome};
use crate::engine_argument::EngineWord;
use crate::error::CommandError;
use crate::output::print_error;
use crate::place_argument::is_served;
use crate::report_file::{report_of, write_outcome_page};

fn usage(sentence: String) -> CommandError {
    CommandError::Usage(sentence)
}

/// Converts the error of a card that cannot be opened.
pub fn refused(error: OpenError) -> CommandError {
    match error {
        OpenError::Lab(error) => CommandError::Lab(error),
        OpenError::Function(_) => CommandError::Card(error.to_string()),
        error => usage(error.to_string()),
    }
}

/// Converts the error of a card that cannot be used.
pub fn card_failed(error: CardError) -> CommandError {
    CommandError::Card(error.to_string())
}

/// Runs a program on the cards of a session.
///
/// # Errors
/// The program's, and in a lab a program that can never end.
pub fn run_on<T>(
    session: &Session,
    program: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    session.block_on(program).map_err(|stuck| CommandError::Card(stuck.to_string()))?
}

/// Rejects options that only labs have.
fn check_options(common: &WorkloadArguments) -> Result<(), CommandError> {
    let given = [
        ("--engine", common.engines.engine != EngineWord::Model),
        ("--trace-fst", common.trace_fst.is_some()),
        ("--trace", common.trace.is_some()),
        ("--mps", common.mps.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some(("--mps", _)) => Err(usage(
            "--mps: ports of a machine are set by `crosslane device set-mps`, before a run".into(),
        )),
        Some((option, _)) => Err(usage(format!("{option} is for labs"))),
        None => Ok(()),
    }
}

/// Opens the cards, runs each workload and prints.
///
/// # Errors
/// Cards that cannot be opened, ends that are none of them, and errors of the runs.
pub fn run(
    bench: &str,
    common: &WorkloadArguments,
    names: &[DeviceName],
    ends: &Ends<'_>,
    workloads: &[Workload],
) -> Result<(), CommandError> {
    check_options(common)?;
    let flows = ends.on_cards(names)?;
    let file = report_of(common.report.as_ref())?;
    let session = Session::open_all(names, SessionOptions::default()).map_err(refused)?;
    let (outcomes, failed) = run_on(&session, async {
        let devices = session.devices().await.map_err(card_failed)?;
        let cards: Vec<Vec<_>> = flows
            .iter()
            .map(|flow| flow.iter().map(|card| devices[*card].clone()).collect())
            .collect();
        let mut outcomes = Vec::new();
        for workload in workloads {
            match workload.run(&cards, &NoObserver).await {
                Ok(measured) => outcomes.push(WorkloadOutcome::on_cards(*workload, measured)),
                // Earlier measurements are still worth seeing.
                Err(error) => return Ok((outcomes, Some(error.to_string()))),
            }
        }
        Ok((outcomes, None))
    })?;
    let is_served = is_served(names);
    let devices = names.iter().map(ToString::to_string).collect();
    let platform = Platform::Cards { devices, served: is_served };
    let scenarios: Vec<Scenario> = outcomes.iter().map(WorkloadOutcome::scenario).collect();
    let wrong: u64 = outcomes.iter().map(WorkloadOutcome::wrong_words).sum();
    let outcome = bench_outcome(bench, platform, common.seed, scenarios, None);
    let modes = workloads.last().map(modes).unwrap_or_default();
    let notes = Notes { modes: &modes, has_counters: !common.no_why, ..Notes::default() };
    print_outcome(&outcome, common.json, notes)?;
    if let Some(file) = &file {
        write_outcome_page(&outcome, None, None, file)?;
    }
    if wrong > 0 {
        print_error(&format!("{wrong} words of 4 B are not what was sent"));
    }
    match failed {
        Some(error) => Err(CommandError::Card(error)),
        None if wrong > 0 => Err(CommandError::Run),
        None => Ok(()),
    }
}
