// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab`: the shipped labs, and constants with their provenance.

use std::fmt::Write as _;

use crosslane::lab::{Lab, Provenance};
use crosslane::labs;
use crosslane_report::Table;

use crate::arguments::LabCommand;
use crate::error::CommandError;
use crate::lab_check;
use crate::output::{print, print_json, print_unfolded};
use crate::serve_command;
use crate::terminal::shown;

/// Does what was asked for.
///
/// # Errors
/// A lab that has a problem, or an output that cannot be written.
pub fn run(command: &LabCommand) -> Result<(), CommandError> {
    match command {
        LabCommand::List { json } => list(*json),
        LabCommand::Check { file, json } => lab_check::run(file, *json),
        LabCommand::Serve(arguments) => serve_command::run(arguments),
        LabCommand::Show { lab, json, file } => {
            let lab = Lab::load(lab)?;
            if *file {
                print_unfolded(lab.file().text())
            } else if *json {
                print_json(&labs::constants(&lab))
            } else {
                print(&constants_page(&lab))
            }
        }
    }
}

fn list(as_json: bool) -> Result<(), CommandError> {
    let list = labs::list()?;
    if as_json {
        return print_json(&list);
    }
    let mut table = Table::headed("lab | what it is");
    for lab in list.labs {
        let name = lab.name.clone();
        table.row([lab.name, lab.summary]);
        for variant in lab.variants {
            table.row([format!("{name}:{}", variant.name), variant.summary]);
        }
    }
    print(&shown(&table))
}

fn constants_page(lab: &Lab) -> String {
    let mut page = format!("{}: {}\n", lab.name(), lab.summary());
    if let Some(source) = &lab.file().source {
        let _ = writeln!(page, "Reproduces {source}.");
    }
    for variant in &lab.file().variants {
        let _ = writeln!(page, "Variant {}:{}: {}", lab.name(), variant.name, variant.summary);
    }
    page.push('\n');
    let mut table = Table::headed("constant | value: | unit | provenance | source")
        .least_first(&["unit", "provenance"]);
    for constant in lab.constants() {
        table.row([
            constant.path(),
            constant.shown_value(),
            constant.unit.to_owned(),
            constant.provenance.to_string(),
            constant.source.clone(),
        ]);
    }
    page.push_str(&shown(&table));
    page.push('\n');
    page.push_str(&provenance_line(lab));
    page
}

/// Counts the constants of each provenance.
fn provenance_line(lab: &Lab) -> String {
    let counts: Vec<String> = Provenance::ALL
        .into_iter()
        .map(|kind| (kind, lab.constants().filter(|c| c.provenance == kind).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    format!("{} constants by provenance: {}\n", lab.constants().count(), counts.join(", "))
}
