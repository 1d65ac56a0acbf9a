// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's fit: y = x/(k a) + b, for each size over its four links, with the code of `crosslane
//! fit`.

use crosslane_experiment::CardDirection;
use crosslane_experiment::fit::{FitError, Measurements, fits};
use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind, Table};
use crosslane_results::Fit;

use super::sweep::{self, Point, rate};
use super::{FASTEST, LINKS, SIZES, figure};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::{ReproduceError, Result};
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{names, ours};

/// Sizes whose fits the paper plots.
const DRAWN: [u64; 2] = [SIZES[0], SIZES[6]];

/// Returns a sweep as a file of measurements.
fn as_file(points: &[Point]) -> String {
    let mut text = "direction,generation,width,bytes,mb_per_s\n".to_owned();
    for point in points {
        let (way, generation) = (point.direction.words(), point.link.generation.number());
        let (lanes, size, rate) = (point.link.lanes, point.size_bytes, point.bytes_per_second);
        text += &format!("{way},{generation},{lanes},{size},{}\n", rate / 1e6);
    }
    text
}

/// Fits each size, in the order of the points.
fn fits_of(points: &[Point]) -> Result<Vec<Fit>> {
    let failed = |error: FitError| ReproduceError::experiment("fit", error);
    let measurements = Measurements::parse("sweep", &as_file(points));
    let all = measurements.and_then(|measurements| fits(&measurements)).map_err(failed)?;
    Ok(all.into_iter().filter(|fit| fit.size_bytes.is_some()).collect())
}

/// Returns the fit of one size and direction.
fn find(fits: &[Fit], direction: CardDirection, size_bytes: u64) -> Option<&Fit> {
    fits.iter().find(|fit| fit.series == direction.words() && fit.size_bytes == Some(size_bytes))
}

/// Compares the paper's ratio with that of transfers of one size.
fn compare_ratio(context: &Context<'_>, fits: &[Fit], size_bytes: u64) -> Result<Row> {
    let found = find(fits, CardDirection::ToCard, size_bytes).and_then(|fit| fit.of_theory);
    let ratio =
        found.ok_or_else(|| ReproduceError::experiment("fit", "the fitted link has no rate"))?;
    Ok(context.figures.case("fitted_link_rate_over_theory", None).compare(ratio))
}

/// Returns the time of a byte beside the link, nanoseconds.
fn beside_ns(fit: &Fit, size_bytes: u64) -> f64 {
    fit.fixed_ns / size_bytes as f64
}

/// Returns the compared rows of transfers of at most `most` bytes.
pub(super) fn compared(context: &Context<'_>, most: u64) -> Result<Vec<Row>> {
    let sizes = [SIZES[0], SIZES[6].min(most)];
    let mut rows = Vec::new();
    for (size, published) in sizes.into_iter().zip([SIZES[0], SIZES[6]]) {
        let points = sweep::sweep(context, context.lab(), &[FASTEST], &[size])?;
        for point in &points {
            let figure = figure(context, point.direction, published);
            rows.extend(figure.map(|figure| figure.compare(point.bytes_per_second / 1e6)));
        }
    }
    let points = sweep::sweep(context, context.lab(), &LINKS, &[sizes[1]])?;
    rows.push(compare_ratio(context, &fits_of(&points)?, sizes[1])?);
    Ok(rows)
}

fn table(fits: &[Fit], direction: CardDirection) -> Table {
    let mut table = Table::headed(direction.words()).with_numbers([
        "a MB/s", "of theory", "link ns/B at Gen2 x4", "beside it ns/B", "beside it us",
        "half rate at, bytes", "worst residual %",
    ]);
    for size in SIZES {
        let Some(fit) = find(fits, direction, size) else { continue };
        let figure = |value: Option<f64>, scale: f64, digits: usize| {
            value.map_or(String::new(), |value| format!("{:.digits$}", value / scale))
        };
        table.row([
            size_words(size),
            figure(fit.bytes_per_second, 1e6, 1),
            figure(fit.of_theory, 1.0, 3),
            format!("{:.3}", fit.link_ns_per_byte / FASTEST.k()),
            format!("{:.3}", beside_ns(fit, size)),
            format!("{:.2}", fit.fixed_ns / 1e3),
            figure(fit.half_rate_bytes, 1.0, 0),
            format!("{:+.1}", 100.0 * fit.worst_residual),
        ]);
    }
    table
}

/// Plots the paper's graph: for each link the time of a byte over it and beside it, stacked, and
/// the measured time as a line.
fn plot(points: &[Point], fit: &Fit, direction: CardDirection, size_bytes: u64) -> Plot {
    let at = |values: [f64; 4]| (0..4).map(f64::from).zip(values).collect::<Vec<_>>();
    let link_ns = LINKS.map(|link| fit.link_ns_per_byte / link.k());
    let beside = beside_ns(fit, size_bytes);
    let measured = LINKS.map(|link| 1e9 / rate(points, link, direction, size_bytes));
    let bar = |name: &str, values| Series::new(name, SeriesKind::Stacked, at(values));
    let links = LINKS.map(super::Link::words);
    Plot {
        title: format!("Time of a byte, {}, {}", size_words(size_bytes), direction.words()),
        x: names("link", links.iter().map(String::as_str)),
        y: Axis::new("time", "ns/B", Scale::Linear),
        series: vec![
            bar("the link, fitted", link_ns),
            bar("beside it, fitted", [beside; 4]),
            ours("measured", at(measured)),
        ],
    }
}

pub(super) fn run(context: &Context<'_>, points: &[Point]) -> Result<Experiment> {
    let fits = fits_of(points)?;
    let mut rows = vec![compare_ratio(context, &fits, SIZES[6])?];
    let mut plots = Vec::new();
    for direction in CardDirection::ALL {
        for size in DRAWN {
            let fit = find(&fits, direction, size);
            plots.extend(fit.map(|fit| plot(points, fit, direction, size)));
        }
        let of_largest = find(&fits, direction, SIZES[6]);
        rows.extend(of_largest.map(|fit| {
            let conditions = format!("4 MiB; {}", direction.words());
            Row::simulated("time beside the link", conditions, "ns/B", beside_ns(fit, SIZES[6]))
        }));
    }
    let text = paragraphs([
        "a is the rate of a Gen1 x1 link as fitted, k is 1, 2, 4 and 8; theory is 250 MB/s. What \
         is beside the link comes out of widths and clocks: 32 B each 10 ns into or out of the \
         board's memory, what the memory takes to answer, and (host to card) the round trip to the \
         host's memory for each burst of 4 KiB.",
        "The paper concludes that the time over the link scales and the rest is constant. So it \
         does here, host to card. Card to host the model differs a little: writes are posted, and \
         the last packets of a burst leave while the next one is read, which hides the more of the \
         link the slower it is; the fit takes that for a faster link. The paper gives its ratio \
         for host to card only. At 1 KiB what is beside the link is many times as long as it, and \
         a is less certain.",
    ]);
    Ok(Experiment {
        title: "Fit of y = x/(k a) + b for each size (result 1 KiB and 4 MiB)",
        text,
        tables: CardDirection::ALL.map(|direction| table(&fits, direction)).to_vec(),
        plots,
        rows,
        ..Experiment::default()
    })
}
