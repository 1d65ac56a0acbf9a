// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a machine's PCI tree, with remedies.

use std::path::PathBuf;
use std::time::Duration;

use crosslane_host::{ErrorKind, Reason, kinds};
use thiserror::Error;

use crate::Address;

/// Outcome of reading or changing a machine's PCI tree.
pub type Result<T, E = SysfsError> = std::result::Result<T, E>;

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
    #[error("cannot list the PCI functions: cannot read {path}: {why}",
        path = .path.display())]
    NoBus {
        /// The folder that should list the functions.
        path: PathBuf,
        /// The system's reason.
        #[source]
        why: Reason,
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
        #[source]
        why: Reason,
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
        #[source]
        why: Reason,
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
        #[source]
        first: Box<SysfsError>,
        /// The change that was not undone, and the reason.
        then: String,
    },
}

impl SysfsError {
    /// Makes the error of an operation that is impossible with a function; `remedy` may be empty.
    pub fn cannot(
        address: Address,
        kind: ErrorKind,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Cannot { address, why: Reason::new(kind, why.into()), remedy: remedy.into() }
    }
}

kinds!(SysfsError {
    Self::BadAddress { .. } => InvalidArgument,
    Self::NoSuchFunction { .. } => NotFound,
    Self::NoBus { why, .. } | Self::Cannot { why, .. } | Self::Refused { why, .. } => why.kind(),
    Self::Deadline { .. } => Timeout,
    Self::Interrupted { .. } => Cancelled,
    Self::NotRestored { first, .. } => first.kind(),
});

#[cfg(test)]
mod tests {
    use ErrorKind::{Busy, Cancelled, Denied, InvalidArgument, NotFound, Timeout, Unsupported};

    use super::*;

    #[test]
    fn every_error_of_the_tree_has_its_kind() {
        let (text, path, waited) = (String::new, PathBuf::new, Duration::ZERO);
        let why = |kind| Reason::new(kind, "no");
        let address: Address = "0000:01:00.0".parse().expect("it is one");
        let cannot = |kind| SysfsError::Cannot { address, why: why(kind), remedy: String::new() };
        let refused = SysfsError::Refused {
            what: text(),
            path: path(),
            why: std::io::Error::from_raw_os_error(13).into(),
            remedy: text(),
        };
        for (error, kind) in [
            (SysfsError::BadAddress { text: text() }, InvalidArgument),
            (SysfsError::NoBus { path: path(), why: why(Denied) }, Denied),
            (SysfsError::NoSuchFunction { address, there: text() }, NotFound),
            (cannot(Busy), Busy),
            (cannot(Unsupported), Unsupported),
            (refused, Denied),
            (SysfsError::Deadline { what: text(), waited, remedy: text() }, Timeout),
            (SysfsError::Interrupted { what: text() }, Cancelled),
            (SysfsError::NotRestored { first: Box::new(cannot(Busy)), then: text() }, Busy),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
