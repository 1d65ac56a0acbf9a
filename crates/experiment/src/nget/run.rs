// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of the micro-benchmark: on a bus, and in a lab beside the rate that the host's link allows.

use std::sync::Arc;

use crosslane_driver::network_processor::{Buffers, Modes, NetworkProcessor, Requests};
use crosslane_fabric::parameters::{CompleterParameters, CompletionCut};
use crosslane_fabric::{DirectionId, LinkCounters, LinkId, Way};
use crosslane_host::{Bus, Mapping, Waiting};
use crosslane_lab::{CheckedRun, Lab, Simulation};
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::split::{self, SingleUnits};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use crosslane_results::quantity::size_words;
use crosslane_results::{Account, Ceiling, Detail, Flow, Gets};

use super::{NgetMeasured, NgetOptions, nget, nget_sampled};
use crate::ceiling::{DataTlps, LinkLoad, least_ceiling};
use crate::error::BenchError;
use crate::links::direction_load;

/// Longest simulated time of one run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// Longest time of a get.
const TIMEOUT: Picoseconds = Picoseconds::from_ns(1_000_000_000);
/// Bytes of a run whose number of loops is not given.
const ENOUGH_BYTES: u64 = 4 << 20;
/// Loops of such a run. Four times the gets in flight are more important than the upper bound.
const LOOPS: std::ops::RangeInclusive<u64> = 16..=1000;

/// A run in a lab.
#[derive(Clone, Debug)]
pub struct NgetRun {
    /// The lab.
    pub lab: Arc<Lab>,
    /// Name of the network processor.
    pub processor: String,
    /// Modes of its driver.
    pub modes: Modes,
    /// Sizes and numbers of the gets.
    pub options: NgetOptions,
    /// Random seed.
    pub seed: u64,
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
    /// Average payload of a completion, bytes.
    pub completion_bytes: f64,
    /// Rate that the link allows for these completions, bytes per second.
    pub ceiling: f64,
    /// The same less the DLLPs of the run.
    pub ceiling_less_dllps: f64,
    /// Use of that direction while data moved.
    pub account: Account,
    /// Simulated time at the end.
    pub now: Picoseconds,
}

impl NgetOutcome {
    /// Share of the link's rate, without SKP ordered sets taken off.
    #[must_use]
    pub fn over_theory(&self) -> f64 {
        self.measured.bytes_per_second() / self.rate.bytes_per_second()
    }

    /// Share of the ceiling less DLLPs.
    #[must_use]
    pub fn of_ceiling(&self) -> f64 {
        self.measured.bytes_per_second() / self.ceiling_less_dllps
    }

    /// Returns the outcome as plain data.
    #[must_use]
    pub fn flow(&self, node: &str, modes: Modes) -> Flow {
        let mut flow = self.measured.flow(node, modes);
        flow.ceiling = Some(Ceiling {
            bytes_per_second: self.ceiling,
            less_dllps_bytes_per_second: self.ceiling_less_dllps,
            payload_bytes: self.completion_bytes,
            carrier: "completions".to_owned(),
            header_dw: COMPLETION_HEADER_DW,
            is_estimate: false,
            direction: None,
        });
        flow.share_of_ceiling = Some(self.of_ceiling());
        if let Detail::Gets(gets) = &mut flow.detail {
            gets.completion_bytes = Some(self.completion_bytes);
            gets.ceiling_bytes_per_second = Some(self.ceiling);
            gets.ceiling_less_dllps_bytes_per_second = Some(self.ceiling_less_dllps);
        }
        flow
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

impl NgetMeasured {
    /// Returns the measurement as plain data.
    #[must_use]
    pub fn flow(&self, node: &str, modes: Modes) -> Flow {
        let options = &self.options;
        Flow {
            name: format!("{node}, {}, N = {}", words(modes), options.in_flight),
            bytes: options.size_bytes,
            iterations: self.gets(),
            in_flight: Some(options.in_flight.into()),
            latency: Some(self.durations),
            bytes_per_second: Some(self.bytes_per_second()),
            detail: Detail::Gets(Gets {
                node: node.to_owned(),
                modes: words(modes),
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
    #[must_use]
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
pub fn host_of(simulation: &Simulation, endpoint: &str) -> Result<HostId, BenchError> {
    let mut hosts = simulation.hosts().iter();
    let host = hosts.find(|host| host.tree.find(endpoint).is_some());
    host.map(|host| host.id)
        .ok_or_else(|| BenchError::run(endpoint, "there is no such endpoint below a host"))
}

/// Finds the direction, towards an endpoint, of the link above it.
fn down_to(simulation: &Simulation, name: &str) -> Option<DirectionId> {
    let port = simulation.find_port(name)?;
    simulation.with_fabric(|fabric| {
        let index = fabric.links().iter().position(|link| link.lower == port)?;
        Some(DirectionId { link: LinkId(index as u32), way: Way::Down })
    })
}

/// Counts the completions of gets that begin at a page: those of each read, one after the other.
fn completions(
    completer: &CompleterParameters,
    (payload_bytes, read_bytes): (u32, u32),
    size_bytes: u64,
    gets: u64,
) -> DataTlps {
    let rcb = completer.read_completion_boundary_bytes;
    let longest = completer.completion_bytes.min(payload_bytes);
    let mut single_units = SingleUnits::new(completer.completion_single_share);
    let data_bytes = gets * size_bytes;
    let header_dw = COMPLETION_HEADER_DW;
    let mut tlps = DataTlps { tlps: 0, data_bytes, wire_payload_bytes: 0, header_dw };
    for _ in 0..gets {
        for (at, bytes) in split::requests_aligned(BusAddress(0), size_bytes, read_bytes) {
            let cuts = match completer.completion_cut {
                CompletionCut::Longest => split::completions(at, bytes, rcb, longest),
                CompletionCut::Aligned => split::completions_aligned(at, bytes, rcb, longest),
            };
            for (at, bytes) in cuts.flat_map(|whole| single_units.cut(whole, rcb)) {
                tlps.tlps += 1;
                tlps.wire_payload_bytes += (at.0 % 4 + u64::from(bytes)).next_multiple_of(4);
            }
        }
    }
    tlps
}

/// Opens a network processor, runs the micro-benchmark on it and releases it.
///
/// # Errors
/// No such network processor, invalid options, or a failure on the way.
pub async fn nget_on<B: Bus>(
    bus: B,
    processor: &str,
    modes: Modes,
    options: &NgetOptions,
) -> Result<NgetMeasured, BenchError> {
    let processor = NetworkProcessor::init(bus, processor, modes).await?;
    let measured = nget(&processor, options).await;
    let released = processor.release().await;
    let measured = measured?;
    released?;
    Ok(measured)
}

impl NgetRun {
    /// Returns the name of the run: network processor, size and gets in flight.
    #[must_use]
    pub fn name(&self) -> String {
        let NgetOptions { size_bytes, in_flight, .. } = self.options;
        format!("{}, {}, {in_flight} in flight", self.processor, size_words(size_bytes))
    }

    /// Makes the run.
    ///
    /// # Errors
    /// A lab without this network processor, or a run that fails.
    pub fn run(&self) -> Result<NgetOutcome, BenchError> {
        let name = self.name();
        let run = CheckedRun::new(&self.lab, self.seed)?.with_limit(TIME_LIMIT);
        let simulation = run.simulation();
        let host = host_of(simulation, &self.processor)?;
        let down = down_to(simulation, &self.processor)
            .ok_or_else(|| BenchError::run(&name, "no link leads to it"))?;
        let counters = || simulation.with_fabric(|fabric| fabric.counters(down));
        let program = async {
            let bus = simulation.bus(host);
            let processor = NetworkProcessor::init(bus, &self.processor, self.modes).await?;
            let measured = nget_sampled(&processor, &self.options, counters).await?;
            processor.release().await?;
            Ok::<_, BenchError>(measured)
        };
        let ended = run.run(&name, program).map_err(|error| BenchError::run(&name, error))?;
        let (measured, [before, begun, at_end, after]) = ended.value;
        let counted = after.since(&before);
        let (rate, sizes) = self.sizes(simulation, down);
        let completer = self.lab.file().hosts[usize::from(host.0)].part.parameters.completer;
        let tlps = completions(&completer, sizes, self.options.size_bytes, measured.gets());
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
        Ok(NgetOutcome {
            measured,
            rate,
            down: counted,
            completion_bytes: tlps.payload_bytes(),
            ceiling: ceiling.bytes_per_second,
            ceiling_less_dllps: ceiling.less_dllps_bytes_per_second,
            account,
            now: simulation.now(),
        })
    }

    /// Returns the rate of the card's link, Max_Payload_Size above it, and the longest read of the
    /// card.
    fn sizes(&self, simulation: &Simulation, down: DirectionId) -> (LinkRate, (u32, u32)) {
        let endpoints = self.lab.file().endpoints.iter();
        let part = endpoints.into_iter().find(|endpoint| endpoint.name == self.processor);
        let longest = part.map_or(128, |found| found.part.parameters.requester.max_read_bytes);
        simulation.with_fabric(|fabric| {
            let (upper, lower) = fabric.direction_ends(down);
            let payload_bytes = fabric.port(upper).config.max_payload_bytes();
            let read_bytes = fabric.port(lower).config.max_read_request_bytes().min(longest);
            (fabric.link(down.link).parameters.rate, (payload_bytes, read_bytes))
        })
    }
}
