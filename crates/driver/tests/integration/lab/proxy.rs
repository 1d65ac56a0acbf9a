// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bus that lies, over a lab: interrupts that are lost or needless, registers that do not answer,
//! and status blocks that no engine has written.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crosslane_host::{
    Bus, BusError, DmaMemory, ErrorKind, Layer, PageSize, Reason, RegisterAddress, Segment,
};
use crosslane_lab::{LabBus, LabMemory};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::status_block;

#[derive(Default)]
pub struct Lies {
    memories: Mutex<Vec<LabMemory>>,
    pub loses_interrupts: AtomicBool,
    pub interrupts_for_nothing: AtomicBool,
    pub does_not_answer: AtomicBool,
    /// Omits the last segment of pinned memory.
    pub forgets_a_place: AtomicBool,
}

#[derive(Clone)]
pub struct Proxy {
    inner: LabBus,
    pub lies: Arc<Lies>,
}

impl Proxy {
    pub fn new(inner: LabBus) -> Self {
        Self { inner, lies: Arc::default() }
    }

    /// Forges a status block, the one that was allocated last.
    pub fn forge(&self, words: &[(u32, u32)]) {
        let memories = self.lies.memories.lock().unwrap();
        let is_block = |memory: &&LabMemory| memory.size_bytes() == u64::from(status_block::BYTES);
        let block = memories.iter().rev().find(is_block).unwrap();
        for &(offset, word) in words {
            block.write(offset.into(), &word.to_le_bytes()).unwrap();
        }
    }
}

impl Layer for Proxy {
    type Below = LabBus;

    fn below(&self) -> &LabBus {
        &self.inner
    }

    fn over(&self, inner: LabBus) -> Self {
        Self { inner, lies: self.lies.clone() }
    }

    async fn read_register(&self, at: RegisterAddress) -> Result<u32, BusError> {
        let read = self.inner.read_register(at).await;
        if self.lies.does_not_answer.load(Relaxed) {
            let why = Reason::new(ErrorKind::LinkDown, "nobody is there");
            return Err(BusError::NoAnswer { at, why });
        }
        read
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<LabMemory, BusError> {
        let memory = self.inner.allocate(bytes, pages)?;
        self.lies.memories.lock().unwrap().push(memory.clone());
        Ok(memory)
    }

    async fn pin(&self, function: RoutingId, memory: &LabMemory) -> Result<Vec<Segment>, BusError> {
        let mut segments = self.inner.pin(function, memory).await?;
        if self.lies.forgets_a_place.load(Relaxed) {
            segments.pop();
        }
        Ok(segments)
    }

    async fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> Result<u64, BusError> {
        if self.lies.loses_interrupts.load(Relaxed) {
            self.inner.sleep_until(deadline).await;
            return Err(BusError::Deadline { what: "an interrupt".to_owned(), deadline });
        }
        if self.lies.interrupts_for_nothing.load(Relaxed) {
            self.inner.sleep_until(Picoseconds(self.inner.now().0 + 1_000_000)).await;
            return Ok(1);
        }
        self.inner.wait_interrupt(function, vector, deadline).await
    }
}
