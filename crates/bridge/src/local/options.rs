// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests, options and results of local transfers.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_driver::{Buffer, Notification};
use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::setters;
use crosslane_pcie::units::Picoseconds;
use smart_default::SmartDefault;

use crate::error::{BridgeError, Result};
use crate::stage::{Stage, StageStatistics};

/// Sizes of a ring's buffers, bytes: the sbdt paper measured 16 KB to 8 MB and had 16 MB.
pub const BUFFER_BYTES: RangeInclusive<u64> = 16 << 10..=16 << 20;
/// Number of buffers of a ring; 8 in the sbdt paper. A single one means no overlap.
pub const BUFFERS: RangeInclusive<u16> = 1..=64;

/// The core of the host for each task; numbers beyond the last core wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Core that copies the caller's data into the ring.
    pub copy_in: u16,
    /// Core that drives H2C.
    pub transmit: u16,
    /// Core that drives C2H.
    pub receive: u16,
    /// Core that copies data out of the ring.
    pub copy_out: u16,
}

impl Cores {
    /// Gives each task its core.
    pub const fn apart() -> Self {
        Self { copy_in: 0, transmit: 1, receive: 2, copy_out: 3 }
    }

    /// Gives both copies one core, and each controller its core.
    pub const fn one_copier() -> Self {
        Self { copy_out: 0, ..Self::apart() }
    }
}

/// Settings of local transfers. By default: eight buffers of 1 MiB, polled, a core for each task.
#[derive(Clone, Copy, Debug, SmartDefault, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalOptions {
    /// Size of each buffer of a ring, and of each piece of registered memory, bytes.
    #[default(1 << 20)]
    pub buffer_bytes: u64,
    /// Buffers of each ring: pieces in flight at once.
    #[default(8)]
    pub buffers: u16,
    /// Notification of the end of a piece.
    #[default(Notification::Poll)]
    pub notification: Notification,
    /// Pieces reported together, 1 to `buffers`: the host waits for the last of them, and the
    /// buffers of all become free at once.
    #[default(1)]
    pub reported_together: u16,
    /// Cores of the tasks.
    #[default(Cores::apart())]
    pub cores: Cores,
}

setters!(LocalOptions {
    with_buffer_bytes(buffer_bytes: u64),
    with_buffers(buffers: u16),
    with_notification(notification: Notification),
    with_reported_together(reported_together: u16),
    with_cores(cores: Cores),
});

impl LocalOptions {
    /// The call of the sbdt paper: eight buffers, an interrupt for each half of the ring as in the
    /// vendor's sample that the paper began with, and one core that copies.
    pub const fn of_paper(buffer_bytes: u64) -> Self {
        Self {
            buffer_bytes,
            buffers: 8,
            notification: Notification::InterruptOnly,
            reported_together: 4,
            cores: Cores::one_copier(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let problem = if !BUFFER_BYTES.contains(&self.buffer_bytes) {
            let (least, most) = (BUFFER_BYTES.start(), BUFFER_BYTES.end());
            format!("buffers of {} B: {least} to {most} B are possible", self.buffer_bytes)
        } else if !BUFFERS.contains(&self.buffers) {
            let (least, most) = (BUFFERS.start(), BUFFERS.end());
            format!("rings of {} buffers: {least} to {most} are possible", self.buffers)
        } else if !(1..=self.buffers).contains(&self.reported_together) {
            let (together, buffers) = (self.reported_together, self.buffers);
            format!(
                "{together} pieces reported together: 1 to {buffers}, the buffers, are possible"
            )
        } else {
            return Ok(());
        };
        Err(BridgeError::new(Stage::Request, InvalidArgument, problem))
    }
}

/// Source of data in host memory.
pub enum HostSource<'a> {
    /// Any memory, copied into the ring.
    Copied(&'a [u8]),
    /// A number of bytes that a function makes when they are copied into the ring: it fills pieces
    /// from given positions on.
    Made(u64, &'a dyn Fn(u64, &mut [u8])),
    /// A part of a buffer registered with the device, used without a copy.
    Registered(&'a Buffer, Range<u64>),
}

/// Function that is given positions in the data, and the bytes from there.
pub type Taker<'a> = Box<dyn FnMut(u64, &[u8]) + 'a>;

/// Destination of data in host memory.
pub enum HostSink<'a> {
    /// Any memory, copied out of the ring.
    Copied(&'a mut [u8]),
    /// A number of bytes that a function takes when they are copied out of the ring, from the first
    /// to the last.
    Used(u64, Taker<'a>),
    /// A part of a buffer registered with the device, used without a copy.
    Registered(&'a Buffer, Range<u64>),
}

impl HostSource<'_> {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(data) => data.len() as u64,
            Self::Made(bytes, _) => *bytes,
            Self::Registered(_, part) => part.end.saturating_sub(part.start),
        }
    }
}

impl fmt::Debug for HostSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSource({} B)", self.bytes())
    }
}

impl HostSink<'_> {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(data) => data.len() as u64,
            Self::Used(bytes, _) => *bytes,
            Self::Registered(_, part) => part.end.saturating_sub(part.start),
        }
    }
}

impl fmt::Debug for HostSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSink({} B)", self.bytes())
    }
}

/// A transfer request. Card addresses are those of the card's memory, from 0.
#[derive(Debug)]
pub enum Job<'a> {
    /// From host memory to a card address.
    HostToCard {
        /// Source in host memory.
        from: HostSource<'a>,
        /// Destination, a card address.
        to: u64,
    },
    /// From a card address to host memory.
    CardToHost {
        /// Source, a card address.
        from: u64,
        /// Destination in host memory; sets the length.
        to: HostSink<'a>,
    },
    /// From host memory through the stream between the two controllers, past the compute core, and
    /// back into host memory.
    HostToHost {
        /// Source in host memory.
        from: HostSource<'a>,
        /// Destination in host memory, of the same size.
        to: HostSink<'a>,
    },
    /// From a card address through the same stream to another.
    CardToCard {
        /// Source, a card address.
        from: u64,
        /// Destination, a card address; the ranges must not overlap.
        to: u64,
        /// Length, bytes.
        bytes: u64,
    },
}

impl Job<'_> {
    /// Returns the length of the transfer, bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::HostToCard { from, .. } | Self::HostToHost { from, .. } => from.bytes(),
            Self::CardToHost { to, .. } => to.bytes(),
            Self::CardToCard { bytes, .. } => *bytes,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let bytes = self.bytes();
        let problem = match self {
            _ if bytes == 0 => "a transfer of 0 B is not possible".to_owned(),
            Self::HostToHost { to, .. } if to.bytes() != bytes => {
                format!("{bytes} B were to be moved into memory of {} B", to.bytes())
            }
            Self::HostToCard { to: card, .. } | Self::CardToHost { from: card, .. }
                if card.checked_add(bytes).is_none() =>
            {
                format!("no card has memory behind address {card:#x} for {bytes} B")
            }
            Self::CardToCard { from, to, .. } if from.max(to).checked_add(bytes).is_none() => {
                let last = from.max(to);
                format!("no card has memory behind address {last:#x} for {bytes} B")
            }
            // The driver sees only pieces, so it would not notice.
            Self::CardToCard { from, to, .. } if from.abs_diff(*to) < bytes => {
                format!("{bytes} B from card address {from:#x} overlap those from {to:#x}")
            }
            _ => return Ok(()),
        };
        Err(BridgeError::new(Stage::Request, InvalidArgument, problem))
    }
}

/// A handle to watch the progress of transfers. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Arrived(Arc<AtomicU64>);

impl Arrived {
    /// Returns the bytes of the latest transfer that have reached their destination, from the
    /// beginning.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A complete transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Bytes moved.
    pub bytes: u64,
    /// Time from the call until the last byte reached its destination.
    pub elapsed: Picoseconds,
    /// Statistics of the stages that took part, in the order of the data: a stage that copies is
    /// among them only if data were copied. If one core copies for both controllers, the time of a
    /// copy includes its wait for the other; with interrupts, that of DMA includes their delivery.
    pub stages: Vec<StageStatistics>,
}

impl Moved {
    /// Returns the bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e12 / self.elapsed.0.max(1) as f64
    }

    /// Returns the statistics of a stage, if it took part.
    pub fn stage(&self, stage: Stage) -> Option<&StageStatistics> {
        self.stages.iter().find(|statistics| statistics.stage == stage)
    }
}
