// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus of a lab: host code's access to devices, memory and time.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, MutexGuard};

use crosslane_fabric::{CoreWork, Fabric, HostAccessError, NodeId, PortId, Region, StoreRun};
use crosslane_host::{
    Bus, BusError, BusResult, FunctionInfo, HostWork, IoTranslation, Mapping, PageSize,
    RegisterAddress, Segment, Stores, Topology, TopologyError, Waiting,
};
use crosslane_pcie::config::{Bar, find_capability, registers as reg};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};

use super::memory::LabMemory;
use super::shared::{Outcome, Shared, State, Turn, Wait, What};
use crate::lab::RunningHost;

mod waiting;

const REGISTER_BYTES: u32 = 4;
/// Size of the widest load, bytes.
const LOAD_BYTES: u64 = 8;

/// The bus of one host of a lab, as one core uses it. Clones share it. Any executor may poll its
/// futures, but time advances in [`Simulation`](super::Simulation) only. Dropping a future
/// withdraws its request, except loads and stores already made.
#[derive(Clone)]
pub struct LabBus {
    shared: Arc<Shared>,
    host: usize,
    core: u16,
}

impl fmt::Debug for LabBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabBus({}, core {})", self.running_host().name, self.core)
    }
}

impl LabBus {
    pub(super) fn new(shared: Arc<Shared>, host: HostId) -> Self {
        let (host, hosts) = (usize::from(host.0), shared.hosts.len());
        assert!(host < hosts, "the lab has {hosts} hosts, and none of number {host}");
        Self { shared, host, core: 0 }
    }

    /// Returns the host of this bus.
    pub fn host(&self) -> HostId {
        self.running_host().id
    }

    /// Returns the core that does its loads, stores and work.
    pub const fn core(&self) -> u16 {
        self.core
    }

    fn running_host(&self) -> &RunningHost {
        &self.shared.hosts[self.host]
    }

    fn port(&self, state: &State, function: RoutingId) -> Result<PortId, TopologyError> {
        let port = state.fabric.function_at(self.host(), function);
        port.ok_or(TopologyError::NoSuchFunction(function))
    }

    /// Returns the BAR that an access of this length names, at its current address.
    fn bar(&self, state: &State, at: RegisterAddress, bytes: u64) -> BusResult<Bar> {
        let port = self.port(state, at.function)?;
        let bar = state.fabric.port(port).config.bar(at.bar.into());
        bar.ok_or_else(|| {
            let why = format!("the function has no BAR{}", at.bar);
            BusError::NoSuchRegister { at, bytes, why }
        })
    }

    /// Returns the address of an access, which must lie within a BAR.
    fn address(&self, state: &State, at: RegisterAddress, bytes: u64) -> BusResult<BusAddress> {
        let bar = self.bar(state, at, bytes)?;
        if at.offset_bytes.checked_add(bytes).is_none_or(|end| end > bar.size_bytes) {
            let why = format!("it has {} B", bar.size_bytes);
            return Err(BusError::NoSuchRegister { at, bytes, why });
        }
        Ok(bar.base.offset(at.offset_bytes))
    }

    /// Makes a request to the fabric, of this core at this root complex.
    fn ask(
        &self,
        mut state: MutexGuard<'_, State>,
        what: What,
        request: impl FnOnce(&mut Fabric, NodeId, u64) -> Result<(), HostAccessError>,
    ) -> Result<Wait, HostAccessError> {
        let token = state.begin_wait(what);
        match request(&mut state.fabric, self.running_host().root_complex, token) {
            Ok(()) => Ok(Wait::new(self.shared.clone(), token)),
            Err(error) => {
                state.end_wait(token);
                Err(error)
            }
        }
    }

    fn begin_load(&self, at: RegisterAddress, bytes: u32, mapping: Mapping) -> BusResult<Wait> {
        let state = self.shared.lock();
        let (address, region) = (self.address(&state, at, bytes.into())?, region(mapping));
        let asked = self.ask(state, What::Load { host: self.host, at }, |fabric, host, token| {
            fabric.host_load_from(host, self.core, address, bytes, region, token)
        });
        asked.map_err(|error| refused(error, at, bytes.into()))
    }

    /// Loads once; the value is in the low bytes.
    async fn load_one(&self, at: RegisterAddress, bytes: u32, mapping: Mapping) -> BusResult<u64> {
        match self.begin_load(at, bytes, mapping)?.await {
            Outcome::Loaded(Ok(value)) => Ok(value),
            Outcome::Loaded(Err(error)) => Err(BusError::NoAnswer { at, why: error.into() }),
            Outcome::Happened => unreachable!("a load ends with its data or an error"),
        }
    }

    fn begin_stores(&self, at: RegisterAddress, bytes: &[u8], stores: Stores) -> BusResult<Wait> {
        let Stores { width_bytes, mapping } = stores;
        let most = self.widest_store_bytes();
        if !width_bytes.is_power_of_two() || width_bytes > most {
            return Err(BusError::BadStoreWidth { width_bytes, most });
        }
        let length = bytes.len() as u64;
        let state = self.shared.lock();
        let address = self.address(&state, at, length)?;
        let run = StoreRun { address, width_bytes, region: region(mapping) };
        let what = What::Stores { host: self.host, at, bytes: bytes.len() };
        let asked = self.ask(state, what, |fabric, host, token| {
            fabric.host_store_into(host, self.core, run, bytes, token)
        });
        asked.map_err(|error| refused(error, at, length))
    }

    /// Waits for a point in time; `None` if it has passed.
    fn time(&self, time: Picoseconds, what: What) -> Option<Wait> {
        let mut state = self.shared.lock();
        if time <= state.fabric.now() {
            return None;
        }
        let token = state.begin_wait(what);
        state.fabric.host_timer(time, token);
        drop(state);
        Some(Wait::new(self.shared.clone(), token))
    }

    /// Occupies the core with some work, piece after piece, and waits for its end.
    pub(super) async fn spend(&self, works: &[CoreWork]) {
        self.core_reached().await;
        let (mut until, root_complex) = (Picoseconds::ZERO, self.running_host().root_complex);
        for &work in works {
            let spent = self.shared.lock().fabric.spend(root_complex, self.core, work);
            until = spent.expect("the core is one of the host's");
        }
        if let Some(wait) = self.time(until, self.work_until(until)) {
            wait.await;
        }
    }

    const fn work_until(&self, until: Picoseconds) -> What {
        What::Work { host: self.host, core: self.core, until }
    }

    /// Waits until the core has done the work that other tasks gave it: an empty store waits its
    /// turn among them.
    async fn core_reached(&self) {
        let asked = {
            let state = self.shared.lock();
            let what = self.work_until(state.fabric.now());
            self.ask(state, what, |fabric, host, token| {
                fabric.host_store(host, self.core, BusAddress(0), &[], REGISTER_BYTES, token)
            })
        };
        // If the core's queue of accesses is full, the work is done before them.
        if let Ok(wait) = asked {
            wait.await;
        }
    }

    /// Lets other tasks run now and then, when a task never has to wait.
    pub(super) async fn turn(&self) {
        let over = self.shared.lock().turn_is_over();
        if over {
            Turn::default().await;
        }
    }

    /// Waits until `look` finds something. `watch` has a token told of each change.
    async fn wait_for<T>(
        &self,
        what: What,
        deadline: Picoseconds,
        look: impl Fn(&mut State) -> BusResult<Option<T>>,
        watch: impl Fn(&mut State, u64),
    ) -> BusResult<T> {
        self.turn().await;
        loop {
            let wait = {
                let mut state = self.shared.lock();
                if let Some(found) = look(&mut state)? {
                    return Ok(found);
                }
                if deadline <= state.fabric.now() {
                    return Err(BusError::Deadline { what: what.sentence(&self.shared), deadline });
                }
                let token = state.begin_wait(what.clone());
                watch(&mut state, token);
                state.fabric.host_timer(deadline, token);
                Wait::new(self.shared.clone(), token)
            };
            wait.await;
        }
    }

    fn pinning(memory: &LabMemory, what: &'static str) -> BusError {
        BusError::Pinning { address: memory.first_address(), what }
    }

    pub(super) fn pinning_work(&self, function: RoutingId, memory: &LabMemory) -> [CoreWork; 3] {
        let pages = memory.runs().iter().map(super::pages::PageRun::page_count).sum();
        let mapping = self.shared.lock().mapping_time(memory, function);
        [CoreWork::SystemCall, CoreWork::PinPages(pages), CoreWork::Time(mapping)]
    }

    /// Returns a BAR of a peer, after checking that the function exists.
    fn peer_bar(
        &self,
        state: &State,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> BusResult<Bar> {
        self.port(state, function)?;
        self.bar(state, RegisterAddress { function: peer, bar, offset_bytes: 0 }, 0)
    }

    fn check_pin(&self, function: RoutingId, memory: &LabMemory) -> BusResult<()> {
        if memory.host() != self.host {
            return Err(Self::pinning(memory, "belongs to another host"));
        }
        let state = self.shared.lock();
        self.port(&state, function)?;
        if state.memories[self.host].pins.has(memory.id(), function) {
            return Err(Self::pinning(memory, "is pinned for the function already"));
        }
        Ok(())
    }
}

fn aligned(at: RegisterAddress) -> BusResult<()> {
    match at.offset_bytes.is_multiple_of(REGISTER_BYTES.into()) {
        true => Ok(()),
        false => Err(BusError::Unaligned { at, width_bytes: REGISTER_BYTES }),
    }
}

/// Converts the fabric's refusal of an access.
fn refused(error: HostAccessError, at: RegisterAddress, bytes: u64) -> BusError {
    match error {
        HostAccessError::TooManyAccesses { .. } => BusError::Busy { why: error.into() },
        _ => BusError::NoSuchRegister { at, bytes, why: error.to_string() },
    }
}

const fn region(mapping: Mapping) -> Region {
    match mapping {
        Mapping::Uncached => Region::Uncached,
        Mapping::WriteCombined => Region::WriteCombined,
    }
}

impl Bus for LabBus {
    type Memory = LabMemory;

    fn now(&self) -> Picoseconds {
        self.shared.lock().fabric.now()
    }

    async fn sleep_until(&self, time: Picoseconds) {
        match self.time(time, What::Time(time)) {
            Some(wait) => {
                wait.await;
            }
            None => self.turn().await,
        }
    }

    /// Returns how long the host's cores have been busy: work, stores, and loads with their round
    /// trip. Polling of memory is not counted.
    fn processor_time(&self) -> Option<Picoseconds> {
        self.shared.lock().fabric.busy(self.running_host().root_complex)
    }

    fn on_core(&self, core: u16) -> Self {
        Self { core: core % self.cores(), ..self.clone() }
    }

    fn cores(&self) -> u16 {
        self.running_host().cpu.cores
    }

    async fn read_register(&self, at: RegisterAddress) -> BusResult<u32> {
        aligned(at)?;
        Ok(self.load_one(at, REGISTER_BYTES, Mapping::Uncached).await? as u32)
    }

    async fn write_register(&self, at: RegisterAddress, value: u32) -> BusResult<()> {
        aligned(at)?;
        let stores = Stores::uncached(REGISTER_BYTES);
        self.begin_stores(at, &value.to_le_bytes(), stores)?.await;
        Ok(())
    }

    fn widest_store_bytes(&self) -> u32 {
        self.running_host().cpu.widest_store_bytes
    }

    fn check_mapping(&self, function: RoutingId, bar: u8, mapping: Mapping) -> BusResult<()> {
        let at = RegisterAddress { function, bar, offset_bytes: 0 };
        let placed = self.bar(&self.shared.lock(), at, 0)?;
        let refused =
            |why: &str| Err(BusError::CannotCombine { function, bar, why: why.to_owned() });
        match mapping {
            Mapping::Uncached => Ok(()),
            Mapping::WriteCombined if !placed.kind.is_prefetchable() => {
                refused("it is not prefetchable, so its device may not bear merged writes")
            }
            Mapping::WriteCombined if self.running_host().cpu.combining.is_none() => {
                refused("the processor has no write-combining buffers")
            }
            Mapping::WriteCombined => Ok(()),
        }
    }

    async fn store(&self, at: RegisterAddress, bytes: &[u8], stores: Stores) -> BusResult<()> {
        self.check_mapping(at.function, at.bar, stores.mapping)?;
        self.begin_stores(at, bytes, stores)?.await;
        Ok(())
    }

    async fn load(&self, at: RegisterAddress, into: &mut [u8], mapping: Mapping) -> BusResult<()> {
        self.check_mapping(at.function, at.bar, mapping)?;
        // Check the whole range before reading any of it.
        self.address(&self.shared.lock(), at, into.len() as u64)?;
        let mut done = 0;
        while done < into.len() {
            let offset_bytes = at.offset_bytes + done as u64;
            let aligned = 1 << offset_bytes.trailing_zeros().min(LOAD_BYTES.ilog2());
            let fits = 1 << (into.len() - done).ilog2();
            let bytes: usize = fits.min(aligned);
            let at = RegisterAddress { offset_bytes, ..at };
            let value = self.load_one(at, bytes as u32, mapping).await?;
            into[done..done + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            done += bytes;
        }
        Ok(())
    }

    async fn fence(&self) -> BusResult<()> {
        let what = What::Fence { host: self.host, core: self.core };
        let asked = self.ask(self.shared.lock(), what, |fabric, host, token| {
            fabric.host_fence(host, self.core, token)
        });
        let busy = |error: HostAccessError| BusError::Busy { why: error.into() };
        asked.map_err(busy)?.await;
        Ok(())
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> BusResult<LabMemory> {
        LabMemory::allocate(&self.shared, self.host, bytes, pages)
    }

    fn abandon(&self, what: Box<dyn Any + Send>) {
        self.shared.lock().abandoned.push(what);
    }

    async fn pin(&self, function: RoutingId, memory: &LabMemory) -> BusResult<Vec<Segment>> {
        self.check_pin(function, memory)?;
        self.spend(&self.pinning_work(function, memory)).await;
        // Another task may have pinned it meanwhile.
        self.check_pin(function, memory)?;
        Ok(self.shared.lock().pin(memory, function))
    }

    async fn unpin(&self, function: RoutingId, memory: &LabMemory) -> BusResult<()> {
        let unpinned = match memory.host() == self.host {
            true => self.shared.lock().unpin(self.host, memory.id(), function),
            false => None,
        };
        let Some(unmapping) = unpinned else {
            return Err(Self::pinning(memory, "is not pinned for the function"));
        };
        self.spend(&[CoreWork::SystemCall, CoreWork::Time(unmapping)]).await;
        Ok(())
    }

    async fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> BusResult<BusAddress> {
        let (bar, mapping) = {
            let mut state = self.shared.lock();
            let bar = self.peer_bar(&state, function, peer, bar)?;
            (bar, state.pin_bar(self.host, function, &bar))
        };
        if let Some(mapping) = mapping {
            self.spend(&[CoreWork::SystemCall, CoreWork::Time(mapping)]).await;
        }
        Ok(bar.base)
    }

    async fn unpin_bar(&self, function: RoutingId, peer: RoutingId, bar: u8) -> BusResult<()> {
        let unmapping = {
            let mut state = self.shared.lock();
            let bar = self.peer_bar(&state, function, peer, bar)?;
            state.unpin_bar(self.host, function, &bar)?
        };
        if let Some(unmapping) = unmapping {
            self.spend(&[CoreWork::SystemCall, CoreWork::Time(unmapping)]).await;
        }
        Ok(())
    }

    fn check_waiting(&self, waiting: Waiting) -> BusResult<()> {
        self.cost_of_waiting(waiting).map(|_| ())
    }

    /// # Panics
    /// If `offset_bytes` is not a multiple of 4.
    async fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &LabMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> BusResult<u32> {
        match waiting {
            Waiting::Polling => self.poll_memory(memory, offset_bytes, seen, deadline).await,
            _ => self.wait_in_kernel(waiting, memory, offset_bytes, seen, deadline).await,
        }
    }

    async fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> BusResult<()> {
        let refused = |have| {
            let vector = vectors.saturating_sub(1);
            Err(BusError::NoSuchVector { function, vector, have })
        };
        let read = |offset| self.config_read(function, offset);
        let Some(capability) = find_capability(reg::CAPABILITY_MSIX, read)? else {
            return refused(0);
        };
        let control = self.config_read(function, capability)?;
        let have = (control >> reg::MSIX_TABLE_SIZE_SHIFT & reg::MSIX_TABLE_SIZE) as u16 + 1;
        if vectors > have {
            return refused(have);
        }
        if vectors == 0 {
            return Ok(());
        }
        let place = self.config_read(function, capability + reg::MSIX_TABLE)?;
        let (bar, offset_bytes) =
            ((place & reg::MSIX_BAR) as u8, u64::from(place & !reg::MSIX_BAR));
        let table = RegisterAddress { function, bar, offset_bytes };
        self.spend(&[CoreWork::SystemCall]).await;
        // Enabled but masked, so that a half-written entry sends nothing.
        let masked = control | reg::MSIX_ENABLE | reg::MSIX_FUNCTION_MASK;
        self.config_write(function, capability, masked, 0b1100)?;
        let root_complex = self.running_host().root_complex;
        let entries =
            self.shared.lock().interrupts.enable(self.host, root_complex, function, vectors);
        self.store(table, &entries, Stores::uncached(REGISTER_BYTES)).await?;
        // The stores are posted; a read completes behind the last of them.
        let last = offset_bytes + entries.len() as u64 - u64::from(REGISTER_BYTES);
        self.read_register(RegisterAddress { offset_bytes: last, ..table }).await?;
        let open = masked & !reg::MSIX_FUNCTION_MASK;
        self.config_write(function, capability, open, 0b1100)?;
        Ok(())
    }

    async fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> BusResult<u64> {
        let what = What::Interrupt { host: self.host, function, vector };
        let look = |state: &mut State| {
            let have = state.interrupts.enabled(self.host, function);
            if vector >= have {
                return Err(BusError::NoSuchVector { function, vector, have });
            }
            let count = state.interrupts.take(self.host, function, vector);
            Ok((count > 0).then_some(count))
        };
        let watch = |state: &mut State, token| {
            state.interrupts.wait(self.host, function, vector, token);
        };
        self.wait_for(what, deadline, look, watch).await
    }

    async fn work(&self, work: HostWork) {
        let work = match work {
            HostWork::SystemCall => CoreWork::SystemCall,
            HostWork::Copy(bytes) => CoreWork::Copy(bytes),
            HostWork::TouchPages(pages) => CoreWork::TouchPages(pages),
            HostWork::Time(time) => CoreWork::Time(time),
        };
        self.spend(&[work]).await;
    }
}

impl Topology for LabBus {
    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        let mut state = self.shared.lock();
        self.port(&state, function)?;
        Ok(state.fabric.iommu(self.host()).is_some())
    }

    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        self.is_translated(function)?;
        Ok(self.shared.lock().known_iommu(self.host()))
    }

    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        let state = self.shared.lock();
        let functions = &self.running_host().tree.functions;
        let id = |index: usize| state.fabric.routing_id(functions[index].port);
        let live = functions.iter().enumerate().map(|(index, function)| {
            let config = &state.fabric.port(function.port).config;
            FunctionInfo {
                id: id(index),
                parent: function.parent.map(id),
                name: function.name.clone(),
                port_type: function.port_type,
                vendor: function.vendor,
                device: function.device,
                bars: (0..6).filter_map(|bar| config.bar(bar)).collect(),
            }
        });
        Ok(live.collect())
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        TopologyError::check_offset(offset)?;
        let state = self.shared.lock();
        let port = self.port(&state, function)?;
        Ok(state.fabric.port(port).config.read(offset))
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        TopologyError::check_offset(offset)?;
        let mut state = self.shared.lock();
        self.port(&state, function)?;
        state.fabric.config_write(self.host(), function, offset, value, byte_enables & 0xf);
        Ok(())
    }
}
