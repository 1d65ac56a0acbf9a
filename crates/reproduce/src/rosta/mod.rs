// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `rosta`: every experiment of "Direct data transfer between Virtex-7 FPGAs via
//! PCI Express bus", through the driver, in the lab of that name.
//!
//! Each experiment has a module.

mod chain;
mod devices;
mod host_transfers;
mod latency;
mod limits;
mod own;
mod payload;
mod peers;
mod scene;
mod why;

use crosslane_experiment::parallel;

use crate::comparison::Row;
use crate::context::Context;
use crate::error::{ReproduceError, Result};
use crate::experiment::Experiment;
use crate::study::{Effort, Reproducible, Study};
use scene::Scene;

/// The study.
pub(crate) const STUDY: Study = Study {
    labs: &["rosta"],
    figures: &[],
    reproducible: Some(Reproducible {
        name: "rosta",
        summary: "Direct data transfer between Virtex-7 FPGAs: 8 FPGAs, 3 switches, all \
                      experiments.",
        scenarios: 114,
        has_engines: true,
        beside_gateware: 0,
        experiments,
    }),
    compared,
};

fn experiments(context: &Context<'_>, done: &mut Vec<Experiment>) -> Result<()> {
    type Run = fn(&Scene<'_>) -> Result<Experiment>;
    let runs: [Run; 9] = [
        host_transfers::run,
        |scene| Ok(limits::run(scene.figures())),
        payload::run,
        |scene| devices::run(scene, devices::Direction::Write),
        |scene| devices::run(scene, devices::Direction::Read),
        chain::run,
        peers::run,
        latency::run,
        own::run,
    ];
    let scene = Scene::new(context, Effort::Full)?;
    let results: Vec<Result<Experiment, _>> = parallel::map(&runs, |run| run(&scene));
    for result in results {
        done.push(match result {
            // The others keep their numbers.
            Err(ReproduceError::Interrupted) => {
                Experiment { title: "Interrupted before its end", ..Experiment::default() }
            }
            other => other?,
        });
    }
    if let Some(explain) = context.explain {
        for (number, explained) in why::explained(&scene, explain)? {
            done[number - 1].why.push(explained);
        }
    }
    Ok(())
}

fn compared(context: &Context<'_>, effort: Effort) -> Result<Vec<Row>> {
    let scene = Scene::new(context, effort)?;
    let mut rows = limits::run(scene.figures()).rows;
    for run in [
        payload::one_device,
        devices::published_rows,
        chain::published_rows,
        peers::published_rows,
        latency::published_rows,
    ] {
        rows.extend(run(&scene)?);
    }
    rows.retain(Row::is_compared);
    Ok(rows)
}

/// Returns the goals that this project's own engine misses, a sentence each.
pub fn missed_goals(rows: &[Row]) -> Vec<String> {
    own::missed(rows)
}

/// Returns the average rate of case 8.1, MiB/s, with the DLLPs of all links or without their time.
///
/// # Errors
/// A lab that cannot be built, or a transfer that fails.
pub fn ring_rate(context: &Context<'_>, dllps_free: bool) -> Result<f64> {
    peers::ring_rate(&Scene::new(context, Effort::Full)?, dllps_free)
}
