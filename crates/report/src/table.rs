// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables.

/// How a column is set.
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
    /// How it is set.
    pub align: Align,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// Whether it is something to look at: outside its tolerance, or an error.
    pub is_bad: bool,
}

/// Rows of cells under one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it shows; empty for none.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether a reader may want to search it: long tables get a field for that.
    pub is_searchable: bool,
}
