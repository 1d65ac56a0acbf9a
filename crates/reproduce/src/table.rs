// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables before they are set: the program prints them as text, documents hold them as Markdown.

use std::fmt::Write as _;

pub use crosslane_report::Align;

/// Rows of cells under one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Heading and setting of each column.
    pub columns: Vec<(&'static str, Align)>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headings.
    #[must_use]
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The same in Markdown, each line ended.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        let headings: Vec<&str> = self.columns.iter().map(|(heading, _)| *heading).collect();
        let rules = self.columns.iter().map(|(_, align)| match align {
            Align::Left => "---",
            Align::Right => "--:",
        });
        let rules: Vec<&str> = rules.collect();
        let _ = writeln!(text, "| {} |\n|{}|", headings.join(" | "), rules.join("|"));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_a_line_for_each_row() {
        let mut table = Table::new(&[("name", Align::Left), ("bytes", Align::Right)]);
        table.row(["a".into(), "1".into()]);
        assert_eq!(table.to_markdown(), "| name | bytes |\n|---|--:|\n| a | 1 |\n");
    }
}
