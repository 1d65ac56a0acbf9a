// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of generic requesters: a lab is built, its flows run, and what happened is gathered.

use crosslane_fabric::parameters::PeerToPeer;
use crosslane_fabric::trace::TraceSink;
use crosslane_fabric::{
    DirectionId, Fabric, FlowId, FlowReport, FlowSource, LinkCounters, NodeKind, Region,
};
use crosslane_lab::enumerate::set_max_payload;
use crosslane_lab::{CheckedFlows, Ending, Lab, Progress, RunningLab, Stuck, TIME_LIMIT};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{
    Account, Ceiling, Detail, DirectionLoad, Figure, Flow, Latencies, Link, ScenarioResult,
    TimeUse, Traffic, Use, distinct,
};

use super::argument::kind_word;
use super::plan::{Choices, FlowRequest, PlannedFlow, plan};
use super::shape::{self, FlowTlps};
use crate::account::Samples;
use crate::account::{Carrier, DataTlps};
use crate::account::{Counted, direction_name};
use crate::error::{ExperimentError, Result};
use crate::measured::total_rate;
use crate::scenario::{Outcome, Scenario, Work};

/// Simulated time between two readings of the counters, at first: it doubles as a run gets long.
const FIRST_SLICE: Picoseconds = Picoseconds::from_ns(250);

/// Flows of generic requesters and processors.
#[derive(Clone, Debug, Default)]
pub struct TrafficWork {
    /// The flows.
    pub flows: Vec<FlowRequest>,
    /// Options of all of them.
    pub choices: Choices,
    /// Whether TLPs are reordered as far as the rules allow.
    pub shuffle: bool,
}

/// Outcome of one flow.
#[derive(Clone, Debug)]
pub struct TrafficFlow {
    /// The flow.
    pub planned: PlannedFlow,
    /// Counts and times of its operations; their latencies are taken out.
    pub report: FlowReport,
    /// Latencies of the operations.
    pub latencies: Latencies,
    /// The rate that the links allow; `None` if nothing was moved.
    pub ceiling: Option<Ceiling>,
}

impl TrafficFlow {
    /// The rate as a share of the ceiling less DLLPs.
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling.as_ref()?.less_dllps_bytes_per_second;
        (ceiling > 0.0).then(|| self.report.bytes_per_second() / ceiling)
    }

    /// Returns the flow as plain data.
    pub fn result(&self) -> Flow {
        let (planned, report) = (&self.planned, &self.report);
        Flow {
            name: planned.words(),
            bytes: planned.flow.operation_bytes,
            iterations: report.operations,
            in_flight: Some(planned.in_flight()),
            latency: Some(self.latencies),
            application_bytes_per_second: None,
            hardware: None,
            bytes_per_second: Some(report.bytes_per_second()),
            ceiling: self.ceiling.clone(),
            share_of_ceiling: self.share(),
            detail: Detail::Traffic(Traffic {
                from: planned.from.clone(),
                to: planned.to.clone(),
                kind: kind_word(planned.flow.kind).to_owned(),
                is_core: matches!(planned.flow.source, FlowSource::Core { .. }),
                is_streaming: planned.flow.region == Region::WriteCombined,
                failed: report.failed,
                outstanding: planned.flow.outstanding,
                target: planned.flow.target.0,
                moved_bytes: report.bytes,
                request_tlps: report.tlps,
                steady_bytes_per_second: report.steady_bytes_per_second(),
            }),
        }
    }
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct TrafficOutcome {
    /// Flow by flow.
    pub flows: Vec<TrafficFlow>,
    /// Every direction that a packet of a flow crossed, over the whole run.
    pub links: Vec<Link>,
    /// Every direction of the lab, from the first post to the last operation's end; of large
    /// labs, those that packets crossed.
    pub loads: Vec<DirectionLoad>,
    /// The account of the busiest direction with data, in the same time.
    pub account: Option<Account>,
    /// The figure of the run, as [`Scenario::figure`] has it.
    pub figure: Figure,
    /// Simulated time at the end.
    pub simulated: Picoseconds,
    /// Sentence about flows that could not end, or not by the time limit.
    pub deadlock: Option<String>,
    /// Other errors, a sentence each; no more than the fabric keeps.
    pub errors: Vec<String>,
    /// Number of errors, the deadlock among them.
    pub error_count: u64,
    /// TLPs times links.
    pub tlp_hops: u64,
}

impl Outcome for TrafficOutcome {
    fn result(&self) -> ScenarioResult {
        ScenarioResult {
            flows: self.flows.iter().map(TrafficFlow::result).collect(),
            links: self.links.clone(),
            link_loads: self.loads.clone(),
            simulated_ps: Some(self.simulated.0),
            tlp_hops: Some(self.tlp_hops),
            errors: self.deadlock.iter().chain(&self.errors).cloned().collect(),
            error_count: self.error_count,
            ..ScenarioResult::default()
        }
    }

    fn figure(&self) -> Option<Figure> {
        Some(self.figure)
    }

    fn simulated(&self) -> Picoseconds {
        self.simulated
    }

    fn wrong_data(&self) -> Option<String> {
        None
    }

    fn has_errors(&self) -> bool {
        self.error_count > 0
    }

    fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    fn deadlock(&self) -> Option<&str> {
        self.deadlock.as_deref()
    }
}

impl Scenario<TrafficWork> {
    /// Makes the flows ready in a lab that was built.
    ///
    /// # Errors
    /// [`ExperimentError::Refused`] for the first impossible flow, with the flow and the name, and
    /// [`ExperimentError::Forbidden`] for the first whose path the lab forbids.
    pub fn plan(&self, lab: &RunningLab) -> Result<Vec<PlannedFlow>> {
        let planned = plan(lab, &self.work.flows, self.work.choices)?;
        for (request, flow) in self.work.flows.iter().zip(&planned) {
            self.check_path(&lab.fabric, request, flow)?;
        }
        Ok(planned)
    }

    /// Refuses a path from endpoint to endpoint by a root complex that passes nothing on between
    /// its ports: every packet would come to an Unsupported Request there.
    fn check_path(
        &self,
        fabric: &Fabric,
        request: &FlowRequest,
        planned: &PlannedFlow,
    ) -> Result<()> {
        // The links by which the way enters a root complex and leaves it.
        let passed = planned.requests.windows(2).find_map(|pair| {
            let (into, out) = (fabric.direction_ends(pair[0]).1, fabric.direction_ends(pair[1]).0);
            let (into, out) = (fabric.port(into), fabric.port(out));
            let is_root = fabric.node(into.node).kind == NodeKind::RootComplex;
            let links = [pair[0].link, pair[1].link];
            is_root.then_some((into.node, into.socket == out.socket, links))
        });
        let Some((root, is_one_socket, links)) = passed else { return Ok(()) };
        let (name, host) = (&fabric.node(root).name, usize::from(fabric.node(root).host.0));
        let part = &self.lab.file().hosts[host].part;
        let between = part.parameters.sockets.filter(|_| !is_one_socket);
        let below = links.map(|link| &fabric.node(fabric.port(fabric.link(link).lower).node).name);
        let own = self.lab.file().peers_between(below[0], below[1]);
        let (way, what, key) = match (own, between) {
            (Some(own), _) => (own.peer_to_peer, "the root ports of this pair", &own.allowed_key),
            (None, None) => {
                (part.parameters.peer_to_peer, "its root ports", &part.peer_to_peer_keys[0])
            }
            (None, Some(sockets)) => {
                let what = "root ports of different sockets";
                (sockets.peer_to_peer, what, &part.peer_to_peer_keys[1])
            }
        };
        match way {
            PeerToPeer::Allowed { .. } => Ok(()),
            PeerToPeer::Forbidden => Err(ExperimentError::Forbidden {
                flow: request.label.clone(),
                problem: format!(
                    "the way from {} to {} is by {name}, which forbids peer-to-peer between \
                     {what}: {key} is false",
                    planned.from, planned.to
                ),
            }),
        }
    }

    /// Returns the bytes that the flows are to move in a lab that was built, at most `u64::MAX`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn total_bytes(&self, lab: &RunningLab) -> Result<u64> {
        Ok(total_bytes(&self.plan(lab)?))
    }

    /// Builds the lab, makes the flows ready, and starts them.
    fn start(&self) -> Result<Started> {
        let mut lab = self.lab.build(self.seed)?;
        let planned = self.plan(&lab)?;
        if let Some(bytes) = self.max_payload_bytes {
            let ends = used_directions(&planned).map(|it| lab.fabric.direction_ends(it));
            let mut touched: Vec<_> = ends.flat_map(|(from, to)| [from, to]).collect();
            touched.sort_unstable();
            touched.dedup();
            set_max_payload(&mut lab.fabric, &touched, bytes)
                .map_err(|error| ExperimentError::MaxPayload { bytes, problem: error.into() })?;
        }
        lab.fabric.set_shuffle(self.work.shuffle);
        lab.fabric.set_dllps_free(self.dllps_free);
        let mut ids: Vec<FlowId> = Vec::new();
        let mut left = &planned[..];
        while let Some((first, others)) = left.split_first() {
            let second = others.first().filter(|flow| flow.is_copied);
            match second {
                Some(second) => {
                    let (first, second) = (first.flow.clone(), second.flow.clone());
                    ids.extend(lab.fabric.start_copy(first, second)?);
                }
                None => ids.push(lab.fabric.start_flow(first.flow.clone())?),
            }
            left = &others[usize::from(second.is_some())..];
        }
        Ok(Started { lab, planned, ids })
    }
}

impl Work for TrafficWork {
    type Outcome = TrafficOutcome;

    fn name(&self, _lab: &Lab) -> String {
        "bench traffic".to_owned()
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<TrafficOutcome> {
        let mut started = scenario.start()?;
        let fabric = &mut started.lab.fabric;
        if let Some(trace) = trace {
            fabric.set_trace(trace);
        }
        let mut samples = Samples::new(fabric, used_directions(&started.planned));
        let ending = run_to_the_end(fabric, &started.planned, &mut samples, progress)?;
        // The trace ends where the fabric rests: the sink must not outlive the run.
        drop(fabric.take_trace());
        Ok(scenario.gather(started, ending, &samples))
    }

    fn figure(scenario: &Scenario<Self>) -> Result<Figure> {
        let mut started = scenario.start()?;
        let run = CheckedFlows::new(&mut started.lab.fabric);
        let ending = run.run_in_slices(TIME_LIMIT, |_, _| Ok(TIME_LIMIT));
        let reports = started.reports();
        let errors = errors_of(ending, &started.planned, &reports);
        let errors = errors.and_left(&mut started.lab.fabric);
        match errors.deadlock.or(errors.sentences.into_iter().next()) {
            Some(error) => Err(ExperimentError::failed(error)),
            None => Ok(figure_of(&started.planned, &reports)),
        }
    }
}

/// A lab whose flows have been started.
struct Started {
    lab: RunningLab,
    planned: Vec<PlannedFlow>,
    ids: Vec<FlowId>,
}

impl Started {
    fn reports(&mut self) -> Vec<FlowReport> {
        self.ids.iter().map(|id| self.lab.fabric.flow_report(*id)).collect()
    }
}

impl Scenario<TrafficWork> {
    fn gather(&self, mut started: Started, ending: Flown, samples: &Samples) -> TrafficOutcome {
        let simulated = started.lab.fabric.now();
        let reports = started.reports();
        let Started { mut lab, planned, .. } = started;
        let errors = errors_of(ending, &planned, &reports);
        let figure = figure_of(&planned, &reports);
        let begun = reports.iter().map(|report| report.first_post).min().unwrap_or_default();
        let ended = reports.iter().map(|report| report.last_done).max().unwrap_or_default();
        let (loads, account) = match samples.between(&mut lab.fabric, begun, ended) {
            Some(counted) => (counted.loads(), account_of(&counted, &planned)),
            None => (Vec::new(), None),
        };
        let used = distinct(used_directions(&planned));
        // Ceilings and directions are those of the whole run.
        let whole = Counted {
            counters: used.iter().map(|id| lab.fabric.counters(*id)).collect(),
            fabric: &lab.fabric,
            directions: &used,
            used: used.len(),
            span: simulated,
            iommus: Vec::new(),
        };
        let links = whole.links(|id| {
            let flows = planned.iter().enumerate();
            let crosses = flows.filter(|(_, flow)| flow.carries_data(id));
            crosses.map(|(index, _)| index).collect()
        });
        let users = |id: &DirectionId| used_directions(&planned).filter(|it| it == id).count();
        let flow = |(planned, mut report): (&PlannedFlow, FlowReport)| {
            let mut tlps = shape::data_tlps(&self.lab, &lab, planned, &report);
            let is_estimate = self.work.shuffle
                && tlps.read.as_mut().is_some_and(|read| {
                    let alone = planned.completions.iter().find(|id| users(id) == 1);
                    !count_completions(read, planned, &report, alone.map(|id| whole.counters(*id)))
                });
            let mut ceiling = flow_ceiling(&whole, planned, tlps);
            if let Some(ceiling) = &mut ceiling {
                ceiling.is_estimate =
                    is_estimate && ceiling.carrier == Carrier::Completions.to_string();
            }
            let latencies = Latencies::of(std::mem::take(&mut report.latencies_ps));
            TrafficFlow { planned: planned.clone(), report, latencies, ceiling }
        };
        let flows = planned.iter().zip(reports).map(flow).collect();
        let errors = errors.and_left(&mut lab.fabric);
        TrafficOutcome {
            flows,
            links,
            loads,
            account,
            figure,
            simulated,
            deadlock: errors.deadlock,
            errors: errors.sentences,
            error_count: errors.count,
            tlp_hops: lab.fabric.tlp_hops(),
        }
    }
}

/// Replaces completions that were worked out by those that a link counted which carried them and
/// nothing else; returns whether there is one.
fn count_completions(
    tlps: &mut DataTlps,
    planned: &PlannedFlow,
    report: &FlowReport,
    alone: Option<LinkCounters>,
) -> bool {
    let is_whole = report.operations >= planned.flow.operations;
    let Some(alone) = alone.filter(|_| is_whole) else { return false };
    (tlps.tlps, tlps.wire_payload_bytes) = (alone.tlps, alone.payload_bytes);
    true
}

/// Returns the lesser ceiling of a flow's writes and reads, for the TLPs that it sends.
fn flow_ceiling(whole: &Counted<'_>, planned: &PlannedFlow, tlps: FlowTlps) -> Option<Ceiling> {
    let (writes, reads) = planned.data_directions();
    let along = |path, carrier, tlps: Option<_>| {
        let ceiling = whole.ceiling(path, tlps?)?;
        Some(ceiling.result(carrier, tlps?, direction_name(whole.fabric, ceiling.link)))
    };
    let ceilings =
        [along(writes, Carrier::Writes, tlps.write), along(reads, Carrier::Completions, tlps.read)];
    ceilings
        .into_iter()
        .flatten()
        .min_by(|a, b| a.less_dllps_bytes_per_second.total_cmp(&b.less_dllps_bytes_per_second))
}

/// Returns the account of the busiest direction with data.
fn account_of(counted: &Counted<'_>, planned: &[PlannedFlow]) -> Option<Account> {
    let with_data = planned.iter().flat_map(|flow| {
        let (writes, reads) = flow.data_directions();
        writes.iter().chain(reads).copied()
    });
    counted.account(&distinct(with_data), |id| {
        let crossing = planned.iter().filter(|flow| flow.carries_data(id));
        (crossing.map(|flow| losses(counted, flow, id)).collect(), Use::NothingToSend)
    })
}

/// Returns the waits of those who feed a direction: the links before it, and of a requester whose
/// writes or reads it is, what its own link was idle for.
fn losses(counted: &Counted<'_>, flow: &PlannedFlow, id: DirectionId) -> Vec<TimeUse> {
    let (writes, reads) = flow.data_directions();
    let mut losses = counted.shortages_before(if reads.contains(&id) { reads } else { writes }, id);
    let is_endpoint = matches!(flow.flow.source, FlowSource::Endpoint(_));
    if let Some(first) = flow.requests.first().filter(|_| is_endpoint) {
        let own = |entry: &TimeUse| [Use::SenderPace, Use::NoTag].contains(&entry.what);
        losses.extend(counted.uses(*first).into_iter().filter(own));
    }
    losses
}

/// The end of a run of flows that was not interrupted.
type Flown = Ending<(), ExperimentError>;

/// Runs until the flows have ended, in slices of simulated time; the result is the same whatever
/// their length.
///
/// # Errors
/// [`ExperimentError::Interrupted`].
fn run_to_the_end(
    fabric: &mut Fabric,
    planned: &[PlannedFlow],
    samples: &mut Samples,
    progress: &dyn Progress,
) -> Result<Flown> {
    let mut slice = FIRST_SLICE;
    let mut reported = (0, Picoseconds::ZERO);
    samples.take(fabric);
    let ending = CheckedFlows::new(fabric).run_in_slices(slice, |fabric, is_over| {
        if samples.take(fabric) {
            slice = Picoseconds(slice.0 * 2);
        }
        if !is_over && progress.is_over() {
            return Err(ExperimentError::Interrupted);
        }
        if !is_over && !progress.is_due() {
            return Ok(slice);
        }
        let total = total_bytes(planned);
        let bytes = if is_over { total } else { moved_bytes(fabric, planned).min(total) };
        let now = fabric.now();
        progress.loaded(&samples.live(fabric));
        progress.moved(bytes.saturating_sub(reported.0), now.since(reported.1));
        reported = (bytes.max(reported.0), now);
        Ok(slice)
    });
    match ending.program {
        Ok(Err(error)) => Err(error),
        _ => Ok(ending),
    }
}

/// Returns the bytes that the flows are to move, at most `u64::MAX`.
fn total_bytes(planned: &[PlannedFlow]) -> u64 {
    let flows = planned.iter().map(|planned| &planned.flow);
    flows.fold(0, |sum: u64, flow| {
        sum.saturating_add(flow.operations.saturating_mul(flow.operation_bytes))
    })
}

/// Returns about what they have moved: payload of the last direction of each flow, each counted
/// once.
fn moved_bytes(fabric: &mut Fabric, planned: &[PlannedFlow]) -> u64 {
    let last = planned.iter().filter_map(|flow| {
        let (writes, reads) = flow.data_directions();
        reads.last().or(writes.last()).copied()
    });
    distinct(last).into_iter().map(|direction| fabric.counters(direction).payload_bytes).sum()
}

/// Lists the directions that the flows' packets cross, in the order of the flows and their paths.
fn used_directions(planned: &[PlannedFlow]) -> impl Iterator<Item = DirectionId> + '_ {
    planned.iter().flat_map(|flow| flow.requests.iter().chain(&flow.completions)).copied()
}

/// Returns the rate of all data of all flows, from the first post to the last end. What a copy
/// writes into memory counts where it is read from there, and takes its time.
fn figure_of(planned: &[PlannedFlow], reports: &[FlowReport]) -> Figure {
    let is_first_half = |at: usize| planned.get(at + 1).is_some_and(|next| next.is_copied);
    total_rate(reports.iter().enumerate().map(|(at, report)| {
        let bytes = if is_first_half(at) { 0 } else { report.bytes };
        (bytes, report.first_post, report.last_done)
    }))
}

/// Errors of a run.
struct Errors {
    deadlock: Option<String>,
    sentences: Vec<String>,
    count: u64,
}

impl Errors {
    /// Adds what a run without errors has left in the fabric, though it is quiet. Counters of links
    /// are settled by that.
    fn and_left(mut self, fabric: &mut Fabric) -> Self {
        if self.count == 0 {
            self.sentences = fabric.check_quiet();
            self.count = self.sentences.len() as u64;
        }
        self
    }
}

/// Collects the errors of a run: the deadlock, apart, since it must not be lost among many others;
/// then what ports and devices found, what the flows say, and what hangs.
fn errors_of(ending: Flown, planned: &[PlannedFlow], reports: &[FlowReport]) -> Errors {
    let mut deadlock = None;
    let mut sentences: Vec<String> = ending.errors.iter().map(ToString::to_string).collect();
    let mut count = ending.error_count;
    for (flow, report) in planned.iter().zip(reports) {
        let said = report.errors.iter();
        sentences.extend(said.map(|sentence| format!("{}: {sentence}", flow.words())));
        count += report.failed.max(report.errors.len() as u64);
    }
    if let Err(Stuck { time, why, waiting }) = ending.program {
        count += 1 + waiting.len() as u64;
        deadlock = Some(Stuck { time, why, waiting: Vec::new() }.to_string());
        sentences.extend(waiting);
    }
    Errors { deadlock, sentences, count }
}
