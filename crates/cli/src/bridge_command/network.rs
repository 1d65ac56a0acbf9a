// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network of a command, and the client's identity.

use std::path::Path;

use crosslane::bridge::{Identity, Key};
use crosslane::network::{MachineClock, Network, Provider};

use super::arguments::{ClientArguments, NetworkChoice};
use crate::error::CommandError;
use crate::files::read_text;

/// Most bytes of a key file that are read: a key with blanks around it.
const MOST_KEY_BYTES: usize = 4096;

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

/// Reads a key file.
///
/// # Errors
/// The file cannot be read, or is not a key.
pub fn read_key(path: &Path) -> Result<Key, CommandError> {
    let text = read_text(path, MOST_KEY_BYTES)?;
    text.parse().map_err(|error: crosslane::bridge::BridgeError| {
        CommandError::failed(format!("{}: {}", path.display(), error.why))
    })
}
