// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment hands back.

use crosslane_report::Plot;

use crate::comparison::Row;
use crate::table::Table;

/// One experiment of the document, run.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// What it is, with the document's figure or table.
    pub title: &'static str,
    /// What has to be said of it, each a paragraph.
    pub text: Vec<String>,
    /// What was found, for people.
    pub tables: Vec<Table>,
    /// The same drawn, with the document's points.
    pub plots: Vec<Plot>,
    /// What was found, as rows.
    pub rows: Vec<Row>,
}

/// Bytes per second as MiB/s.
pub(super) fn mebibytes(bytes_per_second: f64) -> f64 {
    bytes_per_second / f64::from(1 << 20)
}
