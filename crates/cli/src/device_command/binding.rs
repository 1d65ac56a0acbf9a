// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device bind` and `unbind`.

use std::fmt::Write as _;

use crosslane_vfio::sysfs::{self, Address, BindOptions, Bound};
use serde_json::json;

use super::arguments::{BindArguments, Output};
use super::machine;
use crate::error::CommandError;
use crate::output;

/// `device bind`.
///
/// # Errors
/// What the function, the kernel or a missing right stands against.
pub fn bind(arguments: &BindArguments) -> Result<(), CommandError> {
    let machine = machine(&arguments.output.root);
    let options = BindOptions { driver: arguments.driver.clone(), force: arguments.force };
    let bound = sysfs::bind(&machine, arguments.address, &options)?;
    if arguments.output.json {
        return print_json(&bound);
    }
    let mut page = words(&bound);
    let tree = machine.tree()?;
    let nodes = machine.vfio_nodes(tree.function(bound.address)?);
    if let Some(node) = nodes.first() {
        let _ = writeln!(page, "programs open it as {}; root may, and for you:", node.display());
        let _ = writeln!(page, "  sudo chown $USER {}", node.display());
    }
    if !bound.in_the_way.is_empty() {
        let _ = writeln!(
            page,
            "but the kernel opens none of group {} while these have another driver:",
            bound.group.map_or_else(|| "?".to_owned(), |group| group.to_string())
        );
        for (address, driver) in &bound.in_the_way {
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
    let bound = sysfs::unbind(&machine(&output.root), address, force)?;
    if output.json {
        return print_json(&bound);
    }
    output::print(&words(&bound))
}

fn words(bound: &Bound) -> String {
    let name = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "no driver".to_owned());
    let (before, now) = (name(&bound.before), name(&bound.now));
    match before == now {
        true => format!("{} has {now}, as before\n", bound.address),
        false => format!("{} has {now} now; it had {before}\n", bound.address),
    }
}

fn print_json(bound: &Bound) -> Result<(), CommandError> {
    let in_the_way: Vec<_> = bound
        .in_the_way
        .iter()
        .map(|(address, driver)| json!({ "address": address.to_string(), "driver": driver }))
        .collect();
    output::print_json(&json!({
        "address": bound.address.to_string(),
        "before": bound.before,
        "driver": bound.now,
        "iommu_group": bound.group,
        "in_the_way": in_the_way,
    }))
}
