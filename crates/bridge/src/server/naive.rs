// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seven steps of the sbdt paper for comparison: the pipeline's stages one after the other,
//! with all data as one chunk. Each transfer allocates and registers memory for it, and the DMA
//! call copies it through the card's rings. The client does the first two steps.

use crosslane_host::ErrorKind::{LinkDown, Unsupported};
use crosslane_host::{
    AnyMemory, Clock, DmaMemory, HostWork, NearEnd, PageSize, Rdma, RemoteAccess,
};
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::stream;

use super::transfer::{Chunk, Replies, Transfer, out_of_place};
use crate::chunks::{Chunking, Chunks};
use crate::error::{At, BridgeError, Result};
use crate::messages::{Reply, Request};
use crate::report::{NaiveStep, Path};
use crate::stage::Stage;

/// Size of a page, bytes; each is touched on first use.
const PAGE_BYTES: u64 = 4096;

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'_, R, C> {
    /// Makes a naive transfer.
    pub async fn naive(&self, to_tell: Replies) -> Result<()> {
        let (bytes, most) = (self.request.bytes, self.shared.options.most_naive_bytes);
        if bytes > most {
            let why = format!("a naive transfer of {bytes} B: this server has memory for {most} B");
            return Err(BridgeError::new(Stage::Registration, Unsupported, why));
        }
        let _memberships = self.join();
        let (ready, is_ready) = mpsc::unbounded();
        let listen = |request| {
            let Request::Ready = request else { return Err(out_of_place()) };
            let _ = ready.unbounded_send(());
            Ok(())
        };
        self.beside(self.steps(is_ready), listen, to_tell).await
    }

    async fn steps(&self, mut is_ready: mpsc::UnboundedReceiver<()>) -> Result<()> {
        let (bytes, path) = (self.request.bytes, self.request.path);
        // Of a round trip there are two.
        let memories = 1 + u64::from(path == Path::RoundTrip);
        let _part = self.shared.memory.take(bytes.saturating_mul(memories)).await;
        let memory_if = |is_used: bool| is_used.then(|| self.allocate()).transpose();
        let receive = memory_if(path != Path::FromFpga)?;
        let send = memory_if(path != Path::ToFpga)?;
        if let Some(memory) = &receive {
            let near = self.register(memory).await?;
            self.pipeline.took(NaiveStep::Registration);
            self.network(Stage::RdmaRead, &near, 0, bytes).await?;
            self.pipeline.took(NaiveStep::RdmaRead);
        }
        self.dma_call(receive.as_ref(), send.as_ref()).await?;
        self.pipeline.took(NaiveStep::Dma);
        if let Some(memory) = &send {
            let near = self.register(memory).await?;
            let expected = self.expect(Stage::Connection);
            self.control.send(&Reply::Ready).await?;
            let lost = || BridgeError::new(Stage::Connection, LinkDown, "the client is not ready");
            is_ready.next().await.ok_or_else(lost)?;
            drop(expected);
            self.pipeline.took(NaiveStep::WayBack);
            self.network(Stage::RdmaWrite, &near, 0, bytes).await?;
            self.pipeline.took(NaiveStep::RdmaWrite);
        }
        self.has_arrived(bytes);
        Ok(())
    }

    fn allocate(&self) -> Result<AnyMemory> {
        let memory = self.shared.rdma.allocate(self.request.bytes, PageSize::Small);
        memory.at(Stage::Registration)
    }

    async fn register(&self, memory: &AnyMemory) -> Result<NearEnd<R::Region>> {
        let region = self.shared.rdma.register(memory, RemoteAccess::NONE).await;
        Ok(NearEnd { region: region.at(Stage::Registration)?, offset_bytes: 0 })
    }

    /// Makes the DMA call: copies data to be sent into slots, and received data out of slots.
    /// Copies and DMA of different chunks overlap.
    async fn dma_call(&self, from: Option<&AnyMemory>, into: Option<&AnyMemory>) -> Result<()> {
        let place = self.place;
        let chunks = Chunks::new(Chunking::equal(place.to_card.slot_bytes), 0..self.request.bytes);
        let items = stream::iter(chunks).then(async |bytes| {
            let mut chunk = Chunk { slots: Vec::new(), far_offset: bytes.start, bytes };
            if let Some(memory) = from {
                let slot = self.slot(&place.to_card, Stage::Dma).await;
                let to = (place.to_card.memory(), slot.start());
                self.copy((memory, chunk.bytes.start), to, chunk.length()).await?;
                chunk.slots.push(slot);
            }
            if into.is_some() {
                chunk.slots.push(self.slot(&place.from_card, Stage::Dma).await);
            }
            Ok(chunk)
        });
        let copy_out = async |mut chunk: Chunk| {
            if let Some(memory) = into {
                // These pages have not been written before.
                let pages = HostWork::TouchPages(chunk.length().div_ceil(PAGE_BYTES));
                place.core.work(pages).await;
                let from = (place.from_card.memory(), chunk.slot()?.start());
                self.copy(from, (memory, chunk.bytes.start), chunk.length()).await?;
            }
            Ok(())
        };
        self.move_chunks(items, copy_out, |()| {}).await
    }

    /// Has the processor copy bytes between memories, from and to these offsets.
    async fn copy(
        &self,
        (from, offset): (&AnyMemory, u64),
        (into, into_offset): (&AnyMemory, u64),
        bytes: u64,
    ) -> Result<()> {
        from.copy_into(offset, into, into_offset, bytes)?;
        self.place.core.work(HostWork::Copy(bytes)).await;
        Ok(())
    }
}
