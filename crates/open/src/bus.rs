// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One type for every bus, for programs that choose it at run time.

use std::any::Any;

use crosslane_host::{
    Bus, BusError, Clock, DmaMemory, FunctionInfo, HostWork, IoTranslation, Mapping, PageSize,
    RegisterAddress, Segment, Stores, Topology, TopologyError, Waiting,
};
use crosslane_lab::{LabBus, LabMemory};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};
use crosslane_vfio::{VfioBus, VfioMemory};

/// The bus of a lab's host, or that of opened cards.
#[derive(Clone)]
pub enum AnyBus {
    /// A simulated host.
    Lab(LabBus),
    /// Functions opened through VFIO, of this machine or of a vfio-user server.
    Vfio(VfioBus),
}

/// Memory of an [`AnyBus`].
#[derive(Clone, Debug)]
pub enum AnyMemory {
    /// Memory of a simulated host.
    Lab(LabMemory),
    /// Pages of this machine.
    Vfio(VfioMemory),
}

/// Calls the bus of either kind.
macro_rules! on {
    ($this:expr, $bus:ident => $call:expr) => {
        match $this {
            AnyBus::Lab($bus) => $call,
            AnyBus::Vfio($bus) => $call,
        }
    };
}

/// Calls the bus of either kind with memory of the same kind.
macro_rules! with {
    ($this:expr, $memory:expr, $bus:ident, $own:ident => $call:expr) => {
        match ($this, $memory) {
            (AnyBus::Lab($bus), AnyMemory::Lab($own)) => $call,
            (AnyBus::Vfio($bus), AnyMemory::Vfio($own)) => $call,
            _ => Err(BusError::Pinning { address: 0, what: "belongs to another bus" }),
        }
    };
}

impl DmaMemory for AnyMemory {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Lab(memory) => memory.size_bytes(),
            Self::Vfio(memory) => memory.size_bytes(),
        }
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BusError> {
        match self {
            Self::Lab(memory) => memory.read(offset_bytes, into),
            Self::Vfio(memory) => memory.read(offset_bytes, into),
        }
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BusError> {
        match self {
            Self::Lab(memory) => memory.write(offset_bytes, from),
            Self::Vfio(memory) => memory.write(offset_bytes, from),
        }
    }
}

impl Topology for AnyBus {
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        on!(self, bus => bus.functions())
    }

    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        on!(self, bus => bus.is_translated(function))
    }

    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        on!(self, bus => bus.translation(function))
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        on!(self, bus => bus.config_read(function, offset))
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        on!(self, bus => bus.config_write(function, offset, value, byte_enables))
    }
}

impl Bus for AnyBus {
    type Memory = AnyMemory;

    fn now(&self) -> Picoseconds {
        on!(self, bus => Bus::now(bus))
    }

    async fn sleep_until(&self, time: Picoseconds) {
        on!(self, bus => Bus::sleep_until(bus, time).await);
    }

    fn on_core(&self, core: u16) -> Self {
        match self {
            Self::Lab(bus) => Self::Lab(bus.on_core(core)),
            Self::Vfio(bus) => Self::Vfio(bus.on_core(core)),
        }
    }

    fn cores(&self) -> u16 {
        on!(self, bus => bus.cores())
    }

    async fn read_register(&self, at: RegisterAddress) -> Result<u32, BusError> {
        on!(self, bus => bus.read_register(at).await)
    }

    async fn write_register(&self, at: RegisterAddress, value: u32) -> Result<(), BusError> {
        on!(self, bus => bus.write_register(at, value).await)
    }

    fn widest_store_bytes(&self) -> u32 {
        on!(self, bus => bus.widest_store_bytes())
    }

    fn check_mapping(
        &self,
        function: RoutingId,
        bar: u8,
        mapping: Mapping,
    ) -> Result<(), BusError> {
        on!(self, bus => bus.check_mapping(function, bar, mapping))
    }

    async fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> Result<(), BusError> {
        on!(self, bus => bus.store(at, bytes, stores).await)
    }

    async fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> Result<(), BusError> {
        on!(self, bus => bus.load(at, into, mapping).await)
    }

    async fn fence(&self) -> Result<(), BusError> {
        on!(self, bus => bus.fence().await)
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<AnyMemory, BusError> {
        match self {
            Self::Lab(bus) => bus.allocate(bytes, pages).map(AnyMemory::Lab),
            Self::Vfio(bus) => bus.allocate(bytes, pages).map(AnyMemory::Vfio),
        }
    }

    async fn pin(&self, function: RoutingId, memory: &AnyMemory) -> Result<Vec<Segment>, BusError> {
        with!(self, memory, bus, own => bus.pin(function, own).await)
    }

    async fn unpin(&self, function: RoutingId, memory: &AnyMemory) -> Result<(), BusError> {
        with!(self, memory, bus, own => bus.unpin(function, own).await)
    }

    fn abandon(&self, what: impl Any + Send) {
        on!(self, bus => bus.abandon(what));
    }

    async fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> Result<BusAddress, BusError> {
        on!(self, bus => bus.pin_bar(function, peer, bar).await)
    }

    async fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> Result<(), BusError> {
        on!(self, bus => bus.unpin_bar(function, peer, bar).await)
    }

    fn check_waiting(&self, waiting: Waiting) -> Result<(), BusError> {
        on!(self, bus => bus.check_waiting(waiting))
    }

    async fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &AnyMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Result<u32, BusError> {
        with!(self, memory, bus, own => {
            bus.wait_memory_by(waiting, own, offset_bytes, seen, deadline).await
        })
    }

    async fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> Result<(), BusError> {
        on!(self, bus => bus.enable_interrupts(function, vectors).await)
    }

    async fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> Result<u64, BusError> {
        on!(self, bus => bus.wait_interrupt(function, vector, deadline).await)
    }

    async fn work(&self, work: HostWork) {
        on!(self, bus => bus.work(work).await);
    }
}

impl Clock for AnyBus {
    fn now(&self) -> Picoseconds {
        Bus::now(self)
    }

    async fn sleep_until(&self, time: Picoseconds) {
        Bus::sleep_until(self, time).await;
    }

    fn processor_time(&self) -> Option<Picoseconds> {
        on!(self, bus => bus.processor_time())
    }
}
