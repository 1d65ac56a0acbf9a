// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of local transfers.

use crosslane_driver::{DriverError, TransferError};
use crosslane_host::ErrorKind;
use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

use crate::stage::Stage;

/// The fault of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LocalFault {
    /// The controller stopped, or a piece was not complete in time.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The driver refused, or the device does not answer.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The deadline passed before a copy into or out of the ring.
    #[error("not complete at the deadline, {0}")]
    Deadline(Picoseconds),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

impl LocalFault {
    /// Returns the kind of the fault.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Transfer(error) => error.kind(),
            Self::Driver(error) => error.kind(),
            Self::Deadline(_) => ErrorKind::Timeout,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }
}

/// The error of a local transfer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LocalError {
    /// The request is invalid. Nothing was moved.
    #[error("local transfer: {problem}")]
    Refused {
        /// The reason.
        problem: String,
    },
    /// The device could not be set up. Nothing was moved.
    #[error("local transfer: {0}")]
    Device(#[from] DriverError),
    /// It failed while data were moving.
    #[error("{stage}: {fault}: {arrived_bytes} of {total_bytes} B have arrived")]
    Failed {
        /// The stage that failed.
        stage: Stage,
        /// Its fault.
        #[source]
        fault: LocalFault,
        /// Bytes from the beginning that have reached their destination, the card's memory or the
        /// caller's.
        arrived_bytes: u64,
        /// Length of the transfer, bytes.
        total_bytes: u64,
    },
}

impl LocalError {
    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { .. } => ErrorKind::InvalidArgument,
            Self::Device(error) => error.kind(),
            Self::Failed { fault, .. } => fault.kind(),
        }
    }
}
