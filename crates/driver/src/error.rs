// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong: a request that cannot be, a device that does not answer, a transfer that
//! failed.

use crosslane_host::BusError;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use thiserror::Error;

use crate::plan::PlanError;

/// A request that was refused, or a device that cannot be used. Nothing has been moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The bus refused, or the device does not answer.
    #[error("{device}: {source}")]
    Bus {
        /// The device.
        device: String,
        /// Why.
        source: BusError,
    },
    /// There is no way.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Something that cannot be asked for, a sentence with its values and its place.
    #[error("{place}: {problem}")]
    Refused {
        /// The device, channel, buffer or lane.
        place: String,
        /// What is wrong.
        problem: String,
    },
}

/// Why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferFault {
    /// A read was answered with Unsupported Request.
    UnsupportedRequest,
    /// A read was answered with Completer Abort.
    CompleterAbort,
    /// Completion data were poisoned.
    Poisoned,
    /// A read got no answer in time.
    CompletionTimeout,
    /// A completion did not fit its request.
    MalformedCompletion,
    /// The engine refused the descriptor.
    BadDescriptor,
    /// Bus mastering was switched off.
    NotBusMaster,
    /// A link on the way is down.
    LinkDown {
        /// Name of the port at its upper end.
        port: String,
    },
    /// The deadline passed.
    Deadline {
        /// The deadline.
        deadline: Picoseconds,
        /// Ports on the way that have detected an error since the channel was opened, and which.
        detected: Vec<String>,
    },
    /// It was cancelled, or stood behind one that failed.
    Cancelled,
    /// It was never posted: the request was refused.
    Refused(DriverError),
}

/// A transfer that failed, with what was moved and what was not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", crate::error::sentence(self))]
pub struct TransferError {
    /// The channel: device, kind and number.
    pub channel: String,
    /// Why.
    pub fault: TransferFault,
    /// Bytes that were moved, from the beginning on.
    pub moved_bytes: u64,
    /// Bytes of the transfer.
    pub total_bytes: u64,
    /// Address that the error is about, if the engine named one.
    pub address: Option<BusAddress>,
}

pub(crate) fn sentence(error: &TransferError) -> String {
    format!("{}: {:?}", error.channel, error.fault)
}
