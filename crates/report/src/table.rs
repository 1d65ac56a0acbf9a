// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables.

use std::fmt::Write as _;

/// Heading of a column, and the function that formats its cell in a row. A colon after a heading
/// sets the column right, as in [`Table::headed`].
pub type Field<R> = (&'static str, fn(&R) -> String);

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

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Rows of cells under one heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Its title; may be empty.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether it has a search field, for long tables.
    pub is_searchable: bool,
    /// Headings of columns that a narrow terminal leaves out, the least important first.
    pub spare: Vec<String>,
}

/// Makes a column of a heading; a colon after it sets the column right.
fn column(heading: &str) -> Column {
    let (heading, align) = match heading.strip_suffix(':') {
        Some(heading) => (heading, Align::Right),
        None => (heading, Align::Left),
    };
    Column { heading: heading.to_owned(), align }
}

impl Table {
    /// Returns an empty table under headings with `|` between them. A colon after a heading sets
    /// its column right, as in Markdown: `size | rate MB/s:`.
    pub fn headed(headings: &str) -> Self {
        let columns = headings.split('|').map(|heading| column(heading.trim())).collect();
        Self { columns, ..Self::default() }
    }

    /// Returns a table with a column for each field and a row for each value.
    pub fn of<'a, R: 'a>(fields: &[Field<R>], rows: impl IntoIterator<Item = &'a R>) -> Self {
        let columns = fields.iter().map(|(heading, _)| column(heading)).collect();
        let row = |row: &R| fields.iter().map(|(_, cell)| Cell::from(cell(row))).collect();
        Self { columns, rows: rows.into_iter().map(row).collect(), ..Self::default() }
    }

    /// Gives it a title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// Names the columns that a narrow terminal leaves out, the least important first.
    #[must_use]
    pub fn least_first(self, headings: &[impl AsRef<str>]) -> Self {
        let spare = headings.iter().map(|heading| heading.as_ref().to_owned()).collect();
        Self { spare, ..self }
    }

    /// Adds a column behind the others, with a cell for each row.
    ///
    /// # Panics
    /// If there are fewer cells than rows.
    pub fn push_column(&mut self, heading: &str, cells: impl IntoIterator<Item = String>) {
        self.columns.push(column(heading));
        let mut cells = cells.into_iter();
        for row in &mut self.rows {
            row.push(cells.next().expect("a column has a cell for each row").into());
        }
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
    pub fn place(&self, heading: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.heading == heading)
    }

    /// Returns the table in Markdown; every line ends with a newline.
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
