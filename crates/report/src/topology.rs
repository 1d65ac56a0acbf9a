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
}

/// A link and what is below it.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologyLink {
    /// `Gen2 x4`.
    pub rate: String,
    /// Towards the endpoint; none where it was not counted.
    pub down: Option<DirectionLoad>,
    /// Towards the host.
    pub up: Option<DirectionLoad>,
    /// What is below it.
    pub below: TopologyNode,
}

/// The trees of all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// What its loads are of, such as `8 FPGAs write to RAM`; empty without loads.
    pub title: String,
    /// The hosts.
    pub hosts: Vec<TopologyNode>,
}
