// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pushed descriptors: what a whole line does, what is dropped, and the order among the ring's.

use crosslane_device::{EngineParameters, PUSH_BAR};
use crosslane_pcie::config::registers;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::channel::{self, control};
use crosslane_regs::engine::global::{self as global_regs, SIZES, sizes};
use crosslane_regs::engine::{ChannelError, ChannelState, DescriptorSource, StreamSource};
use crosslane_regs::push_line;

use crate::support::*;

const INLINE: u32 = push_line::control::INLINE.mask();
/// Bytes of data in a line.
const ROOM: u32 = push_line::DATA.bytes;

fn push_bench() -> Bench {
    let mut bench = bench(&settings(), &[EngineParameters { push: true, ..own() }]);
    bench.route(0, StreamSource::Generator, StreamSource::Generator, 0);
    bench
}

/// Number of a channel's line.
fn line_of(at: At) -> u64 {
    u64::from((at.1 - h2c(0).1) / 0x100)
}

/// A line: the descriptor of number `posted` less one.
fn line(posted: u32, address: u64, bytes: u32, bits: u32, data: &[u8]) -> Vec<u8> {
    let mut line = vec![0; push_line::BYTES as usize];
    for (offset, word) in [
        (push_line::POSTED, posted),
        (push_line::CONTROL, bits | push_line::control::BYTES.put(bytes)),
        (push_line::ADDRESS_LOW, address as u32),
        (push_line::ADDRESS_HIGH, (address >> 32) as u32),
    ] {
        line[offset as usize..offset as usize + 4].copy_from_slice(&word.to_le_bytes());
    }
    let from = push_line::DATA.base as usize;
    line[from..from + data.len()].copy_from_slice(data);
    line
}

/// Writes bytes into the aperture, in stores of 64 B where they are aligned.
fn store(bench: &mut Bench, offset: u64, bytes: &[u8]) {
    let port = bench.port_of(0);
    let base = bench.fabric.port(port).config.bar(PUSH_BAR).unwrap().base.0;
    let address = BusAddress(base + offset);
    bench.fabric.host_store(bench.root, 0, address, bytes, 64, 7).unwrap();
    bench.wait_stored(7);
}

fn push(bench: &mut Bench, at: At, line: &[u8]) {
    store(bench, line_of(at) * u64::from(push_line::BYTES), line);
}

/// Counters of a channel: descriptors pushed, fetched, complete, and lines dropped.
fn counts(bench: &mut Bench, at: At) -> [u32; 4] {
    [channel::PUSHED, channel::FETCHED, channel::COMPLETED, channel::PUSHES_DROPPED]
        .map(|register| bench.read(at, register))
}

#[test]
fn pushed_descriptors_need_no_fetch() {
    let mut bench = push_bench();
    assert_eq!(sizes::PUSH.get(bench.read(global(0), SIZES)), 1);
    for at in [h2c(0), c2h(0), peer(0)] {
        bench.start_ring(at, 16);
    }
    bench.unmask(0, 0);
    bench.check_h2c(3);
    bench.poke_pattern(DATA, 3, 0, 5000);
    push(&mut bench, h2c(0), &line(1, DATA, 5000, STATUS_WRITE | INTERRUPT, &[]));
    push(&mut bench, c2h(0), &line(1, DATA + 8192, 300, STATUS_WRITE, &[]));
    push(&mut bench, peer(0), &line(1, DATA + 16_384, 64, STATUS_WRITE, &[]));
    bench.run(None);
    for at in [h2c(0), c2h(0), peer(0)] {
        assert_eq!(counts(&mut bench, at), [1, 0, 1, 0], "{at:?}");
        assert_eq!(bench.status_block(at)[1], 1, "{at:?}");
        assert_eq!(bench.read(at, channel::DOORBELL), 1, "{at:?}");
    }
    assert_eq!((bench.checker_errors(), bench.read_wide(h2c(0), channel::BYTES_LOW)), (0, 5000));
    assert_eq!(bench.interrupts, [0]);
    assert_eq!(bench.peek(DATA + 8192, 300), pattern_from(0, 0, 300));
    assert_eq!(bench.peek(DATA + 16_384, 64), pattern_from(0, 0, 64));
    bench.assert_quiet();
}

#[test]
fn inline_data_enter_the_stream_without_a_read() {
    let mut bench = push_bench();
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    bench.start_ring(h2c(0), 16);
    bench.start_ring(c2h(0), 16);
    let sent = pattern(9, 0, 96);
    bench.put_ring(c2h(0), 0, DATA, 60, STATUS_WRITE);
    bench.write(c2h(0), channel::DOORBELL, 1);
    push(&mut bench, h2c(0), &line(1, 0, ROOM, INLINE | STATUS_WRITE, &sent[..48]));
    push(&mut bench, h2c(0), &line(2, 0, 12, INLINE | STATUS_WRITE, &sent[48..60]));
    bench.run(None);
    assert_eq!(bench.peek(DATA, 60), sent[..60]);
    assert_eq!(counts(&mut bench, h2c(0)), [2, 0, 2, 0]);
    assert_eq!(bench.read(h2c(0), channel::TLPS), 0);
    assert_eq!(bench.read_wide(h2c(0), channel::BYTES_LOW), 60);
    assert_eq!(bench.read(c2h(0), channel::COMPLETED), 1);
    bench.assert_quiet();
}

#[test]
fn lines_that_are_not_next_are_dropped_and_counted() {
    let good = line(1, DATA, 64, STATUS_WRITE, &[]);
    let at = line_of(c2h(0)) * 64;
    let cases: [(&str, u64, Vec<u8>); 6] = [
        ("the first half", at, good[..32].to_vec()),
        ("a word", at, good[..4].to_vec()),
        ("the last word", at + 60, good[60..].to_vec()),
        ("the number before", at, line(0, DATA, 64, STATUS_WRITE, &[])),
        ("the number behind", at, line(2, DATA, 64, STATUS_WRITE, &[])),
        ("not a word", at, good[..3].to_vec()),
    ];
    for (case, offset, bytes) in cases {
        let mut bench = push_bench();
        bench.start_ring(c2h(0), 16);
        bench.put_ring(c2h(0), 0, DATA, 64, STATUS_WRITE);
        store(&mut bench, offset, &bytes);
        let [pushed, fetched, completed, dropped] = counts(&mut bench, c2h(0));
        assert_eq!([pushed, fetched, completed], [0; 3], "{case}");
        assert!(dropped > 0, "{case}");
        assert_eq!(bench.read(c2h(0), channel::DOORBELL), 0, "{case}");
        // The ring has the descriptor too, and the doorbell still posts it.
        bench.write(c2h(0), channel::DOORBELL, 1);
        bench.run(None);
        assert_eq!(counts(&mut bench, c2h(0)), [0, 1, 1, dropped], "{case}");
        assert_eq!(counts(&mut bench, h2c(0)), [0; 4], "{case}");
        let reset = global_regs::control::RESET_COUNTERS.mask();
        bench.write(global(0), global_regs::CONTROL, reset);
        assert_eq!(bench.read(c2h(0), channel::PUSHES_DROPPED), 0, "{case}");
        bench.assert_quiet();
    }
}

#[test]
fn channels_that_take_no_lines_drop_them() {
    let good = line(1, DATA, 64, STATUS_WRITE, &[]);
    for case in ["off", "table", "stopped", "no channel", "behind the lines"] {
        let mut bench = push_bench();
        match case {
            "off" => {}
            "table" => bench.start(h2c(0), DescriptorSource::Table),
            "stopped" => {
                bench.put_ring(h2c(0), 0, DATA, 0, 0);
                bench.post_ring(h2c(0), 16, 1);
                bench.wait_stopped(h2c(0));
            }
            _ => bench.start_ring(h2c(0), 16),
        }
        match case {
            "no channel" => store(&mut bench, 64, &good),
            "behind the lines" => store(&mut bench, 12 * 64, &good),
            "stopped" => push(&mut bench, h2c(0), &line(2, DATA, 64, STATUS_WRITE, &[])),
            _ => push(&mut bench, h2c(0), &good),
        }
        let is_counted = !matches!(case, "no channel" | "behind the lines");
        let fetched = u32::from(case == "stopped");
        assert_eq!(counts(&mut bench, h2c(0)), [0, fetched, 0, is_counted.into()], "{case}");
        bench.run(None);
        bench.assert_quiet();
    }
}

#[test]
fn bad_lines_stop_their_channel_alone() {
    let cases = [
        ("no bytes", h2c(0), 0, 0),
        ("no bytes inline", h2c(0), 0, INLINE),
        ("too long inline", h2c(0), ROOM + 1, INLINE),
        ("inline to the host", c2h(0), 8, INLINE),
        ("inline to a peer", peer(0), 8, INLINE),
    ];
    for (case, at, bytes, bits) in cases {
        let mut bench = push_bench();
        for at in [h2c(0), c2h(0), peer(0)] {
            bench.start_ring(at, 16);
        }
        push(&mut bench, at, &line(1, DATA + 64, 64, STATUS_WRITE, &[]));
        push(&mut bench, at, &line(2, DATA, bytes, bits, &[]));
        let other = if at.1 == h2c(0).1 { c2h(0) } else { h2c(0) };
        push(&mut bench, other, &line(1, DATA + 128, 64, STATUS_WRITE, &[]));
        bench.run(None);
        assert_eq!(bench.state(at), (ChannelState::Stopped, ChannelError::BadDescriptor), "{case}");
        assert_eq!(bench.progress(at), (1, 0, DATA), "{case}");
        assert_eq!(counts(&mut bench, other), [1, 0, 1, 0], "{case}");
        // Nothing is left of it behind a restart.
        bench.restart(at);
        bench.start_ring(at, 16);
        push(&mut bench, at, &line(1, DATA + 64, 64, STATUS_WRITE, &[]));
        bench.run(None);
        assert_eq!(bench.read(at, channel::COMPLETED), 1, "{case}");
        bench.assert_quiet();
    }
}

#[test]
fn a_line_behind_ring_descriptors_is_a_doorbell() {
    let mut bench = push_bench();
    bench.start_ring(h2c(0), 16);
    bench.check_h2c(5);
    bench.poke_pattern(DATA, 5, 0, 4096);
    bench.put_rings(h2c(0), 4, (DATA, 1024), 1024, STATUS_WRITE);
    bench.write(h2c(0), channel::DOORBELL, 3);
    // Of this line only the number counts: the ring says what the descriptor is.
    push(&mut bench, h2c(0), &line(4, 0, 8, INLINE, &[0xee; 8]));
    bench.run(None);
    assert_eq!(counts(&mut bench, h2c(0)), [0, 4, 4, 0]);
    assert_eq!((bench.checker_errors(), bench.read_wide(h2c(0), channel::BYTES_LOW)), (0, 4096));
    // Behind those that were taken up it is the next, and its data wait for theirs.
    bench.put_ring(h2c(0), 4, DATA, 1024, STATUS_WRITE);
    bench.check_h2c(5);
    bench.write(h2c(0), channel::DOORBELL, 5);
    while bench.read(h2c(0), channel::FETCHED) < 5 {}
    push(&mut bench, h2c(0), &line(6, 0, 8, INLINE, &pattern(5, 256, 8)));
    bench.run(None);
    assert_eq!(counts(&mut bench, h2c(0)), [1, 5, 6, 0]);
    assert_eq!(bench.checker_errors(), 0);
    bench.assert_quiet();
}

#[test]
fn a_line_beyond_the_ring_is_a_bad_doorbell() {
    let mut bench = push_bench();
    bench.start_ring(c2h(0), 8);
    push(&mut bench, c2h(0), &line(1, DATA, 64, STATUS_WRITE, &[]));
    bench.run(None);
    bench.assert_stopped(c2h(0), ChannelError::BadDescriptor);
    assert_eq!(counts(&mut bench, c2h(0)), [0; 4]);
}

#[test]
fn a_waiting_line_is_forgotten_by_a_restart() {
    let small = EngineParameters { push: true, staging_bytes: 2048, ..own() };
    let mut bench = bench(&settings(), &[small]);
    // Nothing takes the stream: its staging memory is full, and the line waits.
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    bench.start_ring(h2c(0), 16);
    bench.put_ring(h2c(0), 0, DATA, 1536, 0);
    bench.write(h2c(0), channel::DOORBELL, 1);
    bench.run(None);
    push(&mut bench, h2c(0), &line(2, 0, 8, INLINE, &[1; 8]));
    bench.run(None);
    assert_eq!(counts(&mut bench, h2c(0)), [1, 1, 1, 0]);
    bench.restart(h2c(0));
    bench.start_ring(h2c(0), 16);
    bench.start_ring(c2h(0), 16);
    push(&mut bench, h2c(0), &line(1, 0, 8, INLINE, &[2; 8]));
    push(&mut bench, c2h(0), &line(1, DATA, 8, 0, &[]));
    bench.run(None);
    assert_eq!(bench.peek(DATA, 8), [2; 8]);
    assert_eq!(bench.read(h2c(0), channel::COMPLETED), 1);
    bench.assert_quiet();
}

/// The descriptor is in force a clock's latency after the line, as one of a table.
#[test]
fn a_pushed_read_begins_as_one_of_a_table() {
    let first = |is_pushed: bool| {
        let parameters = EngineParameters { push: true, request_latency_clocks: 11, ..own() };
        let mut bench = bench(&settings(), &[parameters]);
        let since = if is_pushed {
            bench.start_ring(h2c(0), 16);
            bench.run(None);
            let begun = bench.fabric.now();
            push(&mut bench, h2c(0), &line(1, DATA, 64, 0, &[]));
            begun
        } else {
            bench.start(h2c(0), DescriptorSource::Table);
            bench.put_table(h2c(0), 0, DATA, 64, 0);
            bench.run(None);
            let begun = bench.fabric.now();
            bench.write(h2c(0), channel::DOORBELL, 1);
            begun
        };
        bench.run(None);
        let first_ps = bench.read_wide(h2c(0), channel::FIRST_LOW) * 4_000;
        first_ps - since.0
    };
    let (pushed, table) = (first(true), first(false));
    // The line is 60 B longer on the wire, 30 ns at 2 B/ns.
    assert!(pushed.abs_diff(table + 30_000) <= 4_000, "{pushed} {table}");
}

/// An engine that cannot send anything takes no pushed descriptor either.
#[test]
fn pushes_without_bus_mastering_stop_the_channel() {
    let mut bench = push_bench();
    bench.start_ring(h2c(0), 16);
    bench.set_function(0, registers::COMMAND_MEMORY_SPACE);
    push(&mut bench, h2c(0), &line(1, 0, 8, INLINE, &[1; 8]));
    bench.run(None);
    bench.assert_stopped(h2c(0), ChannelError::NotBusMaster);
    assert_eq!(control::RUN.get(bench.read(h2c(0), channel::CONTROL)), 1);
}
