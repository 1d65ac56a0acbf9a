// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The study's other servers, and its windows of growing size, against the lab that is fitted to
//! one server only.

use std::path::Path;
use std::sync::LazyLock;

use crosslane_lab::{Provenance, open};
use crosslane_reproduce::comparison::{Kind, worst_and_median};
use crosslane_reproduce::pciebench::systems::{document, results, windows};
use crosslane_reproduce::pciebench::{Cache, Compared, TestName};

/// The rows, simulated once for all tests.
static RESULTS: LazyLock<Vec<Compared>> = LazyLock::new(|| {
    let mut all = results().unwrap();
    all.extend(windows().unwrap());
    all
});

/// The median error of some predicted rows, and the share of them within a bound.
fn errors(bound: f64, is_wanted: impl Fn(&Compared) -> bool) -> (f64, f64) {
    let rows = RESULTS.iter().filter(|it| it.row.figure.kind == Kind::Predicted && is_wanted(it));
    let errors: Vec<f64> = rows.map(Compared::error).collect();
    assert!(errors.len() > 50, "{} rows", errors.len());
    let within = errors.iter().filter(|error| error.abs() <= bound).count();
    let (_, median) = worst_and_median(errors.iter().copied()).unwrap();
    (median, within as f64 / errors.len() as f64)
}

fn is_window(it: &Compared) -> bool {
    it.row.figure.conditions.ends_with("window")
}

#[test]
fn hosts_that_nothing_but_a_latency_was_fitted_to_are_predicted() {
    let (median, share) = errors(0.05, |it| !it.row.is_latency() && !is_window(it));
    assert!(median <= 0.02 && share >= 0.85, "bandwidth: {median} {share}");
    let (median, share) = errors(0.15, |it| it.row.is_latency() && !is_window(it));
    assert!(median <= 0.02 && share >= 0.95, "latency: {median} {share}");
}

#[test]
fn windows_are_predicted_with_the_iommu_on_and_off() {
    let (median, share) = errors(0.10, |it| is_window(it) && it.row.test.iommu);
    assert!(median <= 0.05 && share >= 0.70, "IOMMU on: {median} {share}");
    let (median, share) = errors(0.10, |it| is_window(it) && !it.row.test.iommu);
    assert!(median <= 0.04 && share >= 0.90, "IOMMU off: {median} {share}");
}

/// Time that a miss of the cache adds, ns.
const MISS_NS: f64 = 50.0;

/// Returns the simulated latency of a server's window with the IOMMU off.
fn window(system: &str, name: TestName, cache: Cache, window_bytes: u64) -> f64 {
    let is_it = |it: &&Compared| {
        let test = &it.row.test;
        let is_window = is_window(it) && it.row.is_latency() && !test.iommu;
        is_window
            && (test.system.as_str(), test.name, test.cache) == (system, name, cache)
            && test.window_bytes == window_bytes
    };
    RESULTS.iter().find(is_it).unwrap().simulated
}

/// Writes of a card have a tenth of the cache; beyond that each pushes a changed line out.
#[test]
fn writes_of_a_card_fill_a_tenth_of_the_cache() {
    for (system, fits_bytes, beyond_bytes) in [("", 1 << 20, 8 << 20), ("t430", 2 << 20, 8 << 20)] {
        let latency = |bytes| window(system, TestName::LatCmdWrrd, Cache::Cold, bytes);
        let (least, fits, beyond) = (latency(16 << 10), latency(fits_bytes), latency(beyond_bytes));
        assert_eq!(fits, least, "{system}");
        assert!((beyond - fits - MISS_NS).abs() < 1.0, "{system}: {fits} {beyond}");
    }
    let (median, share) =
        errors(0.10, |it| is_window(it) && it.row.test.name == TestName::LatCmdWrrd);
    assert!(median <= 0.04 && share >= 0.95, "{median} {share}");
}

/// A window beyond the cache takes as long as a cold one, and a smaller one does not.
#[test]
fn a_warm_cache_helps_as_far_as_it_reaches() {
    let latency = |cache, bytes| window("", TestName::LatDmaRd, cache, bytes);
    for window_bytes in [8 << 10, 1 << 20, 8 << 20] {
        let (warm, cold) = (latency(Cache::Warm, window_bytes), latency(Cache::Cold, window_bytes));
        assert!((cold - warm - MISS_NS).abs() < 1.0, "{window_bytes} B: {warm} {cold}");
    }
    assert_eq!(latency(Cache::Warm, 64 << 20), latency(Cache::Cold, 64 << 20));
}

#[test]
fn each_server_has_one_fitted_constant_of_its_own_and_the_lab_fewer_than_ten() {
    let fitted = |name: &str| {
        let lab = open(name).unwrap();
        let fits = lab.constants().filter(|one| one.provenance == Provenance::Fit);
        fits.map(|one| (one.place.clone(), one.key.clone())).collect::<Vec<_>>()
    };
    let of_hosts =
        |fits: &[(String, String)]| fits.iter().filter(|(_, key)| key == "read_latency_ns").count();
    let mut all = fitted("pciebench:iommu");
    all.extend(fitted("pciebench:command"));
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), of_hosts(&all)), (10, 1), "{all:?}");
    let base = fitted("pciebench");
    for server in ["t430", "t620", "t620-v2", "t630"] {
        let fits = fitted(&format!("pciebench:{server}"));
        let own = fits.iter().filter(|(place, _)| place.starts_with("variant."));
        let own: Vec<&str> = own.map(|(_, key)| key.as_str()).collect();
        assert_eq!((own, fits.len()), (vec!["read_latency_ns"], base.len()), "{server}");
    }
}

#[test]
fn the_document_shows_these_rows_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pciebench.md");
    let old = std::fs::read_to_string(path).unwrap();
    assert!(document(&old, &RESULTS).unwrap() == old, "make pciebench writes them anew");
}
