// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that ports and devices detect while a fabric runs, as they would log them. They are
//! values; the run continues.

use crosslane_pcie::config::DetectedError;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};
use thiserror::Error;

use crate::fabric::Fabric;
use crate::packet::NONE;
use crate::topology::{Node, PortId};

/// Most errors kept; further ones are only counted.
pub const MAX_ERRORS: usize = 1000;

/// Type of a detected error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The payload exceeds the receiver's Max_Payload_Size (PCIe 6.x 2.2.2).
    #[error(
        "Malformed TLP: a payload of {payload_bytes} B is larger than the port's Max_Payload_Size \
         of {max_payload_bytes} B ({what})"
    )]
    PayloadTooLarge {
        /// Payload in bytes.
        payload_bytes: u32,
        /// Max_Payload_Size of the port, in bytes.
        max_payload_bytes: u32,
        /// Short description of the TLP.
        what: String,
    },
    /// The address of a request is unclaimed (PCIe 6.x 2.3.1).
    #[error("Unsupported Request: {what} routes nowhere")]
    Unrouted {
        /// Short description of the TLP.
        what: String,
        /// Address of the request.
        address: BusAddress,
    },
    /// The IOMMU has no mapping for the requester at the address. A read ends with Unsupported
    /// Request; a write has no effect.
    #[error(
        "IOMMU fault: {function} ({requester}) may not {access} {bytes} B at {address}, where \
         nothing is mapped for it"
    )]
    IommuFault {
        /// Name of the function.
        function: String,
        /// Routing ID of the function.
        requester: RoutingId,
        /// "read" or "write".
        access: &'static str,
        /// I/O virtual address.
        address: BusAddress,
        /// Bytes of the request.
        bytes: u32,
    },
    /// Memory of another program ([`OutsideMemory`](crate::OutsideMemory)) was withdrawn by it
    /// while a request was under way.
    #[error("Unsupported Request: {address} was unmapped while {requester} still used it")]
    MappingGone {
        /// Function that sent the request.
        requester: RoutingId,
        /// Address in the range that was withdrawn.
        address: BusAddress,
    },
    /// A completion matches no outstanding request (PCIe 6.x 2.3.2).
    #[error("Unexpected Completion: {what}")]
    UnexpectedCompletion {
        /// Short description of the TLP.
        what: String,
    },
    /// A peer-to-peer request reached a root complex that does not allow it.
    #[error(
        "Unsupported Request: {what} would go from one root port to another, which \
         {root_complex} forbids"
    )]
    PeerForbidden {
        /// Short description of the TLP.
        what: String,
        /// Name of the root complex.
        root_complex: String,
    },
    /// A function without bus master enable sent a request.
    #[error("{requester} sent a request while its Bus Master Enable bit is off")]
    NotBusMaster {
        /// Routing ID of the function.
        requester: RoutingId,
    },
    /// A read got no completion in time (PCIe 6.x 2.8).
    #[error("Completion Timeout: tag {tag} got no answer within {timeout}")]
    CompletionTimeout {
        /// Tag of the read.
        tag: u16,
        /// Completion time-out.
        timeout: Picoseconds,
    },
    /// A read was refused.
    #[error("a read of {bytes} B at {address} was completed with {status}")]
    ReadRefused {
        /// Address of the read.
        address: BusAddress,
        /// Length of the read in bytes.
        bytes: u32,
        /// "Unsupported Request" or "Completer Abort".
        status: &'static str,
    },
    /// A write carries data marked as bad and has no effect (PCIe 6.x 2.7.2).
    #[error("Poisoned TLP: {what} has no effect")]
    PoisonedWrite {
        /// Short description of the TLP.
        what: String,
    },
    /// A link went down unintentionally (PCIe 6.x 3.2.1).
    #[error("Surprise Down: link {link} went down and lost {lost_tlps} TLPs")]
    LinkDown {
        /// Name of the link.
        link: String,
        /// TLPs lost on the wire or in the replay buffer.
        lost_tlps: u64,
    },
    /// A TLP had to leave by a link that is down (PCIe 6.x 2.9.1).
    #[error("{what} cannot leave by link {link}, which is down")]
    NoLink {
        /// Name of the link.
        link: String,
        /// Short description of the TLP.
        what: String,
    },
    /// Arrived data differ from those sent: a bug of the fabric.
    #[error("data of {what} are not those that were sent")]
    WrongData {
        /// Description of the mismatch and its position.
        what: String,
    },
    /// The ordering rules were broken: a bug of the fabric.
    #[error("ordering violated: {what}")]
    Ordering {
        /// Broken rule and the TLP.
        what: String,
    },
}

impl ErrorKind {
    /// Device Status bits that the error sets at the port that detects it, with the severities
    /// after reset. `class` is that of the TLP, if it is a request.
    ///
    /// A refused request that gets a completion and an unexpected completion are advisory non-fatal
    /// errors, which count as correctable (PCIe 6.x 6.2.3.2.4).
    pub(crate) fn detected(&self, class: Class) -> &'static [DetectedError] {
        match self {
            Self::PayloadTooLarge { .. } | Self::LinkDown { .. } => &[DetectedError::Fatal],
            Self::NoLink { .. } if class == Class::Completion => &[],
            Self::Unrouted { .. }
            | Self::MappingGone { .. }
            | Self::PeerForbidden { .. }
            | Self::NoLink { .. } => match class {
                Class::NonPosted => {
                    &[DetectedError::Correctable, DetectedError::UnsupportedRequest]
                }
                _ => &[DetectedError::NonFatal, DetectedError::UnsupportedRequest],
            },
            Self::UnexpectedCompletion { .. } => &[DetectedError::Correctable],
            Self::CompletionTimeout { .. } | Self::PoisonedWrite { .. } => {
                &[DetectedError::NonFatal]
            }
            // The requester cannot detect these, or the fabric itself has a bug. An IOMMU records
            // faults in its own registers.
            Self::NotBusMaster { .. }
            | Self::IommuFault { .. }
            | Self::ReadRefused { .. }
            | Self::WrongData { .. }
            | Self::Ordering { .. } => &[],
        }
    }
}

/// One detected error with its time and port.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{port_name} at {time}: {kind}")]
pub struct ErrorRecord {
    /// Time of detection.
    pub time: Picoseconds,
    /// Port that detected the error; for an error of a node itself, its first port.
    pub port: PortId,
    /// Name of the port or node.
    pub port_name: String,
    /// Type of the error.
    pub kind: ErrorKind,
}

impl Fabric {
    /// Records an error detected by a port; a faulty request counts as posted.
    pub(crate) fn report(&mut self, port: u32, kind: ErrorKind) {
        self.report_request(port, kind, Class::Posted);
    }

    /// Sets a bit in a port's Device Status.
    #[cold]
    pub(crate) fn detect(&mut self, port: u32, error: DetectedError) {
        self.ports[port as usize].config.record_error(error);
    }

    /// Records an error that a port detected in a request of this class.
    pub(crate) fn report_request(&mut self, port: u32, kind: ErrorKind, class: Class) {
        for error in kind.detected(class) {
            self.detect(port, *error);
        }
        if self.count_error() {
            let port_name = self.ports[port as usize].name.clone();
            self.errors.push(ErrorRecord { time: self.now(), port: PortId(port), port_name, kind });
        }
    }

    /// Records an error of a node rather than one of its ports, with the node's name and its first
    /// port as a substitute.
    pub(crate) fn report_at_node(&mut self, node: u32, kind: ErrorKind) {
        if self.count_error() {
            let Node { name, ports, .. } = &self.nodes[node as usize];
            let (port, port_name) = (ports.first().copied(), name.clone());
            let port = port.unwrap_or(PortId(NONE));
            self.errors.push(ErrorRecord { time: self.now(), port, port_name, kind });
        }
    }

    /// Counts an error and returns whether to keep it.
    fn count_error(&mut self) -> bool {
        self.error_count += 1;
        self.errors.len() < MAX_ERRORS
    }
}
