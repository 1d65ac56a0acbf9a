// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between one card and host memory.

use std::ops::Range;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, CompletionLevel, Device, PathEnd, Plan, StreamSource, Target,
    Transfer,
};
use crosslane_host::{Bus, HostWork};
use crosslane_pcie::units::Picoseconds;

use crate::error::Result;
use crate::measured::{DataErrors, EngineTime, Measured, channel};
use crate::options::{Options, Registration};
use crate::pattern::{WORD_BYTES, compare, fill};
use crate::posting::{Source, Timing, run_posted};

/// Card to host: the generator's pattern is written to host memory, where every byte is compared.
///
/// # Errors
/// An invalid request, and a failure on the way.
pub async fn write<B: Bus>(device: &Device<B>, options: &Options) -> Result<Measured> {
    run(device, Direction::Write, options).await
}

/// Host to card: the pattern is read from host memory, and compared by the card's checker.
///
/// # Errors
/// As [`write`](write()).
pub async fn read<B: Bus>(device: &Device<B>, options: &Options) -> Result<Measured> {
    run(device, Direction::Read, options).await
}

async fn run<B: Bus>(
    device: &Device<B>,
    direction: Direction,
    options: &Options,
) -> Result<Measured> {
    let mut prepared = HostTransfer::prepare(device, direction, options).await?;
    prepared.run().await?;
    prepared.finish().await
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Card to host.
    Write,
    /// Host to card.
    Read,
}

impl Direction {
    const fn channel(self) -> ChannelKind {
        match self {
            Self::Write => ChannelKind::C2h,
            Self::Read => ChannelKind::H2c,
        }
    }
}

/// A transfer with host memory that is set up and has not begun.
pub(crate) struct HostTransfer<B: Bus> {
    device: Device<B>,
    direction: Direction,
    options: Options,
    name: String,
    plan: Plan,
    time: EngineTime,
    reset_at_clocks: u64,
    channel: Channel<B>,
    /// Memory that is registered within each transfer, while it is not.
    memory: Option<B::Memory>,
    /// Registered memory, a slot for each transfer that may be posted at once.
    buffer: Option<Buffer<B>>,
    registration: Picoseconds,
    timing: Timing,
    data_errors: DataErrors,
}

impl<B: Bus> HostTransfer<B> {
    /// Sets up memory, channel and user circuit.
    pub(crate) async fn prepare(
        device: &Device<B>,
        direction: Direction,
        options: &Options,
    ) -> Result<Self> {
        let function = device.function();
        let card = PathEnd::Function(function.id);
        let (name, from, to) = match direction {
            Direction::Write => (format!("{} -> host", function.name), card, PathEnd::HostMemory),
            Direction::Read => (format!("host -> {}", function.name), PathEnd::HostMemory, card),
        };
        options.check(&name)?;
        let plan =
            Plan::new(device.bus(), from, to).map_err(crosslane_driver::DriverError::from)?;
        let slots = u64::from(options.outstanding).min(options.iterations);
        let plan = plan.streaming(slots * options.size_bytes, options.pages);
        let memory = device.bus().allocate(slots * options.size_bytes, options.pages)?;
        let channel = device.channel(direction.channel(), 0, options.channel()).await?;
        let mut prepared = Self {
            device: device.clone(),
            direction,
            options: *options,
            name,
            plan,
            time: EngineTime::of(device).await?,
            reset_at_clocks: 0,
            channel,
            memory: Some(memory),
            buffer: None,
            registration: Picoseconds::ZERO,
            timing: Timing::default(),
            data_errors: DataErrors::default(),
        };
        if options.registration == Registration::Before {
            prepared.register().await?;
        }
        let user = device.user();
        user.route(StreamSource::Generator, StreamSource::Generator).await?;
        match direction {
            Direction::Write => user.seed(options.seed).await?,
            Direction::Read => user.check_h2c(options.seed).await?,
        }
        device.reset_counters().await?;
        prepared.reset_at_clocks = device.time_clocks().await?;
        Ok(prepared)
    }

    async fn register(&mut self) -> Result<()> {
        if let Some(memory) = self.memory.take() {
            let begun = self.device.bus().now();
            self.buffer = Some(self.device.register(memory).await?);
            self.registration.0 += self.device.bus().now().since(begun).0;
        }
        Ok(())
    }

    async fn unregister(&mut self) -> Result<()> {
        if let Some(buffer) = self.buffer.take() {
            self.memory = Some(buffer.unregister().await?);
        }
        Ok(())
    }

    /// Moves everything, and compares what came to the host.
    pub(crate) async fn run(&mut self) -> Result<()> {
        match self.options.registration {
            Registration::Before => {
                let (channel, mut slots) = self.parts();
                self.timing = run_posted(channel, &mut slots).await?;
                Ok(())
            }
            Registration::Within => self.run_registering().await,
        }
    }

    fn parts(&mut self) -> (&mut Channel<B>, Slots<'_, B>) {
        let buffer = self.buffer.as_ref().expect("memory is registered before the run");
        let slots = Slots {
            bus: self.device.bus(),
            buffer,
            direction: self.direction,
            options: &self.options,
            data_errors: &mut self.data_errors,
        };
        (&mut self.channel, slots)
    }

    /// One transfer at a time, its memory registered and given back within it.
    async fn run_registering(&mut self) -> Result<()> {
        let bus = self.device.bus().clone();
        self.timing.started = bus.now();
        for index in 0..self.options.iterations {
            let begun = bus.now();
            if self.options.system_call {
                bus.work(HostWork::SystemCall).await;
            }
            self.register().await?;
            let (channel, mut slots) = self.parts();
            let transfer = slots.transfer(index)?;
            let posted = bus.now();
            channel.transfer(transfer).await?;
            slots.completed(index)?;
            self.timing.first_post.get_or_insert(posted);
            self.unregister().await?;
            self.timing.latencies.push(bus.now().since(begun));
        }
        self.timing.ended = bus.now();
        Ok(())
    }

    /// Reads the counters and gives everything back.
    pub(crate) async fn finish(mut self) -> Result<Measured> {
        let counters = self.channel.counters().await?;
        let read_at = self.device.time_clocks().await?;
        if self.direction == Direction::Read {
            let check = self.device.user().h2c_check_result().await?;
            self.data_errors = check.into();
        }
        self.channel.close().await?;
        if let Some(buffer) = self.buffer.take() {
            buffer.unregister().await?;
        }
        let kind = self.direction.channel();
        let hardware = self.time.span(&counters);
        let counted = read_at.saturating_sub(self.reset_at_clocks);
        let channels = vec![channel(&self.device, kind, counters, counted)];
        let (timing, errors) = (self.timing, self.data_errors);
        let measured = Measured::new(self.name, &self.options, timing, hardware, self.plan, errors);
        Ok(Measured { channels, registration: Some(self.registration), ..measured })
    }
}

/// Transfers between the stream and the slots of a registered buffer.
struct Slots<'a, B: Bus> {
    bus: &'a B,
    buffer: &'a Buffer<B>,
    direction: Direction,
    options: &'a Options,
    data_errors: &'a mut DataErrors,
}

impl<B: Bus> Slots<'_, B> {
    fn range(&self, index: u64) -> Range<u64> {
        let size = self.options.size_bytes;
        let start = index % (self.buffer.size_bytes() / size) * size;
        start..start + size
    }

    fn first_word(&self, index: u64) -> u64 {
        index * self.options.size_bytes / WORD_BYTES
    }
}

impl<B: Bus> Source<B> for Slots<'_, B> {
    fn bus(&self) -> &B {
        self.bus
    }

    fn options(&self) -> &Options {
        self.options
    }

    fn transfer(&mut self, index: u64) -> Result<Transfer<B>> {
        let range = self.range(index);
        if self.direction == Direction::Read {
            let (options, first) = (self.options, self.first_word(index));
            fill(self.buffer, range.start, options.size_bytes, options.seed, first)?;
        }
        Ok(Transfer {
            target: Target::Buffer(self.buffer.clone(), range),
            level: CompletionLevel::Visible,
            deadline: self.options.deadline(self.bus),
        })
    }

    fn completed(&mut self, index: u64) -> Result<()> {
        if self.direction == Direction::Write && self.options.check {
            let (range, first) = (self.range(index), self.first_word(index));
            let (size, seed) = (self.options.size_bytes, self.options.seed);
            compare(self.buffer, range.start, size, seed, first, self.data_errors)?;
        }
        Ok(())
    }
}
