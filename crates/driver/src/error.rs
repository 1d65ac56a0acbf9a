// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong: a request that cannot be, a device that does not answer, a transfer that
//! failed.

use crosslane_host::BusError;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::ChannelError;
use thiserror::Error;

use crate::plan::PlanError;

/// A request that was refused, or a device that cannot be used. Nothing has been moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The bus refused, or the device does not answer.
    #[error("{device}: {source}")]
    Bus {
        /// The device.
        device: String,
        /// Why.
        source: BusError,
    },
    /// There is no way.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Something that cannot be asked for, a sentence with its values and its place.
    #[error("{place}: {problem}")]
    Refused {
        /// The device, channel, buffer or lane.
        place: String,
        /// What is wrong.
        problem: String,
    },
}

/// Why a transfer failed.
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
    /// A link between the engine and its host went down: what was on its way may be lost, though
    /// the link may be up again.
    LinkLost,
    /// The card's memory refused a write or a read. The address is the memory's for H2C, and for
    /// C2H that of the write that could not be made.
    CardMemory,
    /// A link on the way is down.
    LinkDown {
        /// Name of the port at its upper end.
        port: String,
    },
    /// The engine has sent it, with payloads beyond what the way is set to, and these ports have
    /// detected errors: what got through is not known.
    Detected {
        /// Name of each port and what it has detected.
        ports: Vec<String>,
    },
    /// The deadline passed.
    Deadline {
        /// The deadline.
        deadline: Picoseconds,
        /// Ports on the way that have detected an error since the channel was opened, and which.
        detected: Vec<String>,
    },
    /// The engine does not answer register reads, though no link on the way is down.
    NoAnswer(Box<DriverError>),
    /// The engine gave an error code that its register map does not have.
    UnknownError {
        /// The code.
        code: u32,
    },
    /// It was cancelled, or stood behind one that failed.
    Cancelled,
    /// It was never posted: the request was refused.
    Refused(Box<DriverError>),
}

impl TransferFault {
    /// The fault that an engine's error code stands for.
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

    /// What happened, as the beginning of a sentence that may go on with the address.
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

/// A transfer that failed, with what was moved and what was not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", crate::error::sentence(self))]
pub struct TransferError {
    /// The channel: device, kind and number.
    pub channel: String,
    /// Why.
    pub fault: TransferFault,
    /// Bytes that were moved, from the beginning on.
    pub moved_bytes: u64,
    /// Bytes of the transfer.
    pub total_bytes: u64,
    /// Address that the error is about, if the engine named one.
    pub address: Option<BusAddress>,
}

/// `fpga1 C2H 0: Unsupported Request at 0x1000: 8192 of 65536 B were moved`.
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
