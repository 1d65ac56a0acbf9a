// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of dumps.

use std::path::{Path, PathBuf};

use crosslane_host::{Reason, kinds};
use thiserror::Error;

/// Reason for which dumps cannot be read as a machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Reason of the system.
        why: Reason,
    },
    /// A file is larger than any dump.
    #[error("cannot read {}: it has more than {most_bytes} B", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Most bytes of a dump.
        most_bytes: u64,
    },
    /// A file is not a dump of a known kind.
    #[error(
        "cannot read {}: it is neither a listing of `lspci -vvv` or `lspci -t`, nor a folder or \
         tar file of /sys/bus/pci, the XML or text of hwloc, the XML of NCCL, or a matrix of \
         `nvidia-smi topo -m`",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// A dump has an error.
    #[error("cannot read {}{}: {problem}", path.display(), Line(*line))]
    Bad {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 for none.
        line: usize,
        /// The error, half a sentence.
        problem: String,
    },
    /// Dumps contradict each other or themselves: they are of different machines.
    #[error("cannot join {}{} with the rest: {problem}", path.display(), Line(*line))]
    OtherMachine {
        /// The file in which the contradiction shows.
        path: PathBuf,
        /// The line, from 1; 0 for none.
        line: usize,
        /// The contradiction, half a sentence.
        problem: String,
    },
}

/// Result with a [`DumpError`].
pub type Result<T> = std::result::Result<T, DumpError>;

kinds!(DumpError {
    Self::Unreadable { why, .. } => why.kind(),
    Self::TooLarge { .. }
    | Self::Unknown { .. }
    | Self::Bad { .. }
    | Self::OtherMachine { .. } => InvalidArgument,
});

/// A line of a file: `:12`, or nothing.
struct Line(usize);

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, ":{line}"),
        }
    }
}

impl DumpError {
    pub(crate) fn bad(path: &Path, line: usize, problem: impl Into<String>) -> Self {
        Self::Bad { path: path.to_owned(), line, problem: problem.into() }
    }
}
