// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmarks of the command line in a lab, asked for by data: what Python calls and pages send
//! becomes the scenarios, and the outcome, that `crosslane bench` has.
//!
//! Read first: [`Traffic`] and [`Transfers`], then [`run`].

use std::ops::RangeInclusive;
use std::sync::Arc;

use crosslane_driver::{DescriptorSource, Notification};
use crosslane_experiment::parallel;
use crosslane_experiment::{
    Choices, Ends, EngineWork, ExperimentError, FlowArgument, FlowRequest, Options, Outcome as _,
    Progress, Scenario, SizeRange, TrafficWork, Workload, at_once, parse_payload,
    parse_register_size,
};
use crosslane_explain::{Explainable, Ran, explain_all};
use crosslane_fabric::trace::TraceSink;
use crosslane_host::{PageSize, kinds};
use crosslane_lab::{EngineKind, Lab, LabError};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Bench, Explanation, Figure, Platform, SCHEMA, ScenarioResult};
use serde::Deserialize;
use smart_default::SmartDefault;
use thiserror::Error;

/// A round trip has failed if it takes longer.
const ROUND_TRIP_TIMEOUT: Picoseconds = Picoseconds::from_ms(10);
/// Most operations, transfers that are posted, round trips and flows, as on the command line.
const MAX_OPERATIONS: u64 = 100_000_000;
const MAX_POSTED: u64 = 1 << 14;
const MAX_ROUNDS: u64 = 1_000_000;
const MAX_FLOWS: u64 = 256;
/// Bytes of a transfer and of a message, unless the caller says others.
const TRANSFER_SIZE: &str = "1M";
const MESSAGE_SIZE: &str = "64";

/// Reason for which a benchmark cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An option that is not possible; a sentence with its value.
    #[error("{0}")]
    Argument(String),
    /// A lab that cannot be built.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// A run that cannot be made.
    #[error(transparent)]
    Run(#[from] Box<ExperimentError>),
}

kinds!(BenchError {
    Self::Argument(_) => InvalidArgument,
    Self::Lab(error) => error.kind(),
    Self::Run(error) => error.kind(),
});

impl From<ExperimentError> for BenchError {
    fn from(error: ExperimentError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl From<LabError> for BenchError {
    fn from(error: LabError) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl BenchError {
    fn argument(problem: impl Into<String>) -> Self {
        Self::Argument(problem.into())
    }
}

/// Result with a [`BenchError`].
type Result<T, E = BenchError> = std::result::Result<T, E>;

/// Options of flows between generic requesters and memories.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// The flows, as on the command line.
    pub flows: Vec<String>,
    /// Operations of each flow.
    pub operations: Option<u64>,
    /// Operations in flight.
    pub outstanding: Option<u32>,
    /// Max_Payload_Size of the ports on the way, bytes.
    pub mps: Option<u32>,
    /// Memory over which operations go, bytes.
    pub window: Option<u64>,
    /// Distance of that memory from its start, bytes.
    pub offset: u64,
    /// Relaxed ordering.
    pub relaxed: bool,
    /// Addresses without a pattern.
    pub random: bool,
    /// Reads of cores by streaming loads.
    pub write_combined: bool,
    /// Places of flows that change.
    pub shuffle: bool,
    /// One flow after the other.
    pub in_turn: bool,
}

/// Options of transfers by the driver, as on the command line.
#[derive(Clone, Debug, Deserialize, SmartDefault)]
#[serde(default, deny_unknown_fields)]
pub struct Transfers {
    /// `write`, `read`, `p2p`, `latency` or `chain`.
    #[default = "write"]
    pub bench: String,
    /// The end that the data come from.
    pub from: Option<String>,
    /// The end that they go to.
    pub to: Option<String>,
    /// Bytes of a transfer, or a range.
    pub size: Option<String>,
    /// Transfers.
    pub iterations: Option<u64>,
    /// Transfers that are kept posted.
    pub outstanding: Option<u32>,
    /// Flows at once.
    #[default = 1]
    pub flows: u16,
    /// `table`, `ring` or `command`.
    #[default = "ring"]
    pub descriptors: String,
    /// `poll` or `interrupt`.
    #[default = "poll"]
    pub notify: String,
    /// `small` or `huge`.
    #[default = "huge"]
    pub pages: String,
    /// Bytes of one write TLP or read request.
    pub payload: Option<u32>,
    /// Max_Payload_Size of the ports on the way, bytes.
    pub mps: Option<u32>,
    /// Whether engines keep to credit windows.
    #[default = true]
    pub credits: bool,
    /// Whether as much goes back.
    pub both_ways: bool,
    /// `write` (into a receive queue), `write-memory`, `read` (of a memory), or `both`, which are
    /// the first and the third.
    #[default = "write"]
    pub by: String,
}

impl Traffic {
    /// Makes the runs in a lab.
    ///
    /// # Errors
    /// An option or a flow that is not possible, and a lab that cannot be built.
    pub fn scenarios(&self, lab: &Arc<Lab>, seed: u64) -> Result<Vec<Scenario<TrafficWork>>> {
        within("operations", self.operations, 1..=MAX_OPERATIONS)?;
        within("outstanding", self.outstanding, 1..=MAX_OPERATIONS)?;
        payloads(None, self.mps)?;
        let running = lab.build(seed)?;
        let mut flows: Vec<FlowArgument> = Vec::new();
        for text in &self.flows {
            let flow: FlowArgument = text.parse().map_err(BenchError::argument)?;
            let found = flow.expanded(&running);
            if found.is_empty() {
                let problem = "the lab has no such endpoints of one host";
                return Err(BenchError::argument(format!("{text}: {problem}")));
            }
            flows.extend(found);
        }
        if flows.is_empty() {
            return Err(BenchError::argument("a run needs a flow, such as 'card0:host:write:4K'"));
        }
        let choices = Choices::default()
            .with_operations(self.operations)
            .with_outstanding(self.outstanding)
            .with_relaxed(self.relaxed)
            .with_window_bytes(self.window)
            .with_random(self.random)
            .with_offset_bytes(self.offset)
            .with_write_combined(self.write_combined);
        let alone = |flow: &FlowArgument| -> Vec<Vec<FlowRequest>> {
            flow.sizes.sizes().map(|bytes| flow.requests(bytes)).collect()
        };
        let requests = match self.in_turn {
            true => flows.iter().flat_map(alone).collect(),
            false => at_once(&flows).map_err(BenchError::argument)?,
        };
        let scenario = |flows| {
            let work = TrafficWork { flows, choices, shuffle: self.shuffle };
            let scenario = Scenario::new(Arc::clone(lab), work).with_seed(seed);
            Scenario { max_payload_bytes: self.mps, ..scenario }
        };
        let scenarios: Vec<_> = requests.into_iter().map(scenario).collect();
        for scenario in &scenarios {
            scenario.total_bytes(&running)?;
        }
        Ok(scenarios)
    }
}

impl Transfers {
    /// Makes the runs in a lab.
    ///
    /// # Errors
    /// An option or an end that is not possible, and a lab that cannot be built.
    pub fn scenarios(&self, lab: &Arc<Lab>, seed: u64) -> Result<Vec<Scenario<EngineWork>>> {
        let name = self.bench.as_str();
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        let ends = match name {
            "write" => with_host("--to", to, "--from", from, self.flows),
            "read" => with_host("--from", from, "--to", to, self.flows),
            "p2p" => Ends::Pairs { from, to, flows: self.flows, both_ways: self.both_ways },
            "latency" => Ends::Pairs { from, to, flows: 1, both_ways: false },
            "chain" => Ends::Row { from, to },
            _ => {
                let known = "write, read, p2p, latency and chain";
                return Err(BenchError::argument(format!("bench {name:?}: there are {known}")));
            }
        };
        let is_message = name == "latency";
        let size =
            self.size.as_deref().unwrap_or(if is_message { MESSAGE_SIZE } else { TRANSFER_SIZE });
        let sizes: SizeRange = size
            .parse()
            .map_err(|error| BenchError::argument(format!("size {size:?}: {error}")))?;
        let most = if is_message { MAX_ROUNDS } else { MAX_OPERATIONS };
        within("iterations", self.iterations, 1..=most)?;
        within("outstanding", self.outstanding, 1..=MAX_POSTED)?;
        within("flows", Some(self.flows), 1..=MAX_FLOWS)?;
        payloads(self.payload, self.mps)?;
        let mut workloads = Vec::new();
        for bytes in sizes.sizes() {
            if !bytes.is_multiple_of(4) || is_message && u32::try_from(bytes).is_err() {
                let problem = "a transfer is a multiple of 4 B, and a message below 4 GiB";
                return Err(BenchError::argument(format!("size {bytes}: {problem}")));
            }
            workloads.extend(workloads_of(name, bytes, self, seed)?);
        }
        let model = Lab::clone(lab).with_engines(EngineKind::Model);
        let flows = ends.in_lab((&**lab, &model.build_engines(seed)?), &[])?;
        let scenario = |workload| {
            let work = EngineWork { workload, flows: flows.clone() };
            let scenario = Scenario::new(Arc::clone(lab), work).with_seed(seed);
            Scenario { max_payload_bytes: self.mps, ..scenario }
        };
        Ok(workloads.into_iter().map(scenario).collect())
    }
}

const fn with_host<'a>(
    host_option: &'a str,
    host: Option<&'a str>,
    card_option: &'a str,
    card: Option<&'a str>,
    flows: u16,
) -> Ends<'a> {
    Ends::WithHost { options: (host_option, card_option), host, card, flows }
}

/// Rejects a number that the command line rejects.
fn within(name: &str, value: Option<impl Into<u64>>, range: RangeInclusive<u64>) -> Result<()> {
    match value.map(Into::into) {
        Some(value) if !range.contains(&value) => {
            let (least, most) = range.into_inner();
            Err(BenchError::argument(format!("{name} {value}: it is from {least} to {most}")))
        }
        _ => Ok(()),
    }
}

/// Rejects sizes of payloads that the command line rejects.
fn payloads(payload: Option<u32>, mps: Option<u32>) -> Result<()> {
    let payload = payload.map(|bytes| ("payload", parse_payload(&bytes.to_string())));
    let mps = mps.map(|bytes| ("mps", parse_register_size(&bytes.to_string())));
    for (name, parsed) in [payload, mps].into_iter().flatten() {
        parsed.map_err(|problem| BenchError::argument(format!("{name}: {problem}")))?;
    }
    Ok(())
}

/// Returns a value by its word.
fn one_of<T: Copy>(name: &str, word: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        BenchError::argument(format!("{name} {word:?}: there are {}", words.join(", ")))
    })
}

/// Returns the transfers of one size.
fn workloads_of(name: &str, bytes: u64, bench: &Transfers, seed: u64) -> Result<Vec<Workload>> {
    let pattern_seed = (seed ^ (seed >> 32)) as u32;
    let ring = DescriptorSource::Ring { entries: 0 };
    let descriptors = [
        ("table", DescriptorSource::Table),
        ("ring", ring),
        ("command", DescriptorSource::CommandPort),
    ];
    let notifications = [("poll", Notification::Poll), ("interrupt", Notification::Interrupt)];
    let options = Options::default()
        .with_size_bytes(bytes)
        .with_descriptors(one_of("descriptors", &bench.descriptors, &descriptors)?)
        .with_notification(one_of("notify", &bench.notify, &notifications)?)
        .with_payload_bytes(bench.payload)
        .with_oversize(bench.payload.is_some())
        .with_pages(one_of(
            "pages",
            &bench.pages,
            &[("small", PageSize::Small), ("huge", PageSize::Huge)],
        )?)
        .with_seed(pattern_seed);
    let by = one_of(
        "by",
        &bench.by,
        &[
            ("write", Ways { queue: true, ..Ways::default() }),
            ("write-memory", Ways { memory: true, ..Ways::default() }),
            ("read", Ways { reads: true, ..Ways::default() }),
            ("both", Ways { queue: true, reads: true, ..Ways::default() }),
        ],
    )?;
    check_descriptors(name, by, bench)?;
    let flows = if name == "chain" { 1 } else { bench.flows };
    let suited = options.suited(bench.iterations, bench.outstanding, flows);
    Ok(match name {
        "write" => vec![Workload::Write(suited)],
        "read" => vec![Workload::Read(suited)],
        "p2p" => {
            let write = Workload::Peer(suited.with_credits(bench.credits));
            let (memory, read) = (Workload::PeerMemoryWrite(suited), Workload::PeerRead(suited));
            let made = [(by.queue, write), (by.memory, memory), (by.reads, read)].into_iter();
            made.filter_map(|(is_wanted, workload)| is_wanted.then_some(workload)).collect()
        }
        "chain" => {
            let options = suited.with_outstanding(1).with_credits(bench.credits);
            vec![Workload::Chain(options.with_fitting_ring())]
        }
        _ => vec![Workload::Latency(
            Options::default()
                .with_size_bytes(bytes)
                .with_iterations(bench.iterations.unwrap_or(1000))
                .with_payload_bytes(bench.payload)
                .with_credits(bench.credits)
                .with_seed(pattern_seed)
                .with_timeout(ROUND_TRIP_TIMEOUT),
        )],
    })
}

/// The ways in which data go from card to card.
#[derive(Clone, Copy, Default)]
struct Ways {
    /// Writes into a receive queue.
    queue: bool,
    /// Writes into a card's memory.
    memory: bool,
    /// Reads of a card's memory.
    reads: bool,
}

/// Rejects descriptors that the channel of a benchmark does not have.
fn check_descriptors(name: &str, by: Ways, bench: &Transfers) -> Result<()> {
    let problem = match (name, bench.descriptors.as_str()) {
        ("p2p", "command") if by.reads => "the command port starts writes, no reads",
        ("p2p", "command") if by.memory => "the command port writes to receive queues alone",
        ("p2p", "table") if by.queue => "a peer channel has no table",
        ("p2p", "command") if bench.outstanding.is_some_and(|count| count > 1) => {
            "the command port takes one transfer at a time"
        }
        ("write" | "read" | "chain", "command") => {
            "the command port starts writes to other cards, p2p"
        }
        _ => return Ok(()),
    };
    Err(BenchError::argument(format!("descriptors {:?}: {problem}", bench.descriptors)))
}

/// Circumstances of a benchmark's runs.
pub struct How<'a> {
    /// Name of the benchmark: `traffic`, or that of transfers.
    pub bench: &'a str,
    /// Kind of the lab's engines.
    pub engine: EngineKind,
    /// Random seed.
    pub seed: u64,
    /// Whether the limits of each run are searched for.
    pub why: bool,
    /// Observer of the runs, which may end them.
    pub progress: &'a (dyn Progress + 'a),
    /// Makes the sink of each run's trace, if one is wanted.
    pub trace: Option<&'a (dyn Fn() -> Box<dyn TraceSink> + Sync)>,
}

/// Runs that were made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The outcome, as the program prints it.
    pub outcome: Bench,
    /// The figure of each run: the rate of all flows together, or the latency one way.
    pub figures: Vec<Option<Figure>>,
    /// A sentence about data that arrived wrong, or a deadlock.
    pub problem: Option<String>,
}

/// Makes runs, and searches for their limits.
///
/// # Errors
/// A run that cannot be made, or was interrupted.
pub fn run<W: Explainable>(
    lab: &Lab,
    mut scenarios: Vec<Scenario<W>>,
    how: &How<'_>,
) -> Result<Made> {
    let sink = || how.trace.map(|make| make());
    let run = |scenario: &Scenario<W>| scenario.run(how.progress, sink());
    let outcomes: Vec<W::Outcome> = parallel::try_map(&scenarios, run)?;
    // Limits of engines are lifted by their parameters, which gateware that is built has not.
    let is_rtl = how.engine == EngineKind::Rtl;
    for scenario in scenarios.iter_mut().filter(|_| is_rtl) {
        scenario.lab = Arc::new(Lab::clone(&scenario.lab).with_engines(EngineKind::Model));
    }
    let ran: Vec<Ran> = outcomes.iter().map(Ran::of).collect();
    let whys = match how.why {
        true => explain_all(&scenarios, &ran, true, how.progress),
        false => vec![None; outcomes.len()],
    };
    let result = |(outcome, why): (&W::Outcome, _)| {
        let (why_not_faster, not_explained) = match why {
            Some(Ok(why)) => (Some(Explanation { on_model: is_rtl, ..why }), None),
            Some(Err(reason)) => (None, Some(reason)),
            None => (None, None),
        };
        ScenarioResult { why_not_faster, not_explained, ..outcome.result() }
    };
    let scenarios: Vec<ScenarioResult> = outcomes.iter().zip(whys).map(result).collect();
    let wrong = outcomes.iter().find_map(|outcome| outcome.wrong_data());
    let deadlock = outcomes.iter().find_map(|outcome| outcome.deadlock().map(str::to_owned));
    let outcome = Bench {
        schema: SCHEMA,
        bench: how.bench.to_owned(),
        platform: Platform::Lab {
            lab: lab.name().to_owned(),
            variant: lab.variant().map(str::to_owned),
        },
        seed: how.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenarios,
        interrupted: None,
    };
    let figures = outcomes.iter().map(|outcome| outcome.figure()).collect();
    Ok(Made { outcome, figures, problem: wrong.or(deadlock) })
}
