// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Local DMA: between host memory and the memory of an FPGA card in the same host, through the card
//! and back, and within the card.
//!
//! A transfer is cut into pieces, which pass through a ring of pinned buffers for each controller
//! (transmit: H2C channel 0, receive: C2H channel 0). While the controllers move some pieces, the
//! processor copies others into a ring or out of it. Memory registered with the device is not
//! copied. Copies and controllers are separate tasks: in the lab each has its core; on a real
//! machine they share the thread that polls the call.

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

/// Least descriptors of a channel's ring: a piece of 4 MiB in small pages.
const LEAST_ENTRIES: u32 = 1024;
/// Most descriptors of a channel's ring.
const MOST_ENTRIES: u32 = 65_536;

/// An open channel and its configuration.
struct Open<B: Bus> {
    channel: Channel<B>,
    card_memory: bool,
    entries: u32,
}

/// The local DMA of one card. While open it owns H2C channel 0 and C2H channel 0; for data that
/// pass through the card, the stream of the user circuit leads from the one to the other.
///
/// Only one transfer runs at a time. Dropping a transfer's future abandons it: its operations in
/// flight are stopped before the next one, or by [`close`](Self::close). Until then the controllers
/// may access its memory: the driver guards those parts of registered memory, and the controllers
/// never access the caller's unregistered memory.
pub struct LocalDma<B: Bus> {
    device: Device<B>,
    options: LocalOptions,
    transmit: Option<Open<B>>,
    receive: Option<Open<B>>,
    transmit_ring: Option<Buffer<B>>,
    receive_ring: Option<Buffer<B>>,
    /// Whether the stream leads from H2C to C2H.
    is_routed: bool,
    /// Whether a transfer has begun and not ended.
    is_under_way: bool,
    arrived: Arrived,
}

impl<B: Bus> fmt::Debug for LocalDma<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalDma({})", self.device.function().name)
    }
}

impl<B: Bus> LocalDma<B> {
    /// Makes local DMA with a device. Channels and rings are set up when a transfer first needs
    /// them, and kept.
    ///
    /// # Errors
    /// [`LocalError::Refused`] for invalid options.
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

    /// Returns the settings.
    #[must_use]
    pub const fn options(&self) -> &LocalOptions {
        &self.options
    }

    /// Returns a handle to watch the progress of transfers.
    #[must_use]
    pub fn arrived(&self) -> Arrived {
        self.arrived.clone()
    }

    /// Makes a transfer. [`Picoseconds::NEVER`] is no deadline.
    ///
    /// # Errors
    /// If the request is invalid, the device does not answer, or the transfer fails; then with the
    /// bytes that have arrived. The next transfer can be made.
    pub async fn transfer(
        &mut self,
        job: Job<'_, B>,
        deadline: Picoseconds,
    ) -> Result<Moved, LocalError> {
        self.transfer_until(job, deadline, pending()).await
    }

    /// Makes a transfer that `cancel` ends when it is ready: the controllers are stopped, and the
    /// error carries the bytes that have arrived by then.
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
        // Stop the side that feeds the stream first: else it would refill the stream behind the
        // other.
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

    /// Releases channels and rings, and stops an abandoned transfer.
    ///
    /// # Errors
    /// If the device does not answer: the driver then keeps the memory that it may still use.
    pub async fn close(mut self) -> Result<(), LocalError> {
        for open in [self.transmit.take(), self.receive.take()].into_iter().flatten() {
            open.channel.close().await?;
        }
        for ring in [self.transmit_ring.take(), self.receive_ring.take()].into_iter().flatten() {
            ring.unregister().await?;
        }
        Ok(())
    }

    /// Stops an abandoned transfer, and sets up channels and rings for a new one.
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

    /// Returns the most runs of bus addresses in a piece of a buffer.
    fn pieces(&self, buffer: &Buffer<B>, start: u64, end: u64) -> u64 {
        let shortest = buffer.segments().iter().map(|it| it.bytes).min().unwrap_or(1).max(1);
        let bytes = self.options.buffer_bytes.min(end.saturating_sub(start));
        bytes.div_ceil(shortest) + 1
    }

    /// Opens a channel, unless it is already open with this configuration.
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

    /// Returns the sides of a transfer, once everything is set up.
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

/// Returns the buffers of a ring, in huge pages if available.
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
