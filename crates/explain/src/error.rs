// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of explanations.

use crosslane_experiment::ExperimentError;
use crosslane_host::kinds;
use crosslane_lab::LabError;
use thiserror::Error;

/// Reason for which a run cannot be explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// The run cannot be made, or its figure says nothing.
    #[error(transparent)]
    Run(#[from] ExperimentError),
    /// A run without a limit cannot be made or fails.
    #[error("without {limits}: {source}")]
    Without {
        /// The limits in words.
        limits: String,
        /// The reason.
        source: Box<Self>,
    },
    /// There are more limits than can be tried.
    #[error("cannot try {limits} limits: the search makes no more than {runs} runs")]
    TooManyLimits {
        /// Number of limits.
        limits: usize,
        /// Most runs of one search.
        runs: usize,
    },
}

kinds!(ExplainError {
    Self::Run(error) => error.kind(),
    Self::Without { source, .. } => source.kind(),
    Self::TooManyLimits { .. } => Unsupported,
});

impl From<LabError> for ExplainError {
    fn from(error: LabError) -> Self {
        Self::Run(error.into())
    }
}
