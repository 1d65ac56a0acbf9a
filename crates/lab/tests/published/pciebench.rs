// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows that the pcie-bench study published, and the same measurements in the lab
//! `pciebench`. Shared by the test of that name, which holds the tolerances, and by the example
//! of that name, which prints them.
//!
//! Which rows constants were fitted to is read from the lab file: a source such as
//! `fit: BW_DMA_WR 128 and 256 B` names its rows, here `BW_DMA_WR` of 128 B and of 256 B.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use crosslane_fabric::{Flow, FlowId, FlowKind, FlowReport, FlowSource};
use crosslane_lab::{Constant, Lab, Provenance, RunningLab, open};
use crosslane_pcie::units::{BusAddress, Picoseconds};

const SEED: u64 = 1;
/// Operations of a bandwidth row: enough that the start of the pipe does not matter.
const BANDWIDTH_OPERATIONS: u64 = 4000;
/// Operations in flight of a bandwidth row: more than the latency needs at any size.
const BANDWIDTH_OUTSTANDING: u32 = 64;
/// Operations of a latency row, one after the other; the median of so many moves by 1 ns.
const LATENCY_OPERATIONS: u64 = 501;
/// What Gen3 x8 (62.99 Gbit/s) carries in completions of 64 B of data and 20 B around them, with
/// no DLLP and no SKP ordered set between them.
const LIMIT_OF_64_B_COMPLETIONS_GBIT_S: f64 = 62.99 * 64.0 / 84.0;
/// Operations begin at multiples of this many bytes.
const OPERATION_ALIGNMENT_BYTES: u64 = 64;

/// How far a bandwidth may be off, as a fraction.
const BANDWIDTH_TOLERANCE: f64 = 0.05;
/// How far a median latency may be off, as a fraction.
const LATENCY_TOLERANCE: f64 = 0.10;

/// What a row is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A constant was fitted to it.
    Fit,
    /// Compared, and no constant was fitted to it: evidence.
    Predicted,
    /// Shown beside, never a pass mark.
    Context,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fit => "fit",
            Self::Predicted => "predicted",
            Self::Context => "context",
        })
    }
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
    pub kind: Kind,
}

impl Row {
    /// Whether it is a latency in ns; else it is a bandwidth in Gbit/s.
    pub fn is_latency(&self) -> bool {
        self.test.starts_with("LAT_")
    }

    /// How far it may be off, as a fraction; `None` for context.
    pub fn tolerance(&self) -> Option<f64> {
        let tolerance = if self.is_latency() { LATENCY_TOLERANCE } else { BANDWIDTH_TOLERANCE };
        (self.kind != Kind::Context).then_some(tolerance)
    }

    /// (simulated - published) / published.
    pub fn error(&self, simulated: f64) -> f64 {
        (simulated - self.published) / self.published
    }

    /// Why it is context only.
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
            test => panic!("{test} {size} B is context for no reason"),
        }
    }
}

/// The lab, with the variant that a test needs.
pub struct Labs {
    dma: Lab,
    command: Lab,
}

impl Labs {
    pub fn open() -> Self {
        let open = |name| open(name).unwrap_or_else(|error| panic!("{error}"));
        Self { dma: open("pciebench"), command: open("pciebench:command") }
    }

    /// The fitted constants of the lab file, those of the variant included.
    pub fn fitted(&self) -> Vec<&Constant> {
        let mut lines = BTreeSet::new();
        let all = self.dma.constants().chain(self.command.constants());
        all.filter(|constant| constant.provenance == Provenance::Fit)
            .filter(|constant| lines.insert(constant.line))
            .collect()
    }

    /// Every row of the measurements that the lab file names.
    fn rows(&self) -> Vec<Row> {
        let fitted: BTreeSet<_> =
            self.fitted().iter().flat_map(|constant| rows_named(&constant.source)).collect();
        let mut rows = Vec::new();
        for measurements in &self.dma.file().measurements {
            let path = tree().join("labs").join(&measurements.file);
            let text = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            rows.extend(rows_of(&text, &fitted));
        }
        for (test, size) in &fitted {
            let known = rows.iter().any(|row| (&row.test, row.size_bytes) == (test, *size));
            assert!(known, "a constant is fitted to {test} {size} B, which is not published");
        }
        rows
    }

    /// The same measurement in the lab, in the unit of the row. Panics if any byte is wrong.
    fn simulate(&self, row: &Row) -> f64 {
        let lab = if row.test.starts_with("LAT_CMD_") { &self.command } else { &self.dma };
        let kinds = match row.test.split('_').next_back() {
            Some("RD") => vec![FlowKind::Read],
            Some("WR") => vec![FlowKind::Write],
            Some("RW") => vec![FlowKind::Write, FlowKind::Read],
            Some("WRRD") => vec![FlowKind::WriteRead],
            _ => panic!("{} is not a test of the study", row.test),
        };
        let reports = run(lab, row, &kinds);
        if row.is_latency() {
            let mut latencies_ps = reports[0].latencies_ps.clone();
            latencies_ps.sort_unstable();
            return latencies_ps[latencies_ps.len() / 2] as f64 / 1e3;
        }
        let rates = reports.iter().filter_map(FlowReport::steady_bytes_per_second);
        rates.fold(f64::INFINITY, f64::min) * 8.0 / 1e9
    }

    /// Every row with what the lab gives for it.
    pub fn results(&self) -> Vec<(Row, f64)> {
        let simulated = |row: Row| {
            let value = self.simulate(&row);
            (row, value)
        };
        self.rows().into_iter().map(simulated).collect()
    }

    /// The document about the lab, with its tables as they are now.
    pub fn document(&self, results: &[(Row, f64)]) -> String {
        let old = std::fs::read_to_string(document_path()).expect("the document can be read");
        let old = with_block(&old, "summary", &self.summary(results));
        let old = with_block(&old, "constants", &self.table_of_fits());
        with_block(&old, "rows", &table(results))
    }

    /// How much was fitted, and how good it is.
    fn summary(&self, results: &[(Row, f64)]) -> String {
        let compared = results.iter().filter(|(row, _)| row.tolerance().is_some()).count();
        let mut text = format!(
            "{} rows, {compared} of them compared, {} constants fitted.\n",
            results.len(),
            self.fitted().len()
        );
        for (what, is_latency) in [("bandwidth", false), ("latency", true)] {
            for kind in [Kind::Fit, Kind::Predicted] {
                let errors = results
                    .iter()
                    .filter(|(row, _)| row.is_latency() == is_latency && row.kind == kind)
                    .map(|(row, simulated)| row.error(*simulated));
                let (mut worst, mut count) = (0.0_f64, 0);
                for error in errors {
                    count += 1;
                    worst = if error.abs() > worst.abs() { error } else { worst };
                }
                let worst = 100.0 * worst;
                let _ = writeln!(text, "* {what}, {kind}: {count} rows, worst error {worst:+.1} %");
            }
        }
        text
    }

    /// The fitted constants, as Markdown.
    fn table_of_fits(&self) -> String {
        let mut table = String::from("| Constant | Value | Fitted to |\n|---|--:|---|\n");
        for constant in self.fitted() {
            let value = format!("{} {}", constant.value, constant.unit);
            let (path, source) = (constant.path(), &constant.source);
            let _ = writeln!(table, "| `{path}` | {} | {source} |", value.trim_end());
        }
        table
    }
}

/// All rows, as Markdown.
pub fn table(results: &[(Row, f64)]) -> String {
    let mut table = String::from(
        "| Test | Size, B | Published | Simulated | Unit | Error | Allowed | Kind | Why context |\n\
         |---|--:|--:|--:|---|--:|--:|---|---|\n",
    );
    for (row, simulated) in results {
        let (digits, unit) = if row.is_latency() { (0, "ns") } else { (2, "Gbit/s") };
        let allowed = row.tolerance().map(|most| format!("{:.0} %", 100.0 * most));
        let _ = writeln!(
            table,
            "| {} | {} | {:.digits$} | {simulated:.digits$} | {unit} | {:+.1} % | {} | {} | {} |",
            row.test,
            row.size_bytes,
            row.published,
            100.0 * row.error(*simulated),
            allowed.unwrap_or_default(),
            row.kind,
            row.reason(),
        );
    }
    table
}

/// The document with the text between `<!-- NAME: make pciebench -->` and `<!-- end -->` set
/// anew.
fn with_block(document: &str, name: &str, text: &str) -> String {
    let mark = format!("<!-- {name}: make pciebench -->\n");
    let (before, rest) = document.split_once(&mark).unwrap_or_else(|| panic!("no {mark}"));
    let (_, after) = rest.split_once("<!-- end -->").expect("a block ends");
    format!("{before}{mark}\n{text}\n<!-- end -->{after}")
}

/// The document about the lab.
pub fn document_path() -> PathBuf {
    tree().join("docs/pciebench.md")
}

/// Root of the tree.
fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(lab: &Lab, row: &Row, kinds: &[FlowKind]) -> Vec<FlowReport> {
    let mut running = lab.build(SEED).unwrap_or_else(|error| panic!("{error}"));
    let (operations, outstanding) = if row.is_latency() {
        (LATENCY_OPERATIONS, 1)
    } else {
        (BANDWIDTH_OPERATIONS, BANDWIDTH_OUTSTANDING)
    };
    let stride = row.size_bytes.next_multiple_of(OPERATION_ALIGNMENT_BYTES);
    let window_bytes = stride * u64::from(outstanding);
    let mut target = running.hosts[0].buffers.start;
    let mut flows = Vec::new();
    for &kind in kinds {
        flows.push(start(&mut running, kind, target, |flow| Flow {
            window_bytes,
            operation_bytes: row.size_bytes,
            operations,
            outstanding,
            ..flow
        }));
        target += window_bytes;
    }
    running.fabric.run(None);
    let errors = running.fabric.errors();
    assert!(errors.is_empty(), "{} {} B: {errors:?}", row.test, row.size_bytes);
    let reports = flows.into_iter().map(|flow| running.fabric.flow_report(flow));
    reports
        .inspect(|report| {
            let ended = (report.operations, report.failed);
            let errors = &report.errors;
            assert_eq!(ended, (operations, 0), "{} {} B: {errors:?}", row.test, row.size_bytes);
        })
        .collect()
}

fn start(
    running: &mut RunningLab,
    kind: FlowKind,
    target: u64,
    with: impl FnOnce(Flow) -> Flow,
) -> FlowId {
    let card = running.find("nfp").expect("the lab has its card");
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
        start: Picoseconds::ZERO,
    };
    running.fabric.start_flow(with(flow)).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of one CSV file.
fn rows_of(text: &str, fitted: &BTreeSet<(String, u64)>) -> Vec<Row> {
    let mut lines = text.lines();
    let heading: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let column = |names: &[&str]| {
        let found = heading.iter().position(|name| names.contains(name));
        found.unwrap_or_else(|| panic!("no column {names:?}"))
    };
    let columns = [&["test"][..], &["size_B"], &["bw_Gbit_s", "median_ns"]].map(column);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [test, size, published] = columns.map(|column| fields[column]);
        let (test, size_bytes) = (test.to_owned(), size.parse().unwrap());
        let kind = match () {
            () if fitted.contains(&(test.clone(), size_bytes)) => Kind::Fit,
            () if is_compared(&test, size_bytes) => Kind::Predicted,
            () => Kind::Context,
        };
        Row { test, size_bytes, published: published.parse().unwrap(), kind }
    };
    lines.map(row).collect()
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
