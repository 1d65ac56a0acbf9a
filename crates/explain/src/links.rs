// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each direction of a link did in a run.

use crosslane_fabric::{DirectionId, Fabric, LinkCounters};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;

/// One direction of a link that the flows use.
#[derive(Clone, Debug)]
pub struct DirectionOutcome {
    /// Which.
    pub id: DirectionId,
    /// `fpga1 -> sw1.p1`.
    pub name: String,
    /// Rate of the link.
    pub rate: LinkRate,
    /// What it did.
    pub counters: LinkCounters,
    /// Flows whose data cross it, by their place among the flows.
    pub data_of: Vec<usize>,
}

impl DirectionOutcome {
    /// Payload that it carried in bytes per second, over the time that was counted.
    #[must_use]
    pub fn payload_rate(&self, span: Picoseconds) -> f64 {
        let seconds = span.as_seconds();
        if seconds > 0.0 { self.counters.payload_bytes as f64 / seconds } else { 0.0 }
    }

    /// What it can carry of the mix of TLPs that it carried, less DLLPs, in bytes of payload per
    /// second.
    #[must_use]
    pub fn shared_ceiling(&self, span: Picoseconds) -> f64 {
        let counters = &self.counters;
        let tlp_bytes = counters.payload_bytes + counters.header_bytes;
        let seconds = span.as_seconds();
        if tlp_bytes == 0 || seconds <= 0.0 {
            return 0.0;
        }
        let packets = crosslane_pcie::ceiling::link_ceiling_bytes_per_second(self.rate);
        let dllps = counters.dllp_bytes as f64 / seconds;
        (packets - dllps) * counters.payload_bytes as f64 / tlp_bytes as f64
    }
}

/// `fpga1 -> sw1.p1`.
#[must_use]
pub fn direction_name(fabric: &Fabric, id: DirectionId) -> String {
    let (from, to) = fabric.direction_ends(id);
    format!("{} -> {}", fabric.port(from).name, fabric.port(to).name)
}

/// Time that so many bytes take on a link, as a share of `span`.
#[must_use]
pub fn wire_share(rate: LinkRate, bytes: u64, span: Picoseconds) -> f64 {
    let seconds = span.as_seconds();
    if seconds > 0.0 { bytes as f64 / rate.bytes_per_second() / seconds } else { 0.0 }
}

/// The busiest direction that several flows share, if there is one: the first of them along the
/// way.
#[must_use]
pub fn busiest_shared(
    directions: &[DirectionOutcome],
    span: Picoseconds,
) -> Option<&DirectionOutcome> {
    let load = |direction: &DirectionOutcome| {
        direction.payload_rate(span) / direction.shared_ceiling(span).max(1.0)
    };
    let shared = directions.iter().filter(|direction| direction.data_of.len() > 1);
    shared.rev().max_by(|a, b| load(a).total_cmp(&load(b)))
}
