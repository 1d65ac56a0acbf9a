// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane topo`: the topology of a lab as text, JSON or a drawing.

use crosslane::experiment::topology;
use crosslane::lab::Lab;
use crosslane::labs::forbidden_peers;
use crosslane_report::output::Kind;
use crosslane_report::{text, topology_svg};

use crate::arguments::TopoArguments;
use crate::error::CommandError;
use crate::output::show;
use crate::report_file::output_of;

/// `topo`.
///
/// # Errors
/// A lab that has a problem, and a file that cannot be written.
pub fn run(arguments: &TopoArguments) -> Result<(), CommandError> {
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
