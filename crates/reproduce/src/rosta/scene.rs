// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of experiments: a new lab for each, with one of the two engines, and host code that
//! uses only the driver's public interface.

use std::cell::RefCell;

use crosslane_driver::{
    DescriptorSource, Device, DriverError, Notification, PathEnd, set_max_payload_on_path,
};
use crosslane_experiment::{ExperimentError, Observer, Options, Registration, Verified};
use crosslane_fabric::{DirectionId, Fabric, LinkDirection, PortId};
use crosslane_host::{ErrorKind, FunctionInfo, PageSize, Reason, Topology};
use crosslane_lab::enumerate::set_max_payload;
use crosslane_lab::{Lab, LabBus, Simulation};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::{HostId, Picoseconds};

use super::devices::Direction;
use crate::context::Context;
use crate::error::{ReproduceError, Result};
use crate::published::PublishedFigures;
use crate::study::Effort;

/// Bytes of each transfer of the paper.
pub(super) const TRANSFER_BYTES: u64 = 4 << 20;
/// Bytes of a transfer in a sweep over constants.
const QUICK_TRANSFER_BYTES: u64 = 256 << 10;
/// Longest time of a transfer that is expected to fail.
pub(super) const SHORT_TIMEOUT: Picoseconds = Picoseconds::from_ns(1_000_000);
/// Interval between two readings of the shared channel.
const OBSERVER_INTERVAL: Picoseconds = Picoseconds::from_ns(5_000);

/// The engine in the FPGAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// The paper's: idle clocks, a gap, a table of descriptors, pages pinned in each system
    /// call, interrupts.
    Paper,
    /// This project's with its defaults: a ring, registered buffers, polling.
    Own,
}

impl Engine {
    pub(super) const ALL: [Self; 2] = [Self::Paper, Self::Own];

    /// Returns its name in tables.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Own => "our engine",
        }
    }

    /// Returns its suffix of a row's conditions.
    pub(super) const fn condition(self) -> &'static str {
        match self {
            Self::Paper => "",
            Self::Own => "; our engine",
        }
    }
}

/// The labs of both engines, and constants that all experiments use.
pub(super) struct Scene<'a> {
    context: &'a Context<'a>,
    own: Lab,
    /// Lab of this project's engine with the kind of engine that runs use.
    own_in_runs: Lab,
    pub(super) transfer_bytes: u64,
    pub(super) idle_clocks: u32,
    pub(super) datapath_bytes: u32,
    pub(super) partial_line_ns: String,
    pub(super) completion_bytes: u32,
}

impl<'a> Scene<'a> {
    /// Takes the labs of a context; with little effort, transfers are short enough for sweeps.
    ///
    /// # Errors
    /// A lab that lacks a constant.
    pub(super) fn new(context: &'a Context<'a>, effort: Effort) -> Result<Self> {
        let text = |path: &str| {
            let found = context.lab().constants().find(|constant| constant.path() == path);
            let found = found.map(|constant| constant.value.clone());
            found.ok_or_else(|| ReproduceError::experiment("lab rosta", format!("no {path}")))
        };
        let number = |path: &str| {
            let text = text(path)?;
            let parsed = text.parse().map_err(|_| format!("{path} is {text}"));
            parsed.map_err(|problem| ReproduceError::experiment("lab rosta", problem))
        };
        let own = context.variant("crosslane")?;
        Ok(Self {
            own_in_runs: own.clone().with_engines(context.own),
            own,
            transfer_bytes: match effort {
                Effort::Full => TRANSFER_BYTES,
                Effort::Quick => QUICK_TRANSFER_BYTES,
            },
            idle_clocks: number("part.v7.requester.idle_clocks_per_tlp")?,
            datapath_bytes: number("part.v7.requester.datapath_bytes")?,
            partial_line_ns: text("part.i7.memory.partial_line_ns")?,
            completion_bytes: number("part.i7.memory.completion_bytes")?,
            context,
        })
    }

    /// Returns the paper's figures.
    pub(super) fn figures(&self) -> &PublishedFigures {
        &self.context.figures
    }

    /// Returns the lab with that engine, as a model.
    pub(super) fn lab(&self, engine: Engine) -> &Lab {
        match engine {
            Engine::Paper => self.context.lab(),
            Engine::Own => &self.own,
        }
    }

    /// Returns the random seed.
    pub(super) fn seed(&self) -> u64 {
        self.context.seed
    }

    /// Returns an error if no more scenarios are wanted.
    pub(super) fn may_begin(&self) -> Result<()> {
        self.context.may_begin()
    }

    /// Reports the end of a scenario.
    pub(super) fn done(&self, scenario: &str, simulated: Picoseconds) {
        self.context.done(scenario, simulated);
    }

    /// Returns the transfer options of that engine's software.
    pub(super) fn options(&self, engine: Engine) -> Options {
        let options = Options::default().with_size_bytes(self.transfer_bytes);
        match engine {
            Engine::Own => options,
            Engine::Paper => options
                .with_descriptors(DescriptorSource::Table)
                .with_notification(Notification::Interrupt)
                .with_pages(PageSize::Small)
                .with_registration(Registration::Within)
                .with_system_call(true)
                .with_credits(false),
        }
    }

    /// Returns the same with memory that is registered in advance, for the checks and the chain:
    /// the paper gives no time for them that includes pinning.
    pub(super) fn registered(&self, engine: Engine) -> Options {
        self.options(engine).with_registration(Registration::Before)
    }

    /// Runs host code in a separate lab. Words that arrived wrong are an error, and so is an error
    /// that any port has detected.
    pub(super) fn run<T: Verified>(
        &self,
        engine: Engine,
        scenario: &str,
        work: impl AsyncFnOnce(Host<'_>) -> Result<T, ExperimentError>,
    ) -> Result<T> {
        let lab = match engine {
            Engine::Paper => self.context.lab(),
            Engine::Own => &self.own_in_runs,
        };
        let scenario = format!("{scenario}{}", engine.condition());
        let work = async |simulation: &Simulation| work(Host::of(simulation)).await;
        self.context.run_verified(&scenario, lab, work)
    }

    /// Runs host code with our engine in a separate lab; the ports may detect errors.
    pub(super) fn run_to_errors<T>(
        &self,
        scenario: &str,
        work: impl AsyncFnOnce(Host<'_>) -> Result<T, ExperimentError>,
    ) -> Result<T> {
        let scenario = format!("{scenario}{}", Engine::Own.condition());
        let work = async |simulation: &Simulation| work(Host::of(simulation)).await;
        let ending = self.context.run_to_errors(&scenario, &self.own_in_runs, work)?;
        let ended = ending.program.map_err(|stuck| ReproduceError::experiment(&scenario, stuck))?;
        ended.map_err(|error| ReproduceError::experiment(&scenario, error))
    }
}

/// One direction of a link.
pub(super) struct SentOnLink {
    /// The sending port.
    pub(super) from: String,
    /// The receiving port.
    pub(super) to: String,
    pub(super) rate: LinkRate,
    /// Bytes of DLLPs since the lab was built.
    pub(super) dllp_bytes: u64,
}

fn link_directions(fabric: &mut Fabric) -> Vec<SentOnLink> {
    let mut directions = Vec::new();
    for link in (0..).take(fabric.links().len()).map(crosslane_fabric::LinkId) {
        for heading in [LinkDirection::Down, LinkDirection::Up] {
            let id = DirectionId { link, heading };
            let (from, to) = fabric.direction_ends(id);
            let name = |port: PortId| fabric.port(port).name.clone();
            let (from, to) = (name(from), name(to));
            let rate = fabric.link(link).parameters.rate;
            let dllp_bytes = fabric.counters(id).dllp_bytes;
            directions.push(SentOnLink { from, to, rate, dllp_bytes });
        }
    }
    directions
}

/// The host of the lab, for the code of one scenario.
#[derive(Clone)]
pub(super) struct Host<'a> {
    simulation: &'a Simulation,
    bus: LabBus,
}

impl<'a> Host<'a> {
    fn of(simulation: &'a Simulation) -> Self {
        Self { simulation, bus: simulation.bus(HostId(0)) }
    }

    /// Returns the current state of every direction of every link.
    pub(super) fn links(&self) -> Vec<SentOnLink> {
        self.simulation.with_fabric(link_directions)
    }

    /// Opens FPGA `number`, 1 to 8.
    pub(super) async fn open(&self, number: u32) -> Result<Device, ExperimentError> {
        Ok(Device::open_by_name(self.bus.clone(), &format!("fpga{number}")).await?)
    }

    fn function(&self, name: &str) -> Result<FunctionInfo, ExperimentError> {
        let functions = self.bus.functions().map_err(crosslane_host::BusError::from)?;
        let found = functions.into_iter().find(|function| function.name == name);
        found.ok_or_else(|| ExperimentError::Refused {
            place: name.to_owned(),
            problem: "the lab has no such function".to_owned(),
        })
    }

    /// Sets Max_Payload_Size of the ports between two FPGAs, as `setpci` would.
    pub(super) fn set_payload_between(
        &self,
        from: u32,
        to: u32,
        bytes: u32,
    ) -> Result<(), ExperimentError> {
        let [from, to] =
            [self.function(&format!("fpga{from}"))?, self.function(&format!("fpga{to}"))?];
        let [from, to] = [from, to].map(|function| PathEnd::Function(function.id));
        set_max_payload_on_path(&self.bus, from, to, bytes).map_err(DriverError::from)?;
        Ok(())
    }

    /// Sets Max_Payload_Size of one port, as `setpci` would.
    pub(super) fn set_payload_of_port(
        &self,
        port: &str,
        bytes: u32,
    ) -> Result<(), ExperimentError> {
        let refused = |problem: Reason| ExperimentError::MaxPayload { bytes, problem };
        let found = self.simulation.find_port(port);
        let missing = || Reason::new(ErrorKind::NotFound, format!("the lab has no port {port}"));
        let found = found.ok_or_else(|| refused(missing()))?;
        let set = self.simulation.with_fabric(|fabric| set_max_payload(fabric, &[found], bytes));
        set.map_err(|error| refused(error.into()))
    }

    /// Sets whether Ack and UpdateFC DLLPs take no time.
    pub(super) fn set_dllps_free(&self, free: bool) {
        self.simulation.with_fabric(|fabric| fabric.set_dllps_free(free));
    }
}

/// Watches a shared link and the links of the devices that use it.
pub(super) struct PortObserver<'a> {
    host: Host<'a>,
    shared: Option<DirectionId>,
    devices: Vec<DirectionId>,
    samples: RefCell<Vec<(Picoseconds, Vec<u64>)>>,
}

impl<'a> PortObserver<'a> {
    /// Observes the link below `upper`, and those of FPGAs by their numbers, in the direction of
    /// their data.
    pub(super) fn new(host: &Host<'a>, upper: &str, direction: Direction, devices: &[u32]) -> Self {
        let heading = match direction {
            Direction::Write => LinkDirection::Up,
            Direction::Read => LinkDirection::Down,
        };
        let link_of = |port: &str| {
            let port = host.simulation.find_port(port)?;
            let link = host.simulation.with_fabric(|fabric| fabric.port(port).link)?;
            Some(DirectionId { link, heading })
        };
        Self {
            host: host.clone(),
            shared: link_of(upper),
            devices: devices
                .iter()
                .filter_map(|number| link_of(&format!("fpga{number}")))
                .collect(),
            samples: RefCell::default(),
        }
    }

    /// Returns the bytes of each device in that time.
    pub(super) fn device_bytes(&self, common: Option<crosslane_results::Together>) -> Vec<u64> {
        let (Some(common), samples) = (common, self.samples.borrow()) else { return Vec::new() };
        let at = |time: Picoseconds| samples.iter().find(|(taken, _)| *taken >= time);
        let (Some((_, before)), Some((_, after))) =
            (at(Picoseconds(common.from_ps)), at(Picoseconds(common.to_ps)))
        else {
            return Vec::new();
        };
        after.iter().zip(before).map(|(after, before)| after - before).collect()
    }
}

impl Observer for PortObserver<'_> {
    fn payload_bytes(&self) -> Option<u64> {
        let (now, bytes, devices) = self.host.simulation.with_fabric(|fabric| {
            let bytes = self.shared.map(|id| fabric.counters(id).payload_bytes);
            let devices: Vec<u64> =
                self.devices.iter().map(|id| fabric.counters(*id).payload_bytes).collect();
            (fabric.now(), bytes, devices)
        });
        self.samples.borrow_mut().push((now, devices));
        bytes
    }

    fn interval(&self) -> Picoseconds {
        OBSERVER_INTERVAL
    }
}
