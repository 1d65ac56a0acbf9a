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
use crosslane_host::ErrorKind::Timeout;
use crosslane_host::{Bus, HostWork};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::BusClock;
use super::options::{Arrived, LocalOptions};
use crate::error::BridgeError;
use crate::pipeline::Pipeline;
use crate::stage::Stage;

/// A piece of a transfer.
struct Piece<B: Bus> {
    bytes: Range<u64>,
    /// Buffer of the ring that it uses; if nothing is copied, its index among the pieces in flight.
    slot: usize,
    target: Target<B>,
    is_last: bool,
}

/// The near end of a controller's data.
pub(super) enum HostEnd<B: Bus> {
    /// The ring that data are copied into or out of.
    Ring(Buffer<B>),
    /// The caller's registered buffer, from an offset.
    Registered(Buffer<B>, u64),
    /// None: data come from a card address.
    Card(u64),
}

/// Both ends of a controller's data.
pub(super) struct Ends<'a, B: Bus> {
    pub host: HostEnd<B>,
    /// The data to copy into the ring.
    pub source: Option<&'a [u8]>,
    /// The destination of copies out of the ring.
    pub sink: Option<&'a mut [u8]>,
    /// First address in the card's memory; `None` is the stream.
    pub card: Option<u64>,
}

/// Returns a buffer's bytes in its ring.
fn slot(buffer_bytes: u64, slot: usize, bytes: u64) -> Range<u64> {
    let start = slot as u64 * buffer_bytes;
    start..start + bytes
}

/// Fills buffers and hands them to the controller.
pub(super) struct Feeder<'a, B: Bus> {
    pipeline: &'a Pipeline<BusClock<B>>,
    stage: Stage,
    host: HostEnd<B>,
    card: Option<u64>,
    buffer_bytes: u64,
    total_bytes: u64,
    /// The data to copy into the ring, and the core that copies.
    source: Option<(&'a [u8], B)>,
    bus: B,
    free: UnboundedReceiver<usize>,
    ready: UnboundedSender<Piece<B>>,
}

impl<B: Bus> Feeder<'_, B> {
    /// Runs until all pieces are handed on.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), BridgeError> {
        for start in (0..self.total_bytes).step_by(self.buffer_bytes as usize) {
            let bytes = start..self.total_bytes.min(start + self.buffer_bytes);
            let asked = self.bus.now();
            // The other stages end before this one only if they have failed.
            let Some(slot) = self.free.next().await else { return Ok(()) };
            self.pipeline.waited(self.stage, asked);
            let length = bytes.end - bytes.start;
            if let (Some((data, core)), HostEnd::Ring(ring)) = (&self.source, &self.host) {
                check_deadline(&self.bus, deadline, Stage::CopyIn)?;
                let from = &data[bytes.start as usize..bytes.end as usize];
                self.pipeline.begin(Stage::CopyIn);
                core.work(HostWork::Copy(length)).await;
                self.pipeline.ended(Stage::CopyIn, length);
                let written = ring.write(self::slot(self.buffer_bytes, slot, length).start, from);
                written.map_err(|error| BridgeError::of(Stage::CopyIn, error))?;
            }
            let target = self.target(&bytes, slot);
            let is_last = bytes.end == self.total_bytes;
            if self.ready.unbounded_send(Piece { bytes, slot, target, is_last }).is_err() {
                return Ok(());
            }
        }
        self.ready.close_channel();
        Ok(())
    }

    fn target(&self, bytes: &Range<u64>, slot: usize) -> Target<B> {
        let length = bytes.end - bytes.start;
        let card = self.card.map(|card| card + bytes.start);
        let (buffer, part) = match &self.host {
            HostEnd::Ring(ring) => (ring, self::slot(self.buffer_bytes, slot, length)),
            HostEnd::Registered(buffer, start) => (buffer, start + bytes.start..start + bytes.end),
            HostEnd::Card(from) => {
                let (from, to) = (from + bytes.start, card.unwrap_or(0));
                return Target::CardToCard { from, to, bytes: length };
            }
        };
        match card {
            Some(card) => Target::Card(buffer.clone(), part, card),
            None => Target::Buffer(buffer.clone(), part),
        }
    }
}

/// Moves pieces.
pub(super) struct Controller<'a, B: Bus> {
    pipeline: &'a Pipeline<BusClock<B>>,
    channel: &'a mut Channel<B>,
    stage: Stage,
    ready: UnboundedReceiver<Piece<B>>,
    full: UnboundedSender<Piece<B>>,
    pending: VecDeque<(Ticket, Piece<B>)>,
    /// Pieces reported together.
    together: usize,
}

impl<B: Bus> Controller<'_, B> {
    /// Runs until all pieces are moved.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), BridgeError> {
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

    async fn post(&mut self, piece: Piece<B>, deadline: Picoseconds) -> Result<(), BridgeError> {
        let level = CompletionLevel::Visible;
        let transfer = Transfer { target: piece.target.clone(), level, deadline };
        let transfers = std::slice::from_ref(&transfer);
        // The host learns of the others with the last of a group.
        let is_reported = piece.is_last || self.pending.len() % self.together + 1 == self.together;
        let posted = match is_reported {
            true => self.channel.post(transfers).await,
            false => self.channel.post_unreported(transfers).await,
        };
        let tickets = posted.map_err(BridgeError::driver(self.stage))?;
        self.pipeline.begin(self.stage);
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
    ) -> Result<(), BridgeError> {
        for _ in 0..last {
            let Some((ticket, _)) = self.pending.front() else { break };
            let outcome = self.channel.wait(*ticket).await;
            self.end(outcome)?;
        }
        self.end(outcome)
    }

    /// Handles the end of the oldest piece: hands on the bytes that it moved, if any.
    fn end(&mut self, outcome: Result<Completed, TransferError>) -> Result<(), BridgeError> {
        let Some((_, mut piece)) = self.pending.pop_front() else { return Ok(()) };
        let result = match outcome {
            Ok(_) => {
                self.pipeline.ended(self.stage, piece.bytes.end - piece.bytes.start);
                Ok(())
            }
            Err(error) => {
                piece.bytes.end = piece.bytes.end.min(piece.bytes.start + error.moved_bytes);
                self.pending.clear();
                Err(BridgeError::of(self.stage, error))
            }
        };
        // A drainer that is gone has failed, and reports that itself.
        let _ = self.full.unbounded_send(piece);
        result
    }

    /// Stops the channel and counts what it has moved.
    pub async fn stop(&mut self) -> Result<(), BridgeError> {
        self.channel.cancel().await.map_err(BridgeError::driver(self.stage))?;
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
    pipeline: &'a Pipeline<BusClock<B>>,
    /// The destination of copies, the ring, and the core that copies.
    sink: Option<(&'a mut [u8], Buffer<B>, B)>,
    bus: B,
    buffer_bytes: u64,
    full: UnboundedReceiver<Piece<B>>,
    /// The piece being drained.
    current: Option<Piece<B>>,
    free: UnboundedSender<usize>,
    /// The progress handle, if this is the last controller of the path.
    arrived: Option<Arrived>,
}

impl<B: Bus> Drainer<'_, B> {
    /// Runs until no more pieces come.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), BridgeError> {
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
    pub async fn rest(&mut self) -> Result<(), BridgeError> {
        loop {
            self.drain().await?;
            let Ok(piece) = self.full.try_recv() else { return Ok(()) };
            self.current = Some(piece);
        }
    }

    /// Drains the current piece, which stays if this future is dropped.
    async fn drain(&mut self) -> Result<(), BridgeError> {
        let Some(Piece { bytes, slot, .. }) = &self.current else { return Ok(()) };
        let (bytes, slot) = (bytes.clone(), *slot);
        if let Some((data, ring, core)) = &mut self.sink {
            let into = &mut data[bytes.start as usize..bytes.end as usize];
            let read = ring.read(slot as u64 * self.buffer_bytes, into);
            read.map_err(|error| BridgeError::of(Stage::CopyOut, error))?;
            let length = bytes.end - bytes.start;
            self.pipeline.begin(Stage::CopyOut);
            core.work(HostWork::Copy(length)).await;
            self.pipeline.ended(Stage::CopyOut, length);
        }
        self.current = None;
        if let Some(arrived) = &self.arrived {
            arrived.set(bytes.end);
            self.pipeline.has_arrived(bytes.end);
        }
        // A feeder that is done needs no free buffers.
        let _ = self.free.unbounded_send(slot);
        Ok(())
    }
}

fn check_deadline<B: Bus>(bus: &B, deadline: Picoseconds, stage: Stage) -> Result<(), BridgeError> {
    if bus.now() < deadline {
        return Ok(());
    }
    let why = format!("not complete at the deadline, {deadline}");
    Err(BridgeError::new(stage, Timeout, why))
}

/// All stages of one controller.
pub(super) struct Side<'a, B: Bus> {
    pub feeder: Feeder<'a, B>,
    pub controller: Controller<'a, B>,
    pub drainer: Drainer<'a, B>,
}

impl<'a, B: Bus> Side<'a, B> {
    pub fn new(
        device: &Device<B>,
        options: &LocalOptions,
        pipeline: &'a Pipeline<BusClock<B>>,
        channel: &'a mut Channel<B>,
        stage: Stage,
        Ends { host, source, sink, card }: Ends<'a, B>,
        total_bytes: u64,
    ) -> Self {
        let (bus, buffer_bytes) = (device.bus().clone(), options.buffer_bytes);
        let core = |core| device.on_core(core).bus().clone();
        let source = source.map(|data| (data, core(options.cores.copy_in)));
        let sink = match (&host, sink) {
            (HostEnd::Ring(ring), Some(data)) => {
                Some((data, ring.clone(), core(options.cores.copy_out)))
            }
            _ => None,
        };
        let (give_free, free) = unbounded();
        let ((give_ready, ready), (give_full, full)) = (unbounded(), unbounded());
        for slot in 0..usize::from(options.buffers) {
            // The receiver exists.
            let _ = give_free.unbounded_send(slot);
        }
        Self {
            feeder: Feeder {
                pipeline,
                stage,
                host,
                card,
                buffer_bytes,
                total_bytes,
                source,
                bus: bus.clone(),
                free,
                ready: give_ready,
            },
            controller: Controller {
                pipeline,
                channel,
                stage,
                ready,
                full: give_full,
                pending: VecDeque::new(),
                together: options.reported_together.into(),
            },
            drainer: Drainer {
                pipeline,
                sink,
                bus,
                buffer_bytes,
                full,
                current: None,
                free: give_free,
                arrived: None,
            },
        }
    }

    /// Reports progress to a handle.
    pub fn tell(&mut self, arrived: Arrived) {
        arrived.set(0);
        self.drainer.arrived = Some(arrived);
    }

    /// Runs all stages to the end.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<(), BridgeError> {
        let feeding = self.feeder.run(deadline);
        let moving = self.controller.run(deadline);
        let draining = self.drainer.run(deadline);
        futures_util::try_join!(feeding, moving, draining)?;
        Ok(())
    }

    /// Stops the controller and brings what it has moved to its destination.
    pub async fn stop(&mut self) -> Result<(), BridgeError> {
        let stopped = self.controller.stop().await;
        self.drainer.rest().await?;
        stopped
    }
}
