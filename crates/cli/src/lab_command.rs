// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab`: the shipped labs, and constants with their provenance.

use std::fmt::Write as _;

use crosslane::lab::{Lab, Provenance};
use crosslane::labs;
use crosslane_report::text::{self, Columns};
use crosslane_reproduce::page::constants;

use crate::arguments::LabCommand;
use crate::error::CommandError;
use crate::output::{print_unfolded, show};
use crate::serve_command;

/// Does what was asked for.
///
/// # Errors
/// A lab that has a problem, or an output that cannot be written.
pub fn run(command: &LabCommand) -> Result<(), CommandError> {
    match command {
        LabCommand::List { json } => {
            let list = labs::list()?;
            show(*json, &list, |columns| text::lab_list(&list, columns))
        }
        LabCommand::Check { file, json } => {
            let check = labs::check_file(&file.to_string_lossy())?;
            show(*json, &check, |_| text::lab_check(&check))
        }
        LabCommand::Serve(arguments) => serve_command::run(arguments),
        LabCommand::Show { lab, json, file } => {
            let lab = Lab::load(lab)?;
            match *file {
                true => print_unfolded(lab.file().text()),
                false => {
                    show(*json, &labs::constants(&lab), |columns| constants_text(&lab, columns))
                }
            }
        }
    }
}

fn constants_text(lab: &Lab, columns: Columns) -> String {
    let mut page = format!("{}: {}\n", lab.name(), lab.summary());
    if let Some(source) = &lab.file().source {
        let _ = writeln!(page, "Reproduces {source}.");
    }
    for variant in &lab.file().variants {
        let _ = writeln!(page, "Variant {}:{}: {}", lab.name(), variant.name, variant.summary);
    }
    page.push('\n');
    let mut table = constants(&[lab]).least_first(&["unit", "provenance"]);
    table.columns[3].heading = "provenance".to_owned();
    page.push_str(&table.to_text(columns.tables));
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
