// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of plain ASCII: columns parted by two blanks, a heading, no lines.

use std::fmt;

use anstyle::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};
pub use crosslane_report::Align;

/// A table with one heading; as wide as it has to be.
#[derive(Clone, Debug)]
pub struct Table {
    inner: comfy_table::Table,
    columns: usize,
}

impl Table {
    /// An empty table with these headings.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(columns.iter().map(|(heading, _)| *heading));
        for (index, (_, align)) in columns.iter().enumerate() {
            let column = inner.column_mut(index).expect("the heading made this column");
            column.set_padding((0, 2));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Self { inner, columns: columns.len() }
    }

    /// Adds a row with as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns, "a row has a cell for each column");
        self.inner.add_row(cells);
    }
}

/// Each line ended, without blanks at its end; the heading bold.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bold = Style::new().bold();
        for (index, line) in self.inner.lines().enumerate() {
            let line = line.trim_end();
            if index == 0 {
                writeln!(f, "{bold}{line}{bold:#}")?;
            } else {
                writeln!(f, "{line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("bytes", Align::Right)]);
        table.row(["a".into(), "1".into()]);
        table.row(["longer".into(), "123456".into()]);
        let text = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(text, "name     bytes\na            1\nlonger  123456\n");
    }
}
