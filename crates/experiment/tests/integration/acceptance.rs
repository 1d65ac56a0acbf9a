// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps by which cards are accepted, on cards of labs: good ones, and one on a bad link.

use crosslane_driver::Device;
use crosslane_experiment::{AcceptanceOptions, accept};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::machine::TestStep;

fn options() -> AcceptanceOptions {
    let timeout = Picoseconds::from_ms(200);
    AcceptanceOptions::default().with_largest_bytes(16 << 20).with_timeout(timeout).with_seed(5)
}

/// All steps on cards of a lab; `spoil` may change the fabric first.
fn steps(
    lab: &str,
    cards: &[&str],
    options: &AcceptanceOptions,
    spoil: impl FnOnce(&mut crosslane_fabric::Fabric),
) -> (Vec<TestStep>, usize) {
    let lab = Lab::load(lab).unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let run = simulation.run("acceptance", async {
        let mut devices = Vec::new();
        for card in cards {
            devices.push(Device::open_by_name(bus.clone(), card).await.unwrap());
        }
        simulation.with_fabric(spoil);
        let mut steps = Vec::new();
        let failed = accept(&devices, options, |step| steps.push(step)).await;
        (steps, failed)
    });
    run.unwrap()
}

fn bad(steps: &[TestStep]) -> Vec<String> {
    let failed = steps.iter().filter_map(|step| {
        let sentence = step.error.as_ref()?;
        Some(format!("{}, {}: {sentence}", step.place, step.what))
    });
    failed.collect()
}

#[test]
fn two_cards_pass_every_step() {
    let (steps, failed) = steps("rosta:crosslane", &["fpga1", "fpga5"], &options(), |_| {});
    assert_eq!((bad(&steps), failed), (Vec::new(), 0));
    // For each card: registers, seven sizes both ways, loopback, the table and interrupts both
    // ways; between the two a write and round trips each way.
    assert_eq!(steps.len(), 2 * (1 + 14 + 1 + 2 + 2) + 4);
    let places: Vec<&str> = steps.iter().rev().take(3).map(|step| step.place.as_str()).collect();
    assert_eq!(places, ["fpga5 -> fpga1", "fpga5 -> fpga1", "fpga1 -> fpga5"]);
    assert!(steps.iter().all(|step| step.took_ps > 0));
}

#[test]
fn a_card_with_memory_has_that_looked_at_too() {
    let (steps, failed) = steps("kc705:crosslane", &["kc705"], &options(), |_| {});
    assert_eq!((bad(&steps), failed), (Vec::new(), 0));
    let of_memory = steps.iter().filter(|step| step.what.contains("of memory"));
    assert_eq!(of_memory.count(), 2);
}

#[test]
fn cards_that_show_their_memory_are_read_by_cores_and_by_each_other() {
    let options = options().with_largest_bytes(0);
    let (steps, failed) = steps("rosta:memory", &["fpga1", "fpga2"], &options, |_| {});
    assert_eq!((bad(&steps), failed), (Vec::new(), 0));
    let places_of = |what| steps.iter().filter(move |step| step.what == what).map(|it| &it.place);
    assert!(places_of("1000 B of memory through BAR2").eq(["fpga1", "fpga2"]));
    assert!(places_of("peer read").eq(["fpga1 -> fpga2", "fpga2 -> fpga1"]));
}

#[test]
fn memory_that_is_reached_without_a_mapping_fails_its_step_alone() {
    let options = options().with_guarded(true).with_largest_bytes(0);
    let (steps, failed) = steps("rosta:crosslane", &["fpga1"], &options, |_| {});
    assert_eq!(failed, 1);
    assert_eq!(
        bad(&steps),
        ["fpga1, memory that is not mapped: it was read all the same"],
        "a host without IOMMU"
    );
}
