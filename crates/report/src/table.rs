// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables, and how they are written: in Markdown, and as plain ASCII, with columns separated by
//! blanks, one heading, no lines. If the terminal is too narrow for all columns, the least
//! important ones are left out, and then texts are folded.

use std::fmt::Write as _;

use anstyle::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

use crate::text::{filled, folded};

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
    /// Heading of the column.
    pub heading: String,
    /// Alignment of the column.
    pub align: Align,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Text of the cell.
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
    /// Title of the table; may be empty.
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

/// Formats a value; `-` if there is none.
pub fn or_none<T>(value: Option<T>, words: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), words)
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

/// Blanks between two columns.
const GAP: usize = 2;
/// Blanks between two columns if nothing else makes a table fit.
const NARROW_GAP: usize = 1;
/// Text is folded to this width before columns are left out, and to less only if none is left.
const TEXT_COLUMNS: usize = 24;

/// Least widths of a column.
struct Span {
    /// Nothing is folded.
    whole: usize,
    /// Width with the heading folded at every blank, its texts a little.
    folded: usize,
    /// Width with heading and texts folded at every blank.
    words: usize,
    /// Width with the texts folded at every dot too: paths of constants.
    pieces: usize,
}

/// The columns that are shown, by index, and their widths.
struct Layout {
    shown: Vec<usize>,
    widths: Vec<usize>,
    left_out: Vec<usize>,
    gap: usize,
}

impl Table {
    /// Returns the table as plain text, no wider than `columns` if it can be. Each line is ended
    /// and has no blanks at its end; the heading is bold; a note lists columns that are left out.
    pub fn to_text(&self, columns: Option<usize>) -> String {
        let layout = columns.map_or_else(|| self.whole(), |columns| self.fitted(columns));
        let bold = Style::new().bold();
        let (heading_lines, lines) = self.lines(&layout);
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let line = line.trim_end();
            let _ = match index < heading_lines {
                true => writeln!(text, "{bold}{line}{bold:#}"),
                false => writeln!(text, "{line}"),
            };
        }
        let note = self.note(&layout);
        text + &columns.map_or_else(String::new, |columns| folded(&note, columns))
    }

    fn span(&self, index: usize) -> Span {
        let column = &self.columns[index];
        let cells = || self.rows.iter().map(|row| row[index].text.as_str());
        let width = |text: &str| text.chars().count();
        let longest_word = |text: &str| text.split_whitespace().map(width).max().unwrap_or(0);
        let content = cells().map(width).max().unwrap_or(0);
        let longest_piece = |text: &str| text.split(is_break).map(width).max().unwrap_or(0) + 1;
        let whole = content.max(width(&column.heading));
        let heading = longest_word(&column.heading);
        if column.align == Align::Right {
            let least = heading.max(content);
            return Span { whole, folded: least, words: least, pieces: least };
        }
        let words = heading.max(cells().map(longest_word).max().unwrap_or(0));
        let pieces = heading.max(cells().map(longest_piece).max().unwrap_or(0)).min(words);
        Span { whole, folded: whole.min(TEXT_COLUMNS).max(words), words, pieces }
    }

    /// Shows every column in its full width.
    fn whole(&self) -> Layout {
        let shown: Vec<usize> = (0..self.columns.len()).collect();
        let widths = shown.iter().map(|&index| self.span(index).whole).collect();
        Layout { shown, widths, left_out: Vec::new(), gap: GAP }
    }

    /// Chooses columns and widths that fit a terminal, as far as anything fits.
    fn fitted(&self, columns: usize) -> Layout {
        let spans: Vec<Span> = (0..self.columns.len()).map(|index| self.span(index)).collect();
        let mut shown: Vec<usize> = (0..spans.len()).collect();
        let mut spare = self.spare.iter();
        let folded = |index: usize| spans[index].folded;
        while total(shown.iter().map(|&index| folded(index))) > columns {
            let Some(heading) = spare.next() else { break };
            shown.retain(|&index| self.columns[index].heading != *heading);
        }
        let mut widths: Vec<usize> = shown.iter().map(|&index| spans[index].whole).collect();
        let limits: [fn(&Span) -> usize; 3] = [|it| it.folded, |it| it.words, |it| it.pieces];
        for least in limits {
            while total(widths.iter().copied()) > columns {
                let places = (0..shown.len()).filter(|&at| widths[at] > least(&spans[shown[at]]));
                let Some(widest) = places.max_by_key(|&at| widths[at]) else { break };
                widths[widest] -= 1;
            }
        }
        let left_out = (0..spans.len()).filter(|index| !shown.contains(index)).collect();
        let gap = if total(widths.iter().copied()) > columns { NARROW_GAP } else { GAP };
        Layout { shown, widths, left_out, gap }
    }

    /// Returns the number of lines of the heading, and all lines.
    fn lines(&self, layout: &Layout) -> (usize, Vec<String>) {
        let mut set = comfy_table::Table::new();
        set.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let places = || layout.shown.iter().copied().zip(layout.widths.iter().copied());
        let headings = places().map(|(index, width)| {
            let heading = &self.columns[index].heading;
            folded_cell(heading, width)
        });
        let mut headings: Vec<String> = headings.collect();
        let heading_lines = headings.iter().map(|text| text.lines().count()).max().unwrap_or(1);
        // Short headings stand just above their column.
        for heading in &mut headings {
            let missing = heading_lines.saturating_sub(heading.lines().count());
            heading.insert_str(0, &"\n".repeat(missing));
        }
        set.set_header(headings);
        for (place, (index, _)) in places().enumerate() {
            let column = set.column_mut(place).expect("the heading made this column");
            column.set_padding((0, layout.gap as u16));
            column.set_cell_alignment(match self.columns[index].align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        for row in &self.rows {
            set.add_row(places().map(|(index, width)| {
                let text = &row[index].text;
                match text.chars().count() > width {
                    true => folded_cell(text, width),
                    false => text.clone(),
                }
            }));
        }
        (heading_lines.max(1), set.lines().collect())
    }

    /// Lists the columns that are left out: `2 columns left out: p99, max (--wide)`.
    fn note(&self, layout: &Layout) -> String {
        let names = layout.left_out.iter().map(|&index| self.columns[index].heading.as_str());
        let names: Vec<&str> = names.collect();
        match names.len() {
            0 => String::new(),
            1 => format!("1 column left out: {} (--wide)\n", names[0]),
            count => format!("{count} columns left out: {} (--wide)\n", names.join(", ")),
        }
    }
}

/// Returns whether a text may be parted at a character.
fn is_break(c: char) -> bool {
    c.is_whitespace() || c == '.'
}

/// Folds a text into the lines of a cell. A word that is too long is parted behind its dots.
fn folded_cell(text: &str, width: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut line = String::new();
        for piece in word.split_inclusive('.') {
            if !line.is_empty() && line.chars().count() + piece.chars().count() > width {
                words.push(std::mem::take(&mut line));
            }
            line.push_str(piece);
        }
        words.push(line);
    }
    filled(&words, width, 0, 0)
}

/// Returns the width of columns with the gaps between them.
fn total(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
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

    fn lines(table: &Table, columns: usize) -> Vec<String> {
        let layout = table.fitted(columns);
        let (_, mut lines) = table.lines(&layout);
        lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
        lines.extend((!layout.left_out.is_empty()).then(|| table.note(&layout)));
        lines
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::headed("name | bytes:");
        table.row(["a", "1"]);
        table.row(["longer", "123456"]);
        let (bold, end) = ("\u{1b}[1m", "\u{1b}[0m");
        let text = format!("{bold}name     bytes{end}\na            1\nlonger  123456\n");
        assert_eq!(table.to_text(None), text);
    }

    #[test]
    fn spare_columns_are_left_out_in_their_order() {
        let mut table = Table::headed("bytes: | min: | max: | MB/s:").least_first(&["max", "min"]);
        table.row(["64", "1.0", "2.0", "100.5"]);
        assert_eq!(lines(&table, 23), ["bytes  min  max   MB/s", "   64  1.0  2.0  100.5"]);
        assert_eq!(
            lines(&table, 21),
            ["bytes  min   MB/s", "   64  1.0  100.5", "1 column left out: max (--wide)\n"]
        );
        assert_eq!(
            lines(&table, 16),
            ["bytes   MB/s", "   64  100.5", "2 columns left out: min, max (--wide)\n"]
        );
    }

    #[test]
    fn long_paths_are_parted_behind_their_dots() {
        let mut table = Table::headed("constant | value:");
        table.row(["part.v7.requester.tags", "16"]);
        assert_eq!(
            lines(&table, 22),
            ["constant        value", "part.v7.           16", "requester.tags"]
        );
    }

    #[test]
    fn gaps_shrink_where_nothing_else_does() {
        let mut table = Table::headed("a: | b: | c:");
        table.row(["1000", "2000", "3000"]);
        assert_eq!(lines(&table, 16), ["   a     b     c", "1000  2000  3000"]);
        assert_eq!(lines(&table, 15), ["   a    b    c", "1000 2000 3000"]);
    }

    #[test]
    fn texts_are_folded_where_nothing_is_spare() {
        let mut table = Table::headed("name | what it is");
        table.row(["a", "one two three four five six seven eight"]);
        table.row(["/a/long/path", "b"]);
        #[rustfmt::skip]
        let expected = [
            "name          what it is",
            "a             one two three",
            "              four five six",
            "              seven eight",
            "/a/long/path  b",
        ];
        assert_eq!(lines(&table, 30), expected);
        let narrow = lines(&table, 20);
        assert!(narrow.iter().all(|line| line.len() <= 20), "{narrow:?}");
    }
}
