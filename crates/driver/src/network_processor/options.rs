// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked for: how the driver works, and a message with its key.

use std::fmt;
use std::ops::Range;

use crosslane_host::{Bus, Mapping, Waiting};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::network_request::what;

use super::REQUEST_BAR;
use crate::buffer::Buffer;

/// Payloads that a message has at most: its index has 13 bits.
pub const MAX_PAYLOADS: u64 = 1 << what::INDEX.width;
/// Bytes of a datagram's payload.
pub const PAYLOAD_BYTES: u64 = 128;
/// The same of a routed message, beside its routing word.
pub const ROUTED_PAYLOAD_BYTES: u64 = 120;
/// Channels of a link.
pub const CHANNELS: u8 = 1 << what::CHANNEL.width;
/// Tags of a channel.
pub const TAGS: u8 = 1 << what::TAG.width;
/// The channel that routed messages name.
pub(crate) const ROUTED_CHANNEL: u8 = 6;

/// Where the data of messages lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Buffers {
    /// In the program's own pages, registered once. They lie anywhere, so a message has a request
    /// for each page.
    #[default]
    User,
    /// In the program's own memory, which no device reaches: the driver copies each message to or
    /// from contiguous memory of its own.
    Copied,
    /// In contiguous memory that the driver has got and mapped for the program beforehand.
    Mapped,
}

/// How a request comes to the network processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requests {
    /// One system call for each message; the kernel stores the request, uncached.
    SystemCall,
    /// The program stores it through a mapping of the window.
    Stores(Mapping),
}

impl Requests {
    /// Stores through the fastest mapping that a card's window can have: write-combined, or else
    /// uncached.
    #[must_use]
    pub fn fastest<B: Bus>(bus: &B, function: RoutingId) -> Self {
        let combined = bus.check_mapping(function, REQUEST_BAR, Mapping::WriteCombined);
        Self::Stores(combined.map_or(Mapping::Uncached, |()| Mapping::WriteCombined))
    }
}

/// How the driver works: the three choices of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Modes {
    /// Where data lie.
    pub buffers: Buffers,
    /// How requests are written.
    pub requests: Requests,
    /// How the end of a message is learned of.
    pub waiting: Waiting,
}

impl Default for Modes {
    /// Registered pages, requests stored without a call and polling.
    fn default() -> Self {
        let requests = Requests::Stores(Mapping::Uncached);
        Self { buffers: Buffers::User, requests, waiting: Waiting::Polling }
    }
}

/// What a message is told apart by. Two messages that one node sends at the same time differ in it,
/// and so do two that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// To or from the node at the other end of a link.
    Neighbour {
        /// Number of the link.
        link: u8,
        /// Virtual channel, 0 to 7; where the node has a place in a torus, 0 to 5.
        channel: u8,
        /// Tag, 0 to 63.
        tag: u8,
    },
    /// To or from any node of the torus.
    Routed {
        /// Number of the other node.
        node: u16,
        /// Tag, 0 to 63.
        tag: u8,
    },
}

impl Key {
    /// Bytes of a message in each of its datagrams but the last.
    #[must_use]
    pub const fn payload_bytes(self) -> u64 {
        match self {
            Self::Neighbour { .. } => PAYLOAD_BYTES,
            Self::Routed { .. } => ROUTED_PAYLOAD_BYTES,
        }
    }

    /// The longest message, bytes.
    #[must_use]
    pub const fn max_bytes(self) -> u64 {
        self.payload_bytes() * MAX_PAYLOADS
    }

    /// Its tag.
    #[must_use]
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

/// A message that is to be sent, or the room for one that is to come.
pub struct Message<B: Bus> {
    /// Whose, and which.
    pub key: Key,
    /// Memory of [`NetworkProcessor::buffer`](super::NetworkProcessor::buffer) or `register`.
    pub buffer: Buffer<B>,
    /// The message's bytes there.
    pub part: Range<u64>,
    /// Until when its request may wait for a place.
    pub deadline: Picoseconds,
}

impl<B: Bus> Clone for Message<B> {
    fn clone(&self) -> Self {
        let Self { key, deadline, .. } = *self;
        Self { key, buffer: self.buffer.clone(), part: self.part.clone(), deadline }
    }
}

impl<B: Bus> fmt::Debug for Message<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({}, bytes {:?} of {:?})", self.key, self.part, self.buffer)
    }
}

/// A message that has ended as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Bytes of the message: what was sent, or what came.
    pub bytes: u64,
    /// When its request was written.
    pub posted: Picoseconds,
    /// When the driver has learned of its end.
    pub ended: Picoseconds,
}
