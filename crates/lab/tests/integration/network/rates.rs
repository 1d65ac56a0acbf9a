// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of the network of lab `sbdt`, compared with the sbdt paper and with arithmetic.

use crosslane_device::nic::Nic;
use crosslane_fabric::{DirectionId, LinkDirection};
use crosslane_host::*;
use crosslane_lab::*;
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::network::nodes::*;

const RW: RemoteAccess = RemoteAccess::READ_WRITE;

/// Measures MB/s of `count` operations of a size, `at_once` in flight, by the node with the FPGA.
fn rate(nodes: &Nodes, is_read: bool, bytes: u64, count: u64, at_once: u64) -> f64 {
    let (client, server) = nodes.connect();
    let rate = rate_over(nodes, &server, is_read, bytes, count, at_once);
    drop((client, server));
    rate
}

fn rate_over(
    nodes: &Nodes,
    server: &LabConnection,
    is_read: bool,
    bytes: u64,
    count: u64,
    at_once: u64,
) -> f64 {
    let measured = async {
        let (_, near_region) = nodes.filled(&nodes.server, &vec![1; bytes as usize], RW).await;
        let (_, far_region) = nodes.filled(&nodes.client, &vec![2; bytes as usize], RW).await;
        let begin = nodes.simulation.now();
        let tasks: Vec<_> = (0..at_once)
            .map(|_| {
                let (server, at) = (server.clone(), near(&near_region, 0));
                let far = far(&far_region, 0);
                nodes.simulation.spawn("one", async move {
                    for _ in 0..count / at_once {
                        match is_read {
                            true => server.read(&at, far, bytes).await.unwrap(),
                            false => server.write(&at, far, bytes).await.unwrap(),
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        nodes.simulation.now().since(begin)
    };
    let time = nodes.simulation.run("rate", measured).unwrap();
    (count / at_once * at_once * bytes) as f64 / 1e6 / time.as_seconds()
}

/// RDMA read and write of the sbdt paper: 9162.1 and 11927.3 MB/s, flat from 8 KB.
#[test]
fn reads_and_writes_of_the_document() {
    let nodes = nodes();
    let (read, write) = (9162.1, 11_927.3);
    let most_read = rate(&nodes, true, 1 << 20, 32, 4);
    let most_write = rate(&nodes, false, 1 << 20, 32, 4);
    assert!((most_read / read - 1.0).abs() < 0.01, "read {most_read}");
    assert!((most_write / write - 1.0).abs() < 0.05, "write {most_write}");
    for bytes in [8192, 65_536] {
        let count = (8 << 20) / bytes;
        let some = rate(&nodes, true, bytes, count, 16);
        assert!(some > 0.97 * most_read, "read of {bytes} B: {some} of {most_read}");
        let some = rate(&nodes, false, bytes, count, 64);
        assert!(some > 0.97 * most_write, "write of {bytes} B: {some} of {most_write}");
    }
    nodes.assert_clean();
}

/// All payload and headers sent are counted, and the link was busy for them.
#[test]
fn what_the_network_counts() {
    let nodes = nodes();
    let before = counters(&nodes, "fnic");
    rate(&nodes, false, 1 << 20, 1, 1);
    let after = counters(&nodes, "fnic");
    assert_eq!(after.payload_bytes - before.payload_bytes, 1 << 20);
    // The very last packet closes the connection.
    let headers = 256 * 26 + 16 + 30;
    let wire = (1 << 20) + headers;
    assert_eq!(after.header_bytes - before.header_bytes, headers);
    assert_eq!(after.busy.since(before.busy), Picoseconds(80 * wire));
    nodes.assert_clean();
}

fn counters(nodes: &Nodes, name: &str) -> crosslane_device::nic::NetworkCounters {
    let node = nodes.nic(name);
    nodes.simulation.with_fabric(|fabric| fabric.device_as::<Nic>(node).unwrap().counters())
}

/// The adapter shares its host's memory with the card's engine: if the memory is fast enough for
/// only one of them, each gets less than alone.
#[test]
fn card_and_adapter_share_the_host() {
    let shared = |limit: bool| {
        let mut lab = open("sbdt").unwrap();
        if limit {
            lab = lab
                .edited(|file| {
                    let part = std::sync::Arc::make_mut(&mut file.hosts[0].part);
                    part.parameters.completer.read_bytes_per_second = 14e9;
                })
                .unwrap();
        }
        let nodes = nodes_of(&lab, 1);
        let alone = rate(&nodes, false, 1 << 20, 8, 2);
        let busy = with_reads_of_the_card(&nodes);
        (alone, busy)
    };
    let (alone, together) = shared(false);
    assert!((together.0 / alone - 1.0).abs() < 0.01, "{alone} and {together:?}");
    // 14 GB/s for both.
    let (alone, together) = shared(true);
    assert!(together.0 < 0.9 * alone, "{alone} and {together:?}");
    let sum = together.0 + together.1;
    assert!((12_500.0..14_000.0).contains(&sum), "{sum} of {together:?}");
}

/// Measures MB/s of the adapter's writes while the card reads the same host's memory, and the
/// card's.
fn with_reads_of_the_card(nodes: &Nodes) -> (f64, f64) {
    use crosslane_regs::engine::{self, channel};
    use crosslane_regs::ring_descriptor;
    let bus = nodes.simulation.bus(HostId(0));
    let card = nodes.simulation.find_port("pac").unwrap();
    let function = nodes.simulation.with_fabric(|fabric| fabric.routing_id(card));
    let direction = nodes.simulation.with_fabric(|fabric| {
        let link = fabric.port(card).link.unwrap();
        DirectionId { link, heading: LinkDirection::Down }
    });
    // One descriptor after the other from one ring, repeatedly: 64 of 128 KiB.
    let ring = bus.allocate(4096, PageSize::Small).unwrap();
    let data = bus.allocate(128 << 10, PageSize::Huge).unwrap();
    nodes
        .simulation
        .run("ring", async {
            let ring_address = bus.pin(function, &ring).await.unwrap()[0].address.0;
            let address = bus.pin(function, &data).await.unwrap()[0].address.0;
            for entry in 0..64_u64 {
                let mut bytes = [0; ring_descriptor::BYTES as usize];
                for (offset, word) in [
                    (ring_descriptor::ADDRESS_LOW, address as u32),
                    (ring_descriptor::ADDRESS_HIGH, (address >> 32) as u32),
                    (ring_descriptor::LENGTH, 128 << 10),
                ] {
                    bytes[offset as usize..][..4].copy_from_slice(&u32::to_le_bytes(word));
                }
                ring.write(entry * u64::from(ring_descriptor::BYTES), &bytes).unwrap();
            }
            let base = u64::from(engine::H2C.at(0));
            let write = |offset: u32, value: u32| {
                let offset_bytes = base + u64::from(offset);
                bus.write_register(RegisterAddress { function, bar: 0, offset_bytes }, value)
            };
            write(channel::RING_LOW, ring_address as u32).await.unwrap();
            write(channel::RING_HIGH, (ring_address >> 32) as u32).await.unwrap();
            write(channel::RING_ENTRIES, 64).await.unwrap();
            let control = channel::control::RUN.put(1)
                | channel::control::SOURCE.put(engine::DescriptorSource::Ring.bits());
            write(channel::CONTROL, control).await.unwrap();
        })
        .unwrap();
    let moved = || nodes.simulation.with_fabric(|fabric| fabric.counters(direction).payload_bytes);
    let (client, server) = nodes.connect();
    nodes
        .simulation
        .run("doorbell", async {
            let offset_bytes = u64::from(engine::H2C.at(0) + channel::DOORBELL);
            let at = RegisterAddress { function, bar: 0, offset_bytes };
            bus.write_register(at, 63).await.unwrap();
            // Both are at work when the measurement starts.
            let soon = nodes.simulation.now() + Picoseconds::from_ns(2_000);
            Clock::sleep_until(&bus, soon).await;
        })
        .unwrap();
    let (before, begin) = (moved(), nodes.simulation.now());
    let write = rate_over(nodes, &server, false, 1 << 20, 4, 2);
    let time = nodes.simulation.now().since(begin);
    let read = (moved() - before) as f64 / 1e6 / time.as_seconds();
    drop((client, server));
    (write, read)
}
