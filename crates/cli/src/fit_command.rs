// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane fit`: link time and fixed time of anybody's measurements.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use crosslane::experiment::fit::{
    BAD_RESIDUAL, Fit, MAX_FIT_BYTES, Measurements, Over, Residual, Sample, fits,
};
use crosslane::results::quantity::size_words;
use crosslane::results::{Fits, SCHEMA};
use crosslane_report::{
    Align, Axis, Block, Cell, Column, Page, Plot, Scale, Section, Series, SeriesKind, Table,
};

use crate::error::{CommandError, NOT_TEXT};
use crate::output::{print, print_json};
use crate::report_file::{command_line, report_of, write_page};
use crate::terminal::shown as to_text;

/// Most fits over links that a page draws.
const DRAWN: usize = 8;

/// Arguments of `fit`.
#[derive(Args, Debug)]
#[command(after_help = "\
The file is comma-separated values: a heading, then one measured transfer a line.
  bytes                  the size of the transfer (or size_bytes)
  seconds, ms, us or ns  what it took, or instead its rate:
  mb_per_s (10^6), mib_per_s (2^20), gb_per_s (10^9) or bytes_per_second
  generation and width   of the link, or instead k, its rate as a multiple of one that is called a;
                         left out: k is 1
Every other column tells series apart, each of which is fitted for itself.

y = x/(k a) + b: x bytes over a link of k times the rate a take y, of which b has nothing to do
with the link. For each size that was measured over several links the line of least squares goes
over these; for a series with several sizes another one goes over all of it, each residual taken
as a part of its time. A transfer of `half rate` bytes takes as long beside the fastest link as
over it. With generation and width, k is 1 for Gen1 x1, whose theory is 250 MB/s.

Examples:
  crosslane fit measured.csv
  crosslane bench sweep --lab kc705 --link 1x1,2x1,1x4,2x4 --size 1K,1M --csv sweep.csv
  crosslane fit sweep.csv --report fit")]
pub struct FitArguments {
    /// The measurements.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
}

/// Fits the measurements of a file.
///
/// # Errors
/// A file that cannot be read, a problem at one of its lines, an output that cannot be written.
pub fn run(arguments: &FitArguments) -> Result<(), CommandError> {
    let file = report_of(arguments.report.as_ref())?;
    let text = read(&arguments.file)?;
    let measurements = Measurements::parse(&arguments.file.display().to_string(), &text)?;
    let fits = fits(&measurements)?;
    if arguments.json {
        print_json(&Fits {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fits: fits.iter().map(Fit::result).collect(),
        })?;
    } else {
        let residuals = fits.iter().flat_map(residual_rows);
        let mut page = to_text(&printed(&HEADINGS, fits.iter().map(row)));
        page.push_str(&format!("\n{}", to_text(&printed(&RESIDUALS, residuals))));
        fits.iter().filter(|fit| fit.is_bad()).for_each(|fit| {
            let _ = write!(page, "\n{}\n", bad_words(fit));
        });
        print(&page)?;
    }
    match file {
        Some(file) => write_page(&report(&fits), &file),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<String, CommandError> {
    let failed = |problem: String| CommandError::Input(format!("{}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let most = MAX_FIT_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| failed(NOT_TEXT.to_owned()))
}

fn over_words(fit: &Fit) -> String {
    match fit.over {
        Over::Links { bytes } => format!("links, {}", size_words(bytes)),
        Over::All => "sizes".to_owned(),
    }
}

/// That a fit is bad, and by how much.
fn bad_words(fit: &Fit) -> String {
    format!(
        "bad fit, {}: one time is {:.1} % off the line; what the line says of rate and fixed time \
         does not hold",
        named(fit, &over_words(fit)),
        100.0 * fit.worst().abs()
    )
}

const HEADINGS: [(&str, Align); 9] = [
    ("series", Align::Left),
    ("over", Align::Left),
    ("points", Align::Right),
    ("a MB/s", Align::Right),
    ("of theory", Align::Right),
    ("link ns/B at k = 1", Align::Right),
    ("fixed us", Align::Right),
    ("half rate at, bytes", Align::Right),
    ("worst residual %", Align::Right),
];

/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 3] = ["points", "of theory", "over"];

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn row(fit: &Fit) -> Vec<String> {
    vec![
        fit.series.clone(),
        over_words(fit),
        fit.residuals.len().to_string(),
        figure(fit.bytes_per_second().map(|rate| rate / 1e6), 1),
        figure(fit.of_theory(), 3),
        format!("{:.4}", fit.link_s_per_byte * 1e9),
        format!("{:.3}", fit.fixed_s * 1e6),
        figure(fit.half_rate_bytes(fit.fastest_k()), 0),
        format!("{:+.1}", 100.0 * fit.worst()),
    ]
}

const RESIDUALS: [(&str, Align); 8] = [
    ("series", Align::Left),
    ("over", Align::Left),
    ("bytes", Align::Right),
    ("link", Align::Left),
    ("k", Align::Right),
    ("measured us", Align::Right),
    ("fitted us", Align::Right),
    ("residual %", Align::Right),
];

fn residual_rows(fit: &Fit) -> impl Iterator<Item = Vec<String>> {
    let row = |residual: &Residual| {
        vec![
            fit.series.clone(),
            over_words(fit),
            residual.sample.bytes.to_string(),
            residual.sample.link.map_or("-".to_owned(), |link| link.to_string()),
            format!("{:.4}", residual.sample.k),
            format!("{:.3}", residual.sample.seconds * 1e6),
            format!("{:.3}", residual.fitted_s * 1e6),
            format!("{:+.2}", 100.0 * residual.fraction()),
        ]
    };
    fit.residuals.iter().map(row)
}

fn printed(headings: &[(&str, Align)], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let column = |&(heading, align): &(&str, Align)| Column { heading: heading.to_owned(), align };
    let columns = headings.iter().map(column).collect();
    let mut table = Table { columns, ..Table::default() }.least_first(&SPARE);
    rows.for_each(|row| table.row(row));
    table
}

/// A table; of rows that are bad the last cell is marked.
fn shown(
    title: &str,
    headings: &[(&str, Align)],
    rows: impl Iterator<Item = (Vec<String>, bool)>,
) -> Block {
    let column = |&(heading, align): &(&str, Align)| Column { heading: heading.to_owned(), align };
    let last = headings.len() - 1;
    let cells = |(row, is_bad): (Vec<String>, bool)| {
        let cells = row.into_iter().enumerate();
        cells.map(move |(at, text)| Cell { text, is_bad: is_bad && at == last })
    };
    Block::Table(Table {
        title: title.to_owned(),
        columns: headings.iter().map(column).collect(),
        rows: rows.map(|row| cells(row).collect()).collect(),
        ..Table::default()
    })
}

fn named(fit: &Fit, what: &str) -> String {
    if fit.series.is_empty() { what.to_owned() } else { format!("{what}, {}", fit.series) }
}

/// Of each link the time over it and beside it, one upon the other, with what was measured.
fn bars(fit: &Fit, bytes: u64) -> Plot {
    let names = fit.residuals.iter().map(|residual| residual.sample.link_words()).collect();
    let series = |name: &str, kind, value: &dyn Fn(&Residual) -> f64| Series {
        name: name.to_owned(),
        kind,
        points: (0..).map(f64::from).zip(fit.residuals.iter().map(value)).collect(),
    };
    let link_us = |one: &Residual| fit.link_s_per_byte * bytes as f64 / one.sample.k * 1e6;
    Plot {
        title: named(fit, &format!("Time of {}", size_words(bytes))),
        x: Axis::new("link", "", Scale::Categories(names)),
        y: Axis::new("time", "us", Scale::Linear),
        series: vec![
            series("the link, fitted", SeriesKind::Stacked, &link_us),
            series("beside it, fitted", SeriesKind::Stacked, &|_| fit.fixed_s * 1e6),
            series("measured", SeriesKind::Ours, &|one| one.sample.seconds * 1e6),
        ],
    }
}

/// Rates by size, measured and fitted.
fn rates(fit: &Fit) -> Plot {
    let mut series = Vec::new();
    let mut links: Vec<&Sample> = Vec::new();
    for one in &fit.residuals {
        if !links.iter().any(|link| link.link_words() == one.sample.link_words()) {
            links.push(&one.sample);
        }
    }
    links.sort_by(|a, b| a.k.total_cmp(&b.k));
    for link in links {
        let name = link.link_words();
        let of_link: Vec<&Residual> =
            fit.residuals.iter().filter(|one| one.sample.link_words() == name).collect();
        let points = |seconds: &dyn Fn(&Residual) -> f64| {
            let rate = |one: &&Residual| {
                (one.sample.bytes as f64, one.sample.bytes as f64 / seconds(one) / 1e6)
            };
            of_link.iter().map(rate).collect::<Vec<_>>()
        };
        let (fitted, measured) = (points(&|one| one.fitted_s), points(&|one| one.sample.seconds));
        series.push(Series { name: name.clone(), kind: SeriesKind::Ours, points: fitted });
        series.push(Series { name, kind: SeriesKind::Measured, points: measured });
    }
    Plot {
        title: named(fit, "Rate by size: fitted lines, measured rings"),
        x: Axis::new("bytes of a transfer", "B", Scale::Logarithmic),
        y: Axis::new("rate", "MB/s", Scale::Linear),
        series,
    }
}

/// A sentence with its first letter as a capital.
fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

fn report(fits: &[Fit]) -> Page {
    let drawn = fits.iter().filter(|fit| matches!(fit.over, Over::Links { .. })).take(DRAWN);
    let drawn: Vec<&Fit> = drawn.collect();
    let plots = fits.iter().filter_map(|fit| match fit.over {
        Over::Links { bytes } => {
            drawn.iter().any(|one| std::ptr::eq(*one, fit)).then(|| bars(fit, bytes))
        }
        Over::All => Some(rates(fit)),
    });
    let mut blocks: Vec<Block> = Vec::new();
    let bad = fits.iter().filter(|fit| fit.is_bad());
    blocks.extend(bad.map(|fit| Block::Text(format!("{}.", capital(&bad_words(fit))))));
    blocks.push(shown("", &HEADINGS, fits.iter().map(|fit| (row(fit), fit.is_bad()))));
    blocks.extend(plots.map(Block::Plot));
    let residuals = fits.iter().flat_map(|fit| {
        let is_bad = fit.residuals.iter().map(|one| one.fraction().abs() > BAD_RESIDUAL);
        residual_rows(fit).zip(is_bad)
    });
    blocks.push(shown("Residuals", &RESIDUALS, residuals));
    Page {
        title: "Fit of y = x/(k a) + b".to_owned(),
        summary: "What measured transfers take over their links, and beside them.".to_owned(),
        facts: vec![
            ("command".to_owned(), command_line()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ],
        sections: vec![Section { title: "Fits".to_owned(), blocks }],
    }
}
