// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in a lab, with the results of the command line: their JSON is the same.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crosslane::driver::{DescriptorSource, Notification};
use crosslane::experiment::{
    Choices, Ends, EngineWork, ExperimentError, FlowArgument, FlowRequest, Options, Outcome as _,
    OverheadOptions, Scenario, SizeRange, TrafficWork, Workload, at_once, overhead as measure,
    parse_payload, parse_register_size,
};
use crosslane::explain::{Explainable, Ran, explain_all};
use crosslane::host::PageSize;
use crosslane::lab::{EngineKind, Lab};
use crosslane::network::MachineClock;
use crosslane::open::{Session, SessionOptions};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::{
    Bench as BenchOutcome, Explanation, Outcome, Overhead as Overheads, Platform, SCHEMA,
    ScenarioResult,
};
use crosslane_report::text::{Columns, Notes, text};
use rayon::prelude::*;

use crate::call::{Watch, until_signal};
use crate::error::Failure;
use crate::lab::json;

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

/// The lab in which runs are made, and the watch that may end them.
pub struct Place<'a> {
    /// The lab.
    pub lab: &'a Arc<Lab>,
    /// Kind of its engines.
    pub engine: EngineKind,
    /// Tells of a signal.
    pub watch: &'a Watch,
}

/// Runs that were made, as JSON.
pub struct Made {
    /// The outcome, as the program prints it.
    pub outcome: String,
    /// The figure of each run: the rate of all flows together, or the latency one way.
    pub figures: String,
}

/// Options of flows between generic requesters and memories.
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
pub struct Bench {
    /// `write`, `read`, `p2p`, `latency` or `chain`.
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
    pub flows: u16,
    /// `table`, `ring` or `command`.
    pub descriptors: String,
    /// `poll` or `interrupt`.
    pub notify: String,
    /// `small` or `huge`.
    pub pages: String,
    /// Bytes of one write TLP or read request.
    pub payload: Option<u32>,
    /// Max_Payload_Size of the ports on the way, bytes.
    pub mps: Option<u32>,
    /// Whether engines keep to credit windows.
    pub credits: bool,
    /// Whether as much goes back.
    pub both_ways: bool,
    /// `write`, `read` or `both`.
    pub by: String,
}

/// Options of single accesses.
pub struct Overhead {
    /// The endpoint.
    pub card: Option<String>,
    /// Register accesses, and small transfers.
    pub rounds: u64,
    /// Bytes of a large transfer.
    pub large: u64,
}

/// Makes flows.
pub fn traffic(
    place: &Place<'_>,
    traffic: &Traffic,
    seed: u64,
    why: bool,
) -> Result<Made, Failure> {
    within("operations", traffic.operations, 1..=MAX_OPERATIONS)?;
    within("outstanding", traffic.outstanding, 1..=MAX_OPERATIONS)?;
    payloads(None, traffic.mps)?;
    let running = place.lab.build(seed)?;
    let mut flows: Vec<FlowArgument> = Vec::new();
    for text in &traffic.flows {
        let flow: FlowArgument = text.parse().map_err(Failure::argument)?;
        let found = flow.expanded(&running);
        if found.is_empty() {
            let problem = "the lab has no such endpoints of one host";
            return Err(Failure::argument(format!("{text}: {problem}")));
        }
        flows.extend(found);
    }
    if flows.is_empty() {
        return Err(Failure::argument("a run needs a flow, such as 'card0:host:write:4K'"));
    }
    let choices = Choices::default()
        .with_operations(traffic.operations)
        .with_outstanding(traffic.outstanding)
        .with_relaxed(traffic.relaxed)
        .with_window_bytes(traffic.window)
        .with_random(traffic.random)
        .with_offset_bytes(traffic.offset)
        .with_write_combined(traffic.write_combined);
    let alone = |flow: &FlowArgument| -> Vec<Vec<FlowRequest>> {
        flow.sizes.sizes().map(|bytes| flow.requests(bytes)).collect()
    };
    let requests = match traffic.in_turn {
        true => flows.iter().flat_map(alone).collect(),
        false => at_once(&flows).map_err(Failure::argument)?,
    };
    let scenario = |flows| {
        let work = TrafficWork { flows, choices, shuffle: traffic.shuffle };
        let scenario = Scenario::new(Arc::clone(place.lab), work).with_seed(seed);
        Scenario { max_payload_bytes: traffic.mps, ..scenario }
    };
    let scenarios: Vec<_> = requests.into_iter().map(scenario).collect();
    for scenario in &scenarios {
        scenario.total_bytes(&running)?;
    }
    made(place, "traffic", scenarios, seed, why)
}

/// Makes transfers by the driver.
pub fn bench(place: &Place<'_>, bench: &Bench, seed: u64, why: bool) -> Result<Made, Failure> {
    let name = bench.bench.as_str();
    let (from, to) = (bench.from.as_deref(), bench.to.as_deref());
    let ends = match name {
        "write" => with_host("--to", to, "--from", from, bench.flows),
        "read" => with_host("--from", from, "--to", to, bench.flows),
        "p2p" => Ends::Pairs { from, to, flows: bench.flows, both_ways: bench.both_ways },
        "latency" => Ends::Pairs { from, to, flows: 1, both_ways: false },
        "chain" => Ends::Row { from, to },
        _ => {
            let known = "write, read, p2p, latency and chain";
            return Err(Failure::argument(format!("bench {name:?}: there are {known}")));
        }
    };
    let is_message = name == "latency";
    let size =
        bench.size.as_deref().unwrap_or(if is_message { MESSAGE_SIZE } else { TRANSFER_SIZE });
    let sizes: SizeRange =
        size.parse().map_err(|error| Failure::argument(format!("size {size:?}: {error}")))?;
    let most = if is_message { MAX_ROUNDS } else { MAX_OPERATIONS };
    within("iterations", bench.iterations, 1..=most)?;
    within("outstanding", bench.outstanding, 1..=MAX_POSTED)?;
    within("flows", Some(bench.flows), 1..=MAX_FLOWS)?;
    payloads(bench.payload, bench.mps)?;
    let mut workloads = Vec::new();
    for bytes in sizes.sizes() {
        if !bytes.is_multiple_of(4) || is_message && u32::try_from(bytes).is_err() {
            let problem = "a transfer is a multiple of 4 B, and a message below 4 GiB";
            return Err(Failure::argument(format!("size {bytes}: {problem}")));
        }
        workloads.extend(workloads_of(name, bytes, bench, seed)?);
    }
    let model = Lab::clone(place.lab).with_engines(EngineKind::Model);
    let flows = ends.in_lab((place.lab, &model.build_engines(seed)?), &[])?;
    let scenario = |workload| {
        let work = EngineWork { workload, flows: flows.clone() };
        let scenario = Scenario::new(Arc::clone(place.lab), work).with_seed(seed);
        Scenario { max_payload_bytes: bench.mps, ..scenario }
    };
    let scenarios = workloads.into_iter().map(scenario).collect();
    made(place, name, scenarios, seed, why)
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
fn within(
    name: &str,
    value: Option<impl Into<u64>>,
    range: RangeInclusive<u64>,
) -> Result<(), Failure> {
    match value.map(Into::into) {
        Some(value) if !range.contains(&value) => {
            let (least, most) = range.into_inner();
            Err(Failure::argument(format!("{name} {value}: it is from {least} to {most}")))
        }
        _ => Ok(()),
    }
}

/// Rejects sizes of payloads that the command line rejects.
fn payloads(payload: Option<u32>, mps: Option<u32>) -> Result<(), Failure> {
    let payload = payload.map(|bytes| ("payload", parse_payload(&bytes.to_string())));
    let mps = mps.map(|bytes| ("mps", parse_register_size(&bytes.to_string())));
    for (name, parsed) in [payload, mps].into_iter().flatten() {
        parsed.map_err(|problem| Failure::argument(format!("{name}: {problem}")))?;
    }
    Ok(())
}

/// Returns a value by its word.
fn one_of<T: Copy>(name: &str, word: &str, known: &[(&str, T)]) -> Result<T, Failure> {
    let found = known.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        Failure::argument(format!("{name} {word:?}: there are {}", words.join(", ")))
    })
}

/// Returns the transfers of one size.
fn workloads_of(
    name: &str,
    bytes: u64,
    bench: &Bench,
    seed: u64,
) -> Result<Vec<Workload>, Failure> {
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
        &[("write", (true, false)), ("read", (false, true)), ("both", (true, true))],
    )?;
    check_descriptors(name, by, bench)?;
    let flows = if name == "chain" { 1 } else { bench.flows };
    let suited = options.suited(bench.iterations, bench.outstanding, flows);
    Ok(match name {
        "write" => vec![Workload::Write(suited)],
        "read" => vec![Workload::Read(suited)],
        "p2p" => {
            let write = Workload::Peer(suited.with_credits(bench.credits));
            let read = Workload::PeerRead(suited);
            let made = [(by.0, write), (by.1, read)].into_iter();
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

/// Rejects descriptors that the channel of a benchmark does not have.
fn check_descriptors(
    name: &str,
    (writes, reads): (bool, bool),
    bench: &Bench,
) -> Result<(), Failure> {
    let problem = match (name, bench.descriptors.as_str()) {
        ("p2p", "command") if reads => "the command port starts writes, no reads",
        ("p2p", "table") if writes => "a peer channel has no table",
        ("p2p", "command") if bench.outstanding.is_some_and(|count| count > 1) => {
            "the command port takes one transfer at a time"
        }
        ("write" | "read" | "chain", "command") => {
            "the command port starts writes to other cards, p2p"
        }
        _ => return Ok(()),
    };
    Err(Failure::argument(format!("descriptors {:?}: {problem}", bench.descriptors)))
}

/// Makes runs, searches for their limits, and returns the outcome as JSON.
fn made<W: Explainable>(
    place: &Place<'_>,
    name: &str,
    mut scenarios: Vec<Scenario<W>>,
    seed: u64,
    why: bool,
) -> Result<Made, Failure> {
    let outcomes = scenarios.par_iter().map(|scenario| scenario.run(place.watch, None));
    let outcomes: Vec<W::Outcome> = outcomes.collect::<Result<_, ExperimentError>>()?;
    // Limits of engines are lifted by their parameters, which gateware that is built has not.
    let is_rtl = place.engine == EngineKind::Rtl;
    for scenario in scenarios.iter_mut().filter(|_| is_rtl) {
        scenario.lab = Arc::new(Lab::clone(&scenario.lab).with_engines(EngineKind::Model));
    }
    let ran: Vec<Ran> = outcomes.iter().map(Ran::of).collect();
    let whys = match why {
        true => explain_all(&scenarios, &ran, true, place.watch),
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
    if let Some(problem) = wrong.or(deadlock) {
        return Err(ExperimentError::failed(problem).into());
    }
    let figures: Vec<_> = outcomes.iter().map(|outcome| outcome.figure()).collect();
    let outcome = json(&BenchOutcome {
        schema: SCHEMA,
        bench: name.to_owned(),
        platform: Platform::Lab {
            lab: place.lab.name().to_owned(),
            variant: place.lab.variant().map(str::to_owned),
        },
        seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenarios,
        interrupted: None,
    })?;
    Ok(Made { outcome, figures: json(&figures)? })
}

/// Measures single accesses and transfers.
pub fn overhead(place: &Place<'_>, overhead: &Overhead, seed: u64) -> Result<Made, Failure> {
    let (name, bytes) = (place.lab.name(), overhead.large);
    within("rounds", Some(overhead.rounds), 1..=MAX_ROUNDS)?;
    within("large", Some(bytes), 4..=1 << 30)?;
    if !bytes.is_multiple_of(4) {
        return Err(Failure::argument(format!("large {bytes}: it is a multiple of 4 B")));
    }
    let opening = SessionOptions::default().with_seed(seed);
    let session = Session::open_in(place.lab, name, &[overhead.card.as_deref()], opening)?;
    let options = OverheadOptions::default()
        .with_rounds(overhead.rounds)
        .with_large_bytes(bytes)
        .with_seed(seed as u32);
    let rows = session.block_on(until_signal(async {
        let device = session.device(0).await?;
        measure(&device, &MachineClock::new(), &options).await
    }))??;
    session.finish()?;
    let variant = place.lab.variant().map_or_else(String::new, |name| format!(":{name}"));
    let card = &session.cards()[0].name;
    let outcome = json(&Overheads {
        schema: SCHEMA,
        bench: "overhead".to_owned(),
        device: format!("lab:{name}{variant}/{card}"),
        seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rows,
    })?;
    Ok(Made { outcome, figures: json(&[(); 0])? })
}

/// Formats an outcome, JSON, as the program prints it.
pub fn as_text(outcome: &str) -> Result<String, Failure> {
    let outcome = Outcome::parse(outcome).map_err(Failure::argument)?;
    // A terminal's styles are no part of a string.
    let styled = text(&outcome, Notes::default(), Columns::default());
    Ok(anstream::adapter::strip_str(&styled).to_string())
}
