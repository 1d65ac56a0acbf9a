// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of the micro-benchmark: on a bus, and in a lab beside the rate that the host's link allows.

use crosslane_driver::network_processor::{Buffers, Modes, NetworkProcessor, Requests};
use crosslane_fabric::trace::TraceSink;
use crosslane_fabric::{DirectionId, LinkCounters, LinkDirection};
use crosslane_host::{AnyBus, Mapping, Waiting};
use crosslane_lab::{Lab, Progress, Simulation};
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::split;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use crosslane_results::quantity::size_words;
use crosslane_results::{Account, Better, Ceiling, Detail, Figure, Flow, Gets};

use super::{NgetMeasured, NgetOptions, nget, nget_sampled};
use crate::account::direction_load;
use crate::account::{Carrier, DataTlps, LinkLoad, least_ceiling};
use crate::error::{ExperimentError, Result};
use crate::scenario::{Outcome, Scenario, Work, execute_well};
use crate::traffic::shape::{Completions, Cuts};

/// Longest simulated time of one run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// Longest time of a get.
const TIMEOUT: Picoseconds = Picoseconds::from_ns(1_000_000_000);
/// Bytes of a run whose number of loops is not given.
const ENOUGH_BYTES: u64 = 4 << 20;
/// Loops of such a run. Four times the gets in flight are more important than the upper bound.
const LOOPS: std::ops::RangeInclusive<u64> = 16..=1000;

/// The micro-benchmark with a network processor.
#[derive(Clone, Debug)]
pub struct GetWork {
    /// Name of the network processor.
    pub processor: String,
    /// Modes of its driver.
    pub modes: Modes,
    /// Sizes and numbers of the gets.
    pub options: NgetOptions,
}

/// Outcome of a run in a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct NgetOutcome {
    /// The measurement.
    pub measured: NgetMeasured,
    /// Rate of the host's link.
    pub rate: LinkRate,
    /// Counters of the link's direction to the card, during the measurement.
    pub down: LinkCounters,
    /// Rate that the link allows for these completions.
    pub ceiling: Ceiling,
    /// Use of that direction while data moved.
    pub account: Account,
    /// Simulated time at the end.
    pub now: Picoseconds,
}

impl NgetOutcome {
    /// Share of the link's rate, without SKP ordered sets taken off.
    pub fn over_theory(&self) -> f64 {
        self.measured.bytes_per_second() / self.rate.bytes_per_second()
    }

    /// Share of the ceiling less DLLPs.
    pub fn of_ceiling(&self) -> f64 {
        self.measured.bytes_per_second() / self.ceiling.less_dllps_bytes_per_second
    }
}

impl Outcome for NgetOutcome {
    fn result(&self) -> crosslane_results::ScenarioResult {
        let mut flow = self.measured.flow();
        flow.share_of_ceiling = Some(self.of_ceiling());
        if let Detail::Gets(gets) = &mut flow.detail {
            gets.completion_bytes = Some(self.ceiling.payload_bytes);
            gets.ceiling_bytes_per_second = Some(self.ceiling.bytes_per_second);
            gets.ceiling_less_dllps_bytes_per_second =
                Some(self.ceiling.less_dllps_bytes_per_second);
        }
        flow.ceiling = Some(self.ceiling.clone());
        flow.into()
    }

    fn figure(&self) -> Option<Figure> {
        self.measured.figure()
    }

    fn simulated(&self) -> Picoseconds {
        self.now
    }

    fn wrong_data(&self) -> Option<String> {
        self.measured.wrong_data()
    }

    fn account(&self) -> Option<&Account> {
        Some(&self.account)
    }
}

/// Formats modes: `user, combined, poll`.
fn words(modes: Modes) -> String {
    let buffers = match modes.buffers {
        Buffers::User => "user",
        Buffers::Copied => "copied",
        Buffers::Mapped => "mapped",
    };
    let requests = match modes.requests {
        Requests::SystemCall => "call",
        Requests::Stores(Mapping::Uncached) => "uncached",
        Requests::Stores(Mapping::WriteCombined) => "combined",
    };
    let waiting = match modes.waiting {
        Waiting::Polling => "poll",
        Waiting::KernelPolling => "kernel",
        Waiting::Monitor => "monitor",
    };
    format!("{buffers}, {requests}, {waiting}")
}

impl Outcome for NgetMeasured {
    fn result(&self) -> crosslane_results::ScenarioResult {
        self.flow().into()
    }

    fn figure(&self) -> Option<Figure> {
        Some(Figure { value: self.bytes_per_second(), better: Better::Higher })
    }

    fn simulated(&self) -> Picoseconds {
        self.elapsed()
    }

    fn wrong_data(&self) -> Option<String> {
        let wrong = self.wrong;
        (wrong > 0).then(|| format!("{wrong} messages with wrong data"))
    }
}

impl NgetMeasured {
    /// Returns the measurement as plain data.
    fn flow(&self) -> Flow {
        let (options, modes) = (&self.options, words(self.modes));
        Flow {
            name: format!("{}, {modes}, N = {}", self.node, options.in_flight),
            bytes: options.size_bytes,
            iterations: self.gets(),
            in_flight: Some(options.in_flight.into()),
            latency: Some(self.durations),
            bytes_per_second: Some(self.bytes_per_second()),
            detail: Detail::Gets(Gets {
                node: self.node.clone(),
                modes,
                per_loop: options.per_loop,
                loops: options.loops,
                elapsed_ns: self.elapsed().as_ns(),
                interval_ns: self.interval_ps() / 1e3,
                latency_ps: self.durations,
                datagrams: self.datagrams,
                gets_compared: self.compared,
                gets_wrong: self.wrong,
                completion_bytes: None,
                ceiling_bytes_per_second: None,
                ceiling_less_dllps_bytes_per_second: None,
            }),
            ..Flow::default()
        }
    }
}

impl NgetOptions {
    /// Returns options with loops enough for these gets.
    pub fn enough(size_bytes: u64, in_flight: u32, per_loop: u32, seed: u64) -> Self {
        let bytes = size_bytes * u64::from(per_loop);
        let least = (4 * u64::from(in_flight) / u64::from(per_loop)).max(*LOOPS.start());
        let loops = (ENOUGH_BYTES / bytes.max(1)).clamp(least, (*LOOPS.end()).max(least));
        let seed = seed as u32;
        Self { size_bytes, in_flight, per_loop, loops, seed, timeout: TIMEOUT }
    }
}

/// Finds the host above an endpoint of a lab.
///
/// # Errors
/// No host has it.
pub fn host_of(simulation: &Simulation, endpoint: &str) -> Result<HostId> {
    let mut hosts = simulation.hosts().iter();
    let host = hosts.find(|host| host.tree.find(endpoint).is_some());
    host.map(|host| host.id)
        .ok_or_else(|| ExperimentError::run(endpoint, "there is no such endpoint below a host"))
}

/// Finds the direction, towards an endpoint, of the link above it.
fn down_to(simulation: &Simulation, name: &str) -> Option<DirectionId> {
    let port = simulation.find_port(name)?;
    let link = simulation.with_fabric(|fabric| fabric.port(port).link)?;
    Some(DirectionId { link, heading: LinkDirection::Down })
}

/// Opens a network processor, runs the micro-benchmark on it and releases it.
///
/// # Errors
/// No such network processor, invalid options, or a failure of the run.
pub async fn nget_on(
    bus: AnyBus,
    processor: &str,
    modes: Modes,
    options: &NgetOptions,
) -> Result<NgetMeasured> {
    let processor = NetworkProcessor::init(bus, processor, modes).await?;
    let measured = nget(&processor, options).await;
    let released = processor.release().await;
    let measured = measured?;
    released?;
    Ok(measured)
}

impl Work for GetWork {
    type Outcome = NgetOutcome;

    fn name(&self, _lab: &Lab) -> String {
        let NgetOptions { size_bytes, in_flight, .. } = self.options;
        format!("{}, {}, {in_flight} in flight", self.processor, size_words(size_bytes))
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<NgetOutcome> {
        let (work, name) = (&scenario.work, scenario.name());
        let run = scenario.begin(trace)?.with_limit(TIME_LIMIT);
        let simulation = run.simulation();
        let host = host_of(simulation, &work.processor)?;
        let down = down_to(simulation, &work.processor)
            .ok_or_else(|| ExperimentError::run(&name, "no link leads to it"))?;
        let counters = || simulation.with_fabric(|fabric| fabric.counters(down));
        let program = async {
            let bus = simulation.bus(host);
            let processor = NetworkProcessor::init(bus, &work.processor, work.modes).await?;
            let measured = nget_sampled(&processor, &work.options, counters).await?;
            processor.release().await?;
            Ok(measured)
        };
        let (value, _) = execute_well(&run, &name, progress, program)?;
        let (measured, [before, begun, at_end, after]) = value;
        let counted = after.since(&before);
        let (rate, tlps) = scenario.completions(simulation, (host, down), measured.gets());
        let span = measured.elapsed();
        let moved = at_end.since(&begun);
        let load = simulation.with_fabric(|fabric| direction_load(fabric, down, &moved, span));
        let account = Account {
            direction: load.direction,
            link: load.link,
            span_ps: span.0,
            uses: load.uses,
            iommus: Vec::new(),
        };
        let load = LinkLoad { link: (), rate, dllp_bytes: counted.dllp_bytes, span };
        let ceiling = least_ceiling([load], tlps).expect("there is a link");
        let ceiling = ceiling.result(Carrier::Completions, tlps, None);
        let now = simulation.now();
        Ok(NgetOutcome { measured, rate, down: counted, ceiling, account, now })
    }
}

impl Scenario<GetWork> {
    /// Returns the rate of the card's link, and the completions of gets that begin at a page: those
    /// of each read, one after the other.
    fn completions(
        &self,
        simulation: &Simulation,
        (host, down): (HostId, DirectionId),
        gets: u64,
    ) -> (LinkRate, DataTlps) {
        let (file, size_bytes) = (self.lab.file(), self.work.options.size_bytes);
        let part = file.endpoints.iter().find(|endpoint| endpoint.name == self.work.processor);
        let longest = part.map_or(128, |found| found.part.parameters.requester.max_read_bytes);
        let (rate, payload_bytes, read_bytes) = simulation.with_fabric(|fabric| {
            let (upper, lower) = fabric.direction_ends(down);
            let payload_bytes = fabric.port(upper).config.max_payload_bytes();
            let read_bytes = fabric.port(lower).config.max_read_request_bytes().min(longest);
            (fabric.link(down.link).parameters.rate, payload_bytes, read_bytes)
        });
        let completer = file.hosts[usize::from(host.0)].part.parameters.completer;
        let (mut cuts, mut completions) =
            (Cuts::default(), Completions::new(completer, payload_bytes));
        for _ in 0..gets {
            let requests = split::requests_aligned(BusAddress(0), size_bytes, read_bytes);
            cuts.answers(requests, &mut completions);
        }
        let tlps = DataTlps {
            tlps: cuts.tlps,
            data_bytes: gets * size_bytes,
            wire_payload_bytes: cuts.payload_bytes,
            header_dw: COMPLETION_HEADER_DW,
        };
        (rate, tlps)
    }
}
