// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root complex: memory behind it, transfers between its root ports, and the cores of its
//! processor with their uncached stores and loads.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId, Tag};

use crate::completer::{Completer, Pace, Piece, Read};
use crate::cpu::{CoreWork, INTERRUPT_ADDRESSES, Interrupt, MAX_INTERRUPTS, work_ps};
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::flow::FlowKind;
use crate::flow_state::{FlowState, MAX_STORE_BYTES, Posting};
use crate::generic::tlp_length;
use crate::packet::{NONE, Packet, PacketIndex};
use crate::parameters::{PeerToPeer, RootComplexParameters};
use crate::pattern;
use crate::routing::{Route, Routes};
use crate::trace::HeaderLine;
use crate::wire::WireTime;

/// Bus addresses that are never memory: room for 32-bit windows, interrupts and firmware. What
/// memory there is beyond its start goes on above 4 GiB.
pub const MMIO_HOLE: Range<u64> = 0x8000_0000..0x1_0000_0000;
/// Routing ID of the root complex itself: requests of its cores.
const OWN_ID: RoutingId = RoutingId(0);
/// Own traffic is the first source of a root port's queues; peers follow by port.
const OWN_SOURCE: u32 = 0;
/// Width of a store or load when the flow names none, bytes.
const DEFAULT_STORE_BYTES: u32 = 8;

/// A flow as its core sees it.
#[derive(Clone, Copy, Debug)]
struct Work {
    flow: u32,
    /// Operation in work and bytes of it that are done.
    current: Option<(u64, u64)>,
}

/// A load that waits for its completion.
#[derive(Clone, Copy, Debug)]
struct Load {
    flow: u32,
    operation: u64,
    address: u64,
    bytes: u32,
}

#[derive(Clone, Debug)]
struct Core {
    works: Vec<Work>,
    turn: usize,
    load: Option<Load>,
    /// The core does nothing before this time.
    free_ps: u64,
    /// Direction whose queue is full of stores.
    stalled: Option<u32>,
    /// When the core looks for work next; `u64::MAX` if nothing is scheduled.
    event_ps: u64,
}

impl Core {
    const IDLE: Self = Self {
        works: Vec::new(),
        turn: 0,
        load: None,
        free_ps: 0,
        stalled: None,
        event_ps: u64::MAX,
    };

    /// Lets the core look for work at `time_ps`.
    fn go_on_at(&mut self, time_ps: u64, fabric: &mut Fabric, node: u32, number: u32) {
        if time_ps < self.event_ps {
            self.event_ps = time_ps;
            fabric.events.schedule(time_ps, EventKind::Core, node, number);
        }
    }
}

/// A store or load that a core is about to make.
struct Access {
    flow: u32,
    operation: u64,
    /// Position in the operation, bytes.
    offset: u64,
    address: u64,
    bytes: u32,
    /// Of the operation's pattern.
    key: u64,
    header: Header,
}

impl Access {
    /// The next one of an operation: naturally aligned, at most as wide as the flow's stores.
    fn next(state: &FlowState, flow: u32, operation: u64, offset: u64, core: u32) -> Self {
        let width = state.flow.tlp_bytes.unwrap_or(DEFAULT_STORE_BYTES).min(MAX_STORE_BYTES);
        let address = state.address(operation) + offset;
        let to_boundary = u64::from(width) - address % u64::from(width);
        let left = (state.flow.operation_bytes - offset).min(to_boundary);
        let bytes = tlp_length(address, left, width + 4);
        let header = if state.flow.kind == FlowKind::Write {
            Header::memory_write(OWN_ID, BusAddress(address), bytes)
        } else {
            Header::memory_read(OWN_ID, Tag(core as u16), BusAddress(address), bytes)
        };
        let key = state.key(operation);
        Self { flow, operation, offset, address, bytes, key, header }
    }
}

pub(crate) struct RootComplex {
    parameters: RootComplexParameters,
    pub completer: Completer,
    pub routes: Routes,
    /// Writes that have arrived and cannot be seen yet, in order: time and packet.
    unseen: VecDeque<(u64, PacketIndex)>,
    /// Completions of the read that is being finished.
    pieces: Vec<Piece>,
    cores: Vec<Core>,
    peer_free: WireTime,
    interrupts: Vec<Interrupt>,
    interrupt_count: u64,
}

/// A TLP at a root port: node, direction it came from, root port.
#[derive(Clone, Copy)]
struct Arrival {
    node: u32,
    direction: u32,
    port: u32,
    index: PacketIndex,
}

impl RootComplex {
    pub fn new(parameters: RootComplexParameters) -> Self {
        Self {
            completer: Completer::new(parameters.completer),
            cores: vec![Core::IDLE; usize::from(parameters.cpu.cores)],
            parameters,
            routes: Routes::default(),
            unseen: VecDeque::new(),
            pieces: Vec::new(),
            peer_free: WireTime::default(),
            interrupts: Vec::new(),
            interrupt_count: 0,
        }
    }

    pub fn memory_ranges(&self) -> Vec<Range<u64>> {
        let bytes = self.parameters.memory_bytes;
        let above = bytes.saturating_sub(MMIO_HOLE.start);
        let both = [0..bytes.min(MMIO_HOLE.start), MMIO_HOLE.end..MMIO_HOLE.end + above];
        both.into_iter().filter(|range| !range.is_empty()).collect()
    }

    fn is_memory(&self, address: u64, bytes: u32) -> bool {
        let end = address.saturating_add(u64::from(bytes));
        let total = self.parameters.memory_bytes;
        if address < MMIO_HOLE.start {
            end <= total.min(MMIO_HOLE.start)
        } else {
            let above = total.saturating_sub(MMIO_HOLE.start);
            address >= MMIO_HOLE.end && end <= MMIO_HOLE.end + above
        }
    }

    pub fn cores(&self) -> u16 {
        self.cores.len() as u16
    }

    pub fn add_flow(&mut self, core: u16, flow: u32) {
        self.cores[usize::from(core)].works.push(Work { flow, current: None });
    }

    pub fn has_stalled_cores(&self) -> bool {
        self.cores.iter().any(|core| core.stalled.is_some())
    }

    /// Lets memory have the writes that can be seen by `now`.
    pub fn settle_memory(&mut self, fabric: &mut Fabric, now_ps: u64) {
        while let Some((visible_ps, index)) = self.unseen.front().copied()
            && visible_ps <= now_ps
        {
            self.unseen.pop_front();
            let header = fabric.packets.get(index).header;
            let (address, bytes) = (header.address.0, header.request_bytes() as usize);
            let skip = (address & 3) as usize;
            self.completer
                .memory
                .write(address, &fabric.packets.payload(index)[skip..skip + bytes]);
            fabric.packets.remove(index);
        }
    }

    fn receive(&mut self, fabric: &mut Fabric, at: Arrival) {
        let header = fabric.packets.get(at.index).header;
        match header.kind {
            TlpKind::MemoryWrite if self.is_memory(header.address.0, header.request_bytes()) => {
                self.take_write(fabric, at, &header);
            }
            TlpKind::MemoryRead if self.is_memory(header.address.0, header.request_bytes()) => {
                self.take_read(fabric, at, &header);
            }
            TlpKind::Completion | TlpKind::CompletionData if header.requester == OWN_ID => {
                self.take_completion(fabric, at, &header);
            }
            TlpKind::MemoryWrite if INTERRUPT_ADDRESSES.contains(&header.address.0) => {
                self.take_interrupt(fabric, at);
            }
            TlpKind::MemoryWrite
            | TlpKind::MemoryRead
            | TlpKind::Completion
            | TlpKind::CompletionData => self.pass_on(fabric, at, &header),
            TlpKind::Message | TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => {
                fabric.drop_received(at.direction, at.index);
            }
        }
    }

    fn take_write(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let now_ps = fabric.events.now_ps();
        self.settle_memory(fabric, now_ps);
        let bytes = header.request_bytes();
        let times = self.completer.write(now_ps, header.address.0, bytes);
        self.unseen.push_back((times.visible_ps, at.index));
        let packet = fabric.packets.get(at.index);
        let (class, data) = (packet.class(), packet.data_credits);
        fabric.release(at.direction, times.drained_ps, class, data);
        if let Err(what) = fabric.written(at.index, bytes, times.visible_ps) {
            fabric.report(at.port, ErrorKind::WrongData { what });
        }
    }

    /// An interrupt message: a posted write, so all that its sender wrote before is there.
    fn take_interrupt(&mut self, fabric: &mut Fabric, at: Arrival) {
        let now_ps = fabric.events.now_ps();
        let data = fabric.packets.payload(at.index).first_chunk().copied();
        self.interrupt_count += 1;
        if self.interrupts.len() < MAX_INTERRUPTS {
            self.interrupts.push(Interrupt {
                data: u32::from_le_bytes(data.unwrap_or_default()),
                arrived: Picoseconds(now_ps),
                handled: Picoseconds(now_ps) + self.parameters.cpu.interrupt,
            });
        }
        fabric.drop_received(at.direction, at.index);
    }

    pub fn interrupts(&self) -> (Vec<Interrupt>, u64) {
        (self.interrupts.clone(), self.interrupt_count)
    }

    /// Occupies a core behind what it does already.
    pub fn spend(&mut self, fabric: &Fabric, core: u16, work: CoreWork) -> Option<Picoseconds> {
        let cost_ps = work_ps(&self.parameters.cpu, work);
        let core = self.cores.get_mut(usize::from(core))?;
        core.free_ps = core.free_ps.max(fabric.events.now_ps()).saturating_add(cost_ps);
        Some(Picoseconds(core.free_ps))
    }

    fn take_read(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let read = Read { header: *header, memory_address: header.address.0, origin: at.direction };
        let now_ps = fabric.events.now_ps();
        fabric.packets.remove(at.index);
        if let Some((slot, ready_ps)) = self.completer.read(now_ps, read, &mut fabric.random) {
            fabric.events.schedule(ready_ps, EventKind::ReadReady, at.node, slot);
            fabric.release(at.direction, now_ps, header.class(), 0);
        }
    }

    fn read_ready(&mut self, fabric: &mut Fabric, node: u32, slot: u32) {
        let now_ps = fabric.events.now_ps();
        self.settle_memory(fabric, now_ps);
        // The completions may be no longer than the root port that sends them allows.
        let Some(direction) = self.completer.origin(slot) else { return };
        let port = fabric.directions[direction as usize].receiving_port;
        let state = fabric.port_states[port as usize];
        let random = fabric.shuffle.then_some(&mut fabric.random);
        let (most, pieces) = (state.max_payload_bytes, &mut self.pieces);
        self.completer.finish(slot, now_ps, OWN_ID, most, random, pieces);
        for piece in self.pieces.drain(..) {
            let mut packet = Packet::new(piece.header, node);
            packet.ready_ps = piece.ready_ps + state.transmit_latency_ps;
            let memory = &self.completer.memory;
            let skip = (piece.header.address.0 & 3) as usize;
            let index = fabric.inject(packet, |payload| {
                memory.read(piece.memory_address, &mut payload[skip..skip + piece.bytes as usize]);
            });
            fabric.enqueue(direction ^ 1, OWN_SOURCE, index);
        }
        if let Some((read, slot, ready_ps)) =
            self.completer.start_waiting(now_ps, &mut fabric.random)
        {
            fabric.release(read.origin, now_ps, read.header.class(), 0);
            fabric.events.schedule(ready_ps, EventKind::ReadReady, node, slot);
        }
    }

    /// From one root port to another.
    fn pass_on(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let Route::Port(target) = self.routes.route(header, None) else {
            fabric.refuse(at.port, at.direction, at.index, 0);
            return;
        };
        let id = fabric.nodes[at.node as usize].ports[target as usize];
        let out = fabric.port_states[id.0 as usize].transmit;
        let (latency, rate) = match self.parameters.peer_to_peer {
            PeerToPeer::Allowed { latency, bytes_per_second } if out != NONE => {
                (latency.0, bytes_per_second)
            }
            _ => {
                let what = HeaderLine(header).to_string();
                let root_complex = fabric.nodes[at.node as usize].name.clone();
                fabric.report(at.port, ErrorKind::PeerForbidden { what, root_complex });
                fabric.answer_unsupported(at.port, at.direction, header, 0);
                fabric.drop_received(at.direction, at.index);
                return;
            }
        };
        let now_ps = fabric.events.now_ps();
        let ticks = Pace::new(rate).ticks(u64::from(header.payload_bytes()));
        self.peer_free = self.peer_free.max(WireTime::at(now_ps)).plus_ticks(ticks);
        let packet = fabric.packets.get_mut(at.index);
        packet.ready_ps = self.peer_free.ceil_ps() + latency;
        let source = fabric.port_states[at.port as usize].local + 1;
        fabric.enqueue(out, source, at.index);
    }

    // --- Cores ---------------------------------------------------------------------------

    fn take_completion(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let now_ps = fabric.events.now_ps();
        let core_number = u32::from(header.tag.0);
        let core = self.cores.get_mut(usize::from(header.tag.0));
        let Some((core, load)) = core.and_then(|core| core.load.take().map(|load| (core, load)))
        else {
            let what = HeaderLine(header).to_string();
            fabric.report(at.port, ErrorKind::UnexpectedCompletion { what });
            fabric.drop_received(at.direction, at.index);
            return;
        };
        core.free_ps = now_ps + self.parameters.cpu.uncached_load.0;
        let free_ps = core.free_ps;
        if header.status == CompletionStatus::Successful && header.has_data() {
            let skip = (load.address & 3) as usize;
            let data = &fabric.packets.payload(at.index)[skip..skip + load.bytes as usize];
            let state = &fabric.flows[load.flow as usize];
            let offset = load.address - state.address(load.operation);
            if !pattern::matches(state.key(load.operation), offset, data) {
                let what = format!("flow {}, operation {}", state.flow.name, load.operation);
                fabric.report(at.port, ErrorKind::WrongData { what: what.clone() });
                fabric.fail_operation(load.flow, load.operation, format!("{what}: wrong data"));
            }
            let bytes = u64::from(load.bytes);
            fabric.read_progress(load.flow, load.operation, bytes, free_ps);
        } else {
            let (address, bytes) = (BusAddress(load.address), load.bytes);
            let status = "Unsupported Request";
            let error = ErrorKind::ReadRefused { address, bytes, status };
            fabric.fail_operation(load.flow, load.operation, error.to_string());
            fabric.report(at.port, error);
        }
        fabric.drop_received(at.direction, at.index);
        fabric.events.schedule(free_ps, EventKind::Core, at.node, core_number);
    }

    /// One store or load of a core.
    fn core_step(&mut self, fabric: &mut Fabric, node: u32, number: u32) {
        let now_ps = fabric.events.now_ps();
        let core = &mut self.cores[number as usize];
        if core.event_ps <= now_ps {
            core.event_ps = u64::MAX;
        }
        if core.load.is_some() || core.stalled.is_some() {
            return;
        }
        if core.free_ps > now_ps {
            core.go_on_at(core.free_ps, fabric, node, number);
            return;
        }
        let mut again_ps = u64::MAX;
        for ahead in 0..core.works.len() {
            let at = (core.turn + ahead) % core.works.len();
            let work = &mut core.works[at];
            let state = &mut fabric.flows[work.flow as usize];
            if work.current.is_none() {
                match state.posting(now_ps) {
                    Posting::Now => work.current = Some((state.post(now_ps), 0)),
                    Posting::At(time_ps) => again_ps = again_ps.min(time_ps),
                    Posting::Wait | Posting::Finished => {}
                }
            }
            let Some((operation, offset)) = work.current else { continue };
            let access = Access::next(state, work.flow, operation, offset, number);
            if let Route::Port(target) = self.routes.route(&access.header, None) {
                let port = fabric.nodes[node as usize].ports[target as usize].0;
                self.issue(fabric, node, number, at, port, &access);
                return;
            }
            let why = format!("no root port leads to {}", access.header.address);
            work.current = None;
            fabric.fail_operation(access.flow, operation, why);
            again_ps = now_ps;
        }
        if again_ps != u64::MAX {
            core.go_on_at(again_ps, fabric, node, number);
        }
    }

    /// Sends a store or load of the flow at `turn` out of a root port, unless the store queue is
    /// full.
    fn issue(
        &mut self,
        fabric: &mut Fabric,
        node: u32,
        number: u32,
        turn: usize,
        port: u32,
        access: &Access,
    ) {
        let (now_ps, cpu) = (fabric.events.now_ps(), self.parameters.cpu);
        let core = &mut self.cores[number as usize];
        let state = fabric.port_states[port as usize];
        let is_load = access.header.kind == TlpKind::MemoryRead;
        let queued = fabric.directions[state.transmit as usize].egress.posted_of_first();
        if !is_load && queued >= cpu.store_queue as usize {
            core.stalled = Some(state.transmit);
            return;
        }
        let &Access { flow, operation, offset, address, bytes, key, header } = access;
        let next = offset + u64::from(bytes);
        let open = next < fabric.flows[flow as usize].flow.operation_bytes;
        core.works[turn].current = open.then_some((operation, next));
        core.turn = turn + 1;
        fabric.flows[flow as usize].count_tlp();
        if is_load {
            core.load = Some(Load { flow, operation, address, bytes });
        } else {
            core.free_ps = now_ps + cpu.uncached_store.0;
            core.go_on_at(core.free_ps, fabric, node, number);
        }
        let mut packet = Packet::new(header, node);
        packet.flow = flow + 1;
        packet.operation = operation as u32;
        packet.ready_ps = now_ps + state.transmit_latency_ps;
        let skip = (address & 3) as usize;
        let index = fabric.inject(packet, |payload| {
            if !payload.is_empty() {
                pattern::fill(key, offset, &mut payload[skip..skip + bytes as usize]);
            }
        });
        fabric.enqueue(state.transmit, OWN_SOURCE, index);
    }
}

impl Fabric {
    pub(crate) fn root_receive(&mut self, node: u32, direction: u32, index: PacketIndex) {
        let port = self.directions[direction as usize].receiving_port;
        let arrival = Arrival { node, direction, port, index };
        self.with_root(node, |root, fabric| root.receive(fabric, arrival));
    }

    pub(crate) fn root_read_ready(&mut self, node: u32, slot: u32) {
        self.with_root(node, |root, fabric| root.read_ready(fabric, node, slot));
    }

    pub(crate) fn core_step(&mut self, node: u32, core: u32) {
        self.with_root(node, |root, fabric| root.core_step(fabric, node, core));
    }

    /// Lets the cores go on that wait for room in a direction's queue.
    pub(crate) fn resume_cores(&mut self, node: u32, direction: u32) {
        let now_ps = self.events.now_ps();
        self.with_root(node, |root, fabric| {
            for (number, core) in root.cores.iter_mut().enumerate() {
                if core.stalled == Some(direction) {
                    core.stalled = None;
                    fabric.events.schedule(now_ps, EventKind::Core, node, number as u32);
                }
            }
        });
    }
}
