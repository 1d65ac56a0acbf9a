// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a machine's PCI tree, with remedies.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::Address;

/// An error of reading or changing a machine's PCI tree.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// A text that is not the address of a function.
    #[error(
        "{text} is not the address of a PCI function, which is written 0000:01:00.0 or 01:00.0"
    )]
    BadAddress {
        /// The text as given.
        text: String,
    },
    /// The machine shows no PCI bus.
    #[error("{path} cannot be read, so no PCI functions can be listed: {why}",
        path = .path.display())]
    NoBus {
        /// The folder that should list the functions.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// No function has that address.
    #[error("there is no PCI function {address}; there are {there}")]
    NoSuchFunction {
        /// The address that was asked for.
        address: Address,
        /// The first existing addresses, and the number of the others.
        there: String,
    },
    /// An operation that is impossible or not permitted with this function.
    #[error("{address}: {why}{}{remedy}", if remedy.is_empty() { "" } else { ". " })]
    Cannot {
        /// The function.
        address: Address,
        /// The reason.
        why: String,
        /// A remedy, with its command; empty if none is known.
        remedy: String,
    },
    /// A file that could not be written.
    #[error("{what} failed: {path}: {why}{}{remedy}", if remedy.is_empty() { "" } else { ". " },
        path = .path.display())]
    Refused {
        /// The operation that failed.
        what: String,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
        /// A remedy; empty if none is known.
        remedy: String,
    },
    /// The deadline passed before the operation ended.
    #[error("{what}: not within {} ms{}{remedy}", waited.as_millis(),
        if remedy.is_empty() { "" } else { ". " })]
    Deadline {
        /// The operation.
        what: String,
        /// Time that it had.
        waited: Duration,
        /// A remedy; empty if none is known.
        remedy: String,
    },
    /// The user has interrupted the operation.
    #[error("{what} was interrupted")]
    Interrupted {
        /// The operation.
        what: String,
    },
    /// An operation failed, and its changes could not all be undone.
    #[error("{first}; and not everything could be restored: {then}")]
    NotRestored {
        /// The error of the operation.
        first: Box<SysfsError>,
        /// The change that was not undone, and the reason.
        then: String,
    },
}
