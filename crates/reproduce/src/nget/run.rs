// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of the micro-benchmark in a lab of its own, beside what the host's link can carry.

use crosslane_bench::{
    BenchError, DataTlps, LinkLoad, NgetMeasured, NgetOptions, least_ceiling, nget,
};
use crosslane_driver::network_processor::{Modes, NetworkProcessor};
use crosslane_explain::size_words;
use crosslane_fabric::parameters::{CompleterParameters, CompletionCut};
use crosslane_fabric::{DirectionId, LinkCounters, LinkId, Way};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::split::{self, SingleUnits};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

use crate::error::ReproduceError;

/// Longest simulated time of one run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// A get that takes longer has failed.
const TIMEOUT: Picoseconds = Picoseconds::from_ns(1_000_000_000);
/// Loops of a run, where nothing else is asked for: about so many bytes in so many loops, and four
/// times those in flight.
const ENOUGH_BYTES: u64 = 4 << 20;
const LOOPS: std::ops::RangeInclusive<u64> = 16..=1000;

/// What is run.
#[derive(Clone, Debug)]
pub struct NgetRun<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Name of the network processor.
    pub processor: &'a str,
    /// How its driver works.
    pub modes: Modes,
    /// What is started how often.
    pub options: NgetOptions,
    /// Everything random comes from it.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NgetOutcome {
    /// What the benchmark has measured.
    pub measured: NgetMeasured,
    /// The host's link.
    pub rate: LinkRate,
    /// What its direction to the card did meanwhile.
    pub down: LinkCounters,
    /// Payload of a completion on average, bytes.
    pub completion_bytes: f64,
    /// Bytes per second that the completions leave of the link.
    pub ceiling: f64,
    /// The same less the DLLPs of the run.
    pub ceiling_less_dllps: f64,
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
}

/// Options with as many loops as are enough.
#[must_use]
pub fn nget_options(size_bytes: u64, in_flight: u32, per_loop: u32, seed: u64) -> NgetOptions {
    let bytes = size_bytes * u64::from(per_loop);
    let least = (4 * u64::from(in_flight) / u64::from(per_loop)).max(*LOOPS.start());
    let loops = (ENOUGH_BYTES / bytes.max(1)).clamp(least, (*LOOPS.end()).max(least));
    let seed = seed as u32;
    NgetOptions { size_bytes, in_flight, per_loop, loops, seed, timeout: TIMEOUT }
}

/// The host above an endpoint.
pub(super) fn host_of(simulation: &Simulation, name: &str) -> Result<HostId, ReproduceError> {
    let hosts = simulation.hosts().iter();
    let host = hosts.into_iter().find(|host| host.tree.find(name).is_some());
    host.map(|host| host.id).ok_or_else(|| {
        ReproduceError::experiment(name, "there is no such endpoint below a host".to_owned())
    })
}

/// The direction of the link above an endpoint that leads to it.
pub(super) fn down_to(simulation: &Simulation, name: &str) -> Option<DirectionId> {
    let port = simulation.find_port(name)?;
    simulation.with_fabric(|fabric| {
        let index = fabric.links().iter().position(|link| link.lower == port)?;
        Some(DirectionId { link: LinkId(index as u32), way: Way::Down })
    })
}

/// The completions of so many gets that begin at a page: those of each read, one after the other.
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

impl NgetRun<'_> {
    /// What it is, in a few words.
    #[must_use]
    pub fn name(&self) -> String {
        let NgetOptions { size_bytes, in_flight, .. } = self.options;
        format!("{}, {}, {in_flight} in flight", self.processor, size_words(size_bytes))
    }

    /// Runs it.
    ///
    /// # Errors
    /// A lab without such a network processor, and what does not run to its end.
    pub fn run(&self) -> Result<NgetOutcome, ReproduceError> {
        let name = self.name();
        let failed = |problem: String| ReproduceError::experiment(name.as_str(), problem);
        let simulation = Simulation::new(self.lab.build_engines(self.seed)?);
        simulation.set_time_limit(Some(TIME_LIMIT));
        let host = host_of(&simulation, self.processor)?;
        let down = down_to(&simulation, self.processor)
            .ok_or_else(|| failed("no link leads to it".to_owned()))?;
        let counters = || simulation.with_fabric(|fabric| fabric.counters(down));
        let run = async {
            let bus = simulation.bus(host);
            let processor = NetworkProcessor::init(bus, self.processor, self.modes).await?;
            let before = counters();
            let measured = nget(&processor, &self.options).await?;
            let counted = counters().since(&before);
            processor.release().await?;
            Ok::<_, BenchError>((measured, counted))
        };
        let result = simulation.run(&name, run).map_err(|stuck| failed(stuck.to_string()))?;
        let (measured, counted) = result.map_err(|error| failed(error.to_string()))?;
        simulation.finish().map_err(|stuck| failed(stuck.to_string()))?;
        let (errors, now) = simulation.with_fabric(|fabric| (fabric.errors().len(), fabric.now()));
        if errors > 0 {
            return Err(failed(format!("{errors} errors on the links")));
        }
        let (rate, sizes) = self.sizes(&simulation, down);
        let completer = self.lab.file().hosts[usize::from(host.0)].part.parameters.completer;
        let gets = measured.gets();
        let tlps = completions(&completer, sizes, self.options.size_bytes, gets);
        let span = measured.ended.since(measured.begun);
        let load = LinkLoad { link: (), rate, dllp_bytes: counted.dllp_bytes, span };
        let ceiling = least_ceiling([load], tlps).expect("there is a link");
        Ok(NgetOutcome {
            measured,
            rate,
            down: counted,
            completion_bytes: tlps.payload_bytes(),
            ceiling: ceiling.bytes_per_second,
            ceiling_less_dllps: ceiling.less_dllps_bytes_per_second,
            now,
        })
    }

    /// Rate of the card's link, Max_Payload_Size above it, and the longest read of the card.
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
