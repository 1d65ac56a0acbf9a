// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device info`: one function, and the ports above it.

use crosslane::machine::{
    Address, PciFunction, Tree, describe, heading, path_from_root, port_settings, properties,
};
use crosslane_report::Table;
use crosslane_report::text::{Columns, fitted};

use super::arguments::Output;
use super::machine;
use crate::error::CommandError;
use crate::output::show;

/// `device info`.
///
/// # Errors
/// A function that does not exist.
pub fn run(address: Address, output: &Output) -> Result<(), CommandError> {
    let tree = machine(&output.root).tree()?;
    let function = tree.function(address)?;
    show(output.json, &describe(&tree, function), |columns| text(&tree, function, columns))
}

fn text(tree: &Tree, function: &PciFunction, columns: Columns) -> String {
    let mut facts = Table::headed("what | value");
    for (what, value) in properties(function) {
        facts.row([what.to_owned(), value]);
    }
    let mut path =
        Table::headed("on the way from the root | kind | link | MPS: | of: | MRRS: | ACS")
            .least_first(&["MRRS", "of"]);
    path_from_root(tree, function).into_iter().for_each(|port| path.row(port_settings(port)));
    let heading = fitted(&heading(function), columns);
    let [facts, path] = [facts, path].map(|table| table.to_text(columns.tables));
    format!("{heading}\n\n{facts}\n{path}")
}
