// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bridge's error, with its stage and the bytes that have arrived.

use crosslane_driver::TransferError;
use crosslane_host::{BusError, ErrorKind, Reason, kinds};
use thiserror::Error;

use crate::stage::Stage;

/// Outcome of a transfer, or of an operation of client or server.
pub(crate) type Result<T, E = BridgeError> = std::result::Result<T, E>;

/// A failure of a transfer, a client or a server. The kind of one which the other end reports is
/// [`Failed`](ErrorKind::Failed): only its sentence is sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{stage}: {why}{}", crate::error::arrived_words(*arrived_bytes, *total_bytes))]
pub struct BridgeError {
    /// The stage that failed.
    pub stage: Stage,
    /// The reason: a sentence, or the error of the driver, the bus or the network.
    #[source]
    pub why: Reason,
    /// Bytes that have arrived, without a gap from the beginning of the transfer.
    pub arrived_bytes: u64,
    /// Length of the transfer, bytes; 0 if none had begun.
    pub total_bytes: u64,
}

kinds!(BridgeError {
    error => error.why.kind(),
});

/// Describes the bytes that have arrived, if a transfer had begun.
fn arrived_words(arrived_bytes: u64, total_bytes: u64) -> String {
    match total_bytes {
        0 => String::new(),
        total_bytes => format!(": {arrived_bytes} of {total_bytes} B have arrived"),
    }
}

impl BridgeError {
    /// Makes an error without a transfer.
    pub fn new(stage: Stage, kind: ErrorKind, why: impl Into<String>) -> Self {
        Self::of(stage, Reason::new(kind, why.into()))
    }

    /// Makes the error of a stage from its cause, without a transfer.
    pub fn of(stage: Stage, cause: impl Into<Reason>) -> Self {
        Self { stage, why: cause.into(), arrived_bytes: 0, total_bytes: 0 }
    }

    /// Returns the same error with the bytes that have arrived.
    #[must_use]
    pub fn arrived(self, arrived_bytes: u64, total_bytes: u64) -> Self {
        Self { arrived_bytes, total_bytes, ..self }
    }
}

/// Adds the failed stage to an error of the driver, the bus or the network.
pub(crate) trait At<T> {
    /// Makes an error that of this stage.
    fn at(self, stage: Stage) -> Result<T>;
}

impl<T, E: Into<Reason>> At<T> for Result<T, E> {
    fn at(self, stage: Stage) -> Result<T> {
        self.map_err(|error| BridgeError::of(stage, error))
    }
}

impl From<TransferError> for BridgeError {
    fn from(error: TransferError) -> Self {
        let (moved_bytes, total_bytes) = (error.moved_bytes, error.total_bytes);
        Self::of(Stage::Dma, error).arrived(moved_bytes, total_bytes)
    }
}

impl From<BusError> for BridgeError {
    fn from(error: BusError) -> Self {
        Self::of(Stage::Registration, error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use ErrorKind::{Data, Denied, Failed, LinkDown, NotFound};
    use crosslane_driver::{DriverError, TransferFault};
    use crosslane_host::{RdmaError, TopologyError};
    use crosslane_pcie::units::RoutingId;

    use super::*;
    use crate::messages::Failure;

    fn transfer(fault: TransferFault) -> TransferError {
        let channel = "fpga1 H2C 0".to_owned();
        TransferError { channel, fault, moved_bytes: 512, total_bytes: 4096, address: None }
    }

    fn driver() -> DriverError {
        let source = TopologyError::NoSuchFunction(RoutingId::new(1, 0, 0)).into();
        DriverError::Bus { device: "fpga1".to_owned(), source }
    }

    #[test]
    fn an_error_has_the_kind_of_its_cause_and_keeps_it() {
        let lost = RdmaError::Lost { peer: "rnode".to_owned(), why: "no".to_owned() };
        let poisoned = transfer(TransferFault::Poisoned);
        for (error, kind, sentence) in [
            (
                BridgeError::of(Stage::RdmaRead, lost.clone()),
                LinkDown,
                format!("{}: {lost}", Stage::RdmaRead),
            ),
            (
                BridgeError::of(Stage::Dma, driver()),
                NotFound,
                format!("{}: {}", Stage::Dma, driver()),
            ),
            (
                poisoned.clone().into(),
                Data,
                format!("{}: {poisoned}: 512 of 4096 B have arrived", Stage::Dma),
            ),
            (
                BridgeError::new(Stage::Request, Denied, "no"),
                Denied,
                format!("{}: no", Stage::Request),
            ),
        ] {
            assert_eq!((error.kind(), error.to_string()), (kind, sentence));
            // A node that is told of it gets the sentence alone.
            let told = BridgeError::from(Failure::from(error.clone()));
            assert_eq!((told.kind(), told.to_string()), (Failed, error.to_string()));
        }
        let error = BridgeError::from(poisoned.clone());
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&poisoned));
    }
}
