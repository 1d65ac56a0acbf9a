// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing can be served, and what happens while something is.

use std::fmt;
use std::path::PathBuf;

use crosslane_lab::LabError;
use thiserror::Error;

/// Why a lab's devices cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The lab has a problem.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A name that stands for no endpoint of the lab.
    #[error("the lab has no endpoint {name}; it has {}", have.join(", "))]
    NoSuchDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        have: Vec<String>,
    },
    /// A device or a socket that was named twice.
    #[error("{what} is named twice")]
    Twice {
        /// Which.
        what: String,
    },
    /// A socket that cannot be made.
    #[error("no socket can be made at {}: {why}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What stands against it.
        why: String,
    },
}

impl From<LabError> for ServeError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

/// What happens while devices are served: for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeEvent {
    /// A client has come.
    Connected {
        /// For which device.
        device: String,
    },
    /// A client has gone, and the device is as after reset.
    Ended {
        /// Of which device.
        device: String,
        /// Why.
        why: String,
    },
    /// A client's addresses cannot be routed beside another's: the device works, but the others
    /// do not reach it where its client thinks that it is.
    InTheWay {
        /// Whose addresses.
        device: String,
        /// Who was there before; the device itself where its addresses cannot be.
        other: String,
    },
    /// There is no place for a device's BARs: accesses to it fail.
    Nowhere {
        /// Which.
        device: String,
    },
    /// A client has mapped memory without a file: it is asked for each access of the device's.
    WithoutFile {
        /// For which device.
        device: String,
        /// First I/O virtual address.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// A client was asked for memory that it has mapped without a file, and gave no answer that
    /// is of use. Told once, until it does.
    NoAnswer {
        /// For which device.
        device: String,
        /// First I/O virtual address of the access.
        address: u64,
        /// Its length.
        bytes: usize,
        /// What is wrong.
        why: String,
    },
    /// A BAR of plain memory cannot be mapped by clients: accesses to it trap.
    NoFile {
        /// Of which device.
        device: String,
        /// Its number.
        bar: usize,
        /// Why not.
        why: String,
    },
    /// The lab's own buses have found an error.
    Fabric {
        /// Who has found it: a port, or a node.
        port: String,
        /// What kind of error it is, such as Unsupported Request.
        kind: String,
        /// All of it.
        error: String,
    },
}

impl fmt::Display for ServeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { device } => write!(f, "{device}: a client has come"),
            Self::Ended { device, why } => {
                write!(f, "{device}: the client has gone, and the device is reset ({why})")
            }
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
