// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge`: cards served to other nodes, and transfers with them.

pub mod arguments;
mod bench;
mod client;
mod network;
mod serve;

use crosslane::bridge::Key;
use crosslane::network::providers;
use crosslane_report::Table;
use serde::Serialize;

use crate::error::CommandError;
use crate::output;
use crate::output::shown;
use arguments::BridgeCommand;

/// Runs the command.
///
/// # Errors
/// Invalid arguments, and failures.
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

/// Makes a new random key.
fn random_key() -> Result<Key, CommandError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandError::Failed(format!("cannot get random numbers: {error}")))?;
    Ok(Key::new(bytes))
}

/// JSON of a network of this machine.
#[derive(Serialize)]
struct ProviderDocument<'a> {
    provider: &'a str,
    usable: bool,
    what: &'a str,
}

fn list_providers(json: bool) -> Result<(), CommandError> {
    let states = providers();
    let mut list = Vec::new();
    for state in &states {
        let (usable, what) = match &state.usable {
            Ok(what) => (true, what),
            Err(why) => (false, why),
        };
        list.push(ProviderDocument { provider: state.provider.name(), usable, what });
    }
    if json {
        return output::print_json(&list);
    }
    let mut table = Table::headed("provider | usable | what, or why not");
    for ProviderDocument { provider, usable, what } in list {
        let usable = if usable { "yes" } else { "no" };
        table.row([provider.to_owned(), usable.to_owned(), what.to_owned()]);
    }
    output::print(&shown(&table))
}
