// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cores of a root complex: uncached stores and loads of flows and host code, and work that
//! occupies a core.
//!
//! A core makes one access after the other. Flows and the accesses of host code take turns; each
//! store counts as one access.

mod combining;
mod host;
mod loads;

use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, Tag};

use self::combining::{CombiningBuffers, LINE_BYTES};
use self::loads::{Load, LoadOwner, line_of, most_loads};
use crate::cpu::{CoreWork, work_ps};
use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::flow::FlowKind;
use crate::flow_state::{FlowState, MAX_STORE_BYTES, Posting};
use crate::generic::tlp_length;
use crate::host_access::{COMPLETION_TIMEOUT, HostQueue, Region};
use crate::packet::{NONE, Packet};
use crate::parameters::{CpuParameters, SocketParameters};
use crate::pattern;
use crate::root_complex::{OWN_ID, OWN_SOURCE};
use crate::routing::{Route, Routes};

/// Width of a store or load in bytes if the flow specifies none.
const DEFAULT_STORE_BYTES: u32 = 8;
/// Tags of the root complex unless twice its cores are more: the 8-bit tags that every completer
/// must accept (PCIe 6.x 2.2.6.2).
const TAGS: u16 = 256;

/// A flow on its core.
#[derive(Clone, Copy, Debug)]
struct Work {
    flow: u32,
    /// Operation in work and the bytes of it that are done.
    current: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Core {
    works: Vec<Work>,
    host: HostQueue,
    /// Flow whose turn it is; host code follows the last flow.
    turn: usize,
    /// Loads in flight, the oldest first.
    loads: Vec<Load>,
    /// Times until which loads that have come, beside others, take the core's own time.
    returning: Vec<u64>,
    /// Time up to which loads that go beside each other are in its total work.
    loaded_ps: u64,
    /// Tag for a load of the core's flows; those beside it take free ones.
    flow_tag: Tag,
    /// Time until which the core is occupied.
    free_ps: u64,
    /// Total work of the core, including the rest of what it has begun.
    busy_ps: u64,
    /// Direction with a full store queue that stalls the core.
    stalled: Option<u32>,
    /// Combining buffers of the core.
    combining: CombiningBuffers,
    /// Direction whose full queue holds up the combining buffers.
    draining: Option<u32>,
    /// Time at which the core looks for work next; `u64::MAX` if none is scheduled.
    event_ps: u64,
    /// Time of the scheduled time-out check of its loads; `u64::MAX` if none is scheduled.
    timeout_event_ps: u64,
}

impl Core {
    fn new(number: u16, cpu: &CpuParameters) -> Self {
        Self {
            works: Vec::new(),
            host: HostQueue::default(),
            turn: 0,
            loads: Vec::new(),
            returning: Vec::new(),
            loaded_ps: 0,
            flow_tag: Tag(number),
            free_ps: 0,
            busy_ps: 0,
            stalled: None,
            combining: CombiningBuffers::new(cpu.combining.map_or(0, |of| of.buffers)),
            draining: None,
            event_ps: u64::MAX,
            timeout_event_ps: u64::MAX,
        }
    }

    /// Records the core as occupied from one moment to another.
    fn occupy(&mut self, from_ps: u64, to_ps: u64) {
        self.free_ps = to_ps;
        self.busy_ps = self.busy_ps.saturating_add(to_ps.saturating_sub(from_ps));
    }

    /// Tag of a flow's next load: the core's own, which there may be none of, or one that is free;
    /// `None` if all are in use.
    fn next_tag(&self, free_tags: &[u16]) -> Option<Tag> {
        match self.loads.iter().any(|load| load.tag == self.flow_tag) {
            true => free_tags.last().map(|tag| Tag(*tag)),
            false => Some(self.flow_tag),
        }
    }

    /// Schedules the core to look for work at `time_ps`.
    fn go_on_at(&mut self, time_ps: u64, fabric: &mut Fabric, node: u32, number: u32) {
        if time_ps < self.event_ps {
            self.event_ps = time_ps;
            fabric.events.schedule(time_ps, EventKind::Core, node, number);
        }
    }
}

/// A store or load of a flow, about to be made.
struct Access {
    flow: u32,
    operation: u64,
    /// Offset in the operation, bytes.
    offset: u64,
    address: u64,
    bytes: u32,
    /// Key of the operation's pattern.
    key: u64,
    header: Header,
}

impl Access {
    /// Returns the next access of an operation: naturally aligned, at most as wide as the flow's
    /// stores, or the line of a streaming load.
    fn next(state: &FlowState, flow: u32, operation: u64, offset: u64, tag: Tag) -> Self {
        let is_streaming = state.flow.region == Region::WriteCombined;
        let width = match is_streaming {
            true => LINE_BYTES as u32,
            false => state.flow.tlp_bytes.unwrap_or(DEFAULT_STORE_BYTES).min(MAX_STORE_BYTES),
        };
        let address = state.address(operation) + offset;
        let to_boundary = u64::from(width) - address % u64::from(width);
        let left = (state.flow.operation_bytes - offset).min(to_boundary);
        let bytes = tlp_length(address, left, width + 4);
        let header = if state.flow.kind == FlowKind::Write {
            Header::memory_write(OWN_ID, BusAddress(address), bytes)
        } else if is_streaming {
            // The whole line comes, whatever of it is wanted.
            Header::memory_read(OWN_ID, tag, BusAddress(line_of(address)), LINE_BYTES as u32)
        } else {
            Header::memory_read(OWN_ID, tag, BusAddress(address), bytes)
        };
        let key = state.key(operation);
        Self { flow, operation, offset, address, bytes, key, header }
    }
}

/// One core of one root complex during a step.
#[derive(Clone, Copy)]
struct CorePlace {
    node: u32,
    number: u32,
}

/// Sockets of cores.
#[derive(Clone, Copy)]
struct CoreSockets {
    /// Cores of each socket.
    cores: u16,
    /// Time of an access from one socket to another, and of its completion.
    hop_ps: u64,
}

impl CoreSockets {
    /// Time that the way from a core to a root port takes, or the way back, beside that within a
    /// socket.
    fn hop_ps(self, core: u32, socket: u16) -> u64 {
        if core / u32::from(self.cores) == u32::from(socket) { 0 } else { self.hop_ps }
    }
}

/// All cores of a root complex.
pub(crate) struct Processor {
    cpu: CpuParameters,
    sockets: CoreSockets,
    cores: Vec<Core>,
    /// Total number of tags.
    tags: usize,
    /// Unused tags, the next one last.
    free_tags: Vec<u16>,
    /// Tags of loads that timed out, unusable until the late completion arrives.
    late_tags: Vec<u16>,
}

impl Processor {
    pub fn new(cpu: CpuParameters, sockets: Option<&SocketParameters>) -> Self {
        let cores = cpu.cores.saturating_mul(sockets.map_or(1, |sockets| sockets.count));
        let hop_ps = sockets.map_or(0, |sockets| sockets.hop.latency.0);
        let tags = TAGS.max(cores.saturating_mul(2));
        Self {
            cpu,
            sockets: CoreSockets { cores: cpu.cores, hop_ps },
            cores: (0..cores).map(|number| Core::new(number, &cpu)).collect(),
            tags: usize::from(tags),
            free_tags: (cores..tags).rev().collect(),
            late_tags: Vec::new(),
        }
    }

    pub fn cores(&self) -> u16 {
        self.cores.len() as u16
    }

    /// Total time that all cores have worked.
    pub fn busy_ps(&self) -> u64 {
        self.cores.iter().map(|core| core.busy_ps).fold(0, u64::saturating_add)
    }

    pub fn add_flow(&mut self, core: u16, flow: u32) {
        self.cores[usize::from(core)].works.push(Work { flow, current: None });
    }

    pub fn has_stalled_cores(&self) -> bool {
        self.cores.iter().any(|core| core.stalled.is_some() || core.draining.is_some())
    }

    /// Whether the cores have streaming loads.
    pub fn streams(&self) -> bool {
        self.cpu.combining.is_some_and(|combining| combining.streaming_loads > 0)
    }

    /// Whether the cores have combining buffers.
    pub const fn combines(&self) -> bool {
        self.cpu.combining.is_some()
    }

    /// Occupies a core after its earlier work.
    pub fn spend(&mut self, fabric: &Fabric, core: u16, work: CoreWork) -> Option<Picoseconds> {
        let cost_ps = work_ps(&self.cpu, work);
        let core = self.cores.get_mut(usize::from(core))?;
        let begin_ps = core.free_ps.max(fabric.events.now_ps());
        core.occupy(begin_ps, begin_ps.saturating_add(cost_ps));
        Some(Picoseconds(core.free_ps))
    }

    /// The queue of a core's host code, for adding an access.
    pub fn host_queue(&mut self, fabric: &mut Fabric, node: u32, core: u16) -> &mut HostQueue {
        let (now_ps, number) = (fabric.events.now_ps(), u32::from(core));
        let core = &mut self.cores[usize::from(core)];
        core.go_on_at(now_ps, fabric, node, number);
        &mut core.host
    }

    // --- Starting stores and loads -------------------------------------------------------

    /// Makes one store or load of a core.
    pub fn step(&mut self, fabric: &mut Fabric, node: u32, number: u32, routes: &Routes) {
        let now_ps = fabric.events.now_ps();
        let core = &mut self.cores[number as usize];
        if core.event_ps <= now_ps {
            core.event_ps = u64::MAX;
        }
        let place = CorePlace { node, number };
        if core.combining.is_leaving() && core.draining.is_none() {
            self.drain(fabric, place, routes);
        }
        let core = &mut self.cores[number as usize];
        if core.stalled.is_some() || core.loads.iter().any(|load| load.is_alone) {
            return;
        }
        if core.free_ps > now_ps {
            core.go_on_at(core.free_ps, fabric, node, number);
            return;
        }
        if core.flow_tag.0 == NO_TAG {
            core.flow_tag = Tag(self.free_tags.pop().unwrap_or(NO_TAG));
        }
        core.returning.retain(|done_ps| *done_ps > now_ps);
        let mut again_ps = u64::MAX;
        let turns = core.works.len() + 1;
        for ahead in 0..turns {
            let core = &mut self.cores[number as usize];
            let at = (core.turn + ahead) % turns;
            if at == core.works.len() {
                let waits = core.is_loading() && core.host.first().is_some();
                if waits || self.host_step(fabric, place, routes) {
                    return;
                }
                continue;
            }
            let Work { flow, current } = core.works[at];
            let state = &mut fabric.flows[flow as usize];
            if current.is_none() {
                match state.posting(now_ps) {
                    Posting::Now => {}
                    Posting::At(time_ps) => {
                        again_ps = again_ps.min(time_ps);
                        continue;
                    }
                    Posting::Wait | Posting::Finished => continue,
                }
            }
            let tag = core.next_tag(&self.free_tags);
            let Some(tag) = tag.filter(|_| core.may_begin(most_loads(&self.cpu, &state.flow)))
            else {
                // Its turn comes when a load has ended.
                return;
            };
            let (operation, offset) = current.unwrap_or_else(|| (state.post(now_ps), 0));
            let work = &mut core.works[at];
            work.current = Some((operation, offset));
            let access = Access::next(state, flow, operation, offset, tag);
            let why = match way_out(fabric, place, self.sockets, routes, &access.header) {
                Some(out) if !out.is_down(fabric) => {
                    self.issue(fabric, place, at, out, &access);
                    return;
                }
                Some(_) => format!("the link to {} is down", access.header.address),
                None => format!("no root port leads to {}", access.header.address),
            };
            self.cores[number as usize].works[at].current = None;
            fabric.fail_operation(access.flow, operation, why);
            again_ps = now_ps;
        }
        if again_ps != u64::MAX {
            self.cores[number as usize].go_on_at(again_ps, fabric, node, number);
        }
    }

    /// Sends a store or load of the flow at `turn` out of a root port, unless the store queue is
    /// full.
    fn issue(
        &mut self,
        fabric: &mut Fabric,
        place: CorePlace,
        turn: usize,
        out: WayOut,
        access: &Access,
    ) {
        let CorePlace { node, number } = place;
        let (now_ps, cpu) = (fabric.events.now_ps(), self.cpu);
        let core = &mut self.cores[number as usize];
        let is_load = access.header.kind == TlpKind::MemoryRead;
        if !is_load && out.is_full(fabric, &cpu) {
            core.stalled = Some(out.direction);
            return;
        }
        let &Access { flow, operation, offset, address, bytes, key, header } = access;
        if is_load && header.tag.0 == NO_TAG {
            core.works[turn].current = None;
            let why = format!("no tag is left for a load of {bytes} B at {}", header.address);
            fabric.fail_operation(flow, operation, why);
            core.go_on_at(now_ps, fabric, node, number);
            return;
        }
        let next = offset + u64::from(bytes);
        let open = next < fabric.flows[flow as usize].flow.operation_bytes;
        core.works[turn].current = open.then_some((operation, next));
        core.turn = turn + 1;
        fabric.flows[flow as usize].count_tlp();
        if is_load {
            let deadline_ps = now_ps + COMPLETION_TIMEOUT.0;
            let is_alone = most_loads(&cpu, &fabric.flows[flow as usize].flow) == 1;
            let load = Load {
                tag: header.tag,
                address: header.address.0,
                bytes: header.request_bytes(),
                port: out.port,
                deadline_ps,
                owner: LoadOwner::Flow { flow, operation, address, bytes },
                is_alone,
            };
            if header.tag != core.flow_tag {
                self.free_tags.pop();
            }
            core.begin_load(load, fabric, node, number);
            if !is_alone {
                core.go_on_at(now_ps, fabric, node, number);
            }
        } else {
            core.occupy(now_ps, now_ps + cpu.uncached_store.0);
            core.go_on_at(core.free_ps, fabric, node, number);
        }
        let mut packet = Packet::new(header, node);
        packet.flow = flow + 1;
        packet.operation = operation as u32;
        let skip = (address & 3) as usize;
        out.send(fabric, packet, |payload| {
            if !payload.is_empty() {
                pattern::fill(key, offset, &mut payload[skip..skip + bytes as usize]);
            }
        });
    }

    /// Resumes the cores that wait for room in a direction's queue.
    pub fn resume(&mut self, fabric: &mut Fabric, node: u32, direction: u32) {
        let now_ps = fabric.events.now_ps();
        for (number, core) in self.cores.iter_mut().enumerate() {
            if core.stalled == Some(direction) || core.draining == Some(direction) {
                core.stalled = core.stalled.filter(|stalled| *stalled != direction);
                core.draining = core.draining.filter(|draining| *draining != direction);
                fabric.events.schedule(now_ps, EventKind::Core, node, number as u32);
            }
        }
    }
}

/// Placeholder tag of a load that has none.
const NO_TAG: u16 = u16::MAX;

/// Status of a request that nothing claims.
const UNSUPPORTED: &str = "Unsupported Request";

/// A root port and the direction that it sends on.
#[derive(Clone, Copy)]
struct WayOut {
    port: u32,
    direction: u32,
    transmit_latency_ps: u64,
}

impl WayOut {
    /// Whether the link of this port is down.
    fn is_down(self, fabric: &Fabric) -> bool {
        fabric.directions[self.direction as usize].is_down
    }

    /// Whether the store queue is full.
    fn is_full(self, fabric: &Fabric, cpu: &CpuParameters) -> bool {
        let queued = fabric.directions[self.direction as usize].egress.posted_of_first;
        queued >= cpu.store_queue
    }

    fn send(self, fabric: &mut Fabric, mut packet: Packet, fill: impl FnOnce(&mut [u8])) {
        packet.ready_ps = fabric.events.now_ps() + self.transmit_latency_ps;
        let index = fabric.inject(packet, fill);
        fabric.enqueue(self.direction, OWN_SOURCE, index);
    }
}

/// Finds the root port for a request of a core; `None` if no root port leads to its target.
fn way_out(
    fabric: &Fabric,
    CorePlace { node, number }: CorePlace,
    sockets: CoreSockets,
    routes: &Routes,
    header: &Header,
) -> Option<WayOut> {
    let Route::Port(target) = routes.route(header, None, &mut 0) else { return None };
    let port = fabric.nodes[node as usize].ports[target as usize];
    let state = &fabric.port_states[port.0 as usize];
    let direction = state.transmit;
    let transmit_latency_ps = state.transmit_latency_ps + sockets.hop_ps(number, state.socket);
    (direction != NONE).then_some(WayOut { port: port.0, direction, transmit_latency_ps })
}

impl Fabric {
    pub(crate) fn core_step(&mut self, node: u32, core: u32) {
        self.with_root(node, |root, fabric| {
            root.processor.step(fabric, node, core, &root.routes);
        });
    }

    pub(crate) fn refuse_load(&mut self, node: u32, tag: Tag) {
        self.with_root(node, |root, fabric| root.processor.refuse_load(fabric, node, tag));
    }

    pub(crate) fn load_timeout(&mut self, node: u32, core: u32) {
        self.with_root(node, |root, fabric| root.processor.load_timeout(fabric, node, core));
    }

    /// Resumes the cores that wait for room in a direction's queue.
    pub(crate) fn resume_cores(&mut self, node: u32, direction: u32) {
        self.with_root(node, |root, fabric| root.processor.resume(fabric, node, direction));
    }
}
