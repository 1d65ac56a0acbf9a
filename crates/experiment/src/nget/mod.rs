// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The micro-benchmark of the network processor's get engine, as the nget paper has it in
//! pseudo-code: N gets in flight, in each loop M more are started and M awaited, then a drain.
//!
//! The links are in mode `sink`, so that nothing but the path from host memory to the engine is
//! measured. There the links count their datagrams, and each notification says how many bytes were
//! read. Afterwards some of the same gets are made with the links in mode `loopback`, and what
//! comes back is compared.

mod run;

use std::collections::VecDeque;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::{
    InFlight, Key, LinkMode, LinkState, Message, Modes, NetworkError, NetworkFault,
    NetworkProcessor, TAGS,
};
use crosslane_host::{Bus, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Latencies;

use crate::error::{ExperimentError, Result};
use crate::measured::rate;
use crate::pattern::pattern_bytes;

pub use run::{GetWork, NgetOutcome, host_of, nget_on};

/// Most gets in flight: the tags that the paper's macro supports.
pub const MAX_IN_FLIGHT: u32 = 64;
/// Time within which links have taken what was read.
const DRAINED_WITHIN: Picoseconds = Picoseconds::from_ns(100_000);
/// Time within which a link is up in mode `loopback`.
const LOOPED_WITHIN: Picoseconds = Picoseconds::from_ns(100_000);
/// Channels that are used: those for neighbours, whether the card is in a torus or not.
const CHANNELS: u64 = 6;
/// Bytes that are compared after a measurement, or one get if that is longer: enough for every
/// link, and little beside the measurement.
const COMPARED_BYTES: u64 = 128 << 10;

/// Sizes and numbers of the gets of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NgetOptions {
    /// L: bytes of each get.
    pub size_bytes: u64,
    /// N: gets in flight, 1 to [`MAX_IN_FLIGHT`].
    pub in_flight: u32,
    /// M: gets that are started, and then awaited, in each loop; 1 to N.
    pub per_loop: u32,
    /// K: loops, at least 1.
    pub loops: u64,
    /// Seed of the data.
    pub seed: u32,
    /// Longest time of a get.
    pub timeout: Picoseconds,
}

setters!(NgetOptions {
    with_loops(loops: u64),
    with_timeout(timeout: impl Into<Picoseconds>),
});

/// Measurement of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct NgetMeasured {
    /// Name of the network processor in results.
    pub node: String,
    /// Modes of its driver.
    pub modes: Modes,
    /// Options of the run.
    pub options: NgetOptions,
    /// Time stamp #S: before the first get is started.
    pub begun: Picoseconds,
    /// Time stamps #k: the end of each loop.
    pub stamps: Vec<Picoseconds>,
    /// Time stamp #E: behind the drain.
    pub ended: Picoseconds,
    /// Time from before a get's request until its notification has been seen, over all gets.
    pub durations: Latencies,
    /// Datagrams that the links have taken.
    pub datagrams: u64,
    /// Gets whose data were compared after the measurement; 0 if no link has a cable, without which
    /// none can loop data back.
    pub compared: u32,
    /// Number of gets whose data were wrong.
    pub wrong: u32,
}

impl NgetMeasured {
    /// Gets of the whole run, without those that are compared.
    pub fn gets(&self) -> u64 {
        let NgetOptions { in_flight, per_loop, loops, .. } = self.options;
        u64::from(in_flight - per_loop) + loops * u64::from(per_loop)
    }

    /// Time of the whole run, #S to #E: the gets in flight share the engine, so parts of a run
    /// begin and end with as many as are in flight.
    pub fn elapsed(&self) -> Picoseconds {
        self.ended.since(self.begun)
    }

    /// Time for each get, ps, over the whole run.
    pub fn interval_ps(&self) -> f64 {
        self.elapsed().0 as f64 / self.gets() as f64
    }

    /// Bytes per second of the whole run.
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.gets() * self.options.size_bytes, self.elapsed())
    }
}

/// The gets in flight, oldest first.
struct Flight<'a> {
    processor: &'a NetworkProcessor,
    options: &'a NgetOptions,
    links: u64,
    /// One for each get in flight.
    buffers: Vec<Buffer>,
    /// Number of gets that have been started.
    started: u64,
    waiting: VecDeque<(InFlight, Picoseconds)>,
    durations_ps: Vec<u64>,
}

/// Returns the key of the get with a number: those in flight differ, and so do their links, as far
/// as there are links.
fn key(number: u64, links: u64) -> Key {
    let channels = number / links;
    Key::Neighbour {
        link: (number % links) as u8,
        channel: (channels % CHANNELS) as u8,
        tag: (channels / CHANNELS % u64::from(TAGS)) as u8,
    }
}

impl Flight<'_> {
    /// Runs start-up, loops and drain; returns its begin and the ends of the loops.
    async fn run(&mut self) -> Result<(Picoseconds, Vec<Picoseconds>)> {
        let NgetOptions { in_flight, per_loop, loops, .. } = *self.options;
        let bus = self.processor.bus();
        let begun = bus.now();
        for _ in 0..in_flight - per_loop {
            self.start().await?;
        }
        let mut stamps = Vec::with_capacity(loops as usize);
        for _ in 0..loops {
            for _ in 0..per_loop {
                self.start().await?;
            }
            for _ in 0..per_loop {
                self.wait().await?;
            }
            stamps.push(bus.now());
        }
        for _ in 0..in_flight - per_loop {
            self.wait().await?;
        }
        Ok((begun, stamps))
    }

    async fn start(&mut self) -> Result<()> {
        let bus = self.processor.bus();
        let begun = bus.now();
        let place = (self.started % self.buffers.len() as u64) as usize;
        let message = Message {
            key: key(self.started, self.links),
            buffer: self.buffers[place].clone(),
            part: 0..self.options.size_bytes,
            deadline: begun + self.options.timeout,
        };
        let get = self.processor.nget(message).await?;
        self.started += 1;
        self.waiting.push_back((get, begun));
        Ok(())
    }

    async fn wait(&mut self) -> Result<()> {
        let bus = self.processor.bus();
        let (get, begun) = self.waiting.pop_front().expect("no more are awaited than started");
        let ended = self.processor.wait(&get, bus.now() + self.options.timeout).await?;
        if ended.bytes != self.options.size_bytes {
            let problem = format!("{} of {} B were read", ended.bytes, self.options.size_bytes);
            let place = format!("a get of {}", self.processor.name());
            return Err(ExperimentError::refused(place, problem));
        }
        self.durations_ps.push(bus.now().since(begun).0);
        Ok(())
    }
}

fn check(place: &str, options: &NgetOptions) -> Result<()> {
    let NgetOptions { size_bytes, in_flight, per_loop, loops, .. } = *options;
    let problem = if !(1..=1 << 20).contains(&size_bytes) {
        format!("gets of {size_bytes} B; 1 B to 1 MiB is possible")
    } else if !(1..=MAX_IN_FLIGHT).contains(&in_flight) {
        format!("{in_flight} gets in flight; 1 to {MAX_IN_FLIGHT} are possible")
    } else if !(1..=in_flight).contains(&per_loop) {
        format!("{per_loop} gets in each loop; 1 to the {in_flight} in flight")
    } else if loops == 0 {
        "no loop".to_owned()
    } else {
        return Ok(());
    };
    Err(ExperimentError::refused(place, problem))
}

/// Runs the micro-benchmark, with all links of the network processor in mode `sink`, then compares
/// data. The links are in mode `normal` afterwards.
///
/// # Errors
/// Invalid options, or a failure of the run.
pub async fn nget(processor: &NetworkProcessor, options: &NgetOptions) -> Result<NgetMeasured> {
    Ok(nget_sampled(processor, options, || ()).await?.0)
}

/// Does the same, and takes samples before the first register access, at begin and end of the
/// measurement, and after the last register access.
async fn nget_sampled<S>(
    processor: &NetworkProcessor,
    options: &NgetOptions,
    sample: impl Fn() -> S,
) -> Result<(NgetMeasured, [S; 4])> {
    check(&format!("gets of {}", processor.name()), options)?;
    let first = sample();
    set_links(processor, LinkMode::Sink).await?;
    let mut buffers = Vec::new();
    for number in 0..options.in_flight {
        let buffer = processor.buffer(options.size_bytes).await?;
        buffer.write(0, &data(options, number))?;
        buffers.push(buffer);
    }
    let links = processor.sizes().links;
    let before = sent(processor, links).await?;
    let mut flight = Flight {
        processor,
        options,
        links: u64::from(links),
        buffers,
        started: 0,
        waiting: VecDeque::new(),
        durations_ps: Vec::new(),
    };
    let at_begin = sample();
    let (begun, stamps) = flight.run().await?;
    let (ended, at_end) = (processor.bus().now(), sample());
    let durations = Latencies::of(std::mem::take(&mut flight.durations_ps));
    let datagrams = flight.started * options.size_bytes.div_ceil(processor.sizes().payload_bytes());
    let buffers = flight.buffers;
    // `done` says that data have come from memory; the links take them a moment later.
    let mut counted = sent(processor, links).await?.wrapping_sub(before);
    while counted != datagrams as u32 && processor.bus().now() < ended + DRAINED_WITHIN {
        counted = sent(processor, links).await?.wrapping_sub(before);
    }
    if counted != datagrams as u32 {
        let place = format!("the links of {}", processor.name());
        let problem = format!("{counted} datagrams came to them, {datagrams} were sent");
        return Err(ExperimentError::refused(place, problem));
    }
    set_links(processor, LinkMode::Normal).await?;
    let samples = [first, at_begin, at_end, sample()];
    let (compared, wrong) = compare(processor, options, &buffers).await?;
    let measured = NgetMeasured {
        node: processor.name().to_owned(),
        modes: processor.modes(),
        options: *options,
        begun,
        stamps,
        ended,
        durations,
        datagrams,
        compared,
        wrong,
    };
    Ok((measured, samples))
}

/// Sets the mode of all links.
async fn set_links(processor: &NetworkProcessor, mode: LinkMode) -> Result<()> {
    for link in 0..processor.sizes().links {
        processor.set_link_mode(link, mode).await?;
    }
    Ok(())
}

/// Makes gets whose data come back, and compares them. Returns the numbers of gets that were
/// compared and that were wrong.
async fn compare(
    processor: &NetworkProcessor,
    options: &NgetOptions,
    buffers: &[Buffer],
) -> Result<(u32, u32)> {
    let bytes = options.size_bytes;
    set_links(processor, LinkMode::Loopback).await?;
    // A link without a cable does not come up; the gateware forgets its mode before.
    let mut links = Vec::new();
    let late = processor.bus().now() + LOOPED_WITHIN;
    for link in 0..processor.sizes().links {
        let is_up = match processor.link_state(link).await? {
            LinkState::Training => match processor.wait_link_up(link, late).await {
                Err(NetworkError { fault: NetworkFault::NotUp { .. }, .. }) => false,
                done => done.map(|()| true)?,
            },
            state => state == LinkState::Up,
        };
        if is_up {
            links.push(link);
        }
    }
    let gets = if links.is_empty() { 0 } else { (COMPARED_BYTES / bytes).max(1) };
    let received = processor.buffer(bytes).await?;
    let (mut compared, mut wrong) = (0, 0);
    for (number, buffer) in (0..gets as u32).zip(buffers) {
        let expected = data(options, number);
        let other: Vec<u8> = expected.iter().map(|byte| !byte).collect();
        received.write(0, &other)?;
        let link = links[number as usize % links.len()];
        let deadline = processor.bus().now() + options.timeout;
        let message = |buffer: &Buffer| Message {
            key: Key::Neighbour { link, channel: 0, tag: 0 },
            buffer: buffer.clone(),
            part: 0..bytes,
            deadline,
        };
        let room = processor.credit(message(&received)).await?;
        let get = processor.nget(message(buffer)).await?;
        processor.wait(&get, deadline).await?;
        processor.wait(&room, deadline).await?;
        let mut found = vec![0; bytes as usize];
        received.read(0, &mut found)?;
        compared += 1;
        wrong += u32::from(found != expected);
    }
    set_links(processor, LinkMode::Normal).await?;
    Ok((compared, wrong))
}

/// Datagrams that all links have sent since they were reset, modulo 2^32.
async fn sent(processor: &NetworkProcessor, links: u8) -> Result<u32> {
    let mut sum = 0_u32;
    for link in 0..links {
        sum = sum.wrapping_add(processor.link_counters(link).await?.sent);
    }
    Ok(sum)
}

/// Data of the buffer with a number.
fn data(options: &NgetOptions, number: u32) -> Vec<u8> {
    pattern_bytes(options.seed ^ number.rotate_left(16), options.size_bytes)
}
