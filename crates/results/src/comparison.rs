// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two outcomes side by side.

use serde::{Deserialize, Serialize};

use crate::explanation::Better;

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
    /// Unit of both values.
    pub unit: String,
    /// Value of the figure in the first outcome.
    pub first: f64,
    /// Value of the figure in the second outcome.
    pub second: f64,
    /// Change from the first to the second as a fraction of the first; `None` if that is 0.
    pub change: Option<f64>,
    /// Direction in which it gets better, if it has one.
    #[serde(skip)]
    pub better: Option<Better>,
}

/// Smaller changes are rounding errors of printed figures.
const LEAST_CHANGE: f64 = 1e-9;

impl ComparedFigure {
    /// Lays the value of a second outcome beside a figure of the first.
    pub fn new(figure: SingleFigure, second: f64) -> Self {
        let SingleFigure { subject, conditions, quantity, unit, value: first, better, .. } = figure;
        let change = (second - first) / first;
        let is_small = change.abs() < LEAST_CHANGE;
        let change = change.is_finite().then_some(if is_small { 0.0 } else { change });
        Self { subject, conditions, quantity, unit, first, second, change, better }
    }

    /// Returns whether the second outcome is worse by more than `fraction`.
    pub fn is_worse(&self, fraction: f64) -> bool {
        self.change.is_some_and(|change| match self.better {
            Some(Better::Higher) => change < -fraction,
            Some(Better::Lower) => change > fraction,
            None => false,
        })
    }

    /// Returns the figure of the second outcome beside that of the first.
    pub fn swapped(&self) -> Self {
        let Self { subject, conditions, quantity, unit, second: value, better, .. } = self.clone();
        let bytes = None;
        let figure = SingleFigure { subject, conditions, quantity, unit, value, bytes, better };
        Self::new(figure, self.first)
    }
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
    /// `MB/s`, `us`, `%`, or the unit of a row.
    pub unit: String,
    /// Value of the figure in that unit.
    pub value: f64,
    /// Bytes of a transfer, if the figure is of transfers of one size.
    #[serde(skip)]
    pub bytes: Option<u64>,
    /// Direction in which it gets better, if it has one.
    #[serde(skip)]
    pub better: Option<Better>,
}

/// The bottleneck of a scenario in two outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedBottleneck {
    /// Size of the scenario's transfers.
    pub size: String,
    /// Bottleneck of the scenario in the first outcome.
    pub first: String,
    /// Bottleneck of the scenario in the second outcome.
    pub second: String,
}
