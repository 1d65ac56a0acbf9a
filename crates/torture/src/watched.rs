// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab's bus with a witness: every TLP that enters or leaves host memory is checked against
//! what is pinned at that moment. This finds writes of devices to freed memory, even while it is
//! unused.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crosslane_fabric::trace::{TraceEvent, TraceRecord};
use crosslane_fabric::{DirectionId, NodeKind, Way};
use crosslane_host::{
    Bus, BusError, DmaMemory, FunctionInfo, HostWork, IoTranslation, Mapping, PageSize,
    RegisterAddress, Segment, Stores, Topology, TopologyError, Waiting,
};
use crosslane_lab::{Lab, LabBus, LabMemory, Simulation};
use crosslane_pcie::tlp::{Class, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

/// Addresses of interrupt messages (x86).
const INTERRUPTS: std::ops::Range<u64> = 0xfee0_0000..0xfef0_0000;
/// Most findings kept.
const MOST_STRAYS: usize = 8;

/// The pinned memory, and the TLPs seen on links.
#[derive(Debug, Default)]
pub struct Witness {
    /// End and function of each pinned segment, by function and address. A function's own
    /// segments are disjoint.
    pinned: BTreeMap<(RoutingId, u64), u64>,
    /// End of each segment pinned earlier, and the time of its last release.
    given_back: BTreeMap<(RoutingId, u64), (u64, Picoseconds)>,
    /// Ranges of host memory.
    memory: Vec<std::ops::Range<u64>>,
    /// Accesses to memory that was not pinned.
    pub strays: Vec<String>,
    /// Reads that reached the host after their engines had given them up and their memory was
    /// released.
    given_up: Vec<(RoutingId, std::ops::Range<u64>)>,
    /// Hash over all TLPs on links: equal for equal traces.
    pub hash: u64,
    /// TLPs on links.
    pub tlps: u64,
    /// TLPs on each direction of a link, by class.
    carried: BTreeMap<(u32, bool, u8), u64>,
    /// Links between a root complex and its devices.
    host_links: Vec<DirectionId>,
    /// Links of endpoints, in their sending direction.
    own_links: Vec<DirectionId>,
    /// Completion time-outs of the engines.
    timeouts: BTreeMap<RoutingId, Picoseconds>,
    /// Time at which an engine last handed a read to its port, by function, tag and address, if its
    /// memory was pinned then.
    sent: BTreeMap<(RoutingId, u16, u64), Picoseconds>,
}

/// A witness shared by the fabric and the buses.
pub type Shared = Arc<Mutex<Witness>>;

impl Witness {
    /// Watches a simulation of a lab from now on.
    pub fn watch(simulation: &Simulation, lab: &Lab) -> Shared {
        let witness = Shared::default();
        let seen = Arc::clone(&witness);
        let timeouts = lab.file().endpoints.iter().filter_map(|endpoint| {
            let timeout = endpoint.part.engine?.completion_timeout;
            let mut trees = simulation.hosts().iter().map(|host| &host.tree);
            let function = trees.find_map(|tree| tree.find(&endpoint.name))?;
            Some((function.routing_id, timeout))
        });
        let timeouts = timeouts.collect();
        simulation.with_fabric(|fabric| {
            let host = simulation_host(fabric);
            let mut state = seen.lock().unwrap();
            state.memory = fabric.memory_ranges(host);
            let ports = fabric.ports().iter();
            let roots = ports.filter(|port| fabric.node(port.node).kind == NodeKind::RootComplex);
            let links = roots.filter_map(|port| port.link);
            state.host_links = links.map(|link| DirectionId { link, way: Way::Up }).collect();
            let ports = fabric.ports().iter();
            let own = ports.filter(|port| fabric.node(port.node).kind == NodeKind::Endpoint);
            let links = own.filter_map(|port| port.link);
            state.own_links = links.map(|link| DirectionId { link, way: Way::Up }).collect();
            state.timeouts = timeouts;
            drop(state);
            fabric.set_trace(Box::new(move |record: &TraceRecord| {
                seen.lock().unwrap().record(record);
            }));
        });
        witness
    }

    /// Notes that these segments are no longer pinned for the function.
    fn forget(&mut self, function: RoutingId, segments: &[Segment], now: Picoseconds) {
        for segment in segments {
            let key = (function, segment.address.0);
            if let Some(end) = self.pinned.remove(&key) {
                self.given_back.insert(key, (end, now));
            }
        }
    }

    fn record(&mut self, record: &TraceRecord) {
        let TraceEvent::Tlp { header, replay, wire_bytes, ready, .. } = &record.event else {
            return;
        };
        self.tlps += 1;
        for word in [
            record.time.0,
            u64::from(record.direction.link.0) << 1 | u64::from(record.direction.way == Way::Up),
            header.address.0,
            u64::from(*wire_bytes),
            u64::from(header.tag.0),
        ] {
            self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        }
        *self.carried.entry(Self::place(record.direction, header.class())).or_default() += 1;
        if !replay && self.own_links.contains(&record.direction) {
            self.note_read(header, *ready);
        }
        if !replay && self.host_links.contains(&record.direction) {
            self.check(header, record.time);
        }
    }

    const fn place(direction: DirectionId, class: Class) -> (u32, bool, u8) {
        (direction.link.0, matches!(direction.way, Way::Up), class as u8)
    }

    /// Returns the TLPs of a class that one direction of a link has carried so far.
    pub fn carried(&self, direction: DirectionId, class: Class) -> u64 {
        self.carried.get(&Self::place(direction, class)).copied().unwrap_or_default()
    }

    /// Returns the first byte of a request that is neither pinned now nor was at `since`.
    fn unpinned_at(&self, header: &Header, since: Picoseconds) -> Option<u64> {
        let (start, end) = (header.address.0, header.address.0 + u64::from(header.request_bytes()));
        let id = header.requester;
        let mut at = start;
        while at < end {
            let place = (id, 0)..=(id, at);
            let pinned = self.pinned.range(place.clone()).next_back().map(|(_, end)| *end);
            let before = self.given_back.range(place).next_back();
            let before = before.filter(|(_, (_, when))| *when > since).map(|(_, (end, _))| *end);
            match pinned.max(before) {
                Some(piece_end) if piece_end > at => at = piece_end,
                _ => return Some(at),
            }
        }
        None
    }

    /// Notes a read that leaves its engine's port, where it has waited since `ready`: remembers it
    /// if its memory was pinned then.
    fn note_read(&mut self, header: &Header, ready: Picoseconds) {
        if header.kind == TlpKind::MemoryRead {
            let key = (header.requester, header.tag.0, header.address.0);
            if self.unpinned_at(header, ready).is_none() {
                self.sent.insert(key, ready);
            } else {
                self.sent.remove(&key);
            }
        }
    }

    /// Whether this is a read that its engine has given up, and whose tag has rested since: it was
    /// pinned when the engine handed it to its port, and has since been in flight, or waited there
    /// for credits, for longer than both take. No driver can know that it still exists, and its
    /// data are ignored.
    fn was_given_up(&self, header: &Header, time: Picoseconds) -> bool {
        let key = (header.requester, header.tag.0, header.address.0);
        let sent = self.sent.get(&key).filter(|_| header.kind == TlpKind::MemoryRead);
        let timeout = self.timeouts.get(&header.requester);
        sent.zip(timeout).is_some_and(|(sent, timeout)| time.since(*sent).0 > 2 * timeout.0)
    }

    /// Whether an engine had given up a read of this address, which arrived nevertheless.
    pub fn has_given_up(&self, requester: RoutingId, address: BusAddress) -> bool {
        let mut reads = self.given_up.iter();
        reads.any(|(id, bytes)| *id == requester && bytes.contains(&address.0))
    }

    fn check(&mut self, header: &Header, time: Picoseconds) {
        if !matches!(header.kind, TlpKind::MemoryRead | TlpKind::MemoryWrite) {
            return;
        }
        let (start, bytes) = (header.address.0, u64::from(header.request_bytes()));
        if INTERRUPTS.contains(&start) || bytes == 0 {
            return;
        }
        let Some(at) = self.unpinned_at(header, time) else { return };
        if self.was_given_up(header, time) {
            self.given_up.push((header.requester, start..start + bytes));
            return;
        }
        // An IOMMU rejects unmapped addresses itself.
        let in_memory = self.memory.iter().any(|range| range.contains(&start));
        if in_memory && self.strays.len() < MOST_STRAYS {
            let (kind, id) = (header.kind, header.requester);
            self.strays.push(format!(
                "{time}: {kind:?} of {bytes} B at {start:#x} by {id}, which is not pinned for it \
                 at {at:#x}"
            ));
        }
    }
}

fn simulation_host(fabric: &crosslane_fabric::Fabric) -> crosslane_pcie::units::HostId {
    let root = fabric.nodes().iter().find(|node| node.kind == NodeKind::RootComplex);
    root.expect("a lab has a host").host
}

/// The bus of a lab's host, with a witness.
#[derive(Clone)]
pub struct WatchedBus {
    /// The lab's bus.
    pub bus: LabBus,
    /// The witness, told of pins.
    pub witness: Shared,
}

/// Memory of the lab's host, with the segments of its pins.
#[derive(Clone)]
pub struct WatchedMemory {
    memory: LabMemory,
    /// By function: behind an IOMMU each has different addresses.
    segments: Arc<Mutex<BTreeMap<RoutingId, Vec<Segment>>>>,
}

impl DmaMemory for WatchedMemory {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BusError> {
        self.memory.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BusError> {
        self.memory.write(offset_bytes, from)
    }
}

impl Topology for WatchedBus {
    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        self.bus.is_translated(function)
    }

    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        self.bus.translation(function)
    }

    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        self.bus.functions()
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        self.bus.config_read(function, offset)
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        self.bus.config_write(function, offset, value, byte_enables)
    }
}

impl Bus for WatchedBus {
    type Memory = WatchedMemory;

    fn now(&self) -> Picoseconds {
        self.bus.now()
    }

    async fn sleep_until(&self, time: Picoseconds) {
        self.bus.sleep_until(time).await;
    }

    fn on_core(&self, core: u16) -> Self {
        Self { bus: self.bus.on_core(core), witness: Arc::clone(&self.witness) }
    }

    fn cores(&self) -> u16 {
        self.bus.cores()
    }

    async fn read_register(&self, at: RegisterAddress) -> Result<u32, BusError> {
        self.bus.read_register(at).await
    }

    async fn write_register(&self, at: RegisterAddress, value: u32) -> Result<(), BusError> {
        self.bus.write_register(at, value).await
    }

    fn widest_store_bytes(&self) -> u32 {
        self.bus.widest_store_bytes()
    }

    fn check_mapping(
        &self,
        function: RoutingId,
        bar: u8,
        mapping: Mapping,
    ) -> Result<(), BusError> {
        self.bus.check_mapping(function, bar, mapping)
    }

    async fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> Result<(), BusError> {
        self.bus.store(at, bytes, stores).await
    }

    async fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> Result<(), BusError> {
        self.bus.load(at, into, mapping).await
    }

    async fn fence(&self) -> Result<(), BusError> {
        self.bus.fence().await
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<WatchedMemory, BusError> {
        let memory = self.bus.allocate(bytes, pages)?;
        Ok(WatchedMemory { memory, segments: Arc::default() })
    }

    async fn pin(
        &self,
        function: RoutingId,
        memory: &WatchedMemory,
    ) -> Result<Vec<Segment>, BusError> {
        let segments = self.bus.pin(function, &memory.memory).await?;
        assert_eq!(segments.iter().map(|s| s.bytes).sum::<u64>(), memory.size_bytes());
        let mut witness = self.witness.lock().unwrap();
        for segment in &segments {
            let end = segment.address.0 + segment.bytes;
            witness.pinned.insert((function, segment.address.0), end);
        }
        drop(witness);
        memory.segments.lock().unwrap().insert(function, segments.clone());
        Ok(segments)
    }

    async fn unpin(&self, function: RoutingId, memory: &WatchedMemory) -> Result<(), BusError> {
        let segments = memory.segments.lock().unwrap().remove(&function).unwrap_or_default();
        self.witness.lock().unwrap().forget(function, &segments, self.now());
        self.bus.unpin(function, &memory.memory).await
    }

    fn abandon(&self, what: impl Any + Send) {
        self.bus.abandon(what);
    }

    async fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> Result<BusAddress, BusError> {
        self.bus.pin_bar(function, peer, bar).await
    }

    async fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> Result<(), BusError> {
        self.bus.unpin_bar(function, peer, bar).await
    }

    async fn wait_memory(
        &self,
        memory: &WatchedMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Result<u32, BusError> {
        self.bus.wait_memory(&memory.memory, offset_bytes, seen, deadline).await
    }

    fn check_waiting(&self, waiting: Waiting) -> Result<(), BusError> {
        self.bus.check_waiting(waiting)
    }

    async fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &WatchedMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Result<u32, BusError> {
        self.bus.wait_memory_by(waiting, &memory.memory, offset_bytes, seen, deadline).await
    }

    async fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> Result<(), BusError> {
        self.bus.enable_interrupts(function, vectors).await
    }

    async fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> Result<u64, BusError> {
        self.bus.wait_interrupt(function, vector, deadline).await
    }

    async fn work(&self, work: HostWork) {
        self.bus.work(work).await;
    }
}
