// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Node of a torus: a network processor with two-sided sends and receives.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor as driver;
use crosslane_driver::network_processor::{
    Ended, InFlight, Key, MAX_MESSAGE_BYTES, Modes, NetworkProcessor, PAYLOAD_BYTES,
};
use crosslane_host::{AnyBus, Bus, ErrorKind, lock, setters};
use crosslane_pcie::units::Picoseconds;

use crate::blocks::Blocks;
use crate::coordinates::{Coordinates, Direction, Peer};
use crate::error::{Result, TorusError};
use crate::operation::{MessageDirection, Next, Operations, Whole};

/// Options of a node. All nodes of a torus need the same `piece_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeOptions {
    /// Modes of the driver.
    pub modes: Modes,
    /// Longest piece of a message in bytes, up to 1 MiB. It is rounded down to whole datagrams: of
    /// 128 B between neighbours, of 120 B for routed messages; 256 B and 248 B where they are long.
    /// With [`Buffers::User`](crate::Buffers::User) a piece takes a request slot for each page, and
    /// one for each datagram that lies in two.
    pub piece_bytes: u64,
    /// Whether messages of other than neighbours wait for their room, however much has come
    /// ([`NetworkProcessor::hold_routed`]). Messages of several pieces between such nodes need it:
    /// a piece may come before its room.
    pub hold_routed: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let modes = Modes::default();
        Self { modes, piece_bytes: MAX_MESSAGE_BYTES, hold_routed: false }
    }
}

setters!(NodeOptions {
    with_modes(modes: Modes),
    with_piece_bytes(piece_bytes: u64),
    with_hold_routed(hold_routed: bool),
});

/// Message to be sent, or room for one to be received.
#[derive(Clone)]
pub struct Message {
    /// Destination or source.
    pub peer: Peer,
    /// Tag, 0 to 63.
    pub tag: u8,
    /// Buffer from [`Node::buffer`].
    pub buffer: Buffer,
    /// Range of the message in the buffer, bytes.
    pub part: Range<u64>,
    /// Time by which it must have ended.
    pub deadline: Picoseconds,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({}, tag {}, bytes {:?})", self.peer, self.tag, self.part)
    }
}

/// Message in equal blocks of memory at a stride, or room for one.
#[derive(Clone)]
pub struct StridedMessage {
    /// Destination or source.
    pub peer: Peer,
    /// Tag, 0 to 63.
    pub tag: u8,
    /// Buffer from [`Node::buffer`].
    pub buffer: Buffer,
    /// Blocks of the message in the buffer.
    pub blocks: Blocks,
    /// Time by which it must have ended.
    pub deadline: Picoseconds,
}

impl fmt::Debug for StridedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StridedMessage({}, tag {}, {:?})", self.peer, self.tag, self.blocks)
    }
}

impl From<Message> for StridedMessage {
    fn from(Message { peer, tag, buffer, part, deadline }: Message) -> Self {
        Self { peer, tag, buffer, blocks: part.into(), deadline }
    }
}

/// State shared by all handles of a node.
struct Shared {
    coordinates: Coordinates,
    options: NodeOptions,
    operations: Mutex<Operations>,
}

/// Message being sent, which continues if this is dropped (later calls post the remaining pieces of
/// a long one); or room for one to be received, which the next call then takes back.
pub struct Begun {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.shared.operations).abandon(self.id);
    }
}

/// Node of a torus. Clones share the node.
#[derive(Clone)]
pub struct Node {
    processor: NetworkProcessor,
    shared: Arc<Shared>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {:?})", self.number(), self.processor)
    }
}

impl Node {
    /// Opens a node by the name of its network processor, sets its position and enables the links
    /// to its neighbours. A link comes up when both of its nodes are open:
    /// [`links_up`](Self::links_up).
    ///
    /// # Errors
    /// Returns an error for an unknown device, an invalid position, too few links, or pieces
    /// shorter than a datagram or longer than 1 MiB.
    pub async fn open(
        bus: impl Bus,
        name: &str,
        coordinates: Coordinates,
        options: NodeOptions,
    ) -> Result<Self> {
        Self::on(AnyBus::new(bus), name, coordinates, options).await
    }

    async fn on(
        bus: AnyBus,
        name: &str,
        coordinates: Coordinates,
        options: NodeOptions,
    ) -> Result<Self> {
        let most = MAX_MESSAGE_BYTES;
        let refused = |kind, problem: String| TorusError::refused(name, kind, problem);
        if !(PAYLOAD_BYTES..=most).contains(&options.piece_bytes) {
            let have = options.piece_bytes;
            let problem = format!("pieces of {have} B: they have {PAYLOAD_BYTES} to {most}");
            return Err(refused(ErrorKind::InvalidArgument, problem));
        }
        let processor = NetworkProcessor::init(bus, name, options.modes).await?;
        let payload_bytes = processor.sizes().payload_bytes();
        if options.piece_bytes < payload_bytes {
            let problem = format!(
                "pieces of {} B, and a datagram has {payload_bytes} B",
                options.piece_bytes
            );
            return Err(refused(ErrorKind::InvalidArgument, problem));
        }
        processor.place_in_torus(coordinates.dimensions()).await?;
        processor.hold_routed(options.hold_routed).await?;
        let links = processor.sizes().links;
        for direction in coordinates.directions() {
            if direction.link() >= links {
                let problem = format!("it has {links} links, and none {direction}");
                return Err(refused(ErrorKind::Unsupported, problem));
            }
            processor.enable_link(direction.link()).await?;
        }
        let shared = Shared { coordinates, options, operations: Mutex::default() };
        Ok(Self { processor, shared: Arc::new(shared) })
    }

    /// Returns the time that is `span` from now by the clock of the bus: a deadline.
    pub fn deadline(&self, span: Duration) -> Picoseconds {
        self.processor.bus().after(span)
    }

    /// Waits until the links to all neighbours are up.
    ///
    /// # Errors
    /// Returns an error if a link has failed or is not up at the deadline.
    pub async fn links_up(&self, deadline: Picoseconds) -> Result<()> {
        for direction in self.shared.coordinates.directions() {
            self.processor.wait_link_up(direction.link(), deadline).await?;
        }
        Ok(())
    }

    /// Resets the network processor and releases its resources.
    ///
    /// # Errors
    /// Returns an error if the device does not answer.
    pub async fn close(self) -> Result<()> {
        Ok(self.processor.release().await?)
    }

    /// Returns the node's position.
    pub fn coordinates(&self) -> &Coordinates {
        &self.shared.coordinates
    }

    /// Returns the node's number.
    pub fn number(&self) -> u16 {
        self.shared.coordinates.node()
    }

    /// Returns the network processor of the node.
    pub const fn processor(&self) -> &NetworkProcessor {
        &self.processor
    }

    /// Returns a handle of the node whose stores and waits run on another core of the host.
    pub fn on_core(&self, core: u16) -> Self {
        Self { processor: self.processor.on_core(core), shared: Arc::clone(&self.shared) }
    }

    /// Allocates a buffer for messages.
    ///
    /// # Errors
    /// Returns an error if memory is short or cannot be pinned.
    pub async fn buffer(&self, bytes: u64) -> Result<Buffer> {
        Ok(self.processor.buffer(bytes).await?)
    }

    /// Begins to send a message (TX_i). Its part of the buffer may be read but not written until it
    /// has ended.
    ///
    /// # Errors
    /// Returns an error for an invalid message, or if its request gets no slot before the deadline.
    pub async fn tx_i(&self, message: Message) -> Result<Begun> {
        self.begin(MessageDirection::Sent, message.into()).await
    }

    /// Begins to send a message in blocks at a stride, as [`tx_i`](Self::tx_i). The receiver may
    /// have other blocks, or one. Each block takes a request slot, and so does a datagram that lies
    /// in two; blocks shorter than a datagram take one together. With
    /// [`Buffers::Copied`](crate::Buffers::Copied) a piece takes one.
    ///
    /// # Errors
    /// Those of [`tx_i`](Self::tx_i), and blocks that overlap, or of which a piece takes more slots
    /// than there are.
    pub async fn tx_i_strided(&self, message: StridedMessage) -> Result<Begun> {
        self.begin(MessageDirection::Sent, message).await
    }

    /// Sends a message and waits: [`tx_i`](Self::tx_i), then [`finish`](Self::finish).
    ///
    /// # Errors
    /// Returns the errors of both.
    pub async fn tx(&self, message: Message) -> Result<Ended> {
        self.finish(&self.tx_i(message).await?).await
    }

    /// Makes room for a message (RX_i). Its part of the buffer belongs to the device until it has
    /// ended.
    ///
    /// # Errors
    /// Returns the errors of [`tx_i`](Self::tx_i).
    pub async fn rx_i(&self, message: Message) -> Result<Begun> {
        self.begin(MessageDirection::Received, message.into()).await
    }

    /// Makes room for a message in blocks at a stride, as [`rx_i`](Self::rx_i). What lies between
    /// the blocks stays the program's.
    ///
    /// # Errors
    /// Returns the errors of [`tx_i_strided`](Self::tx_i_strided).
    pub async fn rx_i_strided(&self, message: StridedMessage) -> Result<Begun> {
        self.begin(MessageDirection::Received, message).await
    }

    /// Receives a message and waits: [`rx_i`](Self::rx_i), then [`finish`](Self::finish).
    ///
    /// # Errors
    /// Returns the errors of both.
    pub async fn rx(&self, message: Message) -> Result<Ended> {
        self.finish(&self.rx_i(message).await?).await
    }

    /// Stores a short message into the link to a neighbour, with the processor. The neighbour
    /// receives it like any other; no other message to that peer with that tag may be in flight.
    ///
    /// # Errors
    /// Returns an error for an invalid message, or if the put aperture has no room before the
    /// deadline.
    pub async fn put(
        &self,
        peer: Peer,
        tag: u8,
        bytes: &[u8],
        deadline: Picoseconds,
    ) -> Result<()> {
        self.check_peer(peer, tag)?;
        Ok(self.processor.put(peer.key(tag), bytes, deadline).await?)
    }

    fn describe(&self, peer: Peer, tag: u8) -> String {
        format!("{}, {peer}, tag {tag}", self.processor.name())
    }

    fn check_peer(&self, peer: Peer, tag: u8) -> Result<()> {
        let Peer::Neighbour { direction, .. } = peer else { return Ok(()) };
        if self.shared.coordinates.neighbour(direction).is_some() {
            return Ok(());
        }
        let problem = "there is no node that way";
        Err(TorusError::refused(&self.describe(peer, tag), ErrorKind::InvalidArgument, problem))
    }

    async fn begin(&self, direction: MessageDirection, message: StridedMessage) -> Result<Begun> {
        let StridedMessage { peer, tag, buffer, blocks, deadline } = message;
        self.check_peer(peer, tag)?;
        let key = peer.key(tag);
        let sizes = self.processor.sizes();
        let payload = key.unit_bytes(sizes.payload_bytes());
        if let Some(problem) = blocks.problem() {
            let place = self.describe(peer, tag);
            return Err(TorusError::refused(&place, ErrorKind::InvalidArgument, problem));
        }
        let longest = self.shared.options.piece_bytes.min(key.max_bytes(sizes.payload_bytes()));
        let piece_bytes = longest / payload * payload;
        let is_routed = matches!(peer, Peer::Node(_));
        if is_routed && !self.shared.options.hold_routed && blocks.bytes() > piece_bytes {
            let problem = format!(
                "a routed message of {} B: beyond {piece_bytes} B it is sent in pieces, which may \
                 come before their room, so that all nodes need \
                 NodeOptions::with_hold_routed(true)",
                blocks.bytes()
            );
            let place = self.describe(peer, tag);
            return Err(TorusError::refused(&place, ErrorKind::InvalidArgument, problem));
        }
        // Messages that have ended release their keys here.
        self.progress().await;
        if !lock(&self.shared.operations).take_key(direction, key) {
            let problem = "another message has this peer, channel and tag, and has not ended";
            return Err(TorusError::refused(&self.describe(peer, tag), ErrorKind::Busy, problem));
        }
        let taken = TakenKey { node: self, direction, key };
        let whole = Arc::new(Whole { direction, key, buffer, blocks, deadline, piece_bytes });
        let now = self.processor.bus().now();
        let posted = self.post(&whole, whole.piece(0)).await?;
        // From here on the operation owns the key.
        std::mem::forget(taken);
        let id = lock(&self.shared.operations).begin(whole, posted, now);
        Ok(Begun { shared: Arc::clone(&self.shared), id })
    }

    /// Posts a piece of a message.
    async fn post(&self, whole: &Whole, piece: Range<u64>) -> Result<InFlight> {
        let (buffer, parts) = (whole.buffer.clone(), whole.blocks.parts(piece));
        let (key, deadline) = (whole.key, whole.deadline);
        let message = driver::ScatteredMessage { key, buffer, parts, deadline };
        Ok(match whole.direction {
            MessageDirection::Sent => self.processor.nget_scattered(message).await?,
            MessageDirection::Received => self.processor.credit_scattered(message).await?,
        })
    }

    /// Whether a piece has ended; a failure is an end too.
    fn poll(&self, piece: &InFlight) -> bool {
        !matches!(self.processor.poll(piece), Ok(None))
    }

    async fn wait(&self, piece: &InFlight, deadline: Picoseconds) -> Result<Ended> {
        Ok(self.processor.wait(piece, deadline).await?)
    }

    /// Advances a message whose piece has ended.
    async fn advance(&self, id: u64, piece: &Arc<InFlight>, ended: Result<Ended>) {
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

    /// Advances all long messages without waiting.
    async fn progress(&self) {
        let long = lock(&self.shared.operations).long();
        for id in long {
            self.look(id).await;
        }
    }

    /// Advances a message if its piece has ended.
    async fn look(&self, id: u64) {
        let piece = lock(&self.shared.operations).current(id);
        let Some(piece) = piece else { return };
        if self.poll(&piece) {
            // The piece has ended, so this does not wait; it copies the data if the mode requires
            // that.
            let ended = self.wait(&piece, self.processor.bus().now()).await;
            self.advance(id, &piece, ended).await;
        }
    }

    /// Checks whether a message has ended, without waiting.
    ///
    /// # Errors
    /// Returns an error if the message failed.
    pub async fn test(&self, begun: &Begun) -> Result<Option<Ended>> {
        self.progress().await;
        self.look(begun.id).await;
        lock(&self.shared.operations).result(begun.id).transpose()
    }

    /// Waits until all data of a message have left the buffer (TX_f), or have arrived in it (RX_f).
    ///
    /// # Errors
    /// Returns an error if the message failed or its deadline passed.
    pub async fn finish(&self, begun: &Begun) -> Result<Ended> {
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
                // No other message depends on this task, so it waits as its mode prescribes.
                Some(piece) if !others || is_over || self.poll(&piece) => {
                    let ended = self.wait(&piece, deadline).await;
                    self.advance(id, &piece, ended).await;
                }
                // Other messages need to advance meanwhile, or another task is posting a piece.
                _ => self.processor.any_ends(self.soon(deadline)).await,
            }
        }
    }

    /// Returns when to look again: at the deadline, or a little later if that has passed.
    fn soon(&self, deadline: Picoseconds) -> Picoseconds {
        /// Interval of looking while another task posts a piece.
        const LITTLE: Picoseconds = Picoseconds::from_us(1);
        deadline.max(self.processor.bus().now() + LITTLE)
    }

    /// Returns the peer for the neighbour in a direction.
    pub const fn neighbour(direction: Direction, channel: u8) -> Peer {
        Peer::Neighbour { direction, channel }
    }
}

/// Key reserved for a message that has not begun.
struct TakenKey<'a> {
    node: &'a Node,
    direction: MessageDirection,
    key: Key,
}

impl Drop for TakenKey<'_> {
    fn drop(&mut self) {
        lock(&self.node.shared.operations).give_key_back(self.direction, self.key);
    }
}

struct Posting<'a> {
    node: &'a Node,
    id: u64,
    is_posted: bool,
}

impl Drop for Posting<'_> {
    /// Ends the message: the call was dropped, so the device's share of the piece is unknown.
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
