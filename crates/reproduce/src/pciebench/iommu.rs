// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same server with its IOMMU on: what the study measured over windows of growing size, and
//! the same in the variant `iommu` of the lab.
//!
//! The rows are those of the study's public data (`pcie-bench/data` on GitHub, commit b2abf2f,
//! `nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro-iommu-nosp`, random addresses, host-warm cache).

use std::fmt::Write as _;

use crosslane_explain::size_words;
use crosslane_fabric::{Flow, FlowKind, FlowReport, IommuCounters};
use crosslane_lab::{Lab, open};
use crosslane_pcie::units::HostId;
use rayon::prelude::*;

use super::{BANDWIDTH_OUTSTANDING, SEED, start};
use crate::comparison::{self, Kind, Tolerance};
use crate::error::ReproduceError;
use crate::markdown::with_block;
use crate::published::PublishedFile;

const BANDWIDTH: &str = "published/pciebench-supermicro-iommu-bandwidth.csv";
const LATENCY: &str = "published/pciebench-supermicro-iommu-latency.csv";
/// Operations of a row: enough that the first walk for each page does not matter.
pub const OPERATIONS: u64 = 20_000;
/// Operations of a row where it is to be seen which constants matter.
pub const QUICK_OPERATIONS: u64 = 2_000;
/// Beyond this window the tables themselves no longer stay in the caches, and walks take longer.
const CACHED_WINDOW_BYTES: u64 = 8 << 20;
/// How far a row that is compared may be off, as a fraction.
const TOLERANCE: f64 = 0.10;
/// Why so far.
const TOLERANCE_OF: &str = "bound of this set; four constants stand for all of an IOMMU";

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Gbit/s of payload.
    Bandwidth,
    /// Average latency in ns.
    Average,
    /// Median latency in ns.
    Median,
}

/// One published row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the test, such as `BW_DMA_RD`.
    pub test: String,
    /// Which of its figures.
    pub quantity: Quantity,
    /// Bytes of memory that it reads or writes at random.
    pub window_bytes: u64,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// The figure.
    pub published: f64,
    /// What it is worth.
    pub kind: Kind,
}

/// A row with what the lab gives for it.
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
    /// (simulated - published) / published.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.simulated - self.row.published) / self.row.published
    }

    /// Whether it is as far off as it may be, or less; context may be off by anything.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.row.tolerance().is_none_or(|tolerance| self.error().abs() <= tolerance)
    }
}

impl Row {
    /// How far it may be off, as a fraction; none for context.
    #[must_use]
    pub fn tolerance(&self) -> Option<f64> {
        (self.kind != Kind::Context).then_some(TOLERANCE)
    }

    /// The pair as every set has it.
    #[must_use]
    pub fn compared(&self, simulated: f64) -> comparison::Row {
        let (unit, word) = match self.quantity {
            Quantity::Bandwidth => ("Gbit/s", ""),
            Quantity::Average => ("ns", ", average"),
            Quantity::Median => ("ns", ", median"),
        };
        let quantity = format!("{}{word}", self.test);
        let (size, window) = (self.size_bytes, size_words(self.window_bytes));
        let conditions = format!("{size} B, {window} window");
        comparison::Row {
            label: format!("{quantity}, {conditions}"),
            quantity,
            conditions,
            unit: unit.to_owned(),
            published: Some(self.published),
            simulated: Some(simulated),
            error: Some((simulated - self.published) / self.published),
            kind: self.kind,
            tolerance: self
                .tolerance()
                .map(|fraction| Tolerance { fraction, reason: TOLERANCE_OF }),
            reason: self.reason().to_owned(),
        }
    }

    /// Why it is context only; empty for all else.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.kind {
            Kind::Context => reason(&self.test, self.quantity, self.size_bytes, self.window_bytes),
            _ => "",
        }
    }
}

/// Why a row is context; empty where it is compared.
fn reason(test: &str, quantity: Quantity, size_bytes: u64, window_bytes: u64) -> &'static str {
    match (test, quantity) {
        _ if window_bytes > CACHED_WINDOW_BYTES => "tables no longer in the caches: longer walks",
        (_, Quantity::Bandwidth) if window_bytes / size_bytes < BANDWIDTH_OUTSTANDING.into() => {
            "operations in flight overlap in the window"
        }
        ("BW_DMA_RD", _) if size_bytes == 512 => "host: completions longer than 64 B",
        _ => "",
    }
}

/// The rows that constants of the variant are fitted to, as its sources name them.
fn is_fitted(test: &str, quantity: Quantity, size_bytes: u64, window: &str) -> bool {
    matches!(
        (test, quantity, size_bytes, window),
        ("LAT_DMA_RD", Quantity::Median, 64, "256KB" | "8MB")
            | ("LAT_DMA_RD", Quantity::Average, 64, "1MB")
            | ("BW_DMA_RD", Quantity::Bandwidth, 64, "8MB")
    )
}

/// `256KB`, `1.5MB`: the study's are powers of two.
fn window_bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix("KB") {
        Some(number) => (number, 1024.0),
        None => (text.strip_suffix("MB")?, 1_048_576.0),
    };
    number.parse::<f64>().ok().map(|number| (number * unit) as u64)
}

/// Every row that the study has.
///
/// # Errors
/// A file that cannot be read.
pub fn rows() -> Result<Vec<Row>, ReproduceError> {
    let mut rows = Vec::new();
    for (name, columns) in [
        (LATENCY, &[("avg_ns", Quantity::Average), ("median_ns", Quantity::Median)][..]),
        (BANDWIDTH, &[("bw_Gbit_s", Quantity::Bandwidth)][..]),
    ] {
        let file = PublishedFile::open(name)?;
        for &(column, quantity) in columns {
            let records = file.columns([&["test"], &["window"], &["size_B"], &[column]])?;
            for (index, [test, window, size, published]) in records.into_iter().enumerate() {
                let bytes = window_bytes(window).ok_or_else(|| {
                    ReproduceError::experiment(name, format!("\"{window}\" is no window"))
                })?;
                let size_bytes = file.number(index, size)?;
                let kind = match () {
                    () if is_fitted(test, quantity, size_bytes, window) => Kind::Fit,
                    () if reason(test, quantity, size_bytes, bytes).is_empty() => Kind::Predicted,
                    () => Kind::Context,
                };
                rows.push(Row {
                    test: test.to_owned(),
                    quantity,
                    window_bytes: bytes,
                    size_bytes,
                    published: file.number(index, published)?,
                    kind,
                });
            }
        }
    }
    Ok(rows)
}

/// Every row, simulated; rows are run beside each other, each in a lab of its own.
///
/// # Errors
/// As [`rows`], and what [`simulate`] finds.
pub fn results() -> Result<Vec<Compared>, ReproduceError> {
    let lab = open("pciebench:iommu")?;
    let compared = |row: Row| {
        let (simulated, misses) = simulate(&lab, &row, OPERATIONS)?;
        Ok(Compared { row, simulated, misses })
    };
    rows()?.into_par_iter().map(compared).collect()
}

/// One row in a lab, with so many operations: its figure, and the share of requests that had to
/// walk.
///
/// # Errors
/// A lab that cannot be built, or any byte that is wrong.
pub fn simulate(lab: &Lab, row: &Row, operations: u64) -> Result<(f64, f64), ReproduceError> {
    let name = || format!("{} {} B, {} B window", row.test, row.size_bytes, row.window_bytes);
    let failed = |what: String| ReproduceError::experiment(name(), what);
    let mut running = lab.build(SEED)?;
    let outstanding = match row.quantity {
        // As many as have a place of their own.
        Quantity::Bandwidth => {
            (row.window_bytes / row.size_bytes).min(BANDWIDTH_OUTSTANDING.into()) as u32
        }
        Quantity::Average | Quantity::Median => 1,
    };
    let kind = if row.test.ends_with("WR") { FlowKind::Write } else { FlowKind::Read };
    // Buffers begin at a page.
    let target = running.hosts[0].buffers.start;
    let flow = start(&mut running, kind, target, |flow| Flow {
        window_bytes: row.window_bytes,
        operation_bytes: row.size_bytes,
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
    Ok((figure(row, report), share_of_misses(&counters)))
}

fn share_of_misses(counters: &IommuCounters) -> f64 {
    let all = counters.hits + counters.misses + counters.joined;
    counters.misses as f64 / all.max(1) as f64
}

fn figure(row: &Row, report: FlowReport) -> f64 {
    let mut latencies_ps = report.latencies_ps.clone();
    match row.quantity {
        Quantity::Bandwidth => report.steady_bytes_per_second().unwrap_or(0.0) * 8.0 / 1e9,
        Quantity::Average => {
            latencies_ps.iter().sum::<u64>() as f64 / latencies_ps.len() as f64 / 1e3
        }
        Quantity::Median => {
            latencies_ps.sort_unstable();
            latencies_ps[latencies_ps.len() / 2] as f64 / 1e3
        }
    }
}

/// All rows, as Markdown.
#[must_use]
pub fn table(results: &[Compared]) -> String {
    let mut table = String::from(
        "| Test | Size, B | Window, KiB | Published | Simulated | Unit | Error | Kind | Walks | \
         Why context |\n\
         |---|--:|--:|--:|--:|---|--:|---|--:|---|\n",
    );
    for compared in results {
        let row = &compared.row;
        let (digits, unit) = match row.quantity {
            Quantity::Bandwidth => (2, "Gbit/s"),
            Quantity::Average => (0, "ns, average"),
            Quantity::Median => (0, "ns, median"),
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {:.digits$} | {:.digits$} | {unit} | {:+.1} % | {} | {:.0} % | {} |",
            row.test,
            row.size_bytes,
            row.window_bytes >> 10,
            row.published,
            compared.simulated,
            100.0 * compared.error(),
            row.kind,
            100.0 * compared.misses,
            row.reason(),
        );
    }
    table
}

/// How much was fitted, and how good it is.
#[must_use]
pub fn summary(results: &[Compared]) -> String {
    let mut text = format!("{} rows.\n", results.len());
    for kind in [Kind::Fit, Kind::Predicted] {
        let of_kind = || results.iter().filter(|compared| compared.row.kind == kind);
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
            100.0 * TOLERANCE,
        );
    }
    text
}

/// The document about the lab, `docs/pciebench.md`, with this part's tables as they are now.
///
/// # Errors
/// A document without the marks that the tables stand between.
pub fn document(old: &str, results: &[Compared]) -> Result<String, ReproduceError> {
    let mut document = old.to_owned();
    for (name, text) in [("iommu-summary", summary(results)), ("iommu-rows", table(results))] {
        document =
            with_block(&document, name, super::document::COMMAND, &text).ok_or_else(|| {
                ReproduceError::experiment("docs/pciebench.md", format!("no block {name}"))
            })?;
    }
    Ok(document)
}
