// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reproductions and validations as text for a terminal.

use std::fmt::Write as _;

use crosslane_lab::EngineKind;
use crosslane_report::number::plain;
use crosslane_report::text::{Columns, paragraph};
use crosslane_report::{Cell, Table};
use crosslane_results::quantity::{change, count_words, one_decimal};
use crosslane_results::{ValidatedRow, ValidatedSet};

use crate::measured::label_of;
use crate::reproduction::Reproduction;
use crate::validation::CHANGE;

impl Reproduction {
    /// Formats the experiments, and the figures beside the paper's.
    pub fn text(&self, columns: Columns) -> String {
        let mut text = String::new();
        if self.own == EngineKind::Rtl {
            text = paragraph(&self.summary(), columns) + "\n";
        }
        for (number, experiment) in (1..).zip(&self.experiments) {
            let _ = writeln!(text, "{number}. {}", experiment.title);
            for table in &experiment.tables {
                text.push_str(&table.to_text(columns.tables));
            }
            for words in &experiment.text {
                text.push_str(&paragraph(words, columns));
            }
            for explained in &experiment.why {
                text.push_str(&paragraph(&explained.sentence(), columns));
            }
            text.push('\n');
        }
        text.push_str("The paper's figures beside the lab's\n");
        let comparison = self.comparison().least_first(&["allowed %", "kind"]);
        text.push_str(&comparison.to_text(columns.tables));
        if self.own == EngineKind::Model {
            text.push_str(&paragraph(&self.summary(), columns));
        }
        text
    }
}

/// Returns a table of measured rows beside the lab.
fn measured(rows: &[ValidatedRow]) -> Table {
    let headings = "row: | flow | measured: | lab: | unit | error %: | allowed %: | kind | within \
                    | moved most by | by %:";
    let spare = ["allowed %", "by %", "moved most by", "kind"];
    let mut table = Table::headed(headings).least_first(&spare);
    for one in rows {
        let row = &one.row;
        let is_within = row.error.abs() <= row.tolerance;
        let cells = [
            row.row.to_string(),
            label_of(row),
            plain(row.measured),
            plain(row.simulated),
            row.unit.clone(),
            change(row.error),
            one_decimal(100.0 * row.tolerance),
            row.kind.clone(),
        ];
        let within = if is_within { "yes" } else { "NO" };
        let within = Cell { text: within.to_owned(), is_bad: !is_within };
        let moved =
            [one.moved_by.clone().unwrap_or_default(), one.change.map(change).unwrap_or_default()];
        let moved = moved.map(Cell::from);
        table.row(cells.map(Cell::from).into_iter().chain([within]).chain(moved));
    }
    table
}

/// Formats the errors of a set, and the constants that move it most.
pub fn validation(set: &ValidatedSet, columns: Columns) -> String {
    let percent = |fraction: f64| format!("{} %", change(fraction));
    let rows = match &set.file {
        None => format!("{} published rows", set.rows),
        Some(file) => format!("{} of {file}", count_words(set.rows, "row", "rows")),
    };
    let mut text = format!(
        "{}: {rows}, {} compared, {} of them predicted; {} of {} constants fitted\n",
        set.set, set.compared.rows, set.predicted.rows, set.fitted, set.constants,
    );
    for (what, errors) in [("compared", set.compared), ("predicted", set.predicted)] {
        let (worst, median) = (percent(errors.worst), 100.0 * errors.median);
        let _ = writeln!(text, "  {what}: worst error {worst}, median {median:.1} %");
    }
    if !set.outside.is_empty() {
        let outside = set.outside.join("; ");
        let _ = writeln!(text, "  out of tolerance: {outside}");
    }
    if !set.measured.is_empty() {
        let _ = write!(text, "\n{}\n", measured(&set.measured).to_text(columns.tables));
    }
    let note = format!(
        "  constants that move the compared rows most when raised by {:.0} % (counts by 1 at \
         least), in shorter runs; {} numbers were raised, {} are zero or cannot have other \
         values",
        100.0 * CHANGE,
        set.changed,
        set.fixed,
    );
    text.push_str(&paragraph(&note, columns));
    text.push('\n');
    if set.not_raised > 0 {
        let _ = writeln!(text, "  interrupted: {} more were not raised\n", set.not_raised);
    }
    let mut table = Table::headed("constant | value: | raised to: | rows change: | most: | row")
        .least_first(&["value", "raised to"]);
    for one in &set.influences {
        table.row([
            one.constant.clone(),
            one.value.to_string(),
            format!("{} {}", (one.changed_to * 1e3).round() / 1e3, one.unit).trim_end().to_owned(),
            format!("{:.2} %", 100.0 * one.average),
            percent(one.largest),
            one.row.clone(),
        ]);
    }
    text.push_str(&table.to_text(columns.tables));
    text
}
