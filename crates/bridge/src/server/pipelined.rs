// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pipelined mode: each chunk moves to the next stage at once. Control messages come only at
//! its start.

use std::ops::Range;

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::{AnyMemory, Clock, Rdma};
use futures_channel::mpsc;
use futures_util::stream::{self, Stream, StreamExt};
use futures_util::try_join;

use super::transfer::{Chunk, Replies, Transfer, out_of_place};
use crate::chunks::Chunks;
use crate::error::{BridgeError, Result};
use crate::messages::{Reply, Request};
use crate::pipeline::stage;
use crate::report::Path;
use crate::slots::Ring;
use crate::stage::Stage;

/// Most pieces announced and not begun: the slots of the largest ring.
const MOST_ANNOUNCED: usize = 4096;

/// Announced pieces: their positions in the source and their lengths.
type Announced = mpsc::Receiver<(u64, u64)>;

/// Hands chunks on. If the receiver has failed, it reports that itself.
fn pass_to(next: mpsc::UnboundedSender<Chunk>) -> impl FnMut(Chunk) {
    move |chunk| {
        let _ = next.unbounded_send(chunk);
    }
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'_, R, C> {
    /// Makes a pipelined transfer.
    pub async fn pipelined(&self, to_tell: Replies) -> Result<()> {
        let _memberships = self.join();
        // The sender has a place beside those of the channel.
        let (mut announce, announced) = mpsc::channel(MOST_ANNOUNCED - 1);
        let listen = |request| {
            let Request::Chunk { offset_bytes, bytes } = request else {
                return Err(out_of_place());
            };
            match announce.try_send((offset_bytes, bytes)) {
                Err(refused) if refused.is_full() => {
                    let why = "more was announced than any ring has slots";
                    Err(BridgeError::new(Stage::Request, InvalidArgument, why))
                }
                // The receiver is gone if nothing was to be announced: the message is ignored.
                _ => Ok(()),
            }
        };
        self.beside(self.move_all(announced), listen, to_tell).await
    }

    /// Runs all stages of a path at once.
    async fn move_all(&self, announced: Announced) -> Result<()> {
        let (filled, to_move) = mpsc::unbounded();
        let (moved, to_write) = mpsc::unbounded();
        match self.request.path {
            Path::ToFpga => {
                let free = async |mut chunk: Chunk| {
                    chunk.slots.clear();
                    Ok(chunk.bytes.end)
                };
                let moving = self.move_chunks(to_move.map(Ok), free, |upto| self.has_arrived(upto));
                try_join!(self.read_remote(announced, filled), moving)?;
            }
            Path::FromFpga if self.is_direct() => self.write_directly().await?,
            // A copy within the node has stages of its own (`within.rs`).
            Path::FromFpga | Path::ToPeer | Path::WithinNode => {
                drop((announced, filled, to_move));
                try_join!(self.move_from_card(moved), self.write_remote(to_write))?;
            }
            Path::RoundTrip => {
                let pairs = to_move.then(async |mut chunk: Chunk| {
                    chunk.slots.push(self.slot(&self.place.from_card, Stage::Dma).await);
                    Ok(chunk)
                });
                let free_first = async |mut chunk: Chunk| {
                    drop(chunk.slots.remove(0));
                    Ok(chunk)
                };
                try_join!(
                    self.read_remote(announced, filled),
                    self.move_chunks(pairs, free_first, pass_to(moved)),
                    self.write_remote(to_write)
                )?;
            }
        }
        Ok(())
    }

    /// Returns the pieces of a transfer: their bytes, and their positions in the other node's
    /// region.
    fn pieces(
        &self,
        ring: &Ring<R>,
        announced: Option<Announced>,
    ) -> impl Stream<Item = Result<(Range<u64>, u64)>> {
        let request = self.request;
        let source = request.source.filter(|_| request.is_announced);
        let (Some(source), Some(announced)) = (source, announced) else {
            let chunking = self.shared.chunking(request.chunk_bytes, ring);
            let chunks = Chunks::new(chunking, request.first..request.bytes);
            return stream::iter(chunks.map(|bytes| Ok((bytes.clone(), bytes.start))))
                .left_stream();
        };
        let (most, total) = (ring.slot_bytes, request.bytes);
        // The next byte of the transfer, and the rest of the last announcement.
        let state = (request.first, None, announced);
        let pieces = stream::unfold(state, move |(next, rest, mut announced)| async move {
            let left = total - next;
            if left == 0 {
                return None;
            }
            let (offset_bytes, bytes) = match rest {
                Some(rest) => rest,
                None => {
                    let _expected = self.expect(Stage::Connection);
                    announced.next().await?
                }
            };
            if bytes == 0 || bytes > left || !source.holds(offset_bytes, bytes) {
                let have = source.bytes;
                let why = format!(
                    "{bytes} B at byte {offset_bytes} were announced: {left} B are left, and the \
                     source has {have} B"
                );
                let error = BridgeError::new(Stage::Request, InvalidArgument, why);
                return Some((Err(error), (total, None, announced)));
            }
            let now = bytes.min(most);
            let rest = (now < bytes).then(|| (offset_bytes + now, bytes - now));
            Some((Ok((next..next + now, offset_bytes)), (next + now, rest, announced)))
        });
        pieces.right_stream()
    }

    /// Returns the chunks of a transfer, each with a slot of a ring, for its first stage.
    fn chunks(
        &self,
        ring: &Ring<R>,
        stage: Stage,
        announced: Option<Announced>,
    ) -> impl Stream<Item = Result<Chunk>> {
        let is_direct = self.is_direct();
        self.pieces(ring, announced).then(move |piece| async move {
            let (bytes, far_offset) = piece?;
            let slots = match is_direct {
                true => Vec::new(),
                false => vec![self.slot(ring, stage).await],
            };
            Ok(Chunk { slots, bytes, far_offset })
        })
    }

    /// Reads the other node's memory into slots.
    async fn read_remote(
        &self,
        announced: Announced,
        filled: mpsc::UnboundedSender<Chunk>,
    ) -> Result<()> {
        let ring = &self.place.to_card;
        let chunks = self.chunks(ring, Stage::RdmaRead, Some(announced));
        let bytes_of = |chunk: &Result<Chunk, _>| chunk.as_ref().map_or(0, Chunk::length);
        let read = async |chunk: Result<Chunk>| {
            let mut chunk = chunk?;
            self.exchange(Stage::RdmaRead, &mut chunk).await?;
            self.add_to_checksum(ring, &mut chunk).await?;
            Ok(chunk)
        };
        let mut pass = pass_to(filled);
        stage(self.shared.options.window_bytes, chunks, bytes_of, read, |chunk| {
            if self.request.is_announced {
                let (offset_bytes, bytes) = (chunk.far_offset, chunk.length());
                self.tell(Reply::Taken { offset_bytes, bytes });
            }
            pass(chunk);
        })
        .await
    }

    /// Has the card move chunks, and hands on the results of `then`, in order.
    pub async fn move_chunks<T>(
        &self,
        chunks: impl Stream<Item = Result<Chunk>>,
        then: impl AsyncFn(Chunk) -> Result<T>,
        hand_on: impl FnMut(T),
    ) -> Result<()> {
        let job = async |chunk: Result<Chunk>| then(self.dma(chunk?).await?).await;
        stage(u64::MAX, chunks, |_| 0, job, hand_on).await
    }

    /// Moves the card's memory into slots.
    pub async fn move_from_card(&self, moved: mpsc::UnboundedSender<Chunk>) -> Result<()> {
        let ring = self.ring_of_card_data();
        let check = async |mut chunk: Chunk| {
            self.add_to_checksum(ring, &mut chunk).await?;
            Ok(chunk)
        };
        self.move_chunks(self.chunks(ring, Stage::Dma, None), check, pass_to(moved)).await
    }

    /// Writes memory that stands for a card into the other node's memory.
    async fn write_directly(&self) -> Result<()> {
        let ring = &self.place.from_card;
        let bytes_of = |chunk: &Result<Chunk, _>| chunk.as_ref().map_or(0, Chunk::length);
        let write = async |chunk: Result<Chunk>| {
            let mut chunk = chunk?;
            self.add_to_checksum(ring, &mut chunk).await?;
            self.exchange(Stage::RdmaWrite, &mut chunk).await?;
            Ok(chunk.bytes.end)
        };
        let chunks = self.chunks(ring, Stage::RdmaWrite, None);
        let hand_on = |upto| self.has_arrived(upto);
        stage(self.shared.options.window_bytes, chunks, bytes_of, write, hand_on).await
    }

    /// Writes slots into the other node's memory.
    async fn write_remote(&self, to_write: mpsc::UnboundedReceiver<Chunk>) -> Result<()> {
        let write = async |mut chunk: Chunk| {
            self.exchange(Stage::RdmaWrite, &mut chunk).await?;
            Ok(chunk.bytes.end)
        };
        let hand_on = |upto| self.has_arrived(upto);
        stage(self.shared.options.window_bytes, to_write, Chunk::length, write, hand_on).await
    }
}
