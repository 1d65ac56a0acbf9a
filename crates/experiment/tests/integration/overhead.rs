// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Costs of single accesses in a lab: exact, as its time is simulated.

use crosslane_driver::Device;
use crosslane_experiment::{OverheadOptions, overhead};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::HostId;
use crosslane_results::OverheadRow;

/// With its own clock as the other one, and changed options.
fn measured(options: &OverheadOptions) -> Vec<OverheadRow> {
    let lab = Lab::load("rosta:crosslane").unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let run = simulation.run("overhead", async {
        let device = Device::open_by_name(bus.clone(), "fpga1").await.unwrap();
        overhead(&device, &bus, options).await.unwrap()
    });
    run.unwrap()
}

#[test]
fn each_kind_is_measured_by_both_clocks() {
    let options = OverheadOptions::default().with_rounds(20).with_large_rounds(2);
    let rows = measured(&options);
    assert!(rows.iter().all(|row| row.bus_ps == row.machine_ps && row.bus_ps > 0));
    let counts: Vec<(u64, Option<u64>)> = rows.iter().map(|row| (row.rounds, row.bytes)).collect();
    let (small, large) = (Some(64), Some(4 << 20));
    assert_eq!(
        counts,
        [(40, None), (20, None), (20, small), (20, small), (20, small), (2, large), (2, large)]
    );
    let (read, write, interrupt, polled) =
        (rows[0].bus_ps, rows[1].bus_ps, rows[2].bus_ps, rows[3].bus_ps);
    // A store leaves the core and a load waits for its round trip; a handler begins later than a
    // word of memory is seen.
    assert!(write < read && read < polled && polled < interrupt, "{rows:?}");
    // The card's link is Gen2 x4: no transfer is faster than it.
    let rates: Vec<f64> =
        rows[5..].iter().map(|row| row.bytes.unwrap() as f64 / row.bus_ps as f64 * 1e12).collect();
    assert!(rates.iter().all(|rate| (1.2e9..2.0e9).contains(rate)), "{rates:?}");
}

#[test]
fn the_same_lab_costs_the_same() {
    let options = OverheadOptions::default().with_rounds(5).with_large_rounds(1);
    assert_eq!(measured(&options), measured(&options));
}
