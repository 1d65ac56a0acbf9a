// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab`: the shipped labs, and constants with their provenance; and `crosslane topo`,
//! the topology of a lab as text, JSON or a drawing.

use crosslane::experiment::topology;
use crosslane::lab::{Lab, keys};
use crosslane::labs::{self, forbidden_peers};
use crosslane_report::output::Kind;
use crosslane_report::{text, topology_svg};
use crosslane_reproduce::page::constants_text;

use crate::arguments::{LabCommand, TopoArguments};
use crate::error::Result;
use crate::files::output_of;
use crate::output::{print_unfolded, show};
use crate::serve_command;

/// Does what was asked for.
///
/// # Errors
/// A lab that has a problem, or an output that cannot be written.
pub fn run(command: &LabCommand) -> Result<()> {
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

/// `topo`.
///
/// # Errors
/// A lab that has a problem, and a file that cannot be written.
pub fn topo(arguments: &TopoArguments) -> Result<()> {
    let lab = Lab::load(&arguments.lab)?;
    let svg = arguments.svg.as_deref().map(|path| output_of(path, Kind::Drawing));
    let svg = svg.transpose()?;
    let topology = topology(&lab, &lab.build(1)?);
    if let Some(svg) = svg {
        svg.write(topology_svg(&topology).as_bytes())?;
    }
    show(arguments.json, &topology, |columns| {
        text::topology(&topology, &forbidden_peers(&lab, &topology), columns)
    })
}
