// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands read and write, and `--report FOLDER` of every command that has one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crosslane::lab::{Lab, shipped};
use crosslane::open::DeviceName;
use crosslane::results::Outcome;
use crosslane_report::output::{Kind, OutputFile};
use crosslane_report::runs::page as outcome_page;
use crosslane_report::{Block, Page, Section};
use crosslane_reproduce::page::{constants, topology};

use crate::error::{CommandError, Result};
use crate::interrupt::listen;
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

/// The file of a report, if one is asked for: tried before the work begins.
///
/// # Errors
/// A folder that cannot be made or written, or has somebody else's page.
pub fn report_of(folder: Option<&Path>) -> Result<Option<OutputFile>> {
    let Some(folder) = folder else { return Ok(None) };
    listen();
    Ok(Some(OutputFile::report(folder)?))
}

/// A file that can be written, tried before the work begins.
///
/// # Errors
/// One that cannot be, or that is something else.
pub fn output_of(path: &Path, kind: Kind) -> Result<OutputFile> {
    listen();
    Ok(OutputFile::file(path, kind)?)
}

/// Writes a page, and says where it is.
///
/// # Errors
/// A file that cannot be written.
pub fn write_page(page: &Page, file: &OutputFile) -> Result<()> {
    file.write(page.to_html().as_bytes())?;
    print_hint(&format!("report: {}", file.path().display()));
    Ok(())
}

/// Place in which the run of a page was made.
#[derive(Clone, Copy, Debug)]
pub enum Where<'a> {
    /// In a lab.
    Lab(&'a Lab),
    /// On cards that were opened by name.
    Cards(&'a [DeviceName]),
}

impl<'a> Where<'a> {
    /// Returns the lab, if it is one.
    pub const fn lab(self) -> Option<&'a Lab> {
        match self {
            Self::Lab(lab) => Some(lab),
            Self::Cards(_) => None,
        }
    }
}

/// Returns the section of a page with a lab's constants.
pub fn constants_of(lab: &Lab) -> Section {
    let title = "Constants and their provenance".to_owned();
    Section { title, blocks: vec![Block::Table(constants(&[lab]))] }
}

/// Writes the page of what was measured on a card; of a lab's card as [`write_outcome_page`].
///
/// # Errors
/// A lab that cannot be read; see [`write_page`].
pub fn write_card_page(outcome: &Outcome, card: &DeviceName, file: &OutputFile) -> Result<()> {
    let lab = match card {
        DeviceName::Lab(card) => Some(Lab::load(&card.lab)?),
        _ => None,
    };
    write_outcome_page(outcome, lab.as_ref(), file)
}

/// Writes the page of an outcome, and of a run in a lab the lab's tree with the load of every link
/// in the last run, and the lab's constants.
///
/// # Errors
/// As [`write_page`].
pub fn write_outcome_page(outcome: &Outcome, lab: Option<&Lab>, file: &OutputFile) -> Result<()> {
    let page = outcome_page(outcome, &command_line());
    let none = || CommandError::Failed(format!("there is no page for {}", outcome.name()));
    let mut page = page.ok_or_else(none)?;
    let Some(lab) = lab else { return write_page(&page, file) };
    if page.summary.is_empty() {
        page.summary = lab.summary().to_owned();
    }
    let variant = lab.variant().map_or(String::new(), |variant| format!(":{variant}"));
    let shipped = shipped().iter().find(|shipped| shipped.text == lab.file().text());
    let name = shipped.map_or_else(|| lab.origin(), |shipped| shipped.name);
    let opened = format!("crosslane ui {name}{variant}");
    page.facts.push(("lab in a browser".to_owned(), opened));
    let last = match outcome {
        Outcome::Bench(bench) => bench.scenarios.last(),
        _ => None,
    };
    if let Some(last) = last.filter(|scenario| !scenario.link_loads.is_empty()) {
        let tree = topology(lab, "", &last.link_loads)?;
        let title = "Load of every link, in the last run".to_owned();
        page.sections.push(Section { title, blocks: vec![Block::Topology(tree)] });
    }
    page.sections.push(constants_of(lab));
    write_page(&page, file)
}

/// Reads a text file, and no more than one byte behind `most_bytes`.
///
/// # Errors
/// A file that cannot be read, or is not text.
pub fn read_text(path: &Path, most_bytes: usize) -> Result<String> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(most_bytes as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| cannot_read(path, &error))?;
    String::from_utf8(bytes).map_err(|_| cannot_read(path, &"it is not a text file (UTF-8)"))
}

/// Makes the error of a file that cannot be read.
pub fn cannot_read(path: &Path, problem: &dyn std::fmt::Display) -> CommandError {
    CommandError::Failed(format!("{} cannot be read: {problem}", path.display()))
}
