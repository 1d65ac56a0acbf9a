// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was not possible there: transfers that wait in a ring, with this project's own engine,
//! which reads and writes at once.

use crosslane_bench::{CardDirection, CardMeasured, CardOptions};
use crosslane_explain::size_words;
use crosslane_report::{Series, SeriesKind};
use rayon::prelude::*;

use super::sweep::{Point, rate};
use super::{Context, FASTEST, SIZES, rate_plot};
use crate::comparison::{Kind, Row};
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};

/// Transfers of 1 KiB that are kept in the ring.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The depth of the comparison.
const DEPTH: u32 = 64;
/// Bytes of all transfers of a scenario, at least.
const BYTES: u64 = 4 << 20;

/// Scenarios of this experiment.
pub(super) const SCENARIOS: u64 =
    ((DEPTHS.len() + SIZES.len() - 1) * CardDirection::ALL.len()) as u64;

/// A scenario: direction, size, depth.
type Job = (CardDirection, u64, u32);

fn options(context: &Context<'_>, (direction, size, depth): Job) -> CardOptions {
    let iterations = (BYTES / size).max(2 * u64::from(depth));
    CardOptions::queued(direction, size, depth, iterations, context.seed as u32)
}

/// How deep the ring is filled with transfers of a size: fewer of large ones.
fn depth_of(size: u64) -> u32 {
    ((4 * BYTES / size) as u32).clamp(2, DEPTH)
}

pub(super) fn run(context: &Context<'_>, document: &[Point]) -> Result<Experiment, ReproduceError> {
    let lab = context.lab(Some("crosslane"))?;
    let jobs: Vec<Job> = CardDirection::ALL
        .into_iter()
        .flat_map(|way| {
            let deep = DEPTHS.map(|depth| (way, SIZES[0], depth));
            let large = SIZES[1..].iter().map(move |size| (way, *size, depth_of(*size)));
            deep.into_iter().chain(large)
        })
        .collect();
    let measured: Result<Vec<(Job, CardMeasured)>, ReproduceError> = jobs
        .par_iter()
        .map(|job| Ok((*job, context.run(&lab, FASTEST, &options(context, *job))?)))
        .collect();
    let measured = measured?;
    let of = |job: Job| {
        let found = measured.iter().find(|(one, _)| *one == job);
        found.map_or(0.0, |(_, run)| run.bytes_per_second())
    };
    let mut rows: Vec<Row> = measured.iter().map(|(job, run)| row(*job, run)).collect();
    rows.extend(CardDirection::ALL.map(|way| gain(context, document, way, of)));
    let text = vec![
        "The document's host makes one transfer at a time, and each pays for registers, interrupt \
         and waking. In a ring in host memory transfers wait for the engine, which fetches \
         descriptors in batches and reports by a status block that is polled; its two sides \
         overlap, so that the board's memory takes no time beside the link. Rates are of all \
         transfers together, from before the first is posted until the last is known."
            .to_owned(),
    ];
    Ok(Experiment {
        title: "Transfers queued in a ring, with this project's own engine",
        text,
        tables: vec![depth_table(context, document, of), size_table(document, of)],
        plots: CardDirection::ALL
            .map(|way| {
                let points = |rate: &dyn Fn(u64) -> f64| {
                    SIZES.map(|size| (size as f64, rate(size) / 1e6)).to_vec()
                };
                let series = |name: &str, points| Series {
                    name: name.to_owned(),
                    kind: SeriesKind::Ours,
                    points,
                };
                let queued = points(&|size| of((way, size, depth_of(size))));
                let alone = points(&|size| rate(document, FASTEST, way, size));
                let all = vec![
                    series("our engine, queued", queued),
                    series("the document's procedure", alone),
                ];
                rate_plot(format!("Queued and one at a time, Gen2 x4, {}", way.words()), all)
            })
            .to_vec(),
        why: Vec::new(),
        rows,
    })
}

fn row((way, size, depth): Job, run: &CardMeasured) -> Row {
    Row {
        quantity: format!("{}, our engine, queued", way.words()),
        conditions: format!("Gen2 x4; {}; {depth} in the ring", size_words(size)),
        unit: "MB/s".to_owned(),
        published: None,
        simulated: Some(run.bytes_per_second() / 1e6),
        error: None,
        kind: Kind::Context,
        tolerance: None,
        reason: "the document has no queue".to_owned(),
        label: String::new(),
    }
}

/// The document's rate at 1 KiB, one transfer at a time: its own figure, where it gives one.
fn alone(context: &Context<'_>, document: &[Point], way: CardDirection) -> f64 {
    let published = context.figures.rate(way, SIZES[0]).map(|rate| rate * 1e6);
    published.unwrap_or_else(|| rate(document, FASTEST, way, SIZES[0]))
}

/// How many times the document's rate at 1 KiB.
fn gain(
    context: &Context<'_>,
    document: &[Point],
    way: CardDirection,
    of: impl Fn(Job) -> f64,
) -> Row {
    let queued = of((way, SIZES[0], DEPTH));
    Row {
        quantity: format!("{}, our engine queued over the document", way.words()),
        conditions: format!("Gen2 x4; 1 KiB; {DEPTH} in the ring"),
        unit: "times".to_owned(),
        published: None,
        simulated: Some(queued / alone(context, document, way)),
        error: None,
        kind: Kind::Context,
        tolerance: None,
        reason: "the document has no queue".to_owned(),
        label: String::new(),
    }
}

fn depth_table(context: &Context<'_>, document: &[Point], of: impl Fn(Job) -> f64) -> Table {
    let mut table = Table::new(&[
        ("1 KiB, in the ring", Align::Right),
        ("to card MB/s", Align::Right),
        ("times the document's", Align::Right),
        ("from card MB/s", Align::Right),
        ("times the document's", Align::Right),
    ]);
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
    let mut table = Table::new(&[
        ("size", Align::Left),
        ("in the ring", Align::Right),
        ("to card MB/s", Align::Right),
        ("times one at a time", Align::Right),
        ("from card MB/s", Align::Right),
        ("times one at a time", Align::Right),
    ]);
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
