// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree of hosts, switches and endpoints, with the load of every link.

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
    /// An endpoint.
    Endpoint,
}

/// What one direction of a link did.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionLoad {
    /// Share of the time in which it sent anything, 0 to 1.
    pub busy: f64,
    /// Payload, bytes per second.
    pub payload_bytes_per_second: f64,
    /// How its time was divided, as in [`Bar::parts`](crate::Bar::parts).
    pub parts: Vec<(String, f64)>,
}

/// A node and what is below it.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologyNode {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// A few words more, such as `4 GiB of memory`; may be empty.
    pub detail: String,
    /// Links to what is below it, in the order of its ports.
    pub links: Vec<TopologyLink>,
    /// Names of the ports that have nothing below them.
    pub empty_ports: Vec<String>,
}

impl TopologyNode {
    /// A node with nothing below it.
    #[must_use]
    pub fn new(kind: NodeKind, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            detail: detail.into(),
            links: Vec::new(),
            empty_ports: Vec::new(),
        }
    }
}

/// A link and what is below it.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologyLink {
    /// Its name; may be empty.
    pub name: String,
    /// The port at its upper end; may be empty.
    pub upper: String,
    /// The port at its lower end; may be empty.
    pub lower: String,
    /// `Gen2 x4`.
    pub rate: String,
    /// What one direction of it carries, bytes per second after encoding. Decides how thick it is
    /// drawn where its load was not counted.
    pub raw_bytes_per_second: f64,
    /// A few words under a link without a load, such as its ceiling; may be empty.
    pub note: String,
    /// Towards the endpoint; none where it was not counted.
    pub down: Option<DirectionLoad>,
    /// Towards the host.
    pub up: Option<DirectionLoad>,
    /// What is below it.
    pub below: TopologyNode,
}

impl TopologyLink {
    /// A link of that rate, with no load and no names.
    #[must_use]
    pub fn new(rate: impl Into<String>, below: TopologyNode) -> Self {
        Self {
            name: String::new(),
            upper: String::new(),
            lower: String::new(),
            rate: rate.into(),
            raw_bytes_per_second: 0.0,
            note: String::new(),
            down: None,
            up: None,
            below,
        }
    }
}

/// The trees of all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// What its loads are of, such as `8 FPGAs write to RAM`; empty without loads.
    pub title: String,
    /// The hosts.
    pub hosts: Vec<TopologyNode>,
}

impl Topology {
    /// Calls `each` with every link, from the hosts down: to set loads by the links' names.
    pub fn for_each_link(&mut self, mut each: impl FnMut(&mut TopologyLink)) {
        fn walk(node: &mut TopologyNode, each: &mut impl FnMut(&mut TopologyLink)) {
            for link in &mut node.links {
                each(link);
                walk(&mut link.below, each);
            }
        }
        for host in &mut self.hosts {
            walk(host, &mut each);
        }
    }
}
