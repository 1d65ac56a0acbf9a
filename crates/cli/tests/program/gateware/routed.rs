// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that verilated network processors route, beside those of the model.

use crosslane::driver::network_processor::{Modes, TorusDimension};
use crosslane::experiment::host_of;
use crosslane::host::{Bus, Reason};
use crosslane::lab::{CheckedRun, EngineKind, Lab, Simulation};
use crosslane::pcie::units::Picoseconds;
use crosslane::torus::{Coordinates, Message, Node, NodeOptions, Peer};
use futures_util::future::try_join_all;

/// Nodes of the ring.
const NODES: u16 = 4;
/// Bytes of its messages; payloads of 120 and 248 B are full.
const SIZES: [u64; 5] = [1, 64, 120, 248, 3000];
/// Labs, the payload of their datagrams, and the most that a hop takes longer in the gateware
/// (`docs/network-processor.md`, *Time of a message*): 23 clocks of 4 ns, 22 of them of its lanes,
/// which the model does not have; with 64b/66b 40 of 3.3 ns, 39 of them of its lanes.
const LABS: [(&str, u64, Picoseconds); 2] =
    [("nget:crosslane", 120, Picoseconds(23 * 4000)), ("nget:dense", 248, Picoseconds(40 * 3300))];

/// Simulated time of a test of cables.
const SOAK: Picoseconds = Picoseconds::from_us(30);

/// Bytes of a message from a node to another, each different from all others'.
fn data(from: u16, to: u16, bytes: u64) -> Vec<u8> {
    let begin = u64::from(from * NODES + to) * 37;
    (0..bytes).map(|at| ((begin + at) ^ (at >> 8)) as u8).collect()
}

/// Opens all nodes of the ring, with their links up.
async fn opened(simulation: &Simulation) -> Result<Vec<Node>, Reason> {
    let mut nodes = Vec::new();
    for position in 0..NODES {
        let dimension = TorusDimension { size: NODES, position, is_open: false };
        let name = format!("fpga{}", position + 1);
        let bus = simulation.bus(host_of(simulation, &name)?);
        let options = NodeOptions::default().with_modes(Modes::FASTEST);
        nodes.push(Node::open(bus, &name, Coordinates::new(&[dimension]), options).await?);
    }
    try_join_all(nodes.iter().map(|node| node.links_up(Picoseconds::from_ms(10)))).await?;
    Ok(nodes)
}

/// Tests all cables for [`SOAK`], both ways, beside a message between neighbours. Returns how many
/// datagrams the checkers have found right.
async fn soak(nodes: &[Node]) -> Result<u32, Reason> {
    let links = nodes.iter().flat_map(|node| [(node, 0), (node, 1)]);
    // No datagram of a generator is for the host of a node.
    for (generate, check) in [(false, true), (true, true)] {
        for (node, link) in links.clone() {
            node.processor().soak_link(link, generate, check).await?;
        }
    }
    let bus = nodes[0].processor().bus();
    let end = bus.now() + SOAK;
    let _ = message(nodes, 0, 1, 3000).await?;
    bus.sleep_until(end).await;
    for (node, link) in links.clone() {
        node.processor().soak_link(link, false, true).await?;
    }
    bus.sleep_until(bus.now() + Picoseconds::from_us(5)).await;
    let mut checked = 0;
    for (node, link) in links {
        let counters = node.processor().link_counters(link).await?;
        assert_eq!(counters.wrong, 0, "{} link {link}", node.processor().name());
        checked += counters.checked;
        node.processor().soak_link(link, false, false).await?;
    }
    Ok(checked)
}

/// Sends a message from one node to another; returns its time from the request to the end at the
/// receiver.
async fn message(nodes: &[Node], from: u16, to: u16, bytes: u64) -> Result<Picoseconds, Reason> {
    let (sender, receiver) = (&nodes[usize::from(from)], &nodes[usize::from(to)]);
    let (source, target) = (sender.buffer(bytes).await?, receiver.buffer(bytes).await?);
    let sent = data(from, to, bytes);
    source.write(0, &sent)?;
    let deadline = receiver.deadline(std::time::Duration::from_millis(1));
    let of = |peer, buffer| Message { peer, tag: from as u8, buffer, part: 0..bytes, deadline };
    let receiving = receiver.rx_i(of(Peer::Node(from), target.clone())).await?;
    let got = sender.tx(of(Peer::Node(to), source)).await?;
    let ended = receiver.finish(&receiving).await?;
    let mut came = vec![0; bytes as usize];
    target.read(0, &mut came)?;
    assert!(came == sent, "{bytes} B from {from} to {to}");
    Ok(ended.ended - got.posted)
}

/// Messages of all sizes from node 0 to its neighbour and to the node beyond, then one from each
/// node to each other at once. Returns the times of the first, by sizes, and how many datagrams
/// went on at each node, and of tests of the cables.
fn exchange(lab: &str, engine: EngineKind) -> (Vec<[Picoseconds; 2]>, Vec<u32>, u32) {
    let lab = Lab::load(lab).unwrap().with_torus(&[NODES]).unwrap();
    let run = CheckedRun::new(&lab.with_engines(engine), 1).unwrap();
    let simulation = run.simulation();
    let program = async {
        let nodes = opened(simulation).await?;
        let mut times = Vec::new();
        for bytes in SIZES {
            let near = message(&nodes, 0, 1, bytes).await?;
            times.push([near, message(&nodes, 0, 2, bytes).await?]);
        }
        let nodes = &nodes;
        let all = (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to)));
        let others = all.filter(|(from, to)| from != to);
        try_join_all(others.map(|(from, to)| message(nodes, from, to, 2000))).await?;
        let mut forwarded = Vec::new();
        for node in nodes {
            let counters = node.processor().counters().await?;
            assert_eq!((counters.refused, counters.misrouted, counters.waiting), (0, 0, 0));
            forwarded.push(counters.forwarded);
        }
        Ok::<_, Reason>((times, forwarded, soak(nodes).await?))
    };
    run.run("messages", program).unwrap().value
}

/// Sends the same messages over the model's ring and the gateware's, where a hop takes `added`
/// longer at most. Returns the datagrams that went on at each node.
#[track_caller]
fn compare(lab: &str, added: Picoseconds) -> Vec<u32> {
    let [(model, passed, soaked), (gateware, passed_there, soaked_there)] =
        [EngineKind::Model, EngineKind::Rtl].map(|engine| exchange(lab, engine));
    assert_eq!(passed, passed_there);
    // Cables are as full, but for 5 %.
    assert!(soaked > 1000 && 20 * soaked_there > 19 * soaked, "{soaked}, {soaked_there}");
    for ((bytes, [near, far]), [near_there, far_there]) in SIZES.iter().zip(&model).zip(&gateware) {
        let (hop, hop_there) = (*far - *near, *far_there - *near_there);
        // The rate of a long message may be lower by 1 %.
        let most = hop + added + Picoseconds(far.0 / 100);
        assert!(hop_there <= most, "{bytes} B: a hop takes {hop_there}, {hop} in the model");
    }
    passed
}

/// Returns the number of datagrams of messages of these sizes.
fn between(payload_bytes: u64, sizes: &[u64]) -> u32 {
    sizes.iter().map(|bytes| bytes.div_ceil(payload_bytes) as u32).sum()
}

#[test]
fn routed_messages_are_those_of_the_model() {
    for (lab, payload_bytes, added) in LABS {
        let passed: u32 = compare(lab, added).into_iter().sum();
        // Each size once, and 2,000 B from each node to the one beyond its neighbours.
        let all = between(payload_bytes, &SIZES) + between(payload_bytes, &[2000; NODES as usize]);
        assert_eq!(passed, all, "{lab}");
    }
}
