// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of papers as plots: the lab's lines, the paper's points, what the links allow.
//!
//! Only figures that stand in the file of published figures are points: nothing is read off a
//! paper's own plots.

use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind};

/// A plot by size on a logarithmic axis: bytes of `what`.
pub(crate) fn by_size(title: &str, what: &str, y: Axis, series: Vec<Series>) -> Plot {
    let x = Axis::new(&format!("bytes of {what}"), "B", Scale::Logarithmic);
    Plot { title: title.to_owned(), x, y, series }
}

/// An axis of rates in a unit.
pub(crate) fn rate(unit: &str) -> Axis {
    Axis::new("rate", unit, Scale::Linear)
}

/// A plot of rates in MiB/s.
pub(crate) fn rates(title: &str, x: Axis, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x, y: rate("MiB/s"), series }
}

/// Payloads of packets, by their logarithm.
pub(crate) fn payloads() -> Axis {
    Axis::new("payload of a packet", "B", Scale::Logarithmic)
}

/// An axis of counts.
pub(crate) fn counts(label: &str) -> Axis {
    Axis::new(label, "", Scale::Linear)
}

/// Names; values are their positions.
pub(crate) fn names<'a>(label: &str, names: impl IntoIterator<Item = &'a str>) -> Axis {
    Axis::new(label, "", Scale::Categories(names.into_iter().map(str::to_owned).collect()))
}

/// The lab's values.
pub(crate) fn ours(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    Series::new(name, SeriesKind::Ours, points)
}

/// The paper's values; they have the name of ours that they stand for, if there is one.
pub(crate) fn published(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    Series::new(name, SeriesKind::Published, points)
}

/// The most that a link carries.
pub(crate) fn ceiling(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    Series::new(name, SeriesKind::Ceiling, points)
}
