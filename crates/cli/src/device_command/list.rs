// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device list`.

use crosslane::machine::{self, link_words};
use crosslane_report::Table;

use super::arguments::Output;
use super::machine;
use crate::error::CommandError;
use crate::output;
use crate::terminal::shown;

/// `device list`.
///
/// # Errors
/// A machine without a PCI bus.
pub fn run(all: bool, output: &Output) -> Result<(), CommandError> {
    let tree = machine(&output.root).tree()?;
    if output.json {
        return output::print_json(&machine::list(&tree, all));
    }
    let mut table = Table::headed("address | IDs | class | driver | group: | link | node:")
        .least_first(&["node", "group", "link"]);
    let mut rows = 0;
    for function in machine::functions(&tree, all) {
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
    output::print(&shown(&table))
}
