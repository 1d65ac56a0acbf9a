// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons for which a command ends without success, and their exit codes.

use std::io;
use std::process::ExitCode;

use crosslane::experiment::ExperimentError;
use crosslane::experiment::sweep::SweepError;
use crosslane::explain::ExplainError;
use crosslane::lab::LabError;
use crosslane::machine::{DoctorError, PathError, TestError};
use crosslane::open::OpenError;
use crosslane::what_if::WhatIfError;
use crosslane_reproduce::ReproduceError;
use thiserror::Error;

/// Result of what may fail with a [`CommandError`].
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Reason for which a command ends without success.
#[derive(Debug, Error)]
pub enum CommandError {
    /// An impossible command line, in a sentence.
    #[error("{0}")]
    Usage(String),
    /// A lab that cannot be loaded, built or enumerated.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// Any other failure, in a sentence.
    #[error("{0}")]
    Failed(String),
    /// A signal ended the work before its time; its results so far were printed.
    #[error("{sentence}")]
    Interrupted {
        /// How far it came.
        sentence: String,
        /// Exit code.
        code: u8,
    },
    /// The run had errors, which were printed behind the results.
    #[error("the run had errors")]
    Run,
    /// Another process that simulates the same lab says what went wrong.
    #[error("another process says what went wrong")]
    SaidElsewhere {
        /// Exit code.
        code: u8,
    },
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// Converts errors without an exit code.
macro_rules! failed {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        })*
    };
}
failed!(
    crosslane::bridge::BridgeError,
    crosslane::experiment::fit::FitError,
    crosslane::host::RdmaError,
    crosslane::lab::RunError<std::convert::Infallible>,
    crosslane::lab::Stuck,
    crosslane::machine::ImportError,
    crosslane::open::CardError,
    crosslane_report::output::OutputError,
    crosslane_vfio::sysfs::SysfsError,
);

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl From<ReproduceError> for CommandError {
    fn from(error: ReproduceError) -> Self {
        match error {
            ReproduceError::Lab(error) => Self::Lab(error),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<OpenError> for CommandError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Lab(error) => Self::Lab(error),
            OpenError::Function(_) => Self::Failed(error.to_string()),
            error => Self::Usage(error.to_string()),
        }
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
            ExperimentError::Interrupted => Self::unexplained(&error),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<ExplainError> for CommandError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Run(error) => error.into(),
            error => Self::unexplained(&error),
        }
    }
}

impl From<WhatIfError> for CommandError {
    fn from(error: WhatIfError) -> Self {
        match error {
            WhatIfError::Run(error) => error.into(),
            WhatIfError::Explain(error) => error.into(),
            WhatIfError::Change { .. } => Self::Usage(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<SweepError> for CommandError {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Run(ExperimentError::Lab(error)) => Self::Lab(error),
            SweepError::Value { .. } => Self::Usage(format!("--{error}")),
            error => Self::Usage(error.to_string()),
        }
    }
}

impl From<PathError> for CommandError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Function(error) => error.into(),
            PathError::Plan(error) => Self::Failed(error.to_string()),
            error => Self::Usage(format!("--path: {error}")),
        }
    }
}

/// Converts errors that only wrap others.
macro_rules! wrapping {
    ($($error:ident: $($variant:ident),+;)*) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                match error {
                    $($error::$variant(error) => error.into(),)+
                }
            }
        })*
    };
}
wrapping! {
    DoctorError: Function, Prediction;
    TestError: Open, Card, Stuck, Run;
}

/// Makes the error of an impossible command line.
pub fn usage(sentence: impl ToString) -> CommandError {
    CommandError::Usage(sentence.to_string())
}

impl CommandError {
    fn unexplained(error: &dyn std::error::Error) -> Self {
        Self::Failed(format!("bottleneck search failed: {error}"))
    }

    /// Makes the error of a failure that names no exit code.
    pub fn failed(error: impl ToString) -> Self {
        Self::Failed(error.to_string())
    }

    /// Whether nobody reads standard output any more: not an error, but the end.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns 2 for a wrong command line, 128 and the signal's number after an interruption, and 1
    /// for all else.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// Returns the exit code as a number.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted { code, .. } | Self::SaidElsewhere { code } => *code,
            _ => 1,
        }
    }
}
