// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host code in simulated time: loads and stores of a core, timers, watched memory, interrupts.
//! Host code makes requests with tokens that it chooses, and lets the fabric run until one of them
//! has an event.
//!
//! At equal times fabric events run before host code, which gets its events in the order in which
//! they became certain.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crosslane_pcie::kinds;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use thiserror::Error;

use crate::cpu::MAX_INTERRUPTS;
use crate::events::{Event, EventKind};
use crate::fabric::Fabric;
use crate::flow_state::MAX_STORE_BYTES;
use crate::topology::NodeId;

/// Time that a root complex waits for the completion of a load: the end of the default range of 50
/// us to 50 ms (PCIe 6.x 2.8, 7.5.3.16).
pub const COMPLETION_TIMEOUT: Picoseconds = Picoseconds::from_ms(50);

/// Most accesses that may wait for one core; a bound on memory.
pub const MAX_HOST_ACCESSES: usize = 1 << 16;
/// Most store bytes that may wait for one core; a bound on memory.
pub const MAX_HOST_STORE_BYTES: usize = 1 << 28;

/// Outcome of running the fabric for host code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRun {
    /// An event for host code is ready.
    Happened,
    /// No event is ready yet, but the fabric can run on.
    More,
    /// No event can follow unless host code acts.
    NothingLeft,
}

/// An event for host code; `token` is the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// A load has ended with its data (little-endian) or an error.
    Loaded {
        /// Token of the load.
        token: u64,
        /// The value, in the low bytes.
        result: Result<u64, LoadError>,
    },
    /// The core may continue after a run of stores.
    Stored {
        /// Token of the run.
        token: u64,
    },
    /// A timer has expired.
    Timer {
        /// Token of the timer.
        token: u64,
    },
    /// A write into a watched range is visible now.
    Changed {
        /// Token of the watch.
        token: u64,
    },
    /// The handler of an interrupt has begun to run.
    Interrupt {
        /// Root complex that received the interrupt.
        root_complex: NodeId,
        /// The message's data.
        data: u32,
    },
}

/// Error of a load.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The load was completed with an error, or its address routes nowhere.
    #[error("a load of {bytes} B at {address} was completed with {status}")]
    Refused {
        /// Address of the load.
        address: BusAddress,
        /// Width in bytes.
        bytes: u32,
        /// "Unsupported Request", "Completer Abort", or a fault of the data.
        status: &'static str,
    },
    /// No completion came in time.
    #[error("a load of {bytes} B at {address} got no completion within {timeout}")]
    TimedOut {
        /// Address of the load.
        address: BusAddress,
        /// Width in bytes.
        bytes: u32,
        /// Completion time-out.
        timeout: Picoseconds,
    },
    /// All tags belong to loads that timed out. Reusing one could match a late completion with the
    /// wrong load.
    #[error("cannot load {bytes} B at {address}: loads that timed out hold every tag")]
    NoTag {
        /// Address of the load.
        address: BusAddress,
        /// Width in bytes.
        bytes: u32,
    },
}

kinds!(LoadError {
    Self::Refused { .. } => LinkDown,
    Self::TimedOut { .. } => Timeout,
    Self::NoTag { .. } => Busy,
});

/// Error of requesting a host access.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostAccessError {
    /// The node is not a root complex, or lacks this core.
    #[error("node {node} is not a root complex with a core {core}")]
    NoSuchCore {
        /// Number of the node.
        node: u32,
        /// Number of the core.
        core: u16,
    },
    /// The load is not 1, 2, 4 or 8 bytes wide, or not naturally aligned.
    #[error("cannot load {bytes} B at {address}: 1, 2, 4 or 8 B, naturally aligned, are possible")]
    BadLoad {
        /// Address of the load.
        address: BusAddress,
        /// Width in bytes.
        bytes: u32,
    },
    /// The store width is not supported.
    #[error(
        "cannot store {width_bytes} B at once: a power of two up to {MAX_STORE_BYTES} is possible"
    )]
    BadStoreWidth {
        /// Width asked for, in bytes.
        width_bytes: u32,
    },
    /// The run extends beyond the last address.
    #[error("a run of {bytes} B at {address} goes beyond 64 bits")]
    BeyondAddresses {
        /// Address of the first byte.
        address: BusAddress,
        /// Length in bytes.
        bytes: usize,
    },
    /// The processor has no combining buffers.
    #[error("the processor of node {node} does not combine writes")]
    NoCombining {
        /// Number of the node.
        node: u32,
    },
    /// Too many accesses wait for the core already.
    #[error("cannot queue more at core {core}: {accesses} accesses with {bytes} B of stores wait")]
    TooManyAccesses {
        /// Number of the core.
        core: u16,
        /// Accesses waiting.
        accesses: usize,
        /// Bytes of their stores.
        bytes: usize,
    },
}

kinds!(HostAccessError {
    Self::NoSuchCore { .. } => NotFound,
    Self::BadLoad { .. } | Self::BadStoreWidth { .. } | Self::BeyondAddresses { .. }
        => InvalidArgument,
    Self::NoCombining { .. } => Unsupported,
    Self::TooManyAccesses { .. } => Busy,
});

/// Mapping of the addresses of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Region {
    /// Each store is a separate TLP, in program order.
    #[default]
    Uncached,
    /// Stores collect in combining buffers of 64 B, which leave in any order.
    WriteCombined,
}

/// An access waiting for its core; of a store, the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostAccess {
    Load { address: u64, bytes: u32, region: Region, token: u64 },
    Store { address: u64, left: u64, width_bytes: u32, region: Region, token: u64 },
    Fence { token: u64 },
}

impl HostAccess {
    /// Whether combined writes leave before it. An empty store only waits its turn.
    pub const fn empties_buffers(&self) -> bool {
        match self {
            Self::Load { region, .. } => matches!(region, Region::Uncached),
            Self::Store { region, left, .. } => matches!(region, Region::Uncached) && *left > 0,
            Self::Fence { .. } => true,
        }
    }

    const fn region(&self) -> Region {
        match self {
            Self::Load { region, .. } | Self::Store { region, .. } => *region,
            Self::Fence { .. } => Region::Uncached,
        }
    }
}

/// Address, width and mapping of a run of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRun {
    /// Address of the first byte.
    pub address: BusAddress,
    /// Width of each store in bytes, a power of two up to 64.
    pub width_bytes: u32,
    /// Mapping of the addresses.
    pub region: Region,
}

/// Accesses of host code waiting for one core.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostQueue {
    accesses: VecDeque<HostAccess>,
    /// Bytes of all stores, one run after the other.
    bytes: VecDeque<u8>,
}

impl HostQueue {
    pub fn first(&self) -> Option<HostAccess> {
        self.accesses.front().copied()
    }

    pub fn finish_first(&mut self) {
        let done = self.accesses.pop_front();
        let is_whole = match done {
            Some(HostAccess::Store { left, .. }) => left == 0,
            other => other.is_some(),
        };
        assert!(is_whole, "{done:?} is called finished");
        let (accesses, bytes) = (self.accesses.len(), self.bytes.len());
        assert!(accesses > 0 || bytes == 0, "{bytes} B of stores wait without a store");
    }

    /// Takes the next bytes of the first access, which is a store.
    pub fn take_bytes(&mut self, into: &mut [u8]) {
        let length = into.len();
        let waiting = self.bytes.len();
        assert!(length <= waiting, "{length} B are stored, of {waiting} B that wait");
        for (place, byte) in into.iter_mut().zip(self.bytes.drain(..length)) {
            *place = byte;
        }
        if let Some(HostAccess::Store { address, left, .. }) = self.accesses.front_mut() {
            assert!(length as u64 <= *left, "{length} B are stored at {address:#x}, of {left} B");
            *address += length as u64;
            *left -= length as u64;
        }
    }
}

/// Last moment of time; events due then never happen.
const NEVER_PS: u64 = u64::MAX;

/// Time and sequence number of an event for host code.
type Key = (u64, u64);

/// Key of a watch: root complex, first address, and a number that makes it unique.
type WatchKey = (u32, u64, u64);

#[derive(Clone, Debug)]
struct Watch {
    end: u64,
    token: u64,
}

/// Pending and ready events of host code.
pub(crate) struct HostState {
    /// Certain events, by time and then by order.
    due: BTreeMap<Key, HostEvent>,
    /// Time of the first event in `due`, for the event loop.
    next_ps: u64,
    sequence: u64,
    /// Events ready for host code.
    ready: Vec<HostEvent>,
    timers: BTreeMap<u64, Key>,
    watches: BTreeMap<WatchKey, Watch>,
    watch_tokens: BTreeMap<u64, WatchKey>,
    /// Watches whose write is certain but not yet visible.
    changes: BTreeMap<u64, Key>,
    /// Length of the longest watched range, bytes.
    longest_watch: u64,
    /// Interrupts among those due and ready.
    interrupts: usize,
}

impl HostState {
    pub fn new() -> Self {
        Self {
            due: BTreeMap::new(),
            next_ps: NEVER_PS,
            sequence: 0,
            ready: Vec::new(),
            timers: BTreeMap::new(),
            watches: BTreeMap::new(),
            watch_tokens: BTreeMap::new(),
            changes: BTreeMap::new(),
            longest_watch: 0,
            interrupts: 0,
        }
    }

    /// Schedules an event for host code at `time_ps`.
    pub fn put(&mut self, time_ps: u64, event: HostEvent) -> Key {
        self.sequence += 1;
        let key = (time_ps, self.sequence);
        self.due.insert(key, event);
        self.note_next();
        key
    }

    /// Like [`put`](Self::put), for an interrupt; those beyond a limit are only counted.
    pub fn put_interrupt(&mut self, time_ps: u64, root_complex: NodeId, data: u32) {
        if self.interrupts < MAX_INTERRUPTS {
            self.interrupts += 1;
            self.put(time_ps, HostEvent::Interrupt { root_complex, data });
        }
    }

    fn note_next(&mut self) {
        self.next_ps = self.due.first_key_value().map_or(NEVER_PS, |(key, _)| key.0);
    }

    fn remove(&mut self, key: Option<Key>) {
        if let Some(key) = key {
            self.due.remove(&key);
            self.note_next();
        }
    }

    /// Moves events due by `now` to the ready ones.
    fn ripen(&mut self, now_ps: u64) {
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now_ps) {
            let event = first.remove();
            match &event {
                HostEvent::Timer { token } => drop(self.timers.remove(token)),
                HostEvent::Changed { token } => drop(self.changes.remove(token)),
                _ => {}
            }
            self.ready.push(event);
        }
        self.note_next();
    }

    #[inline]
    pub fn is_watching(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Notes a write into a root complex's memory, visible from `visible_ps` on.
    pub fn note_write(&mut self, node: u32, address: u64, bytes: u32, visible_ps: u64) {
        let end = address.saturating_add(u64::from(bytes));
        let first = address.saturating_sub(self.longest_watch);
        let near = self.watches.range((node, first, 0)..(node, end, 0));
        let near = near.filter(|(_, watch)| watch.end > address);
        let mut hit: Vec<(u64, u64)> = near.map(|(key, watch)| (key.2, watch.token)).collect();
        hit.sort_unstable();
        for (_, token) in hit {
            self.end_watch(token);
            let key = self.put(visible_ps, HostEvent::Changed { token });
            self.changes.insert(token, key);
        }
    }

    fn end_watch(&mut self, token: u64) {
        if let Some(key) = self.watch_tokens.remove(&token) {
            self.watches.remove(&key);
        }
        if self.watches.is_empty() {
            self.longest_watch = 0;
        }
    }
}

impl Fabric {
    /// Number of cores of a root complex; 0 for any other node.
    pub fn host_cores(&mut self, root_complex: NodeId) -> u16 {
        self.with_root(root_complex.0, |root, _| root.processor.cores()).unwrap_or(0)
    }

    /// Loads 1, 2, 4 or 8 bytes from a device, uncached, after all earlier work of the core; its
    /// combined writes leave first. [`HostEvent::Loaded`] follows when the core has the data and
    /// may continue.
    ///
    /// # Errors
    /// [`HostAccessError`] for an unknown core, a bad width or alignment, or too many waiting
    /// accesses.
    pub fn host_load(
        &mut self,
        root_complex: NodeId,
        core: u16,
        address: BusAddress,
        bytes: u32,
        token: u64,
    ) -> Result<(), HostAccessError> {
        self.host_load_from(root_complex, core, address, bytes, Region::Uncached, token)
    }

    /// Like [`host_load`](Self::host_load), from either kind of region. A load from a
    /// write-combined region neither reads nor empties the combining buffers: it returns the
    /// device's data.
    ///
    /// # Errors
    /// As [`host_load`](Self::host_load), and if the processor has no combining buffers.
    pub fn host_load_from(
        &mut self,
        root_complex: NodeId,
        core: u16,
        address: BusAddress,
        bytes: u32,
        region: Region,
        token: u64,
    ) -> Result<(), HostAccessError> {
        if !matches!(bytes, 1 | 2 | 4 | 8) || !address.0.is_multiple_of(u64::from(bytes)) {
            return Err(HostAccessError::BadLoad { address, bytes });
        }
        let access = HostAccess::Load { address: address.0, bytes, region, token };
        self.queue_access(root_complex, core, access, &[])
    }

    /// Stores a run of bytes with uncached stores of `width_bytes` each, lowest address first,
    /// after all earlier work of the core. Stores are shorter where one would be misaligned or
    /// reach too far. [`HostEvent::Stored`] follows when the core may continue after the last
    /// store. A store that routes nowhere is dropped and recorded as an error. Combined writes of
    /// the core leave first.
    ///
    /// # Errors
    /// [`HostAccessError`] for an unknown core, a width other than a power of two up to 64, a run
    /// beyond the last address, or too many waiting accesses.
    pub fn host_store(
        &mut self,
        root_complex: NodeId,
        core: u16,
        address: BusAddress,
        bytes: &[u8],
        width_bytes: u32,
        token: u64,
    ) -> Result<(), HostAccessError> {
        let run = StoreRun { address, width_bytes, region: Region::Uncached };
        self.host_store_into(root_complex, core, run, bytes, token)
    }

    /// Like [`host_store`](Self::host_store), into either kind of region. A store into a
    /// write-combined region reaches the device once its buffer has left: see [`Region`] and
    /// [`host_fence`](Self::host_fence).
    ///
    /// # Errors
    /// As [`host_store`](Self::host_store), and if the processor has no combining buffers.
    pub fn host_store_into(
        &mut self,
        root_complex: NodeId,
        core: u16,
        run: StoreRun,
        bytes: &[u8],
        token: u64,
    ) -> Result<(), HostAccessError> {
        let StoreRun { address, width_bytes, region } = run;
        if !width_bytes.is_power_of_two() || width_bytes > MAX_STORE_BYTES {
            return Err(HostAccessError::BadStoreWidth { width_bytes });
        }
        let left = bytes.len() as u64;
        if address.0.checked_add(left).is_none() {
            return Err(HostAccessError::BeyondAddresses { address, bytes: bytes.len() });
        }
        let access = HostAccess::Store { address: address.0, left, width_bytes, region, token };
        self.queue_access(root_complex, core, access, bytes)
    }

    /// Fences stores: [`HostEvent::Stored`] follows when all combined writes of the core have
    /// reached the root port.
    ///
    /// # Errors
    /// [`HostAccessError`] for an unknown core or too many waiting accesses.
    pub fn host_fence(
        &mut self,
        root_complex: NodeId,
        core: u16,
        token: u64,
    ) -> Result<(), HostAccessError> {
        self.queue_access(root_complex, core, HostAccess::Fence { token }, &[])
    }

    fn queue_access(
        &mut self,
        root_complex: NodeId,
        core: u16,
        access: HostAccess,
        bytes: &[u8],
    ) -> Result<(), HostAccessError> {
        let node = root_complex.0;
        let missing = HostAccessError::NoSuchCore { node, core };
        if self.nodes.get(node as usize).is_none() {
            return Err(missing);
        }
        let queued = self.with_root(node, |root, fabric| {
            if core >= root.processor.cores() {
                return Err(missing.clone());
            }
            if access.region() == Region::WriteCombined && !root.processor.combines() {
                return Err(HostAccessError::NoCombining { node });
            }
            let queue = root.processor.host_queue(fabric, node, core);
            let (accesses, waiting) = (queue.accesses.len(), queue.bytes.len());
            if accesses >= MAX_HOST_ACCESSES || waiting + bytes.len() > MAX_HOST_STORE_BYTES {
                return Err(HostAccessError::TooManyAccesses { core, accesses, bytes: waiting });
            }
            queue.accesses.push_back(access);
            queue.bytes.extend(bytes);
            Ok(())
        });
        queued.unwrap_or(Err(missing))
    }

    /// Schedules [`HostEvent::Timer`] at this time, or now if it has passed; never if it is the
    /// last moment of time. Replaces any timer with this token.
    pub fn host_timer(&mut self, time: Picoseconds, token: u64) {
        self.cancel_host_timer(token);
        let time_ps = time.0.max(self.events.now_ps());
        let key = self.host.put(time_ps, HostEvent::Timer { token });
        self.host.timers.insert(token, key);
    }

    /// Cancels the timer with this token if it has not expired; simulated time no longer advances
    /// for it.
    pub fn cancel_host_timer(&mut self, token: u64) {
        let key = self.host.timers.remove(&token);
        self.host.remove(key);
    }

    /// Schedules [`HostEvent::Changed`] once, when the next device write that touches the range of
    /// the root complex's memory becomes visible. A write that has arrived but is not visible yet
    /// counts. Replaces any watch with this token.
    pub fn host_watch(&mut self, root_complex: NodeId, range: Range<u64>, token: u64) {
        self.cancel_host_watch(token);
        let (node, now_ps) = (root_complex.0, self.events.now_ps());
        if range.is_empty() || self.nodes.get(node as usize).is_none() {
            return;
        }
        let unseen = self.with_root(node, |root, fabric| root.unseen_in(fabric, now_ps, &range));
        if let Some(visible_ps) = unseen.flatten() {
            let key = self.host.put(visible_ps, HostEvent::Changed { token });
            self.host.changes.insert(token, key);
            return;
        }
        let host = &mut self.host;
        host.sequence += 1;
        let key = (node, range.start, host.sequence);
        host.longest_watch = host.longest_watch.max(range.end - range.start);
        host.watches.insert(key, Watch { end: range.end, token });
        host.watch_tokens.insert(token, key);
    }

    /// Cancels the watch with this token if its event has not come.
    pub fn cancel_host_watch(&mut self, token: u64) {
        self.host.end_watch(token);
        let key = self.host.changes.remove(&token);
        self.host.remove(key);
    }

    /// Handles events until one is ready for host code; returns false if none is left. Time-outs of
    /// devices count only when nothing else is left.
    pub fn run_until_host_event(&mut self) -> bool {
        loop {
            match self.run_some_for_host(u32::MAX) {
                HostRun::Happened => return true,
                HostRun::NothingLeft => return false,
                HostRun::More => {}
            }
        }
    }

    /// Like [`run_until_host_event`](Self::run_until_host_event), for at most `most_events` events:
    /// for a free-running lab.
    pub fn run_some_for_host(&mut self, most_events: u32) -> HostRun {
        for _ in 0..most_events {
            if !self.host.ready.is_empty() {
                return HostRun::Happened;
            }
            let due_ps = self.host.next_ps;
            if self.events.work() == 0 && due_ps == NEVER_PS {
                self.forget_idle_timeouts();
            }
            if self.handle(due_ps) {
                continue;
            }
            if due_ps == NEVER_PS {
                return HostRun::NothingLeft;
            }
            self.events.advance_to(due_ps);
            let now_ps = self.events.now_ps();
            assert!(now_ps >= due_ps, "it is {now_ps} ps, and {due_ps} ps were due");
            self.host.ripen(due_ps);
        }
        if self.host.ready.is_empty() { HostRun::More } else { HostRun::Happened }
    }

    /// Handles the events before `end`, until one is ready for host code; returns whether one is.
    /// The clock stays at the last event. For a fabric that is a part of a larger one: until `end`
    /// nothing can come from the other parts.
    pub fn run_window_for_host(&mut self, end: Picoseconds) -> bool {
        while self.host.ready.is_empty() {
            let due_ps = self.host.next_ps;
            if self.handle(due_ps.min(end.0 - 1)) {
                continue;
            }
            if due_ps >= end.0 {
                return false;
            }
            self.events.advance_to(due_ps);
            self.host.ripen(due_ps);
        }
        true
    }

    /// Handles the events before `end`, and none of host code; see
    /// [`run_window_for_host`](Self::run_window_for_host).
    pub fn run_window(&mut self, end: Picoseconds) {
        while self.handle(end.0 - 1) {}
    }

    /// Time of the next event, of the fabric or of host code; [`Picoseconds::NEVER`] if none is
    /// left.
    pub fn next_event(&self) -> Picoseconds {
        let event_ps = self.events.next_ps().unwrap_or(NEVER_PS);
        Picoseconds(event_ps.min(self.host.next_ps))
    }

    /// Drops time-out checks of cores that wait for no load, and of root ports that read nothing of
    /// peers, so that they do not advance the clock.
    fn forget_idle_timeouts(&mut self) {
        while let Some(Event {
            kind: kind @ (EventKind::LoadTimeout | EventKind::PartTimeout),
            target,
            data,
            ..
        }) = self.events.peek()
        {
            let forgotten = self.with_root(target, |root, _| match kind {
                EventKind::LoadTimeout => root.processor.forget_timeout(data),
                _ => root.forget_part_timeout(data),
            });
            if forgotten != Some(true) {
                return;
            }
            self.events.discard();
        }
    }

    /// Moves the ready events, oldest first, to the end of `into`.
    pub fn take_host_events(&mut self, into: &mut Vec<HostEvent>) {
        let is_interrupt = |event: &&HostEvent| matches!(event, HostEvent::Interrupt { .. });
        let taken = self.host.ready.iter().filter(is_interrupt).count();
        let interrupts = self.host.interrupts;
        assert!(taken <= interrupts, "{taken} interrupts are taken, of {interrupts}");
        self.host.interrupts -= taken;
        into.append(&mut self.host.ready);
    }
}
