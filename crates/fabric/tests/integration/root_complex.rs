// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root complex effects against closed forms: memory that drains and reads at a rate, partial
//! lines, read slots, writes that later reads must see, transfers between root ports, and the
//! stores and loads of its cores.

use crate::support;

use crosslane_fabric::parameters::{CacheParameters, PeerToPeer};
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use support::*;

/// Steady rate of one flow of 64 x 256 B operations, modified by `change`.
fn steady(settings: &Settings, kind: FlowKind, change: impl Fn(&mut Flow)) -> f64 {
    let mut stand = direct(settings);
    let mut flow = stand.flow(0, kind, BusAddress(0), 4096).times(500);
    change(&mut flow);
    stand.run_one(flow).steady_bytes_per_second().unwrap()
}

fn limited_writes(bytes_per_second: f64) -> Settings {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.completer.write_bytes_per_second = bytes_per_second;
    settings.port.receive_credits[0] = Credits { header: 32, data: 512 };
    settings
}

#[test]
fn writes_drain_at_the_rate_of_memory() {
    for drain in [0.5e9, 2e9, 5e9] {
        let error = off(steady(&limited_writes(drain), FlowKind::Write, |_| ()), drain);
        assert!(error < 2e-3, "{drain}: {error}");
    }
    // Above the link's rate, memory does not limit.
    let link = rate(3, 8).bytes_per_second() * 256.0 / 276.0;
    let error = off(steady(&limited_writes(20e9), FlowKind::Write, |_| ()), link);
    assert!(error < 2e-3, "{error}");
}

/// Each write TLP costs its overhead, and each partly covered line a read.
#[test]
fn overhead_and_partial_lines_cost_what_they_say() {
    // Offset in a line of 64 B, bytes of the operation, lines covered in part.
    for (offset, bytes, partial) in
        [(0, 64, 0), (0, 256, 0), (0, 100, 1), (32, 64, 2), (32, 32, 1), (16, 32, 1), (8, 248, 1)]
    {
        let mut settings = limited_writes(4e9);
        settings.completer.write_overhead = ns(20);
        settings.completer.partial_line = ns(70);
        let got = steady(&settings, FlowKind::Write, |flow| {
            flow.target = BusAddress(offset);
            flow.operation_bytes = bytes;
            flow.outstanding = 100;
        });
        let time_ns = bytes as f64 / 4.0 + 20.0 + 70.0 * f64::from(partial);
        let error = off(got, bytes as f64 / (time_ns * 1e-9));
        assert!(error < 3e-3, "{bytes} B at {offset}: {error}");
    }
}

#[test]
fn reads_come_at_the_rate_of_memory() {
    for read_rate in [0.5e9, 2e9, 6e9] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.completer.read_bytes_per_second = read_rate;
        settings.completer.read_latency = ns(400);
        let error = off(steady(&settings, FlowKind::Read, |_| ()), read_rate);
        assert!(error < 2e-3, "{read_rate}: {error}");
    }
}

/// N reads in service, each for the memory's latency: N requests per latency, however many the
/// requester has in flight.
#[test]
fn read_slots_meet_littles_law() {
    for slots in [1u32, 3, 8] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.completer.read_slots = slots;
        settings.completer.read_latency = ns(1000);
        let got = steady(&settings, FlowKind::Read, |flow| {
            flow.operation_bytes = 256;
            flow.operations = 2000;
            flow.outstanding = 64;
        });
        let error = off(got, f64::from(slots) * 256.0 / 1e-6);
        assert!(error < 4e-3, "{slots}: {error}");
    }
}

/// A read sees the writes before it, and waits until they are visible.
#[test]
fn a_read_waits_for_the_writes_before_it() {
    for (write_ns, read_ns) in [(0, 300), (500, 300), (5000, 0)] {
        let mut settings = Settings::ideal(rate(2, 4), 256);
        settings.completer.write_latency = ns(write_ns);
        settings.completer.read_latency = ns(read_ns);
        // Far enough apart for each to find the wire idle.
        settings.requester.write_interval = ns(10_000);
        let mut stand = direct(&settings);
        let flow = stand.flow(0, FlowKind::WriteRead, BusAddress(64), 64).times(50).at_once(1);
        let report = stand.run_one(flow);
        // 84 B up, 20 B up, 84 B down, 0.5 ns each. The write is there after the first 42 ns.
        let read_there = 42 + 10 + read_ns;
        let data_there = read_there.max(42 + write_ns) + 42;
        assert_eq!(report.latencies_ps, vec![data_there * 1000; 50]);
    }
}

/// A write becomes visible to the outside exactly at its time.
#[test]
fn memory_shows_a_write_when_it_can_be_seen() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.completer.write_latency = ns(1000);
    let mut stand = direct(&settings);
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0x4000), 64).times(1);
    let id = stand.fabric.start_flow(flow).unwrap();
    let mut seen = [0; 64];
    // 84 B at 0.5 ns and 1000 ns.
    let visible = ns(42 + 1000);
    let before = Picoseconds(visible.0 - 1);
    stand.fabric.run(Some(before));
    assert!(stand.fabric.peek(HostId(0), BusAddress(0x4000), &mut seen));
    assert_eq!(seen, [0; 64]);
    stand.fabric.run(Some(visible));
    assert_eq!(stand.fabric.now(), visible);
    stand.fabric.peek(HostId(0), BusAddress(0x4000), &mut seen);
    assert_ne!(seen, [0; 64]);
    assert_eq!(stand.fabric.flow_report(id).last_done, visible);
}

/// Between root ports, all transfers share the rate limit, and the latency is a term of the sum.
#[test]
fn peers_share_the_rate_between_root_ports() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.peer_to_peer = PeerToPeer::Allowed { latency: ns(250), bytes_per_second: 3e9 };
    settings.port.receive_credits[0] = Credits { header: 32, data: 512 };
    let mut stand = root_ports(&settings, 4);
    let flows = [(0, 1), (2, 3)]
        .map(|(from, to)| stand.flow(from, FlowKind::Write, stand.bar(to), 4096).times(500));
    for report in stand.run(flows.to_vec()) {
        assert_steady(&report, 1.5e9, 0.01, ());
    }
    let mut settings = Settings::ideal(rate(2, 4), 128);
    let bytes_per_second = f64::INFINITY;
    settings.peer_to_peer = PeerToPeer::Allowed { latency: ns(250), bytes_per_second };
    let mut stand = root_ports(&settings, 2);
    let flow = stand.flow(0, FlowKind::Write, stand.bar(1), 128).times(3).at_once(1);
    // 148 B twice, 74 ns each: a root complex passes whole TLPs on.
    let report = stand.run_one(flow);
    assert_eq!(report.latencies_ps, vec![(74 + 250 + 74) * 1000; 3]);
}

fn core(stand: &Stand, core: u16, kind: FlowKind, endpoint: usize, bytes: u64) -> Flow {
    let flow = stand.core_flow(core, kind, stand.bar(endpoint), bytes);
    Flow { outstanding: 1000, operations: 2000, ..flow }
}

/// A core makes one store per `uncached_store`, 8 B or as wide as set, and two cores together twice
/// as many.
#[test]
fn stores_leave_at_the_cores_rate() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.cpu.uncached_store = ns(60);
    for (width, bytes) in [(None, 8), (Some(4), 4), (Some(64), 64)] {
        let mut stand = direct(&settings);
        let mut flow = core(&stand, 0, FlowKind::Write, 0, 64);
        flow.tlp_bytes = width;
        let report = stand.run_one(flow);
        assert_eq!(report.tlps, 2000 * 64 / bytes);
        assert_steady(&report, bytes as f64 / 60e-9, 2e-3, bytes);
    }
    let mut stand = root_ports(&settings, 2);
    let flows =
        vec![core(&stand, 0, FlowKind::Write, 0, 64), core(&stand, 1, FlowKind::Write, 1, 64)];
    for report in stand.run(flows) {
        assert_steady(&report, 8.0 / 60e-9, 2e-3, ());
    }
}

/// A core and a card on Gen2 x4 whose loads take a known time at each place of their way.
pub fn settings_of_loads() -> Settings {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.link.flight = ns(5);
    settings.port.receive_latency = ns(30);
    settings.port.transmit_latency = ns(20);
    settings.completer.read_latency = ns(100);
    settings.cpu.uncached_load = ns(25);
    settings
}

/// A load is a round trip: 20 B down, the endpoint, 28 B up, and the core's own time.
#[test]
fn loads_go_one_by_one() {
    let mut stand = direct(&settings_of_loads());
    let mut flow = core(&stand, 0, FlowKind::Read, 0, 8);
    flow.operations = 100;
    let report = stand.run_one(flow);
    let period = (20 + 10 + 5 + 30) + 100 + (20 + 14 + 5 + 30) + 25;
    let rate = 8.0 / (f64::from(period) * 1e-9);
    assert!(off(report.steady_bytes_per_second().unwrap(), rate) < 1e-9);
}

/// On a slow link the store queue fills and the core runs at the link's rate; a store waits for
/// those queued before it. A core that stores elsewhere is unaffected.
#[test]
fn a_full_store_queue_stalls_its_core_only() {
    for queue in [1u32, 4, 16] {
        let mut settings = Settings::ideal(rate(1, 1), 128);
        settings.cpu.store_queue = queue;
        settings.cpu.uncached_store = ns(10);
        let mut stand = root_ports(&settings, 2);
        let mut slow = core(&stand, 1, FlowKind::Write, 1, 8);
        let full = core(&stand, 0, FlowKind::Write, 0, 8);
        (slow.operations, slow.outstanding) = (200, 1);
        let reports = stand.run(vec![full, slow]);
        // 28 B at 4 ns.
        assert_steady(&reports[0], 8.0 / 112e-9, 2e-3, queue);
        let longest = *reports[0].latencies_ps.iter().max().unwrap();
        let limit = u64::from(queue) * 112_000;
        assert!((limit..=limit + 2 * 112_000).contains(&longest), "{queue}: {longest}");
        assert!(reports[1].latencies_ps.iter().all(|latency_ps| *latency_ps <= 2 * 112_000));
    }
}

/// A doorbell does not wait for queued completions: stores and completions of a root complex take
/// turns on a link full of completions.
#[test]
fn a_store_takes_its_turn_beside_completions() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.cpu.store_queue = 4;
    settings.max_read_request = 4096;
    let mut stand = direct(&settings);
    let mut reads = stand.flow(0, FlowKind::Read, BusAddress(0), 64 << 10);
    (reads.operations, reads.outstanding, reads.window_bytes) = (100, 4, 4 << 20);
    let mut stores = core(&stand, 0, FlowKind::Write, 0, 8);
    (stores.operations, stores.outstanding) = (500, 1);
    let reports = stand.run(vec![reads, stores]);
    // A store waits for at most two TLPs already sending or next in turn, 148 B at 0.5 ns.
    let longest = *reports[1].latencies_ps.iter().max().unwrap();
    assert!(longest <= 14_000 + 2 * 74_000 + 10_000, "{longest} ps");
    // The completions keep the link but for 28 B per store and the DLLPs.
    assert!(reports[0].bytes_per_second() > 0.7 * 2e9 * 128.0 / 148.0);
}

/// A read that misses the cache takes longer by a miss, one behind a write to its line waits for
/// that, and misses of all reads and writes share the memory's rate.
#[test]
fn a_cache_shortens_reads_of_what_the_host_wrote() {
    const MISS_NS: u64 = 60;
    let latency = |warm: bool, kind: FlowKind, memory_bytes_per_second: f64, outstanding: u32| {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.completer.read_latency = ns(100);
        settings.completer.write_latency = ns(50);
        settings.cache = Some(CacheParameters {
            bytes: 1 << 20,
            ways: 16,
            device_ways: 2,
            miss: ns(MISS_NS),
            memory_bytes_per_second,
            warm,
        });
        let mut stand = direct(&settings);
        let mut flow = stand.flow(0, kind, BusAddress(0), 64);
        (flow.operations, flow.window_bytes) = (1000, 64 * 1000);
        flow.outstanding = outstanding;
        let report = stand.run_one(flow);
        assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
        report
    };
    let median = |report: FlowReport| report.latencies_ps[500];
    let unlimited = f64::INFINITY;
    let warm = median(latency(true, FlowKind::Read, unlimited, 1));
    let cold = median(latency(false, FlowKind::Read, unlimited, 1));
    assert_eq!(cold - warm, MISS_NS * 1000);
    // The read begins once its line is written: 50 ns, and the write's time on the wire.
    let behind = median(latency(true, FlowKind::WriteRead, unlimited, 1));
    assert!((50_000..70_000).contains(&(behind - warm)), "{behind} {warm}");
    // 64 B of 1 GB/s: one line in 64 ns, with any number of reads in flight.
    let slow = latency(false, FlowKind::Read, 1e9, 64).steady_bytes_per_second().unwrap();
    assert!(off(slow, 1e9) < 0.01, "{slow}");
    let fast = latency(true, FlowKind::Read, 1e9, 64).steady_bytes_per_second().unwrap();
    assert!(fast > 3e9, "{fast}");
}

/// A card of payloads of 256 B and one of 128 B on other root ports, either of which moves data.
#[test]
fn peers_of_different_payloads_are_cut_between() {
    let stand_with = |cuts: bool| {
        let mut settings = Settings::ideal(rate(2, 4), 256);
        settings.cuts_peers = cuts;
        settings.port.receive_credits[0] = Credits { header: 8, data: 64 };
        let mut stand = root_ports(&settings, 2);
        ["rp1", "ep1"].into_iter().for_each(|port| stand.set_max_payload(port, 128));
        stand
    };
    let mut stand = stand_with(false);
    let flow = stand.flow(0, FlowKind::Write, stand.bar(1), 1024).times(4);
    let ids = stand.start([flow]);
    stand.run_to_any_end(&ids);
    assert_eq!(stand.count(|kind| matches!(kind, ErrorKind::PayloadTooLarge { .. })), 16);
    // What crosses a page comes in two writes, of 64 B and of 136 B.
    for (offset, bytes, tlps) in [(0, 256_u64, 2), (0xfc0, 200, 1 + 2), (3, 250, 2), (0, 1024, 8)] {
        let mut stand = stand_with(true);
        let target = BusAddress(stand.bar(1).0 + offset);
        let flow = Flow {
            window_bytes: bytes.next_multiple_of(64),
            ..stand.flow(0, FlowKind::Write, target, bytes)
        };
        let report = stand.run_one(flow.times(100).at_once(1));
        assert_eq!(report.bytes, 100 * bytes);
        let counted = stand.fabric.counters(stand.direction(1, LinkDirection::Down));
        assert_eq!(counted.tlps, 100 * tlps, "{bytes} B at {offset}");
    }
    // Back it is as it comes; what the second card reads comes in completions of its own length.
    let mut stand = stand_with(true);
    let flows = vec![
        stand.flow(1, FlowKind::Write, stand.bar(0), 256).times(100),
        stand.flow(1, FlowKind::Read, stand.bar(0), 512).times(100),
    ];
    let flows = flows.into_iter().enumerate().map(|(at, flow)| {
        let target = BusAddress(flow.target.0 + 4096 * at as u64);
        Flow { target, window_bytes: 512, outstanding: 1, ..flow }
    });
    stand.run(flows.collect());
    let down = stand.fabric.counters(stand.direction(1, LinkDirection::Down));
    assert_eq!((down.tlps, down.payload_bytes), (400, 100 * 512));
    // The closed form of the slower: 128 B in 148 B.
    let mut stand = stand_with(true);
    let flow = stand.flow(0, FlowKind::Write, stand.bar(1), 4096).times(500);
    let got = stand.run_one(flow).steady_bytes_per_second().unwrap();
    let expected = rate(2, 4).bytes_per_second() * 128.0 / 148.0;
    assert!(off(got, expected) < 1e-2, "{got}");
}
