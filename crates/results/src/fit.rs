// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of `crosslane fit`.

use serde::{Deserialize, Serialize};

/// A fit with a larger residual, as a share of the measured time, is bad.
pub const BAD_RESIDUAL: f64 = 0.1;

/// Fits of one file of measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fits {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// The fits.
    pub fits: Vec<Fit>,
}

/// Fit of a link's time per byte and of the time beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Name of the series; empty if there is only one.
    pub series: String,
    /// `links`, for transfers of one size, or `sizes`.
    pub over: String,
    /// Bytes of a transfer, if the fit is over links.
    pub size_bytes: Option<u64>,
    /// Fitted rate of a link of k = 1.
    pub bytes_per_second: Option<f64>,
    /// Fitted rate as a share of the link's rate, if it is known.
    pub of_theory: Option<f64>,
    /// Time of a byte on a link of k = 1, nanoseconds.
    pub link_ns_per_byte: f64,
    /// Time of a transfer beside the link, nanoseconds.
    pub fixed_ns: f64,
    /// Largest k that was measured.
    pub fastest_k: f64,
    /// Largest residual as a share of the measured time, with its sign.
    pub worst_residual: f64,
    /// Whether the worst residual makes the fit meaningless.
    pub is_bad: bool,
    /// Bytes of a transfer that takes as long on the fastest link as beside it.
    pub half_rate_bytes: Option<f64>,
    /// The measurements beside the fitted line.
    pub residuals: Vec<FitResidual>,
}

/// A measurement beside the fitted line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitResidual {
    /// Bytes of the transfer.
    pub bytes: u64,
    /// The link: `Gen2 x4`.
    pub link: Option<String>,
    /// Rate of the link as a multiple of that of k = 1.
    pub k: f64,
    /// Line of the file, from 1.
    pub line: usize,
    /// Measured time, nanoseconds.
    pub measured_ns: f64,
    /// Time by the fitted line, nanoseconds.
    pub fitted_ns: f64,
    /// Difference of the fitted time as a share of the measured one.
    pub residual: f64,
}
