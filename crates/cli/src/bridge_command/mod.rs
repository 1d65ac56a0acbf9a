// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge`: cards served to other nodes, and transfers with them.

pub mod arguments;
mod bench;
mod client;
mod network;
mod serve;

use crosslane_bridge::Key;
use crosslane_libfabric::providers;
use serde_json::json;

use crate::error::CommandError;
use crate::output;
use crate::table::{Align, Table};
use arguments::BridgeCommand;

/// Runs the command.
///
/// # Errors
/// What cannot be asked for, and what fails.
pub fn run(command: &BridgeCommand) -> Result<(), CommandError> {
    match command {
        BridgeCommand::Providers { json } => list_providers(*json),
        BridgeCommand::Key => output::print_unfolded(&format!("{}\n", random_key()?.to_hex())),
        BridgeCommand::Put(arguments) => client::put(arguments),
        BridgeCommand::Get(arguments) => client::get(arguments),
        BridgeCommand::Roundtrip(arguments) => client::roundtrip(arguments),
        BridgeCommand::Copy(arguments) => client::copy(arguments),
        BridgeCommand::Serve(arguments) => serve::run(arguments),
        BridgeCommand::Bench(arguments) => bench::run(arguments),
    }
}

/// A key that nobody has had.
fn random_key() -> Result<Key, CommandError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandError::Input(format!("cannot get random numbers: {error}")))?;
    Ok(Key::new(bytes))
}

fn list_providers(json: bool) -> Result<(), CommandError> {
    let states = providers();
    if json {
        let list: Vec<_> = states
            .iter()
            .map(|state| {
                let (usable, why) = match &state.usable {
                    Ok(what) => (true, what),
                    Err(why) => (false, why),
                };
                json!({ "provider": state.provider.name(), "usable": usable, "what": why })
            })
            .collect();
        return output::print_json(&json!(list));
    }
    let mut table = Table::new(&[
        ("provider", Align::Left),
        ("usable", Align::Left),
        ("what, or why not", Align::Left),
    ]);
    for state in &states {
        let (usable, why) = match &state.usable {
            Ok(what) => ("yes", what),
            Err(why) => ("no", why),
        };
        table.row([state.provider.name().to_owned(), usable.to_owned(), why.clone()]);
    }
    output::print(&table.to_string())
}
