// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits inside a switch: a rate of all TLPs, and times from one to the next.

use crate::support;

use crosslane_fabric::parameters::CrossbarParameters;
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::Picoseconds;
use support::*;

const UNLIMITED: CrossbarParameters = CrossbarParameters {
    bytes_per_second: f64::INFINITY,
    tlp_interval: Picoseconds::ZERO,
    port_tlp_interval: Picoseconds::ZERO,
};
/// 140 B, a payload of 128 B with its header, in 100 ns; on its link it takes 74 ns.
const SLOW: CrossbarParameters = CrossbarParameters { bytes_per_second: 1.4e9, ..UNLIMITED };

/// Endpoints on Gen2 x4 behind one switch, whose ports hold eight TLPs.
fn stand(crossbar: Option<CrossbarParameters>, endpoints: usize) -> Stand {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.switch.crossbar = crossbar;
    settings.port.receive_credits = [Credits { header: 8, data: 64 }; 3];
    one_switch(&settings, endpoints)
}

/// Long writes of 128 B from endpoints to others.
fn writes(stand: &Stand, pairs: &[(usize, usize)]) -> Vec<Flow> {
    let write = |&(from, to)| stand.flow(from, FlowKind::Write, stand.bar(to), 128).times(2000);
    pairs.iter().map(write).collect()
}

/// Checks the time from one operation of each flow to its next.
fn assert_periods(crossbar: CrossbarParameters, pairs: &[(usize, usize)], periods_ns: &[u64]) {
    let mut stand = stand(Some(crossbar), pairs.len() + 1);
    let flows = writes(&stand, pairs);
    for (report, period_ns) in stand.run(flows).iter().zip(periods_ns) {
        assert_steady(report, 128.0 / (*period_ns as f64 * 1e-9), 2e-3, (pairs, period_ns));
    }
}

/// Flows through one switch share what it passes, whichever ports they take, in equal parts.
#[test]
fn all_ports_share_the_rate() {
    assert_periods(SLOW, &[(0, 1)], &[100]);
    assert_periods(SLOW, &[(0, 1), (1, 0)], &[200, 200]);
    assert_periods(SLOW, &[(0, 1), (1, 2), (2, 0)], &[300, 300, 300]);
    let interval = CrossbarParameters { tlp_interval: ns(90), ..UNLIMITED };
    assert_periods(interval, &[(0, 1), (1, 0)], &[180, 180]);
    // The longer of both counts.
    let both = CrossbarParameters { tlp_interval: ns(90), ..SLOW };
    assert_periods(both, &[(0, 1), (1, 0)], &[200, 200]);
}

/// A port's interval holds up what comes in by it, and nothing else.
#[test]
fn each_port_keeps_its_interval() {
    let crossbar = CrossbarParameters { port_tlp_interval: ns(150), ..UNLIMITED };
    assert_periods(crossbar, &[(0, 1), (1, 2), (2, 0)], &[150, 150, 150]);
    // Two flows that come in by one port share it.
    assert_periods(crossbar, &[(0, 1), (0, 2), (1, 0)], &[300, 300, 150]);
}

/// TLPs that wait fill the receive buffers of the switch, and hold up the senders.
#[test]
fn waiting_tlps_hold_up_their_senders() {
    let mut stand = stand(Some(SLOW), 3);
    let flows = writes(&stand, &[(0, 1), (1, 2)]);
    let reports = stand.run(flows);
    let up = stand.direction(0, LinkDirection::Up);
    let counters = stand.fabric.counters(up);
    let waits = [IdleReason::NoCredit, IdleReason::ReceiverBusy];
    let waited: u64 = waits.iter().map(|reason| counters.idle_ps[*reason as usize]).sum();
    // Of each 200 ns 74 are used.
    let share = waited as f64 / reports[0].last_done.0 as f64;
    assert!((share - 126.0 / 200.0).abs() < 2e-3, "{share}");
}

/// A write alone: the link sends its header in 8 ns and all of it in 74; it passes the crossbar
/// from 8 ns on, in 100 or 50 ns, and goes on so that it does not run out of bytes.
#[test]
fn a_slow_crossbar_delays_the_last_byte() {
    for (bytes_per_second, done_ns) in [(f64::INFINITY, 82), (2.8e9, 82), (1.4e9, 108)] {
        let crossbar = CrossbarParameters { bytes_per_second, ..UNLIMITED };
        let mut stand = stand(Some(crossbar), 2);
        let flow = writes(&stand, &[(0, 1)]).remove(0).times(1);
        assert_eq!(stand.run_one(flow).latencies_ps, [done_ns * 1000], "{bytes_per_second}");
    }
}

/// A crossbar without limits changes nothing, to the picosecond; nor does that of another switch.
#[test]
fn an_unlimited_crossbar_is_none() {
    for shuffle in [false, true] {
        let run = |crossbar| {
            let mut settings = Settings::board();
            settings.switch.crossbar = crossbar;
            settings.port.receive_credits = [Credits { header: 32, data: 256 }; 3];
            let mut stand = two_boards(&settings, 2);
            stand.fabric.set_shuffle(shuffle);
            let flows = stand.everywhere(60, [700, 1500], (FlowKind::WriteRead, 900));
            let reports = stand.run(flows);
            reports.into_iter().map(|report| report.latencies_ps).collect::<Vec<_>>()
        };
        assert_eq!(run(None), run(Some(UNLIMITED)), "{shuffle}");
    }
}

/// Reads and writes of all kinds come through a slow crossbar whole and in order, also where links
/// go down meanwhile.
#[test]
fn a_slow_crossbar_loses_nothing() {
    let crossbar = CrossbarParameters { tlp_interval: ns(40), port_tlp_interval: ns(70), ..SLOW };
    for shape in 1..5 {
        let mut settings = Settings::board();
        settings.switch.crossbar = Some(crossbar);
        settings.port.receive_credits = [Credits { header: 16, data: 128 }; 3];
        let mut stand = tree(&settings, shape);
        stand.fabric.set_shuffle(shape % 2 == 0);
        let flows = stand.everywhere(40, [700, 1500], (FlowKind::WriteRead, 900));
        stand.run(flows.clone());
        let ids = stand.start(flows);
        let begun_ps = stand.fabric.now().0;
        for link in 0..stand.fabric.links().len() as u32 {
            stand.fabric.run(Some(Picoseconds(begun_ps + u64::from(link + 1) * 2_000_000)));
            let until = stand.fabric.now() + ns(500);
            stand.fabric.take_link_down(LinkId(link), Some(until));
        }
        stand.run_to_any_end(&ids);
    }
}
