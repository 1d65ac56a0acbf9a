// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors detected by a port stay in its Device Status until software clears them.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::config::registers;
use crosslane_pcie::units::BusAddress;
use support::*;

const CORRECTABLE: u32 = 0b0001;
const NON_FATAL: u32 = 0b0010;
const FATAL: u32 = 0b0100;
const UNSUPPORTED: u32 = 0b1000;

/// Position of a port's Device Status: function and offset.
fn place(fabric: &Fabric, port: PortId) -> (crosslane_pcie::units::RoutingId, u16) {
    (fabric.routing_id(port), express(fabric, port) + registers::DEVICE_CONTROL)
}

/// All ports that have seen an error, with the bits.
fn statuses(fabric: &Fabric) -> Vec<(&str, u32)> {
    let ports = (0..fabric.ports().len() as u32).map(PortId);
    let all = ports.map(|port| {
        let (id, offset) = place(fabric, port);
        (fabric.port(port).name.as_str(), fabric.config_read(HOST, id, offset) >> 16)
    });
    all.filter(|(_, bits)| *bits != 0).collect()
}

/// Runs one flow of ten operations to any end.
fn run(stand: &mut Stand, kind: FlowKind, target: BusAddress) {
    let flow = stand.flow(0, kind, target, 256);
    stand.fabric.start_flow(Flow { operations: 10, ..flow }).unwrap();
    stand.fabric.run(None);
    assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
}

fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.requester.completion_timeout = ns(50_000);
    settings
}

#[test]
fn a_good_run_sets_nothing() {
    let mut stand = one_switch(&settings(), 2);
    run(&mut stand, FlowKind::Write, BusAddress(0));
    assert_eq!(statuses(&stand.fabric), []);
}

/// A payload above the port's Max_Payload_Size is a Malformed TLP: fatal, recorded only by the port
/// that detects it, and cleared by writing ones.
#[test]
fn a_malformed_tlp_is_fatal() {
    let mut stand = one_switch(&settings(), 2);
    stand.set_max_payload("ep1", 128);
    let target = stand.bar(1);
    run(&mut stand, FlowKind::Write, target);
    assert_eq!(statuses(&stand.fabric), [("ep1", FATAL)]);
    let (id, offset) = place(&stand.fabric, stand.port("ep1"));
    stand.fabric.config_write(HOST, id, offset, FATAL << 16, 0b1100);
    assert_eq!(statuses(&stand.fabric), []);
}

/// Posted unsupported requests are non-fatal; those with a completion are advisory, so correctable.
/// The same holds at root port, switch and endpoint.
#[test]
fn an_unsupported_request_is_told_by_its_class() {
    for (kind, bit) in [(FlowKind::Write, NON_FATAL), (FlowKind::Read, CORRECTABLE)] {
        for finder in ["rp0", "down0.0", "ep1"] {
            let mut stand = one_switch(&settings(), 2);
            let target = match finder {
                "rp0" => NOWHERE,
                "down0.0" => stand.bar(0),
                _ => stand.bar(1),
            };
            if finder == "ep1" {
                stand.set_command("ep1", 0);
            }
            run(&mut stand, kind, target);
            assert_eq!(statuses(&stand.fabric), [(finder, UNSUPPORTED | bit)]);
        }
    }
}

/// A completion after its read has timed out: non-fatal for the time-out, correctable for the
/// unexpected completion.
#[test]
fn a_completion_timeout_is_non_fatal_and_a_late_completion_advisory() {
    let mut settings = settings();
    settings.completer.read_latency = ns(60_000);
    let mut stand = direct(&settings);
    run(&mut stand, FlowKind::Read, BusAddress(0));
    assert_eq!(statuses(&stand.fabric), [("ep0", NON_FATAL | CORRECTABLE)]);
}

/// Bit errors are corrected by the link: both ends of the link see them, and no other port.
#[test]
fn bit_errors_are_correctable() {
    let mut settings = settings();
    settings.link.bit_error_rate = 1e-5;
    let mut stand = direct(&settings);
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 4096);
    stand.run(vec![Flow { operations: 2000, ..flow }]);
    assert_eq!(statuses(&stand.fabric), [("rp0", CORRECTABLE), ("ep0", CORRECTABLE)]);
}
