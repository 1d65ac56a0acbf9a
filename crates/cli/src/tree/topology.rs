// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree as what a report draws: hosts, switches and endpoints with the links between them.

use std::fmt::Write as _;

use crosslane_explain::size_words;
use crosslane_pcie::config::PortType;
use crosslane_report::{NodeKind, Topology, TopologyLink, TopologyNode};

use super::{Function, Host, Link, Tree};
use crate::quantity::{count_words, megabytes};

/// The trees of all hosts without loads. Links have the names that the lab gives them.
#[must_use]
pub fn topology(tree: &Tree) -> Topology {
    Topology { title: String::new(), hosts: tree.hosts.iter().map(host).collect() }
}

/// The tree as an SVG file that stands alone.
#[must_use]
pub fn draw(tree: &Tree) -> String {
    let note = "Under each link: payload ceiling of one direction with 3 DW headers, less SKP, \
                without DLLPs (1 MB/s = 1000000 bytes a second)";
    topology(tree).to_svg(&format!("Lab {}", tree.lab), &[counts(tree), note.to_owned()])
}

fn counts(tree: &Tree) -> String {
    let count = |kind| tree.functions().filter(|function| function.kind == kind).count();
    format!(
        "{}, {}, {}",
        count_words(tree.hosts.len(), "host", "hosts"),
        count_words(count(PortType::UpstreamPort), "switch", "switches"),
        count_words(count(PortType::Endpoint), "endpoint", "endpoints"),
    )
}

fn host(host: &Host) -> TopologyNode {
    let detail = format!("{} of memory", size_words(host.memory_bytes));
    with_ports(TopologyNode::new(NodeKind::Host, &host.name, detail), &host.functions)
}

/// A node with what its ports lead to.
fn with_ports(mut node: TopologyNode, ports: &[Function]) -> TopologyNode {
    for port in ports {
        let below = port.children.first();
        match below.and_then(|child| Some((child, child.link.as_ref()?))) {
            Some((child, found)) => node.links.push(link(found, child)),
            None => node.empty_ports.push(port.port.clone()),
        }
    }
    node
}

fn link(found: &Link, below: &Function) -> TopologyLink {
    let ceilings = found.ceilings();
    let mut link = TopologyLink::new(found.rate.to_string(), function(below));
    link.name = found.name.clone();
    link.upper = found.upper.clone();
    link.lower = found.lower.clone();
    link.raw_bytes_per_second = ceilings.raw_bytes_per_second;
    let payload = megabytes(ceilings.payload_3dw_bytes_per_second);
    link.note = format!("{payload} MB/s at {} B", found.payload_bytes);
    link
}

fn function(function: &Function) -> TopologyNode {
    let address = function.address.to_string();
    if function.kind == PortType::Endpoint {
        let mut detail = address;
        for bar in &function.bars {
            let _ = write!(detail, ", BAR{} {}", bar.index, size_words(bar.size_bytes));
        }
        return TopologyNode::new(NodeKind::Endpoint, &function.node, detail);
    }
    let buses = function.buses.map_or(String::new(), |(secondary, subordinate)| {
        format!("{address}, buses {secondary:02x}-{subordinate:02x}")
    });
    let node = TopologyNode::new(NodeKind::Switch, &function.node, buses);
    with_ports(node, &function.children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::small_tree;

    #[test]
    fn every_node_and_port_is_there() {
        let topology = topology(&small_tree());
        let host = &topology.hosts[0];
        assert_eq!((host.name.as_str(), host.detail.as_str()), ("host", "16 GiB of memory"));
        assert_eq!(host.empty_ports, ["host.root3"]);
        let [slot, gpu] = &host.links[..] else { panic!("{:?}", host.links) };
        assert_eq!((slot.name.as_str(), slot.upper.as_str()), ("slot", "host.root1"));
        assert_eq!((slot.lower.as_str(), slot.rate.as_str()), ("sw.up", "Gen2 x8"));
        assert_eq!(slot.note, "3450.5 MB/s at 128 B");
        assert_eq!(slot.raw_bytes_per_second, 4e9);
        assert_eq!(slot.below.links.len(), 2);
        assert_eq!(gpu.below.kind, NodeKind::Endpoint);
        assert_eq!(gpu.below.detail, "05:00.0, BAR0 1 MiB");
    }

    #[test]
    fn the_drawing_says_all_of_it() {
        let svg = draw(&small_tree());
        for text in [
            "Lab small",
            "1 host, 1 switch, 3 endpoints",
            "Under each link: payload ceiling",
            "nic&lt;0&gt;",
            "host.root3, empty",
            "slot: host.root1 to sw.up",
            "01:00.0, buses 02-04",
            "3450.5 MB/s at 128 B",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
