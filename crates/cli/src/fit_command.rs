// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane fit`: link time and fixed time of anybody's measurements.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use crosslane::experiment::fit::{MAX_FIT_BYTES, Measurements, fits};
use crosslane::results::{Fits, SCHEMA};
use crosslane_report::runs::{fits_page, fits_text};

use crate::arguments::ShownArguments;
use crate::error::Result;
use crate::files::read_text;
use crate::files::{command_line, report_of, write_page};
use crate::output::show;

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
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Fits the measurements of a file.
///
/// # Errors
/// A file that cannot be read, a problem at one of its lines, an output that cannot be written.
pub fn run(arguments: &FitArguments) -> Result<()> {
    let file = report_of(arguments.shown.report.as_deref())?;
    let text = read_text(&arguments.file, MAX_FIT_BYTES)?;
    let measurements = Measurements::parse(&arguments.file.display().to_string(), &text)?;
    let fits = Fits {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fits: fits(&measurements)?,
    };
    show(arguments.shown.json, &fits, |columns| fits_text(&fits, columns))?;
    match file {
        Some(file) => write_page(&fits_page(&fits, &command_line()), &file),
        None => Ok(()),
    }
}
