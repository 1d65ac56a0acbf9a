// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network of a command, and the client's identity.

use std::path::Path;

use crosslane::bridge::{Identity, Key};
use crosslane::network::{MachineClock, Network, Provider};

use super::arguments::{ClientArguments, NetworkChoice};
use crate::error::CommandError;
use crate::text_file::NOT_TEXT;

/// Opens the network for an address; also returns the reason for the choice.
///
/// # Errors
/// The network cannot be used here.
pub fn open(
    choice: NetworkChoice,
    address: &str,
    clock: &MachineClock,
) -> Result<(Network, String), CommandError> {
    let (provider, why) = match choice {
        None => Provider::choose(address),
        Some(provider) => (provider, "asked for".to_owned()),
    };
    let network = Network::open(provider, clock)?;
    Ok((network, why))
}

/// Returns the identity of a client.
///
/// # Errors
/// A key that cannot be read.
pub fn identity(arguments: &ClientArguments) -> Result<Identity, CommandError> {
    let key = arguments.key.as_deref().map(read_key).transpose()?;
    Ok(Identity { name: arguments.name.clone(), key })
}

/// Returns the reason that a text file cannot be read.
fn why(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::InvalidData => NOT_TEXT.to_owned(),
        _ => error.to_string(),
    }
}

/// Reads a key file.
///
/// # Errors
/// The file cannot be read, or is not a key.
pub fn read_key(path: &Path) -> Result<Key, CommandError> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::Failed(format!("{place} cannot be read: {}", why(&error)))
    })?;
    text.parse().map_err(|error: crosslane::bridge::BridgeError| {
        CommandError::Failed(format!("{place}: {}", error.why))
    })
}
