// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the drawing of trees.

use crosslane_results::topology::PayloadCeiling;
use crosslane_results::{DirectionLoad, TimeUse, Use};

use super::sample::small;
use super::*;

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
    draw(cards(topology, loads), &topology.networks, "", "t").svg.into_string()
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
        "slot: host.root1 to sw.up",
        "01:00.0, buses 02-04",
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

/// A link whose adapter is no card is left out.
#[test]
fn networks_join_adapters_to_the_right_of_all_cards() {
    let mut topology = small();
    let network = |second: &str| Network {
        first: "gpu".to_owned(),
        second: second.to_owned(),
        bytes_per_second: 12.5e9,
        mtu_bytes: 4096,
        latency_ns: 500.0,
        ceiling: PayloadCeiling { payload_bytes_per_second: 12.3e9 },
    };
    let width = |topology: &Topology| draw(cards(topology, &[]), &topology.networks, "", "t").width;
    let before = width(&topology);
    topology.networks = vec![network("nic<0>"), network("nobody")];
    assert!(width(&topology) > before + 100.0);
    let svg = topology_svg(&topology);
    assert_eq!(svg.matches("class=\"network\"").count(), 1);
    for text in
        ["to gpu<", "to nic&lt;0&gt;<", "12500.0 MB/s, 4096 B", "gpu to nic&lt;0&gt; by network"]
    {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    roxmltree::Document::parse(&svg).unwrap();
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let empty = Topology::default();
    roxmltree::Document::parse(&drawn(&empty, &[])).unwrap();
    roxmltree::Document::parse(&topology_svg(&empty)).unwrap();
}

#[test]
fn page_svg_names_nodes_and_links_and_files_do_not() {
    let loads = [load("sw.up -> host.root1", 0.5)];
    for loads in [&[][..], &loads] {
        let svg = page_svg(&small(), loads);
        assert_eq!(svg.matches("data-node=\"").count(), 5);
        assert!(svg.contains("data-node=\"nic&lt;0&gt;\"") && svg.contains("data-below=\"gpu\""));
    }
    assert!(!topology_svg(&small()).contains("data-"));
}
