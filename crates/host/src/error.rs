// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a bus or a tree refuses, or cannot do.

use crosslane_pcie::config::CONFIG_SPACE_BYTES;
use crosslane_pcie::units::{Picoseconds, RoutingId};
use thiserror::Error;

use crate::bus::{RegisterAddress, Waiting};

/// What went wrong on the way to a device, to memory or while waiting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BusError {
    /// There is no such BAR, or the access goes beyond its end.
    #[error("{bytes} B at {at} are not in a BAR: {why}")]
    NoSuchRegister {
        /// First byte of the access.
        at: RegisterAddress,
        /// Bytes of the access.
        bytes: u64,
        /// What is there.
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
    #[error("stores of {width_bytes} B: the processor has those of a power of two up to {most} B")]
    BadStoreWidth {
        /// What was asked for.
        width_bytes: u32,
        /// The widest.
        most: u32,
    },
    /// A BAR that no write-combined mapping is to be had of.
    #[error("BAR{bar} of {function} cannot be write-combined: {why}")]
    CannotCombine {
        /// The function.
        function: RoutingId,
        /// Number of the BAR.
        bar: u8,
        /// What stands against it.
        why: String,
    },
    /// The device did not answer a read: Unsupported Request, or a link that is down.
    #[error("reading {at} got no data: {why}")]
    NoAnswer {
        /// What was read.
        at: RegisterAddress,
        /// Completion status or link state.
        why: String,
    },
    /// So much waits for a core that it takes nothing more.
    #[error("the core takes no more: {why}")]
    Busy {
        /// What waits.
        why: String,
    },
    /// Nothing happened until the deadline.
    #[error("the deadline at {deadline} passed while waiting for {what}")]
    Deadline {
        /// What was waited for.
        what: String,
        /// The deadline.
        deadline: Picoseconds,
    },
    /// A way of waiting for memory that is not to be had.
    #[error("waiting by {waiting} is not to be had: {why}")]
    CannotWait {
        /// What was asked for.
        waiting: Waiting,
        /// What is missing.
        why: String,
    },
    /// No memory of that kind is left.
    #[error(
        "{bytes} B of memory that devices can reach are not to be had: {left_bytes} B are left"
    )]
    OutOfMemory {
        /// What was asked for.
        bytes: u64,
        /// What is left.
        left_bytes: u64,
    },
    /// An access beyond the end of a piece of memory.
    #[error("{bytes} B at offset {offset_bytes} reach beyond a memory of {size_bytes} B")]
    BeyondMemory {
        /// Where the access begins.
        offset_bytes: u64,
        /// Its length.
        bytes: u64,
        /// Size of the memory.
        size_bytes: u64,
    },
    /// Memory that is not pinned for a function, or pinned twice.
    #[error("memory at {address:#x} {what}")]
    Pinning {
        /// First byte of the memory, as the host sees it.
        address: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The function cannot send so many interrupts, or none were enabled.
    #[error("{function} has {have} interrupt vectors, vector {vector} was asked for")]
    NoSuchVector {
        /// The function.
        function: RoutingId,
        /// The vector that was asked for.
        vector: u16,
        /// How many there are.
        have: u16,
    },
    /// The function can no longer be used: it was removed, its server has ended, or the system
    /// wants it back.
    #[error("{function} can no longer be used: {why}")]
    Lost {
        /// The function.
        function: RoutingId,
        /// What happened to it.
        why: String,
    },
    /// The platform could not do what was asked for.
    #[error("{function}: {why}")]
    Failed {
        /// The function that it was asked for.
        function: RoutingId,
        /// What failed and why, with what would help.
        why: String,
    },
    /// The tree refused.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// What the tree of a host refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// No function answers there.
    #[error("there is no function {0}")]
    NoSuchFunction(RoutingId),
    /// Not a DW of a configuration space.
    #[error("{offset:#x} is no DW of a configuration space")]
    BadOffset {
        /// What was asked for.
        offset: u16,
    },
    /// The platform does not let this program do it.
    #[error("configuration space of {function}: {why}")]
    Refused {
        /// The function.
        function: RoutingId,
        /// The platform's reason.
        why: String,
    },
}

impl TopologyError {
    /// That `offset` is one of a DW of a configuration space.
    ///
    /// # Errors
    /// [`BadOffset`](Self::BadOffset) where it is no multiple of 4, or beyond the end.
    pub const fn check_offset(offset: u16) -> Result<(), Self> {
        match offset.is_multiple_of(4) && offset < CONFIG_SPACE_BYTES {
            true => Ok(()),
            false => Err(Self::BadOffset { offset }),
        }
    }
}
