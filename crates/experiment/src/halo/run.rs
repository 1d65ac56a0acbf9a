// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nearest-neighbour exchange between all nodes of a torus: of a lab, beside the rates that its
//! links allow, or of cards on one bus.

use std::sync::{Arc, Mutex};

use crosslane_driver::network_processor::{Modes, TorusDimension};
use crosslane_fabric::trace::TraceSink;
use crosslane_host::{AnyBus, ErrorKind, lock};
use crosslane_lab::file::{HostBuffers, TorusInstance};
use crosslane_lab::parts::{Carrier, TraceHash, TraceHasher};
use crosslane_lab::{
    CheckedRun, Division, Ending, Lab, Part, Progress, RunError, Simulation, Stuck, WhyStuck,
};
use crosslane_pcie::ceiling::write_ceiling_bytes_per_second;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Better, Detail, Exchange, Figure, Flow};
use crosslane_torus::{Coordinates, Node, NodeOptions};
use futures_util::future::try_join_all;

use super::{HaloMeasured, HaloNode, HaloOptions, Numbers};
use crate::error::{ExperimentError, Result};
use crate::nget::host_of;
use crate::scenario::{Outcome, PartSink, Scenario, Work, execute_well, unless_over};

/// Longest simulated time of a run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);

/// Outcome of exchanges.
#[derive(Clone, Debug, PartialEq)]
pub struct HaloOutcome {
    /// Sizes of the torus.
    pub sizes: Vec<u16>,
    /// Measurements of the nodes.
    pub nodes: Vec<HaloMeasured>,
    /// Time of an exchange: from when all nodes of a lab, or the first card, have begun, until the
    /// slowest node has ended.
    pub exchange: Picoseconds,
    /// Directions in which a node has neighbours.
    pub directions: usize,
    /// Bytes that a node sends in an exchange, and receives.
    pub node_bytes: u64,
    /// Bytes of the largest face.
    pub face_bytes: u64,
    /// Payload that a torus link carries, bytes per second, one way; of a lab.
    pub link_rate: Option<f64>,
    /// Payload that the host's link carries towards the host, in the engine's writes; of a lab.
    pub host_rate: Option<f64>,
    /// Time at the end.
    pub now: Picoseconds,
    /// Hash of the trace, if it was wanted; of a lab.
    pub trace: Option<TraceHash>,
}

impl HaloOutcome {
    /// Puts the measurements of nodes together; `place` is that of the first. The time counts from
    /// `begun`.
    fn of(
        options: &HaloOptions,
        place: &Coordinates,
        begun: Picoseconds,
        nodes: Vec<HaloMeasured>,
    ) -> Self {
        let ended = nodes.iter().filter_map(|node| node.ended.last().copied()).max();
        let ended = ended.unwrap_or(begun);
        let faces = place.directions();
        let bytes: Vec<u64> =
            faces.map(|direction| options.face_bytes(direction.dimension().into())).collect();
        Self {
            sizes: place.dimensions().iter().map(|dimension| dimension.size).collect(),
            exchange: Picoseconds(ended.since(begun).0 / u64::from(options.exchanges.max(1))),
            directions: bytes.len(),
            node_bytes: bytes.iter().sum(),
            face_bytes: bytes.iter().copied().max().unwrap_or(0),
            link_rate: None,
            host_rate: None,
            nodes,
            now: ended,
            trace: None,
        }
    }

    /// Returns the sizes of the torus in words: `4 x 2`.
    pub fn name(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u16::to_string).collect();
        sizes.join(" x ")
    }

    /// Returns the outcome as plain data.
    fn flow(&self) -> Flow {
        let exchanges = self.nodes.first().map_or(0, |node| node.ended.len()) as u32;
        let (buffers_compared, buffers_wrong) = self.checked();
        Flow {
            name: self.name(),
            bytes: self.node_bytes,
            iterations: exchanges.into(),
            bytes_per_second: Some(self.node_bytes_per_second()),
            detail: Detail::Exchange(Exchange {
                nodes: self.nodes.len(),
                sizes: self.sizes.clone(),
                exchange_ns: self.exchange.as_ns(),
                buffers_compared,
                buffers_wrong,
                elapsed_ns: self.exchange.as_ns() * f64::from(exchanges),
                directions: self.directions,
                face_bytes: self.face_bytes,
                link_bytes_per_second: self.link_bytes_per_second(),
                link_rate_bytes_per_second: self.link_rate,
                host_rate_bytes_per_second: self.host_rate,
            }),
            ..Flow::default()
        }
    }

    /// Returns the numbers of faces that were compared and that were wrong.
    pub fn checked(&self) -> (u64, u64) {
        let nodes = self.nodes.iter();
        nodes.fold((0, 0), |(checked, wrong), one| (checked + one.checked, wrong + one.wrong))
    }

    /// Returns the rate of the link with the largest face, bytes per second.
    pub fn link_bytes_per_second(&self) -> f64 {
        self.face_bytes as f64 / self.exchange.as_seconds()
    }

    /// Returns the rate to each host, bytes per second.
    pub fn node_bytes_per_second(&self) -> f64 {
        self.node_bytes as f64 / self.exchange.as_seconds()
    }
}

impl Outcome for HaloOutcome {
    fn result(&self) -> crosslane_results::ScenarioResult {
        self.flow().into()
    }

    fn figure(&self) -> Option<Figure> {
        Some(Figure { value: self.node_bytes_per_second(), better: Better::Higher })
    }

    fn simulated(&self) -> Picoseconds {
        self.now
    }

    fn details(&self) -> String {
        let line = |hash| format!("trace of {}: {hash}\n", self.name());
        self.trace.map(line).unwrap_or_default()
    }

    fn wrong_data(&self) -> Option<String> {
        let wrong = self.checked().1;
        (wrong > 0).then(|| format!("{wrong} messages with wrong data"))
    }
}

/// Exchanges between all nodes of a lab with one torus. All faces are compared.
impl Work for HaloOptions {
    type Outcome = HaloOutcome;

    fn name(&self, lab: &Lab) -> String {
        let nodes = lab.file().tori.first().map_or(0, |torus| torus.nodes.len());
        format!("halo, {nodes} nodes")
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<HaloOutcome> {
        let (lab, work, name) = (&scenario.lab, scenario.work, scenario.name());
        let [torus] = &lab.file().tori[..] else {
            let problem = format!("lab {} does not have one torus", lab.name());
            return Err(ExperimentError::run(&name, problem));
        };
        let hash = work.trace_hash.then(Arc::<Mutex<TraceHash>>::default);
        let hashed = |part: Option<&Part>, next| match &hash {
            Some(hash) => Some(Box::new(TraceHasher::new(hash.clone(), part, next)) as Box<_>),
            None => next,
        };
        let (nodes, now) = match (&scenario.carrier, work.threads) {
            (Some(carrier), _) => scenario.in_processes(carrier, progress, trace, hash.clone())?,
            (None, 0 | 1) => {
                let run = scenario.begin(hashed(None, trace))?.with_limit(TIME_LIMIT);
                let all: Vec<u16> = (0..).take(torus.nodes.len()).collect();
                let program = scenario.exchanges(run.simulation(), &all);
                let (ended, now) = execute_well(&run, &name, progress, program)?;
                (ended.into_iter().map(|(_, measured)| measured).collect(), now)
            }
            (None, threads) => scenario.in_parts(threads as usize, progress, trace, &hashed)?,
        };
        // Nodes that are all alike are ready at the same time.
        let begun = nodes.iter().map(|node| node.begun).max().unwrap_or_default();
        Ok(HaloOutcome {
            link_rate: Some(torus.parameters.payload_bytes_per_second()),
            host_rate: Some(scenario.host_rate()),
            now,
            trace: hash.map(|hash| *lock(&hash)),
            ..HaloOutcome::of(&work, &scenario.place(0), begun, nodes)
        })
    }
}

impl Scenario<HaloOptions> {
    /// Makes the exchanges of nodes of the torus, each from the time at which the node is ready.
    async fn exchanges(
        &self,
        simulation: &Simulation,
        numbers: &[u16],
    ) -> Result<Vec<(HaloNode, HaloMeasured)>> {
        let processors = &self.lab.file().tori[0].nodes;
        let node_options = NodeOptions::default().with_modes(Modes::FASTEST);
        let mut exchanges = Vec::new();
        for &number in numbers {
            let processor = processors[usize::from(number)].clone();
            let (bus, options) = (simulation.bus(host_of(simulation, &processor)?), self.work);
            let place = self.place(number);
            let exchange = async move {
                let node = Node::open(bus, &processor, place, node_options).await?;
                let node = HaloNode::prepare(node, options).await?;
                let measured = node.exchange().await?;
                Ok::<_, ExperimentError>((node, measured))
            };
            exchanges.push(simulation.spawn(&format!("node {number}"), exchange));
        }
        try_join_all(exchanges).await
    }

    /// Makes the exchanges of a part.
    fn part(
        &self,
        part: &Part,
        run: &CheckedRun,
        progress: &dyn Progress,
    ) -> Ending<Vec<HaloMeasured>, ExperimentError> {
        let exchanges = self.exchanges(run.simulation(), part.nodes());
        let ending = run.run_to_errors(&self.name(), async {
            let done = unless_over(exchanges, || progress.is_over()).await;
            done.unwrap_or(Err(ExperimentError::Interrupted))
        });
        ending.map(|ended| ended.into_iter().map(|(_, measured)| measured).collect())
    }

    /// Makes all exchanges on several threads. Also returns the time at the end.
    fn in_parts(
        &self,
        threads: usize,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
        hashed: &PartSink<'_>,
    ) -> Result<(Vec<HaloMeasured>, Picoseconds)> {
        let division = self.lab.divide(threads)?;
        let program = |part: &Part, run: &CheckedRun| self.part(part, run, progress);
        let (parts, now) =
            self.execute_parts(&division, TIME_LIMIT, progress, trace, hashed, program)?;
        Ok((in_order(&division, parts), now))
    }

    /// Makes all exchanges in several processes, one part here. Also returns the time at the end.
    /// All processes return the same.
    fn in_processes(
        &self,
        carrier: &Arc<dyn Carrier>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
        hash: Option<Arc<Mutex<TraceHash>>>,
    ) -> Result<(Vec<HaloMeasured>, Picoseconds)> {
        if trace.is_some() {
            let problem = "a trace is not gathered from several processes";
            return Err(ExperimentError::refused(self.name(), problem));
        }
        let division = self.lab.divide(carrier.names().len())?;
        let program = |part: &Part, run: &CheckedRun| {
            let here = Arc::<Mutex<TraceHash>>::default();
            if hash.is_some() {
                let hasher = TraceHasher::new(here.clone(), Some(part), None);
                self.set_up(run, Some(Box::new(hasher)));
            } else {
                self.set_up(run, None);
            }
            let ending = self.part(part, run, progress);
            run.simulation().with_fabric(|fabric| drop(fabric.take_trace()));
            let TraceHash { sum, records } = *lock(&here);
            ending.map(|nodes| {
                let nodes: Vec<Numbers> = nodes.into_iter().map(Numbers::from).collect();
                (nodes, sum, records)
            })
        };
        let program = |part: &Part, run: CheckedRun| program(part, &run.with_limit(TIME_LIMIT));
        let outcome = division.run_between(carrier, self.seed, progress, program)?;
        let ended = outcome.map_err(|error| match error {
            RunError::Program(reason) if reason.kind() == ErrorKind::Cancelled => {
                ExperimentError::Interrupted
            }
            RunError::Stuck(Stuck { why: WhyStuck::Ended, .. }) => ExperimentError::Interrupted,
            error => ExperimentError::run(&self.name(), error),
        })?;
        let (mut parts, mut sum) = (Vec::new(), TraceHash::default());
        for (nodes, hash, records) in ended.value {
            sum.add(TraceHash { sum: hash, records });
            parts.push(nodes.into_iter().map(HaloMeasured::from).collect());
        }
        hash.iter().for_each(|hash| *lock(hash) = sum);
        Ok((in_order(&division, parts), ended.ended))
    }

    /// Returns the place of a node in the torus.
    fn place(&self, number: u16) -> Coordinates {
        place_in(&self.lab.file().tori[0], number)
    }

    /// Returns the payload that the link of the first node carries in writes to its host.
    fn host_rate(&self) -> f64 {
        let file = self.lab.file();
        let name = &file.tori[0].nodes[0];
        let link = file.links.iter().find(|link| link.lower == *name);
        let endpoint = file.endpoints.iter().find(|endpoint| endpoint.name == *name);
        let host = link.and_then(|link| file.hosts.iter().find(|host| host.name == link.upper));
        let (Some(link), Some(endpoint), Some(host)) = (link, endpoint, host) else { return 0.0 };
        let payload = endpoint.part.parameters.requester.max_write_bytes;
        let most = u32::from(host.part.port.capability.max_payload_bytes);
        let most = most.min(endpoint.part.port.capability.max_payload_bytes.into());
        let header_dw = match host.buffers {
            HostBuffers::Below4Gib => 3,
            HostBuffers::Above4Gib => 4,
        };
        let processor = endpoint.part.network_processor;
        let datagram = processor.map_or(most, |processor| processor.payload_bytes());
        let payload = payload.min(most).min(datagram);
        write_ceiling_bytes_per_second(link.parameters.rate, header_dw, payload)
    }
}

/// Returns the place of a node in the torus of a lab.
pub(crate) fn place_in(torus: &TorusInstance, number: u16) -> Coordinates {
    let torus = &torus.torus;
    let dimensions = torus.dimensions().iter().zip(torus.position(number));
    let dimensions = dimensions.map(|(dimension, position)| TorusDimension {
        size: dimension.size,
        position,
        is_open: !dimension.wraps,
    });
    Coordinates::new(&dimensions.collect::<Vec<_>>())
}

/// Returns the place of a card in the torus that cards make.
pub(crate) fn place_among(number: u16, sizes: &[u16], is_open: bool) -> Coordinates {
    let closed = Coordinates::of_node(number, sizes);
    let dimensions = closed.dimensions().iter();
    let dimensions = dimensions.map(|dimension| TorusDimension { is_open, ..*dimension });
    Coordinates::new(&dimensions.collect::<Vec<_>>())
}

/// Returns the measurements of all nodes in order.
fn in_order(division: &Division, parts: Vec<Vec<HaloMeasured>>) -> Vec<HaloMeasured> {
    let numbers = division.parts().iter().flat_map(Part::nodes);
    let mut nodes: Vec<_> = numbers.zip(parts.into_iter().flatten()).collect();
    nodes.sort_by_key(|(number, _)| **number);
    nodes.into_iter().map(|(_, measured)| measured).collect()
}

/// Runs exchanges between the network processors of one bus, which are the nodes of a torus in
/// order, the first dimension counting fastest. The torus is open if no cable leads from the last
/// node of a row to its first. Each node comes with the modes of its driver.
///
/// # Errors
/// No such network processor, links that do not come up, or a failure of the run.
pub async fn halo_on(
    bus: &AnyBus,
    nodes: &[(&str, Modes)],
    sizes: &[u16],
    is_open: bool,
    options: HaloOptions,
) -> Result<HaloOutcome> {
    let place = |number| place_among(number, sizes, is_open);
    let mut opened = Vec::new();
    for (number, &(name, modes)) in (0..).zip(nodes) {
        let node_options = NodeOptions::default().with_modes(modes);
        opened.push(Node::open(bus.clone(), name, place(number), node_options).await?);
    }
    // Links come up when both their ends are open.
    let nodes = opened.into_iter().map(|node| HaloNode::prepare(node, options));
    let nodes = try_join_all(nodes).await?;
    let measured = try_join_all(nodes.iter().map(HaloNode::exchange)).await?;
    for node in nodes {
        node.close().await?;
    }
    let begun = measured.iter().map(|node| node.begun).min().unwrap_or_default();
    Ok(HaloOutcome::of(&options, &place(0), begun, measured))
}
