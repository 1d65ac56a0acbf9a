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

/// Addresses that have the same route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: u64,
    last: u64,
    /// Index of the port; [`NONE`] for no port of this node.
    port: u32,
}

impl Stretch {
    /// All addresses in order, from first address, last address and port of each window. Of several
    /// windows that have an address, the one counts that begins last.
    fn all(mut windows: Vec<(u64, u64, u32)>) -> Vec<Self> {
        windows.sort_unstable();
        let mut all = Vec::new();
        let mut first = Some(0);
        for (at, (begin, end, port)) in windows.iter().copied().enumerate() {
            let next = windows.get(at + 1).map_or(u64::MAX, |next| next.0);
            if next == begin && at + 1 < windows.len() {
                continue;
            }
            if let Some(first) = first.filter(|first| *first < begin) {
                all.push(Self { first, last: begin - 1, port: NONE });
            }
            let last = if at + 1 < windows.len() { end.min(next - 1) } else { end };
            if last >= begin {
                all.push(Self { first: begin, last, port });
            }
            first = last.checked_add(1);
        }
        all.extend(first.map(|first| Self { first, last: u64::MAX, port: NONE }));
        all
    }
}

/// Routes of a switch or a root complex: by address and by bus number, and ACS redirection.
/// They are computed from configuration space after each write to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// All addresses in order, those of no port too.
    stretches: Vec<Stretch>,
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
        let mut windows = Vec::new();
        for (at, id) in node.ports.iter().enumerate() {
            let config = &ports[id.0 as usize].config;
            let bit = 1 << at;
            match config.port_type() {
                PortType::UpstreamPort => routes.upstream = Some(at as u32),
                PortType::Endpoint => {}
                PortType::RootPort | PortType::DownstreamPort => {
                    if config.memory_enabled() {
                        let both = [config.memory_window(), config.prefetchable_window()];
                        for window in both.into_iter().flatten() {
                            windows.push((*window.start(), *window.end(), at as u32));
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
        routes.stretches = Stretch::all(windows);
        routes
    }

    /// Returns the port with an address. `found` is the place of the stretch that was found last,
    /// where it is looked for first.
    #[inline]
    fn port_at(&self, address: u64, found: &mut u32) -> Option<u32> {
        let port = match self.stretches.get(*found as usize) {
            Some(stretch) if (stretch.first..=stretch.last).contains(&address) => stretch.port,
            _ => self.find(address, found),
        };
        (port != NONE).then_some(port)
    }

    /// Looks for the stretch of an address among all of them.
    #[inline(never)]
    fn find(&self, address: u64, found: &mut u32) -> u32 {
        let behind = self.stretches.partition_point(|stretch| stretch.first <= address);
        *found = behind.saturating_sub(1) as u32;
        self.stretches.get(*found as usize).map_or(NONE, |stretch| stretch.port)
    }

    /// Returns the route of a TLP that arrived at `ingress` (`None`: sent by this node). `found` is
    /// a place to begin with, which any place may be: it is left at the stretch of its address.
    #[inline]
    pub fn route(&self, header: &Header, ingress: Option<u32>, found: &mut u32) -> Route {
        let target = if header.kind.is_routed_by_address() {
            self.port_at(header.address.0, found)
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
    #[inline(never)]
    pub(crate) fn arrive(&mut self, direction: u32, index: PacketIndex) {
        if self.directions[direction as usize].disturbance.is_some() {
            self.arrive_disturbed(direction, index);
        } else {
            self.take_arrival(direction, index);
        }
    }

    /// Processes a TLP that has arrived.
    #[inline(always)]
    pub(crate) fn take_arrival(&mut self, direction: u32, index: PacketIndex) {
        let state = &mut self.directions[direction as usize];
        let (port, node) = (state.receiving_port, state.receiving_node);
        if self.packets.get(index).payload_bytes() > state.receiver.max_payload_bytes {
            self.refuse_payload(direction, index);
            return;
        }
        match &self.node_states[node as usize] {
            NodeState::Switch { parameters, routes } => {
                let (latency_ps, place) = (parameters.latency.0, state.receiving_place);
                let header = &self.packets.get(index).header;
                let target = match routes.route(header, Some(place), &mut state.route_found) {
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
        let state = &mut self.directions[out as usize];
        let packet = self.packets.get_mut(index);
        let duration_ps = u64::from(packet.wire_bytes) * state.wire.byte_ticks / TICKS_PER_PS;
        let tail_ps = packet.tail_ps.max(through_ps);
        let by_tail_ps = (tail_ps + latency_ps).saturating_sub(duration_ps);
        packet.ready_ps = (self.events.now_ps() + latency_ps).max(by_tail_ps);
        if state.disturbance.is_some() {
            self.enqueue_disturbed(out, place, index);
        } else if state.enqueue(&mut self.packets, &mut self.events, place, index) {
            self.lose_queued(out);
        }
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
    #[inline(never)]
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each address has the port of the window that begins last of those at or before it, if it
        /// is in that window, wherever the search begins.
        #[test]
        fn stretches_are_the_windows(
            windows in prop::collection::vec((0u64..40, 0u64..12), 0..8),
            hints in prop::collection::vec(0u32..20, 50),
            end in any::<bool>(),
        ) {
            let to_end = |last: u64| if end && last > 39 { u64::MAX } else { last };
            let window =
                |(port, (at, size)): (u32, (u64, u64))| (at, to_end(at + size), port);
            let windows: Vec<(u64, u64, u32)> = (0u32..).zip(windows).map(window).collect();
            let mut sorted = windows.clone();
            sorted.sort_unstable();
            let routes = Routes { stretches: Stretch::all(windows), ..Routes::default() };
            for (address, hint) in (0u64..).zip(hints).chain([(u64::MAX, 3)]) {
                let last = sorted.iter().rfind(|window| window.0 <= address);
                let port = last.filter(|window| address <= window.1).map(|window| window.2);
                let mut found = hint;
                prop_assert_eq!(routes.port_at(address, &mut found), port);
                prop_assert_eq!(routes.port_at(address, &mut found), port);
            }
        }
    }
}
