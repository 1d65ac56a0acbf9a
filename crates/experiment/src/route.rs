// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of a flow's packets through the tree.

use crosslane_fabric::{DirectionId, LinkDirection, NodeId};
use crosslane_fabric::{Fabric, NodeKind};

/// One step up: the link, and the node at its upper end.
struct Step {
    direction: DirectionId,
    node: NodeId,
}

/// The links from a node up to its root complex.
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

/// The directions that a packet crosses from one node to another of the same host: up to the
/// lowest node that is above both, or to the root complex where a port on the way redirects
/// what goes to its peers, then down.
#[must_use]
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
