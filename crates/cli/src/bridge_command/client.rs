// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files to and from a card of another node.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use crosslane_bridge::messages::PeerTarget;
use crosslane_bridge::{
    BridgeError, CardAddress, CardPlace, Client, Identity, MemoryPart, Outcome, Report,
    TransferOptions,
};
use crosslane_host::{Clock, DmaMemory, PageSize, Rdma, RdmaRegion, RemoteAccess};
use crosslane_libfabric::{MachineClock, Network, Region};
use crosslane_pcie::units::Picoseconds;
use serde_json::json;

use super::arguments::{
    ClientArguments, CopyArguments, GetArguments, PutArguments, RoundtripArguments,
};
use super::network;
use crate::error::CommandError;
use crate::output;
use crate::output_file::{Kind, OutputFile};
use crate::progress::Transferred;
use crate::terminal::fitted;

/// Most bytes of a file that are in memory at once: a longer one goes in pieces.
const PIECE_BYTES: u64 = 256 << 20;
/// Time for a server to answer a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// A server, connected again where a transfer was interrupted.
struct Remote<'a> {
    clock: MachineClock,
    network: Network,
    why_network: String,
    server: String,
    identity: Identity,
    arguments: &'a ClientArguments,
    client: Option<Client<Network, MachineClock>>,
    retried: u32,
    reports: Vec<Report>,
    begun: Picoseconds,
}

impl<'a> Remote<'a> {
    fn open(server: &str, arguments: &'a ClientArguments) -> Result<Self, CommandError> {
        let clock = MachineClock::new();
        let identity = network::identity(arguments)?;
        let (network, why_network) = network::open(arguments.network, server, &clock)?;
        let begun = clock.now();
        Ok(Self {
            clock,
            network,
            why_network,
            server: server.to_owned(),
            identity,
            arguments,
            client: None,
            retried: 0,
            reports: Vec::new(),
            begun,
        })
    }

    fn memory(&self, bytes: u64) -> Result<Region, CommandError> {
        let memory = self.network.allocate(bytes.max(1), PageSize::Huge)?;
        let registering = self.network.register(&memory, RemoteAccess::READ_WRITE);
        Ok(futures_executor::block_on(registering)?)
    }

    fn options(&self) -> TransferOptions {
        TransferOptions {
            time: Picoseconds(self.arguments.timeout * 1_000_000_000_000),
            checksum: true,
            ..TransferOptions::default()
        }
    }

    /// Makes a transfer of so many bytes; where it is interrupted it goes on from what has
    /// arrived.
    fn transfer(
        &mut self,
        bytes: u64,
        bar: &Transferred,
        go: impl AsyncFn(
            &Client<Network, MachineClock>,
            TransferOptions,
            &dyn Fn(u64),
        ) -> Result<Outcome, BridgeError>,
    ) -> Result<Vec<Option<u32>>, CommandError> {
        let mut options = self.options();
        let before = bar.position();
        let mut checksums = Vec::new();
        loop {
            let result = futures_executor::block_on(async {
                let client = match self.client.take() {
                    Some(client) => client,
                    None => self.connect().await?,
                };
                let progress = |arrived| bar.set(before + arrived);
                let outcome = go(&client, options, &progress).await?;
                self.client = Some(client);
                Ok::<_, BridgeError>(outcome)
            });
            match result {
                Ok(outcome) => {
                    bar.set(before + bytes);
                    checksums.push(outcome.report.checksum);
                    self.reports.push(outcome.report);
                    return Ok(checksums);
                }
                Err(error) if self.may_go_on(&error, &options) => {
                    self.retried += 1;
                    output::print_hint(&format!("{error}; it goes on from there"));
                    if error.arrived_bytes > options.first {
                        // What the server has summed up of the part that it has is lost.
                        checksums.push(None);
                    }
                    options.first = options.first.max(error.arrived_bytes);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether an interruption is one that another connection may mend.
    fn may_go_on(&self, error: &BridgeError, options: &TransferOptions) -> bool {
        use crosslane_bridge::Stage::{Connection, RdmaRead, RdmaWrite};
        self.retried < self.arguments.retries
            && error.total_bytes > options.first
            && error.arrived_bytes < error.total_bytes
            && matches!(error.stage, Connection | RdmaRead | RdmaWrite)
    }

    async fn connect(&self) -> Result<Client<Network, MachineClock>, BridgeError> {
        let deadline = self.clock.after(CONNECTING);
        let (network, clock) = (self.network.clone(), self.clock.clone());
        Client::connect(network, clock, &self.server, &self.identity, deadline).await
    }

    /// What was done, for the user.
    fn finish(mut self, what: &str, bytes: u64, checksum: Option<u32>) -> Result<(), CommandError> {
        let seconds = self.clock.now().since(self.begun).as_seconds();
        if let Some(client) = self.client.take() {
            futures_executor::block_on(client.close());
        }
        if self.arguments.json {
            let why: Vec<String> = self.reports.iter().map(Report::why_not_faster).collect();
            return output::print_json(&json!({
                "what": what,
                "bytes": bytes,
                "seconds": seconds,
                "bytes_per_second": bytes as f64 / seconds,
                "crc32": checksum.map(|checksum| format!("{checksum:08x}")),
                "network": self.network.name(),
                "retries": self.retried,
                "transfers": self.reports,
                "why_not_faster": why,
            }));
        }
        let mut page = format!(
            "{what}: {bytes} B in {seconds:.3} s, {:.1} MB/s ({})\n",
            bytes as f64 / seconds / 1e6,
            if self.retried > 0 {
                format!("{} times gone on", self.retried)
            } else {
                "whole".into()
            }
        );
        if let Some(checksum) = checksum {
            page += &format!("CRC-32 {checksum:08x}, the same at both ends\n");
        }
        page += &format!("network: {}, because {}\n", self.network.name(), self.why_network);
        page += &pages_of(&self.reports);
        output::print(&page)
    }
}

/// What the server says of the transfers, the slowest first of several.
fn pages_of(reports: &[Report]) -> String {
    let slowest =
        reports.iter().min_by(|a, b| a.bytes_per_second().total_cmp(&b.bytes_per_second()));
    let Some(report) = slowest else { return String::new() };
    let mut page = String::new();
    if reports.len() > 1 {
        page += &format!("{} transfers, the slowest of them:\n", reports.len());
    }
    page += &stage_lines(report);
    page += &format!("why not faster: {}\n", report.why_not_faster());
    page
}

/// A line for each stage of a transfer.
pub fn stage_lines(report: &Report) -> String {
    let mut page = String::new();
    for stage in &report.stages {
        let line = format!(
            "  {:10}  busy {:5.1} %, {:8.1} MB/s while busy, waited for slots {:5.1} %, {} \
             operations",
            stage.stage.to_string(),
            100.0 * report.busy(stage),
            stage.bytes_per_second_busy() / 1e6,
            100.0 * stage.waiting_for_slot_ps as f64 / report.elapsed_ps.max(1) as f64,
            stage.operations
        );
        page += &format!("{}\n", fitted(&line));
    }
    if let Some(seconds) = report.processor_seconds_per_gib() {
        page += &format!("  processor of the server: {seconds:.3} s for each GiB\n");
    }
    page
}

fn cannot_read(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Input(format!("{} cannot be read: {error}", path.display()))
}

fn cannot_write(path: &Path) -> impl Fn(std::io::Error) -> CommandError {
    move |source| CommandError::File { path: path.to_owned(), source }
}

/// The pieces of so many bytes.
fn pieces(from: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (from..bytes)
        .step_by(PIECE_BYTES as usize)
        .map(move |start| (start, PIECE_BYTES.min(bytes - start)))
}

fn place(address: &CardAddress, offset: u64) -> Result<CardPlace, CommandError> {
    let Some(first) = address.address.checked_add(offset) else {
        return Err(CommandError::Usage(format!("no card has memory behind {address}")));
    };
    Ok(CardPlace { card: address.card.clone(), address: first })
}

/// Reads a piece of a file into registered memory; gives its checksum.
fn read_piece(
    file: &mut File,
    path: &Path,
    region: &Region,
    bytes: u64,
) -> Result<crc32fast::Hasher, CommandError> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(buffer.len() as u64) as usize;
        file.read_exact(&mut buffer[..length]).map_err(|error| cannot_read(path, &error))?;
        hasher.update(&buffer[..length]);
        region.memory().write(at, &buffer[..length]).map_err(in_memory)?;
        at += length as u64;
    }
    Ok(hasher)
}

fn in_memory(error: crosslane_host::BusError) -> CommandError {
    CommandError::Input(error.to_string())
}

/// What lies in registered memory, piece by piece.
fn each_of(
    region: &Region,
    bytes: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(buffer.len() as u64) as usize;
        region.memory().read(at, &mut buffer[..length]).map_err(in_memory)?;
        take(&buffer[..length])?;
        at += length as u64;
    }
    Ok(())
}

/// Whether the server's checksum is this one; one that it has not given says nothing.
fn check(own: u32, theirs: &[Option<u32>], at: u64) -> Result<(), CommandError> {
    match theirs {
        [Some(theirs)] if *theirs != own => Err(CommandError::Input(format!(
            "data were changed on the way: the piece from byte {at} on has CRC-32 {own:08x} here, \
             and {theirs:08x} at the server"
        ))),
        _ => Ok(()),
    }
}

fn part(region: &Region, bytes: u64) -> MemoryPart<Region> {
    MemoryPart { region: region.clone(), range: 0..bytes }
}

/// `bridge put`.
pub fn put(arguments: &PutArguments) -> Result<(), CommandError> {
    let path = &arguments.file;
    let (mut file, bytes) = open_file(path)?;
    if arguments.resume >= bytes {
        let (resume, name) = (arguments.resume, path.display());
        let why = format!("--resume {resume}: {name} has {bytes} B");
        return Err(CommandError::Usage(why));
    }
    skip(&mut file, path, arguments.resume)?;
    let mut remote = Remote::open(&arguments.target.server, &arguments.client)?;
    let region = remote.memory(PIECE_BYTES.min(bytes))?;
    let bar = Transferred::new(bytes);
    bar.set(arguments.resume);
    let mut all = crc32fast::Hasher::new();
    for (start, length) in pieces(arguments.resume, bytes) {
        let hasher = read_piece(&mut file, path, &region, length)?;
        let (from, to) = (part(&region, length), place(&arguments.target, start)?);
        let theirs = remote.transfer(length, &bar, async |client, options, progress| {
            client.put(&from, &to, &options, progress).await
        })?;
        check(hasher.clone().finalize(), &theirs, start)?;
        all.combine(&hasher);
    }
    bar.finish();
    let what = format!("{} -> {}", path.display(), arguments.target);
    remote.finish(&what, bytes - arguments.resume, Some(all.finalize()))
}

/// `bridge get`.
pub fn get(arguments: &GetArguments) -> Result<(), CommandError> {
    let path = &arguments.file;
    let output = OutputFile::file(path, Kind::Data)?;
    let bytes = arguments.bytes;
    let mut remote = Remote::open(&arguments.source.server, &arguments.client)?;
    let region = remote.memory(PIECE_BYTES.min(bytes))?;
    let bar = Transferred::new(bytes);
    let (mut file, unfinished) = output.begin()?;
    let mut all = crc32fast::Hasher::new();
    for (start, length) in pieces(0, bytes) {
        let (from, to) = (place(&arguments.source, start)?, part(&region, length));
        let theirs = remote.transfer(length, &bar, async |client, options, progress| {
            client.get(&from, &to, &options, progress).await
        })?;
        let mut hasher = crc32fast::Hasher::new();
        each_of(&region, length, |piece| {
            hasher.update(piece);
            file.write_all(piece).map_err(cannot_write(path))
        })?;
        check(hasher.clone().finalize(), &theirs, start)?;
        all.combine(&hasher);
    }
    unfinished.finish(&file)?;
    bar.finish();
    let what = format!("{} -> {}", arguments.source, path.display());
    remote.finish(&what, bytes, Some(all.finalize()))
}

/// `bridge roundtrip`.
pub fn roundtrip(arguments: &RoundtripArguments) -> Result<(), CommandError> {
    let path = &arguments.file;
    let (mut file, bytes) = open_file(path)?;
    let output = arguments.output.as_deref().map(|path| OutputFile::file(path, Kind::Data));
    let output = output.transpose()?;
    let mut remote = Remote::open(&arguments.target.server, &arguments.client)?;
    let (out, back) =
        (remote.memory(PIECE_BYTES.min(bytes))?, remote.memory(PIECE_BYTES.min(bytes))?);
    let bar = Transferred::new(bytes);
    let mut output = output.map(|output| output.begin()).transpose()?;
    let mut all = crc32fast::Hasher::new();
    for (start, length) in pieces(0, bytes) {
        let sent = read_piece(&mut file, path, &out, length)?;
        let (from, to) = (part(&out, length), part(&back, length));
        let card = &arguments.target.card;
        let theirs = remote.transfer(length, &bar, async |client, options, progress| {
            client.round_trip(card, &from, &to, &options, progress).await
        })?;
        check(sent.clone().finalize(), &theirs, start)?;
        let mut returned = crc32fast::Hasher::new();
        each_of(&back, length, |piece| {
            returned.update(piece);
            match &mut output {
                Some((file, unfinished)) => {
                    file.write_all(piece).map_err(cannot_write(unfinished.path()))
                }
                None => Ok(()),
            }
        })?;
        if output.is_none() && returned.clone().finalize() != sent.finalize() {
            let why = format!("what has come back from byte {start} on is not what was sent");
            return Err(CommandError::Input(why));
        }
        all.combine(&returned);
    }
    let is_compared = output.is_none();
    if let Some((file, unfinished)) = output {
        unfinished.finish(&file)?;
    }
    bar.finish();
    let what = format!("{} -> {} and back", path.display(), arguments.target);
    remote.finish(&what, bytes, is_compared.then(|| all.finalize()))
}

/// `bridge copy`.
pub fn copy(arguments: &CopyArguments) -> Result<(), CommandError> {
    let bytes = arguments.bytes;
    let mut remote = Remote::open(&arguments.source.server, &arguments.client)?;
    let bar = Transferred::new(bytes);
    let from = place(&arguments.source, 0)?;
    remote.transfer(bytes, &bar, async |client, options, progress| {
        let CardAddress { server, card, address } = arguments.target.clone();
        let peer = PeerTarget { server, card, address };
        client.copy(&from, peer, bytes, &options, progress).await
    })?;
    bar.finish();
    let what = format!("{} -> {}", arguments.source, arguments.target);
    remote.finish(&what, bytes, None)
}

fn open_file(path: &Path) -> Result<(File, u64), CommandError> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    let bytes = file.metadata().map_err(|error| cannot_read(path, &error))?.len();
    if bytes == 0 {
        return Err(CommandError::Usage(format!("{} has nothing in it", path.display())));
    }
    Ok((file, bytes))
}

fn skip(file: &mut File, path: &Path, bytes: u64) -> Result<(), CommandError> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(bytes)).map_err(|error| cannot_read(path, &error))?;
    Ok(())
}
