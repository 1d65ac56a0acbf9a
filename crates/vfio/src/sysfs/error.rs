// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tree of a machine refuses, and what would help.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::Address;

/// Why something of a machine's PCI tree cannot be read, or is not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// Not the address of a function.
    #[error("{text} is no address of a PCI function; one is written 0000:01:00.0 or 01:00.0")]
    BadAddress {
        /// What was given.
        text: String,
    },
    /// There is no PCI bus to be seen.
    #[error("{path} cannot be read, so no PCI functions are to be seen: {why}",
        path = .path.display())]
    NoBus {
        /// Where it should be.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// No function has that address.
    #[error("there is no PCI function {address}; there are {there}")]
    NoSuchFunction {
        /// What was asked for.
        address: Address,
        /// Those that are there, or how many.
        there: String,
    },
    /// Something that is not done with this function.
    #[error("{address}: {why}{}{remedy}", if remedy.is_empty() { "" } else { ". " })]
    Cannot {
        /// The function.
        address: Address,
        /// The reason.
        why: String,
        /// What would help, with the command; empty where nothing is known.
        remedy: String,
    },
    /// A file that was not allowed to be written.
    #[error("{what} failed: {path}: {why}{}{remedy}", if remedy.is_empty() { "" } else { ". " },
        path = .path.display())]
    Refused {
        /// What was tried.
        what: String,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
        /// What would help; empty where nothing is known.
        remedy: String,
    },
    /// Nothing happened until the deadline.
    #[error("{what}: not within {} ms{}{remedy}", waited.as_millis(),
        if remedy.is_empty() { "" } else { ". " })]
    Deadline {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What would help; empty where nothing is known.
        remedy: String,
    },
    /// Whoever started it wants it to end.
    #[error("{what} was interrupted")]
    Interrupted {
        /// What was going on.
        what: String,
    },
    /// Something failed, and so did putting back what had been changed for it.
    #[error("{first}; and not all was put back as it was: {then}")]
    NotRestored {
        /// What failed first.
        first: Box<SysfsError>,
        /// What was not put back, and why.
        then: String,
    },
}
