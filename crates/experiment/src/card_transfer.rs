// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between host memory and addresses of a card's memory. Data written there are read
//! back, data to be read are written before: every byte is compared, outside of the timed span.

use std::ops::Range;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, Completed, CompletionLevel, DescriptorSource,
    Device, DriverError, Notification, PathEnd, Plan, Target, Transfer,
};
use crosslane_host::{AnyBus, PageSize};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::quantity::size_words;

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, Measured, Measuring};
use crate::options::Options;
use crate::pattern::{WORD_BYTES, compare, fill};
use crate::transfer::{Source, run_posted};

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

    /// Returns the direction in words: `host to card`, `card to host`.
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

impl Options {
    /// The procedure of a driver that sets parameters by registers, starts, and waits for the
    /// interrupt: one transfer at a time.
    pub fn by_registers(size_bytes: u64, seed: u32) -> Self {
        Self {
            size_bytes,
            iterations: 4,
            descriptors: DescriptorSource::Table,
            notification: Notification::Interrupt,
            seed,
            ..Self::default()
        }
    }

    /// Transfers that wait in the ring, polled.
    pub fn queued(size_bytes: u64, outstanding: u32, iterations: u64, seed: u32) -> Self {
        let descriptors = DescriptorSource::Ring { entries: 1024 };
        Self { size_bytes, iterations, outstanding, descriptors, seed, ..Self::default() }
    }
}

/// Rejects options that transfers with a card's memory do not support.
fn check(place: &str, options: &Options) -> Result<()> {
    options.check(place)?;
    let (posted, size) = (options.outstanding, options.size_bytes);
    let problem = if options.descriptors == DescriptorSource::Table && posted > 1 {
        format!("{posted} transfers at once: descriptors of a table all mean card address 0")
    } else if u64::from(posted).saturating_mul(size) > MOST_CARD_BYTES {
        format!(
            "{posted} transfers of {} at once need more than {} of the card's memory",
            size_words(size),
            size_words(MOST_CARD_BYTES)
        )
    } else {
        return Ok(());
    };
    Err(ExperimentError::refused(place, problem))
}

/// Makes transfers with a card's memory: by a table, or queued in a ring. Of the options those
/// about pages, registration, system calls and credits do not matter. The time of each transfer is
/// from its start (behind the setting of parameters) until the host knows that it is complete: the
/// interval that the kc705 paper's program times.
///
/// # Errors
/// An impossible request, or a failure of the run.
pub fn card_transfer<'a>(
    device: &'a Device,
    direction: CardDirection,
    options: &'a Options,
) -> Measuring<'a> {
    Box::pin(transfer(device, direction, options))
}

async fn transfer(
    device: &Device,
    direction: CardDirection,
    options: &Options,
) -> Result<Measured> {
    let name = format!("{}, {}", device.function().name, direction.words());
    check(&name, options)?;
    let (memory, card) = (PathEnd::HostMemory, PathEnd::Function(device.function().id));
    let (from, to) = match direction {
        CardDirection::ToCard => (memory, card),
        CardDirection::FromCard => (card, memory),
    };
    let plan = Plan::new(device.bus(), from, to).map_err(DriverError::from)?;
    let slots = u64::from(options.outstanding).min(options.iterations);
    // As memory that is kept from the kernel: in one piece.
    let buffer = device.buffer(slots * options.size_bytes, PageSize::Huge).await?;
    let data_errors = DataErrors::default();
    let mut run = Run { device, direction, options, buffer, slots, data_errors };
    if direction == CardDirection::FromCard {
        run.fill_card().await?;
    }
    let mut channel = run.open(direction.channel(), true).await?;
    let timing = run_posted(&mut channel, &mut run).await?;
    channel.close().await?;
    if direction == CardDirection::ToCard {
        run.compare_card().await?;
    }
    let Run { buffer, data_errors, .. } = run;
    buffer.unregister().await?;
    Ok(Measured::new(name, options, timing, None, plan, data_errors))
}

/// A run: a buffer with a slot for each transfer that is posted at once.
struct Run<'a> {
    device: &'a Device,
    direction: CardDirection,
    options: &'a Options,
    buffer: Buffer,
    slots: u64,
    data_errors: DataErrors,
}

impl Run<'_> {
    async fn open(&self, kind: ChannelKind, is_timed: bool) -> Result<Channel> {
        let options = if is_timed { self.options.channel() } else { ChannelOptions::default() };
        let options = options.with_card_memory(true).with_oversize(false);
        Ok(self.device.channel(kind, 0, options).await?)
    }

    /// Returns the number of places on the card that transfers go to in turn: the last one to each
    /// is compared.
    fn places(&self) -> u64 {
        match self.options.descriptors {
            DescriptorSource::Table => 1,
            _ => self.options.iterations.min(MOST_CARD_BYTES / self.options.size_bytes),
        }
    }

    fn slot(&self, index: u64) -> Range<u64> {
        let start = index % self.slots * self.options.size_bytes;
        start..start + self.options.size_bytes
    }

    /// Returns the first word of a place on the card: that of the last transfer to it.
    fn first_word(&self, index: u64) -> u64 {
        let index = match self.direction {
            CardDirection::ToCard => index,
            CardDirection::FromCard => index % self.places(),
        };
        index * self.options.size_bytes / WORD_BYTES
    }

    fn target(&self, index: u64) -> Transfer {
        let card = index % self.places() * self.options.size_bytes;
        Transfer {
            target: Target::Card(self.buffer.clone(), self.slot(index), card),
            level: CompletionLevel::Visible,
            deadline: self.options.deadline(self.device.bus()),
        }
    }

    /// Fills a slot with its data, or with others, so that data found there afterwards have come.
    fn fill(&self, index: u64, is_right: bool) -> Result<()> {
        let seed = if is_right { self.options.seed } else { !self.options.seed };
        let (start, size) = (self.slot(index).start, self.options.size_bytes);
        fill(&self.buffer, start, size, seed, self.first_word(index))
    }

    fn compare(&mut self, index: u64) -> Result<()> {
        let (size, seed) = (self.options.size_bytes, self.options.seed);
        let (start, first) = (self.slot(index).start, self.first_word(index));
        compare(&self.buffer, start, size, seed, first, &mut self.data_errors)
    }

    /// Puts into the card's memory what is to be read from it.
    async fn fill_card(&self) -> Result<()> {
        let mut channel = self.open(ChannelKind::H2c, false).await?;
        for place in 0..self.places() {
            self.fill(place, true)?;
            channel.transfer(self.target(place)).await?;
        }
        Ok(channel.close().await?)
    }

    /// Compares what the card's memory holds.
    async fn compare_card(&mut self) -> Result<()> {
        let mut channel = self.open(ChannelKind::C2h, false).await?;
        let (iterations, places) = (self.options.iterations, self.places());
        for index in iterations - places..iterations {
            self.fill(index, false)?;
            channel.transfer(self.target(index)).await?;
            self.compare(index)?;
        }
        Ok(channel.close().await?)
    }
}

impl Source for Run<'_> {
    fn bus(&self) -> &AnyBus {
        self.device.bus()
    }

    fn options(&self) -> &Options {
        self.options
    }

    fn transfer(&mut self, index: u64) -> Result<Transfer> {
        self.fill(index, self.direction == CardDirection::ToCard)?;
        Ok(self.target(index))
    }

    fn completed(&mut self, index: u64) -> Result<()> {
        match self.direction {
            CardDirection::ToCard => Ok(()),
            CardDirection::FromCard => self.compare(index),
        }
    }

    /// The time of a transfer begins behind the setting of parameters.
    fn time(&self, _begun: Picoseconds, completed: &Completed) -> Picoseconds {
        completed.completed.since(completed.posted)
    }
}
