// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of random labs, workloads and faults by seed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bench::Interrupted;

/// Outcome of `crosslane torture`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torture {
    /// The first seed that was asked for.
    pub first_seed: u64,
    /// The first seed behind them.
    pub end_seed: u64,
    /// Seeds run.
    pub seeds: u64,
    /// Seeds that failed a checker.
    pub failed: u64,
    /// The first failures, by seed.
    pub failures: Vec<FailedSeed>,
    /// Events in all seeds that did not fail.
    #[serde(flatten)]
    pub events: TortureEvents,
    /// Version of the program.
    pub version: String,
    /// How far it came, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// Numbers of events by their keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TortureEvents {
    /// In tori of network processors.
    Tori {
        /// Events.
        tori: BTreeMap<String, u64>,
    },
    /// In trees of engines.
    Trees {
        /// Names of the checkers.
        checks: Vec<String>,
        /// Faults by their names.
        faults: BTreeMap<String, u64>,
        /// Events.
        #[serde(flatten)]
        counts: BTreeMap<String, u64>,
    },
}

/// A seed that failed a checker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSeed {
    /// Its number.
    pub seed: u64,
    /// Name of the checker.
    pub check: String,
    /// The checker's finding.
    pub what: String,
    /// The command that replays the seed with notes.
    pub replay: String,
}
