// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's measurement: four links, seven sizes, both directions.

use crosslane_bench::CardDirection;
use crosslane_explain::size_words;
use crosslane_report::{Plot, Series, SeriesKind};
use rayon::prelude::*;

use super::{Context, FASTEST, LINKS, Link, SIZES, rate_plot};
use crate::comparison::{Kind, Row};
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};

/// Scenarios of this experiment.
pub(super) const SCENARIOS: u64 = (LINKS.len() * SIZES.len() * CardDirection::ALL.len()) as u64;

/// A point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub link: Link,
    pub direction: CardDirection,
    pub size_bytes: u64,
    pub bytes_per_second: f64,
}

/// Sweeps of links, sizes and directions of a lab, the longest scenarios first so that no core is
/// idle at the end; the points come in order.
pub(super) fn sweep(
    context: &Context<'_>,
    variant: Option<&str>,
    links: &[Link],
    sizes: &[u64],
) -> Result<Vec<Point>, ReproduceError> {
    let lab = context.lab(variant)?;
    let mut jobs = Vec::new();
    for direction in CardDirection::ALL {
        for link in links {
            jobs.extend(sizes.iter().map(|size| (direction, *link, *size)));
        }
    }
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(jobs[*at].2));
    let points: Result<Vec<(usize, Point)>, ReproduceError> = order
        .par_iter()
        .map(|at| {
            let (direction, link, size_bytes) = jobs[*at];
            let bytes_per_second = context.by_registers(&lab, link, direction, size_bytes)?;
            Ok((*at, Point { link, direction, size_bytes, bytes_per_second }))
        })
        .collect();
    let mut points = points?;
    points.sort_by_key(|(at, _)| *at);
    Ok(points.into_iter().map(|(_, point)| point).collect())
}

/// The document's sweep.
pub(super) fn measure(context: &Context<'_>) -> Result<Vec<Point>, ReproduceError> {
    sweep(context, None, &LINKS, &SIZES)
}

/// A rate of a sweep, bytes per second.
pub(super) fn rate(points: &[Point], link: Link, direction: CardDirection, size_bytes: u64) -> f64 {
    let is_it = |point: &&Point| {
        point.link == link && point.direction == direction && point.size_bytes == size_bytes
    };
    points.iter().find(is_it).expect("the sweep has this point").bytes_per_second
}

/// The heading of a link's column.
///
/// # Errors
/// A link that has none.
fn heading(link: Link) -> Result<&'static str, ReproduceError> {
    const NAMES: [&str; 6] = ["Gen1 x1", "Gen2 x1", "Gen1 x4", "Gen2 x4", "Gen2 x8", "Gen3 x4"];
    let words = link.words();
    NAMES.into_iter().find(|name| *name == words).ok_or_else(|| {
        let known = NAMES.join(", ");
        ReproduceError::experiment("table of rates", format!("no column for {words}; {known} have"))
    })
}

/// Rates in MB/s, a row for each size, a column for each link.
///
/// # Errors
/// A link that has no heading.
pub(super) fn table(
    points: &[Point],
    links: &[Link],
    direction: CardDirection,
) -> Result<Table, ReproduceError> {
    let mut columns = vec![(direction.words(), Align::Left)];
    for link in links {
        columns.push((heading(*link)?, Align::Right));
    }
    let mut table = Table::new(&columns);
    for size in SIZES {
        let rates =
            links.iter().map(|link| format!("{:.1}", rate(points, *link, direction, size) / 1e6));
        table.row(std::iter::once(size_words(size)).chain(rates).collect::<Vec<_>>());
    }
    Ok(table)
}

/// One row for each point: the document's figure where it gives one.
pub(super) fn rows(context: &Context<'_>, points: &[Point]) -> Vec<Row> {
    let row = |point: &Point| {
        let Point { link, direction, size_bytes, bytes_per_second } = *point;
        let of_document = (link == FASTEST)
            .then(|| context.figures.compare(direction, size_bytes, bytes_per_second))
            .flatten();
        of_document.unwrap_or_else(|| Row {
            quantity: direction.words().to_owned(),
            conditions: format!("{}; {}", link.words(), size_words(size_bytes)),
            unit: "MB/s".to_owned(),
            published: None,
            simulated: Some(bytes_per_second / 1e6),
            error: None,
            kind: Kind::Context,
            tolerance: None,
            reason: "the document has it in a plot only".to_owned(),
            label: String::new(),
        })
    };
    points.iter().map(row).collect()
}

fn plot(context: &Context<'_>, points: &[Point], direction: CardDirection) -> Plot {
    let ours = LINKS.map(|link| Series {
        name: link.words(),
        kind: SeriesKind::Ours,
        points: SIZES.map(|size| (size as f64, rate(points, link, direction, size) / 1e6)).to_vec(),
    });
    let published = SIZES
        .into_iter()
        .filter_map(|size| Some((size as f64, context.figures.rate(direction, size)?)));
    let published =
        Series { name: FASTEST.words(), kind: SeriesKind::Published, points: published.collect() };
    let title = format!("Rate by size, {}", direction.words());
    rate_plot(title, ours.into_iter().chain([published]).collect())
}

/// The experiment.
///
/// # Errors
/// As [`table`].
pub(super) fn run(context: &Context<'_>, points: &[Point]) -> Result<Experiment, ReproduceError> {
    let text = vec![
        "The host sets the parameters of a transfer by registers, starts it, and sleeps until the \
         interrupt; the clock runs from the start until the program runs again. Memory is kept \
         from the kernel, in one piece: nothing is pinned. Every byte is compared outside of that."
            .to_owned(),
        "MB/s is 10^6 bytes a second, as in the document; its sizes are taken as binary."
            .to_owned(),
    ];
    let [to, from] = CardDirection::ALL.map(|way| table(points, &LINKS, way));
    Ok(Experiment {
        title: "Four links, seven sizes, both directions (result 1)",
        text,
        tables: vec![to?, from?],
        plots: CardDirection::ALL.map(|way| plot(context, points, way)).to_vec(),
        why: Vec::new(),
        rows: rows(context, points),
    })
}

#[cfg(test)]
mod tests {
    use super::super::link;
    use super::*;
    use crosslane_pcie::link::Generation;

    #[test]
    fn a_link_without_a_heading_is_an_error() {
        let links = [link(Generation::Gen5, 2)];
        let error = table(&[], &links, CardDirection::ALL[0]).unwrap_err().to_string();
        assert!(error.contains("no column for Gen5 x2"), "{error}");
    }
}
