// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DLLPs of clean links are computed lazily, those of links with bit errors eagerly. Both must
//! agree: this compares the lazy model with the eager one, packet by packet.

use crate::support::{self, log};

use crosslane_fabric::parameters::*;
use crosslane_fabric::trace::{TraceEvent, TraceRecord};
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::BusAddress;
use log::Log;
use support::*;

/// Too small for any bit to be wrong, but not zero, so that the links are eager.
const EAGER: f64 = 1e-300;

/// Packets sent, with time and direction, sorted because late records come out of order.
fn packets(log: &Log) -> Vec<TraceRecord> {
    let mut records = log.records();
    records.retain(|record| !matches!(record.event, TraceEvent::Idle { .. }));
    records.sort_by_key(|record| (record.time, record.direction));
    records
}

#[test]
fn late_dllps_take_the_wire_when_eager_ones_do() {
    let few = Credits { header: 6, data: 48 };
    for shape in 0..5 {
        for (tlps, credits, skp) in [
            (1, [Credits::INFINITE; 3], false),
            (4, [Credits { header: 16, data: 128 }, Credits { header: 8, data: 8 }, few], true),
            (9, [few, Credits { header: 2, data: 2 }, Credits::INFINITE], true),
        ] {
            let [late, eager] = [0.0, EAGER].map(|bit_error_rate| {
                let mut settings = Settings::ideal(rate(3, 8), 256);
                settings.link.bit_error_rate = bit_error_rate;
                settings.link.skp = skp;
                settings.link.flight = ns(5);
                settings.switch.latency = ns(100);
                settings.port.transmit_latency = ns(30);
                settings.completer.read_latency = ns(400);
                settings.completer.write_bytes_per_second = 6e9;
                settings.port.ack.tlps = tlps;
                settings.port.ack.within = None;
                settings.port.update_fc = Coalescing { tlps, within: None };
                settings.port.receive_credits = credits;
                let mut stand = tree(&settings, shape);
                let log = Log::of(&mut stand.fabric);
                stand.run(stand.everywhere(100, [1000, 900], (FlowKind::WriteRead, 700)));
                packets(&log)
            });
            assert!(late.len() > 1000);
            let different = late.iter().zip(&eager).find(|(late, eager)| late != eager);
            assert!(different.is_none(), "shape {shape}, {tlps} TLPs: {different:?}");
            assert_eq!(late.len(), eager.len());
        }
    }
}

/// Reads that wait for credits take turns with writes that do not: the read rate follows Little's
/// law for its credits, however many writes could be sent instead.
#[test]
fn reads_without_credits_are_not_forgotten_behind_writes() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.port.receive_credits[1] = Credits { header: 2, data: 2 };
    settings.completer.read_slots = 2;
    settings.completer.read_latency = ns(2000);
    let mut stand = direct(&settings);
    let read = stand.flow(0, FlowKind::Read, BusAddress(1 << 26), 64).times(200);
    let write = stand.flow(0, FlowKind::Write, BusAddress(0), 4096).times(2000);
    let reports = stand.run(vec![read, write]);
    // Two reads are in service and two wait in the receive buffer, so a slot is never empty:
    // 2 x 64 B every 2 us.
    let expected = 2.0 * 64.0 / 2e-6;
    assert_steady(&reports[0], expected, 0.02, ());
    assert!(reports[1].last_done > reports[0].last_done, "the writes went on all the time");
}

/// A write that becomes ready while reads wait for credits is sent when ready.
#[test]
fn writes_that_are_not_ready_are_not_forgotten_behind_reads_without_credits() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.port.transmit_latency = ns(100);
    settings.port.receive_credits[1] = Credits { header: 1, data: 1 };
    settings.completer.read_slots = 1;
    settings.completer.read_latency = ns(20_000);
    settings.requester.write_interval = ns(130);
    let mut stand = direct(&settings);
    let read = stand.flow(0, FlowKind::Read, BusAddress(1 << 26), 64).times(10).at_once(4);
    let write = stand.flow(0, FlowKind::Write, BusAddress(0), 64).at_once(1);
    let reports = stand.run(vec![read, write]);
    // Alone on the link: 100 ns and 84 B at 126.95 ps. A read and an Ack, 28 B, may precede it.
    let alone_ps = 100_000 + 84 * 127;
    let worst_ps = reports[1].latencies_ps.iter().max().unwrap();
    assert!(*worst_ps <= alone_ps + 28 * 127, "{worst_ps}");
}
