// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the crate.

use crosslane_driver::DriverError;
use crosslane_driver::network_processor::NetworkError;
use crosslane_host::{ErrorKind, kinds};
use thiserror::Error;

/// Outcome of a call or a message.
pub(crate) type Result<T, E = TorusError> = std::result::Result<T, E>;

/// Error of a refused call or a failed message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TorusError {
    /// The request is invalid, or the device cannot be used, or does not answer.
    #[error(transparent)]
    Device(#[from] DriverError),
    /// The message failed, or was refused by the driver.
    #[error(transparent)]
    Message(#[from] NetworkError),
    /// The call that was posting a piece of a long message was dropped. The rest of the message
    /// will not be sent or received.
    #[error("{place}: the call that posted its next piece was dropped")]
    Interrupted {
        /// Message concerned.
        place: String,
    },
}

impl TorusError {
    pub(crate) fn refused(place: &str, kind: ErrorKind, problem: impl Into<String>) -> Self {
        let (place, problem) = (place.to_owned(), problem.into());
        Self::Device(DriverError::Refused { place, kind, problem })
    }
}

kinds!(TorusError {
    Self::Device(error) => error.kind(),
    Self::Message(error) => error.kind(),
    Self::Interrupted { .. } => Cancelled,
});

#[cfg(test)]
mod tests {
    use crosslane_driver::network_processor::NetworkFault;

    use super::*;

    #[test]
    fn every_error_has_its_kind() {
        let (place, problem) = (String::new, String::new);
        let kind = ErrorKind::Busy;
        let refused = DriverError::Refused { place: place(), kind, problem: problem() };
        let (fault, moved_bytes, total_bytes) = (NetworkFault::TooLong, 0, 1);
        let message = NetworkError { place: place(), fault, moved_bytes, total_bytes };
        for (error, kind) in [
            (refused.into(), ErrorKind::Busy),
            (message.into(), ErrorKind::InvalidArgument),
            (TorusError::Interrupted { place: place() }, ErrorKind::Cancelled),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
