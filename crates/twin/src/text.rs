// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts of dumps, recognised by what is in them.

use std::path::Path;

use crate::error::{DumpError, Result};
use crate::seen::Inventory;
use crate::{gpu_matrix, lspci, lspci_tree, lstopo, xml};

/// Reads a topology in XML, or all that a text has: a listing, trees and matrices.
pub(crate) fn text(path: &Path, bytes: &[u8]) -> Result<Inventory> {
    let name = path.display().to_string();
    let text = String::from_utf8_lossy(bytes);
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        let read = xml::read(&text, &name);
        return known(path, read.map_err(|(line, what)| DumpError::bad(path, line, what))?);
    }
    let other = |line, problem| DumpError::OtherMachine { path: path.to_owned(), line, problem };
    let mut all = Inventory::default();
    for read in [lspci::read, lspci_tree::read, lstopo::read] {
        let found = read(&text, &name).map_err(|(line, problem)| other(line, problem))?;
        all.join(found, 0).map_err(|problem| other(0, problem))?;
    }
    all.matrices.extend(gpu_matrix::read(&text, &name));
    known(path, all)
}

/// Returns what was found, if anything was.
pub(crate) fn known(path: &Path, inventory: Inventory) -> Result<Inventory> {
    match inventory.is_empty() {
        true => Err(DumpError::Unknown { path: path.to_owned() }),
        false => Ok(inventory),
    }
}
