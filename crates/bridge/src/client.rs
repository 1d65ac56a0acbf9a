// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client, on any node: registers its memory, asks a server for a transfer, and waits; the
//! server's network moves the data.

use std::cell::Cell;
use std::ops::Range;
use std::pin::pin;
use std::sync::Mutex;

use crosslane_host::ErrorKind::{Data, InvalidArgument, Timeout};
use crosslane_host::{
    Clock, DmaMemory, Rdma, RdmaConnection, RdmaRegion, RemoteAccess, RemoteMemory, lock, setters,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};
use smart_default::SmartDefault;

use crate::control::Control;
use crate::deadline::{after, by};
use crate::error::{At, BridgeError, Result};
use crate::key::Key;
use crate::messages::{
    Carried, MOST_CARRIED_BYTES, PeerTarget, Reply, Request, Survey, TransferRequest,
};
use crate::report::{Mode, Path, Report};
use crate::stage::Stage;

/// Bytes that are read at once for a checksum.
const STEP_BYTES: u64 = 1 << 16;
/// Time for a server to answer a question about itself.
const ANSWER_TIME: Picoseconds = Picoseconds::from_secs(10);
/// Time after a transfer's deadline for the server to report how it ended.
const LAST_WORDS: Picoseconds = Picoseconds::from_secs(2);

/// Name and key of a client.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Name of the client in the server's policy; nothing for the one that its certificate is of.
    pub name: String,
    /// The key shared with the server, if the server demands one.
    pub key: Option<Key>,
}

/// Settings of a transfer. By default: pipelined, with a deadline of a minute.
#[derive(Clone, Copy, Debug, SmartDefault)]
#[non_exhaustive]
pub struct TransferOptions {
    /// Pipelined or naive.
    #[default(Mode::Pipelined)]
    pub mode: Mode,
    /// Least and most bytes of a chunk; `None` for the server's choice.
    pub chunk_bytes: Option<(u64, u64)>,
    /// Time until the deadline.
    #[default(Picoseconds::from_secs(60))]
    pub time: Picoseconds,
    /// Whether the server returns a checksum of the data.
    pub checksum: bool,
    /// Bytes at the beginning that have arrived before.
    pub first: u64,
    /// Longest put or get whose data travel within its messages, bytes; at most, and by default,
    /// [`MOST_CARRIED_BYTES`]. Longer ones, those with `chunk_bytes` and naive ones are moved by
    /// the network's reads and writes.
    #[default(MOST_CARRIED_BYTES)]
    pub carried_bytes: u64,
}

setters!(TransferOptions {
    with_mode(mode: Mode),
    with_chunk_bytes(chunk_bytes: Option<(u64, u64)>),
    with_time(time: impl Into<Picoseconds>),
    with_checksum(checksum: bool),
    with_first(first: u64),
    with_carried_bytes(carried_bytes: u64),
});

impl TransferOptions {
    /// Whether messages carry the data of a put or get of so many bytes.
    fn carries(&self, bytes: u64) -> bool {
        let is_plain = self.mode == Mode::Pipelined && self.chunk_bytes.is_none();
        is_plain && self.first == 0 && bytes <= self.carried_bytes.min(MOST_CARRIED_BYTES)
    }
}

/// A part of registered memory.
#[derive(Clone, Debug)]
pub struct MemoryPart<G> {
    /// The registration.
    pub region: G,
    /// The bytes of the region to use.
    pub range: Range<u64>,
}

/// A position in a card's memory: one end of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardPlace {
    /// Name of the card at the server.
    pub card: String,
    /// Offset of the first byte in the card's memory.
    pub address: u64,
}

/// A complete transfer, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The server's report.
    pub report: Report,
    /// Time from the request until the client knew that all was done.
    pub elapsed: Picoseconds,
}

impl Outcome {
    /// Returns the bytes per second, by the client's time.
    pub fn bytes_per_second(&self) -> f64 {
        match self.elapsed {
            Picoseconds::ZERO => 0.0,
            elapsed => self.report.bytes as f64 / elapsed.as_seconds(),
        }
    }

    /// Compares the server's checksum, if the transfer had [one](TransferOptions::checksum), with
    /// this node's memory: of a round trip, with what was sent. Bytes that had arrived
    /// [before](TransferOptions::first) are not compared.
    ///
    /// # Errors
    /// Data that were changed on the way, and memory that cannot be read.
    pub fn check<G: RdmaRegion>(&self, memory: &MemoryPart<G>) -> Result<()> {
        let Some(theirs) = self.report.checksum else { return Ok(()) };
        let mut own = crc32fast::Hasher::new();
        let mut step = vec![0; STEP_BYTES as usize];
        let Range { start, end } = memory.range;
        let start = end.saturating_sub(self.report.bytes).max(start);
        for at in (start..end).step_by(STEP_BYTES as usize) {
            let step = &mut step[..(end - at).min(STEP_BYTES) as usize];
            memory.region.memory().read(at, step)?;
            own.update(step);
        }
        let own = own.finalize();
        if own == theirs {
            return Ok(());
        }
        let why = format!(
            "data were changed on the way: CRC-32 {own:08x} here, {theirs:08x} at the server"
        );
        let bytes = self.report.bytes;
        Err(BridgeError::new(Stage::Request, Data, why).arrived(bytes, bytes))
    }
}

/// A connection to a server. It makes one transfer at a time; use several for more.
pub struct Client<R: Rdma, C> {
    rdma: R,
    pub(crate) clock: C,
    pub(crate) control: Control<R::Connection>,
    /// Bytes of the last transfer, from its beginning, up to which the server has sent a checksum,
    /// and that checksum.
    summed: Mutex<Option<(u64, u32)>>,
}

impl<R: Rdma, C: Clock> Client<R, C> {
    /// Connects and authenticates, in at most this time.
    ///
    /// # Errors
    /// If the server does not answer, the key does not match, or the time is over.
    pub async fn connect(
        rdma: R,
        clock: C,
        server: &str,
        identity: &Identity,
        time: impl Into<Picoseconds>,
    ) -> Result<Self> {
        let deadline = after(&clock, time.into());
        let connecting = async {
            let connection = rdma.connect(server, deadline).await.at(Stage::Connection)?;
            Control::greet(connection, identity).await
        };
        let what = format!("connecting to {server}");
        let control = by(&clock, deadline, Stage::Connection, &what, connecting).await?;
        Ok(Self { rdma, clock, control, summed: Mutex::default() })
    }

    /// Returns the network.
    pub fn rdma(&self) -> &R {
        &self.rdma
    }

    /// Returns the clock of deadlines.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Lists the names of the server's cards.
    ///
    /// # Errors
    /// If the connection to the server is lost, or it does not answer within 10 s.
    pub async fn cards(&self) -> Result<Vec<String>> {
        let names = |reply| if let Reply::Cards(names) = reply { Some(names) } else { None };
        self.ask(&Request::Cards, names).await
    }

    /// Describes the server and its cards, at most
    /// [`MOST_SURVEYED`](crate::messages::MOST_SURVEYED).
    ///
    /// # Errors
    /// As [`cards`](Self::cards).
    pub async fn survey(&self) -> Result<Survey> {
        let survey = |reply| if let Reply::Survey(survey) = reply { Some(survey) } else { None };
        self.ask(&Request::Survey, survey).await
    }

    /// Sends a request that is no transfer, and waits for the reply that `answer` takes.
    async fn ask<T>(&self, request: &Request, answer: impl Fn(Reply) -> Option<T>) -> Result<T> {
        let asking = async {
            self.control.send(request).await?;
            loop {
                let reply = match self.control.receive::<Reply>("a server's reply").await? {
                    Reply::Failed(failure) => return Err(failure.into()),
                    reply => reply,
                };
                // Others are of a transfer that was given up.
                if let Some(answer) = answer(reply) {
                    return Ok(answer);
                }
            }
        };
        let end = after(&self.clock, ANSWER_TIME);
        by(&self.clock, end, Stage::Connection, "waiting for the server to answer", asking).await
    }

    /// Moves memory of this node into a card's. The memory must be registered for remote reads.
    /// `progress` is called now and then with the bytes that have arrived.
    ///
    /// # Errors
    /// The stage and reason of a failure, and the bytes that had arrived. The connection is
    /// unusable afterwards, unless the server merely refused the request.
    pub async fn put(
        &self,
        from: &MemoryPart<R::Region>,
        to: &CardPlace,
        options: &TransferOptions,
        progress: impl FnMut(u64),
    ) -> Result<Outcome> {
        let length = bytes(from);
        let request = self.request(Path::ToFpga, to, length, options);
        let source = region(from)?;
        if !options.carries(length) {
            let request = TransferRequest { source: Some(source), ..request };
            return self.transfer(request, progress).await;
        }
        let mut data = vec![0; length as usize];
        from.region.memory().read(from.range.start, &mut data)?;
        let carried = Some(Carried::Put(data));
        self.transfer(TransferRequest { carried, ..request }, progress).await
    }

    /// Moves a card's memory into this node's, which must be registered for remote writes.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn get(
        &self,
        from: &CardPlace,
        to: &MemoryPart<R::Region>,
        options: &TransferOptions,
        progress: impl FnMut(u64),
    ) -> Result<Outcome> {
        let length = bytes(to);
        let request = self.request(Path::FromFpga, from, length, options);
        let destination = region(to)?;
        if !options.carries(length) {
            let request = TransferRequest { destination: Some(destination), ..request };
            return self.transfer(request, progress).await;
        }
        let request = TransferRequest { carried: Some(Carried::Get), ..request };
        let (outcome, data) = self.transfer_with_data(request, progress).await?;
        let (start, region) = (to.range.start, &to.region);
        region.memory().write(start, &data)?;
        // As after a write by the network, other nodes see them too.
        region.publish(start, length).at(Stage::Registration)?;
        Ok(outcome)
    }

    /// Moves memory of this node through a card's stream into memory of this node.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn round_trip(
        &self,
        card: &str,
        from: &MemoryPart<R::Region>,
        to: &MemoryPart<R::Region>,
        options: &TransferOptions,
        progress: impl FnMut(u64),
    ) -> Result<Outcome> {
        let place = CardPlace { card: card.to_owned(), address: 0 };
        let request = self.request(Path::RoundTrip, &place, bytes(from), options);
        let (source, destination) = (Some(region(from)?), Some(region(to)?));
        self.transfer(TransferRequest { source, destination, ..request }, progress).await
    }

    /// Moves a card's memory into that of a card of another server, or of a card of the same one if
    /// the peer's server is empty.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn copy(
        &self,
        from: &CardPlace,
        peer: PeerTarget,
        bytes: u64,
        options: &TransferOptions,
        progress: impl FnMut(u64),
    ) -> Result<Outcome> {
        let is_here = peer.server.is_empty();
        let path = if is_here { Path::WithinNode } else { Path::ToPeer };
        let request = self.request(path, from, bytes, options);
        self.transfer(TransferRequest { peer: Some(peer), ..request }, progress).await
    }

    /// Registers memory for transfers.
    ///
    /// # Errors
    /// If the memory cannot be registered.
    pub async fn register(&self, memory: &R::Memory, access: RemoteAccess) -> Result<R::Region> {
        self.rdma.register(memory, access).await.at(Stage::Registration)
    }

    /// Ends the connection.
    pub async fn close(self) {
        self.control.connection().close().await;
    }

    fn request(
        &self,
        path: Path,
        place: &CardPlace,
        bytes: u64,
        options: &TransferOptions,
    ) -> TransferRequest {
        TransferRequest {
            mode: options.mode,
            first: options.first,
            chunk_bytes: options.chunk_bytes,
            time_ps: options.time.0,
            checksum: options.checksum,
            ..TransferRequest::new(path, &place.card, place.address, bytes)
        }
    }

    async fn transfer(
        &self,
        request: TransferRequest,
        progress: impl FnMut(u64),
    ) -> Result<Outcome> {
        let (outcome, _) = self.transfer_with_data(request, progress).await?;
        Ok(outcome)
    }

    /// Makes a transfer; also returns the data that came with the answer, none unless they were
    /// asked for.
    async fn transfer_with_data(
        &self,
        request: TransferRequest,
        mut progress: impl FnMut(u64),
    ) -> Result<(Outcome, Vec<u8>)> {
        request.check()?;
        let begun = self.clock.now();
        let (first, total) = (request.first, request.bytes);
        let carried_bytes = if request.carried == Some(Carried::Get) { total } else { 0 };
        let time = Picoseconds(request.time_ps);
        self.control.send(&Request::Transfer(Box::new(request))).await?;
        let arrived = Cell::new(first);
        let is_refused = Cell::new(false);
        *lock(&self.summed) = None;
        let talking = async {
            loop {
                match self.control.receive::<Reply>("a server's reply").await? {
                    Reply::Done(report) if carried_bytes == 0 => return Ok((report, Vec::new())),
                    Reply::Data { report, data } if data.len() as u64 == carried_bytes => {
                        return Ok((report, data));
                    }
                    Reply::Done(_) | Reply::Data { .. } => {
                        let why = "the server's answer has not the data that were asked for";
                        return Err(BridgeError::new(Stage::Request, Data, why));
                    }
                    Reply::Failed(failure) => {
                        let error = BridgeError::from(failure);
                        // An error with a total is of a transfer that had begun.
                        is_refused.set(error.total_bytes == 0);
                        let refused = is_refused.get();
                        return Err(if refused { error.arrived(first, total) } else { error });
                    }
                    Reply::Progress { bytes, checksum } => {
                        if let Some(checksum) = checksum
                            && (first + 1..total).contains(&bytes)
                        {
                            *lock(&self.summed) = Some((bytes, checksum));
                        }
                        let bytes = bytes.clamp(arrived.get(), total);
                        arrived.set(bytes);
                        progress(bytes);
                    }
                    Reply::Ready => self.control.send(&Request::Ready).await?,
                    Reply::Taken { .. }
                    | Reply::Cards(_)
                    | Reply::Survey(_)
                    | Reply::Reloaded { .. } => {}
                }
            }
        };
        let end = begun.0.saturating_add(time.0).saturating_add(LAST_WORDS.0);
        let late = self.clock.sleep_until(Picoseconds(end));
        let (talking, late) = (pin!(talking), pin!(late));
        let result: Result<(Report, Vec<u8>)> = match select(talking, late).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                let why = "the server said nothing until after the deadline";
                Err(BridgeError::new(Stage::Connection, Timeout, why))
            }
        };
        match result {
            Ok((report, data)) => {
                let elapsed = self.clock.now().since(begun);
                Ok((Outcome { report, elapsed }, data))
            }
            Err(error) => {
                if !is_refused.get() {
                    // Nothing may arrive in this node's memory after this.
                    self.control.connection().close().await;
                }
                // The server's number may be any.
                let arrived_bytes = error.arrived_bytes.clamp(arrived.get(), total);
                Err(error.arrived(arrived_bytes, total))
            }
        }
    }

    /// Returns where the last transfer, which has failed, can be resumed: the byte up to which the
    /// server's checksum is known, and the checksum of what was moved before it.
    pub(crate) fn summed(&self) -> Option<(u64, u32)> {
        *lock(&self.summed)
    }

    /// Has the server stop this client's transfer, which then fails with the bytes that have
    /// arrived.
    ///
    /// # Errors
    /// If the connection to the server is lost.
    pub async fn cancel(&self) -> Result<()> {
        self.control.send(&Request::Cancel).await
    }
}

fn bytes<G>(part: &MemoryPart<G>) -> u64 {
    part.range.end.saturating_sub(part.range.start)
}

/// Describes a part of memory for the server.
pub(crate) fn region<G: RdmaRegion>(part: &MemoryPart<G>) -> Result<RemoteMemory> {
    let whole = part.region.remote();
    let Range { start, end } = part.range;
    if start > end || !whole.holds(start, end - start) {
        let have = whole.bytes;
        let why = format!("bytes {start} to {end} are not in registered memory of {have} B");
        return Err(BridgeError::new(Stage::Request, InvalidArgument, why));
    }
    Ok(RemoteMemory { address: whole.address + start, key: whole.key, bytes: end - start })
}
