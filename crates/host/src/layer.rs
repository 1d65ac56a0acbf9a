// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buses over buses, to watch, record or change what passes.

use std::any::Any;
use std::future::Future;

use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

use crate::bus::{Bus, HostWork, Mapping, PageSize, RegisterAddress, Segment, Stores, Waiting};
use crate::error::{BusError, TopologyError};
use crate::topology::{FunctionInfo, IoTranslation, Topology};

/// Memory of the bus below a layer.
type MemoryBelow<L> = <<L as Layer>::Below as Bus>::Memory;

/// A bus over another one. It is a [`Bus`] itself, whose calls pass through the methods here; those
/// that an implementation does not override hand them to the bus below unchanged.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// use crosslane_host::{Bus, BusError, Layer, RegisterAddress};
///
/// /// Counts register reads.
/// #[derive(Clone)]
/// struct Counted<B> {
///     bus: B,
///     reads: Arc<AtomicU64>,
/// }
///
/// impl<B: Bus> Layer for Counted<B> {
///     type Below = B;
///
///     fn below(&self) -> &B {
///         &self.bus
///     }
///
///     fn over(&self, bus: B) -> Self {
///         Self { bus, reads: self.reads.clone() }
///     }
///
///     async fn read_register(&self, at: RegisterAddress) -> Result<u32, BusError> {
///         self.reads.fetch_add(1, Relaxed);
///         self.bus.read_register(at).await
///     }
/// }
/// # fn is_bus<B: Bus>() {}
/// # fn with<B: Bus>() { is_bus::<Counted<B>>() }
/// ```
pub trait Layer: Clone + Send + Sync + 'static {
    /// The bus below.
    type Below: Bus;

    /// Returns the bus below.
    fn below(&self) -> &Self::Below;

    /// Returns the same layer over the bus of another core.
    #[must_use]
    fn over(&self, below: Self::Below) -> Self;

    /// Passes on [`Topology::config_read`], with its errors.
    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        self.below().config_read(function, offset)
    }

    /// Passes on [`Topology::config_write`], with its errors.
    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        self.below().config_write(function, offset, value, byte_enables)
    }

    /// Passes on [`Bus::read_register`], with its errors.
    fn read_register(&self, at: RegisterAddress) -> impl Future<Output = Result<u32, BusError>> {
        self.below().read_register(at)
    }

    /// Passes on [`Bus::write_register`], with its errors.
    fn write_register(
        &self,
        at: RegisterAddress,
        value: u32,
    ) -> impl Future<Output = Result<(), BusError>> {
        self.below().write_register(at, value)
    }

    /// Passes on [`Bus::store`], with its errors.
    fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> impl Future<Output = Result<(), BusError>> {
        self.below().store(at, bytes, stores)
    }

    /// Passes on [`Bus::load`], with its errors.
    fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> impl Future<Output = Result<(), BusError>> {
        self.below().load(at, into, mapping)
    }

    /// Passes on [`Bus::fence`], with its errors.
    fn fence(&self) -> impl Future<Output = Result<(), BusError>> {
        self.below().fence()
    }

    /// Passes on [`Bus::allocate`], with its errors.
    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<MemoryBelow<Self>, BusError> {
        self.below().allocate(bytes, pages)
    }

    /// Passes on [`Bus::pin`], with its errors.
    fn pin(
        &self,
        function: RoutingId,
        memory: &MemoryBelow<Self>,
    ) -> impl Future<Output = Result<Vec<Segment>, BusError>> {
        self.below().pin(function, memory)
    }

    /// Passes on [`Bus::unpin`], with its errors.
    fn unpin(
        &self,
        function: RoutingId,
        memory: &MemoryBelow<Self>,
    ) -> impl Future<Output = Result<(), BusError>> {
        self.below().unpin(function, memory)
    }

    /// Passes on [`Bus::pin_bar`], with its errors.
    fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = Result<BusAddress, BusError>> {
        self.below().pin_bar(function, peer, bar)
    }

    /// Passes on [`Bus::unpin_bar`], with its errors.
    fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = Result<(), BusError>> {
        self.below().unpin_bar(function, peer, bar)
    }

    /// Passes on [`Bus::wait_memory_by`], with its errors.
    fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &MemoryBelow<Self>,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u32, BusError>> {
        self.below().wait_memory_by(waiting, memory, offset_bytes, seen, deadline)
    }

    /// Passes on [`Bus::enable_interrupts`], with its errors.
    fn enable_interrupts(
        &self,
        function: RoutingId,
        vectors: u16,
    ) -> impl Future<Output = Result<(), BusError>> {
        self.below().enable_interrupts(function, vectors)
    }

    /// Passes on [`Bus::wait_interrupt`], with its errors.
    fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u64, BusError>> {
        self.below().wait_interrupt(function, vector, deadline)
    }

    /// Passes on [`Bus::work`], with its errors.
    fn work(&self, work: HostWork) -> impl Future<Output = ()> {
        self.below().work(work)
    }
}

impl<L: Layer> Topology for L {
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        self.below().functions()
    }

    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        self.below().is_translated(function)
    }

    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        self.below().translation(function)
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        Layer::config_read(self, function, offset)
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        Layer::config_write(self, function, offset, value, byte_enables)
    }
}

impl<L: Layer> Bus for L {
    type Memory = MemoryBelow<L>;

    fn now(&self) -> Picoseconds {
        self.below().now()
    }

    fn sleep_until(&self, time: Picoseconds) -> impl Future<Output = ()> {
        self.below().sleep_until(time)
    }

    fn on_core(&self, core: u16) -> Self {
        self.over(self.below().on_core(core))
    }

    fn cores(&self) -> u16 {
        self.below().cores()
    }

    fn widest_store_bytes(&self) -> u32 {
        self.below().widest_store_bytes()
    }

    fn check_mapping(
        &self,
        function: RoutingId,
        bar: u8,
        mapping: Mapping,
    ) -> Result<(), BusError> {
        self.below().check_mapping(function, bar, mapping)
    }

    fn check_waiting(&self, waiting: Waiting) -> Result<(), BusError> {
        self.below().check_waiting(waiting)
    }

    fn abandon(&self, what: impl Any + Send) {
        self.below().abandon(what);
    }

    fn read_register(&self, at: RegisterAddress) -> impl Future<Output = Result<u32, BusError>> {
        Layer::read_register(self, at)
    }

    fn write_register(
        &self,
        at: RegisterAddress,
        value: u32,
    ) -> impl Future<Output = Result<(), BusError>> {
        Layer::write_register(self, at, value)
    }

    fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> impl Future<Output = Result<(), BusError>> {
        Layer::store(self, at, bytes, stores)
    }

    fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> impl Future<Output = Result<(), BusError>> {
        Layer::load(self, at, into, mapping)
    }

    fn fence(&self) -> impl Future<Output = Result<(), BusError>> {
        Layer::fence(self)
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<Self::Memory, BusError> {
        Layer::allocate(self, bytes, pages)
    }

    fn pin(
        &self,
        function: RoutingId,
        memory: &Self::Memory,
    ) -> impl Future<Output = Result<Vec<Segment>, BusError>> {
        Layer::pin(self, function, memory)
    }

    fn unpin(
        &self,
        function: RoutingId,
        memory: &Self::Memory,
    ) -> impl Future<Output = Result<(), BusError>> {
        Layer::unpin(self, function, memory)
    }

    fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = Result<BusAddress, BusError>> {
        Layer::pin_bar(self, function, peer, bar)
    }

    fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = Result<(), BusError>> {
        Layer::unpin_bar(self, function, peer, bar)
    }

    fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &Self::Memory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u32, BusError>> {
        Layer::wait_memory_by(self, waiting, memory, offset_bytes, seen, deadline)
    }

    fn enable_interrupts(
        &self,
        function: RoutingId,
        vectors: u16,
    ) -> impl Future<Output = Result<(), BusError>> {
        Layer::enable_interrupts(self, function, vectors)
    }

    fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u64, BusError>> {
        Layer::wait_interrupt(self, function, vector, deadline)
    }

    fn work(&self, work: HostWork) -> impl Future<Output = ()> {
        Layer::work(self, work)
    }
}
