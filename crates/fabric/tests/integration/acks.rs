// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ack and UpdateFC: when they leave, how many TLPs they cover, their cost to opposite traffic, and
//! the effect of a full replay buffer.

use crate::support::{self, log};

use crosslane_fabric::parameters::*;
use crosslane_fabric::trace::DllpKind;
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::timers;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use log::{Log, opposite};
use support::*;

/// Beyond the end of every test.
const NEVER: Option<Picoseconds> = Some(Picoseconds(100_000_000_000));
const GENERATIONS: [(u8, u8, u16); 5] =
    [(1, 1, 128), (2, 4, 256), (3, 8, 256), (3, 16, 512), (5, 4, 1024)];

/// A lone TLP is acknowledged at the table's limit, to the picosecond, and its credits return then
/// too.
#[test]
fn a_lone_tlp_is_answered_at_the_limit_of_the_table() {
    for (generation, lanes, max_payload) in GENERATIONS {
        let mut settings = Settings::ideal(rate(generation, lanes), max_payload);
        settings.port.ack = Coalescing { tlps: 1000, within: None };
        settings.port.update_fc = Coalescing { tlps: 1000, within: None };
        settings.port.receive_credits[0] = Credits { header: 100, data: 10_000 };
        settings.link.flight = ns(7);
        settings.requester.write_interval = ns(50_000);
        let mut stand = direct(&settings);
        let log = Log::of(&mut stand.fabric);
        let flow = stand.flow(0, FlowKind::Write, BusAddress(0), u64::from(max_payload)).times(20);
        stand.run(vec![flow]);
        let up = stand.direction(0, LinkDirection::Up);
        let at = settings.rate;
        let limit = timers::ack_latency_limit(at.generation, at.width, u32::from(max_payload));
        let due: Vec<u64> = log.tlps(up).iter().map(|tlp| tlp.end_ps + 7_000 + limit.0).collect();
        assert_eq!(due.len(), 20);
        let answers = log.dllps(opposite(up));
        let starts = |kind| -> Vec<u64> {
            answers.iter().filter(|dllp| dllp.kind == kind).map(|dllp| dllp.start_ps).collect()
        };
        // Both are due at the same time, so one of them waits for 8 B of the other.
        let dllp_ps = (8.0 / at.bytes_per_second() * 1e12) as u64 + 1;
        for kind in [DllpKind::Ack, DllpKind::UpdateFc(Class::Posted)] {
            let starts = starts(kind);
            assert_eq!(starts.len(), due.len(), "{kind}");
            for (start, due) in starts.iter().zip(&due) {
                let late_ps = start.checked_sub(*due).unwrap();
                assert!(late_ps <= dllp_ps, "{at} {kind}: {late_ps} ps late");
            }
        }
    }
}

/// Under any load an Ack leaves within the limit after a TLP's last byte, apart from the one packet
/// on the wire and the DLLPs due at the same time.
#[test]
fn acks_keep_the_limit_under_load() {
    for (generation, lanes, max_payload) in GENERATIONS {
        let mut settings = Settings::ideal(rate(generation, lanes), max_payload);
        settings.port.ack = Coalescing { tlps: 64, within: None };
        settings.port.receive_credits =
            [128, 32, 128].map(|header| Credits { header, data: header * 256 });
        settings.completer.read_latency = ns(300);
        let mut stand = one_switch(&settings, 2);
        let log = Log::of(&mut stand.fabric);
        let mut flows = vec![
            stand.flow(0, FlowKind::Write, stand.bar(1), 4000),
            stand.flow(1, FlowKind::Write, stand.bar(0), 300),
            stand.flow(0, FlowKind::Read, BusAddress(1 << 26), 1000),
        ];
        flows.iter_mut().for_each(|flow| flow.operations = 100);
        stand.run(flows);
        let at = settings.rate;
        let limit = timers::ack_latency_limit(at.generation, at.width, u32::from(max_payload));
        let busy_bytes = u64::from(max_payload) + 20 + 5 * 8;
        let busy_ps = (busy_bytes as f64 / at.bytes_per_second() * 1e12) as u64 + 1;
        for direction in stand.directions() {
            let mut acks = log.dllps(opposite(direction)).into_iter();
            let mut newest = None;
            for tlp in log.tlps(direction) {
                while newest.is_none_or(|start_ps| start_ps < tlp.end_ps) {
                    let mut acks = acks.by_ref().filter(|dllp| dllp.kind == DllpKind::Ack);
                    newest = Some(acks.next().expect("every TLP has its Ack").start_ps);
                }
                let wait_ps = newest.unwrap() - tlp.end_ps;
                assert!(wait_ps <= limit.0 + busy_ps, "{at} {direction:?}: {wait_ps} ps");
            }
        }
    }
}

/// Two endpoints that write to each other: each direction carries the TLPs of one and the DLLPs for
/// the other's: payload / (payload + 20 + 8/N + 8/M), one Ack in N TLPs, one UpdateFC in M. With a
/// DLLP for each TLP, those that wait behind a TLP may be merged further.
#[test]
fn dllps_cost_the_wire_time_of_the_opposite_traffic() {
    for (acks_of, updates_of) in [(1, None), (4, None), (1, Some(1)), (3, Some(5)), (16, Some(8))] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.port.ack = Coalescing { tlps: acks_of, within: NEVER };
        if let Some(tlps) = updates_of {
            settings.port.update_fc = Coalescing { tlps, within: NEVER };
            settings.port.receive_credits[0] = Credits { header: 127, data: 127 * 16 };
        }
        let mut stand = one_switch(&settings, 2);
        let log = Log::of(&mut stand.fabric);
        let flows = [0, 1]
            .map(|from| stand.flow(from, FlowKind::Write, stand.bar(1 - from), 4096).times(500));
        let reports = stand.run(flows.to_vec());
        // The DLLPs are counted: 500 x 16 TLPs in each direction.
        let tlps = 8000;
        for (endpoint, report) in reports.iter().enumerate() {
            let sent = log.dllps(stand.direction(endpoint, LinkDirection::Up));
            let acks = sent.iter().filter(|dllp| dllp.kind == DllpKind::Ack).count() as u32;
            let updates = sent.len() as u32 - acks;
            for (got, of) in [(acks, Some(acks_of)), (updates, updates_of)] {
                let most = of.map_or(0, |of| tlps / of);
                let least = if of == Some(1) { most / 2 } else { most };
                assert!((least.saturating_sub(1)..=most + 1).contains(&got), "{got} for {of:?}");
            }
            let wire = 276.0 + 8.0 * sent.len() as f64 / f64::from(tlps);
            let expected = settings.rate.bytes_per_second() * 256.0 / wire;
            assert_steady(report, expected, 2e-3, (acks_of, updates_of));
        }
    }
}

/// Reads and writes at once: each saturated direction carries the rate that its DLLPs, counted in
/// the trace, leave.
#[test]
fn rates_are_what_the_dllps_in_the_trace_leave() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.port.ack = Coalescing { tlps: 3, within: None };
    settings.port.update_fc = Coalescing { tlps: 2, within: None };
    settings.port.receive_credits = [Credits { header: 40, data: 320 }; 3];
    let mut stand = direct(&settings);
    let log = Log::of(&mut stand.fabric);
    let mut read = stand.flow(0, FlowKind::Read, BusAddress(1 << 26), 4096);
    let mut write = stand.flow(0, FlowKind::Write, BusAddress(0), 4096);
    (read.operations, write.operations) = (1_000_000, 1_000_000);
    for flow in [read, write] {
        stand.fabric.start_flow(flow).unwrap();
    }
    let (from, to) = (ns(20_000), ns(220_000));
    let down = stand.direction(0, LinkDirection::Down);
    assert_eq!(stand.fabric.run(Some(from)), RunEnd::Limit);
    let before = stand.fabric.counters(down);
    assert_eq!(stand.fabric.run(Some(to)), RunEnd::Limit);
    let counted = stand.fabric.counters(down).since(&before);
    let within = |start_ps: u64| (from.0..to.0).contains(&start_ps);
    let dllps = log.dllps(down).iter().filter(|dllp| within(dllp.start_ps)).count() as f64;
    assert!(dllps > 500.0, "{dllps}");
    let seconds = (to.0 - from.0) as f64 * 1e-12;
    let left = 2e9 * seconds - 8.0 * dllps;
    let error = off(counted.payload_bytes as f64, left * 128.0 / 148.0);
    assert!(error < 2e-3, "{error}");
}

/// UpdateFC returns at once when the transmitter lacks credits for one largest TLP (PCIe 6.x
/// 2.6.1.2), however lazy the port is otherwise. Credits freed while the transmitter has one TLP
/// left may wait for the next, so at least every second one is in use.
#[test]
fn a_starving_transmitter_gets_its_credits_at_once() {
    for credits in [1u32, 2, 4, 8] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.port.receive_credits[0] = Credits { header: credits, data: credits * 16 };
        settings.port.update_fc = Coalescing { tlps: 1000, within: Some(ns(25_000)) };
        settings.port.receive_latency = ns(50);
        settings.link.flight = ns(200);
        let mut stand = direct(&settings);
        let report = stand.run_one(stand.flow(0, FlowKind::Write, BusAddress(0), 256).times(2000));
        let byte_ps = 126.953125;
        let round_trip_ps = 276.0 * byte_ps + 200e3 + 50e3 + 8.0 * byte_ps + 200e3;
        let most = f64::from(credits) * 256.0 / (round_trip_ps * 1e-12);
        let least = if credits == 1 { most } else { most / 2.0 };
        let got = report.steady_bytes_per_second().unwrap();
        assert!((least * 0.999..most * 1.001).contains(&got), "{credits}: {got}, at most {most}");
    }
}

/// With room for N unacknowledged TLPs, N payloads go in each round trip, both on clean links and
/// on links that keep copies for replay.
#[test]
fn a_full_replay_buffer_meets_littles_law() {
    for bit_error_rate in [0.0, 1e-300] {
        for (tlps, coalesced) in [(1u32, 1u32), (2, 1), (5, 1), (8, 2), (40, 1)] {
            let mut settings = Settings::ideal(rate(3, 8), 256);
            settings.port.replay_buffer_bytes = tlps * 276 + 100;
            settings.port.ack.tlps = coalesced;
            settings.link.bit_error_rate = bit_error_rate;
            settings.link.flight = ns(200);
            let mut stand = direct(&settings);
            let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 4096).times(200);
            let report = stand.run_one(flow);
            let byte_ps = 126.953125;
            // The first TLP of an Ack waits for the last.
            let wait_ps = f64::from(coalesced - 1) * 276.0 * byte_ps;
            let round_trip_ps = 276.0 * byte_ps + 200e3 + wait_ps + 8.0 * byte_ps + 200e3;
            let expected = f64::from(tlps) * 256.0 / (round_trip_ps * 1e-12);
            let expected = expected.min(256.0 / (276.0 * byte_ps * 1e-12));
            assert_steady(&report, expected, 0.01, (tlps, coalesced));
            let counted = stand.fabric.counters(stand.direction(0, LinkDirection::Up));
            let idle = counted.idle_ps[IdleReason::ReplayBuffer as usize];
            assert_eq!(idle > 0, tlps < 12, "{tlps}");
            assert_eq!(counted.replayed_tlps, 0);
        }
    }
}
