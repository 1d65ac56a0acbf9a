// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane compare`: two outcomes that were printed as JSON, side by side.

use std::path::Path;

use crosslane::results::{MAX_OUTCOME_BYTES, Outcome};
use crosslane_report::runs::Comparison;

use crate::arguments::CompareArguments;
use crate::error::{CommandError, Result};
use crate::files::read_text;
use crate::files::{command_line, report_of, write_page};
use crate::output::show;

/// Compares two outcomes.
///
/// # Errors
/// A file that cannot be read or is not an outcome, two outcomes without a common figure, and an
/// output that cannot be written.
pub fn run(arguments: &CompareArguments) -> Result<()> {
    let report = report_of(arguments.shown.report.as_deref())?;
    let comparison = Comparison::of(read(&arguments.first)?, read(&arguments.second)?);
    let names = names(&arguments.first, &arguments.second);
    let names = [names[0].as_str(), names[1].as_str()];
    if comparison.result.figures.is_empty() {
        let sentence = format!(
            "{} and {} have no figure in common: {}; {}",
            arguments.first.display(),
            arguments.second.display(),
            comparison.result.first,
            comparison.result.second
        );
        return Err(CommandError::Failed(sentence));
    }
    show(arguments.shown.json, &comparison.result, |columns| comparison.text(names, columns))?;
    match report {
        Some(file) => write_page(&comparison.page(&command_line(), names), &file),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Outcome> {
    let text = read_text(path, MAX_OUTCOME_BYTES)?;
    let failed = |error| CommandError::Failed(format!("{}: {error}", path.display()));
    Outcome::parse(&text).map_err(failed)
}

/// Names of the files without what they share: their stems, or A and B where these are equal.
fn names(first: &Path, second: &Path) -> [String; 2] {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    match (stem(first), stem(second)) {
        (Some(first), Some(second)) if first != second => [first, second],
        _ => ["A".to_owned(), "B".to_owned()],
    }
}
