// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole tori by seed: hosts with network processors exchange messages in every way that the
//! driver has, while bits on the cables arrive wrong, cables are cut and mended, links are trained
//! anew and messages are taken back. Every byte is looked at, and no datagram may be lost, doubled
//! or reordered within its channel.
//!
//! Read first: `docs/torture.md`, *Tori*; `lab.rs`, what a seed makes up; `talk.rs`, what its nodes
//! do.

mod lab;
mod run;
mod talk;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crosslane_pcie::units::Picoseconds;

use crate::campaign::{Failure, MOST_FAILURES, Watch, for_each_seed};
use crate::check::{Check, Violation, caught};
use crate::setup::{Note, Setup};

/// What the torus of a seed was like. Equal for equal runs, bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorusStory {
    /// A sum over the ends of all messages and their times.
    pub hash: u64,
    /// Nodes.
    pub nodes: u64,
    /// Messages that ended as they should.
    pub messages: u64,
    /// Those of them that were put.
    pub puts: u64,
    /// Those of them that were routed.
    pub routed: u64,
    /// Messages that were taken back.
    pub cancels: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Datagrams delivered.
    pub datagrams: u64,
    /// Datagrams that were sent again.
    pub repeated: u64,
    /// Frames that came damaged.
    pub damaged: u64,
    /// Cables that were cut, and links that were trained anew.
    pub cuts: u64,
    /// When it was over, ps.
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

/// What many tori were like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorusSummary {
    /// Seeds that were run.
    pub seeds: u64,
    /// All that happened in them; `end_ps` is the time of all together.
    pub all: TorusStory,
    /// Seeds in which something was found.
    pub failed: u64,
    /// The first of them, by number.
    pub failures: Vec<Failure>,
}

/// Runs a seed as a torus.
///
/// # Errors
/// What the first checker that fails has found.
pub fn run_torus(seed: u64, note: Option<&Note>) -> Result<TorusStory, Violation> {
    caught(|| run::run(seed, note))
}

/// Runs seeds as tori on all cores, each once or twice. What it gives does not depend on how many
/// cores there are.
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
