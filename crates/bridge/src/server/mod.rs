// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server: on the node with the FPGA. It waits for clients and moves what they ask for.

mod naive;
mod pipelined;
mod session;
mod to_peer;

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::pin;

use crosslane_driver::Device;
use crosslane_host::{Bus, Clock, Rdma, RdmaListener};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::card::{Card, CardWorking, Orders};
use crate::chunks::Chunking;
use crate::error::BridgeError;
use crate::key::Key;
use crate::messages::MAX_NAME_BYTES;
use crate::policy::{Guard, is_loopback};
use crate::report::Report;
use crate::slots::{ClientId, Ring};
use crate::stage::Stage;

/// Clients that are served at once; others wait to be taken.
const MOST_CLIENTS: usize = 256;
/// Sizes of slots, bytes: less is mostly overhead, more is not one descriptor.
const SLOT_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 28;
/// The smallest chunk that a client may ask for, bytes.
const LEAST_CHUNK_BYTES: u64 = 512;
/// Slots of a ring.
const SLOTS: std::ops::RangeInclusive<usize> = 1..=4096;

/// How a server works.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Slots of each ring: one to the FPGA, one from it.
    pub slots: usize,
    /// Size of a slot, bytes.
    pub slot_bytes: u64,
    /// The first chunk of a transfer, and the least of its last ones, bytes; they grow up to a
    /// slot.
    pub least_chunk_bytes: u64,
    /// Bytes of reads, and of writes, that are on their way in the network at once for each
    /// client. One is always.
    pub window_bytes: u64,
    /// Who is let in.
    pub guard: Guard,
    /// Nobody else reaches this network: an open guard is then allowed at any address.
    pub is_closed_network: bool,
    /// Who this server is at other servers, and its key there (FPGA to FPGA).
    pub identity: (String, Option<Key>),
    /// How the channels of each card are worked.
    pub card: CardWorking,
    /// Longest naive transfer, bytes: its memory is got for it.
    pub most_naive_bytes: u64,
    /// For measurements: what each stage takes at least for a KiB, so that stages of the same
    /// length show what their overlap brings. Zero: as fast as it can.
    pub pace: Picoseconds,
    /// Time for a client to show who it is.
    pub greeting_time: Picoseconds,
}

impl Default for ServerOptions {
    /// The ring of the document, chunks from 16 KiB on, for programs of this machine.
    fn default() -> Self {
        Self {
            slots: 8,
            slot_bytes: 1 << 20,
            least_chunk_bytes: 1 << 14,
            window_bytes: 4 << 20,
            guard: Guard::Open,
            is_closed_network: false,
            identity: ("bridge".to_owned(), None),
            card: CardWorking::default(),
            most_naive_bytes: 1 << 30,
            pace: Picoseconds::ZERO,
            greeting_time: Picoseconds::from_ns(10_000_000_000),
        }
    }
}

/// What happens at a server.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// A client has shown who it is.
    Greeted {
        /// Its name.
        client: String,
        /// Where it is.
        peer: String,
    },
    /// Somebody was not let in, or a connection was lost.
    Lost {
        /// Where it was.
        peer: String,
        /// Why.
        error: BridgeError,
    },
    /// A transfer is complete.
    Done {
        /// Whose.
        client: String,
        /// What it has taken.
        report: Box<Report>,
    },
    /// A transfer has failed or was refused.
    Failed {
        /// Whose.
        client: String,
        /// Why.
        error: BridgeError,
    },
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Greeted { client, peer } => write!(f, "{client} at {peer} is connected"),
            Self::Lost { peer, error } => write!(f, "{peer}: {error}"),
            Self::Done { client, report } => write!(
                f,
                "{client}: {} B {} in {}, {:.1} MB/s; {}",
                report.bytes,
                report.path,
                Picoseconds(report.elapsed_ps),
                report.bytes_per_second() / 1e6,
                report.why_not_faster()
            ),
            Self::Failed { client, error } => write!(f, "{client}: {error}"),
        }
    }
}

/// A card with its rings.
struct Place<B: Bus, R: Rdma<Memory = B::Memory>> {
    name: String,
    device: Device<B>,
    orders: Orders<B>,
    to_card: Ring<B, R>,
    from_card: Ring<B, R>,
}

/// What all sessions share.
struct Shared<B: Bus, R: Rdma<Memory = B::Memory>, C> {
    rdma: R,
    clock: C,
    options: ServerOptions,
    places: Vec<Place<B, R>>,
    next_client: Cell<u64>,
    tell: Box<dyn Fn(&ServerEvent)>,
}

/// A server with its cards set up.
pub struct Server<B: Bus, R: Rdma<Memory = B::Memory>, C> {
    shared: Shared<B, R, C>,
    cards: Vec<Card<B>>,
}

impl<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> Server<B, R, C> {
    /// Gets memory for the rings of each card (a name and a device) and registers it.
    ///
    /// # Errors
    /// Options that cannot be, or memory that is not to be had.
    pub async fn new(
        cards: Vec<(String, Device<B>)>,
        rdma: R,
        clock: C,
        options: ServerOptions,
        tell: impl Fn(&ServerEvent) + 'static,
    ) -> Result<Self, BridgeError> {
        check(&cards, &options)?;
        let (mut places, mut workers) = (Vec::new(), Vec::new());
        for (name, device) in cards {
            let ServerOptions { slots, slot_bytes, .. } = options;
            let to_card = Ring::new(&device, &rdma, slots, slot_bytes).await?;
            let from_card = Ring::new(&device, &rdma, slots, slot_bytes).await?;
            let (card, orders) = Card::new(device.clone(), options.card);
            workers.push(card);
            places.push(Place { name, device, orders, to_card, from_card });
        }
        let tell = Box::new(tell);
        let next_client = Cell::new(0);
        let shared = Shared { rdma, clock, options, places, next_client, tell };
        Ok(Self { shared, cards: workers })
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// An address that others reach, with an open guard; or one that cannot be listened at.
    pub async fn listen(&self, address: &str) -> Result<R::Listener, BridgeError> {
        let options = &self.shared.options;
        let is_open = matches!(options.guard, Guard::Open);
        if is_open && !options.is_closed_network && !is_loopback(address) {
            let why = format!(
                "{address} can be reached from other machines, so clients have to have keys: a \
                 policy file is needed"
            );
            return Err(BridgeError::new(Stage::Connection, why));
        }
        self.shared.rdma.listen(address).await.map_err(BridgeError::network(Stage::Connection))
    }

    /// Serves until `stop` has come; then all clients are left, the channels closed and the memory
    /// given back.
    ///
    /// # Errors
    /// A network or a device that has failed as a whole.
    pub async fn serve(
        self,
        listener: R::Listener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), BridgeError> {
        let Self { shared, cards } = self;
        let mut working = pin!(try_join_all(cards.into_iter().map(Card::run)));
        {
            let serving = pin!(take_clients(&shared, &listener));
            let stop = pin!(stop);
            match select(select(serving, working.as_mut()), stop).await {
                Either::Left((Either::Left((served, _)), _)) => served?,
                Either::Left((Either::Right((worked, _)), _)) => return worked.map(drop),
                Either::Right(_) => {}
            }
        }
        // Nobody gives orders any more: the cards close their channels.
        let buffers: Vec<_> = shared
            .places
            .into_iter()
            .flat_map(|place| [place.to_card.buffer, place.from_card.buffer])
            .collect();
        working.await?;
        for buffer in buffers {
            buffer.unregister().await.map_err(BridgeError::driver(Stage::Registration))?;
        }
        Ok(())
    }
}

fn check<B: Bus>(
    cards: &[(String, Device<B>)],
    options: &ServerOptions,
) -> Result<(), BridgeError> {
    let ServerOptions { slots, slot_bytes, least_chunk_bytes, window_bytes, .. } = options;
    let problem = if cards.is_empty() {
        "a server needs a card".to_owned()
    } else if let Some((name, _)) = cards.iter().find(|(name, _)| name.len() > MAX_NAME_BYTES) {
        format!("{name}: a name has at most {MAX_NAME_BYTES} B")
    } else if let Some((_, device)) =
        cards.iter().find(|(_, device)| !device.description().card_memory)
    {
        format!("{} has no memory that its engine reaches", device.function().name)
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
    Err(BridgeError::new(Stage::Request, problem))
}

/// Takes clients and serves them, all at once.
async fn take_clients<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    shared: &Shared<B, R, C>,
    listener: &R::Listener,
) -> Result<(), BridgeError> {
    let mut sessions = FuturesUnordered::new();
    loop {
        let is_full = sessions.len() >= MOST_CLIENTS;
        let accepted = if is_full {
            sessions.next().await;
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
        let connection = accepted.map_err(BridgeError::network(Stage::Connection))?;
        let client = ClientId(shared.next_client.get());
        shared.next_client.set(client.0 + 1);
        sessions.push(session::serve(shared, connection, client));
    }
}

impl<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> Shared<B, R, C> {
    /// Sizes of chunks for a ring, as they were asked for.
    fn chunking(&self, asked: Option<(u64, u64)>, ring: &Ring<B, R>) -> Chunking {
        let most = ring.slot_bytes;
        let (least_bytes, most_bytes) = asked.unwrap_or((self.options.least_chunk_bytes, most));
        // What is smaller costs everybody more than it brings one.
        let bounded = |bytes: u64| bytes.clamp(LEAST_CHUNK_BYTES.min(most), most);
        Chunking { least_bytes: bounded(least_bytes), most_bytes: bounded(most_bytes) }
    }
}
