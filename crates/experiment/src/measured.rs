// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of a workload.

use crosslane_driver::{ChannelCounters, ChannelKind, Check, Device, Plan, ReceiveQueueCounters};
use crosslane_fabric::ChannelWaits;
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Better, Channel, Figure, Latencies, ReceiveQueue};
use futures_util::future::LocalBoxFuture;

use crate::error::Result;
use crate::latency::RoundTrips;
use crate::mmio::MmioMeasured;
use crate::neighbour::OneWay;
use crate::options::Options;
use crate::rdma::RdmaMeasured;
use crate::transfer::Timing;
use crate::workload::Together;

/// A workload under way. It is boxed here, so that it is compiled here and once: the body of an
/// `async fn` is compiled again in each crate that awaits it.
pub type Measuring<'a, T = Measured> = LocalBoxFuture<'a, Result<T>>;

/// Time between two readings of engines' timers, and what was moved between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareTime {
    /// Payload bytes.
    pub bytes: u64,
    /// The first TLP was begun. Engine time turned into the host's: exact to a clock where both
    /// begin at once, as in a lab.
    pub first: Picoseconds,
    /// The last TLP was handed on, or the last data arrived.
    pub last: Picoseconds,
}

impl HardwareTime {
    /// Bytes per second; zero if no time has passed.
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.bytes, self.last.since(self.first))
    }
}

/// Turns engine time into the host's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineTime {
    clock: Picoseconds,
    /// Host time less engine time, picoseconds.
    offset_ps: i128,
}

impl EngineTime {
    /// Reads the engine's clock between two looks at the host's. Where the engine's time lies
    /// between the two, both began at once, as in a lab, and conversion is exact to a clock; else
    /// the engine is taken to have been read half way, right to half a register's round trip.
    pub(crate) async fn of(device: &Device) -> Result<Self> {
        let clock = device.description().clock;
        let before = device.bus().now();
        let clocks = device.time_clocks().await?;
        let after = device.bus().now();
        Ok(Self::between(clock, clocks, before, after))
    }

    fn between(clock: Picoseconds, clocks: u64, before: Picoseconds, after: Picoseconds) -> Self {
        let engine_ps = i128::from(clocks) * i128::from(clock.0);
        let (before, after) = (i128::from(before.0), i128::from(after.0));
        let began_at_once = (before..=after).contains(&engine_ps);
        let offset_ps = if began_at_once { 0 } else { (before + after) / 2 - engine_ps };
        Self { clock, offset_ps }
    }

    /// Returns the time in which a channel moved data, by its counters.
    pub(crate) fn span(self, counters: &ChannelCounters) -> HardwareTime {
        HardwareTime {
            bytes: counters.bytes,
            first: self.host(counters.first_clocks),
            last: self.host(counters.last_clocks),
        }
    }

    /// Returns the host's time at which the engine's clock stood at `clocks`.
    pub(crate) fn host(self, clocks: u64) -> Picoseconds {
        let engine_ps = i128::from(clocks) * i128::from(self.clock.0);
        Picoseconds((engine_ps + self.offset_ps).clamp(0, i128::from(u64::MAX)) as u64)
    }
}

/// Returns the name of a kind of channel in results.
pub(crate) const fn channel_word(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::H2c => "h2c",
        ChannelKind::C2h => "c2h",
        ChannelKind::Peer => "peer",
    }
}

/// Returns the counters of a channel after the run; they were reset `counted_clocks` earlier, to
/// within register accesses.
pub(crate) fn channel_of(
    device: &Device,
    kind: ChannelKind,
    counters: ChannelCounters,
    counted_clocks: u64,
) -> Channel {
    // The engine counts clocks without a descriptor from the reset on: the time before the first
    // TLP and behind the last is taken off.
    let moving = counters.last_clocks.saturating_sub(counters.first_clocks);
    let around = counted_clocks.saturating_sub(moving);
    Channel {
        device: device.function().name.clone(),
        kind: channel_word(kind).to_owned(),
        clock_ps: device.description().clock.0,
        bytes: counters.bytes,
        tlps: counters.tlps,
        fetched: counters.fetched,
        first_clocks: counters.first_clocks,
        last_clocks: counters.last_clocks,
        no_descriptor_clocks: u64::from(counters.no_descriptor_clocks).saturating_sub(around),
        no_data_clocks: counters.no_data_clocks,
        no_tag_clocks: counters.no_tag_clocks,
        link_clocks: counters.link_clocks,
        no_credit_clocks: counters.no_credit_clocks,
        gap_clocks: counters.gap_clocks,
    }
}

/// Returns the waits of a channel while data moved, as far as its registers tell: clocks without a
/// descriptor are one reason, whether or not one was posted.
pub(crate) fn waits(channel: &Channel) -> ChannelWaits {
    let time = |clocks: u64| Picoseconds(clocks.saturating_mul(channel.clock_ps));
    ChannelWaits {
        moving: time(channel.last_clocks.saturating_sub(channel.first_clocks)),
        nothing_posted: Picoseconds::ZERO,
        no_descriptor: time(channel.no_descriptor_clocks),
        gap: time(channel.gap_clocks.into()),
        no_data: time(channel.no_data_clocks.into()),
        no_tag: time(channel.no_tag_clocks.into()),
        no_credit: time(channel.no_credit_clocks.into()),
    }
}

/// Returns the counters of a receive queue after the run.
pub(crate) fn lane(device: &Device, lane: u8, counters: ReceiveQueueCounters) -> ReceiveQueue {
    ReceiveQueue {
        device: device.function().name.clone(),
        lane,
        clock_ps: device.description().clock.0,
        received_bytes: counters.received_bytes,
        drained_bytes: counters.drained_bytes,
        overflow: counters.overflow,
        first_clocks: counters.first_clocks,
        last_clocks: counters.last_clocks,
    }
}

/// Words of 4 B that were not what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataErrors {
    /// Number of such words.
    pub words: u64,
    /// Number of the first of them in the stream, if there is one.
    pub first_word: Option<u64>,
}

/// Errors that the checker of an engine found.
impl From<Check> for DataErrors {
    fn from(check: Check) -> Self {
        Self { words: check.errors.into(), first_word: check.first_word.map(u64::from) }
    }
}

/// Measurements of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Ends of the workload.
    pub name: String,
    /// Bytes of one transfer.
    pub size_bytes: u64,
    /// Transfers.
    pub iterations: u64,
    /// Bytes of all transfers.
    pub bytes: u64,
    /// Time of each transfer as the application sees it, in order: from before it is asked for
    /// (with system call and registration where they belong to it) until it is known to be
    /// complete.
    pub latencies: Vec<Picoseconds>,
    /// Time at which the application began.
    pub started: Picoseconds,
    /// Time at which the application had the last completion.
    pub ended: Picoseconds,
    /// Time by the engines' timers, from the first data TLP to the last.
    pub hardware: Option<HardwareTime>,
    /// The channels that took part, in the order of the data's path.
    pub channels: Vec<Channel>,
    /// The receive queues that took part, in the order of the data's path.
    pub lanes: Vec<ReceiveQueue>,
    /// Time from the beginning of the first post to the first data TLP, or the first read request;
    /// of a chain, from the post of the first read.
    pub post_to_first_tlp: Option<Picoseconds>,
    /// Time of registering all of the memory; `None` where there is none.
    pub registration: Option<Picoseconds>,
    /// The path of the data; of a chain, its first part.
    pub plan: Plan,
    /// Words that arrived different from those sent.
    pub data_errors: DataErrors,
}

impl Measured {
    /// Makes the measurement of a run; `hardware` is its time by the engines' timers, if known.
    pub(crate) fn new(
        name: String,
        options: &Options,
        timing: Timing,
        hardware: Option<HardwareTime>,
        plan: Plan,
        data_errors: DataErrors,
    ) -> Self {
        Self {
            name,
            size_bytes: options.size_bytes,
            iterations: options.iterations,
            bytes: options.size_bytes * options.iterations,
            latencies: timing.latencies,
            started: timing.started,
            ended: timing.ended,
            hardware,
            channels: Vec::new(),
            lanes: Vec::new(),
            post_to_first_tlp: timing
                .first_post
                .zip(hardware)
                .map(|(post, it)| it.first.since(post)),
            registration: None,
            plan,
            data_errors,
        }
    }

    /// Bytes per second as the application sees it.
    pub fn application_bytes_per_second(&self) -> f64 {
        rate(self.bytes, self.ended.since(self.started))
    }

    /// Bytes per second by the engines' timers; the application's where there are none.
    pub fn hardware_bytes_per_second(&self) -> f64 {
        self.hardware
            .map_or_else(|| self.application_bytes_per_second(), |time| time.bytes_per_second())
    }

    /// Bytes per second of a transfer of median time, alone.
    pub fn bytes_per_second_alone(&self) -> f64 {
        rate(self.size_bytes, median(&self.latencies))
    }

    /// The latencies in five numbers.
    pub fn statistics(&self) -> Latencies {
        Latencies::of(self.latencies.iter().map(|latency| latency.0).collect())
    }
}

/// Returns the median of times, the later of two in the middle; zero if there are none.
pub(crate) fn median(times: &[Picoseconds]) -> Picoseconds {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Bytes per second; zero if no time has passed.
pub(crate) fn rate(bytes: u64, span: Picoseconds) -> f64 {
    if span == Picoseconds::ZERO { 0.0 } else { bytes as f64 / span.as_seconds() }
}

/// Returns the rate of all bytes of flows, from the first beginning to the last end.
pub(crate) fn total_rate(flows: impl Iterator<Item = (u64, Picoseconds, Picoseconds)>) -> Figure {
    let (mut bytes, mut started, mut ended) = (0, None::<Picoseconds>, Picoseconds::ZERO);
    for (moved, from, to) in flows {
        bytes += moved;
        started = Some(started.map_or(from, |started| started.min(from)));
        ended = ended.max(to);
    }
    let value = rate(bytes, ended.since(started.unwrap_or_default()));
    Figure { value, better: Better::Higher }
}

/// A result of a workload that compared what arrived with what was sent.
pub trait Verified {
    /// Returns the number of words of 4 B (of messages, where these are compared whole) that were
    /// not what was sent.
    fn wrong_words(&self) -> u64;
}

/// Implements [`Verified`] for results that keep their [`DataErrors`].
macro_rules! verified {
    ($($result:ty),*) => {
        $(impl Verified for $result {
            fn wrong_words(&self) -> u64 {
                self.data_errors.words
            }
        })*
    };
}
verified!(Measured, MmioMeasured, RdmaMeasured, RoundTrips);

impl Verified for Together {
    fn wrong_words(&self) -> u64 {
        self.flows.iter().map(Verified::wrong_words).sum()
    }
}

impl Verified for OneWay {
    fn wrong_words(&self) -> u64 {
        self.wrong.into()
    }
}

impl<T: Verified> Verified for Vec<T> {
    fn wrong_words(&self) -> u64 {
        self.iter().map(Verified::wrong_words).sum()
    }
}

/// A result with something that was seen beside it.
impl<T: Verified, S> Verified for (T, S) {
    fn wrong_words(&self) -> u64 {
        self.0.wrong_words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_began_at_once_are_not_moved() {
        let clock = Picoseconds(4000);
        let time = EngineTime::between(clock, 100, Picoseconds(399_000), Picoseconds(900_000));
        assert_eq!(time.host(25), Picoseconds(100_000));
    }

    #[test]
    fn another_beginning_is_taken_from_the_middle() {
        let clock = Picoseconds(4000);
        let time = EngineTime::between(clock, 100, Picoseconds(1_000_000), Picoseconds(1_800_000));
        assert_eq!(time.host(100), Picoseconds(1_400_000));
        assert_eq!(time.host(101), Picoseconds(1_404_000));
        let early = EngineTime::between(clock, 1000, Picoseconds(10), Picoseconds(20));
        assert_eq!(early.host(0), Picoseconds::ZERO);
    }
}
