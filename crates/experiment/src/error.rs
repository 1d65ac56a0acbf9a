// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a workload could not be run, or not to its end.

use crosslane_bridge::BridgeError;
use crosslane_driver::network_processor::NetworkError;
use crosslane_driver::{DriverError, TransferError};
use crosslane_host::{BusError, ErrorKind, RdmaError, Reason};
use crosslane_lab::LabError;
use crosslane_torus::TorusError;
use thiserror::Error;

/// Why a workload could not be run, or not to its end. Wrong data are no error of this kind: they
/// are counted in [`Measured::data_errors`](crate::Measured::data_errors).
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The driver refused, or a device does not answer.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A transfer failed.
    #[error(transparent)]
    Transfer(#[from] Box<TransferError>),
    /// A message of a network processor failed.
    #[error(transparent)]
    Network(#[from] Box<NetworkError>),
    /// A node of a torus refused, or a message between two of them failed.
    #[error(transparent)]
    Torus(#[from] Box<TorusError>),
    /// Memory or the host's bus refused.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// A bridged transfer failed.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// A network refused.
    #[error(transparent)]
    Rdma(#[from] RdmaError),
    /// A lab cannot be built.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A run in a lab went wrong.
    #[error("{run}: {problem}")]
    Run {
        /// Name of the run.
        run: String,
        /// The first thing that went wrong.
        problem: String,
    },
    /// Something that cannot be asked for, a sentence with its values.
    #[error("{place}: {problem}")]
    Refused {
        /// The flow or the device.
        place: String,
        /// The reason, with its values.
        problem: String,
    },
    /// Data that were sent have not arrived in time.
    #[error(
        "{place}: {received_bytes} of {sent_bytes} B have arrived {waited_us} us after the last \
         was sent"
    )]
    Lost {
        /// The lane.
        place: String,
        /// Bytes that have arrived.
        received_bytes: u64,
        /// Bytes that were sent.
        sent_bytes: u64,
        /// How long was waited, microseconds.
        waited_us: u64,
    },
}

impl BenchError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Driver(error) => error.kind(),
            Self::Transfer(error) => error.kind(),
            Self::Network(error) => error.kind(),
            Self::Torus(error) => error.kind(),
            Self::Bus(error) => error.kind(),
            Self::Bridge(error) => error.kind(),
            Self::Rdma(error) => error.kind(),
            Self::Lab(error) => error.kind(),
            Self::Run { .. } => ErrorKind::Failed,
            Self::Refused { .. } => ErrorKind::InvalidArgument,
            Self::Lost { .. } => ErrorKind::Timeout,
        }
    }
}

impl From<BenchError> for Reason {
    fn from(error: BenchError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<TransferError> for BenchError {
    fn from(error: TransferError) -> Self {
        Self::Transfer(Box::new(error))
    }
}

impl From<NetworkError> for BenchError {
    fn from(error: NetworkError) -> Self {
        Self::Network(Box::new(error))
    }
}

impl From<TorusError> for BenchError {
    fn from(error: TorusError) -> Self {
        Self::Torus(Box::new(error))
    }
}

/// Reason for which a run cannot be made in a lab, or says nothing.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The lab cannot be built or enumerated.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A flow that is impossible.
    #[error("{flow}: {problem}")]
    Flow {
        /// The flow, as it was asked for.
        flow: String,
        /// The problem.
        problem: String,
    },
    /// The lab forbids the way of a flow.
    #[error("{flow}: {problem}")]
    Forbidden {
        /// The flow, as it was asked for.
        flow: String,
        /// The setting that forbids it.
        problem: String,
    },
    /// The fabric refuses a flow; its sentence names the flow.
    #[error("{0}")]
    Refused(String),
    /// Max_Payload_Size cannot be set on the way of a flow.
    #[error("Max_Payload_Size of {bytes} B: {problem}")]
    MaxPayload {
        /// The requested size, bytes.
        bytes: u32,
        /// Why it cannot.
        problem: String,
    },
    /// The observer ended the run before its time.
    #[error("interrupted")]
    Interrupted,
    /// Something went wrong in a run, so that its figure says nothing.
    #[error("the run failed: {0}")]
    Failed(String),
}

impl From<LabError> for ScenarioError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl ScenarioError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Lab(error) => error.kind(),
            Self::Flow { .. } | Self::Refused(_) => ErrorKind::InvalidArgument,
            Self::Forbidden { .. } => ErrorKind::Denied,
            Self::MaxPayload { .. } => ErrorKind::Unsupported,
            Self::Interrupted => ErrorKind::Cancelled,
            Self::Failed(_) => ErrorKind::Failed,
        }
    }
}

impl From<BenchError> for ScenarioError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Lab(error) => Self::Lab(error),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<LabError> for BenchError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl BenchError {
    /// A run in a lab that went wrong.
    pub(crate) fn run(run: &str, problem: impl ToString) -> Self {
        Self::Run { run: run.to_owned(), problem: problem.to_string() }
    }
}
