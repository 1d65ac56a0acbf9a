// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `aws-f1`: every compared row is within its tolerance, and the paper's
//! statements hold.

use crate::support;

use std::sync::LazyLock;

use crosslane_lab::Provenance;
use crosslane_reproduce::comparison::{Kind, Row};
use crosslane_reproduce::reproduction::Reproduction;
use crosslane_reproduce::study::Effort;

/// The reproduction, run once for all tests.
static RUN: LazyLock<Reproduction> = LazyLock::new(|| support::reproduced("aws-f1"));

#[test]
fn the_page_is_what_is_simulated() {
    support::assert_page_is_fresh(&RUN);
}

/// The table's uncached rates that rise at large sizes equal those of small ones once whole seconds
/// are added.
#[test]
fn lost_seconds_explain_the_rise() {
    let rows: Vec<&Row> =
        RUN.rows().filter(|row| row.quantity.ends_with("seconds put back")).collect();
    assert_eq!(rows.len(), 10);
    for row in rows {
        assert!(row.error.unwrap().abs() < 0.02, "{row:?}");
    }
}

#[test]
fn every_compared_row_is_within_its_tolerance() {
    let rows = support::compared("aws-f1", Effort::Full);
    for row in &rows {
        assert_eq!(row.is_met(), Some(true), "{}: {:?}", row.label, row);
    }
    // 13 of burst, 9 of custom, 15 of each combined mode, without those that the paper contradicts.
    let count = |mode: &str| rows.iter().filter(|row| row.quantity == mode).count();
    assert_eq!(["burst", "burst-wc", "custom", "custom-wc"].map(count), [13, 15, 9, 15]);
    let predicted = |mode: &str| {
        rows.iter().filter(|row| row.quantity == mode && row.kind == Kind::Predicted).count()
    };
    assert_eq!(["burst", "burst-wc", "custom", "custom-wc"].map(predicted), [12, 13, 5, 12]);
    let lab = crosslane_lab::open("aws-f1").unwrap();
    let fitted = lab.constants().filter(|one| one.provenance == Provenance::Fit).count();
    assert!(fitted < predicted("burst"), "{fitted}");
}
