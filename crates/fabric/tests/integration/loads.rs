// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several loads of a core in flight: uncached ones, and streaming loads of write-combined memory.

use crate::root_complex::settings_of_loads;
use crate::support;

use crosslane_fabric::parameters::CombiningParameters;
use crosslane_fabric::*;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

/// A card on Gen2 x4: 0.5 ns a byte, 20 B around a payload.
fn stand(loads_in_flight: u16, streaming_loads: u16) -> Stand {
    let mut settings = settings_of_loads();
    settings.cpu.loads_in_flight = loads_in_flight;
    let (store, fence) = (ns(2), ns(5));
    settings.cpu.combining =
        Some(CombiningParameters { buffers: 2, store, fence, streaming_loads });
    let mut stand = direct(&settings);
    stand.fabric.set_dllps_free(true);
    stand
}

/// Time of a load whose completion is `payload_bytes` long, and of that completion on the wire.
fn load_and_completion_ns(payload_bytes: u64) -> (u64, u64) {
    let completion_ns = (20 + payload_bytes) / 2;
    let request_ns = 20 + 10 + 5 + 30;
    (request_ns + 100 + (20 + completion_ns + 5 + 30) + 25, completion_ns)
}

fn loads(stand: &Stand, bytes: u64, region: Region) -> Flow {
    let flow = stand.core_flow(0, FlowKind::Read, stand.bar(0), bytes).at_once(64);
    Flow { region, ..flow }
}

/// As many loads as may be in flight share each round trip. Their completions follow each other on
/// the wire from the first round on, so that later rounds are as long as a load alone.
#[test]
fn loads_in_flight_share_a_round_trip() {
    let (load_ns, completion_ns) = load_and_completion_ns(8);
    for in_flight in [1, 2, 4, 16] {
        let mut stand = stand(in_flight, 0);
        let rounds = 50;
        let operations = rounds * u64::from(in_flight);
        let report = stand.run_one(loads(&stand, 8, Region::Uncached).times(operations));
        let behind_ns = completion_ns * u64::from(in_flight - 1);
        assert_eq!(report.last_done, ns(rounds * load_ns + behind_ns), "{in_flight}");
        assert_eq!(report.latencies_ps[0], load_ns * 1000);
        // The core is occupied from the first load to the last, however many there are.
        assert_eq!(stand.fabric.busy(stand.root), Some(report.last_done));
    }
    // With more than the wire can take, that is the limit.
    let report = {
        let mut stand = stand(64, 0);
        stand.run_one(loads(&stand, 8, Region::Uncached).times(2000))
    };
    assert_steady(&report, 8.0 / (completion_ns as f64 * 1e-9), 1e-3, ());
}

/// The operations in flight are those that were asked for, if the core could make more.
#[test]
fn operations_in_flight_are_as_many_as_asked_for() {
    let (load_ns, completion_ns) = load_and_completion_ns(8);
    let mut stand = stand(16, 0);
    let flow = loads(&stand, 16, Region::Uncached).times(60).at_once(3);
    let report = stand.run_one(flow);
    // Three of two loads each, and the next one of each when both have come.
    assert_eq!(report.last_done, ns(20 * (load_ns + completion_ns) + 4 * completion_ns));
}

/// A streaming load brings a line of 64 B, whatever of it is wanted.
#[test]
fn streaming_loads_read_whole_lines() {
    let (load_ns, completion_ns) = load_and_completion_ns(64);
    for (bytes, offset, lines) in [(256, 0, 4), (64, 0, 1), (8, 0, 1), (64, 32, 2), (8, 60, 2)] {
        let mut stand = stand(1, 6);
        let flow = loads(&stand, bytes, Region::WriteCombined).times(10).at_once(1);
        let report = stand.run_one(Flow { target: flow.target.offset(offset), ..flow });
        let operation_ns = load_ns + (lines - 1) * completion_ns;
        assert_eq!(report.latencies_ps, vec![operation_ns * 1000; 10], "{bytes} at {offset}");
        assert_eq!(report.tlps, 10 * lines);
        let up = stand.direction(0, LinkDirection::Up);
        assert_eq!(stand.fabric.counters(up).payload_bytes, 10 * lines * 64);
    }
    // Six lines a round trip; those of other operations count too.
    let mut stand = stand(1, 6);
    let report = stand.run_one(loads(&stand, 128, Region::WriteCombined).times(300));
    assert_eq!(report.last_done, ns(100 * load_ns + 5 * completion_ns));
}

/// Stores and host code wait until no load is in flight, and then have their turn.
#[test]
fn stores_and_host_code_wait_for_loads() {
    let mut stand = stand(4, 4);
    let (root, bar) = (stand.root, stand.bar(0));
    let reads = loads(&stand, 8, Region::Uncached).times(200);
    let stores = stand.core_flow(0, FlowKind::Write, bar.offset(1 << 20), 8).times(20).at_once(1);
    let lines = Flow { target: bar.offset(2 << 20), ..loads(&stand, 64, Region::WriteCombined) };
    stand.fabric.poke(HOST, bar.offset(3 << 20), &7_u32.to_le_bytes());
    let ids = stand.start([reads, stores, lines.times(200)]);
    stand.fabric.host_load(root, 0, bar.offset(3 << 20), 4, 1).unwrap();
    assert_eq!(stand.next_event(), loaded(1, 7));
    // Those in flight before it, each flow's turn, and its own time.
    let (load_ns, _) = load_and_completion_ns(64);
    assert!(stand.fabric.now() <= ns(3 * load_ns), "{}", stand.fabric.now());
    stand.run_to_any_end(&ids);
    for report in stand.reports(&ids) {
        assert_eq!((report.failed, report.operations % 20), (0, 0), "{:?}", report.errors);
        // No flow starves while another has loads in flight.
        let most_ps = report.latencies_ps.iter().max().copied();
        assert!(most_ps <= Some(4 * load_ns * 1000), "{most_ps:?}");
    }
    assert_eq!(stand.fabric.errors(), &[]);
}

/// Loads that are lost with their link time out one by one; their tags come back or stay out of
/// use, and the rest go on.
#[test]
fn each_load_in_flight_times_out() {
    let mut stand = stand(8, 0);
    let ids = stand.start([loads(&stand, 8, Region::Uncached).times(100)]);
    stand.fabric.run(Some(ns(1000)));
    let link = stand.link("ep0");
    stand.fabric.take_link_down(link, Some(ns(1001)));
    stand.run_to_any_end(&ids);
    let report = stand.reports(&ids).remove(0);
    let is_late = |kind: &ErrorKind| matches!(kind, ErrorKind::CompletionTimeout { .. });
    let late = stand.count(is_late) as u64;
    assert!(0 < late && late <= 8, "{late}");
    assert!(report.failed >= late && report.failed <= 8, "{:?}", report.errors);
    assert_eq!(report.operations + report.failed, 100);
    assert!(stand.fabric.now() >= COMPLETION_TIMEOUT);
}

#[test]
fn only_cores_that_can_read_write_combined_memory() {
    let mut without = stand(4, 0);
    let mut with = stand(4, 4);
    let lines = loads(&with, 64, Region::WriteCombined);
    let endpoint = Flow { source: FlowSource::Endpoint(with.endpoints[0]), ..lines.clone() };
    let words = |stand: &mut Stand, flow: &Flow| {
        stand.fabric.start_flow(flow.clone()).unwrap_err().to_string()
    };
    for (flow, problem) in [
        (Flow { kind: FlowKind::Write, ..lines.clone() }, "only reads of a flow go"),
        (Flow { target: BusAddress(0), ..endpoint }, "only a core reads"),
        (Flow { tlp_bytes: Some(8), ..lines.clone() }, "a streaming load reads a line of 64 B"),
    ] {
        let found = words(&mut with, &flow);
        assert!(found.contains(problem), "{found}");
    }
    assert!(words(&mut without, &lines).contains("no streaming loads"));
    assert!(with.fabric.start_flow(Flow { tlp_bytes: Some(64), ..lines }).is_ok());
    assert_eq!(with.fabric.now(), Picoseconds::ZERO);
}
