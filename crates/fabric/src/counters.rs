// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time accounting of each direction of a link.

use std::fmt;

/// Reason why a transmitter sent nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IdleReason {
    /// The transmitter had no TLP to send.
    #[default]
    NothingToSend,
    /// The requester's engine was not ready with its next TLP.
    RequesterGap,
    /// The requester had no tag left for its next read.
    NoTag,
    /// Credits were used up, and their return was on its way.
    NoCredit,
    /// Credits were used up because the receiver's buffer was full.
    ReceiverBusy,
    /// Requests waited for translation in the IOMMU behind this link: writes that filled the buffer
    /// of its root port, or reads while the root port had nothing to send.
    Translation,
    /// The replay buffer was full of TLPs that wait for their Ack.
    ReplayBuffer,
    /// The link was retraining, or down.
    Retraining,
}

impl IdleReason {
    /// Number of reasons.
    pub const COUNT: usize = 8;
    /// All reasons in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NothingToSend,
        Self::RequesterGap,
        Self::NoTag,
        Self::NoCredit,
        Self::ReceiverBusy,
        Self::Translation,
        Self::ReplayBuffer,
        Self::Retraining,
    ];
}

impl fmt::Display for IdleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NothingToSend => "nothing to send",
            Self::RequesterGap => "requester gap",
            Self::NoTag => "no tag",
            Self::NoCredit => "no credit",
            Self::ReceiverBusy => "receiver busy",
            Self::Translation => "translation",
            Self::ReplayBuffer => "replay buffer",
            Self::Retraining => "retraining",
        })
    }
}

/// Counters of one direction of a link since the fabric was built, or the difference of two
/// readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// TLPs sent for the first time.
    pub tlps: u64,
    /// Payload of those TLPs in bytes (whole DW, as on the wire).
    pub payload_bytes: u64,
    /// Framing, sequence numbers, headers and LCRC of those TLPs in bytes.
    pub header_bytes: u64,
    /// TLPs sent again.
    pub replayed_tlps: u64,
    /// Wire bytes of TLPs sent again.
    pub replayed_bytes: u64,
    /// TLPs that arrived corrupt.
    pub corrupt_tlps: u64,
    /// Ack DLLPs sent.
    pub acks: u64,
    /// Nak DLLPs sent.
    pub naks: u64,
    /// UpdateFC DLLPs sent.
    pub update_fcs: u64,
    /// DLLPs that arrived corrupt and were dropped.
    pub corrupt_dllps: u64,
    /// Bytes of all DLLPs sent.
    pub dllp_bytes: u64,
    /// Bytes of SKP ordered sets sent (with EDS tokens).
    pub skp_bytes: u64,
    /// Retrainings caused by this direction.
    pub retrainings: u64,
    /// Idle time by reason, in picoseconds.
    pub idle_ps: [u64; IdleReason::COUNT],
}

impl LinkCounters {
    /// Total bytes on the wire.
    pub fn wire_bytes(&self) -> u64 {
        self.payload_bytes
            + self.header_bytes
            + self.replayed_bytes
            + self.dllp_bytes
            + self.skp_bytes
    }

    /// Difference to the reading `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut idle_ps = self.idle_ps;
        for (idle, before) in idle_ps.iter_mut().zip(earlier.idle_ps) {
            *idle -= before;
        }
        Self {
            tlps: self.tlps - earlier.tlps,
            payload_bytes: self.payload_bytes - earlier.payload_bytes,
            header_bytes: self.header_bytes - earlier.header_bytes,
            replayed_tlps: self.replayed_tlps - earlier.replayed_tlps,
            replayed_bytes: self.replayed_bytes - earlier.replayed_bytes,
            corrupt_tlps: self.corrupt_tlps - earlier.corrupt_tlps,
            acks: self.acks - earlier.acks,
            naks: self.naks - earlier.naks,
            update_fcs: self.update_fcs - earlier.update_fcs,
            corrupt_dllps: self.corrupt_dllps - earlier.corrupt_dllps,
            dllp_bytes: self.dllp_bytes - earlier.dllp_bytes,
            skp_bytes: self.skp_bytes - earlier.skp_bytes,
            retrainings: self.retrainings - earlier.retrainings,
            idle_ps,
        }
    }
}
