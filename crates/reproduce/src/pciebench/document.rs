// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of `docs/pciebench.md`.

use std::fmt::Write as _;

use super::{Labs, Row};
use crate::comparison::Kind;
use crate::error::ReproduceError;
use crate::markdown::with_block;

/// The command that writes the document's tables.
pub(super) const COMMAND: &str = "make pciebench";

impl Labs {
    /// The document about the lab, `docs/pciebench.md`, with its tables as they are now.
    ///
    /// # Errors
    /// A document without the marks that the tables stand between.
    pub fn document(&self, old: &str, results: &[(Row, f64)]) -> Result<String, ReproduceError> {
        let blocks = [
            ("summary", self.summary(results)),
            ("constants", self.table_of_fits()),
            ("rows", table(results)),
        ];
        let mut document = old.to_owned();
        for (name, text) in blocks {
            document = with_block(&document, name, COMMAND, &text).ok_or_else(|| {
                ReproduceError::experiment("docs/pciebench.md", format!("no block {name}"))
            })?;
        }
        Ok(document)
    }

    /// How much was fitted, and how good it is.
    fn summary(&self, results: &[(Row, f64)]) -> String {
        let compared = results.iter().filter(|(row, _)| row.tolerance().is_some()).count();
        let mut text = format!(
            "{} rows, {compared} of them compared, {} constants fitted.\n",
            results.len(),
            self.fitted().len()
        );
        for (what, is_latency) in [("bandwidth", false), ("latency", true)] {
            for kind in [Kind::Fit, Kind::Predicted] {
                let errors = results
                    .iter()
                    .filter(|(row, _)| row.is_latency() == is_latency && row.kind == kind)
                    .map(|(row, simulated)| row.error(*simulated));
                let (mut worst, mut count) = (0.0_f64, 0);
                for error in errors {
                    count += 1;
                    worst = if error.abs() > worst.abs() { error } else { worst };
                }
                let worst = 100.0 * worst;
                let _ = writeln!(text, "* {what}, {kind}: {count} rows, worst error {worst:+.1} %");
            }
        }
        text
    }

    /// The fitted constants, as Markdown.
    fn table_of_fits(&self) -> String {
        let mut table = String::from("| Constant | Value | Fitted to |\n|---|--:|---|\n");
        for constant in self.fitted() {
            let value = format!("{} {}", constant.value, constant.unit);
            let (path, source) = (constant.path(), &constant.source);
            let _ = writeln!(table, "| `{path}` | {} | {source} |", value.trim_end());
        }
        table
    }
}

/// All rows, as Markdown.
#[must_use]
pub fn table(results: &[(Row, f64)]) -> String {
    let mut table = String::from(
        "| Test | Size, B | Published | Simulated | Unit | Error | Allowed | Kind | Why context |\n\
         |---|--:|--:|--:|---|--:|--:|---|---|\n",
    );
    for (row, simulated) in results {
        let (digits, unit) = if row.is_latency() { (0, "ns") } else { (2, "Gbit/s") };
        let allowed = row.tolerance().map(|most| format!("{:.0} %", 100.0 * most));
        let _ = writeln!(
            table,
            "| {} | {} | {:.digits$} | {simulated:.digits$} | {unit} | {:+.1} % | {} | {} | {} |",
            row.test,
            row.size_bytes,
            row.published,
            100.0 * row.error(*simulated),
            allowed.unwrap_or_default(),
            row.kind,
            row.reason(),
        );
    }
    table
}
