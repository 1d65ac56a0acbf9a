// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that go down under traffic and come up again: losses, error reports, termination of every
//! run, and normal traffic afterwards.

use crate::support;

use crosslane_fabric::parameters::Coalescing;
use crosslane_fabric::*;
use crosslane_pcie::config::registers;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use proptest::prelude::*;
use support::*;

fn settings() -> Settings {
    let mut settings = Settings::board();
    settings.port.receive_credits = [
        Credits { header: 16, data: 256 },
        Credits { header: 16, data: 16 },
        Credits { header: 16, data: 256 },
    ];
    settings.port.replay_buffer_bytes = 4096;
    settings.port.ack = Coalescing { tlps: 3, within: None };
    settings.port.update_fc = Coalescing { tlps: 2, within: None };
    settings.completer.write_bytes_per_second = 10e9;
    settings.requester.completion_timeout = ns(50_000);
    settings
}

/// Writes, reads and both, from both endpoints to host memory and to each other, and a core that
/// stores and loads.
fn heavy(stand: &Stand, operations: u64, base: u64) -> Vec<Flow> {
    let mut flows = Vec::new();
    for from in 0..2 {
        let at = base + ((from as u64) << 26);
        let peer = BusAddress(stand.bar(1 - from).0 + (from as u64) * 0x4_0000);
        let kinds = [
            (FlowKind::Write, BusAddress(at)),
            (FlowKind::Read, BusAddress(at + (1 << 25))),
            (FlowKind::WriteRead, peer),
        ];
        for (kind, target) in kinds {
            let mut flow = stand.flow(from, kind, target, 1500);
            flow.window_bytes = 1 << 16;
            flows.push(Flow { operations, ..flow });
        }
    }
    for (core, kind) in [FlowKind::Write, FlowKind::Read].into_iter().enumerate() {
        let target = BusAddress(stand.bar(core).0 + 0x8_0000);
        let mut flow = stand.core_flow(core as u16, kind, target, 64);
        flow.window_bytes = 1 << 16;
        flows.push(Flow { operations, ..flow });
    }
    flows
}

/// Traffic, the link down from `down_ps` for `for_ps`, then traffic again; checks all of it.
fn down_and_up(settings: &Settings, link: &str, down_ps: u64, for_ps: u64, shuffle: bool) {
    let mut stand = one_switch(settings, 2);
    stand.fabric.set_shuffle(shuffle);
    let link = stand.link(link);
    let ids = stand.start(heavy(&stand, 40, 0));
    stand.fabric.run(Some(Picoseconds(down_ps)));
    stand.fabric.take_link_down(link, Some(Picoseconds(down_ps + for_ps)));
    assert!(!stand.fabric.is_link_up(link));
    stand.run_to_any_end(&ids);
    // A fabric without traffic does not wait for the link, nor for reads of failed operations.
    stand.fabric.bring_link_up(link);
    let late = stand.fabric.now() + settings.requester.completion_timeout;
    stand.fabric.host_timer(late, 0);
    stand.next_event();
    // Data read back may never have been written, but nothing may overtake.
    assert_eq!(stand.count(|kind| matches!(kind, ErrorKind::Ordering { .. })), 0);
    assert_ne!(stand.count(|kind| matches!(kind, ErrorKind::LinkDown { .. })), 0);
    let before = stand.fabric.error_count();
    let ids = stand.start(heavy(&stand, 10, 1 << 28));
    assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
    for report in stand.reports(&ids) {
        assert_eq!((report.operations, report.failed), (10, 0), "{:?}", report.errors);
    }
    assert_eq!(stand.fabric.error_count(), before);
    assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
}

/// Many cases; a failing one is printed in full, so none is kept on disk.
fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) }
}

proptest! {
    #![proptest_config(cases())]
    /// At any picosecond of heavy traffic in both directions, on any link, for any time, with or
    /// without bit errors and shuffling.
    #[test]
    fn traffic_ends_and_goes_on_after_any_link_down(
        link in prop::sample::select(vec!["up0", "ep0", "ep1"]),
        down_ps in 0u64..40_000_000,
        for_ps in prop::sample::select(vec![0, 1, 999, 50_000, 3_000_000, 200_000_000]),
        bit_errors in any::<bool>(),
        shuffle in any::<bool>(),
        store_and_forward in any::<bool>(),
    ) {
        let mut settings = settings();
        settings.link.bit_error_rate = if bit_errors { 1e-5 } else { 0.0 };
        if store_and_forward {
            settings.switch.forwarding = crosslane_fabric::parameters::Forwarding::StoreAndForward;
        }
        down_and_up(&settings, link, down_ps, for_ps, shuffle);
    }
}

/// A TLP at every picosecond around the arrival of its last byte.
#[test]
fn a_tlp_is_lost_until_its_last_byte_has_come() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.link.flight = ns(3);
    // 84 B at 0.5 ns, and the flight.
    let there_ps = 84 * 500 + 3000;
    for (down_ps, arrives) in [(1, false), (there_ps - 1, false), (there_ps, true)] {
        let mut stand = direct(&settings);
        let link = stand.link("ep0");
        let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 64);
        let id = stand.fabric.start_flow(Flow { operations: 1, ..flow }).unwrap();
        assert_eq!(
            stand.fabric.run(Some(Picoseconds(down_ps))),
            if arrives { RunEnd::Quiet } else { RunEnd::Limit }
        );
        stand.fabric.take_link_down(link, None);
        assert_eq!(stand.fabric.flow_report(id).operations, u64::from(arrives));
        let lost_tlps = u64::from(!arrives);
        let expected = ErrorKind::LinkDown { link: "ep0".into(), lost_tlps };
        assert_eq!(stand.fabric.errors()[0].kind, expected);
        assert_eq!(stand.fabric.errors()[0].port_name, "rp0");
        assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
    }
}

/// Registers: Data Link Layer Link Active and the fatal error at the upper port; functions below do
/// not answer, and keep their settings until the link is up again.
#[test]
fn configuration_tells_and_is_kept() {
    let mut stand = one_switch(&settings(), 2);
    let (link, fabric) = (stand.link("ep1"), &mut stand.fabric);
    let (upper, lower) = (fabric.link(link).upper, fabric.link(link).lower);
    let (above, below) = (fabric.routing_id(upper), fabric.routing_id(lower));
    let express = express(fabric, upper);
    let register = |fabric: &Fabric, offset| fabric.config_read(HOST, above, express + offset);
    let is_active =
        |fabric: &Fabric| register(fabric, registers::LINK_CONTROL) & registers::LINK_STATUS_ACTIVE;
    let before = fabric.config_read(HOST, below, registers::BAR0);
    assert_ne!(is_active(fabric), 0);
    fabric.take_link_down(link, None);
    assert_eq!(is_active(fabric), 0);
    assert_eq!(register(fabric, registers::DEVICE_CONTROL) >> 16, 0b0100);
    assert_eq!(fabric.config_read(HOST, below, registers::VENDOR_DEVICE), NO_FUNCTION);
    fabric.bring_link_up(link);
    assert_ne!(is_active(fabric), 0);
    assert_eq!(fabric.config_read(HOST, below, registers::BAR0), before);
}

/// Host code at a link that is down: loads are refused at once, stores are dropped and recorded; a
/// load with its completion on the link times out.
#[test]
fn host_code_is_told() {
    let mut stand = direct(&Settings { max_read_request: 512, ..settings() });
    let (root, bar, link) = (stand.root, stand.bar(0), stand.link("ep0"));
    let fabric = &mut stand.fabric;
    fabric.host_load(root, 0, bar, 4, 1).unwrap();
    fabric.host_timer(ns(300), 2);
    assert_eq!(next_event(fabric), HostEvent::Timer { token: 2 });
    fabric.take_link_down(link, None);
    fabric.host_load(root, 1, bar, 4, 3).unwrap();
    let refused = LoadError::Refused { address: bar, bytes: 4, status: "Unsupported Request" };
    assert_eq!(next_event(fabric), HostEvent::Loaded { token: 3, result: Err(refused) });
    assert_eq!(fabric.now(), ns(320));
    fabric.host_store(root, 1, bar, &[1; 4], 4, 4).unwrap();
    assert_eq!(next_event(fabric), stored(4));
    let last = fabric.errors().last().unwrap().to_string();
    assert!(last.starts_with("rp0 at 320 ns: MWr "), "{last}");
    assert!(last.ends_with("cannot leave by link ep0, which is down"), "{last}");
    assert_eq!(next_event(fabric), timed_out(1, bar));
    assert_eq!(fabric.now(), COMPLETION_TIMEOUT);
    assert!(!fabric.run_until_host_event());
    assert_eq!(fabric.check_quiet(), Vec::<String>::new());
    fabric.bring_link_up(link);
    fabric.host_load(root, 0, bar, 4, 5).unwrap();
    assert_eq!(next_event(fabric), loaded(5, 0));
}

/// A link comes up by itself exactly at its time; a later setting replaces an earlier one.
#[test]
fn a_link_comes_up_at_its_time() {
    let mut stand = direct(&settings());
    let link = stand.link("ep0");
    let fabric = &mut stand.fabric;
    fabric.take_link_down(link, Some(ns(1000)));
    fabric.take_link_down(link, Some(ns(2000)));
    for (time, up) in [(ns(1000), false), (Picoseconds(1_999_999), false), (ns(2000), true)] {
        fabric.host_timer(time, 1);
        next_event(fabric);
        assert_eq!(fabric.is_link_up(link), up);
    }
}
