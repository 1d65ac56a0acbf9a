// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane calibrate`: constants of a lab, fitted to one's own measurements.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use crosslane::lab::Lab;
use crosslane_report::output::Kind;
use crosslane_reproduce::ReproduceError;
use crosslane_reproduce::calibration::{
    FitRequest, calibrate, calibrated, page, text, trials_about,
};
use crosslane_reproduce::measured::parse_numbers;

use crate::arguments::ShownArguments;
use crate::completions::{self, Known};
use crate::error::Result;
use crate::files::{command_line, constants_of, output_of, report_of, write_page};
use crate::output::{print_hint, show};
use crate::progress::Steps;
use crate::reproduce_command::measurements;

/// Numbers of rows.
#[derive(Clone, Debug)]
pub struct Rows(Vec<usize>);

fn parse_rows(text: &str) -> Result<Rows, String> {
    parse_numbers(text).map(Rows)
}

/// Arguments of `calibrate`.
#[derive(Args, Debug)]
#[command(after_help = "\
The file is one that `crosslane validate LAB --csv FILE` reads. The constants get the values with
which the lab's figures come closest to the fitted rows: the least sum of squares of their errors,
each as a part of its tolerance. There have to be more fitted rows than constants. All other rows
are predictions, each with the interval in which 95 % of such measurements are expected.

A constant is looked for in the range that the lab file gives it, or between a tenth and ten times
its value, unless LOW..HIGH is given. One that no fitted row depends on is refused, and so are
constants that these rows cannot tell apart.

Examples:
  crosslane calibrate my-lab.toml flows.csv --fit part.host.memory.read_latency_ns --rows 1-3
  crosslane calibrate my-lab.toml flows.csv --fit part.host.memory.read_latency_ns=50..500 \\
    --rows 1-3 --write fitted.toml --report fitted
  crosslane validate fitted.toml --csv flows.csv")]
pub struct CalibrateArguments {
    /// A lab file, or a shipped lab's name; `:VARIANT` behind it chooses a variant.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: String,
    /// The measurements.
    #[arg(value_name = "FILE.csv", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Fit this constant, as `crosslane lab show LAB` lists them; may be given many times.
    #[arg(long, value_name = "PATH[=LOW..HIGH]", required = true)]
    pub fit: Vec<FitRequest>,
    /// Fit to these rows, such as 1-4,7; the heading does not count [default: those with `fit` in
    /// the column `use`; without any, all that do not have `predict` there].
    #[arg(long, value_name = "ROWS", value_parser = parse_rows)]
    pub rows: Option<Rows>,
    /// Write the lab file with the fitted values to this file; they have the rows as their source.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Calibrates a lab.
///
/// # Errors
/// A lab or a file with a problem, a calibration that cannot be made or says nothing, and an output
/// that cannot be written.
pub fn run(arguments: &CalibrateArguments) -> Result<()> {
    let output = arguments.write.as_deref().map(|path| output_of(path, Kind::Lab)).transpose()?;
    let report = report_of(arguments.shown.report.as_deref())?;
    let lab = Lab::load(&arguments.lab)?;
    let measurements = measurements(&arguments.file)?;
    let rows = arguments.rows.as_ref().map(|rows| &rows.0[..]);
    let steps = Steps::new(trials_about(arguments.fit.len()) as u64, "trials");
    let named = (arguments.lab.as_str(), &lab);
    let outcome = calibrate(named, &measurements, &arguments.fit, rows, &steps);
    steps.finish();
    if matches!(outcome, Err(ReproduceError::Interrupted)) {
        steps.watch.end("")?;
    }
    let calibration = outcome?;
    show(arguments.shown.json, &calibration, |columns| text(&calibration, columns))?;
    if let Some(output) = output {
        output.write(calibrated(&lab, &calibration, &command_line())?.as_bytes())?;
        print_hint(&format!("lab: {}", output.path().display()));
    }
    let Some(report) = report else { return Ok(()) };
    let mut page = page(&calibration, &command_line());
    page.sections.push(constants_of(&lab));
    write_page(&page, &report)
}
