// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State of running flows: operations in flight, progress of each, and checks of the data.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crosslane_pcie::kinds;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use thiserror::Error;

use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::flow::{Flow, FlowId, FlowKind, FlowReport, FlowSource};
use crate::host_access::Region;
use crate::iommu::IO_PAGE_BYTES;
use crate::packet::PacketIndex;
use crate::pattern;
use crate::topology::{NodeId, NodeKind};

/// Most error sentences that a report keeps.
const MAX_REPORTED_ERRORS: usize = 20;
/// Largest operation, bytes: a bound on bad input.
const MAX_OPERATION_BYTES: u64 = 1 << 36;
/// Most operations in flight: a bound on bad input.
const MAX_OUTSTANDING: u32 = 1 << 16;
/// Widest store or load of a core, bytes.
pub const MAX_STORE_BYTES: u32 = 64;
/// Most loads of a core in flight, beyond the fill buffers of any core.
pub const MAX_LOADS_IN_FLIGHT: u64 = 64;
/// Bytes that are filled or compared at a time.
const PIECE_BYTES: u64 = 1 << 16;

/// Error of starting a flow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The source cannot make such requests.
    #[error("flow {flow}: {what} cannot be the source of a flow")]
    BadSource {
        /// Name of the flow.
        flow: String,
        /// Description of the source.
        what: String,
    },
    /// A number of the flow is out of range.
    #[error("flow {flow}: {problem}")]
    BadValue {
        /// Name of the flow.
        flow: String,
        /// Description of the problem, with the value.
        problem: String,
    },
}

kinds!(FlowError {
    _ => InvalidArgument,
});

#[derive(Clone, Copy, Debug)]
struct Operation {
    posted_ps: u64,
    remaining: u64,
    last_ps: u64,
    closed: bool,
}

/// Whether and when the next operation can be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// The operation can be posted now.
    Now,
    /// The operation can be posted from this time on (ps).
    At(u64),
    /// The operation must wait until some other one is done.
    Wait,
    /// Every operation has been posted.
    Finished,
}

pub(crate) struct FlowState {
    pub flow: Flow,
    pub host: HostId,
    number: u32,
    stride: u64,
    slots: u64,
    pub posted: u64,
    closed: u64,
    /// Number of the first operation in `operations`.
    first: u64,
    operations: VecDeque<Operation>,
    /// Future ends of operations that count as in flight until then.
    ends: BinaryHeap<Reverse<u64>>,
    in_flight: u32,
    waiting: bool,
    /// In a copy, the other flow, and the operations of which that one has been told.
    copy: Option<CopyState>,
    report: FlowReport,
}

/// Part of a flow in a copy.
#[derive(Debug)]
struct CopyState {
    /// The other flow.
    other: u32,
    /// Whether this one writes what the other reads.
    is_writer: bool,
    /// Times from which on the next operations may be posted.
    grants: VecDeque<u64>,
    /// Operations that have ended, in their order, and that the other flow knows of.
    told: u64,
}

impl FlowState {
    /// Address of an operation's first byte.
    pub fn address(&self, operation: u64) -> u64 {
        self.flow.target.0 + self.flow.place(operation, self.slots) * self.stride
    }

    /// Pattern key of an operation's bytes.
    #[inline]
    pub fn key(&self, operation: u64) -> u64 {
        if let Some(CopyState { other, is_writer: false, .. }) = self.copy {
            return pattern::key(other, self.slots + operation);
        }
        match self.flow.kind {
            // A read returns the same preset data each time.
            FlowKind::Read => pattern::key(self.number, operation % self.slots),
            _ => pattern::key(self.number, self.slots + operation),
        }
    }

    /// Whether any part of the flow has not ended.
    pub fn is_open(&self) -> bool {
        self.closed < self.flow.operations
    }

    /// Latest time at which one of its operations was done.
    pub fn last_done_ps(&self) -> u64 {
        self.report.last_done.0
    }

    pub fn unfinished(&self) -> String {
        let flow = &self.flow;
        let left = flow.operations - self.closed;
        let missing: u64 = self.operations.iter().map(|op| op.remaining).sum();
        format!(
            "flow {}: {left} of {} operations have not ended; {} are in flight and lack \
             {missing} B",
            flow.name,
            flow.operations,
            self.operations.iter().filter(|op| !op.closed).count()
        )
    }

    /// Returns whether an operation can be posted now.
    pub fn posting(&mut self, now_ps: u64) -> Posting {
        while let Some(Reverse(end)) = self.ends.peek()
            && *end <= now_ps
        {
            self.ends.pop();
            assert!(self.in_flight > 0, "an operation ends, and none is in flight");
            self.in_flight -= 1;
        }
        if self.posted >= self.flow.operations {
            return Posting::Finished;
        }
        if now_ps < self.flow.start.0 {
            return Posting::At(self.flow.start.0);
        }
        // An operation keeps its slot in the window until it has ended, in whatever order they end.
        let place_is_free = self.posted - self.first < self.slots;
        if self.in_flight < self.flow.outstanding && place_is_free {
            let Some(copy) = &self.copy else { return Posting::Now };
            return match copy.grants.front() {
                Some(from_ps) if *from_ps <= now_ps => Posting::Now,
                Some(from_ps) => Posting::At(*from_ps),
                None => {
                    self.waiting = true;
                    Posting::Wait
                }
            };
        }
        match self.ends.peek() {
            Some(Reverse(end)) => Posting::At(*end),
            None => {
                self.waiting = true;
                Posting::Wait
            }
        }
    }

    /// Posts the next operation.
    pub fn post(&mut self, now_ps: u64) -> u64 {
        let number = self.posted;
        let (in_flight, outstanding) = (self.in_flight, self.flow.outstanding);
        assert_of!(
            in_flight < outstanding,
            [in_flight, outstanding],
            "{in_flight} operations in flight, of {outstanding}"
        );
        let operations = self.flow.operations;
        assert_of!(
            number < operations,
            [number, operations],
            "operation {number} is posted, of {operations}"
        );
        if number == 0 {
            self.report.first_post = Picoseconds(now_ps);
        }
        if let Some(copy) = &mut self.copy {
            let granted = copy.grants.pop_front();
            assert!(granted.is_some(), "operation {number} of a copy is posted without its turn");
        }
        self.posted += 1;
        self.in_flight += 1;
        self.operations.push_back(Operation {
            posted_ps: now_ps,
            remaining: self.flow.operation_bytes,
            last_ps: 0,
            closed: false,
        });
        number
    }

    pub fn count_tlp(&mut self) {
        self.report.tlps += 1;
    }

    /// Notes that `bytes` of an operation are there from `time_ps` on. Returns true if they
    /// complete it and the requester waits for it.
    fn progress(&mut self, operation: u64, bytes: u64, time_ps: u64) -> bool {
        let Some(at) = operation.checked_sub(self.first) else { return false };
        let Some(op) = self.operations.get_mut(at as usize) else { return false };
        if op.closed {
            return false;
        }
        let remaining = op.remaining;
        assert_of!(
            bytes <= remaining,
            [bytes, operation, remaining],
            "{bytes} B of operation {operation} come, it lacks {remaining}"
        );
        op.remaining -= bytes;
        op.last_ps = op.last_ps.max(time_ps);
        if op.remaining > 0 {
            return false;
        }
        let (posted_ps, end_ps) = (op.posted_ps, op.last_ps);
        let report = &mut self.report;
        let end = Picoseconds(end_ps);
        assert_of!(
            end_ps >= posted_ps,
            [posted_ps, end_ps],
            "posted at {posted_ps} ps and done at {end_ps} ps"
        );
        report.first_done = if report.operations == 0 { end } else { report.first_done.min(end) };
        report.last_done = report.last_done.max(end);
        report.operations += 1;
        report.bytes += self.flow.operation_bytes;
        report.latencies_ps.push(end_ps - posted_ps);
        self.close(at as usize, end_ps)
    }

    fn close(&mut self, at: usize, end_ps: u64) -> bool {
        let was_closed = std::mem::replace(&mut self.operations[at].closed, true);
        assert!(!was_closed, "operation {} ends twice", self.first + at as u64);
        self.closed += 1;
        let (closed, posted) = (self.closed, self.posted);
        assert_of!(
            closed <= posted,
            [closed, posted],
            "{closed} operations have ended, {posted} were posted"
        );
        self.ends.push(Reverse(end_ps));
        while self.operations.front().is_some_and(|op| op.closed) {
            self.operations.pop_front();
            self.first += 1;
        }
        std::mem::take(&mut self.waiting)
    }

    fn fail(&mut self, operation: u64, time_ps: u64, why: String) -> bool {
        let Some(at) = operation.checked_sub(self.first) else { return false };
        if self.operations.get(at as usize).is_none_or(|op| op.closed) {
            return false;
        }
        self.report.failed += 1;
        self.complain(why);
        self.close(at as usize, time_ps)
    }

    fn complain(&mut self, why: String) {
        if self.report.errors.len() < MAX_REPORTED_ERRORS {
            self.report.errors.push(why);
        }
    }
}

impl Fabric {
    /// Adds a flow, which begins at its start time once the fabric runs. Memory that it reads is
    /// filled with a pattern first.
    ///
    /// # Errors
    /// [`FlowError`] if the source is unsuitable or a number is out of range.
    pub fn start_flow(&mut self, flow: Flow) -> Result<FlowId, FlowError> {
        let host = self.check_flow(&flow)?;
        let number = self.flows.len() as u32;
        let (stride, slots) = (flow.stride_bytes(), flow.slots());
        let (source, kind) = (flow.source, flow.kind);
        self.flows.push(FlowState {
            host,
            number,
            stride,
            slots,
            posted: 0,
            closed: 0,
            first: 0,
            operations: VecDeque::new(),
            ends: BinaryHeap::new(),
            in_flight: 0,
            waiting: false,
            copy: None,
            report: FlowReport::default(),
            flow,
        });
        let id = FlowId(number);
        self.prepare_window(id);
        match source {
            FlowSource::Endpoint(node) => {
                if let Some(generic) = self.generic(node.0) {
                    generic.add_flow(number, kind);
                }
            }
            FlowSource::Core { root_complex, core } => {
                self.with_root(root_complex.0, |root, _| root.processor.add_flow(core, number));
            }
        }
        self.wake_requester(number, self.events.now_ps());
        Ok(id)
    }

    /// Makes two flows a copy: what the first writes, the second reads at the same place, operation
    /// by operation. It begins with one when all of it can be seen, and its place is written anew
    /// when the reader has all of it. So the window is the copy's buffers.
    ///
    /// # Errors
    /// [`FlowError::BadValue`] if they are not a write and a read of the same operations in the
    /// same window, in their order.
    pub fn start_copy(&mut self, writer: Flow, reader: Flow) -> Result<[FlowId; 2], FlowError> {
        let same = |flow: &Flow| {
            let (target, window) = (flow.target, flow.window_bytes);
            (target, window, flow.operation_bytes, flow.operations, flow.scattered)
        };
        let is_copy = (writer.kind, reader.kind) == (FlowKind::Write, FlowKind::Read);
        if !is_copy || same(&writer) != same(&reader) || writer.scattered {
            let problem = format!("{} does not read what it writes", reader.name);
            return Err(FlowError::BadValue { flow: writer.name, problem });
        }
        let ids = [self.start_flow(writer)?, self.start_flow(reader)?];
        for (own, other) in [(0, 1), (1, 0)] {
            let state = &mut self.flows[ids[own].0 as usize];
            let is_writer = own == 0;
            let grants = if is_writer { vec![0; state.slots as usize].into() } else { [].into() };
            state.copy = Some(CopyState { other: ids[other].0, is_writer, grants, told: 0 });
        }
        Ok(ids)
    }

    /// Tells the other flow of a copy of the operations that have ended since.
    fn tell_copy(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let Some(copy) = &mut state.copy else { return };
        let ended = state.first - copy.told;
        if ended == 0 {
            return;
        }
        copy.told = state.first;
        let (other, from_ps) = (copy.other, state.report.last_done.0);
        let state = &mut self.flows[other as usize];
        if let Some(copy) = &mut state.copy {
            copy.grants.extend((0..ended).map(|_| from_ps));
        }
        if std::mem::take(&mut state.waiting) {
            self.wake_requester(other, from_ps.max(self.events.now_ps()));
        }
    }

    fn check_flow(&mut self, flow: &Flow) -> Result<HostId, FlowError> {
        let name = || flow.name.clone();
        let bad = |problem: String| Err(FlowError::BadValue { flow: name(), problem });
        let node = match flow.source {
            FlowSource::Endpoint(node) => node,
            FlowSource::Core { root_complex, .. } => root_complex,
        };
        let Some(owner) = self.nodes.get(node.0 as usize) else {
            return Err(FlowError::BadSource { flow: name(), what: format!("node {}", node.0) });
        };
        let (what, host, kind) = (owner.name.clone(), owner.host, owner.kind);
        let mut is_core = false;
        let fits = match flow.source {
            FlowSource::Endpoint(_) => self.generic(node.0).is_some(),
            FlowSource::Core { core, .. } => {
                is_core = true;
                kind == NodeKind::RootComplex
                    && self
                        .with_root(node.0, |root, _| core < root.processor.cores())
                        .unwrap_or(false)
            }
        };
        if !fits {
            return Err(FlowError::BadSource { flow: name(), what });
        }
        if is_core && flow.kind == FlowKind::WriteRead {
            return bad("a core writes or reads; writeread is for endpoints".into());
        }
        if flow.region == Region::WriteCombined {
            self.check_streaming(flow, is_core.then_some(node))?;
        }
        let most = if is_core { MAX_STORE_BYTES } else { self.packets.largest_payload_bytes() };
        if let Some(bytes) = flow.tlp_bytes {
            let most = if flow.kind == FlowKind::Read && !is_core { 4096 } else { most };
            if !bytes.is_power_of_two() {
                return bad(format!("{bytes} B for each TLP is not a power of two"));
            }
            if bytes > most {
                let what = match (is_core, flow.kind) {
                    (true, _) => "a core stores and loads",
                    (false, FlowKind::Read) => "a read may ask for",
                    (false, _) => "any port of this lab could take as payload",
                };
                return bad(format!(
                    "{bytes} B for each TLP is more than the {most} B that {what}"
                ));
            }
        }
        if flow.operation_bytes == 0 || flow.operation_bytes > MAX_OPERATION_BYTES {
            let bytes = flow.operation_bytes;
            return bad(format!("an operation of {bytes} B is not between 1 B and 64 GiB"));
        }
        if flow.operations == 0 || flow.outstanding == 0 || flow.outstanding > MAX_OUTSTANDING {
            return bad(format!(
                "{} operations, {} at once: both must be at least 1, and at once at most \
                 {MAX_OUTSTANDING}",
                flow.operations, flow.outstanding
            ));
        }
        let stride = flow.stride_bytes();
        let slots = u64::from(flow.outstanding).min(flow.operations);
        if flow.window_bytes / stride < slots {
            return bad(format!(
                "a window of {} B has no room for {slots} operations of {stride} B at once",
                flow.window_bytes
            ));
        }
        if flow.target.0.checked_add(flow.window_bytes).is_none() {
            return bad(format!("the window at {} goes beyond 64 bits", flow.target));
        }
        Ok(host)
    }

    /// Checks that a flow can read write-combined memory, by streaming loads of a core of `root`.
    fn check_streaming(&mut self, flow: &Flow, root: Option<NodeId>) -> Result<(), FlowError> {
        let bad = |problem: &str| {
            let (flow, problem) = (flow.name.clone(), problem.to_owned());
            Err(FlowError::BadValue { flow, problem })
        };
        if flow.kind != FlowKind::Read {
            return bad("only reads of a flow go through a write-combined mapping");
        }
        let Some(root) = root else {
            return bad("only a core reads through a write-combined mapping");
        };
        let streams = self.with_root(root.0, |root, _| root.processor.streams());
        if streams != Some(true) {
            return bad("the processor has no streaming loads from write-combined memory");
        }
        match flow.tlp_bytes {
            None | Some(MAX_STORE_BYTES) => Ok(()),
            Some(_) => bad("a streaming load reads a line of 64 B"),
        }
    }

    /// Resolves an address of a flow to its memory, with the number of bytes contiguous from there.
    fn flow_memory(&mut self, id: FlowId, address: BusAddress) -> (BusAddress, u64) {
        let FlowState { host, flow, .. } = &self.flows[id.0 as usize];
        let (host, source) = (*host, flow.source);
        let FlowSource::Endpoint(node) = source else { return (address, PIECE_BYTES) };
        let function = self.port_states[self.nodes[node.0 as usize].ports[0].0 as usize].routing_id;
        match self.translate_io(host, function, address) {
            Some(target) => (target, IO_PAGE_BYTES - target.0 % IO_PAGE_BYTES),
            // No IOMMU, or one of another root complex: a peer's BAR below the same switch.
            None => (address, PIECE_BYTES),
        }
    }

    /// Fills the window of a flow that reads; a program of the host has written to any window.
    fn prepare_window(&mut self, id: FlowId) {
        match self.flows[id.0 as usize].flow.kind {
            FlowKind::Read => self.fill_window(id),
            _ if self.has_caches => self.note_window(id),
            _ => {}
        }
    }

    /// Notes a window in the host's cache.
    fn note_window(&mut self, id: FlowId) {
        let state = &self.flows[id.0 as usize];
        let (host, mut at) = (state.host, state.flow.target.0);
        let end = at + state.slots * state.stride;
        while at < end {
            let (target, most) = self.flow_memory(id, BusAddress(at));
            let length = (end - at).min(most);
            self.note_host_write(host, target, length);
            at += length;
        }
    }

    fn fill_window(&mut self, id: FlowId) {
        let state = &self.flows[id.0 as usize];
        let (host, slots, bytes) = (state.host, state.slots, state.flow.operation_bytes);
        let mut piece = vec![0; bytes.min(PIECE_BYTES) as usize];
        for slot in 0..slots {
            let (address, key) =
                (self.flows[id.0 as usize].address(slot), self.flows[id.0 as usize].key(slot));
            let mut done = 0;
            while done < bytes {
                let (at, most) = self.flow_memory(id, BusAddress(address + done));
                let length = (bytes - done).min(most) as usize;
                pattern::fill(key, done, &mut piece[..length]);
                if !self.poke(host, at, &piece[..length]) {
                    return;
                }
                done += length as u64;
            }
        }
    }

    /// Report on a flow so far. If it has ended, its last written data are checked in memory once
    /// more.
    pub fn flow_report(&mut self, id: FlowId) -> FlowReport {
        let state = &self.flows[id.0 as usize];
        if !state.is_open() && state.report.failed == 0 && state.flow.kind != FlowKind::Read {
            self.verify_window(id);
        }
        self.flows[id.0 as usize].report.clone()
    }

    /// Fails the open operations of a flow, for use when the fabric is stuck.
    pub fn abandon_flow(&mut self, id: FlowId) {
        let state = &mut self.flows[id.0 as usize];
        if !state.is_open() {
            return;
        }
        let why = state.unfinished();
        state.complain(why);
        let left = state.flow.operations - state.closed;
        state.report.failed += left;
        state.closed = state.flow.operations;
        state.posted = state.flow.operations;
        state.operations.clear();
    }

    /// Checks byte for byte the newest operation in each slot of a flow's window.
    fn verify_window(&mut self, id: FlowId) {
        let state = &self.flows[id.0 as usize];
        let (host, slots, bytes) = (state.host, state.slots, state.flow.operation_bytes);
        let operations = state.flow.operations;
        let mut piece = vec![0; bytes.min(PIECE_BYTES) as usize];
        for operation in operations.saturating_sub(slots)..operations {
            let state = &self.flows[id.0 as usize];
            let (address, key) = (state.address(operation), state.key(operation));
            let mut done = 0;
            while done < bytes {
                let (at, most) = self.flow_memory(id, BusAddress(address + done));
                let length = (bytes - done).min(most) as usize;
                let known = self.peek(host, at, &mut piece[..length]);
                if !known || !pattern::matches(key, done, &piece[..length]) {
                    let why = format!("operation {operation}: memory at {at} is not what was sent");
                    let state = &mut self.flows[id.0 as usize];
                    state.report.failed += 1;
                    state.complain(why);
                    return;
                }
                done += length as u64;
            }
        }
    }

    /// Notes that `bytes` of a generic requester's write are in memory, visible from `visible_ps`
    /// on. Returns a description of any mismatch.
    pub(crate) fn written(
        &mut self,
        index: PacketIndex,
        bytes: u32,
        visible_ps: u64,
    ) -> Result<(), String> {
        let packet = self.packets.get(index);
        let Some(number) = packet.flow.checked_sub(1) else { return Ok(()) };
        let (operation, address) = (u64::from(packet.operation), packet.header.address.0);
        let skip = (address & 3) as usize;
        let data = &self.packets.payload(index)[skip..skip + bytes as usize];
        let state = &mut self.flows[number as usize];
        let offset = address.wrapping_sub(state.address(operation));
        if !pattern::matches(state.key(operation), offset, data) {
            let what = format!("flow {}, operation {operation}, offset {offset}", state.flow.name);
            return Err(what);
        }
        if state.flow.kind == FlowKind::Write
            && state.progress(operation, u64::from(bytes), visible_ps)
        {
            self.wake_requester(number, visible_ps);
        }
        self.tell_copy(number);
        Ok(())
    }

    /// Notes read data at the requester, which count from `done_ps` on.
    pub(crate) fn read_progress(&mut self, flow: u32, operation: u64, bytes: u64, done_ps: u64) {
        if self.flows[flow as usize].progress(operation, bytes, done_ps) {
            self.wake_requester(flow, done_ps);
        }
        self.tell_copy(flow);
    }

    /// Fails an operation.
    pub(crate) fn fail_operation(&mut self, flow: u32, operation: u64, why: String) {
        let now_ps = self.events.now_ps();
        if self.flows[flow as usize].fail(operation, now_ps, why) {
            self.wake_requester(flow, now_ps);
        }
        self.tell_copy(flow);
    }

    /// Schedules a flow's requester to look for work at `time_ps`.
    fn wake_requester(&mut self, flow: u32, time_ps: u64) {
        let source = self.flows[flow as usize].flow.source;
        match source {
            FlowSource::Endpoint(node) => {
                let token = crate::generic::STEP;
                self.events.schedule(time_ps, EventKind::DeviceTimer, node.0, token);
            }
            FlowSource::Core { root_complex, core } => {
                let core = u32::from(core);
                self.events.schedule(time_ps, EventKind::Core, root_complex.0, core);
            }
        }
    }
}
