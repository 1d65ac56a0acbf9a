// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane compare`: two outcomes that were printed as JSON, side by side.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crosslane::results::{MAX_OUTCOME_BYTES, Outcome};
use crosslane_report::Table;
use crosslane_report::runs::Comparison;

use crate::arguments::CompareArguments;
use crate::error::{CommandError, NOT_TEXT};
use crate::output::{print, print_json};
use crate::report_file::{command_line, report_of, write_page};
use crate::terminal::shown;

/// Compares two outcomes.
///
/// # Errors
/// A file that cannot be read or is no outcome, two outcomes without a common figure, and an output
/// that cannot be written.
pub fn run(arguments: &CompareArguments) -> Result<(), CommandError> {
    let report = report_of(arguments.report.as_ref())?;
    let comparison = Comparison::of(read(&arguments.first)?, read(&arguments.second)?);
    let names = names(&arguments.first, &arguments.second);
    let names = [names[0].as_str(), names[1].as_str()];
    if comparison.pairs.is_empty() {
        let sentence = format!(
            "{} and {} have no figure in common: {}; {}",
            arguments.first.display(),
            arguments.second.display(),
            comparison.first.name(),
            comparison.second.name()
        );
        return Err(CommandError::Compare(sentence));
    }
    if arguments.json {
        print_json(&comparison.result())?;
    } else {
        print(&page(&comparison, names))?;
    }
    match report {
        Some(file) => write_page(&comparison.page(&command_line(), names), &file),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Outcome, CommandError> {
    let failed = |problem: String| CommandError::Compare(format!("{}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let most = MAX_OUTCOME_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(NOT_TEXT.to_owned()))?;
    Outcome::parse(&text).map_err(|error| failed(error.to_string()))
}

/// Names of the files without what they share: their stems, or A and B where these are equal.
fn names(first: &Path, second: &Path) -> [String; 2] {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    match (stem(first), stem(second)) {
        (Some(first), Some(second)) if first != second => [first, second],
        _ => ["A".to_owned(), "B".to_owned()],
    }
}

/// A report's table as it is set on a terminal; cells to look at have a mark.
fn printed(table: &Table) -> String {
    let mut table = table.clone();
    for cell in table.rows.iter_mut().flatten().filter(|cell| cell.is_bad) {
        cell.text.push_str(" !");
    }
    shown(&table)
}

fn page(comparison: &Comparison, names: [&str; 2]) -> String {
    let mut page = String::new();
    for (name, run) in names.into_iter().zip([&comparison.first, &comparison.second]) {
        let (version, seed) = run.origin();
        let _ = writeln!(page, "{name}: {}, version {version}, seed {seed}", run.name());
    }
    let _ = writeln!(page, "\n{}", printed(&comparison.table(names)));
    let bottlenecks = comparison.bottlenecks();
    if !bottlenecks.is_empty() {
        let _ = writeln!(page, "What limits each");
        for (size, first, second) in bottlenecks {
            let _ = if first == second {
                writeln!(page, "{size}: {first}, in both")
            } else {
                writeln!(page, "{size}: {first}; {}: {second}", names[1])
            };
        }
        page.push('\n');
    }
    let _ = writeln!(page, "{}", comparison.summary());
    page
}
