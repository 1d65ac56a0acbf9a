// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generic endpoint: a requester that executes flows, and a completer with memory behind its
//! BARs.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::link::PAGE_BYTES;
use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, Tag};

use crate::completer::{Completer, Pace, Piece, Read};
use crate::counters::IdleReason;
use crate::device::{Consumed, Device, DevicePort, Received, bar_offset_bytes};
use crate::errors::ErrorKind;
use crate::flow::FlowKind;
use crate::flow_state::Posting;
use crate::memory::Memory;
use crate::parameters::{EndpointParameters, RequesterParameters};
use crate::pattern;
use crate::trace::HeaderLine;
use crate::wire::WireTime;

/// Timer token that makes the requester look for work.
pub(crate) const STEP: u32 = 0;
/// Timer token that checks for completion time-outs.
const TIMEOUT: u32 = 1;
/// First timer token of reads: the read in slot `token - READ` has its data.
const READ: u32 = 2;

/// Operations of a flow posted ahead of its TLPs; a bound on memory, beyond what any device has
/// under way in a start latency: a GPU of 2,048 warps posts one of each.
const MAX_POSTED: usize = 4096;

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
struct Current {
    operation: u64,
    /// Bytes covered by the TLPs built so far in this phase.
    offset: u64,
    /// Earliest time of the next TLP.
    not_before_ps: u64,
    /// Whether the current phase writes rather than reads.
    writing: bool,
}

/// State of a flow at its requester.
#[derive(Clone, Debug)]
struct Work {
    flow: u32,
    queue: VecDeque<Current>,
    /// Operations that have been written and are to be read back.
    read_backs: VecDeque<Current>,
    /// Whether its operations begin with a write.
    writing: bool,
}

/// Posts of the operations that begin with a read, or with a write, of all flows together.
#[derive(Clone, Copy, Debug, Default)]
struct Posts {
    /// Earliest time of the next post.
    next_ps: u64,
    /// Flow that posts first if several can.
    turn: usize,
}

/// A read in flight.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    flow: u32,
    operation: u64,
    address: u64,
    bytes: u32,
    received: u32,
    deadline_ps: u64,
}

/// Next step of a flow.
enum Next {
    Tlp(Current),
    At(u64),
    NoTag,
    Nothing,
}

/// An aperture of the device: base address, size, first byte in its memory.
#[derive(Clone, Copy, Debug)]
struct Window {
    base: u64,
    size: u64,
    memory: u64,
}

/// Generic endpoint device; see the module.
pub struct GenericEndpoint {
    requester: RequesterParameters,
    completer: Completer,
    windows: Vec<Window>,
    /// Completions of the read being finished.
    pieces: Vec<Piece>,
    works: Vec<Work>,
    turn: usize,
    /// Posts of reads and of writes.
    posts: [Posts; 2],
    /// Rates of reads and of writes, and the time from which the next may go.
    paces: [Pace; 2],
    paced: [WireTime; 2],
    /// The same, in ps.
    paced_ps: [u64; 2],
    engine_free_ps: u64,
    timer_ps: u64,
    tags: Vec<Option<Outstanding>>,
    free_tags: Vec<u16>,
    /// Reads in the order of their deadlines; answered ones are skipped later.
    deadlines: VecDeque<(u64, u16)>,
    deadline_ps: u64,
    max_payload_bytes: u32,
    max_read_bytes: u32,
    relaxed_ordering: bool,
    bus_master: bool,
}

impl GenericEndpoint {
    pub(crate) fn new(parameters: EndpointParameters) -> Self {
        let requester = parameters.requester;
        Self {
            requester,
            completer: Completer::new(parameters.completer),
            windows: Vec::new(),
            pieces: Vec::new(),
            works: Vec::new(),
            turn: 0,
            posts: [Posts::default(); 2],
            paces: [requester.read_bytes_per_second, requester.write_bytes_per_second]
                .map(Pace::new),
            paced: [WireTime::default(); 2],
            paced_ps: [0; 2],
            engine_free_ps: 0,
            timer_ps: u64::MAX,
            tags: vec![None; usize::from(requester.tags)],
            free_tags: (0..requester.tags).rev().collect(),
            deadlines: VecDeque::new(),
            deadline_ps: u64::MAX,
            max_payload_bytes: 128,
            max_read_bytes: 128,
            relaxed_ordering: false,
            bus_master: false,
        }
    }

    pub(crate) fn add_flow(&mut self, flow: u32, kind: FlowKind) {
        self.works.push(Work {
            flow,
            queue: VecDeque::new(),
            read_backs: VecDeque::new(),
            writing: kind != FlowKind::Read,
        });
    }

    // --- Requester -----------------------------------------------------------------------

    /// Builds TLPs as long as the engine, queue and flows allow.
    fn step(&mut self, port: &mut DevicePort<'_>) {
        loop {
            let now_ps = port.now_ps();
            if self.engine_free_ps > now_ps {
                port.set_idle_reason(IdleReason::RequesterGap);
                self.step_at(self.engine_free_ps, port);
                return;
            }
            if self.works.is_empty() || !port.has_room() {
                return;
            }
            let (mut earliest_ps, mut no_tag, mut sent) = (u64::MAX, false, false);
            for ahead in 0..self.works.len() {
                let at = in_turn(self.turn, ahead, self.works.len());
                match self.next(at, port) {
                    Next::Tlp(current) => {
                        self.turn = at + 1;
                        self.build(at, current, port);
                        sent = true;
                        break;
                    }
                    Next::At(time_ps) => earliest_ps = earliest_ps.min(time_ps),
                    Next::NoTag => no_tag = true,
                    Next::Nothing => {}
                }
            }
            if sent {
                continue;
            }
            port.set_idle_reason(match (no_tag, earliest_ps) {
                (true, _) => IdleReason::NoTag,
                (false, u64::MAX) => IdleReason::NothingToSend,
                (false, _) => IdleReason::RequesterGap,
            });
            if earliest_ps != u64::MAX {
                self.step_at(earliest_ps, port);
            }
            return;
        }
    }

    fn step_at(&mut self, time_ps: u64, port: &mut DevicePort<'_>) {
        if time_ps < self.timer_ps || self.timer_ps <= port.now_ps() {
            self.timer_ps = time_ps;
            port.timer(time_ps, STEP);
        }
    }

    /// Whether a flow that can post an operation now may do so: the card's interval has passed, and
    /// of the flows that could it is the first by turn.
    fn may_post(&self, at: usize, interval_ps: u64, port: &mut DevicePort<'_>) -> bool {
        let now_ps = port.now_ps();
        let works = &self.works;
        let writing = works[at].writing;
        let Posts { next_ps, turn } = self.posts[usize::from(writing)];
        if next_ps > now_ps || works[at].queue.len() >= MAX_POSTED {
            return false;
        }
        let can_post = |at: usize| {
            let work = &works[at];
            work.writing == writing
                && work.queue.len() < MAX_POSTED
                && port.fabric.flows[work.flow as usize].posting(now_ps) == Posting::Now
        };
        let by_turn = (0..works.len()).map(|ahead| in_turn(turn, ahead, works.len()));
        interval_ps == 0 || !by_turn.take_while(|other| *other != at).any(can_post)
    }

    /// Returns the next step of a flow, posting operations as needed.
    fn next(&mut self, at: usize, port: &mut DevicePort<'_>) -> Next {
        let now_ps = port.now_ps();
        let p = &self.requester;
        let (flow, writing) = (self.works[at].flow as usize, self.works[at].writing);
        let (start_ps, interval_ps) = if writing {
            (p.write_start.0, p.write_interval.0)
        } else {
            (p.read_start.0, p.read_interval.0)
        };
        let mut posting = port.fabric.flows[flow].posting(now_ps);
        while posting == Posting::Now && self.may_post(at, interval_ps, port) {
            let state = &mut port.fabric.flows[flow];
            let bytes = state.flow.operation_bytes;
            let copy = if writing { copy_ps(&self.requester, bytes) } else { 0 };
            let operation = state.post(now_ps);
            posting = state.posting(now_ps);
            let not_before_ps = now_ps + start_ps + copy;
            let current = Current { operation, offset: 0, not_before_ps, writing };
            self.works[at].queue.push_back(current);
            // An engine that was busy catches up by one interval.
            let late_ps = now_ps.saturating_sub(interval_ps);
            let posts = &mut self.posts[usize::from(writing)];
            posts.next_ps = posts.next_ps.max(late_ps) + interval_ps;
            posts.turn = at + 1;
        }
        let work = &mut self.works[at];
        let mut again_ps = match posting {
            Posting::Now if work.queue.len() < MAX_POSTED => {
                self.posts[usize::from(writing)].next_ps.max(now_ps)
            }
            Posting::At(time_ps) => time_ps,
            _ => u64::MAX,
        };
        let paced_ps = self.paced_ps;
        let may_begin_ps =
            |current: &Current| current.not_before_ps.max(paced_ps[usize::from(current.writing)]);
        if let Some(current) = work.read_backs.front() {
            if may_begin_ps(current) > now_ps {
                again_ps = again_ps.min(may_begin_ps(current));
            } else if !self.free_tags.is_empty() {
                return Next::Tlp(*current);
            } else if work.queue.is_empty() {
                return Next::NoTag;
            }
        }
        match work.queue.front() {
            Some(current) if may_begin_ps(current) > now_ps => {
                Next::At(again_ps.min(may_begin_ps(current)))
            }
            Some(current) if !current.writing && self.free_tags.is_empty() => Next::NoTag,
            Some(current) => Next::Tlp(*current),
            None if again_ps != u64::MAX => Next::At(again_ps),
            None => Next::Nothing,
        }
    }

    /// Builds and sends the next TLP of an operation.
    fn build(&mut self, at: usize, current: Current, port: &mut DevicePort<'_>) {
        let flow_number = self.works[at].flow;
        if !self.bus_master {
            let error = ErrorKind::NotBusMaster { requester: port.routing_id() };
            let Work { queue, read_backs, .. } = &mut self.works[at];
            let is_it = |front: &Current| front.operation == current.operation;
            let reads_back = read_backs.front().is_some_and(is_it);
            if reads_back { read_backs } else { queue }.pop_front();
            port.fabric.fail_operation(flow_number, current.operation, error.to_string());
            port.report(error);
            return;
        }
        let state = &mut port.fabric.flows[flow_number as usize];
        state.count_tlp();
        let (flow, key) = (&state.flow, state.key(current.operation));
        let address = state.address(current.operation) + current.offset;
        let left = flow.operation_bytes - current.offset;
        let (own, engine) = if current.writing {
            (self.max_payload_bytes, self.requester.max_write_bytes)
        } else {
            (self.max_read_bytes, self.requester.max_read_bytes)
        };
        let most = match flow.tlp_bytes {
            Some(bytes) if flow.force => bytes,
            Some(bytes) => bytes.min(own).min(engine),
            None => own.min(engine),
        };
        let bytes = tlp_length(address, left, most);
        let in_page = address % PAGE_BYTES + u64::from(bytes);
        assert_of!(
            bytes > 0 && u64::from(bytes) <= left && in_page <= PAGE_BYTES,
            [bytes, address, left],
            "a TLP of {bytes} B at {address:#x}, of {left} B that are left"
        );
        assert_of!(
            flow.force || bytes <= own,
            [bytes, own],
            "a TLP of {bytes} B where {own} B are allowed"
        );
        let (total, kind) = (flow.operation_bytes, flow.kind);
        let relaxed = flow.relaxed_ordering && self.relaxed_ordering;
        let offset = current.offset;
        let requester = port.routing_id();
        let mut header = if current.writing {
            Header::memory_write(requester, BusAddress(address), bytes)
        } else {
            let tag = self.take_tag(flow_number, current.operation, address, bytes, port);
            Header::memory_read(requester, tag, BusAddress(address), bytes)
        };
        header.attributes.relaxed_ordering = relaxed;
        let skip = (address & 3) as usize;
        let operation = current.operation as u32;
        port.send_for(header, flow_number + 1, operation, 0, |payload| {
            if !payload.is_empty() {
                pattern::fill(key, offset, &mut payload[skip..skip + bytes as usize]);
            }
        });
        let now_ps = port.now_ps();
        let p = &self.requester;
        self.engine_free_ps = now_ps + engine_ps(p, &header) + p.tlp_gap.0;
        let way = usize::from(current.writing);
        let ticks = self.paces[way].ticks(bytes.into());
        if ticks > 0 {
            self.paced[way] = self.paced[way].max(WireTime::at(now_ps)).plus_ticks(ticks);
            self.paced_ps[way] = self.paced[way].ceil_ps();
        }
        let work = &mut self.works[at];
        let reads_back = kind == FlowKind::WriteRead && !current.writing;
        let queue = if reads_back { &mut work.read_backs } else { &mut work.queue };
        let Some(front) = queue.front_mut() else { return };
        let (operation, offset) = (front.operation, front.offset);
        assert_of!(
            operation == current.operation && offset == current.offset,
            [bytes, offset, operation],
            "{bytes} B at {} of operation {} were built, and {offset} of {operation} was next",
            current.offset,
            current.operation
        );
        front.offset += u64::from(bytes);
        if front.offset >= total {
            self.engine_free_ps += p.operation_gap.0;
            queue.pop_front();
            if kind == FlowKind::WriteRead && current.writing {
                let not_before_ps = now_ps + p.read_start.0;
                work.read_backs.push_back(Current {
                    offset: 0,
                    not_before_ps,
                    writing: false,
                    ..current
                });
            }
        }
    }

    fn take_tag(
        &mut self,
        flow: u32,
        operation: u64,
        address: u64,
        bytes: u32,
        port: &mut DevicePort<'_>,
    ) -> Tag {
        let deadline_ps = port.now_ps() + self.requester.completion_timeout.0;
        // `next` has checked for a free tag.
        let tag = self.free_tags.pop();
        let tag = tag.unwrap_or_else(|| panic!("no tag for {bytes} B of operation {operation}"));
        let read = Outstanding { flow, operation, address, bytes, received: 0, deadline_ps };
        let before = self.tags[usize::from(tag)].replace(read);
        assert_of!(before.is_none(), [tag, before], "tag {tag} is taken twice: {before:?}");
        self.deadlines.push_back((deadline_ps, tag));
        if self.deadline_ps == u64::MAX {
            self.deadline_ps = deadline_ps;
            port.deadline(deadline_ps, TIMEOUT);
        }
        while let Some((deadline_ps, tag)) = self.deadlines.front()
            && self.tags[usize::from(*tag)].is_none_or(|read| read.deadline_ps != *deadline_ps)
        {
            self.deadlines.pop_front();
        }
        Tag(tag)
    }

    /// Fails reads that have timed out. Their tags stay out of use, so that a late completion
    /// cannot be taken for that of another read.
    fn time_out(&mut self, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        self.deadline_ps = u64::MAX;
        while let Some((deadline_ps, tag)) = self.deadlines.front().copied() {
            let slot = &mut self.tags[usize::from(tag)];
            let open = slot.filter(|read| read.deadline_ps == deadline_ps);
            if let Some(read) = open {
                if deadline_ps > now_ps {
                    self.deadline_ps = deadline_ps;
                    port.deadline(deadline_ps, TIMEOUT);
                    return;
                }
                *slot = None;
                let timeout = self.requester.completion_timeout;
                let error = ErrorKind::CompletionTimeout { tag, timeout };
                port.fabric.fail_operation(read.flow, read.operation, error.to_string());
                port.report(error);
            }
            self.deadlines.pop_front();
        }
    }

    fn take_completion(&mut self, tlp: Received, port: &mut DevicePort<'_>) {
        let header = port.header(tlp);
        let slot = self.tags.get_mut(usize::from(header.tag.0));
        let Some(Some(read)) = slot.filter(|_| header.requester == port.routing_id()) else {
            let what = HeaderLine(&header).to_string();
            port.report(ErrorKind::UnexpectedCompletion { what });
            return;
        };
        let (flow, operation) = (read.flow, read.operation);
        if header.status != CompletionStatus::Successful || header.poisoned {
            let error = ErrorKind::ReadRefused {
                address: BusAddress(read.address),
                bytes: read.bytes,
                status: match header.status {
                    CompletionStatus::CompleterAbort => "Completer Abort",
                    CompletionStatus::Successful => "poisoned data",
                    _ => "Unsupported Request",
                },
            };
            self.give_tag_back(header.tag);
            port.fabric.fail_operation(flow, operation, error.to_string());
            port.report(error);
            self.step(port);
            return;
        }
        let skip = (header.address.0 & 3) as usize;
        let bytes = (header.payload_bytes() - skip as u32).min(u32::from(header.byte_count));
        let data = &port.payload(tlp)[skip..skip + bytes as usize];
        let state = &port.fabric.flows[flow as usize];
        let address = read.address + u64::from(read.received);
        let offset = address - state.address(operation);
        let in_place = u32::from(header.byte_count) == read.bytes - read.received
            && header.address.0 == address & 0x7f;
        let right = in_place && pattern::matches(state.key(operation), offset, data);
        read.received += bytes;
        let complete = read.received >= read.bytes;
        if !right {
            let what = format!("flow {}, operation {operation}", state.flow.name);
            port.report(ErrorKind::WrongData { what: what.clone() });
            port.fabric.fail_operation(flow, operation, format!("{what}: wrong data"));
        }
        let total = port.fabric.flows[flow as usize].flow.operation_bytes;
        let p = &self.requester;
        let done_ps = port.now_ps() + p.read_finish.0 + copy_ps(p, total);
        port.fabric.read_progress(flow, operation, u64::from(bytes), done_ps);
        if complete {
            self.give_tag_back(header.tag);
            self.step(port);
        }
    }

    fn give_tag_back(&mut self, tag: Tag) {
        let read = self.tags[usize::from(tag.0)].take();
        assert!(read.is_some(), "tag {} is given back twice", tag.0);
        self.free_tags.push(tag.0);
        let (free, all) = (self.free_tags.len(), self.tags.len());
        assert_of!(free <= all, [free, all], "{free} tags are free, of {all}");
    }

    // --- Completer -----------------------------------------------------------------------

    fn memory_address(&self, header: &Header) -> Option<u64> {
        let address = header.address.0;
        let bytes = u64::from(header.request_bytes());
        self.windows.iter().find_map(|window| {
            let offset = address.checked_sub(window.base)?;
            (offset + bytes <= window.size).then_some(window.memory + offset)
        })
    }

    fn take_write(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let Some(address) = self.memory_address(&header) else {
            port.refuse(tlp);
            return Consumed::Now;
        };
        if header.poisoned {
            let what = HeaderLine(&header).to_string();
            port.report(ErrorKind::PoisonedWrite { what });
            return Consumed::Now;
        }
        let bytes = header.request_bytes();
        let skip = (header.address.0 & 3) as usize;
        self.completer.memory.write(address, &port.payload(tlp)[skip..skip + bytes as usize]);
        let times = self.completer.write(port.now_ps(), address, bytes);
        if let Err(what) = port.fabric.written(tlp.index, bytes, times.visible_ps) {
            port.report(ErrorKind::WrongData { what });
        }
        Consumed::At(Picoseconds(times.drained_ps))
    }

    fn take_read(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let Some(memory_address) = self.memory_address(&header) else {
            port.refuse(tlp);
            return Consumed::Now;
        };
        let read = Read { header, memory_address, origin: tlp.direction };
        let now_ps = port.now_ps();
        match self.completer.read(now_ps, read, port.random()) {
            Some((slot, ready_ps)) => {
                port.timer(ready_ps, READ + slot);
                Consumed::Now
            }
            None => Consumed::Held,
        }
    }

    fn read_ready(&mut self, slot: u32, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let completer = port.routing_id();
        let most = self.max_payload_bytes;
        let shuffle = port.fabric.shuffle;
        let random = shuffle.then(|| port.random());
        self.completer.finish(slot, now_ps, completer, most, random, &mut self.pieces);
        for piece in self.pieces.drain(..) {
            let memory = &self.completer.memory;
            let skip = (piece.header.address.0 & 3) as usize;
            port.send_for(piece.header, 0, 0, piece.ready_ps, |payload| {
                let data = &mut payload[skip..skip + piece.bytes as usize];
                memory.read(piece.memory_address, data);
            });
        }
        if let Some((read, slot, ready_ps)) = self.completer.start_waiting(now_ps, port.random()) {
            port.fabric.let_go(read.origin, now_ps, read.header.class(), 0);
            port.timer(ready_ps, READ + slot);
        }
    }
}

impl Device for GenericEndpoint {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        match port.header(tlp).kind {
            TlpKind::MemoryWrite => self.take_write(tlp, port),
            TlpKind::MemoryRead => self.take_read(tlp, port),
            TlpKind::Completion | TlpKind::CompletionData => {
                self.take_completion(tlp, port);
                Consumed::Now
            }
            // Configuration requests take no simulated time, and messages have no effect.
            TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => {
                Consumed::Now
            }
        }
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        self.step(port);
    }

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        match token {
            STEP => self.step(port),
            TIMEOUT => self.time_out(port),
            _ => self.read_ready(token - READ, port),
        }
    }

    fn configured(&mut self, config: &ConfigSpace) {
        self.max_payload_bytes = config.max_payload_bytes();
        self.max_read_bytes = config.max_read_request_bytes();
        self.relaxed_ordering = config.relaxed_ordering_enabled();
        self.bus_master = config.bus_master_enabled();
        // PCIe 6.x 7.5.1.1.3: without Memory Space Enable no BAR claims anything.
        let bars = (0..6).filter_map(|bar| config.bar(bar)).filter(|_| config.memory_enabled());
        self.windows = bars
            .map(|bar| Window {
                base: bar.base.0,
                size: bar.size_bytes,
                memory: bar_offset_bytes(config, bar.index),
            })
            .collect();
    }

    fn memory(&mut self) -> Option<&mut Memory> {
        Some(&mut self.completer.memory)
    }

    /// All BARs are plain memory throughout.
    fn plain_memory(&self, config: &ConfigSpace, bar: usize) -> Option<Range<u64>> {
        Some(0..config.bar(bar)?.size_bytes / PAGE_BYTES * PAGE_BYTES)
    }

    fn unfinished(&self) -> Vec<String> {
        let reads = self.tags.iter().flatten().count();
        let mut lines = Vec::new();
        if reads > 0 {
            lines.push(format!("{reads} reads wait for completions"));
        }
        if self.completer.busy() > 0 {
            lines.push(format!("{} reads are being answered", self.completer.busy()));
        }
        lines
    }
}

/// Index among `number` of the one that is `ahead` behind `turn`; both are at most `number`.
#[inline]
fn in_turn(turn: usize, ahead: usize, number: usize) -> usize {
    let at = turn + ahead;
    if at >= number { at - number } else { at }
}

/// Length of the longest TLP from `address`: at most `most` bytes of whole DW, within 4 KiB.
pub(crate) fn tlp_length(address: u64, left: u64, most: u32) -> u32 {
    let to_page = PAGE_BYTES - address % PAGE_BYTES;
    let whole = u64::from(most.saturating_sub((address & 3) as u32).max(1));
    left.min(to_page).min(whole) as u32
}

/// Time of a TLP on the engine's datapath.
fn engine_ps(p: &RequesterParameters, header: &Header) -> u64 {
    if p.datapath_bytes == 0 {
        return 0;
    }
    let bytes = header.header_dw() * 4 + header.payload_bytes();
    u64::from(bytes.div_ceil(p.datapath_bytes) + p.idle_clocks_per_tlp) * p.clock.0
}

/// Time of the copy inside the device.
fn copy_ps(p: &RequesterParameters, bytes: u64) -> u64 {
    (bytes as f64 / p.copy_bytes_per_second * 1e12) as u64
}
