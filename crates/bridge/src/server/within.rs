// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies between two cards of this server: the target's engine reads the memory of the source
//! where the plan allows it, else data go through memory of this node that no other transfer has.

use std::ops::Range;

use crosslane_driver::{CARD_MEMORY_BAR, Device, PathEnd, PeerMemory, Plan, Target};
use crosslane_host::ErrorKind::LinkDown;
use crosslane_host::{
    AnyMemory, Clock, DmaMemory, HostWork, Rdma, RdmaRegion, RemoteAccess, Topology,
};
use futures_channel::oneshot;
use futures_util::stream;

use super::transfer::{Replies, Transfer};
use super::{ServedCard, ServerOptions};
use crate::card::{Ended, Order};
use crate::chunks::Chunks;
use crate::deadline::by;
use crate::error::{At, BridgeError, Result};
use crate::files::pause;
use crate::pipeline::stage;
use crate::served::Core;
use crate::slots::{Ring, Slot};
use crate::stage::Stage;

/// Bytes of nothing that are written at once.
const ZEROS: [u8; 1 << 12] = [0; 1 << 12];

/// One end of an order at a card.
enum End {
    /// Data that H2C takes.
    H2c(Target),
    /// Data that C2H brings.
    C2h(Target),
}

/// The rings of a copy through host memory: one for each end that has an engine.
struct Rings<R: Rdma<Memory = AnyMemory>> {
    out: Option<Ring<R>>,
    into: Option<Ring<R>>,
}

/// Part of a card's memory, or of a ring, at an end of a copy by the processor; `None` is no
/// memory at all.
type Place<'a, M> = Option<(&'a M, u64)>;

fn length(bytes: &Range<u64>) -> u64 {
    bytes.end - bytes.start
}

/// Returns the part of a ring that a slot is, for an engine.
fn part<R: Rdma<Memory = AnyMemory>>(
    ring: &Ring<R>,
    slot: &Slot,
    bytes: &Range<u64>,
    card: u64,
) -> Result<Target> {
    let gone = || BridgeError::new(Stage::Dma, LinkDown, "a ring without an engine");
    let buffer = ring.buffer.clone().ok_or_else(gone)?;
    Ok(Target::Card(buffer, slot.range(length(bytes)), card))
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'_, R, C> {
    /// Makes a copy into the memory of another card, or another part of this card's, from its
    /// address `to` on.
    pub async fn within(&self, target: &ServedCard<R>, to: u64, to_tell: Replies) -> Result<()> {
        let is_one = std::ptr::eq(&**self.place, target);
        let _under_way = (self.place.shares.begin(), (!is_one).then(|| target.shares.begin()));
        match self.peer_memory(target).await {
            Ok(memory) => {
                let (reader, source) = (&target.name, &self.place.name);
                let words = format!("{reader} reads the memory of {source}, past host memory");
                self.route.replace(Some(words));
                let result = self.beside(self.read_peer(target, &memory, to), |_| Ok(()), to_tell);
                let result = result.await;
                // Nothing is mapped: the way does not lead through the root complex.
                let _ = memory.close().await;
                result
            }
            Err(why) => {
                self.route.replace(Some(format!("through host memory: {why}")));
                self.through_host(target, to, to_tell).await
            }
        }
    }

    /// Opens the source's memory for the target's engine, or says why that is not possible.
    async fn peer_memory(&self, target: &ServedCard<R>) -> Result<PeerMemory, String> {
        let ends = self.place.core.device().zip(target.core.device());
        let (source, reader) = ends.ok_or_else(|| "not both of them have an engine".to_owned())?;
        let (from, own) = (source.function(), reader.function());
        let (name, bar) = (&self.place.name, usize::from(CARD_MEMORY_BAR));
        if from == own {
            return Err("it is one card".to_owned());
        }
        let window = from.bars.iter().find(|it| it.index == bar);
        let Some(window) = window.filter(|_| source.description().card_memory) else {
            return Err(format!("{name} shows none of its memory to others (BAR{bar})"));
        };
        let end = self.request.address.saturating_add(self.request.bytes);
        if end > window.size_bytes {
            return Err(format!("{name} shows {} B of its memory to others", window.size_bytes));
        }
        let bus = reader.bus();
        let tree = bus.functions().map_err(|error| error.to_string())?;
        // A function's number says little by itself: the two may be of different trees.
        if from.parent.is_none() || !tree.contains(from) {
            return Err(format!("{name} and {} are not known to be in one tree", target.name));
        }
        let (own, from) = (PathEnd::Function(own.id), (PathEnd::Function(from.id), from.id));
        let plan = Plan::of_reads(bus, own, from.0).map_err(|error| error.to_string())?;
        if plan.through_root_complex {
            let why = plan.refused.first().map(ToString::to_string);
            return Err(why.unwrap_or_else(|| "the way leads through the root complex".to_owned()));
        }
        reader.peer_memory(from.1, CARD_MEMORY_BAR).await.map_err(|error| error.to_string())
    }

    /// Returns the chunks of the copy.
    fn parts(&self) -> impl Iterator<Item = Range<u64>> {
        let chunking = self.shared.chunking(self.request.chunk_bytes, &self.place.from_card);
        Chunks::new(chunking, self.request.first..self.request.bytes)
    }

    /// Has the target's engine read all from the source.
    async fn read_peer(&self, target: &ServedCard<R>, memory: &PeerMemory, to: u64) -> Result<()> {
        let read = async |bytes: Range<u64>| {
            let from = self.request.address + bytes.start;
            let into = memory.target_in_card(from..from + length(&bytes), to + bytes.start);
            self.ordered(Stage::Dma, target, End::H2c(into), Vec::new(), length(&bytes)).await?;
            self.place.shares.moved(length(&bytes));
            Ok(bytes.end)
        };
        let window_bytes = self.shared.options.window_bytes;
        let hand_on = |upto| self.has_arrived(upto);
        stage(window_bytes, stream::iter(self.parts()), length, read, hand_on).await
    }

    /// Makes the copy through memory of this node.
    async fn through_host(&self, target: &ServedCard<R>, to: u64, to_tell: Replies) -> Result<()> {
        let (shared, deadline) = (self.shared, self.deadline);
        let ServerOptions { slots, slot_bytes, window_bytes, .. } = shared.options;
        let ends = [self.place.core.device(), target.core.device()];
        let count = ends.iter().flatten().count() as u64;
        let memory = async { Ok(shared.memory.take(count * slots as u64 * slot_bytes).await) };
        let what = "waiting for memory that other transfers have";
        let _memory = by(&shared.clock, deadline, Stage::Registration, what, memory).await?;
        let ring = async |device: Option<&Device>| match device {
            None => Ok(None),
            device => {
                let (size, none) = ((slots, slot_bytes), RemoteAccess::NONE);
                Ring::new(device, &shared.rdma, size, none).await.map(Some)
            }
        };
        let rings = Rings { out: ring(ends[0]).await?, into: ring(ends[1]).await? };
        let pass = async |bytes: Range<u64>| self.pass(&rings, (target, to), bytes).await;
        let hand_on = |upto| self.has_arrived(upto);
        let moving = stage(window_bytes, stream::iter(self.parts()), length, pass, hand_on);
        let result = self.beside(moving, |_| Ok(()), to_tell).await;
        // Orders of a transfer that has failed may be at a card: it then ends with the last one.
        for ring in [&rings.out, &rings.into].into_iter().flatten() {
            if let Some(buffer) = ring.buffer.clone() {
                let _ = buffer.unregister().await;
            }
        }
        result
    }

    /// Moves a chunk: out of the source, by the processor, and into the target; returns its end.
    async fn pass(
        &self,
        rings: &Rings<R>,
        (target, to): (&ServedCard<R>, u64),
        bytes: Range<u64>,
    ) -> Result<u64> {
        let (from, to) = (self.request.address + bytes.start, to + bytes.start);
        let length = length(&bytes);
        let mut filled = None;
        if let Some(ring) = &rings.out {
            let slot = self.slot(ring, Stage::Receive).await;
            let c2h = End::C2h(part(ring, &slot, &bytes, from)?);
            let slots = self.ordered(Stage::Receive, self.place, c2h, vec![slot], length).await?;
            filled = slots.into_iter().next();
        }
        let copying = if rings.into.is_some() { Stage::CopyIn } else { Stage::CopyOut };
        let mut free = None;
        if let Some(ring) = &rings.into {
            free = Some(self.slot(ring, copying).await);
        }
        let begun = self.pipeline.begin(copying);
        let source = place_of(&rings.out, &filled, (&self.place.core, from));
        let sink = place_of(&rings.into, &free, (&target.core, to));
        copy(source, sink, length)?;
        let worker = if rings.out.is_some() { self.place } else { target };
        worker.core.work(HostWork::Copy(length)).await;
        // Others have their turn between two chunks that no card delays.
        pause().await;
        self.pipeline.end(copying, begun, length).await;
        drop(filled);
        if rings.out.is_none() {
            self.place.shares.moved(length);
        }
        match (&rings.into, free) {
            (Some(ring), Some(slot)) => {
                let h2c = End::H2c(part(ring, &slot, &bytes, to)?);
                self.ordered(Stage::Transmit, target, h2c, vec![slot], length).await?;
            }
            _ => target.shares.moved(length),
        }
        Ok(bytes.end)
    }

    /// Has a card's engine carry out an order; returns its slots.
    async fn ordered(
        &self,
        stage: Stage,
        card: &ServedCard<R>,
        end: End,
        slots: Vec<Slot>,
        bytes: u64,
    ) -> Result<Vec<Slot>> {
        let gone = || BridgeError::new(stage, LinkDown, "the card is not served any more");
        let Core::Engine(device, orders) = &card.core else { return Err(gone()) };
        let begun = self.pipeline.begin(stage);
        let (h2c, c2h) = match end {
            End::H2c(target) => (Some(target), None),
            End::C2h(target) => (None, Some(target)),
        };
        let (ended, end) = oneshot::channel();
        let (client, deadline) = (self.client, self.bus_deadline(device));
        let order = Order { client, h2c, c2h, deadline, slots, ended, retries: 0 };
        orders.unbounded_send(order).map_err(|_| gone())?;
        let Ended { slots, result, retries } = end.await.map_err(|_| gone())?;
        self.pipeline.repeated(stage, retries);
        // The account of what has arrived is the transfer's: whole chunks.
        result.map_err(|error| BridgeError::of(stage, error.why))?;
        card.shares.moved(bytes);
        self.pipeline.end(stage, begun, bytes).await;
        Ok(slots)
    }
}

/// Returns the memory of an end of a copy: a slot of its ring, or what stands for the card.
fn place_of<'a, R: Rdma<Memory = AnyMemory>>(
    ring: &'a Option<Ring<R>>,
    slot: &Option<Slot>,
    (core, address): (&'a Core<R::Region>, u64),
) -> Place<'a, AnyMemory> {
    match (ring, slot) {
        (Some(ring), Some(slot)) => Some((ring.memory(), slot.start())),
        _ => core.memory().map(|region| (region.memory(), address)),
    }
}

/// Copies bytes by the processor. From nothing come zeros, and nothing is kept of what goes there.
fn copy(from: Place<'_, AnyMemory>, to: Place<'_, AnyMemory>, bytes: u64) -> Result<()> {
    match (from, to) {
        (Some((from, start)), Some((to, place))) => {
            from.copy_into(start, to, place, bytes).at(Stage::CopyIn)
        }
        (None, Some((to, place))) => {
            for at in (0..bytes).step_by(ZEROS.len()) {
                let zeros = &ZEROS[..(bytes - at).min(ZEROS.len() as u64) as usize];
                to.write(place + at, zeros).at(Stage::CopyIn)?;
            }
            Ok(())
        }
        (_, None) => Ok(()),
    }
}
