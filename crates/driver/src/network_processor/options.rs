// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Modes of the driver, and messages with their keys.

use std::fmt;
use std::ops::Range;

use crosslane_host::{AnyBus, Bus, Mapping, Waiting, setters};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::network_request::what;
use smart_default::SmartDefault;

use super::REQUEST_BAR;
use crate::buffer::Buffer;

/// Most payloads of a message: its index has 13 bits.
pub const MAX_PAYLOADS: u64 = 1 << what::INDEX.width;
/// Bytes of a datagram's payload, but of a long one's.
pub const PAYLOAD_BYTES: u64 = 128;
/// Bytes of a long datagram's payload.
pub const LONG_PAYLOAD_BYTES: u64 = 256;
/// Bytes of the word before a routed datagram's payload.
const ROUTING_BYTES: u64 = 8;
/// Bytes of the longest message.
pub const MAX_MESSAGE_BYTES: u64 = PAYLOAD_BYTES * MAX_PAYLOADS;
/// Number of virtual channels of a link.
pub const CHANNELS: u8 = 1 << what::CHANNEL.width;
/// Number of tags of a channel.
pub const TAGS: u8 = 1 << what::TAG.width;
/// The channel that routed messages use.
pub(crate) const ROUTED_CHANNEL: u8 = 6;

/// Location of the data of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Buffers {
    /// The program's own pages, registered once. They may be anywhere, so a message has a request
    /// for each page, and one for each payload that lies in two, which the driver copies.
    #[default]
    User,
    /// The program's own memory, which no device reaches: the driver copies each message to or from
    /// its own contiguous memory.
    Copied,
    /// Contiguous memory that the driver has allocated and mapped for the program beforehand.
    Mapped,
}

/// Means of passing a request to the network processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requests {
    /// One system call for each message; the kernel stores the request, uncached.
    SystemCall,
    /// Stores by the program through a mapping of the aperture.
    Stores(Mapping),
}

impl Requests {
    /// Chooses the fastest mapping that the card's aperture supports: write-combined, or else
    /// uncached.
    pub fn fastest(bus: &AnyBus, function: RoutingId) -> Self {
        let combined = bus.check_mapping(function, REQUEST_BAR, Mapping::WriteCombined);
        Self::Stores(combined.map_or(Mapping::Uncached, |()| Mapping::WriteCombined))
    }
}

/// Modes of the driver: the three choices of the paper. By default: registered pages, requests
/// stored without a system call, and polling.
#[derive(Clone, Copy, Debug, SmartDefault, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Modes {
    /// Location of the data.
    #[default(Buffers::User)]
    pub buffers: Buffers,
    /// Means of writing requests.
    #[default(Requests::Stores(Mapping::Uncached))]
    pub requests: Requests,
    /// Means of waiting for the end of a message.
    #[default(Waiting::Polling)]
    pub waiting: Waiting,
}

impl Modes {
    /// Memory that the driver has mapped, requests through a write-combined mapping, and polling.
    pub const FASTEST: Self = Self {
        buffers: Buffers::Mapped,
        requests: Requests::Stores(Mapping::WriteCombined),
        waiting: Waiting::Polling,
    };
}

setters!(Modes {
    with_buffers(buffers: Buffers),
    with_requests(requests: Requests),
    with_waiting(waiting: Waiting),
});

/// Identity of a message. Messages that one node sends at the same time have different keys, and so
/// do those that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A message to or from the node at the other end of a link.
    Neighbour {
        /// Number of the link.
        link: u8,
        /// Virtual channel, 0 to 7; 0 to 5 if the node has a position in a torus.
        channel: u8,
        /// Tag, 0 to 63.
        tag: u8,
    },
    /// A message to or from any node of the torus.
    Routed {
        /// Number of the other node.
        node: u16,
        /// Tag, 0 to 63.
        tag: u8,
    },
}

impl Key {
    /// Returns how many bytes of the message each of its datagrams but the last carries, where a
    /// datagram's payload is `payload_bytes`
    /// ([`NetworkSizes::payload_bytes`](super::NetworkSizes::payload_bytes)).
    pub const fn unit_bytes(self, payload_bytes: u64) -> u64 {
        match self {
            Self::Neighbour { .. } => payload_bytes,
            Self::Routed { .. } => payload_bytes - ROUTING_BYTES,
        }
    }

    /// Returns the length of the longest message, bytes.
    pub const fn max_bytes(self, payload_bytes: u64) -> u64 {
        let by_index = self.unit_bytes(payload_bytes) * MAX_PAYLOADS;
        if by_index < MAX_MESSAGE_BYTES { by_index } else { MAX_MESSAGE_BYTES }
    }

    /// Returns the tag.
    pub const fn tag(self) -> u8 {
        match self {
            Self::Neighbour { tag, .. } | Self::Routed { tag, .. } => tag,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Neighbour { link, channel, tag } => {
                write!(f, "link {link} channel {channel} tag {tag}")
            }
            Self::Routed { node, tag } => write!(f, "node {node} tag {tag}"),
        }
    }
}

/// A message to be sent, or the room for one to be received.
#[derive(Clone)]
pub struct Message {
    /// Identity of the message: link or node, channel and tag.
    pub key: Key,
    /// Memory of [`NetworkProcessor::buffer`](super::NetworkProcessor::buffer) or `register`.
    pub buffer: Buffer,
    /// Part of the buffer that holds the message, in bytes.
    pub part: Range<u64>,
    /// Time until which its request may wait for a slot.
    pub deadline: Picoseconds,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({}, bytes {:?} of {:?})", self.key, self.part, self.buffer)
    }
}

/// A message to be sent, or the room for one to be received, in several parts of a buffer.
#[derive(Clone)]
pub struct ScatteredMessage {
    /// Identity of the message: link or node, channel and tag.
    pub key: Key,
    /// Memory of [`NetworkProcessor::buffer`](super::NetworkProcessor::buffer) or `register`.
    pub buffer: Buffer,
    /// Parts of the buffer that hold the message, in bytes, in its order. Unless they are copied,
    /// each takes a slot, and so does the payload between two of them that are not multiples of
    /// [`Key::unit_bytes`].
    pub parts: Vec<Range<u64>>,
    /// Time until which its requests may wait for slots.
    pub deadline: Picoseconds,
}

impl ScatteredMessage {
    /// Returns the length of the message, bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.end.saturating_sub(part.start)).sum()
    }
}

impl fmt::Debug for ScatteredMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, parts) = (self.bytes(), self.parts.len());
        write!(f, "ScatteredMessage({}, {bytes} B in {parts} parts of {:?})", self.key, self.buffer)
    }
}

impl From<Message> for ScatteredMessage {
    fn from(Message { key, buffer, part, deadline }: Message) -> Self {
        Self { key, buffer, parts: vec![part], deadline }
    }
}

/// Result of a message that ended without error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Bytes of the message that were sent or received.
    pub bytes: u64,
    /// Time at which its request was written.
    pub posted: Picoseconds,
    /// Time at which the driver learned of its end.
    pub ended: Picoseconds,
}
