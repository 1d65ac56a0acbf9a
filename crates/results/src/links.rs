// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The use of links.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::account::TimeUse;

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
    /// Its two ports: `fpga1 -> rc47a.down0`.
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
