// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's figures as plots: the lab's lines, the document's points, what the links allow.
//!
//! Only figures that stand in the file of published figures are points: nothing is read off the
//! document's own plots.

use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind};

/// A plot of rates in MiB/s.
pub(super) fn rates(title: &str, x: Axis, series: Vec<Series>) -> Plot {
    let y = Axis { label: "rate".into(), unit: "MiB/s".into(), scale: Scale::Linear };
    Plot { title: title.to_owned(), x, y, series }
}

/// Payloads of packets, by their logarithm.
pub(super) fn payloads() -> Axis {
    Axis { label: "payload of a packet".into(), unit: "B".into(), scale: Scale::Logarithmic }
}

/// A count of something.
pub(super) fn counts(label: &str) -> Axis {
    Axis { label: label.to_owned(), unit: String::new(), scale: Scale::Linear }
}

/// Names; values are their positions.
pub(super) fn names<'a>(label: &str, names: impl IntoIterator<Item = &'a str>) -> Axis {
    let names = names.into_iter().map(str::to_owned).collect();
    Axis { label: label.to_owned(), unit: String::new(), scale: Scale::Categories(names) }
}

/// What the lab gives.
pub(super) fn ours(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    series(name, SeriesKind::Ours, points)
}

/// What the document gives; of the name of ours that it stands for, if there is one.
pub(super) fn published(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    series(name, SeriesKind::Published, points)
}

/// What a link can carry.
pub(super) fn ceiling(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    series(name, SeriesKind::Ceiling, points)
}

fn series(name: &str, kind: SeriesKind, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series { name: name.to_owned(), kind, points: points.into_iter().collect() }
}
