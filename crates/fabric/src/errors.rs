// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that ports and devices detect while a fabric runs, as they would log them. They are
//! values: the run goes on.

use crosslane_pcie::config::DetectedError;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};
use thiserror::Error;

use crate::fabric::Fabric;
use crate::packet::NONE;
use crate::topology::{Node, PortId};

/// Errors kept; further ones are counted only.
pub const MAX_ERRORS: usize = 1000;

/// What was detected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// PCIe 6.x 2.2.2: a receiver checks the payload against its own Max_Payload_Size.
    #[error(
        "Malformed TLP: a payload of {payload_bytes} B is larger than the port's Max_Payload_Size \
         of {max_payload_bytes} B ({what})"
    )]
    PayloadTooLarge {
        /// Payload, bytes.
        payload_bytes: u32,
        /// The port's setting, bytes.
        max_payload_bytes: u32,
        /// The TLP in short.
        what: String,
    },
    /// PCIe 6.x 2.3.1: nothing claims the address.
    #[error("Unsupported Request: {what} routes nowhere")]
    Unrouted {
        /// The TLP in short.
        what: String,
        /// Its address.
        address: BusAddress,
    },
    /// A request to an address that the IOMMU has no mapping of for its function. A read ends with
    /// Unsupported Request, a write has no effect.
    #[error(
        "IOMMU fault: {function} ({requester}) may not {access} {bytes} B at {address}, where \
         nothing is mapped for it"
    )]
    IommuFault {
        /// Name of the function.
        function: String,
        /// Its number.
        requester: RoutingId,
        /// "read" or "write".
        access: &'static str,
        /// I/O virtual address.
        address: BusAddress,
        /// Bytes of the request.
        bytes: u32,
    },
    /// Memory of another program ([`OutsideMemory`](crate::OutsideMemory)) that it took back while
    /// a request for it was under way.
    #[error("Unsupported Request: the mapping of {address} went while {requester} used it")]
    MappingGone {
        /// Who asked for it.
        requester: RoutingId,
        /// Where in its range of addresses.
        address: BusAddress,
    },
    /// A completion for which nobody waits (PCIe 6.x 2.3.2).
    #[error("Unexpected Completion: {what}")]
    UnexpectedCompletion {
        /// The TLP in short.
        what: String,
    },
    /// Peer-to-peer through a root complex that does not allow it.
    #[error(
        "Unsupported Request: {what} would go from one root port to another, which \
         {root_complex} forbids"
    )]
    PeerForbidden {
        /// The TLP in short.
        what: String,
        /// The root complex.
        root_complex: String,
    },
    /// A function that may not send requests.
    #[error("{requester} sent a request while its Bus Master Enable bit is off")]
    NotBusMaster {
        /// The function.
        requester: RoutingId,
    },
    /// PCIe 6.x 2.8.
    #[error("Completion Timeout: tag {tag} got no answer within {timeout}")]
    CompletionTimeout {
        /// The tag.
        tag: u16,
        /// The limit.
        timeout: Picoseconds,
    },
    /// A read was refused.
    #[error("a read of {bytes} B at {address} was completed with {status}")]
    ReadRefused {
        /// Address of the read.
        address: BusAddress,
        /// Its length in bytes.
        bytes: u32,
        /// "Unsupported Request" or "Completer Abort".
        status: &'static str,
    },
    /// PCIe 6.x 2.7.2: a write whose data are known to be wrong. It has no effect.
    #[error("Poisoned TLP: {what} has no effect")]
    PoisonedWrite {
        /// The TLP in short.
        what: String,
    },
    /// PCIe 6.x 3.2.1: a link that nobody took down on purpose is down.
    #[error("Surprise Down: link {link} went down and lost {lost_tlps} TLPs")]
    LinkDown {
        /// Name of the link.
        link: String,
        /// TLPs that it carried or would have carried again.
        lost_tlps: u64,
    },
    /// PCIe 6.x 2.9.1: a TLP that had to leave by a link that is down.
    #[error("{what} cannot leave by link {link}, which is down")]
    NoLink {
        /// Name of the link.
        link: String,
        /// The TLP in short.
        what: String,
    },
    /// What arrived is not what was sent: a bug of the fabric.
    #[error("data of {what} are not those that were sent")]
    WrongData {
        /// Where.
        what: String,
    },
    /// The ordering rules were broken: a bug of the fabric.
    #[error("ordering violated: {what}")]
    Ordering {
        /// Which rule, with the TLP.
        what: String,
    },
}

impl ErrorKind {
    /// What the Device Status of the port that detects it says, with the severities after reset.
    /// `class` is that of the TLP, where it is a request.
    ///
    /// A refused request that gets a completion, and an unexpected completion, are advisory
    /// non-fatal errors, which count as correctable (PCIe 6.x 6.2.3.2.4).
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
            // The requester did nothing wrong that it could detect, or the fabric itself is wrong.
            // An IOMMU notes faults in registers of its own.
            Self::NotBusMaster { .. }
            | Self::IommuFault { .. }
            | Self::ReadRefused { .. }
            | Self::WrongData { .. }
            | Self::Ordering { .. } => &[],
        }
    }
}

/// An error, where and when.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{port_name} at {time}: {kind}")]
pub struct ErrorRecord {
    /// When it was detected.
    pub time: Picoseconds,
    /// The port that detected it; of what a node itself detected, its first port.
    pub port: PortId,
    /// Its name, or that of the node.
    pub port_name: String,
    /// What it is.
    pub kind: ErrorKind,
}

impl Fabric {
    /// Notes an error that a port has detected; where that is a request, a posted one.
    pub(crate) fn report(&mut self, port: u32, kind: ErrorKind) {
        self.report_request(port, kind, Class::Posted);
    }

    /// Sets a bit in a port's Device Status.
    #[cold]
    pub(crate) fn detect(&mut self, port: u32, error: DetectedError) {
        self.ports[port as usize].config.record_error(error);
    }

    /// Notes an error that a port has detected in a request of this class.
    pub(crate) fn report_request(&mut self, port: u32, kind: ErrorKind, class: Class) {
        for error in kind.detected(class) {
            self.detect(port, *error);
        }
        if self.count_error() {
            let port_name = self.ports[port as usize].name.clone();
            self.errors.push(ErrorRecord { time: self.now(), port: PortId(port), port_name, kind });
        }
    }

    /// Notes an error of a node itself, not of one of its ports: it has the node's name and, for
    /// want of another, its first port.
    pub(crate) fn report_at_node(&mut self, node: u32, kind: ErrorKind) {
        if self.count_error() {
            let Node { name, ports, .. } = &self.nodes[node as usize];
            let (port, port_name) = (ports.first().copied(), name.clone());
            let port = port.unwrap_or(PortId(NONE));
            self.errors.push(ErrorRecord { time: self.now(), port, port_name, kind });
        }
    }

    /// Counts an error; says whether it is to be kept.
    fn count_error(&mut self) -> bool {
        self.error_count += 1;
        self.errors.len() < MAX_ERRORS
    }
}
