// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same server with its IOMMU on: the study's measurements over windows of growing size, and
//! the same in the variant `iommu` of the lab.
//!
//! The rows are those of the study's public data (`pcie-bench/data` on GitHub, commit b2abf2f,
//! `nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro-iommu-nosp`, random addresses, host-warm cache).

use std::fmt::Write as _;

use crosslane_fabric::{Flow, FlowKind, FlowReport, IommuCounters};
use crosslane_lab::{Lab, open};
use crosslane_pcie::units::HostId;
use rayon::prelude::*;

use super::document::{COMMAND, PAGE};
use super::{BANDWIDTH_OUTSTANDING, Row, SEED, Statistic, Test, rows_of, start};
use crate::comparison::{self, Kind};
use crate::context::Context;
use crate::error::ReproduceError;
use crate::markdown::with_blocks;
use crate::published::PublishedFigures;
use crate::study::{Effort, Study};

const BANDWIDTH: &str = "published/pciebench-supermicro-iommu-bandwidth.csv";
const LATENCY: &str = "published/pciebench-supermicro-iommu-latency.csv";
/// Operations of a row: enough that the first walk for each page does not matter.
pub const OPERATIONS: u64 = 20_000;
/// Operations of a row in a sweep over constants.
pub const QUICK_OPERATIONS: u64 = 2_000;

/// The study.
pub(crate) struct PciebenchIommu;

impl Study for PciebenchIommu {
    fn labs(&self) -> &'static [&'static str] {
        &["pciebench:iommu"]
    }

    fn figures(&self, _lab: &Lab) -> Result<PublishedFigures, ReproduceError> {
        PublishedFigures::read([LATENCY, BANDWIDTH])
    }

    fn compared(
        &self,
        context: &Context<'_>,
        effort: Effort,
    ) -> Result<Vec<comparison::Row>, ReproduceError> {
        let operations = match effort {
            Effort::Full => OPERATIONS,
            Effort::Quick => QUICK_OPERATIONS,
        };
        let rows = rows()?.into_par_iter().filter(|row| row.figure.tolerance.is_some());
        rows.map(|row| Ok(row.figure.compare(simulate(context.lab(), &row, operations)?.0)))
            .collect()
    }
}

/// A row with the lab's figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The row.
    pub row: Row,
    /// The same figure in the lab.
    pub simulated: f64,
    /// Share of the requests that had to walk.
    pub misses: f64,
}

impl Compared {
    /// Returns (simulated - published) / published.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.row.error(self.simulated)
    }

    /// Returns whether it is within its tolerance; context always is.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.row.figure.tolerance.is_none_or(|tolerance| self.error().abs() <= tolerance)
    }
}

/// Reads every row of the study.
///
/// # Errors
/// A file that cannot be read.
pub fn rows() -> Result<Vec<Row>, ReproduceError> {
    rows_of([LATENCY, BANDWIDTH])
}

/// Simulates every row, in parallel, each in a separate lab.
///
/// # Errors
/// Those of [`rows`] and [`simulate`].
pub fn results() -> Result<Vec<Compared>, ReproduceError> {
    let lab = open("pciebench:iommu")?;
    let compared = |row: Row| {
        let (simulated, misses) = simulate(&lab, &row, OPERATIONS)?;
        Ok(Compared { row, simulated, misses })
    };
    rows()?.into_par_iter().map(compared).collect()
}

/// Simulates one row in a lab with this number of operations: its figure, and the share of requests
/// that had to walk.
///
/// # Errors
/// A lab that cannot be built, or a wrong byte.
pub fn simulate(lab: &Lab, row: &Row, operations: u64) -> Result<(f64, f64), ReproduceError> {
    let Test { name: test, statistic, size_bytes, window_bytes } = &row.test;
    let name = || format!("{test} {size_bytes} B, {window_bytes} B window");
    let failed = |what: String| ReproduceError::experiment(name(), what);
    let mut running = lab.build(SEED)?;
    let outstanding = match statistic {
        // As many as have separate places.
        Statistic::Bandwidth => {
            (window_bytes / size_bytes).min(BANDWIDTH_OUTSTANDING.into()) as u32
        }
        Statistic::Average | Statistic::Median => 1,
    };
    let kind = if test.ends_with("WR") { FlowKind::Write } else { FlowKind::Read };
    // Buffers begin at a page boundary.
    let target = running.hosts[0].buffers.start;
    let flow = start(&mut running, kind, target, |flow| Flow {
        window_bytes: *window_bytes,
        operation_bytes: *size_bytes,
        operations,
        outstanding,
        scattered: true,
        ..flow
    });
    let flow = flow.map_err(failed)?;
    running.fabric.run(None);
    if let Some(error) = running.fabric.errors().first() {
        return Err(failed(error.to_string()));
    }
    let report = running.fabric.flow_report(flow);
    if (report.operations, report.failed) != (operations, 0) {
        return Err(failed(format!("{:?}", report.errors)));
    }
    let counters = running.fabric.iommu_counters(HostId(0)).unwrap_or_default();
    Ok((statistic_of(*statistic, report), share_of_misses(&counters)))
}

fn share_of_misses(counters: &IommuCounters) -> f64 {
    let all = counters.hits + counters.misses + counters.joined;
    counters.misses as f64 / all.max(1) as f64
}

fn statistic_of(statistic: Statistic, report: FlowReport) -> f64 {
    let mut latencies_ps = report.latencies_ps.clone();
    match statistic {
        Statistic::Bandwidth => report.steady_bytes_per_second().unwrap_or(0.0) * 8.0 / 1e9,
        Statistic::Average => {
            latencies_ps.iter().sum::<u64>() as f64 / latencies_ps.len() as f64 / 1e3
        }
        Statistic::Median => {
            latencies_ps.sort_unstable();
            latencies_ps[latencies_ps.len() / 2] as f64 / 1e3
        }
    }
}

/// Returns all rows, as Markdown.
#[must_use]
pub fn table(results: &[Compared]) -> String {
    let mut table = String::from(
        "| Test | Size, B | Window, KiB | Published | Simulated | Unit | Error | Kind | Walks | \
         Why context |\n\
         |---|--:|--:|--:|--:|---|--:|---|--:|---|\n",
    );
    for compared in results {
        let row = &compared.row;
        let (digits, unit) = match row.test.statistic {
            Statistic::Bandwidth => (2, "Gbit/s"),
            Statistic::Average => (0, "ns, average"),
            Statistic::Median => (0, "ns, median"),
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {:.digits$} | {:.digits$} | {unit} | {:+.1} % | {} | {:.0} % | {} |",
            row.test.name,
            row.test.size_bytes,
            row.test.window_bytes >> 10,
            row.figure.value,
            compared.simulated,
            100.0 * compared.error(),
            row.figure.kind,
            100.0 * compared.misses,
            row.figure.reason,
        );
    }
    table
}

/// Describes the number of fitted rows, and the errors.
#[must_use]
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
            "* {kind}: {} rows, median error {:.1} %, worst {:+.1} %, {} beyond {:.0} %",
            errors.len(),
            100.0 * median.abs(),
            100.0 * worst,
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
pub fn document(old: &str, results: &[Compared]) -> Result<String, ReproduceError> {
    let blocks = [("iommu-summary", summary(results)), ("iommu-rows", table(results))];
    with_blocks(old, PAGE, COMMAND, blocks)
}
