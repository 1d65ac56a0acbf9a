// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a calibration.

use crosslane_report::{Axis, Block, Page, Plot, Scale, Section, Series};
use crosslane_results::quantity::{count_words, percent};
use crosslane_results::{CalibratedRow, Calibration};

use super::text::{at_bound_words, constant_table, inside_words, row_table};
use crate::measured::rows_words;

/// Sentence on a calibration without predictions.
pub(super) const NO_EVIDENCE: &str = "No row is left as a prediction, so nothing here is evidence: \
                                      name the fitted ones with --rows, or in a column use.";

/// Most rows whose numbers have a place of their own on the axis.
const NAMED_ROWS: usize = 24;

/// Returns the page: constants as fitted, then the rows beside them. `command` is the command line
/// that makes it.
pub fn page(calibration: &Calibration, command: &str) -> Page {
    let Calibration { lab, file, version, constants, fitted_rows, rows, residual, .. } =
        calibration;
    let (fitted, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.low.is_none());
    let mut blocks = vec![
        Block::Verdict(match others.is_empty() {
            true => NO_EVIDENCE.to_owned(),
            false => format!("Predicted rows {}.", inside_words(calibration, &others)),
        }),
        Block::Table(constant_table(calibration)),
    ];
    let at_bound = constants.iter().filter(|one| one.is_at_bound);
    blocks.extend(at_bound.map(|one| Block::Text(at_bound_words(one))));
    let mut sections = vec![Section { title: "Constants".to_owned(), blocks }];
    let mut blocks = vec![Block::Plot(errors(rows))];
    blocks.push(Block::Table(row_table(&fitted, false).titled("Fitted")));
    if !others.is_empty() {
        blocks.push(Block::Table(row_table(&others, true).titled("Predicted")));
    }
    sections.push(Section { title: "Rows".to_owned(), blocks });
    let facts = [("command", command), ("lab", lab), ("measurements", file), ("version", version)];
    Page {
        title: format!("Calibration of {lab}"),
        summary: format!(
            "{} fitted to {} of {file}: the root mean square of their errors is {} %.",
            count_words(constants.len(), "constant", "constants"),
            rows_words(fitted_rows),
            percent(*residual),
        ),
        facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        sections,
    }
}

/// Plots the errors of rows, and of predicted ones the ends of their intervals.
fn errors(rows: &[CalibratedRow]) -> Plot {
    let named = rows.len() <= NAMED_ROWS;
    let place = |row: usize| if named { row as f64 - 1.0 } else { row as f64 };
    let points = |is_shown: fn(&CalibratedRow) -> bool, of: fn(&CalibratedRow) -> Option<f64>| {
        let shown = rows.iter().filter(|row| is_shown(row));
        let error = |one: &CalibratedRow| {
            let row = &one.row;
            Some((place(row.row), 100.0 * (of(one)? / row.measured - 1.0)))
        };
        shown.filter_map(error).collect::<Vec<_>>()
    };
    let simulated: fn(&CalibratedRow) -> Option<f64> = |one| Some(one.row.simulated);
    let series = [
        Series::ours("fitted", points(|one| one.low.is_none(), simulated)),
        Series::ours("predicted", points(|one| one.low.is_some(), simulated)),
        Series::ours("least expected", points(|_| true, |one| one.low)),
        Series::ours("most expected", points(|_| true, |one| one.high)),
    ];
    let scale = match named {
        true => Scale::Categories(rows.iter().map(|one| one.row.row.to_string()).collect()),
        false => Scale::Linear,
    };
    Plot {
        title: "The lab against each measurement, and the interval of predictions".to_owned(),
        x: Axis::new("row", "", scale),
        y: Axis::new("error", "%", Scale::Linear),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
    }
}
