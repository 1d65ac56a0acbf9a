// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations: what limits a run, and what the same run gives without it.

use serde::{Deserialize, Serialize};

use crate::account::{Account, Use};
use crate::limit::Limit;

/// A shortened run stands for the whole one if their figures differ by no more than this fraction.
pub const CLOSE: f64 = 0.03;

/// Which way a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A rate.
    Higher,
    /// A latency.
    Lower,
}

/// The figure of a run that is to get better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its value: bytes per second of all flows together, or picoseconds one way.
    pub value: f64,
    /// Which way is better.
    pub better: Better,
}

impl Figure {
    /// By how much it differs from another, as a fraction of that one.
    #[must_use]
    pub fn off(self, other: Self) -> f64 {
        if other.value > 0.0 { self.value / other.value - 1.0 } else { 0.0 }
    }
}

/// What the run gives with something lifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The limit.
    pub limit: Limit,
    /// The figure without it.
    pub value: f64,
    /// By how much that is better, as a fraction.
    pub gain: f64,
}

/// Why a run was not faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The figure of the run that was explained.
    pub figure: Figure,
    /// The figure of the whole run, as it was measured; none where that was not told.
    pub measured: Option<Figure>,
    /// If that was a shortened run: how, in words. The figures of steps and trials are then those
    /// of runs as short, which are compared with each other only.
    pub shortened: Option<String>,
    /// Whether the runs of the search had the model in place of the gateware that was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_model: bool,
    /// The busiest direction on the way of the data; none of a latency.
    pub account: Option<Account>,
    /// The bottleneck, then what the next one would be without it; empty where nothing that
    /// can be lifted holds the run.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The longest wait on that direction, where it is none that the bottleneck is known by and yet
    /// goes with it.
    pub consequence: Option<Consequence>,
    /// Everything that was lifted alone, the best first.
    #[serde(default)]
    pub trials: Vec<Trial>,
}

impl Explanation {
    /// By how much the figure of the run that was explained differs from that of the run that was
    /// measured, as a fraction of that, where it is more than [`CLOSE`]: what limits the one may
    /// not limit the other.
    #[must_use]
    pub fn unlike(&self) -> Option<f64> {
        self.measured.map(|measured| self.figure.off(measured)).filter(|off| off.abs() > CLOSE)
    }
}

/// A wait that goes with the bottleneck, though it is called otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consequence {
    /// What the sender of the busiest direction waited for.
    #[serde(rename = "use")]
    pub what: Use,
    /// Share of the time that it took in the run that was explained, 0 to 1.
    pub share: f64,
    /// The same in the run without the bottleneck.
    pub share_without: f64,
}
