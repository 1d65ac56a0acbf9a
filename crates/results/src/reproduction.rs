// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of reproductions.

use serde::{Deserialize, Serialize};

use crate::bench::Interrupted;
use crate::explanation::Explanation;

/// Outcome of a reproduction: published figures beside simulated ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// Name of the reproduction.
    pub reproduction: String,
    /// `rtl` if the engine is the gateware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// Explanations of some of the runs.
    #[serde(default)]
    pub why_not_faster: Vec<Explained>,
    /// Progress of the reproduction, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// Explanation of one run of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Number of the experiment, from 1.
    pub experiment: usize,
    /// The run.
    pub run: String,
    /// The explanation.
    pub explanation: Explanation,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The quantity.
    pub quantity: String,
    /// The conditions of its measurement.
    pub conditions: String,
    /// Unit of the figure.
    pub unit: String,
    /// The published value.
    pub published: Option<f64>,
    /// The simulated value.
    pub simulated: Option<f64>,
    /// Difference of the simulated value as a share of the published one.
    #[serde(default)]
    pub error: Option<f64>,
    /// `input`, `fit`, `predicted` or `context`.
    pub kind: String,
}
