// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the network processor's messages and links.

use crosslane_host::kinds;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::network_notification::NetworkStatus;
use crosslane_regs::network_processor::LinkState;
use thiserror::Error;

use crate::error::DriverError;

/// Reason for which a message failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkFault {
    /// The message was never posted: the request was refused.
    #[error(transparent)]
    Refused(Box<DriverError>),
    /// The network processor refused the request.
    #[error("the network processor refused the request")]
    RefusedThere,
    /// The network processor found the key of the request in use.
    #[error("the network processor refused the request")]
    KeyTaken,
    /// Host memory did not answer a read of the network processor, or refused it.
    #[error("host memory did not answer a read, or refused it")]
    HostMemory,
    /// The message is longer than the room for it; the part that fits was written.
    #[error("the message is longer than the room for it")]
    TooLong,
    /// The link is not enabled, or its training has failed.
    #[error("the link is not enabled, or its training has failed")]
    LinkDown,
    /// The message was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The sender gave up in the middle of the message.
    #[error("the sender gave up in the middle")]
    FarEnd,
    /// A routed message came before its credit, when too many did: the rest of it was dropped. See
    /// [`hold_routed`](super::NetworkProcessor::hold_routed).
    #[error("the message came before its credit, and was dropped to let others pass")]
    Dropped,
    /// The network processor was reset.
    #[error("the network processor was reset")]
    Reset,
    /// The deadline passed; the request was taken back.
    #[error("not ended at the deadline, {deadline}")]
    Deadline {
        /// The deadline, in absolute time.
        deadline: Picoseconds,
    },
    /// The deadline passed, and the network processor does not confirm that it has taken the
    /// request back. The memory is kept until a reset.
    #[error(
        "not ended at the deadline, {deadline}, and not taken back: its memory is kept until a \
         reset"
    )]
    NoNotification {
        /// The deadline, in absolute time.
        deadline: Picoseconds,
    },
    /// A link did not come up.
    #[error("it is not up but {}", state_words(*state))]
    NotUp {
        /// Last state of the link.
        state: LinkState,
    },
    /// The device does not answer.
    #[error("the network processor does not answer ({0})")]
    NoAnswer(#[source] Box<DriverError>),
    /// A status that the register map does not define.
    #[error("a notification has status {status}, which means nothing")]
    UnknownStatus {
        /// The undefined status.
        status: u32,
    },
}

impl NetworkFault {
    /// Decodes a notification's status; `None` for a completed message.
    pub(super) fn from_status(status: u32) -> Option<Self> {
        Some(match NetworkStatus::from_bits(status) {
            Some(NetworkStatus::Done) => return None,
            Some(NetworkStatus::Refused) => Self::RefusedThere,
            Some(NetworkStatus::Taken) => Self::KeyTaken,
            Some(NetworkStatus::HostMemory) => Self::HostMemory,
            Some(NetworkStatus::TooLong) => Self::TooLong,
            Some(NetworkStatus::LinkDown) => Self::LinkDown,
            Some(NetworkStatus::Cancelled) => Self::Cancelled,
            Some(NetworkStatus::FarEnd) => Self::FarEnd,
            Some(NetworkStatus::Dropped) => Self::Dropped,
            Some(NetworkStatus::Reset) => Self::Reset,
            Some(NetworkStatus::None) | None => Self::UnknownStatus { status },
        })
    }
}

kinds!(NetworkFault {
    Self::Refused(error) | Self::NoAnswer(error) => error.kind(),
    Self::RefusedThere | Self::TooLong => InvalidArgument,
    Self::KeyTaken | Self::Dropped => Busy,
    Self::LinkDown | Self::NotUp { .. } | Self::Reset => LinkDown,
    Self::Cancelled | Self::FarEnd => Cancelled,
    Self::Deadline { .. } | Self::NoNotification { .. } => Timeout,
    Self::HostMemory | Self::UnknownStatus { .. } => Failed,
});

const fn state_words(state: LinkState) -> &'static str {
    match state {
        LinkState::Absent => "absent: not enabled, or nothing is connected",
        LinkState::Training => "training",
        LinkState::Up => "up",
        LinkState::Failed => "failed: training has failed, or the other end does not fit",
    }
}

/// A failed message, or a link that did not come up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", sentence(self))]
pub struct NetworkError {
    /// The device, and the link or the key of the message.
    pub place: String,
    /// Reason of the failure.
    #[source]
    pub fault: NetworkFault,
    /// Bytes read from host memory, or written to it.
    pub moved_bytes: u64,
    /// Length of the message, or of the room for it.
    pub total_bytes: u64,
}

/// Formats an error: `fpga0 link 1 channel 0 tag 3: cancelled: 512 of 4096 B were moved`.
fn sentence(error: &NetworkError) -> String {
    let NetworkError { place, fault, moved_bytes, total_bytes } = error;
    match fault {
        NetworkFault::Refused(refused) => refused.to_string(),
        NetworkFault::NotUp { .. } => format!("{place}: {fault}"),
        _ => format!("{place}: {fault}: {moved_bytes} of {total_bytes} B were moved"),
    }
}

impl NetworkError {
    /// Error of a request refused before anything was written.
    pub(super) fn refused(error: DriverError) -> Self {
        let place = match &error {
            DriverError::Bus { device, .. } => device.clone(),
            DriverError::Refused { place, .. }
            | DriverError::StillArriving { place, .. }
            | DriverError::TooManyDescriptors { channel: place, .. }
            | DriverError::Stopped { channel: place, .. }
            | DriverError::Given { channel: place, .. } => place.clone(),
            DriverError::Plan(_) => String::new(),
        };
        let fault = NetworkFault::Refused(Box::new(error));
        Self { place, fault, moved_bytes: 0, total_bytes: 0 }
    }
}

kinds!(NetworkError {
    error => error.fault.kind(),
});

#[cfg(test)]
mod tests {
    use crosslane_host::ErrorKind;

    use super::*;

    #[test]
    fn sentences_say_what_where_and_how_much() {
        let error = |fault| NetworkError {
            place: "fpga0 link 1 channel 0 tag 3".to_owned(),
            fault,
            moved_bytes: 512,
            total_bytes: 4096,
        };
        assert_eq!(
            error(NetworkFault::TooLong).to_string(),
            "fpga0 link 1 channel 0 tag 3: the message is longer than the room for it: 512 of \
             4096 B were moved"
        );
        let deadline = Picoseconds::from_us(2);
        assert_eq!(
            error(NetworkFault::Deadline { deadline }).to_string(),
            "fpga0 link 1 channel 0 tag 3: not ended at the deadline, 2 us: 512 of 4096 B were \
             moved"
        );
        let refused = DriverError::refused("fpga0", ErrorKind::InvalidArgument, "no");
        assert_eq!(NetworkError::refused(refused).to_string(), "fpga0: no");
    }

    #[test]
    fn every_fault_has_its_kind() {
        let denied = || Box::new(DriverError::refused("fpga0", ErrorKind::Denied, "no"));
        let deadline = Picoseconds::ZERO;
        for (fault, kind) in [
            (NetworkFault::Refused(denied()), ErrorKind::Denied),
            (NetworkFault::RefusedThere, ErrorKind::InvalidArgument),
            (NetworkFault::KeyTaken, ErrorKind::Busy),
            (NetworkFault::HostMemory, ErrorKind::Failed),
            (NetworkFault::TooLong, ErrorKind::InvalidArgument),
            (NetworkFault::LinkDown, ErrorKind::LinkDown),
            (NetworkFault::Cancelled, ErrorKind::Cancelled),
            (NetworkFault::FarEnd, ErrorKind::Cancelled),
            (NetworkFault::Dropped, ErrorKind::Busy),
            (NetworkFault::Reset, ErrorKind::LinkDown),
            (NetworkFault::Deadline { deadline }, ErrorKind::Timeout),
            (NetworkFault::NoNotification { deadline }, ErrorKind::Timeout),
            (NetworkFault::NotUp { state: LinkState::Failed }, ErrorKind::LinkDown),
            (NetworkFault::NoAnswer(denied()), ErrorKind::Denied),
            (NetworkFault::UnknownStatus { status: 99 }, ErrorKind::Failed),
        ] {
            assert_eq!(fault.kind(), kind, "{fault}");
        }
    }

    #[test]
    fn every_status_of_the_register_map_but_none_and_done_is_a_fault() {
        for status in 0..=255 {
            let known = NetworkStatus::from_bits(status);
            let fault = NetworkFault::from_status(status);
            assert_eq!(fault.is_none(), known == Some(NetworkStatus::Done), "{status}");
            let is_unknown = fault == Some(NetworkFault::UnknownStatus { status });
            assert_eq!(is_unknown, known.is_none_or(|it| it == NetworkStatus::None), "{status}");
        }
    }
}
