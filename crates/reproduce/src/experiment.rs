// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment hands back.

use crosslane_report::Plot;

use crate::comparison::Row;
use crate::explained::{self, Explained};
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
    /// Why its runs were not faster; empty until they have been explained.
    pub why: Vec<Explained>,
    /// What was found, as rows.
    pub rows: Vec<Row>,
}

impl Experiment {
    /// One that was interrupted: nothing of it is known.
    pub(crate) const fn interrupted() -> Self {
        Self {
            title: "Interrupted before its end",
            text: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            why: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// What limits each of its runs that were explained.
    #[must_use]
    pub fn why_table(&self) -> Table {
        explained::table(&self.why)
    }
}

/// Bytes per second as MiB/s.
pub(crate) fn mebibytes(bytes_per_second: f64) -> f64 {
    bytes_per_second / f64::from(1 << 20)
}
