// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `aws-f1`: every compared row is within its tolerance, and what the document
//! says in words holds.

use crosslane_lab::Provenance;
use crosslane_reproduce::aws_f1::{Context, compared};
use crosslane_reproduce::comparison::Kind;

#[test]
fn every_compared_row_is_within_its_tolerance() {
    let rows = compared(&Context::new(1, &()).unwrap()).unwrap();
    for row in &rows {
        assert_eq!(row.is_met(), Some(true), "{}: {:?}", row.label, row);
    }
    // 13 of burst, 9 of custom, 15 of each combined mode less what the document contradicts.
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
