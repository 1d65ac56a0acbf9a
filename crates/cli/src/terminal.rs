// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The width of the terminal, and sentences folded at it. Output that goes elsewhere is as wide as
//! it has to be, unless COLUMNS is set.

use std::sync::OnceLock;

/// The least width that is kept to: in less no table can be read.
const LEAST_COLUMNS: usize = 40;
/// Most columns of a paragraph, however wide the terminal is.
const PARAGRAPH_COLUMNS: usize = 98;

/// Columns of lines; `None`: as many as they need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    sentences: Option<usize>,
    tables: Option<usize>,
}

static LIMITS: OnceLock<Limits> = OnceLock::new();

/// Looks how wide standard output may be. Before that, and with `is_wide` for tables, there is no
/// limit.
pub fn measure(is_wide: bool) {
    let columns = std::env::var("COLUMNS").ok();
    let terminal = || terminal_size::terminal_size_of(std::io::stdout());
    let columns = columns_of(columns.as_deref(), || terminal().map(|(width, _)| width.0.into()));
    let tables = columns.filter(|_| !is_wide);
    // The first call decides.
    let _ = LIMITS.set(Limits { sentences: columns, tables });
}

/// The variable goes before the terminal; one that is no number is as if it were not set.
fn columns_of(variable: Option<&str>, terminal: impl Fn() -> Option<usize>) -> Option<usize> {
    let set = variable.and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    set.or_else(terminal).map(|columns: usize| columns.max(LEAST_COLUMNS))
}

fn limits() -> Limits {
    LIMITS.get().copied().unwrap_or_default()
}

/// Most columns of a sentence.
#[must_use]
pub fn sentence_columns() -> Option<usize> {
    limits().sentences
}

/// Most columns of a table or a drawing.
#[must_use]
pub fn table_columns() -> Option<usize> {
    limits().tables
}

/// The words of a paragraph in lines, each ended and indented as the first.
#[must_use]
pub fn paragraph(text: &str) -> String {
    let columns = sentence_columns().map_or(PARAGRAPH_COLUMNS, |it| it.min(PARAGRAPH_COLUMNS));
    let indent = text.len() - text.trim_start().len();
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    filled(&words, columns, indent, indent) + "\n"
}

/// A page whose sentences are folded between words, the rest of each indented. Lines with a gap of
/// two blanks are rows of tables and drawings: these have been made to fit, and are kept.
#[must_use]
pub fn folded(page: &str, columns: usize) -> String {
    let mut text = String::new();
    for line in page.split_inclusive('\n') {
        let sentence = line.trim_end_matches('\n');
        let is_wide = sentence.chars().count() > columns;
        if !is_wide || sentence.trim_start().contains("  ") {
            text.push_str(line);
            continue;
        }
        let indent = sentence.len() - sentence.trim_start().len();
        text.push_str(&folded_line(sentence, columns, indent + 2));
        text.push_str(&line[sentence.len()..]);
    }
    text
}

/// A line with gaps that is folded all the same where it is too wide, and then has none.
#[must_use]
pub fn fitted(line: &str) -> String {
    match sentence_columns() {
        Some(columns) if line.chars().count() > columns => {
            let indent = line.len() - line.trim_start().len();
            folded_line(line, columns, indent + 2)
        }
        _ => line.to_owned(),
    }
}

/// One line in several, those behind the first indented by so many blanks. Numbers stay with what
/// stands behind them. A word that is longer than a line has one of its own.
#[must_use]
pub fn folded_line(line: &str, columns: usize, hanging: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match words.last_mut() {
            Some(number) if number.parse::<f64>().is_ok() => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let indent = line.len() - line.trim_start().len();
    filled(&words, columns, indent, hanging)
}

/// Words in lines, the first indented by `indent` blanks and the others by `hanging`.
#[must_use]
pub fn filled(words: &[String], columns: usize, indent: usize, hanging: usize) -> String {
    let mut text = " ".repeat(indent);
    let (mut width, mut is_empty) = (indent, true);
    for word in words {
        let length = word.chars().count();
        if !is_empty && width + 1 + length > columns {
            text.push('\n');
            text.push_str(&" ".repeat(hanging));
            (width, is_empty) = (hanging, true);
        }
        if !is_empty {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        (width, is_empty) = (width + length, false);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_variable_goes_before_the_terminal() {
        let terminal = || Some(120);
        assert_eq!(columns_of(Some("80"), terminal), Some(80));
        assert_eq!(columns_of(Some("10"), terminal), Some(LEAST_COLUMNS));
        for unset in [None, Some(""), Some("0"), Some("wide")] {
            assert_eq!(columns_of(unset, terminal), Some(120), "{unset:?}");
            assert_eq!(columns_of(unset, || None), None, "{unset:?}");
        }
    }

    #[test]
    fn sentences_fold_and_rows_do_not() {
        let page = "plan: a -> b -> c; wide\n  why not: it is as it is\n\na  row  of  a  table\n";
        assert_eq!(
            folded(page, 14),
            "plan: a -> b\n  -> c; wide\n  why not: it\n    is as it\n    is\n\n\
             a  row  of  a  table\n"
        );
        assert_eq!(folded(page, 80), page);
        assert_eq!(folded("without an end, and long", 10), "without an\n  end, and\n  long");
    }

    #[test]
    fn numbers_stay_with_their_unit() {
        assert_eq!(folded("it is 12.5 MB/s now", 12), "it is\n  12.5 MB/s\n  now");
    }

    #[test]
    fn long_words_are_kept_whole() {
        assert_eq!(
            folded("see /a/very/long/path there\n", 8),
            "see\n  /a/very/long/path\n  there\n"
        );
    }

    #[test]
    fn paragraphs_are_folded_between_words() {
        assert_eq!(paragraph("a  b"), "a b\n");
        assert_eq!(paragraph(""), "\n");
        let long = "word ".repeat(50);
        let text = paragraph(&long);
        assert!(text.lines().all(|line| line.chars().count() <= PARAGRAPH_COLUMNS));
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
