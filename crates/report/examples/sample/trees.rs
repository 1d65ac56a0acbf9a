// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of the sample.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_report::TopologyFigure;
use crosslane_results::topology::{Function, FunctionKind, Host, Link, Topology};
use crosslane_results::{DirectionLoad, TimeUse, Use};

type Rate = (u8, u8);

/// A node below the port `upper`.
fn endpoint(node: String, upper: &str, (generation, lanes): Rate) -> Function {
    let generation = Generation::from_number(generation).expect("a generation");
    let rate = LinkRate { generation, width: Width::new(lanes).expect("a width") };
    let link = Some(Link::new("", upper, &node, rate, 256));
    Function { address: "03:00.0".into(), node, link, ..Function::default() }
}

/// Ports of a host or a switch, each with the node that `below` makes of its number and name.
fn ports(node: &str, count: u8, below: impl Fn(u8, &str) -> Function) -> Vec<Function> {
    let port = |number| {
        let port = format!("{node}.port{number}");
        let children = vec![below(number, &port)];
        Function { port, kind: FunctionKind::RootPort, children, ..Function::default() }
    };
    (0..count).map(port).collect()
}

/// A switch below the port `upper`, with `count` nodes that `below` makes.
fn switch(
    (node, count): (&str, u8),
    (upper, rate): (&str, Rate),
    below: impl Fn(u8, &str) -> Function,
) -> Function {
    let children = ports(node, count, below);
    let kind = FunctionKind::UpstreamPort;
    Function { kind, children, ..endpoint(node.to_owned(), upper, rate) }
}

fn load(from: &str, to: &str, busy: f64, megabytes_per_second: f64) -> DirectionLoad {
    let payload = busy * 0.86;
    let uses =
        [(Use::Payload, payload), (Use::Header, busy - payload), (Use::NothingToSend, 1.0 - busy)];
    DirectionLoad {
        direction: format!("{from} -> {to}"),
        link: String::new(),
        payload_bytes_per_second: megabytes_per_second * 1e6,
        busy_share: busy,
        uses: uses.into_iter().map(|(what, share)| TimeUse { what, share }).collect(),
    }
}

/// Two boards of four FPGAs.
pub fn loaded() -> TopologyFigure {
    let board = |number: u8, upper: &str| {
        let name = ["rc47a", "rc47b"][usize::from(number)];
        let fpga =
            |at, upper: &str| endpoint(format!("fpga{}", 4 * number + at + 1), upper, (2, 4));
        switch((name, 4), (upper, (3, 4)), fpga)
    };
    let functions = ports("host0", 1, |_, upper| switch(("rha25", 2), (upper, (3, 8)), board));
    let host = Host { name: "host0".into(), memory_bytes: 4 << 30, functions, ..Host::default() };
    let topology = Topology { hosts: vec![host], ..Topology::default() };
    // The first board writes to the second.
    let loads = topology.links().flat_map(|link| {
        let (busy, rate) =
            if link.lower.starts_with("rc47") { (0.968, 3286.9) } else { (0.46, 821.7) };
        let (up, down) = match link.lower.as_str() {
            "rha25" => ((0.004, 0.3), (0.0, 0.0)),
            "rc47a" | "fpga1" | "fpga2" | "fpga3" | "fpga4" => ((busy, rate), (0.02, 0.0)),
            _ => ((0.02, 0.0), (busy, rate)),
        };
        let (upper, lower) = (&link.upper, &link.lower);
        [load(upper, lower, down.0, down.1), load(lower, upper, up.0, up.1)]
    });
    let loads = loads.collect();
    TopologyFigure { title: "Four FPGAs write to the other board".into(), topology, loads }
}

/// Sixty-four endpoints behind eight switches of two hosts.
pub fn large() -> TopologyFigure {
    let hosts = (0..2).map(|host| {
        let name = format!("host{host}");
        let functions = ports(&name, 4, |number, upper| {
            let nic = |nic, upper: &str| endpoint(format!("nic{host}{number}{nic}"), upper, (3, 8));
            switch((&format!("switch{host}{number}"), 8), (upper, (4, 16)), nic)
        });
        Host { name, memory_bytes: 64 << 30, functions, ..Host::default() }
    });
    let topology = Topology { hosts: hosts.collect(), ..Topology::default() };
    TopologyFigure { title: "Sixty-four network cards".into(), topology, loads: Vec::new() }
}
