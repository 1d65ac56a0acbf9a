// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random stores, loads and fences of a host at a memory card, uncached and combined, with and
//! without shuffle: after a fence the memory has the last stored values, and the counters have
//! every write and read.
//!
//! `cargo test` tries some hundred random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use crate::support;

use crosslane_device::{MemoryCard, MemoryCardParameters};
use crosslane_fabric::parameters::CombiningParameters;
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Identity};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::memory_card as map;
use support::fabric_support::{Stand, direct_device};
use support::*;

/// Random inputs of the target in a plain run of the tests.
const ITERATIONS: usize = 300;
/// Bytes of each of the two banks.
const BANK_BYTES: u64 = 4096;

/// Random numbers that define one access: kind, place, length, value.
type Access = (u8, u16, u8, u8);

struct Host {
    stand: Stand,
    /// Base addresses of BARs 0, 2 and 4.
    bars: [u64; 3],
    events: Vec<HostEvent>,
}

impl Host {
    fn new(seed: u64, buffers: u16) -> Self {
        let mut settings = settings();
        settings.seed = seed;
        settings.cpu.combining =
            Some(CombiningParameters { buffers, store: ns(2), fence: ns(5), streaming_loads: 0 });
        let card = MemoryCard::new(MemoryCardParameters {
            banks: 2,
            bank_bytes: BANK_BYTES,
            beat_bytes: 64,
            write_interval: ns(30),
            beat: ns(4),
            read_latency: ns(100),
            fifo_window_bytes: 64,
            fifo_bytes: 100,
        });
        let bar = |size_bytes| {
            Some(BarRequest { kind: BarKind::Memory32 { prefetchable: true }, size_bytes })
        };
        let sizes = [4096, 4096, 4 * BANK_BYTES];
        let bars = [bar(sizes[0]), None, bar(sizes[1]), None, bar(sizes[2]), None];
        let mut stand = direct_device(&settings, Identity::default(), bars, Box::new(card));
        stand.fabric.set_shuffle(seed % 2 == 1);
        let port = stand.fabric.node(stand.endpoints[0]).ports[0];
        let config = &stand.fabric.port(port).config;
        let bars = [0, 2, 4].map(|number| config.bar(number).unwrap().base.0);
        Self { stand, bars, events: Vec::new() }
    }

    /// Runs all accesses and returns the values of the loads, in order.
    fn run(&mut self) -> Vec<u64> {
        let fabric = &mut self.stand.fabric;
        while fabric.run_until_host_event() {
            fabric.take_host_events(&mut self.events);
        }
        assert_eq!(fabric.check_quiet(), Vec::<String>::new());
        let loaded = self.events.drain(..).filter_map(|event| match event {
            HostEvent::Loaded { result, .. } => Some(result.unwrap()),
            _ => None,
        });
        loaded.collect()
    }

    fn register(&mut self, offset: u32) -> u32 {
        let address = BusAddress(self.bars[0] + u64::from(offset));
        self.stand.fabric.host_load(self.stand.root, 0, address, 4, 0).unwrap();
        self.run()[0] as u32
    }

    fn store(&mut self, address: u64, bytes: &[u8], width_bytes: u32, region: Region) {
        let run = StoreRun { address: BusAddress(address), width_bytes, region };
        self.stand.fabric.host_store_into(self.stand.root, 0, run, bytes, 1).unwrap();
    }
}

fn throw(seed: u64, buffers: u16, accesses: &[Access]) {
    let mut host = Host::new(seed, buffers % 7 + 1);
    let memory = host.bars[2];
    let mut expected = vec![0_u8; 2 * BANK_BYTES as usize];
    let mut read_bytes = 0_u64;
    for &(kind, place, length, value) in accesses {
        let offset = usize::from(place) % expected.len();
        let length = usize::from(length).min(expected.len() - offset);
        let region = if kind & 1 == 0 { Region::Uncached } else { Region::WriteCombined };
        match kind >> 1 & 7 {
            0..=4 => {
                let data: Vec<u8> = (0..length).map(|at| value.wrapping_add(at as u8)).collect();
                let width = 1 << (kind >> 4 & 7).min(6);
                host.store(memory + offset as u64, &data, width, region);
                expected[offset..offset + length].copy_from_slice(&data);
            }
            5 => host.stand.fabric.host_fence(host.stand.root, 0, 2).unwrap(),
            6 => {
                let address = BusAddress(memory + (offset as u64 & !7));
                let fabric = &mut host.stand.fabric;
                fabric.host_load_from(host.stand.root, 0, address, 8, region, 3).unwrap();
                read_bytes += 8;
                let found = host.run();
                if region == Region::Uncached {
                    let from = offset & !7;
                    let want = u64::from_le_bytes(expected[from..from + 8].try_into().unwrap());
                    assert_eq!(found, [want]);
                }
            }
            // Stores anywhere near the FIFO must be counted even where they are lost.
            _ => host.store(host.bars[1] + u64::from(place % 4000), &[value; 9], 8, region),
        }
    }
    host.stand.fabric.host_fence(host.stand.root, 0, 2).unwrap();
    host.run();
    let mut found = vec![0; expected.len()];
    assert!(host.stand.fabric.peek(HOST, BusAddress(memory), &mut found));
    assert!(found == expected, "memory is not what was stored last");
    host.store(host.bars[0] + u64::from(map::CONTROL), &[1, 0, 0, 0], 4, Region::Uncached);
    let mut reads = 0;
    for class in 0..map::SIZE_CLASSES.count {
        reads += host.register(map::SIZE_CLASSES.at(class) + map::size_class::READS);
    }
    assert_eq!(u64::from(reads) * 8, read_bytes);
    let [pushed, level] = [map::FIFO_BYTES, map::FIFO_LEVEL].map(|at| host.register(at));
    assert_eq!(pushed, level);
    assert!(level <= 100);
    let errors: Vec<String> = host.stand.fabric.errors().iter().map(ToString::to_string).collect();
    assert_eq!(errors, Vec::<String>::new());
    assert!(host.stand.fabric.now() < Picoseconds::from_ns(1_000_000_000));
}

#[test]
fn fuzz_any_stores_at_a_memory_card() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_type::<(u64, u16, Vec<Access>)>()
        .for_each(|(seed, buffers, accesses)| throw(*seed, *buffers, accesses));
}

/// Runs many accesses, since bolero's random inputs are short.
#[test]
fn many_stores_at_a_memory_card() {
    for seed in 0..20 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let accesses: Vec<Access> = (0..400)
            .map(|_| (random.u8(..), random.u16(..), random.u8(..), random.u8(..)))
            .collect();
        throw(seed, random.u16(..), &accesses);
    }
}
