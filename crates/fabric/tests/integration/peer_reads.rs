// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of peers that a root complex cuts at lines: their times against arithmetic, their errors,
//! and peers that read each other with the least credits (`docs/hosts.md`).

use crate::support;

use crosslane_fabric::parameters::{Coalescing, PeerReadParameters, PeerToPeer, SocketParameters};
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

const LINES: PeerReadParameters = PeerReadParameters { split_bytes: 64, at_once: 256 };

/// Two cards on root ports of Gen2 x4, where a byte takes 0.5 ns; 250 ns from one to the other.
fn cut(peer_reads: Option<PeerReadParameters>, max_payload: u16, rate_of_peers: f64) -> Stand {
    let mut settings = Settings::ideal(rate(2, 4), max_payload);
    settings.peer_to_peer =
        PeerToPeer::Allowed { latency: ns(250), bytes_per_second: rate_of_peers };
    settings.peer_reads = peer_reads;
    settings.max_read_request = 4096;
    let mut stand = root_ports(&settings, 2);
    // Acks would delay some TLPs by 4 ns.
    stand.fabric.set_dllps_free(true);
    stand
}

/// Time of one read of `bytes` from `offset` on, ns.
fn read_ns(stand: &mut Stand, offset: u64, bytes: u64) -> f64 {
    let target = BusAddress(stand.bar(1).0 + offset);
    let window_bytes = bytes.next_multiple_of(64);
    let flow = Flow { window_bytes, ..stand.flow(0, FlowKind::Read, target, bytes) };
    let report = stand.run_one(flow.times(1).at_once(1));
    report.latencies_ps[0] as f64 / 1000.0
}

#[test]
fn reads_of_peers_take_the_time_of_their_lines() {
    const NO_LIMIT: f64 = f64::INFINITY;
    // Whole: the request (20 B) on both links, its completion (276 B) on both, the root complex
    // twice.
    let whole = 10.0 + 250.0 + 10.0 + 138.0 + 250.0 + 138.0;
    assert_eq!(read_ns(&mut cut(None, 256, NO_LIMIT), 0, 256), whole);
    // In lines: the first request is through after 270 ns, and four completions of 84 B follow it
    // one behind the other; the joined one leaves when the last is in.
    let in_lines = 10.0 + 250.0 + 10.0 + 4.0 * 42.0 + 250.0 + 138.0;
    assert_eq!(read_ns(&mut cut(Some(LINES), 256, NO_LIMIT), 0, 256), in_lines);
    // Payloads of 128 B: the first of two leaves behind two lines, the second behind four.
    let in_two = 10.0 + 250.0 + 10.0 + 4.0 * 42.0 + 250.0 + 74.0;
    assert_eq!(read_ns(&mut cut(Some(LINES), 128, NO_LIMIT), 0, 256), in_two);
    // At 1 GB/s a line takes 64 ns from a root port to the other, from the arrival of the first on.
    let at_a_rate = 10.0 + 250.0 + 10.0 + 42.0 + 4.0 * 64.0 + 250.0 + 138.0;
    assert_eq!(read_ns(&mut cut(Some(LINES), 256, 1e9), 0, 256), at_a_rate);
    // 100 B from the middle of a line: 16 B, 64 B, 20 B.
    let mut stand = cut(Some(LINES), 256, NO_LIMIT);
    let odd = 10.0 + 250.0 + 10.0 + (36.0 + 84.0 + 40.0) / 2.0 + 250.0 + 120.0 / 2.0;
    assert_eq!(read_ns(&mut stand, 0x30, 100), odd);
    let [down, up] = [LinkDirection::Down, LinkDirection::Up];
    let mut tlps = |endpoint, heading| {
        let counted = stand.fabric.counters(stand.direction(endpoint, heading));
        (counted.tlps, counted.payload_bytes)
    };
    assert_eq!((tlps(1, down), tlps(1, up)), ((3, 0), (3, 100)));
    assert_eq!((tlps(0, up), tlps(0, down)), ((1, 0), (1, 100)));
}

/// Bytes that are no whole words, and lines longer than a payload: every byte is compared.
#[test]
fn lines_of_any_length_are_joined_right() {
    for split_bytes in [64, 128, 512, 4096] {
        for at_once in [2, 3, 256] {
            for (offset, bytes) in [(0, 4096), (0x7c1, 1021), (3, 1), (0x3ff, 130)] {
                let mut stand = cut(Some(PeerReadParameters { split_bytes, at_once }), 128, 4e9);
                read_ns(&mut stand, offset, bytes);
            }
        }
    }
}

/// A root port that reads two lines at once: the next two go when both have left for the requester.
#[test]
fn few_lines_at_once_set_the_rate() {
    let two = PeerReadParameters { at_once: 2, ..LINES };
    let cycle = 10.0 + 2.0 * 42.0 + 250.0 + 74.0;
    for max_payload in [128, 256] {
        let mut stand = cut(Some(two), max_payload, f64::INFINITY);
        assert_eq!(read_ns(&mut stand, 0, 4096), 10.0 + 250.0 + 32.0 * cycle);
    }
    // Two reads at once share them, one behind the other.
    let mut stand = cut(Some(two), 128, f64::INFINITY);
    let flow = stand.flow(0, FlowKind::Read, stand.bar(1), 4096).times(20).at_once(2);
    let got = stand.run_one(flow).steady_bytes_per_second().unwrap();
    assert!(off(got, 128.0 / (cycle * 1e-9)) < 1e-2, "{got}");
}

/// Poisoned, refused and lost answers of parts end the read that they belong to, and no other.
#[test]
fn a_part_that_fails_ends_its_read() {
    let stand_with = |timeout| {
        let mut settings = Settings::ideal(rate(2, 4), 256);
        settings.peer_reads = Some(LINES);
        settings.requester.completion_timeout = timeout;
        root_ports(&settings, 2)
    };
    let long = COMPLETION_TIMEOUT + ns(1_000_000);
    for (fault, timeout, words) in [
        (TlpFault::Poison, long, "poison"),
        // The root complex's own time-out, and the requester's before it.
        (TlpFault::Drop, long, "Completer Abort"),
        (TlpFault::Drop, ns(20_000), "within"),
        (TlpFault::Duplicate, long, ""),
    ] {
        let mut stand = stand_with(timeout);
        let up = stand.direction(1, LinkDirection::Up);
        stand.fabric.inject_fault(up, Class::Completion, fault, Moment::Next(1));
        let flow = stand.flow(0, FlowKind::Read, stand.bar(1), 256).times(50).at_once(4);
        let ids = stand.start([flow]);
        stand.run_to_any_end(&ids);
        let report = stand.reports(&ids).remove(0);
        let failed = u64::from(!words.is_empty());
        assert_eq!((report.operations, report.failed), (50 - failed, failed), "{fault:?}");
        let is_said = report.errors.iter().any(|error| format!("{error:?}").contains(words));
        assert!(is_said || failed == 0, "{fault:?}: {:?}", report.errors);
    }
    // Beyond the target's memory, a part of the read is refused there.
    let mut stand = stand_with(long);
    let last = stand.flow(0, FlowKind::Read, BusAddress(stand.bar(1).0 + (16 << 20)), 64);
    let flow = Flow { window_bytes: 64, ..last };
    let ids = stand.start([flow.times(1)]);
    stand.run_to_any_end(&ids);
    assert_eq!(stand.reports(&ids)[0].failed, 1);
}

/// The link of the one that is read, and that of the reader, goes down at many moments.
#[test]
fn links_that_go_down_leave_nothing_of_parts() {
    for (link, at_once) in [("ep0", 4), ("ep1", 4), ("ep0", 256), ("ep1", 256)] {
        for down_ns in (300..4000).step_by(137) {
            let mut settings = Settings::ideal(rate(2, 4), 256);
            settings.peer_to_peer =
                PeerToPeer::Allowed { latency: ns(100), bytes_per_second: f64::INFINITY };
            settings.peer_reads = Some(PeerReadParameters { at_once, ..LINES });
            settings.requester.completion_timeout = ns(20_000);
            let mut stand = root_ports(&settings, 2);
            let flow = |stand: &Stand| stand.flow(0, FlowKind::Read, stand.bar(1), 512).at_once(4);
            let ids = stand.start([flow(&stand).times(30)]);
            stand.fabric.run(Some(ns(down_ns)));
            let link = stand.link(link);
            stand.fabric.take_link_down(link, None);
            stand.run_to_any_end(&ids);
            stand.fabric.bring_link_up(link);
            // Tags of parts that were on their way rest for a while.
            let later = stand.fabric.now() + ns(51_000_000);
            stand.fabric.host_timer(later, 0);
            stand.next_event();
            let ids = stand.start([flow(&stand).times(100)]);
            assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
            assert_eq!(stand.reports(&ids)[0].operations, 100, "{down_ns}");
            assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
        }
    }
}

/// Peers that read each other, write to each other and read host memory, all at once, with credits
/// for one TLP of each class and two lines at once: nothing stops, in any order that the rules
/// allow.
#[test]
fn peers_that_read_each_other_never_stop() {
    let least = [
        Credits { header: 1, data: 8 },
        Credits { header: 1, data: 1 },
        Credits { header: 1, data: 8 },
    ];
    let infinite = [least[0], least[1], Credits::INFINITE];
    let hop = parameters::HopParameters { latency: ns(50), bytes_per_second: 2e9 };
    let across = PeerToPeer::Allowed { latency: ns(300), bytes_per_second: 2e9 };
    for seed in 0..24 {
        let mut settings = Settings::ideal(rate(3, 8), 128);
        settings.seed = seed;
        settings.port.receive_credits = if seed % 2 == 0 { least } else { infinite };
        settings.port.update_fc = Coalescing { tlps: 1, within: None };
        settings.port.transmit_latency = ns(seed % 5 * 40);
        settings.completer.read_latency = ns(300);
        settings.completer.read_slots = 2;
        settings.peer_reads = match seed % 4 {
            0 | 1 => Some(PeerReadParameters { at_once: 2, ..LINES }),
            2 => Some(LINES),
            _ => None,
        };
        if seed % 3 == 0 {
            settings.sockets = Some(SocketParameters { count: 2, hop, peer_to_peer: across });
        }
        let mut stand = match seed % 8 {
            // Cards below switches as well as on root ports.
            0..4 => root_ports(&settings, 3),
            _ => tree(&settings, 1),
        };
        stand.fabric.set_shuffle(seed % 6 != 5);
        let mut flows = Vec::new();
        for from in 0..3_usize {
            for other in (0..3).filter(|other| *other != from) {
                let part = BusAddress(stand.bar(other).0 + ((from as u64) << 20));
                let beside = BusAddress(part.0 + (4 << 20));
                flows.push(stand.flow(from, FlowKind::Read, part, 1024));
                flows.push(stand.flow(from, FlowKind::WriteRead, beside, 300));
            }
            let own = BusAddress((from as u64) << 24);
            flows.push(stand.flow(from, FlowKind::Read, own, 700));
        }
        let flows: Vec<Flow> = flows.into_iter().map(|flow| flow.times(40).at_once(8)).collect();
        let reports = stand.run(flows);
        // 40 x 2 x (1024 + 300 + 300) + 40 x 700 B of each card, at far more than 10 MB/s.
        assert!(stand.fabric.now() < ns(20_000_000), "seed {seed}: {}", stand.fabric.now());
        assert!(reports.iter().all(|report| report.operations == 40), "seed {seed}");
    }
}

/// A write ahead of the data that a peer answers with is ahead of the joined completion, too.
#[test]
fn joined_completions_stay_behind_writes() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.peer_reads = Some(LINES);
    settings.port.receive_credits[0] = Credits { header: 2, data: 32 };
    settings.completer.write_bytes_per_second = 5e8;
    for shuffle in [false, true] {
        let mut stand = root_ports(&settings, 2);
        stand.fabric.set_shuffle(shuffle);
        let write = stand.flow(1, FlowKind::Write, stand.bar(0), 256).times(200);
        let read = stand.flow(0, FlowKind::Read, stand.bar(1), 512).times(100);
        // The checker of the fabric would report what has passed.
        stand.run(vec![write, read]);
        assert!(stand.fabric.now() >= Picoseconds(200 * 512_000));
    }
}
