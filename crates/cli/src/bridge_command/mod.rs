// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge`: cards served to other nodes, and transfers with them. Its commands share the
//! network and the client's identity.

pub mod arguments;
mod bench;
mod client;
mod control;
mod latency;
mod matrix;
mod monitor;
mod pool;
mod reload;
mod serve;
mod servers;
mod stripes;

use std::path::Path;

use crosslane::bridge::{Identity, Key, is_loopback};
use crosslane::network::{
    Certificates, MachineClock, Network, Provider, SharedKey, Trust, providers,
};
use crosslane_report::Table;
use serde::Serialize;

use crate::error::{CommandError, Result, usage};
use crate::output;
use crate::output::shown;
use arguments::{BridgeCommand, CertificateArguments, ClientArguments, NetworkChoice};

/// Runs the command.
///
/// # Errors
/// Invalid arguments, and failures.
pub fn run(command: &BridgeCommand) -> Result<()> {
    match command {
        BridgeCommand::Providers { json } => list_providers(*json),
        BridgeCommand::Key => output::print_unfolded(&format!("{}\n", random_key()?.to_hex())),
        BridgeCommand::Put(arguments) => client::put(arguments),
        BridgeCommand::Get(arguments) => client::get(arguments),
        BridgeCommand::Roundtrip(arguments) => client::roundtrip(arguments),
        BridgeCommand::Copy(arguments) => client::copy(arguments),
        BridgeCommand::Serve(arguments) => serve::run(arguments),
        BridgeCommand::Card { command } => control::run(command),
        BridgeCommand::Pool(arguments) => pool::run(arguments),
        BridgeCommand::Reload(arguments) => reload::run(arguments),
        BridgeCommand::Bench(arguments) => bench::run(arguments),
    }
}

/// Makes a new random key.
fn random_key() -> Result<Key> {
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

fn list_providers(json: bool) -> Result<()> {
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

/// Opens the network for an address; also returns the reason for the choice.
///
/// # Errors
/// The network cannot be used here, only by those who trust it, or not with certificates.
fn open_network(
    choice: NetworkChoice,
    address: &str,
    clock: &MachineClock,
    trust: &Trust,
) -> Result<(Network, String)> {
    let has_certificates = trust.certificates.is_some();
    let (provider, why) = match choice {
        None if has_certificates => (Provider::Tls, "certificates are for it".to_owned()),
        None => Provider::choose(address),
        Some(provider) if has_certificates && provider != Provider::Tls => {
            return Err(usage(format!("--tls-cert: {} takes no certificates", provider.name())));
        }
        Some(provider) => (provider, "asked for".to_owned()),
    };
    let is_trusted = trust.everybody || is_loopback(address);
    if provider == Provider::Tcp && !is_trusted {
        let why = "it reads what strangers send before it knows them, and some of that ends it: \
            take --network tls, or --trust-network where nobody means harm";
        return Err(usage(format!("--network tcp at {address}: {why}")));
    }
    let network = Network::open_with(provider, clock, trust)?;
    Ok((network, why))
}

/// The trust of a client's network: its server has the same key, or a certificate.
///
/// # Errors
/// Certificates that cannot be read.
fn client_trust(arguments: &ClientArguments, identity: &Identity) -> Result<Trust> {
    let present = identity.key.as_ref().map(|key| SharedKey(*key.bytes()));
    let certificates = certificates(&arguments.certificates)?;
    let everybody = arguments.trust_network;
    Ok(Trust { present, certificates, everybody, ..Trust::default() })
}

/// Reads the certificates of a node.
///
/// # Errors
/// A file that cannot be used.
fn certificates(arguments: &CertificateArguments) -> Result<Option<Certificates>> {
    let CertificateArguments { tls_cert, tls_key, tls_ca } = arguments;
    let (Some(own), Some(key), Some(trusted)) = (tls_cert, tls_key, tls_ca) else {
        return Ok(None);
    };
    Ok(Some(Certificates::read(own, key, trusted)?))
}

/// Returns the name by which a node greets others: with a certificate they find it by that.
fn name_of(name: Option<&String>, arguments: &CertificateArguments, default: &str) -> String {
    let default = if arguments.tls_cert.is_some() { "" } else { default };
    name.map_or(default, String::as_str).to_owned()
}

/// Returns the identity of a client.
///
/// # Errors
/// A key that cannot be read.
fn identity(arguments: &ClientArguments) -> Result<Identity> {
    let key = arguments.key.as_deref().map(read_key).transpose()?;
    let name = name_of(arguments.name.as_ref(), &arguments.certificates, "anybody");
    Ok(Identity { name, key })
}

/// Reads a key file.
///
/// # Errors
/// The file cannot be read, others may read it, or it is not a key.
fn read_key(path: &Path) -> Result<Key> {
    Key::read(path).map_err(|error| CommandError::failed(error.why))
}
