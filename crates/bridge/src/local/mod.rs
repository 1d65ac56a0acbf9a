// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The local DMA call: data between host memory and the memory of an FPGA card in the same host,
//! through the card and back, and within the card.
//!
//! A transfer is cut into pieces, which go through a ring of pinned buffers for each controller
//! (transmit: H2C channel 0, receive: C2H channel 0). While the controllers move some pieces the
//! processor copies others into a ring or out of it. Where the caller's memory is registered with
//! the device nothing is copied. Copies and controllers are tasks of their own, each on a core of
//! its own in the lab; on a real machine they share the thread that polls the call.

mod error;
mod options;
mod stages;

use std::fmt;
use std::pin::pin;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, DescriptorSource, Device, DriverError,
    StreamSource,
};
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, pending, select};

pub use error::{LocalError, LocalFault, Stage};
pub use options::{
    Arrived, BUFFER_BYTES, BUFFERS, Cores, Handling, HostSink, HostSource, Job, LocalOptions,
    Moved, SideStatistics,
};
use stages::{Failure, FarEnd, Memory, Side};

/// Descriptors of a channel's ring at least: a piece of 4 MiB in small pages.
const LEAST_ENTRIES: u32 = 1024;
/// Descriptors of a channel's ring at most.
const MOST_ENTRIES: u32 = 65_536;

/// A channel that is open, and for what.
struct Open<B: Bus> {
    channel: Channel<B>,
    card_memory: bool,
    entries: u32,
}

/// The local DMA of one card: it has H2C channel 0 and C2H channel 0 while it is open, and while
/// data pass through the card the stream of the user circuit leads from the one to the other.
///
/// One transfer is made at a time. A transfer whose future is dropped is given up: what it had
/// under way is stopped before the next one, or by [`close`](Self::close). Until then the
/// controllers may read and write the memory of it: for registered memory the driver sees to it
/// that nobody touches those parts, and the caller's other memory they never reach.
pub struct LocalDma<B: Bus> {
    device: Device<B>,
    options: LocalOptions,
    transmit: Option<Open<B>>,
    receive: Option<Open<B>>,
    transmit_ring: Option<Buffer<B>>,
    receive_ring: Option<Buffer<B>>,
    /// The stream leads from H2C to C2H.
    is_routed: bool,
    /// A transfer was begun and has not ended.
    is_under_way: bool,
    arrived: Arrived,
}

impl<B: Bus> fmt::Debug for LocalDma<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalDma({})", self.device.function().name)
    }
}

impl<B: Bus> LocalDma<B> {
    /// Local DMA with a device. Channels and rings are taken when a transfer needs them first, and
    /// kept.
    ///
    /// # Errors
    /// [`LocalError::Refused`] for options that cannot be.
    pub fn new(device: &Device<B>, options: LocalOptions) -> Result<Self, LocalError> {
        options.check()?;
        Ok(Self {
            device: device.clone(),
            options,
            transmit: None,
            receive: None,
            transmit_ring: None,
            receive_ring: None,
            is_routed: false,
            is_under_way: false,
            arrived: Arrived::default(),
        })
    }

    /// How transfers are made.
    #[must_use]
    pub const fn options(&self) -> &LocalOptions {
        &self.options
    }

    /// How far a transfer is.
    #[must_use]
    pub fn arrived(&self) -> Arrived {
        self.arrived.clone()
    }

    /// Makes a transfer. [`Picoseconds::NEVER`] is no deadline.
    ///
    /// # Errors
    /// What cannot be asked for, a device that does not answer, or what failed on the way with
    /// what has arrived. The next transfer can be made.
    pub async fn transfer(
        &mut self,
        job: Job<'_, B>,
        deadline: Picoseconds,
    ) -> Result<Moved, LocalError> {
        self.transfer_until(job, deadline, pending()).await
    }

    /// The same, cancelled when `cancel` is ready: the controllers are stopped, and what has
    /// arrived by then is told.
    ///
    /// # Errors
    /// As [`transfer`](Self::transfer), and [`LocalFault::Cancelled`].
    pub async fn transfer_until(
        &mut self,
        job: Job<'_, B>,
        deadline: Picoseconds,
        cancel: impl Future<Output = ()>,
    ) -> Result<Moved, LocalError> {
        job.check()?;
        let bus = self.device.bus().clone();
        let begun = bus.now();
        let total_bytes = job.bytes();
        self.prepare(&job).await?;
        self.is_under_way = true;
        let arrived = self.arrived();
        let (mut transmit, mut receive) = self.sides(job);
        if let Some(last) = receive.as_mut().or(transmit.as_mut()) {
            last.tell(arrived);
        }
        let ended = {
            let running = pin!(run(&mut transmit, &mut receive, deadline));
            match select(running, pin!(cancel)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => Err((Stage::Whole, LocalFault::Cancelled)),
            }
        };
        let Err((stage, fault)) = ended else {
            let elapsed = bus.now().since(begun);
            let statistics = |side: &Option<Side<'_, B>>| side.as_ref().map(Side::statistics);
            let moved = Moved {
                bytes: total_bytes,
                elapsed,
                transmit: statistics(&transmit),
                receive: statistics(&receive),
            };
            drop((transmit, receive));
            self.is_under_way = false;
            return Ok(moved);
        };
        // What feeds the stream first: else it would fill again behind what is emptied.
        let mut is_stopped = true;
        for side in [&mut transmit, &mut receive].into_iter().flatten() {
            is_stopped &= side.stop().await.is_ok();
        }
        let last = receive.as_ref().or(transmit.as_ref());
        let arrived_bytes = last.map_or(0, Side::arrived_bytes);
        drop((transmit, receive));
        self.is_under_way = !is_stopped;
        Err(LocalError::Failed { stage, fault, arrived_bytes, total_bytes })
    }

    /// Gives channels and rings back. A transfer that was given up is stopped.
    ///
    /// # Errors
    /// The device does not answer: what it may still use is then kept as the driver keeps it.
    pub async fn close(mut self) -> Result<(), LocalError> {
        for open in [self.transmit.take(), self.receive.take()].into_iter().flatten() {
            open.channel.close().await?;
        }
        for ring in [self.transmit_ring.take(), self.receive_ring.take()].into_iter().flatten() {
            ring.unregister().await?;
        }
        Ok(())
    }

    /// Stops what was given up, and gets what a transfer needs.
    async fn prepare(&mut self, job: &Job<'_, B>) -> Result<(), LocalError> {
        if self.is_under_way {
            for open in [&mut self.transmit, &mut self.receive].into_iter().flatten() {
                open.channel.cancel().await?;
            }
            self.is_under_way = false;
        }
        let in_memory = !matches!(job, Job::HostToHost { .. });
        if let Job::HostToCard { from, .. } | Job::HostToHost { from, .. } = job {
            let pieces = match from {
                HostSource::Registered(buffer, part) => self.pieces(buffer, part.start, part.end),
                HostSource::Copied(_) => {
                    let ring = ring(&self.device, &self.options, &mut self.transmit_ring).await?;
                    self.pieces(&ring, 0, ring.size_bytes())
                }
            };
            let core = self.options.cores.transmit;
            self.open(ChannelKind::H2c, core, in_memory, pieces).await?;
        }
        if let Job::CardToHost { to, .. } | Job::HostToHost { to, .. } = job {
            let pieces = match to {
                HostSink::Registered(buffer, part) => self.pieces(buffer, part.start, part.end),
                HostSink::Copied(_) => {
                    let ring = ring(&self.device, &self.options, &mut self.receive_ring).await?;
                    self.pieces(&ring, 0, ring.size_bytes())
                }
            };
            let core = self.options.cores.receive;
            self.open(ChannelKind::C2h, core, in_memory, pieces).await?;
        }
        if let Job::CardToCard { .. } = job {
            let core = self.options.cores.receive;
            self.open(ChannelKind::C2h, core, in_memory, 1).await?;
        }
        if !in_memory && !self.is_routed {
            let user = self.device.user();
            user.route(StreamSource::H2c, StreamSource::Generator).await?;
            self.is_routed = true;
        }
        Ok(())
    }

    /// Most runs of bus addresses in a piece of a buffer.
    fn pieces(&self, buffer: &Buffer<B>, start: u64, end: u64) -> u64 {
        let shortest = buffer.segments().iter().map(|it| it.bytes).min().unwrap_or(1).max(1);
        let bytes = self.options.buffer_bytes.min(end.saturating_sub(start));
        bytes.div_ceil(shortest) + 1
    }

    /// Opens a channel, unless it is open as it has to be.
    async fn open(
        &mut self,
        kind: ChannelKind,
        core: u16,
        card_memory: bool,
        pieces: u64,
    ) -> Result<(), DriverError> {
        let entries = pieces.clamp(LEAST_ENTRIES.into(), MOST_ENTRIES.into()) as u32;
        let entries = entries.next_power_of_two();
        let place = match kind {
            ChannelKind::H2c => &mut self.transmit,
            ChannelKind::C2h | ChannelKind::Peer => &mut self.receive,
        };
        let fits = |open: &Open<B>| open.card_memory == card_memory && open.entries >= entries;
        if place.as_ref().is_some_and(fits) {
            return Ok(());
        }
        if let Some(open) = place.take() {
            open.channel.close().await?;
        }
        let options = ChannelOptions {
            descriptors: DescriptorSource::Ring { entries },
            notification: self.options.notification,
            card_memory,
            ..ChannelOptions::default()
        };
        let channel = self.device.on_core(core).channel(kind, 0, options).await?;
        *place = Some(Open { channel, card_memory, entries });
        Ok(())
    }

    /// The controllers of a transfer, with what they need; all of it is there.
    fn sides<'a>(&'a mut self, job: Job<'a, B>) -> (Option<Side<'a, B>>, Option<Side<'a, B>>) {
        let total_bytes = job.bytes();
        let Self { device, options, transmit, receive, transmit_ring, receive_ring, .. } = self;
        let source = |from: HostSource<'a, B>| match from {
            HostSource::Registered(buffer, part) => {
                Some(Memory::Registered(buffer.clone(), part.start))
            }
            HostSource::Copied(data) => {
                transmit_ring.clone().map(|ring| Memory::Source(data, ring))
            }
        };
        let sink = |to: HostSink<'a, B>| match to {
            HostSink::Registered(buffer, part) => {
                Some(Memory::Registered(buffer.clone(), part.start))
            }
            HostSink::Copied(data) => receive_ring.clone().map(|ring| Memory::Sink(data, ring)),
        };
        let (from, to) = match job {
            Job::HostToCard { from, to } => (Some((source(from), FarEnd::Card(to))), None),
            Job::CardToHost { from, to } => (None, Some((sink(to), FarEnd::Card(from)))),
            Job::HostToHost { from, to } => {
                (Some((source(from), FarEnd::Stream)), Some((sink(to), FarEnd::Stream)))
            }
            Job::CardToCard { from, to, .. } => {
                (None, Some((Some(Memory::Card(from)), FarEnd::Card(to))))
            }
        };
        let side = |stage, open: Option<&'a mut Open<B>>, ends: Option<(Option<_>, FarEnd)>| {
            let ((memory, far_end), open) = (ends?, open?);
            let channel = &mut open.channel;
            Some(Side::new(device, options, channel, stage, memory?, far_end, total_bytes))
        };
        (side(Stage::Transmit, transmit.as_mut(), from), side(Stage::Receive, receive.as_mut(), to))
    }
}

/// The buffers of a ring, in huge pages where there are any.
async fn ring<B: Bus>(
    device: &Device<B>,
    options: &LocalOptions,
    place: &mut Option<Buffer<B>>,
) -> Result<Buffer<B>, DriverError> {
    match place {
        Some(ring) => Ok(ring.clone()),
        None => {
            let ring = device.buffer(options.ring_bytes(), PageSize::Huge).await?;
            Ok(place.insert(ring).clone())
        }
    }
}

async fn run<B: Bus>(
    transmit: &mut Option<Side<'_, B>>,
    receive: &mut Option<Side<'_, B>>,
    deadline: Picoseconds,
) -> Result<(), Failure> {
    match (transmit, receive) {
        (Some(transmit), Some(receive)) => {
            futures_util::try_join!(transmit.run(deadline), receive.run(deadline))?;
            Ok(())
        }
        (Some(transmit), None) => transmit.run(deadline).await,
        (None, Some(receive)) => receive.run(deadline).await,
        (None, None) => Ok(()),
    }
}
