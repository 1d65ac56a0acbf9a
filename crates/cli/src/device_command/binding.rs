// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device bind` and `unbind`.

use std::fmt::Write as _;

use crosslane::machine::{self, Address, BindOptions};
use crosslane::results::machine::Binding;

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
    if arguments.output.json {
        return output::print_json(&binding);
    }
    let mut page = words(&binding);
    let tree = machine.tree()?;
    let nodes = machine.vfio_nodes(tree.function(arguments.address)?);
    if let Some(node) = nodes.first() {
        let _ = writeln!(page, "programs open it as {}; root may, and for you:", node.display());
        let _ = writeln!(page, "  sudo chown $USER {}", node.display());
    }
    if !binding.in_the_way.is_empty() {
        let _ = writeln!(
            page,
            "but the kernel opens none of group {} while these have another driver:",
            binding.iommu_group.map_or_else(|| "?".to_owned(), |group| group.to_string())
        );
        for other in &binding.in_the_way {
            let (address, driver) = (&other.address, &other.driver);
            let _ = writeln!(page, "  sudo crosslane device bind {address}    # has {driver}");
        }
    }
    output::print(&page)
}

/// `device unbind`.
///
/// # Errors
/// As [`bind`].
pub fn unbind(address: Address, force: bool, output: &Output) -> Result<(), CommandError> {
    let binding = machine::unbind(&machine(&output.root), address, force)?;
    if output.json {
        return output::print_json(&binding);
    }
    output::print(&words(&binding))
}

fn words(binding: &Binding) -> String {
    let name = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "no driver".to_owned());
    let (before, now) = (name(&binding.before), name(&binding.driver));
    match before == now {
        true => format!("{} has {now}, as before\n", binding.address),
        false => format!("{} has {now} now; it had {before}\n", binding.address),
    }
}
