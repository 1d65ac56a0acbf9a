// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fits of link time and fixed time, as text and as a page.

use std::fmt::Write as _;

use crosslane_results::quantity::{change, signed, size_words};
use crosslane_results::{BAD_RESIDUAL, Fit, FitResidual, Fits};

use super::run_page::capital;
use crate::page::{Block, Page, Section};
use crate::plot::{Axis, Plot, Scale, Series, SeriesKind};
use crate::table::{Field, Table, or_none};
use crate::text::Columns;

/// Most fits over links that a page draws.
const DRAWN: usize = 8;
/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 3] = ["points", "of theory", "over"];

const FIT: [Field<Fit>; 9] = [
    ("series", |fit| fit.series.clone()),
    ("over", over_words),
    ("points:", |fit| fit.residuals.len().to_string()),
    ("a MB/s:", |fit| or_none(fit.bytes_per_second, |rate| format!("{:.1}", rate / 1e6))),
    ("of theory:", |fit| or_none(fit.of_theory, |share| format!("{share:.3}"))),
    ("link ns/B at k = 1:", |fit| format!("{:.4}", fit.link_ns_per_byte)),
    ("fixed us:", |fit| format!("{:.3}", fit.fixed_ns / 1e3)),
    ("half rate at, bytes:", |fit| or_none(fit.half_rate_bytes, |bytes| format!("{bytes:.0}"))),
    ("worst residual %:", |fit| change(fit.worst_residual)),
];

/// A measurement and the fit that it belongs to.
type Row<'a> = (&'a Fit, &'a FitResidual);

fn residual_fields<'a>() -> [Field<Row<'a>>; 8] {
    [
        ("series", |(fit, _)| fit.series.clone()),
        ("over", |(fit, _)| over_words(fit)),
        ("bytes:", |(_, one)| one.bytes.to_string()),
        ("link", |(_, one)| or_none(one.link.clone(), |link| link)),
        ("k:", |(_, one)| format!("{:.4}", one.k)),
        ("measured us:", |(_, one)| format!("{:.3}", one.measured_ns / 1e3)),
        ("fitted us:", |(_, one)| format!("{:.3}", one.fitted_ns / 1e3)),
        ("residual %:", |(_, one)| signed(100.0 * one.residual, 2)),
    ]
}

fn rows(fits: &Fits) -> Vec<Row<'_>> {
    fits.fits.iter().flat_map(|fit| fit.residuals.iter().map(move |one| (fit, one))).collect()
}

fn over_words(fit: &Fit) -> String {
    match fit.size_bytes {
        Some(bytes) => format!("links, {}", size_words(bytes)),
        None => "sizes".to_owned(),
    }
}

fn named(fit: &Fit, what: &str) -> String {
    if fit.series.is_empty() { what.to_owned() } else { format!("{what}, {}", fit.series) }
}

/// Warns of each bad fit.
fn bad_words(fits: &Fits) -> impl Iterator<Item = String> {
    fits.fits.iter().filter(|fit| fit.is_bad).map(|fit| {
        format!(
            "bad fit, {}: one time is {:.1} % off the line; what the line says of rate and fixed \
             time does not hold",
            named(fit, &over_words(fit)),
            100.0 * fit.worst_residual.abs()
        )
    })
}

/// Formats fits as text.
pub fn fits_text(fits: &Fits, columns: Columns) -> String {
    let mut text = Table::of(&FIT, &fits.fits).least_first(&SPARE).to_text(columns.tables);
    let residuals = Table::of(&residual_fields(), &rows(fits)).least_first(&SPARE);
    let _ = write!(text, "\n{}", residuals.to_text(columns.tables));
    bad_words(fits).for_each(|words| text.push_str(&format!("\n{words}\n")));
    text
}

/// Returns the page of fits. `command` is the command line that makes it.
pub fn fits_page(fits: &Fits, command: &str) -> Page {
    let mut blocks: Vec<Block> =
        bad_words(fits).map(|words| Block::Text(format!("{}.", capital(&words)))).collect();
    let is_bad = fits.fits.iter().map(|fit| fit.is_bad);
    blocks.push(marked(Table::of(&FIT, &fits.fits), is_bad));
    let mut drawn = 0;
    for fit in &fits.fits {
        match fit.size_bytes {
            Some(bytes) if drawn < DRAWN => {
                drawn += 1;
                blocks.push(Block::Plot(bars(fit, bytes)));
            }
            Some(_) => {}
            None => blocks.push(Block::Plot(rates(fit))),
        }
    }
    let rows = rows(fits);
    let is_bad = rows.iter().map(|(_, one)| one.residual.abs() > BAD_RESIDUAL);
    let residuals = Table::of(&residual_fields(), &rows).titled("Residuals");
    blocks.push(marked(residuals, is_bad));
    let facts = [("command", command), ("version", &fits.version)];
    Page {
        title: "Fit of y = x/(k a) + b".to_owned(),
        summary: "What measured transfers take over their links, and beside them.".to_owned(),
        facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        sections: vec![Section { title: "Fits".to_owned(), blocks }],
    }
}

/// Marks the last cell of rows that are bad.
fn marked(mut table: Table, is_bad: impl Iterator<Item = bool>) -> Block {
    let cells = table.rows.iter_mut().filter_map(|row| row.last_mut());
    cells.zip(is_bad).for_each(|(cell, is_bad)| cell.is_bad = is_bad);
    Block::Table(table)
}

fn link_words(one: &FitResidual) -> String {
    one.link.clone().unwrap_or_else(|| format!("k = {}", one.k))
}

/// Plots the time over each link and the time beside it, one upon the other, with the measured one.
fn bars(fit: &Fit, bytes: u64) -> Plot {
    let series = |name: &str, kind, value: &dyn Fn(&FitResidual) -> f64| Series {
        name: name.to_owned(),
        kind,
        points: (0..).map(f64::from).zip(fit.residuals.iter().map(value)).collect(),
    };
    let link_us = |one: &FitResidual| fit.link_ns_per_byte * bytes as f64 / one.k / 1e3;
    let names = fit.residuals.iter().map(link_words).collect();
    Plot {
        title: named(fit, &format!("Time of {}", size_words(bytes))),
        x: Axis::new("link", "", Scale::Categories(names)),
        y: Axis::new("time", "us", Scale::Linear),
        series: vec![
            series("the link, fitted", SeriesKind::Stacked, &link_us),
            series("beside it, fitted", SeriesKind::Stacked, &|_| fit.fixed_ns / 1e3),
            series("measured", SeriesKind::Ours, &|one| one.measured_ns / 1e3),
        ],
    }
}

/// Plots rates by size, measured and fitted.
fn rates(fit: &Fit) -> Plot {
    let mut links: Vec<(f64, String)> = Vec::new();
    for one in &fit.residuals {
        let name = link_words(one);
        if !links.iter().any(|(_, known)| *known == name) {
            links.push((one.k, name));
        }
    }
    links.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut series = Vec::new();
    for (_, name) in links {
        let points = |ns: fn(&FitResidual) -> f64| {
            let of_link = fit.residuals.iter().filter(|one| link_words(one) == name);
            of_link.map(|one| (one.bytes as f64, one.bytes as f64 / ns(one) * 1e3)).collect()
        };
        let (fitted, measured) = (points(|one| one.fitted_ns), points(|one| one.measured_ns));
        series.push(Series::ours(name.clone(), fitted));
        series.push(Series { name, kind: SeriesKind::Measured, points: measured });
    }
    Plot {
        title: named(fit, "Rate by size: fitted lines, measured rings"),
        x: Axis::new("bytes of a transfer", "B", Scale::Logarithmic),
        y: Axis::new("rate", "MB/s", Scale::Linear),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_by_rate_or_multiple() {
        let one = |link: Option<&str>| FitResidual {
            bytes: 1,
            link: link.map(str::to_owned),
            k: 8.0,
            line: 2,
            measured_ns: 1.0,
            fitted_ns: 1.0,
            residual: 0.0,
        };
        assert_eq!(
            [one(Some("Gen2 x4")), one(None)].map(|one| link_words(&one)),
            ["Gen2 x4", "k = 8"]
        );
    }
}
