// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of plain ASCII: columns parted by blanks, a heading, no lines. Where the terminal is
//! too narrow for all columns, those that matter least are left out, and then texts are folded.

use std::fmt;

use anstyle::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};
pub use crosslane_report::Align;
use crosslane_report::Column;

use crate::terminal::{filled, folded, table_columns};

/// Blanks between two columns.
const GAP: usize = 2;
/// The same where nothing else makes a table fit.
const NARROW_GAP: usize = 1;
/// Text is folded to this width before columns are left out, and to less only when none is left.
const TEXT_COLUMNS: usize = 24;

/// A table with one heading.
#[derive(Clone, Debug)]
pub struct Table {
    plain: crosslane_report::Table,
    /// Headings of columns that may be left out, the least important first.
    spare: Vec<String>,
}

/// How wide a column has to be.
struct Span {
    /// With nothing folded.
    whole: usize,
    /// With its heading folded at every blank, and texts a little.
    folded: usize,
    /// With its heading and its texts folded at every blank.
    words: usize,
    /// With its texts folded at every dot too: paths of constants.
    pieces: usize,
}

/// The columns that are shown, by index, and their widths.
struct Layout {
    shown: Vec<usize>,
    widths: Vec<usize>,
    left_out: Vec<usize>,
    gap: usize,
}

/// A table of a result.
impl From<crosslane_report::Table> for Table {
    fn from(plain: crosslane_report::Table) -> Self {
        Self { plain, spare: Vec::new() }
    }
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
        let plain = crosslane_report::Table { title, columns, rows, is_searchable: false };
        Self { plain, spare: Vec::new() }
    }

    /// The headings of columns that a narrow terminal does without, the least important first.
    #[must_use]
    pub fn least_first(mut self, headings: &[impl AsRef<str>]) -> Self {
        self.spare = headings.iter().map(|heading| heading.as_ref().to_owned()).collect();
        self
    }

    /// Adds a row with as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.plain.row(cells);
    }

    /// The same for a page.
    #[must_use]
    pub fn on_page(self, title: &str) -> crosslane_report::Table {
        crosslane_report::Table { title: title.to_owned(), ..self.plain }
    }

    fn span(&self, index: usize) -> Span {
        let column = &self.plain.columns[index];
        let cells = || self.plain.rows.iter().map(|row| row[index].text.as_str());
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

    /// Every column, as wide as it has to be.
    fn whole(&self) -> Layout {
        let shown: Vec<usize> = (0..self.plain.columns.len()).collect();
        let widths = shown.iter().map(|&index| self.span(index).whole).collect();
        Layout { shown, widths, left_out: Vec::new(), gap: GAP }
    }

    /// The columns and widths that fit a terminal, as far as anything fits.
    fn fitted(&self, columns: usize) -> Layout {
        let spans: Vec<Span> =
            (0..self.plain.columns.len()).map(|index| self.span(index)).collect();
        let mut shown: Vec<usize> = (0..spans.len()).collect();
        let mut spare = self.spare.iter();
        let folded = |index: usize| spans[index].folded;
        while total(shown.iter().map(|&index| folded(index))) > columns {
            let Some(heading) = spare.next() else { break };
            shown.retain(|&index| self.plain.columns[index].heading != *heading);
        }
        let mut widths: Vec<usize> = shown.iter().map(|&index| spans[index].whole).collect();
        for least in [Span::folded, Span::words, Span::pieces] {
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

    /// Lines of the heading, and of the rows.
    fn lines(&self, layout: &Layout) -> (usize, Vec<String>) {
        let mut set = comfy_table::Table::new();
        set.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let places = || layout.shown.iter().copied().zip(layout.widths.iter().copied());
        let headings = places().map(|(index, width)| {
            let heading = &self.plain.columns[index].heading;
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
            column.set_cell_alignment(match self.plain.columns[index].align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        for row in &self.plain.rows {
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

    /// `2 columns left out: p99, max (--wide)`; nothing where all are there.
    fn note(&self, layout: &Layout) -> String {
        let names = layout.left_out.iter().map(|&index| self.plain.columns[index].heading.as_str());
        let names: Vec<&str> = names.collect();
        match names.len() {
            0 => String::new(),
            1 => format!("1 column left out: {} (--wide)\n", names[0]),
            count => format!("{count} columns left out: {} (--wide)\n", names.join(", ")),
        }
    }
}

impl Span {
    fn folded(&self) -> usize {
        self.folded
    }

    fn words(&self) -> usize {
        self.words
    }

    fn pieces(&self) -> usize {
        self.pieces
    }
}

/// Positions at which a text may be parted.
fn is_break(c: char) -> bool {
    c.is_whitespace() || c == '.'
}

/// A text in lines of a cell. A word that is too long for it is parted behind its dots.
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

/// The width of columns with the gaps between them.
fn total(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// As wide as the terminal, if tables are to fit it. Each line ended, without blanks at its end;
/// the heading bold; a note says what is left out.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = table_columns();
        let layout = columns.map_or_else(|| self.whole(), |columns| self.fitted(columns));
        let bold = Style::new().bold();
        let (heading_lines, lines) = self.lines(&layout);
        for (index, line) in lines.iter().enumerate() {
            let line = line.trim_end();
            if index < heading_lines {
                writeln!(f, "{bold}{line}{bold:#}")?;
            } else {
                writeln!(f, "{line}")?;
            }
        }
        let note = self.note(&layout);
        f.write_str(&columns.map_or_else(String::new, |columns| folded(&note, columns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &Table, columns: usize) -> Vec<String> {
        let layout = table.fitted(columns);
        let (_, mut lines) = table.lines(&layout);
        lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
        lines.extend((!layout.left_out.is_empty()).then(|| table.note(&layout)));
        lines
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("bytes", Align::Right)]);
        table.row(["a".into(), "1".into()]);
        table.row(["longer".into(), "123456".into()]);
        let text = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(text, "name     bytes\na            1\nlonger  123456\n");
    }

    #[test]
    fn spare_columns_are_left_out_in_their_order() {
        let columns = ["bytes", "min", "max", "MB/s"].map(|heading| (heading, Align::Right));
        let mut table = Table::new(&columns).least_first(&["max", "min"]);
        table.row(["64", "1.0", "2.0", "100.5"].map(str::to_owned));
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
        let mut table = Table::new(&[("constant", Align::Left), ("value", Align::Right)]);
        table.row(["part.v7.requester.tags".into(), "16".into()]);
        assert_eq!(
            lines(&table, 22),
            ["constant        value", "part.v7.           16", "requester.tags"]
        );
    }

    #[test]
    fn gaps_shrink_where_nothing_else_does() {
        let columns = ["a", "b", "c"].map(|heading| (heading, Align::Right));
        let mut table = Table::new(&columns);
        table.row(["1000", "2000", "3000"].map(str::to_owned));
        assert_eq!(lines(&table, 16), ["   a     b     c", "1000  2000  3000"]);
        assert_eq!(lines(&table, 15), ["   a    b    c", "1000 2000 3000"]);
    }

    #[test]
    fn texts_are_folded_where_nothing_is_spare() {
        let columns = [("name", Align::Left), ("what it is", Align::Left)];
        let mut table = Table::new(&columns);
        table.row(["a".into(), "one two three four five six seven eight".into()]);
        table.row(["/a/long/path".into(), "b".into()]);
        assert_eq!(
            lines(&table, 30),
            [
                "name          what it is",
                "a             one two three",
                "              four five six",
                "              seven eight",
                "/a/long/path  b",
            ]
        );
        let narrow = lines(&table, 20);
        assert!(narrow.iter().all(|line| line.len() <= 20), "{narrow:?}");
    }
}
