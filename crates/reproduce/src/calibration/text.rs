// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A calibration as text for a terminal.

use std::fmt::Write as _;

use crosslane_report::number::plain;
use crosslane_report::text::{Columns, paragraph};
use crosslane_report::{Cell, Table};
use crosslane_results::quantity::{change, count_words, percent};
use crosslane_results::{CalibratedRow, Calibration};

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
    let mut table = Table::headed("constant | was: | fitted: | from: | to: | unit");
    for one in constants {
        let numbers = [one.before, one.value, one.low, one.high].map(plain);
        let cells = [one.constant.clone()].into_iter().chain(numbers);
        table.row(cells.chain([one.unit.clone()]));
    }
    text.push_str(&table.to_text(columns.tables));
    for one in constants.iter().filter(|one| one.is_at_bound) {
        let end = plain(one.value);
        let sentence = format!(
            "{} is at the end of its range, {end}: the rows may ask for more than that.",
            one.constant
        );
        text.push_str(&paragraph(&sentence, columns));
    }
    let (fitted, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.low.is_none());
    text.push_str("\nFitted rows\n");
    text.push_str(&table_of(&fitted, false).to_text(columns.tables));
    if others.is_empty() {
        let sentence = "No row is left as a prediction, so nothing here is evidence: name the \
                        fitted ones with --rows, or in a column use.";
        text.push('\n');
        text.push_str(&paragraph(sentence, columns));
        return text;
    }
    text.push_str("\nPredicted rows\n");
    text.push_str(&table_of(&others, true).to_text(columns.tables));
    let inside = others.iter().filter(|row| row.is_inside() == Some(true)).count();
    let (count, share) = (others.len(), 100.0 * calibration.confidence);
    let of = format!("inside their intervals, for {share:.0} % of measurements");
    let _ = writeln!(text, "{of}: {inside} of {count}");
    text
}

fn table_of(rows: &[&CalibratedRow], has_intervals: bool) -> Table {
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
