// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree of a running lab, from what its enumeration found.

use crosslane_fabric::Fabric;
use crosslane_lab::{Lab, RunningHost, RunningLab};

use super::{Function, Host, Link, Network, Torus, Tree};

/// Gathers every host's tree, the network links and the tori.
#[must_use]
pub fn collect(lab: &Lab, running: &RunningLab) -> Tree {
    let hosts = running.hosts.iter().map(|host| collect_host(&running.fabric, host)).collect();
    let networks = lab.file().networks.iter().map(|network| Network {
        first: network.first.clone(),
        second: network.second.clone(),
        parameters: network.parameters,
    });
    let tori = lab.file().tori.iter().map(|found| {
        let dimensions = found.torus.dimensions();
        let end = |name: Option<&String>| name.cloned().unwrap_or_default();
        Torus {
            ends: [end(found.nodes.first()), end(found.nodes.last())],
            sizes: dimensions.iter().map(|dimension| dimension.size).collect(),
            wraps: dimensions.iter().all(|dimension| dimension.wraps),
            cables: found.torus.cables().count(),
            parameters: found.parameters,
        }
    });
    let (networks, tori) = (networks.collect(), tori.collect());
    Tree { lab: lab.name().to_owned(), hosts, networks, tori }
}

fn collect_host(fabric: &Fabric, host: &RunningHost) -> Host {
    let tops =
        host.tree.functions.iter().enumerate().filter(|(_, function)| function.parent.is_none());
    Host {
        name: host.name.clone(),
        memory_bytes: host.tree.memory.iter().map(|range| range.end - range.start).sum(),
        functions: tops.map(|(index, _)| collect_function(fabric, host, index)).collect(),
    }
}

fn collect_function(fabric: &Fabric, host: &RunningHost, index: usize) -> Function {
    let found = &host.tree.functions[index];
    let port = fabric.port(found.port);
    let children = found.children.iter().map(|&child| collect_function(fabric, host, child));
    Function {
        address: found.routing_id,
        node: fabric.node(found.node).name.clone(),
        port: found.name.clone(),
        kind: found.port_type,
        vendor: found.vendor,
        device: found.device,
        max_payload_bytes: found.max_payload_bytes,
        max_payload_supported_bytes: found.max_payload_supported_bytes,
        max_read_request_bytes: found.max_read_request_bytes,
        max_rate: port.parameters.capability.max_rate,
        bars: found.bars.clone(),
        buses: found.buses.as_ref().map(|buses| (*buses.start(), *buses.end())),
        link: if found.port_type.is_above_its_link() { None } else { link_above(fabric, port) },
        children: children.collect(),
    }
}

fn link_above(fabric: &Fabric, port: &crosslane_fabric::Port) -> Option<Link> {
    let link = fabric.link(port.link?);
    let upper = fabric.port(link.upper);
    let payload_bytes = upper.config.max_payload_bytes().min(port.config.max_payload_bytes());
    Some(Link {
        name: link.name.clone(),
        upper: upper.name.clone(),
        lower: port.name.clone(),
        rate: link.parameters.rate,
        payload_bytes,
    })
}
