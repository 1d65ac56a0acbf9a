// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of explanations.

use crosslane_experiment::ScenarioError;
use crosslane_host::ErrorKind;
use crosslane_lab::LabError;
use thiserror::Error;

/// Reason for which a run cannot be explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// The run cannot be made, or its figure says nothing.
    #[error(transparent)]
    Run(#[from] ScenarioError),
    /// A run without a limit cannot be made, or goes wrong.
    #[error("without {limits}: {source}")]
    Without {
        /// The limits in words.
        limits: String,
        /// Why it cannot.
        source: Box<Self>,
    },
    /// More limits than can be tried.
    #[error(
        "{limits} limits could hold the run, and no more than {runs} runs are made to find the one"
    )]
    TooManyLimits {
        /// How many limits there are.
        limits: usize,
        /// Runs of one search, at most.
        runs: usize,
    },
}

impl ExplainError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Run(error) => error.kind(),
            Self::Without { source, .. } => source.kind(),
            Self::TooManyLimits { .. } => ErrorKind::Unsupported,
        }
    }
}

impl From<LabError> for ExplainError {
    fn from(error: LabError) -> Self {
        Self::Run(error.into())
    }
}
