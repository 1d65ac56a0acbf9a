// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of papers as plots: the lab's lines, the paper's points, the links' ceilings.
//!
//! Only values in the files of published figures are points: nothing is read off a paper's own
//! plots.

use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind};

/// Makes a plot by size on a logarithmic axis: bytes of `what`.
pub(crate) fn by_size(title: &str, what: &str, y: Axis, series: Vec<Series>) -> Plot {
    let x = Axis::new(&format!("bytes of {what}"), "B", Scale::Logarithmic);
    Plot { title: title.to_owned(), x, y, series }
}

/// Returns an axis of rates in a unit.
pub(crate) fn rate(unit: &str) -> Axis {
    Axis::new("rate", unit, Scale::Linear)
}

/// Makes a plot of rates in MiB/s.
pub(crate) fn rates(title: &str, x: Axis, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x, y: rate("MiB/s"), series }
}

/// Returns a logarithmic axis of payloads.
pub(crate) fn payloads() -> Axis {
    Axis::new("payload of a packet", "B", Scale::Logarithmic)
}

/// Returns an axis of counts.
pub(crate) fn counts(label: &str) -> Axis {
    Axis::new(label, "", Scale::Linear)
}

/// Returns an axis of names; values are their positions.
pub(crate) fn names<'a>(label: &str, names: impl IntoIterator<Item = &'a str>) -> Axis {
    Axis::new(label, "", Scale::Categories(names.into_iter().map(str::to_owned).collect()))
}

/// Returns a series of the lab's values.
pub(crate) fn ours(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    Series::ours(name, points)
}

/// Returns a series of the paper's values, with the name of our series that it stands beside, if
/// there is one.
pub(crate) fn published(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    Series::new(name, SeriesKind::Published, points)
}

/// Returns a series of a link's ceiling.
pub(crate) fn ceiling(
    name: impl Into<String>,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    Series::new(name, SeriesKind::Ceiling, points)
}
