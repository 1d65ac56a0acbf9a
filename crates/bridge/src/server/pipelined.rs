// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pipelined mode: each chunk moves to the next stage at once. Control messages come only at
//! its start.

use std::cell::Cell;
use std::ops::Range;

use crosslane_host::{Bus, Clock, ErrorKind, Rdma, RemoteMemory};
use futures_channel::mpsc;
use futures_util::stream::{self, Stream, StreamExt};
use futures_util::try_join;

use super::transfer::{Chunk, Transfer, out_of_place};
use crate::chunks::Chunks;
use crate::error::{BridgeError, Result};
use crate::messages::{Reply, Request};
use crate::pipeline::stage;
use crate::report::{Path, Report};
use crate::slots::Ring;
use crate::stage::Stage;

/// Most pieces announced and not begun: the slots of the largest ring.
const MOST_ANNOUNCED: u64 = 4096;

/// Announced pieces: their positions in the source and their lengths.
struct Announced {
    pieces: mpsc::UnboundedReceiver<(u64, u64)>,
    /// Number of pieces announced and not begun.
    waiting: std::rc::Rc<Cell<u64>>,
}

/// Makes a pipelined transfer.
pub(super) async fn run<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
) -> Result<Report> {
    let _memberships = transfer.join();
    let (announce, pieces) = mpsc::unbounded();
    let waiting = std::rc::Rc::new(Cell::new(0));
    let announced = Announced { pieces, waiting: waiting.clone() };
    let (progress, told) = mpsc::unbounded();
    let listen = |request| {
        let Request::Chunk { offset_bytes, bytes } = request else { return Err(out_of_place()) };
        waiting.set(waiting.get() + 1);
        if waiting.get() > MOST_ANNOUNCED {
            let why = "more was announced than any ring has slots";
            return Err(BridgeError::new(Stage::Request, ErrorKind::InvalidArgument, why));
        }
        // The receiver is gone if nothing was to be announced: the message is ignored.
        let _ = announce.unbounded_send((offset_bytes, bytes));
        Ok(())
    };
    transfer.beside(move_all(transfer, announced, &progress), listen, told).await?;
    Ok(transfer.report())
}

/// Runs all stages of a path at once.
async fn move_all<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    announced: Announced,
    progress: &mpsc::UnboundedSender<Reply>,
) -> Result<()> {
    let (filled, to_move) = mpsc::unbounded();
    let (moved, to_write) = mpsc::unbounded();
    let from_card = &transfer.place.from_card;
    match transfer.request.path {
        Path::ToFpga => {
            let arrived = |chunk: Chunk| transfer.has_arrived(chunk.bytes.end, progress);
            try_join!(
                read_remote(transfer, announced, filled, progress),
                move_chunks(transfer, to_move.map(Ok), arrived)
            )?;
        }
        Path::FromFpga | Path::ToPeer => {
            drop((announced, filled, to_move));
            try_join!(move_from_card(transfer, moved), write_remote(transfer, to_write, progress))?;
        }
        Path::RoundTrip => {
            let pairs = to_move.then(async |mut chunk: Chunk| {
                chunk.slots.push(transfer.slot(from_card, Stage::Dma).await);
                Ok(chunk)
            });
            try_join!(
                read_remote(transfer, announced, filled, progress),
                move_chunks(transfer, pairs, pass_to(moved)),
                write_remote(transfer, to_write, progress)
            )?;
        }
    }
    Ok(())
}

/// Hands chunks on. If the receiver has failed, it reports that itself.
fn pass_to(next: mpsc::UnboundedSender<Chunk>) -> impl FnMut(Chunk) {
    move |chunk| {
        let _ = next.unbounded_send(chunk);
    }
}

/// Returns the pieces of a transfer: their bytes, and their positions in the other node's region.
fn pieces<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    ring: &Ring<B, R>,
    announced: Option<Announced>,
) -> impl Stream<Item = Result<(Range<u64>, u64)>> {
    let request = transfer.request;
    let source = request.source.filter(|_| request.is_announced);
    let (Some(source), Some(announced)) = (source, announced) else {
        let chunking = transfer.shared.chunking(request.chunk_bytes, ring);
        let chunks = Chunks::new(chunking, request.first..request.bytes);
        return stream::iter(chunks.map(|bytes| Ok((bytes.clone(), bytes.start)))).left_stream();
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
                let next = announced.pieces.next().await?;
                announced.waiting.set(announced.waiting.get() - 1);
                next
            }
        };
        if bytes == 0 || bytes > left || !RemoteMemory::from(source).holds(offset_bytes, bytes) {
            let have = source.bytes;
            let why = format!(
                "{bytes} B at byte {offset_bytes} were announced: {left} B are left, and the \
                 source has {have} B"
            );
            let error = BridgeError::new(Stage::Request, ErrorKind::InvalidArgument, why);
            return Some((Err(error), (total, None, announced)));
        }
        let now = bytes.min(most);
        let rest = (now < bytes).then(|| (offset_bytes + now, bytes - now));
        Some((Ok((next..next + now, offset_bytes)), (next + now, rest, announced)))
    });
    pieces.right_stream()
}

/// Returns the chunks of a transfer, each with a slot of a ring, for its first stage.
fn chunks<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &'a Transfer<'_, B, R, C>,
    ring: &'a Ring<B, R>,
    stage: Stage,
    announced: Option<Announced>,
) -> impl Stream<Item = Result<Chunk>> + 'a {
    pieces(transfer, ring, announced).then(move |piece| async move {
        let (bytes, far_offset) = piece?;
        let slots = vec![transfer.slot(ring, stage).await];
        Ok(Chunk { slots, bytes, far_offset })
    })
}

/// Reads the other node's memory into slots.
async fn read_remote<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    announced: Announced,
    filled: mpsc::UnboundedSender<Chunk>,
    replies: &mpsc::UnboundedSender<Reply>,
) -> Result<()> {
    let ring = &transfer.place.to_card;
    let chunks = chunks(transfer, ring, Stage::RdmaRead, Some(announced));
    let bytes_of = |chunk: &Result<Chunk, _>| chunk.as_ref().map_or(0, Chunk::length);
    let read = async |chunk: Result<Chunk>| {
        let mut chunk = chunk?;
        transfer.exchange(Stage::RdmaRead, &mut chunk).await?;
        transfer.add_to_checksum(ring, &mut chunk).await?;
        Ok(chunk)
    };
    let mut pass = pass_to(filled);
    stage(transfer.shared.options.window_bytes, chunks, bytes_of, read, |chunk| {
        if transfer.request.is_announced {
            let (offset_bytes, bytes) = (chunk.far_offset, chunk.length());
            let _ = replies.unbounded_send(Reply::Taken { offset_bytes, bytes });
        }
        pass(chunk);
    })
    .await
}

/// Has the card move chunks; hands them on with the slot of the next stage, if there is one.
async fn move_chunks<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    chunks: impl Stream<Item = Result<Chunk>>,
    hand_on: impl FnMut(Chunk),
) -> Result<()> {
    let path = transfer.request.path;
    let job = async |chunk: Result<Chunk>| {
        let mut chunk = transfer.dma(chunk?).await?;
        match path {
            Path::ToFpga => chunk.slots.clear(),
            Path::RoundTrip => drop(chunk.slots.remove(0)),
            Path::FromFpga | Path::ToPeer => {
                transfer.add_to_checksum(&transfer.place.from_card, &mut chunk).await?;
            }
        }
        Ok(chunk)
    };
    stage(u64::MAX, chunks, |_| 0, job, hand_on).await
}

/// Moves the card's memory into slots.
pub(super) async fn move_from_card<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    moved: mpsc::UnboundedSender<Chunk>,
) -> Result<()> {
    let chunks = chunks(transfer, &transfer.place.from_card, Stage::Dma, None);
    move_chunks(transfer, chunks, pass_to(moved)).await
}

/// Writes slots into the other node's memory.
async fn write_remote<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
    to_write: mpsc::UnboundedReceiver<Chunk>,
    progress: &mpsc::UnboundedSender<Reply>,
) -> Result<()> {
    let write = async |mut chunk: Chunk| {
        transfer.exchange(Stage::RdmaWrite, &mut chunk).await?;
        Ok(chunk.bytes.end)
    };
    let hand_on = |upto| transfer.has_arrived(upto, progress);
    stage(transfer.shared.options.window_bytes, to_write, Chunk::length, write, hand_on).await
}
