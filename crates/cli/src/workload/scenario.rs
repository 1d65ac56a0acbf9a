// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One scenario: a lab with its engines is built, a workload runs in it through the driver, and
//! what happened is gathered.

use crosslane_bench::{
    BenchError, Carrier, Common, Flow, LatencyOptions, LinkUse, Measured, Options, RoundTrips,
    Together, Work, Workload, chain, latency, observed, together, why_not_faster,
};
use crosslane_driver::{Device, Place, Plan, set_max_payload_on_path};
use crosslane_fabric::{DirectionId, Fabric, IdleReason, LinkCounters};
use crosslane_lab::{Lab, LabBus, Simulation};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};

use super::ceiling::{FlowCeiling, data_tlps, flow_ceiling};
use super::ends::FlowEnds;
use super::watch::Watch;
use crate::error::CommandError;
use crate::link_use::{DirectionOutcome, direction_name};
use crate::perfetto::SharedTrace;
use crate::progress::Progress;
use crate::route::{Cargo, route};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    /// Card to host.
    Write(Options),
    /// Host to card.
    Read(Options),
    /// Card to card.
    Peer(Options),
    /// Host through cards to host.
    Chain(Options),
    /// Card to card and back.
    Latency(LatencyOptions),
}

impl Job {
    /// Bytes of one transfer or message.
    pub const fn size_bytes(&self) -> u64 {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => options.size_bytes,
            Self::Latency(options) => options.message_bytes as u64,
        }
    }

    /// Bytes that one flow moves.
    pub const fn total_bytes(&self) -> u64 {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => options.size_bytes.saturating_mul(options.iterations),
            Self::Latency(options) => (options.message_bytes as u64).saturating_mul(options.rounds),
        }
    }
}

/// What to run, and where.
pub struct Scenario<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// What.
    pub job: Job,
    /// Between whom.
    pub flows: &'a [FlowEnds],
    /// Everything random comes from it.
    pub seed: u64,
    /// Max_Payload_Size to be set first on the ways, bytes.
    pub max_payload_bytes: Option<u32>,
}

/// What came of one flow.
pub struct FlowOutcome {
    /// What was measured.
    pub measured: Measured,
    /// What it could reach.
    pub ceiling: Option<FlowCeiling>,
    /// Why it did not reach more.
    pub why: Vec<String>,
}

/// What a plan says of a rate, for the addresses and packets of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Of completions it is the most there can be: the completer may cut them shorter than the
    /// way allows, and nobody tells the driver.
    pub carrier: Carrier,
    /// Payload bytes per second.
    pub bytes_per_second: f64,
}

impl Expected {
    /// What a plan says of writes to where its path ends.
    pub const fn of_writes(plan: &Plan) -> Self {
        Self { carrier: Carrier::Writes, bytes_per_second: plan.expected_bytes_per_second }
    }
}

impl FlowOutcome {
    /// What its plan says of its rate.
    pub fn expected(&self) -> Expected {
        let plan = &self.measured.plan;
        let is_read = matches!(self.measured.workload, Workload::Read | Workload::Chain);
        let carrier = if is_read { Carrier::Completions } else { Carrier::Writes };
        // The plan alone takes host memory to be below 4 GiB.
        let is_high = self.ceiling.as_ref().is_some_and(|ceiling| ceiling.tlps.header_dw == 4);
        let bytes_per_second = if self.measured.workload == Workload::Write && is_high {
            plan.expected_at(BusAddress(1 << 32))
        } else {
            plan.expected_bytes_per_second
        };
        Expected { carrier, bytes_per_second }
    }

    /// The rate by the engine's timers as a share of the ceiling less DLLPs.
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling.as_ref()?.ceiling.less_dllps_bytes_per_second;
        (ceiling > 0.0).then(|| self.measured.hardware_bytes_per_second() / ceiling)
    }
}

/// What came of a scenario.
pub struct Outcome {
    /// What was run.
    pub job: Job,
    /// Flow by flow; none of a latency, or where the run failed.
    pub flows: Vec<FlowOutcome>,
    /// Of a latency.
    pub round_trips: Option<RoundTrips>,
    /// While all of several flows were active.
    pub common: Option<Common>,
    /// Every direction that data crossed, counted over `span`.
    pub directions: Vec<DirectionOutcome>,
    /// The time in which data moved; of several flows, the time in which all did.
    pub span: Picoseconds,
    /// Simulated time at the end.
    pub simulated: Picoseconds,
    /// Ports that were set to another Max_Payload_Size.
    pub ports_set: Vec<String>,
    /// What went wrong, a sentence each; no more than the fabric keeps.
    pub errors: Vec<String>,
    /// How many errors there were.
    pub error_count: u64,
}

/// What the driver's side brought.
enum Brought {
    Flows(Together),
    RoundTrips(RoundTrips),
}

impl Scenario<'_> {
    /// Runs the scenario.
    ///
    /// # Errors
    /// A lab that cannot be built, and a Max_Payload_Size that cannot be set. What goes wrong in
    /// the run is part of the outcome.
    pub fn run(
        &self,
        progress: &Progress,
        trace: Option<&SharedTrace>,
    ) -> Result<Outcome, CommandError> {
        let simulation = Simulation::new(self.lab.build_engines(self.seed)?);
        if let Some(trace) = trace {
            simulation.with_fabric(|fabric| fabric.set_trace(trace.sink()));
        }
        let ports_set = self.set_payloads(&simulation)?;
        let ways = simulation.with_fabric(|fabric| self.ways(fabric));
        let arriving: Vec<DirectionId> =
            ways.iter().filter_map(|way| way.last().copied()).collect();
        let mut directions: Vec<DirectionId> = Vec::new();
        for direction in ways.iter().flatten() {
            if !directions.contains(direction) {
                directions.push(*direction);
            }
        }
        let bytes = self.job.total_bytes().saturating_mul(self.flows.len() as u64);
        let watch = Watch::new(&simulation, directions, &arriving, bytes, progress);
        let ran = simulation.run("bench", self.drive(&simulation, &watch));
        let mut errors = Vec::new();
        let brought = match ran {
            Ok(Ok(brought)) => {
                // What is still on its way, such as credits, comes to its end.
                if let Err(stuck) = simulation.finish() {
                    errors.push(stuck.to_string());
                }
                Some(brought)
            }
            Ok(Err(error)) => {
                errors.push(error.to_string());
                None
            }
            Err(stuck) => {
                errors.push(stuck.to_string());
                None
            }
        };
        watch.end();
        simulation.with_fabric(|fabric| drop(fabric.take_trace()));
        Ok(self.gather(&simulation, &watch, &ways, brought, ports_set, errors))
    }

    fn bus(&self, simulation: &Simulation, flow: &FlowEnds) -> LabBus {
        simulation.bus(HostId(flow.host as u16))
    }

    /// The ways between neighbours of a flow, as the driver names places.
    fn set_payloads(&self, simulation: &Simulation) -> Result<Vec<String>, CommandError> {
        let Some(bytes) = self.max_payload_bytes else { return Ok(Vec::new()) };
        let mut ports = Vec::new();
        for flow in self.flows {
            let bus = self.bus(simulation, flow);
            let tree = &simulation.hosts()[flow.host].tree;
            let mut places: Vec<Place> = flow
                .cards
                .iter()
                .filter_map(|card| tree.find(&card.name))
                .map(|function| Place::Function(function.routing_id))
                .collect();
            match self.job {
                Job::Write(_) => places.push(Place::HostMemory),
                Job::Read(_) => places.insert(0, Place::HostMemory),
                Job::Chain(_) => {
                    places.insert(0, Place::HostMemory);
                    places.push(Place::HostMemory);
                }
                Job::Peer(_) | Job::Latency(_) => {}
            }
            for pair in places.windows(2) {
                let set = set_max_payload_on_path(&bus, pair[0], pair[1], bytes)
                    .map_err(|error| CommandError::Usage(format!("--mps {bytes}: {error}")))?;
                for port in set {
                    if !ports.contains(&port) {
                        ports.push(port);
                    }
                }
            }
        }
        Ok(ports)
    }

    /// The directions that each flow's data cross, in order.
    fn ways(&self, fabric: &Fabric) -> Vec<Vec<DirectionId>> {
        let way = |flow: &FlowEnds| {
            let (host, first) = (flow.memory.node, flow.cards[0].node);
            let mut way = match self.job {
                Job::Read(_) | Job::Chain(_) => route(fabric, host, first, Cargo::Completions),
                Job::Write(_) | Job::Peer(_) | Job::Latency(_) => Vec::new(),
            };
            for pair in flow.cards.windows(2) {
                way.extend(route(fabric, pair[0].node, pair[1].node, Cargo::Requests));
            }
            if matches!(self.job, Job::Write(_) | Job::Chain(_)) {
                let last = flow.cards[flow.cards.len() - 1].node;
                way.extend(route(fabric, last, host, Cargo::Requests));
            }
            way
        };
        self.flows.iter().map(way).collect()
    }

    /// The host's program: opens the devices and runs the workload.
    async fn drive(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
    ) -> Result<Brought, BenchError> {
        let mut opened: Vec<(RoutingId, usize, Device<LabBus>)> = Vec::new();
        let mut cards = Vec::new();
        for flow in self.flows {
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
                    let device = Device::open(self.bus(simulation, flow), id).await?;
                    opened.push((id, flow.host, device.clone()));
                    device
                };
                devices.push(device);
            }
            cards.push(devices);
        }
        match self.job {
            Job::Latency(options) => {
                Ok(Brought::RoundTrips(latency(&cards[0][0], &cards[0][1], &options).await?))
            }
            Job::Chain(options) => {
                let bus = cards[0][0].bus().clone();
                let measured = observed(bus, watch, chain(&cards[0], &options)).await?;
                Ok(Brought::Flows(Together { flows: vec![measured], common: None }))
            }
            Job::Write(options) | Job::Read(options) | Job::Peer(options) => {
                let flows: Vec<Flow<LabBus>> = (0..)
                    .zip(&cards)
                    .map(|(core, devices)| Flow { work: self.work(devices), core, options })
                    .collect();
                Ok(Brought::Flows(together(&flows, watch).await?))
            }
        }
    }

    fn work(&self, devices: &[Device<LabBus>]) -> Work<LabBus> {
        let first = devices[0].clone();
        match self.job {
            Job::Write(_) => Work::Write(first),
            Job::Read(_) => Work::Read(first),
            _ => Work::Peer { from: first, to: devices[1].clone() },
        }
    }

    fn gather(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
        ways: &[Vec<DirectionId>],
        brought: Option<Brought>,
        ports_set: Vec<String>,
        mut errors: Vec<String>,
    ) -> Outcome {
        let (found, found_count) =
            simulation.with_fabric(|fabric| (first_errors(fabric), fabric.error_count()));
        let mut outcome = Outcome {
            job: self.job,
            flows: Vec::new(),
            round_trips: None,
            common: None,
            directions: Vec::new(),
            span: Picoseconds::ZERO,
            simulated: simulation.now(),
            ports_set,
            errors: Vec::new(),
            error_count: 0,
        };
        match brought {
            None => {}
            Some(Brought::RoundTrips(round_trips)) => {
                errors.extend(wrong_words(&round_trips.name, round_trips.data_errors.words));
                outcome.round_trips = Some(round_trips);
            }
            Some(Brought::Flows(together)) => {
                for flow in &together.flows {
                    errors.extend(wrong_words(&flow.name, flow.data_errors.words));
                }
                let (from, to) = span_of(&together);
                if let Some((counted, span)) = watch.between(from, to) {
                    outcome.span = span;
                    outcome.directions = directions_of(simulation, watch, ways, &counted);
                }
                outcome.common = together.common.filter(|_| together.flows.len() > 1);
                let flows = together.flows.into_iter().zip(self.flows).zip(ways);
                outcome.flows = flows
                    .map(|((measured, ends), way)| {
                        self.flow_outcome(simulation, watch, measured, ends, way)
                    })
                    .collect();
            }
        }
        outcome.error_count = found_count + errors.len() as u64;
        // What a port has found comes first: it is the reason for what follows.
        errors.splice(0..0, found);
        outcome.errors = errors;
        outcome
    }

    fn flow_outcome(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
        measured: Measured,
        ends: &FlowEnds,
        way: &[DirectionId],
    ) -> FlowOutcome {
        let (from, to) = moving(&measured);
        let Some((counted, span)) = watch.between(from, to) else {
            return FlowOutcome { measured, ceiling: None, why: Vec::new() };
        };
        let counters = |id: &DirectionId| {
            let index = watch.directions.iter().position(|other| other == id);
            index.map_or_else(LinkCounters::default, |index| counted[index])
        };
        let way_counters: Vec<(DirectionId, LinkCounters)> =
            way.iter().map(|id| (*id, counters(id))).collect();
        let (carrier, tlps) = data_tlps(self.lab, &self.job, simulation, &measured, ends);
        let ceiling = flow_ceiling(simulation, ends, &way_counters, span, carrier, tlps);
        // The busiest direction is the one that bounds, alone or shared.
        let uses = simulation.with_fabric(|fabric| {
            let link_use = |id: &DirectionId| link_use(fabric, *id, &counters(id), span);
            way.iter().map(link_use).collect::<Vec<_>>()
        });
        let busiest = uses.iter().min_by(|a, b| a.idle_share().total_cmp(&b.idle_share()));
        let why = why_not_faster(&measured, busiest);
        FlowOutcome { measured, ceiling, why }
    }
}

/// The first error of each kind that each port has detected: thousands may follow that say the
/// same of the next packet.
fn first_errors(fabric: &Fabric) -> Vec<String> {
    let mut seen = Vec::new();
    let mut sentences = Vec::new();
    for error in fabric.errors() {
        let key = (error.port, std::mem::discriminant(&error.kind));
        if !seen.contains(&key) {
            seen.push(key);
            sentences.push(error.to_string());
        }
    }
    sentences
}

fn wrong_words(name: &str, words: u64) -> Option<String> {
    (words > 0).then(|| format!("{name}: {words} words of the data that arrived are wrong"))
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

fn directions_of(
    simulation: &Simulation,
    watch: &Watch<'_>,
    ways: &[Vec<DirectionId>],
    counted: &[LinkCounters],
) -> Vec<DirectionOutcome> {
    simulation.with_fabric(|fabric| {
        let direction = |(&id, counters): (&DirectionId, &LinkCounters)| DirectionOutcome {
            id,
            name: direction_name(fabric, id),
            rate: fabric.link(id.link).parameters.rate,
            counters: *counters,
            data_of: (0..ways.len()).filter(|flow| ways[*flow].contains(&id)).collect(),
        };
        watch.directions.iter().zip(counted).map(direction).collect()
    })
}

fn link_use(
    fabric: &Fabric,
    id: DirectionId,
    counters: &LinkCounters,
    span: Picoseconds,
) -> LinkUse {
    let idle =
        |reason: IdleReason| (reason.to_string(), Picoseconds(counters.idle_ps[reason as usize]));
    LinkUse {
        name: direction_name(fabric, id),
        rate: fabric.link(id.link).parameters.rate,
        span,
        dllp_bytes: counters.dllp_bytes,
        idle: IdleReason::ALL.into_iter().map(idle).filter(|(_, time)| time.0 > 0).collect(),
    }
}
