// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of starting a server, and events while it serves.

use std::fmt;
use std::path::PathBuf;

use crosslane_host::{Reason, kinds};
use crosslane_lab::LabError;
use thiserror::Error;

/// The reason why a lab's devices cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The lab has a problem.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A name that is not an endpoint of the lab.
    #[error("the lab has no endpoint {name}; it has {}", have.join(", "))]
    NoSuchDevice {
        /// The name asked for.
        name: String,
        /// The endpoints of the lab.
        have: Vec<String>,
    },
    /// A device or a socket named twice.
    #[error("{what} is named twice")]
    Twice {
        /// The device or socket.
        what: String,
    },
    /// A socket that cannot be made.
    #[error("cannot create a socket at {}: {why}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The reason.
        #[source]
        why: Reason,
    },
}

kinds!(ServeError {
    Self::Lab(error) => error.kind(),
    Self::NoSuchDevice { .. } => NotFound,
    Self::Twice { .. } => InvalidArgument,
    Self::Socket { why, .. } => why.kind(),
});

impl From<LabError> for ServeError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

/// An event while devices are served, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeEvent {
    /// A client has connected.
    Connected {
        /// Name of its device.
        device: String,
    },
    /// A client has disconnected, and the device is as after reset.
    Ended {
        /// Name of its device.
        device: String,
        /// The reason.
        why: String,
    },
    /// A client was refused, before it was served.
    Refused {
        /// Name of its device.
        device: String,
        /// The reason.
        why: String,
    },
    /// A client holds as many files as it may, and a mapping of another one was refused.
    TooManyFiles {
        /// Name of its device.
        device: String,
        /// The most that it may hold.
        most: usize,
    },
    /// A client's addresses cannot be routed beside another's: the device works, but the others do
    /// not reach it at the addresses that its client wrote.
    InTheWay {
        /// Name of the device with these addresses.
        device: String,
        /// Name of the device that was placed first; the same device if its addresses are
        /// impossible.
        other: String,
    },
    /// A device's BARs cannot be placed: accesses to it fail.
    Nowhere {
        /// Name of the device.
        device: String,
    },
    /// A client has mapped memory without a file: it is asked for each access of the device.
    WithoutFile {
        /// Name of its device.
        device: String,
        /// First I/O virtual address.
        address: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// A client was asked for memory that it has mapped without a file, and gave no valid answer.
    /// Reported once, until it does.
    NoAnswer {
        /// Name of its device.
        device: String,
        /// First I/O virtual address of the access.
        address: u64,
        /// Length of the access, bytes.
        bytes: usize,
        /// The fault.
        why: String,
    },
    /// A BAR of plain memory cannot be mapped by clients: accesses to it trap.
    NoFile {
        /// Name of the device.
        device: String,
        /// Number of the BAR.
        bar: usize,
        /// The reason.
        why: String,
    },
    /// The lab's buses have detected an error.
    Fabric {
        /// The port or node that detected it.
        port: String,
        /// Kind of error, such as Unsupported Request.
        kind: String,
        /// The full message.
        error: String,
    },
}

impl ServeEvent {
    /// Name of the device that it is about, or of the port that has found an error.
    pub fn device(&self) -> &str {
        match self {
            Self::Fabric { port: device, .. }
            | Self::Connected { device }
            | Self::Ended { device, .. }
            | Self::Refused { device, .. }
            | Self::TooManyFiles { device, .. }
            | Self::InTheWay { device, .. }
            | Self::Nowhere { device }
            | Self::WithoutFile { device, .. }
            | Self::NoAnswer { device, .. }
            | Self::NoFile { device, .. } => device,
        }
    }

    /// Name of its kind, in the plural.
    pub fn kind(&self) -> &str {
        match self {
            Self::Fabric { kind, .. } => kind,
            Self::Connected { .. } => "clients that came",
            Self::Ended { .. } => "clients that went",
            Self::Refused { .. } => "clients that were refused",
            Self::TooManyFiles { .. } => "mappings with too many files",
            Self::InTheWay { .. } => "addresses in the way",
            Self::Nowhere { .. } => "BARs without a place",
            Self::WithoutFile { .. } => "mappings without a file",
            Self::NoAnswer { .. } => "accesses without an answer",
            Self::NoFile { .. } => "BARs that trap",
        }
    }
}

impl fmt::Display for ServeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { device } => write!(f, "{device}: a client has come"),
            Self::Ended { device, why } => {
                write!(f, "{device}: the client has gone, and the device is reset ({why})")
            }
            Self::Refused { device, why } => write!(f, "{device}: a client was refused: {why}"),
            Self::TooManyFiles { device, most } => write!(
                f,
                "{device}: its client has mapped {most} files, the most that it may; a mapping of \
                 another one was refused (ulimit -n)"
            ),
            Self::InTheWay { device, other } if device == other => write!(
                f,
                "{device}: a bus cannot route the addresses that its client wrote; other devices \
                 do not reach it there"
            ),
            Self::InTheWay { device, other } => write!(
                f,
                "{device}: the addresses that its client wrote share a window of 1 MiB with those \
                 of {other}; other devices do not reach it there"
            ),
            Self::Nowhere { device } => {
                write!(f, "{device}: there is no place for its BARs; accesses to them fail")
            }
            Self::WithoutFile { device, address, bytes } => write!(
                f,
                "{device}: {bytes} B at {address:#x} were mapped without a file: the client is \
                 asked for each access there (memory of a virtual machine needs share=on)"
            ),
            Self::NoAnswer { device, address, bytes, why } => write!(
                f,
                "{device}: {bytes} B at {address:#x}, which were mapped without a file, cannot be \
                 reached through the client: {why}"
            ),
            Self::NoFile { device, bar, why } => {
                write!(f, "{device}: BAR{bar} cannot be mapped by clients, and traps: {why}")
            }
            Self::Fabric { error, .. } => write!(f, "in the lab: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crosslane_host::ErrorKind;

    use super::*;

    #[test]
    fn every_error_has_its_kind() {
        let name = || "card0".to_owned();
        let why = Reason::new(ErrorKind::Busy, "no");
        let lab = crosslane_lab::open("no such lab").expect_err("there is none");
        for (error, kind) in [
            (lab.into(), ErrorKind::NotFound),
            (ServeError::NoSuchDevice { name: name(), have: Vec::new() }, ErrorKind::NotFound),
            (ServeError::Twice { what: name() }, ErrorKind::InvalidArgument),
            (ServeError::Socket { path: PathBuf::new(), why }, ErrorKind::Busy),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
