// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps: one figure of transfers, over any parameters of a lab, or over those of a card's
//! transfers.
//!
//! Read first: [`Axes`], [`Point`]; then [`LabSweep`] and [`FlowSweep`], which measure points in a
//! lab, and [`measure_point`], which measures one with an opened device.
//!
//! ```
//! use crosslane_experiment::sweep::{Axes, LabSweep, SweepOptions, TransferKind, csv};
//!
//! let lab = crosslane_lab::open("rosta:crosslane")?;
//! let sweep = LabSweep::new(&lab, None, SweepOptions::default())?;
//! let axes = Axes::default().with_kinds([TransferKind::Write]).with_sizes([1024, 65_536]);
//! let mut measured = Vec::new();
//! for point in sweep.axes(axes)?.points()? {
//!     measured.push(sweep.measure(&point, &())?);
//! }
//! assert!(measured[0].bytes_per_second < measured[1].bytes_per_second);
//! assert!(csv(&measured).starts_with("way,generation,width,bytes,us\nwrite,"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axes;
mod in_lab;
mod point;

use crosslane_host::kinds;
use crosslane_lab::LabError;
use thiserror::Error;

use crate::error::ExperimentError;
pub use axes::{Axes, Descriptors, MAX_POINTS, Point, TransferKind};
pub use in_lab::{FlowSweep, LabSweep};
pub use point::{SweepOptions, SweepPoint, csv, measure_point};

/// Error of a sweep.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// An impossible value.
    #[error("{axis} {value}: {problem}")]
    Value {
        /// Name of the axis, as on the command line, or `lab`, `card` or `flow`.
        axis: &'static str,
        /// The value.
        value: String,
        /// The problem.
        problem: String,
    },
    /// Too many points.
    #[error("more than {MAX_POINTS} points: fewer values, or several sweeps")]
    TooManyPoints,
    /// The lab of a point cannot be built, its transfers fail, or the caller has ended the sweep.
    #[error(transparent)]
    Run(#[from] ExperimentError),
}

kinds!(SweepError {
    Self::Value { .. } | Self::TooManyPoints => InvalidArgument,
    Self::Run(error) => error.kind(),
});

impl From<LabError> for SweepError {
    fn from(error: LabError) -> Self {
        Self::Run(error.into())
    }
}

impl SweepError {
    fn value(axis: &'static str, value: impl ToString, problem: impl ToString) -> Self {
        Self::Value { axis, value: value.to_string(), problem: problem.to_string() }
    }
}
