// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random TLPs sent to a working engine: it never panics, never sends more than its link can carry,
//! and sends only valid TLPs.
//!
//! `cargo test` tries some hundred random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use crate::support;

use crosslane_device::Engine;
use crosslane_fabric::*;
use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, RoutingId, Tag};
use crosslane_regs::engine::{self, StreamSource};
use support::script::Thrower;
use support::*;

/// Random inputs of the target in a plain run of the tests.
const ITERATIONS: usize = 1_000;
/// Most TLPs of one input.
const MAX_TLPS: usize = 200;

/// Random numbers that define one TLP: kind, place, length, bits, word.
type Thrown = (u8, u16, u16, u8, u32);

/// Makes a TLP of random numbers, mostly near something that the engine has.
fn tlp(&(kind, place, length, bits, word): &Thrown, bars: [u64; 2], id: RoutingId) -> Header {
    let register = match bits & 3 {
        // Registers of channels and receive queues, tables, any other register.
        0 => engine::H2C.base + u32::from(place) % 0x1400,
        1 => u32::from(place) % 0x2100,
        2 => engine::H2C_TABLE.base + u32::from(place) % 0x8000,
        _ => u32::from(place),
    };
    let address = match kind % 8 {
        0..=3 => bars[0] + u64::from(register & !3),
        4 => bars[1] + u64::from(place) * 16 + u64::from(bits & 3),
        _ => bars[0] + u64::from(place),
    };
    // Limited to 256 B of whole DWs and to a 4 KiB page.
    let room = (4096 - address % 4096).min(253);
    let bytes = match kind & 8 {
        0 => (4_u64).min(room),
        _ => u64::from(length) % room + 1,
    } as u32;
    let requester = RoutingId(0);
    match kind % 8 {
        6 => Header::memory_read(requester, Tag(length), BusAddress(address), bytes),
        7 => {
            let mut header = Header::memory_read(id, Tag(place % 80), BusAddress(0), 256);
            header = Header::completion_data(
                &header,
                requester,
                BusAddress(u64::from(word) & 0x7c),
                bytes.min(256),
                u32::from(length) % 4096 + 1,
            );
            if bits & 0x30 == 0x30 {
                header.status = [
                    CompletionStatus::Successful,
                    CompletionStatus::UnsupportedRequest,
                    CompletionStatus::CompleterAbort,
                    CompletionStatus::ConfigurationRetry,
                ][usize::from(bits >> 6)];
                header.kind = TlpKind::Completion;
                header.length_dw = 0;
            }
            header.poisoned = bits & 0xc == 0xc;
            header
        }
        _ => {
            let mut header = Header::memory_write(requester, BusAddress(address), bytes);
            header.poisoned = bits == 0xff;
            header
        }
    }
}

/// Runs an engine in both directions while a device throws TLPs at it.
fn throw(seed: u64, apart_ps: u64, thrown: &[Thrown]) {
    let mut settings = settings();
    settings.seed = seed;
    let mut parameters = own();
    parameters.tags = 8;
    parameters.completion_timeout = ns(20_000);
    parameters.lane_fifo_bytes = 256;
    parameters.h2c_channels = 2;
    parameters.c2h_channels = 2;
    parameters.peer_channels = 2;
    let first = MMIO_HOLE.start;
    let bars = [first, first + BAR1_BYTES];
    // Bus 3 is that of the first engine behind the switch.
    let id = RoutingId::new(3, 0, 0);
    let word = |thrown: &Thrown| thrown.4.to_le_bytes().to_vec();
    let tlps =
        thrown.iter().take(MAX_TLPS).map(|thrown| (tlp(thrown, bars, id), word(thrown))).collect();
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Engine::new(parameters)), Box::new(Thrower { tlps, apart_ps })];
    let mut bench = bench_of(&settings, devices);
    assert_eq!(bench.bars[0], bars);
    assert_eq!(bench.fabric.routing_id(bench.port_of(0)), id);
    bench.fabric.set_shuffle(seed % 2 == 1);
    bench.route(0, StreamSource::H2c, StreamSource::Lane, 0);
    for at in [h2c(0), c2h(0), peer(0)] {
        for number in 0..16 {
            let place = DATA + u64::from(number) * 8192 + u64::from(at.1) * 4096;
            bench.put_ring(at, number, place, 8192, STATUS_WRITE | INTERRUPT);
        }
        bench.post_ring(at, 16, 16);
    }
    bench.enable_lane(lane_of(0, 0), 0);
    bench.enable_lane(lane_of(0, 1), engine::lane::control::CHECK.mask());
    bench.store(bench.bars[1][1], &[0; 4]);
    bench.run(Some(ns(200_000)));
    // A channel told to move 4 GB continues, no faster than its link.
    let up = bench.direction(0, LinkDirection::Up);
    let before = bench.fabric.counters(up);
    bench.run(Some(ns(10_000)));
    let sent = bench.fabric.counters(up).since(&before);
    assert!(sent.wire_bytes() <= 20_000 + 4096, "{sent:?}");
    for error in bench.fabric.errors() {
        // TLPs of the engine are well formed, whatever their target.
        assert!(!matches!(error.kind, ErrorKind::Ordering { .. }), "{error}");
        assert!(!matches!(error.kind, ErrorKind::WrongData { .. }), "{error}");
    }
}

#[test]
fn fuzz_any_tlps_at_an_engine() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_type::<(u64, u16, Vec<Thrown>)>()
        .for_each(|(seed, apart, thrown)| throw(*seed, u64::from(*apart) * 16, thrown));
}

/// Runs many TLPs, since bolero's random inputs are short.
#[test]
fn fuzz_many_tlps_at_an_engine() {
    for seed in 0..300 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let thrown: Vec<Thrown> = (0..MAX_TLPS)
            .map(|_| {
                let word = match random.u8(..4) {
                    0 => random.u32(..),
                    1 => 1 << random.u32(..32),
                    2 => random.u32(..64),
                    _ => DATA as u32,
                };
                (random.u8(..), random.u16(..), random.u16(..), random.u8(..), word)
            })
            .collect();
        throw(seed, random.u64(0..200_000), &thrown);
    }
}
