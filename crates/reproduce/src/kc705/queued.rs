// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers queued in a ring, which the paper's card does not support, with this project's engine,
//! which reads and writes at once.

use crosslane_experiment::parallel;
use crosslane_experiment::{CardDirection, Measured, Options};
use crosslane_report::Table;

use super::sweep::{Point, rate};
use super::{FASTEST, SIZES, figure, rate_plot, transfer};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::ours;

/// Numbers of 1 KiB transfers in the ring.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The number of the comparison.
const DEPTH: u32 = 64;
/// Least number of bytes of a scenario.
const BYTES: u64 = 4 << 20;

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 =
    ((DEPTHS.len() + SIZES.len() - 1) * CardDirection::ALL.len()) as u64;

/// A scenario: direction, size, number of transfers in the ring.
type Job = (CardDirection, u64, u32);

fn options(context: &Context<'_>, (_, size, depth): Job) -> Options {
    let iterations = (BYTES / size).max(2 * u64::from(depth));
    Options::queued(size, depth, iterations, context.seed as u32)
}

/// Returns the number of transfers of a size in the ring: fewer of large ones.
fn depth_of(size: u64) -> u32 {
    ((4 * BYTES / size) as u32).clamp(2, DEPTH)
}

pub(super) fn run(context: &Context<'_>, document: &[Point]) -> Result<Experiment> {
    let lab = context.variant("crosslane")?.with_engines(context.own);
    let jobs: Vec<Job> = CardDirection::ALL
        .into_iter()
        .flat_map(|way| {
            let deep = DEPTHS.map(|depth| (way, SIZES[0], depth));
            let large = SIZES[1..].iter().map(move |size| (way, *size, depth_of(*size)));
            deep.into_iter().chain(large)
        })
        .collect();
    let measured: Vec<(Job, Measured)> = parallel::try_map(&jobs, |job| -> Result<_> {
        let run = (job.0, options(context, *job));
        Ok((*job, transfer(context, &lab, FASTEST, run)?))
    })?;
    let of = |job: Job| {
        let found = measured.iter().find(|(one, _)| *one == job);
        found.map_or(0.0, |(_, run)| run.application_bytes_per_second())
    };
    let mut rows: Vec<Row> = measured.iter().map(|(job, run)| row(*job, run)).collect();
    rows.extend(CardDirection::ALL.map(|way| gain(context, document, way, of)));
    let text = paragraphs([
        "The paper's host makes one transfer at a time, and each pays for registers, interrupt \
         and waking. In a ring in host memory transfers wait for the engine, which fetches \
         descriptors in batches and reports by a status block that is polled; its two sides \
         overlap, so that the board's memory takes no time beside the link. Rates are of all \
         transfers together, from before the first is posted until the last is known.",
    ]);
    Ok(Experiment {
        title: "Transfers queued in a ring, with this project's own engine",
        text,
        tables: vec![depth_table(context, document, of), size_table(document, of)],
        plots: CardDirection::ALL
            .map(|way| {
                let points = |rate: &dyn Fn(u64) -> f64| {
                    SIZES.map(|size| (size as f64, rate(size) / 1e6)).to_vec()
                };
                let queued = points(&|size| of((way, size, depth_of(size))));
                let alone = points(&|size| rate(document, FASTEST, way, size));
                let all =
                    vec![ours("our engine, queued", queued), ours("the paper's procedure", alone)];
                let title = format!("Queued and one at a time, Gen2 x4, {}", way.words());
                rate_plot(&title, all)
            })
            .to_vec(),
        rows,
        ..Experiment::default()
    })
}

fn row((way, size, depth): Job, run: &Measured) -> Row {
    let quantity = format!("{}, our engine, queued", way.words());
    let conditions = format!("Gen2 x4; {}; {depth} in the ring", size_words(size));
    Row::simulated(quantity, conditions, "MB/s", run.application_bytes_per_second() / 1e6)
}

/// Returns the paper's rate at 1 KiB, one transfer at a time: the published figure, or else the
/// lab's.
fn alone(context: &Context<'_>, document: &[Point], way: CardDirection) -> f64 {
    let published = figure(context, way, SIZES[0]).map(|figure| figure.value * 1e6);
    published.unwrap_or_else(|| rate(document, FASTEST, way, SIZES[0]))
}

/// Returns the rate as a multiple of the paper's at 1 KiB.
fn gain(
    context: &Context<'_>,
    document: &[Point],
    way: CardDirection,
    of: impl Fn(Job) -> f64,
) -> Row {
    let queued = of((way, SIZES[0], DEPTH));
    let quantity = format!("{}, our engine queued over the paper", way.words());
    let conditions = format!("Gen2 x4; 1 KiB; {DEPTH} in the ring");
    Row::simulated(quantity, conditions, "times", queued / alone(context, document, way))
}

fn depth_table(context: &Context<'_>, document: &[Point], of: impl Fn(Job) -> f64) -> Table {
    let mut table = Table::headed(
        "1 KiB, in the ring: | to card MB/s: | times the paper's: | from card MB/s: | \
         times the paper's:",
    );
    for depth in DEPTHS {
        let mut cells = vec![depth.to_string()];
        for way in CardDirection::ALL {
            let queued = of((way, SIZES[0], depth));
            cells.push(format!("{:.1}", queued / 1e6));
            cells.push(format!("{:.1}", queued / alone(context, document, way)));
        }
        table.row(cells);
    }
    table
}

fn size_table(document: &[Point], of: impl Fn(Job) -> f64) -> Table {
    let mut table = Table::headed(
        "size | in the ring: | to card MB/s: | times one at a time: | from card MB/s: | \
         times one at a time:",
    );
    for size in SIZES {
        let mut cells = vec![size_words(size), depth_of(size).to_string()];
        for way in CardDirection::ALL {
            let queued = of((way, size, depth_of(size)));
            cells.push(format!("{:.1}", queued / 1e6));
            cells.push(format!("{:.1}", queued / rate(document, FASTEST, way, size)));
        }
        table.row(cells);
    }
    table
}
