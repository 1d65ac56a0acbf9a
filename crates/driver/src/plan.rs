// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: which way data take, at what rate, and why no faster way is taken.

use crosslane_host::{FunctionInfo, Topology, TopologyError};
use crosslane_pcie::units::RoutingId;
use thiserror::Error;

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Host memory.
    HostMemory,
    /// What is behind a function's BARs.
    Function(RoutingId),
}

/// Why a faster way is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A port on the way redirects peer requests to the root complex (ACS).
    AcsRedirect {
        /// Name of the port.
        port: String,
    },
    /// The ends meet only in the root complex.
    ThroughRootComplex,
    /// Longer payloads would be possible if these ports were set to it.
    MaxPayload {
        /// Payload in force, bytes.
        in_force_bytes: u32,
        /// What all ports on the way support, bytes.
        possible_bytes: u32,
        /// Ports that are set to less.
        ports: Vec<String>,
    },
}

/// The way between two places.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Every port on the way, from source to target.
    pub path: Vec<FunctionInfo>,
    /// Largest payload that every port on the way takes, bytes.
    pub max_payload_bytes: u32,
    /// Payload bytes per second that the slowest link can carry with that payload and the
    /// header that the addresses need, without DLLPs.
    pub expected_bytes_per_second: f64,
    /// Name of the port at the upper end of that link.
    pub slowest_link: String,
    /// Whether it goes through the root complex.
    pub through_root_complex: bool,
    /// Why no faster way is taken; empty if there is none.
    pub refused: Vec<Refusal>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The tree refused.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A payload size that no register can hold or some port does not support.
    #[error("{port} supports payloads up to {most_bytes} B, {bytes} B were asked for")]
    PayloadUnsupported {
        /// The port.
        port: String,
        /// What was asked for, bytes.
        bytes: u32,
        /// What it supports, bytes.
        most_bytes: u32,
    },
}

impl Plan {
    /// The plan for writes from one place to the other.
    ///
    /// # Errors
    /// A function that is not there.
    pub fn new(topology: &impl Topology, from: Place, to: Place) -> Result<Self, PlanError> {
        let _ = (topology, from, to);
        unimplemented!()
    }
}

/// Sets Max_Payload_Size of every port on the way from one place to the other, as `setpci` would,
/// and of nothing else. Returns the names of the ports.
///
/// # Errors
/// A port that does not support it: then nothing is changed.
pub fn set_max_payload_on_path(
    topology: &impl Topology,
    from: Place,
    to: Place,
    bytes: u32,
) -> Result<Vec<String>, PlanError> {
    let _ = (topology, from, to, bytes);
    unimplemented!()
}
