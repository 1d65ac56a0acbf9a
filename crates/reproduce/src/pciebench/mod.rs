// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published rows of the pcie-bench study, and the same measurements in the lab `pciebench`.
//!
//! A fitted constant names the rows that it was fitted to: `fit: BW_DMA_WR 128 and 256 B`.

pub mod iommu;
pub mod systems;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use crosslane_experiment::parallel;
use crosslane_fabric::{Flow, FlowId, FlowKind, FlowReport, FlowSource, Region};
use crosslane_lab::{CheckedFlows, Constant, Lab, LabFile, Provenance, open};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use crosslane_report::{Field, Table};
use crosslane_results::quantity::change;
use serde::Deserialize;
use strum::AsRefStr;

use crate::comparison::{self, Kind, worst_and_median};
use crate::context::{Context, TIME_LIMIT};
use crate::document::{fits, with_blocks};
use crate::error::{ReproduceError, Result};
use crate::published::{PublishedFigure, read};
use crate::study::{Effort, Study};

/// The page.
const PAGE: &str = "docs/pciebench.md";
/// The command that writes the page's tables.
const COMMAND: &str = "make pciebench";
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
pub(crate) const STUDY: Study = Study {
    labs: &["pciebench", "pciebench:command"],
    figures: &[],
    reproducible: None,
    compared: |context, effort| {
        let labs = Labs::of(context)?;
        compared_rows(labs.rows()?, |row| labs.simulate(row, effort))
    },
};

/// State of the host's cache before a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// The host has written the window before.
    #[default]
    Warm,
    /// Nothing of the window is in the cache.
    Cold,
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

/// Tests of the study: requests by the DMA engine of the card, or by its command interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, AsRefStr)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum TestName {
    /// Bandwidth of reads.
    BwDmaRd,
    /// Bandwidth of writes.
    BwDmaWr,
    /// Bandwidth of reads and writes at once.
    BwDmaRw,
    /// Latency of reads.
    LatDmaRd,
    /// Latency of a write and a read of the same place.
    LatDmaWrrd,
    /// Latency of reads by the command interface.
    LatCmdRd,
    /// Latency of a write and a read by the command interface.
    LatCmdWrrd,
}

impl TestName {
    const fn is_of_commands(self) -> bool {
        matches!(self, Self::LatCmdRd | Self::LatCmdWrrd)
    }

    const fn kinds(self) -> &'static [FlowKind] {
        match self {
            Self::BwDmaRd | Self::LatDmaRd | Self::LatCmdRd => &[FlowKind::Read],
            Self::BwDmaWr => &[FlowKind::Write],
            Self::BwDmaRw => &[FlowKind::Write, FlowKind::Read],
            Self::LatDmaWrrd | Self::LatCmdWrrd => &[FlowKind::WriteRead],
        }
    }
}

/// The test of a published row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Test {
    /// Name of the test.
    #[serde(rename = "test")]
    pub name: TestName,
    /// The statistic of the row.
    pub statistic: Statistic,
    /// Variant of the lab that is its server; empty for the lab itself.
    #[serde(default)]
    pub system: String,
    /// State of the host's cache before the test.
    #[serde(default)]
    pub cache: Cache,
    /// Whether the IOMMU is on, in pages of 4 KiB.
    #[serde(default)]
    pub iommu: bool,
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
    /// Test that the row is of.
    pub test: Test,
    /// Published figure of the row.
    pub figure: PublishedFigure,
}

impl Row {
    /// Returns whether it is a latency in ns, not a bandwidth in Gbit/s.
    pub fn is_latency(&self) -> bool {
        self.test.statistic != Statistic::Bandwidth
    }
}

/// A row with the lab's figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The row.
    pub row: Row,
    /// Figure in the lab.
    pub simulated: f64,
    /// Share of the requests that had to walk in an IOMMU.
    pub misses: f64,
}

impl Compared {
    /// Returns (simulated - published) / published.
    pub fn error(&self) -> f64 {
        (self.simulated - self.row.figure.value) / self.row.figure.value
    }

    /// Returns whether it is within its tolerance; context always is.
    pub fn is_within(&self) -> bool {
        self.row.figure.tolerance.is_none_or(|tolerance| self.error().abs() <= tolerance)
    }
}

/// Makes every measurement, in parallel, each in a separate lab.
fn simulated(
    rows: Vec<Row>,
    simulate: impl Fn(&Row) -> Result<(f64, f64)> + Sync,
) -> Result<Vec<Compared>> {
    let made = parallel::try_map(&rows, simulate)?;
    let both = rows.into_iter().zip(made);
    Ok(both.map(|(row, (simulated, misses))| Compared { row, simulated, misses }).collect())
}

/// Makes the measurements of the compared rows.
fn compared_rows(
    mut rows: Vec<Row>,
    simulate: impl Fn(&Row) -> Result<(f64, f64)> + Sync,
) -> Result<Vec<comparison::Row>> {
    rows.retain(|row| row.figure.tolerance.is_some());
    let compared = simulated(rows, simulate)?;
    Ok(compared.iter().map(|it| it.row.figure.compare(it.simulated)).collect())
}

/// Reads the rows of some files.
fn rows_of<'a>(files: impl IntoIterator<Item = &'a str>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for file in files {
        let tests: Vec<Test> = read(file)?;
        let figures: Vec<PublishedFigure> = read(file)?;
        rows.extend(tests.into_iter().zip(figures).map(|(test, figure)| Row { test, figure }));
    }
    Ok(rows)
}

/// A server, and the card's two ways to send requests.
pub struct Labs {
    dma: Lab,
    command: Lab,
    cold: Lab,
    /// The variant that has the constants of commands.
    variant: Lab,
}

impl Labs {
    /// Opens the shipped lab.
    ///
    /// # Errors
    /// A lab file that cannot be read.
    pub fn open() -> Result<Self> {
        Self::new(open("pciebench")?, open("pciebench:command")?)
    }

    fn of(context: &Context<'_>) -> Result<Self> {
        Self::new(context.labs[0].clone(), context.labs[1].clone())
    }

    /// A server with the card of the variant `command` for commands.
    fn new(dma: Lab, variant: Lab) -> Result<Self> {
        let card = &variant.file().endpoints[0].part;
        let command = dma.edited(|file| file.endpoints[0].part = Arc::clone(card))?;
        let cold = command.edited(chill)?;
        Ok(Self { dma, command, cold, variant })
    }

    /// Lists the fitted constants of the lab file, including those of the variant.
    pub fn fitted(&self) -> Vec<&Constant> {
        let mut lines = BTreeSet::new();
        let all = self.dma.constants().chain(self.variant.constants());
        all.filter(|constant| constant.provenance == Provenance::Fit)
            .filter(|constant| lines.insert(constant.line))
            .collect()
    }

    /// Reads every row of the measurements that the lab file names.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn rows(&self) -> Result<Vec<Row>> {
        rows_of(self.dma.file().measurements.iter().map(|file| file.file.as_str()))
    }

    /// Makes the same measurement in the lab, in the unit of the row; also returns the share of
    /// requests that walked, which is none without an IOMMU.
    ///
    /// # Errors
    /// A lab that cannot be built, or a wrong byte.
    pub fn simulate(&self, row: &Row, effort: Effort) -> Result<(f64, f64)> {
        let lab = match (row.test.name.is_of_commands(), row.test.cache) {
            (true, Cache::Warm) => &self.command,
            (true, Cache::Cold) => &self.cold,
            (false, _) => &self.dma,
        };
        let (of_bandwidth, of_latency) = operations(effort);
        let (operations, outstanding) =
            if row.is_latency() { (of_latency, 1) } else { (of_bandwidth, BANDWIDTH_OUTSTANDING) };
        let stride = row.test.size_bytes.next_multiple_of(OPERATION_ALIGNMENT_BYTES);
        let window_bytes = stride * u64::from(outstanding);
        let load =
            Load { window_bytes, operations, filled_bytes: 0, outstanding, scattered: false };
        measure(lab, &row.test, &load)
    }

    /// Simulates every row.
    ///
    /// # Errors
    /// Those of [`rows`](Self::rows) and [`simulate`](Self::simulate).
    pub fn results(&self) -> Result<Vec<Compared>> {
        simulated(self.rows()?, |row| self.simulate(row, Effort::Full))
    }

    /// Returns the page of the lab, `docs/pciebench.md`, with its current tables.
    ///
    /// # Errors
    /// A page without the marks around its tables.
    pub fn document(&self, old: &str, results: &[Compared]) -> Result<String> {
        let blocks = [
            ("summary", self.summary(results)),
            ("constants", fits(self.fitted()).to_markdown()),
            ("rows", table(results)),
        ];
        with_blocks(old, PAGE, COMMAND, blocks)
    }

    /// Describes the number of fitted rows, and the errors.
    fn summary(&self, results: &[Compared]) -> String {
        let compared = results.iter().filter(|it| it.row.figure.tolerance.is_some()).count();
        let mut text = format!(
            "{} rows, {compared} of them compared, {} constants fitted.\n",
            results.len(),
            self.fitted().len()
        );
        for (what, is_latency) in [("bandwidth", false), ("latency", true)] {
            for kind in [Kind::Fit, Kind::Predicted] {
                let of_kind = |it: &&Compared| {
                    it.row.is_latency() == is_latency && it.row.figure.kind == kind
                };
                let errors = results.iter().filter(of_kind).map(Compared::error);
                let (worst, _) = worst_and_median(errors.clone()).unwrap_or_default();
                let (count, worst) = (errors.count(), change(worst));
                let _ = writeln!(text, "* {what}, {kind}: {count} rows, worst error {worst} %");
            }
        }
        text
    }
}

/// Empties the host's cache before each test.
fn chill(file: &mut LabFile) {
    for host in &mut file.hosts {
        if let Some(cache) = &mut Arc::make_mut(&mut host.part).parameters.cache {
            cache.warm = false;
        }
    }
}

/// Bytes of an operation that fills a cache.
const FILLING_OPERATION_BYTES: u64 = 4096;

/// Requests by which a row is measured.
struct Load {
    /// Memory of each kind.
    window_bytes: u64,
    operations: u64,
    /// Bytes that are written before.
    filled_bytes: u64,
    outstanding: u32,
    scattered: bool,
}

/// Makes the measurement of a row: the figure, the least one of several kinds of requests, and the
/// share of requests that had to walk.
fn measure(lab: &Lab, test: &Test, load: &Load) -> Result<(f64, f64)> {
    let Test { name, statistic, size_bytes, window_bytes, .. } = test;
    let failed = |what: String| {
        let name = format!("{} {size_bytes} B, {window_bytes} B window", name.as_ref());
        ReproduceError::experiment(name, what)
    };
    let mut running = lab.build(SEED)?;
    let card = running.find("nfp").ok_or_else(|| failed("the lab has no nfp".to_owned()))?;
    let flow = |kind: FlowKind, target: u64| Flow {
        name: format!("{kind:?}"),
        source: FlowSource::Endpoint(card),
        kind,
        target: BusAddress(target),
        window_bytes: load.window_bytes,
        operation_bytes: *size_bytes,
        tlp_bytes: None,
        force: false,
        operations: load.operations,
        outstanding: load.outstanding,
        region: Region::Uncached,
        relaxed_ordering: false,
        scattered: load.scattered,
        start: Picoseconds::ZERO,
    };
    let mut run = |flows: &[Flow]| {
        let started = flows.iter().map(|flow| running.fabric.start_flow(flow.clone()));
        let started: Vec<FlowId> =
            started.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))?;
        let run = CheckedFlows::new(&mut running.fabric).with_limit(TIME_LIMIT);
        run.run().map_err(|error| failed(error.to_string()))?;
        Ok::<_, ReproduceError>(started)
    };
    // Buffers begin at a page boundary.
    let start = running.hosts[0].buffers.start;
    if load.filled_bytes > 0 {
        run(&[Flow {
            operation_bytes: FILLING_OPERATION_BYTES,
            operations: load.filled_bytes / FILLING_OPERATION_BYTES,
            outstanding: BANDWIDTH_OUTSTANDING,
            scattered: false,
            ..flow(FlowKind::Write, start)
        }])?;
    }
    let targets = (0_u64..).map(|index| start + index * load.window_bytes);
    let flows: Vec<Flow> =
        name.kinds().iter().zip(targets).map(|(kind, target)| flow(*kind, target)).collect();
    let flows = run(&flows)?;
    let mut figure = f64::INFINITY;
    for flow in flows {
        let report = running.fabric.flow_report(flow);
        if (report.operations, report.failed) != (load.operations, 0) {
            return Err(failed(format!("{:?}", report.errors)));
        }
        figure = figure.min(figure_of(*statistic, report));
    }
    let counters = running.fabric.iommu_counters(HostId(0)).unwrap_or_default();
    let all = counters.hits + counters.misses + counters.joined;
    Ok((figure, counters.misses as f64 / all.max(1) as f64))
}

fn figure_of(statistic: Statistic, report: FlowReport) -> f64 {
    let rate = report.steady_bytes_per_second();
    let mut latencies_ps = report.latencies_ps;
    match statistic {
        Statistic::Bandwidth => rate.unwrap_or(0.0) * 8.0 / 1e9,
        Statistic::Average => {
            latencies_ps.iter().sum::<u64>() as f64 / latencies_ps.len() as f64 / 1e3
        }
        Statistic::Median => {
            latencies_ps.sort_unstable();
            latencies_ps[latencies_ps.len() / 2] as f64 / 1e3
        }
    }
}

const TEST: Field<Compared> = ("Test", |it| it.row.test.name.as_ref().to_owned());
const SIZE: Field<Compared> = ("Size, B:", |it| it.row.test.size_bytes.to_string());
const PUBLISHED: Field<Compared> = ("Published:", |it| it.words(it.row.figure.value));
const SIMULATED: Field<Compared> = ("Simulated:", |it| it.words(it.simulated));
const ERROR: Field<Compared> = ("Error:", |it| format!("{} %", change(it.error())));
const KIND: Field<Compared> = ("Kind", |it| it.row.figure.kind.to_string());
const REASON: Field<Compared> = ("Why context", |it| it.row.figure.reason.clone());

impl Compared {
    /// Formats a value in the unit of the row.
    fn words(&self, value: f64) -> String {
        let digits = if self.row.is_latency() { 0 } else { 2 };
        format!("{value:.digits$}")
    }
}

/// Returns all rows, as Markdown.
pub fn table(results: &[Compared]) -> String {
    let unit: Field<Compared> =
        ("Unit", |it| if it.row.is_latency() { "ns" } else { "Gbit/s" }.to_owned());
    let allowed: Field<Compared> = ("Allowed:", |it| {
        it.row.figure.tolerance.map_or(String::new(), |most| format!("{:.0} %", 100.0 * most))
    });
    let fields = [TEST, SIZE, PUBLISHED, SIMULATED, unit, ERROR, allowed, KIND, REASON];
    Table::of(&fields, results).to_markdown()
}
