// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Local DMA: between host memory and the memory of an FPGA card in the same host, through the card
//! and back, and within the card.
//!
//! A transfer is cut into pieces, which pass through a ring of pinned buffers for each controller
//! (transmit: H2C channel 0, receive: C2H channel 0). While the controllers move some pieces, the
//! processor copies others into a ring or out of it. Memory registered with the device is not
//! copied. Copies and controllers are separate tasks: in the lab each has its core; on a real
//! machine they share the thread that polls the call.

mod options;
mod stages;

use std::fmt;
use std::pin::pin;

use crosslane_driver::{Buffer, ChannelKind, Device, DriverError, StreamSource};
use crosslane_host::ErrorKind::Cancelled;
use crosslane_host::{Bus, Clock, PageSize};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, pending, select};

pub use options::{
    Arrived, BUFFER_BYTES, BUFFERS, Cores, HostSink, HostSource, Job, LocalOptions, Moved,
};
use stages::{Ends, HostEnd, Side};

use crate::card_channel::{CardChannel, LEAST_ENTRIES};
use crate::error::BridgeError;
use crate::pipeline::Pipeline;
use crate::stage::Stage;

/// The stages, in the order of the data.
const STAGES: [Stage; 4] = [Stage::CopyIn, Stage::Transmit, Stage::Receive, Stage::CopyOut];
/// Most descriptors of a channel's ring.
const MOST_ENTRIES: u32 = 65_536;

/// The time of a bus.
#[derive(Clone)]
pub(super) struct BusClock<B>(B);

impl<B: Bus> Clock for BusClock<B> {
    fn now(&self) -> Picoseconds {
        self.0.now()
    }

    async fn sleep_until(&self, time: Picoseconds) {
        self.0.sleep_until(time).await;
    }
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
    transmit: CardChannel<B>,
    receive: CardChannel<B>,
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
    /// Invalid options.
    pub fn new(device: &Device<B>, options: LocalOptions) -> Result<Self, BridgeError> {
        options.check()?;
        let LocalOptions { cores, notification, .. } = options;
        Ok(Self {
            device: device.clone(),
            options,
            transmit: CardChannel::new(ChannelKind::H2c, cores.transmit, notification),
            receive: CardChannel::new(ChannelKind::C2h, cores.receive, notification),
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
    ) -> Result<Moved, BridgeError> {
        self.transfer_until(job, deadline, pending()).await
    }

    /// Makes a transfer that `cancel` ends when it is ready: the controllers are stopped, and the
    /// error carries the bytes that have arrived by then.
    ///
    /// # Errors
    /// As [`transfer`](Self::transfer), and that it was cancelled.
    pub async fn transfer_until(
        &mut self,
        job: Job<'_, B>,
        deadline: Picoseconds,
        cancel: impl Future<Output = ()>,
    ) -> Result<Moved, BridgeError> {
        job.check()?;
        let bus = self.device.bus().clone();
        let begun = bus.now();
        let total_bytes = job.bytes();
        self.prepare(&job).await.map_err(BridgeError::driver(Stage::Registration))?;
        self.is_under_way = true;
        let arrived = self.arrived();
        let pipeline = Pipeline::new(BusClock(bus.clone()), Picoseconds::ZERO, 0);
        let (mut transmit, mut receive) = self.sides(job, &pipeline);
        if let Some(last) = receive.as_mut().or(transmit.as_mut()) {
            last.tell(arrived);
        }
        let ended = {
            let running = pin!(run(&mut transmit, &mut receive, deadline));
            match select(running, pin!(cancel)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => Err(BridgeError::new(Stage::Request, Cancelled, "cancelled")),
            }
        };
        let Err(error) = ended else {
            let elapsed = bus.now().since(begun);
            let noted = pipeline.stages();
            let stages = STAGES.into_iter().filter(|stage| noted.contains(stage));
            let stages = stages.map(|stage| pipeline.statistics(stage)).collect();
            let moved = Moved { bytes: total_bytes, elapsed, stages };
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
        drop((transmit, receive));
        let arrived_bytes = pipeline.arrived_bytes();
        self.is_under_way = !is_stopped;
        Err(error.arrived(arrived_bytes, total_bytes))
    }

    /// Releases channels and rings, and stops an abandoned transfer.
    ///
    /// # Errors
    /// If the device does not answer: the driver then keeps the memory that it may still use.
    pub async fn close(mut self) -> Result<(), BridgeError> {
        let closing = async {
            self.transmit.close().await?;
            self.receive.close().await?;
            for ring in [self.transmit_ring.take(), self.receive_ring.take()].into_iter().flatten()
            {
                ring.unregister().await?;
            }
            Ok(())
        };
        closing.await.map_err(BridgeError::driver(Stage::Registration))
    }

    /// Stops an abandoned transfer, and sets up channels and rings for a new one.
    async fn prepare(&mut self, job: &Job<'_, B>) -> Result<(), DriverError> {
        if self.is_under_way {
            for side in [&mut self.transmit, &mut self.receive] {
                if let Some(channel) = side.channel() {
                    channel.cancel().await?;
                }
            }
            self.is_under_way = false;
        }
        let in_memory = !matches!(job, Job::HostToHost { .. });
        if let Job::HostToCard { from, .. } | Job::HostToHost { from, .. } = job {
            let entries = match from {
                HostSource::Registered(buffer, part) => self.entries(buffer, part.start, part.end),
                HostSource::Copied(_) => {
                    let ring = ring(&self.device, &self.options, &mut self.transmit_ring).await?;
                    self.entries(&ring, 0, ring.size_bytes())
                }
            };
            self.transmit.set_up(&self.device, in_memory, entries).await?;
        }
        if let Job::CardToHost { to, .. } | Job::HostToHost { to, .. } = job {
            let entries = match to {
                HostSink::Registered(buffer, part) => self.entries(buffer, part.start, part.end),
                HostSink::Copied(_) => {
                    let ring = ring(&self.device, &self.options, &mut self.receive_ring).await?;
                    self.entries(&ring, 0, ring.size_bytes())
                }
            };
            self.receive.set_up(&self.device, in_memory, entries).await?;
        }
        if let Job::CardToCard { .. } = job {
            self.receive.set_up(&self.device, in_memory, LEAST_ENTRIES).await?;
        }
        if !in_memory && !self.is_routed {
            let user = self.device.user();
            user.route(StreamSource::H2c, StreamSource::Generator).await?;
            self.is_routed = true;
        }
        Ok(())
    }

    /// Returns the descriptors that a channel's ring needs: one for each run of bus addresses in a
    /// piece of a buffer.
    fn entries(&self, buffer: &Buffer<B>, start: u64, end: u64) -> u32 {
        let shortest = buffer.segments().iter().map(|it| it.bytes).min().unwrap_or(1).max(1);
        let bytes = self.options.buffer_bytes.min(end.saturating_sub(start));
        let entries = bytes.div_ceil(shortest) + 1;
        let entries = entries.clamp(LEAST_ENTRIES.into(), MOST_ENTRIES.into()) as u32;
        entries.next_power_of_two()
    }

    /// Returns the sides of a transfer, once everything is set up.
    fn sides<'a>(
        &'a mut self,
        job: Job<'a, B>,
        pipeline: &'a Pipeline<BusClock<B>>,
    ) -> (Option<Side<'a, B>>, Option<Side<'a, B>>) {
        let total_bytes = job.bytes();
        let Self { device, options, transmit, receive, transmit_ring, receive_ring, .. } = self;
        let source = |from: HostSource<'a, B>, card| match from {
            HostSource::Registered(buffer, part) => {
                let host = HostEnd::Registered(buffer.clone(), part.start);
                Some(Ends { host, source: None, sink: None, card })
            }
            HostSource::Copied(data) => {
                let host = HostEnd::Ring(transmit_ring.clone()?);
                Some(Ends { host, source: Some(data), sink: None, card })
            }
        };
        let sink = |to: HostSink<'a, B>, card| match to {
            HostSink::Registered(buffer, part) => {
                let host = HostEnd::Registered(buffer.clone(), part.start);
                Some(Ends { host, source: None, sink: None, card })
            }
            HostSink::Copied(data) => {
                let host = HostEnd::Ring(receive_ring.clone()?);
                Some(Ends { host, source: None, sink: Some(data), card })
            }
        };
        let (from, to) = match job {
            Job::HostToCard { from, to } => (source(from, Some(to)), None),
            Job::CardToHost { from, to } => (None, sink(to, Some(from))),
            Job::HostToHost { from, to } => (source(from, None), sink(to, None)),
            Job::CardToCard { from, to, .. } => {
                let host = HostEnd::Card(from);
                (None, Some(Ends { host, source: None, sink: None, card: Some(to) }))
            }
        };
        let side = |stage, channel: &'a mut CardChannel<B>, ends: Option<Ends<'a, B>>| {
            let (ends, channel) = (ends?, channel.channel()?);
            Some(Side::new(device, options, pipeline, channel, stage, ends, total_bytes))
        };
        (side(Stage::Transmit, transmit, from), side(Stage::Receive, receive, to))
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
) -> Result<(), BridgeError> {
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
