// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory-mapped mode: data into and out of the card's memory, overlapped and in turn, and refusals
//! of the memory.

use crate::support;

use crosslane_device::{CardMemoryParameters, Copying};
use crosslane_regs::engine::{
    self, ChannelError, DescriptorSource, channel, global as global_regs,
};
use crosslane_regs::{ring_descriptor, status_block};
use support::*;

const CARD_BYTES: u64 = 1 << 20;

fn with_memory(copying: Copying) -> EngineParameters {
    let memory = CardMemoryParameters {
        memory_bytes: CARD_BYTES,
        axi_bytes: 32,
        axi_clock: ns(10),
        burst_beats: 16,
        read_ahead_bytes: 8192,
        read_latency: ns(100),
        write_latency: ns(60),
        copying,
        turnaround_clocks: 8,
        dram_channels: 1,
        dram_bus_bytes: 8,
        dram_clock: crosslane_pcie::units::Picoseconds(1250),
        dram_burst_transfers: 8,
        dram_row_bytes: 8192,
        dram_row_change: ns(28),
        dram_refresh_interval: ns(7800),
        dram_refresh: ns(110),
    };
    EngineParameters { card_memory: Some(memory), ..own() }
}

fn start(bench: &mut Bench, at: At) {
    bench.unmask(0, 0);
    bench.restart(at);
    bench.write(at, channel::RING_LOW, ring_of(at) as u32);
    bench.write(at, channel::RING_ENTRIES, 64);
    bench.write(at, channel::STATUS_LOW, status_of(at) as u32);
    let control = control(DescriptorSource::Ring) | channel::control::CARD_MEMORY.mask();
    bench.write(at, channel::CONTROL, control);
    assert_eq!(bench.read(at, channel::CONTROL), control);
}

fn put(bench: &mut Bench, at: At, number: u32, host: u64, card: u64, bytes: u32) {
    bench.put_ring(at, number, host, bytes, STATUS_WRITE);
    let entry = ring_of(at) + u64::from(number * ring_descriptor::BYTES);
    bench.poke(entry + u64::from(ring_descriptor::CARD_LOW), &card.to_le_bytes());
}

/// Starts a channel, and runs it over these pieces: host address, card address, bytes.
fn run(bench: &mut Bench, at: At, pieces: &[(u64, u64, u32)]) {
    start(bench, at);
    for (number, (host, card, bytes)) in (0..).zip(pieces) {
        put(bench, at, number, *host, *card, *bytes);
    }
    post(bench, at, pieces.len() as u32);
}

/// Rings a channel's doorbell and runs until nothing is left to do.
fn post(bench: &mut Bench, at: At, count: u32) {
    bench.write(at, channel::DOORBELL, count);
    bench.assert_quiet();
}

/// Moves host memory to the card by H2C and back to another address by C2H. Returns how long each
/// of the two moved data, ns.
fn there_and_back(copying: Copying, pieces: &[(u64, u64, u32)]) -> [u64; 2] {
    let mut bench = bench(&settings(), &[with_memory(copying)]);
    let sizes = bench.read(global(0), global_regs::SIZES);
    assert_eq!(global_regs::sizes::CARD_MEMORY.get(sizes), 1);
    for (number, (host, _, bytes)) in (0..).zip(pieces) {
        bench.poke(DATA + host, &pattern_from(number, 0, u64::from(*bytes)));
    }
    let took_ns = [(h2c(0), DATA), (c2h(0), 2 * DATA)].map(|(at, base)| {
        let placed = pieces.iter().map(|(host, card, bytes)| (base + host, *card, *bytes));
        run(&mut bench, at, &placed.collect::<Vec<_>>());
        let block = bench.status_block(at);
        let word = |offset: u32| block[offset as usize / 4];
        assert_eq!(word(status_block::COMPLETED), pieces.len() as u32);
        let bytes: u64 = pieces.iter().map(|(_, _, bytes)| u64::from(*bytes)).sum();
        assert_eq!(bench.read_wide(at, channel::BYTES_LOW), bytes);
        bench.clocks(at) * 4
    });
    for (number, (host, _, bytes)) in (0..).zip(pieces) {
        let back = bench.peek(2 * DATA + host, *bytes as usize);
        assert!(back == pattern_from(number, 0, u64::from(*bytes)), "piece {number}");
    }
    took_ns
}

#[test]
fn any_bytes_go_to_any_address_of_the_card_and_back() {
    let pieces = [
        (0, 0, 4096),
        (5001, 70_003, 1),
        (6002, 8191, 515),
        (7004, 300_001, 9000),
        (20_000, 4096, 64),
    ];
    for copying in [Copying::Overlapped, Copying::InTurn] {
        there_and_back(copying, &pieces);
    }
}

/// 64 KiB: overlapped transfers take the link's time; a copier in turn adds the memory's time and
/// the round trip of each burst of 512 B.
#[test]
fn a_copier_in_turn_adds_the_memorys_time_to_the_links() {
    let pieces = [(0, 0, 65_536)];
    let [read_ns, write_ns] = there_and_back(Copying::Overlapped, &pieces);
    // 256 B and 12 B of header at 8 B per 4 ns.
    let bus_ns = 256 * 34 * 4;
    assert!((bus_ns..bus_ns + 100).contains(&write_ns), "{write_ns}");
    assert!((65_536 / 2..65_536 / 2 + 5_000).contains(&read_ns), "{read_ns}");
    let [read_in_turn_ns, write_in_turn_ns] = there_and_back(Copying::InTurn, &pieces);
    // For each of 127 bursts: 100 ns, a burst of DRAM, 16 beats of 10 ns, twice 80 ns, an edge
    // each; plus a row opened per 8 KiB, and refreshes.
    let of_memory_ns = write_in_turn_ns - write_ns;
    let least_ns = 127 * (100 + 5 + 160 + 160);
    assert!(
        (least_ns..least_ns + 127 * 20 + 8 * 28 + 12 * 140).contains(&of_memory_ns),
        "{of_memory_ns}"
    );
    // For each burst: 16 beats, 60 ns, twice 80 ns, and the round trip of more than 400 ns.
    assert!(read_in_turn_ns > 127 * (256 + 160 + 60 + 160 + 400), "{read_in_turn_ns}");
}

#[test]
fn a_channel_stops_at_the_burst_that_the_memory_refuses() {
    let mut bench = bench(&settings(), &[with_memory(Copying::Overlapped)]);
    let at = h2c(0);
    run(&mut bench, at, &[(DATA, 0, 512), (DATA, CARD_BYTES - 1024, 4096)]);
    bench.assert_stopped(at, ChannelError::CardMemory);
    assert_eq!(bench.progress(at), (1, 1024, CARD_BYTES));
    // A restart clears it.
    run(&mut bench, at, &[(DATA, 0, 512)]);
    assert_eq!(bench.read(at, channel::COMPLETED), 1);

    let at = c2h(0);
    run(&mut bench, at, &[(DATA, CARD_BYTES - 1024, 4096)]);
    bench.assert_stopped(at, ChannelError::CardMemory);
    assert_eq!(bench.read(at, channel::STOPPED_AT), 1024);
    assert_eq!(bench.read_wide(at, channel::ERROR_LOW), DATA + 1024);
}

/// Posts a C2H descriptor that copies within the card's memory.
fn put_copy(bench: &mut Bench, number: u32, from: u64, to: u64, bytes: u32) {
    let at = c2h(0);
    put(bench, at, number, to, from, bytes);
    let control = STATUS_WRITE | ring_descriptor::control::TO_CARD.mask();
    let entry = ring_of(at) + u64::from(number * ring_descriptor::BYTES);
    bench.poke(entry + u64::from(ring_descriptor::CONTROL), &control.to_le_bytes());
}

/// Copies pieces within the card's memory, between descriptors for the host, and reads them back.
/// Returns how long the first copy took, ns.
fn copied(copying: Copying, pieces: &[(u64, u64, u32)]) -> u64 {
    let mut bench = bench(&settings(), &[with_memory(copying)]);
    let sizes = bench.read(global(0), global_regs::SIZES);
    assert_eq!(global_regs::sizes::CARD_COPY.get(sizes), 1);
    start(&mut bench, h2c(0));
    for (number, (from, _, bytes)) in (0..).zip(pieces) {
        let host = DATA + u64::from(number) * 0x2_0000;
        bench.poke(host, &pattern_from(number, 0, u64::from(*bytes)));
        put(&mut bench, h2c(0), number, host, *from, *bytes);
    }
    post(&mut bench, h2c(0), pieces.len() as u32);

    let at = c2h(0);
    start(&mut bench, at);
    put_copy(&mut bench, 0, pieces[0].0, pieces[0].1, pieces[0].2);
    post(&mut bench, at, 1);
    let took_ns = bench.clocks(at) * 4;
    assert_eq!(bench.read(at, channel::TLPS), 0);

    // The other copies all at once, followed by the descriptors that read everything back.
    for (number, (from, to, bytes)) in (0..).zip(pieces).skip(1) {
        put_copy(&mut bench, number, *from, *to, *bytes);
    }
    post(&mut bench, at, pieces.len() as u32);
    for (number, (_, to, bytes)) in (0..).zip(pieces) {
        let host = 2 * DATA + u64::from(number) * 0x2_0000;
        put(&mut bench, at, pieces.len() as u32 + number, host, *to, *bytes);
    }
    post(&mut bench, at, 2 * pieces.len() as u32);
    assert_eq!(bench.read(at, channel::COMPLETED), 2 * pieces.len() as u32);
    let bytes: u64 = pieces.iter().map(|(_, _, bytes)| 2 * u64::from(*bytes)).sum();
    assert_eq!(bench.read_wide(at, channel::BYTES_LOW), bytes);
    for (number, (_, _, bytes)) in (0..).zip(pieces) {
        let back = bench.peek(2 * DATA + u64::from(number) * 0x2_0000, *bytes as usize);
        assert!(back == pattern_from(number, 0, u64::from(*bytes)), "{copying:?}, piece {number}");
    }
    took_ns
}

#[test]
fn bytes_are_copied_within_the_card_at_the_rate_of_the_stream() {
    let pieces = [
        (0, 199_680, 65_536),
        (65_600, 300_001, 1),
        (66_001, 8191 + 300_000, 515),
        (70_003, 400_000, 9000),
        (90_000, 500_003, 4096),
    ];
    let took_ns = copied(Copying::Overlapped, &pieces);
    // 8 B per 4 ns, plus the latency of the first burst's read and of the last one's write.
    assert!((32_768..32_768 + 1_000).contains(&took_ns), "{took_ns}");
    let in_turn_ns = copied(Copying::InTurn, &pieces);
    // For each of 128 bursts, in sequence: a row opened, read, turnaround, stream, turnaround,
    // write, turnaround, and an edge or two.
    let of_burst_ns = 28 + 100 + 5 + 160 + 80 + 256 + 80 + 160 + 60 + 80;
    assert!(
        (127 * of_burst_ns..128 * (of_burst_ns + 20)).contains(&in_turn_ns),
        "{in_turn_ns}: {} of each",
        in_turn_ns / 128
    );
}

/// A descriptor for the host does not overtake a copy before it.
#[test]
fn descriptors_complete_in_order_whether_or_not_they_copy() {
    let mut bench = bench(&settings(), &[with_memory(Copying::Overlapped)]);
    let at = c2h(0);
    start(&mut bench, at);
    put_copy(&mut bench, 0, 0, 65_536, 30_000);
    put(&mut bench, at, 1, DATA, 0, 4);
    put_copy(&mut bench, 2, 0, 65_536, 100);
    bench.write(at, channel::DOORBELL, 3);
    // The first copy takes 15 us.
    bench.run(Some(ns(10_000)));
    assert_eq!(bench.read(at, channel::COMPLETED), 0);
    let moved = bench.read(at, channel::STOPPED_AT);
    assert!((10_000..25_000).contains(&moved), "{moved}");
    bench.assert_quiet();
    assert_eq!(bench.read(at, channel::COMPLETED), 3);
}

#[test]
fn a_copy_stops_at_what_the_memory_refuses() {
    for (from, to) in [(CARD_BYTES - 1024, 0), (0, CARD_BYTES - 1024)] {
        let mut bench = bench(&settings(), &[with_memory(Copying::Overlapped)]);
        let at = c2h(0);
        start(&mut bench, at);
        put_copy(&mut bench, 0, 4096, 8192, 512);
        put_copy(&mut bench, 1, from, to, 4096);
        post(&mut bench, at, 2);
        bench.assert_stopped(at, ChannelError::CardMemory);
        assert_eq!(bench.progress(at), (1, 1024, to + 1024));
    }
    // Only C2H in memory mode copies.
    let mut bench = bench(&settings(), &[with_memory(Copying::Overlapped)]);
    let at = c2h(0);
    start(&mut bench, at);
    bench.write(at, channel::CONTROL, control(DescriptorSource::Ring));
    put_copy(&mut bench, 0, 0, 4096, 512);
    post(&mut bench, at, 1);
    bench.assert_stopped(at, ChannelError::BadDescriptor);
}

#[test]
fn a_fault_of_the_bus_takes_effect_when_all_before_it_is_in_the_memory() {
    let mut bench = bench(&settings(), &[with_memory(Copying::Overlapped)]);
    let at = h2c(0);
    start(&mut bench, at);
    let end = settings().memory_bytes;
    put(&mut bench, at, 0, end - 1024, 100, 2048);
    bench.write(at, channel::DOORBELL, 1);
    bench.run(None);
    bench.assert_stopped(at, ChannelError::UnsupportedRequest);
    assert_eq!(bench.read(at, channel::STOPPED_AT), 1024);
    assert_eq!(bench.read_wide(at, channel::ERROR_LOW), end);
}

#[test]
fn an_engine_without_it_has_no_memory_mode() {
    let mut bench = bench(&settings(), &[own()]);
    assert_eq!(bench.read(global(0), global_regs::SIZES) >> 31, 0);
    bench.write(h2c(0), channel::CONTROL, channel::control::CARD_MEMORY.mask());
    assert_eq!(bench.read(h2c(0), channel::CONTROL), 0);
    bench.write(At(0, engine::H2C.at(0)), channel::CONTROL, 0);
}
