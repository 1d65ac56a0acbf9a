// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reproduction that is run once for all tests of a file.

use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_pcie::units::Picoseconds;
use crosslane_reproduce::reproduction::{Reproduction, reproduce};
use crosslane_reproduce::watch::Watch;

/// Counts scenarios.
struct Count(AtomicU64);

impl Watch for Count {
    fn done(&self, _scenario: &str, _simulated: Picoseconds) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A reproduction, and the number of its scenarios.
pub fn counted(name: &str, seed: u64) -> (Reproduction, u64) {
    let count = Count(AtomicU64::new(0));
    let reproduction = reproduce(name, seed, &count).unwrap_or_else(|error| panic!("{error}"));
    (reproduction, count.0.into_inner())
}
