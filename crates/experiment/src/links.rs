// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Use of each direction of a link in a run.

use crosslane_fabric::{DirectionId, Fabric, IdleReason, LinkCounters};
use crosslane_pcie::ceiling::link_ceiling_bytes_per_second;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{DirectionLoad, Link, LinkShares, TimeUse, Use};

/// Returns the use of a direction by its counters over `span`, in which data of `flows` crossed it.
pub(crate) fn direction_use(
    fabric: &Fabric,
    id: DirectionId,
    counters: &LinkCounters,
    span: Picoseconds,
    flows: Vec<usize>,
) -> Link {
    let rate = fabric.link(id.link).parameters.rate;
    let seconds = span.as_seconds();
    let a_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
    let share = |bytes: u64| a_second(bytes as f64 / rate.bytes_per_second());
    let idle = |reason: IdleReason| {
        let share = counters.idle_ps[reason as usize] as f64 / span.0.max(1) as f64;
        (reason.to_string().replace(' ', "_"), share)
    };
    let tlp_bytes = counters.payload_bytes + counters.header_bytes;
    let ceiling = match tlp_bytes == 0 || seconds <= 0.0 {
        true => 0.0,
        false => {
            let dllps = counters.dllp_bytes as f64 / seconds;
            (link_ceiling_bytes_per_second(rate) - dllps) * counters.payload_bytes as f64
                / tlp_bytes as f64
        }
    };
    Link {
        direction: direction_name(fabric, id),
        generation: rate.generation.number(),
        width: rate.width.lanes(),
        flows,
        bytes_per_second: a_second(counters.payload_bytes as f64),
        ceiling_bytes_per_second: ceiling,
        tlps: counters.tlps,
        replayed_tlps: counters.replayed_tlps,
        acks: counters.acks,
        naks: counters.naks,
        update_fcs: counters.update_fcs,
        payload_bytes: counters.payload_bytes,
        header_bytes: counters.header_bytes,
        replayed_bytes: counters.replayed_bytes,
        dllp_bytes: counters.dllp_bytes,
        skp_bytes: counters.skp_bytes,
        share: LinkShares {
            payload: share(counters.payload_bytes),
            header: share(counters.header_bytes),
            replay: share(counters.replayed_bytes),
            dllp: share(counters.dllp_bytes),
            skp: share(counters.skp_bytes),
            idle: IdleReason::ALL.into_iter().map(idle).collect(),
        },
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

/// Returns the name of a direction: `fpga1 -> sw1.p1`.
#[must_use]
pub fn direction_name(fabric: &Fabric, id: DirectionId) -> String {
    let (from, to) = fabric.direction_ends(id);
    format!("{} -> {}", fabric.port(from).name, fabric.port(to).name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_reasons_are_those_of_the_fabric() {
        let reasons = IdleReason::ALL.map(|reason| reason.to_string());
        assert_eq!(reasons, crosslane_results::IDLE_REASONS);
    }
}
