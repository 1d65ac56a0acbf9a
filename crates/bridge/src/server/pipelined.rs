// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pipeline: each chunk moves to the next stage at once. Control messages come only at its
//! start.

use std::ops::Range;
use std::pin::pin;
use std::sync::Mutex;

use crosslane_host::ErrorKind::{Cancelled, Data, Failed, LinkDown, Timeout};
use crosslane_host::{Bus, Clock, DmaMemory, FarEnd, HostWork, Rdma, RdmaConnection};
use crosslane_pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use futures_util::stream::{self, Stream, StreamExt};
use futures_util::try_join;

use super::session::Context;
use crate::card::{Ended, Job, Move, Part};
use crate::chunks::Chunks;
use crate::error::BridgeError;
use crate::flow::stage;
use crate::messages::{Region, Reply, Request};
use crate::report::{Mode, Path, Report};
use crate::slots::{Ring, Slot, lock};
use crate::stage::{Meter, Stage};

/// Least time between two progress messages.
const PROGRESS: Picoseconds = Picoseconds::from_ms(100);
/// Most pieces announced and not begun: the slots of the largest ring.
const MOST_ANNOUNCED: u64 = 4096;
/// Bytes of a slot copied at once for a checksum.
const PIECE_BYTES: u64 = 1 << 16;

/// A chunk in its slot: its bytes of the transfer, and its position at the other node.
pub(super) struct Filled {
    pub slot: Slot,
    pub bytes: Range<u64>,
    far_offset: u64,
}

/// State shared by the stages of a transfer.
pub(super) struct Run<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> {
    pub context: &'a Context<'a, B, R, C>,
    meters: [Mutex<Meter<C>>; 3],
    /// Times at which each paced stage is free again.
    paced: [Mutex<Picoseconds>; 3],
    account: Mutex<Account>,
}

struct Account {
    /// Bytes that have arrived, without a gap from the beginning.
    arrived: u64,
    /// Pieces announced, and pieces begun.
    announced: u64,
    taken: u64,
    chunks: u64,
    first_operation: Option<Picoseconds>,
    told: Picoseconds,
    /// First byte and checksum of each chunk, in any order.
    checksums: Vec<(u64, crc32fast::Hasher)>,
}

impl Account {
    /// Combines the checksums of all chunks in order.
    fn checksum(&self) -> u32 {
        let mut pieces: Vec<_> = self.checksums.iter().collect();
        pieces.sort_by_key(|(start, _)| *start);
        let mut all = crc32fast::Hasher::new();
        for (_, piece) in pieces {
            all.combine(piece);
        }
        all.finalize()
    }
}

/// Makes a pipelined transfer.
pub(super) async fn run<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    context: &Context<'_, B, R, C>,
) -> Result<Report, BridgeError> {
    let run = Run::new(context);
    let place = context.place;
    let _to_card = place.to_card.credits.join(context.client);
    let _from_card = place.from_card.credits.join(context.client);
    let (announce, announced) = mpsc::unbounded();
    let (progress, told) = mpsc::unbounded();
    let moving = run.move_all(announced, &progress);
    run.beside(moving, |request| run.listen(&announce, request), told).await?;
    Ok(run.report())
}

impl<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> Run<'a, B, R, C> {
    pub fn new(context: &'a Context<'a, B, R, C>) -> Self {
        let clock = &context.shared.clock;
        let meter = |stage| Mutex::new(Meter::new(clock.clone(), stage));
        let request = context.request;
        let account = Account {
            arrived: request.first,
            announced: 0,
            taken: 0,
            chunks: 0,
            first_operation: None,
            told: clock.now(),
            checksums: Vec::new(),
        };
        Self {
            context,
            meters: [meter(Stage::RdmaRead), meter(Stage::Dma), meter(Stage::RdmaWrite)],
            paced: Default::default(),
            account: Mutex::new(account),
        }
    }

    /// Makes a transfer while it listens to the client, reports progress and watches the deadline.
    /// An error carries the bytes that have arrived.
    pub async fn beside(
        &self,
        moving: impl Future<Output = Result<(), BridgeError>>,
        on_request: impl Fn(Request) -> Result<(), BridgeError>,
        mut told: mpsc::UnboundedReceiver<Reply>,
    ) -> Result<(), BridgeError> {
        let Context { control, shared, deadline, request, .. } = self.context;
        let listening = async {
            loop {
                on_request(control.receive::<Request>("a request").await?)?;
            }
            #[allow(unreachable_code)]
            Ok::<(), BridgeError>(())
        };
        let telling = async {
            while let Some(reply) = told.next().await {
                control.send(&reply).await?;
            }
            std::future::pending::<Result<(), BridgeError>>().await
        };
        let late = async {
            shared.clock.sleep_until(*deadline).await;
            Err::<(), _>(self.late())
        };
        let (moving, listening) = (pin!(moving), pin!(listening));
        let (telling, late) = (pin!(telling), pin!(late));
        let others = select(listening, select(telling, late));
        let result = match select(moving, others).await {
            Either::Left((moved, _)) => moved,
            Either::Right((Either::Left((heard, _)), _)) => heard,
            Either::Right((Either::Right((other, _)), _)) => other.factor_first().0,
        };
        result.map_err(|error| {
            let whole = lock(&self.account).arrived;
            // Only into a card's memory can part of a chunk arrive.
            let is_partial = request.path == Path::ToFpga && error.stage == Stage::Dma;
            let arrived = if is_partial { whole.max(error.arrived_bytes) } else { whole };
            error.arrived(arrived, request.bytes)
        })
    }

    /// Returns the error of a missed deadline, at the stage that was busy longest.
    fn late(&self) -> BridgeError {
        let busiest = self.meters.iter().map(|meter| lock(meter).statistics());
        let slowest = busiest.max_by_key(|stage| stage.busy_ps);
        let stage = slowest.filter(|s| s.busy_ps > 0).map_or(Stage::Connection, |s| s.stage);
        BridgeError::new(stage, Timeout, "the deadline passed before all had arrived")
    }

    async fn move_all(
        &self,
        announced: mpsc::UnboundedReceiver<(u64, u64)>,
        progress: &mpsc::UnboundedSender<Reply>,
    ) -> Result<(), BridgeError> {
        let (filled, to_move) = mpsc::unbounded();
        let (moved, to_write) = mpsc::unbounded();
        match self.context.request.path {
            Path::ToFpga => {
                let taken = progress.clone();
                try_join!(
                    self.read_remote(announced, filled, taken),
                    self.move_to_card(to_move, progress.clone())
                )?;
            }
            Path::FromFpga | Path::ToPeer => {
                drop((announced, filled, to_move));
                try_join!(
                    self.move_from_card(moved),
                    self.write_remote(to_write, progress.clone())
                )?;
            }
            Path::RoundTrip => {
                try_join!(
                    self.read_remote(announced, filled, progress.clone()),
                    self.move_through(to_move, moved),
                    self.write_remote(to_write, progress.clone())
                )?;
            }
        }
        Ok(())
    }

    /// Handles a client's message during the transfer.
    fn listen(
        &self,
        announce: &mpsc::UnboundedSender<(u64, u64)>,
        request: Request,
    ) -> Result<(), BridgeError> {
        let refused = |kind, why: &str| Err(BridgeError::new(Stage::Request, kind, why));
        match request {
            Request::Chunk { offset_bytes, bytes } => {
                let mut account = lock(&self.account);
                account.announced += 1;
                if account.announced - account.taken > MOST_ANNOUNCED {
                    return refused(Data, "more was announced than any ring has slots");
                }
                // The receiver is gone if nothing was to be announced: the message is ignored.
                let _ = announce.unbounded_send((offset_bytes, bytes));
                Ok(())
            }
            Request::Cancel => refused(Cancelled, "cancelled by the client"),
            Request::Cards | Request::Transfer(_) | Request::Ready => refused(
                Data,
                "the client asked for something else before the transfer was complete",
            ),
        }
    }

    /// Returns the pieces of the transfer: their bytes, and their positions in the other node's
    /// region.
    fn pieces(
        &'a self,
        ring: &'a Ring<B, R>,
        announced: mpsc::UnboundedReceiver<(u64, u64)>,
    ) -> impl Stream<Item = Result<(Range<u64>, u64), BridgeError>> + 'a {
        let request = self.context.request;
        let Some(source) = request.source.filter(|_| request.is_announced) else {
            let chunking = self.context.shared.chunking(request.chunk_bytes, ring);
            let chunks = Chunks::new(chunking, request.first..request.bytes);
            return stream::iter(chunks.map(|bytes| Ok((bytes.clone(), bytes.start))))
                .left_stream();
        };
        let most = ring.slot_bytes;
        // The next byte of the transfer, and the rest of the last announcement.
        let state = (request.first, None, announced);
        let pieces = stream::unfold(state, move |(next, rest, mut announced)| async move {
            let left = request.bytes - next;
            if left == 0 {
                return None;
            }
            let (offset_bytes, bytes) = match rest {
                Some(rest) => rest,
                None => {
                    let next = announced.next().await?;
                    lock(&self.account).taken += 1;
                    next
                }
            };
            let is_there = crosslane_host::RemoteMemory::from(source).holds(offset_bytes, bytes);
            if bytes == 0 || bytes > left || !is_there {
                let have = source.bytes;
                let why = format!(
                    "{bytes} B at byte {offset_bytes} were announced: {left} B are left, and the \
                     source has {have} B"
                );
                let error = BridgeError::new(Stage::Request, Data, why);
                return Some((Err(error), (request.bytes, None, announced)));
            }
            let now = bytes.min(most);
            let rest = (now < bytes).then(|| (offset_bytes + now, bytes - now));
            let piece = (next..next + now, offset_bytes);
            Some((Ok(piece), (next + now, rest, announced)))
        });
        pieces.right_stream()
    }

    /// Waits for a slot.
    pub async fn slot(&self, ring: &Ring<B, R>, stage: Stage) -> Slot {
        let since = self.context.shared.clock.now();
        let slot = ring.credits.acquire(self.context.client).await;
        lock(self.meter(stage)).waited(since);
        slot
    }

    fn meter(&self, stage: Stage) -> &Mutex<Meter<C>> {
        &self.meters[place_of(stage)]
    }

    /// Notes the start of an operation; returns the time.
    pub fn begin(&self, stage: Stage) -> Picoseconds {
        lock(self.meter(stage)).begin();
        let now = self.context.shared.clock.now();
        lock(&self.account).first_operation.get_or_insert(now);
        now
    }

    /// Notes the end of an operation that moved `bytes` bytes; waits if the stage is paced.
    pub async fn end(&self, stage: Stage, begun: Picoseconds, bytes: u64) {
        let pace = self.context.shared.options.pace;
        if pace > Picoseconds::ZERO {
            let end = {
                let mut free = lock(&self.paced[place_of(stage)]);
                let takes_ps = u128::from(bytes) * u128::from(pace.0) / 1024;
                *free = after_ps(begun.max(*free), takes_ps);
                *free
            };
            self.context.shared.clock.sleep_until(end).await;
        }
        lock(self.meter(stage)).end(bytes);
    }

    /// Reads the other node's memory into slots.
    async fn read_remote(
        &self,
        announced: mpsc::UnboundedReceiver<(u64, u64)>,
        filled: mpsc::UnboundedSender<Filled>,
        taken: mpsc::UnboundedSender<Reply>,
    ) -> Result<(), BridgeError> {
        let Context { request, place, shared, .. } = self.context;
        let ring = &place.to_card;
        let far = far_region(request.source)?;
        let pieces = self.pieces(ring, announced).then(async |piece| {
            let (bytes, far_offset) = piece?;
            let slot = self.slot(ring, Stage::RdmaRead).await;
            Ok::<_, BridgeError>(Filled { slot, bytes, far_offset })
        });
        let read = async |filled: Result<Filled, BridgeError>| {
            let mut filled = filled?;
            let length = filled.bytes.end - filled.bytes.start;
            let begun = self.begin(Stage::RdmaRead);
            filled.slot.lend();
            let far = FarEnd { memory: far.into(), offset_bytes: filled.far_offset };
            let near = ring.near(&filled.slot);
            let read = self.context.control.connection().read(&near, far, length).await;
            read.map_err(BridgeError::network(Stage::RdmaRead))?;
            filled.slot.take_back();
            self.end(Stage::RdmaRead, begun, length).await;
            self.add_to_checksum(ring, &filled).await?;
            Ok(filled)
        };
        stage(shared.options.window_bytes, pieces, bytes_of, read, |item: Filled| {
            if request.is_announced {
                let (offset_bytes, range) = (item.far_offset, &item.bytes);
                let bytes = range.end - range.start;
                let _ = taken.unbounded_send(Reply::Taken { offset_bytes, bytes });
            }
            // If the receiver has failed, it reports that itself.
            let _ = filled.unbounded_send(item);
        })
        .await
    }

    /// Moves slots into the card's memory.
    async fn move_to_card(
        &self,
        to_move: mpsc::UnboundedReceiver<Filled>,
        progress: mpsc::UnboundedSender<Reply>,
    ) -> Result<(), BridgeError> {
        let Context { request, place, .. } = self.context;
        let ring = &place.to_card;
        let job = async |filled: Filled| {
            let Filled { slot, bytes, .. } = filled;
            let part = self.part(ring, &slot, &bytes);
            let what = Move::ToCard(part, request.address + bytes.start);
            match self.dma(what, vec![slot], &bytes).await {
                Ok(_) => Ok(bytes),
                Err(error) => {
                    // The moved part of the chunk has arrived, if all before it has.
                    let upto = bytes.start + error.arrived_bytes;
                    Err(error.arrived(upto, request.bytes))
                }
            }
        };
        let hand_on = |bytes| self.has_arrived(bytes, &progress);
        stage(u64::MAX, to_move, |_| 0, job, hand_on).await
    }

    /// Moves the card's memory into slots.
    pub async fn move_from_card(
        &self,
        moved: mpsc::UnboundedSender<Filled>,
    ) -> Result<(), BridgeError> {
        let Context { request, place, .. } = self.context;
        let ring = &place.from_card;
        let (_, none) = mpsc::unbounded();
        let pieces = self.pieces(ring, none).then(async |piece| {
            let (bytes, far_offset) = piece?;
            let slot = self.slot(ring, Stage::Dma).await;
            Ok::<_, BridgeError>(Filled { slot, bytes, far_offset })
        });
        let job = async |filled: Result<Filled, BridgeError>| {
            let Filled { slot, bytes, far_offset } = filled?;
            let part = self.part(ring, &slot, &bytes);
            let what = Move::FromCard(request.address + bytes.start, part);
            let slot = self.dma(what, vec![slot], &bytes).await?.pop();
            let slot =
                slot.ok_or_else(|| BridgeError::new(Stage::Dma, Failed, "a slot was lost"))?;
            let filled = Filled { slot, bytes, far_offset };
            self.add_to_checksum(ring, &filled).await?;
            Ok(filled)
        };
        stage(u64::MAX, pieces, bytes_of, job, |item| {
            let _ = moved.unbounded_send(item);
        })
        .await
    }

    /// Moves slots through the card's stream into slots.
    async fn move_through(
        &self,
        to_move: mpsc::UnboundedReceiver<Filled>,
        moved: mpsc::UnboundedSender<Filled>,
    ) -> Result<(), BridgeError> {
        let place = self.context.place;
        let (to_card, from_card) = (&place.to_card, &place.from_card);
        let pairs = to_move.then(async |filled| (filled, self.slot(from_card, Stage::Dma).await));
        let job = async |(filled, back): (Filled, Slot)| {
            let Filled { slot, bytes, far_offset } = filled;
            let from = self.part(to_card, &slot, &bytes);
            let into = self.part(from_card, &back, &bytes);
            let slots = self.dma(Move::Through(from, into), vec![slot, back], &bytes).await?;
            let back = slots.into_iter().nth(1);
            let slot =
                back.ok_or_else(|| BridgeError::new(Stage::Dma, Failed, "a slot was lost"))?;
            Ok(Filled { slot, bytes, far_offset })
        };
        stage(
            u64::MAX,
            pairs,
            |_| 0,
            job,
            |item| {
                let _ = moved.unbounded_send(item);
            },
        )
        .await
    }

    /// Writes slots into the other node's memory.
    async fn write_remote(
        &self,
        to_write: mpsc::UnboundedReceiver<Filled>,
        progress: mpsc::UnboundedSender<Reply>,
    ) -> Result<(), BridgeError> {
        let Context { request, place, shared, .. } = self.context;
        let ring = &place.from_card;
        let far = far_region(request.destination)?;
        let write = async |filled: Filled| {
            let Filled { mut slot, bytes, .. } = filled;
            let length = bytes.end - bytes.start;
            let begun = self.begin(Stage::RdmaWrite);
            slot.lend();
            let far = FarEnd { memory: far.into(), offset_bytes: bytes.start };
            let near = ring.near(&slot);
            let written = self.context.control.connection().write(&near, far, length).await;
            written.map_err(BridgeError::network(Stage::RdmaWrite))?;
            slot.take_back();
            self.end(Stage::RdmaWrite, begun, length).await;
            Ok(bytes)
        };
        let size = |filled: &Filled| filled.bytes.end - filled.bytes.start;
        let hand_on = |bytes| self.has_arrived(bytes, &progress);
        stage(shared.options.window_bytes, to_write, size, write, hand_on).await
    }

    pub fn part(&self, ring: &Ring<B, R>, slot: &Slot, bytes: &Range<u64>) -> Part<B> {
        Part { buffer: ring.buffer.clone(), range: slot.range(bytes.end - bytes.start) }
    }

    /// Has the card move a chunk.
    pub async fn dma(
        &self,
        what: Move<B>,
        slots: Vec<Slot>,
        bytes: &Range<u64>,
    ) -> Result<Vec<Slot>, BridgeError> {
        let begun = self.begin(Stage::Dma);
        let (ended, end) = oneshot::channel();
        let Context { client, place, .. } = self.context;
        let deadline = self.context.bus_deadline();
        let job = Job { client: *client, what, deadline, slots, ended };
        let gone = |_| BridgeError::new(Stage::Dma, LinkDown, "the card is not served any more");
        place.orders.unbounded_send(job).map_err(|_| gone(()))?;
        let Ended { slots, result, retries } = end.await.map_err(|_| gone(()))?;
        lock(self.meter(Stage::Dma)).repeated(retries);
        result?;
        self.end(Stage::Dma, begun, bytes.end - bytes.start).await;
        Ok(slots)
    }

    /// Notes that a chunk has arrived, as have all before it.
    pub fn has_arrived(&self, bytes: Range<u64>, progress: &mpsc::UnboundedSender<Reply>) {
        let now = self.context.shared.clock.now();
        let mut account = lock(&self.account);
        account.arrived = bytes.end;
        account.chunks += 1;
        if now.since(account.told) >= PROGRESS {
            account.told = now;
            let _ = progress.unbounded_send(Reply::Progress { bytes: bytes.end });
        }
    }

    async fn add_to_checksum(&self, ring: &Ring<B, R>, filled: &Filled) -> Result<(), BridgeError> {
        if !self.context.request.checksum {
            return Ok(());
        }
        let range = filled.slot.range(filled.bytes.end - filled.bytes.start);
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES as usize];
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(PIECE_BYTES) as usize;
            ring.memory().read(at, &mut piece[..length])?;
            hasher.update(&piece[..length]);
            at += length as u64;
        }
        let bus = self.context.place.device.bus();
        bus.work(HostWork::Copy(range.end - range.start)).await;
        lock(&self.account).checksums.push((filled.bytes.start, hasher));
        Ok(())
    }

    /// Returns the report of the transfer so far.
    pub fn report(&self) -> Report {
        let Context { shared, request, place, begun, .. } = self.context;
        let account = lock(&self.account);
        let path = request.path;
        let stages = crate::report::stages_of(path)
            .iter()
            .map(|stage| lock(self.meter(*stage)).statistics())
            .collect();
        Report {
            path,
            mode: Mode::Pipelined,
            bytes: request.bytes - request.first,
            elapsed_ps: shared.clock.now().since(*begun).0,
            start_ps: account.first_operation.map_or(0, |first| first.since(*begun).0),
            slot_bytes: place.to_card.slot_bytes,
            chunks: account.chunks,
            is_zero_copy: shared.rdma.is_zero_copy(),
            stages,
            steps: Vec::new(),
            processor_ps: None,
            checksum: request.checksum.then(|| account.checksum()),
        }
    }
}

/// Returns the index of a stage among the three.
const fn place_of(stage: Stage) -> usize {
    match stage {
        Stage::RdmaRead => 0,
        Stage::RdmaWrite => 2,
        _ => 1,
    }
}

fn after_ps(time: Picoseconds, span_ps: u128) -> Picoseconds {
    Picoseconds(time.0.saturating_add(u64::try_from(span_ps).unwrap_or(u64::MAX)))
}

fn bytes_of(filled: &Result<Filled, BridgeError>) -> u64 {
    filled.as_ref().map_or(0, |filled| filled.bytes.end - filled.bytes.start)
}

pub(super) fn far_region(region: Option<Region>) -> Result<Region, BridgeError> {
    region.ok_or_else(|| BridgeError::new(Stage::Request, Data, "a region is missing"))
}
