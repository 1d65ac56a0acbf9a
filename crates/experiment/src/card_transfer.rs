// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between host memory and addresses of a card's memory. What is written there is read
//! back, and what is read was written before: every byte is compared, outside of what is timed.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, Completed, CompletionLevel, DescriptorSource,
    Device, Notification, Target, Transfer,
};
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::units::Picoseconds;

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, median, rate};
use crate::pattern::{WORD_BYTES, compare, fill};

/// Most bytes of the card's memory that a run uses.
const MOST_CARD_BYTES: u64 = 256 << 20;

/// Direction of the timed transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CardDirection {
    /// From host memory to the card's (H2C).
    ToCard,
    /// From the card's memory to the host's (C2H).
    FromCard,
}

impl CardDirection {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ToCard, Self::FromCard];

    /// `host to card`, `card to host`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ToCard => "host to card",
            Self::FromCard => "card to host",
        }
    }

    const fn channel(self) -> ChannelKind {
        match self {
            Self::ToCard => ChannelKind::H2c,
            Self::FromCard => ChannelKind::C2h,
        }
    }
}

/// How transfers with a card's memory are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardOptions {
    /// Direction of the timed transfers.
    pub direction: CardDirection,
    /// Bytes of one transfer, a multiple of 4.
    pub size_bytes: u64,
    /// Transfers that are timed.
    pub iterations: u64,
    /// Transfers that are kept posted at once; 1 with a table.
    pub outstanding: u32,
    /// Where descriptors are: in the engine's table, which the host sets by register writes, or in
    /// a ring.
    pub descriptors: DescriptorSource,
    /// How completions are learnt.
    pub notification: Notification,
    /// Longest write payload or read request, bytes; none for the most that is allowed.
    pub payload_bytes: Option<u32>,
    /// Seed of the data.
    pub seed: u32,
    /// A transfer that takes longer than this has failed.
    pub timeout: Picoseconds,
}

impl CardOptions {
    /// The procedure of a driver that sets parameters by registers, starts, and waits for the
    /// interrupt: one transfer at a time.
    #[must_use]
    pub const fn by_registers(direction: CardDirection, size_bytes: u64, seed: u32) -> Self {
        Self {
            direction,
            size_bytes,
            iterations: 4,
            outstanding: 1,
            descriptors: DescriptorSource::Table,
            notification: Notification::Interrupt,
            payload_bytes: None,
            seed,
            timeout: Picoseconds(1_000_000_000_000),
        }
    }

    /// Transfers that wait in the ring, polled.
    #[must_use]
    pub const fn queued(
        direction: CardDirection,
        size_bytes: u64,
        outstanding: u32,
        iterations: u64,
        seed: u32,
    ) -> Self {
        Self {
            iterations,
            outstanding,
            descriptors: DescriptorSource::Ring { entries: 1024 },
            notification: Notification::Poll,
            ..Self::by_registers(direction, size_bytes, seed)
        }
    }

    fn check(&self, place: &str) -> Result<()> {
        let size = self.size_bytes;
        let problem = if size == 0 || !size.is_multiple_of(WORD_BYTES) {
            format!("a transfer of {size} B: it has to be a multiple of 4 B, and not 0")
        } else if self.iterations == 0 || self.outstanding == 0 {
            "at least one transfer has to be made, and posted".to_owned()
        } else if self.descriptors == DescriptorSource::Table && self.outstanding > 1 {
            let posted = self.outstanding;
            format!("{posted} transfers at once: descriptors of a table all mean card address 0")
        } else if u64::from(self.outstanding).saturating_mul(size) > MOST_CARD_BYTES {
            let posted = self.outstanding;
            format!(
                "{posted} transfers of {size} B at once need more than {MOST_CARD_BYTES} B of the \
                 card's memory"
            )
        } else {
            return Ok(());
        };
        Err(ExperimentError::refused(place, problem))
    }

    /// How many places on the card transfers go to in turn: the last one to each is compared.
    fn places(&self) -> u64 {
        match self.descriptors {
            DescriptorSource::Table => 1,
            _ => self.iterations.min(MOST_CARD_BYTES / self.size_bytes),
        }
    }
}

/// Measurements of transfers with a card's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct CardMeasured {
    /// How they were made.
    pub options: CardOptions,
    /// Of each transfer in order, from its start (behind the setting of parameters) until the host
    /// knows that it is complete: the interval that the paper's program times.
    pub times: Vec<Picoseconds>,
    /// From before the first was posted until all were known to be complete.
    pub elapsed: Picoseconds,
    /// Words that differ from the data sent.
    pub data_errors: DataErrors,
}

impl CardMeasured {
    /// Median time of a transfer.
    #[must_use]
    pub fn median(&self) -> Picoseconds {
        median(&self.times)
    }

    /// Bytes per second of a transfer of median time, alone.
    #[must_use]
    pub fn bytes_per_second_alone(&self) -> f64 {
        rate(self.options.size_bytes, self.median())
    }

    /// Bytes per second of all of them together.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.options.size_bytes * self.options.iterations, self.elapsed)
    }
}

/// Makes transfers with a card's memory.
///
/// # Errors
/// What cannot be asked for, and what fails on the way.
pub async fn card_transfer<B: Bus>(
    device: &Device<B>,
    options: &CardOptions,
) -> Result<CardMeasured> {
    let name = format!("{}, {}", device.function().name, options.direction.words());
    options.check(&name)?;
    let run = Run::prepare(device, options).await?;
    run.go().await
}

/// A run: its channel, and a buffer with a slot for each transfer that is posted at once.
struct Run<'a, B: Bus> {
    device: &'a Device<B>,
    options: &'a CardOptions,
    buffer: Buffer<B>,
    slots: u64,
    data_errors: DataErrors,
}

impl<'a, B: Bus> Run<'a, B> {
    async fn prepare(device: &'a Device<B>, options: &'a CardOptions) -> Result<Self> {
        let slots = u64::from(options.outstanding).min(options.iterations);
        // As memory that is kept from the kernel: in one piece.
        let buffer = device.buffer(slots * options.size_bytes, PageSize::Huge).await?;
        let run = Self { device, options, buffer, slots, data_errors: DataErrors::default() };
        if options.direction == CardDirection::FromCard {
            run.fill_card().await?;
        }
        Ok(run)
    }

    async fn open(&self, kind: ChannelKind, is_timed: bool) -> Result<Channel<B>> {
        let default = ChannelOptions::default().with_card_memory(true);
        let options = match is_timed {
            true => default
                .with_descriptors(self.options.descriptors)
                .with_notification(self.options.notification)
                .with_payload_bytes(self.options.payload_bytes),
            false => default,
        };
        Ok(self.device.channel(kind, 0, options).await?)
    }

    fn slot(&self, index: u64) -> Range<u64> {
        let start = index % self.slots * self.options.size_bytes;
        start..start + self.options.size_bytes
    }

    /// First word of what lies in a place on the card: what the last transfer to it has.
    fn first_word(&self, index: u64) -> u64 {
        let index = match self.options.direction {
            CardDirection::ToCard => index,
            CardDirection::FromCard => index % self.options.places(),
        };
        index * self.options.size_bytes / WORD_BYTES
    }

    fn transfer(&self, index: u64) -> Transfer<B> {
        let card = index % self.options.places() * self.options.size_bytes;
        let now = self.device.bus().now();
        Transfer {
            target: Target::Card(self.buffer.clone(), self.slot(index), card),
            level: CompletionLevel::Visible,
            deadline: Picoseconds(now.0.saturating_add(self.options.timeout.0)),
        }
    }

    fn fill(&self, index: u64) -> Result<()> {
        let (size, seed) = (self.options.size_bytes, self.options.seed);
        fill(&self.buffer, self.slot(index).start, size, seed, self.first_word(index))
    }

    /// Makes sure that what is found in a slot has come there.
    fn scrub(&self, index: u64) -> Result<()> {
        let (size, seed) = (self.options.size_bytes, !self.options.seed);
        fill(&self.buffer, self.slot(index).start, size, seed, self.first_word(index))
    }

    fn compare(&mut self, index: u64) -> Result<()> {
        let (size, seed) = (self.options.size_bytes, self.options.seed);
        let (start, first) = (self.slot(index).start, self.first_word(index));
        compare(&self.buffer, start, size, seed, first, &mut self.data_errors)
    }

    /// Puts into the card's memory what is to be read from it.
    async fn fill_card(&self) -> Result<()> {
        let mut channel = self.open(ChannelKind::H2c, false).await?;
        for place in 0..self.options.places() {
            self.fill(place)?;
            channel.transfer(self.transfer(place)).await?;
        }
        Ok(channel.close().await?)
    }

    /// Compares what the card's memory holds.
    async fn compare_card(&mut self) -> Result<()> {
        let mut channel = self.open(ChannelKind::C2h, false).await?;
        let (iterations, places) = (self.options.iterations, self.options.places());
        for index in iterations - places..iterations {
            self.scrub(index)?;
            channel.transfer(self.transfer(index)).await?;
            self.compare(index)?;
        }
        Ok(channel.close().await?)
    }

    async fn go(mut self) -> Result<CardMeasured> {
        let mut channel = self.open(self.options.direction.channel(), true).await?;
        let bus = self.device.bus().clone();
        let (mut times, mut posted) = (Vec::new(), VecDeque::new());
        let (started, mut next) = (bus.now(), 0);
        while next < self.options.iterations || !posted.is_empty() {
            let room = u64::from(self.options.outstanding) - posted.len() as u64;
            let batch = next..next + room.min(self.options.iterations - next);
            next = batch.end;
            if !batch.is_empty() {
                batch.clone().try_for_each(|index| match self.options.direction {
                    CardDirection::ToCard => self.fill(index),
                    CardDirection::FromCard => self.scrub(index),
                })?;
                let transfers: Vec<Transfer<B>> =
                    batch.clone().map(|index| self.transfer(index)).collect();
                posted.extend(channel.post(&transfers).await?.into_iter().zip(batch));
            }
            let Some((ticket, index)) = posted.pop_front() else { break };
            let completed = channel.wait(ticket).await?;
            self.end(index, completed, &mut times)?;
            while let Some((ticket, index)) = posted.front().copied() {
                let Some(completed) = channel.poll(ticket).await? else { break };
                self.end(index, completed, &mut times)?;
                posted.pop_front();
            }
        }
        let elapsed = bus.now().since(started);
        channel.close().await?;
        if self.options.direction == CardDirection::ToCard {
            self.compare_card().await?;
        }
        let Self { options, buffer, data_errors, .. } = self;
        buffer.unregister().await?;
        Ok(CardMeasured { options: *options, times, elapsed, data_errors })
    }

    fn end(
        &mut self,
        index: u64,
        completed: Completed,
        times: &mut Vec<Picoseconds>,
    ) -> Result<()> {
        times.push(completed.completed.since(completed.posted));
        match self.options.direction {
            CardDirection::ToCard => Ok(()),
            CardDirection::FromCard => self.compare(index),
        }
    }
}
