// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeds of every test run.

use std::ops::Range;

use crosslane_torture::{Check, Fault, LabText, Setup, campaign, lab_of, run_seed};

use crate::assert_none_failed;

/// Seeds run every time.
const SEEDS: Range<u64> = 0..3000;
/// Those of them that are run twice.
const TWICE: Range<u64> = 0..40;

/// Further seeds that once failed.
const ONCE_FAILED: [u64; 25] = [
    8827, 9038, 11_360, 11_975, 12_399, 12_621, 5_001_605, 5_004_541, 7_008_005, 20_002_687,
    30_009_146, 30_019_515, 30_023_691, 30_026_902, 30_029_326, 30_068_736, 30_077_445, 30_097_710,
    20_417_001_447, 20_782_058_458, 30_000_012_408, 30_000_027_965, 30_000_028_650, 30_000_032_402,
    30_000_091_544,
];

#[test]
fn seeds() {
    let summary = campaign(SEEDS, &Setup::default(), false, &(), &());
    assert_none_failed(&summary);
    let count = SEEDS.end - SEEDS.start;
    assert_eq!(summary.seeds, count);
    // One of eight labs has an IOMMU, which many requests of many pages meet.
    assert!(summary.all.walks > count * 30, "{summary:?}");
    assert!(summary.all.translated > 2 * summary.all.walks, "{summary:?}");
    // Faults of single TLPs meet TLPs, most of them in the seeds that aim them.
    assert!(summary.all.spoilt > count, "{summary:?}");
    // A seed in which nothing happens shows nothing.
    assert!(summary.all.words > count * 5_000 && summary.all.transfers > count * 20, "{summary:?}");
    for &fault in Fault::ALL {
        assert!(summary.all.faults.of(fault) > count / 50, "{fault}: {:?}", summary.all.faults);
    }
}

#[test]
fn seeds_that_once_failed() {
    for seed in ONCE_FAILED {
        assert_none_failed(&campaign(seed..seed + 1, &Setup::default(), false, &(), &()));
    }
}

#[test]
fn the_same_seed_twice_is_the_same() {
    assert_none_failed(&campaign(TWICE, &Setup::default(), true, &(), &()));
}

#[test]
fn a_lab_that_was_written_down_is_treated_as_the_seed_s_own_was() {
    let mut written = 0;
    for seed in 0..12 {
        let lab = lab_of(seed, &Setup::default());
        written += u32::from(lab.variant.is_none());
        let own = run_seed(seed, &Setup::default()).unwrap();
        let setup = Setup { lab: Some(lab), ..Setup::default() };
        assert_eq!(run_seed(seed, &setup).unwrap(), own, "seed {seed}");
    }
    assert!(written > 6);
}

#[test]
fn a_lab_can_be_asked_for() {
    for name in ["rosta", "rosta:crosslane", "minimal"] {
        let setup = Setup { lab: Some(LabText::load(name).unwrap()), ..Setup::default() };
        let summary = campaign(0..20, &setup, false, &(), &());
        assert_none_failed(&summary);
        assert!(summary.all.words > 20_000, "{name}: {summary:?}");
    }
    assert!(LabText::load("nowhere").is_err());
}

#[test]
fn the_document_has_a_row_for_each_fault_and_each_checker() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/torture.md");
    let text = std::fs::read_to_string(path).unwrap();
    let faults = Fault::ALL.iter().map(|fault| fault.word());
    for word in faults.chain(Check::ALL.iter().map(|check| check.word())) {
        assert!(text.contains(&format!("\n| {word} | ")), "docs/torture.md has no row for {word}");
    }
}
