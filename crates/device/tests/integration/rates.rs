// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of the engine: exact clocks where it is the limit, the link's ceiling where that is.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::config::registers;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::engine::{self, DescriptorSource, channel, lane};
use support::{fabric_support::express, *};

/// Device Control: payloads of 128 B, reads of 512 B.
const READS_OF_512: u32 = 2 << 12;

/// Settings with this largest payload, bytes, at every port.
fn settings_of(max_payload: u16) -> Settings {
    let mut settings = settings();
    settings.max_payload = max_payload;
    settings.port.capability.max_payload_bytes = max_payload;
    settings
}

/// Posts `count` contiguous transfers of `bytes` in a ring and runs them to their end.
fn stream(bench: &mut Bench, at: At, address: u64, count: u32, bytes: u32, bits: u32) {
    let entries = count.next_power_of_two().max(16);
    bench.put_rings(at, count, (address, bytes.into()), bytes, bits);
    bench.post_ring(at, entries, count);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.read(at, channel::COMPLETED), count);
}

/// The rosta paper's engine: one idle clock after each TLP. 3 DW and 128 B are 18 clocks of 8 B.
#[test]
fn an_idle_clock_makes_19_clocks_for_128_bytes_and_35_for_256() {
    for (max_payload, each) in [(128, 19), (256, 35)] {
        let settings = settings_of(max_payload);
        let parameters = EngineParameters { idle_clocks_per_tlp: 1, ..own() };
        let mut bench = bench(&settings, &[parameters; 2]);
        bench.enable_lane(lane_of(1, 0), lane::control::CHECK.mask());
        let target = bench.bars[1][1];
        stream(&mut bench, peer(0), target, 1, 65536, 0);
        let tlps = 65536 / u64::from(max_payload);
        assert_eq!(u64::from(bench.read(peer(0), channel::TLPS)), tlps);
        assert_eq!(bench.clocks(peer(0)), (tlps - 1) * each + each - 1);
        // They arrive at the same intervals.
        let lane_at = lane_of(1, 0);
        let last = bench.read_wide(lane_at, lane::LAST_LOW);
        let first = bench.read_wide(lane_at, lane::FIRST_LOW);
        assert!((last - first).abs_diff((tlps - 1) * each) <= 1, "rounded twice");
        assert_eq!(bench.read(lane_at, lane::RECEIVED), 65536);
        assert_eq!(bench.read(lane_at, lane::CHECK_ERRORS), 0);
        bench.assert_quiet();
    }
}

/// A gap of 65 clocks follows each page.
#[test]
fn a_gap_follows_each_descriptor() {
    let settings = settings_of(128);
    let parameters = EngineParameters { idle_clocks_per_tlp: 1, descriptor_gap: ns(260), ..own() };
    let mut bench = bench(&settings, &[parameters]);
    let at = c2h(0);
    for number in 0..8 {
        bench.put_table(at, number, DATA + u64::from(number) * 4096, 4096, 0);
    }
    bench.start(at, DescriptorSource::Table);
    bench.write(global(0), engine::global::CONTROL, 1);
    bench.write(at, channel::DOORBELL, 8);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.clocks(at), 8 * 32 * 19 - 1 + 7 * 65);
    assert_eq!(bench.read(at, channel::IDLE_GAP), 8 * 65);
    assert_eq!(bench.read(at, channel::IDLE_NO_DATA), 0);
    bench.assert_quiet();
}

/// Without idle clocks the link is the limit. It carries 4 MB by pages, with ring fetches
/// meanwhile, and is idle only before the last status block.
#[test]
fn c2h_fills_the_link() {
    for max_payload in [128_u16, 256] {
        let settings = settings_of(max_payload);
        let mut bench = bench(&settings, &[own()]);
        let at = c2h(0);
        bench.put_rings(at, 1024, (DATA, 4096), 4096, 0);
        bench.post_ring(at, 1024, 1024);
        assert_eq!(bench.run(None), RunEnd::Quiet);
        let rate = bench.rate(at, 1 << 22);
        // 20 B of header and framing for each TLP; a fetch of 16 descriptors is 20 B, and each of
        // its completions causes an Ack of 8 B.
        let payload = f64::from(max_payload);
        let dllps = 64.0 * (20.0 + 8.0 * 512.0 / payload);
        let wire = f64::from(1 << 22) * (payload + 20.0) / payload + dllps;
        let ceiling = 2e9 * f64::from(1 << 22) / wire;
        assert!(rate > ceiling * 0.999 && rate < ceiling * 1.001, "{rate} {ceiling}");
        assert_eq!(bench.peek(DATA, 1 << 22), pattern(0, 0, 1 << 22));
        bench.assert_quiet();
    }
}

/// Reads with 64 tags of up to 1 KiB fill the link with completions.
#[test]
fn h2c_fills_the_link() {
    let mut settings = settings();
    settings.max_read_request = 1024;
    let mut bench = bench(&settings, &[own()]);
    let at = h2c(0);
    bench.poke_pattern(DATA, 9, 0, 1 << 20);
    bench.check_h2c(9);
    stream(&mut bench, at, DATA, 256, 4096, 0);
    assert_eq!(bench.checker_errors(), 0);
    let (rate, ceiling) = (bench.rate(at, 1 << 20), 2e9 * 256.0 / 276.0);
    // Less the first latency, Acks and fetched descriptors.
    assert!(rate > ceiling * 0.96 && rate < ceiling, "{rate} {ceiling}");
    bench.assert_quiet();
}

/// One descriptor at a time, as in the rosta paper's engine: each page waits for the one before.
#[test]
fn one_descriptor_at_a_time_pays_the_latency_of_each() {
    let mut settings = settings();
    settings.max_read_request = 4096;
    settings.completer.read_latency = ns(1000);
    let parameters = EngineParameters { max_read_bytes: 4096, reading_descriptors: 1, ..own() };
    let mut one = bench(&settings, &[parameters]);
    stream(&mut one, h2c(0), DATA, 16, 4096, STATUS_WRITE);
    let each = one.clocks(h2c(0)) * 4 / 16;
    // 1000 ns of memory, 16 completions of 276 B, a request of 20 B, 2 ns of flight, and before the
    // request the status block of the previous page, 52 B.
    let expected = 1000 + 16 * 138 + 10 + 2 + 26;
    assert!((expected..expected + 8).contains(&each), "{each} ns, not {expected}");
    one.assert_quiet();
}

/// With a full ring, descriptors are fetched ahead and only cost the other direction 32 B each.
#[test]
fn small_transfers_do_not_wait_for_their_descriptors() {
    for (bytes, bits, least) in [(512_u32, 0, 0.98), (4096, 0, 0.99), (4096, STATUS_WRITE, 0.97)] {
        let mut bench = bench(&settings(), &[own()]);
        stream(&mut bench, c2h(0), DATA, 256, bytes, bits);
        let (rate, ceiling) = (bench.rate(c2h(0), 256 * bytes), 2e9 * 256.0 / 276.0);
        assert!(rate > ceiling * least, "{bytes}: {} of the ceiling", rate / ceiling);
        bench.assert_quiet();
    }
}

/// A port set to 128 B refuses payloads of 256 B and is named in the error.
#[test]
fn an_oversize_payload_is_found_where_it_is_one() {
    let mut settings = settings();
    settings.max_payload = 256;
    let mut bench = bench(&settings, &[own(); 2]);
    let port = bench.port_of(0);
    let id = bench.fabric.routing_id(port);
    let offset = express(&bench.fabric, port) + registers::DEVICE_CONTROL;
    // Only the sender is set to 128.
    bench.fabric.config_write(HOST, id, offset, READS_OF_512, 0b0011);
    assert_eq!(bench.read(global(0), engine::global::IN_FORCE), 512 << 16 | 128);
    bench.enable_lane(lane_of(1, 0), 0);
    let target = bench.bars[1][1];
    stream(&mut bench, peer(0), target, 1, 4096, 0);
    assert_eq!(bench.read(peer(0), channel::TLPS), 32);
    // Now only the receiver.
    let receiver = bench.port_of(1);
    let receiver_id = bench.fabric.routing_id(receiver);
    bench.fabric.config_write(HOST, receiver_id, offset, READS_OF_512, 0b0011);
    let bits = control(DescriptorSource::Ring) | channel::control::OVERSIZE.mask();
    bench.write(peer(0), channel::CONTROL, bits);
    bench.put_ring(peer(0), 1, target, 512, 0);
    bench.write(peer(0), channel::DOORBELL, 2);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    let errors = bench.fabric.errors();
    assert_eq!(errors.len(), 2, "two TLPs of 256 B");
    for error in errors {
        assert_eq!(error.port_name, "ep1");
        assert!(matches!(error.kind, ErrorKind::PayloadTooLarge { payload_bytes: 256, .. }));
    }
    assert_eq!(bench.read(lane_of(1, 0), lane::RECEIVED), 4096);
}

/// Reads without credits do not block writes: the host takes two reads at a time, slowly, and the
/// writes still fill the link.
#[test]
fn writes_do_not_wait_for_reads() {
    let mut settings = settings();
    settings.port.receive_credits[1] = Credits { header: 2, data: 2 };
    settings.completer.read_slots = 1;
    settings.completer.read_latency = ns(3_000);
    let parameters = EngineParameters { completion_timeout: ns(10_000_000), ..own() };
    let mut bench = bench(&settings, &[parameters]);
    for number in 0..64 {
        let place = u64::from(number) * 4096;
        bench.put_table(h2c(0), number, DATA + 0x10_0000 + place, 4096, 0);
        bench.put_table(c2h(0), number, DATA + place, 4096, 0);
    }
    bench.start(h2c(0), DescriptorSource::Table);
    bench.start(c2h(0), DescriptorSource::Table);
    bench.write(h2c(0), channel::DOORBELL, 64);
    bench.wait_until(bench.fabric.now() + ns(20_000));
    bench.write(c2h(0), channel::DOORBELL, 64);
    bench.wait_until(bench.fabric.now() + ns(200_000));
    assert_eq!(bench.read(c2h(0), channel::COMPLETED), 64);
    assert!(bench.read(h2c(0), channel::COMPLETED) < 64, "reads are slow");
    let (rate, ceiling) = (bench.rate(c2h(0), 64 * 4096), 2e9 * 256.0 / 276.0);
    assert!(rate > ceiling * 0.99, "{rate} of {ceiling}");
    assert!(bench.read(h2c(0), channel::IDLE_LINK) > 10_000);
}

/// Reads get their turn even with two channels that write at link rate.
#[test]
fn reads_have_their_turn_beside_writes() {
    let mut settings = settings();
    settings.port.transmit_latency = ns(236);
    let mut bench = bench(&settings, &[own(); 2]);
    bench.enable_lane(lane_of(1, 0), 0);
    let target = bench.bars[1][1];
    let channels = [(h2c(0), DATA), (c2h(0), DATA + 0x10_0000), (peer(0), target)];
    for (at, address) in channels {
        bench.put_rings(at, 16, (address, 0x4000), 0x4000, 0);
        // Equal lengths, so that only turns count.
        bench.write(at, channel::PAYLOAD, 128);
        bench.post_ring(at, 16, 16);
    }
    let mut count = |span: Picoseconds| {
        bench.wait_until(bench.fabric.now() + span);
        channels.map(|(at, _)| bench.read(at, channel::TLPS))
    };
    let (before, after) = (count(ns(20_000)), count(ns(80_000)));
    let [reads, c2h, peer] = [0, 1, 2].map(|n| after[n] - before[n]);
    let is_fair = [c2h, peer].iter().all(|writes| reads.abs_diff(*writes) <= reads / 50);
    assert!(is_fair, "{reads} reads, {c2h} and {peer} writes");
}
