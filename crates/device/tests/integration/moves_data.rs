// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data between host memory and the card: rings and tables, order, rates, status and interrupts.

use crate::support;

use crosslane_device::UNLIMITED_COMPLETIONS;
use crosslane_fabric::parameters::Parameters;
use crosslane_fabric::*;
use crosslane_regs::engine::{
    self, ChannelError, ChannelState, DescriptorSource, StreamSource, channel, user as user_regs,
};
use crosslane_regs::status_block;
use support::*;

fn word(block: &[u32], offset: u32) -> u32 {
    block[offset as usize / 4]
}

/// A driver's first look at an engine.
#[test]
fn an_engine_says_what_it_is() {
    let mut bench = bench(&settings(), &[own()]);
    let global_at = global(0);
    assert_eq!(bench.read(global_at, engine::global::ID), engine::global::ID_RESET);
    let counts = bench.read(global_at, engine::global::COUNTS);
    assert_eq!(counts, engine::global::COUNTS_RESET);
    assert_eq!(bench.read(global_at, engine::global::LANE_WINDOW), BAR1_BYTES as u32 / 8);
    assert_eq!(bench.read(global_at, engine::global::CLOCK), 4000);
    let in_force = bench.read(global_at, engine::global::IN_FORCE);
    assert_eq!(in_force, 512 << 16 | 256);
    let before = bench.fabric.now();
    let clocks = bench.read_wide(global_at, engine::global::TIME_LOW);
    assert!((before.0 / 4000..bench.fabric.now().0 / 4000).contains(&clocks), "{clocks}");
    bench.assert_quiet();
}

/// Sixteen pages go from the generator to host memory through the ring; the status block follows
/// the last byte, and the interrupt follows the block.
#[test]
fn c2h_ring_writes_the_pattern_with_status_and_interrupt_behind_it() {
    let mut bench = bench(&settings(), &[own()]);
    let at = c2h(0);
    bench.write(user(0), user_regs::GENERATOR_SEED, 77);
    bench.unmask(0, 3);
    bench.write(at, channel::VECTOR, 3);
    bench.start_ring(at, 16);
    for number in 0..16 {
        let bits = if number == 15 { INTERRUPT | STATUS_WRITE } else { 0 };
        bench.put_ring(at, number, DATA + u64::from(number) * 4096, 4096, bits);
    }
    bench.write(at, channel::DOORBELL, 16);
    bench.wait_interrupt();
    // The handler sees the status and all of the data.
    let block = bench.status_block(at);
    assert_eq!(word(&block, status_block::COMPLETED), 16);
    assert_eq!(word(&block, status_block::SEQUENCE), 1);
    assert_eq!(bench.peek(DATA, 65536), pattern(77, 0, 65536));
    assert_eq!(bench.interrupts, [3]);
    assert_eq!(bench.read(at, channel::COMPLETED), 16);
    assert_eq!(bench.read(at, channel::FETCHED), 16);
    assert_eq!(bench.read(at, channel::TLPS), 256);
    assert_eq!(bench.read_wide(at, channel::BYTES_LOW), 65536);
    assert_eq!(bench.state(at), (ChannelState::Running, ChannelError::None));
    bench.assert_quiet();
}

/// Descriptors of odd sizes and addresses in the tables of both directions at once, with H2C closed
/// on C2H: completions come in any order and any cut, yet every byte reaches its address.
#[test]
fn h2c_goes_round_into_c2h() {
    const COUNT: u32 = 24;
    for seed in 0..100 {
        let mut settings = settings();
        settings.seed = seed;
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut parameters = own();
        parameters.tags = [1, 2, 7, 64][random.usize(..4)];
        parameters.reading_descriptors = [1, 3, 64][random.usize(..3)];
        parameters.header_on_datapath = random.bool();
        parameters.stream_latency_clocks = [0, 9][random.usize(..2)];
        parameters.request_latency_clocks = [0, 7][random.usize(..2)];
        parameters.max_read_bytes = [128, 512, 4096][random.usize(..3)];
        let least = parameters.max_read_bytes + parameters.max_write_bytes;
        parameters.staging_bytes = [least.next_power_of_two(), 65536][random.usize(..2)];
        // A receive buffer of the least size, or of any.
        parameters.completion_header_credits = [1, UNLIMITED_COMPLETIONS][random.usize(..2)];
        parameters.completion_data_credits = [1, 300, UNLIMITED_COMPLETIONS][random.usize(..3)];
        parameters.fit();
        // Shuffled completions of a long read may have to wait for each other.
        parameters.completion_timeout = ns(10_000_000);
        settings.max_read_request = [128, 512, 4096][random.usize(..3)];
        settings.completer.read_jitter = ns(1000);
        let mut bench = bench(&settings, &[parameters]);
        bench.fabric.set_shuffle(true);
        bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
        let mut total = 0;
        let target = DATA + 0x80_0000 + random.u64(0..4096);
        for number in 0..COUNT {
            let bytes = random.u32(1..12_000);
            // Sources are apart, targets side by side.
            let from = DATA + u64::from(number) * 0x4000 + random.u64(0..4000);
            bench.poke(from, &pattern_from(5, total, u64::from(bytes)));
            bench.put_table(h2c(0), number, from, bytes, STATUS_WRITE);
            bench.put_table(c2h(0), number, target + total, bytes, STATUS_WRITE);
            total += u64::from(bytes);
        }
        bench.start(h2c(0), DescriptorSource::Table);
        bench.post_table(c2h(0), COUNT);
        bench.write(h2c(0), channel::DOORBELL, COUNT);
        assert_eq!(bench.run(None), RunEnd::Quiet, "seed {seed}");
        let back = bench.peek(target, total as usize);
        let right = pattern_from(5, 0, total);
        let wrong = back.iter().zip(&right).position(|(got, expected)| got != expected);
        assert_eq!(wrong, None, "seed {seed}, {parameters:?}");
        for at in [h2c(0), c2h(0)] {
            assert_eq!(word(&bench.status_block(at), status_block::COMPLETED), COUNT);
            assert_eq!(bench.read(at, channel::COMPLETED), COUNT);
            assert_eq!(bench.read_wide(at, channel::BYTES_LOW), total);
        }
        bench.assert_quiet();
    }
}

/// A host that sees a status block sees all the data that it reports, even with relaxed ordering of
/// the data, shuffling links, and memory that drains slowly.
#[test]
fn status_is_never_ahead_of_data() {
    const COUNT: u32 = 64;
    for seed in 0..100 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut settings = settings();
        settings.seed = seed;
        settings.completer.write_latency = ns(random.u64(0..500));
        settings.completer.write_bytes_per_second = [f64::INFINITY, 1.5e9][random.usize(..2)];
        let mut bench = bench(&settings, &[own()]);
        bench.fabric.set_shuffle(true);
        let at = c2h(0);
        let mut ends = vec![0_u64];
        for number in 0..COUNT {
            let bytes = random.u32(1..2400);
            let bits = if number + 1 == COUNT || random.bool() { STATUS_WRITE } else { 0 };
            bench.put_ring(at, number, DATA + ends[number as usize], bytes, bits);
            ends.push(ends[number as usize] + u64::from(bytes));
        }
        bench.start_ring(at, COUNT);
        let bits = control(DescriptorSource::Ring) | channel::control::RELAXED_ORDERING.mask();
        bench.write(at, channel::CONTROL, bits);
        let status = status_of(at);
        bench.fabric.host_watch(bench.root, status..status + 32, 7);
        bench.write(at, channel::DOORBELL, COUNT);
        let (mut seen, mut sequence) = (0, 0);
        while seen < COUNT {
            bench.wait_change(7);
            bench.fabric.host_watch(bench.root, status..status + 32, 7);
            let block = bench.status_block(at);
            assert!(word(&block, status_block::SEQUENCE) > sequence, "seed {seed}");
            sequence = word(&block, status_block::SEQUENCE);
            seen = word(&block, status_block::COMPLETED);
            let bytes = ends[seen as usize];
            assert!(bench.peek(DATA, bytes as usize) == pattern_from(0, 0, bytes), "seed {seed}");
        }
        bench.assert_quiet();
    }
}

/// Idle clocks are exact: first no data, then data of the other direction.
#[test]
fn idle_clocks_are_counted_by_reason() {
    let mut bench = bench(&settings(), &[own()]);
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    bench.put_table(c2h(0), 0, DATA, 4096, 0);
    bench.put_table(h2c(0), 0, DATA + 8192, 4096, 0);
    bench.start(c2h(0), DescriptorSource::Table);
    bench.start(h2c(0), DescriptorSource::Table);
    // Ring a doorbell, read a counter, ring another: arrivals are exactly 10 us apart.
    bench.write(global(0), engine::global::CONTROL, 1);
    let reset = bench.fabric.now();
    bench.run(Some(ns(10_000)));
    bench.wait_until(reset + ns(10_000));
    bench.write(c2h(0), channel::DOORBELL, 1);
    bench.wait_until(reset + ns(30_000));
    bench.write(h2c(0), channel::DOORBELL, 1);
    bench.wait_until(reset + ns(50_000));
    assert_eq!(bench.read(c2h(0), channel::COMPLETED), 1);
    // The core takes 10 ns per store, and a store takes 13 ns to the engine, each time.
    let none = bench.read(h2c(0), channel::IDLE_NO_DESCRIPTOR);
    let data = bench.read(c2h(0), channel::IDLE_NO_DATA);
    // 20 us, plus the time to the last 256 B: a read of 20 B, 400 ns of memory, 16 x 276 B, 2 ns of
    // flight, each sent at once; and one doorbell's latency less the other's.
    let expected = (20_000 + 10 + 400 + 16 * 138 + 2) / 4;
    assert!(data.abs_diff(expected) <= 20, "{data} clocks, not {expected}");
    let until_read = 50_000 / 4;
    assert!(none.abs_diff(until_read) < 100, "{none} clocks, not {until_read}");
    for offset in [channel::IDLE_NO_TAG, channel::IDLE_NO_DATA, channel::IDLE_NO_CREDIT] {
        assert_eq!(bench.read(h2c(0), offset), 0);
    }
    assert_eq!(bench.read(c2h(0), channel::IDLE_LINK), 0);
    bench.assert_quiet();
}
