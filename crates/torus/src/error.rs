// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong.

use crosslane_driver::DriverError;
use crosslane_driver::network_processor::NetworkError;
use thiserror::Error;

/// A call that was refused, or a message that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TorusError {
    /// The device cannot be used, or does not answer.
    #[error(transparent)]
    Device(#[from] DriverError),
    /// The message failed, or was refused by the driver.
    #[error(transparent)]
    Message(#[from] NetworkError),
    /// Something that cannot be asked for, a sentence with its values and its place.
    #[error("{place}: {problem}")]
    Refused {
        /// The node, or the message.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A long message, while a piece of it was being posted by a call that was dropped then: what
    /// follows will not be sent or received.
    #[error("{place}: the call that posted its next piece was dropped")]
    Interrupted {
        /// The message.
        place: String,
    },
}
