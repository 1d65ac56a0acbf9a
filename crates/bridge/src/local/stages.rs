// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stages of a transfer on one channel: pieces are copied into free buffers of a ring, moved by
//! the channel, and copied out. The bytes that each has reached are kept outside of their futures,
//! so that they survive dropping them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;

use crosslane_driver::{
    Buffer, Channel, Completed, CompletionLevel, Device, Target, Ticket, Transfer, TransferError,
};
use crosslane_host::ErrorKind::Timeout;
use crosslane_host::{AnyBus, Bus, HostWork};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::{Either, pending, select};
use futures_util::stream;

use super::options::{Arrived, HostSink, HostSource, LocalOptions};
use crate::chunks::{Chunking, Chunks};
use crate::error::{At, BridgeError, Result};
use crate::pipeline::{Pipeline, stage};
use crate::stage::Stage;

/// The bytes of a piece of a transfer.
type Piece = Range<u64>;

/// The near end of a channel's data.
pub(super) enum HostEnd<'a> {
    /// A ring that data of the caller's are copied into.
    Filled(Buffer, HostSource<'a>),
    /// A ring that data are copied out of, for the caller.
    Emptied(Buffer, RefCell<HostSink<'a>>),
    /// The caller's registered buffer, from an offset.
    Registered(Buffer, u64),
    /// None: data come from a card address.
    Card(u64),
}

/// Bytes that a function makes or uses at once.
const AT_ONCE_BYTES: usize = 64 << 10;

/// Both ends of a channel's data.
pub(super) struct Ends<'a> {
    pub host: HostEnd<'a>,
    /// First address in the card's memory; `None` is the stream.
    pub card: Option<u64>,
}

/// The path of the data through one channel.
struct Path<'a> {
    pipeline: &'a Pipeline<AnyBus>,
    device: Device,
    options: LocalOptions,
    stage: Stage,
    ends: Ends<'a>,
    total_bytes: u64,
    /// Bytes that the channel has moved.
    moved_bytes: Cell<u64>,
    /// Bytes that are at their destination.
    drained_bytes: Cell<u64>,
    /// The progress handle, if this is the last channel of the path.
    arrived: Option<Arrived>,
}

/// One channel with its ends.
pub(super) struct Side<'a> {
    path: Path<'a>,
    mover: Mover<'a>,
}

impl Path<'_> {
    /// Cuts bytes of the transfer into pieces.
    fn pieces(&self, bytes: Range<u64>) -> Chunks {
        Chunks::new(Chunking::equal(self.options.buffer_bytes), bytes)
    }

    /// Returns the place of a piece in a ring. Buffers are used in turn.
    fn place(&self, piece: &Piece) -> Range<u64> {
        let LocalOptions { buffer_bytes, buffers, .. } = self.options;
        let start = piece.start / buffer_bytes % u64::from(buffers) * buffer_bytes;
        start..start + (piece.end - piece.start)
    }

    /// Cuts a piece for functions: positions in the data, and places in the ring.
    fn parts(&self, piece: &Piece) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let (Range { start, end }, first) = (piece.clone(), self.place(piece).start);
        (start..end).step_by(AT_ONCE_BYTES).map(move |at| {
            let place = first + (at - start);
            (at, place..place + (end - at).min(AT_ONCE_BYTES as u64))
        })
    }

    /// Has a core copy a piece.
    async fn copy(&self, stage: Stage, core: u16, piece: &Piece) {
        let bytes = piece.end - piece.start;
        self.pipeline.begin(stage);
        self.device.on_core(core).bus().work(HostWork::Copy(bytes)).await;
        self.pipeline.ended(stage, bytes);
    }

    /// Fills a piece's buffer.
    async fn fill(&self, piece: &Piece, deadline: Picoseconds) -> Result<()> {
        let HostEnd::Filled(ring, data) = &self.ends.host else { return Ok(()) };
        self.check_deadline(Stage::CopyIn, deadline)?;
        self.copy(Stage::CopyIn, self.options.cores.copy_in, piece).await;
        let written = match data {
            HostSource::Copied(data) => {
                ring.write(self.place(piece).start, &data[piece.start as usize..piece.end as usize])
            }
            HostSource::Made(_, make) => {
                let mut data = vec![0; AT_ONCE_BYTES];
                self.parts(piece).try_for_each(|(position, place)| {
                    let data = &mut data[..(place.end - place.start) as usize];
                    make(position, data);
                    ring.write(place.start, data)
                })
            }
            HostSource::Registered(..) => unreachable!("registered memory is not copied"),
        };
        written.at(Stage::CopyIn)
    }

    /// Empties a piece's buffer.
    async fn drain(&self, piece: &Piece, deadline: Picoseconds) -> Result<()> {
        if let HostEnd::Emptied(ring, data) = &self.ends.host {
            self.check_deadline(Stage::CopyOut, deadline)?;
            let read = match &mut *data.borrow_mut() {
                HostSink::Copied(data) => {
                    let data = &mut data[piece.start as usize..piece.end as usize];
                    ring.read(self.place(piece).start, data)
                }
                HostSink::Used(_, take) => {
                    let mut data = vec![0; AT_ONCE_BYTES];
                    self.parts(piece).try_for_each(|(position, place)| {
                        let data = &mut data[..(place.end - place.start) as usize];
                        ring.read(place.start, data)?;
                        take(position, data);
                        Ok(())
                    })
                }
                HostSink::Registered(..) => unreachable!("registered memory is not copied"),
            };
            read.at(Stage::CopyOut)?;
            self.copy(Stage::CopyOut, self.options.cores.copy_out, piece).await;
        }
        self.drained_bytes.set(piece.end);
        if let Some(arrived) = &self.arrived {
            arrived.set(piece.end);
            self.pipeline.has_arrived(piece.end);
        }
        Ok(())
    }

    fn check_deadline(&self, stage: Stage, deadline: Picoseconds) -> Result<()> {
        if self.device.bus().now() < deadline {
            return Ok(());
        }
        let why = format!("not complete at the deadline, {deadline}");
        Err(BridgeError::new(stage, Timeout, why))
    }

    /// Returns both ends of a piece.
    fn target(&self, piece: &Piece) -> Target {
        let bytes = piece.end - piece.start;
        let card = self.ends.card.map(|card| card + piece.start);
        let (buffer, part) = match &self.ends.host {
            HostEnd::Filled(ring, _) | HostEnd::Emptied(ring, _) => (ring, self.place(piece)),
            HostEnd::Registered(buffer, start) => (buffer, start + piece.start..start + piece.end),
            HostEnd::Card(from) => {
                let (from, to) = (from + piece.start, card.unwrap_or(0));
                return Target::CardToCard { from, to, bytes };
            }
        };
        match card {
            Some(card) => Target::Card(buffer.clone(), part, card),
            None => Target::Buffer(buffer.clone(), part),
        }
    }
}

impl<'a> Side<'a> {
    pub fn new(
        pipeline: &'a Pipeline<AnyBus>,
        (device, options): (&Device, &LocalOptions),
        channel: &'a mut Channel,
        stage: Stage,
        ends: Ends<'a>,
        total_bytes: u64,
    ) -> Self {
        let path = Path {
            pipeline,
            device: device.clone(),
            options: *options,
            stage,
            ends,
            total_bytes,
            moved_bytes: Cell::new(0),
            drained_bytes: Cell::new(0),
            arrived: None,
        };
        Self { path, mover: Mover { channel, posted: VecDeque::new() } }
    }

    /// Reports progress to a handle.
    pub fn tell(&mut self, arrived: Arrived) {
        arrived.set(0);
        self.path.arrived = Some(arrived);
    }

    /// Runs all stages to the end.
    pub async fn run(&mut self, deadline: Picoseconds) -> Result<()> {
        let Self { path, mover } = self;
        let path = &*path;
        let (give_back, free) = unbounded();
        for _ in 0..path.options.buffers {
            // The receiver exists.
            let _ = give_back.unbounded_send(());
        }
        let ((filled, to_move), (moved, to_drain)) = (unbounded(), unbounded());
        let pieces = (path.pieces(0..path.total_bytes), free);
        let pieces = stream::unfold(pieces, async |(mut pieces, mut free)| {
            let (piece, asked) = (pieces.next()?, path.device.bus().now());
            free.next().await?;
            path.pipeline.waited(path.stage, asked);
            Some((piece, (pieces, free)))
        });
        let fill = async |piece| path.fill(&piece, deadline).await.map(|()| piece);
        let drain = async |piece| path.drain(&piece, deadline).await;
        // One piece at a time. A stage that is gone has failed, and reports that itself.
        let filling = stage(
            0,
            pieces,
            |_| 1,
            fill,
            move |piece| {
                let _ = filled.unbounded_send(piece);
            },
        );
        let moving = mover.run(path, deadline, to_move, moved);
        let draining = stage(
            0,
            to_drain,
            |_| 1,
            drain,
            |()| {
                let _ = give_back.unbounded_send(());
            },
        );
        futures_util::try_join!(filling, moving, draining)?;
        Ok(())
    }

    /// Stops the channel and brings what it has moved to its destination.
    pub async fn stop(&mut self) -> Result<()> {
        let Self { path, mover } = self;
        let cancelled = mover.channel.cancel().await.at(path.stage);
        while let (Ok(()), Some((ticket, _))) = (&cancelled, mover.posted.front()) {
            let outcome = mover.channel.wait(*ticket).await;
            // Its fault is known already, or it was stopped.
            let _ = mover.end(path, outcome);
        }
        for piece in path.pieces(path.drained_bytes.get()..path.moved_bytes.get()) {
            path.drain(&piece, Picoseconds::NEVER).await?;
        }
        cancelled
    }
}

/// Moves pieces.
struct Mover<'a> {
    channel: &'a mut Channel,
    /// Pieces posted to the channel, oldest first.
    posted: VecDeque<(Ticket, Piece)>,
}

impl Mover<'_> {
    /// Moves all pieces that come.
    async fn run(
        &mut self,
        path: &Path<'_>,
        deadline: Picoseconds,
        mut filled: UnboundedReceiver<Piece>,
        moved: UnboundedSender<Piece>,
    ) -> Result<()> {
        let mut has_all = false;
        loop {
            let Some((last, ticket)) = self.next_report(path, has_all) else {
                match filled.next().await {
                    Some(piece) => self.post(path, piece, deadline).await?,
                    None if self.posted.is_empty() => return Ok(()),
                    None => has_all = true,
                }
                continue;
            };
            let event = {
                let waiting = pin!(self.channel.wait(ticket));
                let next = async { if has_all { pending().await } else { filled.next().await } };
                match select(pin!(next), waiting).await {
                    Either::Left((piece, _)) => Either::Left(piece),
                    Either::Right((outcome, _)) => Either::Right(outcome),
                }
            };
            match event {
                Either::Left(Some(piece)) => self.post(path, piece, deadline).await?,
                Either::Left(None) => has_all = true,
                Either::Right(outcome) => {
                    // With the last of a group, the host knows of those before it.
                    for _ in 0..last {
                        let Some((ticket, _)) = self.posted.front() else { break };
                        let outcome = self.channel.wait(*ticket).await;
                        let _ = moved.unbounded_send(self.end(path, outcome)?);
                    }
                    let _ = moved.unbounded_send(self.end(path, outcome)?);
                }
            }
        }
    }

    async fn post(&mut self, path: &Path<'_>, piece: Piece, deadline: Picoseconds) -> Result<()> {
        let (target, level) = (path.target(&piece), CompletionLevel::Visible);
        let transfers = &[Transfer { target, level, deadline }];
        let together = usize::from(path.options.reported_together);
        // The host learns of the others with the last of a group.
        let is_reported =
            piece.end == path.total_bytes || self.posted.len() % together + 1 == together;
        let posted = match is_reported {
            true => self.channel.post(transfers).await,
            false => self.channel.post_unreported(transfers).await,
        };
        let tickets = posted.at(path.stage)?;
        path.pipeline.begin(path.stage);
        self.posted.extend(tickets.into_iter().zip([piece]));
        Ok(())
    }

    /// Returns the piece that the host waits for: the last of a group reported together, with its
    /// index behind the oldest.
    fn next_report(&self, path: &Path<'_>, has_all: bool) -> Option<(usize, Ticket)> {
        let together = usize::from(path.options.reported_together);
        let last = match self.posted.len() {
            count if count >= together => together - 1,
            count if has_all => count.checked_sub(1)?,
            _ => return None,
        };
        self.posted.get(last).map(|(ticket, _)| (last, *ticket))
    }

    /// Notes the end of the oldest piece, with the bytes that were moved if it failed.
    fn end(&mut self, path: &Path<'_>, outcome: Result<Completed, TransferError>) -> Result<Piece> {
        let Some((_, piece)) = self.posted.pop_front() else { unreachable!("a piece ends once") };
        let Err(error) = outcome else {
            path.pipeline.ended(path.stage, piece.end - piece.start);
            path.moved_bytes.set(piece.end);
            return Ok(piece);
        };
        path.moved_bytes.set(piece.end.min(piece.start + error.moved_bytes));
        self.posted.clear();
        Err(BridgeError::of(path.stage, error))
    }
}
