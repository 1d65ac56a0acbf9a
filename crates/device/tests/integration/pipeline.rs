// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Internals of an engine, exact to the byte and the clock: staging memory, tags on the wire,
//! headers beside the datapath, and pipeline lengths.

use crate::support::{self, fabric_support::log};

use crosslane_fabric::*;
use crosslane_pcie::tlp::TlpKind;
use crosslane_regs::engine::{
    ChannelState, DescriptorSource, StreamSource, channel, lane, user as user_regs,
};
use support::*;

/// Data that have arrived are in the stream, taken or not: tags become free and descriptors
/// complete as far as the staging memory reaches, and not a byte further.
#[test]
fn reads_reserve_their_place_until_the_data_are_taken() {
    let mut parameters = own();
    (parameters.tags, parameters.staging_bytes, parameters.max_read_bytes) = (2, 4096, 512);
    let mut bench = bench(&settings(), &[parameters]);
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    // 1,000 B each: four and part of the fifth would fit, but a read waits for room for 512 B.
    for number in 0..8 {
        bench.put_table(h2c(0), number, DATA + u64::from(number) * 0x1000, 1000, 0);
    }
    bench.poke(DATA, &[7; 0x8000]);
    bench.post_table(h2c(0), 8);
    let look = |bench: &mut Bench| {
        let until = bench.fabric.now() + ns(20_000);
        bench.wait_until(until);
        let node = bench.nodes[0];
        let tags = bench.fabric.device_as::<crosslane_device::Engine>(node).unwrap().tags_in_use();
        (bench.read(h2c(0), channel::COMPLETED), tags)
    };
    assert_eq!(look(&mut bench), (4, 0));
    let waited = bench.read(h2c(0), channel::IDLE_NO_TAG);
    assert!(waited > 8_000 / 4, "{waited}");
    // After 511 B, 4,096 - 3,489 = 607 B are free; after 928 B, 1,024 B.
    let reads = |bench: &mut Bench| bench.read(h2c(0), channel::TLPS);
    let before = reads(&mut bench);
    for (number, bytes) in [511, 417].into_iter().enumerate() {
        bench.put_table(c2h(0), number as u32, DATA + 0x10_0001, bytes, 0);
    }
    bench.post_table(c2h(0), 1);
    // The fifth is split at a multiple of 512, into 512 and 488 B.
    let state = look(&mut bench);
    assert_eq!((state, reads(&mut bench) - before), ((4, 0), 1));
    bench.write(c2h(0), channel::DOORBELL, 2);
    let state = look(&mut bench);
    assert_eq!((state, reads(&mut bench) - before), ((5, 0), 2));
    assert_eq!(bench.state(h2c(0)).0, ChannelState::Running);
}

/// Descriptor tags come first; one round of all tags takes a power of two of wire numbers.
#[test]
fn tags_on_the_wire() {
    let mut bench = bench(&settings(), &[own()]);
    let log = log::Log::of(&mut bench.fabric);
    for number in 0..96 {
        bench.put_ring(h2c(0), number, DATA + u64::from(number) * 0x1000 + 1, 3, 0);
    }
    bench.post_ring(h2c(0), 128, 96);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    let sent = log.tlps(bench.direction(0, LinkDirection::Up));
    let reads = sent.iter().filter(|tlp| tlp.header.kind == TlpKind::MemoryRead);
    let (fetches, data): (Vec<_>, Vec<_>) =
        reads.map(|tlp| tlp.header).partition(|header| header.request_bytes() > 3);
    let tags = |headers: &[crosslane_pcie::tlp::Header]| -> Vec<u16> {
        headers.iter().map(|header| header.tag.0).collect()
    };
    assert_eq!(data.iter().map(|header| header.first_byte_enables).max(), Some(0b1110));
    // 12 for the descriptors of three channels plus 64 are 76, out of 128 numbers.
    let fetches = tags(&fetches);
    assert!(fetches.iter().all(|tag| tag % 128 < 4), "{fetches:?}");
    assert!(fetches.len() > 4 && fetches.contains(&128), "{fetches:?}");
    let expected: Vec<u16> = (12..76).chain((12..44).map(|tag| tag + 128)).collect();
    assert_eq!(tags(&data), expected);
    bench.assert_quiet();
}

/// A peer channel keeps sending while up to 64 descriptors wait for credit.
#[test]
fn no_more_than_64_descriptors_wait_for_credit() {
    let mut bench = bench(&settings(), &[own(); 2]);
    bench.enable_lane(lane_of(1, 0), 0);
    let target = bench.bars[1][1];
    for number in 0..100 {
        bench.put_ring(peer(0), number, target, 8, AWAIT_CREDIT);
    }
    bench.post_ring(peer(0), 128, 100);
    bench.run(Some(ns(20_000)));
    assert_eq!(bench.read(lane_of(1, 0), lane::RECEIVED), 64 * 8);
    bench.write(peer(0), channel::CREDIT, 10 * 8);
    bench.run(Some(ns(20_000)));
    assert_eq!(bench.read(peer(0), channel::COMPLETED), 10);
    assert_eq!(bench.read(lane_of(1, 0), lane::RECEIVED), 74 * 8);
    bench.write(peer(0), channel::CREDIT, 100 * 8);
    bench.assert_quiet();
    assert_eq!(bench.read(peer(0), channel::COMPLETED), 100);
}

/// Headers on a side band take no clocks, but every TLP takes at least one.
#[test]
fn headers_may_go_beside_the_datapath() {
    for (is_on_datapath, datapath_bytes, bytes, each) in [
        (true, 8, 128, 18),
        (false, 8, 128, 16),
        (false, 8, 4, 1),
        (false, 64, 4, 1),
        (false, 64, 128, 2),
        (false, 8, 127, 16),
        (false, 8, 121, 16),
        (false, 8, 120, 15),
    ] {
        let mut parameters = own();
        parameters.datapath_bytes = datapath_bytes;
        parameters.header_on_datapath = is_on_datapath;
        // The link is never the limit.
        let mut settings = settings();
        settings.rate = rate(3, 16);
        let mut bench = bench(&settings, &[parameters]);
        bench.write(c2h(0), channel::PAYLOAD, 128);
        for number in 0..8 {
            bench.put_table(c2h(0), number, DATA + u64::from(number) * 128, bytes, 0);
        }
        bench.post_table(c2h(0), 8);
        assert_eq!(bench.run(None), RunEnd::Quiet);
        assert_eq!(bench.read(c2h(0), channel::TLPS), 8);
        assert_eq!(bench.clocks(c2h(0)), 8 * each, "{bytes} B, {datapath_bytes} B wide");
        bench.assert_quiet();
    }
}

/// A pipeline costs its clocks once, before the first TLP, and none between descriptors.
#[test]
fn pipelines_cost_their_length_once() {
    let run = |request, fetch, source| {
        let mut parameters = own();
        parameters.request_latency_clocks = request;
        parameters.fetch_latency_clocks = fetch;
        let mut bench = bench(&settings(), &[parameters]);
        let at = c2h(0);
        for number in 0..16 {
            let place = DATA + u64::from(number) * 4096;
            match source {
                DescriptorSource::Ring => bench.put_ring(at, number, place, 4096, 0),
                _ => bench.put_table(at, number, place, 4096, 0),
            }
        }
        match source {
            DescriptorSource::Ring => bench.start_ring(at, 16),
            _ => bench.start(at, source),
        }
        bench.wait_until(ns(100_000));
        bench.write(at, channel::DOORBELL, 16);
        assert_eq!(bench.run(None), RunEnd::Quiet);
        assert_eq!(bench.read(at, channel::COMPLETED), 16);
        (bench.read_wide(at, channel::FIRST_LOW), bench.clocks(at))
    };
    for (source, request, fetch, more) in [
        (DescriptorSource::Table, 7, 0, 7),
        (DescriptorSource::Table, 7, 5, 7),
        (DescriptorSource::Ring, 7, 0, 7),
        (DescriptorSource::Ring, 0, 5, 5),
        (DescriptorSource::Ring, 7, 5, 12),
    ] {
        let (first, moving) = run(0, 0, source);
        let (first_behind, moving_behind) = run(request, fetch, source);
        // All of these are rounded.
        assert!(first_behind.abs_diff(first + more) <= 1, "{source:?}: {first_behind}");
        assert!(moving_behind.abs_diff(moving) <= 1, "{source:?}: {moving_behind}, not {moving}");
    }
}

/// Data spend the pipeline's clocks between a receive queue and the TLP that carries them on.
#[test]
fn data_take_their_way_through_a_lane() {
    let round = |latency, request| {
        let mut echo = own();
        (echo.stream_latency_clocks, echo.request_latency_clocks) = (latency, request);
        let mut bench = bench(&settings(), &[own(), echo]);
        for engine in [0, 1] {
            bench.enable_lane(lane_of(engine, 0), 0);
            bench.start(peer(engine), DescriptorSource::CommandPort);
        }
        bench.route(1, StreamSource::Generator, StreamSource::Lane, 0);
        let (there, back) = (bench.bars[1][1], bench.bars[0][1]);
        bench.set_command(1, back, 64 * 10);
        bench.command(1);
        bench.set_command(0, there, 64);
        bench.write(peer(1), channel::PAYLOAD, 64);
        let start = user_regs::ping::ROUNDS.put(10) | user_regs::ping::START.put(1);
        bench.write(user(0), user_regs::PING, start);
        bench.assert_quiet();
        assert_eq!(bench.read(user(0), user_regs::PING_DONE), 10);
        bench.read_wide(user(0), user_regs::PING_SUM_LOW)
    };
    let (sum, slower) = (round(0, 0), round(6, 0));
    // Both ends of each round are rounded.
    assert!((slower - sum).abs_diff(60) <= 10, "{sum} and {slower}");
    // The command of the echo is ready long before.
    assert_eq!(round(6, 9), slower);
}
