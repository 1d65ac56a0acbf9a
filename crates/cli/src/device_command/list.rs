// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device list`.

use crosslane_vfio::sysfs::{LinkCode, PciFunction};
use serde_json::{Value, json};

use super::arguments::Output;
use super::machine;
use crate::error::CommandError;
use crate::output;
use crate::table::{Align, Table};

/// Base class of bridges (PCI code and ID assignment).
pub const BRIDGES: u32 = 0x06;

/// `device list`.
///
/// # Errors
/// Where there is no PCI bus.
pub fn run(all: bool, output: &Output) -> Result<(), CommandError> {
    let tree = machine(&output.root).tree()?;
    let shown = tree.functions().filter(|function| all || function.class >> 16 != BRIDGES);
    if output.json {
        let functions: Vec<Value> = shown.map(to_json).collect();
        return output::print_json(&json!({ "functions": functions }));
    }
    let mut table = Table::new(&[
        ("address", Align::Left),
        ("IDs", Align::Left),
        ("class", Align::Left),
        ("driver", Align::Left),
        ("group", Align::Right),
        ("link", Align::Left),
        ("node", Align::Right),
    ])
    .least_first(&["node", "group", "link"]);
    let mut rows = 0;
    for function in shown {
        rows += 1;
        let group = function.iommu_group.as_ref().map(|group| group.number.to_string());
        table.row([
            function.address.to_string(),
            format!("{:04x}:{:04x}", function.vendor, function.device),
            function.class_words().to_owned(),
            function.driver.clone().unwrap_or_else(|| "-".to_owned()),
            group.unwrap_or_else(|| "-".to_owned()),
            function.link().map_or_else(|| "-".to_owned(), link_words),
            function.numa_node.map_or_else(|| "-".to_owned(), |node| node.to_string()),
        ]);
    }
    if rows == 0 {
        return output::print("this machine shows no PCI functions; --all shows bridges too\n");
    }
    output::print(&table.to_string())
}

/// `Gen3 x4`, and what it could be where that is more.
pub fn link_words((now, best): (LinkCode, LinkCode)) -> String {
    let is_less = now.speed < best.speed || now.lanes < best.lanes;
    if is_less { format!("{now} (of {best})") } else { now.to_string() }
}

/// A function for a program, in few words.
fn to_json(function: &PciFunction) -> Value {
    json!({
        "address": function.address.to_string(),
        "vendor": format!("{:04x}", function.vendor),
        "device": format!("{:04x}", function.device),
        "class": format!("{:06x}", function.class),
        "class_words": function.class_words(),
        "kind": function.kind.to_string(),
        "driver": function.driver,
        "iommu_group": function.iommu_group.as_ref().map(|group| group.number),
        "link": function.link().map(|(now, _)| now.to_string()),
        "link_capability": function.link().map(|(_, best)| best.to_string()),
        "numa_node": function.numa_node,
    })
}
