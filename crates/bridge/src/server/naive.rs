// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seven steps of the sbdt paper for comparison: the pipeline's stages one after the other,
//! with all data as one chunk. Each transfer allocates and registers memory for it, and the DMA
//! call copies it through the card's rings. The client does the first two steps.

use std::cell::RefCell;

use crosslane_host::ErrorKind::{LinkDown, Unsupported};
use crosslane_host::{Bus, Clock, DmaMemory, HostWork, NearEnd, PageSize, Rdma, RemoteAccess};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::stream;

use super::transfer::{Chunk, Transfer, out_of_place};
use crate::chunks::{Chunking, Chunks};
use crate::error::{BridgeError, Result};
use crate::messages::{Reply, Request};
use crate::pipeline::stage;
use crate::report::{Mode, Path, Report, Step};
use crate::slots::{Ring, Slot};
use crate::stage::Stage;

/// Bytes copied at once.
const STEP_BYTES: u64 = 1 << 16;
/// Size of a page, bytes; each is touched on first use.
const PAGE_BYTES: u64 = 4096;

struct Steps<'a, B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> {
    transfer: &'a Transfer<'a, B, R, C>,
    /// The end of the last step, and the steps so far.
    taken: RefCell<(Picoseconds, Vec<Step>)>,
}

type Position<'a, M> = (&'a M, u64);

/// Makes a naive transfer.
pub(super) async fn run<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock>(
    transfer: &Transfer<'_, B, R, C>,
) -> Result<Report> {
    let (bytes, most) = (transfer.request.bytes, transfer.shared.options.most_naive_bytes);
    if bytes > most {
        let why = format!("a naive transfer of {bytes} B: this server has memory for {most} B");
        return Err(BridgeError::new(Stage::Registration, Unsupported, why));
    }
    let _memberships = transfer.join();
    let steps = Steps { transfer, taken: RefCell::new((transfer.begun, Vec::new())) };
    let (ready, is_ready) = mpsc::unbounded();
    let (progress, told) = mpsc::unbounded();
    let listen = |request| {
        let Request::Ready = request else { return Err(out_of_place()) };
        let _ = ready.unbounded_send(());
        Ok(())
    };
    transfer.beside(steps.go(is_ready, &progress), listen, told).await?;
    let (_, steps) = steps.taken.into_inner();
    Ok(Report { mode: Mode::Naive, steps, ..transfer.report() })
}

impl<B: Bus, R: Rdma<Memory = B::Memory>, C: Clock> Steps<'_, B, R, C> {
    async fn go(
        &self,
        mut is_ready: mpsc::UnboundedReceiver<()>,
        progress: &mpsc::UnboundedSender<Reply>,
    ) -> Result<()> {
        let Transfer { request, control, .. } = self.transfer;
        let (bytes, path) = (request.bytes, request.path);
        let memory_if = |is_used: bool| is_used.then(|| self.memory()).transpose();
        let receive = memory_if(matches!(path, Path::ToFpga | Path::RoundTrip))?;
        let send = memory_if(path != Path::ToFpga)?;
        if let Some(memory) = &receive {
            let near = self.register(memory).await?;
            self.took("3: memory is got and registered");
            self.transfer.network(Stage::RdmaRead, &near, 0, bytes).await?;
            self.took("4: RDMA read of all");
        }
        self.dma_call(receive.as_ref(), send.as_ref()).await?;
        self.took("5: DMA call");
        if let Some(memory) = &send {
            let near = self.register(memory).await?;
            control.send(&Reply::Ready).await?;
            let lost = || BridgeError::new(Stage::Connection, LinkDown, "the client is not ready");
            is_ready.next().await.ok_or_else(lost)?;
            self.took("6: memory is registered, and the client told");
            self.transfer.network(Stage::RdmaWrite, &near, 0, bytes).await?;
            self.took("7: RDMA write of all");
        }
        self.transfer.has_arrived(bytes, progress);
        Ok(())
    }

    fn memory(&self) -> Result<B::Memory> {
        let Transfer { shared, request, .. } = self.transfer;
        let memory = shared.rdma.allocate(request.bytes, PageSize::Small);
        memory.map_err(BridgeError::network(Stage::Registration))
    }

    async fn register(&self, memory: &B::Memory) -> Result<NearEnd<R::Region>> {
        let registered = self.transfer.shared.rdma.register(memory, RemoteAccess::NONE).await;
        let region = registered.map_err(BridgeError::network(Stage::Registration))?;
        Ok(NearEnd { region, offset_bytes: 0 })
    }

    /// Records the end of a step.
    fn took(&self, what: &str) {
        let now = self.transfer.shared.clock.now();
        let (since, steps) = &mut *self.taken.borrow_mut();
        steps.push(Step { what: what.to_owned(), time_ps: now.since(*since).0 });
        *since = now;
    }

    /// Makes the DMA call: copies data to be sent into slots, and received data out of slots.
    /// Copies and DMA of different chunks overlap.
    async fn dma_call(&self, from: Option<&B::Memory>, into: Option<&B::Memory>) -> Result<()> {
        let Transfer { request, place, .. } = self.transfer;
        let chunks = Chunks::new(Chunking::equal(place.to_card.slot_bytes), 0..request.bytes);
        let items = stream::iter(chunks).then(async |bytes| {
            let mut chunk = Chunk { slots: Vec::new(), far_offset: bytes.start, bytes };
            if let Some(memory) = from {
                let slot = self.transfer.slot(&place.to_card, Stage::Dma).await;
                let to = Self::position(&place.to_card, &slot);
                self.copy((memory, chunk.bytes.start), to, chunk.length()).await?;
                chunk.slots.push(slot);
            }
            if into.is_some() {
                chunk.slots.push(self.transfer.slot(&place.from_card, Stage::Dma).await);
            }
            Ok::<_, BridgeError>(chunk)
        });
        let job = async |chunk: Result<Chunk>| {
            let mut chunk = self.transfer.dma(chunk?).await?;
            if let Some(memory) = into {
                // These pages have not been written before.
                let pages = HostWork::TouchPages(chunk.length().div_ceil(PAGE_BYTES));
                place.device.bus().work(pages).await;
                let from = Self::position(&place.from_card, chunk.slot()?);
                self.copy(from, (memory, chunk.bytes.start), chunk.length()).await?;
            }
            Ok(())
        };
        stage(u64::MAX, items, |_| 0, job, |()| {}).await
    }

    fn position<'a>(ring: &'a Ring<B, R>, slot: &Slot) -> Position<'a, B::Memory> {
        (ring.memory(), slot.range(0).start)
    }

    /// Has the processor copy a chunk.
    async fn copy(
        &self,
        (from, from_offset): Position<'_, B::Memory>,
        (to, to_offset): Position<'_, B::Memory>,
        bytes: u64,
    ) -> Result<()> {
        let mut step = vec![0; STEP_BYTES.min(bytes) as usize];
        for at in (0..bytes).step_by(STEP_BYTES as usize) {
            let step = &mut step[..(bytes - at).min(STEP_BYTES) as usize];
            from.read(from_offset + at, step)?;
            to.write(to_offset + at, step)?;
        }
        self.transfer.place.device.bus().work(HostWork::Copy(bytes)).await;
        Ok(())
    }
}
