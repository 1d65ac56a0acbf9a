// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows that the pcie-bench study published, and the same measurements in the lab
//! `pciebench`.
//!
//! Which rows constants were fitted to is read from the lab file: a source such as
//! `fit: BW_DMA_WR 128 and 256 B` names its rows, here `BW_DMA_WR` of 128 B and of 256 B.

mod document;
pub mod iommu;

use std::collections::BTreeSet;

use crosslane_fabric::{Flow, FlowId, FlowKind, FlowReport, FlowSource};
use crosslane_lab::{Constant, Lab, Provenance, RunningLab, open};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use rayon::prelude::*;

use crate::comparison::{self, Kind, Tolerance};
use crate::error::ReproduceError;
use crate::published::PublishedFile;

pub use document::table;

const SEED: u64 = 1;
/// Operations in flight of a bandwidth row: more than the latency needs at any size.
const BANDWIDTH_OUTSTANDING: u32 = 64;
/// What Gen3 x8 (62.99 Gbit/s) carries in completions of 64 B of data and 20 B around them, with
/// no DLLP and no SKP ordered set between them.
const LIMIT_OF_64_B_COMPLETIONS_GBIT_S: f64 = 62.99 * 64.0 / 84.0;
/// Operations begin at multiples of this many bytes.
const OPERATION_ALIGNMENT_BYTES: u64 = 64;

/// How far a bandwidth may be off, as a fraction.
const BANDWIDTH_TOLERANCE: f64 = 0.05;
/// How far a median latency may be off, as a fraction.
const LATENCY_TOLERANCE: f64 = 0.10;
const BANDWIDTH_REASON: &str = "bound of this set for bandwidths that the card does not limit";
const LATENCY_REASON: &str = "the card's clock counts in steps of 13.3 ns, 2 % of a latency";

/// How many operations a row is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Operations of a bandwidth row.
    pub bandwidth_operations: u64,
    /// Operations of a latency row, one after the other.
    pub latency_operations: u64,
}

impl Effort {
    /// For what is compared: enough that the start of the pipe does not matter, and that the
    /// median moves by 1 ns.
    pub const FULL: Self = Self { bandwidth_operations: 4000, latency_operations: 501 };
    /// To see which constants matter.
    pub const QUICK: Self = Self { bandwidth_operations: 1000, latency_operations: 101 };
}

/// One published row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the test, such as `BW_DMA_RD`.
    pub test: String,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// Gbit/s of payload, or the median in ns.
    pub published: f64,
    /// What it is worth.
    pub kind: Kind,
}

impl Row {
    /// Whether it is a latency in ns; else it is a bandwidth in Gbit/s.
    #[must_use]
    pub fn is_latency(&self) -> bool {
        self.test.starts_with("LAT_")
    }

    /// How far it may be off, as a fraction; `None` for context.
    #[must_use]
    pub fn tolerance(&self) -> Option<f64> {
        let tolerance = if self.is_latency() { LATENCY_TOLERANCE } else { BANDWIDTH_TOLERANCE };
        (self.kind != Kind::Context).then_some(tolerance)
    }

    /// The pair as every set has it.
    #[must_use]
    pub fn compared(&self, simulated: f64) -> comparison::Row {
        let reason = if self.is_latency() { LATENCY_REASON } else { BANDWIDTH_REASON };
        comparison::Row {
            quantity: self.test.clone(),
            conditions: format!("{} B", self.size_bytes),
            unit: if self.is_latency() { "ns".into() } else { "Gbit/s".into() },
            published: Some(self.published),
            simulated: Some(simulated),
            error: Some(self.error(simulated)),
            kind: self.kind,
            tolerance: self.tolerance().map(|fraction| Tolerance { fraction, reason }),
            reason: self.reason().to_owned(),
            label: format!("{} {} B", self.test, self.size_bytes),
        }
    }

    /// (simulated - published) / published.
    #[must_use]
    pub fn error(&self, simulated: f64) -> f64 {
        (simulated - self.published) / self.published
    }

    /// Why it is context only; empty for all else.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        if self.kind != Kind::Context {
            return "";
        }
        let size = self.size_bytes;
        match self.test.as_str() {
            "BW_DMA_RW" => "reads and writes at once, nothing fitted",
            "BW_DMA_WR" if size < 127 => "limited by `write_interval_ns`",
            "BW_DMA_WR" if size.is_multiple_of(128) => "not a power of two",
            "BW_DMA_WR" if (size + 1).is_multiple_of(128) => "takes as long as 1 B more",
            "BW_DMA_WR" => "card: the rest beyond 128 B costs a write of its own",
            "BW_DMA_RD" if size < 63 => "limited by `read_interval_ns`",
            "BW_DMA_RD" if size < 128 => "card: takes as long as 128 B",
            "BW_DMA_RD" if self.published > LIMIT_OF_64_B_COMPLETIONS_GBIT_S => {
                "host: completions longer than 64 B"
            }
            "BW_DMA_RD" if size > 512 => "host: longer completions for a part of it",
            "BW_DMA_RD" if size == 384 => "not a power of two",
            "BW_DMA_RD" => "card: slower than the wire",
            _ => "",
        }
    }
}

/// The lab, with the variant that a test needs.
pub struct Labs {
    dma: Lab,
    command: Lab,
}

impl Labs {
    /// The lab as it is shipped.
    ///
    /// # Errors
    /// A lab file that cannot be read.
    pub fn open() -> Result<Self, ReproduceError> {
        Ok(Self { dma: open("pciebench")?, command: open("pciebench:command")? })
    }

    /// The lab, as one of its tests needs it.
    #[must_use]
    pub fn labs(&self) -> [&Lab; 2] {
        [&self.dma, &self.command]
    }

    /// The same with one constant set to another number, in each variant that has it.
    ///
    /// # Errors
    /// No number of that path, or a value that is not allowed.
    pub fn with_constant(&self, path: &str, value: f64) -> Result<Self, ReproduceError> {
        let changed = |lab: &Lab| match lab.constants().any(|constant| constant.path() == path) {
            true => lab.with_constant(path, value),
            false => Ok(lab.clone()),
        };
        Ok(Self { dma: changed(&self.dma)?, command: changed(&self.command)? })
    }

    /// The fitted constants of the lab file, those of the variant included.
    #[must_use]
    pub fn fitted(&self) -> Vec<&Constant> {
        let mut lines = BTreeSet::new();
        let all = self.dma.constants().chain(self.command.constants());
        all.filter(|constant| constant.provenance == Provenance::Fit)
            .filter(|constant| lines.insert(constant.line))
            .collect()
    }

    /// Every row of the measurements that the lab file names.
    ///
    /// # Errors
    /// A file that cannot be read, or a constant that is fitted to a row that is not there.
    pub fn rows(&self) -> Result<Vec<Row>, ReproduceError> {
        let fitted: BTreeSet<_> =
            self.fitted().iter().flat_map(|constant| rows_named(&constant.source)).collect();
        let mut rows = Vec::new();
        for measurements in &self.dma.file().measurements {
            rows.extend(rows_of(&PublishedFile::open(&measurements.file)?, &fitted)?);
        }
        for (test, size) in &fitted {
            let known = rows.iter().any(|row| (&row.test, row.size_bytes) == (test, *size));
            if !known {
                let problem = "a constant is fitted to it, but it is not published";
                return Err(ReproduceError::experiment(format!("{test} {size} B"), problem));
            }
        }
        Ok(rows)
    }

    /// The same measurement in the lab, in the unit of the row.
    ///
    /// # Errors
    /// A lab that cannot be built, or any byte that is wrong.
    pub fn simulate(&self, row: &Row, effort: Effort) -> Result<f64, ReproduceError> {
        let lab = if row.test.starts_with("LAT_CMD_") { &self.command } else { &self.dma };
        let kinds = match row.test.split('_').next_back() {
            Some("RD") => vec![FlowKind::Read],
            Some("WR") => vec![FlowKind::Write],
            Some("RW") => vec![FlowKind::Write, FlowKind::Read],
            Some("WRRD") => vec![FlowKind::WriteRead],
            _ => return Err(ReproduceError::experiment(&row.test, "no test of the study")),
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

    /// Every row with what the lab gives for it; rows are simulated beside each other, each in a
    /// lab of its own.
    ///
    /// # Errors
    /// As [`rows`](Self::rows) and [`simulate`](Self::simulate).
    pub fn results(&self) -> Result<Vec<(Row, f64)>, ReproduceError> {
        let simulated = |row: Row| {
            let value = self.simulate(&row, Effort::FULL)?;
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
    let name = format!("{} {} B", row.test, row.size_bytes);
    let mut running = lab.build(SEED)?;
    let (operations, outstanding) = if row.is_latency() {
        (effort.latency_operations, 1)
    } else {
        (effort.bandwidth_operations, BANDWIDTH_OUTSTANDING)
    };
    let stride = row.size_bytes.next_multiple_of(OPERATION_ALIGNMENT_BYTES);
    let window_bytes = stride * u64::from(outstanding);
    let mut target = running.hosts[0].buffers.start;
    let mut flows = Vec::new();
    for &kind in kinds {
        let flow = start(&mut running, kind, target, |flow| Flow {
            window_bytes,
            operation_bytes: row.size_bytes,
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

/// The rows of one file.
fn rows_of(
    file: &PublishedFile,
    fitted: &BTreeSet<(String, u64)>,
) -> Result<Vec<Row>, ReproduceError> {
    let records = file.columns([&["test"], &["size_B"], &["bw_Gbit_s", "median_ns"]])?;
    let mut rows = Vec::new();
    for (index, [test, size, published]) in records.into_iter().enumerate() {
        let (test, size_bytes) = (test.to_owned(), file.number(index, size)?);
        let published = file.number(index, published)?;
        let kind = match () {
            () if fitted.contains(&(test.clone(), size_bytes)) => Kind::Fit,
            () if is_compared(&test, size_bytes) => Kind::Predicted,
            () => Kind::Context,
        };
        rows.push(Row { test, size_bytes, published, kind });
    }
    Ok(rows)
}

/// The rows that the lab is held to: writes of 128 to 2048 B and reads of 64 to 256 B in powers
/// of two, and every median latency.
fn is_compared(test: &str, size_bytes: u64) -> bool {
    match test {
        "BW_DMA_WR" => size_bytes.is_power_of_two() && (128..=2048).contains(&size_bytes),
        "BW_DMA_RD" => size_bytes.is_power_of_two() && (64..=256).contains(&size_bytes),
        test => test.starts_with("LAT_"),
    }
}

/// The rows that a source names: after the name of a test, sizes up to the unit `B`.
#[must_use]
pub fn rows_named(source: &str) -> Vec<(String, u64)> {
    let mut rows = Vec::new();
    let mut test = None;
    for word in source.split([' ', ',', ';', ':']).filter(|word| !word.is_empty()) {
        match word.parse::<u64>() {
            _ if word.starts_with("BW_") || word.starts_with("LAT_") => test = Some(word),
            Ok(size) => rows.extend(test.map(|test| (test.to_owned(), size))),
            Err(_) if word == "and" => {}
            Err(_) => test = None,
        }
    }
    rows
}
