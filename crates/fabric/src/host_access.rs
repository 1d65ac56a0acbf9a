// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host code in simulated time: loads and stores of a core, timers, memory that is watched,
//! interrupts. Host code asks for something with a token of its own and lets the fabric run until
//! something has happened for it.
//!
//! At equal times fabric events run before host code, which takes its own in the order in which
//! they became certain.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crosslane_pcie::units::{BusAddress, Picoseconds};
use thiserror::Error;

use crate::cpu::MAX_INTERRUPTS;
use crate::events::{Event, EventKind};
use crate::fabric::Fabric;
use crate::flow_state::MAX_STORE_BYTES;
use crate::topology::NodeId;

/// How long a root complex waits for the completion of a load: the end of the default range of
/// 50 us to 50 ms (PCIe 6.x 2.8, 7.5.3.16).
pub const COMPLETION_TIMEOUT: Picoseconds = Picoseconds::from_ns(50_000_000);

/// Accesses that may wait for one core: a bound on memory.
pub const MAX_HOST_ACCESSES: usize = 1 << 16;
/// Bytes of stores that may wait for one core: a bound on memory.
pub const MAX_HOST_STORE_BYTES: usize = 1 << 28;

/// How a fabric went on for host code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRun {
    /// Something has happened for it.
    Happened,
    /// Not yet.
    More,
    /// Nothing will, unless host code does something.
    NothingLeft,
}

/// What has happened for host code; `token` is the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// A load has its data (little-endian), or no data came.
    Loaded {
        /// Of the load.
        token: u64,
        /// The value, in the low bytes.
        result: Result<u64, LoadError>,
    },
    /// The core may go on behind a run of stores.
    Stored {
        /// Of the run.
        token: u64,
    },
    /// The time has come.
    Timer {
        /// Of the timer.
        token: u64,
    },
    /// A write into a watched range can be seen now.
    Changed {
        /// Of the watch.
        token: u64,
    },
    /// An interrupt's handler has begun to run.
    Interrupt {
        /// Where.
        root_complex: NodeId,
        /// The message's data.
        data: u32,
    },
}

/// Why a load brought no data.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It was completed with an error, or routes nowhere.
    #[error("a load of {bytes} B at {address} was completed with {status}")]
    Refused {
        /// Where.
        address: BusAddress,
        /// Its width.
        bytes: u32,
        /// "Unsupported Request", "Completer Abort", or what is wrong with the data.
        status: &'static str,
    },
    /// No completion came in time.
    #[error("a load of {bytes} B at {address} got no completion within {timeout}")]
    TimedOut {
        /// Where.
        address: BusAddress,
        /// Its width.
        bytes: u32,
        /// The limit.
        timeout: Picoseconds,
    },
    /// All tags belong to loads that timed out; a late completion could be taken for that of
    /// another load.
    #[error("a load of {bytes} B at {address} finds every tag taken by loads that timed out")]
    NoTag {
        /// Where.
        address: BusAddress,
        /// Its width.
        bytes: u32,
    },
}

/// An access that cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostAccessError {
    /// No root complex, or none with this core.
    #[error("node {node} is no root complex with a core {core}")]
    NoSuchCore {
        /// Number of the node.
        node: u32,
        /// Number of the core.
        core: u16,
    },
    /// A load that is neither 1, 2, 4 nor 8 bytes wide, or not naturally aligned.
    #[error("a load of {bytes} B at {address}: 1, 2, 4 or 8 B, naturally aligned, are possible")]
    BadLoad {
        /// Where.
        address: BusAddress,
        /// Its width.
        bytes: u32,
    },
    /// A width that no store has.
    #[error("stores of {width_bytes} B: a power of two of at most {MAX_STORE_BYTES} is possible")]
    BadStoreWidth {
        /// What was asked for.
        width_bytes: u32,
    },
    /// A run that goes beyond the last address.
    #[error("a run of {bytes} B at {address} goes beyond 64 bits")]
    BeyondAddresses {
        /// Where it begins.
        address: BusAddress,
        /// Its length.
        bytes: usize,
    },
    /// The processor has no write-combining buffers.
    #[error("the processor of node {node} does not combine writes")]
    NoCombining {
        /// Number of the node.
        node: u32,
    },
    /// Too much waits for the core already.
    #[error("core {core} has {accesses} accesses with {bytes} B of stores waiting")]
    TooManyAccesses {
        /// Number of the core.
        core: u16,
        /// Accesses that wait.
        accesses: usize,
        /// Bytes of their stores.
        bytes: usize,
    },
}

/// How the processor treats the addresses of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Region {
    /// Each store is a TLP of its own, in the order of the program.
    #[default]
    Uncached,
    /// Stores collect in buffers of 64 B, which leave in any order.
    WriteCombined,
}

/// An access that waits for its core; of a store, what is left of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostAccess {
    Load { address: u64, bytes: u32, region: Region, token: u64 },
    Store { address: u64, left: u64, width_bytes: u32, region: Region, token: u64 },
    Fence { token: u64 },
}

impl HostAccess {
    /// Whether combined writes leave before it. A store of nothing only waits its turn.
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

/// Where a run of stores goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRun {
    /// Of the first byte.
    pub address: BusAddress,
    /// Of each store, a power of two up to 64.
    pub width_bytes: u32,
    /// What it is stored into.
    pub region: Region,
}

/// The accesses of host code that wait for one core.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostQueue {
    accesses: VecDeque<HostAccess>,
    /// Bytes of all stores, one run behind the other.
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

    /// Takes the next bytes of the first access, a store.
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

/// The last moment of time: what is due then is never due.
const NEVER_PS: u64 = u64::MAX;

/// Place in the order of what happens for host code.
type Key = (u64, u64);

/// A range of a root complex's memory that is watched: root complex, first address, and a number
/// that makes it unique.
type WatchKey = (u32, u64, u64);

#[derive(Clone, Debug)]
struct Watch {
    end: u64,
    token: u64,
}

/// What is to happen for host code.
pub(crate) struct HostState {
    /// What will have happened when, by time and then by order.
    due: BTreeMap<Key, HostEvent>,
    /// Time of the first, for the event loop.
    next_ps: u64,
    sequence: u64,
    /// What has happened.
    ready: Vec<HostEvent>,
    timers: BTreeMap<u64, Key>,
    watches: BTreeMap<WatchKey, Watch>,
    watch_tokens: BTreeMap<u64, WatchKey>,
    /// Watches whose write is certain and not yet to be seen.
    changes: BTreeMap<u64, Key>,
    /// Longest range in `watches`, bytes.
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

    /// At `time_ps`, this will have happened.
    pub fn put(&mut self, time_ps: u64, event: HostEvent) -> Key {
        self.sequence += 1;
        let key = (time_ps, self.sequence);
        self.due.insert(key, event);
        self.note_next();
        key
    }

    /// As [`put`](Self::put) for an interrupt; beyond a limit they are counted elsewhere only.
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

    /// Moves what is due by `now` to what has happened.
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

    /// A write into a root complex's memory is certain and can be seen from `visible_ps` on.
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
    /// How many cores a root complex has; 0 for any other node.
    pub fn host_cores(&mut self, root_complex: NodeId) -> u16 {
        self.with_root(root_complex.0, |root, _| root.processor.cores()).unwrap_or(0)
    }

    /// Loads 1, 2, 4 or 8 bytes of a device, uncached, behind all that the core has to do already:
    /// its combined writes leave first. [`HostEvent::Loaded`] comes when the core has the data and
    /// may go on.
    ///
    /// # Errors
    /// No such core, a bad width or alignment, or too many accesses that wait.
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

    /// As [`host_load`](Self::host_load), from either kind of region. A load from a write-combined
    /// one does not look into the buffers and does not empty them: it gives what the device has.
    ///
    /// # Errors
    /// As there, and a processor that has no write-combining buffers.
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

    /// Stores a run of bytes with uncached stores of `width_bytes` each, lowest address first;
    /// shorter ones where a store would not be naturally aligned or reach too far. Behind all
    /// that the core has to do already. [`HostEvent::Stored`] comes when the core may go on behind
    /// the last store. What routes nowhere is dropped and noted among the errors. Combined writes
    /// of the core leave first.
    ///
    /// # Errors
    /// No such core, a width that is no power of two up to 64, a run beyond the last address,
    /// or too many accesses that wait.
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

    /// As [`host_store`](Self::host_store), into either kind of region. What is stored into a
    /// write-combined one is at the device when its buffer has left: see [`Region`] and
    /// [`host_fence`](Self::host_fence).
    ///
    /// # Errors
    /// As there, and a processor that has no write-combining buffers.
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

    /// A fence of stores: [`HostEvent::Stored`] comes when all combined writes of the core have
    /// reached the root port.
    ///
    /// # Errors
    /// No such core, or too many accesses that wait.
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

    /// [`HostEvent::Timer`] comes at this time, or now if it has passed; never at the last moment
    /// that there is. Another timer with this
    /// token is replaced.
    pub fn host_timer(&mut self, time: Picoseconds, token: u64) {
        self.cancel_host_timer(token);
        let time_ps = time.0.max(self.events.now_ps());
        let key = self.host.put(time_ps, HostEvent::Timer { token });
        self.host.timers.insert(token, key);
    }

    /// The timer with this token will not come, if it has not yet: time does not go on for its
    /// sake.
    pub fn cancel_host_timer(&mut self, token: u64) {
        let key = self.host.timers.remove(&token);
        self.host.remove(key);
    }

    /// [`HostEvent::Changed`] comes once, when the next write of a device that touches the range
    /// of the root complex's memory can be seen: also one that has arrived and cannot be seen yet.
    /// Another watch with this token is replaced.
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

    /// The watch with this token will not come, if it has not yet.
    pub fn cancel_host_watch(&mut self, token: u64) {
        self.host.end_watch(token);
        let key = self.host.changes.remove(&token);
        self.host.remove(key);
    }

    /// Works off events until there is something for host code; false when no event is left.
    /// Time-outs of devices count only when nothing else is left.
    pub fn run_until_host_event(&mut self) -> bool {
        loop {
            match self.run_some_for_host(u32::MAX) {
                HostRun::Happened => return true,
                HostRun::NothingLeft => return false,
                HostRun::More => {}
            }
        }
    }

    /// The same, of at most so many events: for a lab that runs beside real time.
    pub fn run_some_for_host(&mut self, most_events: u32) -> HostRun {
        for _ in 0..most_events {
            if !self.host.ready.is_empty() {
                return HostRun::Happened;
            }
            let due_ps = self.host.next_ps;
            if self.events.work() == 0 && due_ps == NEVER_PS {
                self.forget_idle_timeouts();
            }
            match self.events.peek_ps() {
                Some(next_ps) if next_ps <= due_ps => self.take_event(),
                _ if due_ps != NEVER_PS => {
                    self.events.advance_to(due_ps);
                    let now_ps = self.events.now_ps();
                    assert!(now_ps >= due_ps, "it is {now_ps} ps, and {due_ps} ps were due");
                    self.host.ripen(due_ps);
                }
                _ => return HostRun::NothingLeft,
            }
        }
        if self.host.ready.is_empty() { HostRun::More } else { HostRun::Happened }
    }

    /// Looks for loads that timed out, of cores that wait for none, do not move the clock.
    fn forget_idle_timeouts(&mut self) {
        while let Some(Event { kind: EventKind::LoadTimeout, target, data }) = self.events.peek() {
            let forgotten = self.with_root(target, |root, _| root.processor.forget_timeout(data));
            if forgotten != Some(true) {
                return;
            }
            self.events.discard();
        }
    }

    /// Moves what has happened for host code, oldest first, to the end of `into`.
    pub fn take_host_events(&mut self, into: &mut Vec<HostEvent>) {
        let is_interrupt = |event: &&HostEvent| matches!(event, HostEvent::Interrupt { .. });
        let taken = self.host.ready.iter().filter(is_interrupt).count();
        let interrupts = self.host.interrupts;
        assert!(taken <= interrupts, "{taken} interrupts are taken, of {interrupts}");
        self.host.interrupts -= taken;
        into.append(&mut self.host.ready);
    }
}
