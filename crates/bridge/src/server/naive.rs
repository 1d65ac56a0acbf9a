// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seven steps of the sbdt paper, one after the other, for comparison: each transfer allocates
//! and registers memory for all its data, the network moves all of it in one piece, and the DMA
//! call copies it through its ring. The client does the first two steps.

use std::cell::RefCell;
use std::ops::Range;

use crosslane_host::ErrorKind::{Cancelled, Data, Failed, LinkDown, Unsupported};
use crosslane_host::{
    Bus, Clock, DmaMemory, FarEnd, HostWork, NearEnd, PageSize, Rdma, RdmaConnection, RemoteAccess,
};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::stream;

use super::pipelined::{Run, far_region};
use super::session::Context;
use crate::card::Move;
use crate::chunks::{Chunking, Chunks};
use crate::error::BridgeError;
use crate::flow::stage;
use crate::messages::{Reply, Request};
use crate::report::{Mode, Path, Report, Step};
use crate::slots::Slot;
use crate::stage::Stage;

/// Bytes copied at once.
const PIECE_BYTES: u64 = 1 << 16;
/// Size of a page, bytes; each is touched on first use.
const PAGE_BYTES: u64 = 4096;

/// The steps of one transfer.
struct Steps<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> {
    context: &'a Context<'a, B, R, C>,
    run: &'a Run<'a, B, R, C>,
    taken: RefCell<(Picoseconds, Vec<Step>)>,
}

/// A position in memory.
struct Place<'a, M> {
    memory: &'a M,
    at: u64,
}

/// Makes a naive transfer.
pub(super) async fn run<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    context: &Context<'_, B, R, C>,
) -> Result<Report, BridgeError> {
    let (bytes, most) = (context.request.bytes, context.shared.options.most_naive_bytes);
    if bytes > most {
        let why = format!("a naive transfer of {bytes} B: this server has memory for {most} B");
        return Err(BridgeError::new(Stage::Registration, Unsupported, why));
    }
    let place = context.place;
    let _to_card = place.to_card.credits.join(context.client);
    let _from_card = place.from_card.credits.join(context.client);
    let run = Run::new(context);
    let steps = Steps { context, run: &run, taken: RefCell::new((context.begun, Vec::new())) };
    let (ready, is_ready) = mpsc::unbounded();
    let (progress, told) = mpsc::unbounded();
    let moving = steps.go(is_ready, &progress);
    let listen = |request| match request {
        Request::Ready => {
            let _ = ready.unbounded_send(());
            Ok(())
        }
        Request::Cancel => {
            Err(BridgeError::new(Stage::Request, Cancelled, "cancelled by the client"))
        }
        _ => Err(BridgeError::new(
            Stage::Request,
            Data,
            "the client asked for something else before the transfer was complete",
        )),
    };
    run.beside(moving, listen, told).await?;
    let (_, steps) = steps.taken.into_inner();
    Ok(Report { mode: Mode::Naive, steps, ..run.report() })
}

impl<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> Steps<'_, B, R, C> {
    async fn go(
        &self,
        mut is_ready: mpsc::UnboundedReceiver<()>,
        progress: &mpsc::UnboundedSender<Reply>,
    ) -> Result<(), BridgeError> {
        let Context { request, control, .. } = self.context;
        let (bytes, path) = (request.bytes, request.path);
        let connection = control.connection();
        let receive = match path {
            Path::FromFpga | Path::ToPeer => None,
            Path::ToFpga | Path::RoundTrip => Some(self.memory()?),
        };
        let send = match path {
            Path::ToFpga => None,
            Path::FromFpga | Path::ToPeer | Path::RoundTrip => Some(self.memory()?),
        };
        if let Some(memory) = &receive {
            let region = self.register(memory).await?;
            self.took("3: memory is got and registered");
            let (far, near) = (far_region(request.source)?, NearEnd { region, offset_bytes: 0 });
            let far = FarEnd { memory: far.into(), offset_bytes: 0 };
            let begun = self.run.begin(Stage::RdmaRead);
            let read = connection.read(&near, far, bytes).await;
            read.map_err(BridgeError::network(Stage::RdmaRead))?;
            self.run.end(Stage::RdmaRead, begun, bytes).await;
            self.took("4: RDMA read of all");
        }
        self.dma_call(receive.as_ref(), send.as_ref()).await?;
        self.took("5: DMA call");
        if let Some(memory) = &send {
            let region = self.register(memory).await?;
            control.send(&Reply::Ready).await?;
            let lost = || BridgeError::new(Stage::Connection, LinkDown, "the client is not ready");
            is_ready.next().await.ok_or_else(lost)?;
            self.took("6: memory is registered, and the client told");
            let near = NearEnd { region, offset_bytes: 0 };
            let far = far_region(request.destination)?;
            let far = FarEnd { memory: far.into(), offset_bytes: 0 };
            let begun = self.run.begin(Stage::RdmaWrite);
            let written = connection.write(&near, far, bytes).await;
            written.map_err(BridgeError::network(Stage::RdmaWrite))?;
            self.run.end(Stage::RdmaWrite, begun, bytes).await;
            self.took("7: RDMA write of all");
        }
        self.run.has_arrived(0..bytes, progress);
        Ok(())
    }

    fn memory(&self) -> Result<B::Memory, BridgeError> {
        let memory = self.context.shared.rdma.allocate(self.context.request.bytes, PageSize::Small);
        memory.map_err(BridgeError::network(Stage::Registration))
    }

    async fn register(&self, memory: &B::Memory) -> Result<R::Region, BridgeError> {
        let registered = self.context.shared.rdma.register(memory, RemoteAccess::NONE).await;
        registered.map_err(BridgeError::network(Stage::Registration))
    }

    /// Records the end of a step.
    fn took(&self, what: &str) {
        let now = self.context.shared.clock.now();
        let (since, steps) = &mut *self.taken.borrow_mut();
        steps.push(Step { what: what.to_owned(), time_ps: now.since(*since).0 });
        *since = now;
    }

    /// Makes the DMA call: copies data to be sent into slots, and received data out of slots.
    /// Copies and DMA of different chunks overlap.
    async fn dma_call(
        &self,
        from: Option<&B::Memory>,
        into: Option<&B::Memory>,
    ) -> Result<(), BridgeError> {
        let Context { request, place, .. } = self.context;
        let slot_bytes = place.to_card.slot_bytes;
        let chunks = Chunks::new(Chunking::equal(slot_bytes), 0..request.bytes);
        let items = stream::iter(chunks).then(async |bytes: Range<u64>| {
            let mut slots = Vec::new();
            if let Some(memory) = from {
                let slot = self.run.slot(&place.to_card, Stage::Dma).await;
                let at = slot.range(0).start;
                let to = Place { memory: place.to_card.memory(), at };
                self.copy(Place { memory, at: bytes.start }, to, &bytes).await?;
                slots.push(slot);
            }
            if into.is_some() {
                slots.push(self.run.slot(&place.from_card, Stage::Dma).await);
            }
            Ok::<_, BridgeError>((slots, bytes))
        });
        let job = async |item: Result<(Vec<Slot>, Range<u64>), BridgeError>| {
            let (slots, bytes) = item?;
            let address = request.address + bytes.start;
            let part = |ring, slot| self.run.part(ring, slot, &bytes);
            let what = match (request.path, slots.as_slice()) {
                (Path::ToFpga, [slot]) => Move::ToCard(part(&place.to_card, slot), address),
                (Path::FromFpga, [slot]) => Move::FromCard(address, part(&place.from_card, slot)),
                (Path::RoundTrip, [from, to]) => {
                    Move::Through(part(&place.to_card, from), part(&place.from_card, to))
                }
                _ => {
                    return Err(BridgeError::new(
                        Stage::Dma,
                        Failed,
                        "a naive transfer has two ends",
                    ));
                }
            };
            let slots = self.run.dma(what, slots, &bytes).await?;
            if let (Some(memory), Some(slot)) = (into, slots.last()) {
                // These pages have not been written before.
                let pages = (bytes.end - bytes.start).div_ceil(PAGE_BYTES);
                place.device.bus().work(HostWork::TouchPages(pages)).await;
                let from = Place { memory: place.from_card.memory(), at: slot.range(0).start };
                self.copy(from, Place { memory, at: bytes.start }, &bytes).await?;
            }
            Ok(())
        };
        stage(u64::MAX, items, |_| 0, job, |()| {}).await
    }

    /// Has the processor copy a chunk.
    async fn copy(
        &self,
        from: Place<'_, B::Memory>,
        to: Place<'_, B::Memory>,
        bytes: &Range<u64>,
    ) -> Result<(), BridgeError> {
        let length = bytes.end - bytes.start;
        let mut piece = vec![0; PIECE_BYTES.min(length) as usize];
        let mut done = 0;
        while done < length {
            let now = (length - done).min(PIECE_BYTES) as usize;
            from.memory.read(from.at + done, &mut piece[..now])?;
            to.memory.write(to.at + done, &piece[..now])?;
            done += now as u64;
        }
        self.context.place.device.bus().work(HostWork::Copy(length)).await;
        Ok(())
    }
}
