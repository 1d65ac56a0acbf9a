// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device bind` and `unbind`.

use std::fmt::Write as _;

use crosslane::machine::{self, Address, BindOptions};
use crosslane_report::text;

use super::arguments::{BindArguments, Output};
use super::machine;
use crate::error::CommandError;
use crate::output;

/// `device bind`.
///
/// # Errors
/// A function that is not there or is kept by the system, and a missing right.
pub fn bind(arguments: &BindArguments) -> Result<(), CommandError> {
    let machine = machine(&arguments.output.root);
    let options =
        BindOptions::default().with_driver(arguments.driver.clone()).with_force(arguments.force);
    let binding = machine::bind(&machine, arguments.address, &options)?;
    let tree = machine.tree()?;
    let nodes = machine.vfio_nodes(tree.function(arguments.address)?);
    output::show(arguments.output.json, &binding, |_| {
        let mut page = text::binding(&binding);
        if let Some(node) = nodes.first() {
            let node = node.display();
            let _ = writeln!(page, "programs open it as {node}; root may, and for you:");
            let _ = writeln!(page, "  sudo chown $USER {node}");
        }
        page + &text::in_the_way(&binding)
    })
}

/// `device unbind`.
///
/// # Errors
/// As [`bind`].
pub fn unbind(address: Address, force: bool, output: &Output) -> Result<(), CommandError> {
    let binding = machine::unbind(&machine(&output.root), address, force)?;
    output::show(output.json, &binding, |_| text::binding(&binding))
}
