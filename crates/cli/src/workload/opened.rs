// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads on cards that are opened by name: boards, and cards that a server shows on a socket.
//! Time is the machine's there.

use crosslane::experiment::{NoObserver, Workload, WorkloadOutcome};
use crosslane::lab::EngineKind;
use crosslane::open::DeviceName;

use super::arguments::WorkloadArguments;
use crate::bench::{Bench, opened, run_on};
use crate::error::{CommandError, usage};

/// Rejects options that only labs have.
///
/// # Errors
/// The first of them.
pub fn check_options(common: &WorkloadArguments) -> Result<(), CommandError> {
    let given = [
        ("--engine", common.engines.engine != EngineKind::Model),
        ("--trace-fst", common.trace_fst.is_some()),
        ("--trace", common.trace.trace.is_some()),
        ("--mps", common.mps.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some(("--mps", _)) => Err(usage(
            "--mps: ports of a machine are set by `crosslane device set-mps`, before a run",
        )),
        Some((option, _)) => Err(usage(format!("{option} is for labs"))),
        None => Ok(()),
    }
}

/// Opens the cards, runs each workload and prints; `flows` are the places of each flow's cards.
///
/// # Errors
/// Cards that cannot be opened, and errors of the runs.
pub fn run(
    bench: Bench<'_>,
    names: &[DeviceName],
    flows: &[Vec<usize>],
    workloads: &[Workload],
) -> Result<(), CommandError> {
    let session = opened(names)?;
    let devices = run_on(&session, async { Ok(session.devices().await?) })?;
    let cards = flows.iter().map(|flow| flow.iter().map(|card| devices[*card].clone()).collect());
    let cards: Vec<Vec<_>> = cards.collect();
    bench.on_cards(&session, (workloads, "sizes"), async |workload| {
        let measured = workload.run(&cards, &NoObserver).await?;
        let outcome = WorkloadOutcome::on_cards(*workload, measured);
        Ok((format!("{} B", workload.size_bytes()), outcome))
    })
}
