// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small torus of hosts with network processors, opened.

use std::future::Future;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::*;
use crosslane_host::Bus;
use crosslane_lab::{Lab, LabBus, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds};

/// Parts without nodes.
const PARTS: &str = include_str!("parts.toml");

pub type Processor = NetworkProcessor<LabBus>;

pub const fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_ns(ns)
}

/// Hosts and cards of a torus with one size for each dimension.
pub fn lab(sizes: &[u16]) -> Lab {
    let nodes: u16 = sizes.iter().product();
    let text = format!(
        "{PARTS}
[[host]]
name = \"node{{1..{nodes}}}\"
part = \"host\"
buffers = {{ value = \"below-4-gib\", source = \"assumption: an IOMMU\" }}
[[endpoint]]
name = \"fpga{{1..{nodes}}}\"
part = \"fpga\"
[[link]]
upper = \"node{{1..{nodes}}}\"
lower = \"fpga{{1..{nodes}}}\"
part = \"slot\"
[[torus]]
nodes = \"fpga{{1..{nodes}}}\"
sizes = {sizes:?}
part = \"cable\"
"
    );
    Lab::from_text("small-torus.toml", &text).unwrap()
}

pub struct Stand {
    pub simulation: Simulation,
    pub nodes: Vec<Processor>,
}

impl Stand {
    /// Opens all nodes and brings their links up.
    pub fn new(sizes: &[u16], modes: Modes) -> Self {
        Self::of_seed(&lab(sizes), sizes, modes, 1)
    }

    pub fn of_seed(lab: &Lab, sizes: &[u16], modes: Modes, seed: u64) -> Self {
        let simulation = Simulation::new(lab.build_engines(seed).unwrap());
        let links = 2 * sizes.len() as u8;
        let nodes: u16 = sizes.iter().product();
        let open = async {
            let mut opened = Vec::new();
            for node in 0..nodes {
                let bus = simulation.bus(HostId(node));
                let name = format!("fpga{}", node + 1);
                let processor = NetworkProcessor::init(bus, &name, modes).await.unwrap();
                for link in 0..links {
                    processor.enable_link(link).await.unwrap();
                }
                opened.push(processor);
            }
            for processor in &opened {
                for link in 0..links {
                    let deadline = processor.bus().now() + ns(100_000);
                    processor.wait_link_up(link, deadline).await.unwrap();
                }
            }
            opened
        };
        let nodes = simulation.run("open", open).unwrap();
        Self { simulation, nodes }
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.simulation.run("test", future).unwrap()
    }
}

/// Bytes that differ from message to message.
pub fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    let mut random = crosslane_random::Random::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// Link 0 of a node leads to link 1 of the next one.
pub fn key(link: u8, channel: u8, tag: u8) -> Key {
    Key::Neighbour { link, channel, tag }
}

/// A buffer filled with these bytes.
pub async fn filled(node: &Processor, bytes: &[u8]) -> Buffer<LabBus> {
    let buffer = node.buffer(bytes.len().max(1) as u64).await.unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

pub fn contents(buffer: &Buffer<LabBus>, bytes: u64) -> Vec<u8> {
    let mut into = vec![0; bytes as usize];
    buffer.read(0, &mut into).unwrap();
    into
}

pub fn message(node: &Processor, key: Key, buffer: &Buffer<LabBus>, bytes: u64) -> Message<LabBus> {
    let deadline = node.bus().now() + ns(1_000_000);
    Message { key, buffer: buffer.clone(), part: 0..bytes, deadline }
}

/// A deadline that no successful operation reaches.
pub fn late(node: &Processor) -> Picoseconds {
    node.bus().now() + ns(10_000_000)
}

/// Sends a message over link 0 of the first node to the second, which posts the credit first.
/// Returns the time of each end, from its request to its notification.
pub async fn carry(
    nodes: &[Processor],
    (channel, tag): (u8, u8),
    data: &[u8],
) -> (Picoseconds, Picoseconds) {
    let bytes = data.len() as u64;
    let [from, to] = nodes else { panic!("two nodes") };
    let source = filled(from, data).await;
    let target = to.buffer(bytes.max(1)).await.unwrap();
    let credit = message(to, key(1, channel, tag), &target, bytes);
    let credit = to.credit(credit).await.unwrap();
    let get = message(from, key(0, channel, tag), &source, bytes);
    let begun = from.bus().now();
    let get = from.nget(get).await.unwrap();
    let sent = from.wait(&get, late(from)).await.unwrap();
    let sent_at = from.bus().now();
    let received = to.wait(&credit, late(to)).await.unwrap();
    assert_eq!((sent.bytes, received.bytes), (bytes, bytes));
    assert!(contents(&target, bytes) == data, "{bytes} B have changed");
    (Picoseconds(sent_at.0 - begun.0), Picoseconds(to.bus().now().0 - begun.0))
}
