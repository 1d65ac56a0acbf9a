// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node: its network processor with sends and receives.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crosslane_driver::Buffer;
use crosslane_driver::network_processor as driver;
use crosslane_driver::network_processor::{
    Ended, Key, MAX_PAYLOADS, Modes, NetworkProcessor, PAYLOAD_BYTES, ROUTED_PAYLOAD_BYTES,
};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::error::TorusError;
use crate::operation::{Next, Operations, Posted, Way, Whole, lock};
use crate::place::{Direction, Peer, Place};

/// How a node works. All nodes of a torus have the same `piece_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// How the driver works.
    pub modes: Modes,
    /// Longest piece of a message, bytes: up to 1 MiB. Pieces between neighbours are of so many
    /// whole datagrams of 128 B as fit, routed ones of those of 120 B. With
    /// [`Buffers::User`](crate::Buffers::User) a piece takes a place for requests for each page.
    pub piece_bytes: u64,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self { modes: Modes::default(), piece_bytes: PAYLOAD_BYTES * MAX_PAYLOADS }
    }
}

/// A message: what is to be sent, or room for what is to come.
pub struct Message<B: Bus> {
    /// To whom, or from whom.
    pub peer: Peer,
    /// Tag, 0 to 63.
    pub tag: u8,
    /// Memory of [`Node::buffer`].
    pub buffer: Buffer<B>,
    /// The message's bytes there.
    pub part: Range<u64>,
    /// Until when it must have ended.
    pub deadline: Picoseconds,
}

impl<B: Bus> Clone for Message<B> {
    fn clone(&self) -> Self {
        let Self { peer, tag, deadline, .. } = *self;
        Self { peer, tag, buffer: self.buffer.clone(), part: self.part.clone(), deadline }
    }
}

impl<B: Bus> fmt::Debug for Message<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({}, tag {}, bytes {:?})", self.peer, self.tag, self.part)
    }
}

/// What all handles of a node share.
struct Shared<B: Bus> {
    place: Place,
    options: NodeOptions,
    operations: Mutex<Operations<B>>,
}

/// A message that has begun.
struct Begun<B: Bus> {
    shared: Arc<Shared<B>>,
    id: u64,
}

impl<B: Bus> Drop for Begun<B> {
    fn drop(&mut self) {
        lock(&self.shared.operations).abandon(self.id);
    }
}

/// A message that is being sent. To drop it lets it go on; the pieces of a long one with the calls
/// that follow.
pub struct Sending<B: Bus>(Begun<B>);

/// Room for a message that is to come. To drop it takes it back with the next call.
pub struct Receiving<B: Bus>(Begun<B>);

/// A node of a torus. Clones are the same one.
pub struct Node<B: Bus> {
    processor: NetworkProcessor<B>,
    shared: Arc<Shared<B>>,
}

impl<B: Bus> Clone for Node<B> {
    fn clone(&self) -> Self {
        Self { processor: self.processor.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<B: Bus> fmt::Debug for Node<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {:?})", self.number(), self.processor)
    }
}

impl<B: Bus> Node<B> {
    /// Opens a node by the name of its network processor: gives it its place and enables the
    /// links to its neighbours. They come up when those have been opened, too:
    /// [`links_up`](Self::links_up).
    ///
    /// # Errors
    /// No such device, a place that cannot be, fewer links than that has, or pieces that are
    /// shorter than a datagram or longer than 1 MiB.
    pub async fn open(
        bus: B,
        name: &str,
        place: Place,
        options: NodeOptions,
    ) -> Result<Self, TorusError> {
        let most = PAYLOAD_BYTES * MAX_PAYLOADS;
        let refused = |problem| TorusError::Refused { place: name.to_owned(), problem };
        if !(PAYLOAD_BYTES..=most).contains(&options.piece_bytes) {
            let have = options.piece_bytes;
            return Err(refused(format!(
                "pieces of {have} B: they have {PAYLOAD_BYTES} to {most}"
            )));
        }
        let processor = NetworkProcessor::init(bus, name, options.modes).await?;
        processor.place_in_torus(place.dimensions()).await?;
        let links = processor.sizes().links;
        for direction in place.directions() {
            if direction.link() >= links {
                return Err(refused(format!("it has {links} links, and none {direction}")));
            }
            processor.enable_link(direction.link()).await?;
        }
        let shared = Shared { place, options, operations: Mutex::default() };
        Ok(Self { processor, shared: Arc::new(shared) })
    }

    /// Waits until the links to all neighbours are up.
    ///
    /// # Errors
    /// One is not at the deadline, or has failed.
    pub async fn links_up(&self, deadline: Picoseconds) -> Result<(), TorusError> {
        for direction in self.shared.place.directions() {
            self.processor.wait_link_up(direction.link(), deadline).await?;
        }
        Ok(())
    }

    /// Resets the network processor and gives back what it has.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn close(self) -> Result<(), TorusError> {
        Ok(self.processor.release().await?)
    }

    /// The node's place.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.shared.place
    }

    /// The node's number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.shared.place.node()
    }

    /// The network processor below.
    #[must_use]
    pub const fn processor(&self) -> &NetworkProcessor<B> {
        &self.processor
    }

    /// The same node with stores and waits made by another core of the host.
    #[must_use]
    pub fn on_core(&self, core: u16) -> Self {
        Self { processor: self.processor.on_core(core), shared: Arc::clone(&self.shared) }
    }

    /// Memory for messages.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn buffer(&self, bytes: u64) -> Result<Buffer<B>, TorusError> {
        Ok(self.processor.buffer(bytes).await?)
    }

    /// TX_i: begins to send a message. Its part of the buffer may be read but not be written
    /// until it has ended.
    ///
    /// # Errors
    /// A message that cannot be, or no place for its request until the deadline.
    pub async fn tx_i(&self, message: Message<B>) -> Result<Sending<B>, TorusError> {
        Ok(Sending(self.begin(Way::Sent, message).await?))
    }

    /// TX_f: waits until all data of a message have left the buffer.
    ///
    /// # Errors
    /// The message failed, or its deadline passed.
    pub async fn tx_f(&self, sending: &Sending<B>) -> Result<Ended, TorusError> {
        self.finish(&sending.0).await
    }

    /// Both at once.
    ///
    /// # Errors
    /// As there.
    pub async fn tx(&self, message: Message<B>) -> Result<Ended, TorusError> {
        let sending = self.tx_i(message).await?;
        self.tx_f(&sending).await
    }

    /// Whether a message has left its buffer, without waiting for that.
    ///
    /// # Errors
    /// The message failed.
    pub async fn tx_test(&self, sending: &Sending<B>) -> Result<Option<Ended>, TorusError> {
        self.test(&sending.0).await
    }

    /// RX_i: makes room for a message. Its part of the buffer is the device's until it has ended.
    ///
    /// # Errors
    /// As [`tx_i`](Self::tx_i).
    pub async fn rx_i(&self, message: Message<B>) -> Result<Receiving<B>, TorusError> {
        Ok(Receiving(self.begin(Way::Received, message).await?))
    }

    /// RX_f: waits until a message is there.
    ///
    /// # Errors
    /// The message failed, or its deadline passed.
    pub async fn rx_f(&self, receiving: &Receiving<B>) -> Result<Ended, TorusError> {
        self.finish(&receiving.0).await
    }

    /// Both at once.
    ///
    /// # Errors
    /// As there.
    pub async fn rx(&self, message: Message<B>) -> Result<Ended, TorusError> {
        let receiving = self.rx_i(message).await?;
        self.rx_f(&receiving).await
    }

    /// Whether a message is there, without waiting for that.
    ///
    /// # Errors
    /// The message failed.
    pub async fn rx_test(&self, receiving: &Receiving<B>) -> Result<Option<Ended>, TorusError> {
        self.test(&receiving.0).await
    }

    /// Stores a short message into the link to a neighbour, with the processor. The neighbour
    /// receives it like any other; no other message to that peer with that tag may be on its way.
    ///
    /// # Errors
    /// A message that cannot be, or no room in the window until the deadline.
    pub async fn put(
        &self,
        peer: Peer,
        tag: u8,
        bytes: &[u8],
        deadline: Picoseconds,
    ) -> Result<(), TorusError> {
        self.check_peer(peer, tag)?;
        Ok(self.processor.put(peer.key(tag), bytes, deadline).await?)
    }

    fn describe(&self, peer: Peer, tag: u8) -> String {
        format!("{}, {peer}, tag {tag}", self.processor.name())
    }

    fn check_peer(&self, peer: Peer, tag: u8) -> Result<(), TorusError> {
        let Peer::Neighbour { direction, .. } = peer else { return Ok(()) };
        if self.shared.place.neighbour(direction).is_some() {
            return Ok(());
        }
        let problem = "there is no node that way".to_owned();
        Err(TorusError::Refused { place: self.describe(peer, tag), problem })
    }

    async fn begin(&self, way: Way, message: Message<B>) -> Result<Begun<B>, TorusError> {
        let Message { peer, tag, buffer, part, deadline } = message;
        self.check_peer(peer, tag)?;
        let key = peer.key(tag);
        let payload = match key {
            Key::Neighbour { .. } => PAYLOAD_BYTES,
            Key::Routed { .. } => ROUTED_PAYLOAD_BYTES,
        };
        let longest = self.shared.options.piece_bytes.min(payload * MAX_PAYLOADS);
        let piece_bytes = longest / payload * payload;
        // Others that have ended leave their keys.
        self.progress().await;
        if !lock(&self.shared.operations).take_key(way, key) {
            let problem = "another message has this peer, channel and tag, and has not ended";
            let place = self.describe(peer, tag);
            return Err(TorusError::Refused { place, problem: problem.to_owned() });
        }
        let taken = TakenKey { node: self, way, key };
        let whole = Arc::new(Whole { way, key, buffer, part, deadline, piece_bytes });
        let now = self.processor.bus().now();
        let posted = self.post(&whole, whole.piece(whole.part.start)).await?;
        // The operation has it from now on.
        std::mem::forget(taken);
        let id = lock(&self.shared.operations).begin(whole, posted, now);
        Ok(Begun { shared: Arc::clone(&self.shared), id })
    }

    async fn post(&self, whole: &Whole<B>, part: Range<u64>) -> Result<Posted<B>, TorusError> {
        let buffer = whole.buffer.clone();
        let message = driver::Message { key: whole.key, buffer, part, deadline: whole.deadline };
        Ok(match whole.way {
            Way::Sent => Posted::Get(self.processor.nget(message).await?),
            Way::Received => Posted::Credit(self.processor.credit(message).await?),
        })
    }

    fn poll(&self, piece: &Posted<B>) -> bool {
        // A failure is an end, too.
        match piece {
            Posted::Get(get) => !matches!(self.processor.nget_poll(get), Ok(None)),
            Posted::Credit(credit) => !matches!(self.processor.credit_poll(credit), Ok(None)),
        }
    }

    async fn wait(&self, piece: &Posted<B>, deadline: Picoseconds) -> Result<Ended, TorusError> {
        Ok(match piece {
            Posted::Get(get) => self.processor.nget_wait(get, deadline).await?,
            Posted::Credit(credit) => self.processor.credit_wait(credit, deadline).await?,
        })
    }

    /// Brings a message forward whose piece has ended.
    async fn advance(&self, id: u64, piece: &Arc<Posted<B>>, ended: Result<Ended, TorusError>) {
        let next = lock(&self.shared.operations).piece_ended(id, piece, ended);
        let Some(Next::Post(part)) = next else { return };
        let Some(whole) = lock(&self.shared.operations).whole(id) else { return };
        let mut posting = Posting { node: self, id, is_posted: false };
        match self.post(&whole, part).await {
            Ok(piece) => lock(&self.shared.operations).posted(id, piece),
            Err(error) => lock(&self.shared.operations).end(id, Err(error)),
        }
        posting.is_posted = true;
    }

    /// Brings all long messages forward, without waiting for any.
    async fn progress(&self) {
        let long = lock(&self.shared.operations).long();
        for id in long {
            self.look(id).await;
        }
    }

    /// Brings a message forward if its piece has ended.
    async fn look(&self, id: u64) {
        let piece = lock(&self.shared.operations).current(id);
        let Some(piece) = piece else { return };
        if self.poll(&piece) {
            // It has ended, so this does not wait, but copies where that is the mode.
            let ended = self.wait(&piece, self.processor.bus().now()).await;
            self.advance(id, &piece, ended).await;
        }
    }

    async fn test(&self, begun: &Begun<B>) -> Result<Option<Ended>, TorusError> {
        self.progress().await;
        self.look(begun.id).await;
        lock(&self.shared.operations).result(begun.id).transpose()
    }

    async fn finish(&self, begun: &Begun<B>) -> Result<Ended, TorusError> {
        let id = begun.id;
        loop {
            self.progress().await;
            let (result, piece, others, deadline) = {
                let operations = lock(&self.shared.operations);
                let others = operations.long().iter().any(|&other| other != id);
                let deadline = operations.whole(id).map_or(Picoseconds::ZERO, |it| it.deadline);
                (operations.result(id), operations.current(id), others, deadline)
            };
            if let Some(result) = result {
                return result;
            }
            let is_over = self.processor.bus().now() >= deadline;
            match piece {
                // Nothing else depends on this task: it waits in the way that the mode has.
                Some(piece) if !others || is_over || self.poll(&piece) => {
                    let ended = self.wait(&piece, deadline).await;
                    self.advance(id, &piece, ended).await;
                }
                // Others are to be brought forward meanwhile, or another task posts a piece.
                _ => self.processor.any_ends(self.soon(deadline)).await,
            }
        }
    }

    /// When to look again: at the deadline, or, where that has passed, a little later.
    fn soon(&self, deadline: Picoseconds) -> Picoseconds {
        /// While another task posts a piece.
        const LITTLE: Picoseconds = Picoseconds::from_ns(1_000);
        deadline.max(self.processor.bus().now() + LITTLE)
    }

    /// The way to a neighbour as a peer.
    #[must_use]
    pub const fn neighbour(direction: Direction, channel: u8) -> Peer {
        Peer::Neighbour { direction, channel }
    }
}

/// A key that a message has which has not begun.
struct TakenKey<'a, B: Bus> {
    node: &'a Node<B>,
    way: Way,
    key: Key,
}

impl<B: Bus> Drop for TakenKey<'_, B> {
    fn drop(&mut self) {
        lock(&self.node.shared.operations).give_key_back(self.way, self.key);
    }
}

/// A piece that is being posted.
struct Posting<'a, B: Bus> {
    node: &'a Node<B>,
    id: u64,
    is_posted: bool,
}

impl<B: Bus> Drop for Posting<'_, B> {
    /// The call was dropped: nobody knows how much the device has of the piece.
    fn drop(&mut self) {
        if self.is_posted {
            return;
        }
        let mut operations = lock(&self.node.shared.operations);
        let Some(whole) = operations.whole(self.id) else { return };
        let place = format!("{} {}", self.node.processor.name(), whole.key);
        operations.end(self.id, Err(TorusError::Interrupted { place }));
    }
}
