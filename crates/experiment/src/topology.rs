// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The topology of a lab as plain data, from its enumeration.

use crosslane_fabric::{Fabric, Port};
use crosslane_lab::{Lab, RunningHost, RunningLab};
use crosslane_pcie::config::{Bar, PortType};
use crosslane_results::topology as results;
use crosslane_results::topology::{FunctionKind, PayloadCeiling};

/// Describes every host's tree, the network links and the tori of a lab that was built.
pub fn topology(lab: &Lab, running: &RunningLab) -> results::Topology {
    let hosts = running.hosts.iter().map(|host| describe_host(&running.fabric, host)).collect();
    let networks = lab.file().networks.iter().map(|network| {
        let parameters = &network.parameters;
        let (payload, header) = (parameters.mtu_bytes, parameters.header_bytes);
        let bytes_per_second = parameters.bits_per_second as f64 / 8.0;
        results::Network {
            first: network.first.clone(),
            second: network.second.clone(),
            bytes_per_second,
            mtu_bytes: payload,
            latency_ns: parameters.latency.as_ns(),
            ceiling: PayloadCeiling {
                payload_bytes_per_second: bytes_per_second * f64::from(payload)
                    / f64::from(payload + header),
            },
        }
    });
    let tori = lab.file().tori.iter().map(|found| {
        let (dimensions, parameters) = (found.torus.dimensions(), &found.parameters);
        let end = |name: Option<&String>| name.cloned().unwrap_or_default();
        results::Torus {
            first: end(found.nodes.first()),
            last: end(found.nodes.last()),
            sizes: dimensions.iter().map(|dimension| dimension.size).collect(),
            wraps: dimensions.iter().all(|dimension| dimension.wraps),
            cables: found.torus.cables().count(),
            lanes: parameters.lanes,
            lane_bits_per_second: parameters.lane_bits_per_second,
            latency_ns: parameters.latency.as_ns(),
            bytes_per_second: parameters.bytes_per_second(),
            ceiling: PayloadCeiling {
                payload_bytes_per_second: parameters.payload_bytes_per_second(),
            },
        }
    });
    let (networks, tori) = (networks.collect(), tori.collect());
    results::Topology { lab: lab.name().to_owned(), hosts, networks, tori }
}

fn describe_host(fabric: &Fabric, host: &RunningHost) -> results::Host {
    let functions = host.tree.functions.iter().enumerate();
    let tops = functions.filter(|(_, function)| function.parent.is_none());
    results::Host {
        name: host.name.clone(),
        sockets: Some(host.socket_buffers.len()).filter(|count| *count > 1),
        memory_bytes: host.tree.memory.iter().map(|range| range.end - range.start).sum(),
        functions: tops.map(|(index, _)| describe_function(fabric, host, index)).collect(),
    }
}

fn describe_function(fabric: &Fabric, host: &RunningHost, index: usize) -> results::Function {
    let found = &host.tree.functions[index];
    let port = fabric.port(found.port);
    let max_rate = port.parameters.capability.max_rate;
    let is_placed = host.socket_buffers.len() > 1 && found.port_type == PortType::RootPort;
    let children = found.children.iter().map(|&child| describe_function(fabric, host, child));
    results::Function {
        address: found.routing_id.to_string(),
        node: fabric.node(found.node).name.clone(),
        port: found.name.clone(),
        kind: match found.port_type {
            PortType::Endpoint => FunctionKind::Endpoint,
            PortType::RootPort => FunctionKind::RootPort,
            PortType::UpstreamPort => FunctionKind::UpstreamPort,
            PortType::DownstreamPort => FunctionKind::DownstreamPort,
        },
        vendor: format!("{:04x}", found.vendor),
        device: format!("{:04x}", found.device),
        socket: is_placed.then_some(port.socket),
        max_payload_bytes: found.max_payload_bytes,
        max_payload_supported_bytes: found.max_payload_supported_bytes,
        max_read_request_bytes: found.max_read_request_bytes,
        max_generation: max_rate.generation.number(),
        max_width: max_rate.width.lanes(),
        bars: found.bars.iter().map(describe_bar).collect(),
        secondary_bus: found.buses.as_ref().map(|buses| *buses.start()),
        subordinate_bus: found.buses.as_ref().map(|buses| *buses.end()),
        link: if found.port_type.is_above_its_link() { None } else { link_above(fabric, port) },
        children: children.collect(),
    }
}

fn describe_bar(bar: &Bar) -> results::Bar {
    results::Bar {
        index: bar.index,
        base: bar.base.0,
        size_bytes: bar.size_bytes,
        is_64_bit: bar.kind.is_64_bit(),
        is_prefetchable: bar.kind.is_prefetchable(),
    }
}

fn link_above(fabric: &Fabric, port: &Port) -> Option<results::Link> {
    let link = fabric.link(port.link?);
    let upper = fabric.port(link.upper);
    let payload_bytes = upper.config.max_payload_bytes().min(port.config.max_payload_bytes());
    let rate = link.parameters.rate;
    Some(results::Link::new(&link.name, &upper.name, &port.name, rate, payload_bytes))
}
