// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same server with its IOMMU on: the study's measurements over windows of growing size, and
//! the same in the variant `iommu` of the lab.
//!
//! The rows are those of the study's public data (`pcie-bench/data` on GitHub, commit b2abf2f,
//! `nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro-iommu-nosp`, random addresses, host-warm cache).

use std::fmt::Write as _;

use crosslane_lab::{Lab, open};
use crosslane_report::{Field, Table};
use crosslane_results::quantity::change;

use super::{
    BANDWIDTH_OUTSTANDING, COMMAND, Compared, ERROR, KIND, Load, PAGE, PUBLISHED, REASON, Row,
    SIMULATED, SIZE, Statistic, TEST, Test, compared_rows, measure, rows_of, simulated,
};
use crate::comparison::Kind;
use crate::document::with_blocks;
use crate::error::Result;
use crate::study::{Effort, Study};

const BANDWIDTH: &str = "published/pciebench-supermicro-iommu-bandwidth.csv";
const LATENCY: &str = "published/pciebench-supermicro-iommu-latency.csv";
/// Operations of a row: enough that the first walk for each page does not matter.
pub const OPERATIONS: u64 = 20_000;
/// Operations of a row in a sweep over constants.
pub const QUICK_OPERATIONS: u64 = 2_000;

/// The study.
pub(crate) const STUDY: Study = Study {
    labs: &["pciebench:iommu"],
    figures: &[LATENCY, BANDWIDTH],
    reproducible: None,
    compared: |context, effort| {
        let operations = match effort {
            Effort::Full => OPERATIONS,
            Effort::Quick => QUICK_OPERATIONS,
        };
        compared_rows(rows()?, |row| simulate(context.lab(), row, operations))
    },
};

/// Reads every row of the study.
///
/// # Errors
/// A file that cannot be read.
pub fn rows() -> Result<Vec<Row>> {
    rows_of([LATENCY, BANDWIDTH])
}

/// Simulates every row.
///
/// # Errors
/// Those of [`rows`] and [`simulate`].
pub fn results() -> Result<Vec<Compared>> {
    let lab = open("pciebench:iommu")?;
    simulated(rows()?, |row| simulate(&lab, row, OPERATIONS))
}

/// Simulates one row in a lab with this number of operations: its figure, and the share of requests
/// that had to walk.
///
/// # Errors
/// A lab that cannot be built, or a wrong byte.
pub fn simulate(lab: &Lab, row: &Row, operations: u64) -> Result<(f64, f64)> {
    let Test { size_bytes, window_bytes, .. } = row.test;
    let outstanding = match row.is_latency() {
        true => 1,
        // As many as have separate places.
        false => (window_bytes / size_bytes).min(BANDWIDTH_OUTSTANDING.into()) as u32,
    };
    let load = Load { window_bytes, operations, filled_bytes: 0, outstanding, scattered: true };
    measure(lab, &row.test, &load)
}

/// Returns all rows, as Markdown.
pub fn table(results: &[Compared]) -> String {
    let window: Field<Compared> =
        ("Window, KiB:", |it| (it.row.test.window_bytes >> 10).to_string());
    let unit: Field<Compared> = ("Unit", |it| {
        let unit = match it.row.test.statistic {
            Statistic::Bandwidth => "Gbit/s",
            Statistic::Average => "ns, average",
            Statistic::Median => "ns, median",
        };
        unit.to_owned()
    });
    let walks: Field<Compared> = ("Walks:", |it| format!("{:.0} %", 100.0 * it.misses));
    let fields = [TEST, SIZE, window, PUBLISHED, SIMULATED, unit, ERROR, KIND, walks, REASON];
    Table::of(&fields, results).to_markdown()
}

/// Describes the number of fitted rows, and the errors.
pub fn summary(results: &[Compared]) -> String {
    let mut text = format!("{} rows.\n", results.len());
    let bound = results.iter().find_map(|compared| compared.row.figure.tolerance);
    for kind in [Kind::Fit, Kind::Predicted] {
        let of_kind = || results.iter().filter(|compared| compared.row.figure.kind == kind);
        let mut errors: Vec<f64> = of_kind().map(Compared::error).collect();
        errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let (Some(median), Some(worst)) = (errors.get(errors.len() / 2), errors.last()) else {
            continue;
        };
        let _ = writeln!(
            text,
            "* {kind}: {} rows, median error {:.1} %, worst {} %, {} beyond {:.0} %",
            errors.len(),
            100.0 * median.abs(),
            change(*worst),
            of_kind().filter(|compared| !compared.is_within()).count(),
            100.0 * bound.unwrap_or_default(),
        );
    }
    text
}

/// Returns the page of the lab, `docs/pciebench.md`, with the current tables of this part.
///
/// # Errors
/// A page without the marks around its tables.
pub fn document(old: &str, results: &[Compared]) -> Result<String> {
    let blocks = [("iommu-summary", summary(results)), ("iommu-rows", table(results))];
    with_blocks(old, PAGE, COMMAND, blocks)
}
