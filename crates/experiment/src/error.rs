// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of workloads and of their runs.

use crosslane_bridge::BridgeError;
use crosslane_driver::network_processor::NetworkError;
use crosslane_driver::{DriverError, TransferError};
use crosslane_fabric::FlowError;
use crosslane_host::{BusError, RdmaError, Reason, kinds};
use crosslane_lab::LabError;
use crosslane_torus::TorusError;
use thiserror::Error;

/// Name of a run whose figure says nothing.
pub(crate) const FAILED: &str = "the run failed";

/// Result of what may fail with an [`ExperimentError`].
pub type Result<T, E = ExperimentError> = std::result::Result<T, E>;

/// Reason for which a workload cannot be run, or not to its end. Wrong data are not an error of
/// this kind: [`Measured::data_errors`](crate::Measured::data_errors) counts them.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ExperimentError {
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
    /// A lab cannot be built or enumerated.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// The fabric refuses a flow.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// A run in a lab went wrong, so that its figure says nothing.
    #[error("{run}: {problem}")]
    Run {
        /// Name of the run.
        run: String,
        /// The first thing that went wrong.
        #[source]
        problem: Reason,
    },
    /// An impossible request.
    #[error("{place}: {problem}")]
    Refused {
        /// The flow or the device.
        place: String,
        /// The reason, with its values.
        problem: String,
    },
    /// The lab forbids the path of a flow.
    #[error("{flow}: {problem}")]
    Forbidden {
        /// The flow, as it was asked for.
        flow: String,
        /// The setting that forbids it.
        problem: String,
    },
    /// Max_Payload_Size cannot be set on the path of a flow.
    #[error("Max_Payload_Size of {bytes} B: {problem}")]
    MaxPayload {
        /// The requested size, bytes.
        bytes: u32,
        /// The reason.
        #[source]
        problem: Reason,
    },
    /// The observer ended the run before its time.
    #[error("interrupted")]
    Interrupted,
    /// Data that were sent have not arrived in time.
    #[error(
        "{place}: {received_bytes} of {sent_bytes} B have arrived {waited_us} us after the last \
         was sent"
    )]
    Lost {
        /// The receive queue.
        place: String,
        /// Bytes that have arrived.
        received_bytes: u64,
        /// Bytes that were sent.
        sent_bytes: u64,
        /// Time since the last was sent, microseconds.
        waited_us: u64,
    },
}

kinds!(ExperimentError {
    Self::Driver(error) => error.kind(),
    Self::Transfer(error) => error.kind(),
    Self::Network(error) => error.kind(),
    Self::Torus(error) => error.kind(),
    Self::Bus(error) => error.kind(),
    Self::Bridge(error) => error.kind(),
    Self::Rdma(error) => error.kind(),
    Self::Lab(error) => error.kind(),
    Self::Run { problem, .. } | Self::MaxPayload { problem, .. } => problem.kind(),
    Self::Flow(error) => error.kind(),
    Self::Refused { .. } => InvalidArgument,
    Self::Forbidden { .. } => Denied,
    Self::Interrupted => Cancelled,
    Self::Lost { .. } => Timeout,
});

impl ExperimentError {
    /// Makes the error of a run whose figure says nothing.
    pub fn failed(problem: impl Into<Reason>) -> Self {
        Self::run(FAILED, problem)
    }

    /// Makes the error of a run that went wrong.
    pub(crate) fn run(run: &str, problem: impl Into<Reason>) -> Self {
        Self::Run { run: run.to_owned(), problem: problem.into() }
    }

    /// Makes the error of an impossible request.
    pub(crate) fn refused(place: impl ToString, problem: impl Into<String>) -> Self {
        Self::Refused { place: place.to_string(), problem: problem.into() }
    }

    /// Returns an error if there is a problem.
    pub(crate) fn check(place: &str, problem: Option<String>) -> Result<()> {
        problem.map_or(Ok(()), |problem| Err(Self::refused(place, problem)))
    }
}

/// Boxes large errors.
macro_rules! boxed {
    ($($error:ident: $variant:ident),*) => {
        $(impl From<$error> for ExperimentError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        })*
    };
}
boxed!(TransferError: Transfer, NetworkError: Network, TorusError: Torus, LabError: Lab);
