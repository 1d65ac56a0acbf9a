// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric itself: its state, clock and configuration space, and the event loop.

use std::any::Any;

use crosslane_pcie::config::DetectedError;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use crosslane_random::Random;

use crate::checks::OrderingChecker;
use crate::counters::LinkCounters;
use crate::crossbar::Crossbar;
use crate::device::{Device, DevicePort, Intake, bar_offset_bytes};
use crate::direction::{Direction, DirectionSetup};
use crate::errors::ErrorRecord;
use crate::events::{Event, EventKind, Events};
use crate::flow_state::FlowState;
use crate::generic::GenericEndpoint;
use crate::host_access::HostState;
use crate::injection::InjectedLog;
use crate::packet::{NONE, Packet, PacketIndex, Packets};
use crate::parameters::{Forwarding, SwitchParameters};
use crate::receiver::{CreditCount, UNLIMITED, pair};
use crate::root_complex::RootComplex;
use crate::routing::Routes;
use crate::topology::{
    Behaviour, DirectionId, FabricBuilder, Link, LinkDirection, LinkId, Node, NodeId, NodeKind,
    Port, PortId,
};
use crate::trace::TraceSink;
use crate::wire::Wire;

/// Events handled between two checks for the end of a run.
const EVENTS_AT_A_TIME: u64 = 256;

/// State of a port in the event loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortState {
    /// Direction that the port sends on; `NONE` without a link.
    pub transmit: u32,
    /// Bus, device and function number of the port's function.
    pub routing_id: RoutingId,
    /// Position among the ports of its node.
    pub local: u32,
    /// Socket of a root port.
    pub socket: u16,
    /// Max_Payload_Size as set now, bytes.
    pub max_payload_bytes: u32,
    pub transmit_latency_ps: u64,
    /// Most wire bytes that a device may queue.
    pub queue_limit_bytes: u64,
    /// At a root port, the TLPs of each class whose buffer is held until the IOMMU has translated
    /// them.
    pub translating: [u32; 3],
}

/// State of a node in the event loop.
pub(crate) enum NodeState {
    Switch { parameters: SwitchParameters, routes: Routes },
    RootComplex(Option<Box<RootComplex>>),
    Endpoint(Option<Box<dyn Device>>),
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Every flow has ended and no packet is on its way.
    Quiet,
    /// The time limit was reached first.
    Limit,
    /// No event is left, but something still waits; one sentence about each.
    Stuck(Vec<String>),
}

/// A PCI Express fabric in simulated time.
pub struct Fabric {
    seed: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ports: Vec<Port>,
    pub(crate) links: Vec<Link>,
    pub(crate) node_states: Vec<NodeState>,
    pub(crate) port_states: Vec<PortState>,
    pub(crate) directions: Vec<Direction>,
    /// Idle reason of each direction while its queue is empty.
    pub(crate) empty_reasons: Vec<crate::counters::IdleReason>,
    /// Root complex of each host, by [`HostId`]; `NONE` for none.
    roots: Vec<u32>,
    pub(crate) packets: Packets,
    pub(crate) events: Events,
    pub(crate) random: Random,
    pub(crate) trace: Option<Box<dyn TraceSink>>,
    pub(crate) shuffle: bool,
    /// Whether any link is in FLIT mode.
    pub(crate) has_flits: bool,
    /// Whether any host has a cache.
    pub(crate) has_caches: bool,
    /// Crossbars of switches, by node; empty if no switch has one.
    pub(crate) crossbars: Vec<Option<Box<Crossbar>>>,
    pub(crate) sequences: Vec<u64>,
    pub(crate) ordering: OrderingChecker,
    pub(crate) errors: Vec<ErrorRecord>,
    pub(crate) error_count: u64,
    pub(crate) injected: InjectedLog,
    pub(crate) flows: Vec<FlowState>,
    pub(crate) acknowledged: Vec<PacketIndex>,
    pub(crate) hops: u64,
    pub(crate) host: HostState,
}

impl Fabric {
    pub(crate) fn new(builder: FabricBuilder) -> Self {
        let FabricBuilder { seed, nodes, ports, links, behaviours, .. } = builder;
        let largest = ports.iter().map(|port| port.config.max_payload_supported_bytes()).max();
        let crossbars = Crossbar::all(&behaviours);
        let node_states = behaviours.into_iter().map(node_state).collect::<Vec<_>>();
        let port_states = ports
            .iter()
            .enumerate()
            .map(|(id, port)| port_state(id, port, &nodes, &links))
            .collect();
        let hosts = nodes.iter().map(|node| usize::from(node.host.0) + 1).max().unwrap_or(0);
        let mut roots = vec![NONE; hosts];
        for (at, node) in nodes.iter().enumerate().rev() {
            if node.kind == NodeKind::RootComplex {
                roots[usize::from(node.host.0)] = at as u32;
            }
        }
        let has_cache = |state: &NodeState| match state {
            NodeState::RootComplex(Some(root)) => root.has_cache(),
            _ => false,
        };
        let mut fabric = Self {
            seed,
            has_caches: node_states.iter().any(has_cache),
            crossbars,
            roots,
            sequences: vec![0; nodes.len()],
            ordering: OrderingChecker::new(nodes.len()),
            node_states,
            port_states,
            directions: Vec::with_capacity(links.len() * 2),
            empty_reasons: vec![crate::counters::IdleReason::NothingToSend; links.len() * 2],
            packets: Packets::new(largest.unwrap_or(128)),
            events: Events::new(),
            random: Random::with_seed(seed),
            trace: None,
            shuffle: false,
            has_flits: links.iter().any(|link| link.parameters.rate.generation.is_flit()),
            errors: Vec::new(),
            error_count: 0,
            injected: InjectedLog::default(),
            flows: Vec::new(),
            acknowledged: Vec::new(),
            hops: 0,
            host: HostState::new(),
            nodes,
            ports,
            links,
        };
        for index in 0..fabric.links.len() as u32 {
            for heading in [LinkDirection::Down, LinkDirection::Up] {
                let direction = fabric.direction(DirectionId { link: LinkId(index), heading });
                fabric.directions.push(direction);
            }
        }
        for port in 0..fabric.ports.len() {
            fabric.apply_config(port as u32);
        }
        fabric
    }

    fn direction(&self, id: DirectionId) -> Direction {
        let link = &self.links[id.link.0 as usize];
        let (from, to) = match id.heading {
            LinkDirection::Down => (link.upper, link.lower),
            LinkDirection::Up => (link.lower, link.upper),
        };
        let node_of = |port: PortId| self.ports[port.0 as usize].node.0;
        let receiver = &self.ports[to.0 as usize].parameters;
        let receiving_switch = match &self.node_states[node_of(to) as usize] {
            NodeState::Switch { parameters, .. } => Some(parameters.forwarding),
            _ => None,
        };
        let capacity = receiver.receive_credits.map(|credits| CreditCount {
            header: limit(credits.header),
            data: limit(credits.data),
        });
        let replay = self.ports[from.0 as usize].parameters.replay_buffer_bytes;
        let generation = link.parameters.rate.generation;
        let receive_latency_ps = receiver.receive_latency_at(generation).0;
        let intake = match &self.node_states[node_of(to) as usize] {
            NodeState::Endpoint(Some(device)) => device.intake(),
            _ => None,
        };
        Direction::new(DirectionSetup {
            id,
            transmitting: (node_of(from), self.nodes[node_of(from) as usize].kind),
            receiving: (to.0, node_of(to), self.port_states[to.0 as usize].local),
            receiver_cuts_through: receiving_switch == Some(Forwarding::CutThrough),
            receive_latency_ps: if receiving_switch.is_some() { 0 } else { receive_latency_ps },
            intake: intake.unwrap_or(Intake::AT_ONCE),
            flight_ps: link.parameters.flight.0,
            wire: Wire::new(link.parameters.rate, link.parameters.skp),
            bit_error_rate: link.parameters.bit_error_rate,
            capacity,
            replay_capacity: limit(replay),
            retrain_ps: link.parameters.retrain.0,
            first_source_is_mixed: matches!(
                self.node_states[node_of(from) as usize],
                NodeState::RootComplex(_)
            ),
            sources: self.nodes[node_of(from) as usize].ports.len() + 1,
        })
    }

    // --- Parts ---------------------------------------------------------------------------

    /// All nodes, by [`NodeId`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All ports, by [`PortId`].
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// All links, by [`LinkId`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node with this ID.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The port with this ID.
    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.0 as usize]
    }

    /// The link with this ID.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0 as usize]
    }

    /// The two ports of a direction: sender first.
    pub fn direction_ends(&self, id: DirectionId) -> (PortId, PortId) {
        let link = self.link(id.link);
        match id.heading {
            LinkDirection::Down => (link.upper, link.lower),
            LinkDirection::Up => (link.lower, link.upper),
        }
    }

    /// Seed of all its randomness.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Current simulated time.
    pub fn now(&self) -> Picoseconds {
        Picoseconds(self.events.now_ps())
    }

    /// Events handled since the start.
    pub fn events_processed(&self) -> u64 {
        self.events.processed
    }

    /// TLPs that have crossed a link, counted once per link.
    pub fn tlp_hops(&self) -> u64 {
        self.hops
    }

    /// Errors detected by ports and devices, the first [`MAX_ERRORS`](crate::MAX_ERRORS) only.
    pub fn errors(&self) -> &[ErrorRecord] {
        &self.errors
    }

    /// Number of errors detected, including those not kept.
    pub fn error_count(&self) -> u64 {
        self.error_count
    }

    /// Counters of one direction of a link up to now.
    pub fn counters(&mut self, id: DirectionId) -> LinkCounters {
        let now_ps = self.events.now_ps();
        self.settle(id.index(), now_ps);
        self.directions[id.index() as usize].read_counters(now_ps)
    }

    /// Sends every event of every link to `sink` from now on.
    pub fn set_trace(&mut self, sink: Box<dyn TraceSink>) {
        self.trace = Some(sink);
    }

    /// Ends the trace and returns its sink.
    pub fn take_trace(&mut self) -> Option<Box<dyn TraceSink>> {
        self.trace.take()
    }

    /// Switches the shuffle mode, in which every queue and every completer chooses at random among
    /// everything that the ordering and completion rules allow.
    pub fn set_shuffle(&mut self, shuffle: bool) {
        self.shuffle = shuffle;
    }

    /// For diagnosis: lets DLLPs take no time on the wire from now on. They are still exchanged and
    /// counted. The time that a run gains by it is the cost of Acks, Naks and UpdateFCs.
    pub fn set_dllps_free(&mut self, free: bool) {
        for direction in 0..self.directions.len() as u32 {
            self.settle(direction, self.events.now_ps());
            let state = &mut self.directions[direction as usize];
            let ticks = u64::from(state.wire.dllp_bytes) * state.wire.byte_ticks;
            state.dllp_ticks = if free { 0 } else { ticks };
        }
    }

    // --- Memory, outside of time ---------------------------------------------------------

    /// Ranges of bus addresses in use for the memory of a host; the host must exist.
    pub fn memory_ranges(&self, host: HostId) -> Vec<std::ops::Range<u64>> {
        self.root(host).map_or_else(Vec::new, |node| match &self.node_states[node as usize] {
            NodeState::RootComplex(Some(root)) => root.map.ranges(),
            _ => Vec::new(),
        })
    }

    #[inline]
    pub(crate) fn root(&self, host: HostId) -> Option<u32> {
        self.roots.get(usize::from(host.0)).copied().filter(|root| *root != NONE)
    }

    /// Calls `access` with the memory at an address of a host (its own, or behind an endpoint's
    /// BAR) and the offset there, without simulated time. Returns whether the address is memory.
    fn with_memory(
        &mut self,
        host: HostId,
        address: BusAddress,
        access: impl FnOnce(&mut crate::memory::Memory, u64),
    ) -> bool {
        let Some(root) = self.root(host) else { return false };
        let now_ps = self.events.now_ps();
        let mut access = Some(access);
        self.with_root(root, |root, fabric| {
            if root.map.holds(address.0, 1)
                && let Some(access) = access.take()
            {
                root.settle_memory(fabric, now_ps);
                access(&mut root.completer.memory, address.0);
            }
        });
        let Some(access) = access else { return true };
        let target = self.ports.iter().find_map(|port| {
            let node = &self.nodes[port.node.0 as usize];
            if node.kind != NodeKind::Endpoint || node.host != host {
                return None;
            }
            let bar =
                (0..6).filter_map(|bar| port.config.bar(bar)).find(|bar| bar.contains(address))?;
            let base = bar_offset_bytes(&port.config, bar.index);
            Some((port.node.0, base + (address.0 - bar.base.0)))
        });
        let Some((node, offset)) = target else { return false };
        match &mut self.node_states[node as usize] {
            NodeState::Endpoint(Some(device)) => match device.memory() {
                Some(memory) => {
                    access(memory, offset);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Reads current memory of a host, or behind a BAR, without taking time. Returns false if the
    /// address is not memory.
    pub fn peek(&mut self, host: HostId, address: BusAddress, bytes: &mut [u8]) -> bool {
        self.with_memory(host, address, |memory, at| memory.read(at, bytes))
    }

    /// Writes memory of a host, or behind a BAR, without taking time. Returns false if the address
    /// is not memory.
    pub fn poke(&mut self, host: HostId, address: BusAddress, bytes: &[u8]) -> bool {
        self.note_host_write(host, address, bytes.len() as u64);
        self.with_memory(host, address, |memory, at| memory.write(at, bytes))
    }

    /// Notes in a host's cache, if it has one, what a program of the host has written.
    pub(crate) fn note_host_write(&mut self, host: HostId, address: BusAddress, bytes: u64) {
        let Some(node) = self.root(host).filter(|_| self.has_caches) else { return };
        self.with_root(node, |root, _| {
            if root.map.holds(address.0, 1) {
                root.note_host_write(address.0, bytes);
            }
        });
    }

    /// Zeroes memory of a host, or behind a BAR, without taking time. Returns false if the address
    /// is not memory.
    pub fn zero(&mut self, host: HostId, address: BusAddress, bytes: u64) -> bool {
        self.with_memory(host, address, |memory, at| memory.zero(at, bytes))
    }

    // --- The loop ------------------------------------------------------------------------

    /// Runs until every flow has ended and the fabric is quiet, or until `limit`.
    pub fn run(&mut self, limit: Option<Picoseconds>) -> RunEnd {
        let limit_ps = limit.map_or(u64::MAX, |limit| limit.0);
        loop {
            if self.is_quiet() {
                // The last bytes may become visible a little after the last event.
                let last_ps = self.flows.iter().map(FlowState::last_done_ps).max().unwrap_or(0);
                self.events.advance_to(last_ps.min(limit_ps));
                return if last_ps > limit_ps { RunEnd::Limit } else { RunEnd::Quiet };
            }
            // Batches make the checks above cheap.
            let batch = EVENTS_AT_A_TIME.min(self.events.work().max(1));
            if !self.handle_some(batch, limit_ps) {
                if self.events.is_empty() {
                    return RunEnd::Stuck(self.unfinished());
                }
                self.events.advance_to(limit_ps);
                return RunEnd::Limit;
            }
        }
    }

    /// Handles the next events, up to `number`, that are due by `limit_ps`; returns whether there
    /// was one.
    #[inline(never)]
    fn handle_some(&mut self, number: u64, limit_ps: u64) -> bool {
        let mut left = number;
        while left > 0 && self.handle(limit_ps) {
            left -= 1;
        }
        left < number
    }

    /// Whether every flow has ended and no event is left that is work.
    pub fn is_quiet(&self) -> bool {
        self.events.work() == 0 && !self.flows.iter().any(FlowState::is_open)
    }

    /// Handles the next event if it is due by `limit_ps`; returns whether there was one.
    #[inline(always)]
    pub(crate) fn handle(&mut self, limit_ps: u64) -> bool {
        let Some(Event { kind, target, data, .. }) = self.events.pop(limit_ps) else {
            return false;
        };
        match kind {
            EventKind::Arrive => self.arrive(target, data),
            EventKind::Pick => self.pick(target),
            EventKind::Wake => self.wake(target),
            EventKind::ReplayTimer => self.replay_timer(target),
            EventKind::ReadReady => self.root_read_ready(target, data),
            EventKind::Core => self.core_step(target, data),
            EventKind::LinkUp => self.link_up_event(target),
            EventKind::StallEnd => self.stall_end(target),
            EventKind::Translated => self.root_translated(target, data),
            EventKind::Crossed => self.root_crossed(target, data),
            EventKind::Crossbar => self.crossbar_step(target),
            EventKind::JoinedLeft => self.root_joined_left(target, data),
            EventKind::PartLost => self.root_part_lost(target, data),
            EventKind::PartTimeout => self.root_part_timeout(target, data),
            EventKind::LoadTimeout => self.load_timeout(target, data),
            EventKind::DeviceTimer | EventKind::Cable | EventKind::Deadline => {
                self.with_device(target, |device, port| device.timer(data, port));
            }
        }
        true
    }

    fn unfinished(&self) -> Vec<String> {
        let flows = self.flows.iter().filter(|flow| flow.is_open()).map(FlowState::unfinished);
        let devices = self.node_states.iter().zip(&self.nodes).flat_map(|(state, node)| {
            let list = match state {
                NodeState::Endpoint(Some(device)) => device.unfinished(),
                _ => Vec::new(),
            };
            list.into_iter().map(|line| format!("{}: {line}", node.name))
        });
        let queues = self.directions.iter().filter(|state| !state.egress.is_empty()).map(|state| {
            let (from, to) = self.direction_ends(state.id);
            let (from, to) = (&self.port(from).name, &self.port(to).name);
            let count = state.egress.count(&self.packets);
            format!("{from} to {to}: {count} TLPs wait ({})", state.reason())
        });
        flows.chain(devices).chain(queues).collect()
    }

    /// Calls `f` with the device of a node and its port.
    pub(crate) fn with_device<R>(
        &mut self,
        node: u32,
        call: impl FnOnce(&mut dyn Device, &mut DevicePort<'_>) -> R,
    ) -> Option<R> {
        let NodeState::Endpoint(slot) = &mut self.node_states[node as usize] else { return None };
        let mut device = slot.take()?;
        let port = self.nodes[node as usize].ports[0].0;
        let direction = self.port_states[port as usize].transmit;
        let result = call(&mut *device, &mut DevicePort { fabric: self, node, port, direction });
        if let NodeState::Endpoint(slot) = &mut self.node_states[node as usize] {
            *slot = Some(device);
        }
        Some(result)
    }

    pub(crate) fn with_root<R>(
        &mut self,
        node: u32,
        call: impl FnOnce(&mut RootComplex, &mut Self) -> R,
    ) -> Option<R> {
        let NodeState::RootComplex(slot) = &mut self.node_states[node as usize] else {
            return None;
        };
        let mut root = slot.take()?;
        let result = call(&mut root, self);
        if let NodeState::RootComplex(slot) = &mut self.node_states[node as usize] {
            *slot = Some(root);
        }
        Some(result)
    }

    /// The device of an endpoint as a `T`; `None` if it has another type.
    pub fn device_as<T: 'static>(&mut self, node: NodeId) -> Option<&mut T> {
        match self.node_states.get_mut(node.0 as usize)? {
            NodeState::Endpoint(Some(device)) => (&mut **device as &mut dyn Any).downcast_mut(),
            _ => None,
        }
    }

    /// Gives an endpoint another device, before time passes. Returns false for other nodes.
    pub fn set_device(&mut self, node: NodeId, mut device: Box<dyn Device>) -> bool {
        let port = self.nodes.get(node.0 as usize).and_then(|node| node.ports.first().copied());
        let Some(port) = port else { return false };
        let NodeState::Endpoint(slot) = &mut self.node_states[node.0 as usize] else {
            return false;
        };
        device.configured(&self.ports[port.0 as usize].config);
        *slot = Some(device);
        true
    }

    /// Runs a command on a device outside simulated time, for commands of a kernel driver that the
    /// model has no registers for; `None` if the device has another type.
    pub fn command<T: 'static, R>(
        &mut self,
        node: NodeId,
        order: impl FnOnce(&mut T, &mut DevicePort<'_>) -> R,
    ) -> Option<R> {
        self.node_states.get(node.0 as usize)?;
        self.with_device(node.0, |device, port| {
            (device as &mut dyn Any).downcast_mut().map(|device| order(device, port))
        })?
    }

    pub(crate) fn generic(&mut self, node: u32) -> Option<&mut GenericEndpoint> {
        self.device_as(NodeId(node))
    }

    /// Gives a new packet its number and its payload.
    #[inline]
    pub(crate) fn inject(
        &mut self,
        mut packet: Packet,
        fill: impl FnOnce(&mut [u8]),
    ) -> PacketIndex {
        let sequence = &mut self.sequences[packet.source as usize];
        *sequence += 1;
        packet.source_sequence = *sequence;
        let index = self.packets.insert(packet);
        fill(self.packets.payload_mut(index));
        index
    }

    /// Checks that the fabric is quiet: no packet left, all credits returned, no event that counts
    /// as work. Returns a sentence for each violation. Behind a link that is down, a device may
    /// hold received requests that it cannot answer, but nothing else.
    pub fn check_quiet(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        if self.events.work() > 0 {
            left.push(format!("{} events wait", self.events.work()));
        }
        let far_ps = self.events.now_ps() + 1_000_000_000_000;
        let roots = 0..self.nodes.len() as u32;
        for root in roots {
            self.with_root(root, |root, fabric| root.settle_memory(fabric, far_ps));
        }
        for index in 0..self.directions.len() as u32 {
            self.settle(index ^ 1, far_ps);
            self.directions[index as usize].take_inbound(u64::MAX, &mut self.acknowledged);
            if !self.directions[index as usize].is_quiet() {
                let (from, to) = self.direction_ends(DirectionId::from_index(index));
                let (from, to) = (&self.port(from).name, &self.port(to).name);
                left.push(format!("{from} to {to}: credits, Acks or TLPs are missing"));
            }
        }
        while let Some(index) = self.acknowledged.pop() {
            self.packets.remove(index);
        }
        if self.packets.live() > 0 {
            left.push(format!("{} TLPs are left over", self.packets.live()));
        }
        left
    }

    /// Brings a wire up to `now_ps`: see [`settle`](crate::receiver::LinkPair::settle).
    #[inline]
    pub(crate) fn settle(&mut self, index: u32, now_ps: u64) {
        if pair(&mut self.directions, index).has_due(now_ps) {
            self.settle_due(index, now_ps);
        }
    }

    fn settle_due(&mut self, index: u32, now_ps: u64) {
        let link = pair(&mut self.directions, index);
        if link.settle(now_ps, &mut self.random, &mut self.trace) {
            self.detect_corrupt_dllp(index);
        }
    }

    /// Records a corrupt DLLP at the receiver of a direction.
    #[cold]
    pub(crate) fn detect_corrupt_dllp(&mut self, index: u32) {
        let port = self.directions[index as usize].receiving_port;
        self.detect(port, DetectedError::Correctable);
    }

    pub(crate) fn set_empty_reason(&mut self, direction: u32, reason: crate::counters::IdleReason) {
        if self.empty_reasons[direction as usize] != reason {
            self.empty_reasons[direction as usize] = reason;
            let now_ps = self.events.now_ps();
            let state = &mut self.directions[direction as usize];
            if state.egress.is_empty() && state.blocked.is_none() {
                state.idle(now_ps, reason);
            }
        }
    }
}

fn limit(value: u32) -> u64 {
    if value == u32::MAX { UNLIMITED } else { u64::from(value) }
}

fn node_state(behaviour: Behaviour) -> NodeState {
    match behaviour {
        Behaviour::RootComplex(parameters) => {
            NodeState::RootComplex(Some(Box::new(RootComplex::new(*parameters))))
        }
        Behaviour::Switch(parameters) => {
            NodeState::Switch { parameters, routes: Routes::default() }
        }
        Behaviour::Generic(parameters) => {
            NodeState::Endpoint(Some(Box::new(GenericEndpoint::new(*parameters))))
        }
        Behaviour::Device(device) => NodeState::Endpoint(Some(device)),
    }
}

fn port_state(id: usize, port: &Port, nodes: &[Node], links: &[Link]) -> PortState {
    let id = PortId(id as u32);
    let ports = &nodes[port.node.0 as usize].ports;
    let mut state = PortState {
        transmit: NONE,
        routing_id: RoutingId::new(0, port.device_number, 0),
        local: ports.iter().position(|other| *other == id).unwrap_or(0) as u32,
        socket: port.socket,
        max_payload_bytes: 0,
        transmit_latency_ps: port.parameters.transmit_latency.0,
        queue_limit_bytes: 0,
        translating: [0; 3],
    };
    if let Some(number) = port.link {
        let link = &links[number.0 as usize];
        let heading = if link.upper == id { LinkDirection::Down } else { LinkDirection::Up };
        state.transmit = DirectionId { link: number, heading }.index();
        let rate = link.parameters.rate;
        let latency = port.parameters.transmit_latency_at(rate.generation);
        state.transmit_latency_ps = latency.0;
        let in_flight = latency.as_seconds() * rate.bytes_per_second();
        let largest = port.config.max_payload_supported_bytes() + 28;
        state.queue_limit_bytes = in_flight as u64 + u64::from(2 * largest);
    }
    state
}
