// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published rows of the pcie-bench study, and the same measurements in the lab `pciebench`.
//!
//! A fitted constant names the rows that it was fitted to: `fit: BW_DMA_WR 128 and 256 B`.

mod document;
pub mod iommu;

use std::collections::BTreeSet;

use crosslane_fabric::{Flow, FlowId, FlowKind, FlowReport, FlowSource};
use crosslane_lab::{Constant, Lab, Provenance, RunningLab, open};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use rayon::prelude::*;
use serde::Deserialize;

use crate::comparison;
use crate::context::Context;
use crate::error::ReproduceError;
use crate::published::{PublishedFigure, read};
use crate::study::{Effort, Study};

pub use document::table;

const SEED: u64 = 1;
/// Operations in flight of a bandwidth row: more than the latency requires at any size.
const BANDWIDTH_OUTSTANDING: u32 = 64;
/// Alignment of operations, bytes.
const OPERATION_ALIGNMENT_BYTES: u64 = 64;

/// Returns the operations of a bandwidth row, and those of a latency row, which are made one after
/// the other: enough that the start does not matter, and that the median moves by at most 1 ns.
const fn operations(effort: Effort) -> (u64, u64) {
    match effort {
        Effort::Full => (4000, 501),
        Effort::Quick => (1000, 101),
    }
}

/// The study.
pub(crate) struct Pciebench;

impl Study for Pciebench {
    fn labs(&self) -> &'static [&'static str] {
        &["pciebench", "pciebench:command"]
    }

    fn compared(
        &self,
        context: &Context<'_>,
        effort: Effort,
    ) -> Result<Vec<comparison::Row>, ReproduceError> {
        let labs = Labs::of(context);
        let rows = labs.rows()?.into_par_iter().filter(|row| row.figure.tolerance.is_some());
        rows.map(|row| Ok(row.figure.compare(labs.simulate(&row, effort)?))).collect()
    }
}

/// Statistic of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Payload, Gbit/s.
    Bandwidth,
    /// Average latency, ns.
    Average,
    /// Median latency, ns.
    Median,
}

/// The test of a published row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Test {
    /// Its name, such as `BW_DMA_RD`.
    #[serde(rename = "test")]
    pub name: String,
    /// The statistic of the row.
    pub statistic: Statistic,
    /// Bytes of one operation.
    #[serde(rename = "size_B")]
    pub size_bytes: u64,
    /// Bytes of the memory that it reads or writes.
    #[serde(rename = "window_B")]
    pub window_bytes: u64,
}

/// A published row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its test.
    pub test: Test,
    /// Its figure.
    pub figure: PublishedFigure,
}

impl Row {
    /// Returns whether it is a latency in ns, not a bandwidth in Gbit/s.
    #[must_use]
    pub fn is_latency(&self) -> bool {
        self.test.statistic != Statistic::Bandwidth
    }

    /// Returns (simulated - published) / published.
    #[must_use]
    pub fn error(&self, simulated: f64) -> f64 {
        (simulated - self.figure.value) / self.figure.value
    }
}

/// Reads the rows of some files.
fn rows_of<'a>(files: impl IntoIterator<Item = &'a str>) -> Result<Vec<Row>, ReproduceError> {
    let mut rows = Vec::new();
    for file in files {
        let tests: Vec<Test> = read(file)?;
        let figures: Vec<PublishedFigure> = read(file)?;
        rows.extend(tests.into_iter().zip(figures).map(|(test, figure)| Row { test, figure }));
    }
    Ok(rows)
}

/// The lab, with the variant that a test needs.
pub struct Labs {
    dma: Lab,
    command: Lab,
}

impl Labs {
    /// Opens the shipped lab.
    ///
    /// # Errors
    /// A lab file that cannot be read.
    pub fn open() -> Result<Self, ReproduceError> {
        Ok(Self { dma: open("pciebench")?, command: open("pciebench:command")? })
    }

    fn of(context: &Context<'_>) -> Self {
        Self { dma: context.labs[0].clone(), command: context.labs[1].clone() }
    }

    /// Lists the fitted constants of the lab file, including those of the variant.
    #[must_use]
    pub fn fitted(&self) -> Vec<&Constant> {
        let mut lines = BTreeSet::new();
        let all = self.dma.constants().chain(self.command.constants());
        all.filter(|constant| constant.provenance == Provenance::Fit)
            .filter(|constant| lines.insert(constant.line))
            .collect()
    }

    /// Reads every row of the measurements that the lab file names.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn rows(&self) -> Result<Vec<Row>, ReproduceError> {
        rows_of(self.dma.file().measurements.iter().map(|file| file.file.as_str()))
    }

    /// Makes the same measurement in the lab, in the unit of the row.
    ///
    /// # Errors
    /// A lab that cannot be built, or a wrong byte.
    pub fn simulate(&self, row: &Row, effort: Effort) -> Result<f64, ReproduceError> {
        let lab = if row.test.name.starts_with("LAT_CMD_") { &self.command } else { &self.dma };
        let kinds = match row.test.name.split('_').next_back() {
            Some("RD") => vec![FlowKind::Read],
            Some("WR") => vec![FlowKind::Write],
            Some("RW") => vec![FlowKind::Write, FlowKind::Read],
            Some("WRRD") => vec![FlowKind::WriteRead],
            _ => return Err(ReproduceError::experiment(&row.test.name, "no test of the study")),
        };
        let reports = run(lab, row, &kinds, effort)?;
        if row.is_latency() {
            let mut latencies_ps = reports[0].latencies_ps.clone();
            latencies_ps.sort_unstable();
            return Ok(latencies_ps[latencies_ps.len() / 2] as f64 / 1e3);
        }
        let rates = reports.iter().filter_map(FlowReport::steady_bytes_per_second);
        Ok(rates.fold(f64::INFINITY, f64::min) * 8.0 / 1e9)
    }

    /// Simulates every row, in parallel, each in a separate lab; returns each with the lab's
    /// figure.
    ///
    /// # Errors
    /// Those of [`rows`](Self::rows) and [`simulate`](Self::simulate).
    pub fn results(&self) -> Result<Vec<(Row, f64)>, ReproduceError> {
        let simulated = |row: Row| {
            let value = self.simulate(&row, Effort::Full)?;
            Ok((row, value))
        };
        self.rows()?.into_par_iter().map(simulated).collect()
    }
}

fn run(
    lab: &Lab,
    row: &Row,
    kinds: &[FlowKind],
    effort: Effort,
) -> Result<Vec<FlowReport>, ReproduceError> {
    let Test { size_bytes, .. } = row.test;
    let name = format!("{} {size_bytes} B", row.test.name);
    let mut running = lab.build(SEED)?;
    let (of_bandwidth, of_latency) = operations(effort);
    let (operations, outstanding) =
        if row.is_latency() { (of_latency, 1) } else { (of_bandwidth, BANDWIDTH_OUTSTANDING) };
    let stride = size_bytes.next_multiple_of(OPERATION_ALIGNMENT_BYTES);
    let window_bytes = stride * u64::from(outstanding);
    let mut target = running.hosts[0].buffers.start;
    let mut flows = Vec::new();
    for &kind in kinds {
        let flow = start(&mut running, kind, target, |flow| Flow {
            window_bytes,
            operation_bytes: size_bytes,
            operations,
            outstanding,
            ..flow
        });
        flows.push(flow.map_err(|error| ReproduceError::experiment(&name, error))?);
        target += window_bytes;
    }
    running.fabric.run(None);
    if let Some(error) = running.fabric.errors().first() {
        return Err(ReproduceError::experiment(name, format!("{error:?}")));
    }
    let mut reports = Vec::new();
    for flow in flows {
        let report = running.fabric.flow_report(flow);
        if (report.operations, report.failed) != (operations, 0) {
            return Err(ReproduceError::experiment(name, format!("{:?}", report.errors)));
        }
        reports.push(report);
    }
    Ok(reports)
}

fn start(
    running: &mut RunningLab,
    kind: FlowKind,
    target: u64,
    with: impl FnOnce(Flow) -> Flow,
) -> Result<FlowId, String> {
    let card = running.find("nfp").ok_or("the lab has no nfp")?;
    let flow = Flow {
        name: format!("{kind:?}"),
        source: FlowSource::Endpoint(card),
        kind,
        target: BusAddress(target),
        window_bytes: 0,
        operation_bytes: 0,
        tlp_bytes: None,
        force: false,
        operations: 0,
        outstanding: 0,
        relaxed_ordering: false,
        scattered: false,
        start: Picoseconds::ZERO,
    };
    running.fabric.start_flow(with(flow)).map_err(|error| error.to_string())
}
