// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The diagnosis in which DLLPs take no wire time: the gain equals the time that they took.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::units::BusAddress;
use support::*;

/// Gen2 x4: 0.5 ns a byte; a DLLP takes 4 ns.
const DLLP_PS: u64 = 8 * 500;

/// Two endpoints on one switch write to each other at full rate. Returns the time of the last byte
/// and the counters of each endpoint's uplink.
fn pair(free: bool) -> (u64, [LinkCounters; 2]) {
    let settings = Settings::ideal(rate(2, 4), 128);
    let mut stand = one_switch(&settings, 2);
    stand.fabric.set_dllps_free(free);
    let mut flows = Vec::new();
    for from in 0..2 {
        let target = BusAddress(stand.bar(1 - from).0);
        flows.push(Flow { operations: 500, ..stand.flow(from, FlowKind::Write, target, 4096) });
    }
    let reports = stand.run(flows);
    let last = reports.iter().map(|report| report.last_done.0).max().unwrap();
    let ways = [0, 1].map(|endpoint| stand.direction(endpoint, LinkDirection::Up));
    (last, ways.map(|heading| stand.fabric.counters(heading)))
}

/// The wires are never idle, so the run is shorter by the time of the DLLPs sent on one of them
/// before its last TLP. The few after it take less time than one TLP.
#[test]
fn a_pair_gains_what_its_dllps_took() {
    let (with, counters) = pair(false);
    let (without, free) = pair(true);
    for (taken, free) in counters.iter().zip(&free) {
        // An Ack for each of 16,000 TLPs, or a few less where they were merged.
        assert!(taken.acks > 15_900, "{}", taken.acks);
        assert!(free.acks > 15_900 && free.dllp_bytes == 8 * free.acks, "{}", free.acks);
        assert_eq!((free.tlps, free.payload_bytes), (16_000, 500 * 4096));
        let gain = with - without;
        let dllps = taken.acks * DLLP_PS;
        assert!(gain.abs_diff(dllps) <= 4 * DLLP_PS, "{gain} for {dllps}");
    }
    // 148 B each without gaps, then the path through the switch.
    let tlps = 16_000 * 148 * 500;
    assert!((tlps..tlps + 200_000).contains(&without), "{without} for {tlps}");
}

/// The diagnosis can be switched off; the rest of the run is unaffected by it.
#[test]
fn it_can_be_switched_off_again() {
    let settings = Settings::ideal(rate(2, 4), 128);
    let time = |twice: bool| {
        let mut stand = direct(&settings);
        if twice {
            stand.fabric.set_dllps_free(true);
            stand.fabric.set_dllps_free(false);
        }
        let flow = stand.flow(0, FlowKind::WriteRead, BusAddress(0), 4096);
        stand.run_one(flow).last_done
    };
    assert_eq!(time(true), time(false));
}
