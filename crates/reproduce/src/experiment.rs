// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of an experiment.

pub(crate) use crosslane_experiment::size_words;
use crosslane_report::{Plot, Table};

use crate::comparison::Row;
use crate::explained::Explained;

/// One experiment of a paper, run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Its subject, with the paper's figure or table.
    pub title: &'static str,
    /// Remarks, each a paragraph.
    pub text: Vec<String>,
    /// The results, for people.
    pub tables: Vec<Table>,
    /// The same drawn, with the paper's points.
    pub plots: Vec<Plot>,
    /// Why its runs were not faster; empty until they have been explained.
    pub why: Vec<Explained>,
    /// The results as rows.
    pub rows: Vec<Row>,
}

/// Paragraphs of a text.
pub(crate) fn paragraphs<const N: usize>(text: [&str; N]) -> Vec<String> {
    text.map(str::to_owned).into()
}

/// Bytes per second as MiB/s.
pub(crate) fn mebibytes(bytes_per_second: f64) -> f64 {
    bytes_per_second / f64::from(1 << 20)
}

/// A size as papers write it, which is what files of figures have: `64 B`, `16 KB` (binary).
pub(crate) fn paper_size(bytes: u64) -> String {
    size_words(bytes).replace("iB", "B")
}
