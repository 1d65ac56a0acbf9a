// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations: the bottleneck of a run, and the result of the same run without it.

use serde::{Deserialize, Serialize};

use crate::account::{Account, Use};
use crate::limit::Limit;

/// Largest difference, as a fraction, at which a shortened run stands for the whole one.
pub const CLOSE: f64 = 0.03;

/// Direction in which a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A rate.
    Higher,
    /// A latency.
    Lower,
}

/// The figure of a run that its explanation tries to improve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its value: bytes per second of all flows together, or picoseconds one way.
    pub value: f64,
    /// Direction in which it gets better.
    pub better: Better,
}

impl Figure {
    /// Returns its difference from another, as a fraction of the other.
    pub fn off(self, other: Self) -> f64 {
        if other.value > 0.0 { self.value / other.value - 1.0 } else { 0.0 }
    }
}

/// Result of a run with limits lifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The bottleneck: one limit, or several that each limit the run, so that only lifting all of
    /// them changes anything.
    pub limits: Vec<Limit>,
    /// The figure without them (and without those of the steps before).
    pub value: f64,
    /// The improvement over the step before, as a fraction of its figure.
    pub gain: f64,
}

/// Result of lifting one limit alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The limit.
    pub limit: Limit,
    /// The figure without it.
    pub value: f64,
    /// The improvement, as a fraction.
    pub gain: f64,
}

/// Why a run was not faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The figure of the run that was explained.
    pub figure: Figure,
    /// The figure of the whole run as it was measured; `None` if unknown.
    pub measured: Option<Figure>,
    /// How the run was shortened, in words, if it was. The figures of steps and trials are then
    /// those of equally short runs, comparable only with each other.
    pub shortened: Option<String>,
    /// Whether the search ran the model in place of the measured gateware.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_model: bool,
    /// The busiest direction on the path of the data; `None` for a latency.
    pub account: Option<Account>,
    /// The bottleneck, then the next one without it; empty if no limit that can be lifted gains.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The longest wait on that direction, if it is known by another name than the bottleneck's and
    /// yet disappears with it.
    pub consequence: Option<Consequence>,
    /// Every limit that was lifted alone, the best first.
    #[serde(default)]
    pub trials: Vec<Trial>,
}

impl Explanation {
    /// Returns the difference between the figures of the explained and the measured run, as a
    /// fraction of the latter, if it is more than [`CLOSE`]: the two may have different
    /// bottlenecks.
    pub fn unlike(&self) -> Option<f64> {
        self.measured.map(|measured| self.figure.off(measured)).filter(|off| off.abs() > CLOSE)
    }
}

/// A wait that disappears with the bottleneck, though it has another name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consequence {
    /// The wait of the sender of the busiest direction.
    #[serde(rename = "use")]
    pub what: Use,
    /// Its share of the time in the explained run, 0 to 1.
    pub share: f64,
    /// Its share in the run without the bottleneck.
    pub share_without: f64,
}
