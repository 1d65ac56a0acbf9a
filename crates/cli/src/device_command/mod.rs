// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device`: the PCI functions of this machine, for owners of a board.

pub mod arguments;
mod binding;
mod doctor;
mod info;
mod reload;
mod set_mps;
mod test;

use std::path::Path;

use crosslane::machine::{Machine, list};
use crosslane_report::text;

use crate::error::CommandError;
use crate::output::show;
use arguments::DeviceCommand;

/// Does what was asked for.
///
/// # Errors
/// A function that does not exist or cannot be changed, and a missing right.
pub fn run(command: &DeviceCommand) -> Result<(), CommandError> {
    match command {
        DeviceCommand::List { all, output } => {
            let list = list(&machine(&output.root).tree()?, *all);
            show(output.json, &list, |columns| text::functions(&list, columns))
        }
        DeviceCommand::Info { address, output } => info::run(*address, output),
        DeviceCommand::Bind(arguments) => binding::bind(arguments),
        DeviceCommand::Unbind { address, force, output } => {
            binding::unbind(*address, *force, output)
        }
        DeviceCommand::Doctor(arguments) => doctor::run(arguments),
        DeviceCommand::Reload(arguments) => reload::run(arguments),
        DeviceCommand::SetMps(arguments) => set_mps::run(arguments),
        DeviceCommand::Test(arguments) => test::run(arguments),
    }
}

/// The machine whose folders lie below `root`.
fn machine(root: &Path) -> Machine {
    Machine::below(root)
}
