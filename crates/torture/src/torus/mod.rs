// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole tori by seed: hosts with network processors exchange messages in every manner that the
//! driver supports, while cables have bit errors, cables are cut and mended, links are retrained
//! and messages are cancelled. Every byte is compared, and no datagram may be lost, doubled or
//! reordered within its channel.
//!
//! Read first: `docs/torture.md`, *Tori*; `lab.rs` for the labs; `talk.rs` for the conversations.

mod lab;
mod run;
mod talk;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crosslane_pcie::units::Picoseconds;

use crate::campaign::{Failure, MOST_FAILURES, Watch, for_each_seed};
use crate::check::{Check, Violation, caught};
use crate::setup::{Note, Setup};

/// Results of the torus of a seed. Equal for equal runs, bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorusStory {
    /// Hash over the ends of all messages and their times.
    pub hash: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Messages that ended as expected.
    pub messages: u64,
    /// Those of them that were puts.
    pub puts: u64,
    /// Those of them that were routed.
    pub routed: u64,
    /// Messages cancelled.
    pub cancels: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// Datagrams delivered.
    pub datagrams: u64,
    /// Datagrams sent again.
    pub repeated: u64,
    /// Frames that arrived damaged.
    pub damaged: u64,
    /// Cables cut, and links retrained.
    pub cuts: u64,
    /// Simulated time at its end, ps.
    pub end_ps: u64,
}

impl TorusStory {
    fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.messages += other.messages;
        self.puts += other.puts;
        self.routed += other.routed;
        self.cancels += other.cancels;
        self.bytes += other.bytes;
        self.datagrams += other.datagrams;
        self.repeated += other.repeated;
        self.damaged += other.damaged;
        self.cuts += other.cuts;
        self.end_ps += other.end_ps;
    }
}

/// Totals of many tori.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorusSummary {
    /// Seeds run.
    pub seeds: u64,
    /// Sums of all seeds, `end_ps` included.
    pub all: TorusStory,
    /// Seeds that failed a checker.
    pub failed: u64,
    /// The first failures, by seed.
    pub failures: Vec<Failure>,
}

/// Runs a seed as a torus.
///
/// # Errors
/// The finding of the first checker that fails.
pub fn run_torus(seed: u64, note: Option<&Note>) -> Result<TorusStory, Violation> {
    caught(|| run::run(seed, note))
}

/// Runs seeds as tori on all cores, each once or twice. The result does not depend on the number of
/// cores.
pub fn torus_campaign(
    seeds: Range<u64>,
    note: Option<&Note>,
    twice: bool,
    watch: &dyn Watch,
) -> TorusSummary {
    let summary = Mutex::new(TorusSummary::default());
    for_each_seed(seeds, note.is_some(), watch, |seed| {
        let mut result = run_torus(seed, note);
        if twice {
            let again = run_torus(seed, note);
            if again != result {
                let what = format!("first {result:?}, then {again:?}");
                result = Err(Violation { check: Check::Determinism, what });
            }
        }
        let end_ps = result.as_ref().map_or(0, |story| story.end_ps);
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.seeds += 1;
        match result {
            Ok(story) => summary.all.add(&story),
            Err(violation) => {
                summary.failed += 1;
                let engines = Setup::default().engines;
                let failure = Failure { seed, violation, lab: None, engines, is_torus: true };
                summary.failures.push(failure);
                summary.failures.sort_unstable_by_key(|failure| failure.seed);
                summary.failures.truncate(MOST_FAILURES);
            }
        }
        drop(summary);
        watch.done(seed, Picoseconds(end_ps));
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}
