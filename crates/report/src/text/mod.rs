// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes as plain text for a terminal: rows as `perftest` prints them, then what explains them,
//! with sentences folded at its width. Pages show the same outcomes: see [`runs`](crate::runs).
//!
//! Read first: [`text`], then [`Columns`].

mod bridge;
mod errors;
mod flows;
mod lab;
mod machine;
mod network;
mod rows;
pub(crate) mod what_if;
mod why;

use crosslane_results::{Bench, Detail, Outcome};

pub use bridge::bridge_copy;
pub use errors::{errors, without_error_numbers};
pub use lab::{lab_check, lab_import, lab_list, matrix, topology};
pub use machine::{
    binding, card_diagnosis, function, functions, in_the_way, machine_diagnosis, payload_sizes,
    reload, test_step,
};
pub use what_if::{tuning, what_if};

/// Facts of a run that its outcome does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    /// Modes of transfers or requests, in words.
    pub modes: &'a str,
    /// Whether the counters of engines are shown, which explain runs on cards.
    pub has_counters: bool,
    /// Names of a sweep's parameters, in their order.
    pub parameters: &'a [String],
    /// Lines about a single run, or about all exchanges, behind the rows.
    pub details: &'a str,
}

/// Formats an outcome as text; empty for reproductions, whose text is more than their rows.
pub fn text(outcome: &Outcome, notes: Notes<'_>, columns: Columns) -> String {
    match outcome {
        Outcome::Bench(bench) => match detail(bench) {
            Some(Detail::Traffic(_)) => flows::traffic(bench, notes, columns),
            Some(Detail::Stores(_)) => rows::stores(bench, notes, columns),
            Some(Detail::Gets(_)) => network::gets(bench, columns),
            Some(Detail::Exchange(_)) => network::exchanges(bench, notes, columns),
            Some(Detail::LinkSoak(_)) => network::soaks(bench, columns),
            _ => flows::transfers(bench, notes, columns),
        },
        Outcome::Overhead(run) => rows::overhead(run, columns),
        Outcome::Operations(run) => rows::operations(run, columns),
        Outcome::Packets(run) => rows::packets(run, columns),
        Outcome::Sweep(run) => rows::sweep(run, notes.parameters, columns),
        Outcome::Bridge(run) => bridge::bridge(run, columns),
        _ => String::new(),
    }
}

/// Returns the detail of the first flow, which tells the kind of a benchmark.
fn detail(bench: &Bench) -> Option<&Detail> {
    bench.flows().map(|flow| &flow.detail).next()
}

/// Most columns of a paragraph, however wide the terminal is.
const PARAGRAPH_COLUMNS: usize = 98;

/// Most columns of lines; `None`: as many as they need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Columns of sentences.
    pub sentences: Option<usize>,
    /// Columns of tables and drawings.
    pub tables: Option<usize>,
}

/// Folds a paragraph into lines, each ended and indented as the first.
pub fn paragraph(text: &str, columns: Columns) -> String {
    let columns = columns.sentences.map_or(PARAGRAPH_COLUMNS, |it| it.min(PARAGRAPH_COLUMNS));
    let indent = text.len() - text.trim_start().len();
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    filled(&words, columns, indent, indent) + "\n"
}

/// Folds the sentences of a text between words and indents the rest of each. Lines with a gap of
/// two blanks are rows of tables and drawings, which fit already: they are kept.
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

/// Folds a line with gaps as if it were a sentence, if it is too wide.
pub fn fitted(line: &str, columns: Columns) -> String {
    match columns.sentences {
        Some(columns) if line.chars().count() > columns => {
            let indent = line.len() - line.trim_start().len();
            folded_line(line, columns, indent + 2)
        }
        _ => line.to_owned(),
    }
}

/// Folds a line, and indents all lines but the first by `hanging` blanks. Numbers stay with the
/// word behind them. A word that is longer than a line has its own.
fn folded_line(line: &str, columns: usize, hanging: usize) -> String {
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

/// Fills lines with words, the first indented by `indent` blanks and the others by `hanging`.
pub(crate) fn filled(words: &[String], columns: usize, indent: usize, hanging: usize) -> String {
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

/// Returns the first characters of a text, with an ellipsis if there are more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(paragraph("a  b", Columns::default()), "a b\n");
        assert_eq!(paragraph("", Columns::default()), "\n");
        let long = "word ".repeat(50);
        let text = paragraph(&long, Columns::default());
        assert!(text.lines().all(|line| line.chars().count() <= PARAGRAPH_COLUMNS));
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
