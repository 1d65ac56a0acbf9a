// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows, a FIFO, and messages in slots, on the lab `aws-f1`.

use crosslane_driver::{
    Contents, FIFO_BAR, MAX_MESSAGE_BYTES, MEMORY_BAR, MemoryCard, SLOT_BYTES, SlotReceiver,
    SlotSender, Window, WindowOptions,
};
use crosslane_host::{Bus, Mapping, RegisterAddress, Stores, Topology};
use crosslane_lab::{LabBus, Simulation, open};
use crosslane_pcie::config::PortType;
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};

use crate::fails::{fails, fails_with, failure};

const COMBINED: Mapping = Mapping::WriteCombined;

struct Bench {
    simulation: Simulation,
    bus: LabBus,
    card: RoutingId,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let simulation = Simulation::new(open("aws-f1").unwrap().build_engines(seed).unwrap());
        let bus = simulation.bus(HostId(0));
        let functions = bus.functions().unwrap();
        let card = functions.iter().find(|info| info.port_type == PortType::Endpoint).unwrap().id;
        Self { simulation, bus, card }
    }

    fn run<T>(&self, task: impl Future<Output = T>) -> T {
        self.simulation.run("test", task).unwrap()
    }

    async fn opened(&self) -> MemoryCard {
        MemoryCard::open_by_name(self.bus.clone(), "f1").await.unwrap()
    }

    fn window(&self, bar: u8, bytes: u64, mapping: Mapping, contents: Contents) -> Window {
        let options =
            WindowOptions::new(bar, 0..bytes).with_mapping(mapping).with_contents(contents);
        Window::open(self.bus.clone(), self.card, options).unwrap()
    }

    fn memory(&self, bytes: u64, mapping: Mapping) -> Window {
        self.window(MEMORY_BAR, bytes, mapping, Contents::Memory)
    }
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn combining_is_refused_where_it_would_be_wrong() {
    let bench = Bench::new(1);
    let fifo = |decoded_bytes| Contents::Fifo { decoded_bytes };
    let mut said = Vec::new();
    for (bar, range, contents) in [
        (4, 0..4096, Contents::Registers),
        (2, 0..64, fifo(4)),
        (2, 32..96, fifo(64)),
        (0, 0..4096, Contents::Memory),
        (3, 0..64, Contents::Memory),
        (2, 0..65_537, Contents::Memory),
    ] {
        let options = WindowOptions::new(bar, range).with_mapping(COMBINED).with_contents(contents);
        said.push(failure(Window::open(bench.bus.clone(), bench.card, options)));
    }
    insta::assert_snapshot!(said.join("\n"));
    // The processor of lab `minimal` has no combining buffers; its BARs are not prefetchable
    // either.
    let simulation = Simulation::new(open("minimal").unwrap().build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let card = bus.functions().unwrap().last().unwrap().id;
    assert!(bus.check_mapping(card, 1, COMBINED).is_err());
    assert!(bus.check_mapping(card, 1, Mapping::Uncached).is_ok());
}

/// All kinds of stores bring the same bytes, at any offset and of any length.
#[test]
fn every_store_arrives() {
    let bench = Bench::new(1);
    for mapping in [Mapping::Uncached, COMBINED] {
        let window = bench.memory(4096, mapping);
        bench.run(async {
            bench.opened().await;
            for (offset, length) in [(0, 256), (3, 1), (61, 7), (100, 333), (1023, 66), (4095, 1)] {
                let data = numbered(length);
                for way in 0..3 {
                    window.copy(offset, &vec![0; length]).await.unwrap();
                    match way {
                        0 => window.write(offset, &data).await.unwrap(),
                        1 => window.copy(offset, &data).await.unwrap(),
                        _ => window.store(offset, &data, 2).await.unwrap(),
                    }
                    window.flush().await.unwrap();
                    let mut found = vec![0; length];
                    window.read(offset, &mut found).await.unwrap();
                    assert_eq!(found, data, "{mapping:?} {offset} {length} {way}");
                }
            }
            window.write_burst(8, &[0x0102_0304, 5]).await.unwrap();
            window.flush().await.unwrap();
            let mut found = [0; 8];
            window.read(8, &mut found).await.unwrap();
            assert_eq!(found, [4, 3, 2, 1, 5, 0, 0, 0]);
            let beyond = "f1 BAR4: 8 B at 0xffa reach beyond a window of 4096 B";
            fails(window.write(4090, &[0; 8]).await, beyond);
            fails_with(window.store(0, &[0; 64], 64).await, "powers of two up to 32 B");
        });
    }
}

/// Before a fence a load through the combined window sees the old bytes.
#[test]
fn a_load_before_the_fence_is_stale() {
    let bench = Bench::new(1);
    let window = bench.memory(64, COMBINED);
    bench.run(async {
        bench.opened().await;
        window.write(0, &[9; 8]).await.unwrap();
        let mut found = [1; 8];
        window.read(0, &mut found).await.unwrap();
        assert_eq!(found, [0; 8]);
        window.flush().await.unwrap();
        window.read(0, &mut found).await.unwrap();
        assert_eq!(found, [9; 8]);
    });
}

/// The last section of the paper: six bytes stored to a FIFO's first address are lost, spread ones
/// arrive; pushed lines arrive in order, each as one write.
#[test]
fn a_fifo_gets_what_is_sprayed() {
    let bench = Bench::new(1);
    bench.run(async {
        let card = bench.opened().await;
        assert_eq!(card.fifo_window_bytes(), 64);
        let at =
            |offset_bytes| RegisterAddress { function: bench.card, bar: FIFO_BAR, offset_bytes };
        let mut pushed = Vec::new();
        for (mapping, sprayed) in [(Mapping::Uncached, false), (COMBINED, false), (COMBINED, true)]
        {
            for (place, byte) in (0..).zip(b"fabric") {
                let place = if sprayed { place } else { 0 };
                let stores = Stores { width_bytes: 1, mapping };
                bench.bus.store(at(place), &[*byte], stores).await.unwrap();
            }
            bench.bus.fence().await.unwrap();
            pushed.push(card.drain_fifo().await.unwrap());
        }
        assert_eq!(pushed, [&b"fabric"[..], b"c", b"fabric"]);
        let fifo = Contents::Fifo { decoded_bytes: 64 };
        let data = numbered(640);
        card.take_metrics().await.unwrap();
        let window = bench.window(FIFO_BAR, 64, COMBINED, fifo);
        window.push(&data).await.unwrap();
        window.flush().await.unwrap();
        assert_eq!(card.drain_fifo().await.unwrap(), data);
        let metrics = card.take_metrics().await.unwrap();
        assert_eq!((metrics.fifo_writes, metrics.fifo_bytes, metrics.fifo_lost), (10, 640, 0));
        assert!(window.push(&data[..63]).await.is_err());
        assert!(window.write(0, &data[..8]).await.is_err());
        // Uncached, into a FIFO that decodes one address of 4 B.
        let narrow = Contents::Fifo { decoded_bytes: 4 };
        let window = bench.window(FIFO_BAR, 64, Mapping::Uncached, narrow);
        window.push(&data[..30]).await.unwrap();
        assert_eq!(card.drain_fifo().await.unwrap(), data[..30]);
        let memory = bench.memory(64, COMBINED);
        fails(memory.push(&data).await, "f1 BAR4: it is not a FIFO");
    });
}

/// Messages of all lengths through a ring of seven slots, with lines that leave at any time in any
/// order, and TLPs that pass each other if allowed.
#[test]
fn messages_in_slots_survive_any_order() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        bench.simulation.with_fabric(|fabric| fabric.set_shuffle(true));
        let mapping = if seed % 4 == 0 { Mapping::Uncached } else { COMBINED };
        let bytes = 8 * SLOT_BYTES;
        let window = bench.memory(bytes, mapping);
        let messages: Vec<Vec<u8>> = (0..200_usize)
            .map(|number| {
                let length = (number * 13 + seed as usize) % (MAX_MESSAGE_BYTES + 1);
                (0..length).map(|at| (number * 31 + at) as u8).collect()
            })
            .collect();
        let options = WindowOptions::new(MEMORY_BAR, 0..bytes).with_contents(Contents::Memory);
        let options = options.with_mapping(Mapping::Uncached);
        let far = Window::open(bench.bus.on_core(1), bench.card, options);
        let mut sender = bench.run(async {
            bench.opened().await;
            SlotSender::new(window).await.unwrap()
        });
        assert_eq!(sender.slots(), 7);
        let mut receiver = SlotReceiver::new(far.unwrap()).unwrap();
        // A sender slower than the reader leaves parts of lines in the combining buffers.
        let (sent, idle) = (messages.clone(), Picoseconds::from_ns(seed % 3 * 15_000));
        let clock = bench.bus.clone();
        let pause = Picoseconds::from_ns(500);
        let deadline = Picoseconds::from_ns(100_000_000);
        let sending = bench.simulation.spawn("sender", async move {
            for message in &sent {
                sender.send(message, pause, deadline).await.unwrap();
                clock.sleep_until(clock.now() + idle).await;
            }
            sender.flush().await.unwrap();
        });
        let received = bench.run(async {
            let mut received = Vec::new();
            while received.len() < messages.len() {
                assert!(bench.bus.now() < deadline, "{} messages have come", received.len());
                match receiver.try_receive().await.unwrap() {
                    Some(message) => received.push(message),
                    None => bench.bus.sleep_until(bench.bus.now() + pause).await,
                }
            }
            received
        });
        assert_eq!(received, messages, "seed {seed}");
        drop(sending);
        bench.simulation.finish().unwrap();
    }
}

#[test]
fn slots_refuse_what_does_not_fit() {
    let bench = Bench::new(1);
    bench.run(async {
        bench.opened().await;
        assert!(SlotSender::new(bench.memory(64, COMBINED)).await.is_err());
        let mut sender = SlotSender::new(bench.memory(192, COMBINED)).await.unwrap();
        assert_eq!(sender.slots(), 2);
        assert!(sender.try_send(&[0; MAX_MESSAGE_BYTES + 1]).await.is_err());
        for expected in [true, true, false, false] {
            assert_eq!(sender.try_send(b"x").await.unwrap(), expected);
        }
        let now = bench.bus.now();
        let (pause, deadline) = (Picoseconds::from_ns(100), now + Picoseconds::from_ns(10_000));
        fails_with(sender.send(b"x", pause, deadline).await, "no slot was free until the deadline");
        assert!(SlotReceiver::new(bench.memory(192, COMBINED)).is_err());
    });
}
