// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options, transfers and counters of a channel.

use std::ops::Range;

use crosslane_host::setters;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use smart_default::SmartDefault;
use strum::Display;

use crate::buffer::Buffer;
use crate::peer_memory::PeerMemory;

/// Kind of a channel: the direction in which it moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum ChannelKind {
    /// Host to card: the engine reads host memory.
    #[strum(to_string = "H2C")]
    H2c,
    /// Card to host: the engine writes host memory.
    #[strum(to_string = "C2H")]
    C2h,
    /// Card to any bus address: the engine writes to another device.
    #[strum(to_string = "peer")]
    Peer,
}

/// Source of a channel's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorSource {
    /// A table in the engine, stored there by the processor word by word.
    Table,
    /// A ring in host memory, which the engine reads in batches.
    Ring {
        /// Descriptors in the ring, a power of two from 16 to 65536.
        entries: u32,
    },
    /// The user circuit's command port (peer channel 0 only): nothing can be posted.
    CommandPort,
}

/// Means by which the host learns of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notification {
    /// Poll the status block in host memory.
    Poll,
    /// Sleep until an interrupt; a post or a wait also notices without one whatever is complete by
    /// then.
    Interrupt,
    /// Sleep until an interrupt and look at nothing before, like software that waits once for each
    /// report.
    InterruptOnly,
}

/// Options of a channel. By default: a polled ring of 1024 descriptors with the longest TLPs
/// allowed.
#[derive(Clone, Copy, Debug, SmartDefault, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Source of the descriptors.
    #[default(DescriptorSource::Ring { entries: 1024 })]
    pub descriptors: DescriptorSource,
    /// Means of learning of completions.
    #[default(Notification::Poll)]
    pub notification: Notification,
    /// Longest write payload or read request, a power of two in bytes; `None` for the longest
    /// allowed. For writes that is the least Max_Payload_Size of the ports of the path (to host
    /// memory, to the connected peer, or of all ports), taken when the channel is opened, connected
    /// or restarted.
    pub payload_bytes: Option<u32>,
    /// Use `payload_bytes` even beyond Max_Payload_Size, to see where the error is detected. Ports
    /// of the path are checked after each transfer.
    pub oversize: bool,
    /// Let data TLPs pass earlier ones (relaxed ordering).
    pub relaxed_ordering: bool,
    /// Move data to or from addresses of the card's memory instead of a stream (H2C 0 and C2H 0, if
    /// the engine supports it). Targets are then [`Target::Card`],
    /// [`Target::CardToCard`] or [`Target::PeerCard`].
    pub card_memory: bool,
    /// Packet mode (H2C 0 and C2H 0 with a ring, if the engine has it). H2C: each transfer is a
    /// packet of the card's stream. C2H: each transfer takes one packet, or a part of one;
    /// [`recv_packets`](crate::Channel::recv_packets) puts them together.
    pub packets: bool,
    /// C2H in packet mode: the engine drops packets for which nothing is posted, and counts them.
    /// Otherwise the stream waits.
    pub drop_packets: bool,
    /// Push a single descriptor ahead of its doorbell while nothing else is in flight, where engine
    /// and platform can: see [`pushes`](crate::Channel::pushes). Not with packets or the card's
    /// memory.
    #[default(true)]
    pub push: bool,
    /// Transfers of one post for each status block that reports them, from 1: the last of a post
    /// always has one, and tells of all before it. More than 1 saves the card a write for each
    /// transfer, and the host knows of the others later. Interrupts likewise.
    #[default(1)]
    pub report_every: u32,
}

setters!(ChannelOptions {
    with_descriptors(descriptors: DescriptorSource),
    with_notification(notification: Notification),
    with_payload_bytes(payload_bytes: Option<u32>),
    with_oversize(oversize: bool),
    with_relaxed_ordering(relaxed_ordering: bool),
    with_card_memory(card_memory: bool),
    with_packets(packets: bool),
    with_drop_packets(drop_packets: bool),
    with_push(push: bool),
    with_report_every(report_every: u32),
});

/// Point at which a transfer counts as complete. Its meaning depends on the channel:
///
/// * H2C: the engine reports that all data have gone into the card's stream, or are in its memory.
///   That is `Visible`; `Sent` gets the same, a little later than asked for.
/// * C2H: the status write follows the data on the same path, so completion always means `Visible`,
///   even if `Sent` was asked for. Of data for a [`PeerMemory`] it tells of `Sent`, as they go
///   another way; `Visible` is refused.
/// * Peer: the status write tells of `Sent`; the credits of a [`Peer`](crate::Peer) connected with
///   them tell of `Acknowledged`. This host cannot know `Visible`, which is refused.
///
/// [`wait`](crate::Channel::wait) returns at once for `Accepted`, but the buffer stays in flight
/// until the engine has reported the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[strum(serialize_all = "lowercase")]
pub enum CompletionLevel {
    /// The engine has been told.
    Accepted,
    /// The last TLP has been handed to the link.
    Sent,
    /// The data can be seen: in host memory (C2H), or in the card's stream or memory (H2C).
    Visible,
    /// The peer has taken the data, as its credit counter shows.
    Acknowledged,
}

/// The far end of a transfer.
#[derive(Clone, Debug)]
pub enum Target {
    /// A part of a registered buffer, in bytes (H2C and C2H).
    Buffer(Buffer, Range<u64>),
    /// A part of a registered buffer, in bytes, and the card address that it goes to or comes from
    /// (channels with [`card_memory`](ChannelOptions::card_memory)). A table cannot hold card
    /// addresses: with one the address must be 0, and the part must be contiguous on the bus.
    Card(Buffer, Range<u64>, u64),
    /// A copy within the card's memory (C2H 0 with [`card_memory`](ChannelOptions::card_memory), if
    /// the engine supports it; not with a table). Source and target must not overlap. The source is
    /// read ahead: no earlier transfer that is still in flight may write it.
    CardToCard {
        /// Card address of the first byte.
        from: u64,
        /// Card address of the first byte of the target.
        to: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// A part of a peer's memory, in bytes, which the card reads into its stream (H2C), or writes
    /// from it (C2H); see [`PeerMemory::target`].
    Peer(PeerMemory, Range<u64>),
    /// A part of a peer's memory, in bytes, and the card address that it goes to (H2C) or comes
    /// from (C2H), on channels with [`card_memory`](ChannelOptions::card_memory), not with a table;
    /// see [`PeerMemory::target_in_card`].
    PeerCard(PeerMemory, Range<u64>, u64),
    /// A bus address and a length in bytes (peer channels); see
    /// [`Peer::target`](crate::Peer::target).
    Bus(BusAddress, u64),
}

/// One transfer to be posted.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The far end.
    pub target: Target,
    /// Completion level to wait for.
    pub level: CompletionLevel,
    /// Time at which it fails if it is not complete; [`Picoseconds::NEVER`] for no deadline.
    pub deadline: Picoseconds,
}

/// A posted transfer, for [`Channel::wait`](crate::Channel::wait). Tickets of a channel count up by
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Result of a complete transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Bytes moved.
    pub bytes: u64,
    /// Time of its doorbell.
    pub posted: Picoseconds,
    /// Time at which the host learnt of its completion.
    pub completed: Picoseconds,
}

/// Host-side counters of a channel since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transfers posted.
    pub posted: u64,
    /// Transfers complete.
    pub completed: u64,
    /// Transfers that failed or were cancelled.
    pub failed: u64,
    /// Bytes of the complete transfers.
    pub bytes: u64,
    /// Descriptors posted.
    pub descriptors: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Descriptors pushed ahead of their doorbells.
    pub pushed: u64,
    /// Restarts of the channel.
    pub restarts: u64,
}

/// The engine's counters and hardware timers of a channel since their last reset. Times are in
/// engine clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Payload bytes moved.
    pub bytes: u64,
    /// Request TLPs built.
    pub tlps: u32,
    /// Descriptors fetched.
    pub fetched: u32,
    /// Time of the first TLP.
    pub first_clocks: u64,
    /// Time at which the last TLP was handed on, or the last data arrived.
    pub last_clocks: u64,
    /// Idle clocks for lack of a descriptor.
    pub no_descriptor_clocks: u32,
    /// Idle clocks for lack of data in the stream.
    pub no_data_clocks: u32,
    /// Idle clocks because the most reads allowed were in flight.
    pub no_tag_clocks: u32,
    /// Clocks held back by the link.
    pub link_clocks: u32,
    /// Clocks held back by the peer's credit window.
    pub no_credit_clocks: u32,
    /// Clocks in the gap after a descriptor.
    pub gap_clocks: u32,
    /// Packet mode (0 in others): packets whose end was moved.
    pub packets: u32,
    /// Packets of which nothing was written, because nothing was posted.
    pub packets_dropped: u32,
    /// Packets of which only the first part was written.
    pub packets_truncated: u32,
    /// Descriptors taken from the channel's line (0 in a channel that does not push).
    pub pushed: u32,
    /// Lines that were dropped, such as those that the processor sent in parts.
    pub pushes_dropped: u32,
}

impl Transfer {
    /// Makes a transfer that is complete when its data can be seen.
    pub const fn new(target: Target, deadline: Picoseconds) -> Self {
        Self { target, level: CompletionLevel::Visible, deadline }
    }

    /// Makes a transfer of a whole buffer that is complete when its data can be seen.
    pub fn of(buffer: &Buffer, deadline: Picoseconds) -> Self {
        Self::new(Target::Buffer(buffer.clone(), 0..buffer.size_bytes()), deadline)
    }

    /// Returns the same transfer with another completion level.
    #[must_use]
    pub fn with_level(self, level: CompletionLevel) -> Self {
        Self { level, ..self }
    }
}

impl Target {
    /// Returns the length of the transfer in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Buffer(_, part)
            | Self::Card(_, part, _)
            | Self::Peer(_, part)
            | Self::PeerCard(_, part, _) => part.end.saturating_sub(part.start),
            Self::CardToCard { bytes, .. } | Self::Bus(_, bytes) => *bytes,
        }
    }
}
