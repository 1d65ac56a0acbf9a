// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab before and after changes, and the settings and places that make flows faster.

use serde::{Deserialize, Serialize};

use crate::bench::ScenarioResult;
use crate::explanation::{Explanation, Figure, Step};
use crate::topology::MatrixPair;

/// A lab before and after changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Name of the lab, with its variant.
    pub lab: String,
    /// The changes, as they were asked for.
    pub changes: Vec<String>,
    /// Consequences of the changes, and what they assume, a sentence each.
    pub notes: Vec<String>,
    /// Pairs of nodes that change; absent if flows were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<ChangedPairs>,
    /// The flows; absent if pairs were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<BeforeAfter<ScenarioResult>>,
}

/// The same thing in the lab as it is, and in the changed one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BeforeAfter<T> {
    /// In the lab as it is.
    pub before: T,
    /// In the changed lab.
    pub after: T,
}

/// Pairs of nodes that changes affect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangedPairs {
    /// Pairs of which a figure, the way or the problem changes.
    pub changed: Vec<BeforeAfter<ExplainedPair>>,
    /// Number of the other pairs.
    pub unchanged: usize,
    /// Largest change of a figure, as a fraction, of those that do not count as changed.
    pub threshold: f64,
}

/// A pair of a matrix, with what limits its rate one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedPair {
    /// The pair.
    #[serde(flatten)]
    pub pair: MatrixPair,
    /// The bottleneck; absent if none was found, or looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Step>,
}

/// Settings and places that make flows faster, found by runs with each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Name of the lab, with its variant.
    pub lab: String,
    /// The flows, as they were asked for.
    pub flows: Vec<String>,
    /// Rate of all flows together in the lab as it is.
    pub figure: Figure,
    /// Each lever alone, the best first.
    pub alone: Vec<TuneTrial>,
    /// Steps of the search: to the levers before, each adds what gains most.
    pub steps: Vec<TuneStep>,
    /// Limits of the flows after the last step; absent if it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not_faster: Option<Explanation>,
    /// Reason for which that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_explained: Option<String>,
}

/// Result of one lever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneTrial {
    /// The lever in words.
    pub words: String,
    /// Options of `what-if` that change the lab so.
    pub options: Vec<String>,
    /// The figure with it; absent if the flows cannot run so.
    pub value: Option<f64>,
    /// The improvement, as a fraction; 0 if the flows cannot run so.
    pub gain: f64,
    /// Reason for which the flows cannot run so, a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Step of a search for faster settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneStep {
    /// The levers in words; several if only all of them together gain.
    pub words: Vec<String>,
    /// Options of `what-if` that change the lab so.
    pub options: Vec<String>,
    /// The figure after the step.
    pub value: f64,
    /// The improvement over the step before, as a fraction.
    pub gain: f64,
    /// Commands and deeds that change the machine so, in their order.
    pub commands: Vec<String>,
    /// Other ways to the same, and what the step costs, a sentence each.
    pub notes: Vec<String>,
}
