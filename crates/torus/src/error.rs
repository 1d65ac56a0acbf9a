// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the crate.

use crosslane_driver::DriverError;
use crosslane_driver::network_processor::NetworkError;
use thiserror::Error;

/// Error of a refused call or a failed message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TorusError {
    /// The device cannot be used, or does not answer.
    #[error(transparent)]
    Device(#[from] DriverError),
    /// The message failed, or was refused by the driver.
    #[error(transparent)]
    Message(#[from] NetworkError),
    /// The request is invalid.
    #[error("{place}: {problem}")]
    Refused {
        /// Node or message concerned.
        place: String,
        /// Description of the problem, with its values.
        problem: String,
    },
    /// The call that was posting a piece of a long message was dropped. The rest of the message
    /// will not be sent or received.
    #[error("{place}: the call that posted its next piece was dropped")]
    Interrupted {
        /// Message concerned.
        place: String,
    },
}
