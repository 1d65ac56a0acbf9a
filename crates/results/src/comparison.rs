// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two outcomes side by side.

use serde::{Deserialize, Serialize};

/// Outcome of `crosslane compare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Name of the first outcome.
    pub first: String,
    /// Name of the second.
    pub second: String,
    /// Figures of both.
    pub figures: Vec<ComparedFigure>,
    /// Figures of the first alone.
    pub only_first: Vec<SingleFigure>,
    /// Figures of the second alone.
    pub only_second: Vec<SingleFigure>,
    /// Scenarios that both explain.
    pub bottlenecks: Vec<ComparedBottleneck>,
}

/// A figure of two outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// The flow, or the measured access.
    pub subject: String,
    /// Bytes of a transfer, or the conditions.
    pub conditions: String,
    /// The figure: `rate`, `p99 time`.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// Its value in the first outcome.
    pub first: f64,
    /// Its value in the second.
    pub second: f64,
    /// Change from the first to the second as a fraction of the first.
    pub change: Option<f64>,
}

/// A figure of one outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SingleFigure {
    /// The flow, or the measured access.
    pub subject: String,
    /// Bytes of a transfer, or the conditions.
    pub conditions: String,
    /// The figure: `rate`, `p99 time`.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// Its value.
    pub value: f64,
}

/// The bottleneck of a scenario in two outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedBottleneck {
    /// Size of the scenario's transfers.
    pub size: String,
    /// Its bottleneck in the first outcome.
    pub first: String,
    /// Its bottleneck in the second.
    pub second: String,
}
