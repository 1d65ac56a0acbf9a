// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The validation of labs: the compared rows, and that the constants that matter are plausible.

use crosslane_lab::{Constant, Lab};
use crosslane_reproduce::validation::{numbers, validate};

#[test]
fn rosta_depends_on_the_engines_clock_and_on_latencies() {
    let validation = validate("rosta", &(), &()).unwrap().unwrap();
    assert_eq!((&*validation.set, validation.rows), ("rosta", 19));
    assert!(validation.outside.is_empty(), "{:?}", validation.outside);
    assert!(validation.fitted < validation.compared.rows);
    assert!(validation.predicted.rows < validation.compared.rows && validation.predicted.rows > 5);
    assert!(validation.compared.worst.abs() <= 0.05 && validation.compared.median <= 0.02);
    assert_eq!(validation.changed + validation.fixed, numbers("rosta").unwrap().len());
    let influences = &validation.influences;
    assert_eq!(influences.len(), 5);
    assert!(influences.is_sorted_by(|a, b| a.average >= b.average));
    // A count of one becomes two: the paper's engine reads a page at a time, and with two at once
    // the round trip of each is hidden.
    assert_eq!(influences[0].constant, "part.v7.engine.reading_descriptors");
    assert_eq!((influences[0].value, influences[0].changed_to), (1.0, 2.0));
    assert!(influences[0].row.starts_with("read from RAM"), "{:?}", influences[0]);
    // All timers of the paper's engine depend on its clock.
    assert_eq!(influences[1].constant, "part.v7.requester.clock_ns");
    assert!(influences[1].largest < -0.08, "{:?}", influences[1]);
    // A tenth more of a card's latency, 23.6 ns either way, is entirely on the path to a card.
    for name in ["part.v7.port.receive_latency_ns", "part.v7.port.transmit_latency_ns"] {
        let latency = influences.iter().find(|one| one.constant == name).unwrap();
        assert_eq!(latency.row, "latency, 1 switch");
        assert!((latency.largest * 696.0 - 23.6).abs() < 1.0, "{latency:?}");
    }
}

/// One constant was fitted, the time from the interrupt to the program: it affects 1 KiB. Besides
/// it the board's widths and clocks matter, which the paper gives.
#[test]
fn kc705_depends_on_the_interrupt_and_on_widths_and_clocks() {
    let validation = validate("kc705", &(), &()).unwrap().unwrap();
    assert_eq!((&*validation.set, validation.rows, validation.fitted), ("kc705", 5, 1));
    assert_eq!((validation.compared.rows, validation.predicted.rows), (5, 3));
    assert!(validation.outside.is_empty(), "{:?}", validation.outside);
    assert!(validation.predicted.worst.abs() <= 0.02, "{:?}", validation.predicted);
    assert_eq!(validation.changed + validation.fixed, numbers("kc705").unwrap().len());
    let influences = &validation.influences;
    assert_eq!(influences[0].constant, "part.i5.cpu.interrupt_ns");
    assert!(influences[0].row.ends_with("1 KiB") && influences[0].largest < -0.05);
    let clock = "part.kc705.card_memory.axi_clock_ns";
    let clock = influences.iter().find(|one| one.constant == clock).unwrap();
    assert!(clock.row.ends_with("4 MiB") && clock.largest < -0.02, "{clock:?}");
}

/// Two thirds of the public rows are compared; the deviations that `docs/pciebench.md` names are
/// outside, and the constants of the IOMMU matter most.
#[test]
#[ignore = "a minute: make test-long"]
fn pciebench_behind_an_iommu_depends_on_walks() {
    let validation = validate("pciebench:iommu", &(), &()).unwrap().unwrap();
    assert_eq!((&*validation.set, validation.rows), ("pciebench:iommu", 128));
    assert_eq!((validation.compared.rows, validation.predicted.rows), (82, 78));
    assert_eq!(validation.outside.len(), 14, "{:?}", validation.outside);
    assert!(validation.outside.iter().all(|row| row.starts_with("BW_DMA_")));
    assert!(validation.predicted.median < 0.03, "{:?}", validation.predicted);
    assert_eq!(validation.changed + validation.fixed, numbers("pciebench:iommu").unwrap().len());
    let influences = &validation.influences;
    let named: Vec<&str> = influences[..2].iter().map(|one| one.constant.as_str()).collect();
    let of_iommu = |key: &str| format!("variant.iommu.part.xeon.iommu.{key}");
    assert_eq!(named, [of_iommu("walks"), of_iommu("walk_ns")]);
    // A tenth more time per walk is a tenth less of a rate that walks limit.
    assert!((influences[1].largest + 1.0 / 11.0).abs() < 0.002, "{:?}", influences[1]);
}

/// A constant that a variant sets separately keeps the variant's value: the lab's validation can
/// change it, whatever variants exist.
#[test]
fn every_constant_can_be_changed_before_a_variant_is_chosen() {
    let mut replaced = 0;
    for name in ["kc705", "nget", "rosta", "sbdt"] {
        let lab = crosslane_lab::open(name).unwrap();
        let paths = |lab: &Lab| lab.constants().map(Constant::path).collect::<Vec<_>>();
        let variants = lab.file().variants.iter().map(|variant| variant.name.as_str());
        let plain = variants.map(|name| (name, paths(&lab.with_variant(name).unwrap())));
        let plain: Vec<(&str, Vec<String>)> = plain.collect();
        for constant in lab.constants().filter(|constant| constant.is_number) {
            let path = constant.path();
            let Ok(value) = constant.value.replace('_', "").parse() else { continue };
            let changed = lab.with_constant(&path, value).unwrap();
            for (variant, plain) in &plain {
                let chosen = changed.with_variant(variant);
                let chosen = chosen.unwrap_or_else(|error| panic!("{name}: {path}: {error}"));
                assert_eq!(&paths(&chosen), plain, "{name}:{variant}");
                replaced += u32::from(!plain.contains(&path));
            }
        }
        assert!(lab.with_constant("part.nobody.clock_ns", 1.0).is_err());
    }
    assert!(replaced > 10, "{replaced}");
}
