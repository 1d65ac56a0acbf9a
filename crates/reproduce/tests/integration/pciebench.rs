// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab `pciebench` against every published row of the pcie-bench study: compared rows are
//! within their tolerances, and all others run with correct data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use crosslane_reproduce::comparison::Kind;
use crosslane_reproduce::pciebench::{Compared, Labs};

static LABS: LazyLock<Labs> = LazyLock::new(|| Labs::open().unwrap());
/// The rows, simulated once for all tests.
static RESULTS: LazyLock<Vec<Compared>> = LazyLock::new(|| LABS.results().unwrap());

#[test]
fn every_published_row_is_simulated() {
    let mut counts = BTreeMap::new();
    for Compared { row, simulated, .. } in RESULTS.iter() {
        assert!(*simulated > 0.0 && simulated.is_finite(), "{row:?}: {simulated}");
        *counts.entry(row.test.name.as_ref()).or_insert(0) += 1;
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
    let wrong = RESULTS.iter().filter(|it| !it.is_within());
    let wrong: Vec<(&str, u64)> =
        wrong.map(|it| (it.row.test.name.as_ref(), it.row.test.size_bytes)).collect();
    // `docs/pciebench.md` says why.
    let known = [("BW_DMA_RD", 64), ("BW_DMA_RD", 1024), ("BW_DMA_RW", 512), ("BW_DMA_RW", 1024)];
    assert_eq!(wrong, known);
}

#[test]
fn the_rows_that_the_lab_is_held_to() {
    for test in ["BW_DMA_RD", "BW_DMA_WR", "BW_DMA_RW"] {
        let rows = RESULTS.iter().map(|it| &it.row);
        let held =
            rows.filter(|row| row.test.name.as_ref() == test && row.figure.tolerance.is_some());
        let sizes: Vec<u64> = held.map(|row| row.test.size_bytes).collect();
        assert_eq!(sizes, [16, 32, 64, 128, 256, 512, 1024, 2048], "{test}");
    }
    let latencies = RESULTS.iter().filter(|it| it.row.is_latency());
    assert!(latencies.into_iter().all(|it| it.row.figure.tolerance == Some(0.10)));
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
            .filter(|it| it.row.is_latency() == is_latency && it.row.figure.tolerance.is_some());
        let (fitted, compared) = (fitted.count(), compared.count());
        assert!(fitted < compared, "{fitted} constants, {compared} rows, latency: {is_latency}");
    }
}

#[test]
fn context_has_a_reason_and_nothing_else_has() {
    for Compared { row, .. } in RESULTS.iter() {
        assert_eq!(row.figure.kind == Kind::Context, !row.figure.reason.is_empty(), "{row:?}");
    }
}

#[test]
fn the_document_shows_the_tables_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pciebench.md");
    let document = std::fs::read_to_string(path).unwrap();
    let fresh = LABS.document(&document, &RESULTS).unwrap();
    assert!(document == fresh, "docs/pciebench.md is out of date: `make pciebench` writes it anew");
}

/// Returns the rows that a source names: after the name of a test, sizes up to the unit `B`.
fn rows_named(source: &str) -> Vec<(&str, u64)> {
    let (mut rows, mut test) = (Vec::new(), None);
    for word in source.split([' ', ',', ';', ':']).filter(|word| !word.is_empty()) {
        match word.parse::<u64>() {
            _ if word.starts_with("BW_") || word.starts_with("LAT_") => test = Some(word),
            Ok(size) => rows.extend(test.map(|test| (test, size))),
            Err(_) if word == "and" => {}
            Err(_) => test = None,
        }
    }
    rows
}

#[test]
fn fits_are_the_rows_that_constants_name() {
    let constants = LABS.fitted();
    let named: BTreeSet<_> =
        constants.iter().flat_map(|constant| rows_named(&constant.source)).collect();
    let fits = RESULTS.iter().filter(|it| it.row.figure.kind == Kind::Fit);
    let fits: BTreeSet<_> =
        fits.map(|it| (it.row.test.name.as_ref(), it.row.test.size_bytes)).collect();
    assert_eq!(fits, named);
}
