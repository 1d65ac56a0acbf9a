// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver: a lab with its engines is built, a workload runs in it, and what
//! happened is gathered.

use std::sync::Arc;

use crosslane_driver::{Device, PathEnd, set_max_payload_on_path};
use crosslane_fabric::DirectionId;
use crosslane_fabric::trace::TraceSink;
use crosslane_lab::{CheckedRun, Lab, LabBus, Simulation};
use crosslane_pcie::units::{HostId, RoutingId};
use crosslane_results::Figure;

use super::ends::FlowEnds;
use super::outcome::{WorkloadOutcome, one_way_of, rate_of};
use super::segments::{Segment, segments};
use super::watch::Watch;
use super::{Measurement, Workload};
use crate::error::{BenchError, ScenarioError};
use crate::progress::Progress;
use crate::together::{NoObserver, Observer};

/// Reason for which a program has brought nothing.
#[derive(Debug)]
pub(super) enum Unfinished {
    /// It was interrupted.
    Interrupted,
    /// It failed.
    Failed(BenchError),
}

/// A run of engines through the driver in a lab.
#[derive(Clone, Debug)]
pub struct WorkloadRun {
    /// The lab.
    pub lab: Arc<Lab>,
    /// The workload.
    pub workload: Workload,
    /// The ends of its flows.
    pub flows: Vec<FlowEnds>,
    /// Random seed.
    pub seed: u64,
    /// Max_Payload_Size to be set first on the ways, bytes.
    pub max_payload_bytes: Option<u32>,
    /// A diagnosis: Acks and UpdateFCs take no time on the wires.
    pub dllps_free: bool,
}

impl WorkloadRun {
    /// A run with seed 1, in which no port is set to another payload first.
    #[must_use]
    pub const fn new(lab: Arc<Lab>, workload: Workload, flows: Vec<FlowEnds>) -> Self {
        Self { lab, workload, flows, seed: 1, max_payload_bytes: None, dllps_free: false }
    }

    /// Returns the bytes that the flows are to move, at most `u64::MAX`.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.workload.total_bytes().saturating_mul(self.flows.len() as u64)
    }

    /// Makes the run; `trace` gets what happens in it.
    ///
    /// # Errors
    /// A lab that cannot be built, a Max_Payload_Size that cannot be set, and an interruption. What
    /// goes wrong in the run is part of the outcome.
    pub fn run(
        &self,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<WorkloadOutcome, ScenarioError> {
        let run = self.begin()?;
        let simulation = run.simulation();
        if let Some(trace) = trace {
            simulation.with_fabric(|fabric| fabric.set_trace(trace));
        }
        let ports_set = self.set_payloads(simulation)?;
        let ways: Vec<Vec<Segment>> = simulation.with_fabric(|fabric| {
            self.flows.iter().map(|flow| segments(fabric, &self.workload, flow)).collect()
        });
        let mut directions: Vec<DirectionId> = Vec::new();
        for direction in ways.iter().flatten().flat_map(|segment| &segment.way) {
            if !directions.contains(direction) {
                directions.push(*direction);
            }
        }
        let mut arriving: Vec<DirectionId> = Vec::new();
        for direction in ways.iter().filter_map(|way| way.last()?.way.last()) {
            if !arriving.contains(direction) {
                arriving.push(*direction);
            }
        }
        let watch = Watch::new(simulation, directions, arriving, self.total_bytes(), progress);
        let ending = run.run_to_errors("bench", async {
            let brought = watch.unless_over(self.drive(simulation, &watch)).await;
            brought.ok_or(Unfinished::Interrupted)?.map_err(Unfinished::Failed)
        });
        watch.end();
        simulation.with_fabric(|fabric| drop(fabric.take_trace()));
        if matches!(ending.program, Ok(Err(Unfinished::Interrupted))) {
            return Err(ScenarioError::Interrupted);
        }
        Ok(self.gather(simulation, &watch, &ways, ending, ports_set))
    }

    /// Makes the run without looking at its links, and returns its figure alone: the rate of all
    /// flows together as the application sees it, from the first post to the last completion, or
    /// the typical latency one way.
    ///
    /// # Errors
    /// A lab that cannot be built, a Max_Payload_Size that cannot be set, and anything that goes
    /// wrong in the run.
    pub fn figure(&self) -> Result<Figure, ScenarioError> {
        let run = self.begin()?;
        let simulation = run.simulation();
        self.set_payloads(simulation)?;
        let ended = run.run("bench", self.drive(simulation, &NoObserver));
        let brought = ended.map_err(|error| ScenarioError::Failed(error.to_string()))?.value;
        if let Some(error) = brought.wrong_data().into_iter().next() {
            return Err(ScenarioError::Failed(error));
        }
        Ok(match brought {
            Measurement::Flows(together) => rate_of(&together.flows.iter().collect::<Vec<_>>()),
            Measurement::RoundTrips(round_trips) => one_way_of(&round_trips),
        })
    }

    fn begin(&self) -> Result<CheckedRun, ScenarioError> {
        let run = CheckedRun::new(&self.lab, self.seed)?;
        run.simulation().with_fabric(|fabric| fabric.set_dllps_free(self.dllps_free));
        Ok(run)
    }

    fn bus(&self, simulation: &Simulation, flow: &FlowEnds) -> LabBus {
        simulation.bus(HostId(flow.host as u16))
    }

    /// The ways between neighbours of a flow, as the driver names places.
    fn set_payloads(&self, simulation: &Simulation) -> Result<Vec<String>, ScenarioError> {
        let Some(bytes) = self.max_payload_bytes else { return Ok(Vec::new()) };
        let mut ports = Vec::new();
        for flow in &self.flows {
            let bus = self.bus(simulation, flow);
            let tree = &simulation.hosts()[flow.host].tree;
            let mut places: Vec<PathEnd> = flow
                .cards
                .iter()
                .filter_map(|card| tree.find(&card.name))
                .map(|function| PathEnd::Function(function.routing_id))
                .collect();
            match self.workload {
                Workload::Write(_) => places.push(PathEnd::HostMemory),
                Workload::Read(_) => places.insert(0, PathEnd::HostMemory),
                Workload::Chain(_) => {
                    places.insert(0, PathEnd::HostMemory);
                    places.push(PathEnd::HostMemory);
                }
                Workload::Peer(_) | Workload::Latency(_) => {}
            }
            for pair in places.windows(2) {
                let set =
                    set_max_payload_on_path(&bus, pair[0], pair[1], bytes).map_err(|error| {
                        ScenarioError::MaxPayload { bytes, problem: error.to_string() }
                    })?;
                for port in set {
                    if !ports.contains(&port) {
                        ports.push(port);
                    }
                }
            }
        }
        Ok(ports)
    }

    /// The host's program: opens the devices and runs the workload.
    async fn drive(
        &self,
        simulation: &Simulation,
        observer: &impl Observer,
    ) -> Result<Measurement, BenchError> {
        let mut opened: Vec<(RoutingId, usize, Device<LabBus>)> = Vec::new();
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
                    let device = Device::open(self.bus(simulation, flow), id).await?;
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
