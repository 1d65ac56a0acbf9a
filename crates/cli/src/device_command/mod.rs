// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device`: the PCI functions of this machine, for owners of a board.

pub mod arguments;
mod doctor;
mod reload;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crosslane::machine::{self, Address, BindOptions, Machine, TestOptions};
use crosslane::open::{DeviceName, OpenError};
use crosslane_report::text;

use crate::error::{CommandError, Result, usage};
use crate::output::{print, show};
use arguments::{BindArguments, DeviceCommand, SetMpsArguments, TestArguments};

/// Stands for the memory of the machine.
const HOST: &str = "host";

/// Does what was asked for.
///
/// # Errors
/// A function that does not exist or cannot be changed, and a missing right.
pub fn run(command: &DeviceCommand) -> Result<()> {
    match command {
        DeviceCommand::List { all, output } => {
            let list = machine::list(&machine(&output.root).tree()?, *all);
            show(output.json, &list, |columns| text::functions(&list, columns))
        }
        DeviceCommand::Info { address, output } => {
            let machine = machine(&output.root);
            let tree = machine.tree()?;
            let function = tree.function(*address)?;
            let described = machine::describe(&machine, &tree, function);
            show(output.json, &described, |columns| text::function(&described, columns))
        }
        DeviceCommand::Bind(arguments) => bind(arguments),
        DeviceCommand::Unbind { address, force, output } => {
            let binding = machine::unbind(&machine(&output.root), *address, *force)?;
            show(output.json, &binding, |_| text::binding(&binding))
        }
        DeviceCommand::Doctor(arguments) => doctor::run(arguments),
        DeviceCommand::Reload(arguments) => reload::run(arguments),
        DeviceCommand::SetMps(arguments) => set_mps(arguments),
        DeviceCommand::Test(arguments) => test(arguments),
    }
}

/// The machine whose folders lie below `root`.
fn machine(root: &Path) -> Machine {
    Machine::below(root)
}

fn bind(arguments: &BindArguments) -> Result<()> {
    let machine = machine(&arguments.output.root);
    let options =
        BindOptions::default().with_driver(arguments.driver.clone()).with_force(arguments.force);
    let binding = machine::bind(&machine, arguments.address, &options)?;
    let nodes = match arguments.output.json {
        true => Vec::new(),
        false => machine.vfio_nodes(machine.tree()?.function(arguments.address)?),
    };
    show(arguments.output.json, &binding, |_| {
        let mut page = text::binding(&binding);
        if let Some(node) = nodes.first() {
            let node = node.display();
            let _ = writeln!(page, "programs open it as {node}; root may, and for you:");
            let _ = writeln!(page, "  sudo chown $USER {node}");
        }
        page + &text::in_the_way(&binding)
    })
}

/// Sets Max_Payload_Size of every port on a path.
fn set_mps(arguments: &SetMpsArguments) -> Result<()> {
    let usage = |error: &dyn ToString| usage(format!("--path: {}", error.to_string()));
    let end = |text: &String| match text.as_str() {
        HOST => Ok(None),
        text => text.parse::<Address>().map(Some).map_err(|error| usage(&error)),
    };
    let [from, to] = &arguments.path[..] else { return Err(usage(&"it has two ends")) };
    let (ends, bytes) = ([end(from)?, end(to)?], arguments.bytes);
    let sizes = machine::set_max_payload(&machine(&arguments.output.root), ends, bytes)?;
    show(arguments.output.json, &sizes, |_| text::payload_sizes(&sizes, bytes))
}

/// Tests cards and prints each step as it ends.
fn test(arguments: &TestArguments) -> Result<()> {
    let names: Result<Vec<DeviceName>, OpenError> =
        arguments.names.iter().map(|name| name.parse()).collect();
    let options = TestOptions::default()
        .with_largest(arguments.largest)
        .with_timeout(Duration::from_secs(arguments.timeout.into()))
        .with_seed(arguments.seed);
    let mut printed = Ok(());
    let test = machine::test_cards(&names?, &options, |step| {
        if !arguments.json && printed.is_ok() {
            printed = print(&text::test_step(step));
        }
    });
    let test = test?;
    printed?;
    show(arguments.json, &test, |_| {
        format!("{} steps, {} failed\n", test.steps.len(), test.failed)
    })?;
    if test.failed > 0 { Err(CommandError::Run) } else { Ok(()) }
}
