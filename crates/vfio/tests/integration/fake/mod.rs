// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function without hardware: its BARs and the memory that it reaches are shared pages, its
//! interrupts are eventfds, and the test plays the device.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use crosslane_host::{
    Bus, DmaMemory, ErrorKind, FunctionInfo, PageSize, Reason, Topology, TopologyError,
};
use crosslane_pcie::config::{
    BarKind, BarRequest, Capability, ConfigSpace, Identity, PortType, registers as reg,
};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::{
    BusOptions, DomainId, Function, FunctionError, Mapped, Pages, Part, Region, StoreWidth,
    VfioBus, VfioMemory, block_on,
};
use rustix::event::{EventfdFlags, eventfd};

/// Number of interrupt vectors.
pub const VECTORS: u16 = 4;
/// BAR0: registers. The second page is not mapped, like one with an MSI-X table.
pub const REGISTERS_BYTES: u64 = 16 << 10;
/// The page of BAR0 that is not mapped.
pub const TRAPPED: RangeInclusive<u64> = 4096..=8191;
/// BAR2: a prefetchable aperture.
pub const WINDOW_BYTES: u64 = 8 << 10;

/// One call of the bus that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Map { iova: u64, bytes: u64 },
    Unmap { iova: u64, bytes: u64 },
    Vectors(usize),
    Reset,
}

/// An access by a call: BAR, offset, and the bytes of a write.
pub type Access = (u8, u64, Option<Vec<u8>>);

/// Target of an I/O virtual address.
enum Target {
    Memory(Arc<Pages>, u64),
    Peer(usize),
}

/// Mappings of functions that share them.
pub struct FakeDomain {
    id: DomainId,
    mappings: Mutex<BTreeMap<u64, (u64, Target)>>,
}

impl FakeDomain {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { id: DomainId::next(), mappings: Mutex::default() })
    }
}

pub struct Fake {
    id: RoutingId,
    name: String,
    config: Mutex<ConfigSpace>,
    pub regions: BTreeMap<u8, Region>,
    /// Memory behind BAR0; `window` is behind BAR2.
    pub registers: Pages,
    pub window: Pages,
    pub accesses: Mutex<Vec<Access>>,
    pub calls: Mutex<Vec<Call>>,
    /// Answers of the next mapping calls: an error, or `None` for success.
    pub map_errors: Mutex<VecDeque<Option<FunctionError>>>,
    vectors: Mutex<Vec<OwnedFd>>,
    domain: Arc<FakeDomain>,
    usable: Vec<RangeInclusive<u64>>,
    pub most_mappings: Option<u32>,
    pub is_translated: bool,
    lost: Mutex<Option<FunctionError>>,
    lost_event: OwnedFd,
    /// Whether reads return all ones, like those of a removed card.
    pub is_dead: Mutex<bool>,
}

fn prefetchable() -> BarKind {
    BarKind::Memory64 { prefetchable: true }
}

impl Fake {
    /// A function with this device number that shares the mappings of `domain`.
    pub fn new(device: u8, domain: &Arc<FakeDomain>) -> Self {
        let registers = Pages::allocate(REGISTERS_BYTES, PageSize::Small).unwrap();
        let window = Pages::allocate(WINDOW_BYTES, PageSize::Small).unwrap();
        let kind = BarKind::Memory32 { prefetchable: false };
        let max_rate = LinkRate { generation: Generation::Gen3, width: Width::new(8).unwrap() };
        let capability = Capability {
            max_payload_bytes: 256,
            max_rate,
            extended_tags: true,
            ten_bit_tags: false,
            acs: false,
        };
        let request = |kind, size_bytes| Some(BarRequest { kind, size_bytes });
        let mut config = ConfigSpace::endpoint(
            Identity { vendor: 0x1234, device: 0x5678, ..Identity::default() },
            capability,
            [
                request(kind, REGISTERS_BYTES),
                None,
                request(prefetchable(), WINDOW_BYTES),
                None,
                None,
                None,
            ],
        )
        .unwrap();
        config.write(reg::BAR0, 0x10_0000 + 0x10_0000 * u32::from(device), 0xf);
        config.write(reg::BAR0 + 8, 0x20_0000 + 0x10_0000 * u32::from(device), 0xf);
        let page = |offset, bytes| Part {
            offset,
            uncached: Mapped::of(registers.file(), offset, bytes).unwrap(),
            combined: None,
        };
        let region = Region {
            bytes: REGISTERS_BYTES,
            kind,
            parts: vec![page(0, 4096), page(8192, 8192)],
            not_combined: "it is not prefetchable".to_owned(),
        };
        let part = Part {
            offset: 0,
            uncached: Mapped::of(window.file(), 0, WINDOW_BYTES).unwrap(),
            combined: Some(Mapped::of(window.file(), 0, WINDOW_BYTES).unwrap()),
        };
        let parts = vec![part];
        let window_region = Region {
            bytes: WINDOW_BYTES,
            kind: prefetchable(),
            parts,
            not_combined: String::new(),
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Self {
            id: RoutingId::new(1, device, 0),
            name: format!("fake{device}"),
            config: Mutex::new(config),
            regions: BTreeMap::from([(0, region), (2, window_region)]),
            registers,
            window,
            accesses: Mutex::default(),
            calls: Mutex::default(),
            map_errors: Mutex::default(),
            vectors: Mutex::default(),
            domain: Arc::clone(domain),
            usable: vec![0..=0xfedf_ffff, 0xfef0_0000..=(1 << 40) - 1],
            most_mappings: None,
            is_translated: true,
            lost: Mutex::default(),
            lost_event: eventfd(0, flags).unwrap(),
            is_dead: Mutex::new(false),
        }
    }

    /// Finds the memory at an I/O virtual address, if all of the bytes are mapped.
    fn reach(&self, iova: u64, bytes: u64, then: impl FnOnce(&Mapped, u64)) -> bool {
        let mappings = self.domain.mappings.lock().unwrap();
        let Some((&first, (length, Target::Memory(pages, offset)))) =
            mappings.range(..=iova).next_back()
        else {
            return false;
        };
        let within = iova - first;
        if within + bytes > *length {
            return false;
        }
        then(pages.mapped(), offset + within);
        true
    }

    /// Reads memory as the device; `None` if it is not mapped.
    pub fn dma_read(&self, iova: u64, bytes: u64) -> Option<Vec<u8>> {
        let mut data = vec![0; bytes as usize];
        let reached = self.reach(iova, bytes, |mapped, offset| mapped.copy_out(offset, &mut data));
        reached.then_some(data)
    }

    /// Writes memory as the device; false if it is not mapped.
    pub fn dma_write(&self, iova: u64, data: &[u8]) -> bool {
        self.reach(iova, data.len() as u64, |mapped, offset| {
            mapped.store(offset, data, StoreWidth::B8);
        })
    }

    /// Address in this process of the peer's BAR that is mapped at an I/O virtual address.
    pub fn peer_at(&self, iova: u64) -> Option<usize> {
        match self.domain.mappings.lock().unwrap().get(&iova)? {
            (_, Target::Peer(address)) => Some(*address),
            (_, Target::Memory(..)) => None,
        }
    }

    /// Sends an interrupt as the device; false if the vector is not enabled.
    pub fn interrupt(&self, vector: usize) -> bool {
        let vectors = self.vectors.lock().unwrap();
        let Some(event) = vectors.get(vector) else { return false };
        rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap();
        true
    }

    /// Makes the function go away.
    pub fn lose(&self, why: &str) {
        let why = Reason::new(ErrorKind::LinkDown, why);
        let gone = FunctionError::Gone { function: self.name.clone(), why };
        *self.lost.lock().unwrap() = Some(gone);
        rustix::io::write(&self.lost_event, &1_u64.to_ne_bytes()).unwrap();
    }

    pub fn command(&self) -> u32 {
        self.config.lock().unwrap().read(reg::COMMAND) & 0xffff
    }

    pub fn mapping_count(&self) -> usize {
        self.domain.mappings.lock().unwrap().len()
    }

    /// Returns the calls since the last time.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn check(&self, bar: u8, offset: u64, bytes: usize) -> Result<(), FunctionError> {
        if let Some(gone) = self.lost() {
            return Err(gone);
        }
        assert!(bar == 0 && TRAPPED.contains(&offset), "BAR{bar} at {offset:#x} is mapped");
        assert!(matches!(bytes, 1 | 2 | 4 | 8) && offset.is_multiple_of(bytes as u64));
        Ok(())
    }

    fn map(&self, iova: u64, bytes: u64, target: Target) -> Result<(), FunctionError> {
        if let Some(gone) = self.lost() {
            return Err(gone);
        }
        if let Some(Some(error)) = self.map_errors.lock().unwrap().pop_front() {
            return Err(error);
        }
        assert!(iova.is_multiple_of(4096) && bytes.is_multiple_of(4096) && bytes > 0);
        let mut mappings = self.domain.mappings.lock().unwrap();
        let before = mappings.range(..iova + bytes).next_back();
        assert!(
            before.is_none_or(|(first, (length, _))| first + length <= iova),
            "{iova:#x} is mapped already"
        );
        mappings.insert(iova, (bytes, target));
        self.calls.lock().unwrap().push(Call::Map { iova, bytes });
        Ok(())
    }
}

/// A bus with functions that share a domain.
pub fn bus_of(count: u8, options: BusOptions) -> (VfioBus, Vec<Arc<Fake>>) {
    let domain = FakeDomain::new();
    let fakes: Vec<_> = (0..count).map(|device| Arc::new(Fake::new(device, &domain))).collect();
    (bus_over(&fakes, options), fakes)
}

pub fn bus_over(fakes: &[Arc<Fake>], options: BusOptions) -> VfioBus {
    let functions = fakes.iter().map(|fake| Arc::clone(fake) as Arc<dyn Function>).collect();
    VfioBus::with_options(functions, None, options).unwrap()
}

/// A bus with one function.
pub fn bus() -> (VfioBus, Arc<Fake>) {
    let (bus, mut fakes) = bus_of(1, BusOptions::default());
    (bus, fakes.remove(0))
}

pub fn pin(bus: &VfioBus, fake: &Fake, memory: &VfioMemory) -> u64 {
    let segments = block_on(bus.pin(fake.id(), memory)).unwrap();
    assert_eq!(segments.len(), 1);
    assert_eq!(segments[0].bytes, memory.size_bytes());
    segments[0].address.0
}

/// Memory that is pinned, and where the function finds it.
pub fn pinned(bus: &VfioBus, fake: &Fake, bytes: u64) -> (VfioMemory, u64) {
    let memory = bus.allocate(bytes, PageSize::Small).unwrap();
    let at = pin(bus, fake, &memory);
    (memory, at)
}

impl Function for Fake {
    fn id(&self) -> RoutingId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), FunctionError> {
        let config = self.config.lock().unwrap();
        for (at, byte) in (offset..).zip(into) {
            *byte = match *self.is_dead.lock().unwrap() {
                true => 0xff,
                false => config.read(at & !3).to_le_bytes()[usize::from(at & 3)],
            };
        }
        Ok(())
    }

    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), FunctionError> {
        assert!(offset.is_multiple_of(from.len() as u16), "an access is aligned");
        let mut config = self.config.lock().unwrap();
        for (at, byte) in (offset..).zip(from) {
            config.write(at & !3, u32::from(*byte) << (8 * (at & 3)), 1 << (at & 3));
        }
        Ok(())
    }

    fn region(&self, bar: u8) -> Option<&Region> {
        self.regions.get(&bar)
    }

    fn read(&self, bar: u8, offset: u64, into: &mut [u8]) -> Result<(), FunctionError> {
        self.check(bar, offset, into.len())?;
        self.accesses.lock().unwrap().push((bar, offset, None));
        self.registers.mapped().load(offset, into);
        Ok(())
    }

    fn write(&self, bar: u8, offset: u64, from: &[u8]) -> Result<(), FunctionError> {
        self.check(bar, offset, from.len())?;
        self.accesses.lock().unwrap().push((bar, offset, Some(from.to_vec())));
        self.registers.mapped().store(offset, from, StoreWidth::B8);
        Ok(())
    }

    fn map_dma(
        &self,
        iova: u64,
        memory: &Arc<Pages>,
        offset: u64,
        bytes: u64,
    ) -> Result<(), FunctionError> {
        self.map(iova, bytes, Target::Memory(Arc::clone(memory), offset))
    }

    fn map_peer(
        &self,
        iova: u64,
        mapped: &Mapped,
        offset: u64,
        bytes: u64,
    ) -> Result<(), FunctionError> {
        self.map(iova, bytes, Target::Peer(mapped.address() + offset as usize))
    }

    fn unmap_dma(&self, iova: u64, bytes: u64) -> Result<(), FunctionError> {
        if let Some(gone) = self.lost() {
            return Err(gone);
        }
        let removed = self.domain.mappings.lock().unwrap().remove(&iova);
        assert!(removed.is_some_and(|(length, _)| length == bytes), "nothing is at {iova:#x}");
        self.calls.lock().unwrap().push(Call::Unmap { iova, bytes });
        Ok(())
    }

    fn domain(&self) -> DomainId {
        self.domain.id
    }

    fn is_translated(&self) -> bool {
        self.is_translated
    }

    fn usable_addresses(&self) -> &[RangeInclusive<u64>] {
        &self.usable
    }

    fn most_mappings(&self) -> Option<u32> {
        self.most_mappings
    }

    fn vectors(&self) -> u16 {
        VECTORS
    }

    fn set_vectors(&self, eventfds: &[BorrowedFd<'_>]) -> Result<(), FunctionError> {
        let copies = eventfds.iter().map(|event| event.try_clone_to_owned().unwrap());
        *self.vectors.lock().unwrap() = copies.collect();
        self.calls.lock().unwrap().push(Call::Vectors(eventfds.len()));
        Ok(())
    }

    fn reset(&self) -> Result<(), FunctionError> {
        self.config.lock().unwrap().write(reg::COMMAND, 0, 0b11);
        self.calls.lock().unwrap().push(Call::Reset);
        Ok(())
    }

    fn lost(&self) -> Option<FunctionError> {
        self.lost.lock().unwrap().clone()
    }

    fn lost_event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.lost_event.as_fd())
    }
}

/// A tree with a root port that forwards memory, and another function below it.
pub struct FakeTree {
    port: ConfigSpace,
    pub writes: Mutex<Vec<(RoutingId, u16, u32, u8)>>,
}

impl FakeTree {
    pub const PORT: RoutingId = RoutingId::new(0, 1, 0);

    /// Forwards 1 MiB each from `memory` and `prefetchable`.
    pub fn new(memory: u32, prefetchable: u64) -> Self {
        let max_rate = LinkRate { generation: Generation::Gen3, width: Width::new(8).unwrap() };
        let capability = Capability {
            max_payload_bytes: 256,
            max_rate,
            extended_tags: true,
            ten_bit_tags: false,
            acs: true,
        };
        let mut port = ConfigSpace::bridge(PortType::RootPort, Identity::default(), capability);
        let grain = |address: u32| address >> 16 & 0xfff0;
        port.write(reg::MEMORY_BASE_LIMIT, grain(memory) | grain(memory) << 16, 0xf);
        let low = grain(prefetchable as u32);
        port.write(reg::PREFETCHABLE_BASE_LIMIT, low | low << 16, 0xf);
        let high = (prefetchable >> 32) as u32;
        port.write(reg::PREFETCHABLE_BASE_UPPER, high, 0xf);
        port.write(reg::PREFETCHABLE_LIMIT_UPPER, high, 0xf);
        Self { port, writes: Mutex::default() }
    }
}

impl Topology for FakeTree {
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        Ok(vec![FunctionInfo {
            id: Self::PORT,
            parent: None,
            name: "port".to_owned(),
            port_type: PortType::RootPort,
            vendor: 1,
            device: 2,
            bars: Vec::new(),
        }])
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        match function == Self::PORT {
            true => Ok(self.port.read(offset)),
            false => Err(TopologyError::NoSuchFunction(function)),
        }
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        self.writes.lock().unwrap().push((function, offset, value, byte_enables));
        Ok(())
    }
}
