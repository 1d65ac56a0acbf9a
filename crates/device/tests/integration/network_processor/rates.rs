// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates in exact simulated time: shares of link capacity, and single transfers.

use crosslane_device::network_processor::{CableParameters, LineCode, NetworkProcessorParameters};
use crosslane_pcie::ceiling;
use crosslane_regs::network_notification::NetworkStatus;
use crosslane_regs::network_processor::{self as map, LinkMode, torus_link};
use crosslane_torus_link::end::EndParameters;

use crate::network_processor::stand::*;
use crate::support::fabric_support::{ns, rate};

/// Gets 1 MiB messages in sequence into a link that drops them. Returns bytes per second.
fn sunk_bytes_per_second(completion_bytes: u32) -> f64 {
    let mut settings = settings();
    settings.completer.completion_bytes = completion_bytes;
    let mut stand = Stand::of(&[2], &settings, processor(), cable());
    stand.control(0, 0, torus_link::control::MODE.put(LinkMode::Sink as u32));
    let size = 1 << 20;
    let gets: Vec<Asked> =
        (0..4).map(|tag| stand.ask(0, Ask::get(0, 0, tag, DATA, size))).collect();
    let (_, _, first) = stand.wait(&gets[0]);
    let (_, _, last) = stand.wait(&gets[3]);
    3.0 * f64::from(size) / (last.since(first).0 as f64 / 1e12)
}

/// Gets reach at least 98 % of a Gen2 x8 link's capacity for each length of completions.
#[test]
fn gets_fill_the_link_to_the_host() {
    for completion_bytes in [64, 128, 256] {
        let share = sunk_bytes_per_second(completion_bytes)
            / ceiling::read_ceiling_bytes_per_second(rate(2, 8), completion_bytes);
        assert!((0.98..1.0).contains(&share), "{completion_bytes} B: {share}");
    }
}

/// Payload per second of transfers between hosts that are never the limit, in one or both
/// directions.
fn link_rate(both: bool, parameters: NetworkProcessorParameters, cable: CableParameters) -> f64 {
    let mut settings = settings();
    settings.rate = rate(3, 16);
    let mut stand = Stand::of(&[2], &settings, parameters, cable);
    stand.bring_up();
    let (size, count) = (1 << 20, 3_u32);
    let mut credits = Vec::new();
    for tag in 0..count {
        for end in 0..1 + usize::from(both) {
            let at = DATA + u64::from(tag) * 0x10_0000;
            let into = DATA + 0x100_0000 + u64::from(tag) * 0x10_0000;
            credits.push(stand.ask(1 - end, Ask::credit(1, tag, tag, into, size)));
            stand.ask(end, Ask::get(0, tag, tag, at, size));
        }
    }
    let begin = stand.fabric.now();
    let mut last = begin;
    for credit in &credits {
        let (status, _, at) = stand.wait(credit);
        assert_eq!(status, NetworkStatus::Done);
        last = last.max(at);
    }
    let time_ps = last.since(begin).0 as f64;
    let bytes = f64::from(size * count);
    bytes / (time_ps / 1e12)
}

/// The rate as a share of that of frames without skip sets and commands.
fn link_share(both: bool, parameters: NetworkProcessorParameters) -> f64 {
    link_rate(both, parameters, cable()) / (4e9 * 128.0 / 136.0)
}

#[test]
fn the_link_is_filled() {
    let fast = NetworkProcessorParameters { staging_bytes: 32_768, ..processor() };
    let one = link_share(false, fast);
    assert!((0.97..1.0).contains(&one), "one way: {one}");
    let both = link_share(true, fast);
    assert!((0.97..1.0).contains(&both), "both ways: {both}");
}

/// The cable with blocks and long datagrams, and its times by the page's *Budget*.
fn dense() -> (NetworkProcessorParameters, CableParameters) {
    let parameters =
        NetworkProcessorParameters { long_datagrams: true, staging_bytes: 32_768, ..processor() };
    let line_code = LineCode::Blocks;
    let cable = CableParameters { line_code, long_datagrams: true, ..cable() };
    let end = EndParameters::for_wire(33 * cable.block_ps(), cable.latency.0);
    (parameters, CableParameters { end, ..cable })
}

/// Datagrams of the generators at both ends, or one, and of nothing else, in 200 us: payload per
/// second.
fn generated_rate(
    both: bool,
    cable: CableParameters,
    parameters: NetworkProcessorParameters,
) -> f64 {
    let mut stand = Stand::of(&[2], &settings(), parameters, cable);
    stand.bring_up();
    let on = |field: crosslane_regs::Field, is_on: bool| field.put(is_on.into());
    use torus_link::control::{CHECK, ENABLE, GENERATE};
    for node in 0..2_usize {
        let generates = both || node == 0;
        let word = on(ENABLE, true) | on(GENERATE, generates) | on(CHECK, true);
        stand.control(node, node as u32, word);
    }
    let delivered = |stand: &mut Stand| {
        let right = stand.read(1, map::LINKS.at(1) + torus_link::CHECKED);
        assert_eq!(stand.read(1, map::LINKS.at(1) + torus_link::WRONG), 0);
        (right, stand.fabric.now())
    };
    stand.run_for(ns(10_000));
    let (first, begin) = delivered(&mut stand);
    stand.run_for(ns(200_000));
    let (last, end) = delivered(&mut stand);
    f64::from((last - first) * parameters.payload_bytes()) / (end.since(begin).0 as f64 / 1e12)
}

/// With 64b/66b and 256 B at least 93 % of all line bits are payload, one way and both ways, on any
/// number of lanes, and between hosts.
#[test]
fn blocks_and_long_datagrams_carry_93_percent_of_the_raw_line() {
    let (parameters, eight) = dense();
    for lanes in [1, 4, 8] {
        let cable = CableParameters { lanes, ..eight };
        let end = EndParameters::for_wire(33 * cable.block_ps(), cable.latency.0);
        let cable = CableParameters { end, ..cable };
        for both in [false, true] {
            let rate = generated_rate(both, cable, parameters);
            let share = rate / cable.raw_bytes_per_second();
            assert!((0.93..0.9403).contains(&share), "{lanes} lanes, both: {both}: {share}");
            let ceiling = rate / cable.payload_bytes_per_second();
            assert!((0.99..1.0005).contains(&ceiling), "{lanes} lanes, both: {both}: {ceiling}");
        }
    }
    for both in [false, true] {
        let share = link_rate(both, parameters, eight) / eight.raw_bytes_per_second();
        assert!(share >= 0.93, "between hosts, both: {both}: {share}");
    }
    // The published link, for comparison: 128 B in 8b/10b.
    let share = generated_rate(false, cable(), processor()) / cable().raw_bytes_per_second();
    assert!((0.75..0.753).contains(&share), "{share}");
}

/// With wrong bits, and what descramblers make of them, every datagram is delivered right.
#[test]
fn blocks_with_bit_errors_lose_nothing() {
    let (parameters, clean) = dense();
    for lanes in [1, 8] {
        let cable = CableParameters { lanes, bit_error_rate: 1e-5, ..clean };
        let end = EndParameters::for_wire(33 * cable.block_ps(), cable.latency.0);
        let cable = CableParameters { end, ..cable };
        let share = generated_rate(true, cable, parameters) / cable.raw_bytes_per_second();
        assert!((0.5..0.93).contains(&share), "{lanes} lanes: {share}");
    }
}

/// A put of 56 B from store to visibility, and a get of 64 B: each is the sum of its terms.
#[test]
fn single_transfers_take_the_sum_of_their_terms() {
    let mut stand = Stand::up(&[2]);
    let data = bytes(1, 56);
    let credit = stand.ask(1, Ask::credit(1, 0, 0, DATA, 64));
    stand.run();
    let begin = stand.fabric.now();
    stand.put(0, (0, 0, 0), 0, true, &data);
    let (_, _, at) = stand.wait(&credit);
    let put_ps = at.since(begin).0;
    // Eight stores of 8 B, one every 10 ns; 28 B each on the link, 0.25 ns per byte.
    let parameters = processor();
    let stores_ps = 7 * 10_000 + 28 * 250 + 1_000;
    let host_out_ps = 60_000 + 60_000;
    let wire_ps = 34_000 + 136_000 + parameters.receive_latency.0;
    // The write of 56 B, the notification behind it, and the time until it can be seen.
    let host_in_ps = 60_000 + (56 + 20 + 8 + 20) * 250 + 1_000 + 60_000 + 50_000;
    let expected_ps = stores_ps + host_out_ps + wire_ps + host_in_ps;
    assert_eq!(put_ps, expected_ps);

    let credit = stand.ask(1, Ask::credit(1, 0, 0, DATA, 64));
    stand.run();
    let begin = stand.fabric.now();
    stand.ask(0, Ask::get(0, 0, 0, DATA, 64));
    let (_, _, at) = stand.wait(&credit);
    let get_ps = at.since(begin).0;
    let stores_ps = 3 * 10_000 + 28 * 250 + 1_000;
    let read_ps = parameters.request_latency.0
        + (60_000 + 20 * 250 + 1_000 + 60_000)
        + 300_000
        + (60_000 + (64 + 20) * 250 + 1_000 + 60_000)
        + parameters.send_latency.0;
    let host_in_ps = 60_000 + (64 + 20 + 8 + 20) * 250 + 1_000 + 60_000 + 50_000;
    let expected_ps = stores_ps + host_out_ps + read_ps + wire_ps + host_in_ps;
    assert_eq!(get_ps, expected_ps);
    assert_eq!(stand.read(0, map::REFUSED), 0);
    stand.run_for(ns(1));
}

/// A node's reads and writes of host memory share the host's link in turn: with two links loaded in
/// both directions neither starves, and the link is full. Besides writes of 128 B it carries
/// requests for 512 B.
#[test]
fn reads_and_writes_share_the_link_to_the_host() {
    let parameters = NetworkProcessorParameters { max_write_bytes: 128, ..processor() };
    let mut stand = Stand::of(&[2], &settings(), parameters, cable());
    stand.bring_up();
    let (size, mut credits) = (1 << 20, Vec::new());
    for link in 0..2_u32 {
        for end in 0..2 {
            let at = DATA + u64::from(link) * 0x10_0000;
            credits.push(stand.ask(end, Ask::credit(link, 0, link, at + 0x100_0000, size)));
            stand.ask(end, Ask::get(link, 0, link ^ 1, at, size));
        }
    }
    let begin = stand.fabric.now();
    let last = credits.iter().map(|credit| stand.wait(credit).2).max().unwrap();
    let per_second = 2.0 * f64::from(size) / (last.since(begin).0 as f64 / 1e12);
    let of_requests = 1.0 - 20.0 / (20.0 + 4.0 * 148.0);
    let share =
        per_second / ceiling::write_ceiling_bytes_per_second(rate(2, 8), 3, 128) / of_requests;
    assert!((0.97..1.0).contains(&share), "{share}");
}
