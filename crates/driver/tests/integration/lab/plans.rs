// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: path, rate, and reasons against a faster route.

use crosslane_driver::{PathEnd, Plan, PlanError, Refusal, set_max_payload_on_path};
use crosslane_host::Topology;
use crosslane_lab::LabBus;
use crosslane_pcie::ceiling::write_ceiling_bytes_per_second;
use crosslane_pcie::config::{find_extended_capability, registers as reg};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::BusAddress;

use crate::lab::setup::*;

fn place(bus: &LabBus, name: &str) -> PathEnd {
    PathEnd::Function(function(bus, name))
}

fn path(plan: &Plan) -> Vec<&str> {
    plan.path.iter().map(|info| info.name.as_str()).collect()
}

fn gen2_x4() -> LinkRate {
    LinkRate { generation: Generation::Gen2, width: Width::new(4).unwrap() }
}

/// Lets a port redirect peer requests (ACS).
pub fn redirect(bus: &impl Topology, name: &str) {
    let id = function(bus, name);
    let read = |offset| bus.config_read(id, offset);
    let found = find_extended_capability(reg::EXTENDED_CAPABILITY_ACS, read).unwrap();
    let offset = found.expect("it has ACS");
    let control = offset + reg::ACS_CONTROL;
    let value = bus.config_read(id, control).unwrap() | reg::ACS_CONTROL_REQUEST_REDIRECT;
    bus.config_write(id, control, value, 0b1111).unwrap();
}

#[test]
fn peers_meet_in_the_lowest_switch_above_both() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        let plan = |from, to| Plan::new(&bus, place(&bus, from), place(&bus, to)).unwrap();
        let near = plan("fpga1", "fpga2");
        assert_eq!(path(&near), ["fpga1", "rc47a.down0", "rc47a.down1", "fpga2"]);
        let far = plan("fpga1", "fpga5");
        let names = [
            "fpga1", "rc47a.down0", "rc47a.up", "rha25.down0", "rha25.down1", "rc47b.up",
            "rc47b.down0", "fpga5",
        ];
        assert_eq!(path(&far), names);
        for plan in [near, far] {
            assert!(!plan.through_root_complex);
            assert_eq!(plan.max_payload_bytes, 128);
            assert_eq!(plan.slowest_link, "rc47a.down0");
            let expected = write_ceiling_bytes_per_second(gen2_x4(), 3, 128);
            assert!((plan.expected_bytes_per_second / expected - 1.0).abs() < 1e-12);
            let high = write_ceiling_bytes_per_second(gen2_x4(), 4, 128);
            let at_high = plan.expected_at(BusAddress(1 << 32));
            assert!((at_high / high - 1.0).abs() < 1e-12);
            // The switches and the engines support 256 B, but are not set to it.
            let ports = path(&plan).iter().map(ToString::to_string).collect();
            let refusal = Refusal::MaxPayload { in_force_bytes: 128, possible_bytes: 256, ports };
            assert_eq!(plan.refused, [refusal]);
        }
    });
}

#[test]
fn host_memory_is_reached_by_way_of_the_root_port() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        let here = place(&bus, "fpga8");
        let up = Plan::new(&bus, here, PathEnd::HostMemory).unwrap();
        let mut names =
            vec!["fpga8", "rc47b.down3", "rc47b.up", "rha25.down1", "rha25.up", "host0.port0"];
        assert_eq!(path(&up), names);
        let down = Plan::new(&bus, PathEnd::HostMemory, here).unwrap();
        names.reverse();
        assert_eq!(path(&down), names);
        assert!(!up.through_root_complex && up.refused.is_empty());
        let nowhere = Plan::new(&bus, PathEnd::HostMemory, PathEnd::HostMemory).unwrap_err();
        let sentence = "no link on the path from host memory to host memory";
        assert_eq!(nowhere.to_string(), sentence);
        assert!(Plan::new(&bus, here, here).is_err());
    });
}

#[test]
fn a_port_that_redirects_sends_peers_through_the_root_complex() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        redirect(&bus, "rc47a.down0");
        // The switch above would have to send the requests back where they come from.
        fails(
            Plan::new(&bus, place(&bus, "fpga1"), place(&bus, "fpga2")),
            "rc47a.down0 redirects peer requests to the root complex (ACS), and rha25.down0 above \
             it does not: it refuses them, as their target is below it",
        );
        redirect(&bus, "rha25.down0");
        let plan = Plan::new(&bus, place(&bus, "fpga1"), place(&bus, "fpga2")).unwrap();
        let names = [
            "fpga1", "rc47a.down0", "rc47a.up", "rha25.down0", "rha25.up", "host0.port0",
            "host0.port0", "rha25.up", "rha25.down0", "rc47a.up", "rc47a.down1", "fpga2",
        ];
        assert_eq!(path(&plan), names);
        assert!(plan.through_root_complex);
        let port = "rc47a.down0".to_owned();
        assert_eq!(plan.refused, [Refusal::AcsRedirect { port }]);
        // The other direction enters at another port.
        let back = Plan::new(&bus, place(&bus, "fpga2"), place(&bus, "fpga1")).unwrap();
        assert!(!back.through_root_complex);
    });
}

#[test]
fn payloads_are_set_along_the_path_and_nowhere_else() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        let (from, to) = (place(&bus, "fpga1"), place(&bus, "fpga2"));
        let set = set_max_payload_on_path(&bus, from, to, 256).unwrap();
        assert_eq!(set, ["fpga1", "rc47a.down0", "rc47a.down1", "fpga2"]);
        let plan = Plan::new(&bus, from, to).unwrap();
        assert_eq!((plan.max_payload_bytes, plan.refused), (256, vec![]));
        // The upstream port was not on the path.
        let upward = Plan::new(&bus, from, PathEnd::HostMemory).unwrap();
        assert_eq!(upward.max_payload_bytes, 128);
        // The root port supports 128: nothing is changed at all.
        let other = place(&bus, "fpga6");
        fails(
            set_max_payload_on_path(&bus, other, PathEnd::HostMemory, 256),
            "host0.port0 supports payloads up to 128 B, not 256 B",
        );
        let plan = Plan::new(&bus, other, place(&bus, "fpga7")).unwrap();
        assert_eq!(plan.max_payload_bytes, 128);
        for bytes in [0, 64, 100, 8192] {
            let error = set_max_payload_on_path(&bus, from, to, bytes).unwrap_err();
            assert_eq!(error, PlanError::NoPayloadSize { bytes });
        }
    });
}
