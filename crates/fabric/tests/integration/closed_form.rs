// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model against closed forms: bandwidth against size and MPS, Little's law, and latency as the
//! sum of its terms.

use crate::support;

use crosslane_fabric::parameters::Forwarding;
use crosslane_fabric::*;
use crosslane_pcie::ceiling;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::BusAddress;
use support::*;

/// Writes to host memory run at wire rate: payload / (payload + 20) of the link, for every
/// generation and width, every MPS, and sizes on both sides of it; with and without SKP.
#[test]
fn writes_meet_the_closed_form() {
    for (generation, lanes) in [(1, 1), (2, 4), (3, 8), (3, 12), (4, 16), (5, 16), (6, 16)] {
        for max_payload in [128, 256, 512, 1024, 4096] {
            for skp in [false, true] {
                let mut settings = Settings::ideal(rate(generation, lanes), max_payload);
                settings.link.skp = skp;
                let mut stand = direct(&settings);
                let payload = u64::from(max_payload);
                let mut flow = stand.flow(0, FlowKind::Write, BusAddress(0), 64 * payload);
                flow.operations = 100;
                flow.window_bytes = 8 << 20;
                let report = stand.run_one(flow);
                let got = report.steady_bytes_per_second().unwrap();
                let mut expected = ceiling::write_ceiling_bytes_per_second(
                    settings.rate,
                    3,
                    u32::from(max_payload),
                );
                if !skp {
                    expected /= ceiling::skp_factor(settings.rate);
                }
                let error = off(got, expected);
                assert!(error < 1e-3, "{} MPS {max_payload} skp {skp}: {error}", settings.rate);
            }
        }
    }
}

#[test]
fn sizes_that_are_no_multiple_of_the_payload_meet_the_closed_form() {
    for bytes in [1u64, 4, 60, 64, 100, 128, 129, 200, 256, 300, 1000, 4096, 4100] {
        let settings = Settings::ideal(rate(2, 4), 128);
        let mut stand = direct(&settings);
        let flow = stand.flow(0, FlowKind::Write, BusAddress(0), bytes).times(4000);
        let report = &stand.run(vec![flow.clone()])[0];
        // Wire bytes of each operation, TLP by TLP.
        let stride = bytes.next_multiple_of(64);
        let slots = flow.window_bytes / stride;
        let wire: u64 = (0..flow.operations)
            .flat_map(|n| {
                let address = BusAddress((n % slots) * stride);
                crosslane_pcie::split::requests(address, bytes, 128)
            })
            .map(|(_, length)| u64::from(length.div_ceil(4)) * 4 + 20)
            .sum();
        let expected = (flow.operations * bytes) as f64 / (wire as f64 / 2e9);
        let error = off(report.bytes_per_second(), expected);
        assert!(error < 1e-3, "{bytes} B: {error}");
    }
}

/// In FLIT mode TLPs are header and payload, and DLLPs take no time; on the other side of a switch
/// the same TLPs have framing, and DLLPs 8 B.
#[test]
fn flits_carry_headers_and_payload_alone() {
    let mut settings = Settings::ideal(rate(6, 4), 256);
    settings.uplink = rate(5, 8);
    let mut stand = one_switch(&settings, 1);
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 256).times(100);
    stand.run_one(flow);
    let own = stand.direction(0, LinkDirection::Up).link;
    let uplink = stand.link("rp0");
    for (link, header_bytes, dllp_bytes) in [(own, 12, 0), (uplink, 20, 8)] {
        let mut counters = |heading| stand.fabric.counters(DirectionId { link, heading });
        let (up, down) = (counters(LinkDirection::Up), counters(LinkDirection::Down));
        assert_eq!((up.tlps, up.header_bytes), (100, 100 * header_bytes), "{link:?}");
        let dllps = down.acks + down.update_fcs;
        assert!(down.acks > 0);
        assert_eq!(down.dllp_bytes, dllps * dllp_bytes, "{link:?}");
    }
}

/// With C credits and a round trip R, a stream of writes carries C payloads in each R.
#[test]
fn credits_and_round_trip_meet_littles_law() {
    for credits in [1u32, 2, 4, 8] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.link.flight = ns(200);
        settings.completer.write_latency = ns(0);
        settings.port.receive_latency = ns(100);
        settings.port.receive_credits[0] = Credits { header: credits, data: credits * 16 };
        let mut stand = direct(&settings);
        let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 256).times(2000).at_once(64);
        let report = stand.run_one(flow);
        // TLP out, receiver, UpdateFC back.
        let byte_ps = 126.953125;
        let round_trip_ps = 276.0 * byte_ps + 200e3 + 100e3 + 8.0 * byte_ps + 200e3;
        let expected = f64::from(credits) * 256.0 / (round_trip_ps * 1e-12);
        let expected = expected.min(256.0 / (276.0 * byte_ps * 1e-12));
        assert_steady(&report, expected, 2e-3, credits);
    }
}

/// With N tags and a round trip R, reads carry N requests in each R.
#[test]
fn tags_and_round_trip_meet_littles_law() {
    for tags in [1u16, 2, 8, 16] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.completer.read_latency = ns(1000);
        settings.requester.tags = tags;
        let mut stand = direct(&settings);
        let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 256).times(20_000).at_once(64);
        let report = stand.run_one(flow);
        let byte_ps = 126.953125;
        let round_trip_ps = 20.0 * byte_ps + 1e6 + 276.0 * byte_ps;
        let expected = f64::from(tags) * 256.0 / (round_trip_ps * 1e-12);
        assert_steady(&report, expected, 1e-3, tags);
    }
}

/// Zero load: endpoint's transmit latency, header time and flight and switch latency of each
/// hop, the whole TLP on the last link, receive latency, memory's write latency.
#[test]
fn latency_is_the_sum_of_its_terms() {
    for forwarding in [Forwarding::CutThrough, Forwarding::StoreAndForward] {
        let mut settings = Settings::ideal(rate(2, 4), 128);
        settings.port.transmit_latency = ns(120);
        settings.port.receive_latency = ns(130);
        settings.link.flight = ns(5);
        settings.switch.latency = ns(150);
        settings.switch.forwarding = forwarding;
        settings.completer.write_latency = ns(40);
        let mut stand = two_boards(&settings, 2);
        let cases = [(1usize, 1u64), (2, 3)];
        for (target, switches) in cases {
            let flow = stand.flow(0, FlowKind::Write, stand.bar(target), 128).times(3).at_once(1);
            let report = stand.run_one(flow);
            // 0.5 ns a byte: 148 B are 74 ns; prefix and header, 16 B, are 8 ns.
            let (head_ns, whole_ns) = (8, 74);
            let hop = if forwarding == Forwarding::CutThrough { head_ns } else { whole_ns };
            let sum_ns = 120 + switches * (hop + 5 + 150) + whole_ns + 5 + 130 + 40;
            assert_eq!(report.latencies_ps, vec![sum_ns * 1000; 3], "{forwarding:?} {switches}");
        }
    }
}

/// A read: request up, memory, completion down, each a sum of the same terms.
#[test]
fn read_latency_is_the_sum_of_its_terms() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.port.transmit_latency = ns(120);
    settings.port.receive_latency = ns(130);
    settings.link.flight = ns(5);
    settings.switch.latency = ns(150);
    settings.completer.read_latency = ns(300);
    let mut stand = one_switch(&settings, 1);
    let flow = stand.flow(0, FlowKind::Read, BusAddress(0x1000), 64).times(3).at_once(1);
    let report = stand.run_one(flow);
    // Request of 20 B: 10 ns, header 8 ns. Completion of 84 B: 42 ns.
    let up = 120 + 8 + 5 + 150 + 10 + 5 + 130;
    let down = 120 + 8 + 5 + 150 + 42 + 5 + 130;
    assert_eq!(report.latencies_ps, vec![(up + 300 + down) * 1000; 3]);
}

/// Cut-through between links of different rates. From slow to fast the TLP begins so late that
/// its last byte leaves the switch's latency after it came in; from fast to slow it begins when
/// the header has passed the switch.
#[test]
fn cut_through_between_rates_never_runs_out_of_bytes() {
    let (slow, fast) = (rate(1, 1), rate(3, 8));
    let wire = 128 + 20;
    let time = |rate: crosslane_pcie::link::LinkRate, bytes: u64| {
        bytes as f64 / rate.bytes_per_second() * 1e9
    };
    for (from, to) in [(slow, fast), (fast, slow)] {
        let mut settings = Settings::ideal(from, 128);
        settings.uplink = to;
        settings.switch.latency = ns(100);
        let mut stand = one_switch(&settings, 1);
        let report = stand.run_one(stand.flow(0, FlowKind::Write, BusAddress(0), 128).times(1));
        let by_head = time(from, 16) + 100.0 + time(to, wire);
        let by_tail = time(from, wire) + 100.0;
        let expected = by_head.max(by_tail);
        let got = report.latencies_ps[0] as f64 / 1e3;
        assert!((got - expected).abs() < 0.01, "{got} {expected}");
    }
}

/// Symbol times of ports follow the generation, and not the width: a read crosses two ports each
/// way. Nanoseconds stay as they are.
#[test]
fn symbol_times_of_ports_follow_the_generation() {
    let latency_ps = |generation, lanes, symbols: u32| {
        let mut settings = Settings::board();
        (settings.rate, settings.uplink) = (rate(generation, lanes), rate(generation, lanes));
        (settings.port.receive_symbols, settings.port.transmit_symbols) = (2 * symbols, symbols);
        let mut stand = direct(&settings);
        let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 64).times(1);
        stand.run_one(flow).latencies_ps[0]
    };
    for (generation, symbol_ps) in [(1, 4000), (2, 2000), (3, 1000), (4, 500), (5, 250), (6, 125)] {
        for lanes in [1, 16] {
            let added_ps = latency_ps(generation, lanes, 20) - latency_ps(generation, lanes, 0);
            assert_eq!(added_ps, 2 * 60 * symbol_ps, "{generation}x{lanes}");
        }
    }
}
