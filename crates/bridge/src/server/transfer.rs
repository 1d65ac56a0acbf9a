// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One transfer of a client: the operations of its stages, and what runs beside them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use crosslane_driver::{Device, Target};
use crosslane_host::ErrorKind::{Cancelled, Data, Failed, LinkDown, Timeout};
use crosslane_host::{
    AnyMemory, Bus, Clock, DmaMemory, FarEnd, HostWork, NearEnd, Rdma, RdmaConnection, RdmaRegion,
};
use crosslane_pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::peer_link::PeerLink;
use super::shares::UnderWay;
use super::sums::Sums;
use super::{ServedCard, ServerEvent, Shared};
use crate::card::{Ended, Order, Orders};
use crate::control::Control;
use crate::deadline::{after, by};
use crate::error::{At, BridgeError, Result};
use crate::messages::{Reply, Request, TransferRequest};
use crate::pipeline::Pipeline;
use crate::report::{Mode, Path, Report, stages_of};
use crate::served::Core;
use crate::slots::{ClientId, Membership, Ring, Slot};
use crate::stage::Stage;

/// Least time between two progress messages.
pub(super) const PROGRESS: Picoseconds = Picoseconds::from_ns(100_000_000);
/// Time between two events about a transfer that goes on.
const MOVING: Picoseconds = Picoseconds::from_secs(1);
/// Time for a client to take the last messages of a transfer.
pub(super) const LAST_WORDS: Picoseconds = Picoseconds::from_secs(1);
/// Bytes of a slot copied at once for a checksum: they stay in a core's first cache.
const STEP_BYTES: u64 = 1 << 14;

/// A chunk in its slots: of a round trip, first the one to the card, then the one back.
pub(super) struct Chunk {
    pub slots: Vec<Slot>,
    /// Bytes of the transfer.
    pub bytes: Range<u64>,
    /// Position at the other node.
    pub far_offset: u64,
}

impl Chunk {
    pub const fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// Returns the slot that the network uses.
    pub fn slot(&mut self) -> Result<&mut Slot> {
        let slot = self.slots.last_mut();
        slot.ok_or_else(|| BridgeError::new(Stage::Dma, Failed, "a chunk has lost its slot"))
    }
}

/// Messages to a client about its transfer.
pub(super) type Replies = mpsc::UnboundedReceiver<Reply>;

/// A transfer, for its stages.
pub(super) struct Transfer<'a, R: Rdma<Memory = AnyMemory>, C: Clock> {
    pub shared: &'a Shared<R, C>,
    pub place: &'a Rc<ServedCard<R>>,
    pub control: &'a Control<R::Connection>,
    pub client: ClientId,
    /// Name of the client in the policy.
    name: &'a str,
    pub request: &'a TransferRequest,
    /// Deadline of the transfer by the server's clock.
    pub deadline: Picoseconds,
    pub pipeline: Pipeline<C>,
    /// The link to another server.
    pub link: OnceCell<PeerLink<R>>,
    /// The way of a copy within this node.
    pub route: RefCell<Option<String>>,
    /// Messages to the client.
    replies: mpsc::UnboundedSender<Reply>,
    /// Processor time of the server at the start, if known.
    processor: Option<Picoseconds>,
    /// Bytes that the card had moved at the start, and the share of each client in them.
    moved_before: (u64, f64),
    /// Time of the last progress message.
    told: Cell<Picoseconds>,
    sums: RefCell<Sums>,
    /// Byte up to which another server had the same checksum, and that checksum.
    pub agreed: Cell<Option<(u64, u32)>>,
    /// Things that the client, or the other server, has to do, by the time since which it has.
    expected: RefCell<BTreeMap<(Picoseconds, u64), Stage>>,
}

/// Something that another node has to do, until this is dropped.
pub(super) struct Expected<'a> {
    all: &'a RefCell<BTreeMap<(Picoseconds, u64), Stage>>,
    key: (Picoseconds, u64),
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.all.borrow_mut().remove(&self.key);
    }
}

impl<'a, R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'a, R, C> {
    /// Begins a transfer, with the link that there is; also returns its messages to the client.
    pub fn new(
        shared: &'a Shared<R, C>,
        (place, link): (&'a Rc<ServedCard<R>>, Option<PeerLink<R>>),
        control: &'a Control<R::Connection>,
        (client, name): (ClientId, &'a str),
        request: &'a TransferRequest,
    ) -> (Self, Replies) {
        let time = Picoseconds(request.time_ps).min(shared.options.longest_time);
        let pipeline = Pipeline::new(shared.clock.clone(), shared.options.pace, request.first);
        let (replies, to_tell) = mpsc::unbounded();
        let transfer = Self {
            shared,
            place,
            control,
            client,
            name,
            request,
            deadline: after(&shared.clock, time),
            link: link.map_or_else(OnceCell::new, OnceCell::from),
            route: RefCell::default(),
            replies,
            processor: shared.clock.processor_time(),
            moved_before: place.shares.so_far(),
            told: Cell::new(pipeline.begun),
            pipeline,
            sums: RefCell::new(Sums::from(request.first)),
            agreed: Cell::new(None),
            expected: RefCell::default(),
        };
        (transfer, to_tell)
    }

    /// Makes the transfer; a copy within this node has the card that it goes to. Also returns the
    /// data that the answer carries. An error carries the bytes that have arrived, if its stages
    /// have begun.
    pub async fn run(
        &self,
        target: Option<&ServedCard<R>>,
        to_tell: Replies,
    ) -> Result<(Report, Option<Vec<u8>>)> {
        if let (Some(target), Some(peer)) = (target, &self.request.peer) {
            self.within(target, peer.address, to_tell).await?;
            return Ok((self.report(), None));
        }
        let mut data = None;
        match (self.request.mode, self.request.path, &self.request.carried) {
            (_, _, Some(carried)) => data = self.carried(carried, to_tell).await?,
            (Mode::Naive, ..) => self.naive(to_tell).await?,
            (Mode::Pipelined, Path::ToPeer, _) => self.to_peer(to_tell).await?,
            (Mode::Pipelined, ..) => self.pipelined(to_tell).await?,
        }
        Ok((self.report(), data))
    }

    /// Returns the ring that takes the card's data.
    pub fn ring_of_card_data(&self) -> &Ring<R> {
        self.link.get().map_or(&self.place.from_card, |link| &link.ring)
    }

    /// Takes part in both rings, and in the shares of the card, until the result is dropped.
    pub fn join(&self) -> ([Membership; 2], UnderWay<'_>) {
        let ServedCard { to_card, from_card, shares, .. } = &**self.place;
        ([to_card, from_card].map(|ring| ring.credits.join(self.client)), shares.begin())
    }

    /// Runs a transfer while it listens to the client, reports progress and watches the deadline.
    /// Once a second it tells how the transfer goes on.
    /// An error carries the bytes that have arrived.
    pub async fn beside(
        &self,
        moving: impl Future<Output = Result<()>>,
        mut on_request: impl FnMut(Request) -> Result<()>,
        mut to_tell: Replies,
    ) -> Result<()> {
        let failed = |stage, kind, why| Err::<(), _>(BridgeError::new(stage, kind, why));
        let Self { control, shared, deadline, request, .. } = self;
        let listening = async {
            loop {
                match control.receive::<Request>("a request").await? {
                    Request::Cancel => {
                        let why = "cancelled by the client";
                        return failed(Stage::Request, Cancelled, why);
                    }
                    request => on_request(request)?,
                }
            }
        };
        let telling = async {
            while let Some(reply) = to_tell.next().await {
                let _expected = self.expect(Stage::Connection);
                control.send(&reply).await?;
            }
            std::future::pending::<Result<()>>().await
        };
        let late = async {
            let patience = shared.options.patience;
            let mut moving = after(&shared.clock, MOVING);
            loop {
                let now = shared.clock.now();
                if now >= moving {
                    moving = after(&shared.clock, MOVING);
                    self.tell_moving();
                }
                let oldest = self.oldest_expected();
                let until = Picoseconds(oldest.map_or(now, |it| it.0).0.saturating_add(patience.0));
                if now >= *deadline {
                    let busiest = self.pipeline.busiest();
                    let stage = busiest.map_or(Stage::Connection, |slowest| slowest.stage);
                    return failed(stage, Timeout, "the deadline passed before all had arrived");
                }
                if let Some((_, stage)) = oldest.filter(|_| now >= until) {
                    let why = "the other node has done nothing for too long";
                    return failed(stage, Timeout, why);
                }
                shared.clock.sleep_until(until.min(*deadline).min(moving)).await;
            }
        };
        let (moving, listening) = (pin!(moving), pin!(listening));
        let (telling, late) = (pin!(telling), pin!(late));
        let others = select(listening, select(telling, late));
        let result = match select(moving, others).await {
            Either::Left((moved, _)) => moved,
            Either::Right((Either::Left((heard, _)), _)) => heard,
            Either::Right((Either::Right((other, _)), _)) => other.factor_first().0,
        };
        let Err(error) = result else { return Ok(()) };
        let whole = self.pipeline.arrived_bytes();
        if request.checksum && error.stage != Stage::Connection {
            // Whoever resumes the transfer gets the checksum of what has arrived.
            let progress = self.progress(whole);
            let told = control.send(&progress);
            let end = after(&shared.clock, LAST_WORDS);
            let what = "the client does not take messages";
            let _ = by(&shared.clock, end, Stage::Connection, what, told).await;
        }
        // Only into a card's memory can part of a chunk arrive.
        let is_partial = request.path == Path::ToFpga && error.stage == Stage::Dma;
        let arrived = if is_partial { whole.max(error.arrived_bytes) } else { whole };
        Err(error.arrived(arrived, request.bytes))
    }

    /// Notes that the client, or the other server, has something to do, until the result is
    /// dropped. If that takes longer than the server's patience, the transfer fails in this stage.
    pub fn expect(&self, stage: Stage) -> Expected<'_> {
        let mut expected = self.expected.borrow_mut();
        let now = self.shared.clock.now();
        let last = expected.range((now, 0)..=(now, u64::MAX)).next_back();
        let key = (now, last.map_or(0, |((_, number), _)| number + 1));
        expected.insert(key, stage);
        Expected { all: &self.expected, key }
    }

    /// Returns since when the oldest of these things is expected, and its stage.
    fn oldest_expected(&self) -> Option<(Picoseconds, Stage)> {
        let expected = self.expected.borrow();
        expected.first_key_value().map(|((since, _), stage)| (*since, *stage))
    }

    /// Waits for a slot.
    pub async fn slot(&self, ring: &Ring<R>, stage: Stage) -> Slot {
        let since = self.shared.clock.now();
        let slot = ring.credits.acquire(self.client).await;
        self.pipeline.waited(stage, since);
        slot
    }

    /// Has the network move bytes between this node's memory and the client's: read its source, or
    /// write its destination.
    pub async fn network(
        &self,
        stage: Stage,
        near: &NearEnd<R::Region>,
        offset_bytes: u64,
        bytes: u64,
    ) -> Result<()> {
        let is_read = stage == Stage::RdmaRead;
        let region = if is_read { self.request.source } else { self.request.destination };
        let missing = || BridgeError::new(Stage::Request, Data, "a region is missing");
        let far = FarEnd { memory: region.ok_or_else(missing)?, offset_bytes };
        let begun = self.pipeline.begin(stage);
        let expected = self.expect(stage);
        let connection = self.control.connection();
        let moved = match is_read {
            true => connection.read(near, far, bytes).await,
            false => connection.write(near, far, bytes).await,
        };
        moved.at(stage)?;
        drop(expected);
        self.pipeline.end(stage, begun, bytes).await;
        Ok(())
    }

    /// Has the network move a chunk between its slot and the client's memory. A slot that the
    /// network may still use is lent until it has ended.
    pub async fn exchange(&self, stage: Stage, chunk: &mut Chunk) -> Result<()> {
        let place = self.place;
        let is_read = stage == Stage::RdmaRead;
        let ring = if is_read { &place.to_card } else { &place.from_card };
        // Read data lie where they were announced, written data at their own place.
        let offset = if is_read { chunk.far_offset } else { chunk.bytes.start };
        let length = chunk.length();
        if let Some((region, offset_bytes)) = self.in_place(chunk) {
            let near = NearEnd { region: region.clone(), offset_bytes };
            self.network(stage, &near, offset, length).await?;
            self.place.shares.moved(length);
            // Says so if a mapped file has lost pages.
            return Ok(region.memory().read(offset_bytes, &mut [0])?);
        }
        let slot = chunk.slot()?;
        let near = ring.near(slot);
        slot.lend();
        self.network(stage, &near, offset, length).await?;
        slot.take_back();
        Ok(())
    }

    /// Whether the network reaches the card's memory itself, so that data need no slots.
    pub fn is_direct(&self) -> bool {
        let is_memory = matches!(self.request.path, Path::ToFpga | Path::FromFpga);
        is_memory
            && self.request.mode == Mode::Pipelined
            && self.request.carried.is_none()
            && self.place.core.memory().is_some()
    }

    /// Returns the place of a chunk without slots in the memory that stands for the card.
    fn in_place(&self, chunk: &Chunk) -> Option<(&R::Region, u64)> {
        let region = self.place.core.memory().filter(|_| chunk.slots.is_empty())?;
        Some((region, self.request.address + chunk.bytes.start))
    }

    /// Has the card move a chunk: to its memory, from it, or through its stream.
    pub async fn dma(&self, chunk: Chunk) -> Result<Chunk> {
        match &self.place.core {
            Core::Engine(device, orders) => self.order(device, orders, chunk).await,
            // The network has moved it, or will.
            Core::Memory(_) if chunk.slots.is_empty() => Ok(chunk),
            core => {
                let length = chunk.length();
                let begun = self.pipeline.begin(Stage::Dma);
                if let Some(region) = core.memory() {
                    self.copy_by_processor(region.memory(), &chunk)?;
                }
                self.place.shares.moved(length);
                self.pipeline.end(Stage::Dma, begun, length).await;
                Ok(chunk)
            }
        }
    }

    /// Copies a chunk between its slots and the memory that stands for the card, or from slot to
    /// slot.
    fn copy_by_processor(&self, memory: &AnyMemory, chunk: &Chunk) -> Result<()> {
        // Of a round trip, which has none, the client may have sent any number.
        let address = self.request.address.wrapping_add(chunk.bytes.start);
        let length = chunk.length();
        let (to_card, from_card) = (self.place.to_card.memory(), self.ring_of_card_data().memory());
        match (self.request.path, chunk.slots.as_slice()) {
            (Path::ToFpga, [slot]) => {
                to_card.copy_into(slot.start(), memory, address, length)?;
            }
            (Path::FromFpga | Path::ToPeer, [slot]) => {
                memory.copy_into(address, from_card, slot.start(), length)?;
            }
            (Path::RoundTrip, [to, from]) => {
                to_card.copy_into(to.start(), from_card, from.start(), length)?;
            }
            _ => return Err(lost_slots()),
        }
        Ok(())
    }

    /// Has a card's engine move a chunk.
    async fn order(&self, device: &Device, orders: &Orders, chunk: Chunk) -> Result<Chunk> {
        let Self { client, place, request, .. } = self;
        let Chunk { slots, bytes, far_offset } = chunk;
        let length = bytes.end - bytes.start;
        let part = |ring: &Ring<R>, slot: &Slot| {
            let buffer = ring.buffer.clone().ok_or_else(lost_slots)?;
            Ok::<_, BridgeError>((buffer, slot.range(length)))
        };
        // Of a round trip, which has none, the client may have sent any number.
        let address = request.address.wrapping_add(bytes.start);
        let (h2c, c2h) = match (request.path, slots.as_slice()) {
            (Path::ToFpga, [slot]) => {
                let (buffer, range) = part(&place.to_card, slot)?;
                (Some(Target::Card(buffer, range, address)), None)
            }
            (Path::FromFpga | Path::ToPeer, [slot]) => {
                let (buffer, range) = part(self.ring_of_card_data(), slot)?;
                (None, Some(Target::Card(buffer, range, address)))
            }
            (Path::RoundTrip, [to, from]) => {
                let (buffer, range) = part(&place.to_card, to)?;
                let (back, back_range) = part(&place.from_card, from)?;
                (Some(Target::Buffer(buffer, range)), Some(Target::Buffer(back, back_range)))
            }
            _ => return Err(lost_slots()),
        };
        let begun = self.pipeline.begin(Stage::Dma);
        let (ended, end) = oneshot::channel();
        let deadline = self.bus_deadline(device);
        let order = Order { client: *client, h2c, c2h, deadline, slots, ended, retries: 0 };
        let gone = || BridgeError::new(Stage::Dma, LinkDown, "the card is not served any more");
        orders.unbounded_send(order).map_err(|_| gone())?;
        let Ended { slots, result, retries } = end.await.map_err(|_| gone())?;
        self.pipeline.repeated(Stage::Dma, retries);
        if let Err(error) = result {
            // The moved part of the chunk has arrived, if all before it has.
            let upto = bytes.start + error.arrived_bytes;
            return Err(error.arrived(upto, request.bytes));
        }
        place.shares.moved(length);
        self.pipeline.end(Stage::Dma, begun, length).await;
        Ok(Chunk { slots, bytes, far_offset })
    }

    /// Returns the deadline by the clock of the card's bus.
    pub fn bus_deadline(&self, device: &Device) -> Picoseconds {
        let left = self.deadline.since(self.shared.clock.now());
        Picoseconds(Bus::now(device.bus()).0.saturating_add(left.0))
    }

    /// Notes that all bytes before this one have arrived, and tells the client now and then.
    pub fn has_arrived(&self, upto: u64) {
        let now = self.shared.clock.now();
        self.pipeline.has_arrived(upto);
        // No more than the chunks under way are kept.
        self.checksum_upto(upto);
        if now.since(self.told.get()) >= PROGRESS {
            self.told.set(now);
            self.tell(self.progress(upto));
        }
    }

    /// Returns the message that all bytes before this one have arrived.
    fn progress(&self, upto: u64) -> Reply {
        let checksum = match self.request.path {
            // That of this server alone says nothing of what the other one has.
            Path::ToPeer => self.agreed.get().filter(|(at, _)| *at == upto).map(|(_, sum)| sum),
            _ => self.checksum_upto(upto),
        };
        Reply::Progress { bytes: upto, checksum }
    }

    /// Sends the client a message, as soon as the connection takes it.
    pub fn tell(&self, reply: Reply) {
        // Fails only when the transfer has ended.
        let _ = self.replies.unbounded_send(reply);
    }

    /// Adds a chunk in a slot to the checksum, if the client asked for one.
    pub async fn add_to_checksum(&self, ring: &Ring<R>, chunk: &mut Chunk) -> Result<()> {
        if !self.request.checksum {
            return Ok(());
        }
        let length = chunk.length();
        let (memory, range) = match self.in_place(chunk) {
            Some((region, start)) => (region.memory(), start..start + length),
            None => (ring.memory(), chunk.slot()?.range(length)),
        };
        let mut hasher = crc32fast::Hasher::new();
        let mut step = vec![0; STEP_BYTES as usize];
        for at in range.clone().step_by(STEP_BYTES as usize) {
            let step = &mut step[..(range.end - at).min(STEP_BYTES) as usize];
            memory.read(at, step)?;
            hasher.update(step);
        }
        self.place.core.work(HostWork::Copy(length)).await;
        self.sums.borrow_mut().add(chunk.bytes.clone(), hasher);
        Ok(())
    }

    /// Returns the checksum of the bytes that this transfer has moved before this one, if the
    /// client asked for it and the byte is the first of a chunk. Naive transfers have none.
    pub fn checksum_upto(&self, end: u64) -> Option<u32> {
        // Within the node there is nobody to compare one with.
        let is_summed = self.request.checksum && self.request.path != Path::WithinNode;
        is_summed.then(|| self.sums.borrow_mut().upto(end)).flatten()
    }

    /// Tells that the transfer goes on, and how.
    fn tell_moving(&self) {
        let bytes = self.pipeline.arrived_bytes() - self.request.first;
        (self.shared.tell)(&ServerEvent::Moving {
            client: self.name.to_owned(),
            session: self.client.0,
            of_bytes: self.request.bytes - self.request.first,
            report: Box::new(self.report_of(bytes)),
        });
    }

    /// Reports a transfer that is complete.
    fn report(&self) -> Report {
        let Self { request, .. } = self;
        let checksum = self.checksum_upto(request.bytes);
        Report { checksum, ..self.report_of(request.bytes - request.first) }
    }

    /// Reports a transfer of which these bytes have arrived, without a checksum.
    fn report_of(&self, bytes: u64) -> Report {
        let Self { shared, request, place, pipeline, .. } = self;
        let is_direct = self.is_direct();
        let stages = stages_of(request.path).iter();
        let is_carried = request.carried.is_some();
        let stages = stages.filter(|stage| match stage {
            Stage::Dma => !is_direct,
            _ => !is_carried,
        });
        let stages = stages.map(|stage| pipeline.statistics(*stage));
        // Of a copy within the node, those that its route has.
        let is_within = request.path == Path::WithinNode;
        let stages = stages.filter(|stage| !is_within || stage.operations > 0);
        let processor = shared.clock.processor_time().zip(self.processor);
        let (card_bytes, share_bytes) = place.shares.so_far();
        Report {
            path: request.path,
            mode: request.mode,
            bytes,
            elapsed_ps: pipeline.elapsed().0,
            start_ps: pipeline.until_first_operation().0,
            slot_bytes: place.to_card.slot_bytes,
            chunks: pipeline.chunks(),
            is_zero_copy: shared.rdma.is_zero_copy(),
            stages: stages.collect(),
            steps: pipeline.steps(),
            processor_ps: processor.map(|(now, before)| now.since(before).0),
            checksum: None,
            route: self.route.borrow().clone(),
            card_bytes: card_bytes - self.moved_before.0,
            fair_share_bytes: (share_bytes - self.moved_before.1).round() as u64,
        }
    }
}

/// The error of a chunk that has not the slots of its path.
fn lost_slots() -> BridgeError {
    BridgeError::new(Stage::Dma, Failed, "a chunk has lost its slots")
}

/// Refuses a request that does not belong to a transfer that is under way.
pub(super) fn out_of_place() -> BridgeError {
    let why = "the client asked for something else before the transfer was complete";
    BridgeError::new(Stage::Request, Data, why)
}
