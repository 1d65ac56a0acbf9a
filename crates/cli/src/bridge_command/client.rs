// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files to and from a card of another node.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use crosslane::bridge::files::{FileClient, FileError, FileOptions, FileOutcome, Watch};
use crosslane::bridge::messages::PeerTarget;
use crosslane::bridge::{BridgeError, CardAddress, CardName, CardPlace, Report};
use crosslane::experiment::bridge_report;
use crosslane::host::{Clock, Rdma};
use crosslane::network::{MachineClock, Network};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::BridgeCopy;
use crosslane_report::output::{Kind, OutputError};
use crosslane_report::text::bridge_copy;
use futures_executor::block_on;

use super::arguments::{
    CardNames, ClientArguments, CopyArguments, GetArguments, PutArguments, RoundtripArguments,
};
use super::servers::found;
use super::stripes::{self, Way};
use super::{client_trust, identity, open_network};
use crate::error::{CommandError, Result, usage};
use crate::files::cannot_read;
use crate::files::output_of;
use crate::output;
use crate::progress::Transferred;

/// A server, with the network to it.
pub struct Remote<'a> {
    clock: MachineClock,
    /// Name of the network, or of all that were used.
    pub network_name: String,
    why_network: String,
    arguments: &'a ClientArguments,
    /// Its client.
    pub files: FileClient<Network, MachineClock>,
    begun: Picoseconds,
    /// Its progress.
    pub shown: Shown,
}

/// The progress bar of a command, and a line for each interruption.
pub struct Shown(Transferred);

impl Watch for Shown {
    fn arrived(&self, bytes: u64) {
        self.0.set(bytes);
    }

    fn resumed(&self, error: &BridgeError) {
        output::print_hint(&format!("{error}; trying again"));
    }
}

impl<'a> Remote<'a> {
    /// Opens the network to a server; it is connected to when it is first needed.
    ///
    /// # Errors
    /// A network that cannot be used, and a key that cannot be read.
    pub fn open(server: &str, arguments: &'a ClientArguments, bytes: u64) -> Result<Self> {
        let clock = MachineClock::new();
        let (files, network, why_network) = client(server, arguments, &clock)?;
        let begun = clock.now();
        let (network_name, shown) = (network.name(), Shown(Transferred::new(bytes)));
        Ok(Self { clock, network_name, why_network, arguments, files, begun, shown })
    }

    /// Opens a client of another server; also returns the name of its network.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn client(
        server: &str,
        arguments: &ClientArguments,
    ) -> Result<(FileClient<Network, MachineClock>, String)> {
        let (files, network, _) = client(server, arguments, &MachineClock::new())?;
        Ok((files, network.name()))
    }

    /// Prints the outcome.
    ///
    /// # Errors
    /// Standard output that cannot be written.
    pub fn finish(self, what: &str, outcome: &FileOutcome) -> Result<()> {
        let seconds = self.clock.now().since(self.begun).as_seconds();
        self.shown.0.finish();
        block_on(self.files.close());
        let FileOutcome { bytes, checksum, retries, reports } = outcome;
        let copy = BridgeCopy {
            what: what.to_owned(),
            bytes: *bytes,
            seconds,
            bytes_per_second: *bytes as f64 / seconds,
            crc32: checksum.map(|checksum| format!("{checksum:08x}")),
            network: self.network_name,
            retries: *retries,
            transfers: reports.iter().map(bridge_report).collect(),
            why_not_faster: reports.iter().map(Report::why_not_faster).collect(),
        };
        let text = |columns| bridge_copy(&copy, &self.why_network, columns);
        output::show(self.arguments.json, &copy, text)
    }
}

/// Opens the network to a server, and a client over it; also returns why it is this network.
fn client(
    server: &str,
    arguments: &ClientArguments,
    clock: &MachineClock,
) -> Result<(FileClient<Network, MachineClock>, Network, String)> {
    let identity = identity(arguments)?;
    let trust = client_trust(arguments, &identity)?;
    let (network, why) = open_network(arguments.network, server, clock, &trust)?;
    let options = FileOptions::default()
        .with_retries(arguments.retries)
        .with_time(Duration::from_secs(arguments.timeout));
    let files = FileClient::new(network.clone(), clock.clone(), server, identity, options);
    Ok((files, network, why))
}

/// Names the files of a failed transfer.
pub fn failed(read: &Path, written: &Path) -> impl Fn(FileError) -> CommandError {
    move |error| match error {
        FileError::Bridge(error) => error.into(),
        FileError::Read(error) => cannot_read(read, &error),
        FileError::Ended { at, bytes } => {
            let had = format!("it ends at byte {at}, and had {bytes} B at the start");
            cannot_read(read, &had)
        }
        FileError::Write(source) => OutputError::file(written, source).into(),
        error => CommandError::failed(error),
    }
}

/// Returns the place of an address at its server.
pub fn place(address: &CardAddress) -> CardPlace {
    CardPlace { card: address.card.clone(), address: address.address }
}

/// Returns the far end of a copy as a server is told of it: between its own cards no network is
/// needed.
pub fn peer_of(server: &str, target: CardAddress) -> PeerTarget {
    let CardAddress { server: other, card, address } = target;
    let server = if other == server { String::new() } else { other };
    PeerTarget { server, card, address }
}

/// Finds the cards of a file.
fn all_of(arguments: &ClientArguments, cards: &CardNames) -> Result<Vec<CardAddress>> {
    found(arguments, &cards.0.iter().collect::<Vec<_>>())
}

/// Finds a card.
fn one_of(arguments: &ClientArguments, card: &CardName) -> Result<CardAddress> {
    let mut cards = found(arguments, &[card])?;
    Ok(cards.remove(0))
}

/// `bridge put`.
pub fn put(arguments: &PutArguments) -> Result<()> {
    let (path, first) = (&arguments.file, arguments.resume);
    let (mut file, bytes) = open_file(path)?;
    if first >= bytes {
        let why = format!("--resume {first}: {} has {bytes} B", path.display());
        return Err(usage(why));
    }
    let cards = all_of(&arguments.client, &arguments.target)?;
    let [target] = cards.as_slice() else {
        if first > 0 {
            return Err(usage("--resume: several cards have no common beginning"));
        }
        let of_file = (path.as_path(), &file);
        return stripes::run(Way::ToCards, of_file, bytes, &cards, &arguments.client)?.finish();
    };
    file.seek(SeekFrom::Start(first)).map_err(|error| cannot_read(path, &error))?;
    let mut remote = Remote::open(&target.server, &arguments.client, bytes)?;
    remote.shown.arrived(first);
    let put = block_on(remote.files.put(&mut file, first..bytes, &place(target), &remote.shown));
    let outcome = put.map_err(failed(path, path))?;
    remote.finish(&format!("{} -> {target}", path.display()), &outcome)
}

/// `bridge get`.
pub fn get(arguments: &GetArguments) -> Result<()> {
    let path = &arguments.file;
    let output = output_of(path, Kind::Data)?;
    let cards = all_of(&arguments.client, &arguments.source)?;
    let (mut file, unfinished) = output.begin()?;
    let [source] = cards.as_slice() else {
        let of_file = (path.as_path(), &file);
        let bytes = arguments.bytes;
        let striped = stripes::run(Way::FromCards, of_file, bytes, &cards, &arguments.client)?;
        unfinished.finish(&file)?;
        return striped.finish();
    };
    let mut remote = Remote::open(&source.server, &arguments.client, arguments.bytes)?;
    let got = block_on(remote.files.get(&place(source), arguments.bytes, &mut file, &remote.shown));
    let outcome = got.map_err(failed(path, path))?;
    unfinished.finish(&file)?;
    remote.finish(&format!("{source} -> {}", path.display()), &outcome)
}

/// `bridge roundtrip`.
pub fn roundtrip(arguments: &RoundtripArguments) -> Result<()> {
    let path = &arguments.file;
    let (mut file, bytes) = open_file(path)?;
    let target = &one_of(&arguments.client, &arguments.target)?;
    let output = arguments.output.as_deref().map(|path| output_of(path, Kind::Data));
    let output = output.transpose()?;
    let mut remote = Remote::open(&target.server, &arguments.client, bytes)?;
    let mut output = output.map(|output| output.begin()).transpose()?;
    let into = output.as_mut().map(|(file, _)| file as &mut dyn std::io::Write);
    let trip = remote.files.round_trip(&target.card, &mut file, bytes, into, &remote.shown);
    let written = arguments.output.as_deref().unwrap_or(path);
    let outcome = block_on(trip).map_err(failed(path, written))?;
    if let Some((file, unfinished)) = output {
        unfinished.finish(&file)?;
    }
    remote.finish(&format!("{} -> {target} and back", path.display()), &outcome)
}

/// `bridge copy`.
pub fn copy(arguments: &CopyArguments) -> Result<()> {
    let CopyArguments { source, target, bytes, client } = arguments;
    let cards = found(client, &[source, target])?;
    let [source, target] = cards.as_slice() else { unreachable!("two cards were looked for") };
    let mut remote = Remote::open(&source.server, client, *bytes)?;
    let peer = peer_of(&source.server, target.clone());
    let outcome = block_on(remote.files.copy(&place(source), &peer, *bytes, &remote.shown));
    let outcome = outcome.map_err(failed(Path::new(""), Path::new("")))?;
    remote.finish(&format!("{source} -> {target}"), &outcome)
}

/// Opens a file with a length; also returns that.
///
/// # Errors
/// One that cannot be read, or is empty, or no file.
pub fn open_file(path: &Path) -> Result<(File, u64)> {
    let kind = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?.file_type();
    if !kind.is_file() {
        // To open a pipe would wait for somebody who writes.
        return Err(cannot_read(path, &"it is not a file with a length"));
    }
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    let bytes = file.metadata().map_err(|error| cannot_read(path, &error))?.len();
    if bytes == 0 {
        return Err(usage(format!("{} is empty", path.display())));
    }
    Ok((file, bytes))
}
