// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of the sample.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_report::TopologyFigure;
use crosslane_results::topology::{Function, FunctionKind, Host, Link, Topology};
use crosslane_results::{DirectionLoad, TimeUse, Use};

/// A node whose port is linked to a port above it; `port` and `upper` are names.
fn linked(node: &str, port: &str, upper: &str, (generation, lanes): (u8, u8)) -> Function {
    let generation = Generation::from_number(generation).expect("a generation");
    let rate = LinkRate { generation, width: Width::new(lanes).expect("a width") };
    let link = Some(Link::new(&format!("{upper}-{port}"), upper, port, rate, 256));
    Function {
        address: "03:00.0".into(),
        node: node.into(),
        port: port.into(),
        link,
        ..Function::default()
    }
}

/// A port with a node below it.
fn port(name: String, child: Option<Function>) -> Function {
    Function {
        port: name,
        kind: FunctionKind::RootPort,
        children: child.into_iter().collect(),
        ..Function::default()
    }
}

/// A switch with nodes below its ports, each made with the name of its port.
fn switch(
    (name, upper, rate): (&str, &str, (u8, u8)),
    below: impl IntoIterator<Item = Box<dyn Fn(&str) -> Function>>,
) -> Function {
    let ports = below.into_iter().enumerate().map(|(number, below)| {
        let name = format!("{name}.down{number}");
        let child = below(&name);
        port(name, Some(child))
    });
    Function {
        kind: FunctionKind::UpstreamPort,
        children: ports.collect(),
        ..linked(name, &format!("{name}.up"), upper, rate)
    }
}

/// An endpoint, made when the port above it is known.
fn endpoint(name: String, rate: (u8, u8)) -> Box<dyn Fn(&str) -> Function> {
    Box::new(move |upper| linked(&name, &name, upper, rate))
}

/// A board: a switch with four FPGAs.
fn board(letter: char, first: u32) -> Box<dyn Fn(&str) -> Function> {
    Box::new(move |upper| {
        let fpgas = (first..first + 4).map(|number| endpoint(format!("fpga{number}"), (2, 4)));
        switch((&format!("rc47{letter}"), upper, (3, 4)), fpgas)
    })
}

fn loads(down: (&str, &str), busy: [f64; 2], megabytes_per_second: [f64; 2]) -> [DirectionLoad; 2] {
    let load = |from: &str, to: &str, index: usize| {
        let (busy, payload) = (busy[index], busy[index] * 0.86);
        let parts = [
            (Use::Payload, payload),
            (Use::Header, busy - payload),
            (Use::NothingToSend, 1.0 - busy),
        ];
        DirectionLoad {
            direction: format!("{from} -> {to}"),
            link: String::new(),
            payload_bytes_per_second: megabytes_per_second[index] * 1e6,
            busy_share: busy,
            uses: parts.into_iter().map(|(what, share)| TimeUse { what, share }).collect(),
        }
    };
    [load(down.0, down.1, 0), load(down.1, down.0, 1)]
}

/// Two boards of four FPGAs.
pub fn loaded() -> TopologyFigure {
    let adapter = switch(("rha25", "host0.root1", (3, 8)), [board('a', 1), board('b', 5)]);
    let functions = vec![port("host0.root1".into(), Some(adapter))];
    let host = Host { name: "host0".into(), memory_bytes: 4 << 30, functions };
    let mut all = Vec::new();
    all.extend(loads(("host0.root1", "rha25.up"), [0.0, 0.004], [0.0, 0.3]));
    all.extend(loads(("rha25.down0", "rc47a.up"), [0.01, 0.968], [0.0, 3286.9]));
    all.extend(loads(("rha25.down1", "rc47b.up"), [0.968, 0.01], [3286.9, 0.0]));
    for number in 1..=8 {
        let (letter, at) = if number <= 4 { ('a', number - 1) } else { ('b', number - 5) };
        let ends = (format!("rc47{letter}.down{at}"), format!("fpga{number}"));
        let (mut busy, mut rate) = ([0.46, 0.02], [821.7, 0.0]);
        if letter == 'a' {
            busy.reverse();
            rate.reverse();
        }
        all.extend(loads((&ends.0, &ends.1), busy, rate));
    }
    let topology = Topology { hosts: vec![host], ..Topology::default() };
    TopologyFigure { title: "Four FPGAs write to the other board".into(), topology, loads: all }
}

/// Sixty-four endpoints behind eight switches of two hosts.
pub fn large() -> TopologyFigure {
    let hosts = (0..2).map(|host| {
        let functions = (0..4).map(|number| {
            let (name, root) =
                (format!("switch{host}{number}"), format!("host{host}.root{number}"));
            let nics = (0..8).map(|nic| endpoint(format!("nic{host}{number}{nic}"), (3, 8)));
            let below = switch((&name, &root, (4, 16)), nics);
            port(root, Some(below))
        });
        let functions = functions.collect();
        Host { name: format!("host{host}"), memory_bytes: 64 << 30, functions }
    });
    let topology = Topology { hosts: hosts.collect(), ..Topology::default() };
    TopologyFigure { title: "Sixty-four network cards".into(), topology, loads: Vec::new() }
}
