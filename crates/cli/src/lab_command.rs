// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab`: the shipped labs, and constants with their provenance; and `crosslane topo`,
//! the topology of a lab as text, JSON or a drawing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crosslane::experiment::topology;
use crosslane::lab::{Lab, keys};
use crosslane::labs::{self, forbidden_peers};
use crosslane::machine::import;
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
        LabCommand::Import { dumps, output, json } => import_dumps(dumps, output.as_deref(), *json),
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

/// `lab import`.
fn import_dumps(dumps: &[PathBuf], output: Option<&Path>, is_json: bool) -> Result<()> {
    let file = output.map(|path| output_of(path, Kind::Lab)).transpose()?;
    let named = output.or(dumps.first().map(PathBuf::as_path)).unwrap_or(Path::new(""));
    let imported = import(dumps, &lab_name(named))?;
    let Some(file) = file else { return print_unfolded(&imported.text) };
    file.write(imported.text.as_bytes())?;
    show(is_json, &imported.summary, |columns| text::lab_import(&imported.summary, columns))
}

/// Returns a lab's name from that of its file: letters, digits, - and _.
pub fn lab_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = stem.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect();
    if name.is_empty() { "this-machine".to_owned() } else { name }
}

/// `topo`.
///
/// # Errors
/// A lab that has a problem, and a file that cannot be written.
pub fn topo(arguments: &TopoArguments) -> Result<()> {
    let lab = Lab::load(&arguments.lab)?;
    if arguments.matrix {
        let matrix = crosslane::matrix(&Arc::new(lab), &())?;
        return show(arguments.json, &matrix, |columns| text::matrix(&matrix, columns));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_named_after_its_file() {
        assert_eq!(lab_name(Path::new("x/my board.toml")), "my-board");
        assert_eq!(lab_name(Path::new("/")), "this-machine");
    }
}
