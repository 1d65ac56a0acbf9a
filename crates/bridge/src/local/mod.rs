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
use std::ops::Range;
use std::pin::pin;

use crosslane_driver::{Buffer, ChannelKind, Device, DriverError, Notification, StreamSource};
use crosslane_host::ErrorKind::Cancelled;
use crosslane_host::{Bus, Clock, PageSize};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, pending, select};

pub use options::{
    Arrived, BUFFER_BYTES, BUFFERS, Cores, HostSink, HostSource, Job, LocalOptions, Moved, Taker,
};
use stages::{Common, Ends, HostEnd, Side, Sink, Source};

use crate::card_channel::{CardChannel, LEAST_ENTRIES};
use crate::error::{BridgeError, Result};
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

/// A channel of the card, with the ring of buffers that data are copied into or out of.
struct Controller<B: Bus> {
    channel: CardChannel<B>,
    ring: Option<Buffer<B>>,
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
    transmit: Controller<B>,
    receive: Controller<B>,
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
    pub fn new(device: &Device<B>, options: LocalOptions) -> Result<Self> {
        options.check()?;
        let LocalOptions { cores, notification, .. } = options;
        Ok(Self {
            device: device.clone(),
            options,
            transmit: Controller::new(ChannelKind::H2c, cores.transmit, notification),
            receive: Controller::new(ChannelKind::C2h, cores.receive, notification),
            is_routed: false,
            is_under_way: false,
            arrived: Arrived::default(),
        })
    }

    /// Returns the settings.
    pub const fn options(&self) -> &LocalOptions {
        &self.options
    }

    /// Returns a handle to watch the progress of transfers.
    pub fn arrived(&self) -> Arrived {
        self.arrived.clone()
    }

    /// Makes a transfer. [`Picoseconds::NEVER`] is no deadline.
    ///
    /// # Errors
    /// If the request is invalid, the device does not answer, or the transfer fails; then with the
    /// bytes that have arrived. The next transfer can be made.
    pub async fn transfer(&mut self, job: Job<'_, B>, deadline: Picoseconds) -> Result<Moved> {
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
    ) -> Result<Moved> {
        job.check()?;
        let bus = self.device.bus().clone();
        let begun = bus.now();
        let total_bytes = job.bytes();
        let prepared = self.prepare(job).await;
        let [from, to] = prepared.map_err(BridgeError::driver(Stage::Registration))?;
        self.is_under_way = true;
        let arrived = self.arrived();
        let pipeline = Pipeline::new(BusClock(bus.clone()), Picoseconds::ZERO, 0);
        let Self { device, options, transmit, receive, .. } = self;
        let common = (&*device, *options, &pipeline, total_bytes);
        let mut transmit = transmit.side(common, Stage::Transmit, from);
        let mut receive = receive.side(common, Stage::Receive, to);
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
    pub async fn close(mut self) -> Result<()> {
        let closing = async {
            self.transmit.channel.close().await?;
            self.receive.channel.close().await?;
            for ring in [self.transmit.ring.take(), self.receive.ring.take()].into_iter().flatten()
            {
                ring.unregister().await?;
            }
            Ok(())
        };
        closing.await.map_err(BridgeError::driver(Stage::Registration))
    }

    /// Stops an abandoned transfer, and sets up channels and rings for a new one. Returns the ends
    /// of the data of each channel.
    async fn prepare<'a>(
        &mut self,
        job: Job<'a, B>,
    ) -> Result<[Option<Ends<'a, B>>; 2], DriverError> {
        if self.is_under_way {
            for side in [&mut self.transmit, &mut self.receive] {
                if let Some(channel) = side.channel.channel() {
                    channel.cancel().await?;
                }
            }
            self.is_under_way = false;
        }
        let in_memory = !matches!(job, Job::HostToHost { .. });
        let (from, to) = match job {
            Job::HostToCard { from, to } => (Some((from, Some(to))), None),
            Job::CardToHost { from, to } => (None, Some((to, Some(from)))),
            Job::HostToHost { from, to } => (Some((from, None)), Some((to, None))),
            Job::CardToCard { from, to, .. } => {
                self.receive.channel.set_up(&self.device, in_memory, LEAST_ENTRIES).await?;
                let (host, card) = (HostEnd::Card(from), Some(to));
                return Ok([None, Some(Ends { host, source: None, sink: None, card })]);
            }
        };
        let (device, options) = (&self.device, &self.options);
        let from = match from {
            None => None,
            Some((HostSource::Registered(buffer, part), card)) => {
                let host =
                    self.transmit.registered(device, options, buffer, part, in_memory).await?;
                Some(Ends { host, source: None, sink: None, card })
            }
            Some((from, card)) => {
                let source = match from {
                    HostSource::Copied(data) => Source::Slice(data),
                    HostSource::Made(_, make) => Source::Function(make),
                    HostSource::Registered(..) => unreachable!("it has its arm above"),
                };
                let host = self.transmit.ring(device, options, in_memory).await?;
                Some(Ends { host, source: Some(source), sink: None, card })
            }
        };
        let to = match to {
            None => None,
            Some((HostSink::Registered(buffer, part), card)) => {
                let host =
                    self.receive.registered(device, options, buffer, part, in_memory).await?;
                Some(Ends { host, source: None, sink: None, card })
            }
            Some((to, card)) => {
                let sink = match to {
                    HostSink::Copied(data) => Sink::Slice(data),
                    HostSink::Used(_, take) => Sink::Function(take),
                    HostSink::Registered(..) => unreachable!("it has its arm above"),
                };
                let host = self.receive.ring(device, options, in_memory).await?;
                Some(Ends { host, source: None, sink: Some(sink), card })
            }
        };
        if !in_memory && !self.is_routed {
            let user = self.device.user();
            user.route(StreamSource::H2c, StreamSource::Generator).await?;
            self.is_routed = true;
        }
        Ok([from, to])
    }
}

impl<B: Bus> Controller<B> {
    fn new(kind: ChannelKind, core: u16, notification: Notification) -> Self {
        Self { channel: CardChannel::new(kind, core, notification), ring: None }
    }

    /// Sets up for memory of the caller.
    async fn registered(
        &mut self,
        device: &Device<B>,
        options: &LocalOptions,
        buffer: &Buffer<B>,
        part: Range<u64>,
        in_memory: bool,
    ) -> Result<HostEnd<B>, DriverError> {
        let bytes = part.end.saturating_sub(part.start);
        let entries = entries(buffer, options.buffer_bytes.min(bytes));
        self.channel.set_up(device, in_memory, entries).await?;
        Ok(HostEnd::Registered(buffer.clone(), part.start))
    }

    /// Sets up for copies through the ring, in huge pages if available.
    async fn ring(
        &mut self,
        device: &Device<B>,
        options: &LocalOptions,
        in_memory: bool,
    ) -> Result<HostEnd<B>, DriverError> {
        let ring = match &self.ring {
            Some(ring) => ring.clone(),
            None => {
                let bytes = u64::from(options.buffers) * options.buffer_bytes;
                let ring = device.buffer(bytes, PageSize::Huge).await?;
                self.ring.insert(ring).clone()
            }
        };
        let entries = entries(&ring, options.buffer_bytes);
        self.channel.set_up(device, in_memory, entries).await?;
        Ok(HostEnd::Ring(ring))
    }

    /// Returns the stages of a transfer with these ends.
    fn side<'a>(
        &'a mut self,
        common: Common<'a, B>,
        stage: Stage,
        ends: Option<Ends<'a, B>>,
    ) -> Option<Side<'a, B>> {
        Some(Side::new(common, self.channel.channel()?, stage, ends?))
    }
}

/// Returns the descriptors that a channel's ring needs: one for each run of bus addresses in a
/// piece of a buffer.
fn entries<B: Bus>(buffer: &Buffer<B>, piece_bytes: u64) -> u32 {
    let shortest = buffer.segments().iter().map(|it| it.bytes).min().unwrap_or(1).max(1);
    let entries = piece_bytes.div_ceil(shortest) + 1;
    let entries = entries.clamp(LEAST_ENTRIES.into(), MOST_ENTRIES.into()) as u32;
    entries.next_power_of_two()
}

async fn run<B: Bus>(
    transmit: &mut Option<Side<'_, B>>,
    receive: &mut Option<Side<'_, B>>,
    deadline: Picoseconds,
) -> Result<()> {
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
