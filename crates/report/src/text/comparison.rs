// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two outcomes side by side.

use std::fmt::Write as _;

use crosslane_results::ComparedBottleneck;

use super::Columns;
use crate::runs::Comparison;

impl Comparison {
    /// Formats the comparison as text; `names` are those of the runs. Cells to look at are marked.
    pub fn text(&self, names: [&str; 2], columns: Columns) -> String {
        let mut text = String::new();
        for (name, run) in names.into_iter().zip(&self.outcomes) {
            let (version, seed) = run.origin();
            let _ = writeln!(text, "{name}: {}, version {version}, seed {seed}", run.name());
        }
        let mut table = self.table(names);
        for cell in table.rows.iter_mut().flatten().filter(|cell| cell.is_bad) {
            cell.text.push_str(" !");
        }
        let _ = writeln!(text, "\n{}", table.to_text(columns.tables));
        let bottlenecks = &self.result.bottlenecks;
        if !bottlenecks.is_empty() {
            let _ = writeln!(text, "What limits each");
            for ComparedBottleneck { size, first, second } in bottlenecks {
                let _ = if first == second {
                    writeln!(text, "{size}: {first}, in both")
                } else {
                    writeln!(text, "{size}: {first}; {}: {second}", names[1])
                };
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }
}
