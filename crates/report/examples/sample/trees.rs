// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of the sample.

use crosslane_report::{DirectionLoad, NodeKind, Topology, TopologyLink, TopologyNode};

fn load(busy: f64, megabytes_per_second: f64) -> Option<DirectionLoad> {
    let payload = busy * 0.86;
    Some(DirectionLoad {
        busy,
        payload_bytes_per_second: megabytes_per_second * 1e6,
        parts: vec![
            ("payload".into(), payload),
            ("headers".into(), busy - payload),
            ("nothing to send".into(), 1.0 - busy),
        ],
    })
}

/// A board: a switch with four FPGAs.
fn board(letter: char, first: u32) -> TopologyNode {
    let mut switch = TopologyNode::new(NodeKind::Switch, format!("rc47{letter}"), "buses 04-08");
    for number in first..first + 4 {
        let fpga = TopologyNode::new(NodeKind::Endpoint, format!("fpga{number}"), "BAR1 128 MiB");
        let mut link = TopologyLink::new("Gen2 x4", fpga);
        link.upper = format!("rc47{letter}.down{}", number - first);
        link.lower = format!("fpga{number}");
        (link.down, link.up) = if first == 1 {
            (load(0.02, 0.0), load(0.46, 821.7))
        } else {
            (load(0.46, 821.7), load(0.02, 0.0))
        };
        switch.links.push(link);
    }
    switch
}

/// Two boards of four FPGAs.
pub fn loaded() -> Topology {
    let mut cable = TopologyLink::new("Gen3 x4", board('a', 1));
    (cable.upper, cable.lower) = ("rha25.down0".into(), "rc47a.up".into());
    (cable.down, cable.up) = (load(0.01, 0.0), load(0.968, 3286.9));
    let mut other = TopologyLink::new("Gen3 x4", board('b', 5));
    (other.upper, other.lower) = ("rha25.down1".into(), "rc47b.up".into());
    (other.down, other.up) = (load(0.968, 3286.9), load(0.01, 0.0));
    let mut adapter = TopologyNode::new(NodeKind::Switch, "rha25", "buses 02-0e");
    adapter.links = vec![cable, other];
    let mut slot = TopologyLink::new("Gen3 x8", adapter);
    (slot.upper, slot.lower) = ("host0.root1".into(), "rha25.up".into());
    (slot.down, slot.up) = (load(0.0, 0.0), load(0.004, 0.3));
    let mut host = TopologyNode::new(NodeKind::Host, "host0", "4 GiB of memory");
    host.links = vec![slot];
    host.empty_ports = vec!["host0.root2".into()];
    Topology { title: "Four FPGAs write to the other board".into(), hosts: vec![host] }
}

/// Sixty-four endpoints behind eight switches of two hosts.
pub fn large() -> Topology {
    let mut hosts = Vec::new();
    for host_number in 0..2 {
        let name = format!("host{host_number}");
        let mut host = TopologyNode::new(NodeKind::Host, name, "64 GiB of memory");
        for switch_number in 0..4 {
            let name = format!("switch{host_number}{switch_number}");
            let mut switch = TopologyNode::new(NodeKind::Switch, name, "8 ports");
            for number in 0..8 {
                let name = format!("nic{host_number}{switch_number}{number}");
                let nic = TopologyNode::new(NodeKind::Endpoint, name, "BAR0 1 MiB");
                let mut link = TopologyLink::new("Gen3 x8", nic);
                link.raw_bytes_per_second = 7.877e9;
                link.note = "6850.1 MB/s at 256 B".into();
                switch.links.push(link);
            }
            let mut link = TopologyLink::new("Gen4 x16", switch);
            link.raw_bytes_per_second = 31.5e9;
            link.note = "27400.5 MB/s at 256 B".into();
            host.links.push(link);
        }
        hosts.push(host);
    }
    Topology { title: "Sixty-four network cards".into(), hosts }
}
