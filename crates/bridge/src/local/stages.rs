// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stages of a transfer on one controller: a feeder fills free buffers of the ring, the
//! controller moves them, and a drainer empties them and frees them. Their state is kept outside of
//! their futures, so that it survives dropping them.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;

use crosslane_driver::{
    Buffer, Channel, Completed, CompletionLevel, Device, Target, Ticket, Transfer, TransferError,
};
use crosslane_host::{Bus, HostWork};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::error::{LocalFault, Stage};
use super::options::{Arrived, Handling, LocalOptions, SideStatistics};

/// A stage and its fault.
pub(super) type Failure = (Stage, LocalFault);

/// A piece of a transfer.
struct Piece<B: Bus> {
    offset_bytes: u64,
    bytes: u64,
    /// Buffer of the ring that it uses; if nothing is copied, its index among the pieces in flight.
    slot: usize,
    target: Target<B>,
    is_last: bool,
}

/// The host's end of a controller's data.
pub(super) enum Memory<'a, B: Bus> {
    /// Copied into a ring.
    Source(&'a [u8], Buffer<B>),
    /// Copied out of a ring.
    Sink(&'a mut [u8], Buffer<B>),
    /// The caller's registered buffer, from an offset.
    Registered(Buffer<B>, u64),
    /// None: data from a card address to the card.
    Card(u64),
}

/// The other end of a controller's data.
#[derive(Clone, Copy)]
pub(super) enum FarEnd {
    /// The card's memory, from an address.
    Card(u64),
    /// The stream.
    Stream,
}

/// Position of pieces at both ends.
struct Layout<B: Bus> {
    host: HostEnd<B>,
    far_end: FarEnd,
    buffer_bytes: u64,
}

enum HostEnd<B: Bus> {
    Ring(Buffer<B>),
    Registered(Buffer<B>, u64),
    Card(u64),
}

impl<B: Bus> Layout<B> {
    fn slot(&self, slot: usize, bytes: u64) -> Range<u64> {
        let start = slot as u64 * self.buffer_bytes;
        start..start + bytes
    }

    fn target(&self, offset_bytes: u64, bytes: u64, slot: usize) -> Target<B> {
        let (buffer, part) = match &self.host {
            HostEnd::Ring(ring) => (ring, self.slot(slot, bytes)),
            HostEnd::Registered(buffer, start) => {
                let first = start + offset_bytes;
                (buffer, first..first + bytes)
            }
            HostEnd::Card(from) => {
                let to = match self.far_end {
                    FarEnd::Card(to) => to,
                    FarEnd::Stream => 0,
                };
                let (from, to) = (from + offset_bytes, to + offset_bytes);
                return Target::CardToCard { from, to, bytes };
            }
        };
        match self.far_end {
            FarEnd::Card(card) => Target::Card(buffer.clone(), part, card + offset_bytes),
            FarEnd::Stream => Target::Buffer(buffer.clone(), part),
        }
    }
}

/// Fills buffers and hands them to the controller.
pub(super) struct Feeder<'a, B: Bus> {
    layout: Layout<B>,
    total_bytes: u64,
    /// The data to copy into the ring, and the device whose core copies.
    source: Option<(&'a [u8], Device<B>)>,
    bus: B,
    free: UnboundedReceiver<usize>,
    ready: UnboundedSender<Piece<B>>,
    copying: Picoseconds,
    waiting: Picoseconds,
}

impl<B: Bus> Feeder<'_, B> {
    /// Runs until all pieces are handed on.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), Failure> {
        let mut offset_bytes = 0;
        while offset_bytes < self.total_bytes {
            let asked = self.bus.now();
            // The other stages end before this one only if they have failed.
            let Some(slot) = self.free.next().await else { return Ok(()) };
            self.waiting += self.bus.now().since(asked);
            let bytes = self.layout.buffer_bytes.min(self.total_bytes - offset_bytes);
            if let (Some((data, device)), HostEnd::Ring(ring)) = (&self.source, &self.layout.host) {
                check_deadline(&self.bus, deadline, Stage::CopyIn)?;
                let from = &data[offset_bytes as usize..(offset_bytes + bytes) as usize];
                self.copying += copy_time(device, bytes).await;
                let written = ring.write(self.layout.slot(slot, bytes).start, from);
                written.map_err(|error| (Stage::CopyIn, error.into()))?;
            }
            let target = self.layout.target(offset_bytes, bytes, slot);
            let is_last = offset_bytes + bytes == self.total_bytes;
            let piece = Piece { offset_bytes, bytes, slot, target, is_last };
            if self.ready.unbounded_send(piece).is_err() {
                return Ok(());
            }
            offset_bytes += bytes;
        }
        self.ready.close_channel();
        Ok(())
    }
}

/// Moves pieces.
pub(super) struct Controller<'a, B: Bus> {
    channel: &'a mut Channel<B>,
    stage: Stage,
    bus: B,
    ready: UnboundedReceiver<Piece<B>>,
    full: UnboundedSender<Piece<B>>,
    pending: VecDeque<(Ticket, Piece<B>)>,
    /// Pieces reported together.
    together: usize,
    /// Bytes from the beginning.
    moved_bytes: u64,
    pieces: u64,
    busy_since: Picoseconds,
    busy: Picoseconds,
}

impl<B: Bus> Controller<'_, B> {
    /// Runs until all pieces are moved.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), Failure> {
        let mut has_all = false;
        loop {
            let Some((last, ticket)) = self.next_report(has_all) else {
                match self.ready.next().await {
                    Some(piece) => self.post(piece, deadline).await?,
                    None if self.pending.is_empty() => break,
                    None => has_all = true,
                }
                continue;
            };
            let outcome = {
                let waiting = pin!(self.channel.wait(ticket));
                if has_all {
                    Either::Right(waiting.await)
                } else {
                    match select(self.ready.next(), waiting).await {
                        Either::Left((piece, _)) => Either::Left(piece),
                        Either::Right((outcome, _)) => Either::Right(outcome),
                    }
                }
            };
            match outcome {
                Either::Left(Some(piece)) => self.post(piece, deadline).await?,
                Either::Left(None) => has_all = true,
                Either::Right(outcome) => self.take_in(last, outcome).await?,
            }
        }
        self.full.close_channel();
        Ok(())
    }

    async fn post(&mut self, piece: Piece<B>, deadline: Picoseconds) -> Result<(), Failure> {
        let level = CompletionLevel::Visible;
        let transfer = Transfer { target: piece.target.clone(), level, deadline };
        let transfers = std::slice::from_ref(&transfer);
        // The host learns of the others with the last of a group.
        let is_reported = piece.is_last || self.pending.len() % self.together + 1 == self.together;
        let posted = match is_reported {
            true => self.channel.post(transfers).await,
            false => self.channel.post_unreported(transfers).await,
        };
        let tickets = posted.map_err(|error| (self.stage, error.into()))?;
        if self.pending.is_empty() {
            self.busy_since = self.bus.now();
        }
        self.pending.extend(tickets.into_iter().zip([piece]));
        Ok(())
    }

    /// Returns the piece that the host waits for: the last of a group reported together, with its
    /// index behind the oldest.
    fn next_report(&self, has_all: bool) -> Option<(usize, Ticket)> {
        let last = match self.pending.len() {
            count if count >= self.together => self.together - 1,
            count if has_all => count.checked_sub(1)?,
            _ => return None,
        };
        self.pending.get(last).map(|(ticket, _)| (last, *ticket))
    }

    /// Handles the known end of a piece, and with it of those before it.
    async fn take_in(
        &mut self,
        last: usize,
        outcome: Result<Completed, TransferError>,
    ) -> Result<(), Failure> {
        for _ in 0..last {
            let Some((ticket, _)) = self.pending.front() else { break };
            let outcome = self.channel.wait(*ticket).await;
            self.end(outcome)?;
        }
        self.end(outcome)
    }

    /// Handles the end of the oldest piece.
    fn end(&mut self, outcome: Result<Completed, TransferError>) -> Result<(), Failure> {
        match outcome {
            Ok(_) => {
                self.complete();
                Ok(())
            }
            Err(error) => Err((self.stage, self.failed(error).into())),
        }
    }

    /// Notes that the oldest piece is moved.
    fn complete(&mut self) {
        let Some((_, piece)) = self.pending.pop_front() else { return };
        self.moved_bytes += piece.bytes;
        self.pieces += 1;
        if self.pending.is_empty() {
            self.rest();
        }
        // A drainer that is gone has failed, and reports that itself.
        let _ = self.full.unbounded_send(piece);
    }

    /// Notes that the oldest piece has failed, perhaps after a part of it was moved.
    fn failed(&mut self, error: TransferError) -> TransferError {
        if let Some((_, mut piece)) = self.pending.pop_front() {
            piece.bytes = error.moved_bytes.min(piece.bytes);
            self.moved_bytes += piece.bytes;
            let _ = self.full.unbounded_send(piece);
        }
        self.pending.clear();
        self.rest();
        error
    }

    fn rest(&mut self) {
        self.busy += self.bus.now().since(self.busy_since);
    }

    /// Stops the channel and counts what it has moved.
    pub async fn stop(&mut self) -> Result<(), LocalFault> {
        self.channel.cancel().await?;
        while let Some((ticket, _)) = self.pending.front() {
            let outcome = self.channel.wait(*ticket).await;
            // Its fault is known already, or it was stopped.
            let _ = self.end(outcome);
        }
        Ok(())
    }
}

/// Empties buffers and frees them.
pub(super) struct Drainer<'a, B: Bus> {
    /// The destination of copies, the ring, and the device whose core copies.
    sink: Option<(&'a mut [u8], Buffer<B>, Device<B>)>,
    bus: B,
    buffer_bytes: u64,
    full: UnboundedReceiver<Piece<B>>,
    /// The piece being drained.
    current: Option<Piece<B>>,
    free: UnboundedSender<usize>,
    /// Bytes from the beginning.
    drained_bytes: u64,
    /// The progress handle, if this is the last controller of the path.
    arrived: Option<Arrived>,
    copying: Picoseconds,
}

impl<B: Bus> Drainer<'_, B> {
    /// Runs until no more pieces come.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), Failure> {
        while let Some(piece) = self.full.next().await {
            self.current = Some(piece);
            if self.sink.is_some() {
                check_deadline(&self.bus, deadline, Stage::CopyOut)?;
            }
            self.drain().await?;
        }
        Ok(())
    }

    /// Drains what the controller has moved.
    pub async fn rest(&mut self) -> Result<(), Failure> {
        loop {
            self.drain().await?;
            let Ok(piece) = self.full.try_recv() else { return Ok(()) };
            self.current = Some(piece);
        }
    }

    /// Drains the current piece, which stays if this future is dropped.
    async fn drain(&mut self) -> Result<(), Failure> {
        let Some(Piece { offset_bytes, bytes, slot, .. }) = self.current else { return Ok(()) };
        if let Some((data, ring, device)) = &mut self.sink {
            let into = &mut data[offset_bytes as usize..(offset_bytes + bytes) as usize];
            let read = ring.read(slot as u64 * self.buffer_bytes, into);
            read.map_err(|error| (Stage::CopyOut, error.into()))?;
            self.copying += copy_time(device, bytes).await;
        }
        self.current = None;
        self.drained_bytes += bytes;
        if let Some(arrived) = &self.arrived {
            arrived.set(self.drained_bytes);
        }
        // A feeder that is done needs no free buffers.
        let _ = self.free.unbounded_send(slot);
        Ok(())
    }
}

/// Copies on a core; returns the time it took.
async fn copy_time<B: Bus>(device: &Device<B>, bytes: u64) -> Picoseconds {
    let begun = device.bus().now();
    device.bus().work(HostWork::Copy(bytes)).await;
    device.bus().now().since(begun)
}

fn check_deadline<B: Bus>(bus: &B, deadline: Picoseconds, stage: Stage) -> Result<(), Failure> {
    if bus.now() < deadline { Ok(()) } else { Err((stage, LocalFault::Deadline(deadline))) }
}

/// All stages of one controller.
pub(super) struct Side<'a, B: Bus> {
    pub feeder: Feeder<'a, B>,
    pub controller: Controller<'a, B>,
    pub drainer: Drainer<'a, B>,
    handling: Handling,
}

impl<'a, B: Bus> Side<'a, B> {
    pub fn new(
        device: &Device<B>,
        options: &LocalOptions,
        channel: &'a mut Channel<B>,
        stage: Stage,
        memory: Memory<'a, B>,
        far_end: FarEnd,
        total_bytes: u64,
    ) -> Self {
        let bus = device.bus().clone();
        let (mut source, mut sink) = (None, None);
        let (host, handling) = match memory {
            Memory::Source(data, ring) => {
                source = Some((data, device.on_core(options.cores.copy_in)));
                (HostEnd::Ring(ring), Handling::Copied)
            }
            Memory::Sink(data, ring) => {
                sink = Some((data, ring.clone(), device.on_core(options.cores.copy_out)));
                (HostEnd::Ring(ring), Handling::Copied)
            }
            Memory::Registered(buffer, start) => {
                (HostEnd::Registered(buffer, start), Handling::ZeroCopy)
            }
            Memory::Card(from) => (HostEnd::Card(from), Handling::OnCard),
        };
        let buffer_bytes = options.buffer_bytes;
        let (give_free, free) = unbounded();
        let ((give_ready, ready), (give_full, full)) = (unbounded(), unbounded());
        for slot in 0..usize::from(options.buffers) {
            // The receiver exists.
            let _ = give_free.unbounded_send(slot);
        }
        let (copying, waiting) = (Picoseconds::ZERO, Picoseconds::ZERO);
        Self {
            feeder: Feeder {
                layout: Layout { host, far_end, buffer_bytes },
                total_bytes,
                source,
                bus: bus.clone(),
                free,
                ready: give_ready,
                copying,
                waiting,
            },
            controller: Controller {
                channel,
                stage,
                bus: bus.clone(),
                ready,
                full: give_full,
                pending: VecDeque::new(),
                together: options.reported_together.into(),
                moved_bytes: 0,
                pieces: 0,
                busy_since: Picoseconds::ZERO,
                busy: Picoseconds::ZERO,
            },
            drainer: Drainer {
                sink,
                bus,
                buffer_bytes,
                full,
                current: None,
                free: give_free,
                drained_bytes: 0,
                arrived: None,
                copying,
            },
            handling,
        }
    }

    /// Reports progress to a handle.
    pub fn tell(&mut self, arrived: Arrived) {
        arrived.set(0);
        self.drainer.arrived = Some(arrived);
    }

    /// Returns the bytes that this controller has brought to their destination.
    pub const fn arrived_bytes(&self) -> u64 {
        self.drainer.drained_bytes
    }

    pub fn statistics(&self) -> SideStatistics {
        SideStatistics {
            handling: self.handling,
            bytes: self.controller.moved_bytes,
            pieces: self.controller.pieces,
            copying: self.feeder.copying + self.drainer.copying,
            waiting_for_buffer: self.feeder.waiting,
            dma: self.controller.busy,
        }
    }

    /// Runs all stages to the end.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), Failure> {
        let feeding = self.feeder.run(deadline);
        let moving = self.controller.run(deadline);
        let draining = self.drainer.run(deadline);
        futures_util::try_join!(feeding, moving, draining)?;
        Ok(())
    }

    /// Stops the controller and brings what it has moved to its destination.
    pub async fn stop(&mut self) -> Result<(), LocalFault> {
        let stopped = self.controller.stop().await;
        self.drainer.rest().await.map_err(|(_, fault)| fault)?;
        stopped
    }
}
