// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A calibration as text for a terminal.

use std::fmt::Write as _;

use crosslane_report::number::plain;
use crosslane_report::text::{Columns, paragraph};
use crosslane_report::{Cell, Table};
use crosslane_results::quantity::{change, count_words, percent};
use crosslane_results::{CalibratedConstant, CalibratedRow, Calibration};

use super::page::NO_EVIDENCE;
use crate::measured::{label_of, rows_words};

/// Formats the fitted constants, then the rows beside them.
pub fn text(calibration: &Calibration, columns: Columns) -> String {
    let Calibration { lab, file, constants, fitted_rows, rows, .. } = calibration;
    let mut text = format!(
        "{lab}: {} fitted to {} of {file}; root mean square of their errors {} %, {} trials\n\n",
        count_words(constants.len(), "constant", "constants"),
        rows_words(fitted_rows),
        percent(calibration.residual),
        calibration.trials,
    );
    text.push_str(&constant_table(calibration).to_text(columns.tables));
    for one in constants.iter().filter(|one| one.is_at_bound) {
        text.push_str(&paragraph(&at_bound_words(one), columns));
    }
    let (fitted, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.low.is_none());
    text.push_str("\nFitted rows\n");
    text.push_str(&row_table(&fitted, false).to_text(columns.tables));
    if others.is_empty() {
        text.push('\n');
        text.push_str(&paragraph(NO_EVIDENCE, columns));
        return text;
    }
    text.push_str("\nPredicted rows\n");
    text.push_str(&row_table(&others, true).to_text(columns.tables));
    let _ = writeln!(text, "{}", inside_words(calibration, &others));
    text
}

/// Makes the table of constants as they were and are.
pub(super) fn constant_table(calibration: &Calibration) -> Table {
    let mut table = Table::headed("constant | was: | fitted: | from: | to: | unit");
    for one in &calibration.constants {
        let numbers = [one.before, one.value, one.low, one.high].map(plain);
        let cells = [one.constant.clone()].into_iter().chain(numbers);
        table.row(cells.chain([one.unit.clone()]));
    }
    table
}

/// Warns of a constant at the end of its range.
pub(super) fn at_bound_words(one: &CalibratedConstant) -> String {
    let end = plain(one.value);
    format!(
        "{} is at the end of its range, {end}: the rows may ask for more than that.",
        one.constant
    )
}

/// Counts the predicted rows whose measurements are expected.
pub(super) fn inside_words(calibration: &Calibration, predicted: &[&CalibratedRow]) -> String {
    let inside = predicted.iter().filter(|row| row.is_inside() == Some(true)).count();
    let (count, share) = (predicted.len(), 100.0 * calibration.confidence);
    format!("inside their intervals, for {share:.0} % of measurements: {inside} of {count}")
}

/// Makes the table of some rows.
pub(super) fn row_table(rows: &[&CalibratedRow], has_intervals: bool) -> Table {
    let headings = "row: | flow | measured: | lab: | unit | error %:";
    let mut table = match has_intervals {
        true => Table::headed(&format!("{headings} | from: | to: | kind | inside")),
        false => Table::headed(headings),
    };
    for one in rows {
        let row = &one.row;
        let mut cells: Vec<Cell> = vec![
            row.row.to_string().into(),
            label_of(row).into(),
            plain(row.measured).into(),
            plain(row.simulated).into(),
            row.unit.clone().into(),
            change(row.error).into(),
        ];
        if let (Some(low), Some(high), Some(is_inside)) = (one.low, one.high, one.is_inside()) {
            let word = if is_inside { "yes" } else { "NO" };
            cells.extend([plain(low), plain(high), row.kind.clone()].map(Cell::from));
            cells.push(Cell { text: word.to_owned(), is_bad: !is_inside });
        }
        table.row(cells);
    }
    table
}
