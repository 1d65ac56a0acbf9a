// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver: a lab with its engines is built, a workload runs in it, and the
//! outcome is gathered.

use std::cell::{Cell, RefCell};

use crosslane_driver::{
    CARD_MEMORY_BAR, ChannelKind as Kind, Device, PathEnd, set_max_payload_on_path,
};
use crosslane_fabric::parameters::{CompleterParameters, CompletionCut};
use crosslane_fabric::trace::TraceSink;
use crosslane_fabric::{ChannelKind, ChannelWaits, DirectionId, ErrorRecord, Fabric};
use crosslane_lab::{Ended, Ending, Lab, LabBus, Progress, RunningHost, Simulation};
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use crosslane_results::{Ceiling, Figure, TimeUse, Use, distinct};

use super::ends::FlowEnds;
use super::{Measurement, NoObserver, Observer, Together, Workload, WorkloadFlow, WorkloadOutcome};
use crate::account::{Carrier, Counted, DataTlps, Samples, direction_name};
use crate::error::{ExperimentError, FAILED, Result};
use crate::measured::{Measured, channel_word, waits};
use crate::route::{Cargo, Segment, route, segments};
use crate::scenario::{Scenario, Work, execute};
use crate::traffic::shape::{Completions, Cuts};

/// Name of the host's program in reports of deadlocks.
const NAME: &str = "bench";

/// A workload of engines through the driver.
#[derive(Clone, Debug)]
pub struct EngineWork {
    /// The workload.
    pub workload: Workload,
    /// The ends of its flows.
    pub flows: Vec<FlowEnds>,
}

impl EngineWork {
    /// Returns the bytes that the flows are to move, at most `u64::MAX`.
    pub fn total_bytes(&self) -> u64 {
        self.workload.total_bytes().saturating_mul(self.flows.len() as u64)
    }
}

impl Work for EngineWork {
    type Outcome = WorkloadOutcome;

    fn name(&self, _lab: &Lab) -> String {
        NAME.to_owned()
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<WorkloadOutcome> {
        let run = scenario.begin(trace)?;
        let (simulation, work) = (run.simulation(), &scenario.work);
        let ports_set = scenario.set_payloads(simulation)?;
        let paths: Vec<Vec<Segment>> = simulation.with_fabric(|fabric| {
            work.flows.iter().map(|flow| segments(fabric, &work.workload, flow)).collect()
        });
        let all = paths.iter().flatten().map(|segment| &segment.way[..]);
        let last = paths.iter().filter_map(|path| Some(&path.last()?.way[..]));
        let watch = Watch::new(simulation, all, last, work.total_bytes(), progress);
        let program = work.drive(simulation, &watch);
        let ending = execute(&run, NAME, progress, program)?;
        let samples = watch.end();
        Ok(WorkloadOutcome { ports_set, ..gather(scenario, simulation, &samples, &paths, ending) })
    }

    fn figure(scenario: &Scenario<Self>) -> Result<Figure> {
        let measured = scenario.measured(FAILED, &())?.value;
        match measured.wrong_data().into_iter().next() {
            Some(wrong) => Err(ExperimentError::failed(wrong)),
            None => Ok(measured.figure(&scenario.work.workload)),
        }
    }
}

/// Samples of a run, about.
const SAMPLES: u64 = 2000;
/// Shortest interval: no transfer's first TLP comes sooner after its post.
const LEAST_INTERVAL: Picoseconds = Picoseconds::from_ns(250);

/// Reads the counters of directions at an interval.
struct Watch<'a> {
    simulation: &'a Simulation,
    /// Directions that count what has arrived.
    arriving: Vec<DirectionId>,
    interval: Picoseconds,
    samples: RefCell<Samples>,
    /// Number of questions after which a sample is taken.
    stride: Cell<u64>,
    asked: Cell<u64>,
    progress: &'a dyn Progress,
    reported: Cell<(u64, Picoseconds)>,
}

impl<'a> Watch<'a> {
    /// Watches a run that is to move `bytes` along these paths.
    fn new<'p>(
        simulation: &'a Simulation,
        paths: impl Iterator<Item = &'p [DirectionId]> + Clone,
        last: impl Iterator<Item = &'p [DirectionId]>,
        bytes: u64,
        progress: &'a dyn Progress,
    ) -> Self {
        let used = paths.flatten().copied();
        let samples = simulation.with_fabric(|fabric| Samples::new(fabric, used));
        // A run at 1 GB/s takes 1000 ps for each byte.
        let interval = Picoseconds((bytes.saturating_mul(1000) / SAMPLES).max(LEAST_INTERVAL.0));
        Self {
            simulation,
            arriving: distinct(last.filter_map(|path| path.last().copied())),
            interval,
            samples: RefCell::new(samples),
            stride: Cell::new(1),
            asked: Cell::new(0),
            progress,
            reported: Cell::new((0, simulation.now())),
        }
    }

    /// Ends the samples with what is counted now.
    fn end(self) -> Samples {
        let mut samples = self.samples.into_inner();
        self.simulation.with_fabric(|fabric| samples.take(fabric));
        samples
    }
}

impl Observer for Watch<'_> {
    fn payload_bytes(&self) -> Option<u64> {
        let asked = self.asked.replace(self.asked.get() + 1);
        let (at, bytes, loads) = self.simulation.with_fabric(|fabric| {
            let stride = self.stride.get();
            if asked.is_multiple_of(stride) && self.samples.borrow_mut().take(fabric) {
                self.stride.set(stride * 2);
            }
            let payload = |id: &DirectionId| fabric.counters(*id).payload_bytes;
            let bytes = self.arriving.iter().map(payload).sum();
            let loads = self.progress.is_due().then(|| self.samples.borrow_mut().live(fabric));
            (fabric.now(), bytes, loads)
        });
        if let Some(loads) = loads {
            self.progress.loaded(&loads);
        }
        let (before, then) = self.reported.replace((bytes, at));
        self.progress.moved(bytes.saturating_sub(before), at.since(then));
        Some(bytes)
    }

    fn interval(&self) -> Picoseconds {
        self.interval
    }
}

fn bus(simulation: &Simulation, flow: &FlowEnds) -> LabBus {
    simulation.bus(HostId(flow.host as u16))
}

impl Scenario<EngineWork> {
    /// Makes the run for its measurement alone. Anything that goes wrong is an error of the run
    /// `name`.
    pub(crate) fn measured(
        &self,
        name: &str,
        progress: &dyn Progress,
    ) -> Result<Ended<Measurement>> {
        let run = self.begin(None)?;
        self.set_payloads(run.simulation())?;
        let program = self.work.drive(run.simulation(), &NoObserver);
        let ended = execute(&run, NAME, progress, program)?.into_result();
        ended.map_err(|error| ExperimentError::run(name, error))
    }

    /// Sets Max_Payload_Size between neighbours of each flow, as the driver names places; returns
    /// the ports that were set.
    fn set_payloads(&self, simulation: &Simulation) -> Result<Vec<String>> {
        let Some(bytes) = self.max_payload_bytes else { return Ok(Vec::new()) };
        let mut ports = Vec::new();
        for flow in &self.work.flows {
            let tree = &simulation.hosts()[flow.host].tree;
            let cards = flow.cards.iter().filter_map(|card| tree.find(&card.name));
            let cards = cards.map(|function| PathEnd::Function(function.routing_id));
            let workload = self.work.workload;
            let places: Vec<PathEnd> =
                (workload.reads_host().then_some(PathEnd::HostMemory).into_iter())
                    .chain(cards)
                    .chain(workload.writes_host().then_some(PathEnd::HostMemory))
                    .collect();
            for pair in places.windows(2) {
                let set = set_max_payload_on_path(&bus(simulation, flow), pair[0], pair[1], bytes);
                let refused = |error: crosslane_driver::PlanError| ExperimentError::MaxPayload {
                    bytes,
                    problem: error.into(),
                };
                ports.extend(set.map_err(refused)?);
            }
        }
        Ok(distinct(ports))
    }
}

impl EngineWork {
    /// The host's program: opens the devices and runs the workload.
    async fn drive(&self, simulation: &Simulation, observer: &dyn Observer) -> Result<Measurement> {
        let mut opened: Vec<(RoutingId, usize, Device)> = Vec::new();
        let mut cards = Vec::new();
        for flow in &self.flows {
            let tree = &simulation.hosts()[flow.host].tree;
            let mut devices = Vec::new();
            for card in &flow.cards {
                let function = tree.find(&card.name).expect("a card is a function of the tree");
                let id = function.routing_id;
                let known =
                    opened.iter().find(|(other, host, _)| (*other, *host) == (id, flow.host));
                let device = if let Some((_, _, device)) = known {
                    device.clone()
                } else {
                    let device = Device::open(bus(simulation, flow), id).await?;
                    opened.push((id, flow.host, device.clone()));
                    device
                };
                devices.push(device);
            }
            cards.push(devices);
        }
        self.workload.run(&cards, observer).await
    }
}

/// Gathers the outcome of a run; `paths` are those of the flows.
fn gather(
    scenario: &Scenario<EngineWork>,
    simulation: &Simulation,
    samples: &Samples,
    paths: &[Vec<Segment>],
    ending: Ending<Measurement, ExperimentError>,
) -> WorkloadOutcome {
    // Errors of ports come first: they are the reason for those that follow.
    let mut errors = first_errors(&ending.errors);
    let of_ports = errors.len();
    errors.extend(ending.left.iter().map(ToString::to_string));
    let measured = match ending.program {
        Ok(Ok(measured)) => Some(measured),
        Ok(Err(error)) => {
            errors.push(error.to_string());
            None
        }
        Err(stuck) => {
            errors.push(stuck.to_string());
            None
        }
    };
    errors.extend(measured.iter().flat_map(Measurement::wrong_data));
    let mut outcome = WorkloadOutcome {
        span: Some(Picoseconds::ZERO),
        simulated: simulation.now(),
        error_count: ending.error_count + (errors.len() - of_ports) as u64,
        errors,
        ..WorkloadOutcome::new(scenario.work.workload)
    };
    match measured {
        None => {}
        Some(Measurement::RoundTrips(round_trips)) => outcome.round_trips = Some(round_trips),
        Some(Measurement::Flows(together)) => {
            let (from, to) = span_of(&together);
            simulation.with_fabric(|fabric| {
                if let Some(counted) = samples.between(fabric, from, to) {
                    look_at_links(&mut outcome, &counted, paths, &together);
                }
            });
            outcome.common = together.common.filter(|_| together.flows.len() > 1);
            let flows = together.flows.into_iter().zip(&scenario.work.flows).zip(paths);
            let flows = flows.map(|((measured, ends), path)| {
                let (from, to) = moving(&measured);
                let ceiling = simulation.with_fabric(|fabric| {
                    let counted = samples.between(fabric, from, to)?;
                    flow_ceiling(scenario, simulation.hosts(), &counted, &measured, ends, path)
                });
                WorkloadFlow { measured, ceiling }
            });
            outcome.flows = flows.collect();
        }
    }
    outcome
}

/// Adds the use of links while data moved to an outcome.
fn look_at_links(
    outcome: &mut WorkloadOutcome,
    counted: &Counted<'_>,
    paths: &[Vec<Segment>],
    together: &Together,
) {
    let crosses = |id: DirectionId| {
        let crosses = |flow: &usize| paths[*flow].iter().any(|it| it.way.contains(&id));
        (0..paths.len()).filter(crosses).collect()
    };
    outcome.span = Some(counted.span);
    outcome.links = counted.links(crosses);
    outcome.loads = counted.loads();
    outcome.account = counted.account(&counted.directions[..counted.used], |id| {
        let segments = paths.iter().flatten().filter(|segment| segment.way.contains(&id));
        let losses = segments.clone().map(|segment| losses(counted, segment, id, together));
        let writes = segments.clone().any(|segment| segment.carrier == Carrier::Writes);
        (losses.collect(), if writes { Use::SenderPace } else { Use::NothingToSend })
    });
}

/// The first error of each kind that each port has detected: thousands may follow that say the
/// same of the next packet.
fn first_errors(errors: &[ErrorRecord]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut sentences = Vec::new();
    for error in errors {
        let key = (error.port, std::mem::discriminant(&error.kind));
        if !seen.contains(&key) {
            seen.push(key);
            sentences.push(error.to_string());
        }
    }
    sentences
}

/// The time in which a flow's data moved.
fn moving(measured: &Measured) -> (Picoseconds, Picoseconds) {
    measured.hardware.map_or((measured.started, measured.ended), |time| (time.first, time.last))
}

/// The time in which all flows' data moved, or any did if there is none.
fn span_of(together: &Together) -> (Picoseconds, Picoseconds) {
    let spans = || together.flows.iter().map(moving);
    let latest = spans().map(|(first, _)| first).max().unwrap_or_default();
    let earliest = spans().map(|(_, last)| last).min().unwrap_or_default();
    if latest < earliest {
        return (latest, earliest);
    }
    let first = spans().map(|(first, _)| first).min().unwrap_or_default();
    (first, spans().map(|(_, last)| last).max().unwrap_or_default())
}

/// The waits of the engine of a segment: by the device's own count, or else, as of gateware, by the
/// registers that the driver has read. Those do not tell a host that has posted nothing from
/// descriptors that are not fetched yet.
fn waits_of(fabric: &Fabric, segment: &Segment, together: &Together) -> ChannelWaits {
    let kind = match segment.channel {
        Kind::H2c => ChannelKind::H2c,
        Kind::C2h => ChannelKind::C2h,
        Kind::Peer => ChannelKind::Peer,
    };
    let name = &fabric.node(segment.engine).name;
    fabric.channel_waits(segment.engine, kind).unwrap_or_else(|| {
        let mut reports = together.flows.iter().flat_map(|flow| &flow.channels);
        let read =
            reports.find(|it| it.device == *name && it.kind == channel_word(segment.channel));
        read.map(waits).unwrap_or_default()
    })
}

/// Returns the waits of those who feed a direction in a segment: its engine by its counters, and
/// the links before it.
fn losses(
    counted: &Counted<'_>,
    segment: &Segment,
    id: DirectionId,
    together: &Together,
) -> Vec<TimeUse> {
    let waits = waits_of(counted.fabric, segment, together);
    let share = |time: Picoseconds| time.0 as f64 / waits.moving.0.max(1) as f64;
    let mut losses = vec![
        TimeUse { what: Use::Host, share: share(waits.nothing_posted) },
        TimeUse { what: Use::Descriptor, share: share(waits.no_descriptor) + share(waits.gap) },
        TimeUse { what: Use::Stream, share: share(waits.no_data) },
        TimeUse { what: Use::NoTag, share: share(waits.no_tag) },
        TimeUse { what: Use::PeerCredit, share: share(waits.no_credit) },
    ];
    losses.retain(|loss| loss.share > 0.0);
    losses.extend(counted.shortages_before(&segment.way, id));
    losses
}

/// Returns the least ceiling along a flow's path, with the DLLPs that were counted.
fn flow_ceiling(
    scenario: &Scenario<EngineWork>,
    hosts: &[RunningHost],
    counted: &Counted<'_>,
    measured: &Measured,
    ends: &FlowEnds,
    path: &[Segment],
) -> Option<Ceiling> {
    let fabric = counted.fabric;
    let (carrier, tlps) = data_tlps(scenario, hosts, fabric, measured, ends)?;
    let path: Vec<DirectionId> = path.iter().flat_map(|it| &it.way).copied().collect();
    let ceiling = counted.ceiling(&path, tlps)?;
    if let Workload::PeerRead(_) = scenario.work.workload {
        return Some(ceiling.result(carrier, tlps, direction_name(fabric, ceiling.link)));
    }
    // Behind the first card of a chain it is writes that carry the data.
    let reading = route(fabric, ends.memory.node, ends.cards[0].node, Cargo::Completions);
    let position = path.iter().position(|id| *id == ceiling.link);
    let is_behind = position.is_some_and(|position| position >= reading.len());
    let carrier = if is_behind { Carrier::Writes } else { carrier };
    Some(ceiling.result(carrier, tlps, direction_name(fabric, ceiling.link)))
}

/// Returns the TLPs that carried the data: writes are counted by the engine, completions worked out
/// from the rules by which the host's memory cuts them. `None` of a run without counters.
fn data_tlps(
    scenario: &Scenario<EngineWork>,
    hosts: &[RunningHost],
    fabric: &Fabric,
    measured: &Measured,
    ends: &FlowEnds,
) -> Option<(Carrier, DataTlps)> {
    let (lab, host) = (&scenario.lab, &hosts[ends.host]);
    // In a chain it is the reads that bound.
    let channel = measured.channels.first()?;
    if channel.kind != channel_word(Kind::H2c) {
        let bar = match scenario.work.workload {
            Workload::PeerMemoryWrite(_) => Some(CARD_MEMORY_BAR),
            _ if channel.kind == channel_word(Kind::Peer) => Some(1),
            _ => None,
        };
        let target = match bar {
            Some(bar) => {
                let receiver = host.tree.find(&ends.cards[1].name);
                let mut bars = receiver.into_iter().flat_map(|function| &function.bars);
                bars.find(|found| found.index == usize::from(bar)).map(|bar| bar.base)
            }
            None => Some(BusAddress(host.buffers.start)),
        };
        let is_long = target.is_some_and(|address| address.needs_four_dw_header());
        let tlps = DataTlps {
            tlps: u64::from(channel.tlps),
            data_bytes: channel.bytes,
            wire_payload_bytes: channel.bytes,
            header_dw: if is_long { 4 } else { 3 },
        };
        return Some((Carrier::Writes, tlps));
    }
    let root = &lab.file().hosts[ends.host].part.parameters;
    let of_peer = matches!(scenario.work.workload, Workload::PeerRead(_));
    let (source, reader) = match of_peer {
        true => (ends.cards[0].node, &ends.cards[1]),
        false => (ends.memory.node, &ends.cards[0]),
    };
    let path = route(fabric, source, reader.node, Cargo::Completions);
    let (port, _) = fabric.direction_ends(path[0]);
    let payload_bytes = fabric.port(port).config.max_payload_bytes();
    let requests = route(fabric, reader.node, source, Cargo::Requests);
    let reaches_root =
        |id: &DirectionId| fabric.port(fabric.direction_ends(*id).1).node == ends.memory.node;
    let through_root = requests.iter().any(reaches_root);
    let completer = match (of_peer, root.peer_reads.filter(|_| through_root)) {
        (false, _) => root.completer,
        // A card answers each read with the longest completions, or each line of it.
        (true, lines) => CompleterParameters {
            read_completion_boundary_bytes: lines.map_or(128, |_| 64),
            completion_bytes: lines.map_or(payload_bytes, |lines| lines.split_bytes),
            completion_cut: lines.map_or(CompletionCut::Longest, |_| CompletionCut::Aligned),
            short_read_bytes: 0,
            completion_single_share: 0.0,
            ..root.completer
        },
    };
    let card = host.tree.find(&reader.name);
    let longest = card.map_or(128, |function| {
        let parameters = &lab.file().endpoints;
        let card = parameters.iter().find(|endpoint| endpoint.name == function.name);
        let engine = card.and_then(|card| card.part.engine);
        engine.map_or(128, |engine| engine.max_read_bytes).min(function.max_read_request_bytes)
    });
    let options = scenario.work.workload.options();
    let longest = options.payload_bytes.unwrap_or(longest);
    // Slots lie behind each other from the beginning of a page on.
    let slots = u64::from(options.outstanding).min(options.iterations);
    let mut cuts = Cuts::default();
    let mut completions = Completions::new(completer, payload_bytes);
    for slot in 0..slots {
        let start = BusAddress(slot * options.size_bytes);
        cuts.read(start, options.size_bytes, longest, &mut completions);
    }
    let tlps = DataTlps {
        tlps: cuts.tlps,
        data_bytes: slots * options.size_bytes,
        wire_payload_bytes: cuts.payload_bytes,
        header_dw: COMPLETION_HEADER_DW,
    };
    Some((Carrier::Completions, tlps))
}
