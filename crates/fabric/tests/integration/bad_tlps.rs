// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invalid and unroutable TLPs: where the error is detected, what the requester learns, and that
//! the run ends in any case.

use crate::support;

use crosslane_fabric::parameters::PeerToPeer;
use crosslane_fabric::*;
use crosslane_pcie::config::registers;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.requester.completion_timeout = ns(50_000);
    settings
}

/// Runs one flow of ten operations to any end, after which no link holds anything back.
fn run(stand: &mut Stand, flow: Flow) -> (RunEnd, FlowReport) {
    let id = stand.fabric.start_flow(Flow { operations: 10, ..flow }).unwrap();
    let end = stand.fabric.run(None);
    let report = stand.fabric.flow_report(id);
    assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
    (end, report)
}

/// Every error of the fabric: port and sentence, each once.
fn errors(stand: &Stand) -> Vec<(String, String)> {
    let errors = stand.fabric.errors().iter();
    let mut errors: Vec<_> =
        errors.map(|error| (error.port_name.clone(), error.kind.to_string())).collect();
    errors.dedup();
    errors
}

/// Asserts that a stuck run names the waiting flow and its remainder.
fn assert_stuck(end: &RunEnd, flow: &str) {
    let RunEnd::Stuck(lines) = end else { panic!("{end:?}") };
    let expected = format!("flow {flow}: 10 of 10 operations have not ended");
    assert!(lines.iter().any(|line| line.starts_with(&expected)), "{lines:?}");
}

/// Asserts that each read was answered with an error, or that the writes are missed for ever.
fn assert_refused(kind: FlowKind, end: &RunEnd, report: &FlowReport) {
    match kind {
        FlowKind::Write => assert_stuck(end, "0"),
        _ => assert_eq!((end, report.failed), (&RunEnd::Quiet, 10)),
    }
}

/// The receiver with the smaller Max_Payload_Size treats the TLP as malformed: the endpoint, the
/// switch in front of it, or the requester's own neighbour if the requester breaks its own rule.
#[test]
fn a_payload_above_a_ports_setting_is_malformed_there() {
    for (small, force) in [("ep1", false), ("down0.1", false), ("up0", false), ("ep0", true)] {
        let mut stand = one_switch(&settings(), 2);
        stand.set_max_payload(small, 128);
        let mut flow = stand.flow(0, FlowKind::Write, stand.bar(1), 256);
        if force {
            // All are set to 128 B, but the requester ignores it.
            for name in ["down0.0", "down0.1", "ep1", "up0", "rp0"] {
                stand.set_max_payload(name, 128);
            }
            (flow.force, flow.tlp_bytes) = (true, Some(256));
        }
        let (end, report) = run(&mut stand, flow);
        // Ports that only send the TLP do not check it.
        let finder = match small {
            "ep1" => "ep1",
            "ep0" => "down0.0",
            _ => {
                assert_eq!((end, report.operations), (RunEnd::Quiet, 10), "{small}");
                assert_eq!(stand.fabric.errors(), &[]);
                continue;
            }
        };
        assert_stuck(&end, "0");
        assert_eq!(report.operations, 0);
        assert_eq!(stand.fabric.error_count(), 10);
        for (place, what) in errors(&stand) {
            assert_eq!(place, finder);
            let sentence = "Malformed TLP: a payload of 256 B is larger than the port's \
                            Max_Payload_Size of 128 B (MWr ";
            assert!(what.starts_with(sentence), "{what}");
        }
    }
}

/// Malformed completions leave the read unanswered; it times out, to the picosecond.
#[test]
fn a_malformed_completion_ends_in_a_completion_timeout() {
    let mut stand = direct(&settings());
    stand.set_max_payload("ep0", 128);
    let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 256);
    let (end, report) = run(&mut stand, flow);
    assert_eq!(end, RunEnd::Quiet);
    assert_eq!((report.operations, report.failed), (0, 10));
    let records = stand.fabric.errors();
    let is_timeout =
        |error: &&ErrorRecord| matches!(error.kind, ErrorKind::CompletionTimeout { .. });
    let timeouts: Vec<_> = records.iter().filter(is_timeout).collect();
    assert_eq!((timeouts.len(), records.len()), (10, 20));
    // The requester queues what it can at time 0; the others follow when room is free.
    assert_eq!(timeouts[0].time, ns(50_000));
    assert_eq!(timeouts[0].port_name, "ep0");
    let sentence = "got no answer within 50 us";
    assert!(report.errors.iter().all(|error| error.ends_with(sentence)), "{report:?}");
}

/// An address that nothing claims: a read fails with Unsupported Request; a write is dropped and
/// reported by the port where it stops, the root port or the switch port that it would have to
/// return through.
#[test]
fn what_routes_nowhere_is_refused() {
    let cases = [("host", "rp0"), ("own", "down0.0")];
    for (which, finder) in cases {
        for kind in [FlowKind::Read, FlowKind::Write] {
            let mut stand = one_switch(&settings(), 2);
            let target = if which == "own" { stand.bar(0) } else { NOWHERE };
            let flow = stand.flow(0, kind, target, 256);
            let (end, report) = run(&mut stand, flow);
            let first = &errors(&stand)[0];
            assert_eq!(first.0, finder);
            assert!(first.1.starts_with("Unsupported Request: "), "{first:?}");
            assert!(first.1.ends_with(" routes nowhere"), "{first:?}");
            assert_refused(kind, &end, &report);
            if kind == FlowKind::Read {
                let sentence =
                    format!("a read of 256 B at {target} was completed with Unsupported");
                assert!(report.errors[0].starts_with(&sentence), "{}", report.errors[0]);
            }
        }
    }
}

/// A flow after the refused one finds tags, credits and buffers intact.
#[test]
fn a_refused_flow_leaves_no_trace_behind() {
    let mut settings = settings();
    settings.requester.tags = 4;
    let mut stand = one_switch(&settings, 2);
    let flow = stand.flow(0, FlowKind::Read, NOWHERE, 256);
    let (_, report) = run(&mut stand, flow);
    assert_eq!(report.failed, 10);
    let errors = stand.fabric.error_count();
    let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 256);
    let (end, report) = run(&mut stand, flow);
    assert_eq!((end, report.operations, report.failed), (RunEnd::Quiet, 10, 0));
    assert_eq!(stand.fabric.error_count(), errors);
}

/// Tags that timed out stay out of use. With none left the flow is reported as stuck.
#[test]
fn without_tags_the_run_ends_as_stuck() {
    let mut settings = settings();
    settings.requester.tags = 4;
    let mut stand = direct(&settings);
    stand.set_max_payload("ep0", 128);
    let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 256);
    let (end, report) = run(&mut stand, flow);
    assert_eq!((report.operations, report.failed), (0, 4));
    let RunEnd::Stuck(lines) = end else { panic!("{end:?}") };
    assert!(lines[0].starts_with("flow 0: 6 of 10 operations have not ended"), "{lines:?}");
}

/// With peer traffic forbidden, reads are refused, writes dropped, and the target's link carries
/// nothing.
#[test]
fn a_root_complex_can_forbid_peer_traffic() {
    for kind in [FlowKind::Read, FlowKind::Write] {
        let mut settings = settings();
        settings.peer_to_peer = PeerToPeer::Forbidden;
        let mut stand = root_ports(&settings, 2);
        let flow = stand.flow(0, kind, stand.bar(1), 256);
        let (end, report) = run(&mut stand, flow);
        let first = &errors(&stand)[0];
        assert_eq!(first.0, "rp0");
        let sentence = "would go from one root port to another, which host forbids";
        assert!(first.1.ends_with(sentence), "{first:?}");
        let down = stand.direction(1, LinkDirection::Down);
        assert_eq!(stand.fabric.counters(down).tlps, 0);
        assert_refused(kind, &end, &report);
    }
}

/// Peer traffic goes through its switch or, with ACS redirection on its ingress port, up to the
/// root complex and down again: the counters of the uplink show each TLP.
#[test]
fn acs_redirects_peer_traffic_through_the_root_complex() {
    for redirected in [false, true] {
        let mut stand = one_switch(&settings(), 2);
        if redirected {
            stand.set_acs("down0.0", registers::ACS_CONTROL_REQUEST_REDIRECT);
        }
        let flow = stand.flow(0, FlowKind::Write, stand.bar(1), 1024);
        let report = &stand.run(vec![Flow { operations: 100, ..flow }])[0];
        let uplink = stand.link("up0");
        for heading in [LinkDirection::Up, LinkDirection::Down] {
            let counters = stand.fabric.counters(DirectionId { link: uplink, heading });
            let expected = if redirected { (400, 102_400) } else { (0, 0) };
            assert_eq!((counters.tlps, counters.payload_bytes), expected, "{heading:?}");
        }
        assert_eq!(report.operations, 100);
        // The return path is not redirected: the other endpoint's port lacks the bit.
        let flow = stand.flow(1, FlowKind::Write, stand.bar(0), 1024);
        stand.run(vec![Flow { operations: 100, ..flow }]);
        let counters =
            stand.fabric.counters(DirectionId { link: uplink, heading: LinkDirection::Up });
        assert_eq!(counters.tlps, if redirected { 400 } else { 0 });
    }
}

/// A peer read with completions redirected at the completer's port: the request turns at the
/// switch, and the completions go up and down the uplink.
#[test]
fn acs_redirects_completions_of_peer_reads() {
    let mut stand = one_switch(&settings(), 2);
    stand.set_acs("down0.1", registers::ACS_CONTROL_COMPLETION_REDIRECT);
    let flow = stand.flow(0, FlowKind::Read, stand.bar(1), 256);
    stand.run(vec![Flow { operations: 100, ..flow }]);
    let uplink = stand.link("up0");
    for heading in [LinkDirection::Up, LinkDirection::Down] {
        let counters = stand.fabric.counters(DirectionId { link: uplink, heading });
        assert_eq!((counters.tlps, counters.payload_bytes), (100, 25_600), "{heading:?}");
    }
}

/// Redirected traffic meets the root complex's rule for peers.
#[test]
fn redirected_traffic_can_be_forbidden() {
    let mut settings = settings();
    settings.peer_to_peer = PeerToPeer::Forbidden;
    let mut stand = one_switch(&settings, 2);
    stand.set_acs("down0.0", registers::ACS_CONTROL_REQUEST_REDIRECT);
    let flow = stand.flow(0, FlowKind::Read, stand.bar(1), 64);
    let (end, report) = run(&mut stand, flow);
    assert_eq!((end, report.failed), (RunEnd::Quiet, 10));
    assert_eq!(errors(&stand)[0].0, "rp0");
}

/// Without Memory Space Enable an endpoint claims nothing, even if the bridges route to it.
#[test]
fn an_endpoint_with_its_memory_space_off_refuses() {
    for kind in [FlowKind::Read, FlowKind::Write] {
        let mut stand = one_switch(&settings(), 2);
        let flow = stand.flow(0, kind, stand.bar(1), 128);
        stand.set_command("ep1", 0);
        let (end, report) = run(&mut stand, flow);
        assert_eq!(errors(&stand)[0].0, "ep1");
        assert_refused(kind, &end, &report);
    }
}

/// Without Bus Master Enable an endpoint sends no request.
#[test]
fn an_endpoint_that_is_no_bus_master_sends_nothing() {
    let mut stand = direct(&settings());
    stand.set_command("ep0", registers::COMMAND_MEMORY_SPACE);
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 128);
    let (end, report) = run(&mut stand, flow);
    assert_eq!((end, report.failed, report.operations), (RunEnd::Quiet, 10, 0));
    assert!(report.errors[0].ends_with("while its Bus Master Enable bit is off"));
    let up = stand.direction(0, LinkDirection::Up);
    assert_eq!(stand.fabric.counters(up).tlps, 0);
}

/// Stores and loads of a core to unclaimed addresses all fail, and the run ends.
#[test]
fn a_core_that_reaches_for_nothing_fails_and_goes_on() {
    for kind in [FlowKind::Read, FlowKind::Write] {
        let mut stand = direct(&settings());
        let flow = stand.core_flow(0, kind, NOWHERE, 8);
        let (end, report) = run(&mut stand, flow);
        assert_eq!((end, report.failed), (RunEnd::Quiet, 10), "{kind:?}");
        assert!(report.errors[0].contains("no root port leads to"), "{report:?}");
    }
    // Loads that the endpoint refuses.
    let mut stand = direct(&settings());
    let flow = stand.core_flow(0, FlowKind::Read, stand.bar(0), 8);
    stand.set_command("ep0", 0);
    let (end, report) = run(&mut stand, flow);
    assert_eq!((end, report.failed), (RunEnd::Quiet, 10));
    assert!(report.errors[0].ends_with("Unsupported Request"), "{report:?}");
}

/// A limit ends a run at exactly that time, and the run can continue from there.
#[test]
fn a_limit_ends_a_run_to_the_picosecond() {
    let mut stand = direct(&settings());
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 4096);
    let id = stand.fabric.start_flow(Flow { operations: 50, ..flow }).unwrap();
    for limit in [1, 777, 778, 123_456] {
        assert_eq!(stand.fabric.run(Some(Picoseconds(limit))), RunEnd::Limit);
        assert_eq!(stand.fabric.now(), Picoseconds(limit));
    }
    assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
    assert_eq!(stand.fabric.flow_report(id).operations, 50);
}
