// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of an experiment.

use crosslane_report::{Plot, Table};
pub(crate) use crosslane_results::quantity::size_words;

use crate::comparison::Row;
use crate::explained::Explained;

/// One experiment of a paper, after its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Subject of the experiment, with the paper's figure or table.
    pub title: &'static str,
    /// Remarks, each a paragraph.
    pub text: Vec<String>,
    /// The results as tables for people.
    pub tables: Vec<Table>,
    /// Figures of the experiment as plots, with the paper's points.
    pub plots: Vec<Plot>,
    /// Explanations of its runs; empty until they have been made.
    pub why: Vec<Explained>,
    /// The results as rows.
    pub rows: Vec<Row>,
}

/// Returns the paragraphs of a text.
pub(crate) fn paragraphs<const N: usize>(text: [&str; N]) -> Vec<String> {
    text.map(str::to_owned).into()
}

/// Converts bytes per second to MiB/s.
pub(crate) fn mebibytes(bytes_per_second: f64) -> f64 {
    bytes_per_second / f64::from(1 << 20)
}

/// Formats a size as papers and files of figures write it: `64 B`, `16 KB` (binary).
pub(crate) fn paper_size(bytes: u64) -> String {
    size_words(bytes).replace("iB", "B")
}
