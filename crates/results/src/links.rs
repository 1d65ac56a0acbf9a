// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The use of links: the load of each direction, and the account of its time.

use std::collections::BTreeMap;
use std::fmt;

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};

/// Reasons for which a link is idle, in the order in which they are shown.
pub const IDLE_REASONS: [&str; 8] = [
    "nothing to send", "requester gap", "no tag", "no credit", "receiver busy", "translation",
    "replay buffer", "retraining",
];

/// Load of one direction of a link, whether or not a flow uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionLoad {
    /// `fpga1 -> sw1.p1`.
    pub direction: String,
    /// `Gen2 x4`.
    pub link: String,
    /// Payload that it carried, bytes per second.
    pub payload_bytes_per_second: f64,
    /// Share of the time in which it sent anything but SKP ordered sets, 0 to 1.
    pub busy_share: f64,
    /// Uses that took time, in the order of [`Use::ALL`](crate::Use::ALL), as the link itself
    /// counts them. The sum of their shares is one, within rounding.
    pub uses: Vec<TimeUse>,
}

/// One direction of a link that data crossed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Ports that the direction joins: `fpga1 -> rc47a.down0`.
    pub direction: String,
    /// Generation of the link.
    pub generation: u8,
    /// Lanes of the link.
    pub width: u8,
    /// Flows whose data crossed it, by their index among the flows.
    pub flows: Vec<usize>,
    /// Payload rate.
    pub bytes_per_second: f64,
    /// Rate that it allows for its mix of TLPs, less DLLPs.
    pub ceiling_bytes_per_second: f64,
    /// TLPs sent.
    pub tlps: u64,
    /// TLPs sent again.
    pub replayed_tlps: u64,
    /// Ack DLLPs sent.
    pub acks: u64,
    /// Nak DLLPs sent.
    pub naks: u64,
    /// UpdateFC DLLPs sent.
    pub update_fcs: u64,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Bytes of framing, headers and LCRC.
    pub header_bytes: u64,
    /// Bytes sent again.
    pub replayed_bytes: u64,
    /// Bytes of DLLPs.
    pub dllp_bytes: u64,
    /// Bytes of SKP ordered sets.
    pub skp_bytes: u64,
    /// Shares of the time.
    pub share: LinkShares,
}

impl Link {
    /// Formats its rate: `Gen2 x4`.
    pub fn rate(&self) -> String {
        format!("Gen{} x{}", self.generation, self.width)
    }

    /// Returns the share of the time in which it was idle for one of the [`IDLE_REASONS`].
    pub fn idle_share(&self, reason: &str) -> f64 {
        self.share.idle.get(&reason.replace(' ', "_")).copied().unwrap_or_default()
    }
}

/// Shares of the time of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkShares {
    /// Payload.
    pub payload: f64,
    /// Framing, headers and LCRC.
    pub header: f64,
    /// Replays.
    pub replay: f64,
    /// DLLPs.
    pub dllp: f64,
    /// SKP ordered sets.
    pub skp: f64,
    /// Idle time by reason, such as `no_credit`.
    pub idle: BTreeMap<String, f64>,
}

listed! {
    /// Use of a direction of a link in a part of the time. Idle time has a reason: the link's own,
    /// or if the link had nothing to send, the engine's.
    pub enum Use {
        /// Data.
        Payload,
        /// Framing, sequence numbers, headers and LCRC of TLPs, and TLPs without data.
        Header,
        /// TLPs sent again.
        Replay,
        /// Acks, Naks and UpdateFCs.
        Dllp,
        /// SKP ordered sets.
        Skp,
        /// The engine had no descriptor, or was in the gap after one.
        Descriptor,
        /// The engine had nothing to do: the host had not posted, or was late.
        Host,
        /// The user circuit's stream had no data.
        Stream,
        /// Idle clocks between TLPs, or a datapath that is slower than the link.
        SenderPace,
        /// All tags were in use: reads or their completions were outstanding.
        NoTag,
        /// The link's receiver had not yet returned credits.
        NoCredit,
        /// The credit window of the peer's receive queue was used up.
        PeerCredit,
        /// The link's receiver was full.
        ReceiverBusy,
        /// Requests waited for their translation in the IOMMU behind the link.
        Translation,
        /// The replay buffer was full.
        ReplayBuffer,
        /// The link was retraining or down.
        Retraining,
        /// Nothing to send, for an unknown reason: the sender is not an engine, or the source of
        /// this link's data is slower than it.
        NothingToSend,
    }
}

impl Use {
    /// Returns whether the link sent nothing.
    pub const fn is_idle(self) -> bool {
        !matches!(self, Self::Payload | Self::Header | Self::Replay | Self::Dllp | Self::Skp)
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Payload => "payload",
            Self::Header => "headers",
            Self::Replay => "replays",
            Self::Dllp => "DLLPs",
            Self::Skp => "SKP",
            Self::Descriptor => "no descriptor",
            Self::Host => "nothing posted",
            Self::Stream => "no data in the stream",
            Self::SenderPace => "sender's pace",
            Self::NoTag => "no tag",
            Self::NoCredit => "no credit",
            Self::PeerCredit => "no credit of the peer",
            Self::ReceiverBusy => "receiver busy",
            Self::Translation => "translation",
            Self::ReplayBuffer => "replay buffer full",
            Self::Retraining => "retraining",
            Self::NothingToSend => "nothing to send",
        })
    }
}

/// A use and its share of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeUse {
    /// The use.
    #[serde(rename = "use")]
    pub what: Use,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

/// Account of the time of one direction of a link while data moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// `fpga1 -> rc47a.down0`.
    pub direction: String,
    /// `Gen2 x4`.
    pub link: String,
    /// Counted time, picoseconds.
    #[serde(default)]
    pub span_ps: u64,
    /// Uses that took time, in the order of [`Use::ALL`]. The sum of their shares is one, within
    /// rounding.
    pub uses: Vec<TimeUse>,
    /// Use of the IOMMUs on the path in that time; empty in labs without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iommus: Vec<IommuUse>,
}

impl Account {
    /// Returns the share of the time of a use, 0 to 1.
    pub fn share(&self, what: Use) -> f64 {
        self.uses.iter().filter(|entry| entry.what == what).map(|entry| entry.share).sum()
    }

    /// Returns the share of the time in which nothing was sent.
    pub fn idle_share(&self) -> f64 {
        self.uses.iter().filter(|entry| entry.what.is_idle()).map(|entry| entry.share).sum()
    }
}

/// Use of a host's IOMMU over some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IommuUse {
    /// The host, as the lab calls it.
    pub host: String,
    /// Pages that its IOTLB holds.
    pub iotlb_entries: u32,
    /// Time of a walk, picoseconds.
    pub walk_ps: u64,
    /// Most simultaneous walks.
    pub walks: u32,
    /// Requests that looked up a translation.
    pub requests: u64,
    /// Requests that missed the IOTLB and started a walk.
    pub misses: u64,
    /// Requests that waited for another request's walk of the same page.
    #[serde(default)]
    pub joined: u64,
    /// Sum of the time of all walks, picoseconds.
    #[serde(default)]
    pub walking_ps: u64,
    /// Sum of the time that misses waited for a free walk, picoseconds.
    pub queued_ps: u64,
    /// Sum of the time that requests waited for their translation, picoseconds.
    pub waited_ps: u64,
    /// Average number of simultaneous walks over the counted time.
    pub walks_at_once: f64,
}

/// `IOMMU of host0: 25.0 % of 4096 requests missed an IOTLB of 112 pages; 1.25 of 5 walks of 253 ns
/// at once; a request waited 63.0 ns, 10.0 ns of it for a free walk`.
impl fmt::Display for IommuUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |ps: u64| ps as f64 / self.requests.max(1) as f64 / 1000.0;
        let missed = 100.0 * self.misses as f64 / self.requests.max(1) as f64;
        write!(
            f,
            "IOMMU of {}: {missed:.1} % of {} requests missed an IOTLB of {} pages; {:.2} of {} \
             walks of {} at once; a request waited {:.1} ns, {:.1} ns of it for a free walk",
            self.host,
            self.requests,
            self.iotlb_entries,
            self.walks_at_once,
            self.walks,
            Picoseconds(self.walk_ps),
            each(self.waited_ps),
            each(self.queued_ps),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_one_sentence() {
        let evidence = IommuUse {
            host: "host0".to_owned(),
            iotlb_entries: 112,
            walk_ps: 253_000,
            walks: 5,
            requests: 4096,
            misses: 1024,
            joined: 3,
            walking_ps: 1024 * 253_000,
            queued_ps: 40_960_000,
            waited_ps: 258_048_000,
            walks_at_once: 1.25,
        };
        assert_eq!(
            evidence.to_string(),
            "IOMMU of host0: 25.0 % of 4096 requests missed an IOTLB of 112 pages; 1.25 of 5 walks \
             of 253 ns at once; a request waited 63.0 ns, 10.0 ns of it for a free walk"
        );
    }
}
