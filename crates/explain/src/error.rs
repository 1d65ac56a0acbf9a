// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run cannot be made.

use crosslane_host::ErrorKind;
use crosslane_lab::LabError;
use thiserror::Error;

/// Why a run cannot be made, or says nothing.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// The lab cannot be built or enumerated.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A flow that cannot be.
    #[error("{flow}: {problem}")]
    Flow {
        /// The flow, as it was asked for.
        flow: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The lab forbids the way of a flow.
    #[error("{flow}: {problem}")]
    Forbidden {
        /// The flow, as it was asked for.
        flow: String,
        /// What forbids it.
        problem: String,
    },
    /// The fabric refuses a flow; its sentence names the flow.
    #[error("{0}")]
    Refused(String),
    /// Max_Payload_Size cannot be set on the way of a flow.
    #[error("Max_Payload_Size of {bytes} B: {problem}")]
    MaxPayload {
        /// What it was to be set to, bytes.
        bytes: u32,
        /// Why it cannot.
        problem: String,
    },
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
    /// Whoever watches wants the run to end before its time.
    #[error("interrupted")]
    Interrupted,
    /// Something went wrong in a run, so that its figure says nothing.
    #[error("the run failed: {0}")]
    Failed(String),
}

impl ExplainError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Lab(error) => error.kind(),
            Self::Flow { .. } | Self::Refused(_) => ErrorKind::InvalidArgument,
            Self::Forbidden { .. } => ErrorKind::Denied,
            Self::MaxPayload { .. } | Self::TooManyLimits { .. } => ErrorKind::Unsupported,
            Self::Without { source, .. } => source.kind(),
            Self::Interrupted => ErrorKind::Cancelled,
            Self::Failed(_) => ErrorKind::Failed,
        }
    }
}

impl From<LabError> for ExplainError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}
