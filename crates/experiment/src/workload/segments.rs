// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of a flow's data, by the engines that send them on.

use crosslane_driver::ChannelKind;
use crosslane_fabric::{DirectionId, Fabric, NodeId};

use super::Workload;
use super::ends::FlowEnds;
use crate::ceiling::Carrier;
use crate::route::{Cargo, route};

/// A part of the way, in which one channel moves the data.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Directions that the data cross, in order.
    pub way: Vec<DirectionId>,
    /// The TLPs that carry the data.
    pub carrier: Carrier,
    /// The endpoint whose engine asks for them or sends them.
    pub engine: NodeId,
    /// By which of its channels.
    pub channel: ChannelKind,
}

/// The parts of a flow's way, in order.
pub fn segments(fabric: &Fabric, workload: &Workload, flow: &FlowEnds) -> Vec<Segment> {
    let (host, first) = (flow.memory.node, flow.cards[0].node);
    let mut segments = Vec::new();
    if matches!(workload, Workload::Read(_) | Workload::Chain(_)) {
        segments.push(Segment {
            way: route(fabric, host, first, Cargo::Completions),
            carrier: Carrier::Completions,
            engine: first,
            channel: ChannelKind::H2c,
        });
    }
    for pair in flow.cards.windows(2) {
        segments.push(Segment {
            way: route(fabric, pair[0].node, pair[1].node, Cargo::Requests),
            carrier: Carrier::Writes,
            engine: pair[0].node,
            channel: ChannelKind::Peer,
        });
    }
    if matches!(workload, Workload::Write(_) | Workload::Chain(_)) {
        let last = flow.cards[flow.cards.len() - 1].node;
        segments.push(Segment {
            way: route(fabric, last, host, Cargo::Requests),
            carrier: Carrier::Writes,
            engine: last,
            channel: ChannelKind::C2h,
        });
    }
    segments
}
