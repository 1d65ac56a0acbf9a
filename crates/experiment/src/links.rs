// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Use of each direction of a link in a run.

use crosslane_fabric::{DirectionId, Fabric, IdleReason, LinkCounters};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{DirectionLoad, TimeUse, Use};

/// One direction of a link that the flows use.
#[derive(Clone, Debug)]
pub struct DirectionOutcome {
    /// Its place in the fabric.
    pub id: DirectionId,
    /// `fpga1 -> sw1.p1`.
    pub name: String,
    /// Rate of the link.
    pub rate: LinkRate,
    /// Its counters.
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

    /// Returns the payload rate that it allows for the mix of TLPs that it carried, less DLLPs, in
    /// bytes per second.
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

/// Returns the load of a direction by its counters over `span`.
pub(crate) fn direction_load(
    fabric: &Fabric,
    id: DirectionId,
    counters: &LinkCounters,
    span: Picoseconds,
) -> DirectionLoad {
    let rate = fabric.link(id.link).parameters.rate;
    let uses = uses(rate, counters);
    let busy = |entry: &&TimeUse| !entry.what.is_idle() && entry.what != Use::Skp;
    let seconds = span.as_seconds();
    let payload = counters.payload_bytes as f64;
    DirectionLoad {
        direction: direction_name(fabric, id),
        link: rate.to_string(),
        payload_bytes_per_second: if seconds > 0.0 { payload / seconds } else { 0.0 },
        busy_share: uses.iter().filter(busy).map(|entry| entry.share).sum(),
        uses,
    }
}

/// Returns the uses of a direction's time by its counters; none if no time has passed. Shares
/// are those of the time that was counted: a TLP counts as a whole when it is begun, so that this
/// differs from the time between two readings by the rest of one TLP.
pub(crate) fn uses(rate: LinkRate, counters: &LinkCounters) -> Vec<TimeUse> {
    let wire_ps = |bytes: u64| bytes as f64 / rate.bytes_per_second() * 1e12;
    let idle = |reason: IdleReason| counters.idle_ps[reason as usize] as f64;
    let ps = |what: Use| match what {
        Use::Payload => wire_ps(counters.payload_bytes),
        Use::Header => wire_ps(counters.header_bytes),
        Use::Replay => wire_ps(counters.replayed_bytes),
        Use::Dllp => wire_ps(counters.dllp_bytes),
        Use::Skp => wire_ps(counters.skp_bytes),
        Use::SenderPace => idle(IdleReason::RequesterGap),
        Use::NoTag => idle(IdleReason::NoTag),
        Use::NoCredit => idle(IdleReason::NoCredit),
        Use::ReceiverBusy => idle(IdleReason::ReceiverBusy),
        Use::Translation => idle(IdleReason::Translation),
        Use::ReplayBuffer => idle(IdleReason::ReplayBuffer),
        Use::Retraining => idle(IdleReason::Retraining),
        Use::NothingToSend => idle(IdleReason::NothingToSend),
        Use::Descriptor | Use::Host | Use::Stream | Use::PeerCredit => 0.0,
    };
    let whole: f64 = Use::ALL.into_iter().map(ps).sum();
    let used = |what: Use| TimeUse { what, share: ps(what) / whole };
    Use::ALL.into_iter().filter(|what| ps(*what) > 0.0).map(used).collect()
}

/// `fpga1 -> sw1.p1`.
#[must_use]
pub fn direction_name(fabric: &Fabric, id: DirectionId) -> String {
    let (from, to) = fabric.direction_ends(id);
    format!("{} -> {}", fabric.port(from).name, fabric.port(to).name)
}

/// Returns the time that bytes take on a link, as a share of `span`.
pub(crate) fn wire_share(rate: LinkRate, bytes: u64, span: Picoseconds) -> f64 {
    let seconds = span.as_seconds();
    if seconds > 0.0 { bytes as f64 / rate.bytes_per_second() / seconds } else { 0.0 }
}

/// Returns each item once, in the order in which they come first.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
