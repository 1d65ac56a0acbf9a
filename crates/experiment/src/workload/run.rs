// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver: a lab with its engines is built, a workload runs in it, and the
//! outcome is gathered.

use std::cell::{Cell, RefCell};

use crosslane_driver::{Device, PathEnd, set_max_payload_on_path};
use crosslane_fabric::DirectionId;
use crosslane_fabric::trace::TraceSink;
use crosslane_lab::{Lab, LabBus, Progress, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};
use crosslane_results::{Figure, distinct};

use super::ends::FlowEnds;
use super::gather::gather;
use super::outcome::WorkloadOutcome;
use super::{Measurement, Workload};
use crate::error::{ExperimentError, Result};
use crate::route::{Segment, segments};
use crate::samples::Samples;
use crate::scenario::{Scenario, Work, execute};
use crate::together::{NoObserver, Observer};

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
        let run = scenario.begin(None)?;
        scenario.set_payloads(run.simulation())?;
        let program = scenario.work.drive(run.simulation(), &NoObserver);
        let ended = execute(&run, NAME, &(), program)?.into_result();
        let measured = ended.map_err(ExperimentError::failed)?.value;
        match measured.wrong_data().into_iter().next() {
            Some(wrong) => Err(ExperimentError::failed(wrong)),
            None => Ok(measured.figure()),
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
    /// Every so many questions a sample is taken.
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
        let (at, bytes) = self.simulation.with_fabric(|fabric| {
            let stride = self.stride.get();
            if asked.is_multiple_of(stride) && self.samples.borrow_mut().take(fabric) {
                self.stride.set(stride * 2);
            }
            let payload = |id: &DirectionId| fabric.counters(*id).payload_bytes;
            let bytes = self.arriving.iter().map(payload).sum();
            (fabric.now(), bytes)
        });
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
            let reads = matches!(workload, Workload::Read(_) | Workload::Chain(_));
            let writes = matches!(workload, Workload::Write(_) | Workload::Chain(_));
            let places: Vec<PathEnd> = (reads.then_some(PathEnd::HostMemory).into_iter())
                .chain(cards)
                .chain(writes.then_some(PathEnd::HostMemory))
                .collect();
            for pair in places.windows(2) {
                let set = set_max_payload_on_path(&bus(simulation, flow), pair[0], pair[1], bytes);
                let refused = |error: crosslane_driver::PlanError| ExperimentError::MaxPayload {
                    bytes,
                    problem: error.to_string(),
                };
                ports.extend(set.map_err(refused)?);
            }
        }
        Ok(distinct(ports))
    }
}

impl EngineWork {
    /// The host's program: opens the devices and runs the workload.
    async fn drive(
        &self,
        simulation: &Simulation,
        observer: &impl Observer,
    ) -> Result<Measurement> {
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
