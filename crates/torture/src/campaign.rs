// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Campaigns: many seeds on all cores.

use std::convert::Infallible;
use std::fmt;
use std::num::IntErrorKind;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crosslane_lab::{EngineKind, Items, Progress};
use crosslane_pcie::units::Picoseconds;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::check::{Check, Violation};
use crate::run::{Story, run_seed};
use crate::setup::Setup;
use crate::torus::{TorusStory, run_torus};

/// Most failures kept; further ones are only counted.
const MOST_FAILURES: usize = 20;

/// A seed that failed a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of the seed.
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

/// Reads seeds: `A..B`, from A on and before B, or one alone.
///
/// # Errors
/// A sentence that names the text and what is possible.
pub fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| {
        let digits = text.replace('_', "");
        digits.parse::<u64>().map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => {
                format!("seed {text} is too large: the largest is {}", u64::MAX)
            }
            _ => format!("\"{text}\" is not a seed: seeds are whole numbers, as in 0..1000 or 17"),
        })
    };
    let (first, end) = match text.split_once("..") {
        Some((first, end)) => (number(first)?, number(end)?),
        None => {
            let seed = number(text)?;
            let end = seed.checked_add(1).ok_or("that seed has none behind it")?;
            (seed, end)
        }
    };
    if first >= end {
        return Err(format!("there is no seed in {first}..{end}: the second number is not run"));
    }
    Ok(first..end)
}

/// Outcome of a seed, of which sums are made.
pub trait SeedOutcome:
    Clone + fmt::Debug + Default + PartialEq + Send + Serialize + DeserializeOwned
{
    /// Adds the counts of another seed.
    fn add(&mut self, other: &Self);

    /// Returns its simulated time.
    fn simulated(&self) -> Picoseconds;

    /// Lists its counts.
    fn counts(&self) -> Vec<Count>;
}

/// A number of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Key of the number in JSON.
    pub key: &'static str,
    /// Name of the number in words.
    pub words: &'static str,
    /// The number.
    pub value: u64,
    /// The number in the unit of the words.
    pub shown: u64,
}

impl Count {
    pub(crate) const fn new(key: &'static str, words: &'static str, value: u64) -> Self {
        Self { key, words, value, shown: value }
    }
}

/// Totals of many seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary<S = Story> {
    /// Seeds run.
    pub seeds: u64,
    /// Sums of all seeds.
    pub all: S,
    /// Seeds that failed a checker.
    pub failed: u64,
    /// The first failures, by seed.
    pub failures: Vec<Failure>,
}

impl<S: SeedOutcome> Summary<S> {
    fn take(&mut self, seed: u64, result: Result<S, Violation>, setup: &Setup, is_torus: bool) {
        self.seeds += 1;
        match result {
            Ok(story) => self.all.add(&story),
            Err(violation) => {
                self.failed += 1;
                let lab = setup.lab.as_ref().map(|lab| lab.name.clone());
                let engines = setup.engines;
                self.failures.push(Failure { seed, violation, lab, engines, is_torus });
                self.failures.sort_unstable_by_key(|failure| failure.seed);
                self.failures.truncate(MOST_FAILURES);
            }
        }
    }
}

/// Runs seeds on all cores, each once or twice: a seed whose second run differs has failed. The
/// result does not depend on the number of cores. The items are the seeds, the first of them 0.
pub fn campaign(
    seeds: Range<u64>,
    setup: &Setup,
    twice: bool,
    watch: &dyn Progress,
    items: &impl Items,
) -> Summary {
    run_all(seeds, (setup, false), twice, (watch, items), |seed| run_seed(seed, setup))
}

/// Runs seeds as tori, as [`campaign`] does; of the settings the kind of engines and the note
/// count.
pub fn torus_campaign(
    seeds: Range<u64>,
    setup: &Setup,
    twice: bool,
    watch: &dyn Progress,
    items: &impl Items,
) -> Summary<TorusStory> {
    let run = |seed| run_torus(seed, setup);
    run_all(seeds, (setup, true), twice, (watch, items), run)
}

fn run_all<S: SeedOutcome>(
    mut seeds: Range<u64>,
    (setup, is_torus): (&Setup, bool),
    twice: bool,
    (watch, items): (&dyn Progress, &impl Items),
    run: impl Fn(u64) -> Result<S, Violation> + Sync,
) -> Summary<S> {
    let (first, summary) = (seeds.start, Mutex::new(Summary::default()));
    let outcome = |seed| {
        let mut result = run(seed);
        if twice {
            let again = run(seed);
            if again != result {
                let what = format!("first {result:?}, then {again:?}");
                result = Err(Violation { check: Check::Determinism, what });
            }
        }
        Ok(result)
    };
    let one = |seed| {
        if watch.is_over() {
            return None;
        }
        let Ok(result): Result<_, Infallible> = items.once(seed - first, || outcome(seed));
        let Some(result) = result else { return Some(()) };
        let simulated = result.as_ref().map_or(Picoseconds::ZERO, SeedOutcome::simulated);
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.take(seed, result, setup, is_torus);
        drop(summary);
        watch.done(&seed.to_string(), simulated);
        Some(())
    };
    // With notes, seeds run one after the other, so that their lines do not mix.
    let _all_or_not = match setup.note.is_some() {
        true => seeds.try_for_each(one),
        false => seeds.into_par_iter().try_for_each(one),
    };
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        assert_eq!(parse_seeds("17..18"), Ok(17..18));
        assert_eq!(parse_seeds("17"), Ok(17..18));
        assert_eq!(parse_seeds("0..20_000"), Ok(0..20_000));
        for text in ["", "a", "3..", "..3", "3..3", "4..3", "-1", "18446744073709551615"] {
            assert!(parse_seeds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_failure_says_what_who_and_how_to_see_it_again() {
        let violation = Violation { check: Check::Data, what: "word 7 after 9".to_owned() };
        let mut summary = Summary::<Story>::default();
        for seed in [30, 17] {
            summary.take(seed, Err(violation.clone()), &Setup::default(), false);
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
