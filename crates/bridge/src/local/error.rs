// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a local transfer.

use std::fmt;

use crosslane_driver::{DriverError, TransferError};
use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

/// A step of a local transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Copying the caller's data into the ring.
    CopyIn,
    /// DMA from the host (H2C).
    Transmit,
    /// DMA to the host, or within the card (C2H).
    Receive,
    /// Copying data out of the ring.
    CopyOut,
    /// None of them: the transfer as a whole.
    Whole,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CopyIn => "copying into the ring",
            Self::Transmit => "DMA from the host",
            Self::Receive => "DMA to the host",
            Self::CopyOut => "copying out of the ring",
            Self::Whole => "local transfer",
        })
    }
}

/// Why a stage failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LocalFault {
    /// The controller stopped, or a piece was not complete in time.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The driver refused, or the device does not answer.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The deadline passed outside of the controllers.
    #[error("not complete at the deadline, {0}")]
    Deadline(Picoseconds),
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// A local transfer that was not made, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LocalError {
    /// It cannot be asked for. Nothing was moved.
    #[error("local transfer: {problem}")]
    Refused {
        /// What is wrong.
        problem: String,
    },
    /// The device could not be set up for it. Nothing was moved.
    #[error("local transfer: {0}")]
    Device(#[from] DriverError),
    /// It failed on the way.
    #[error("{stage}: {fault}: {arrived_bytes} of {total_bytes} B have arrived")]
    Failed {
        /// Where.
        stage: Stage,
        /// Why.
        fault: LocalFault,
        /// Bytes from the beginning on that are where they should be: in the card's memory, or in
        /// the caller's.
        arrived_bytes: u64,
        /// Bytes of the transfer.
        total_bytes: u64,
    },
}
