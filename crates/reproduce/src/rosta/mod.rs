// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `rosta`: every experiment of "Direct data transfer between Virtex-7 FPGAs via
//! PCI Express bus", through the driver, in the lab of that name.
//!
//! Read first: `published`, what each figure is held to; then the experiments, one module each.

mod chain;
mod devices;
mod host_transfers;
mod latency;
mod limits;
mod own;
mod payload;
mod peers;
mod plots;
mod published;
mod scene;
mod why;

use rayon::prelude::*;

use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;

pub use scene::Context;

/// Scenarios that [`experiments`] runs, those that are explained among them.
pub const SCENARIOS: u64 = 114;

/// Every experiment, in order, each scenario in a lab of its own; `done` gets them as they end.
///
/// # Errors
/// An experiment that does not run as it should, or was interrupted.
pub fn experiments(
    context: &Context<'_>,
    done: &mut Vec<Experiment>,
) -> Result<(), ReproduceError> {
    type Run = fn(&Context<'_>) -> Result<Experiment, ReproduceError>;
    let runs: [Run; 9] = [
        host_transfers::run,
        |context| Ok(limits::run(&context.figures)),
        payload::run,
        |context| devices::run(context, devices::Direction::Write),
        |context| devices::run(context, devices::Direction::Read),
        chain::run,
        peers::run,
        latency::run,
        own::run,
    ];
    let results: Vec<Result<Experiment, _>> = runs.par_iter().map(|run| run(context)).collect();
    for result in results {
        done.push(match result {
            // The others keep their numbers.
            Err(ReproduceError::Interrupted) => Experiment::interrupted(),
            other => other?,
        });
    }
    for (number, explained) in why::explained(context)? {
        done[number - 1].why.push(explained);
    }
    Ok(())
}

/// The rows that are compared, and no others: for sweeps over the lab's constants.
///
/// # Errors
/// As [`experiments`].
pub fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    let mut rows = limits::run(&context.figures).rows;
    for run in [payload::one_device, devices::document, chain::document, peers::document] {
        rows.extend(run(context)?);
    }
    rows.extend(latency::document(context)?);
    rows.retain(Row::is_compared);
    Ok(rows)
}

/// What the own engine's rows miss, a sentence each; none if all goals are met.
#[must_use]
pub fn missed_goals(rows: &[Row]) -> Vec<String> {
    own::missed(rows)
}

/// Average rate of case 8.1, MiB/s, with the DLLPs of all links on the wires or off them.
///
/// # Errors
/// A lab that cannot be built, or a transfer that fails.
pub fn ring_rate(context: &Context<'_>, dllps_free: bool) -> Result<f64, ReproduceError> {
    peers::ring_rate(context, dllps_free)
}
