// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be asked of a channel, and what it says about it.

use std::fmt;
use std::ops::Range;

use crosslane_host::Bus;
use crosslane_pcie::units::{BusAddress, Picoseconds};

use crate::buffer::Buffer;

/// What a channel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// Host to card: the engine reads host memory.
    H2c,
    /// Card to host: the engine writes host memory.
    C2h,
    /// Card to any bus address: the engine writes to another device.
    Peer,
}

/// Where the engine finds descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorSource {
    /// In its own table, stored there by the processor word by word.
    Table,
    /// In a ring in host memory, which it reads in batches.
    Ring {
        /// Descriptors in the ring, a power of two from 16 to 65536.
        entries: u32,
    },
    /// At the user circuit's command port (peer channel 0 only): nothing can be posted.
    CommandPort,
}

/// How the host learns of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notification {
    /// It polls the status block in its memory.
    Poll,
    /// It sleeps until an interrupt; what is complete by the time of a post or a wait is known
    /// without one.
    Interrupt,
    /// It sleeps until an interrupt and looks at nothing before: as software that waits once for
    /// each report.
    InterruptOnly,
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H2c => "H2C",
            Self::C2h => "C2H",
            Self::Peer => "peer",
        })
    }
}

/// How a channel is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Where descriptors are.
    pub descriptors: DescriptorSource,
    /// How completions are learnt.
    pub notification: Notification,
    /// Longest write payload or read request, bytes, a power of two; none for the most that is
    /// allowed. What is allowed is for writes the least Max_Payload_Size of the ports on the way
    /// (to host memory, to the connected peer, or of all ports), as it is when the channel is
    /// opened, connected or restarted.
    pub payload_bytes: Option<u32>,
    /// Use `payload_bytes` even beyond Max_Payload_Size: the error then shows where it is found.
    /// Ports on the way are looked at after each transfer.
    pub oversize: bool,
    /// Let data TLPs pass earlier ones.
    pub relaxed_ordering: bool,
    /// Move data to or from addresses of the card's memory, not of a stream (H2C 0 and C2H 0, where
    /// the engine has it). Targets are then [`Target::Card`]
    /// or [`Target::CardToCard`].
    pub card_memory: bool,
}

impl Default for ChannelOptions {
    /// A ring of 1024 descriptors, polled, the longest TLPs that are allowed.
    fn default() -> Self {
        Self {
            descriptors: DescriptorSource::Ring { entries: 1024 },
            notification: Notification::Poll,
            payload_bytes: None,
            oversize: false,
            relaxed_ordering: false,
            card_memory: false,
        }
    }
}

/// When a transfer counts as complete. What a level means depends on the channel:
///
/// * H2C: the engine reports that all data have gone into the card's stream, or are in its memory.
///   That is `Visible`;
///   whoever asks for `Sent` gets the same, a little later than asked for.
/// * C2H: the status write takes the same way as the data and behind them, so what the host learns
///   is always `Visible`, also where it asked for `Sent`.
/// * Peer: `Sent` is told by the status write; `Acknowledged` by the credits of a
///   [`Peer`](crate::Peer) that was connected with them. `Visible` cannot be known by this host
///   and is refused.
///
/// [`wait`](crate::Channel::wait) returns at once for `Accepted`; the buffer stays in flight until
/// the engine has reported the transfer all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompletionLevel {
    /// The engine has been told.
    Accepted,
    /// The last TLP has been handed to the link.
    Sent,
    /// The data can be seen: in host memory (C2H), or in the card's stream or memory
    /// (H2C).
    Visible,
    /// The peer has taken the data: its credit counter says so.
    Acknowledged,
}

impl fmt::Display for CompletionLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Sent => "sent",
            Self::Visible => "visible",
            Self::Acknowledged => "acknowledged",
        })
    }
}

/// The far end of a transfer.
#[derive(Clone, Debug)]
pub enum Target<B: Bus> {
    /// A part of a registered buffer, in bytes (H2C and C2H).
    Buffer(Buffer<B>, Range<u64>),
    /// The same, and the address in the card's memory where they go or come from (channels with
    /// [`card_memory`](ChannelOptions::card_memory)). A table has no places for card addresses:
    /// with it that is 0, and the part is one piece on the bus.
    Card(Buffer<B>, Range<u64>, u64),
    /// So many bytes of the card's memory, to another place in it (C2H 0 with
    /// [`card_memory`](ChannelOptions::card_memory), where the engine can; not with a table). They
    /// do not overlap. What is copied is read ahead: nothing that is posted before and not complete
    /// may write it.
    CardToCard {
        /// Card address of the first byte.
        from: u64,
        /// Card address that it goes to.
        to: u64,
        /// How many.
        bytes: u64,
    },
    /// So many bytes at a bus address (peer channels); see [`Peer::target`](crate::Peer::target).
    Bus(BusAddress, u64),
}

/// One transfer to be posted.
#[derive(Clone, Debug)]
pub struct Transfer<B: Bus> {
    /// Where to, or where from.
    pub target: Target<B>,
    /// When it counts as complete.
    pub level: CompletionLevel,
    /// When it has failed if it is not complete; [`Picoseconds::NEVER`] for no deadline.
    pub deadline: Picoseconds,
}

/// A posted transfer, for [`Channel::wait`](crate::Channel::wait). Numbers rise by one with each
/// transfer of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A transfer that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Bytes moved.
    pub bytes: u64,
    /// When the doorbell for it was rung.
    pub posted: Picoseconds,
    /// When the host learnt that it is complete.
    pub completed: Picoseconds,
}

/// What a channel has done since it was opened, as the host sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transfers posted.
    pub posted: u64,
    /// Transfers complete.
    pub completed: u64,
    /// Transfers that failed or were cancelled.
    pub failed: u64,
    /// Bytes of the complete ones.
    pub bytes: u64,
    /// Descriptors posted.
    pub descriptors: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Times that the channel was restarted.
    pub restarts: u64,
}

/// The engine's counters and hardware timers of a channel, since they were reset. Times are in
/// clocks of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Payload bytes moved.
    pub bytes: u64,
    /// Request TLPs built.
    pub tlps: u32,
    /// Descriptors fetched.
    pub fetched: u32,
    /// First TLP begun.
    pub first_clocks: u64,
    /// Last TLP handed on, or last data arrived.
    pub last_clocks: u64,
    /// Idle for want of a descriptor.
    pub no_descriptor_clocks: u32,
    /// Idle for want of data in the stream.
    pub no_data_clocks: u32,
    /// Idle because no more reads may be in flight.
    pub no_tag_clocks: u32,
    /// Held back by the link.
    pub link_clocks: u32,
    /// Held back by the peer's credit window.
    pub no_credit_clocks: u32,
    /// In the gap behind a descriptor.
    pub gap_clocks: u32,
}

impl<B: Bus> Target<B> {
    /// Bytes of the transfer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Buffer(_, part) | Self::Card(_, part, _) => part.end.saturating_sub(part.start),
            Self::CardToCard { bytes, .. } | Self::Bus(_, bytes) => *bytes,
        }
    }
}
