// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes of small tori that exchange data in simulated time.

use std::future::Future;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::{Key, Message as DriverMessage, NetworkProcessor};
use crosslane_host::{Bus, Waiting};
use crosslane_lab::Simulation;
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_torus::*;

use crate::small_torus::{lab, limited, ns, pattern};

pub type LabNode = Node;

struct Stand {
    simulation: Simulation,
    nodes: Vec<LabNode>,
}

impl Stand {
    fn new(sizes: &[u16], options: NodeOptions) -> Self {
        let simulation = Simulation::new(lab(sizes).build_engines(1).unwrap());
        let open = async {
            let mut nodes = Vec::new();
            for node in 0..sizes.iter().product() {
                let bus = simulation.bus(HostId(node));
                let coordinates = Coordinates::of_node(node, sizes);
                let name = format!("fpga{}", node + 1);
                nodes.push(Node::open(bus, &name, coordinates, options).await.unwrap());
            }
            for node in &nodes {
                node.links_up(late(node)).await.unwrap();
            }
            nodes
        };
        let nodes = simulation.run("open", open).unwrap();
        Self { simulation, nodes }
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.simulation.run("test", future).unwrap()
    }

    /// Runs `body` on every node at once.
    fn on_all<F, Fut>(&self, body: F)
    where
        F: Fn(LabNode) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        let tasks: Vec<_> = self
            .nodes
            .iter()
            .map(|node| self.simulation.spawn("node", body(node.clone())))
            .collect();
        self.run(async {
            for task in tasks {
                task.await;
            }
        });
    }
}

/// Runs a test on a torus of two nodes.
pub fn on_pair<T>(options: NodeOptions, test: impl AsyncFnOnce([&LabNode; 2]) -> T) -> T {
    let stand = Stand::new(&[2], options);
    stand.run(test([&stand.nodes[0], &stand.nodes[1]]))
}

fn mapped() -> NodeOptions {
    let modes = Modes::default().with_buffers(Buffers::Mapped);
    NodeOptions::default().with_modes(modes)
}

pub fn late(node: &LabNode) -> Picoseconds {
    node.processor().bus().now() + ns(50_000_000)
}

pub async fn filled(node: &LabNode, bytes: &[u8]) -> Buffer {
    let buffer = node.buffer(bytes.len() as u64).await.unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

pub fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut into = vec![0; buffer.size_bytes() as usize];
    buffer.read(0, &mut into).unwrap();
    into
}

fn message(node: &LabNode, peer: Peer, tag: u8, buffer: &Buffer) -> Message {
    let part = 0..buffer.size_bytes();
    Message { peer, tag, buffer: buffer.clone(), part, deadline: late(node) }
}

async fn pause(node: &LabNode, pause_ns: u64) {
    let bus = node.processor().bus();
    bus.sleep_until(bus.now() + ns(pause_ns)).await;
}

/// Begins to receive a message; returns its memory with it.
async fn receive(node: &LabNode, peer: Peer, tag: u8, bytes: u64) -> (Buffer, Begun) {
    let room = node.buffer(bytes).await.unwrap();
    let begun = node.rx_i(message(node, peer, tag, &room)).await.unwrap();
    (room, begun)
}

/// Begins to send a message with these bytes; returns its memory with it.
pub async fn send(node: &LabNode, peer: Peer, tag: u8, bytes: &[u8]) -> (Buffer, Begun) {
    let data = filled(node, bytes).await;
    let begun = node.tx_i(message(node, peer, tag, &data)).await.unwrap();
    (data, begun)
}

pub const fn up(dimension: u8) -> Peer {
    Peer::Neighbour { direction: Direction::Up(dimension), channel: 0 }
}

pub const fn down(dimension: u8) -> Peer {
    Peer::Neighbour { direction: Direction::Down(dimension), channel: 0 }
}

/// Returns the data that a node sends in a direction.
fn halo(node: u16, direction: Direction, bytes: u64) -> Vec<u8> {
    pattern(u64::from(node) * 64 + u64::from(direction.link()), bytes)
}

#[test]
fn all_nodes_exchange_with_all_neighbours_at_once() {
    const BYTES: u64 = 4096;
    for sizes in [&[2][..], &[3, 3], &[2, 4]] {
        let stand = Stand::new(sizes, NodeOptions::default());
        stand.on_all(|node| async move {
            let directions: Vec<Direction> = node.coordinates().directions().collect();
            for round in 0..3 {
                let mut receiving = Vec::new();
                for &direction in &directions {
                    let peer = LabNode::neighbour(direction, round);
                    receiving.push(receive(&node, peer, round, BYTES).await);
                }
                let mut sending = Vec::new();
                for &direction in &directions {
                    let peer = LabNode::neighbour(direction, round);
                    let data = halo(node.number(), direction, BYTES);
                    sending.push(send(&node, peer, round, &data).await);
                }
                for (_, begun) in &sending {
                    assert_eq!(node.finish(begun).await.unwrap().bytes, BYTES);
                }
                for (&direction, (room, begun)) in directions.iter().zip(&receiving) {
                    assert_eq!(node.finish(begun).await.unwrap().bytes, BYTES);
                    let from = node.coordinates().neighbour(direction).unwrap();
                    let want = halo(from, direction.opposite(), BYTES);
                    assert!(contents(room) == want, "{} {direction}", node.number());
                }
            }
        });
    }
}

#[test]
fn the_library_adds_nothing_to_the_time_of_the_driver() {
    let stand = Stand::new(&[2], NodeOptions::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let (driver, library) = stand.run(async {
        let source = filled(from, &pattern(1, 64)).await;
        let target = to.buffer(64).await.unwrap();
        let mut took = Vec::new();
        for with_library in [false, true] {
            let bus = from.processor().bus().clone();
            if with_library {
                let room = to.rx_i(message(to, down(0), 0, &target)).await.unwrap();
                let begun = bus.now();
                from.tx(message(from, up(0), 0, &source)).await.unwrap();
                to.finish(&room).await.unwrap();
                took.push(bus.now().0 - begun.0);
                continue;
            }
            let of = |node: &LabNode, link, buffer: &Buffer| DriverMessage {
                key: Key::Neighbour { link, channel: 0, tag: 0 },
                buffer: buffer.clone(),
                part: 0..64,
                deadline: late(node),
            };
            let processor: &NetworkProcessor = to.processor();
            let room = processor.credit(of(to, 1, &target)).await.unwrap();
            let begun = bus.now();
            let get = from.processor().nget(of(from, 0, &source)).await.unwrap();
            from.processor().wait(&get, late(from)).await.unwrap();
            processor.wait(&room, late(to)).await.unwrap();
            took.push(bus.now().0 - begun.0);
        }
        (took[0], took[1])
    });
    // A link accumulates fractions of a picosecond.
    assert!(driver.abs_diff(library) <= 2, "{driver} ps, with the library {library} ps");
}

#[test]
fn many_messages_of_different_tags_are_matched() {
    on_pair(NodeOptions::default(), async |[from, to]| {
        // Room is made in a different order than messages are sent.
        let mut rooms = Vec::new();
        for tag in (0..12_u8).rev() {
            let peer = LabNode::neighbour(Direction::Down(0), tag % 3);
            rooms.push((tag, receive(to, peer, tag, 700).await));
        }
        let mut sending = Vec::new();
        for tag in 0..12_u8 {
            let peer = LabNode::neighbour(Direction::Up(0), tag % 3);
            sending.push(send(from, peer, tag, &pattern(tag.into(), 700)).await);
        }
        for (tag, (room, begun)) in &rooms {
            to.finish(begun).await.unwrap();
            assert!(contents(room) == pattern((*tag).into(), 700), "tag {tag}");
        }
        for (_, begun) in &sending {
            from.finish(begun).await.unwrap();
        }
    });
}

#[test]
fn long_messages_go_in_pieces_both_ways_whatever_is_waited_for_first() {
    let user = NodeOptions::default().with_piece_bytes(50_000);
    let copied = Modes::default().with_buffers(Buffers::Copied);
    let copied = NodeOptions::default().with_modes(copied);
    for (options, bytes) in [(user, 333_333), (copied, 2_500_000), (mapped(), 3 << 20)] {
        let stand = Stand::new(&[2], options);
        stand.on_all(move |node| async move {
            let other = node.coordinates().neighbour(Direction::Up(0)).unwrap();
            let (room, receiving) = receive(&node, down(0), 9, bytes).await;
            let data = pattern(node.number().into(), bytes);
            let (_data, sending) = send(&node, up(0), 9, &data).await;
            assert_eq!(node.finish(&sending).await.unwrap().bytes, bytes);
            assert_eq!(node.finish(&receiving).await.unwrap().bytes, bytes);
            assert!(contents(&room) == pattern(other.into(), bytes), "{bytes} B have changed");
        });
    }
}

#[test]
fn a_long_message_keeps_the_link_busy() {
    const BYTES: u64 = 4 << 20;
    let took_ps = on_pair(mapped(), async |[from, to]| {
        let (room, receiving) = receive(to, down(0), 0, BYTES).await;
        let (_data, sending) = send(from, up(0), 0, &pattern(1, BYTES)).await;
        let mut receiver = Box::pin(async { to.finish(&receiving).await.unwrap() });
        let mut sender = Box::pin(async { from.finish(&sending).await.unwrap() });
        let (mut received, mut sent) = (None, None);
        std::future::poll_fn(|context| {
            use std::task::Poll;
            if sent.is_none()
                && let Poll::Ready(ended) = sender.as_mut().poll(context)
            {
                sent = Some(ended);
            }
            if received.is_none()
                && let Poll::Ready(ended) = receiver.as_mut().poll(context)
            {
                received = Some(ended);
            }
            if sent.is_some() && received.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert!(contents(&room) == pattern(1, BYTES));
        received.unwrap().ended.0 - sent.unwrap().posted.0
    });
    // Eight lanes of 5 Gb/s with 8b/10b are 4 GB/s, of which 128 of 136 B are payload.
    let least_ps = BYTES * 250 * 136 / 128;
    let share = least_ps as f64 / took_ps as f64;
    assert!((0.96..1.0).contains(&share), "{share} of the link's rate");
}

#[test]
fn any_node_reaches_any_other() {
    let stand = Stand::new(&[3, 2], mapped().with_hold_routed(true));
    stand.on_all(|node| async move {
        let (own, nodes) = (node.number(), node.coordinates().nodes() as u16);
        let others: Vec<u16> = (0..nodes).filter(|&other| other != own).collect();
        let mut receiving = Vec::new();
        for &other in &others {
            receiving.push((other, receive(&node, Peer::Node(other), 1, 5000).await));
        }
        // Every node makes room before any sends.
        let bus = node.processor().bus().clone();
        bus.sleep_until(Picoseconds(bus.now().0.next_multiple_of(1_000_000_000))).await;
        for &other in &others {
            let data = filled(&node, &pattern(u64::from(own * 16 + other), 5000)).await;
            node.tx(message(&node, Peer::Node(other), 1, &data)).await.unwrap();
        }
        for (other, (room, begun)) in &receiving {
            node.finish(begun).await.unwrap();
            assert!(contents(room) == pattern(u64::from(other * 16 + own), 5000));
        }
    });
    // A long message, in pieces of 8,192 datagrams.
    let (from, to) = (&stand.nodes[0], &stand.nodes[4]);
    stand.run(async {
        let bytes = 1_500_000;
        let (room, receiving) = receive(to, Peer::Node(0), 2, bytes).await;
        let (_data, sending) = send(from, Peer::Node(4), 2, &pattern(3, bytes)).await;
        while from.test(&sending).await.unwrap().is_none() {
            assert_eq!(to.test(&receiving).await.unwrap(), None);
            pause(from, 20_000).await;
        }
        to.finish(&receiving).await.unwrap();
        assert!(contents(&room) == pattern(3, bytes));
    });
}

#[test]
fn a_put_is_received_like_any_message() {
    on_pair(NodeOptions::default(), async |[from, to]| {
        let (room, receiving) = receive(to, down(0), 5, 64).await;
        from.put(up(0), 5, &pattern(1, 64), late(from)).await.unwrap();
        assert_eq!(to.finish(&receiving).await.unwrap().bytes, 64);
        assert!(contents(&room) == pattern(1, 64));
        let error = from.put(up(1), 5, &[1], late(from)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "fpga1, the neighbour up in dimension 1, channel 0, tag 5: there is no node that way"
        );
    });
}

#[test]
fn what_fails_says_why_and_leaves_everything_usable() {
    on_pair(mapped(), async |[from, to]| {
        let room = to.buffer(4096).await.unwrap();
        let deadline = to.processor().bus().now() + ns(30_000);
        let early = Message { deadline, ..message(to, down(0), 1, &room) };
        let receiving = to.rx_i(early).await.unwrap();
        let again = to.rx_i(message(to, down(0), 1, &room)).await.map(drop).unwrap_err();
        assert_eq!(
            again.to_string(),
            "fpga2, the neighbour down in dimension 0, channel 0, tag 1: another message has \
             this peer, channel and tag, and has not ended"
        );
        let error = to.finish(&receiving).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "fpga2 link 1 channel 0 tag 1: not ended at the deadline, {deadline}: 0 of 4096 B \
                 were moved"
            )
        );
        assert_eq!(to.finish(&receiving).await.unwrap_err(), error, "asked again");
        // Dropped room is taken back, and the next room gets the message.
        drop(to.rx_i(message(to, down(0), 1, &room)).await.unwrap());
        let receiving = to.rx_i(message(to, down(0), 1, &room)).await.unwrap();
        let data = filled(from, &pattern(1, 4096)).await;
        from.tx(message(from, up(0), 1, &data)).await.unwrap();
        to.finish(&receiving).await.unwrap();
        assert!(contents(&room) == pattern(1, 4096));
        // A refused message releases its key.
        let short = from.buffer(1).await.unwrap();
        let beyond = Message { part: 0..2, ..message(from, up(0), 1, &short) };
        let error = from.tx_i(beyond).await.map(drop).unwrap_err();
        assert_eq!(error.to_string(), "a buffer of fpga1: bytes 0 to 2 are not in its 1 B");
        from.tx(message(from, up(0), 1, &data)).await.unwrap();
        // A message dropped while being sent continues with all of its pieces.
        let receiving = to.rx_i(message(to, down(0), 1, &room)).await.unwrap();
        to.finish(&receiving).await.unwrap();
        let long = filled(from, &pattern(7, 3 << 20)).await;
        let error = from.tx_i(message(from, Peer::Node(1), 1, &long)).await.map(drop).unwrap_err();
        assert_eq!(
            error.to_string(),
            "fpga1, node 1, tag 1: a routed message of 3145728 B: beyond 983040 B it is sent in \
             pieces, which may come before their room, so that all nodes need \
             NodeOptions::with_hold_routed(true)"
        );
        let (room, receiving) = receive(to, down(0), 1, 3 << 20).await;
        drop(from.tx_i(message(from, up(0), 1, &long)).await.unwrap());
        while to.test(&receiving).await.unwrap().is_none() {
            pause(from, 20_000).await;
            from.put(up(0), 2, &[1], late(from)).await.unwrap();
            let small = to.buffer(1).await.unwrap();
            to.rx(message(to, down(0), 2, &small)).await.unwrap();
            // Any call that begins or waits advances it.
            drop(from.rx_i(message(from, down(0), 3, &short)).await.unwrap());
        }
        assert!(contents(&room) == pattern(7, 3 << 20));
    });
}

#[test]
fn a_long_message_that_is_given_up_fails_at_both_ends() {
    on_pair(mapped(), async |[from, to]| {
        let bytes = 3 << 20;
        let room = to.buffer(bytes).await.unwrap();
        let data = filled(from, &pattern(1, bytes)).await;
        let receiving = to.rx_i(message(to, down(0), 0, &room)).await.unwrap();
        // In the middle of the first piece.
        let deadline = from.processor().bus().now() + ns(100_000);
        let early = Message { deadline, ..message(from, up(0), 0, &data) };
        let error = from.tx(early).await.unwrap_err();
        assert!(error.to_string().contains("not ended at the deadline"), "{error}");
        let error = to.finish(&receiving).await.unwrap_err();
        let TorusError::Message(error) = error else { panic!("{error}") };
        assert_eq!(error.fault, NetworkFault::FarEnd);
        data.write(0, &[1]).unwrap();
        room.write(0, &[1]).unwrap();
    });
}

#[test]
fn a_call_that_is_dropped_while_it_posts_a_piece_is_told_of() {
    let (mut whole, mut interrupted) = (0, 0);
    for polls in 1..12 {
        let modes = mapped().modes.with_requests(Requests::SystemCall);
        let options = NodeOptions::default().with_modes(modes).with_piece_bytes(4096);
        on_pair(options, async |[from, to]| {
            let room = to.buffer(10_000).await.unwrap();
            let data = filled(from, &pattern(1, 10_000)).await;
            let patient = Message {
                deadline: to.processor().bus().now() + ns(200_000),
                ..message(to, down(0), 0, &room)
            };
            let receiving = to.rx_i(patient).await.unwrap();
            let sending = from.tx_i(message(from, up(0), 0, &data)).await.unwrap();
            drop(limited(polls, from.finish(&sending)).await);
            let sent = from.finish(&sending).await;
            let received = to.finish(&receiving).await;
            match sent {
                Ok(ended) => {
                    assert_eq!((ended.bytes, received.unwrap().bytes), (10_000, 10_000));
                    assert!(contents(&room) == pattern(1, 10_000));
                    whole += 1;
                }
                Err(error) => {
                    assert_eq!(
                        error.to_string(),
                        "fpga1 link 0 channel 0 tag 0: the call that posted its next piece was \
                         dropped"
                    );
                    // The piece posted to the device continues and may have been the last.
                    if received.is_ok() {
                        assert!(contents(&room) == pattern(1, 10_000));
                    }
                    interrupted += 1;
                }
            }
            data.write(0, &[0]).unwrap();
            room.write(0, &[0]).unwrap();
        });
    }
    assert!(whole > 0 && interrupted > 0, "{whole} and {interrupted}");
}

#[test]
fn options_that_cannot_be_are_refused() {
    let simulation = Simulation::new(lab(&[2]).build_engines(1).unwrap());
    let open = |coordinates: Coordinates, options| {
        let node = Node::open(simulation.bus(HostId(0)), "fpga1", coordinates, options);
        simulation.run("open", node).unwrap().map(drop).unwrap_err().to_string()
    };
    let coordinates = Coordinates::of_node(0, &[2]);
    for piece_bytes in [127, (1 << 20) + 1] {
        let options = NodeOptions::default().with_piece_bytes(piece_bytes);
        assert_eq!(
            open(coordinates.clone(), options),
            format!("fpga1: pieces of {piece_bytes} B: they have 128 to 1048576")
        );
    }
    assert_eq!(
        open(Coordinates::of_node(0, &[2, 2, 2]), NodeOptions::default()),
        "fpga1: it has 4 links, and none up in dimension 2"
    );
    let outside = Coordinates::new(&[TorusDimension { size: 2, position: 2, is_open: false }]);
    assert_eq!(
        open(outside, NodeOptions::default()),
        "fpga1: position 2 of 2 in dimension 0: sizes are 1 to 32767"
    );
}

#[test]
fn each_call_may_be_waited_for_alone() {
    for waiting in [Waiting::Polling, Waiting::KernelPolling, Waiting::Monitor] {
        let modes = Modes::default().with_waiting(waiting);
        let stand = Stand::new(&[2], NodeOptions::default().with_modes(modes));
        let [from, to] = [0, 1].map(|node| stand.nodes[node].clone());
        let room = stand.run(to.buffer(3000)).unwrap();
        let data = stand.run(filled(&from, &pattern(1, 3000)));
        let receiving = stand.run(to.rx_i(message(&to, down(0), 0, &room))).unwrap();
        let sending = stand.run(from.tx_i(message(&from, up(0), 0, &data))).unwrap();
        assert_eq!(stand.run(from.finish(&sending)).unwrap().bytes, 3000);
        assert_eq!(stand.run(to.finish(&receiving)).unwrap().bytes, 3000);
        assert!(contents(&room) == pattern(1, 3000));
        stand.run(from.tx(message(&from, up(0), 0, &data))).unwrap();
        stand.run(to.rx(message(&to, down(0), 0, &room))).unwrap();
        let receiving = stand.run(to.rx_i(message(&to, down(0), 0, &room))).unwrap();
        stand.run(from.put(up(0), 0, &pattern(2, 9), late(&from))).unwrap();
        assert_eq!(stand.run(to.finish(&receiving)).unwrap().bytes, 9);
        for node in [from, to] {
            stand.run(node.close()).unwrap();
        }
    }
}
