// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bridge's error, with its stage and the bytes that have arrived.

use crosslane_driver::{DriverError, TransferError};
use crosslane_host::{BusError, RdmaError};
use thiserror::Error;

use crate::stage::Stage;

/// A failure of a transfer, a client or a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{stage}: {why}{}", crate::error::arrived_words(*arrived_bytes, *total_bytes))]
pub struct BridgeError {
    /// The stage that failed.
    pub stage: Stage,
    /// The reason, a sentence.
    pub why: String,
    /// Bytes that have arrived, without a gap from the beginning of the transfer.
    pub arrived_bytes: u64,
    /// Length of the transfer, bytes; 0 if none had begun.
    pub total_bytes: u64,
}

/// Describes the bytes that have arrived, if a transfer had begun.
fn arrived_words(arrived_bytes: u64, total_bytes: u64) -> String {
    match total_bytes {
        0 => String::new(),
        total_bytes => format!(": {arrived_bytes} of {total_bytes} B have arrived"),
    }
}

impl BridgeError {
    /// Makes an error without a transfer.
    #[must_use]
    pub fn new(stage: Stage, why: impl ToString) -> Self {
        Self { stage, why: why.to_string(), arrived_bytes: 0, total_bytes: 0 }
    }

    /// Returns the same error with the bytes that have arrived.
    #[must_use]
    pub fn arrived(self, arrived_bytes: u64, total_bytes: u64) -> Self {
        Self { arrived_bytes, total_bytes, ..self }
    }

    pub(crate) fn network(stage: Stage) -> impl Fn(RdmaError) -> Self {
        move |error| Self::new(stage, error)
    }

    pub(crate) fn driver(stage: Stage) -> impl Fn(DriverError) -> Self {
        move |error| Self::new(stage, error)
    }
}

impl From<TransferError> for BridgeError {
    fn from(error: TransferError) -> Self {
        Self::new(Stage::Dma, &error).arrived(error.moved_bytes, error.total_bytes)
    }
}

impl From<BusError> for BridgeError {
    fn from(error: BusError) -> Self {
        Self::new(Stage::Registration, error)
    }
}
