// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published figures: files of comma-separated values beside the labs, built into the program.
//! `labs/published/README.md` explains their columns.

use std::collections::BTreeSet;

use crosslane_lab::Lab;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::comparison::{Kind, Row, relative_error};
use crate::error::{ReproduceError, Result};

macro_rules! files {
    ($($name:literal),*) => {
        [$((
            concat!("published/", $name),
            include_str!(concat!("../../../labs/published/", $name)),
        )),*]
    };
}

/// The files, by their names in lab files.
const FILES: [(&str, &str); 12] = files![
    "aws-f1-side-effects.csv",
    "aws-f1-write-combining.csv",
    "kc705.csv",
    "nget.csv",
    "pciebench-supermicro-bandwidth.csv",
    "pciebench-supermicro-iommu-bandwidth.csv",
    "pciebench-supermicro-iommu-latency.csv",
    "pciebench-supermicro-latency.csv",
    "pciebench-systems.csv",
    "pciebench-windows.csv",
    "rosta.csv",
    "sbdt.csv"
];

/// Reads the rows of the file that a lab file names, such as `published/rosta.csv`.
///
/// # Errors
/// A file that is not built in, and the first row with a problem.
pub(crate) fn read<T: DeserializeOwned>(name: &str) -> Result<Vec<T>> {
    let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
        let known = FILES.map(|(name, _)| name).join(", ");
        let what = "file of published figures";
        return Err(ReproduceError::Unknown { what, name: name.to_owned(), known });
    };
    parse(name, text)
}

/// Parses the text of such a file (RFC 4180 without line breaks in fields).
fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>> {
    let failed = |line: u64, problem: String| ReproduceError::Published {
        file: name.to_owned(),
        line,
        problem,
    };
    let wrong = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        failed(
            line,
            match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!("{len} fields; the heading has {expected_len}")
                }
                csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
                _ => error.to_string(),
            },
        )
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heading = reader.headers().map_err(wrong)?.clone();
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.map_err(wrong)?;
        if record.iter().any(|field| field.contains('\n')) {
            let line = record.position().map_or(1, csv::Position::line);
            return Err(failed(line, "a quote is open".to_owned()));
        }
        record.deserialize(Some(&heading)).map_err(wrong)
    };
    let rows: Vec<T> = reader.records().map(row).collect::<Result<_, _>>()?;
    if rows.is_empty() { Err(failed(1, "no rows follow the heading".to_owned())) } else { Ok(rows) }
}

/// A published figure, and how it is compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedFigure {
    /// The quantity.
    pub quantity: String,
    /// The conditions of its measurement.
    pub conditions: String,
    /// The value.
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
    /// The compared measurement of the lab, if one figure of the paper covers several.
    #[serde(default)]
    pub case: Option<String>,
    /// Worth of the comparison.
    pub kind: Kind,
    /// Largest allowed error, as a fraction of the value; `None` for context.
    pub tolerance: Option<f64>,
    /// Reason for this tolerance.
    pub because: String,
    /// Quantity and conditions in a few words.
    pub label: String,
    /// Reason for this kind.
    pub reason: String,
}

impl PublishedFigure {
    /// Returns the figure beside the lab's, in the same unit.
    pub fn compare(&self, simulated: impl Into<Option<f64>>) -> Row {
        let (published, simulated) = (Some(self.value), simulated.into());
        Row {
            quantity: self.quantity.clone(),
            conditions: self.conditions.clone(),
            unit: self.unit.clone(),
            published,
            simulated,
            error: relative_error(published, simulated),
            kind: self.kind,
            tolerance: self.tolerance,
            because: self.because.clone(),
            reason: self.reason.clone(),
            label: self.label.clone(),
            devices: None,
        }
    }
}

/// The figures of a paper.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublishedFigures(Vec<PublishedFigure>);

impl PublishedFigures {
    /// Reads the figures of the files that a lab names.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(lab: &Lab) -> Result<Self> {
        Self::read(lab.file().measurements.iter().map(|file| file.file.as_str()))
    }

    /// Reads the figures of some files.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read<'a>(files: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let figures: Vec<Vec<_>> = files.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Self(figures.concat()))
    }

    /// Lists all figures, in the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &PublishedFigure> {
        self.0.iter()
    }

    /// Returns the number of the paper's figures: several cases of a figure count as one.
    pub fn count(&self) -> usize {
        let keys = self.iter().map(|one| (&one.quantity, &one.conditions));
        keys.collect::<BTreeSet<_>>().len()
    }

    /// Returns the figure of a quantity under some conditions, if the paper has it.
    pub fn find(&self, quantity: &str, conditions: &str) -> Option<&PublishedFigure> {
        self.iter().find(|one| one.quantity == quantity && one.conditions == conditions)
    }

    /// Returns the figure of a quantity under some conditions.
    ///
    /// # Panics
    /// If the files, which are built in, do not contain it.
    pub fn at(&self, quantity: &str, conditions: &str) -> &PublishedFigure {
        let found = self.find(quantity, conditions);
        found.unwrap_or_else(|| panic!("no figure is published of {quantity}, {conditions}"))
    }

    /// Returns the only figure of a quantity, or that of one of its cases.
    ///
    /// # Panics
    /// As [`at`](Self::at).
    pub fn case(&self, quantity: &str, case: Option<&str>) -> &PublishedFigure {
        let found = self.iter().find(|one| one.quantity == quantity && one.case.as_deref() == case);
        found.unwrap_or_else(|| panic!("no figure is published of {quantity}, {case:?}"))
    }

    /// Returns the value of a quantity under some conditions.
    ///
    /// # Panics
    /// As [`at`](Self::at).
    pub fn value(&self, quantity: &str, conditions: &str) -> f64 {
        self.at(quantity, conditions).value
    }

    /// Returns the figure of a quantity under some conditions beside the lab's.
    ///
    /// # Panics
    /// As [`at`](Self::at).
    pub fn compare(
        &self,
        quantity: &str,
        conditions: &str,
        simulated: impl Into<Option<f64>>,
    ) -> Row {
        self.at(quantity, conditions).compare(simulated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_lab::Provenance;

    #[test]
    fn bad_row_names_file_and_line() {
        type Pair = (String, f64);
        let error = |text: &str| parse::<Pair>("x.csv", text).unwrap_err().to_string();
        assert_eq!(error("a,b\n1,2\n3\n"), "x.csv, line 3: 1 fields; the heading has 2");
        assert_eq!(error("a,b\n1,\"2\n"), "x.csv, line 2: a quote is open");
        assert_eq!(error(""), "x.csv, line 1: no rows follow the heading");
        assert_eq!(error("a,b\n1,q\n"), "x.csv, line 2: field 1: invalid float literal");
        let rows: Vec<Pair> = parse("x.csv", "a,b\n\"b, \"\"c\"\"\",1\n").unwrap();
        assert_eq!(rows, [("b, \"c\"".to_owned(), 1.0)]);
        let error = read::<Pair>("nothing.csv").unwrap_err().to_string();
        assert!(error.starts_with("there is no file of published figures nothing.csv; there are"));
    }

    /// A row is a fit if a fitted constant of the lab names its figure, by quantity or by value, or
    /// if its reason names another choice that it determined.
    #[test]
    fn fits_are_figures_that_fitted_constants_name() {
        for name in crate::study::studies() {
            let context = crate::Context::open(name, 1, &()).unwrap();
            let constants = context.labs.iter().flat_map(Lab::constants);
            let fits = constants.filter(|one| one.provenance == Provenance::Fit);
            let sources: Vec<&str> = fits.map(|one| one.source.as_str()).collect();
            let figures = &context.figures;
            for figure in figures.iter().filter(|one| one.kind == Kind::Fit) {
                let value = format!("{} {}", figure.value, figure.unit);
                let quantity = figure.quantity.split(", ").next().unwrap_or_default();
                let is_named = sources
                    .iter()
                    .any(|source| source.contains(quantity) || source.contains(&value));
                let is_chosen = figure.reason.contains("no number was fitted");
                assert!(is_named != is_chosen, "{name}: {figure:?}");
            }
            for figure in figures.iter() {
                let is_context = figure.kind == Kind::Context;
                assert!(!(is_context && figure.tolerance.is_some()), "{name}: {figure:?}");
                assert_eq!(figure.tolerance.is_some(), !figure.because.is_empty(), "{figure:?}");
            }
        }
    }
}
