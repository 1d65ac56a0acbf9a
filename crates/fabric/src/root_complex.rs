// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root complex: memory behind it, transfers between root ports, and interrupts. Its cores are in
//! `processor`.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

use crate::completer::{Completer, Piece, Read};
use crate::cpu::{INTERRUPT_ADDRESSES, Interrupt, MAX_INTERRUPTS};
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::{Fabric, PortState};
use crate::injection::garble;
use crate::memory_fault::{Answer, MemoryFaults, answer};
use crate::outside::Outside;
use crate::packet::{NONE, Packet, PacketIndex};
use crate::parameters::RootComplexParameters;
use crate::peer_reads::PeerReads;
use crate::processor::Processor;
use crate::routing::{Route, Routes};
use crate::sockets::{MemoryMap, PeerPairs, Sockets, place_and_socket, with_socket};
use crate::topology::NodeId;
use crate::trace::HeaderLine;
use crate::translation::Translation;
use crate::wire::WireTime;

/// Bus addresses that are never memory: room for 32-bit BARs, interrupts and firmware. Memory
/// beyond its start continues above 4 GiB.
pub const MMIO_HOLE: Range<u64> = 0x8000_0000..0x1_0000_0000;
/// Routing ID of the root complex itself, for requests of its cores.
pub(crate) const OWN_ID: RoutingId = RoutingId(0);
/// First source of a root port's queues: the root complex itself. Peer ports follow.
pub(crate) const OWN_SOURCE: u32 = 0;
/// Offset that marks the index of a late read where an event carries a read slot.
const LATE: u32 = 1 << 31;

pub(crate) struct RootComplex {
    pub parameters: RootComplexParameters,
    /// Addresses of the memory.
    pub map: MemoryMap,
    /// Completer of the memory, or of the first socket's; it keeps the bytes of all sockets.
    pub completer: Completer,
    /// Of a host of several sockets.
    pub sockets: Option<Box<Sockets>>,
    pub routes: Routes,
    /// Writes that have arrived but are not visible yet, in order: time and packet.
    unseen: VecDeque<(u64, PacketIndex)>,
    /// Completions of the read being finished.
    pieces: Vec<Piece>,
    /// Pieces of the TLP being cut, but for the last one.
    cut: Vec<PacketIndex>,
    /// Ranges of memory with injected faults.
    pub faults: MemoryFaults,
    /// Memory of another program that replaces the completer's.
    pub outside: Option<Outside>,
    /// Reads of peers, if they are cut.
    pub peer_reads: Option<Box<PeerReads>>,
    /// Translation of device requests by each socket; empty without an IOMMU.
    pub translations: Vec<Translation>,
    /// Rest of each read delayed by a fault: direction that it came from, and completions.
    late: Vec<Option<(u32, Vec<Piece>)>>,
    pub processor: Processor,
    pub peer_free: WireTime,
    pub peer_pairs: PeerPairs,
    interrupts: Vec<Interrupt>,
    interrupt_count: u64,
    /// Time at which the handler of the last interrupt begins.
    interrupts_free: Picoseconds,
}

/// A TLP at a root port: node, direction of arrival, root port.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub node: u32,
    pub direction: u32,
    pub port: u32,
    pub index: PacketIndex,
}

/// Addresses that a request asks for.
fn requested(header: &Header) -> Range<u64> {
    header.address.0..header.address.0 + u64::from(header.request_bytes())
}

/// Puts something into the first free place. Returns the place.
pub(crate) fn put<T>(places: &mut Vec<Option<T>>, thing: T) -> u32 {
    let place = places.iter().position(Option::is_none).unwrap_or(places.len());
    if place == places.len() {
        places.push(None);
    }
    places[place] = Some(thing);
    place as u32
}

impl RootComplex {
    pub fn new(parameters: RootComplexParameters) -> Self {
        let iommus = (0..parameters.socket_count()).filter_map(|_| parameters.iommu);
        let sockets = parameters.sockets.map(|sockets| Sockets::new(sockets, &parameters));
        Self {
            map: MemoryMap::new(&parameters),
            completer: Completer::new(parameters.completer).with_cache(parameters.cache),
            sockets: sockets.map(Box::new),
            processor: Processor::new(parameters.cpu, parameters.sockets.as_ref()),
            translations: iommus.map(Translation::new).collect(),
            peer_reads: parameters.peer_reads.map(|reads| Box::new(PeerReads::new(reads))),
            parameters,
            routes: Routes::default(),
            unseen: VecDeque::new(),
            pieces: Vec::new(),
            cut: Vec::new(),
            faults: MemoryFaults::default(),
            outside: None,
            late: Vec::new(),
            peer_free: WireTime::default(),
            peer_pairs: PeerPairs::default(),
            interrupts: Vec::new(),
            interrupt_count: 0,
            interrupts_free: Picoseconds::ZERO,
        }
    }

    /// Whether a request goes to memory behind the root complex.
    fn reaches_memory(&mut self, header: &Header) -> bool {
        match &mut self.outside {
            Some(outside) => outside.covers(header, header.kind == TlpKind::MemoryWrite),
            None => self.map.holds(header.address.0, header.request_bytes()),
        }
    }

    /// Whether a write ends here: in memory, or as an interrupt.
    fn keeps(&mut self, header: &Header) -> bool {
        self.reaches_memory(header) || INTERRUPT_ADDRESSES.contains(&header.address.0)
    }

    /// Applies to memory the writes visible by `now`.
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

    /// Processes an arrived TLP with its translated address.
    pub fn receive(&mut self, fabric: &mut Fabric, at: Arrival, address: BusAddress) {
        let header = Header { address, ..fabric.packets.get(at.index).header };
        if self.sockets.is_some() && self.outside.is_none() && self.cross(fabric, at, &header) {
            return;
        }
        self.take(fabric, at, &header);
    }

    /// Processes a TLP with its translated address at the socket that it goes to.
    #[inline]
    pub fn take(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        match header.kind {
            TlpKind::MemoryWrite if header.poisoned && self.keeps(header) => {
                let what = HeaderLine(header).to_string();
                fabric.report(at.port, ErrorKind::PoisonedWrite { what });
                fabric.drop_received(at.direction, at.index);
            }
            TlpKind::MemoryWrite if self.reaches_memory(header) => {
                self.take_write(fabric, at, header);
            }
            TlpKind::MemoryRead if self.reaches_memory(header) => {
                self.take_read(fabric, at, header);
            }
            TlpKind::Completion | TlpKind::CompletionData if header.requester == OWN_ID => {
                let seen_ps = self.all_seen_ps(fabric, at.port);
                self.processor.take_completion(fabric, &at, header, seen_ps);
            }
            TlpKind::Completion | TlpKind::CompletionData
                if self.peer_reads.is_some() && header.requester.bus() == OWN_ID.bus() =>
            {
                self.take_part(fabric, at, header);
            }
            TlpKind::MemoryWrite if INTERRUPT_ADDRESSES.contains(&header.address.0) => {
                self.take_interrupt(fabric, at);
            }
            TlpKind::MemoryWrite
            | TlpKind::MemoryRead
            | TlpKind::Completion
            | TlpKind::CompletionData => self.pass_on(fabric, at, header),
            TlpKind::Message | TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => {
                fabric.drop_received(at.direction, at.index);
            }
        }
    }

    fn take_write(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        if self.outside.is_some() {
            return self.write_outside(fabric, at, header);
        }
        let now_ps = fabric.events.now_ps();
        self.settle_memory(fabric, now_ps);
        let bytes = header.request_bytes();
        let mut times =
            self.completer_at(header.address.0).0.write(now_ps, header.address.0, bytes);
        if let Some(sockets) = &mut self.sockets {
            let local = fabric.port_states[at.port as usize].local;
            times.visible_ps = sockets.note_write(local, header, times.visible_ps);
        }
        let last_ps = self.unseen.back().map_or(0, |(visible_ps, _)| *visible_ps);
        let visible_ps = times.visible_ps;
        if visible_ps >= last_ps {
            self.unseen.push_back((visible_ps, at.index));
        } else {
            // Only the memories of several sockets are slow one beside the other.
            let several = self.sockets.is_some();
            assert!(several, "a write is seen at {visible_ps} ps, before {last_ps} ps");
            let place = self.unseen.partition_point(|(seen_ps, _)| *seen_ps <= visible_ps);
            self.unseen.insert(place, (visible_ps, at.index));
        }
        if fabric.host.is_watching() {
            fabric.host.note_write(at.node, header.address.0, bytes, times.visible_ps);
        }
        let packet = fabric.packets.get(at.index);
        let (class, data) = (packet.class(), packet.data_credits);
        fabric.release(at.direction, times.drained_ps, class, data);
        if let Err(what) = fabric.written(at.index, bytes, times.visible_ps) {
            fabric.report(at.port, ErrorKind::WrongData { what });
        }
        // From here on the TLP carries its offset in memory.
        fabric.packets.get_mut(at.index).header.address = header.address;
    }

    /// Times at which pending writes that touch a range become visible, in order.
    fn unseen_writes(
        &self,
        fabric: &Fabric,
        range: &Range<u64>,
    ) -> impl DoubleEndedIterator<Item = u64> {
        let touching = self.unseen.iter().filter(|(_, index)| {
            let written = requested(&fabric.packets.get(*index).header);
            written.start < range.end && range.start < written.end
        });
        touching.map(|(visible_ps, _)| *visible_ps)
    }

    /// Time at which the first pending write that touches a range becomes visible.
    pub fn unseen_in(&self, fabric: &Fabric, now_ps: u64, range: &Range<u64>) -> Option<u64> {
        self.unseen_writes(fabric, range).find(|visible_ps| *visible_ps > now_ps)
    }

    /// Time at which the cache has every arrived write to the bytes of a read.
    fn cached_ps(&self, fabric: &Fabric, now_ps: u64, read: &Header) -> u64 {
        let last = self.unseen_writes(fabric, &requested(read)).next_back();
        last.map_or(now_ps, |visible_ps| now_ps.max(visible_ps))
    }

    pub const fn has_cache(&self) -> bool {
        self.parameters.cache.is_some()
    }

    /// Notes what a program on the host has written, without taking time.
    pub fn note_host_write(&mut self, address: u64, bytes: u64) {
        if let Some(cache) = self.completer_at(address).0.cache() {
            cache.fill(address, bytes);
        }
    }

    /// Time at which all writes are visible that have arrived, of several sockets by a root port.
    fn all_seen_ps(&mut self, fabric: &Fabric, port: u32) -> u64 {
        let now_ps = fabric.events.now_ps();
        if let Some(sockets) = &mut self.sockets {
            return now_ps.max(sockets.seen_ps(fabric.port_states[port as usize].local));
        }
        self.unseen.back().map_or(now_ps, |(visible_ps, _)| now_ps.max(*visible_ps))
    }

    /// Accepts an interrupt message. It is a posted write, so its handler begins once all earlier
    /// writes are visible.
    fn take_interrupt(&mut self, fabric: &mut Fabric, at: Arrival) {
        let now_ps = fabric.events.now_ps();
        let data = fabric.packets.payload(at.index).first_chunk().copied();
        let data = u32::from_le_bytes(data.unwrap_or_default());
        let seen_ps = self.all_seen_ps(fabric, at.port);
        let cpu = &self.parameters.cpu;
        let free = if cpu.interrupts_in_turn { self.interrupts_free } else { Picoseconds::ZERO };
        let handled = Picoseconds(seen_ps).max(free) + cpu.interrupt;
        self.interrupts_free = handled;
        fabric.host.put_interrupt(handled.0, NodeId(at.node), data);
        self.interrupt_count += 1;
        if self.interrupts.len() < MAX_INTERRUPTS {
            let arrived = Picoseconds(now_ps);
            self.interrupts.push(Interrupt { data, arrived, handled });
        }
        fabric.drop_received(at.direction, at.index);
    }

    pub fn interrupts(&self) -> (Vec<Interrupt>, u64) {
        (self.interrupts.clone(), self.interrupt_count)
    }

    fn take_read(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let read = Read { header: *header, memory_address: header.address.0, origin: at.direction };
        let now_ps = fabric.events.now_ps();
        fabric.packets.remove(at.index);
        let begin_ps = match self.has_cache() {
            true => self.cached_ps(fabric, now_ps, header),
            false => now_ps,
        };
        let (completer, socket) = self.completer_at(header.address.0);
        if let Some((slot, ready_ps)) = completer.read(begin_ps, read, &mut fabric.random) {
            let ready_ps = self.behind_writes(fabric, &read, ready_ps);
            let place = with_socket(slot, socket);
            fabric.events.schedule(ready_ps, EventKind::ReadReady, at.node, place);
            fabric.release(at.direction, now_ps, header.class(), 0);
        }
    }

    /// Time at which a read may have its data, which are there at `ready_ps`: it does not pass the
    /// writes of its root port to the memory of other sockets either.
    fn behind_writes(&mut self, fabric: &Fabric, read: &Read, ready_ps: u64) -> u64 {
        match &mut self.sockets {
            Some(sockets) if !read.header.attributes.relaxed_ordering => {
                let port = fabric.directions[read.origin as usize].receiving_port;
                ready_ps.max(sockets.seen_ps(fabric.port_states[port as usize].local))
            }
            _ => ready_ps,
        }
    }

    fn read_ready(&mut self, fabric: &mut Fabric, node: u32, slot: u32) {
        let now_ps = fabric.events.now_ps();
        self.settle_memory(fabric, now_ps);
        if slot >= LATE {
            let place = self.late.get_mut((slot - LATE) as usize);
            let late = place.and_then(Option::take);
            let (direction, pieces) =
                late.unwrap_or_else(|| panic!("no read is late as {slot:#x}"));
            self.answer(fabric, node, direction, pieces.into_iter(), true);
            return;
        }
        let (slot, socket) = place_and_socket(slot);
        // The root port that sends the completions limits their length.
        let direction = self.completer_of(socket).origin(slot);
        let direction = direction.unwrap_or_else(|| panic!("no read is in slot {slot}"));
        let port = fabric.directions[direction as usize].receiving_port;
        let state = fabric.port_states[port as usize];
        let random = fabric.shuffle.then_some(&mut fabric.random);
        let (most, mut pieces) = (state.max_payload_bytes, std::mem::take(&mut self.pieces));
        self.completer_of(socket).finish(slot, now_ps, OWN_ID, most, random, &mut pieces);
        self.answer(fabric, node, direction, pieces.drain(..), false);
        self.pieces = pieces;
        let completer = self.completer_of(socket);
        if let Some((read, slot, ready_ps)) = completer.start_waiting(now_ps, &mut fabric.random) {
            let ready_ps = self.behind_writes(fabric, &read, ready_ps);
            fabric.release(read.origin, now_ps, read.header.class(), 0);
            let place = with_socket(slot, socket);
            fabric.events.schedule(ready_ps, EventKind::ReadReady, node, place);
        }
    }

    /// Sends the completions of a read, with any faults of the memory; `is_late` if a fault has
    /// delayed them already.
    fn answer(
        &mut self,
        fabric: &mut Fabric,
        node: u32,
        direction: u32,
        mut pieces: impl Iterator<Item = Piece>,
        is_late: bool,
    ) {
        let port = fabric.directions[direction as usize].receiving_port;
        let latency_ps = fabric.port_states[port as usize].transmit_latency_ps;
        while let Some(piece) = pieces.next() {
            let fault = self.faults.at(piece.memory_address, piece.bytes);
            let fault = self.fetch_outside(fabric, port, &piece).or(fault);
            let (header, is_end) = match answer(fault, &piece.header) {
                Answer::Data(header) => (header, false),
                Answer::End(header) => (header, true),
                Answer::Nothing => return,
                Answer::Later(_) if is_late => (piece.header, false),
                Answer::Later(by_ps) => {
                    let rest = std::iter::once(piece).chain(pieces).collect();
                    self.put_off(fabric, node, (direction, rest), by_ps);
                    return;
                }
            };
            let mut packet = Packet::new(header, node);
            packet.ready_ps = piece.ready_ps + latency_ps;
            let (memory, outside) = (&self.completer.memory, &self.outside);
            let skip = (header.address.0 & 3) as usize;
            let index = fabric.inject(packet, |payload| {
                let room = payload.len();
                let place = payload.get_mut(skip..skip + piece.bytes as usize);
                assert!(place.is_some() || is_end, "{} B from {skip} on in {room} B", piece.bytes);
                if let Some(place) = place {
                    match outside {
                        Some(outside) => place.copy_from_slice(&outside.data),
                        None => memory.read(piece.memory_address, place),
                    }
                }
                if header.poisoned {
                    garble(payload);
                }
            });
            self.send_completion(fabric, (node, direction), index, &piece);
            if is_end {
                return;
            }
        }
    }

    /// Keeps the rest of a delayed read until its time comes.
    fn put_off(&mut self, fabric: &mut Fabric, node: u32, rest: (u32, Vec<Piece>), by_ps: u64) {
        assert!(!rest.1.is_empty(), "a read is put off by {by_ps} ps with nothing left of it");
        let ready_ps = rest.1[0].ready_ps.saturating_add(by_ps);
        let free = put(&mut self.late, rest);
        fabric.events.schedule(ready_ps, EventKind::ReadReady, node, LATE + free);
    }

    /// Time at which `bytes` of payload that come to a root port now have reached another; `None`
    /// if that is forbidden.
    pub fn peer_way(&mut self, fabric: &Fabric, (from, to): (u32, u32), bytes: u32) -> Option<u64> {
        let place = |port: u32| {
            let PortState { local, socket, .. } = fabric.port_states[port as usize];
            (local, socket)
        };
        self.peer_ready_ps([place(from), place(to)], fabric.events.now_ps(), bytes)
    }

    /// Passes a TLP from one root port to another.
    fn pass_on(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let Route::Port(target) = self.routes.route(header, None, &mut 0) else {
            fabric.refuse(at.port, at.direction, at.index, 0);
            return;
        };
        let id = fabric.nodes[at.node as usize].ports[target as usize];
        let PortState { transmit: out, max_payload_bytes, .. } = fabric.port_states[id.0 as usize];
        let ready_ps = match out {
            NONE => None,
            _ => self.peer_way(fabric, (at.port, id.0), header.payload_bytes()),
        };
        let Some(ready_ps) = ready_ps else {
            let what = HeaderLine(header).to_string();
            let root_complex = fabric.nodes[at.node as usize].name.clone();
            let error = ErrorKind::PeerForbidden { what, root_complex };
            fabric.report_request(at.port, error, header.class());
            fabric.answer_unsupported(at.port, at.direction, header, 0);
            fabric.drop_received(at.direction, at.index);
            return;
        };
        if self.peer_reads.is_some() && header.kind == TlpKind::MemoryRead {
            return self.split_read(fabric, at, header, (target, out), ready_ps);
        }
        let packet = fabric.packets.get_mut(at.index);
        packet.ready_ps = ready_ps;
        if packet.header.address != header.address {
            packet.header.address = header.address;
            packet.wire_bytes = packet.header.wire_bytes();
        }
        let source = fabric.port_states[at.port as usize].local + 1;
        if self.parameters.cuts_peers && header.payload_bytes() > max_payload_bytes {
            let boundary = self.parameters.completer.read_completion_boundary_bytes;
            fabric.packets.cut(at.index, max_payload_bytes, boundary, &mut self.cut);
            self.cut.drain(..).for_each(|piece| fabric.enqueue(out, source, piece));
        }
        fabric.enqueue(out, source, at.index);
    }
}

impl Fabric {
    pub(crate) fn root_receive(&mut self, node: u32, direction: u32, index: PacketIndex) {
        let port = self.directions[direction as usize].receiving_port;
        let arrival = Arrival { node, direction, port, index };
        self.with_root(node, |root, fabric| root.arrive(fabric, arrival));
    }

    pub(crate) fn root_read_ready(&mut self, node: u32, slot: u32) {
        self.with_root(node, |root, fabric| root.read_ready(fabric, node, slot));
    }
}
