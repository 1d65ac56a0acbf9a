// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--report FOLDER` of every command that has one.

use std::path::Path;

use crosslane_explain::DirectionLoad;
use crosslane_lab::Lab;
use crosslane_report::runs::Run;
use crosslane_report::{Block, Page, Section};
use crosslane_reproduce::page::{constants, topology};
use serde_json::Value;

use crate::error::CommandError;
use crate::output::print_hint;

/// The command line as it was given, without the path of the program: what makes the page again.
pub fn command_line() -> String {
    let quoted = |argument: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| quoted(argument.to_string_lossy().into_owned()));
    std::iter::once("crosslane".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Writes a page into a folder, and says where it is.
///
/// # Errors
/// A folder that cannot be written.
pub fn write_page(page: &Page, folder: &Path) -> Result<(), CommandError> {
    let file = page.write(folder)?;
    print_hint(&format!("report: {}", file.display()));
    Ok(())
}

/// Writes the page of a benchmark into a folder: what its JSON says, the lab's tree with the load
/// of every link in the last run, and the lab's constants.
///
/// # Errors
/// As [`write_page`].
pub fn write_bench_page(
    document: &Value,
    lab: &Lab,
    loads: Option<&[DirectionLoad]>,
    folder: &Path,
) -> Result<(), CommandError> {
    let run = Run::of(document.clone())
        .unwrap_or_else(|error| panic!("the program reads what it prints: {error}"));
    let mut page = run.page(&command_line()).expect("a benchmark has a page");
    if let Some(loads) = loads.filter(|loads| !loads.is_empty()) {
        let tree = topology(lab, "", loads);
        let title = "Load of every link, in the last run".to_owned();
        page.sections.push(Section { title, blocks: vec![Block::Topology(tree)] });
    }
    let title = "Constants and their provenance".to_owned();
    page.sections.push(Section { title, blocks: vec![Block::Table(constants(&[lab]))] });
    write_page(&page, folder)
}
