// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A verilated circuit on the fabric: data come out complete, in order and on time, and the circuit
//! is clocked no more than necessary.
#![cfg(feature = "stand-in")]

use crosslane_cosim::{Card, ClockCounts, CosimError};
use crosslane_fabric::parameters::{LinkParameters, RootComplexParameters};
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Identity, registers};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use fabric_support::{Settings, ns, rate};

use crate::fabric_support;

const HOST: HostId = HostId(0);
const BAR0_BYTES: u64 = 1 << 16;
const CLOCK: Picoseconds = Picoseconds(4000);

/// Block types of an FST file.
const HEADER_BLOCK: u8 = 0;
const VALUE_BLOCKS: [u8; 3] = [1, 5, 8];
const GEOMETRY_BLOCK: u8 = 3;

struct Bench {
    fabric: Fabric,
    root: NodeId,
    node: NodeId,
    bar: u64,
}

fn bench(settings: &Settings) -> Bench {
    let mut builder = FabricBuilder::new(settings.seed);
    let parameters = RootComplexParameters {
        memory_bytes: settings.memory_bytes,
        completer: settings.completer,
        peer_to_peer: settings.peer_to_peer,
        cache: None,
        cuts_peers: settings.cuts_peers,
        peer_reads: None,
        iommu: None,
        cpu: settings.cpu,
        sockets: None,
    };
    let (id, port) = (Identity::default(), settings.port.clone());
    let root = builder.root_complex("host", HOST, parameters);
    let top = builder.root_port(root, "rp0", id, port.clone());
    let bar =
        BarRequest { kind: BarKind::Memory32 { prefetchable: false }, size_bytes: BAR0_BYTES };
    let bars = [Some(bar), None, None, None, None, None];
    let device = Box::new(Card::stand_in().expect("the feature builds it"));
    let (node, lower) = builder.endpoint_with_device("card", id, bars, None, port, device);
    let link = LinkParameters { rate: settings.rate, ..settings.link };
    builder.link("slot", top, lower, link);
    let mut fabric = builder.build().unwrap();
    let base = MMIO_HOLE.start;
    let bridge = fabric.routing_id(top);
    let range = (base >> 16) as u32 & 0xfff0 | base as u32 & 0xfff0_0000;
    fabric.config_write(HOST, bridge, registers::PRIMARY_BUS, 1 << 16 | 1 << 8, 0xf);
    fabric.config_write(HOST, bridge, registers::MEMORY_BASE_LIMIT, range, 0xf);
    fabric.config_write(HOST, bridge, registers::COMMAND, 0b110, 0b0011);
    let card = fabric.routing_id(lower);
    fabric.config_write(HOST, card, registers::BAR0, base as u32, 0xf);
    fabric.config_write(HOST, card, registers::COMMAND, 0b110, 0b0011);
    Bench { fabric, root, node, bar: base }
}

impl Bench {
    fn wait<T>(&mut self, mut is_it: impl FnMut(&HostEvent) -> Option<T>) -> T {
        let mut events = Vec::new();
        loop {
            assert!(self.fabric.run_until_host_event(), "the fabric has run dry");
            events.clear();
            self.fabric.take_host_events(&mut events);
            if let Some(found) = events.iter().find_map(&mut is_it) {
                return found;
            }
        }
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let address = BusAddress(self.bar + offset);
        self.fabric.host_store(self.root, 0, address, bytes, 4, 1).unwrap();
        self.wait(|event| (*event == HostEvent::Stored { token: 1 }).then_some(()));
    }

    fn load(&mut self, offset: u64) -> u32 {
        let address = BusAddress(self.bar + offset);
        self.fabric.host_load(self.root, 0, address, 4, 2).unwrap();
        self.wait(|event| match event {
            HostEvent::Loaded { token: 2, result } => Some(result.clone().unwrap() as u32),
            _ => None,
        })
    }

    fn sleep(&mut self, span: Picoseconds) {
        let until = self.fabric.now() + span;
        self.fabric.host_timer(until, 3);
        self.wait(|event| (*event == HostEvent::Timer { token: 3 }).then_some(()));
    }

    fn clocks(&mut self) -> ClockCounts {
        self.fabric.device_as::<Card>(self.node).unwrap().clocks()
    }
}

fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(2, 4), 256);
    settings.link.flight = ns(1);
    settings
}

#[test]
fn what_is_written_comes_back_whole_and_in_order() {
    let mut bench = bench(&settings());
    let mut random = crosslane_random::Random::with_seed(1);
    for round in 0..200_u64 {
        let bytes: Vec<u8> = (0..4 * random.usize(1..64)).map(|_| random.u8(..)).collect();
        let offset = random.u64(0..(BAR0_BYTES - 256) / 4) * 4;
        bench.store(offset, &bytes);
        assert_eq!(bench.fabric.run(None), RunEnd::Quiet);
        let mut back = vec![0; bytes.len()];
        // The circuit writes it at 16 MiB plus the low bits of the address.
        let place = BusAddress(1 << 24 | (bench.bar + offset) & 0xff_ffff);
        assert!(bench.fabric.peek(HOST, place, &mut back));
        assert_eq!(back, bytes, "round {round}");
    }
    assert_eq!(bench.fabric.errors(), &[]);
    assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
}

/// Engine time equals simulated time even across many skipped clocks.
#[test]
fn time_is_kept_over_clocks_that_are_not_run() {
    let mut bench = bench(&settings());
    for span in [ns(0), ns(1), ns(333), ns(40_000), ns(5_000_000)] {
        bench.sleep(span);
        let before = bench.fabric.now().0 / CLOCK.0;
        let seen = u64::from(bench.load(0));
        let after = bench.fabric.now().0 / CLOCK.0;
        assert!((before..=after).contains(&seen), "{seen} is not in {before}..={after}");
    }
    let clocks = bench.clocks();
    assert!(clocks.run < 1000, "{clocks:?}");
    assert!(clocks.passed > 1_250_000, "{clocks:?}");
}

/// A TLP is sampled at the edge after its arrival and leaves at the end of the clock that sends it.
#[test]
fn an_answer_takes_the_clocks_of_the_circuit() {
    let mut bench = bench(&settings());
    let mut seen = std::collections::BTreeSet::new();
    for step in 0..40 {
        bench.sleep(Picoseconds(100_000 + step * 100));
        let begun = bench.fabric.now();
        bench.load(0);
        seen.insert((bench.fabric.now() - begun).0);
    }
    let (least, most) = (*seen.first().unwrap(), *seen.last().unwrap());
    // Edges are one clock apart, so the wait for one is at most a clock.
    assert!(most - least > CLOCK.0 / 2 && most - least <= CLOCK.0, "{least} to {most} ps");
}

#[test]
fn traces_are_written_where_they_are_built() {
    let mut bench = bench(&settings());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand_in.fst");
    let card = bench.fabric.device_as::<Card>(bench.node).unwrap();
    let traced = card.trace_to(&file);
    if !cfg!(feature = "trace") {
        assert_eq!(traced, Err(CosimError::NoTrace));
        return;
    }
    traced.unwrap();
    bench.sleep(ns(1_000));
    let begun_ps = bench.fabric.now().0;
    bench.load(0);
    drop(bench);
    // An FST file is a sequence of blocks, each with a type byte and a length; the first is a
    // header with begin and end times.
    let trace = std::fs::read(&file).unwrap();
    let number = |at: usize| u64::from_be_bytes(trace[at..at + 8].try_into().unwrap());
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < trace.len() {
        blocks.push(trace[at]);
        at += 1 + number(at + 1) as usize;
    }
    assert_eq!((at, blocks[0]), (trace.len(), HEADER_BLOCK));
    assert!(VALUE_BLOCKS.iter().any(|kind| blocks.contains(kind)), "{blocks:?}");
    assert!(blocks.contains(&GEOMETRY_BLOCK), "{blocks:?}");
    let (end_ps, variables) = (number(17), number(49));
    assert!((begun_ps..begun_ps + 2_000_000).contains(&end_ps), "{end_ps} of {begun_ps}");
    assert!(variables > 10, "{variables}");
}
