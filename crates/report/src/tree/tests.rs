// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the drawing of trees.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_results::topology::{Bar, Function, Host, Link};
use crosslane_results::{DirectionLoad, TimeUse, Use};

use super::*;

fn linked(node: &str, port: &str, upper: &str, lanes: u8) -> Function {
    let generation = Generation::from_number(2).unwrap();
    let rate = LinkRate { generation, width: Width::new(lanes).unwrap() };
    let link = Some(Link::new(&format!("{node}-link"), upper, port, rate, 128));
    let (node, port) = (node.to_owned(), port.to_owned());
    let bars = vec![Bar { size_bytes: 1 << 20, ..Bar::default() }];
    Function { node, port, address: "05:00.0".to_owned(), link, bars, ..Function::default() }
}

fn port(name: &str, kind: FunctionKind, children: Vec<Function>) -> Function {
    Function { port: name.to_owned(), kind, children, ..Function::default() }
}

/// A host with a switch (two endpoints), an endpoint, and an empty slot.
fn small() -> Topology {
    let down = |name: &str, below: &str| {
        port(name, FunctionKind::DownstreamPort, vec![linked(below, below, name, 4)])
    };
    let switch = Function {
        kind: FunctionKind::UpstreamPort,
        secondary_bus: Some(2),
        subordinate_bus: Some(4),
        children: vec![down("sw.down0", "nic<0>"), down("sw.down1", "nic&1")],
        ..linked("sw", "sw.up", "host.root1", 8)
    };
    let root = |name: &str, below: Vec<Function>| port(name, FunctionKind::RootPort, below);
    let functions = vec![
        root("host.root1", vec![switch]),
        root("host.root2", vec![linked("gpu", "gpu", "host.root2", 4)]),
        root("host.root3", vec![]),
    ];
    let host = Host { name: "host".to_owned(), memory_bytes: 16 << 30, functions };
    Topology { lab: "<small>".to_owned(), hosts: vec![host], ..Topology::default() }
}

fn load(direction: &str, busy_share: f64) -> DirectionLoad {
    DirectionLoad {
        direction: direction.to_owned(),
        link: "Gen2 x4".to_owned(),
        payload_bytes_per_second: 1.6728e9,
        busy_share,
        uses: vec![TimeUse { what: Use::Payload, share: 0.84 }],
    }
}

fn drawn(topology: &Topology, loads: &[DirectionLoad]) -> String {
    draw(cards(topology, loads), "", "t").svg.into_string()
}

#[test]
fn every_node_and_link_is_drawn() {
    let svg = topology_svg(&small());
    assert_eq!(svg.matches("class=\"card ").count(), 5);
    assert_eq!(svg.matches("class=\"link\"").count(), 4);
    assert_eq!(svg.matches("class=\"open\"").count(), 1);
    for text in [
        "Lab &lt;small&gt;",
        "1 host, 1 switch, 3 endpoints",
        "Under each link: payload ceiling",
        "16 GiB of memory",
        "host.root3, empty",
        "sw-link: host.root1 to sw.up",
        "05:00.0, buses 02-04",
        "05:00.0, BAR0 1 MiB",
        "3450.5 MB/s at 128 B",
        "nic&lt;0&gt;-link: sw.down0 to nic&lt;0&gt;",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(!svg.contains("var("), "a drawing that stands alone has no variables");
    roxmltree::Document::parse(&svg).unwrap();
}

#[test]
fn cards_do_not_overlap() {
    let topology = small();
    let mut cards = cards(&topology, &[]);
    place(&mut cards, 0.0);
    let (switch, gpu) = (&cards[0].links[0].1, &cards[0].links[1].1);
    assert!(switch.top >= 0.0 && switch.top + switch.height < gpu.top);
    assert!(cards[0].left + cards[0].width < switch.left);
}

#[test]
fn loads_have_words_colours_and_thickness() {
    let loads = [load("host.root2 -> gpu", 0.96), load("gpu -> host.root2", f64::NAN)];
    let topology = small();
    assert!(has_loads(&cards(&topology, &loads)) && !has_loads(&cards(&topology, &[])));
    let svg = drawn(&topology, &loads);
    assert!(svg.contains("→ 96.0 % · 1672.8 MB/s"), "{svg}");
    assert!(svg.contains("class=\"way load4\"") && svg.contains("class=\"way load0\""));
    assert!(svg.contains("above → gpu (Gen2 x4)\nbusy 96.0 %"), "{svg}");
    assert!(svg.contains("payload: 84.0 %") && !svg.contains("buses 02-04"));
    roxmltree::Document::parse(&svg).unwrap();
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let empty = Topology::default();
    roxmltree::Document::parse(&drawn(&empty, &[])).unwrap();
    roxmltree::Document::parse(&topology_svg(&empty)).unwrap();
}
