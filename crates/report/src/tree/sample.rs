// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small tree for tests of drawings and text.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_results::topology::{Bar, Function, FunctionKind, Host, Link, Topology};

fn rate(generation: u8, lanes: u8) -> LinkRate {
    LinkRate {
        generation: Generation::from_number(generation).unwrap(),
        width: Width::new(lanes).unwrap(),
    }
}

fn function(address: (u8, u8), node: &str, port: &str, kind: FunctionKind) -> Function {
    Function {
        address: format!("{:02x}:{:02x}.0", address.0, address.1),
        node: node.into(),
        port: port.into(),
        kind,
        vendor: "1234".into(),
        device: "0001".into(),
        max_payload_bytes: 128,
        max_payload_supported_bytes: 256,
        max_read_request_bytes: 512,
        max_generation: 3,
        max_width: 8,
        ..Function::default()
    }
}

fn bridge(mut function: Function, buses: (u8, u8), children: Vec<Function>) -> Function {
    (function.secondary_bus, function.subordinate_bus) = (Some(buses.0), Some(buses.1));
    function.children = children;
    function
}

fn linked(mut function: Function, name: &str, upper: &str, rate: LinkRate) -> Function {
    function.link = Some(Link::new(name, upper, &function.port, rate, 128));
    function
}

fn endpoint(bus: u8, name: &str, upper: &str) -> Function {
    let mut endpoint = function((bus, 0), name, name, FunctionKind::Endpoint);
    endpoint.bars.push(Bar {
        index: 0,
        base: 0xe000_0000 + (u64::from(bus) << 20),
        size_bytes: 1 << 20,
        ..Bar::default()
    });
    linked(endpoint, &format!("{name}-link"), upper, rate(2, 4))
}

/// A host with a switch (two endpoints), an endpoint, and an empty slot.
pub fn small() -> Topology {
    let down = |device, bus: u8, child| {
        let port = format!("sw.down{device}");
        let down = function((2, device), "sw", &port, FunctionKind::DownstreamPort);
        bridge(down, (bus, bus), vec![child])
    };
    let up = function((1, 0), "sw", "sw.up", FunctionKind::UpstreamPort);
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
        function((0, device), "host", &port, FunctionKind::RootPort)
    };
    Topology {
        lab: "<small>".into(),
        hosts: vec![Host {
            name: "host".into(),
            memory_bytes: 16 << 30,
            functions: vec![
                bridge(root(1), (1, 4), vec![up]),
                bridge(root(2), (5, 5), vec![endpoint(5, "gpu", "host.root2")]),
                bridge(root(3), (6, 6), vec![]),
            ],
            ..Host::default()
        }],
        ..Topology::default()
    }
}
