// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the drawing of trees.

use super::*;
use crate::topology::{DirectionLoad, NodeKind, TopologyLink};

fn endpoint(name: &str) -> TopologyLink {
    let mut link =
        TopologyLink::new("Gen2 x4", TopologyNode::new(NodeKind::Endpoint, name, "03:00.0"));
    link.name = format!("{name}-link");
    link.upper = "sw.down0".into();
    link.lower = name.into();
    link.raw_bytes_per_second = 2e9;
    link
}

/// A host with a switch (two endpoints), an endpoint of its own, and an empty slot.
fn small() -> Topology {
    let mut switch = TopologyNode::new(NodeKind::Switch, "sw", "");
    switch.links = vec![endpoint("nic<0>"), endpoint("nic&1")];
    let mut host = TopologyNode::new(NodeKind::Host, "host", "4 GiB of memory");
    host.links = vec![TopologyLink::new("Gen2 x8", switch), endpoint("gpu")];
    host.empty_ports = vec!["host.root3".into()];
    Topology { title: String::new(), hosts: vec![host] }
}

#[test]
fn every_node_and_link_is_drawn() {
    let svg = small().to_svg("Lab <small>", &["a note".into()]);
    assert_eq!(svg.matches("class=\"card ").count(), 5);
    assert_eq!(svg.matches("class=\"link\"").count(), 4);
    assert_eq!(svg.matches("class=\"open\"").count(), 1);
    assert!(svg.contains("nic&lt;0&gt;") && svg.contains("Lab &lt;small&gt;"));
    assert!(svg.contains("nic&lt;0&gt;-link: sw.down0 to nic&lt;0&gt;"));
    assert!(!svg.contains("var("), "a drawing that stands alone has no variables");
    roxmltree::Document::parse(&svg).unwrap();
}

#[test]
fn cards_do_not_overlap() {
    let topology = small();
    let cards = cards(&topology);
    let (switch, gpu) = (&cards[0].links[0].1, &cards[0].links[1].1);
    assert!(switch.top >= 0.0 && switch.top + switch.height < gpu.top);
    assert!(cards[0].left + cards[0].width < switch.left);
}

#[test]
fn loads_have_words_colours_and_thickness() {
    let mut topology = small();
    assert!(!has_loads(&topology));
    let load = |busy| DirectionLoad {
        busy,
        payload_bytes_per_second: 1.6728e9,
        parts: vec![("payload".into(), 0.84)],
    };
    topology.for_each_link(|link| {
        if link.name == "gpu-link" {
            (link.down, link.up) = (Some(load(0.96)), Some(load(f64::NAN)));
        }
    });
    assert!(has_loads(&topology));
    let svg = draw(&topology, "t").svg.into_string();
    assert!(svg.contains("→ 96.0 % · 1672.8 MB/s"), "{svg}");
    assert!(svg.contains("class=\"way load4\"") && svg.contains("class=\"way load0\""));
    assert!(svg.contains("sw.down0 → gpu (Gen2 x4)\nbusy 96.0 %"), "{svg}");
    assert!(svg.contains("payload: 84.0 %"));
    roxmltree::Document::parse(&svg).unwrap();
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let empty = Topology { title: String::new(), hosts: Vec::new() };
    roxmltree::Document::parse(&draw(&empty, "t").svg.into_string()).unwrap();
    roxmltree::Document::parse(&empty.to_svg("", &[])).unwrap();
}
