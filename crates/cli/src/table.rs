// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of plain ASCII: columns parted by two blanks, a heading, no lines.

use std::fmt;

use anstyle::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};
pub use crosslane_report::Align;
use crosslane_report::{Cell, Column};

/// A table with one heading; as wide as it has to be.
#[derive(Clone, Debug)]
pub struct Table {
    plain: crosslane_report::Table,
}

impl Table {
    /// An empty table with these headings.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter();
        let columns = columns
            .map(|&(heading, align)| Column { heading: heading.to_owned(), align })
            .collect();
        let (title, rows) = (String::new(), Vec::new());
        Self { plain: crosslane_report::Table { title, columns, rows, is_searchable: false } }
    }

    /// Adds a row with as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<Cell> = cells.into_iter().map(|text| Cell { text, is_bad: false }).collect();
        assert_eq!(cells.len(), self.plain.columns.len(), "a row has a cell for each column");
        self.plain.rows.push(cells);
    }

    /// The same for a page.
    #[must_use]
    pub fn on_page(self, title: &str) -> crosslane_report::Table {
        crosslane_report::Table { title: title.to_owned(), ..self.plain }
    }

    fn lines(&self) -> Vec<String> {
        let mut set = comfy_table::Table::new();
        set.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        set.set_header(self.plain.columns.iter().map(|column| &column.heading));
        for (index, column) in self.plain.columns.iter().enumerate() {
            let place = set.column_mut(index).expect("the heading made this column");
            place.set_padding((0, 2));
            place.set_cell_alignment(match column.align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        for row in &self.plain.rows {
            set.add_row(row.iter().map(|cell| &cell.text));
        }
        set.lines().collect()
    }
}

/// Each line ended, without blanks at its end; the heading bold.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bold = Style::new().bold();
        for (index, line) in self.lines().iter().enumerate() {
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
