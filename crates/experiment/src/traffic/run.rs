// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of generic requesters: a lab is built, its flows run, and what happened is gathered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Carrier, DataTlps};
use crosslane_fabric::DirectionId;
use crosslane_fabric::parameters::PeerToPeer;
use crosslane_fabric::trace::TraceSink;
use crosslane_fabric::{Fabric, FlowError, FlowId, FlowReport, LinkCounters, NodeKind, RunEnd};
use crosslane_lab::enumerate::set_max_payload;
use crosslane_lab::{Lab, RunningLab};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Account, Better, Ceiling, DirectionLoad, Figure, Latencies};

use super::account::{account_of, loads_of};
use super::ceiling::{self, Counters};
use super::plan::{Choices, FlowRequest, PlannedFlow, plan};
use super::shape::{self, FlowTlps};
use crate::error::ScenarioError;
use crate::links::{DirectionOutcome, direction_name};
use crate::progress::Progress;
use crate::samples::Samples;

/// Simulated time between two readings of the counters, at first: it doubles as a run gets long.
const FIRST_SLICE: Picoseconds = Picoseconds::from_ns(250);
/// Wall time between two reports of progress.
const SHOWN_INTERVAL: Duration = Duration::from_millis(100);

/// A run of generic requesters and processors: what to run, and where.
#[derive(Clone, Debug)]
pub struct TrafficRun {
    /// The lab.
    pub lab: Arc<Lab>,
    /// The flows.
    pub flows: Vec<FlowRequest>,
    /// Options of all of them.
    pub choices: Choices,
    /// Random seed.
    pub seed: u64,
    /// Whether TLPs are reordered as far as the rules allow.
    pub shuffle: bool,
    /// Max_Payload_Size to be set first, bytes.
    pub max_payload_bytes: Option<u32>,
    /// A diagnosis: Acks and UpdateFCs take no time on the wires.
    pub dllps_free: bool,
}

/// Outcome of one flow.
#[derive(Clone, Debug)]
pub struct TrafficFlow {
    /// The flow.
    pub planned: PlannedFlow,
    /// Operations done.
    pub operations: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Data moved, bytes.
    pub bytes: u64,
    /// Request TLPs.
    pub tlps: u64,
    /// Latencies of the operations.
    pub latencies: Latencies,
    /// Data per second, first post to last end.
    pub bytes_per_second: f64,
    /// Data per second, first end to last end.
    pub steady_bytes_per_second: Option<f64>,
    /// The rate that the links allow; `None` if nothing was moved.
    pub ceiling: Option<Ceiling>,
}

impl TrafficFlow {
    /// The rate as a share of the ceiling less DLLPs.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling.as_ref()?.less_dllps_bytes_per_second;
        (ceiling > 0.0).then(|| self.bytes_per_second / ceiling)
    }
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct TrafficOutcome {
    /// Flow by flow.
    pub flows: Vec<TrafficFlow>,
    /// Every direction that a packet of a flow crossed.
    pub directions: Vec<DirectionOutcome>,
    /// Every direction of the lab, from the first post to the last operation's end; of large
    /// labs, those that packets crossed.
    pub loads: Vec<DirectionLoad>,
    /// The account of the busiest direction with data, in the same time.
    pub account: Option<Account>,
    /// The figure of the run, as [`TrafficRun::figure`] has it.
    pub figure: Figure,
    /// Simulated time at the end.
    pub simulated: Picoseconds,
    /// That nothing could happen any more before the flows had ended, as a sentence.
    pub deadlock: Option<String>,
    /// Other errors, a sentence each; no more than the fabric keeps.
    pub errors: Vec<String>,
    /// How many errors there were, the deadlock among them.
    pub error_count: u64,
    /// TLPs times links.
    pub tlp_hops: u64,
}

impl TrafficRun {
    /// A run with seed 1 and TLPs in order, in which no port is set to another payload first.
    #[must_use]
    pub const fn new(lab: Arc<Lab>, flows: Vec<FlowRequest>, choices: Choices) -> Self {
        Self {
            lab,
            flows,
            choices,
            seed: 1,
            shuffle: false,
            max_payload_bytes: None,
            dllps_free: false,
        }
    }

    /// Makes the flows ready in a lab that was built.
    ///
    /// # Errors
    /// [`ScenarioError::Flow`] for the first that cannot be, with the flow and the name, and
    /// [`ScenarioError::Forbidden`] for the first whose way the lab forbids.
    pub fn plan(&self, lab: &RunningLab) -> Result<Vec<PlannedFlow>, ScenarioError> {
        let planned = plan(lab, &self.flows, self.choices)?;
        for (request, flow) in self.flows.iter().zip(&planned) {
            self.check_way(&lab.fabric, request, flow)?;
        }
        Ok(planned)
    }

    /// Refuses a way from endpoint to endpoint by a root complex that passes nothing on between its
    /// ports: every packet would come to an Unsupported Request there.
    fn check_way(
        &self,
        fabric: &Fabric,
        request: &FlowRequest,
        planned: &PlannedFlow,
    ) -> Result<(), ScenarioError> {
        let is_root = |node| fabric.node(node).kind == NodeKind::RootComplex;
        let ends = planned.requests.iter().map(|direction| fabric.direction_ends(*direction).1);
        let passed = ends.map(|port| fabric.port(port).node).find(|node| is_root(*node));
        let Some(root) = passed.filter(|_| !is_root(planned.target_node)) else { return Ok(()) };
        let (name, host) = (&fabric.node(root).name, usize::from(fabric.node(root).host.0));
        let part = &self.lab.file().hosts[host].part;
        match part.parameters.peer_to_peer {
            PeerToPeer::Allowed { .. } => Ok(()),
            PeerToPeer::Forbidden => Err(ScenarioError::Forbidden {
                flow: request.label.clone(),
                problem: format!(
                    "the way from {} to {} is by {name}, which forbids peer-to-peer between its \
                     root ports: {} is false",
                    planned.from, planned.to, part.peer_to_peer_key
                ),
            }),
        }
    }

    /// Returns the bytes that the flows are to move in a lab that was built, at most `u64::MAX`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn total_bytes(&self, lab: &RunningLab) -> Result<u64, ScenarioError> {
        Ok(total_bytes(&self.plan(lab)?))
    }

    /// Builds the lab, makes the flows ready, and sets what the user wants to be set.
    fn prepare(&self) -> Result<(RunningLab, Vec<PlannedFlow>), ScenarioError> {
        let mut lab = self.lab.build(self.seed)?;
        let planned = self.plan(&lab)?;
        if let Some(bytes) = self.max_payload_bytes {
            let mut touched = Vec::new();
            for direction in used_directions(&planned) {
                let (from, to) = lab.fabric.direction_ends(direction);
                touched.extend([from, to]);
            }
            touched.sort_unstable();
            touched.dedup();
            set_max_payload(&mut lab.fabric, &touched, bytes)
                .map_err(|error| ScenarioError::MaxPayload { bytes, problem: error.to_string() })?;
        }
        lab.fabric.set_shuffle(self.shuffle);
        lab.fabric.set_dllps_free(self.dllps_free);
        Ok((lab, planned))
    }

    /// Makes the run; `trace` gets what happens in it.
    ///
    /// # Errors
    /// A lab that cannot be built, a flow that cannot be. What goes wrong in the run is part of
    /// the outcome.
    pub fn run(
        &self,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<TrafficOutcome, ScenarioError> {
        let (mut lab, planned) = self.prepare()?;
        let fabric = &mut lab.fabric;
        if let Some(trace) = trace {
            fabric.set_trace(trace);
        }
        let ids = start(fabric, &planned)?;
        let mut samples = Samples::new(fabric, used_directions(&planned));
        let end = run_to_the_end(fabric, &planned, &mut samples, progress)?;
        // The trace ends where the fabric rests: the sink must not outlive the run.
        drop(fabric.take_trace());
        Ok(self.gather(&mut lab, planned, &ids, end, &samples))
    }

    /// Makes the run without looking at its links, and returns its figure alone: the rate of all
    /// flows together, from the first post to the last end.
    ///
    /// # Errors
    /// A lab that cannot be built, a flow that is impossible, and anything that goes wrong in the
    /// run.
    pub fn figure(&self) -> Result<Figure, ScenarioError> {
        let (mut lab, planned) = self.prepare()?;
        let fabric = &mut lab.fabric;
        let ids = start(fabric, &planned)?;
        let end = fabric.run(None);
        let reports: Vec<FlowReport> = ids.iter().map(|id| fabric.flow_report(*id)).collect();
        let errors = errors_of(fabric, &planned, &reports, end);
        match errors.deadlock.or(errors.sentences.into_iter().next()) {
            Some(error) => Err(ScenarioError::Failed(error)),
            None => Ok(figure_of(&reports)),
        }
    }

    fn gather(
        &self,
        lab: &mut RunningLab,
        planned: Vec<PlannedFlow>,
        ids: &[FlowId],
        end: RunEnd,
        samples: &Samples,
    ) -> TrafficOutcome {
        let simulated = lab.fabric.now();
        let used = used_directions(&planned);
        let counters: Counters =
            used.iter().map(|&direction| (direction, lab.fabric.counters(direction))).collect();
        let reports: Vec<FlowReport> = ids.iter().map(|id| lab.fabric.flow_report(*id)).collect();
        let Errors { deadlock, sentences, count } = errors_of(&lab.fabric, &planned, &reports, end);
        let directions = directions_of(&lab.fabric, &planned, &used, &counters);
        let users = users_of(&planned);
        let figure = figure_of(&reports);
        let begun = reports.iter().map(|report| report.first_post).min().unwrap_or_default();
        let ended = reports.iter().map(|report| report.last_done).max().unwrap_or_default();
        let (loads, account) = samples.between(begun, ended).map_or_else(
            || (Vec::new(), None),
            |(counted, span)| {
                let loads = loads_of(&lab.fabric, samples, &counted, span);
                let mut account = account_of(&lab.fabric, &planned, samples, &counted, span);
                if let Some(account) = &mut account {
                    account.iommus = samples.iommus_between(&mut lab.fabric, begun, ended);
                }
                (loads, account)
            },
        );
        let flows = planned
            .into_iter()
            .zip(reports)
            .map(|(planned, report)| {
                let mut tlps = shape::data_tlps(&self.lab, lab, &planned, &report);
                let is_estimate = self.shuffle
                    && tlps.read.as_mut().is_some_and(|read| {
                        !count_completions(read, &planned, &report, &counters, &users)
                    });
                let mut ceiling = flow_ceiling(lab, &planned, tlps, &counters, simulated);
                if let Some(ceiling) = &mut ceiling {
                    ceiling.is_estimate =
                        is_estimate && ceiling.carrier == Carrier::Completions.word();
                }
                TrafficFlow {
                    operations: report.operations,
                    failed: report.failed,
                    bytes: report.bytes,
                    tlps: report.tlps,
                    bytes_per_second: report.bytes_per_second(),
                    steady_bytes_per_second: report.steady_bytes_per_second(),
                    latencies: Latencies::of(report.latencies_ps),
                    ceiling,
                    planned,
                }
            })
            .collect();
        let tlp_hops = lab.fabric.tlp_hops();
        TrafficOutcome {
            flows,
            directions,
            loads,
            account,
            figure,
            simulated,
            deadlock,
            errors: sentences,
            error_count: count,
            tlp_hops,
        }
    }
}

fn start(fabric: &mut Fabric, planned: &[PlannedFlow]) -> Result<Vec<FlowId>, ScenarioError> {
    // The fabric's sentence names the flow.
    let refused = |error: FlowError| ScenarioError::Refused(error.to_string());
    planned.iter().map(|flow| fabric.start_flow(flow.flow.clone()).map_err(refused)).collect()
}

/// How many flows have packets of any kind cross a direction.
fn users_of(planned: &[PlannedFlow]) -> BTreeMap<DirectionId, usize> {
    let mut users = BTreeMap::new();
    for direction in planned.iter().flat_map(|f| f.requests.iter().chain(&f.completions)) {
        *users.entry(*direction).or_default() += 1;
    }
    users
}

/// Replaces completions that were worked out by those that a link counted, where one carried
/// them and nothing else; whether there was one.
fn count_completions(
    tlps: &mut DataTlps,
    planned: &PlannedFlow,
    report: &FlowReport,
    counters: &Counters,
    users: &BTreeMap<DirectionId, usize>,
) -> bool {
    if report.operations < planned.flow.operations {
        return false;
    }
    let Some(own) = planned.completions.iter().find(|other| users.get(other) == Some(&1)) else {
        return false;
    };
    let LinkCounters { tlps: count, payload_bytes, .. } = counters[own];
    (tlps.tlps, tlps.wire_payload_bytes) = (count, payload_bytes);
    true
}

fn flow_ceiling(
    lab: &RunningLab,
    planned: &PlannedFlow,
    tlps: FlowTlps,
    counters: &Counters,
    span: Picoseconds,
) -> Option<Ceiling> {
    let (writes, reads) = planned.data_directions();
    let along = |route, carrier, tlps: Option<_>| {
        ceiling::along(&lab.fabric, route, carrier, tlps?, counters, span)
    };
    let ceilings =
        [along(writes, Carrier::Writes, tlps.write), along(reads, Carrier::Completions, tlps.read)];
    ceilings
        .into_iter()
        .flatten()
        .min_by(|a, b| a.less_dllps_bytes_per_second.total_cmp(&b.less_dllps_bytes_per_second))
}

/// Runs until the flows have ended, in slices of simulated time; the result is the same whatever
/// their length.
///
/// # Errors
/// [`ScenarioError::Interrupted`].
fn run_to_the_end(
    fabric: &mut Fabric,
    planned: &[PlannedFlow],
    samples: &mut Samples,
    progress: &dyn Progress,
) -> Result<RunEnd, ScenarioError> {
    let mut slice = FIRST_SLICE;
    let mut reported = (0, Picoseconds::ZERO);
    let mut shown = Instant::now();
    samples.take(fabric);
    loop {
        let end = fabric.run(Some(fabric.now() + slice));
        if samples.take(fabric) {
            slice = Picoseconds(slice.0 * 2);
        }
        let is_over = end != RunEnd::Limit;
        if !is_over && progress.is_over() {
            return Err(ScenarioError::Interrupted);
        }
        if !is_over && (!progress.is_watched() || shown.elapsed() < SHOWN_INTERVAL) {
            continue;
        }
        let total = total_bytes(planned);
        let bytes = if is_over { total } else { moved_bytes(fabric, planned).min(total) };
        let now = fabric.now();
        progress.done(bytes.saturating_sub(reported.0), now.since(reported.1));
        reported = (bytes.max(reported.0), now);
        shown = Instant::now();
        if is_over {
            return Ok(end);
        }
    }
}

/// Returns the bytes that the flows are to move, at most `u64::MAX`.
fn total_bytes(planned: &[PlannedFlow]) -> u64 {
    let flows = planned.iter().map(|planned| &planned.flow);
    flows.fold(0, |sum: u64, flow| {
        sum.saturating_add(flow.operations.saturating_mul(flow.operation_bytes))
    })
}

/// About what they have moved: payload of the last direction of each flow, each counted once.
fn moved_bytes(fabric: &mut Fabric, planned: &[PlannedFlow]) -> u64 {
    let last: BTreeSet<DirectionId> = planned
        .iter()
        .filter_map(|flow| {
            let (writes, reads) = flow.data_directions();
            reads.last().or(writes.last()).copied()
        })
        .collect();
    last.into_iter().map(|direction| fabric.counters(direction).payload_bytes).sum()
}

/// Every direction that the flows' packets cross, in the order of the flows and their ways.
fn used_directions(planned: &[PlannedFlow]) -> Vec<DirectionId> {
    let mut used = Vec::new();
    for direction in planned.iter().flat_map(|f| f.requests.iter().chain(&f.completions)) {
        if !used.contains(direction) {
            used.push(*direction);
        }
    }
    used
}

fn directions_of(
    fabric: &Fabric,
    planned: &[PlannedFlow],
    used: &[DirectionId],
    counters: &Counters,
) -> Vec<DirectionOutcome> {
    let mut data_of: BTreeMap<DirectionId, Vec<usize>> = BTreeMap::new();
    for (index, flow) in planned.iter().enumerate() {
        let (writes, reads) = flow.data_directions();
        for direction in writes.iter().chain(reads) {
            data_of.entry(*direction).or_default().push(index);
        }
    }
    used.iter()
        .map(|&id| DirectionOutcome {
            id,
            name: direction_name(fabric, id),
            rate: fabric.link(id.link).parameters.rate,
            counters: counters[&id],
            data_of: data_of.remove(&id).unwrap_or_default(),
        })
        .collect()
}

/// All data of all flows, from the first post to the last end.
fn figure_of(reports: &[FlowReport]) -> Figure {
    let bytes: u64 = reports.iter().map(|report| report.bytes).sum();
    let started = reports.iter().map(|report| report.first_post).min().unwrap_or_default();
    let ended = reports.iter().map(|report| report.last_done).max().unwrap_or_default();
    let seconds = ended.since(started).as_seconds();
    let value = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    Figure { value, better: Better::Higher }
}

/// All that went wrong.
struct Errors {
    deadlock: Option<String>,
    sentences: Vec<String>,
    count: u64,
}

/// All that went wrong: the deadlock, apart, since it must not be lost among many others; then
/// what ports and devices found, what the flows say, and what hangs.
fn errors_of(
    fabric: &Fabric,
    planned: &[PlannedFlow],
    reports: &[FlowReport],
    end: RunEnd,
) -> Errors {
    let mut deadlock = None;
    let mut sentences: Vec<String> = fabric.errors().iter().map(ToString::to_string).collect();
    let mut count = fabric.error_count();
    for (flow, report) in planned.iter().zip(reports) {
        let said = report.errors.iter();
        sentences.extend(said.map(|sentence| format!("{}: {sentence}", flow.words())));
        count += report.failed.max(report.errors.len() as u64);
    }
    if let RunEnd::Stuck(waiting) = end {
        count += 1 + waiting.len() as u64;
        let now = fabric.now();
        deadlock = Some(format!("the simulation stopped at {now} with unfinished work"));
        sentences.extend(waiting);
    }
    Errors { deadlock, sentences, count }
}
