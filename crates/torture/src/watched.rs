// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab's bus with a witness: every TLP that enters or leaves host memory is checked against
//! what is pinned at that moment. This finds writes of devices to freed memory, even while it is
//! unused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crosslane_fabric::trace::{TraceEvent, TraceRecord};
use crosslane_fabric::{DirectionId, LinkDirection, NodeKind};
use crosslane_host::{Bus, BusError, DmaMemory, Layer, Segment};
use crosslane_lab::{Lab, LabBus, LabMemory, Simulation};
use crosslane_pcie::tlp::{Class, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

/// Addresses of interrupt messages (x86).
const INTERRUPTS: std::ops::Range<u64> = 0xfee0_0000..0xfef0_0000;
/// Direction towards the host.
const UP: LinkDirection = LinkDirection::Up;
/// Most findings kept.
const MOST_STRAYS: usize = 8;

/// The pinned memory, and the TLPs seen on links.
#[derive(Debug, Default)]
pub struct Witness {
    /// End and function of each pinned segment, by function and address. A function's own
    /// segments are disjoint.
    pinned: BTreeMap<(RoutingId, u64), u64>,
    /// Segments of each pinned memory; behind an IOMMU each function has its own.
    segments: BTreeMap<(u64, RoutingId), Vec<Segment>>,
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
    /// Directions of links, by link: down, up.
    directions: Vec<[Direction; 2]>,
    /// Completion time-outs of the engines.
    timeouts: BTreeMap<RoutingId, Picoseconds>,
    /// Time at which an engine last handed a read to its port, by function, tag and address, if its
    /// memory was pinned then.
    sent: BTreeMap<(RoutingId, u16, u64), Picoseconds>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// TLPs carried, by class.
    carried: [u64; 3],
    /// Whether it ends at a root complex.
    is_to_host: bool,
    /// Whether it begins at an endpoint.
    is_of_endpoint: bool,
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
            state.directions = vec![Default::default(); fabric.links().len()];
            for port in fabric.ports() {
                let Some(link) = port.link else { continue };
                let [_, up] = &mut state.directions[link.0 as usize];
                let kind = fabric.node(port.node).kind;
                up.is_to_host |= kind == NodeKind::RootComplex;
                up.is_of_endpoint |= kind == NodeKind::Endpoint;
            }
            state.timeouts = timeouts;
            drop(state);
            fabric.set_trace(Box::new(move |record: &TraceRecord| {
                seen.lock().unwrap().record(record);
            }));
        });
        witness
    }

    fn note_pin(&mut self, function: RoutingId, memory: &LabMemory, segments: &[Segment]) {
        for segment in segments {
            let end = segment.address.0 + segment.bytes;
            self.pinned.insert((function, segment.address.0), end);
        }
        self.segments.insert((memory.id(), function), segments.to_vec());
    }

    fn note_unpin(&mut self, function: RoutingId, memory: &LabMemory, now: Picoseconds) {
        for segment in self.segments.remove(&(memory.id(), function)).unwrap_or_default() {
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
            u64::from(record.direction.link.0) << 1 | u64::from(record.direction.heading == UP),
            header.address.0,
            u64::from(*wire_bytes),
            u64::from(header.tag.0),
        ] {
            self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        }
        let DirectionId { link, heading } = record.direction;
        let direction = &mut self.directions[link.0 as usize][usize::from(heading == UP)];
        direction.carried[header.class() as usize] += 1;
        let Direction { is_to_host, is_of_endpoint, .. } = *direction;
        if !replay && is_of_endpoint {
            self.note_read(header, *ready);
        }
        if !replay && is_to_host {
            self.check(header, record.time);
        }
    }

    /// Returns the TLPs of a class that one direction of a link has carried so far.
    pub fn carried(&self, DirectionId { link, heading }: DirectionId, class: Class) -> u64 {
        self.directions[link.0 as usize][usize::from(heading == UP)].carried[class as usize]
    }

    /// Returns the first byte of a request that is neither pinned now nor was at `since`.
    fn unpinned_at(&self, header: &Header, since: Picoseconds) -> Option<u64> {
        let (start, end) = (header.address.0, header.address.0 + u64::from(header.request_bytes()));
        let id = header.requester;
        let mut at = start;
        while at < end {
            let pinned = last_of(&self.pinned, id, at).copied();
            if pinned.is_some_and(|piece_end| piece_end >= end) {
                return None;
            }
            let before = last_of(&self.given_back, id, at).filter(|(_, when)| *when > since);
            let before = before.map(|(end, _)| *end);
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

    /// Whether this is a read that its engine has given up: it was pinned when the engine handed it
    /// to its port, and has since been in flight, or waited there for credits, for longer than the
    /// engine's completion time-out. No driver can know that it still exists, and its data are
    /// ignored.
    fn was_given_up(&self, header: &Header, time: Picoseconds) -> bool {
        let key = (header.requester, header.tag.0, header.address.0);
        let sent = self.sent.get(&key).filter(|_| header.kind == TlpKind::MemoryRead);
        let timeout = self.timeouts.get(&header.requester);
        sent.zip(timeout).is_some_and(|(sent, timeout)| time.since(*sent) > *timeout)
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

/// Returns a function's last entry up to an address.
fn last_of<T>(map: &BTreeMap<(RoutingId, u64), T>, id: RoutingId, at: u64) -> Option<&T> {
    let (key, value) = map.range(..=(id, at)).next_back()?;
    (key.0 == id).then_some(value)
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

impl Layer for WatchedBus {
    type Below = LabBus;

    fn below(&self) -> &LabBus {
        &self.bus
    }

    fn over(&self, bus: LabBus) -> Self {
        Self { bus, witness: Arc::clone(&self.witness) }
    }

    async fn pin(&self, function: RoutingId, memory: &LabMemory) -> Result<Vec<Segment>, BusError> {
        let segments = self.bus.pin(function, memory).await?;
        assert_eq!(segments.iter().map(|s| s.bytes).sum::<u64>(), memory.size_bytes());
        self.witness.lock().unwrap().note_pin(function, memory, &segments);
        Ok(segments)
    }

    async fn unpin(&self, function: RoutingId, memory: &LabMemory) -> Result<(), BusError> {
        self.witness.lock().unwrap().note_unpin(function, memory, self.bus.now());
        self.bus.unpin(function, memory).await
    }
}
