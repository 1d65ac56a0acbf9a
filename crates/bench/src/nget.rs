// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The micro-benchmark of the network processor's get engine, as its document has it in
//! pseudo-code: N gets in flight, in each loop M more are started and M awaited, then a drain.
//!
//! What the engine reads goes to links in mode `sink`, so that nothing but the way from host
//! memory to the engine is measured. Data are not compared there, since nobody gets them: the
//! links count their datagrams, and each notification says how many bytes were read.

use std::collections::VecDeque;

use crosslane_driver::network_processor::{
    Get, Key, LinkMode, Message, NetworkProcessor, PAYLOAD_BYTES, TAGS,
};
use crosslane_driver::{Buffer, pattern_word};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Latencies;

use crate::error::BenchError;
use crate::measured::rate;
use crate::pattern::WORD_BYTES;

/// Most gets in flight: the tags that the document's macro supports.
pub const MAX_IN_FLIGHT: u32 = 64;
/// Channels that are used: those for neighbours, whether the card is in a torus or not.
const CHANNELS: u64 = 6;

/// What is started how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NgetOptions {
    /// L: bytes of each get.
    pub size_bytes: u64,
    /// N: gets in flight, 1 to [`MAX_IN_FLIGHT`].
    pub in_flight: u32,
    /// M: gets that are started, and then awaited, in each loop; 1 to N.
    pub per_loop: u32,
    /// K: loops, at least 1.
    pub loops: u64,
    /// Of the data.
    pub seed: u32,
    /// A get that takes longer than this has failed.
    pub timeout: Picoseconds,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct NgetMeasured {
    /// What was asked for.
    pub options: NgetOptions,
    /// Time stamp #S: before the first get is started.
    pub begun: Picoseconds,
    /// Time stamps #k: the end of each loop.
    pub stamps: Vec<Picoseconds>,
    /// Time stamp #E: behind the drain.
    pub ended: Picoseconds,
    /// From before a get's request until its notification has been seen, of all of them.
    pub durations: Latencies,
    /// Datagrams that the links have taken.
    pub datagrams: u64,
}

impl NgetMeasured {
    /// Gets of the whole run.
    #[must_use]
    pub fn gets(&self) -> u64 {
        let NgetOptions { in_flight, per_loop, loops, .. } = self.options;
        u64::from(in_flight - per_loop) + loops * u64::from(per_loop)
    }

    /// Time of the whole run, #S to #E: the gets in flight share the engine, so parts of a run
    /// begin and end with as many as are in flight.
    #[must_use]
    pub fn elapsed(&self) -> Picoseconds {
        self.ended.since(self.begun)
    }

    /// Time for each get, ps, over the whole run.
    #[must_use]
    pub fn interval_ps(&self) -> f64 {
        self.elapsed().0 as f64 / self.gets() as f64
    }

    /// Bytes per second of the whole run.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.gets() * self.options.size_bytes, self.elapsed())
    }
}

/// The gets in flight, oldest first.
struct InFlight<'a, B: Bus> {
    processor: &'a NetworkProcessor<B>,
    options: &'a NgetOptions,
    links: u64,
    /// One for each get in flight.
    buffers: Vec<Buffer<B>>,
    /// How many have been started.
    started: u64,
    waiting: VecDeque<(Get<B>, Picoseconds)>,
    durations_ps: Vec<u64>,
}

impl<B: Bus> InFlight<'_, B> {
    /// What the get with this number is told apart by: those in flight differ, and so do their
    /// links, as far as there are links.
    fn key(&self, number: u64) -> Key {
        let channels = number / self.links;
        Key::Neighbour {
            link: (number % self.links) as u8,
            channel: (channels % CHANNELS) as u8,
            tag: (channels / CHANNELS % u64::from(TAGS)) as u8,
        }
    }

    async fn start(&mut self) -> Result<(), BenchError> {
        let bus = self.processor.bus();
        let begun = bus.now();
        let place = (self.started % self.buffers.len() as u64) as usize;
        let message = Message {
            key: self.key(self.started),
            buffer: self.buffers[place].clone(),
            part: 0..self.options.size_bytes,
            deadline: begun + self.options.timeout,
        };
        let get = self.processor.nget(message).await?;
        self.started += 1;
        self.waiting.push_back((get, begun));
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), BenchError> {
        let bus = self.processor.bus();
        let (get, begun) = self.waiting.pop_front().expect("no more are awaited than started");
        let ended = self.processor.nget_wait(&get, bus.now() + self.options.timeout).await?;
        if ended.bytes != self.options.size_bytes {
            let problem = format!("{} of {} B were read", ended.bytes, self.options.size_bytes);
            let place = format!("a get of {}", self.processor.name());
            return Err(BenchError::Refused { place, problem });
        }
        self.durations_ps.push(bus.now().since(begun).0);
        Ok(())
    }
}

fn check(options: &NgetOptions) -> Result<(), String> {
    let NgetOptions { size_bytes, in_flight, per_loop, loops, .. } = *options;
    if !(1..=1 << 20).contains(&size_bytes) {
        return Err(format!("gets of {size_bytes} B; 1 B to 1 MiB is possible"));
    }
    if !(1..=MAX_IN_FLIGHT).contains(&in_flight) {
        return Err(format!("{in_flight} gets in flight; 1 to {MAX_IN_FLIGHT} are possible"));
    }
    if !(1..=in_flight).contains(&per_loop) {
        return Err(format!("{per_loop} gets in each loop; 1 to the {in_flight} in flight"));
    }
    if loops == 0 {
        return Err("no loop".to_owned());
    }
    Ok(())
}

/// Runs the micro-benchmark: all links of the network processor are set to mode `sink` before, and
/// back to the mode that they had behind it.
///
/// # Errors
/// Options that cannot be, and what fails on the way.
pub async fn nget<B: Bus>(
    processor: &NetworkProcessor<B>,
    options: &NgetOptions,
) -> Result<NgetMeasured, BenchError> {
    check(options).map_err(|problem| BenchError::Refused {
        place: format!("gets of {}", processor.name()),
        problem,
    })?;
    let NgetOptions { size_bytes, in_flight, per_loop, loops, seed, .. } = *options;
    let bus = processor.bus();
    let links = processor.sizes().links;
    for link in 0..links {
        processor.set_link_mode(link, LinkMode::Sink).await?;
    }
    let mut buffers = Vec::new();
    for number in 0..in_flight {
        let buffer = processor.buffer(size_bytes).await?;
        let data = data(seed ^ number.rotate_left(16), size_bytes);
        buffer.write(0, &data)?;
        buffers.push(buffer);
    }
    let before = sent(processor, links).await?;
    let mut flight = InFlight {
        processor,
        options,
        links: u64::from(links),
        buffers,
        started: 0,
        waiting: VecDeque::new(),
        durations_ps: Vec::new(),
    };
    // Start-up transactions.
    let begun = bus.now();
    for _ in 0..in_flight - per_loop {
        flight.start().await?;
    }
    // Main loop.
    let mut stamps = Vec::with_capacity(loops as usize);
    for _ in 0..loops {
        for _ in 0..per_loop {
            flight.start().await?;
        }
        for _ in 0..per_loop {
            flight.wait().await?;
        }
        stamps.push(bus.now());
    }
    // Drain.
    for _ in 0..in_flight - per_loop {
        flight.wait().await?;
    }
    let ended = bus.now();
    let durations = Latencies::of(std::mem::take(&mut flight.durations_ps));
    let each = size_bytes.div_ceil(PAYLOAD_BYTES);
    let expected = flight.started * each;
    drop(flight);
    // `done` says that data have come from memory; the links take them a moment later.
    let datagrams = sent(processor, links).await?.wrapping_sub(before);
    if datagrams != expected as u32 {
        let place = format!("the links of {}", processor.name());
        let problem = format!("{datagrams} datagrams came to them, {expected} were sent");
        return Err(BenchError::Refused { place, problem });
    }
    for link in 0..links {
        processor.set_link_mode(link, LinkMode::Normal).await?;
    }
    Ok(NgetMeasured { options: *options, begun, stamps, ended, durations, datagrams: expected })
}

/// Datagrams that all links have sent since they were reset, modulo 2^32.
async fn sent<B: Bus>(processor: &NetworkProcessor<B>, links: u8) -> Result<u32, BenchError> {
    let mut sum = 0_u32;
    for link in 0..links {
        sum = sum.wrapping_add(processor.link_counters(link).await?.sent);
    }
    Ok(sum)
}

/// The data of a get's buffer.
fn data(seed: u32, bytes: u64) -> Vec<u8> {
    let words = 0..bytes.div_ceil(WORD_BYTES) as u32;
    let mut data: Vec<u8> =
        words.flat_map(|number| pattern_word(seed, number).to_le_bytes()).collect();
    data.truncate(bytes as usize);
    data
}
