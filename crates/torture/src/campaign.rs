// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Campaigns: many seeds on all cores.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crosslane_lab::EngineKind;
use crosslane_pcie::units::Picoseconds;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::check::{Check, Violation};
use crate::fault::FaultCounts;
use crate::run::{Story, run_seed};
use crate::setup::Setup;

/// Most failures kept; further ones are only counted.
pub(crate) const MOST_FAILURES: usize = 20;

/// A seed that failed a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number.
    pub seed: u64,
    /// The checker and its finding.
    pub violation: Violation,
    /// The lab asked for, if any.
    pub lab: Option<String>,
    /// The kind of its engines.
    pub engines: EngineKind,
    /// Whether it was run as a torus.
    pub is_torus: bool,
}

impl Failure {
    /// Returns the command that replays this seed with notes.
    #[must_use]
    pub fn replay(&self) -> String {
        let Self { seed, lab, .. } = self;
        let lab = lab.as_ref().map_or(String::new(), |lab| format!(" --lab {lab}"));
        let engines = match self.engines {
            EngineKind::Model => "",
            EngineKind::Rtl => " --engine rtl",
        };
        let tori = if self.is_torus { " --tori" } else { "" };
        format!("crosslane torture{engines}{tori} --seeds {seed}..{}{lab} --verbose", seed + 1)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { check, what } = &self.violation;
        write!(f, "seed {}: {check}: {what}\n  {}", self.seed, self.replay())
    }
}

/// Observer of a campaign, called from the threads that run seeds.
pub trait Watch: Sync {
    /// Notes the end of a seed and its simulated time.
    fn done(&self, seed: u64, simulated: Picoseconds);

    /// Whether to start no further seeds.
    fn is_over(&self) -> bool {
        false
    }
}

/// Observes nothing.
impl Watch for () {
    fn done(&self, _: u64, _: Picoseconds) {}
}

/// Totals of many seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// TLPs on links.
    pub tlps: u64,
    /// Requests translated by an IOMMU.
    pub translated: u64,
    /// Page-table walks for them.
    pub walks: u64,
    /// TLPs poisoned, lost or doubled by faults.
    pub spoilt: u64,
    /// Words compared.
    pub words: u64,
    /// Transfers posted.
    pub transfers: u64,
    /// Times that a channel was opened, closed, cancelled or restarted.
    pub restarts: u64,
    /// Faults made.
    pub faults: FaultCounts,
    /// Simulated time, microseconds.
    pub simulated_us: u64,
    /// Seeds that failed a checker.
    pub failed: u64,
    /// The first failures, by seed.
    pub failures: Vec<Failure>,
}

impl Summary {
    fn take(&mut self, seed: u64, result: Result<Story, Violation>, setup: &Setup) {
        self.seeds += 1;
        match result {
            Ok(story) => {
                self.tlps += story.tlps;
                self.translated += story.translated;
                self.walks += story.walks;
                self.spoilt += story.spoilt;
                self.words += story.words;
                self.transfers += story.transfers;
                self.restarts += story.restarts;
                self.faults.add(&story.faults);
                self.simulated_us += story.end.0 / 1_000_000;
            }
            Err(violation) => {
                self.failed += 1;
                let lab = setup.lab.as_ref().map(|lab| lab.name.clone());
                let engines = setup.engines;
                self.failures.push(Failure { seed, violation, lab, engines, is_torus: false });
                self.failures.sort_unstable_by_key(|failure| failure.seed);
                self.failures.truncate(MOST_FAILURES);
            }
        }
    }
}

/// Runs seeds on all cores. The result does not depend on the number of cores.
pub fn campaign(seeds: Range<u64>, setup: &Setup, watch: &dyn Watch) -> Summary {
    run_all(seeds, setup, watch, run_seed)
}

/// Runs every seed twice; a seed whose second run differs has failed.
pub fn campaign_twice(seeds: Range<u64>, setup: &Setup, watch: &dyn Watch) -> Summary {
    run_all(seeds, setup, watch, |seed, setup| {
        let first = run_seed(seed, setup);
        let second = run_seed(seed, setup);
        if first != second {
            let what = format!("first {first:?}, then {second:?}");
            return Err(Violation { check: Check::Determinism, what });
        }
        first
    })
}

/// Calls a function for each seed, on all cores or in order, until the observer stops it.
pub(crate) fn for_each_seed(
    mut seeds: Range<u64>,
    in_order: bool,
    watch: &dyn Watch,
    one: impl Fn(u64) + Sync,
) {
    let begin = |seed| {
        if watch.is_over() {
            return None;
        }
        one(seed);
        Some(())
    };
    // With notes, seeds run one after the other, so that their lines do not mix.
    let _all_or_not = match in_order {
        true => seeds.try_for_each(begin),
        false => seeds.into_par_iter().try_for_each(begin),
    };
}

fn run_all(
    seeds: Range<u64>,
    setup: &Setup,
    watch: &dyn Watch,
    run: impl Fn(u64, &Setup) -> Result<Story, Violation> + Sync,
) -> Summary {
    let summary = Mutex::new(Summary::default());
    for_each_seed(seeds, setup.note.is_some(), watch, |seed| {
        let result = run(seed, setup);
        let simulated = result.as_ref().map_or(Picoseconds::ZERO, |story| story.end);
        summary.lock().unwrap_or_else(PoisonError::into_inner).take(seed, result, setup);
        watch.done(seed, simulated);
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_who_and_how_to_see_it_again() {
        let violation = Violation { check: Check::Data, what: "word 7 after 9".to_owned() };
        let mut summary = Summary::default();
        for seed in [30, 17] {
            summary.take(seed, Err(violation.clone()), &Setup::default());
        }
        assert_eq!((summary.seeds, summary.failed), (2, 2));
        assert_eq!(
            summary.failures[0].to_string(),
            "seed 17: data: word 7 after 9\n  crosslane torture --seeds 17..18 --verbose"
        );
        let with_lab =
            Failure { lab: Some("rosta:crosslane".into()), ..summary.failures[0].clone() };
        assert_eq!(
            with_lab.replay(),
            "crosslane torture --seeds 17..18 --lab rosta:crosslane --verbose"
        );
        let with_gateware = Failure { engines: EngineKind::Rtl, ..with_lab };
        assert_eq!(
            with_gateware.replay(),
            "crosslane torture --engine rtl --seeds 17..18 --lab rosta:crosslane --verbose"
        );
    }
}
