// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a bus and of a PCI Express tree.

use crosslane_pcie::config::CONFIG_SPACE_BYTES;
use crosslane_pcie::units::{Picoseconds, RoutingId};
use thiserror::Error;

use crate::bus::{RegisterAddress, Waiting};
use crate::{Reason, kinds};

/// Outcome of an access to a device or to memory, or of a wait.
pub type BusResult<T> = Result<T, BusError>;

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
    #[error("cannot map BAR{bar} of {function} write-combined: {why}")]
    CannotCombine {
        /// The function.
        function: RoutingId,
        /// Number of the BAR.
        bar: u8,
        /// The obstacle.
        why: String,
    },
    /// The device did not answer a read: Unsupported Request, or a link that is down.
    #[error("cannot read {at}: {why}")]
    NoAnswer {
        /// First byte of the read.
        at: RegisterAddress,
        /// Completion status or link state.
        #[source]
        why: Reason,
    },
    /// The core has too much waiting to take more.
    #[error("cannot queue another access of the core: {why}")]
    Busy {
        /// The work that waits.
        #[source]
        why: Reason,
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
    /// Memory of a mapped file that has lost pages: it was made shorter, or its disk is full.
    #[error(
        "a mapped file of {size_bytes} B has lost pages: it was made shorter, or its disk is full"
    )]
    NoPages {
        /// Size of the memory, as it was mapped.
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
        #[source]
        why: Reason,
    },
    /// An operation that the platform could not carry out.
    #[error("{function}: {why}")]
    Failed {
        /// The function that the operation was for.
        function: RoutingId,
        /// The failed operation, its cause, and a remedy.
        #[source]
        why: Reason,
    },
    /// An error of the tree.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

kinds!(BusError {
    Self::NoSuchRegister { .. } | Self::Unaligned { .. } | Self::BeyondMemory { .. }
    | Self::Pinning { .. } | Self::NoSuchVector { .. } => InvalidArgument,
    Self::BadStoreWidth { .. } | Self::CannotCombine { .. } | Self::CannotWait { .. }
        => Unsupported,
    Self::Busy { .. } | Self::OutOfMemory { .. } => Busy,
    Self::Deadline { .. } => Timeout,
    Self::NoPages { .. } => Data,
    Self::Lost { .. } => LinkDown,
    Self::NoAnswer { why, .. } | Self::Failed { why, .. } => why.kind(),
    Self::Topology(error) => error.kind(),
});

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
    #[error("cannot access the configuration space of {function}: {why}")]
    Refused {
        /// The function.
        function: RoutingId,
        /// The platform's reason.
        #[source]
        why: Reason,
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

kinds!(TopologyError {
    Self::NoSuchFunction(_) => NotFound,
    Self::BadOffset { .. } => InvalidArgument,
    Self::Refused { why, .. } => why.kind(),
});

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;

    use ErrorKind::{
        Busy, Data, Denied, Failed, InvalidArgument, LinkDown, NotFound, Timeout, Unsupported,
    };

    use crate::ErrorKind;

    use super::*;
    use crate::rdma::RdmaError;

    const FUNCTION: RoutingId = RoutingId::new(1, 0, 0);
    const AT: RegisterAddress = RegisterAddress { function: FUNCTION, bar: 0, offset_bytes: 8 };

    #[test]
    fn every_bus_and_topology_error_has_its_kind() {
        let why = |kind| Reason::new(kind, "no");
        let none = String::new;
        let (what, deadline) = (none(), Picoseconds::ZERO);
        let missing = TopologyError::NoSuchFunction(FUNCTION);
        for (error, kind) in [
            (BusError::NoSuchRegister { at: AT, bytes: 4, why: none() }, InvalidArgument),
            (BusError::Unaligned { at: AT, width_bytes: 16 }, InvalidArgument),
            (BusError::BadStoreWidth { width_bytes: 3, most: 8 }, Unsupported),
            (BusError::CannotCombine { function: FUNCTION, bar: 0, why: none() }, Unsupported),
            (BusError::NoAnswer { at: AT, why: why(LinkDown) }, LinkDown),
            (BusError::NoAnswer { at: AT, why: why(Timeout) }, Timeout),
            (BusError::Busy { why: why(Failed) }, Busy),
            (BusError::Deadline { what, deadline }, Timeout),
            (BusError::CannotWait { waiting: Waiting::Monitor, why: none() }, Unsupported),
            (BusError::OutOfMemory { bytes: 2, left_bytes: 1 }, Busy),
            (BusError::BeyondMemory { offset_bytes: 8, bytes: 1, size_bytes: 8 }, InvalidArgument),
            (BusError::NoPages { size_bytes: 8 }, Data),
            (BusError::Pinning { address: 0, what: "" }, InvalidArgument),
            (BusError::NoSuchVector { function: FUNCTION, vector: 1, have: 1 }, InvalidArgument),
            (BusError::Lost { function: FUNCTION, why: why(Failed) }, LinkDown),
            (BusError::Failed { function: FUNCTION, why: why(Denied) }, Denied),
            (missing.into(), NotFound),
            (TopologyError::BadOffset { offset: 3 }.into(), InvalidArgument),
            (TopologyError::Refused { function: FUNCTION, why: why(Denied) }.into(), Denied),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(Reason::from(error).kind(), kind);
        }
    }

    #[test]
    fn every_network_error_has_its_kind() {
        let why = |kind| Reason::new(kind, "no");
        let name = || "lab".to_owned();
        let (what, operation) = ("the near", "read");
        for (error, kind) in [
            (RdmaError::Unusable { network: name(), why: why(Unsupported) }, Unsupported),
            (RdmaError::Address { address: name(), why: why(NotFound) }, NotFound),
            (RdmaError::OutOfMemory { bytes: 1, why: why(Failed) }, Busy),
            (RdmaError::Registration { bytes: 1, why: why(InvalidArgument) }, InvalidArgument),
            (
                RdmaError::BeyondMemory { what, offset_bytes: 1, bytes: 1, size_bytes: 1 },
                InvalidArgument,
            ),
            (RdmaError::LongMessage { bytes: 2, most: 1 }, InvalidArgument),
            (RdmaError::Refused { peer: name(), operation, why: why(Denied) }, Denied),
            (RdmaError::Lost { peer: name(), why: name() }, LinkDown),
            (RdmaError::Deadline { what: name() }, Timeout),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "the numbers are Linux's")]
    fn errors_of_the_system_have_kinds() {
        for (errno, kind) in [
            (1, Denied),
            (2, NotFound),
            (4, ErrorKind::Cancelled),
            (5, Failed),
            (6, NotFound),
            (12, Busy),
            (13, Denied),
            (16, Busy),
            (19, NotFound),
            (22, InvalidArgument),
            (25, Unsupported),
            (32, LinkDown),
            (95, Unsupported),
            (98, Busy),
            (99, NotFound),
            (110, Timeout),
            (111, LinkDown),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(Reason::from(error).kind(), kind, "errno {errno}");
        }
        assert_eq!(ErrorKind::from(io::ErrorKind::InvalidData), Data);
    }

    #[test]
    fn the_cause_of_a_reason_is_the_source_of_its_error() {
        let cause = TopologyError::BadOffset { offset: 3 };
        let why = Reason::new(Failed, cause.clone());
        let error = BusError::Failed { function: FUNCTION, why };
        assert_eq!(error.to_string(), format!("01:00.0: {cause}"));
        let source = error.source().and_then(|source| source.downcast_ref());
        assert_eq!(source, Some(&cause));
    }
}
