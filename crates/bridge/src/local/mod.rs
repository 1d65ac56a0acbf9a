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

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::pin::pin;

use crosslane_driver::{Buffer, ChannelKind, Device, DriverError, StreamSource};
use crosslane_host::ErrorKind::Cancelled;
use crosslane_host::{AnyBus, PageSize};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, pending, select};
use futures_util::try_join;

pub use options::{
    Arrived, BUFFER_BYTES, BUFFERS, Cores, HostSink, HostSource, Job, LocalOptions, Moved, Taker,
};
use stages::{Ends, HostEnd, Side};

use crate::card_channel::{CardChannel, LEAST_ENTRIES};
use crate::error::{At, BridgeError, Result};
use crate::pipeline::Pipeline;
use crate::stage::Stage;

/// The stages, in the order of the data.
const STAGES: [Stage; 4] = [Stage::CopyIn, Stage::Transmit, Stage::Receive, Stage::CopyOut];
/// Most descriptors of a channel's ring.
const MOST_ENTRIES: u32 = 65_536;

/// A channel of the card, with the ring of buffers that data are copied into or out of.
struct Controller {
    device: Device,
    options: LocalOptions,
    channel: CardChannel,
    ring: Option<Buffer>,
}

/// The local DMA of one card. While open it owns H2C channel 0 and C2H channel 0; for data that
/// pass through the card, the stream of the user circuit leads from the one to the other.
///
/// Only one transfer runs at a time. Dropping a transfer's future abandons it: its operations in
/// flight are stopped before the next one, or by [`close`](Self::close). Until then the controllers
/// may access its memory: the driver guards those parts of registered memory, and the controllers
/// never access the caller's unregistered memory.
pub struct LocalDma {
    device: Device,
    options: LocalOptions,
    transmit: Controller,
    receive: Controller,
    /// Whether the stream leads from H2C to C2H.
    is_routed: bool,
    /// Whether a transfer has begun and not ended.
    is_under_way: bool,
    arrived: Arrived,
}

impl fmt::Debug for LocalDma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalDma({})", self.device.function().name)
    }
}

impl LocalDma {
    /// Makes local DMA with a device. Channels and rings are set up when a transfer first needs
    /// them, and kept.
    ///
    /// # Errors
    /// Invalid options.
    pub fn new(device: &Device, options: LocalOptions) -> Result<Self> {
        options.check()?;
        let cores = options.cores;
        Ok(Self {
            device: device.clone(),
            options,
            transmit: Controller::new(device, options, ChannelKind::H2c, cores.transmit),
            receive: Controller::new(device, options, ChannelKind::C2h, cores.receive),
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

    /// Makes a transfer. [`Picoseconds::NEVER`] means no deadline.
    ///
    /// # Errors
    /// If the request is invalid, the device does not answer, or the transfer fails; then with the
    /// bytes that have arrived. The next transfer can be made.
    pub async fn transfer(&mut self, job: Job<'_>, deadline: Picoseconds) -> Result<Moved> {
        self.transfer_until(job, deadline, pending()).await
    }

    /// Makes a transfer that `cancel` ends when it is ready: the controllers are stopped, and the
    /// error carries the bytes that have arrived by then.
    ///
    /// # Errors
    /// As [`transfer`](Self::transfer), and that it was cancelled.
    pub async fn transfer_until(
        &mut self,
        job: Job<'_>,
        deadline: Picoseconds,
        cancel: impl Future<Output = ()>,
    ) -> Result<Moved> {
        job.check()?;
        let clock = self.device.bus().clone();
        let pipeline = Pipeline::new(clock, Picoseconds::ZERO, 0);
        let total_bytes = job.bytes();
        let [from, to] = self.prepare(job).await.at(Stage::Registration)?;
        self.is_under_way = true;
        let arrived = self.arrived();
        let Self { transmit, receive, .. } = self;
        let mut transmit = transmit.side(&pipeline, total_bytes, Stage::Transmit, from);
        let mut receive = receive.side(&pipeline, total_bytes, Stage::Receive, to);
        if let Some(last) = receive.as_mut().or(transmit.as_mut()) {
            last.tell(arrived);
        }
        let ended = {
            let running =
                async { try_join!(run(&mut transmit, deadline), run(&mut receive, deadline)) };
            match select(pin!(running), pin!(cancel)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => Err(BridgeError::new(Stage::Request, Cancelled, "cancelled")),
            }
        };
        let Err(error) = ended else {
            let elapsed = pipeline.elapsed();
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
            Ok::<(), DriverError>(())
        };
        closing.await.at(Stage::Registration)
    }

    /// Stops an abandoned transfer, and sets up channels and rings for a new one. Returns the ends
    /// of the data of each channel.
    async fn prepare<'a>(&mut self, job: Job<'a>) -> Result<[Option<Ends<'a>>; 2], DriverError> {
        if self.is_under_way {
            for side in [&mut self.transmit, &mut self.receive] {
                if let Some(channel) = side.channel.channel() {
                    channel.cancel().await?;
                }
            }
            self.is_under_way = false;
        }
        Ok(match job {
            Job::HostToCard { from, to } => {
                [Some(self.transmit.take_from(from, Some(to)).await?), None]
            }
            Job::CardToHost { from, to } => {
                [None, Some(self.receive.bring_to(to, Some(from)).await?)]
            }
            Job::HostToHost { from, to } => {
                let from = self.transmit.take_from(from, None).await?;
                let to = self.receive.bring_to(to, None).await?;
                if !self.is_routed {
                    let user = self.device.user();
                    user.route(StreamSource::H2c, StreamSource::Generator).await?;
                    self.is_routed = true;
                }
                [Some(from), Some(to)]
            }
            Job::CardToCard { from, to, .. } => {
                self.receive.channel.set_up(&self.device, true, LEAST_ENTRIES).await?;
                [None, Some(Ends { host: HostEnd::Card(from), card: Some(to) })]
            }
        })
    }
}

impl Controller {
    fn new(device: &Device, options: LocalOptions, kind: ChannelKind, core: u16) -> Self {
        let channel = CardChannel::new(kind, core, options.notification);
        Self { device: device.clone(), options, channel, ring: None }
    }

    /// Sets up for data from host memory to a card address, or to the stream.
    async fn take_from<'a>(
        &mut self,
        from: HostSource<'a>,
        card: Option<u64>,
    ) -> Result<Ends<'a>, DriverError> {
        let host = match from {
            HostSource::Registered(buffer, part) => self.registered(buffer, part, card).await?,
            copied => HostEnd::Filled(self.ring(card).await?, copied),
        };
        Ok(Ends { host, card })
    }

    /// Sets up for data from a card address, or from the stream, to host memory.
    async fn bring_to<'a>(
        &mut self,
        to: HostSink<'a>,
        card: Option<u64>,
    ) -> Result<Ends<'a>, DriverError> {
        let host = match to {
            HostSink::Registered(buffer, part) => self.registered(buffer, part, card).await?,
            copied => HostEnd::Emptied(self.ring(card).await?, RefCell::new(copied)),
        };
        Ok(Ends { host, card })
    }

    /// Sets up for memory of the caller.
    async fn registered<'a>(
        &mut self,
        buffer: &Buffer,
        part: Range<u64>,
        card: Option<u64>,
    ) -> Result<HostEnd<'a>, DriverError> {
        let bytes = part.end.saturating_sub(part.start);
        self.open(buffer, self.options.buffer_bytes.min(bytes), card).await?;
        Ok(HostEnd::Registered(buffer.clone(), part.start))
    }

    /// Sets up for copies through the ring, in huge pages if available.
    async fn ring(&mut self, card: Option<u64>) -> Result<Buffer, DriverError> {
        let LocalOptions { buffer_bytes, buffers, .. } = self.options;
        let ring = match &self.ring {
            Some(ring) => ring.clone(),
            None => {
                let bytes = u64::from(buffers) * buffer_bytes;
                let ring = self.device.buffer(bytes, PageSize::Huge).await?;
                self.ring.insert(ring).clone()
            }
        };
        self.open(&ring, buffer_bytes, card).await?;
        Ok(ring)
    }

    /// Opens the channel with a descriptor for each run of bus addresses in a piece of a buffer.
    async fn open(
        &mut self,
        buffer: &Buffer,
        piece_bytes: u64,
        card: Option<u64>,
    ) -> Result<(), DriverError> {
        let shortest = buffer.segments().iter().map(|it| it.bytes).min().unwrap_or(1).max(1);
        let entries = piece_bytes.div_ceil(shortest) + 1;
        let entries = entries.clamp(LEAST_ENTRIES.into(), MOST_ENTRIES.into()) as u32;
        self.channel.set_up(&self.device, card.is_some(), entries.next_power_of_two()).await
    }

    /// Returns the stages of a transfer with these ends.
    fn side<'a>(
        &'a mut self,
        pipeline: &'a Pipeline<AnyBus>,
        total_bytes: u64,
        stage: Stage,
        ends: Option<Ends<'a>>,
    ) -> Option<Side<'a>> {
        let Self { device, options, channel, .. } = self;
        let (card, channel) = ((&*device, &*options), channel.channel()?);
        Some(Side::new(pipeline, card, channel, stage, ends?, total_bytes))
    }
}

/// Runs the stages of a channel that takes part.
async fn run(side: &mut Option<Side<'_>>, deadline: Picoseconds) -> Result<()> {
    match side {
        Some(side) => side.run(deadline).await,
        None => Ok(()),
    }
}
