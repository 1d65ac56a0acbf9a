// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree of a lab as values: what `topo` prints, draws and writes as JSON.

pub mod collect;
pub mod text;
pub mod topology;

use crosslane_lab::file::{CableParameters, NetworkParameters};
use crosslane_pcie::RoutingId;
use crosslane_pcie::ceiling::{link_ceiling_bytes_per_second, write_ceiling_bytes_per_second};
use crosslane_pcie::config::{Bar, PortType};
use crosslane_pcie::link::LinkRate;
use serde::Serialize;
use serde_json::{Value, json};

/// All trees of a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The lab's name.
    pub lab: String,
    /// One tree a host.
    pub hosts: Vec<Host>,
    /// Network links between adapters.
    pub networks: Vec<Network>,
    /// Tori of network processors.
    pub tori: Vec<Torus>,
}

/// A torus of network processors.
#[derive(Clone, Debug, PartialEq)]
pub struct Torus {
    /// Its first and its last node.
    pub ends: [String; 2],
    /// Nodes in each dimension.
    pub sizes: Vec<u16>,
    /// Whether its ends are joined.
    pub wraps: bool,
    /// Cables in all.
    pub cables: usize,
    /// Each of them.
    pub parameters: CableParameters,
}

impl Torus {
    /// `4 x 4`
    #[must_use]
    pub fn size_words(&self) -> String {
        self.sizes.iter().map(u16::to_string).collect::<Vec<_>>().join(" x ")
    }

    fn to_json(&self) -> Value {
        json!({
            "first": self.ends[0],
            "last": self.ends[1],
            "sizes": self.sizes,
            "wraps": self.wraps,
            "cables": self.cables,
            "lanes": self.parameters.lanes,
            "lane_bits_per_second": self.parameters.lane_bits_per_second,
            "latency_ns": self.parameters.latency.as_ns(),
            "bytes_per_second": self.parameters.bytes_per_second(),
            "ceiling": { "payload_bytes_per_second": self.parameters.payload_bytes_per_second() },
        })
    }
}

/// A network link between two adapters.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The adapter at one end.
    pub first: String,
    /// The adapter at the other end.
    pub second: String,
    /// Its constants.
    pub parameters: NetworkParameters,
}

impl Network {
    /// Each way, bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.parameters.bits_per_second as f64 / 8.0
    }

    /// Payload of long transfers each way, bytes per second.
    #[must_use]
    pub fn payload_bytes_per_second(&self) -> f64 {
        let (payload, header) = (self.parameters.mtu_bytes, self.parameters.header_bytes);
        self.bytes_per_second() * f64::from(payload) / f64::from(payload + header)
    }

    fn to_json(&self) -> Value {
        json!({
            "first": self.first,
            "second": self.second,
            "bytes_per_second": self.bytes_per_second(),
            "mtu_bytes": self.parameters.mtu_bytes,
            "latency_ns": self.parameters.latency.as_ns(),
            "ceiling": { "payload_bytes_per_second": self.payload_bytes_per_second() },
        })
    }
}

/// The tree of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Name of the host: of its root complex.
    pub name: String,
    /// Host memory.
    pub memory_bytes: u64,
    /// What is on bus 0: root ports.
    pub functions: Vec<Function>,
}

/// One function, as its configuration space says after enumeration.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Bus, device and function number.
    pub address: RoutingId,
    /// Name of the node that it belongs to.
    pub node: String,
    /// Name of its port.
    pub port: String,
    /// Its place in the hierarchy.
    pub kind: PortType,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Max_Payload_Size as set, bytes.
    pub max_payload_bytes: u32,
    /// Max_Payload_Size supported, bytes.
    pub max_payload_supported_bytes: u32,
    /// Max_Read_Request_Size as set, bytes.
    pub max_read_request_bytes: u32,
    /// Fastest and widest link that the port is able to do.
    pub max_rate: LinkRate,
    /// BARs as programmed.
    pub bars: Vec<Bar>,
    /// Bus below a bridge, and the highest bus below it.
    pub buses: Option<(u8, u8)>,
    /// The link above an endpoint or a switch.
    pub link: Option<Link>,
    /// What is below a bridge.
    pub children: Vec<Function>,
}

/// One link, seen from its lower end.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The port at its upper end.
    pub upper: String,
    /// The port at its lower end.
    pub lower: String,
    /// Rate and width that it trained to.
    pub rate: LinkRate,
    /// Largest payload that both ends may send and receive, bytes.
    pub payload_bytes: u32,
}

/// Bytes per second of a link's one direction, none with DLLPs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// After encoding.
    pub raw_bytes_per_second: f64,
    /// After encoding and SKP ordered sets.
    pub packet_bytes_per_second: f64,
    /// Payload in TLPs with 3 DW headers.
    pub payload_3dw_bytes_per_second: f64,
    /// Payload in TLPs with 4 DW headers.
    pub payload_4dw_bytes_per_second: f64,
}

impl Link {
    /// What one direction can carry.
    #[must_use]
    pub fn ceilings(&self) -> Ceilings {
        let payload =
            |header_dw| write_ceiling_bytes_per_second(self.rate, header_dw, self.payload_bytes);
        Ceilings {
            raw_bytes_per_second: self.rate.bytes_per_second(),
            packet_bytes_per_second: link_ceiling_bytes_per_second(self.rate),
            payload_3dw_bytes_per_second: payload(3),
            payload_4dw_bytes_per_second: payload(4),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "upper": self.upper,
            "lower": self.lower,
            "generation": self.rate.generation.number(),
            "width": self.rate.width.lanes(),
            "payload_bytes": self.payload_bytes,
            "ceiling": self.ceilings(),
        })
    }
}

impl Function {
    /// What the function is, in words.
    #[must_use]
    pub const fn kind_words(&self) -> &'static str {
        match self.kind {
            PortType::Endpoint => "endpoint",
            PortType::RootPort => "root port",
            PortType::UpstreamPort => "upstream port",
            PortType::DownstreamPort => "downstream port",
        }
    }

    /// This function and all below it, as a walk down the tree finds them.
    #[must_use]
    pub fn walk(&self) -> Vec<&Self> {
        let mut found = vec![self];
        for child in &self.children {
            found.extend(child.walk());
        }
        found
    }

    fn to_json(&self) -> Value {
        let bars: Vec<Value> = self.bars.iter().map(bar_to_json).collect();
        let children: Vec<Value> = self.children.iter().map(Self::to_json).collect();
        json!({
            "address": self.address.to_string(),
            "node": self.node,
            "port": self.port,
            "kind": self.kind_words(),
            "vendor": format!("{:04x}", self.vendor),
            "device": format!("{:04x}", self.device),
            "max_payload_bytes": self.max_payload_bytes,
            "max_payload_supported_bytes": self.max_payload_supported_bytes,
            "max_read_request_bytes": self.max_read_request_bytes,
            "max_generation": self.max_rate.generation.number(),
            "max_width": self.max_rate.width.lanes(),
            "bars": bars,
            "secondary_bus": self.buses.map(|(secondary, _)| secondary),
            "subordinate_bus": self.buses.map(|(_, subordinate)| subordinate),
            "link": self.link.as_ref().map(Link::to_json),
            "children": children,
        })
    }
}

fn bar_to_json(bar: &Bar) -> Value {
    json!({
        "index": bar.index,
        "base": bar.base.0,
        "size_bytes": bar.size_bytes,
        "is_64_bit": bar.kind.is_64_bit(),
        "is_prefetchable": bar.kind.is_prefetchable(),
    })
}

impl Tree {
    /// Every function of the lab.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.hosts.iter().flat_map(|host| &host.functions).flat_map(Function::walk)
    }

    /// Every link of the lab.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.functions().filter_map(|function| function.link.as_ref())
    }

    /// As JSON, rates in bytes per second.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let hosts: Vec<Value> = self
            .hosts
            .iter()
            .map(|host| {
                let functions: Vec<Value> = host.functions.iter().map(Function::to_json).collect();
                json!({
                    "name": host.name,
                    "memory_bytes": host.memory_bytes,
                    "functions": functions,
                })
            })
            .collect();
        let networks: Vec<Value> = self.networks.iter().map(Network::to_json).collect();
        let tori: Vec<Value> = self.tori.iter().map(Torus::to_json).collect();
        json!({ "lab": self.lab, "hosts": hosts, "networks": networks, "tori": tori })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crosslane_pcie::config::BarKind;
    use crosslane_pcie::link::{Generation, Width};
    use crosslane_pcie::units::BusAddress;

    fn rate(generation: u8, lanes: u8) -> LinkRate {
        LinkRate {
            generation: Generation::from_number(generation).unwrap(),
            width: Width::new(lanes).unwrap(),
        }
    }

    fn function(address: (u8, u8), node: &str, port: &str, kind: PortType) -> Function {
        Function {
            address: RoutingId::new(address.0, address.1, 0),
            node: node.into(),
            port: port.into(),
            kind,
            vendor: 0x1234,
            device: 0x0001,
            max_payload_bytes: 128,
            max_payload_supported_bytes: 256,
            max_read_request_bytes: 512,
            max_rate: rate(3, 8),
            bars: Vec::new(),
            buses: None,
            link: None,
            children: Vec::new(),
        }
    }

    fn bridge(mut function: Function, buses: (u8, u8), children: Vec<Function>) -> Function {
        function.buses = Some(buses);
        function.children = children;
        function
    }

    fn linked(mut function: Function, name: &str, upper: &str, rate: LinkRate) -> Function {
        let lower = function.port.clone();
        function.link =
            Some(Link { name: name.into(), upper: upper.into(), lower, rate, payload_bytes: 128 });
        function
    }

    fn endpoint(bus: u8, name: &str, upper: &str) -> Function {
        let mut endpoint = function((bus, 0), name, name, PortType::Endpoint);
        endpoint.bars.push(Bar {
            index: 0,
            base: BusAddress(0xe000_0000 + (u64::from(bus) << 20)),
            size_bytes: 1 << 20,
            kind: BarKind::Memory32 { prefetchable: false },
        });
        linked(endpoint, &format!("{name}-link"), upper, rate(2, 4))
    }

    /// A host with a switch (two endpoints), an endpoint of its own, and an empty slot.
    pub(crate) fn small_tree() -> Tree {
        let down = |device, bus: u8, child| {
            let port = format!("sw.down{device}");
            let down = function((2, device), "sw", &port, PortType::DownstreamPort);
            bridge(down, (bus, bus), vec![child])
        };
        let up = function((1, 0), "sw", "sw.up", PortType::UpstreamPort);
        let up = bridge(
            up,
            (2, 4),
            vec![
                down(0, 3, endpoint(3, "nic<0>", "sw.down0")),
                down(1, 4, endpoint(4, "nic&1", "sw.down1")),
            ],
        );
        let up = linked(up, "slot", "host.root1", rate(2, 8));
        let root = |device| {
            let port = format!("host.root{device}");
            function((0, device), "host", &port, PortType::RootPort)
        };
        Tree {
            lab: "small".into(),
            hosts: vec![Host {
                name: "host".into(),
                memory_bytes: 16 << 30,
                functions: vec![
                    bridge(root(1), (1, 4), vec![up]),
                    bridge(root(2), (5, 5), vec![endpoint(5, "gpu", "host.root2")]),
                    bridge(root(3), (6, 6), vec![]),
                ],
            }],
            networks: Vec::new(),
            tori: Vec::new(),
        }
    }

    #[test]
    fn every_function_and_link_is_found() {
        let tree = small_tree();
        let ports: Vec<&str> = tree.functions().map(|function| function.port.as_str()).collect();
        let expected = [
            "host.root1",
            "sw.up",
            "sw.down0",
            "nic<0>",
            "sw.down1",
            "nic&1",
            "host.root2",
            "gpu",
            "host.root3",
        ];
        assert_eq!(ports, expected);
        let links: Vec<&str> = tree.links().map(|link| link.name.as_str()).collect();
        assert_eq!(links, ["slot", "nic<0>-link", "nic&1-link", "gpu-link"]);
    }

    #[test]
    fn json_has_the_ceilings_in_bytes_per_second() {
        let json = small_tree().to_json();
        let switch = &json["hosts"][0]["functions"][0]["children"][0];
        assert_eq!(switch["link"]["name"], "slot");
        let ceiling = switch["link"]["ceiling"]["payload_3dw_bytes_per_second"].as_f64().unwrap();
        assert_eq!(format!("{:.1}", ceiling / 1e6), "3450.5");
        assert_eq!(json["hosts"][0]["functions"][1]["children"][0]["bars"][0]["index"], 0);
    }
}
