// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a command ends without success, and with which exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crosslane::experiment::ExperimentError;
use crosslane::explain::ExplainError;
use crosslane::lab::LabError;
use crosslane_reproduce::ReproduceError;
use thiserror::Error;

/// Why a command ends without success.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The command line asks for something that cannot be; the sentence says what.
    #[error("{0}")]
    Usage(String),
    /// The lab cannot be loaded, built or enumerated.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A reproduction or a validation cannot be run.
    #[error(transparent)]
    Reproduce(#[from] ReproduceError),
    /// A benchmark cannot be run, or fails.
    #[error(transparent)]
    Bench(ExperimentError),
    /// A lab forbids what is asked of it; the sentence says where.
    #[error("{0}")]
    Forbidden(String),
    /// Two runs cannot be compared; the sentence says why.
    #[error("{0}")]
    Compare(String),
    /// Measurements cannot be fitted.
    #[error(transparent)]
    Fit(#[from] crosslane::experiment::fit::FitError),
    /// A file cannot be read; the sentence says which and why.
    #[error("{0}")]
    Input(String),
    /// A bridged transfer, a client or a server failed.
    #[error(transparent)]
    Bridge(#[from] crosslane::bridge::BridgeError),
    /// A network cannot be used.
    #[error(transparent)]
    Network(#[from] crosslane::host::RdmaError),
    /// A function of this machine is not there, or something is not done with it.
    #[error(transparent)]
    Device(#[from] crosslane_vfio::sysfs::SysfsError),
    /// There is no way between two functions, or it cannot be set as wished.
    #[error(transparent)]
    Way(#[from] crosslane::driver::PlanError),
    /// A card cannot be opened, or fails; the sentence names it.
    #[error("{0}")]
    Card(String),
    /// A file that somebody else has made is where an output is to be; the sentence names it.
    #[error("{0}")]
    Foreign(String),
    /// Work was ended by a signal before its time. What it had has been printed.
    #[error("{sentence}")]
    Interrupted {
        /// How far it came.
        sentence: String,
        /// Exit code.
        code: u8,
    },
    /// The run had errors. They have been printed behind the results.
    #[error("the run had errors")]
    Run,
    /// A file cannot be written.
    #[error("{path} cannot be written: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A folder cannot be made.
    #[error("the folder {path} cannot be made: {source}", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The search for the limit of a run failed.
    #[error("bottleneck search failed: {0}")]
    Unexplained(String),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl From<ExperimentError> for CommandError {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Lab(error) => Self::Lab(error),
            ExperimentError::MaxPayload { bytes, problem } => {
                Self::Usage(format!("--mps {bytes}: {problem}"))
            }
            ExperimentError::Flow(_) | ExperimentError::Refused { .. } => {
                Self::Usage(error.to_string())
            }
            ExperimentError::Forbidden { .. } => Self::Forbidden(error.to_string()),
            ExperimentError::Interrupted => Self::Unexplained(error.to_string()),
            error => Self::Bench(error),
        }
    }
}

impl From<ExplainError> for CommandError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Run(error) => error.into(),
            error => Self::Unexplained(error.to_string()),
        }
    }
}

impl CommandError {
    /// Whether nobody reads standard output any more: not an error, but the end.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// 2 for a wrong command line, 128 and the signal's number after an interruption, 1 for all
    /// else.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Interrupted { code, .. } => ExitCode::from(*code),
            _ => ExitCode::from(1),
        }
    }
}
