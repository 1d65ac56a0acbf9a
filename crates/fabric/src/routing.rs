// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes of a node, and the path of a TLP that has arrived: checks at the port, then through a
//! switch or to a root complex or device.

use crosslane_pcie::config::PortType;
use crosslane_pcie::link::TICKS_PER_PS;
use crosslane_pcie::tlp::{Class, CompletionStatus, Header};

use crate::device::{Consumed, Received};
use crate::errors::ErrorKind;
use crate::fabric::{Fabric, NodeState};
use crate::packet::{NONE, Packet, PacketIndex};
use crate::topology::{Node, Port, PortId};
use crate::trace::HeaderLine;

/// Marks a bus number without a port.
const NOWHERE: u8 = u8::MAX;

/// Next hop of a TLP in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Out of the port with this index.
    Port(u32),
    /// Towards the root complex (in a root complex: for the root complex itself).
    Up,
}

/// Routes of a switch or a root complex: by address and by bus number, and ACS redirection.
/// They are computed from configuration space after each write to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// First address, last address and port index, sorted by first address.
    ranges: Vec<(u64, u64, u32)>,
    /// Port index for each bus number.
    buses: Vec<u8>,
    /// Direction that each port sends on; [`NONE`] without a link.
    pub transmits: Vec<u32>,
    /// Index of the upstream port (switches).
    pub upstream: Option<u32>,
    redirect_requests: u64,
    redirect_completions: u64,
}

impl Routes {
    pub fn new(node: &Node, ports: &[Port]) -> Self {
        let ports_here = node.ports.len();
        assert!(ports_here <= u64::BITS as usize, "{ports_here} ports, and a bit for each of 64");
        let mut routes = Self { buses: vec![NOWHERE; 256], ..Self::default() };
        for (at, id) in node.ports.iter().enumerate() {
            let config = &ports[id.0 as usize].config;
            let bit = 1 << at;
            match config.port_type() {
                PortType::UpstreamPort => routes.upstream = Some(at as u32),
                PortType::Endpoint => {}
                PortType::RootPort | PortType::DownstreamPort => {
                    if config.memory_enabled() {
                        let windows = [config.memory_window(), config.prefetchable_window()];
                        for window in windows.into_iter().flatten() {
                            routes.ranges.push((*window.start(), *window.end(), at as u32));
                        }
                    }
                    if config.secondary_bus() > 0 {
                        for bus in config.secondary_bus()..=config.subordinate_bus() {
                            routes.buses[usize::from(bus)] = at as u8;
                        }
                    }
                    routes.redirect_requests |= if config.acs_request_redirect() { bit } else { 0 };
                    routes.redirect_completions |=
                        if config.acs_completion_redirect() { bit } else { 0 };
                }
            }
        }
        routes.ranges.sort_unstable();
        routes
    }

    /// Returns the route of a TLP that arrived at `ingress` (`None`: sent by this node).
    #[inline]
    pub fn route(&self, header: &Header, ingress: Option<u32>) -> Route {
        let target = if header.kind.is_routed_by_address() {
            let address = header.address.0;
            let behind = self.ranges.partition_point(|range| range.0 <= address);
            self.ranges[..behind].last().filter(|range| address <= range.1).map(|range| range.2)
        } else {
            let bus = header.requester.bus();
            self.buses.get(usize::from(bus)).filter(|at| **at != NOWHERE).map(|at| u32::from(*at))
        };
        let Some(target) = target else { return Route::Up };
        if let Some(ingress) = ingress
            && self.upstream.is_some()
            && Some(ingress) != self.upstream
        {
            let redirected = match header.class() {
                Class::Completion => self.redirect_completions,
                _ => self.redirect_requests,
            };
            if redirected & (1 << ingress) != 0 {
                return Route::Up;
            }
        }
        Route::Port(target)
    }
}

impl Fabric {
    /// Handles a TLP at the receiving port of a direction, clean and in order: at a cut-through
    /// switch once its header has arrived, elsewhere once it is complete.
    pub(crate) fn arrive(&mut self, direction: u32, index: PacketIndex) {
        if self.directions[direction as usize].disturbance.is_some() {
            self.arrive_disturbed(direction, index);
        } else {
            self.take_arrival(direction, index);
        }
    }

    /// Processes a TLP that has arrived.
    #[inline]
    pub(crate) fn take_arrival(&mut self, direction: u32, index: PacketIndex) {
        let state = &self.directions[direction as usize];
        let (port, node) = (state.receiving_port, state.receiving_node);
        if self.packets.get(index).payload_bytes() > state.receiver.max_payload_bytes {
            self.refuse_payload(direction, index);
            return;
        }
        match &self.node_states[node as usize] {
            NodeState::Switch { parameters, routes } => {
                let (latency_ps, place) = (parameters.latency.0, state.receiving_place);
                let header = &self.packets.get(index).header;
                let target = match routes.route(header, Some(place)) {
                    Route::Port(target) if target != place => Some(target),
                    Route::Up if routes.upstream != Some(place) => routes.upstream,
                    _ => None,
                };
                let out = target.and_then(|target| routes.transmits.get(target as usize));
                let Some(out) = out.copied().filter(|out| *out != NONE) else {
                    self.refuse(port, direction, index, latency_ps);
                    return;
                };
                if self.has_flits {
                    self.frame(out, index);
                }
                if !self.crossbars.is_empty() && self.enter_crossbar(node, place, out, index) {
                    return;
                }
                self.forward(out, place, index, (latency_ps, 0));
            }
            NodeState::RootComplex(_) => {
                self.check_order(port, node, index);
                self.root_receive(node, direction, index);
            }
            NodeState::Endpoint(_) => self.deliver(direction, port, node, index),
        }
    }

    /// Passes a TLP from the port at `place` of a switch on to direction `out`. Its last byte is
    /// through the crossbar, if there is one, at `through_ps`.
    ///
    /// Cut-through must not run out of bytes on a faster link, so it begins late enough that the
    /// last byte leaves no earlier than this switch's latency after it arrived.
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        out: u32,
        place: u32,
        index: PacketIndex,
        (latency_ps, through_ps): (u64, u64),
    ) {
        let byte_ticks = self.directions[out as usize].wire.byte_ticks;
        let packet = self.packets.get_mut(index);
        let duration_ps = u64::from(packet.wire_bytes) * byte_ticks / TICKS_PER_PS;
        let tail_ps = packet.tail_ps.max(through_ps);
        let by_tail_ps = (tail_ps + latency_ps).saturating_sub(duration_ps);
        packet.ready_ps = (self.events.now_ps() + latency_ps).max(by_tail_ps);
        self.enqueue(out, place, index);
    }

    /// Reports a TLP with more data than its receiver may take, and drops it.
    #[cold]
    fn refuse_payload(&mut self, direction: u32, index: PacketIndex) {
        let receiver = &self.directions[direction as usize];
        let (port, max_payload_bytes) =
            (receiver.receiving_port, receiver.receiver.max_payload_bytes);
        let packet = self.packets.get(index);
        let error = ErrorKind::PayloadTooLarge {
            payload_bytes: packet.payload_bytes(),
            max_payload_bytes,
            what: HeaderLine(&packet.header).to_string(),
        };
        self.report(port, error);
        self.drop_received(direction, index);
    }

    /// Refuses a TLP that routes nowhere: reports an error, and answers a non-posted request with
    /// Unsupported Request.
    pub(crate) fn refuse(
        &mut self,
        port: u32,
        direction: u32,
        index: PacketIndex,
        latency_ps: u64,
    ) {
        let header = self.packets.get(index).header;
        let what = HeaderLine(&header).to_string();
        let kind = if header.class() == Class::Completion {
            ErrorKind::UnexpectedCompletion { what }
        } else {
            ErrorKind::Unrouted { what, address: header.address }
        };
        self.report_request(port, kind, header.class());
        self.answer_unsupported(port, direction, &header, latency_ps);
        self.drop_received(direction, index);
    }

    /// Sends the completion that refuses a non-posted request back towards its requester.
    pub(crate) fn answer_unsupported(
        &mut self,
        port: u32,
        direction: u32,
        header: &Header,
        latency_ps: u64,
    ) {
        if header.class() != Class::NonPosted {
            return;
        }
        let completer = self.routing_id(PortId(port));
        let status = CompletionStatus::UnsupportedRequest;
        let answer = Header::completion_error(header, completer, status);
        let node = self.directions[direction as usize].receiving_node;
        let mut packet = Packet::new(answer, node);
        packet.ready_ps = self.events.now_ps() + latency_ps;
        let answer = self.inject(packet, |_| {});
        // A switch answers from the port itself, a root complex from its memory.
        let source = match &self.node_states[node as usize] {
            NodeState::Switch { .. } => self.port_states[port as usize].local,
            _ => 0,
        };
        self.enqueue(direction ^ 1, source, answer);
    }

    /// Drops a received TLP and frees its buffer.
    pub(crate) fn drop_received(&mut self, direction: u32, index: PacketIndex) {
        let packet = self.packets.get(index);
        let (class, data, tail_ps) = (packet.class(), packet.held_data, packet.tail_ps);
        let time_ps = tail_ps.max(self.events.now_ps());
        self.packets.remove(index);
        self.release(direction, time_ps, class, data);
    }

    pub(crate) fn check_order(&mut self, port: u32, node: u32, index: PacketIndex) {
        let packet = self.packets.get(index);
        let (source, sequence) = (packet.source, packet.source_sequence);
        if let Some(what) = self.ordering.arrive(node, source, sequence, &packet.header) {
            self.report(port, ErrorKind::Ordering { what });
        }
    }

    /// Hands a TLP to the device of an endpoint.
    fn deliver(&mut self, direction: u32, port: u32, node: u32, index: PacketIndex) {
        self.check_order(port, node, index);
        let packet = self.packets.get(index);
        let (class, data) = (packet.class(), packet.data_credits);
        let received = Received { index, direction };
        self.directions[direction as usize].receiver.hold(class, data);
        let consumed = self.with_device(node, |device, port| device.receive(received, port));
        self.packets.remove(index);
        let time_ps = match consumed {
            Some(Consumed::At(time)) => time.0,
            Some(Consumed::Held) => return,
            Some(Consumed::Now) | None => self.events.now_ps(),
        };
        self.directions[direction as usize].receiver.let_go(class, data);
        self.release(direction, time_ps, class, data);
    }
}
