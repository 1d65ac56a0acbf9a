// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads of engines through the driver, in a lab or on cards, several flows at once, and their
//! outcome.
//!
//! Read first: [`Workload`]; [`EngineWork`], one in a lab; [`WorkloadOutcome`].

mod ends;
mod run;

pub use ends::{End, Ends, FlowEnds};
pub use run::EngineWork;

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;

use crosslane_driver::{ChannelKind, DescriptorSource, Device, Notification, Plan};
use crosslane_host::{AnyBus, Bus};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_results::{
    self as results, Account, Better, Ceiling, Detail, DirectionLoad, Figure, Hardware, Link,
    PlanSummary, ScenarioResult, Transfers,
};
use futures_util::future::{Either, join_all, select};

use crate::account::thin;
use crate::card_transfer::{CardDirection, card_transfer};
use crate::chain::chain;
use crate::error::{ExperimentError, Result};
use crate::latency::{RoundTrips, latency};
use crate::measured::{Measured, Measuring, channel_word, median, rate, total_rate};
use crate::options::Options;
use crate::peer_memory::PeerFlow;
use crate::scenario::Outcome;
use crate::transfer::Prepared;

/// A workload with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Card to host.
    Write(Options),
    /// Host to card.
    Read(Options),
    /// Card to card.
    Peer(Options),
    /// Card to card, read by the card that the data go to.
    PeerRead(Options),
    /// Card to card, into its memory.
    PeerMemoryWrite(Options),
    /// Host through cards to host.
    Chain(Options),
    /// Card to card and back.
    Latency(Options),
    /// Host to the card's memory.
    ToCard(Options),
    /// The card's memory to the host.
    FromCard(Options),
}

impl Workload {
    /// Returns its options.
    pub const fn options(&self) -> &Options {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::PeerRead(options)
            | Self::PeerMemoryWrite(options)
            | Self::Chain(options)
            | Self::Latency(options)
            | Self::ToCard(options)
            | Self::FromCard(options) => options,
        }
    }

    /// Formats the modes of its transfers: `descriptors in a ring, polled`.
    pub fn modes(&self) -> String {
        let options = self.options();
        if let Self::Latency(_) = self {
            return "ping-pong".to_owned();
        }
        let descriptors = match options.descriptors {
            DescriptorSource::Table => "descriptors in the engine's table",
            DescriptorSource::Ring { .. } => "descriptors in a ring",
            DescriptorSource::CommandPort => "by the command port",
        };
        let notification = match options.notification {
            Notification::Poll => "polled",
            Notification::Interrupt | Notification::InterruptOnly => "with interrupts",
        };
        format!("{descriptors}, {notification}")
    }

    /// Returns the same to be changed.
    pub const fn options_mut(&mut self) -> &mut Options {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::PeerRead(options)
            | Self::PeerMemoryWrite(options)
            | Self::Chain(options)
            | Self::Latency(options)
            | Self::ToCard(options)
            | Self::FromCard(options) => options,
        }
    }

    /// Whether engines keep to the credit windows of the receive queues that they write to.
    pub const fn keeps_windows(&self) -> bool {
        matches!(self, Self::Peer(_) | Self::Chain(_) | Self::Latency(_)) && self.options().credits
    }

    /// Whether its data come from host memory.
    pub const fn reads_host(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Chain(_) | Self::ToCard(_))
    }

    /// Whether its data end in host memory.
    pub const fn writes_host(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Chain(_) | Self::FromCard(_))
    }

    /// Whether one end of its data is the memory of a card.
    pub const fn has_card_memory(&self) -> bool {
        matches!(self, Self::ToCard(_) | Self::FromCard(_))
    }

    /// Returns the time of one of its transfers, seconds: the typical one (with a card's memory the
    /// median) if they were posted one at a time, else the time of all divided by their number.
    pub fn transfer_seconds(&self, measured: &Measured) -> f64 {
        match self.options().outstanding {
            1 if self.has_card_memory() => median(&measured.latencies).as_seconds(),
            1 => Picoseconds(measured.statistics().typical_ps).as_seconds(),
            _ => measured.ended.since(measured.started).as_seconds() / measured.iterations as f64,
        }
    }

    /// Returns the bytes of one transfer or message.
    pub const fn size_bytes(&self) -> u64 {
        self.options().size_bytes
    }

    /// Returns the bytes that one flow moves; no more than fit.
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes().saturating_mul(self.options().iterations)
    }

    /// Runs it on opened cards: those of each flow, in the order of the data's path. Ping-pongs,
    /// chains and transfers with a card's memory are of the first flow.
    ///
    /// # Errors
    /// Options that exclude each other, and a failure of the run.
    ///
    /// # Panics
    /// If a flow has fewer cards than the workload takes.
    pub fn run<'a>(
        &'a self,
        cards: &'a [Vec<Device>],
        observer: &'a dyn Observer,
    ) -> Measuring<'a, Measurement> {
        Box::pin(self.measured(cards, observer))
    }

    async fn measured(
        &self,
        cards: &[Vec<Device>],
        observer: &dyn Observer,
    ) -> Result<Measurement> {
        match *self {
            Self::Latency(options) => {
                let round_trips = latency(&cards[0][0], &cards[0][1], &options).await?;
                Ok(Measurement::RoundTrips(round_trips))
            }
            Self::Chain(options) => alone(&cards[0], observer, chain(&cards[0], &options)).await,
            Self::ToCard(options) => {
                let work = card_transfer(&cards[0][0], CardDirection::ToCard, &options);
                alone(&cards[0], observer, work).await
            }
            Self::FromCard(options) => {
                let work = card_transfer(&cards[0][0], CardDirection::FromCard, &options);
                alone(&cards[0], observer, work).await
            }
            Self::Write(_)
            | Self::Read(_)
            | Self::Peer(_)
            | Self::PeerRead(_)
            | Self::PeerMemoryWrite(_) => {
                let flow = |(core, devices): (u16, &Vec<Device>)| Flow {
                    workload: *self,
                    devices: devices.clone(),
                    core,
                };
                let flows: Vec<Flow> = (0..).zip(cards).map(flow).collect();
                Ok(Measurement::Flows(together(&flows, observer).await?))
            }
        }
    }
}

/// Runs the only flow of a workload.
async fn alone(
    cards: &[Device],
    observer: &dyn Observer,
    work: Measuring<'_>,
) -> Result<Measurement> {
    let measured = observed(cards[0].bus().clone(), observer, work).await?;
    Ok(Measurement::Flows(Together { flows: vec![measured], common: None }))
}

/// Measurement of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurement {
    /// Measurement of flows of data.
    Flows(Together),
    /// Measurement of a ping-pong.
    RoundTrips(RoundTrips),
}

impl Measurement {
    /// Returns its figure: the rate of all flows together, or the typical latency one way.
    pub fn figure(&self, workload: &Workload) -> Figure {
        match self {
            Self::Flows(together) => rate_of(workload, together.flows.iter()),
            Self::RoundTrips(trips) => one_way_of(trips),
        }
    }

    /// Returns a sentence for each flow whose data arrived wrong.
    pub fn wrong_data(&self) -> Vec<String> {
        let sentence = |name: &str, words: u64| {
            (words > 0).then(|| format!("{name}: {words} words of the data that arrived are wrong"))
        };
        match self {
            Self::Flows(together) => together
                .flows
                .iter()
                .filter_map(|flow| sentence(&flow.name, flow.data_errors.words))
                .collect(),
            Self::RoundTrips(trips) => {
                sentence(&trips.name, trips.data_errors.words).into_iter().collect()
            }
        }
    }
}

/// One of several flows.
#[derive(Clone)]
pub struct Flow {
    /// A write, a read, or one of both between cards.
    pub workload: Workload,
    /// Cards of the flow, in the order of the data's path.
    pub devices: Vec<Device>,
    /// The core that its thread runs on.
    pub core: u16,
}

impl Flow {
    /// Fills the memory that another card is to read or write, by the engine of the card that has
    /// it.
    async fn peer_flow(&self) -> Result<Option<PeerFlow>> {
        let card = |at: usize| self.devices[at].on_core(self.core);
        Ok(match &self.workload {
            Workload::PeerRead(options) => {
                Some(PeerFlow::reading(&card(0), &card(1), options).await?)
            }
            Workload::PeerMemoryWrite(options) => {
                Some(PeerFlow::writing(&card(0), &card(1), options).await?)
            }
            _ => None,
        })
    }

    async fn prepare(&self, peer_flow: Option<PeerFlow>) -> Result<Prepared> {
        if let Some(flow) = peer_flow {
            return Prepared::peer_memory(flow).await;
        }
        let first = self.devices[0].on_core(self.core);
        match &self.workload {
            Workload::Write(options) => Prepared::host(&first, ChannelKind::C2h, options).await,
            Workload::Read(options) => Prepared::host(&first, ChannelKind::H2c, options).await,
            Workload::Peer(options) => Prepared::peer(&first, &self.devices[1], options).await,
            _ => {
                let problem = "only writes and reads, of hosts or peers, are flows beside others";
                Err(ExperimentError::refused(&first.function().name, problem))
            }
        }
    }
}

/// Counts what crosses a channel that the flows share, while they run: in the lab, the payload
/// counters of links. It is asked every [`interval`](Self::interval), so that the bytes of any
/// span are known to within two intervals' ends, both of which are exact.
pub trait Observer {
    /// Payload bytes so far; none where nothing can be said.
    fn payload_bytes(&self) -> Option<u64>;

    /// Time between two questions.
    fn interval(&self) -> Picoseconds {
        Picoseconds::from_ns(1000)
    }
}

/// An observer that counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn payload_bytes(&self) -> Option<u64> {
        None
    }
}

/// Measurement of several flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// Each flow, in the order in which they were given.
    pub flows: Vec<Measured>,
    /// Measurement of the time in which all were active; `None` where there was no such time, or no
    /// observer.
    pub common: Option<results::Together>,
}

impl Together {
    /// Returns the sum of the flows' rates by the engines' timers, bytes per second. It exceeds
    /// what the shared channel carries where flows begin and end at different times.
    pub fn hardware_sum(&self) -> f64 {
        self.flows.iter().map(Measured::hardware_bytes_per_second).sum()
    }

    /// Returns the sum of the rates as the applications see them, bytes per second.
    pub fn application_sum(&self) -> f64 {
        self.flows.iter().map(Measured::application_bytes_per_second).sum()
    }
}

/// Resets the counters of cards that several flows use once more, since each flow has noted when it
/// reset them.
async fn reset_shared_counters(flows: &mut [Prepared]) -> Result<()> {
    let used: Vec<Device> = flows.iter().flat_map(Prepared::devices).cloned().collect();
    let is_of = |device: &Device, other: &&Device| device.function().id == other.function().id;
    if used.iter().all(|device| used.iter().filter(|other| is_of(device, other)).count() == 1) {
        return Ok(());
    }
    for device in &used {
        device.reset_counters().await?;
    }
    for flow in flows {
        flow.counters_were_reset().await?;
    }
    Ok(())
}

/// Runs flows at once. All are set up first; then their threads are released at one time, in the
/// order in which they are given, and wait for nothing of each other.
///
/// # Errors
/// The first error of a flow; the others are run to their end first. A chain or a ping-pong.
///
/// # Panics
/// If a flow has fewer devices than its workload takes.
pub fn together<'a>(flows: &'a [Flow], observer: &'a dyn Observer) -> Measuring<'a, Together> {
    Box::pin(all(flows, observer))
}

async fn all(flows: &[Flow], observer: &dyn Observer) -> Result<Together> {
    // A card that reads has its reading channel in use, and could not fill its own memory by it.
    let mut peer_flows = Vec::new();
    for flow in flows {
        peer_flows.push(flow.peer_flow().await?);
    }
    let mut prepared = Vec::new();
    for (flow, peer_flow) in flows.iter().zip(peer_flows) {
        prepared.push(flow.prepare(peer_flow).await?);
    }
    reset_shared_counters(&mut prepared).await?;
    let Some(bus) = flows.first().map(|flow| flow.devices[0].bus().clone()) else {
        return Ok(Together { flows: Vec::new(), common: None });
    };
    let mut samples = Samples::default();
    let runs = join_all(prepared.iter_mut().map(Prepared::run));
    let results = until(runs, samples.watch(bus, observer)).await;
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    let mut finished = Vec::new();
    for flow in prepared {
        finished.push(flow.finish().await?);
    }
    let mut measured = Vec::new();
    for flow in finished {
        measured.push(flow.compared().await?);
    }
    let common = samples.common(&measured);
    Ok(Together { flows: measured, common })
}

/// Does `work` and asks the observer at its interval until it is done.
pub async fn observed<F: Future>(bus: AnyBus, observer: &dyn Observer, work: F) -> F::Output {
    until(work, Samples::default().watch(bus, observer)).await
}

/// Does `work` while `watch` runs, which ends only with it.
async fn until<F: Future>(work: F, watch: impl Future<Output = Infallible>) -> F::Output {
    match select(pin!(work), pin!(watch)).await {
        Either::Left((output, _)) => output,
        Either::Right((never, _)) => match never {},
    }
}

/// Most samples that are kept: what a run of a second takes at one each microsecond. Of a longer
/// run every second one is dropped.
const MAX_SAMPLES: usize = 1 << 20;

/// Answers of an observer, each with its time.
#[derive(Debug, Default)]
struct Samples {
    taken: Vec<(Picoseconds, u64)>,
}

impl Samples {
    /// Asks the observer until it is dropped.
    async fn watch(&mut self, bus: AnyBus, observer: &dyn Observer) -> Infallible {
        let mut interval = observer.interval().0.max(1);
        while let Some(bytes) = observer.payload_bytes() {
            self.add(bus.now(), bytes, &mut interval);
            bus.sleep_until(Picoseconds(bus.now().0 + interval)).await;
        }
        pending().await
    }

    fn add(&mut self, now: Picoseconds, bytes: u64, interval: &mut u64) {
        if self.taken.len() == MAX_SAMPLES {
            thin(&mut self.taken);
            *interval *= 2;
        }
        self.taken.push((now, bytes));
    }

    /// Between the first and the last sample that lie in the time in which all were active.
    fn common(&self, flows: &[Measured]) -> Option<results::Together> {
        let active = |flow: &Measured| {
            flow.hardware.map_or((flow.started, flow.ended), |time| (time.first, time.last))
        };
        let begun = flows.iter().map(|flow| active(flow).0).max()?;
        let ended = flows.iter().map(|flow| active(flow).1).min()?;
        let within = || self.taken.iter().filter(|(at, _)| (begun.0..=ended.0).contains(&at.0));
        let (&(from, before), &(to, after)) = (within().next()?, within().next_back()?);
        (to > from).then(|| {
            let bytes = after.saturating_sub(before);
            let bytes_per_second = rate(bytes, to.since(from));
            results::Together { from_ps: from.0, to_ps: to.0, bytes, bytes_per_second }
        })
    }
}

/// Outcome of one flow.
#[derive(Clone, Debug)]
pub struct WorkloadFlow {
    /// Measurement of the flow.
    pub measured: Measured,
    /// The rate that the links allow, where they are known.
    pub ceiling: Option<Ceiling>,
}

impl WorkloadFlow {
    /// Returns the rate that its plan lets expect, bytes per second. Of reads it is the most: the
    /// completer may cut completions shorter than the path allows.
    pub fn expected_bytes_per_second(&self) -> f64 {
        let plan = &self.measured.plan;
        let first = self.measured.channels.first().map(|channel| channel.kind.as_str());
        // The plan alone takes host memory to be below 4 GiB.
        let is_high = self.ceiling.as_ref().is_some_and(|ceiling| ceiling.header_dw == 4);
        match first == Some(channel_word(ChannelKind::C2h)) && is_high {
            true => plan.expected_at(BusAddress(1 << 32)),
            false => plan.expected_bytes_per_second,
        }
    }

    /// Returns the rate by the engine's timers as a share of the ceiling less DLLPs.
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling.as_ref()?.less_dllps_bytes_per_second;
        (ceiling > 0.0).then(|| self.measured.hardware_bytes_per_second() / ceiling)
    }

    /// Returns the flow as plain data.
    pub fn result(&self, workload: &Workload) -> results::Flow {
        let measured = &self.measured;
        let hardware = measured.hardware.map(|time| Hardware {
            bytes: time.bytes,
            first_ps: time.first.0,
            last_ps: time.last.0,
            bytes_per_second: time.bytes_per_second(),
        });
        results::Flow {
            name: measured.name.clone(),
            bytes: measured.size_bytes,
            iterations: measured.iterations,
            in_flight: Some(workload.options().outstanding.into()),
            latency: Some(measured.statistics()),
            application_bytes_per_second: Some(measured.application_bytes_per_second()),
            hardware,
            bytes_per_second: None,
            ceiling: self.ceiling.clone(),
            share_of_ceiling: self.share(),
            detail: Detail::Transfers(Box::new(Transfers {
                moved_bytes: measured.bytes,
                started_ps: measured.started.0,
                ended_ps: measured.ended.0,
                post_to_first_tlp_ps: measured.post_to_first_tlp.map(|time| time.0),
                registration_ps: measured.registration.map(|time| time.0),
                plan: summary_of(&measured.plan, self.expected_bytes_per_second()),
                wrong_words: measured.data_errors.words,
                first_wrong_word: measured.data_errors.first_word,
                channels: measured.channels.clone(),
                lanes: measured.lanes.clone(),
            })),
        }
    }
}

/// Outcome of a workload, in a lab or on cards.
#[derive(Clone, Debug)]
pub struct WorkloadOutcome {
    /// The workload.
    pub workload: Workload,
    /// Flow by flow; none of a ping-pong, or of a run that failed.
    pub flows: Vec<WorkloadFlow>,
    /// Round trips of a ping-pong.
    pub round_trips: Option<RoundTrips>,
    /// While all of several flows were active.
    pub common: Option<results::Together>,
    /// Every direction that data crossed, counted over `span`.
    pub links: Vec<Link>,
    /// The load of every direction of the lab, over `span`; of large labs, of those that data
    /// crossed. None of a latency.
    pub loads: Vec<DirectionLoad>,
    /// The account of the busiest of `links` in `span`.
    pub account: Option<Account>,
    /// The time in which data moved; of several flows, the time in which all did. Absent on cards.
    pub span: Option<Picoseconds>,
    /// Simulated time at the end; zero on cards.
    pub simulated: Picoseconds,
    /// Ports that were set to another Max_Payload_Size.
    pub ports_set: Vec<String>,
    /// Errors, a sentence each; no more than the fabric keeps.
    pub errors: Vec<String>,
    /// Number of errors.
    pub error_count: u64,
}

impl WorkloadOutcome {
    const fn new(workload: Workload) -> Self {
        Self {
            workload,
            flows: Vec::new(),
            round_trips: None,
            common: None,
            links: Vec::new(),
            loads: Vec::new(),
            account: None,
            span: None,
            simulated: Picoseconds::ZERO,
            ports_set: Vec::new(),
            errors: Vec::new(),
            error_count: 0,
        }
    }

    /// Returns the outcome of a workload on cards, of whose links nothing is known but what the
    /// cards and the tree tell.
    pub fn on_cards(workload: Workload, measurement: Measurement) -> Self {
        let outcome = Self::new(workload);
        let mut outcome = match measurement {
            Measurement::RoundTrips(trips) => Self { round_trips: Some(trips), ..outcome },
            Measurement::Flows(together) => {
                let flow = |measured| WorkloadFlow { measured, ceiling: None };
                Self { flows: together.flows.into_iter().map(flow).collect(), ..outcome }
            }
        };
        outcome.errors = outcome.wrong_data().into_iter().collect();
        outcome.error_count = outcome.errors.len() as u64;
        outcome
    }

    /// Returns the number of words of 4 B that were not what was sent.
    pub fn wrong_words(&self) -> u64 {
        let trips = self.round_trips.as_ref().map_or(0, |trips| trips.data_errors.words);
        trips + self.flows.iter().map(|flow| flow.measured.data_errors.words).sum::<u64>()
    }
}

impl Outcome for WorkloadOutcome {
    fn result(&self) -> ScenarioResult {
        ScenarioResult {
            bytes: Some(self.workload.size_bytes()),
            flows: self.flows.iter().map(|flow| flow.result(&self.workload)).collect(),
            while_all_active: self.common,
            latency: self.round_trips.as_ref().map(RoundTrips::result),
            links: self.links.clone(),
            link_loads: self.loads.clone(),
            links_span_ps: self.span.map(|span| span.0),
            ports_set: self.ports_set.clone(),
            simulated_ps: self.span.map(|_| self.simulated.0),
            errors: self.errors.clone(),
            error_count: self.error_count,
            ..ScenarioResult::default()
        }
    }

    fn figure(&self) -> Option<Figure> {
        match &self.round_trips {
            Some(round_trips) => Some(one_way_of(round_trips)),
            None if self.flows.is_empty() => None,
            None => Some(rate_of(&self.workload, self.flows.iter().map(|flow| &flow.measured))),
        }
    }

    fn simulated(&self) -> Picoseconds {
        self.simulated
    }

    fn wrong_data(&self) -> Option<String> {
        let wrong = self.wrong_words();
        (wrong > 0).then(|| format!("{wrong} words of 4 B are not what was sent"))
    }

    fn has_errors(&self) -> bool {
        self.error_count > 0
    }

    fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }
}

/// Returns the rate of all bytes of all flows, from the first beginning to the last end, or that of
/// one transfer of each.
fn rate_of<'a>(workload: &Workload, flows: impl Iterator<Item = &'a Measured>) -> Figure {
    if workload.options().of_one {
        let rate = |flow: &Measured| flow.size_bytes as f64 / workload.transfer_seconds(flow);
        return Figure { value: flows.map(rate).sum(), better: Better::Higher };
    }
    total_rate(flows.map(|flow| (flow.bytes, flow.started, flow.ended)))
}

/// Returns the typical one-way time.
fn one_way_of(round_trips: &RoundTrips) -> Figure {
    Figure { value: round_trips.one_way().typical_ps as f64, better: Better::Lower }
}

/// Returns a plan as plain data.
pub(crate) fn summary_of(plan: &Plan, expected_bytes_per_second: f64) -> PlanSummary {
    PlanSummary {
        path: plan.path.iter().map(|function| function.name.clone()).collect(),
        max_payload_bytes: plan.max_payload_bytes,
        expected_bytes_per_second,
        slowest_link: plan.slowest_link.clone(),
        through_root_complex: plan.through_root_complex,
        not_faster: plan.refused.iter().map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_samples_are_thinned_out() {
        let mut samples = Samples::default();
        let mut interval = 1000;
        for at in 0..=MAX_SAMPLES as u64 {
            samples.add(Picoseconds(at), at, &mut interval);
        }
        assert_eq!((samples.taken.len(), interval), (MAX_SAMPLES / 2 + 1, 2000));
        assert_eq!(samples.taken[..2], [(Picoseconds(0), 0), (Picoseconds(2), 2)]);
    }
}
