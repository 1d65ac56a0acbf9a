// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots: our lines, a paper's points, ceilings.

/// Mapping of values to an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm: sizes, mostly powers of two. No value is 0 or less.
    Logarithmic,
    /// Values are positions 0, 1, … of these names.
    Categories(Vec<String>),
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity that it shows.
    pub label: String,
    /// Unit of the axis; empty for a plain number. `B` is written as B, KiB, MiB.
    pub unit: String,
    /// Mapping of values to it. A linear axis of rates begins at 0.
    pub scale: Scale,
}

impl Axis {
    /// Returns an axis; `unit` is empty for a plain number.
    pub fn new(label: &str, unit: &str, scale: Scale) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), scale }
    }
}

/// Kind of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Our values: a line with a mark at each value.
    Ours,
    /// A paper's values: marks without a line.
    Published,
    /// A user's measured values: marks without a line.
    Measured,
    /// The rate that the link allows: a dashed line.
    Ceiling,
    /// A part of a whole: bars over the names of an axis, each on top of those of the series before
    /// it. In a plot with bars a line joins our values between names too.
    Stacked,
}

impl SeriesKind {
    /// Returns whether each value is a ring around our mark.
    pub const fn is_ring(self) -> bool {
        matches!(self, Self::Published | Self::Measured)
    }
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series in the legend. Series of the same name have the same colour and the same
    /// shape of mark in a plot, so that a published value is easy to find beside ours.
    pub name: String,
    /// Kind of the series.
    pub kind: SeriesKind,
    /// Values of x and y, by x.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Returns a series of these values.
    pub fn new(
        name: impl Into<String>,
        kind: SeriesKind,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self { name: name.into(), kind, points: points.into_iter().collect() }
    }

    /// Returns a series of our values.
    pub fn ours(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, SeriesKind::Ours, points)
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Title of the plot.
    pub title: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
}
