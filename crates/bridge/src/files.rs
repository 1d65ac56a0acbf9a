// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files and other streams of bytes to and from a card at a server: in pieces, with a checksum of
//! each, and resumed on a new connection after one is lost.
//!
//! Read first: [`FileClient`]. Two pieces are in memory at a time, both in one registered region:
//! while the network moves one, the caller's stream is read into the other or written from it. The
//! stream is used in the task that polls the call, 256 KiB at a time, between which the transfer is
//! polled; this crate starts no thread. A network whose operations go on by themselves (libfabric,
//! a lab) then works at the same time as the disk.
//!
//! ```no_run
//! use crosslane_bridge::files::{FileClient, FileOptions};
//! use crosslane_bridge::{CardPlace, Identity};
//! # async fn put<R: crosslane_host::Rdma, C: crosslane_host::Clock>(network: R, clock: C)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let mut client =
//!     FileClient::new(network, clock, "node:7471", Identity::default(), FileOptions::default());
//! let mut file = std::fs::File::open("data.bin")?;
//! let bytes = file.metadata()?.len();
//! let to = CardPlace { card: "fpga0".to_owned(), address: 0 };
//! let put = client.put(&mut file, 0..bytes, &to, &()).await?;
//! println!("{} B, CRC-32 {:08x}", put.bytes, put.checksum.unwrap_or(0));
//! client.close().await;
//! # Ok(())
//! # }
//! ```

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::iter::Peekable;
use std::ops::Range;
use std::task::Poll;

use crc32fast::Hasher;
use crosslane_host::{
    Clock, DmaMemory, ErrorKind, PageSize, Rdma, RdmaRegion, RemoteAccess, kinds, setters,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::try_join;
use smart_default::SmartDefault;
use thiserror::Error;

use crate::chunks::{Chunking, Chunks};
use crate::client::{CardPlace, Client, Identity, MemoryPart, Outcome, TransferOptions};
use crate::deadline::after;
use crate::error::{At, BridgeError, Result};
use crate::messages::PeerTarget;
use crate::report::Report;
use crate::stage::Stage;

/// Pieces in memory at a time, for each direction: one at the network, one at the stream.
const BUFFERS: u64 = 2;
/// Bytes of a stream read or written at once, so that the transfer beside it is polled in between
/// and the bytes stay in a core's cache from the read to the checksum and the copy.
const STEP_BYTES: u64 = 256 << 10;

/// Longest time before a lost connection is replaced.
const LONGEST_BACK_OFF: Picoseconds = Picoseconds::from_secs(30);

/// Settings of a [`FileClient`]. By default: pieces of 2 to 32 MiB, three retries, ten minutes for
/// each piece and ten seconds to connect.
#[derive(Clone, Copy, Debug, SmartDefault)]
#[non_exhaustive]
pub struct FileOptions {
    /// Size of the largest piece, bytes; at least 1. Each is one transfer, and two are in memory.
    #[default(32 << 20)]
    pub piece_bytes: u64,
    /// Size of the first of several pieces, and the least of the last ones, bytes: they grow from
    /// it and shrink to it, so that network and stream wait little for each other at both ends.
    #[default(2 << 20)]
    pub least_piece_bytes: u64,
    /// Times that a lost connection is replaced during one call, or that this is tried.
    #[default(3)]
    pub retries: u32,
    /// Time before a lost connection is replaced; twice as long each time that fails, up to half a
    /// minute.
    #[default(Picoseconds::from_ns(500_000_000))]
    pub back_off: Picoseconds,
    /// Time until the deadline of each piece.
    #[default(Picoseconds::from_secs(600))]
    pub time: Picoseconds,
    /// Time for the server to answer a connection.
    #[default(Picoseconds::from_secs(10))]
    pub connecting: Picoseconds,
}

setters!(FileOptions {
    with_piece_bytes(piece_bytes: u64),
    with_least_piece_bytes(least_piece_bytes: u64),
    with_retries(retries: u32),
    with_back_off(back_off: impl Into<Picoseconds>),
    with_time(time: impl Into<Picoseconds>),
    with_connecting(connecting: impl Into<Picoseconds>),
});

/// Hears of the course of a call; `()` ignores it.
pub trait Watch {
    /// Notes that all bytes before this one have arrived.
    fn arrived(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Notes that the transfer was interrupted, and resumes behind the data that have arrived.
    fn resumed(&self, error: &BridgeError) {
        let _ = error;
    }
}

impl Watch for () {}

/// A complete call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOutcome {
    /// Bytes moved.
    pub bytes: u64,
    /// CRC-32 (IEEE 802.3) of these bytes, whose pieces are the same at both ends; `None` for a
    /// round trip whose data were written rather than compared.
    pub checksum: Option<u32>,
    /// Times that a lost connection was replaced.
    pub retries: u32,
    /// The server's report of each piece.
    pub reports: Vec<Report>,
}

impl FileOutcome {
    /// Joins the outcomes of consecutive parts of a whole; the checksum is that of the whole, if
    /// each part has one.
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let (mut whole, mut all) = (Self::default(), Some(Hasher::new()));
        for Self { bytes, checksum, retries, reports } in parts {
            all = all.zip(checksum).map(|(mut all, sum)| {
                all.combine(&Hasher::new_with_initial_len(sum, bytes));
                all
            });
            whole.bytes += bytes;
            whole.retries += retries;
            whole.reports.extend(reports);
        }
        Self { checksum: all.map(Hasher::finalize), ..whole }
    }
}

/// Cuts `bytes` bytes into consecutive ranges of equal length for several cards, in whole pages of
/// 4 KiB but for the last; few bytes need fewer ranges.
pub fn stripes(bytes: u64, cards: usize) -> Vec<Range<u64>> {
    const PAGE_BYTES: u64 = 4096;
    let length = bytes.div_ceil(cards.max(1) as u64).next_multiple_of(PAGE_BYTES);
    let starts = (0..bytes).step_by(length.max(PAGE_BYTES) as usize);
    starts.map(|start| start..bytes.min(start.saturating_add(length))).collect()
}

/// The error of a call. Pieces before it have arrived.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The transfer failed and was not, or could not be, resumed.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// No connection to the server came about, so that nothing has moved.
    #[error("{0}: never connected, so nothing has moved")]
    NeverConnected(#[source] BridgeError),
    /// The stream of data to send failed.
    #[error("cannot read the data to send: {0}")]
    Read(#[source] io::Error),
    /// The stream of data to send ended too early: a file that has become shorter.
    #[error("the data to send end at byte {at} of {bytes}")]
    Ended {
        /// Bytes of the stream that were there.
        at: u64,
        /// Bytes that it should have had.
        bytes: u64,
    },
    /// The stream for received data failed.
    #[error("cannot write the received data: {0}")]
    Write(#[source] io::Error),
    /// A piece has another checksum at the server.
    #[error(
        "data were changed on the way: the piece from byte {from} on has CRC-32 {own:08x} here, \
         and {theirs:08x} at the server"
    )]
    Changed {
        /// First byte of the piece.
        from: u64,
        /// Checksum at this node.
        own: u32,
        /// Checksum at the server.
        theirs: u32,
    },
    /// A piece of a compared round trip came back with other data.
    #[error("the data that came back from byte {from} on are not those that were sent")]
    Differs {
        /// First byte of the piece.
        from: u64,
    },
}

kinds!(FileError {
    Self::Bridge(error) | Self::NeverConnected(error) => error.kind(),
    Self::Read(error) | Self::Write(error) => error.kind().into(),
    Self::Changed { .. } | Self::Differs { .. } | Self::Ended { .. } => Data,
});

/// A client that moves streams of any length, and connects again after a lost connection.
pub struct FileClient<R: Rdma, C: Clock> {
    rdma: R,
    clock: C,
    server: String,
    identity: Identity,
    options: FileOptions,
    client: Option<Client<R, C>>,
}

/// Registered memory for two pieces.
struct Buffers<G> {
    region: G,
    piece_bytes: u64,
}

/// The path of a call.
enum Path<'a> {
    Put(&'a CardPlace),
    Get(&'a CardPlace),
    RoundTrip(&'a str),
}

/// The caller's streams.
struct Streams<'a> {
    source: Option<&'a mut dyn Read>,
    sink: Option<&'a mut dyn Write>,
}

/// A piece that the network has moved, with the checksums of what was sent and of what the server
/// moved.
struct Moved {
    number: u64,
    bytes: Range<u64>,
    sent: Option<Hasher>,
    theirs: u32,
}

impl<R: Rdma, C: Clock> FileClient<R, C> {
    /// Makes a client of a server. It connects when a call first needs it.
    pub fn new(rdma: R, clock: C, server: &str, identity: Identity, options: FileOptions) -> Self {
        Self { rdma, clock, server: server.to_owned(), identity, options, client: None }
    }

    /// Moves bytes into a card's memory. `bytes` are those of the whole to move: a reader whose
    /// first bytes have arrived before stands at `bytes.start`, and `to` is the place of byte 0.
    ///
    /// # Errors
    /// A failed transfer that could not be resumed, a reader that fails or ends before
    /// `bytes.end`, or another checksum at the server.
    pub async fn put(
        &mut self,
        from: &mut dyn Read,
        bytes: Range<u64>,
        to: &CardPlace,
        watch: &dyn Watch,
    ) -> Result<FileOutcome, FileError> {
        self.run(Path::Put(to), Streams { source: Some(from), sink: None }, bytes, watch).await
    }

    /// Moves `bytes` bytes of a card's memory to a writer, in order.
    ///
    /// # Errors
    /// As [`put`](Self::put), and a writer that fails. The bytes written by then are
    /// right, but for the last piece, whose checksum may be the error.
    pub async fn get(
        &mut self,
        from: &CardPlace,
        bytes: u64,
        into: &mut dyn Write,
        watch: &dyn Watch,
    ) -> Result<FileOutcome, FileError> {
        let streams = Streams { source: None, sink: Some(into) };
        self.run(Path::Get(from), streams, 0..bytes, watch).await
    }

    /// Moves bytes through a card's stream: back to a writer, or, without one, to be compared with
    /// those that were sent.
    ///
    /// # Errors
    /// As [`put`](Self::put) and [`get`](Self::get), and [`FileError::Differs`].
    pub async fn round_trip<'a>(
        &mut self,
        card: &str,
        from: &'a mut (dyn Read + 'a),
        bytes: u64,
        into: Option<&'a mut (dyn Write + 'a)>,
        watch: &dyn Watch,
    ) -> Result<FileOutcome, FileError> {
        let streams = Streams { source: Some(from), sink: into };
        self.run(Path::RoundTrip(card), streams, 0..bytes, watch).await
    }

    /// Moves a card's memory into that of a card of another server, or of one at the same server if
    /// the peer's is empty; then without a checksum, as nobody compares one.
    ///
    /// # Errors
    /// A failed transfer that could not be resumed.
    pub async fn copy(
        &mut self,
        from: &CardPlace,
        peer: &PeerTarget,
        bytes: u64,
        watch: &dyn Watch,
    ) -> Result<FileOutcome, FileError> {
        let mut outcome = FileOutcome { bytes, ..FileOutcome::default() };
        if bytes == 0 {
            return Ok(outcome);
        }
        let go = async |client: &Client<R, C>, options, progress: &dyn Fn(u64)| {
            client.copy(from, peer.clone(), bytes, &options, progress).await
        };
        // Two servers compare it.
        let is_compared = !peer.server.is_empty();
        outcome.checksum =
            self.transfer(0..bytes, (bytes, is_compared), &mut outcome, watch, go).await?;
        Ok(outcome)
    }

    /// Ends the connection.
    pub async fn close(self) {
        if let Some(client) = self.client {
            client.close().await;
        }
    }

    /// Moves all pieces: each while the one before it is written and the one after it is read.
    async fn run(
        &mut self,
        path: Path<'_>,
        mut streams: Streams<'_>,
        bytes: Range<u64>,
        watch: &dyn Watch,
    ) -> Result<FileOutcome, FileError> {
        let has_source = streams.source.is_some();
        let read = RemoteAccess { read: true, write: false };
        let out = if has_source { Some(self.buffers(&bytes, read).await?) } else { None };
        let comes_back = !matches!(path, Path::Put(_));
        let write = RemoteAccess { read: false, write: true };
        let back = if comes_back { Some(self.buffers(&bytes, write).await?) } else { None };
        let mut outcome =
            FileOutcome { bytes: bytes.end.saturating_sub(bytes.start), ..FileOutcome::default() };
        let (mut all, mut before) = (Hasher::new(), None);
        let mut pieces = self.pieces(&bytes).peekable();
        let next = |pieces: &mut Peekable<Chunks>| pieces.peek().cloned().unwrap_or_default();
        let mut sent = streams.fill(out.as_ref(), 0, &next(&mut pieces), bytes.end).await?;
        let mut number = 0;
        while let Some(now) = pieces.next() {
            let length = now.end - now.start;
            let go = async |client: &Client<R, C>, options, progress: &dyn Fn(u64)| {
                let from = out.as_ref().map(|buffers| buffers.part(number, length));
                let to = back.as_ref().map(|buffers| buffers.part(number, length));
                match (&path, from, to) {
                    (Path::Put(place), Some(from), _) => {
                        client.put(&from, &beyond(place, now.start)?, &options, progress).await
                    }
                    (Path::Get(place), _, Some(to)) => {
                        client.get(&beyond(place, now.start)?, &to, &options, progress).await
                    }
                    (Path::RoundTrip(card), Some(from), Some(to)) => {
                        client.round_trip(card, &from, &to, &options, progress).await
                    }
                    _ => Err(BridgeError::new(
                        Stage::Request,
                        ErrorKind::Unsupported,
                        "a file has no stream to move",
                    )),
                }
            };
            let beside = async {
                streams.drain(back.as_ref(), before.take(), &mut all).await?;
                streams.fill(out.as_ref(), number + 1, &next(&mut pieces), bytes.end).await
            };
            let moving = async {
                let of = (bytes.end, true);
                let moved = self.transfer(now.clone(), of, &mut outcome, watch, go).await;
                moved.and_then(|sum| sum.ok_or_else(|| no_checksum().into()))
            };
            let (theirs, next_sent) = try_join!(moving, beside)?;
            if let Some(sent) = &sent {
                check(sent, theirs, now.start)?;
                if !comes_back {
                    all.combine(sent);
                }
            }
            before = Some(Moved { number, bytes: now, sent, theirs });
            (sent, number) = (next_sent, number + 1);
        }
        let is_written = has_source && streams.sink.is_some();
        streams.drain(back.as_ref(), before, &mut all).await?;
        outcome.checksum = (!is_written).then(|| all.finalize());
        Ok(outcome)
    }

    /// Returns the pieces of a call: one, which moves or is refused as a whole, if that holds all.
    fn pieces(&self, bytes: &Range<u64>) -> Chunks {
        let FileOptions { piece_bytes, least_piece_bytes, .. } = self.options;
        let is_one = bytes.end.saturating_sub(bytes.start) <= piece_bytes;
        let least_bytes = if is_one { piece_bytes } else { least_piece_bytes };
        Chunks::new(Chunking { least_bytes, most_bytes: piece_bytes }, bytes.clone())
    }

    /// Allocates memory for the pieces of a call, and registers it for what the server has to do.
    async fn buffers(
        &self,
        bytes: &Range<u64>,
        access: RemoteAccess,
    ) -> Result<Buffers<R::Region>> {
        let total_bytes = bytes.end.saturating_sub(bytes.start).max(1);
        let piece_bytes = self.options.piece_bytes.clamp(1, total_bytes);
        let buffers = self.pieces(bytes).take(BUFFERS as usize).count().max(1) as u64;
        let most = buffers.saturating_mul(piece_bytes);
        let memory = self.rdma.allocate(most, PageSize::Huge).at(Stage::Registration)?;
        let region = self.rdma.register(&memory, access).await;
        Ok(Buffers { region: region.at(Stage::Registration)?, piece_bytes })
    }

    /// Makes the transfer of a piece of `total_bytes`; after an interruption it resumes behind the
    /// data that have arrived and whose checksum the server has told. Returns the server's checksum
    /// of the piece, whichever connections moved it, if it is to be compared.
    async fn transfer<F>(
        &mut self,
        bytes: Range<u64>,
        (total_bytes, checksum): (u64, bool),
        outcome: &mut FileOutcome,
        watch: &dyn Watch,
        go: F,
    ) -> Result<Option<u32>, FileError>
    where
        F: AsyncFn(&Client<R, C>, TransferOptions, &dyn Fn(u64)) -> Result<Outcome>,
    {
        let (time, length) = (self.options.time, bytes.end - bytes.start);
        let mut options = TransferOptions { time, checksum, ..TransferOptions::default() };
        let (mut summed, mut back_off) = (Hasher::new(), self.options.back_off);
        let mut is_interrupted = false;
        loop {
            let connected = match self.client.take() {
                Some(client) => Ok(client),
                None => self.connect().await,
            };
            let progress = |arrived| watch.arrived(bytes.start + arrived);
            let (moved, client) = match connected {
                Ok(client) => (go(&client, options, &progress).await, Some(client)),
                Err(error) if outcome.reports.is_empty() && !is_interrupted => {
                    return Err(FileError::NeverConnected(error));
                }
                Err(error) => (Err(error.arrived(options.first, length)), None),
            };
            let error = match moved {
                Ok(Outcome { report, .. }) => {
                    self.client = client;
                    watch.arrived(bytes.end);
                    if checksum {
                        let last = report.checksum.ok_or_else(no_checksum)?;
                        summed.combine(&Hasher::new_with_initial_len(last, length - options.first));
                    }
                    outcome.reports.push(report);
                    return Ok(checksum.then(|| summed.finalize()));
                }
                // Of the file, not of the piece.
                Err(error) => {
                    let arrived_bytes = bytes.start + error.arrived_bytes;
                    error.arrived(arrived_bytes, total_bytes)
                }
            };
            let was_connected = client.is_some();
            if let Some((upto, sum)) = client.and_then(|client| client.summed()) {
                summed.combine(&Hasher::new_with_initial_len(sum, upto - options.first));
                options.first = upto;
                back_off = self.options.back_off;
            }
            let may_resume = is_mendable(&error) && (was_connected || is_interrupted);
            if !may_resume || outcome.retries >= self.options.retries {
                return Err(error.into());
            }
            outcome.retries += 1;
            is_interrupted = true;
            watch.resumed(&error);
            self.clock.sleep_until(after(&self.clock, back_off)).await;
            back_off = Picoseconds(back_off.0.saturating_mul(2)).min(LONGEST_BACK_OFF);
        }
    }

    async fn connect(&self) -> Result<Client<R, C>> {
        let (rdma, clock) = (self.rdma.clone(), self.clock.clone());
        let time = self.options.connecting;
        Client::connect(rdma, clock, &self.server, &self.identity, time).await
    }
}

impl<G: RdmaRegion> Buffers<G> {
    /// Returns the offset of a piece's first byte: pieces take turns.
    fn offset(&self, number: u64) -> u64 {
        number % BUFFERS * self.piece_bytes
    }

    fn part(&self, number: u64, bytes: u64) -> MemoryPart<G> {
        let start = self.offset(number);
        MemoryPart { region: self.region.clone(), range: start..start + bytes }
    }
}

impl Streams<'_> {
    /// Reads a piece into its buffer; returns its checksum, or `None` if nothing is to be read.
    async fn fill<G: RdmaRegion>(
        &mut self,
        buffers: Option<&Buffers<G>>,
        number: u64,
        bytes: &Range<u64>,
        total_bytes: u64,
    ) -> Result<Option<Hasher>, FileError> {
        let (Some(source), Some(buffers)) = (&mut self.source, buffers) else { return Ok(None) };
        let (length, mut hasher) = (bytes.end - bytes.start, Hasher::new());
        let mut step = vec![0; length.min(STEP_BYTES) as usize];
        for at in (0..length).step_by(STEP_BYTES as usize) {
            let step = &mut step[..(length - at).min(STEP_BYTES) as usize];
            let have = read_whole(*source, step).map_err(FileError::Read)?;
            if have < step.len() {
                let at = bytes.start + at + have as u64;
                return Err(FileError::Ended { at, bytes: total_bytes });
            }
            hasher.update(step);
            let written = buffers.region.memory().write(buffers.offset(number) + at, step);
            written.map_err(BridgeError::from)?;
            pause().await;
        }
        Ok(Some(hasher))
    }

    /// Writes a piece that has come back, or compares it with what was sent, and adds it to the
    /// checksum of all.
    async fn drain<G: RdmaRegion>(
        &mut self,
        buffers: Option<&Buffers<G>>,
        moved: Option<Moved>,
        all: &mut Hasher,
    ) -> Result<(), FileError> {
        let (Some(moved), Some(buffers)) = (moved, buffers) else { return Ok(()) };
        let from = moved.bytes.start;
        let (length, mut hasher) = (moved.bytes.end - from, Hasher::new());
        let mut step = vec![0; length.min(STEP_BYTES) as usize];
        for at in (0..length).step_by(STEP_BYTES as usize) {
            let step = &mut step[..(length - at).min(STEP_BYTES) as usize];
            let read = buffers.region.memory().read(buffers.offset(moved.number) + at, step);
            read.map_err(BridgeError::from)?;
            hasher.update(step);
            if let Some(sink) = &mut self.sink {
                sink.write_all(step).map_err(FileError::Write)?;
            }
            pause().await;
        }
        all.combine(&hasher);
        match moved.sent {
            None => check(&hasher, moved.theirs, from),
            Some(sent) if self.sink.is_none() && sent.clone().finalize() != hasher.finalize() => {
                Err(FileError::Differs { from })
            }
            Some(_) => Ok(()),
        }
    }
}

/// Fills a buffer from a stream, or what there is of it.
fn read_whole(source: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match source.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// Returns the place that is so far behind another.
fn beyond(place: &CardPlace, offset_bytes: u64) -> Result<CardPlace> {
    let CardPlace { card, address } = place;
    let Some(address) = address.checked_add(offset_bytes) else {
        let why = format!("no card has {offset_bytes} B from address {address:#x} on");
        return Err(BridgeError::new(Stage::Request, ErrorKind::InvalidArgument, why));
    };
    Ok(CardPlace { card: card.clone(), address })
}

/// Whether another connection may mend an interruption.
fn is_mendable(error: &BridgeError) -> bool {
    use ErrorKind::{Data, Denied, InvalidArgument, NotFound, Unsupported};
    matches!(error.stage, Stage::Connection | Stage::RdmaRead | Stage::RdmaWrite)
        && !matches!(error.kind(), Data | Denied | InvalidArgument | NotFound | Unsupported)
}

fn no_checksum() -> BridgeError {
    BridgeError::new(Stage::Request, ErrorKind::Data, "the server has sent no checksum")
}

/// Compares a piece's checksum with the server's.
fn check(own: &Hasher, theirs: u32, from: u64) -> Result<(), FileError> {
    let own = own.clone().finalize();
    match theirs == own {
        true => Ok(()),
        false => Err(FileError::Changed { from, own, theirs }),
    }
}

/// Yields once, so that the transfer beside a stream is polled.
pub(crate) async fn pause() {
    let mut has_paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_whole_pages_and_cover_all() {
        assert_eq!(stripes(10_000, 2), [0..8192, 8192..10_000]);
        assert_eq!(stripes(8192, 2), [0..4096, 4096..8192]);
        assert_eq!(stripes(5, 3), std::slice::from_ref(&(0..5)));
        assert_eq!(stripes(8193, 3), [0..4096, 4096..8192, 8192..8193]);
        assert_eq!(stripes(0, 3), []);
    }

    #[test]
    fn parts_have_the_checksum_of_the_whole() {
        let data: Vec<u8> = (0..10_000_u32).map(|n| (n * 7) as u8).collect();
        let part = |range: Range<usize>| FileOutcome {
            bytes: range.len() as u64,
            checksum: Some(crc32fast::hash(&data[range])),
            retries: 1,
            reports: Vec::new(),
        };
        let whole = FileOutcome::joined([part(0..8192), part(8192..8193), part(8193..10_000)]);
        assert_eq!((whole.bytes, whole.retries), (10_000, 3));
        assert_eq!(whole.checksum, Some(crc32fast::hash(&data)));
        let not_compared = FileOutcome { checksum: None, ..part(0..9) };
        assert_eq!(FileOutcome::joined([part(0..9), not_compared]).checksum, None);
    }
}
