// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server, on the node with the card: accepts clients and makes their transfers.

mod cards;
mod carried;
mod guests;
mod memory;
mod naive;
mod peer_link;
mod pipelined;
mod reload;
mod session;
mod shares;
mod sums;
mod to_peer;
mod transfer;
mod within;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::{AnyMemory, Clock, DmaMemory, Rdma, RdmaListener, RdmaRegion, hex, setters};
use crosslane_pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use smart_default::SmartDefault;

use crate::card::CardWorking;
use crate::chunks::Chunking;
use crate::client::Identity;
use crate::deadline::after;
use crate::error::{At, BridgeError, Result};
use crate::messages::{CardKind, CardState, one_line};
use crate::policy::{Guard, is_loopback};
use crate::reload::Reloader;
use crate::report::Report;
use crate::served::{Core, Served};
use crate::slots::{ClientId, Ring};
use crate::stage::Stage;
pub use cards::CardChanges;
use cards::{Change, Leaving, Worker};
use guests::{Guests, MOST_CLIENTS, MOST_STRANGERS};
use memory::Budget;
use reload::{Outage, Reloading};
use shares::Shares;

/// Sizes of slots, bytes: smaller ones are mostly overhead, larger ones exceed a descriptor.
const SLOT_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 28;
/// Time between two looks whether a new connection can be taken.
const LOOK: Picoseconds = Picoseconds::from_ns(2_000_000);
/// Smallest chunk that a client may ask for, bytes.
const LEAST_CHUNK_BYTES: u64 = 512;
/// Number of slots of a ring.
const SLOTS: std::ops::RangeInclusive<usize> = 1..=4096;

/// Settings of a server. By default: the ring of the sbdt paper, chunks from 16 KiB up, for
/// programs of this machine.
#[derive(Clone, Debug, SmartDefault)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Slots of each of the two rings, to the card and from it.
    #[default(8)]
    pub slots: usize,
    /// Size of a slot, bytes.
    #[default(1 << 20)]
    pub slot_bytes: u64,
    /// Size of the first chunk, and the least of the last ones, bytes; chunks in between grow up to
    /// a slot.
    #[default(1 << 14)]
    pub least_chunk_bytes: u64,
    /// Most bytes of network reads, and of writes, in flight at once for each client. One operation
    /// is always allowed.
    #[default(4 << 20)]
    pub window_bytes: u64,
    /// The check of clients: by policy, or open.
    #[default(Guard::Open)]
    pub guard: Guard,
    /// Whether no one else reaches this network, so that an open guard is allowed at any address.
    pub is_closed_network: bool,
    /// Name of this server at other servers, and its key there (FPGA to FPGA).
    #[default(Identity { name: "bridge".to_owned(), key: None })]
    pub identity: Identity,
    /// Whether the network shows other servers a certificate of this one.
    pub has_certificate: bool,
    /// Settings for the channels of each card.
    pub card: CardWorking,
    /// Longest naive transfer, bytes: the server allocates memory for all of it. All naive
    /// transfers and copies to other servers together have twice as much; the next one waits.
    #[default(1 << 30)]
    pub most_naive_bytes: u64,
    /// For measurements: least time of each stage for a KiB, so that stages of equal length show
    /// the gain of their overlap. Zero, the default, means no limit.
    pub pace: Picoseconds,
    /// Time for a client to authenticate.
    #[default(Picoseconds::from_secs(10))]
    pub greeting_time: Picoseconds,
    /// Time for a client, or another server, to do its part of one operation: to take or give the
    /// data of a chunk, or to take a message.
    #[default(Picoseconds::from_secs(30))]
    pub patience: Picoseconds,
    /// Longest transfer, whatever a client asks for: a day.
    #[default(Picoseconds::from_secs(86_400))]
    pub longest_time: Picoseconds,
}

setters!(ServerOptions {
    with_slots(slots: usize),
    with_slot_bytes(slot_bytes: u64),
    with_least_chunk_bytes(least_chunk_bytes: u64),
    with_window_bytes(window_bytes: u64),
    with_guard(guard: Guard),
    with_closed_network(is_closed_network: bool),
    with_identity(identity: Identity),
    with_certificate(has_certificate: bool),
    with_card(card: CardWorking),
    with_most_naive_bytes(most_naive_bytes: u64),
    with_pace(pace: impl Into<Picoseconds>),
    with_greeting_time(greeting_time: impl Into<Picoseconds>),
    with_patience(patience: impl Into<Picoseconds>),
    with_longest_time(longest_time: impl Into<Picoseconds>),
});

/// An event at a server.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// A client has authenticated.
    Greeted {
        /// Name of the client in the policy.
        client: String,
        /// Network address of the client.
        peer: String,
    },
    /// A client was not admitted, or its connection was lost.
    Lost {
        /// Network address of the client.
        peer: String,
        /// The reason.
        error: BridgeError,
    },
    /// A transfer goes on. Told once a second, whether it moves or not.
    Moving {
        /// Name of the client.
        client: String,
        /// Number of the client's session at this server: it makes one transfer at a time.
        session: u64,
        /// Bytes that the transfer has in all.
        of_bytes: u64,
        /// Its report so far, of the bytes that have arrived; without a checksum.
        report: Box<Report>,
    },
    /// A transfer is complete.
    Done {
        /// Name of the client.
        client: String,
        /// Number of its session.
        session: u64,
        /// The report of the transfer.
        report: Box<Report>,
    },
    /// A transfer failed or was refused.
    Failed {
        /// Name of the client.
        client: String,
        /// Number of its session.
        session: u64,
        /// The reason.
        error: BridgeError,
    },
    /// A card was added while the server ran.
    CardAdded {
        /// Name of the card.
        card: String,
    },
    /// A card was removed, and nothing of it is left.
    CardRemoved {
        /// Name of the card.
        card: String,
    },
    /// A card is being reloaded: the image is here, and as it was announced.
    Reloading {
        /// Name of the client.
        client: String,
        /// Name of the card.
        card: String,
        /// Length of the image, bytes.
        bytes: u64,
        /// SHA-256 of the image.
        sha256: [u8; 32],
    },
    /// A card was reloaded, and is served again.
    Reloaded {
        /// Name of the client.
        client: String,
        /// Name of the card.
        card: String,
    },
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names and sentences of others are one line, and nothing that a terminal obeys.
        let one_line = |text: &dyn fmt::Display| one_line(&text.to_string());
        match self {
            Self::Greeted { client, peer } => {
                write!(f, "{} at {} is connected", one_line(client), one_line(peer))
            }
            Self::CardAdded { card } => write!(f, "{} was added", one_line(card)),
            Self::CardRemoved { card } => write!(f, "{} was removed", one_line(card)),
            Self::Reloading { client, card, bytes, sha256 } => {
                let (client, card, sum) = (one_line(client), one_line(card), hex(sha256));
                write!(f, "{client}: {card} is reloaded with {bytes} B, SHA-256 {sum}")
            }
            Self::Reloaded { client, card } => {
                write!(
                    f,
                    "{}: {} was reloaded and is served again",
                    one_line(client),
                    one_line(card)
                )
            }
            Self::Lost { peer, error } => write!(f, "{}: {}", one_line(peer), one_line(error)),
            Self::Moving { client, of_bytes, report, .. } => write!(
                f,
                "{}: {} of {of_bytes} B {} so far, in {}; {}",
                one_line(client),
                report.bytes,
                report.path,
                Picoseconds(report.elapsed_ps),
                report.why_not_faster()
            ),
            Self::Done { client, report, .. } => write!(
                f,
                "{}: {} B {} in {}, {:.1} MB/s; {}",
                one_line(client),
                report.bytes,
                report.path,
                Picoseconds(report.elapsed_ps),
                report.bytes_per_second() / 1e6,
                report.why_not_faster()
            ),
            Self::Failed { client, error, .. } => {
                write!(f, "{}: {}", one_line(client), one_line(error))
            }
        }
    }
}

/// A card with its rings.
struct ServedCard<R: Rdma<Memory = AnyMemory>> {
    name: String,
    core: Core<R::Region>,
    to_card: Ring<R>,
    from_card: Ring<R>,
    shares: Shares,
    leaving: Leaving,
    /// Hears how the work of its engine ended.
    ended: RefCell<Option<oneshot::Receiver<Result<()>>>>,
}

impl<R: Rdma<Memory = AnyMemory>> ServedCard<R> {
    /// Describes it for a client.
    fn state(&self) -> CardState {
        let (kind, memory_bytes) = match &self.core {
            Core::Engine(..) => (CardKind::Engine, None),
            Core::Memory(region) => (CardKind::Memory, Some(region.memory().size_bytes())),
            Core::Null => (CardKind::Null, None),
        };
        let (slots, free) = self.to_card.credits.counts();
        CardState {
            name: self.name.clone(),
            kind,
            memory_bytes,
            transfers: self.shares.under_way() as u32,
            moved_bytes: self.shares.so_far().0,
            slots: slots as u32,
            free_slots: [free, self.from_card.credits.counts().1].map(|free| free as u32),
            outage: None,
        }
    }
}

/// State shared by all sessions.
struct Shared<R: Rdma<Memory = AnyMemory>, C> {
    rdma: R,
    clock: C,
    options: ServerOptions,
    /// The cards, and those that are being removed.
    places: RefCell<Vec<Rc<ServedCard<R>>>>,
    /// Names of cards that were removed: a transfer in pieces may ask for the next one.
    removed: RefCell<BTreeSet<String>>,
    /// Cards that are not served for now, by name.
    outages: RefCell<BTreeMap<String, Outage>>,
    reloader: Option<Box<dyn Reloader>>,
    reloading: Reloading,
    changes: CardChanges,
    /// Memory of transfers beside the rings.
    memory: Budget,
    guests: Guests,
    next_client: Cell<u64>,
    tell: Box<dyn Fn(&ServerEvent)>,
}

/// A server whose cards are set up.
pub struct Server<R: Rdma<Memory = AnyMemory>, C> {
    shared: Shared<R, C>,
    /// Engines that begin to work.
    hire: mpsc::UnboundedSender<Worker>,
    hired: mpsc::UnboundedReceiver<Worker>,
    changes: (CardChanges, mpsc::UnboundedReceiver<Change>),
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Server<R, C> {
    /// Allocates the rings of each card (a name, and a device or what stands for one) and registers
    /// them.
    ///
    /// # Errors
    /// If options are invalid, or memory cannot be allocated or registered.
    pub async fn new<D: Into<Served>>(
        cards: Vec<(String, D)>,
        rdma: R,
        clock: C,
        options: ServerOptions,
        tell: impl Fn(&ServerEvent) + 'static,
    ) -> Result<Self> {
        let cards = cards.into_iter().map(|(name, card)| (name, card.into()));
        let cards: Vec<(String, Served)> = cards.collect();
        check(cards.len(), &options)?;
        let ((hire, hired), (change, changes)) = (mpsc::unbounded(), mpsc::unbounded());
        let memory = Budget::new(options.most_naive_bytes.saturating_mul(2));
        let shared = Shared {
            rdma,
            clock,
            options,
            places: RefCell::default(),
            removed: RefCell::default(),
            outages: RefCell::default(),
            reloader: None,
            reloading: Reloading::default(),
            changes: CardChanges(change.clone()),
            memory,
            guests: Guests::default(),
            next_client: Cell::new(0),
            tell: Box::new(tell),
        };
        for (name, card) in cards {
            shared.add(&name, card, &hire).await?;
        }
        Ok(Self { shared, hire, hired, changes: (CardChanges(change), changes) })
    }

    /// Lets clients with the right to it reload cards.
    #[must_use]
    pub fn with_reloader(mut self, reloader: impl Reloader + 'static) -> Self {
        self.shared.reloader = Some(Box::new(reloader));
        self
    }

    /// Returns a handle that adds and removes cards while the server serves.
    pub fn changes(&self) -> CardChanges {
        self.changes.0.clone()
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// If others can reach the address and the guard is open, or the address is not usable.
    pub async fn listen(&self, address: &str) -> Result<R::Listener> {
        let options = &self.shared.options;
        let is_open = matches!(options.guard, Guard::Open);
        if is_open && !options.is_closed_network && !is_loopback(address) {
            let why = format!(
                "{address} can be reached from other machines, so clients have to have keys or \
                 certificates: a policy file is needed"
            );
            return Err(BridgeError::new(Stage::Connection, InvalidArgument, why));
        }
        self.shared.rdma.listen(address).await.at(Stage::Connection)
    }

    /// Serves until `stop` completes; then disconnects all clients, closes the channels and frees
    /// the memory.
    ///
    /// # Errors
    /// If the network or a device has failed as a whole.
    pub async fn serve(self, listener: R::Listener, stop: impl Future<Output = ()>) -> Result<()> {
        let Self { shared, hire, hired, changes: (_changes, changes) } = self;
        let mut working = pin!(cards::work(hired));
        {
            let serving = pin!(take_clients(&shared, &listener));
            let changing = pin!(cards::change(&shared, changes, hire));
            let stop = pin!(stop);
            match select(select(select(serving, changing), working.as_mut()), stop).await {
                Either::Left((Either::Left((served, _)), _)) => served.factor_first().0?,
                Either::Left((Either::Right((worked, _)), _)) => return worked,
                Either::Right(_) => {}
            }
        }
        // No orders can come any more, so the cards close their channels.
        let places = shared.places.take().into_iter().filter_map(Rc::into_inner);
        let buffers = places.flat_map(|place| [place.to_card.buffer, place.from_card.buffer]);
        let buffers: Vec<_> = buffers.collect();
        working.await?;
        for buffer in buffers.into_iter().flatten() {
            buffer.unregister().await.at(Stage::Registration)?;
        }
        Ok(())
    }
}

fn check(cards: usize, options: &ServerOptions) -> Result<()> {
    let ServerOptions { slots, slot_bytes, least_chunk_bytes, window_bytes, .. } = options;
    let problem = if cards == 0 {
        "a server needs a card".to_owned()
    } else if !SLOTS.contains(slots) {
        format!("a ring of {slots} slots: {} to {} are possible", SLOTS.start(), SLOTS.end())
    } else if !SLOT_BYTES.contains(slot_bytes) {
        let (least, most) = (SLOT_BYTES.start(), SLOT_BYTES.end());
        format!("slots of {slot_bytes} B: {least} to {most} are possible")
    } else if *least_chunk_bytes == 0 || least_chunk_bytes > slot_bytes {
        format!("chunks of at least {least_chunk_bytes} B in slots of {slot_bytes} B")
    } else if *window_bytes == 0 {
        "a window of 0 B".to_owned()
    } else if options.card.posted_jobs == 0 {
        "0 chunks posted at once".to_owned()
    } else {
        return Ok(());
    };
    Err(BridgeError::new(Stage::Request, InvalidArgument, problem))
}

/// Accepts clients and serves them concurrently.
async fn take_clients<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    listener: &R::Listener,
) -> Result<()> {
    let mut sessions = FuturesUnordered::new();
    loop {
        // Those that were sent away may still be closing their connections.
        let is_full = sessions.len() >= MOST_CLIENTS + 2 * MOST_STRANGERS;
        let now = shared.clock.now();
        let accepted = if is_full {
            sessions.next().await;
            continue;
        } else if let Some(room) = shared.guests.room_at().filter(|room| *room > now) {
            let look = shared.clock.sleep_until(room.min(after(&shared.clock, LOOK)));
            select(sessions.next(), pin!(look)).await;
            continue;
        } else if sessions.is_empty() {
            listener.accept().await
        } else {
            let accept = pin!(listener.accept());
            match select(accept, sessions.next()).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => continue,
            }
        };
        let connection = accepted.at(Stage::Connection)?;
        let client = ClientId(shared.next_client.get());
        shared.next_client.set(client.0 + 1);
        let guest = shared.guests.come(client, now);
        sessions.push(session::serve(shared, connection, guest));
    }
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Shared<R, C> {
    /// Returns the sizes of chunks for a ring, as requested but within its limits.
    fn chunking(&self, asked: Option<(u64, u64)>, ring: &Ring<R>) -> Chunking {
        let most = ring.slot_bytes;
        let (least_bytes, most_bytes) = asked.unwrap_or((self.options.least_chunk_bytes, most));
        // Smaller chunks cost all clients more than they gain one.
        let bounded = |bytes: u64| bytes.clamp(LEAST_CHUNK_BYTES.min(most), most);
        Chunking { least_bytes: bounded(least_bytes), most_bytes: bounded(most_bytes) }
    }
}
