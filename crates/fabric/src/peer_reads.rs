// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of peers that a root complex cuts at lines, and whose completions it joins again.
//!
//! Read first: base specification 1.3.1 (a root complex may cut what it passes on between its root
//! ports), 2.2.6.2 (tags), 2.3.1.1 (completions), 2.4.1 (ordering).
//!
//! Each root port is the requester of the reads that leave by it, with tags for parts of one line.
//! A tag stands for a line of the port's buffer, too: it is taken before the part is sent, and free
//! again when the completion with the last of its data has left for the requester. So completions
//! of parts always have room, and wait for nothing. Parts are sent in the order of the reads, and a
//! joined completion is never longer than the buffer: the oldest one always gets what it lacks.

use std::collections::VecDeque;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, RoutingId, Tag};

use crate::cutting::data_bytes;
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::{Fabric, NodeState};
use crate::host_access::COMPLETION_TIMEOUT;
use crate::packet::{JOINED, NONE, Packet, PacketIndex};
use crate::parameters::{CompletionCut, PeerReadParameters};
use crate::root_complex::{Arrival, OWN_ID, RootComplex, put};

/// Most lines that a root port reads of peers at once: the 8-bit tags that every completer must
/// accept (PCIe 6.x 2.2.6.2).
pub const MAX_PEER_READS: u16 = 256;

/// Position of the number of a root port in the number of an event, above that of a tag.
const PORT_SHIFT: u32 = 16;

/// A part of a read, by its tag.
#[derive(Clone, Copy)]
struct Part {
    /// Index of its read; [`NONE`] once that has ended.
    read: u32,
    /// Position of its data in the read, and their length.
    offset: u32,
    bytes: u32,
    received: u32,
    /// Whether all of its data are in the buffer, since `ready_ps`.
    is_done: bool,
    is_poisoned: bool,
    ready_ps: u64,
    /// Time at which its answer is overdue, or at which its tag is free if it was before.
    deadline_ps: u64,
    is_overdue: bool,
}

impl Part {
    /// Keeps its tag out of use for a time-out, in which late answers to it are dropped.
    fn rest(&mut self, now_ps: u64) {
        (self.is_overdue, self.deadline_ps) = (true, now_ps + COMPLETION_TIMEOUT.0);
    }
}

/// A read that is being made in parts.
struct Joining {
    /// The read as it came, with its translated address.
    request: Header,
    /// Direction that it came by, whose opposite its completions leave by.
    direction: u32,
    /// Root port that its parts leave by, and direction of their requests.
    port: u32,
    out: u32,
    /// Time before which no part leaves.
    ready_ps: u64,
    /// The read itself, which holds its receive buffer, until it leaves as the last part.
    packet: PacketIndex,
    /// Source of its parts in the queues of `out`.
    source: u32,
    /// Bytes of parts that were sent, and of the completions passed on.
    sent: u32,
    passed: u32,
    data: Vec<u8>,
    /// Tags of its parts that hold data not passed on, lowest address first.
    tags: VecDeque<u16>,
    /// Completer of its latest part.
    completer: RoutingId,
}

/// A root port as requester of parts.
#[derive(Default)]
struct AtPort {
    parts: Vec<Option<Part>>,
    /// Free tags, longest free first.
    free: VecDeque<u16>,
    /// Reads with parts that were not sent, oldest first.
    waiting: VecDeque<u32>,
    /// Time of the scheduled check of deadlines; 0 for none.
    check_ps: u64,
}

/// A joined completion that has not left yet: its root port, and the tags that are free then.
type Leaving = (u32, Vec<u16>);

/// All reads of peers that a root complex makes in parts.
pub(crate) struct PeerReads {
    parameters: PeerReadParameters,
    ports: Vec<AtPort>,
    reads: Vec<Option<Joining>>,
    leaving: Vec<Option<Leaving>>,
}

/// The node that sent a completion of a part, and its position in the order of that node.
#[derive(Clone, Copy)]
struct Origin {
    node: u32,
    sequence: u64,
}

impl PeerReads {
    pub fn new(parameters: PeerReadParameters) -> Self {
        Self { parameters, ports: Vec::new(), reads: Vec::new(), leaving: Vec::new() }
    }

    fn at_port(&mut self, port: u32) -> &mut AtPort {
        let tags = self.parameters.at_once;
        while self.ports.len() <= port as usize {
            let at_port = AtPort { free: (0..tags).collect(), ..AtPort::default() };
            self.ports.push(AtPort { parts: vec![None; tags.into()], ..at_port });
        }
        &mut self.ports[port as usize]
    }

    /// The part with a tag, if that waits for a completion.
    fn open_part(&mut self, port: u32, tag: u16) -> Option<&mut Part> {
        let part = self.at_port(port).parts.get_mut(usize::from(tag))?.as_mut()?;
        (!part.is_done).then_some(part)
    }

    fn read(&mut self, read: u32) -> &mut Joining {
        let place = self.reads.get_mut(read as usize).and_then(Option::as_mut);
        place.unwrap_or_else(|| panic!("no read of a peer is joined at {read}"))
    }

    /// Sends parts while tags are free.
    fn send_parts(&mut self, fabric: &mut Fabric, node: u32, port: u32) {
        let split_bytes = u64::from(self.parameters.split_bytes);
        let requester = fabric.routing_id(fabric.nodes[node as usize].ports[port as usize]);
        let now_ps = fabric.events.now_ps();
        while let Some(number) = self.at_port(port).waiting.front().copied() {
            let Some(tag) = self.at_port(port).free.pop_front() else { return };
            let read = self.read(number);
            let total = read.request.request_bytes();
            let address = read.request.address.0 + u64::from(read.sent);
            let to_line = split_bytes - address % split_bytes;
            let (offset, bytes) = (read.sent, to_line.min(u64::from(total - read.sent)) as u32);
            let is_last = offset + bytes == total;
            let whole = read.packet;
            let index = if is_last { whole } else { fabric.packets.duplicate(whole) };
            let plain = Header::memory_read(requester, Tag(tag), BusAddress(address), bytes);
            fabric.packets.shorten(
                index,
                0,
                Header { attributes: read.request.attributes, ..plain },
            );
            let packet = fabric.packets.get_mut(index);
            packet.ready_ps = read.ready_ps;
            if !is_last {
                // Only the last one has the place in the order and the buffer of the whole.
                (packet.source_sequence, packet.ingress) = (0, NONE);
            }
            let deadline_ps = now_ps.max(read.ready_ps) + COMPLETION_TIMEOUT.0;
            read.sent += bytes;
            read.tags.push_back(tag);
            let (out, source) = (read.out, read.source);
            if is_last {
                read.packet = NONE;
            }
            let part = Part {
                read: number,
                offset,
                bytes,
                received: 0,
                is_done: false,
                is_poisoned: false,
                ready_ps: 0,
                deadline_ps,
                is_overdue: false,
            };
            let at_port = self.at_port(port);
            let there = at_port.parts[usize::from(tag)].replace(part);
            assert!(there.is_none(), "tag {tag} is given away twice");
            if is_last {
                at_port.waiting.pop_front();
            }
            if at_port.check_ps == 0 {
                at_port.check_ps = deadline_ps;
                fabric.events.schedule(deadline_ps, EventKind::PartTimeout, node, port);
            }
            fabric.enqueue(out, source, index);
        }
    }

    /// Frees a tag with its line of the buffer.
    fn free_tag(&mut self, port: u32, tag: u16) {
        let at_port = self.at_port(port);
        let part = at_port.parts[usize::from(tag)].take();
        assert!(part.is_some(), "tag {tag} is free already");
        at_port.free.push_back(tag);
    }

    /// Ends a read: frees the tags of what is in the buffer, and lets those that wait for answers
    /// rest until these have come. Returns the read itself if parts of it were not sent.
    fn end(&mut self, number: u32) -> PacketIndex {
        let read = self.reads.get_mut(number as usize).and_then(Option::take);
        let read = read.unwrap_or_else(|| panic!("the read of a peer at {number} ends twice"));
        let at_port = self.at_port(read.port);
        at_port.waiting.retain(|other| *other != number);
        for tag in read.tags {
            let part = self.at_port(read.port).parts[usize::from(tag)].as_mut();
            match part.filter(|part| !part.is_done) {
                Some(part) => part.read = NONE,
                None => self.free_tag(read.port, tag),
            }
        }
        read.packet
    }
}

impl Joining {
    /// End of the next completion, in bytes from the start of the read: the last multiple of the
    /// line and the read completion boundary that a payload of `most` bytes reaches. So it takes at
    /// most `most` bytes of whole lines.
    fn next_end(&self, line_bytes: u32, boundary: u32, most: u32) -> u32 {
        let unit = u64::from(if line_bytes <= most { line_bytes.max(boundary) } else { most });
        let from = self.request.address.0 + u64::from(self.passed);
        let end = from - from % unit + u64::from(most);
        let total = u64::from(self.request.request_bytes());
        (end - self.request.address.0).min(total) as u32
    }
}

impl RootComplex {
    /// Begins to make a read in parts, which leave by the root port number `port` no sooner than at
    /// `ready_ps`.
    pub(crate) fn split_read(
        &mut self,
        fabric: &mut Fabric,
        at: Arrival,
        header: &Header,
        (port, out): (u32, u32),
        ready_ps: u64,
    ) {
        let Some(reads) = &mut self.peer_reads else { return };
        let read = Joining {
            request: *header,
            direction: at.direction,
            port,
            out,
            ready_ps,
            packet: at.index,
            source: fabric.port_states[at.port as usize].local + 1,
            sent: 0,
            passed: 0,
            data: vec![0; header.request_bytes() as usize],
            tags: VecDeque::new(),
            completer: OWN_ID,
        };
        let number = put(&mut reads.reads, read);
        reads.at_port(port).waiting.push_back(number);
        if fabric.directions[out as usize].is_down {
            // It need not wait for tags that rest.
            let status = CompletionStatus::UnsupportedRequest;
            let now_ps = fabric.events.now_ps();
            return self.end_read(fabric, at.node, number, status, now_ps);
        }
        reads.send_parts(fabric, at.node, port);
    }

    /// Takes the completion of a part.
    pub(crate) fn take_part(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let ports = &fabric.nodes[at.node as usize].ports;
        let port = ports.iter().position(|port| fabric.routing_id(*port) == header.requester);
        let tag = header.tag.0;
        let part = match (&mut self.peer_reads, port) {
            (Some(reads), Some(port)) => reads.open_part(port as u32, tag).copied(),
            _ => None,
        };
        let (Some(port), Some(part)) = (port, part) else {
            fabric.refuse(at.port, at.direction, at.index, 0);
            return;
        };
        let port = port as u32;
        let packet = *fabric.packets.get(at.index);
        let origin = Origin { node: packet.source, sequence: packet.source_sequence };
        let Some(reads) = &mut self.peer_reads else { return };
        let left = part.bytes - part.received;
        let status = match header.kind {
            TlpKind::CompletionData => CompletionStatus::Successful,
            _ => header.status,
        };
        let mut bytes = 0;
        if status == CompletionStatus::Successful {
            let start = reads.reads.get(part.read as usize).and_then(Option::as_ref);
            let start = start.map(|read| read.request.address.0 + u64::from(part.offset));
            let is_next = start
                .is_none_or(|start| (start + u64::from(part.received)) & 0x7f == header.address.0);
            let fits = header.has_data() && u32::from(header.byte_count) == left.max(1) && is_next;
            if !fits {
                return self.misfit(fabric, at, (port, tag), part);
            }
            bytes = data_bytes(header).min(left);
        }
        // Its data move into the buffer at the rate of that way, and its receive buffer is free
        // then.
        let to = match reads.reads.get(part.read as usize).and_then(Option::as_ref) {
            Some(read) => fabric.directions[read.direction as usize].receiving_port,
            None => at.port,
        };
        let ready_ps = self.peer_way(fabric, (at.port, to), header.payload_bytes());
        let ready_ps = ready_ps.unwrap_or_else(|| fabric.events.now_ps());
        let Some(reads) = &mut self.peer_reads else { return };
        if part.read != NONE {
            let skip = (header.address.0 & 3) as usize;
            let payload = fabric.packets.payload(at.index);
            let from = (part.offset + part.received) as usize;
            let read = reads.read(part.read);
            read.completer = header.completer;
            read.data[from..from + bytes as usize]
                .copy_from_slice(payload.get(skip..skip + bytes as usize).unwrap_or(&[]));
        }
        fabric.packets.remove(at.index);
        fabric.release(at.direction, ready_ps, packet.class(), packet.held_data);
        if let Some(part) = reads.open_part(port, tag) {
            part.received += bytes;
            part.is_done = part.received == part.bytes || status != CompletionStatus::Successful;
            part.is_poisoned |= header.poisoned;
            part.ready_ps = ready_ps;
        }
        let is_done = reads.open_part(port, tag).is_none();
        if part.read == NONE {
            if is_done {
                reads.free_tag(port, tag);
                reads.send_parts(fabric, at.node, port);
            }
        } else if status == CompletionStatus::Successful {
            self.join(fabric, part.read, origin);
        } else {
            self.end_read(fabric, at.node, part.read, status, ready_ps);
        }
    }

    /// Drops a completion that does not fit the part with its tag, and ends the part's read.
    fn misfit(&mut self, fabric: &mut Fabric, at: Arrival, (port, tag): (u32, u16), part: Part) {
        fabric.refuse(at.port, at.direction, at.index, 0);
        let Some(reads) = &mut self.peer_reads else { return };
        let now_ps = fabric.events.now_ps();
        // More of its answer may follow.
        if let Some(part) = reads.open_part(port, tag) {
            part.rest(now_ps);
        }
        if part.read != NONE {
            self.end_read(fabric, at.node, part.read, CompletionStatus::CompleterAbort, now_ps);
        }
    }

    /// Passes on all completions of a read whose data are in the buffer.
    fn join(&mut self, fabric: &mut Fabric, number: u32, origin: Origin) {
        let completer = &self.parameters.completer;
        let boundary = completer.read_completion_boundary_bytes;
        let Some(reads) = &mut self.peer_reads else { return };
        let PeerReadParameters { split_bytes, at_once } = reads.parameters;
        let buffer_bytes = u32::from(at_once) * split_bytes;
        let read = reads.read(number);
        let total = read.request.request_bytes();
        let to = fabric.directions[read.direction as usize].receiving_port;
        let most = fabric.port_states[to as usize]
            .max_payload_bytes
            .min(completer.longest_completion(total))
            .min(1 << buffer_bytes.ilog2());
        let boundary = match completer.completion_cut {
            CompletionCut::Longest => boundary,
            CompletionCut::Aligned => most,
        };
        let mut completions = Vec::new();
        let mut is_whole = false;
        while !is_whole {
            let Some((index, tags)) = reads.next_completion(fabric, number, boundary, most) else {
                break;
            };
            let read = reads.read(number);
            is_whole = read.passed == total;
            let port = read.port;
            if !tags.is_empty() {
                let leaving = put(&mut reads.leaving, (port, tags));
                fabric.packets.get_mut(index).ingress = JOINED | leaving;
            }
            completions.push(index);
        }
        let read = reads.read(number);
        let (back, source) = (read.direction ^ 1, read.port + 1);
        if is_whole {
            let packet = reads.end(number);
            assert!(packet == NONE, "a read of a peer is answered before all of it was sent");
        }
        let last = completions.last().copied();
        for index in completions {
            let packet = fabric.packets.get_mut(index);
            packet.source = origin.node;
            // It follows all that was sent before the last of its data.
            packet.source_sequence = if last == Some(index) { origin.sequence } else { 0 };
            fabric.enqueue(back, source, index);
        }
    }

    /// Ends a read whose part has failed: the completion with that status takes the place of all
    /// that was not passed on (PCIe 6.x 2.3.1).
    fn end_read(
        &mut self,
        fabric: &mut Fabric,
        node: u32,
        number: u32,
        status: CompletionStatus,
        ready_ps: u64,
    ) {
        let Some(reads) = &mut self.peer_reads else { return };
        let read = reads.read(number);
        let (request, passed) = (read.request, read.passed);
        let (back, port) = (read.direction ^ 1, read.port);
        let left = request.request_bytes() - passed;
        let address = BusAddress(request.address.0 + u64::from(passed));
        let plain = Header::completion_data(&request, read.completer, address, left.min(4), left);
        let header = Header { kind: TlpKind::Completion, status, length_dw: 0, ..plain };
        let mut packet = Packet::new(header, node);
        packet.ready_ps = ready_ps;
        let unsent = reads.end(number);
        if unsent != NONE {
            fabric.drop_received(back ^ 1, unsent);
        }
        let answer = fabric.packets.insert(packet);
        fabric.enqueue(back, port + 1, answer);
        reads.send_parts(fabric, node, port);
    }

    /// Frees the lines of a joined completion that has left.
    fn joined_left(&mut self, fabric: &mut Fabric, node: u32, place: u32) {
        let Some(reads) = &mut self.peer_reads else { return };
        let leaving = reads.leaving.get_mut(place as usize).and_then(Option::take);
        let (port, tags) = leaving.unwrap_or_else(|| panic!("no completion leaves at {place}"));
        tags.into_iter().for_each(|tag| reads.free_tag(port, tag));
        reads.send_parts(fabric, node, port);
    }

    /// Ends the read of a part that could not leave, because its link is down.
    fn part_lost(&mut self, fabric: &mut Fabric, node: u32, number: u32) {
        let (port, tag) = (number >> PORT_SHIFT, number as u16);
        let Some(reads) = &mut self.peer_reads else { return };
        let Some(part) = reads.open_part(port, tag) else { return };
        part.is_done = true;
        let read = part.read;
        if read == NONE {
            reads.free_tag(port, tag);
            return reads.send_parts(fabric, node, port);
        }
        let now_ps = fabric.events.now_ps();
        self.end_read(fabric, node, read, CompletionStatus::UnsupportedRequest, now_ps);
    }

    /// Ends all reads whose parts leave by a root port, whose link has gone down (PCIe 6.x 2.9.1).
    fn end_reads_by(&mut self, fabric: &mut Fabric, node: u32, port: u32) {
        let now_ps = fabric.events.now_ps();
        let Some(reads) = &mut self.peer_reads else { return };
        // Nothing more is sent.
        reads.at_port(port).waiting.clear();
        let is_by = |read: &Option<Joining>| read.as_ref().is_some_and(|read| read.port == port);
        let numbers: Vec<u32> =
            (0..).zip(&reads.reads).filter(|(_, read)| is_by(read)).map(|(at, _)| at).collect();
        for number in numbers {
            let status = CompletionStatus::UnsupportedRequest;
            self.end_read(fabric, node, number, status, now_ps);
        }
        let Some(reads) = &mut self.peer_reads else { return };
        let at_port = reads.at_port(port);
        // The card still has requests that it got before, and answers them when the link is up. A
        // check of open parts is under way, and finds these again.
        for part in at_port.parts.iter_mut().flatten().filter(|part| !part.is_done) {
            part.rest(now_ps);
        }
    }

    /// Forgets the check of a root port's parts, if none is open. Returns whether it is forgotten.
    pub(crate) fn forget_part_timeout(&mut self, port: u32) -> bool {
        let Some(reads) = &mut self.peer_reads else { return false };
        let at_port = reads.at_port(port);
        let is_idle = at_port.parts.iter().flatten().all(|part| part.is_done);
        if is_idle {
            at_port.check_ps = 0;
        }
        is_idle
    }

    /// Ends the reads of overdue parts. Their tags stay out of use for as long again.
    fn part_timeout(&mut self, fabric: &mut Fabric, node: u32, port: u32) {
        let now_ps = fabric.events.now_ps();
        let Some(reads) = &mut self.peer_reads else { return };
        let (mut overdue, mut late) = (Vec::new(), Vec::new());
        for (tag, part) in (0..).zip(&mut reads.at_port(port).parts) {
            let open = part.as_mut().filter(|part| !part.is_done && part.deadline_ps <= now_ps);
            let Some(part) = open else { continue };
            if part.is_overdue {
                late.push(tag);
            } else {
                overdue.push((tag, part.read));
                part.rest(now_ps);
            }
        }
        late.into_iter().for_each(|tag| reads.free_tag(port, tag));
        let id = fabric.nodes[node as usize].ports[port as usize].0;
        for (tag, read) in overdue {
            let timeout = COMPLETION_TIMEOUT;
            fabric.report(id, ErrorKind::CompletionTimeout { tag, timeout });
            let is_joined =
                |reads: &PeerReads| reads.reads.get(read as usize).is_some_and(Option::is_some);
            let is_open = self.peer_reads.as_deref().is_some_and(is_joined);
            if is_open {
                let status = CompletionStatus::CompleterAbort;
                self.end_read(fabric, node, read, status, now_ps);
            }
        }
        let Some(reads) = &mut self.peer_reads else { return };
        let at_port = reads.at_port(port);
        let open = at_port.parts.iter().flatten().filter(|part| !part.is_done);
        at_port.check_ps = open.map(|part| part.deadline_ps).min().unwrap_or(0);
        if at_port.check_ps > 0 {
            fabric.events.schedule(at_port.check_ps, EventKind::PartTimeout, node, port);
        }
        reads.send_parts(fabric, node, port);
    }
}

impl PeerReads {
    /// Takes the next completion of a read out of the buffer, if all of its data are there, with
    /// the tags that have no others.
    fn next_completion(
        &mut self,
        fabric: &mut Fabric,
        number: u32,
        boundary: u32,
        most: u32,
    ) -> Option<(PacketIndex, Vec<u16>)> {
        let line_bytes = self.parameters.split_bytes;
        let read = self.reads[number as usize].as_mut()?;
        let parts = &self.ports[read.port as usize].parts;
        let end = read.next_end(line_bytes, boundary, most);
        if read.sent < end {
            return None;
        }
        let (mut ready_ps, mut is_poisoned, mut free) = (0, false, 0);
        for tag in &read.tags {
            let part = parts[usize::from(*tag)].as_ref()?;
            if part.offset > 0 && part.offset >= end {
                break;
            }
            if !part.is_done {
                return None;
            }
            ready_ps = part.ready_ps.max(ready_ps);
            is_poisoned |= part.is_poisoned;
            free += usize::from(part.offset + part.bytes <= end);
        }
        let (from, bytes) = (read.passed, end - read.passed);
        let left = read.request.request_bytes() - from;
        let address = BusAddress(read.request.address.0 + u64::from(from));
        let plain = Header::completion_data(&read.request, read.completer, address, bytes, left);
        let mut packet = Packet::new(Header { poisoned: is_poisoned, ..plain }, 0);
        packet.ready_ps = ready_ps;
        let index = fabric.packets.insert(packet);
        let skip = (address.0 & 3) as usize;
        let payload = fabric.packets.payload_mut(index);
        payload.fill(0);
        if bytes > 0 {
            let place = &mut payload[skip..skip + bytes as usize];
            place.copy_from_slice(&read.data[from as usize..end as usize]);
        }
        read.passed = end;
        Some((index, read.tags.drain(..free).collect()))
    }
}

impl Fabric {
    /// Notes that a joined completion has left, or is lost with its link, at `time_ps`.
    pub(crate) fn note_joined(&mut self, node: u32, ingress: u32, time_ps: u64) {
        self.events.schedule(time_ps, EventKind::JoinedLeft, node, ingress & !JOINED);
    }

    /// Notes that a part of a read could not leave. Returns false if a request is none.
    pub(crate) fn note_lost_part(&mut self, node: u32, port: u32, header: &Header) -> bool {
        let is_root = matches!(self.node_states[node as usize], NodeState::RootComplex(_));
        let is_part = is_root
            && header.kind == TlpKind::MemoryRead
            && header.requester != OWN_ID
            && header.requester == self.port_states[port as usize].routing_id;
        if is_part {
            let port = self.port_states[port as usize].local;
            let number = port << PORT_SHIFT | u32::from(header.tag.0);
            let now_ps = self.events.now_ps();
            self.events.schedule(now_ps, EventKind::PartLost, node, number);
        }
        is_part
    }

    /// Tells a root complex that the link of one of its ports has gone down.
    pub(crate) fn root_link_down(&mut self, node: u32, port: u32) {
        let port = self.port_states[port as usize].local;
        self.with_root(node, |root, fabric| root.end_reads_by(fabric, node, port));
    }

    pub(crate) fn root_joined_left(&mut self, node: u32, place: u32) {
        self.with_root(node, |root, fabric| root.joined_left(fabric, node, place));
    }

    pub(crate) fn root_part_lost(&mut self, node: u32, number: u32) {
        self.with_root(node, |root, fabric| root.part_lost(fabric, node, number));
    }

    pub(crate) fn root_part_timeout(&mut self, node: u32, port: u32) {
        self.with_root(node, |root, fabric| root.part_timeout(fabric, node, port));
    }
}
