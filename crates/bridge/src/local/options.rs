// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a local transfer is asked for, and what it says about itself.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_driver::{Buffer, Notification};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use super::error::LocalError;

/// Sizes of a ring's buffers, bytes: the document measured 16 KB to 8 MB and had 16 MB.
pub const BUFFER_BYTES: RangeInclusive<u64> = 16 << 10..=16 << 20;
/// Buffers of a ring; the document has 8. One does without overlap.
pub const BUFFERS: RangeInclusive<u16> = 1..=64;

/// Which core of the host does what; numbers beyond the last core wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Copies the caller's data into the ring.
    pub copy_in: u16,
    /// Drives H2C.
    pub transmit: u16,
    /// Drives C2H.
    pub receive: u16,
    /// Copies data out of the ring.
    pub copy_out: u16,
}

impl Cores {
    /// A core for each task.
    #[must_use]
    pub const fn apart() -> Self {
        Self { copy_in: 0, transmit: 1, receive: 2, copy_out: 3 }
    }

    /// One core copies both ways, and each controller has one of its own.
    #[must_use]
    pub const fn one_copier() -> Self {
        Self { copy_out: 0, ..Self::apart() }
    }
}

/// How local transfers are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Bytes of each buffer of a ring, and of each piece in which registered memory is moved.
    pub buffer_bytes: u64,
    /// Buffers of each ring: pieces that are on their way at once.
    pub buffers: u16,
    /// How the end of a piece is learnt.
    pub notification: Notification,
    /// Pieces after whose last one the host looks what is complete, 1 to `buffers`: the buffers of
    /// all of them become free at once.
    pub reported_together: u16,
    /// Where the tasks run.
    pub cores: Cores,
}

impl Default for LocalOptions {
    /// Eight buffers of 1 MiB, polled, a core for each task.
    fn default() -> Self {
        Self {
            buffer_bytes: 1 << 20,
            buffers: 8,
            notification: Notification::Poll,
            reported_together: 1,
            cores: Cores::apart(),
        }
    }
}

impl LocalOptions {
    /// The document's call: eight buffers, an interrupt for each half of the ring as the vendor's
    /// sample has it that the document began with, and one core that copies.
    #[must_use]
    pub const fn of_document(buffer_bytes: u64) -> Self {
        Self {
            buffer_bytes,
            buffers: 8,
            notification: Notification::InterruptOnly,
            reported_together: 4,
            cores: Cores::one_copier(),
        }
    }

    /// Bytes of a ring.
    pub(super) fn ring_bytes(&self) -> u64 {
        u64::from(self.buffers) * self.buffer_bytes
    }

    pub(super) fn check(&self) -> Result<(), LocalError> {
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
        Err(LocalError::Refused { problem })
    }
}

/// Host memory that data come from.
#[derive(Debug)]
pub enum HostSource<'a, B: Bus> {
    /// Any memory: it is copied into the ring.
    Copied(&'a [u8]),
    /// A part of a buffer that is registered with the device: nothing is copied.
    Registered(&'a Buffer<B>, Range<u64>),
}

/// Host memory that data go to.
#[derive(Debug)]
pub enum HostSink<'a, B: Bus> {
    /// Any memory: it is copied out of the ring.
    Copied(&'a mut [u8]),
    /// A part of a buffer that is registered with the device: nothing is copied.
    Registered(&'a Buffer<B>, Range<u64>),
}

impl<B: Bus> HostSource<'_, B> {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(data) => data.len() as u64,
            Self::Registered(_, part) => part.end.saturating_sub(part.start),
        }
    }
}

impl<B: Bus> HostSink<'_, B> {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(data) => data.len() as u64,
            Self::Registered(_, part) => part.end.saturating_sub(part.start),
        }
    }
}

/// What is to be moved. Card addresses are those of the card's memory, from 0.
#[derive(Debug)]
pub enum Job<'a, B: Bus> {
    /// From host memory to a card address.
    HostToCard {
        /// What.
        from: HostSource<'a, B>,
        /// Where to.
        to: u64,
    },
    /// From a card address to host memory.
    CardToHost {
        /// Where from.
        from: u64,
        /// Where to, and how many bytes.
        to: HostSink<'a, B>,
    },
    /// From host memory through the stream between the two controllers, where the compute core is,
    /// and back into host memory.
    HostToHost {
        /// What.
        from: HostSource<'a, B>,
        /// Where to; of the same size.
        to: HostSink<'a, B>,
    },
    /// From a card address through the same stream to another.
    CardToCard {
        /// Where from.
        from: u64,
        /// Where to; the two do not overlap.
        to: u64,
        /// How many bytes.
        bytes: u64,
    },
}

impl<B: Bus> Job<'_, B> {
    /// Bytes that are to be moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::HostToCard { from, .. } | Self::HostToHost { from, .. } => from.bytes(),
            Self::CardToHost { to, .. } => to.bytes(),
            Self::CardToCard { bytes, .. } => *bytes,
        }
    }

    pub(super) fn check(&self) -> Result<(), LocalError> {
        let bytes = self.bytes();
        let problem = match self {
            _ if bytes == 0 => "a transfer of 0 B was asked for".to_owned(),
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
            // Piece by piece the driver would not see it.
            Self::CardToCard { from, to, .. } if from.abs_diff(*to) < bytes => {
                format!("{bytes} B from card address {from:#x} overlap those from {to:#x}")
            }
            _ => return Ok(()),
        };
        Err(LocalError::Refused { problem })
    }
}

/// How data went between the caller's memory and a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handling {
    /// Through the ring: the processor copied every byte.
    Copied,
    /// From or to the caller's registered memory itself.
    ZeroCopy,
    /// Data stayed on the card.
    OnCard,
}

impl fmt::Display for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copied => "copied",
            Self::ZeroCopy => "zero-copy",
            Self::OnCard => "on the card",
        })
    }
}

/// What one controller and its ring have done in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideStatistics {
    /// How data came to it or went from it.
    pub handling: Handling,
    /// Bytes that it has moved.
    pub bytes: u64,
    /// Pieces that they were moved in.
    pub pieces: u64,
    /// Time that its copies took: where one core copies for both controllers, with the time for
    /// which they waited for each other.
    pub copying: Picoseconds,
    /// Time in which a piece waited for a buffer to become free.
    pub waiting_for_buffer: Picoseconds,
    /// Time in which the controller had at least one piece that it had not reported: with
    /// interrupts that includes the way of the report.
    pub dma: Picoseconds,
}

/// How far a transfer is, for those who watch it. Clones watch the same.
#[derive(Clone, Debug, Default)]
pub struct Arrived(Arc<AtomicU64>);

impl Arrived {
    /// Bytes of the last transfer that was begun that are where they should be, from the beginning
    /// on.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A transfer that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// From the call until the last byte was where it should be.
    pub elapsed: Picoseconds,
    /// H2C, where it took part.
    pub transmit: Option<SideStatistics>,
    /// C2H, where it took part.
    pub receive: Option<SideStatistics>,
}

impl Moved {
    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e12 / self.elapsed.0.max(1) as f64
    }
}
