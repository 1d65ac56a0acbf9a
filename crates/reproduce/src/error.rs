// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of reproductions and validations.

use crosslane_experiment::ExperimentError;
use crosslane_host::{Reason, kinds};
use crosslane_lab::LabError;
use thiserror::Error;

/// Result of what may fail with a [`ReproduceError`].
pub type Result<T, E = ReproduceError> = std::result::Result<T, E>;

/// Reason for which a reproduction or a validation cannot be run. A row outside its tolerance is
/// not an error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// The lab cannot be loaded, built or enumerated.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// No reproduction or set has that name.
    #[error("there is no {what} {name}; there are {known}")]
    Unknown {
        /// Kind of the thing with that name.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The known names.
        known: String,
    },
    /// A file of published or measured figures cannot be read.
    #[error("{file}, line {line}: {problem}")]
    Published {
        /// The file, as the lab file names it.
        file: String,
        /// Line in the file, from 1.
        line: u64,
        /// The problem.
        problem: String,
    },
    /// A field of a file of measurements is wrong, or the lab cannot do what it asks for.
    #[error("{file}, line {line}, column {column}: {problem}")]
    Field {
        /// The file.
        file: String,
        /// Line in the file, from 1.
        line: usize,
        /// The column.
        column: &'static str,
        /// The problem.
        problem: String,
    },
    /// A calibration that cannot be made, or says nothing.
    #[error("{0}")]
    Calibration(String),
    /// The caller wants no more scenarios to begin.
    #[error("interrupted")]
    Interrupted,
    /// An experiment failed, or moved wrong data.
    #[error("{experiment}: {problem}")]
    Experiment {
        /// The experiment and its conditions.
        experiment: String,
        /// The problem.
        #[source]
        problem: Reason,
    },
}

kinds!(ReproduceError {
    Self::Lab(error) => error.kind(),
    Self::Unknown { .. } => NotFound,
    Self::Published { .. } | Self::Field { .. } | Self::Calibration(_) => InvalidArgument,
    Self::Interrupted => Cancelled,
    Self::Experiment { problem, .. } => problem.kind(),
});

impl From<ExperimentError> for ReproduceError {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Lab(error) => Self::Lab(error),
            ExperimentError::Run { run, problem } => Self::experiment(run, problem),
            other => Self::experiment("benchmark", other),
        }
    }
}

impl From<LabError> for ReproduceError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl ReproduceError {
    /// Makes the error of a failed experiment.
    pub(crate) fn experiment(experiment: impl ToString, problem: impl Into<Reason>) -> Self {
        Self::Experiment { experiment: experiment.to_string(), problem: problem.into() }
    }
}
