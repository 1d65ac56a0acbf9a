// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's measurement: four links, seven sizes, both directions.

use crosslane_experiment::CardDirection;
use crosslane_experiment::parallel;
use crosslane_lab::Lab;
use crosslane_report::{Plot, Table};

use super::{FASTEST, LINKS, Link, SIZES, by_registers, figure, rate_plot};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{ours, published};

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 = (LINKS.len() * SIZES.len() * CardDirection::ALL.len()) as u64;

/// A point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub link: Link,
    pub direction: CardDirection,
    pub size_bytes: u64,
    pub bytes_per_second: f64,
}

/// Sweeps links, sizes and directions of a lab, the longest scenarios first so that no core is idle
/// at the end; returns the points in order.
pub(super) fn sweep(
    context: &Context<'_>,
    lab: &Lab,
    links: &[Link],
    sizes: &[u64],
) -> Result<Vec<Point>> {
    let mut jobs = Vec::new();
    for direction in CardDirection::ALL {
        for link in links {
            jobs.extend(sizes.iter().map(|size| (direction, *link, *size)));
        }
    }
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(jobs[*at].2));
    let mut points: Vec<(usize, Point)> = parallel::try_map(&order, |at| -> Result<_> {
        let (direction, link, size_bytes) = jobs[*at];
        let bytes_per_second = by_registers(context, lab, link, direction, size_bytes)?;
        Ok((*at, Point { link, direction, size_bytes, bytes_per_second }))
    })?;
    points.sort_by_key(|(at, _)| *at);
    Ok(points.into_iter().map(|(_, point)| point).collect())
}

/// Runs the paper's sweep.
pub(super) fn measure(context: &Context<'_>) -> Result<Vec<Point>> {
    sweep(context, context.lab(), &LINKS, &SIZES)
}

/// Returns a rate of a sweep, bytes per second.
pub(super) fn rate(points: &[Point], link: Link, direction: CardDirection, size_bytes: u64) -> f64 {
    let is_it = |point: &&Point| {
        point.link == link && point.direction == direction && point.size_bytes == size_bytes
    };
    points.iter().find(is_it).expect("the sweep has this point").bytes_per_second
}

/// Returns rates in MB/s, with a row for each size and a column for each link.
pub(super) fn table(points: &[Point], links: &[Link], direction: CardDirection) -> Table {
    let headings = links.iter().map(|link| link.words());
    let mut table = Table::headed(direction.words()).with_numbers(headings);
    for size in SIZES {
        let rates =
            links.iter().map(|link| format!("{:.1}", rate(points, *link, direction, size) / 1e6));
        table.row(std::iter::once(size_words(size)).chain(rates));
    }
    table
}

/// Returns a row for each point, with the paper's figure if it gives one.
pub(super) fn rows(context: &Context<'_>, points: &[Point]) -> Vec<Row> {
    let row = |point: &Point| {
        let Point { link, direction, size_bytes, bytes_per_second } = *point;
        let published = if link == FASTEST { figure(context, direction, size_bytes) } else { None };
        let published = published.map(|figure| figure.compare(bytes_per_second / 1e6));
        published.unwrap_or_else(|| {
            let conditions = format!("{}; {}", link.words(), size_words(size_bytes));
            Row::simulated(direction.words(), conditions, "MB/s", bytes_per_second / 1e6)
        })
    };
    points.iter().map(row).collect()
}

fn plot(context: &Context<'_>, points: &[Point], direction: CardDirection) -> Plot {
    let lines = LINKS.map(|link| {
        let rate = |size| (size as f64, rate(points, link, direction, size) / 1e6);
        ours(link.words(), SIZES.map(rate))
    });
    let of_paper = SIZES
        .into_iter()
        .filter_map(|size| Some((size as f64, figure(context, direction, size)?.value)));
    let of_paper = published(FASTEST.words(), of_paper);
    let title = format!("Rate by size, {}", direction.words());
    rate_plot(&title, lines.into_iter().chain([of_paper]).collect())
}

/// Returns the experiment.
pub(super) fn run(context: &Context<'_>, points: &[Point]) -> Experiment {
    let text = paragraphs([
        "The host sets the parameters of a transfer by registers, starts it, and sleeps until the \
         interrupt; the clock runs from the start until the program runs again. Memory is kept \
         from the kernel, in one piece: nothing is pinned. Every byte is compared outside of that.",
        "MB/s is 10^6 bytes a second, as in the paper; its sizes are taken as binary.",
    ]);
    Experiment {
        title: "Four links, seven sizes, both directions (result 1)",
        text,
        tables: CardDirection::ALL.map(|way| table(points, &LINKS, way)).to_vec(),
        plots: CardDirection::ALL.map(|way| plot(context, points, way)).to_vec(),
        rows: rows(context, points),
        ..Experiment::default()
    }
}
