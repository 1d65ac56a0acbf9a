// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small torus of hosts with network processors, opened.

use std::future::Future;

use crosslane_device::network_processor::NetworkProcessor as Model;
use crosslane_driver::Buffer;
use crosslane_driver::network_processor::*;
use crosslane_host::{Bus, Mapping, Waiting};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds};

pub use super::small_torus::*;
pub use crate::fails::{fails, failure};

pub const BUFFERS: [Buffers; 3] = [Buffers::User, Buffers::Copied, Buffers::Mapped];
pub const REQUESTS: [Requests; 3] = [
    Requests::SystemCall,
    Requests::Stores(Mapping::Uncached),
    Requests::Stores(Mapping::WriteCombined),
];
pub const WAITINGS: [Waiting; 3] = [Waiting::Polling, Waiting::KernelPolling, Waiting::Monitor];

pub type Processor = NetworkProcessor;

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
                opened.push(NetworkProcessor::init(bus, &name, modes).await.unwrap());
            }
            links_up(&opened, links).await;
            opened
        };
        let nodes = simulation.run("open", open).unwrap();
        Self { simulation, nodes }
    }

    /// Sets the bit error rate of the first node's link 0, both ways.
    pub fn damage(&self, rate: f64) {
        let card = self.simulation.find("fpga1").unwrap();
        self.simulation.with_fabric(|fabric| {
            fabric.command(card, |model: &mut Model, port| {
                model.set_bit_error_rate(0, rate, port);
            });
        });
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.simulation.run("test", future).unwrap()
    }

    /// Runs a test on the first two nodes.
    pub fn on_pair<T>(&self, test: impl AsyncFnOnce([&Processor; 2]) -> T) -> T {
        self.run(test([&self.nodes[0], &self.nodes[1]]))
    }
}

/// Runs a test on a torus of two nodes.
pub fn on_pair<T>(modes: Modes, test: impl AsyncFnOnce(&Stand, [&Processor; 2]) -> T) -> T {
    let stand = Stand::new(&[2], modes);
    stand.on_pair(async |pair| test(&stand, pair).await)
}

/// Enables the links of these nodes, from link 0 on, and waits until they are up.
pub async fn links_up(nodes: &[Processor], links: u8) {
    for node in nodes {
        for link in 0..links {
            node.enable_link(link).await.unwrap();
        }
    }
    for node in nodes {
        for link in 0..links {
            let deadline = node.bus().now() + ns(100_000);
            node.wait_link_up(link, deadline).await.unwrap();
        }
    }
}

/// Sets every node's position, the first dimension counting fastest.
pub async fn place(stand: &Stand, sizes: &[u16]) {
    for (node, processor) in stand.nodes.iter().enumerate() {
        let mut rest = node as u16;
        let dimensions: Vec<TorusDimension> = sizes
            .iter()
            .map(|&size| {
                let position = rest % size;
                rest /= size;
                TorusDimension { size, position, is_open: false }
            })
            .collect();
        processor.place_in_torus(&dimensions).await.unwrap();
    }
}

/// Modes with mapped buffers.
pub fn mapped() -> Modes {
    Modes::default().with_buffers(Buffers::Mapped)
}

/// Link 0 of a node leads to link 1 of the next one.
pub fn key(link: u8, channel: u8, tag: u8) -> Key {
    Key::Neighbour { link, channel, tag }
}

/// A buffer filled with these bytes.
pub async fn filled(node: &Processor, bytes: &[u8]) -> Buffer {
    let buffer = node.buffer(bytes.len().max(1) as u64).await.unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

pub fn contents(buffer: &Buffer, bytes: u64) -> Vec<u8> {
    let mut into = vec![0; bytes as usize];
    buffer.read(0, &mut into).unwrap();
    into
}

pub fn message(node: &Processor, key: Key, buffer: &Buffer, bytes: u64) -> Message {
    let deadline = node.bus().now() + ns(1_000_000);
    Message { key, buffer: buffer.clone(), part: 0..bytes, deadline }
}

/// A deadline that no successful operation reaches.
pub fn late(node: &Processor) -> Picoseconds {
    node.bus().now() + ns(10_000_000)
}

pub async fn pause(node: &Processor, pause_ns: u64) {
    node.bus().sleep_until(node.bus().now() + ns(pause_ns)).await;
}

/// Posts a credit for a message; returns its memory with it.
pub async fn receive(node: &Processor, key: Key, bytes: u64) -> (Buffer, InFlight) {
    let target = node.buffer(bytes.max(1)).await.unwrap();
    let credit = node.credit(message(node, key, &target, bytes)).await.unwrap();
    (target, credit)
}

/// Posts a get for these bytes; returns its memory with it.
pub async fn send(node: &Processor, key: Key, data: &[u8]) -> (Buffer, InFlight) {
    let source = filled(node, data).await;
    let get = node.nget(message(node, key, &source, data.len() as u64)).await.unwrap();
    (source, get)
}

/// Waits for a successful end.
pub async fn ended(node: &Processor, message: &InFlight) -> Ended {
    node.wait(message, late(node)).await.unwrap()
}

/// Waits for an end with an error.
pub async fn failed(node: &Processor, message: &InFlight) -> NetworkError {
    node.wait(message, late(node)).await.unwrap_err()
}

/// Waits until these bytes have come into the memory of a credit.
pub async fn arrives(
    node: &Processor,
    (target, credit): &(Buffer, InFlight),
    data: &[u8],
) -> Ended {
    let bytes = data.len() as u64;
    let received = ended(node, credit).await;
    assert_eq!(received.bytes, bytes);
    assert!(contents(target, bytes) == data, "{bytes} B have changed");
    received
}

/// Sends a message over link 0 of the first node to the second, which posts the credit first.
/// Returns the time of each end, from its request to its notification.
pub async fn carry(
    [from, to]: [&Processor; 2],
    (channel, tag): (u8, u8),
    data: &[u8],
) -> (Picoseconds, Picoseconds) {
    let bytes = data.len() as u64;
    let source = filled(from, data).await;
    let receiving = receive(to, key(1, channel, tag), bytes).await;
    let get = message(from, key(0, channel, tag), &source, bytes);
    let begun = from.bus().now();
    let get = from.nget(get).await.unwrap();
    assert_eq!(ended(from, &get).await.bytes, bytes);
    let sent_at = from.bus().now();
    arrives(to, &receiving, data).await;
    (Picoseconds(sent_at.0 - begun.0), Picoseconds(to.bus().now().0 - begun.0))
}
