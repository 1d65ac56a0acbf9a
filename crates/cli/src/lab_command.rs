// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab`: the shipped labs, and constants with their provenance.

use crosslane::lab::{Lab, keys};
use crosslane::labs;
use crosslane_report::text;
use crosslane_reproduce::page::constants_text;

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
        LabCommand::Keys => print_unfolded(&keys::page()),
        LabCommand::Schema => print_unfolded(&format!("{:#}\n", keys::schema())),
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
