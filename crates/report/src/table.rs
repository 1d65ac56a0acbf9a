// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables.

use std::fmt::Write as _;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// Its alignment.
    pub align: Align,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// Whether it deserves attention: outside its tolerance, or an error.
    pub is_bad: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, is_bad: false }
    }
}

/// Rows of cells under one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its title; may be empty.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether it has a search field, for long tables.
    pub is_searchable: bool,
}

impl Table {
    /// Returns an empty table under headings with `|` between them. A colon after a heading sets
    /// its column right, as in Markdown: `size | rate MB/s:`.
    #[must_use]
    pub fn headed(headings: &str) -> Self {
        let column = |heading: &str| {
            let (heading, align) = match heading.strip_suffix(':') {
                Some(heading) => (heading, Align::Right),
                None => (heading, Align::Left),
            };
            Column { heading: heading.to_owned(), align }
        };
        let columns = headings.split('|').map(|heading| column(heading.trim())).collect();
        Self { title: String::new(), columns, rows: Vec::new(), is_searchable: false }
    }

    /// Adds columns of numbers, set right.
    #[must_use]
    pub fn with_numbers<H: Into<String>>(mut self, headings: impl IntoIterator<Item = H>) -> Self {
        let column = |heading: H| Column { heading: heading.into(), align: Align::Right };
        self.columns.extend(headings.into_iter().map(column));
        self
    }

    /// Adds a row with as many cells as there are columns.
    ///
    /// # Panics
    /// If there are more cells or fewer.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Returns the index of a column, by its heading.
    #[must_use]
    pub fn place(&self, heading: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.heading == heading)
    }

    /// Returns the table in Markdown; every line ends with a newline.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let headings: Vec<&str> = self.columns.iter().map(|one| one.heading.as_str()).collect();
        let rules = self.columns.iter().map(|column| match column.align {
            Align::Left => "---",
            Align::Right => "--:",
        });
        let rules: Vec<&str> = rules.collect();
        let mut text = format!("| {} |\n|{}|\n", headings.join(" | "), rules.join("|"));
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(|cell| cell.text.as_str()).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_a_line_for_each_row() {
        let mut table = Table::headed("name | bytes:");
        table.row(["a".to_owned(), "1".to_owned()]);
        assert_eq!(table.to_markdown(), "| name | bytes |\n|---|--:|\n| a | 1 |\n");
        assert_eq!(table.place("bytes"), Some(1));
    }
}
