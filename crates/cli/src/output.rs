// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard output and standard error. Colours are dropped where they are not wanted: not a
//! terminal, or NO_COLOR.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use crate::error::CommandError;

/// Writes a page to standard output.
///
/// # Errors
/// Where it cannot be written, a broken pipe among it.
pub fn print(page: &str) -> Result<(), CommandError> {
    let mut output = anstream::stdout().lock();
    output.write_all(page.as_bytes())?;
    output.flush()?;
    Ok(())
}

/// Writes JSON to standard output, indented, with a newline at its end.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &Value) -> Result<(), CommandError> {
    let mut text = serde_json::to_string_pretty(value).map_err(std::io::Error::from)?;
    text.push('\n');
    print(&text)
}

/// Writes `error: SENTENCE` to standard error; nobody may be listening.
pub fn print_error(sentence: &str) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let mut output = anstream::stderr().lock();
    // With standard error closed there is nowhere left to complain.
    let _ = writeln!(output, "{red}error:{red:#} {sentence}");
}

/// Writes a line that helps to standard error.
pub fn print_hint(sentence: &str) {
    let mut output = anstream::stderr().lock();
    let _ = writeln!(output, "{sentence}");
}

/// Writes a problem with the place in the file that it is about to standard error.
pub fn print_diagnostic(diagnostic: &dyn miette::Diagnostic) {
    let theme = if std::io::stderr().is_terminal() {
        miette::GraphicalTheme::unicode()
    } else {
        miette::GraphicalTheme::ascii()
    };
    let mut text = String::new();
    let handler = miette::GraphicalReportHandler::new_themed(theme);
    if handler.render_report(&mut text, diagnostic).is_err() {
        text = format!("error: {diagnostic}\n");
    }
    let mut output = anstream::stderr().lock();
    let _ = output.write_all(text.as_bytes());
}
