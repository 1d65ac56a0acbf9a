// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of validations of labs with measurements.

use serde::{Deserialize, Serialize};

use crate::bench::Interrupted;

/// Outcome of `crosslane validate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Relative change of each constant, as a fraction.
    pub change: f64,
    /// The sets of measurements.
    pub sets: Vec<ValidatedSet>,
    /// Version of the program.
    pub version: String,
    /// How far it came, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// Outcome of the validation of one set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidatedSet {
    /// Name of its lab.
    pub set: String,
    /// Published rows.
    pub rows: usize,
    /// Number of constants of the lab, including those of its variants that the set needs.
    pub constants: usize,
    /// Number of fitted constants.
    pub fitted: usize,
    /// Errors of the compared rows.
    pub compared: RowErrors,
    /// Errors of the predicted rows.
    pub predicted: RowErrors,
    /// Rows outside their tolerance, by label.
    pub outside: Vec<String>,
    /// The constants with the most influence on the compared rows, in descending order.
    pub influences: Vec<Influence>,
    /// Number of changed constants.
    pub changed: usize,
    /// Number of constants that allow only certain values (powers of two, generations), or with
    /// whose changed value the experiments fail.
    pub fixed: usize,
    /// Number of constants that were not changed, because the validation was interrupted before.
    pub not_raised: usize,
    /// The file of measurements; `None` of a published set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The rows of that file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<ValidatedRow>,
}

/// A measured row beside the lab, and the constant that changes it most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidatedRow {
    /// The row.
    #[serde(flatten)]
    pub row: ComparedRow,
    /// Path of the constant that changes the row most, if one does.
    pub moved_by: Option<String>,
    /// The change of the row with that of the constant, as a fraction, with its sign.
    pub change: Option<f64>,
}

/// A measured row beside the lab's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    /// Number of the row in its file, from 1.
    pub row: usize,
    /// Line in its file, from 1.
    pub line: usize,
    /// The flow: `nic0:host0:read`.
    pub flow: String,
    /// Bytes of one operation.
    pub bytes: u64,
    /// Operations in flight, if the file says it.
    pub in_flight: Option<u32>,
    /// Memory that the operations go through, bytes, if the file says it.
    pub window_bytes: Option<u64>,
    /// `rate` or `latency`.
    pub quantity: String,
    /// Unit of both figures.
    pub unit: String,
    /// The measured figure.
    pub measured: f64,
    /// The lab's figure.
    pub simulated: f64,
    /// (simulated - measured) / measured.
    pub error: f64,
    /// Largest error that is allowed, as a fraction.
    pub tolerance: f64,
    /// `input`, `fit` or `predicted`.
    pub kind: String,
    /// Remarks of the file.
    pub note: String,
}

/// Errors of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowErrors {
    /// Number of rows.
    pub rows: usize,
    /// The largest error, with its sign, as a fraction.
    pub worst: f64,
    /// The median of the errors' sizes, as a fraction.
    pub median: f64,
}

/// Effect of a change of one constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Influence {
    /// Path of the constant.
    pub constant: String,
    /// Its value.
    pub value: f64,
    /// Its changed value.
    pub changed_to: f64,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// Average size of the change of a compared row, as a fraction of the row.
    pub average: f64,
    /// The row that changes most.
    pub row: String,
    /// Its change, as a fraction, with its sign.
    pub largest: f64,
}
