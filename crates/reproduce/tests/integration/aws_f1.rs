// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `aws-f1`: every compared row is within its tolerance, and what the document
//! says in words holds.

use crate::support;

use std::path::Path;
use std::sync::LazyLock;

use crosslane_lab::Provenance;
use crosslane_reproduce::aws_f1::{Context, SCENARIOS, compared};
use crosslane_reproduce::comparison::{Kind, Row};
use crosslane_reproduce::document::document;
use crosslane_reproduce::reproduction::Reproduction;

/// Run once for all tests, with the number of its scenarios.
static RUN: LazyLock<(Reproduction, u64)> = LazyLock::new(|| support::counted("aws-f1", 1));

#[test]
fn the_page_is_what_is_simulated() {
    assert_eq!(RUN.1, SCENARIOS);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproductions/aws-f1.md");
    let page = std::fs::read_to_string(path).unwrap();
    let fresh = document(&page, &RUN.0).unwrap();
    assert!(page == fresh, "docs/reproductions/aws-f1.md is old: `make aws-f1` writes it anew");
}

/// The table's uncached rates that rise at large sizes are those of the small ones with whole
/// seconds put back.
#[test]
fn lost_seconds_explain_the_rise() {
    let rows: Vec<&Row> =
        RUN.0.rows().filter(|row| row.quantity.ends_with("seconds put back")).collect();
    assert_eq!(rows.len(), 10);
    for row in rows {
        assert!(row.error.unwrap().abs() < 0.02, "{row:?}");
    }
}

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
