// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of calibrations of labs.

use serde::{Deserialize, Serialize};

use crate::validation::ComparedRow;

/// Outcome of `crosslane calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Number of the schema.
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// The lab.
    pub lab: String,
    /// The file of measurements.
    pub file: String,
    /// The rows that constants were fitted to.
    pub fitted_rows: Vec<usize>,
    /// Share of measurements that the intervals are for.
    pub confidence: f64,
    /// Root of the mean square of the fitted rows' errors, as a fraction.
    pub residual: f64,
    /// Values of the constants that were tried.
    pub trials: usize,
    /// The fitted constants.
    pub constants: Vec<CalibratedConstant>,
    /// All rows of the file, in its order.
    pub rows: Vec<CalibratedRow>,
}

/// A fitted constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedConstant {
    /// Path of the constant.
    pub constant: String,
    /// Unit of the constant; empty for a plain number.
    pub unit: String,
    /// Its value in the lab.
    pub before: f64,
    /// Its fitted value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Whether the value is an end of the range in which it was looked for.
    pub is_at_bound: bool,
}

/// A row beside the calibrated lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedRow {
    /// The row.
    #[serde(flatten)]
    pub row: ComparedRow,
    /// Lower end of the interval in which the measurement is expected; `None` for a fitted row.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

impl CalibratedRow {
    /// Returns whether the measurement lies in its interval; `None` for a fitted row.
    pub fn is_inside(&self) -> Option<bool> {
        Some((self.low?..=self.high?).contains(&self.row.measured))
    }
}
