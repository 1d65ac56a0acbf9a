// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that the watcher ends early keeps its finished parts.

use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_lab::{EngineKind, Progress};
use crosslane_pcie::units::Picoseconds;
use crosslane_reproduce::reproduction::{find, reproduce};
use crosslane_reproduce::validation::validate;

/// Ends the work after this many scenarios.
struct Impatient(AtomicU64);

impl Progress for Impatient {
    fn done(&self, _: &str, _: Picoseconds) {
        let _ =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn interrupted_reproduction_has_whole_experiments() {
    let all = find("aws-f1").unwrap().scenarios;
    let run = |scenarios| {
        let watch = Impatient(AtomicU64::new(scenarios));
        let explain = |_: &_| unreachable!("its runs are not explained");
        reproduce("aws-f1", 1, EngineKind::Model, &watch, &explain).unwrap()
    };
    // Its last experiment runs some scenarios separately.
    let early = run(all - 1);
    assert_eq!(early.experiments.len(), 2, "the rates and what is lost");
    assert!(early.rows().count() > 0 && early.missed().count() == 0);
    assert!(run(0).experiments.is_empty());
}

#[test]
fn interrupted_validation_says_what_it_left_out() {
    let validation = validate("pciebench", &Impatient(AtomicU64::new(2)), &()).unwrap().unwrap();
    assert!(validation.changed + validation.fixed >= 2, "{validation:?}");
    assert!(validation.not_raised > 10, "{validation:?}");
    assert_eq!(validation.outside.len(), 4, "{:?}", validation.outside);
    assert_eq!(validation.compared.rows, 68);
}
