// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard output and standard error. Colours are dropped where they are not wanted: not a
//! terminal, or NO_COLOR. Output that does not go to a terminal is as wide as it has to be, unless
//! COLUMNS is set.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use crosslane::lab::Position;
use crosslane::results::json_text;
use crosslane_report::Table;
use crosslane_report::text::{Columns, folded, without_error_numbers};
use serde::Serialize;

use crate::error::Result;

/// The least width that is kept to: in less no table can be read.
const LEAST_COLUMNS: usize = 40;
static LIMITS: OnceLock<Columns> = OnceLock::new();
static IS_WIDE: OnceLock<bool> = OnceLock::new();

/// Looks how wide standard output may be. Before that, and with `is_wide` for tables and lines of
/// lab files, there is no limit.
pub fn measure(is_wide: bool) {
    let columns = columns_on(std::io::stdout());
    let tables = columns.filter(|_| !is_wide);
    // The first call decides.
    let _ = LIMITS.set(Columns { sentences: columns, tables });
    let _ = IS_WIDE.set(is_wide);
}

/// Returns the columns that a stream may have: by COLUMNS, or as its terminal has; `None` without
/// either.
fn columns_on(stream: impl AsFd) -> Option<usize> {
    let variable = std::env::var("COLUMNS").ok();
    let terminal = || terminal_size::terminal_size_of(&stream).map(|(width, _)| width.0.into());
    columns_of(variable.as_deref(), terminal)
}

/// The variable goes before the terminal; one that is not a number is ignored.
fn columns_of(variable: Option<&str>, terminal: impl Fn() -> Option<usize>) -> Option<usize> {
    let set = variable.and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    set.or_else(terminal).map(|columns: usize| columns.max(LEAST_COLUMNS))
}

/// Returns the most columns of sentences, and of tables and drawings.
pub fn columns() -> Columns {
    LIMITS.get().copied().unwrap_or_default()
}

/// Formats a table that fits the terminal.
pub fn shown(table: &Table) -> String {
    table.to_text(columns().tables)
}

/// Writes a page to standard output, with its sentences folded where the terminal ends.
///
/// # Errors
/// Standard output that cannot be written, a broken pipe included.
pub fn print(page: &str) -> Result<()> {
    match columns().sentences {
        Some(columns) => print_unfolded(&folded(page, columns)),
        None => print_unfolded(page),
    }
}

/// Writes text for other programs to standard output, line by line as it is.
///
/// # Errors
/// As [`print()`].
pub fn print_unfolded(page: &str) -> Result<()> {
    let mut output = anstream::stdout().lock();
    output.write_all(page.as_bytes())?;
    output.flush()?;
    Ok(())
}

/// Writes JSON to standard output, indented, with a newline at its end. An object contains the
/// number of its schema; a list stays a plain list.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print_unfolded(&json_text(value).map_err(std::io::Error::from)?)
}

/// Writes an outcome to standard output: as JSON, or as text that fits the terminal.
///
/// # Errors
/// As [`print()`].
pub fn show(
    is_json: bool,
    outcome: &impl Serialize,
    text: impl FnOnce(Columns) -> String,
) -> Result<()> {
    match is_json {
        true => print_json(outcome),
        false => print(&text(columns())),
    }
}

/// Folds a sentence that standard error is to show, where that is a terminal or COLUMNS is set.
fn fitted(sentence: &str) -> String {
    let text = without_error_numbers(sentence);
    match columns_on(std::io::stderr()) {
        Some(columns) => folded(&text, columns),
        None => text,
    }
}

/// Writes `error: SENTENCE` to standard error; nobody may be listening.
pub fn print_error(sentence: &str) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let text = fitted(&format!("error: {sentence}"));
    let text = text.strip_prefix("error:").unwrap_or(&text);
    let mut output = anstream::stderr().lock();
    // With standard error closed there is nowhere left to complain.
    let _ = writeln!(output, "{red}error:{red:#}{text}");
}

/// Writes a line that helps to standard error.
pub fn print_hint(sentence: &str) {
    let mut output = anstream::stderr().lock();
    let _ = writeln!(output, "{}", fitted(sentence));
}

/// Writes a line of JSON to standard error, for programs that read a log.
pub fn print_log(line: &impl Serialize) {
    let Ok(text) = serde_json::to_string(line) else { return };
    // A log that nobody takes stops no server.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes the lines of a lab file around a problem to standard error.
pub fn print_snippet(place: &Position) {
    let columns = columns_on(std::io::stderr()).filter(|_| IS_WIDE.get() != Some(&true));
    let mut output = anstream::stderr().lock();
    let _ = output.write_all(place.snippet(columns.unwrap_or(usize::MAX)).as_bytes());
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
}
