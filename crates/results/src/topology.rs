// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The topology of a lab after enumeration: the PCI Express tree of each host, network links and
//! tori. `crosslane topo --json` prints it; text and drawings render it.

use crosslane_pcie::ceiling::{link_ceiling_bytes_per_second, write_ceiling_bytes_per_second};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use serde::{Deserialize, Serialize};

/// All trees of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// Name of the lab.
    pub lab: String,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Network links between adapters.
    pub networks: Vec<Network>,
    /// Tori of network processors.
    pub tori: Vec<Torus>,
}

impl Topology {
    /// Lists every function of the lab, each after the bridge above it.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.hosts.iter().flat_map(Host::all_functions)
    }

    /// Lists every PCI Express link of the lab.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.functions().filter_map(|function| function.link.as_ref())
    }
}

/// Rates of every pair of a lab's endpoints, and of each with host memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Name of the lab.
    pub lab: String,
    /// Endpoints, each host's before its memory.
    pub nodes: Vec<MatrixNode>,
    /// Pairs of nodes of the same host, in both orders.
    pub pairs: Vec<MatrixPair>,
}

/// An endpoint, or host memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixNode {
    /// Name in the lab.
    pub name: String,
    /// Whether it is the memory of a host, under the host's name, or of one of its sockets.
    pub is_memory: bool,
    /// Socket that it is at, if its host has several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<u16>,
}

/// Parts between two nodes of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Nothing leads there.
    #[default]
    #[serde(rename = "none")]
    None,
    /// One switch.
    #[serde(rename = "one switch")]
    OneSwitch,
    /// Several switches.
    #[serde(rename = "switches")]
    Switches,
    /// The root complex.
    #[serde(rename = "root complex")]
    RootComplex,
    /// Two sockets of a host.
    #[serde(rename = "sockets")]
    Sockets,
    /// Host memory is one of them.
    #[serde(rename = "memory")]
    Memory,
}

impl Way {
    /// All kinds of ways, the nearest first.
    pub const ALL: [Self; 6] = [
        Self::OneSwitch,
        Self::Switches,
        Self::RootComplex,
        Self::Memory,
        Self::Sockets,
        Self::None,
    ];

    /// Returns its abbreviation as GPU tools write it, and what it stands for.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("-", "no way: the problem is named below"),
            Self::OneSwitch => ("PIX", "by one switch"),
            Self::Switches => ("PXB", "by several switches, not by the root complex"),
            Self::RootComplex => ("PHB", "by the root complex"),
            Self::Memory => ("MEM", "to or from host memory"),
            Self::Sockets => ("SYS", "between sockets, to another root port or to memory"),
        }
    }
}

/// Range of a figure, whose unit it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigureRange {
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// Rates and latency of a pair of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MatrixPair {
    /// The node that the data come from: an endpoint writes them; those in host memory are read by
    /// the other one.
    pub from: String,
    /// The node that they go to.
    pub to: String,
    /// Parts between the two.
    pub way: Way,
    /// Payload, while nothing else is moved.
    pub one_way_bytes_per_second: Option<f64>,
    /// Payload of both directions together, moved at the same time.
    pub both_ways_bytes_per_second: Option<f64>,
    /// Typical time of a read of 64 B by `from`, an endpoint, of `to`.
    pub read_latency_ns: Option<f64>,
    /// Range of the payload one way, if ranges of the lab's constants change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_range_bytes_per_second: Option<FigureRange>,
    /// Range of the payload of both directions, if they change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both_ways_range_bytes_per_second: Option<FigureRange>,
    /// Range of the time of the read, if they change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency_range_ns: Option<FigureRange>,
    /// Reason for which a figure is missing, a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The tree of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Name of the host: of its root complex.
    pub name: String,
    /// Number of sockets, if there are several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sockets: Option<usize>,
    /// Host memory, of all sockets.
    pub memory_bytes: u64,
    /// Functions on bus 0: root ports.
    pub functions: Vec<Function>,
}

impl Host {
    /// Lists every function of the host, each after the bridge above it.
    pub fn all_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().flat_map(Function::walk)
    }
}

/// Position of a function in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FunctionKind {
    /// An endpoint.
    #[default]
    #[serde(rename = "endpoint")]
    Endpoint,
    /// A port of a root complex.
    #[serde(rename = "root port")]
    RootPort,
    /// The port of a switch towards the host.
    #[serde(rename = "upstream port")]
    UpstreamPort,
    /// A port of a switch towards endpoints.
    #[serde(rename = "downstream port")]
    DownstreamPort,
}

impl FunctionKind {
    /// Returns its name: `root port`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::RootPort => "root port",
            Self::UpstreamPort => "upstream port",
            Self::DownstreamPort => "downstream port",
        }
    }
}

/// One function, as its configuration space describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Bus, device and function number: `03:00.0`.
    pub address: String,
    /// Name of its node.
    pub node: String,
    /// Name of its port.
    pub port: String,
    /// Position in the tree.
    pub kind: FunctionKind,
    /// Socket of a root port, if its host has several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<u16>,
    /// Vendor ID, hexadecimal.
    pub vendor: String,
    /// Device ID, hexadecimal.
    pub device: String,
    /// Max_Payload_Size.
    pub max_payload_bytes: u32,
    /// Max_Payload_Size Supported.
    pub max_payload_supported_bytes: u32,
    /// Max_Read_Request_Size.
    pub max_read_request_bytes: u32,
    /// Fastest generation of its port.
    pub max_generation: u8,
    /// Most lanes of its port.
    pub max_width: u8,
    /// BARs as programmed.
    pub bars: Vec<Bar>,
    /// Bus below a bridge.
    pub secondary_bus: Option<u8>,
    /// Highest bus below a bridge.
    pub subordinate_bus: Option<u8>,
    /// The link above an endpoint or a switch.
    pub link: Option<Link>,
    /// Functions on the bus below a bridge.
    pub children: Vec<Self>,
}

impl Function {
    /// Lists this function and all below it, each after the bridge above it.
    pub fn walk(&self) -> Vec<&Self> {
        let mut found = vec![self];
        for child in &self.children {
            found.extend(child.walk());
        }
        found
    }

    /// Returns the fastest and widest link of its port: `Gen3 x8`.
    pub fn max_rate(&self) -> String {
        format!("Gen{} x{}", self.max_generation, self.max_width)
    }
}

/// A BAR as programmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// Number of the BAR.
    pub index: usize,
    /// First bus address.
    pub base: u64,
    /// Size.
    pub size_bytes: u64,
    /// Whether it takes two registers.
    pub is_64_bit: bool,
    /// Whether reads of it have no side effect.
    pub is_prefetchable: bool,
}

/// One PCI Express link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// The port at its upper end.
    pub upper: String,
    /// The port at its lower end.
    pub lower: String,
    /// Generation that it has trained to.
    pub generation: u8,
    /// Lanes that it has trained to.
    pub width: u8,
    /// Largest payload that both ends may send and receive.
    pub payload_bytes: u32,
    /// Rates that one direction can carry.
    pub ceiling: LinkCeiling,
}

impl Link {
    /// Makes a link of a rate between two ports that permit payloads of `payload_bytes`.
    pub fn new(name: &str, upper: &str, lower: &str, rate: LinkRate, payload_bytes: u32) -> Self {
        let payload = |header_dw| write_ceiling_bytes_per_second(rate, header_dw, payload_bytes);
        Self {
            name: name.to_owned(),
            upper: upper.to_owned(),
            lower: lower.to_owned(),
            generation: rate.generation.number(),
            width: rate.width.lanes(),
            payload_bytes,
            ceiling: LinkCeiling {
                raw_bytes_per_second: rate.bytes_per_second(),
                packet_bytes_per_second: link_ceiling_bytes_per_second(rate),
                payload_3dw_bytes_per_second: payload(3),
                payload_4dw_bytes_per_second: payload(4),
            },
        }
    }

    /// Returns its rate, unless its generation or width does not exist.
    pub fn link_rate(&self) -> Option<LinkRate> {
        let generation = Generation::from_number(self.generation)?;
        Some(LinkRate { generation, width: Width::new(self.width)? })
    }

    /// Returns its rate: `Gen2 x4`.
    pub fn rate(&self) -> String {
        format!("Gen{} x{}", self.generation, self.width)
    }
}

/// Rates of one direction of a link, without time for DLLPs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkCeiling {
    /// Rate after encoding.
    pub raw_bytes_per_second: f64,
    /// Rate after encoding and SKP ordered sets.
    pub packet_bytes_per_second: f64,
    /// Payload in TLPs with 3 DW headers.
    pub payload_3dw_bytes_per_second: f64,
    /// Payload in TLPs with 4 DW headers.
    pub payload_4dw_bytes_per_second: f64,
}

/// A network link between two adapters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The adapter at one end.
    pub first: String,
    /// The adapter at the other end.
    pub second: String,
    /// Rate of each direction.
    pub bytes_per_second: f64,
    /// Payload of a packet.
    pub mtu_bytes: u32,
    /// Latency.
    pub latency_ns: f64,
    /// Payload of long transfers.
    pub ceiling: PayloadCeiling,
}

/// Payload rate of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PayloadCeiling {
    /// Payload.
    pub payload_bytes_per_second: f64,
}

/// A torus of network processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Torus {
    /// Name of the first node.
    pub first: String,
    /// Name of the last node.
    pub last: String,
    /// Nodes in each dimension.
    pub sizes: Vec<u16>,
    /// Whether the ends of each dimension are joined.
    pub wraps: bool,
    /// Number of cables.
    pub cables: usize,
    /// Lanes of a cable.
    pub lanes: u8,
    /// Rate of a lane.
    pub lane_bits_per_second: u64,
    /// Latency of a cable.
    pub latency_ns: f64,
    /// Rate of each direction of a cable, after encoding.
    pub bytes_per_second: f64,
    /// Payload of datagrams.
    pub ceiling: PayloadCeiling,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(port: &str, children: Vec<Function>) -> Function {
        let rate = LinkRate {
            generation: Generation::from_number(2).unwrap(),
            width: Width::new(8).unwrap(),
        };
        let link = Some(Link::new(&format!("{port}-link"), "above", port, rate, 128));
        Function { port: port.to_owned(), link, children, ..Function::default() }
    }

    #[test]
    fn every_function_and_link_is_listed() {
        let switch = function("sw.up", vec![function("nic", vec![]), function("gpu", vec![])]);
        let host = Host { functions: vec![switch, function("disk", vec![])], ..Host::default() };
        let topology = Topology { hosts: vec![host], ..Topology::default() };
        let ports: Vec<&str> = topology.functions().map(|it| it.port.as_str()).collect();
        assert_eq!(ports, ["sw.up", "nic", "gpu", "disk"]);
        let links: Vec<&str> = topology.links().map(|link| link.name.as_str()).collect();
        assert_eq!(links, ["sw.up-link", "nic-link", "gpu-link", "disk-link"]);
        let link = topology.links().next().unwrap();
        let payload = link.ceiling.payload_3dw_bytes_per_second / 1e6;
        assert_eq!((link.rate().as_str(), format!("{payload:.1}").as_str()), ("Gen2 x8", "3450.5"));
        let json = serde_json::to_value(&topology).unwrap();
        assert_eq!(json["hosts"][0]["functions"][0]["kind"], "endpoint");
        assert_eq!(serde_json::from_value::<Topology>(json).unwrap(), topology);
    }
}
