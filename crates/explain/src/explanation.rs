// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of a run.

use serde::Serialize;

use crate::account::Account;
use crate::limit::Limit;

/// Which way a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A rate.
    Higher,
    /// A latency.
    Lower,
}

/// The figure of a run that is to get better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its value: bytes per second of all flows together, or picoseconds one way.
    pub value: f64,
    /// Which way is better.
    pub better: Better,
}

/// What the run gives with something lifted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What holds the run: one limit, or several each of which holds it alone, so that all have
    /// to be lifted for anything to change.
    pub limits: Vec<Limit>,
    /// The figure without them (and without those of the steps before).
    pub value: f64,
    /// By how much that is better than before, as a fraction of the figure before.
    pub gain: f64,
}

/// One limit that was lifted alone, to see what it holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// The limit.
    pub limit: Limit,
    /// The figure without it.
    pub value: f64,
    /// By how much that is better, as a fraction.
    pub gain: f64,
}

/// Why a run was not faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The figure of the run that was explained.
    pub figure: Figure,
    /// If that was a shortened run: how, in words. The figures of steps and trials are then those
    /// of runs as short, which are compared with each other only.
    pub shortened: Option<String>,
    /// The busiest direction on the way of the data; none of a latency.
    pub account: Option<Account>,
    /// The bottleneck, then what the next one would be without it; empty where nothing that
    /// can be lifted holds the run.
    pub steps: Vec<Step>,
    /// Everything that was lifted alone, the best first.
    pub trials: Vec<Trial>,
}
