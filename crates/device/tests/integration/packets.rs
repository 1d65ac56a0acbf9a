// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet mode: what a descriptor's place says afterwards, and what is refused.

use crosslane_device::EngineParameters;
use crosslane_regs::engine::channel::{self, control};
use crosslane_regs::engine::{ChannelError, DescriptorSource, StreamSource};
use crosslane_regs::ring_descriptor::{self, record};

use crate::support::*;

const END: u32 = ring_descriptor::control::END_OF_PACKET.mask();

fn packets_bench() -> Bench {
    let mut bench = bench(&settings(), &[EngineParameters { packets: true, ..own() }]);
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    bench
}

/// Starts a channel in packet mode.
fn start(bench: &mut Bench, at: At, source: DescriptorSource) {
    bench.start_ring(at, 16);
    bench.restart(at);
    let bits = crate::support::control(source) | control::PACKETS.mask();
    bench.write(at, channel::CONTROL, bits);
}

/// The words of a descriptor's record.
fn record_of(bench: &mut Bench, number: u32) -> [u32; 2] {
    let place = ring_of(c2h(0)) + u64::from(number * ring_descriptor::BYTES);
    let words = bench.peek_words(place + u64::from(ring_descriptor::WRITTEN), 2);
    [words[0], words[1]]
}

#[test]
fn records_tell_lengths_ends_and_users() {
    let mut bench = packets_bench();
    for at in [h2c(0), c2h(0)] {
        start(&mut bench, at, DescriptorSource::Ring);
    }
    bench.poke_pattern(DATA, 5, 0, 4096);
    bench.put_ring(h2c(0), 0, DATA, 10, END | ring_descriptor::control::USER.put(0xbeef));
    // A packet of two descriptors, longer than a place.
    bench.put_ring(h2c(0), 1, DATA + 10, 500, 0);
    bench.put_ring(h2c(0), 2, DATA + 510, 200, END);
    bench.put_rings(c2h(0), 4, (DATA + 8192, 1024), 600, 0);
    bench.write(c2h(0), channel::DOORBELL, 4);
    bench.write(h2c(0), channel::DOORBELL, 3);
    bench.run(None);
    let (begins, ends) = (record::BEGINS.mask(), record::ENDS.mask());
    let done = record::DONE.mask();
    assert_eq!(record_of(&mut bench, 0), [10, done | begins | ends | 0xbeef << 16]);
    assert_eq!(record_of(&mut bench, 1), [600, done | begins]);
    assert_eq!(record_of(&mut bench, 2), [100, done | ends]);
    assert_eq!(record_of(&mut bench, 3), [0, 0]);
    assert_eq!(bench.peek(DATA + 8192 + 1024, 600), pattern_from(5, 10, 600));
    assert_eq!(bench.read(c2h(0), channel::COMPLETED), 3);
    assert_eq!([c2h(0), h2c(0)].map(|at| bench.read(at, channel::PACKETS)), [2, 2]);
    assert_eq!(bench.read_wide(c2h(0), channel::BYTES_LOW), 710);
    bench.assert_quiet();
}

#[test]
fn bad_descriptors_of_packets_stop_one_channel() {
    for case in ["a mark in C2H", "no bytes", "a table"] {
        let mut bench = packets_bench();
        let source =
            if case == "a table" { DescriptorSource::Table } else { DescriptorSource::Ring };
        start(&mut bench, c2h(0), source);
        start(&mut bench, h2c(0), DescriptorSource::Ring);
        match case {
            "a mark in C2H" => bench.put_ring(c2h(0), 0, DATA, 64, END),
            "no bytes" => bench.put_ring(c2h(0), 0, DATA, 0, 0),
            _ => bench.put_table(c2h(0), 0, DATA, 64, 0),
        }
        bench.put_ring(h2c(0), 0, DATA + 4096, 64, END);
        bench.write(c2h(0), channel::DOORBELL, 1);
        bench.write(h2c(0), channel::DOORBELL, 1);
        bench.run(None);
        bench.assert_stopped(c2h(0), ChannelError::BadDescriptor);
        assert_eq!(bench.read(h2c(0), channel::COMPLETED), 1, "{case}");
        assert_eq!(record_of(&mut bench, 0)[1], 0, "{case}");
    }
}

/// An engine without packets keeps the bits clear and ignores the marks.
#[test]
fn an_engine_without_packets_has_no_packet_mode() {
    let mut bench = bench(&settings(), &[own()]);
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    for at in [h2c(0), c2h(0)] {
        start(&mut bench, at, DescriptorSource::Ring);
        assert_eq!(control::PACKETS.get(bench.read(at, channel::CONTROL)), 0);
    }
    bench.put_ring(h2c(0), 0, DATA, 64, END);
    bench.put_ring(c2h(0), 0, DATA + 4096, 64, 0);
    bench.write(c2h(0), channel::DOORBELL, 1);
    bench.write(h2c(0), channel::DOORBELL, 1);
    bench.run(None);
    assert_eq!(bench.read(c2h(0), channel::COMPLETED), 1);
    assert_eq!(record_of(&mut bench, 0), [0, 0]);
}
