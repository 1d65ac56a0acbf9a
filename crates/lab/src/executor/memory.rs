// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory for devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crosslane_host::{BusError, BusResult, DmaMemory, PageSize, Segment};
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

use super::pages::PageRun;
use super::shared::Shared;
use super::translation::Mapped;

/// The pins of memory for functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins {
    last: u64,
    /// Memory and function of each pin, with its mapping if it needs one.
    pinned: BTreeMap<(u64, u16), Option<Mapped>>,
}

impl Pins {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn has(&self, memory: u64, function: RoutingId) -> bool {
        self.pinned.contains_key(&(memory, function.0))
    }

    /// Returns the mapping of a pin.
    pub fn mapped(&self, memory: u64, function: RoutingId) -> Option<&Mapped> {
        self.pinned.get(&(memory, function.0))?.as_ref()
    }

    pub fn pin(&mut self, memory: u64, function: RoutingId, mapped: Option<Mapped>) {
        self.pinned.insert((memory, function.0), mapped);
    }

    /// Removes a pin and returns its mapping; `None` if it was not pinned.
    pub fn unpin(&mut self, memory: u64, function: RoutingId) -> Option<Option<Mapped>> {
        self.pinned.remove(&(memory, function.0))
    }

    /// Returns the function of each pin.
    pub fn functions(&self) -> Vec<RoutingId> {
        self.pinned.keys().map(|(_, function)| RoutingId(*function)).collect()
    }

    fn is_pinned(&self, memory: u64) -> bool {
        self.pinned.range((memory, 0)..=(memory, u16::MAX)).next().is_some()
    }
}

/// Memory of one host of a lab for devices. Host code reads and writes it in no simulated time; the
/// time is that of [`HostWork::Copy`](crosslane_host::HostWork::Copy). Memory freed while it is
/// pinned stays out of use, as in a kernel.
#[derive(Clone)]
pub struct LabMemory {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    host: usize,
    id: u64,
    size_bytes: u64,
    runs: Vec<PageRun>,
    /// Offset of each run, and of the end, bytes.
    offsets: Vec<u64>,
}

impl LabMemory {
    pub(super) fn allocate(
        shared: &Arc<Shared>,
        host: usize,
        bytes: u64,
        pages: PageSize,
    ) -> BusResult<Self> {
        let mut state = shared.lock();
        let state = &mut *state;
        let memory = &mut state.memories[host];
        let left_bytes = memory.pages.free_bytes();
        let taken = memory.pages.take(bytes, pages);
        let runs = taken.ok_or(BusError::OutOfMemory { bytes, left_bytes })?;
        let id = memory.pins.next();
        let (mut offsets, mut end) = (vec![0], 0);
        for run in &runs {
            end += run.bytes;
            offsets.push(end);
            state.fabric.zero(HostId(host as u16), BusAddress(run.address), run.bytes);
        }
        let shared = shared.clone();
        let inner = Inner { shared, host, id, size_bytes: bytes, runs, offsets };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(super) fn size(&self) -> u64 {
        self.inner.size_bytes
    }

    pub(super) fn host(&self) -> usize {
        self.inner.host
    }

    /// Returns its number among the memories of its host.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    pub(super) fn runs(&self) -> &[PageRun] {
        &self.inner.runs
    }

    /// Returns the address of its first byte; 0 if it has none.
    pub(super) fn first_address(&self) -> u64 {
        self.inner.runs.first().map_or(0, |run| run.address)
    }

    /// Returns its addresses in the host's memory: segments that cover it in order, with neighbours
    /// joined.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut left = self.inner.size_bytes;
        for run in &self.inner.runs {
            let bytes = run.bytes.min(left);
            left -= bytes;
            match segments.last_mut() {
                Some(last) if last.address.0 + last.bytes == run.address => last.bytes += bytes,
                _ => segments.push(Segment { address: BusAddress(run.address), bytes }),
            }
        }
        segments
    }

    /// Returns the address of a byte within it, and the number of bytes from there to the end of
    /// its run.
    pub(super) fn locate(&self, offset_bytes: u64) -> (u64, u64) {
        let offsets = &self.inner.offsets;
        let index = offsets.partition_point(|&start| start <= offset_bytes) - 1;
        let run = &self.inner.runs[index];
        let within = offset_bytes - offsets[index];
        (run.address + within, run.bytes - within)
    }
}

impl DmaMemory for LabMemory {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> BusResult<()> {
        self.check(offset_bytes, into.len())?;
        let (mut at, mut rest) = (offset_bytes, into);
        let mut state = self.inner.shared.lock();
        while !rest.is_empty() {
            let (address, run_bytes) = self.locate(at);
            let length = run_bytes.min(rest.len() as u64);
            let (piece, after) = rest.split_at_mut(length as usize);
            state.fabric.peek(HostId(self.inner.host as u16), BusAddress(address), piece);
            rest = after;
            at += length;
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> BusResult<()> {
        self.check(offset_bytes, from.len())?;
        let (mut at, mut rest) = (offset_bytes, from);
        let mut wakers = Vec::new();
        let mut state = self.inner.shared.lock();
        while !rest.is_empty() {
            let (address, run_bytes) = self.locate(at);
            let length = run_bytes.min(rest.len() as u64);
            let (piece, after) = rest.split_at(length as usize);
            state.fabric.poke(HostId(self.inner.host as u16), BusAddress(address), piece);
            wakers.extend(state.memory_written(self.inner.host, address, length));
            rest = after;
            at += length;
        }
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let memory = &mut state.memories[self.host];
        if !memory.pins.is_pinned(self.id) {
            memory.pages.give_back(&self.runs);
        }
    }
}

impl std::fmt::Debug for LabMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.inner.size_bytes;
        write!(f, "LabMemory({bytes} B from {:#x})", self.first_address())
    }
}
