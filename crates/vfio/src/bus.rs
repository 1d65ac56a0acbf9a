// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus over functions that VFIO provides.
//!
//! Read first: [`VfioBus`].

mod accesses;
mod opening;
mod waits;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crosslane_host::setters;
use crosslane_host::{
    Bus, BusError, BusResult, DmaMemory, ErrorKind, FunctionInfo, HostWork, Mapping, PageSize,
    Reason, RegisterAddress, Segment, Stores, Topology, TopologyError, Waiting, lock,
};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};
use rustix::time::ClockId;
use smart_default::SmartDefault;

use crate::dma_memory::VfioMemory;
use crate::flat;
use crate::function::{FunctionError, Result, duplicate};
use crate::mappings::{Mappings, PinError};
use crate::memory::Pages;
use crate::numa::{NumaNode, Placement};
use crate::reactor::{self, Held, Reactor};
use crate::stores::{StoreWidth, empty_combining_buffers};

/// Picoseconds in a nanosecond.
const PS_OF_NS: u64 = 1000;

/// The tree that functions belong to: `sysfs` on Linux, a model in tests.
pub type Tree = Arc<dyn Topology + Send + Sync>;

/// Options of a bus. By default it keeps 64 MiB mapped and uses any address.
#[derive(Clone, Copy, Debug, SmartDefault, PartialEq, Eq)]
#[non_exhaustive]
pub struct BusOptions {
    /// Bytes in each domain that may stay mapped after their last pin has ended. Pinning such
    /// memory again is free; until it is unmapped its device can still reach it. The memory
    /// unpinned longest ago is unmapped first, and freed memory at once.
    #[default(64 << 20)]
    pub kept_bytes: u64,
    /// The highest I/O virtual address for devices: 2^28 - 1 for one with 28 address bits.
    #[default(u64::MAX)]
    pub highest_address: u64,
    /// NUMA node in whose memory all of the bus's memory lies.
    pub numa: NumaNode,
}

setters!(BusOptions {
    with_kept_bytes(kept_bytes: u64),
    with_highest_address(highest_address: u64),
    with_numa(numa: NumaNode),
});

/// A bus over PCI functions that VFIO provides, in the machine's time. Clones are the same bus;
/// dropping the last one disables and releases the functions.
///
/// Registers that are mapped into the program are read and written there, with one load or store
/// each; others through [`Function::read`](crate::Function::read) and
/// [`Function::write`](crate::Function::write), which block. A wait for memory spins for a moment
/// and then lets other tasks and threads run; a wait for interrupts or for time sleeps. Any
/// executor will do, such as [`block_on`](crate::block_on()).
///
/// Memory gets one run of I/O virtual addresses, the lowest that are free, outside of every BAR and
/// of every range that a bridge of the tree forwards: a switch that does not redirect requests
/// would send them there.
#[derive(Clone)]
pub struct VfioBus {
    shared: Arc<Shared>,
}

/// State that the clones of a bus share.
pub(crate) struct Shared {
    functions: Vec<Arc<Held>>,
    tree: Option<Tree>,
    reactor: Reactor,
    pub(crate) mappings: Mutex<Mappings>,
    /// Tokens of the enabled vectors.
    vectors: Mutex<BTreeMap<RoutingId, Vec<u64>>>,
    start: Instant,
    cores: u16,
    placement: Placement,
}

impl fmt::Debug for VfioBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.functions.iter().map(|held| held.function.name());
        write!(f, "VfioBus({})", names.collect::<Vec<_>>().join(", "))
    }
}

impl Shared {
    fn held(&self, function: RoutingId) -> Option<&Arc<Held>> {
        self.functions.iter().find(|held| held.function.id() == function)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for held in self.functions.iter().filter(|held| !held.look()) {
            // If this fails the function is gone, and closing it has the same effect.
            let _ = held.function.set_vectors(&[]);
            let _ = change_command(held, 0, reg::COMMAND_BUS_MASTER);
        }
        lock(&self.mappings).clear();
    }
}

/// Sets and clears bits of a function's Command register, and returns its earlier value.
fn change_command(held: &Held, set: u32, clear: u32) -> Result<u32> {
    let function = &*held.function;
    let before = flat::config_dw(function, reg::COMMAND)?;
    let after = (before | set) & !clear;
    function.config_write(reg::COMMAND, &after.to_le_bytes()[..2])?;
    held.decodes.store(after & reg::COMMAND_MEMORY_SPACE != 0, Ordering::Release);
    Ok(before)
}

impl VfioBus {
    /// Resets a function and restores its Command register.
    ///
    /// # Errors
    /// No such function, or one that cannot be reset.
    pub fn reset(&self, function: RoutingId) -> BusResult<()> {
        let held = self.held(function)?;
        let reset = || {
            let before = flat::config_dw(&*held.function, reg::COMMAND)?;
            held.function.reset()?;
            let on = reg::COMMAND_MEMORY_SPACE | reg::COMMAND_BUS_MASTER;
            change_command(held, before & on, 0).map(|_| ())
        };
        reset().map_err(|error| bus_error(function, error))
    }

    /// Returns the place of its memory.
    pub fn placement(&self) -> &Placement {
        &self.shared.placement
    }

    /// Returns the numbers of this bus's functions.
    pub fn own_functions(&self) -> impl Iterator<Item = RoutingId> + '_ {
        self.shared.functions.iter().map(|held| held.function.id())
    }

    /// Returns the address of a BAR in the tree.
    fn bar_address(&self, function: RoutingId, bar: u8) -> BusResult<BusAddress> {
        let functions = self.functions()?;
        let info = functions.iter().find(|info| info.id == function);
        let info = info.ok_or(TopologyError::NoSuchFunction(function))?;
        let placed = info.bars.iter().find(|placed| placed.index == usize::from(bar));
        placed.map(|placed| placed.base).ok_or_else(|| {
            let at = RegisterAddress { function, bar, offset_bytes: 0 };
            let why = format!("{} has no memory BAR{bar}", info.name);
            BusError::NoSuchRegister { at, bytes: 0, why }
        })
    }

    fn held(&self, function: RoutingId) -> BusResult<&Arc<Held>> {
        Ok(self.shared.held(function).ok_or(TopologyError::NoSuchFunction(function))?)
    }

    /// Finds a function that is not lost.
    fn present(&self, function: RoutingId) -> BusResult<&Arc<Held>> {
        let held = self.held(function)?;
        match held.lost.load(Ordering::Relaxed) {
            true => Err(lost(held)),
            false => Ok(held),
        }
    }

    fn pin_error(
        &self,
        function: RoutingId,
        error: PinError,
        address: u64,
        bytes: u64,
    ) -> BusError {
        match error {
            PinError::Already => {
                BusError::Pinning { address, what: "is pinned for the function already" }
            }
            PinError::NotPinned => {
                BusError::Pinning { address, what: "is not pinned for the function" }
            }
            PinError::NoFunction => TopologyError::NoSuchFunction(function).into(),
            PinError::NoAddresses => {
                let why = format!("no {bytes} B of I/O virtual addresses are free in one run");
                BusError::Failed { function, why: Reason::new(ErrorKind::Busy, why) }
            }
            PinError::Function(error) => bus_error(function, error),
        }
    }

    fn moment(&self, time: Picoseconds) -> Option<Instant> {
        let ns = time.0.div_ceil(PS_OF_NS);
        (time != Picoseconds::NEVER)
            .then(|| self.shared.start.checked_add(Duration::from_nanos(ns)))
            .flatten()
    }

    fn time(&self) -> Picoseconds {
        let ns = self.shared.start.elapsed().as_nanos();
        Picoseconds(u64::try_from(ns).unwrap_or(u64::MAX).saturating_mul(PS_OF_NS))
    }

    /// Turns a function's interrupts off and forgets its eventfds.
    fn forget_vectors(&self, function: RoutingId) {
        let tokens = lock(&self.shared.vectors).remove(&function).unwrap_or_default();
        tokens.into_iter().for_each(|token| self.shared.reactor.forget(token));
    }
}

fn bus_error(function: RoutingId, error: FunctionError) -> BusError {
    match error {
        FunctionError::Gone { .. } => BusError::Lost { function, why: error.into() },
        _ => BusError::Failed { function, why: error.into() },
    }
}

fn lost(held: &Held) -> BusError {
    let unknown = || Reason::new(ErrorKind::LinkDown, "");
    let why = held.function.lost().map_or_else(unknown, Reason::from);
    BusError::Lost { function: held.function.id(), why }
}

impl Topology for VfioBus {
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        let mut all = match &self.shared.tree {
            Some(tree) => tree.functions()?,
            None => Vec::new(),
        };
        for held in &self.shared.functions {
            if !all.iter().any(|info| info.id == held.function.id()) {
                all.push(flat::info_or_refusal(&*held.function)?);
            }
        }
        Ok(all)
    }

    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        match (self.shared.held(function), &self.shared.tree) {
            (Some(held), _) => Ok(held.function.is_translated()),
            (None, Some(tree)) => tree.is_translated(function),
            (None, None) => Err(TopologyError::NoSuchFunction(function)),
        }
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        TopologyError::check_offset(offset)?;
        match (self.shared.held(function), &self.shared.tree) {
            (Some(held), _) => match flat::config_dw(&*held.function, offset) {
                // A conventional function has no more than 256 B: no extended capabilities.
                Err(FunctionError::BeyondRegion { .. }) => Ok(0),
                answer => answer.map_err(|error| flat::refusal(&*held.function, error)),
            },
            (None, Some(tree)) => tree.config_read(function, offset),
            (None, None) => Err(TopologyError::NoSuchFunction(function)),
        }
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        TopologyError::check_offset(offset)?;
        let Some(held) = self.shared.held(function) else {
            let tree = self.shared.tree.as_ref();
            let tree = tree.ok_or(TopologyError::NoSuchFunction(function))?;
            return tree.config_write(function, offset, value, byte_enables);
        };
        let bytes = value.to_le_bytes();
        let is_off = value & reg::COMMAND_MEMORY_SPACE == 0 && byte_enables & 1 != 0;
        if offset == reg::COMMAND && is_off {
            // Cleared first, so that concurrent register accesses see it: without decoding, an
            // access to a mapped BAR ends the program.
            held.decodes.store(false, Ordering::Release);
        }
        let write = || {
            for access in flat::accesses(byte_enables) {
                held.function.config_write(offset + access.start as u16, &bytes[access])?;
            }
            let command = flat::config_dw(&*held.function, reg::COMMAND)?;
            held.decodes.store(command & reg::COMMAND_MEMORY_SPACE != 0, Ordering::Release);
            Ok(())
        };
        write().map_err(|error: FunctionError| flat::refusal(&*held.function, error))
    }
}

impl Bus for VfioBus {
    type Memory = VfioMemory;

    const AT_ONCE: bool = true;

    fn now(&self) -> Picoseconds {
        self.time()
    }

    async fn sleep_until(&self, time: Picoseconds) {
        self.sleep(time).await;
    }

    /// Processor time of this process, all threads together.
    fn processor_time(&self) -> Option<Picoseconds> {
        let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let ns =
            (time.tv_sec as u64).checked_mul(1_000_000_000)?.checked_add(time.tv_nsec as u64)?;
        Some(Picoseconds(ns.checked_mul(PS_OF_NS)?))
    }

    /// Returns the same bus: accesses come from the core that runs the calling thread.
    fn on_core(&self, _core: u16) -> Self {
        self.clone()
    }

    fn cores(&self) -> u16 {
        self.shared.cores
    }

    async fn read_register(&self, at: RegisterAddress) -> BusResult<u32> {
        self.register(at)
    }

    async fn write_register(&self, at: RegisterAddress, value: u32) -> BusResult<()> {
        self.set_register(at, value)
    }

    fn widest_store_bytes(&self) -> u32 {
        StoreWidth::widest().bytes() as u32
    }

    fn check_mapping(&self, function: RoutingId, bar: u8, mapping: Mapping) -> BusResult<()> {
        self.mapping(function, bar, mapping)
    }

    async fn store(&self, at: RegisterAddress, bytes: &[u8], stores: Stores) -> BusResult<()> {
        self.store_run(at, bytes, stores)
    }

    async fn load(&self, at: RegisterAddress, into: &mut [u8], mapping: Mapping) -> BusResult<()> {
        self.load_run(at, into, mapping)
    }

    async fn fence(&self) -> BusResult<()> {
        empty_combining_buffers();
        Ok(())
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> BusResult<VfioMemory> {
        let at = &self.shared.placement;
        let allocated = Pages::allocate_at(bytes, pages, at);
        let left = |_| BusError::OutOfMemory { bytes, left_bytes: at.available_bytes() };
        Ok(VfioMemory::new(allocated.map_err(left)?, bytes, Arc::downgrade(&self.shared)))
    }

    async fn pin(&self, function: RoutingId, memory: &VfioMemory) -> BusResult<Vec<Segment>> {
        let held = self.present(function)?;
        let address = memory.pages().mapped().address() as u64;
        if !memory.is_of(&self.shared) {
            return Err(BusError::Pinning { address, what: "belongs to another bus" });
        }
        let bytes = memory.size_bytes();
        let pinned = lock(&self.shared.mappings).pin(&held.function, memory.id(), memory.pages());
        let iova = pinned.map_err(|error| self.pin_error(function, error, address, bytes))?;
        Ok(vec![Segment { address: BusAddress(iova), bytes }])
    }

    async fn unpin(&self, function: RoutingId, memory: &VfioMemory) -> BusResult<()> {
        let held = self.held(function)?;
        let address = memory.pages().mapped().address() as u64;
        let unpinned = lock(&self.shared.mappings).unpin(&held.function, memory.id());
        unpinned.map_err(|error| self.pin_error(function, error, address, memory.size_bytes()))
    }

    async fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> BusResult<BusAddress> {
        let held = self.present(function)?;
        if !held.function.is_translated() {
            return self.bar_address(peer, bar);
        }
        let Some(peer) = self.shared.held(peer) else {
            let why = format!(
                "BAR{bar} of {peer} cannot be mapped for it: the bus has not opened that function"
            );
            let why = Reason::new(ErrorKind::InvalidArgument, why);
            return Err(BusError::Failed { function, why });
        };
        self.region(RegisterAddress { function: peer.function.id(), bar, offset_bytes: 0 }, 0)?;
        let pinned = lock(&self.shared.mappings).pin_bar(&held.function, &peer.function, bar);
        let iova = pinned.map_err(|error| {
            let bytes = peer.function.region(bar).map_or(0, |region| region.bytes);
            self.pin_error(function, error, 0, bytes)
        })?;
        Ok(BusAddress(iova))
    }

    async fn unpin_bar(&self, function: RoutingId, peer: RoutingId, bar: u8) -> BusResult<()> {
        let held = self.held(function)?;
        if !held.function.is_translated() {
            return self.bar_address(peer, bar).map(|_| ());
        }
        let unpinned = lock(&self.shared.mappings).unpin_bar(&held.function, peer, bar);
        unpinned.map_err(|error| {
            let at = self.bar_address(peer, bar).map_or(0, |address| address.0);
            self.pin_error(function, error, at, 0)
        })
    }

    fn check_waiting(&self, waiting: Waiting) -> BusResult<()> {
        self.waiting(waiting).map(|_| ())
    }

    /// # Panics
    /// If `offset_bytes` is not a multiple of 4.
    async fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &VfioMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> BusResult<u32> {
        let monitor = self.waiting(waiting)?;
        self.poll_memory(memory, offset_bytes, seen, deadline, monitor).await
    }

    async fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> BusResult<()> {
        let held = self.present(function)?;
        let have = held.function.vectors();
        if vectors > have {
            return Err(BusError::NoSuchVector { function, vector: vectors - 1, have });
        }
        self.forget_vectors(function);
        let failed = |errno: rustix::io::Errno| BusError::Failed {
            function,
            why: Reason::new(
                std::io::Error::from(errno).kind().into(),
                format!("cannot create an eventfd for an interrupt: {errno}"),
            ),
        };
        let (mut events, mut tokens) = (Vec::new(), Vec::new());
        for _ in 0..vectors {
            let event = reactor::event().map_err(failed)?;
            let theirs = duplicate(&event).map_err(failed)?;
            tokens.push(self.shared.reactor.count(event, held).map_err(failed)?);
            events.push(theirs);
        }
        lock(&self.shared.vectors).insert(function, tokens);
        let borrowed: Vec<_> = events.iter().map(AsFd::as_fd).collect();
        held.function.set_vectors(&borrowed).map_err(|error| {
            self.forget_vectors(function);
            bus_error(function, error)
        })
    }

    async fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> BusResult<u64> {
        self.interrupts(function, vector, deadline).await
    }

    /// Does nothing: the work takes real time.
    async fn work(&self, _work: HostWork) {}
}
