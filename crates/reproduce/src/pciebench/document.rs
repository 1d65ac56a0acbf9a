// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of `docs/pciebench.md`.

use std::fmt::Write as _;

use super::{Labs, Row};
use crate::comparison::{Kind, worst_and_median};
use crate::document::fits;
use crate::error::ReproduceError;
use crate::markdown::with_blocks;

/// The page.
pub(super) const PAGE: &str = "docs/pciebench.md";
/// The command that writes the page's tables.
pub(super) const COMMAND: &str = "make pciebench";

impl Labs {
    /// Returns the page of the lab, `docs/pciebench.md`, with its current tables.
    ///
    /// # Errors
    /// A page without the marks around its tables.
    pub fn document(&self, old: &str, results: &[(Row, f64)]) -> Result<String, ReproduceError> {
        let blocks = [
            ("summary", self.summary(results)),
            ("constants", fits(self.fitted()).to_markdown()),
            ("rows", table(results)),
        ];
        with_blocks(old, PAGE, COMMAND, blocks)
    }

    /// Describes the number of fitted rows, and the errors.
    fn summary(&self, results: &[(Row, f64)]) -> String {
        let compared = results.iter().filter(|(row, _)| row.figure.tolerance.is_some()).count();
        let mut text = format!(
            "{} rows, {compared} of them compared, {} constants fitted.\n",
            results.len(),
            self.fitted().len()
        );
        for (what, is_latency) in [("bandwidth", false), ("latency", true)] {
            for kind in [Kind::Fit, Kind::Predicted] {
                let errors = results
                    .iter()
                    .filter(|(row, _)| row.is_latency() == is_latency && row.figure.kind == kind)
                    .map(|(row, simulated)| row.error(*simulated));
                let (worst, _) = worst_and_median(errors.clone()).unwrap_or_default();
                let (count, worst) = (errors.count(), 100.0 * worst);
                let _ = writeln!(text, "* {what}, {kind}: {count} rows, worst error {worst:+.1} %");
            }
        }
        text
    }
}

/// Returns all rows, as Markdown.
#[must_use]
pub fn table(results: &[(Row, f64)]) -> String {
    let mut table = String::from(
        "| Test | Size, B | Published | Simulated | Unit | Error | Allowed | Kind | Why context |\n\
         |---|--:|--:|--:|---|--:|--:|---|---|\n",
    );
    for (row, simulated) in results {
        let (digits, unit) = if row.is_latency() { (0, "ns") } else { (2, "Gbit/s") };
        let allowed = row.figure.tolerance.map(|most| format!("{:.0} %", 100.0 * most));
        let _ = writeln!(
            table,
            "| {} | {} | {:.digits$} | {simulated:.digits$} | {unit} | {:+.1} % | {} | {} | {} |",
            row.test.name,
            row.test.size_bytes,
            row.figure.value,
            100.0 * row.error(*simulated),
            allowed.unwrap_or_default(),
            row.figure.kind,
            row.figure.reason,
        );
    }
    table
}
