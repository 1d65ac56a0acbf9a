// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bus that lies, over a lab: interrupts that are lost or needless, registers that do not answer,
//! and status blocks that no engine has written.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crosslane_host::{
    Bus, BusError, DmaMemory, FunctionInfo, HostWork, IoTranslation, Mapping, PageSize,
    RegisterAddress, Segment, Stores, Topology, TopologyError, Waiting,
};
use crosslane_lab::{LabBus, LabMemory};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};
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
        let is_block = |memory: &&LabMemory| memory.size_bytes() == status_block::BYTES.into();
        let block = memories.iter().rev().find(is_block).unwrap();
        for &(offset, word) in words {
            block.write(offset.into(), &word.to_le_bytes()).unwrap();
        }
    }
}

impl Topology for Proxy {
    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        self.inner.is_translated(function)
    }

    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        self.inner.translation(function)
    }

    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        self.inner.functions()
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        self.inner.config_read(function, offset)
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        self.inner.config_write(function, offset, value, byte_enables)
    }
}

impl Bus for Proxy {
    type Memory = LabMemory;

    fn now(&self) -> Picoseconds {
        self.inner.now()
    }

    async fn sleep_until(&self, time: Picoseconds) {
        self.inner.sleep_until(time).await;
    }

    fn on_core(&self, core: u16) -> Self {
        Self { inner: self.inner.on_core(core), lies: self.lies.clone() }
    }

    fn cores(&self) -> u16 {
        self.inner.cores()
    }

    async fn read_register(&self, at: RegisterAddress) -> Result<u32, BusError> {
        let read = self.inner.read_register(at).await;
        if self.lies.does_not_answer.load(Relaxed) {
            return Err(BusError::NoAnswer { at, why: "nobody is there".to_owned() });
        }
        read
    }

    async fn write_register(&self, at: RegisterAddress, value: u32) -> Result<(), BusError> {
        self.inner.write_register(at, value).await
    }

    fn widest_store_bytes(&self) -> u32 {
        self.inner.widest_store_bytes()
    }

    fn check_mapping(
        &self,
        function: RoutingId,
        bar: u8,
        mapping: Mapping,
    ) -> Result<(), BusError> {
        self.inner.check_mapping(function, bar, mapping)
    }

    async fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> Result<(), BusError> {
        self.inner.store(at, bytes, stores).await
    }

    async fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> Result<(), BusError> {
        self.inner.load(at, into, mapping).await
    }

    async fn fence(&self) -> Result<(), BusError> {
        self.inner.fence().await
    }

    fn abandon(&self, what: impl Any + Send) {
        self.inner.abandon(what);
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

    async fn unpin(&self, function: RoutingId, memory: &LabMemory) -> Result<(), BusError> {
        self.inner.unpin(function, memory).await
    }

    async fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> Result<BusAddress, BusError> {
        self.inner.pin_bar(function, peer, bar).await
    }

    async fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> Result<(), BusError> {
        self.inner.unpin_bar(function, peer, bar).await
    }

    async fn wait_memory(
        &self,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Result<u32, BusError> {
        self.inner.wait_memory(memory, offset_bytes, seen, deadline).await
    }

    fn check_waiting(&self, waiting: Waiting) -> Result<(), BusError> {
        self.inner.check_waiting(waiting)
    }

    async fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Result<u32, BusError> {
        self.inner.wait_memory_by(waiting, memory, offset_bytes, seen, deadline).await
    }

    async fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> Result<(), BusError> {
        self.inner.enable_interrupts(function, vectors).await
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

    async fn work(&self, work: HostWork) {
        self.inner.work(work).await;
    }
}
