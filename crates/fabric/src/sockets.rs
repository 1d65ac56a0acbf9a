// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts of several sockets: each root port, each part of memory and each core is at one of them.
//! Between two sockets everything takes a hop, whose bytes per second all share.

use std::ops::Range;

use crosslane_pcie::tlp::{Class, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, HostId};

use crate::completer::{Completer, Pace, Piece};
use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::packet::PacketIndex;
use crate::parameters::{PeerToPeer, RootComplexParameters, SocketParameters};
use crate::root_complex::{Arrival, MMIO_HOLE, OWN_SOURCE, RootComplex};
use crate::topology::PortId;
use crate::wire::WireTime;

/// Most sockets of a host: events have three bits for one.
pub const MAX_SOCKETS: u16 = 8;
/// Position of the number of a socket in the number of an event, above that of a place.
const SOCKET_SHIFT: u32 = 28;
/// Shares of the memory below the hole are multiples of this, bytes: a huge page.
const SHARE_BYTES: u64 = 2 << 20;

/// Number of an event for a place among those of a socket.
pub(crate) const fn with_socket(place: u32, socket: u16) -> u32 {
    place | (socket as u32) << SOCKET_SHIFT
}

/// Place and socket of such a number.
pub(crate) const fn place_and_socket(number: u32) -> (u32, u16) {
    (number & ((1 << SOCKET_SHIFT) - 1), (number >> SOCKET_SHIFT & (MAX_SOCKETS as u32 - 1)) as u16)
}

/// Addresses of a host's memory: from 0 to the hole for 32-bit BARs, and on from 4 GiB. Each socket
/// has an equal part of both, the first socket the lowest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryMap {
    /// Bytes of each socket below the hole and above it.
    low: u64,
    high: u64,
    /// End of all memory below the hole and above it.
    low_end: u64,
    high_end: u64,
}

impl MemoryMap {
    pub fn new(parameters: &RootComplexParameters) -> Self {
        let (bytes, sockets) = (parameters.memory_bytes, u64::from(parameters.socket_count()));
        let room = match sockets {
            1 => MMIO_HOLE.start,
            _ => (MMIO_HOLE.start / sockets) & !(SHARE_BYTES - 1),
        };
        let low = bytes.min(room);
        let high = bytes - low;
        Self { low, high, low_end: low * sockets, high_end: MMIO_HOLE.end + high * sockets }
    }

    /// All ranges, lowest first.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let both = [0..self.low_end, MMIO_HOLE.end..self.high_end];
        both.into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// The ranges of one socket: below the hole, and above it, which may be empty.
    fn of_socket(&self, socket: u16) -> [Range<u64>; 2] {
        let part = |first: u64, bytes: u64| {
            let start = first + bytes * u64::from(socket);
            start..start + bytes
        };
        [part(0, self.low), part(MMIO_HOLE.end, self.high)]
    }

    #[inline]
    pub fn holds(&self, address: u64, bytes: u32) -> bool {
        let end = address.saturating_add(u64::from(bytes));
        match address < MMIO_HOLE.start {
            true => end <= self.low_end,
            false => address >= MMIO_HOLE.end && end <= self.high_end,
        }
    }

    /// The socket whose memory has an address.
    fn socket_of(&self, address: u64) -> u16 {
        let socket = match address < MMIO_HOLE.start {
            true => address / self.low,
            false => (address - MMIO_HOLE.end) / self.high,
        };
        socket as u16
    }
}

/// TLPs that have come to one root port.
#[derive(Clone, Copy, Debug, Default)]
struct AtPort {
    /// Time at which the last posted request arrives at its socket. Nothing behind it may go
    /// earlier (PCIe 6.x 2.4.1); reads pass each other.
    posted_ps: u64,
    /// Number of posted requests that wait.
    posted: u32,
    /// Time at which all writes that have arrived are visible.
    seen_ps: u64,
}

/// A TLP between two sockets, or behind one that is.
#[derive(Clone, Copy)]
enum Crossing {
    /// A TLP from below, with its translated address.
    Inwards(Arrival, BusAddress),
    /// A completion of memory, and the direction that it is to leave by.
    Outwards(PacketIndex, u32),
}

/// The sockets of a host that has several.
pub(crate) struct Sockets {
    parameters: SocketParameters,
    /// Completers of all sockets but the first. The first one's memory has the bytes of all.
    others: Vec<Completer>,
    hop_pace: Pace,
    /// Time at which each hop is free, and each way of peers, from socket to socket.
    hops: Vec<WireTime>,
    peers: Vec<WireTime>,
    /// By the number of the root port.
    ports: Vec<AtPort>,
    crossing: Vec<Option<Crossing>>,
    free: Vec<u32>,
}

impl Sockets {
    pub fn new(parameters: SocketParameters, root: &RootComplexParameters) -> Self {
        let count = usize::from(parameters.count);
        Self {
            parameters,
            others: (1..count)
                .map(|_| Completer::new(root.completer).with_cache(root.cache))
                .collect(),
            hop_pace: Pace::new(parameters.hop.bytes_per_second),
            hops: vec![WireTime::default(); count * count],
            peers: vec![WireTime::default(); count * count],
            ports: Vec::new(),
            crossing: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Completer of a socket other than the first.
    pub fn other(&mut self, socket: u16) -> &mut Completer {
        &mut self.others[usize::from(socket) - 1]
    }

    const fn pair(&self, from: u16, to: u16) -> usize {
        from as usize * self.parameters.count as usize + to as usize
    }

    /// Sends `bytes` from one socket to another. Returns when the last one has left.
    fn hop(&mut self, from: u16, to: u16, at_ps: u64, bytes: u32) -> u64 {
        let ticks = self.hop_pace.ticks(u64::from(bytes));
        let pair = self.pair(from, to);
        let free = self.hops[pair].max(WireTime::at(at_ps)).plus_ticks(ticks);
        self.hops[pair] = free;
        free.ceil_ps()
    }

    fn at_port(&mut self, local: u32) -> &mut AtPort {
        let local = local as usize;
        if local >= self.ports.len() {
            self.ports.resize(local + 1, AtPort::default());
        }
        &mut self.ports[local]
    }

    /// Notes that a write of a root port is in memory at `visible_ps`. Returns when it can be seen:
    /// not before those ahead of it, unless its ordering is relaxed.
    pub fn note_write(&mut self, local: u32, header: &Header, visible_ps: u64) -> u64 {
        let port = self.at_port(local);
        let visible_ps = match header.attributes.relaxed_ordering {
            true => visible_ps,
            false => visible_ps.max(port.seen_ps),
        };
        port.seen_ps = port.seen_ps.max(visible_ps);
        visible_ps
    }

    /// Time at which all writes of a root port are visible.
    pub fn seen_ps(&mut self, local: u32) -> u64 {
        self.at_port(local).seen_ps
    }

    fn put(&mut self, fabric: &mut Fabric, node: u32, time_ps: u64, crossing: Crossing) {
        let place = self.free.pop().unwrap_or(self.crossing.len() as u32);
        if place as usize == self.crossing.len() {
            self.crossing.push(None);
        }
        let there = self.crossing[place as usize].replace(crossing);
        assert!(there.is_none(), "place {place} is given away twice");
        fabric.events.schedule(time_ps, EventKind::Crossed, node, place);
    }

    fn take(&mut self, place: u32) -> Crossing {
        let crossing = self.crossing.get_mut(place as usize).and_then(Option::take);
        let crossing = crossing.unwrap_or_else(|| panic!("nothing crosses at {place}"));
        self.free.push(place);
        crossing
    }

    /// Time at which a peer's TLP may leave by another root port: its payload shares the rate of
    /// that way, or of the pair if it has one, and between sockets the hop's too. `None` if that
    /// is forbidden.
    fn pass_on(
        &mut self,
        own: Option<(PeerToPeer, &mut WireTime)>,
        (from, to): (u16, u16),
        within: PeerToPeer,
        now_ps: u64,
        bytes: u32,
    ) -> Option<u64> {
        let rule = if from == to { within } else { self.parameters.peer_to_peer };
        let rule = own.as_ref().map_or(rule, |(rule, _)| *rule);
        let is_hop = from != to && rule != PeerToPeer::Forbidden;
        let hop_ps = if is_hop { self.hop(from, to, now_ps, bytes) } else { now_ps };
        let pair = self.pair(from, to);
        let free = own.map_or(&mut self.peers[pair], |(_, free)| free);
        Some(passed_on(rule, free, now_ps, bytes)?.max(hop_ps + rule.latency().0))
    }
}

/// Time at which a peer's TLP may leave by a way, whose rate its payload shares; `None` if that is
/// forbidden.
fn passed_on(rule: PeerToPeer, free: &mut WireTime, now_ps: u64, bytes: u32) -> Option<u64> {
    let PeerToPeer::Allowed { latency, bytes_per_second } = rule else { return None };
    let ticks = Pace::new(bytes_per_second).ticks(u64::from(bytes));
    *free = (*free).max(WireTime::at(now_ps)).plus_ticks(ticks);
    Some(free.ceil_ps() + latency.0)
}

/// Pairs of root ports with rules of their own for what passes between them.
#[derive(Debug, Default)]
pub(crate) struct PeerPairs(Vec<PeerPair>);

#[derive(Debug)]
struct PeerPair {
    /// Numbers of the root ports.
    ports: [u32; 2],
    rule: PeerToPeer,
    /// Time at which each way is free: from the first port, and from the second.
    free: [WireTime; 2],
}

impl PeerPairs {
    /// Returns the rule of a pair, if it has one, and the time at which this way is free.
    fn find(&mut self, from: u32, to: u32) -> Option<(PeerToPeer, &mut WireTime)> {
        self.0.iter_mut().find_map(|pair| match pair.ports {
            ports if ports == [from, to] => Some((pair.rule, &mut pair.free[0])),
            ports if ports == [to, from] => Some((pair.rule, &mut pair.free[1])),
            _ => None,
        })
    }

    fn set(&mut self, ports: [u32; 2], rule: PeerToPeer) {
        let [from, to] = ports;
        self.0.retain(|pair| pair.ports != [from, to] && pair.ports != [to, from]);
        self.0.push(PeerPair { ports, rule, free: Default::default() });
    }
}

impl RootComplex {
    /// Lets a TLP wait that has to cross to another socket, or is behind one that does. Returns
    /// false if it goes on at once.
    pub(crate) fn cross(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) -> bool {
        let (map, Some(sockets)) = (self.map, &mut self.sockets) else { return false };
        let state = fabric.port_states[at.port as usize];
        let now_ps = fabric.events.now_ps();
        let is_request = matches!(header.kind, TlpKind::MemoryRead | TlpKind::MemoryWrite);
        let (address, own) = (header.address.0, state.socket);
        let is_memory = is_request && map.holds(address, header.request_bytes());
        let target = if is_memory { map.socket_of(address) } else { own };
        let arrives_ps = match target == own {
            true => now_ps,
            false => {
                let hop_ps = sockets.parameters.hop.latency.0;
                sockets.hop(own, target, now_ps, header.payload_bytes()) + hop_ps
            }
        };
        let is_relaxed = header.attributes.relaxed_ordering;
        let port = sockets.at_port(state.local);
        let ready_ps = if is_relaxed { arrives_ps } else { arrives_ps.max(port.posted_ps) };
        let waits = ready_ps > now_ps || port.posted > 0 && !is_relaxed;
        if header.class() == Class::Posted {
            port.posted_ps = port.posted_ps.max(ready_ps);
            port.posted += u32::from(waits);
        }
        if waits {
            sockets.put(fabric, at.node, ready_ps, Crossing::Inwards(at, header.address));
        }
        waits
    }

    /// Sends a completion of memory to the root port at the end of `direction`: at once, or once it
    /// has crossed from the memory's socket to that of the port.
    pub(crate) fn send_completion(
        &mut self,
        fabric: &mut Fabric,
        (node, direction): (u32, u32),
        index: PacketIndex,
        piece: &Piece,
    ) {
        let (map, is_outside) = (self.map, self.outside.is_some());
        if let Some(sockets) = self.sockets.as_mut().filter(|_| !is_outside) {
            let port = fabric.directions[direction as usize].receiving_port;
            let (own, at_ps) = (
                fabric.port_states[port as usize].socket,
                fabric.events.now_ps().max(piece.ready_ps),
            );
            let from = map.socket_of(piece.memory_address);
            if from != own {
                let hop_ps = sockets.parameters.hop.latency.0;
                let arrives_ps = sockets.hop(from, own, at_ps, piece.bytes) + hop_ps;
                let packet = fabric.packets.get_mut(index);
                packet.ready_ps = packet.ready_ps - piece.ready_ps + arrives_ps;
                let crossing = Crossing::Outwards(index, direction ^ 1);
                return sockets.put(fabric, node, arrives_ps, crossing);
            }
        }
        fabric.enqueue(direction ^ 1, OWN_SOURCE, index);
    }

    /// Time at which a peer's TLP may leave by another root port; `None` if that is forbidden.
    /// Both ends are given by their number and socket.
    pub(crate) fn peer_ready_ps(
        &mut self,
        [from, to]: [(u32, u16); 2],
        now_ps: u64,
        bytes: u32,
    ) -> Option<u64> {
        let own = self.peer_pairs.find(from.0, to.0);
        let within = self.parameters.peer_to_peer;
        match (&mut self.sockets, own) {
            (Some(sockets), own) => sockets.pass_on(own, (from.1, to.1), within, now_ps, bytes),
            (None, Some((rule, free))) => passed_on(rule, free, now_ps, bytes),
            (None, None) => passed_on(within, &mut self.peer_free, now_ps, bytes),
        }
    }

    /// Goes on with a TLP that has come to its socket.
    fn crossed(&mut self, fabric: &mut Fabric, place: u32) {
        let Some(sockets) = &mut self.sockets else { return };
        match sockets.take(place) {
            Crossing::Outwards(index, direction) => fabric.enqueue(direction, OWN_SOURCE, index),
            Crossing::Inwards(at, address) => {
                let header = Header { address, ..fabric.packets.get(at.index).header };
                if header.class() == Class::Posted {
                    let local = fabric.port_states[at.port as usize].local;
                    let posted = &mut sockets.at_port(local).posted;
                    assert!(
                        *posted > 0,
                        "a posted request has crossed, and none waited at {local}"
                    );
                    *posted -= 1;
                }
                self.take(fabric, at, &header);
            }
        }
    }

    /// The completer of the memory at an address, with the number of its socket.
    #[inline]
    pub(crate) fn completer_at(&mut self, address: u64) -> (&mut Completer, u16) {
        let socket = match &self.sockets {
            None => return (&mut self.completer, 0),
            Some(_) if self.outside.is_some() => 0,
            Some(_) => self.map.socket_of(address),
        };
        (self.completer_of(socket), socket)
    }

    #[inline]
    pub(crate) fn completer_of(&mut self, socket: u16) -> &mut Completer {
        match &mut self.sockets {
            Some(sockets) if socket > 0 => sockets.other(socket),
            _ => &mut self.completer,
        }
    }
}

impl Fabric {
    pub(crate) fn root_crossed(&mut self, node: u32, place: u32) {
        self.with_root(node, |root, fabric| root.crossed(fabric, place));
    }

    /// Sets the rule for what passes between two root ports of a host, each way at its own rate, in
    /// place of the host's. Between sockets the payload takes its share of the hop too, and the
    /// latency is all of it.
    ///
    /// # Panics
    /// If the ports are not two root ports of one host.
    pub fn set_peers(&mut self, [first, second]: [PortId; 2], rule: PeerToPeer) {
        let node = self.port(first).node;
        assert!(first != second && node == self.port(second).node, "a pair is of one host");
        let ports = [first, second].map(|port| self.port_states[port.0 as usize].local);
        let set = |root: &mut RootComplex, _: &mut Self| root.peer_pairs.set(ports, rule);
        assert!(self.with_root(node.0, set).is_some(), "a pair is of root ports");
    }

    /// Returns the rule for what comes in at one root port and leaves by another; `None` if they
    /// are not root ports of one host.
    pub fn peers(&mut self, from: PortId, to: PortId) -> Option<PeerToPeer> {
        let node = self.port(from).node;
        let [from, to] = [from, to].map(|port| &self.port_states[port.0 as usize]);
        let (numbers, is_one_socket) = ([from.local, to.local], from.socket == to.socket);
        let of = |root: &mut RootComplex, _: &mut Self| {
            let own = root.peer_pairs.find(numbers[0], numbers[1]).map(|(rule, _)| rule);
            own.unwrap_or(match &root.parameters.sockets {
                Some(sockets) if !is_one_socket => sockets.peer_to_peer,
                _ => root.parameters.peer_to_peer,
            })
        };
        self.with_root(node.0, of)
    }

    /// Returns the memory of each socket of a host: below 4 GiB, and above, which may be empty; for
    /// an unknown host nothing.
    pub fn socket_memory(&mut self, host: HostId) -> Vec<[Range<u64>; 2]> {
        let Some(node) = self.root(host) else { return Vec::new() };
        let of = |root: &mut RootComplex, _: &mut Self| {
            let count = root.parameters.socket_count();
            (0..count).map(|socket| root.map.of_socket(socket)).collect()
        };
        self.with_root(node, of).unwrap_or_default()
    }

    /// Returns the socket whose memory has an address of a host; `None` if it is not memory.
    pub fn socket_of(&mut self, host: HostId, address: BusAddress) -> Option<u16> {
        let node = self.root(host)?;
        let of = |root: &mut RootComplex, _: &mut Self| {
            root.map.holds(address.0, 1).then(|| root.map.socket_of(address.0))
        };
        self.with_root(node, of)?
    }
}
