// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client: on any node. It registers its memory, asks a server for a transfer, and waits; the
//! server's network moves the data.

use std::ops::Range;
use std::pin::pin;

use crosslane_host::{Clock, Rdma, RdmaConnection, RdmaRegion, RemoteAccess};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};

use crate::control::Control;
use crate::deadline::by;
use crate::error::BridgeError;
use crate::key::Key;
use crate::messages::{PeerTarget, Region, Reply, Request, TransferRequest};
use crate::report::{Mode, Path, Report};
use crate::stage::Stage;

/// Time beyond a transfer's deadline in which the server may still say how it ended.
const LAST_WORDS: Picoseconds = Picoseconds::from_ns(2_000_000_000);

/// Who a client is.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Its name at the server.
    pub name: String,
    /// The key that it shares with the server, where the server wants one.
    pub key: Option<Key>,
}

/// How a transfer is to be made.
#[derive(Clone, Copy, Debug)]
pub struct TransferOptions {
    /// Stages at once or one after the other.
    pub mode: Mode,
    /// Least and most bytes of a chunk; none for what the server thinks best.
    pub chunk_bytes: Option<(u64, u64)>,
    /// Time until it has failed.
    pub time: Picoseconds,
    /// Whether the server gives a checksum of what it has moved.
    pub checksum: bool,
    /// Bytes at the beginning that have arrived before.
    pub first: u64,
}

impl Default for TransferOptions {
    /// Pipelined, a minute.
    fn default() -> Self {
        Self {
            mode: Mode::Pipelined,
            chunk_bytes: None,
            time: Picoseconds::from_ns(60_000_000_000),
            checksum: false,
            first: 0,
        }
    }
}

/// A part of registered memory.
#[derive(Clone, Debug)]
pub struct MemoryPart<G> {
    /// The registration.
    pub region: G,
    /// Which bytes.
    pub range: Range<u64>,
}

/// A card's memory: where a transfer ends or begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardPlace {
    /// Name of the card at the server.
    pub card: String,
    /// First byte.
    pub address: u64,
}

/// A transfer that is complete, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the server says.
    pub report: Report,
    /// From the request until the client knew that all was done.
    pub elapsed: Picoseconds,
}

impl Outcome {
    /// Bytes per second, as the client has them.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        match self.elapsed {
            Picoseconds::ZERO => 0.0,
            elapsed => self.report.bytes as f64 / elapsed.as_seconds(),
        }
    }
}

/// A connection to a server. It makes one transfer at a time; connect more often for more.
pub struct Client<R: Rdma, C> {
    rdma: R,
    clock: C,
    control: Control<R::Connection>,
}

impl<R: Rdma, C: Clock> Client<R, C> {
    /// Connects and shows who it is.
    ///
    /// # Errors
    /// Nobody is there, a key that does not fit, or the deadline has passed.
    pub async fn connect(
        rdma: R,
        clock: C,
        server: &str,
        identity: &Identity,
        deadline: Picoseconds,
    ) -> Result<Self, BridgeError> {
        let connecting = async {
            let connection = rdma
                .connect(server, deadline)
                .await
                .map_err(BridgeError::network(Stage::Connection))?;
            Control::greet(connection, &identity.name, identity.key.as_ref()).await
        };
        let what = format!("connecting to {server}");
        let control = by(&clock, deadline, Stage::Connection, &what, connecting).await?;
        Ok(Self { rdma, clock, control })
    }

    /// The network.
    #[must_use]
    pub fn rdma(&self) -> &R {
        &self.rdma
    }

    /// The clock of deadlines.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Names of the server's cards.
    ///
    /// # Errors
    /// The server is lost.
    pub async fn cards(&self) -> Result<Vec<String>, BridgeError> {
        self.control.send(&Request::Cards).await?;
        loop {
            match self.control.receive::<Reply>("a server's reply").await? {
                Reply::Cards(names) => return Ok(names),
                Reply::Failed(failure) => return Err(failure.into()),
                // Of a transfer that was given up.
                Reply::Ready | Reply::Taken { .. } | Reply::Progress { .. } | Reply::Done(_) => {}
            }
        }
    }

    /// Moves memory of this node into a card's. The memory must be registered for remote reads.
    /// `progress` hears now and then how many bytes have arrived.
    ///
    /// # Errors
    /// Where and why it failed, and what had arrived; the connection is of no more use then, but
    /// where the server refused the request.
    pub async fn put(
        &self,
        from: &MemoryPart<R::Region>,
        to: &CardPlace,
        options: &TransferOptions,
        progress: impl FnMut(u64),
    ) -> Result<Outcome, BridgeError> {
        let request = self.request(Path::ToFpga, to, bytes(from), options);
        let request = TransferRequest { source: Some(region(from)?), ..request };
        self.transfer(request, progress).await
    }

    /// Moves memory of a card into this node's. The memory must be registered for remote writes.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn get(
        &self,
        from: &CardPlace,
        to: &MemoryPart<R::Region>,
        options: &TransferOptions,
        progress: impl FnMut(u64),
    ) -> Result<Outcome, BridgeError> {
        let request = self.request(Path::FromFpga, from, bytes(to), options);
        let request = TransferRequest { destination: Some(region(to)?), ..request };
        self.transfer(request, progress).await
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
    ) -> Result<Outcome, BridgeError> {
        let place = CardPlace { card: card.to_owned(), address: 0 };
        let request = self.request(Path::RoundTrip, &place, bytes(from), options);
        let (source, destination) = (Some(region(from)?), Some(region(to)?));
        self.transfer(TransferRequest { source, destination, ..request }, progress).await
    }

    /// Moves memory of a card of this server into that of a card of another server.
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
    ) -> Result<Outcome, BridgeError> {
        let request = self.request(Path::ToPeer, from, bytes, options);
        self.transfer(TransferRequest { peer: Some(peer), ..request }, progress).await
    }

    /// Registers memory as a transfer needs it.
    ///
    /// # Errors
    /// Memory that cannot be registered.
    pub async fn register(
        &self,
        memory: &R::Memory,
        access: RemoteAccess,
    ) -> Result<R::Region, BridgeError> {
        let registered = self.rdma.register(memory, access).await;
        registered.map_err(BridgeError::network(Stage::Registration))
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
            path,
            mode: options.mode,
            card: place.card.clone(),
            address: place.address,
            bytes,
            first: options.first,
            source: None,
            is_announced: false,
            destination: None,
            peer: None,
            chunk_bytes: options.chunk_bytes,
            time_ps: options.time.0,
            checksum: options.checksum,
        }
    }

    async fn transfer(
        &self,
        request: TransferRequest,
        mut progress: impl FnMut(u64),
    ) -> Result<Outcome, BridgeError> {
        request.check()?;
        let begun = self.clock.now();
        let (first, total) = (request.first, request.bytes);
        let time = Picoseconds(request.time_ps);
        self.control.send(&Request::Transfer(request)).await?;
        let arrived = std::cell::Cell::new(first);
        let is_refused = std::cell::Cell::new(false);
        let talking = async {
            loop {
                match self.control.receive::<Reply>("a server's reply").await? {
                    Reply::Done(report) => return Ok(report),
                    Reply::Failed(failure) => {
                        let error = BridgeError::from(failure);
                        // One that has begun says of how much.
                        is_refused.set(error.total_bytes == 0);
                        let refused = is_refused.get();
                        return Err(if refused { error.arrived(first, total) } else { error });
                    }
                    Reply::Progress { bytes } => {
                        let bytes = bytes.clamp(arrived.get(), total);
                        arrived.set(bytes);
                        progress(bytes);
                    }
                    Reply::Ready => self.control.send(&Request::Ready).await?,
                    Reply::Taken { .. } | Reply::Cards(_) => {}
                }
            }
        };
        let end = begun.0.saturating_add(time.0).saturating_add(LAST_WORDS.0);
        let late = self.clock.sleep_until(Picoseconds(end));
        let (talking, late) = (pin!(talking), pin!(late));
        let result: Result<Report, BridgeError> = match select(talking, late).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                let why = "the server said nothing until after the deadline";
                Err(BridgeError::new(Stage::Connection, why))
            }
        };
        match result {
            Ok(report) => {
                let elapsed = self.clock.now().since(begun);
                Ok(Outcome { report, elapsed })
            }
            Err(error) => {
                if !is_refused.get() {
                    // Nothing is to come into this node's memory any more.
                    self.control.connection().close().await;
                }
                let arrived_bytes = error.arrived_bytes.max(arrived.get());
                Err(error.arrived(arrived_bytes, total))
            }
        }
    }

    /// Has the server end what it is doing for this client: the transfer then fails, and says what
    /// has arrived.
    ///
    /// # Errors
    /// The server is lost.
    pub async fn cancel(&self) -> Result<(), BridgeError> {
        self.control.send(&Request::Cancel).await
    }
}

fn bytes<G>(part: &MemoryPart<G>) -> u64 {
    part.range.end.saturating_sub(part.range.start)
}

/// What the server has to know of a part of memory.
fn region<G: RdmaRegion>(part: &MemoryPart<G>) -> Result<Region, BridgeError> {
    let whole = part.region.remote();
    let Range { start, end } = part.range;
    if start > end || !whole.holds(start, end - start) {
        let have = whole.bytes;
        let why = format!("bytes {start} to {end} are not in registered memory of {have} B");
        return Err(BridgeError::new(Stage::Request, why));
    }
    Ok(Region { address: whole.address + start, key: whole.key, bytes: end - start })
}
