// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small transfers, whose data are within their messages: the network reads and writes no memory,
//! and the processor copies them between a message and a slot.

use std::cell::RefCell;

use crosslane_host::{AnyMemory, Bus, Clock, DmaMemory, HostWork, Rdma};

use super::transfer::{Chunk, Replies, Transfer, out_of_place};
use crate::error::{BridgeError, Result};
use crate::messages::Carried;
use crate::stage::Stage;

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Transfer<'_, R, C> {
    /// Makes a transfer of one chunk; returns the data for the answer.
    pub async fn carried(&self, carried: &Carried, to_tell: Replies) -> Result<Option<Vec<u8>>> {
        let _memberships = self.join();
        let answer = RefCell::default();
        let moving = async {
            match carried {
                Carried::Put(data) => self.put_carried(data).await?,
                Carried::Get => {
                    answer.replace(Some(self.get_carried().await?));
                }
            }
            self.has_arrived(self.request.bytes);
            Ok::<(), BridgeError>(())
        };
        self.beside(moving, |_| Err(out_of_place()), to_tell).await?;
        Ok(answer.take())
    }

    /// Moves the data of a request into the card.
    async fn put_carried(&self, data: &[u8]) -> Result<()> {
        let ring = &self.place.to_card;
        let slot = self.slot(ring, Stage::Dma).await;
        ring.memory().write(slot.start(), data)?;
        self.copied(0).await;
        let mut chunk = Chunk { slots: vec![slot], bytes: 0..self.request.bytes, far_offset: 0 };
        self.add_to_checksum(ring, &mut chunk).await?;
        self.dma(chunk).await?;
        Ok(())
    }

    /// Moves data of the card into the answer.
    async fn get_carried(&self) -> Result<Vec<u8>> {
        let (ring, bytes) = (&self.place.from_card, self.request.bytes);
        let slot = self.slot(ring, Stage::Dma).await;
        let chunk = Chunk { slots: vec![slot], bytes: 0..bytes, far_offset: 0 };
        let mut chunk = self.dma(chunk).await?;
        self.add_to_checksum(ring, &mut chunk).await?;
        let mut data = vec![0; bytes as usize];
        ring.memory().read(chunk.slot()?.start(), &mut data)?;
        self.copied(1).await;
        Ok(data)
    }

    /// Has the core of a channel, to the card or from it, copy the data: the one of the network
    /// has its doorbells to ring.
    async fn copied(&self, channel: usize) {
        if let Some(device) = self.place.core.device() {
            let core = self.shared.options.card.cores[channel];
            device.on_core(core).bus().work(HostWork::Copy(self.request.bytes)).await;
        }
    }
}
