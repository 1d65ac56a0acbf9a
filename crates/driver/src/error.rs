// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors: an impossible request, a device that does not answer, a failed transfer.

use crosslane_host::BusError;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::ChannelError;
use thiserror::Error;

use crate::plan::PlanError;

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
        /// Description of the problem, with its values.
        problem: String,
    },
}

/// Reason for which a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferFault {
    /// A read was answered with Unsupported Request.
    UnsupportedRequest,
    /// A read was answered with Completer Abort.
    CompleterAbort,
    /// Completion data were poisoned.
    Poisoned,
    /// A read got no answer in time.
    CompletionTimeout,
    /// A completion did not fit its request.
    MalformedCompletion,
    /// The engine refused the descriptor.
    BadDescriptor,
    /// Bus mastering was switched off.
    NotBusMaster,
    /// A link between the engine and its host went down: TLPs in flight may be lost, though the
    /// link may be up again.
    LinkLost,
    /// The card's memory refused a write or a read. The address is a card address for H2C, and for
    /// C2H the target of the write that could not be made.
    CardMemory,
    /// A link of the path is down.
    LinkDown {
        /// Name of the port at its upper end.
        port: String,
    },
    /// The engine has sent the data, with payloads longer than the path takes, and these ports have
    /// detected errors: how much got through is unknown.
    Detected {
        /// Each port's name with its errors.
        ports: Vec<String>,
    },
    /// The deadline passed.
    Deadline {
        /// The deadline, in absolute time.
        deadline: Picoseconds,
        /// Ports of the path that have detected errors since the channel was opened, with the
        /// errors.
        detected: Vec<String>,
    },
    /// The engine does not answer register reads, though no link of the path is down.
    NoAnswer(Box<DriverError>),
    /// The engine gave an error code that its register map does not define.
    UnknownError {
        /// The undefined code.
        code: u32,
    },
    /// It was cancelled, or queued behind a failed one.
    Cancelled,
    /// It was never posted: the request was refused.
    Refused(Box<DriverError>),
}

impl TransferFault {
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

    /// Describes the fault as the start of a sentence that the address may follow.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::UnsupportedRequest => "Unsupported Request".to_owned(),
            Self::CompleterAbort => "Completer Abort".to_owned(),
            Self::Poisoned => "poisoned data".to_owned(),
            Self::CompletionTimeout => "a read got no answer in time".to_owned(),
            Self::MalformedCompletion => "an answer that does not fit its read".to_owned(),
            Self::BadDescriptor => "the engine refused the descriptor".to_owned(),
            Self::NotBusMaster => "Bus Master Enable is clear".to_owned(),
            Self::LinkLost => "a link between the engine and its host went down".to_owned(),
            Self::CardMemory => "the card's memory refused it".to_owned(),
            Self::LinkDown { port } => format!("the link below {port} is down"),
            Self::Detected { ports } => format!("refused on the way ({})", ports.join(", ")),
            Self::Deadline { deadline, detected } if detected.is_empty() => {
                format!("not complete at the deadline, {deadline}")
            }
            Self::Deadline { deadline, detected } => {
                format!("not complete at the deadline, {deadline} ({})", detected.join(", "))
            }
            Self::NoAnswer(error) => format!("the engine does not answer ({error})"),
            Self::UnknownError { code } => format!("the engine stopped with error code {code}"),
            Self::Cancelled => "cancelled".to_owned(),
            Self::Refused(error) => error.to_string(),
        }
    }
}

/// A failed transfer, with how much of it was moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", crate::error::sentence(self))]
pub struct TransferError {
    /// The channel: device, kind and number.
    pub channel: String,
    /// Reason of the failure.
    pub fault: TransferFault,
    /// Bytes moved, from the start.
    pub moved_bytes: u64,
    /// Bytes of the transfer.
    pub total_bytes: u64,
    /// Address that the error concerns, if the engine reported one.
    pub address: Option<BusAddress>,
}

/// Formats an error: `fpga1 C2H 0: Unsupported Request at 0x1000: 8192 of 65536 B were moved`.
pub(crate) fn sentence(error: &TransferError) -> String {
    let TransferError { channel, fault, moved_bytes, total_bytes, address } = error;
    if let TransferFault::Refused(refused) = fault {
        return refused.to_string();
    }
    let at = address.map_or(String::new(), |address| format!(" at {address}"));
    let words = fault.words();
    format!("{channel}: {words}{at}: {moved_bytes} of {total_bytes} B were moved")
}

#[cfg(test)]
mod tests {
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
        let detected = vec!["rc47a.down2: fatal error detected".to_owned()];
        let deadline = TransferFault::Deadline { deadline: Picoseconds::from_ns(2_000), detected };
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
    fn every_error_code_of_the_register_map_is_a_fault() {
        for code in 0..16 {
            let is_known = ChannelError::from_bits(code).is_some_and(|e| e != ChannelError::None);
            let fault = TransferFault::from_code(code);
            let is_unknown = fault == TransferFault::UnknownError { code };
            assert_eq!(is_unknown, !is_known, "{code}: {fault:?}");
        }
    }
}
