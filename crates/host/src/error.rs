// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a bus and of a PCI Express tree.

use crosslane_pcie::config::CONFIG_SPACE_BYTES;
use crosslane_pcie::units::{Picoseconds, RoutingId};
use thiserror::Error;

use crate::bus::{RegisterAddress, Waiting};

/// An error of an access to a device or to memory, or of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BusError {
    /// The BAR does not exist, or the access ends beyond it.
    #[error("{bytes} B at {at} are not in a BAR: {why}")]
    NoSuchRegister {
        /// First byte of the access.
        at: RegisterAddress,
        /// Bytes of the access.
        bytes: u64,
        /// The reason: the BAR's actual size, or its absence.
        why: String,
    },
    /// An access that is not naturally aligned.
    #[error("{at} is not a multiple of the access width, {width_bytes} B")]
    Unaligned {
        /// First byte of the access.
        at: RegisterAddress,
        /// Width of one store or load.
        width_bytes: u32,
    },
    /// A store of a width that the processor does not have.
    #[error(
        "cannot store {width_bytes} B at once: the processor stores powers of two up to {most} B"
    )]
    BadStoreWidth {
        /// The width that was asked for.
        width_bytes: u32,
        /// The widest store of the processor, bytes.
        most: u32,
    },
    /// A BAR that cannot be mapped write-combined.
    #[error("BAR{bar} of {function} cannot be write-combined: {why}")]
    CannotCombine {
        /// The function.
        function: RoutingId,
        /// Number of the BAR.
        bar: u8,
        /// The obstacle.
        why: String,
    },
    /// The device did not answer a read: Unsupported Request, or a link that is down.
    #[error("reading {at} got no data: {why}")]
    NoAnswer {
        /// First byte of the read.
        at: RegisterAddress,
        /// Completion status or link state.
        why: String,
    },
    /// The core has too much waiting to take more.
    #[error("the core takes no more: {why}")]
    Busy {
        /// The work that waits.
        why: String,
    },
    /// The deadline passed before the awaited event.
    #[error("the deadline at {deadline} passed while waiting for {what}")]
    Deadline {
        /// The awaited event.
        what: String,
        /// The deadline.
        deadline: Picoseconds,
    },
    /// A method of waiting for memory that this bus does not offer.
    #[error("waiting by {waiting} is not supported: {why}")]
    CannotWait {
        /// The method that was asked for.
        waiting: Waiting,
        /// The reason, such as a missing processor feature.
        why: String,
    },
    /// Too little memory of that kind is left.
    #[error("out of DMA memory: {bytes} B requested, {left_bytes} B free")]
    OutOfMemory {
        /// Size of the memory that was asked for.
        bytes: u64,
        /// Bytes that are left.
        left_bytes: u64,
    },
    /// An access beyond the end of a piece of memory.
    #[error("{bytes} B at offset {offset_bytes} reach beyond a memory of {size_bytes} B")]
    BeyondMemory {
        /// Offset of the access's first byte.
        offset_bytes: u64,
        /// Length of the access.
        bytes: u64,
        /// Size of the memory.
        size_bytes: u64,
    },
    /// Memory that is not pinned for a function, or pinned twice.
    #[error("memory at {address:#x} {what}")]
    Pinning {
        /// First byte of the memory, as the host sees it.
        address: u64,
        /// The mistake.
        what: &'static str,
    },
    /// The function has fewer interrupt vectors, or none were enabled.
    #[error("{function} has no interrupt vector {vector}: it has {have} of them")]
    NoSuchVector {
        /// The function.
        function: RoutingId,
        /// The vector that was asked for.
        vector: u16,
        /// Number of vectors that the function has or that are enabled.
        have: u16,
    },
    /// The function can no longer be used: it was removed, its server has ended, or the system
    /// wants it back.
    #[error("{function} can no longer be used: {why}")]
    Lost {
        /// The function.
        function: RoutingId,
        /// The cause of the loss.
        why: String,
    },
    /// An operation that the platform could not carry out.
    #[error("{function}: {why}")]
    Failed {
        /// The function that the operation was for.
        function: RoutingId,
        /// The failed operation, its cause, and a remedy.
        why: String,
    },
    /// An error of the tree.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// An error of an access to a host's tree.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// No function has this number.
    #[error("there is no function {0}")]
    NoSuchFunction(RoutingId),
    /// An offset that is not of a DW of a configuration space.
    #[error("{offset:#x} is not the offset of a DW in configuration space")]
    BadOffset {
        /// The offset that was asked for.
        offset: u16,
    },
    /// The platform does not permit this program the access.
    #[error("configuration space of {function}: {why}")]
    Refused {
        /// The function.
        function: RoutingId,
        /// The platform's reason.
        why: String,
    },
}

impl TopologyError {
    /// Checks that `offset` is that of a DW of a configuration space.
    ///
    /// # Errors
    /// [`BadOffset`](Self::BadOffset) if it is not a multiple of 4, or lies beyond the end.
    pub const fn check_offset(offset: u16) -> Result<(), Self> {
        match offset.is_multiple_of(4) && offset < CONFIG_SPACE_BYTES {
            true => Ok(()),
            false => Err(Self::BadOffset { offset }),
        }
    }
}
