// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab `pciebench` against every row that the pcie-bench study published: those that it is
//! held to within their tolerances, and all the others run with right data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use crosslane_reproduce::comparison::Kind;
use crosslane_reproduce::pciebench::{Labs, Row, rows_named};

static LABS: LazyLock<Labs> = LazyLock::new(|| Labs::open().unwrap());
/// Simulated once for all tests.
static RESULTS: LazyLock<Vec<(Row, f64)>> = LazyLock::new(|| LABS.results().unwrap());

#[test]
fn every_published_row_is_simulated() {
    let mut counts = BTreeMap::new();
    for (row, simulated) in RESULTS.iter() {
        assert!(*simulated > 0.0 && simulated.is_finite(), "{row:?}: {simulated}");
        *counts.entry(row.test.as_str()).or_insert(0) += 1;
    }
    let expected = [
        ("BW_DMA_RD", 40),
        ("BW_DMA_RW", 40),
        ("BW_DMA_WR", 40),
        ("LAT_CMD_RD", 7),
        ("LAT_CMD_WRRD", 7),
        ("LAT_DMA_RD", 15),
        ("LAT_DMA_WRRD", 15),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn the_lab_agrees_with_the_rows_that_it_is_held_to() {
    let mut wrong = Vec::new();
    for (row, simulated) in RESULTS.iter() {
        let error = row.error(*simulated);
        if row.tolerance().is_some_and(|most| error.abs() > most) {
            let (test, size, published) = (&row.test, row.size_bytes, row.published);
            wrong.push(format!(
                "{test} {size} B: {simulated:.2}, published {published}: {error:+.3}"
            ));
        }
    }
    assert!(wrong.is_empty(), "beyond the tolerance:\n  {}", wrong.join("\n  "));
}

#[test]
fn the_rows_that_the_lab_is_held_to() {
    let sizes = |test: &str| -> Vec<u64> {
        let rows = RESULTS.iter().map(|(row, _)| row);
        let held = rows.filter(|row| row.test == test && row.tolerance().is_some());
        held.map(|row| row.size_bytes).collect()
    };
    // 16 B, and writes of 64 B, only because constants are fitted to them.
    assert_eq!(sizes("BW_DMA_RD"), [16, 64, 128, 256]);
    assert_eq!(sizes("BW_DMA_WR"), [16, 64, 128, 256, 512, 1024, 2048]);
    assert_eq!(sizes("BW_DMA_RW"), Vec::<u64>::new());
    let latencies = RESULTS.iter().filter(|(row, _)| row.is_latency());
    assert!(latencies.into_iter().all(|(row, _)| row.tolerance() == Some(0.10)));
}

#[test]
fn fewer_constants_are_fitted_than_rows_are_compared() {
    for is_latency in [false, true] {
        let fitted = LABS.fitted();
        let fitted = fitted.iter().filter(|constant| {
            let rows = rows_named(&constant.source);
            assert!(!rows.is_empty(), "{}: no row is named", constant.path());
            rows.iter().any(|(test, _)| test.starts_with("LAT_") == is_latency)
        });
        let compared = RESULTS
            .iter()
            .filter(|(row, _)| row.is_latency() == is_latency && row.tolerance().is_some());
        let (fitted, compared) = (fitted.count(), compared.count());
        assert!(fitted < compared, "{fitted} constants, {compared} rows, latency: {is_latency}");
    }
}

#[test]
fn context_has_a_reason_and_nothing_else_has() {
    for (row, _) in RESULTS.iter() {
        assert_eq!(row.kind == Kind::Context, !row.reason().is_empty(), "{row:?}");
    }
}

#[test]
fn the_document_shows_the_tables_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pciebench.md");
    let document = std::fs::read_to_string(path).unwrap();
    let fresh = LABS.document(&document, &RESULTS).unwrap();
    assert!(document == fresh, "docs/pciebench.md is out of date: `make pciebench` writes it anew");
}

#[test]
fn a_source_names_its_rows() {
    let rows = rows_named("BW_DMA_WR 128, 256 and 512 B, which differ by 3 ns");
    let sizes: Vec<u64> = rows.iter().map(|(_, size)| *size).collect();
    assert_eq!((rows[0].0.as_str(), sizes), ("BW_DMA_WR", vec![128, 256, 512]));
    let rows = rows_named("LAT_DMA_RD 64 B less LAT_CMD_RD 64 B, 80 ns, 8 of them the copy");
    assert_eq!(rows.len(), 2);
}
