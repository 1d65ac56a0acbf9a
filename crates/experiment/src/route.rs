// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Path of a flow's packets through the tree, and of a workload's data, by the engines that send
//! them on.

use crosslane_driver::ChannelKind;
use crosslane_fabric::{DirectionId, Fabric, LinkDirection, NodeId, NodeKind};

use crate::account::Carrier;
use crate::workload::{FlowEnds, Workload};

/// One step up: the link, and the node at its upper end.
struct Step {
    direction: DirectionId,
    node: NodeId,
}

/// Returns the links from a node up to its root complex.
fn way_up(fabric: &Fabric, node: NodeId) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = node;
    loop {
        let up = fabric.node(at).ports.iter().find_map(|&port| {
            let id = fabric.port(port).link?;
            let link = fabric.link(id);
            (link.lower == port).then_some((id, link.upper))
        });
        let Some((link, upper)) = up else { return steps };
        at = fabric.port(upper).node;
        steps.push(Step { direction: DirectionId { link, heading: LinkDirection::Up }, node: at });
    }
}

/// Kind of TLPs on a route: Access Control Services redirect requests and completions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cargo {
    /// Memory reads and writes.
    Requests,
    /// Answers to reads.
    Completions,
}

/// The directions that a packet crosses from one node to another of the same host: up to the lowest
/// node that is above both, or to the root complex where a port on the path redirects what goes to
/// its peers, then down.
pub fn route(fabric: &Fabric, from: NodeId, to: NodeId, cargo: Cargo) -> Vec<DirectionId> {
    let down = way_up(fabric, to);
    let mut route = Vec::new();
    let mut turn = from;
    for step in way_up(fabric, from) {
        if turn == to || is_above(&down, turn, fabric, &route, cargo) {
            break;
        }
        route.push(step.direction);
        turn = step.node;
    }
    let below_turn = down.iter().position(|step| step.node == turn).map_or(0, |at| at + 1);
    let below_turn = if turn == to { 0 } else { below_turn };
    let links = down[..below_turn].iter().rev().map(|step| step.direction.link);
    route.extend(links.map(|link| DirectionId { link, heading: LinkDirection::Down }));
    route
}

/// Whether a packet that came along `route` to `node` may turn down there.
fn is_above(
    down: &[Step],
    node: NodeId,
    fabric: &Fabric,
    route: &[DirectionId],
    cargo: Cargo,
) -> bool {
    if !down.iter().any(|step| step.node == node) {
        return false;
    }
    if fabric.node(node).kind == NodeKind::RootComplex {
        return true;
    }
    let Some(last) = route.last() else { return true };
    let ingress = &fabric.port(fabric.link(last.link).upper).config;
    !match cargo {
        Cargo::Requests => ingress.acs_request_redirect(),
        Cargo::Completions => ingress.acs_completion_redirect(),
    }
}

/// A part of the path, in which one channel moves the data.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Directions that the data cross, in order.
    pub way: Vec<DirectionId>,
    /// The TLPs that carry the data.
    pub carrier: Carrier,
    /// The endpoint whose engine asks for them or sends them.
    pub engine: NodeId,
    /// Channel of the engine that moves the data.
    pub channel: ChannelKind,
}

/// Returns the parts of a flow's path, in order.
pub fn segments(fabric: &Fabric, workload: &Workload, flow: &FlowEnds) -> Vec<Segment> {
    let (host, first) = (flow.memory.node, flow.cards[0].node);
    let mut segments = Vec::new();
    if workload.reads_host() {
        segments.push(Segment {
            way: route(fabric, host, first, Cargo::Completions),
            carrier: Carrier::Completions,
            engine: first,
            channel: ChannelKind::H2c,
        });
    }
    for pair in flow.cards.windows(2) {
        if let Workload::PeerRead(_) = workload {
            segments.push(Segment {
                way: route(fabric, pair[0].node, pair[1].node, Cargo::Completions),
                carrier: Carrier::Completions,
                engine: pair[1].node,
                channel: ChannelKind::H2c,
            });
            continue;
        }
        segments.push(Segment {
            way: route(fabric, pair[0].node, pair[1].node, Cargo::Requests),
            carrier: Carrier::Writes,
            engine: pair[0].node,
            channel: match workload {
                Workload::PeerMemoryWrite(_) => ChannelKind::C2h,
                _ => ChannelKind::Peer,
            },
        });
    }
    if workload.writes_host() {
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
