// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The validation of the lab `rosta`: what it compares, and that the constants that matter are
//! those that physics says.

use crosslane_reproduce::validation::{numbers, validate};

#[test]
fn rosta_depends_on_the_engines_clock_and_on_latencies() {
    let validation = validate("rosta", &()).unwrap();
    assert_eq!((validation.set, validation.rows), ("rosta", 19));
    assert!(validation.outside.is_empty(), "{:?}", validation.outside);
    assert!(validation.fitted < validation.compared.rows);
    assert!(validation.predicted.rows < validation.compared.rows && validation.predicted.rows > 5);
    assert!(validation.compared.worst.abs() <= 0.05 && validation.compared.median <= 0.02);
    assert_eq!(validation.changed + validation.fixed, numbers("rosta").unwrap());
    let influences = &validation.influences;
    assert_eq!(influences.len(), 5);
    assert!(influences.is_sorted_by(|a, b| a.average >= b.average));
    // The engine's clock is what all timers of the document's engine depend on.
    assert_eq!(influences[0].constant, "part.v7.requester.clock_ns");
    assert!(influences[0].largest < -0.08, "{:?}", influences[0]);
    // A tenth more of a switch's latency is 2 x 15 ns more on the way through three switches.
    let latency = influences.iter().find(|one| one.constant == "part.rc47.latency_ns").unwrap();
    assert_eq!(latency.row, "latency, 3 switches");
    assert!((latency.largest * 1052.0 - 30.0).abs() < 2.0, "{latency:?}");
}

/// One constant was fitted, the time from the interrupt to the program: it moves 1 KB, and beside
/// it matter the board's widths and clocks, which the document gives.
#[test]
fn kc705_depends_on_the_interrupt_and_on_widths_and_clocks() {
    let validation = validate("kc705", &()).unwrap();
    assert_eq!((validation.set, validation.rows, validation.fitted), ("kc705", 5, 1));
    assert_eq!((validation.compared.rows, validation.predicted.rows), (5, 3));
    assert!(validation.outside.is_empty(), "{:?}", validation.outside);
    assert!(validation.predicted.worst.abs() <= 0.02, "{:?}", validation.predicted);
    assert_eq!(validation.changed + validation.fixed, numbers("kc705").unwrap());
    let influences = &validation.influences;
    assert_eq!(influences[0].constant, "part.i5.cpu.interrupt_ns");
    assert!(influences[0].row.ends_with("1 KB") && influences[0].largest < -0.05);
    let clock = "part.kc705.card_memory.axi_clock_ns";
    let clock = influences.iter().find(|one| one.constant == clock).unwrap();
    assert!(clock.row.ends_with("4 MB") && clock.largest < -0.02, "{clock:?}");
}
