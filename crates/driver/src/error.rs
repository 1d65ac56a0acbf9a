// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors: an impossible request, a device that does not answer, a failed transfer.

use std::fmt;

use crosslane_host::{BusError, ErrorKind, kinds};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::ChannelError;
use thiserror::Error;

use crate::plan::PlanError;

/// Outcome of a request to the driver.
pub(crate) type Result<T, E = DriverError> = std::result::Result<T, E>;

/// A refused request, or an unusable device. No data were moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The bus refused, or the device does not answer.
    #[error("{device}: {source}")]
    Bus {
        /// Name of the device.
        device: String,
        /// Error of the bus.
        source: BusError,
    },
    /// No path to the target.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An impossible request.
    #[error("{place}: {problem}")]
    Refused {
        /// The device, channel, buffer or receive queue.
        place: String,
        /// Kind of the problem.
        kind: ErrorKind,
        /// Description of the problem, with its values.
        problem: String,
    },
    /// More descriptors were posted at once than the channel has places for.
    #[error("{channel}: {needed} descriptors were posted at once, its {store} has {capacity}")]
    TooManyDescriptors {
        /// The channel.
        channel: String,
        /// Number of descriptors posted.
        needed: u64,
        /// Place of its descriptors: ring or table.
        store: &'static str,
        /// Number of descriptors that it holds.
        capacity: u32,
    },
    /// The channel has stopped at a fault.
    #[error("{channel}: it has stopped ({fault}) and has to be restarted first")]
    Stopped {
        /// The channel.
        channel: String,
        /// The fault.
        fault: Box<TransferFault>,
    },
    /// Data or credits still arrive at what is restarted.
    #[error("{place}: {problem}")]
    StillArriving {
        /// The channel or receive queue.
        place: String,
        /// Kind of the problem.
        kind: ErrorKind,
        /// Description of what arrives.
        problem: &'static str,
    },
    /// The result of a transfer was given out before.
    #[error("{channel}: the result of transfer {ticket} has been given")]
    Given {
        /// The channel.
        channel: String,
        /// Number of the transfer's ticket.
        ticket: u64,
    },
}

impl DriverError {
    pub(crate) fn refused(
        place: impl Into<String>,
        kind: ErrorKind,
        problem: impl Into<String>,
    ) -> Self {
        Self::Refused { place: place.into(), kind, problem: problem.into() }
    }
}

kinds!(DriverError {
    Self::Bus { source, .. } => source.kind(),
    Self::Plan(error) => error.kind(),
    Self::Refused { kind, .. } | Self::StillArriving { kind, .. } => *kind,
    Self::TooManyDescriptors { .. } | Self::Given { .. } => InvalidArgument,
    Self::Stopped { fault, .. } => fault.kind(),
});

/// Errors that a port has detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortErrors {
    /// Name of the port.
    pub port: String,
    /// The errors, separated by commas.
    pub errors: String,
}

impl fmt::Display for PortErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} detected", self.port, self.errors)
    }
}

/// Reason for which a transfer failed. Its words begin a sentence that the address may follow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransferFault {
    /// A read was answered with Unsupported Request.
    #[error("Unsupported Request")]
    UnsupportedRequest,
    /// A read was answered with Completer Abort.
    #[error("Completer Abort")]
    CompleterAbort,
    /// Completion data were poisoned.
    #[error("poisoned data")]
    Poisoned,
    /// A read got no answer in time.
    #[error("a read got no answer in time")]
    CompletionTimeout,
    /// A completion did not fit its request.
    #[error("an answer that does not fit its read")]
    MalformedCompletion,
    /// The engine refused the descriptor.
    #[error("the engine refused the descriptor")]
    BadDescriptor,
    /// Bus mastering was switched off.
    #[error("Bus Master Enable is clear")]
    NotBusMaster,
    /// A link between the engine and its host went down: TLPs in flight may be lost, though the
    /// link may be up again.
    #[error("a link between the engine and its host went down")]
    LinkLost,
    /// The card's memory refused a write or a read. The address is a card address for H2C, and for
    /// C2H the target of the write that could not be made.
    #[error("the card's memory refused it")]
    CardMemory,
    /// A link of the path is down.
    #[error("the link below {port} is down")]
    LinkDown {
        /// Name of the port at its upper end.
        port: String,
    },
    /// The engine has sent the data, with payloads longer than the path takes, and these ports have
    /// detected errors: how much got through is unknown.
    #[error("refused on the way ({})", listed(ports))]
    Detected {
        /// The ports with their errors.
        ports: Vec<PortErrors>,
    },
    /// The deadline passed.
    #[error("not complete at the deadline, {deadline}{}", in_brackets(detected))]
    Deadline {
        /// The deadline, in absolute time.
        deadline: Picoseconds,
        /// Ports of the path that have detected errors since the channel was opened, with the
        /// errors.
        detected: Vec<PortErrors>,
    },
    /// The engine does not answer register reads, though no link of the path is down.
    #[error("the engine does not answer ({0})")]
    NoAnswer(#[source] Box<DriverError>),
    /// The engine gave an error code that its register map does not define.
    #[error("the engine stopped with error code {code}")]
    UnknownError {
        /// The undefined code.
        code: u32,
    },
    /// The transfer was cancelled, or queued behind a failed one.
    #[error("cancelled")]
    Cancelled,
    /// The transfer was never posted: the request was refused.
    #[error(transparent)]
    Refused(Box<DriverError>),
}

/// Formats the errors of ports: ` (rc0.down1: ..., ...)`, or nothing if there are none.
fn in_brackets(ports: &[PortErrors]) -> String {
    if ports.is_empty() { String::new() } else { format!(" ({})", listed(ports)) }
}

fn listed(ports: &[PortErrors]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl TransferFault {
    /// Returns the ports that have detected errors, as far as the fault names them.
    pub fn detected(&self) -> &[PortErrors] {
        match self {
            Self::Detected { ports } | Self::Deadline { detected: ports, .. } => ports,
            _ => &[],
        }
    }

    /// Decodes an engine's error code.
    pub(crate) fn from_code(code: u32) -> Self {
        match ChannelError::from_bits(code) {
            Some(ChannelError::UnsupportedRequest) => Self::UnsupportedRequest,
            Some(ChannelError::CompleterAbort) => Self::CompleterAbort,
            Some(ChannelError::Poisoned) => Self::Poisoned,
            Some(ChannelError::CompletionTimeout) => Self::CompletionTimeout,
            Some(ChannelError::BadDescriptor) => Self::BadDescriptor,
            Some(ChannelError::NotBusMaster) => Self::NotBusMaster,
            Some(ChannelError::MalformedCompletion) => Self::MalformedCompletion,
            Some(ChannelError::LinkDown) => Self::LinkLost,
            Some(ChannelError::CardMemory) => Self::CardMemory,
            Some(ChannelError::None) | None => Self::UnknownError { code },
        }
    }
}

kinds!(TransferFault {
    Self::UnsupportedRequest => Unsupported,
    Self::Poisoned | Self::MalformedCompletion | Self::Detected { .. } => Data,
    Self::CompletionTimeout | Self::Deadline { .. } => Timeout,
    Self::NotBusMaster => Denied,
    Self::LinkLost | Self::LinkDown { .. } => LinkDown,
    Self::CompleterAbort | Self::BadDescriptor | Self::CardMemory | Self::UnknownError { .. }
        => Failed,
    Self::Cancelled => Cancelled,
    Self::NoAnswer(error) | Self::Refused(error) => error.kind(),
});

/// A failed transfer, with how much of it was moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", crate::error::sentence(self))]
pub struct TransferError {
    /// The channel: device, kind and number.
    pub channel: String,
    /// Reason of the failure.
    #[source]
    pub fault: TransferFault,
    /// Bytes moved, from the start.
    pub moved_bytes: u64,
    /// Bytes of the transfer.
    pub total_bytes: u64,
    /// Address that the error concerns, if the engine reported one.
    pub address: Option<BusAddress>,
}

kinds!(TransferError {
    error => error.fault.kind(),
});

/// Formats an error: `fpga1 C2H 0: Unsupported Request at 0x1000: 8192 of 65536 B were moved`.
pub(crate) fn sentence(error: &TransferError) -> String {
    let TransferError { channel, fault, moved_bytes, total_bytes, address } = error;
    if let TransferFault::Refused(refused) = fault {
        return refused.to_string();
    }
    let at = address.map_or(String::new(), |address| format!(" at {address}"));
    format!("{channel}: {fault}{at}: {moved_bytes} of {total_bytes} B were moved")
}

#[cfg(test)]
mod tests {
    use ErrorKind::{
        Cancelled, Data, Denied, Failed, InvalidArgument, LinkDown, NotFound, Timeout, Unsupported,
    };
    use crosslane_host::TopologyError;
    use crosslane_pcie::units::RoutingId;

    use super::*;

    #[test]
    fn sentences_say_what_where_and_how_much() {
        let error = |fault, address| TransferError {
            channel: "fpga1 H2C 0".to_owned(),
            fault,
            moved_bytes: 8192,
            total_bytes: 65536,
            address,
        };
        assert_eq!(
            error(TransferFault::UnsupportedRequest, Some(BusAddress(0x8000_0000))).to_string(),
            "fpga1 H2C 0: Unsupported Request at 0x80000000: 8192 of 65536 B were moved"
        );
        let (port, errors) = ("rc47a.down2".to_owned(), "fatal error".to_owned());
        let detected = vec![PortErrors { port, errors }];
        let deadline = TransferFault::Deadline { deadline: Picoseconds::from_us(2), detected };
        assert_eq!(
            error(deadline, None).to_string(),
            "fpga1 H2C 0: not complete at the deadline, 2 us (rc47a.down2: fatal error detected): \
             8192 of 65536 B were moved"
        );
        let down = TransferFault::LinkDown { port: "rc47a.down2".to_owned() };
        assert_eq!(
            error(down, None).to_string(),
            "fpga1 H2C 0: the link below rc47a.down2 is down: 8192 of 65536 B were moved"
        );
    }

    #[test]
    fn every_error_has_its_kind() {
        let name = || "port".to_owned();
        let denied = || Box::new(DriverError::refused("fpga1", Denied, "no"));
        let function = RoutingId::new(1, 0, 0);
        let topology = TopologyError::NoSuchFunction(function);
        let plan = |error: PlanError| TransferFault::Refused(Box::new(error.into()));
        let (port, bytes, most_bytes) = (name(), 512, 256);
        let (redirects, refuses, from, to) = (name(), name(), name(), name());
        for (fault, kind) in [
            (TransferFault::UnsupportedRequest, Unsupported),
            (TransferFault::CompleterAbort, Failed),
            (TransferFault::Poisoned, Data),
            (TransferFault::CompletionTimeout, Timeout),
            (TransferFault::MalformedCompletion, Data),
            (TransferFault::BadDescriptor, Failed),
            (TransferFault::NotBusMaster, Denied),
            (TransferFault::LinkLost, LinkDown),
            (TransferFault::CardMemory, Failed),
            (TransferFault::LinkDown { port: name() }, LinkDown),
            (TransferFault::Detected { ports: Vec::new() }, Data),
            (
                TransferFault::Deadline { deadline: Picoseconds::ZERO, detected: Vec::new() },
                Timeout,
            ),
            (TransferFault::NoAnswer(denied()), Denied),
            (TransferFault::UnknownError { code: 15 }, Failed),
            (TransferFault::Cancelled, Cancelled),
            (TransferFault::Refused(denied()), Denied),
            (
                TransferFault::NoAnswer(Box::new(DriverError::Bus {
                    device: name(),
                    source: topology.clone().into(),
                })),
                NotFound,
            ),
            (plan(topology.into()), NotFound),
            (plan(PlanError::PayloadUnsupported { port, bytes, most_bytes }), Unsupported),
            (plan(PlanError::NoPayloadSize { bytes: 3 }), InvalidArgument),
            (plan(PlanError::PayloadNotKept { port: name(), bytes }), Failed),
            (plan(PlanError::LinkDown { port: name() }), LinkDown),
            (plan(PlanError::RedirectedHalfWay { redirects, refuses }), Unsupported),
            (plan(PlanError::SamePlace { from, to }), InvalidArgument),
        ] {
            let error = TransferError {
                channel: name(),
                fault,
                moved_bytes: 0,
                total_bytes: 1,
                address: None,
            };
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    fn the_chain_of_causes_leads_to_the_bus() {
        let source = BusError::OutOfMemory { bytes: 2, left_bytes: 1 };
        let answer = DriverError::Bus { device: "fpga1".to_owned(), source: source.clone() };
        let error = TransferError {
            channel: "fpga1 H2C 0".to_owned(),
            fault: TransferFault::NoAnswer(Box::new(answer)),
            moved_bytes: 0,
            total_bytes: 1,
            address: None,
        };
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
        assert_eq!(chain.last().and_then(|e| e.downcast_ref()), Some(&source));
    }

    #[test]
    fn every_error_code_of_the_register_map_is_a_fault() {
        for code in 0..16 {
            let is_known = ChannelError::from_bits(code).is_some_and(|e| e != ChannelError::None);
            let fault = TransferFault::from_code(code);
            let is_unknown = fault == TransferFault::UnknownError { code };
            assert_eq!(is_unknown, !is_known, "{code}: {fault:?}");
        }
    }
}
