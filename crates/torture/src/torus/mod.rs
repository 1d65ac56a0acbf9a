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

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};

use crate::campaign::{Count, SeedOutcome};
use crate::check::{Violation, caught};
use crate::setup::Setup;

/// Results of the torus of a seed. Equal for equal runs, bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorusStory {
    /// Hash over the ends of all messages and their times.
    pub hash: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Messages that ended as expected.
    pub messages: u64,
    /// Number of messages that were puts.
    pub puts: u64,
    /// Number of messages that were routed.
    pub routed: u64,
    /// Messages cancelled.
    pub cancels: u64,
    /// Routed messages that came before their credits and were dropped.
    pub lost: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// Datagrams delivered.
    pub datagrams: u64,
    /// Number of them with 256 B.
    pub long: u64,
    /// Number of them in blocks of 64b/66b.
    pub in_blocks: u64,
    /// Datagrams sent again.
    pub repeated: u64,
    /// Frames that arrived damaged.
    pub damaged: u64,
    /// Cables cut, and links retrained.
    pub cuts: u64,
    /// Simulated time at its end, ps.
    pub end_ps: u64,
}

impl SeedOutcome for TorusStory {
    fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.messages += other.messages;
        self.puts += other.puts;
        self.routed += other.routed;
        self.cancels += other.cancels;
        self.lost += other.lost;
        self.bytes += other.bytes;
        self.datagrams += other.datagrams;
        self.long += other.long;
        self.in_blocks += other.in_blocks;
        self.repeated += other.repeated;
        self.damaged += other.damaged;
        self.cuts += other.cuts;
        self.end_ps += other.end_ps;
    }

    fn simulated(&self) -> Picoseconds {
        Picoseconds(self.end_ps)
    }

    fn counts(&self) -> Vec<Count> {
        vec![
            Count::new("nodes", "nodes", self.nodes),
            Count::new("messages", "messages", self.messages),
            Count::new("puts", "of them put", self.puts),
            Count::new("routed", "of them routed", self.routed),
            Count::new("cancels", "messages taken back, and credits for them", self.cancels),
            Count::new("lost", "messages dropped, as they came before their credits", self.lost),
            Count::new("bytes", "bytes compared", self.bytes),
            Count::new("datagrams", "datagrams delivered", self.datagrams),
            Count::new("long", "of them of 256 B", self.long),
            Count::new("in_blocks", "of them in 64b/66b", self.in_blocks),
            Count::new("repeated", "datagrams sent again", self.repeated),
            Count::new("damaged", "frames damaged", self.damaged),
            Count::new("cuts", "cables cut, links trained anew", self.cuts),
            Count::new("simulated_us", "simulated time, us", self.end_ps / 1_000_000),
        ]
    }
}

/// Runs a seed as a torus; of the settings the kind of engines and the note count.
///
/// # Errors
/// The finding of the first checker that fails.
pub fn run_torus(seed: u64, setup: &Setup) -> Result<TorusStory, Violation> {
    caught(|| run::run(seed, setup.engines, setup.note.as_ref()))
}
