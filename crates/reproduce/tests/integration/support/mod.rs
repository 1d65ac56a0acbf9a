// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reproduction that runs once for all tests of a file.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_explain::{STEPS, explain};
use crosslane_lab::{EngineKind, Progress};
use crosslane_pcie::units::Picoseconds;
use crosslane_reproduce::Context;
use crosslane_reproduce::comparison::Row;
use crosslane_reproduce::document::document;
use crosslane_reproduce::reproduction::{Reproduction, find, reproduce};
use crosslane_reproduce::study::{Effort, study};

/// Counts scenarios.
struct Count(AtomicU64);

impl Progress for Count {
    fn done(&self, _scenario: &str, _simulated: Picoseconds) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a reproduction; checks that it takes the announced number of scenarios.
pub fn reproduced(name: &str) -> Reproduction {
    let count = Count(AtomicU64::new(0));
    let reproduction = reproduce(name, 1, EngineKind::Model, &count, &|run| {
        Ok(explain(run, None, STEPS, &|_| ())?)
    });
    let reproduction = reproduction.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(count.0.into_inner(), find(name).unwrap().scenarios);
    reproduction
}

/// Runs the compared rows of a study.
pub fn compared(name: &str, effort: Effort) -> Vec<Row> {
    let context = Context::open(name, 1, &()).unwrap();
    (study(name).unwrap().compared)(&context, effort).unwrap()
}

/// Checks that the page of `docs/reproductions` has the current tables.
pub fn assert_page_is_fresh(reproduction: &Reproduction) {
    let name = reproduction.name;
    let path = format!("../../docs/reproductions/{name}.md");
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let fresh = document(&page, reproduction).unwrap();
    assert!(page == fresh, "docs/reproductions/{name}.md is old: `make {name}` writes it anew");
}
