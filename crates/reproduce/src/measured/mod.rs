// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One's own measurements of a machine: a plain file of comma-separated values, a row for each flow
//! and size, beside the same in a lab.
//!
//! Read first: [`Measurements`], then [`MeasuredRow`]. `docs/calibrate.md` explains the columns.

mod reader;
mod run;
mod words;

use crosslane_lab::{Constant, Provenance};
use crosslane_results::ComparedRow;
use crosslane_results::quantity::short_size;

use crate::comparison::{Kind, Row, relative_error};

pub use words::{MeasuredFlow, Mover, Quantity, Unit};

/// Longest file that is read, bytes.
pub const MAX_MEASURED_BYTES: usize = 16 << 20;
/// Largest error of a row without a tolerance of its own, as a fraction.
pub const TOLERANCE: f64 = 0.1;

/// Use of a row in a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Constants are fitted to it.
    Fit,
    /// It is predicted.
    Predict,
}

/// The rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Name of the file.
    pub file: String,
    /// The rows, in the order of the file; one at least.
    pub rows: Vec<MeasuredRow>,
}

/// One measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRow {
    /// Number of the row in the file, from 1; the heading does not count.
    pub number: usize,
    /// Name of the file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// The flow.
    pub flow: MeasuredFlow,
    /// Bytes of one operation.
    pub bytes: u64,
    /// The figure, in the unit.
    pub value: f64,
    /// Unit of the figure, which says whether it is a rate or a latency.
    pub unit: Unit,
    /// Operations in flight; by size if the file does not say it, and one for a latency.
    pub outstanding: Option<u32>,
    /// Memory that the operations go through, bytes; by size if the file does not say it.
    pub window_bytes: Option<u64>,
    /// Largest error that is allowed, as a fraction of the figure.
    pub tolerance: f64,
    /// Remarks.
    pub note: String,
    /// Use in a calibration, if the file says it.
    pub role: Option<Role>,
}

impl MeasuredRow {
    /// Returns the flow with its size and what else the file says of it: `nic0:host0:read:4K,
    /// latency, 2 in flight`.
    pub fn label(&self) -> String {
        let is_latency = self.unit.quantity == Quantity::Latency;
        label(&self.flow.to_string(), self.bytes, is_latency, self.outstanding, self.window_bytes)
    }

    /// Returns the worth of the row in a lab with these constants: a fit, or an input, if the
    /// source of one names it by file and number, or by its label; else it is predicted.
    pub fn kind<'a>(&self, constants: impl IntoIterator<Item = &'a Constant>) -> (Kind, String) {
        let named = constants.into_iter().filter(|constant| {
            constant.provenance != Provenance::Assumption && self.is_named_by(&constant.source)
        });
        let (fits, others): (Vec<_>, Vec<_>) =
            named.partition(|constant| constant.provenance == Provenance::Fit);
        let words = |of: &str, constants: &[&Constant]| {
            let paths: Vec<String> = constants.iter().map(|constant| constant.path()).collect();
            format!("{of} {}", paths.join(", "))
        };
        match (&fits[..], &others[..]) {
            ([], []) => (Kind::Predicted, "no constant comes from it".to_owned()),
            ([], others) => (Kind::Input, words("from it:", others)),
            (fits, _) => (Kind::Fit, words("fitted to it:", fits)),
        }
    }

    /// Returns whether a source names the row: `rows 1-4, 7 of measured.csv`, or the label.
    fn is_named_by(&self, source: &str) -> bool {
        const ENDS: [char; 3] = [' ', ',', ';'];
        let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let name = base(&self.file);
        // A name may have blanks in it; one in a folder may not.
        let is_file = |text: &str| {
            let rest = text.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(ENDS))
                || text.split(ENDS).next().is_some_and(|path| base(path) == name)
        };
        let mut lists = source.match_indices("row").filter_map(|(at, _)| {
            let (list, file) = source[at..].split_once(" of ")?;
            let list = list.strip_prefix("rows ").or_else(|| list.strip_prefix("row "))?;
            is_file(file).then(|| parse_numbers(list).ok())?
        });
        lists.any(|numbers| numbers.contains(&self.number))
            || source.split(['"', ';']).any(|piece| piece.trim() == self.label())
    }

    /// Returns the row beside the lab's figure, which is in the same unit.
    pub fn compare<'a>(
        &self,
        simulated: f64,
        constants: impl IntoIterator<Item = &'a Constant>,
    ) -> Row {
        let (kind, reason) = self.kind(constants);
        Row {
            quantity: self.flow.to_string(),
            conditions: self.label(),
            unit: self.unit.word.to_owned(),
            published: Some(self.value),
            simulated: Some(simulated),
            error: relative_error(Some(self.value), Some(simulated)),
            kind,
            tolerance: Some(self.tolerance),
            because: String::new(),
            reason,
            label: format!("row {} ({})", self.number, self.label()),
            devices: None,
        }
    }
}

impl MeasuredRow {
    /// Returns the row beside the lab's figure as plain data.
    pub(crate) fn result(&self, compared: &Row) -> ComparedRow {
        ComparedRow {
            row: self.number,
            line: self.line,
            flow: self.flow.to_string(),
            bytes: self.bytes,
            in_flight: self.outstanding,
            window_bytes: self.window_bytes,
            quantity: self.unit.quantity.word().to_owned(),
            unit: self.unit.word.to_owned(),
            measured: self.value,
            simulated: compared.simulated.unwrap_or_default(),
            error: compared.error.unwrap_or_default(),
            tolerance: self.tolerance,
            kind: compared.kind.to_string(),
            note: self.note.clone(),
        }
    }
}

/// Returns the label of a row of results.
pub(crate) fn label_of(row: &ComparedRow) -> String {
    let is_latency = row.quantity == Quantity::Latency.word();
    label(&row.flow, row.bytes, is_latency, row.in_flight, row.window_bytes)
}

fn label(
    flow: &str,
    bytes: u64,
    is_latency: bool,
    in_flight: Option<u32>,
    window_bytes: Option<u64>,
) -> String {
    let mut label = format!("{flow}:{}", short_size(bytes));
    if is_latency {
        label.push_str(", latency");
    }
    if let Some(count) = in_flight {
        label.push_str(&format!(", {count} in flight"));
    }
    if let Some(bytes) = window_bytes {
        label.push_str(&format!(", {} window", short_size(bytes)));
    }
    label
}

/// Most rows that a list of numbers may name.
const MAX_NUMBERS: usize = 100_000;

/// Reads a list of rows: `1-4,7`.
///
/// # Errors
/// A sentence that names the part at fault.
pub fn parse_numbers(text: &str) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(format!("\"{part}\" is not a row or a range of rows, such as 7 or 1-4"));
        };
        if last < first || last - first >= MAX_NUMBERS {
            return Err(format!("{part} is not a range of rows"));
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Formats a list of rows: `row 3`, `rows 1-4, 7`.
pub fn rows_words(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    let words: Vec<String> = ranges.iter().map(range).collect();
    format!("{} {}", if numbers.len() == 1 { "row" } else { "rows" }, words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_rows_are_read_and_written() {
        assert_eq!(parse_numbers("1-4,7, 9"), Ok(vec![1, 2, 3, 4, 7, 9]));
        assert_eq!(parse_numbers("3,1-3"), Ok(vec![1, 2, 3]));
        for bad in ["", "0", "x", "4-1", "1-", "1,,2", "1-99999999999", "-3"] {
            assert!(parse_numbers(bad).is_err(), "{bad}");
        }
        assert_eq!(rows_words(&[1, 2, 3, 4, 7, 9, 10]), "rows 1-4, 7, 9-10");
        assert_eq!(rows_words(&[3]), "row 3");
    }

    #[test]
    fn source_names_rows_by_number_or_label() {
        let text = "flow,size,value\na:b:read,64,1\na:b:read,4K,2\n";
        let rows = Measurements::parse("data/my.csv", text).unwrap().rows;
        let named = |source: &str| rows.iter().map(|row| row.is_named_by(source)).collect();
        let cases: [(&str, Vec<bool>); 7] = [
            ("row 1 of my.csv", vec![true, false]),
            ("rows 1-2, 7 of my.csv, on the bench", vec![true, true]),
            ("rows 1-2 of other.csv; rows 2 of data/my.csv", vec![false, true]),
            ("a:b:read:4K", vec![false, true]),
            ("the table; a:b:read:64; more", vec![true, false]),
            ("rows of my.csv", vec![false, false]),
            ("a:b:read:4", vec![false, false]),
        ];
        for (source, expected) in cases {
            let found: Vec<bool> = named(source);
            assert_eq!(found, expected, "{source}");
        }
        let spaced = Measurements::parse("data/my rows.csv", text).unwrap().rows;
        assert!(spaced[0].is_named_by("row 1 of my rows.csv") && !spaced[0].is_named_by("my"));
    }
}
