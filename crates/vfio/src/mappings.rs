// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA mappings by domain, with a cache of mappings that are not pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crosslane_pcie::units::RoutingId;

use crate::addresses::Addresses;
use crate::function::{DomainId, Function, FunctionError, Region, Result};
use crate::memory::{HUGE_PAGE_BYTES, Pages, SMALL_PAGE_BYTES};

/// Error number of "no space": the domain can hold no more mappings.
const ENOSPC: i32 = 28;

/// Number of a memory, unique in the process.
pub(crate) type MemoryId = u64;

/// An error of pinning or unpinning.
#[derive(Debug)]
pub(crate) enum PinError {
    /// The function has the memory pinned.
    Already,
    /// The function does not have it pinned.
    NotPinned,
    /// No domain has the function.
    NoFunction,
    /// No run of free addresses is long enough.
    NoAddresses,
    /// Mapping or unmapping failed.
    Function(FunctionError),
}

/// A memory in a domain.
#[derive(Debug)]
struct Mapping {
    iova: u64,
    bytes: u64,
    /// Functions that have it pinned; empty while the mapping is only kept.
    pinned: BTreeSet<RoutingId>,
    /// Key in [`Domain::kept`]; 0 for a mapping that was never kept.
    kept_since: u64,
}

/// A BAR of one function that is mapped in the domain of another.
struct PinnedBar {
    iova: u64,
    peer: Arc<dyn Function>,
    /// Number of pins of each function.
    pins: BTreeMap<RoutingId, u32>,
}

/// A set of functions that share their mappings.
struct Domain {
    id: DomainId,
    functions: Vec<Arc<dyn Function>>,
    addresses: Addresses,
    mappings: BTreeMap<MemoryId, Mapping>,
    bars: BTreeMap<(RoutingId, u8), PinnedBar>,
    /// Memories that are mapped but not pinned, oldest first.
    kept: BTreeMap<u64, MemoryId>,
    kept_bytes: u64,
    next_kept: u64,
}

/// The mappings of all functions of a bus.
pub(crate) struct Mappings {
    domains: Vec<Domain>,
    /// Bytes in each domain that may stay mapped without a pin.
    most_kept_bytes: u64,
}

/// Returns the addresses that all of the functions can use.
fn in_all(functions: &[Arc<dyn Function>]) -> Vec<RangeInclusive<u64>> {
    let mut common = vec![0..=u64::MAX];
    for function in functions {
        let mut both = Vec::new();
        for a in &common {
            for b in function.usable_addresses() {
                let (first, last) = (*a.start().max(b.start()), *a.end().min(b.end()));
                if first <= last {
                    both.push(first..=last);
                }
            }
        }
        common = both;
    }
    common
}

impl Mappings {
    /// Creates the domains of `functions`, without mappings. Addresses in `kept_off` are never
    /// used.
    pub fn new(
        functions: &[Arc<dyn Function>],
        kept_off: &[RangeInclusive<u64>],
        most_kept_bytes: u64,
    ) -> Self {
        let mut by_domain: BTreeMap<DomainId, Vec<Arc<dyn Function>>> = BTreeMap::new();
        for function in functions {
            by_domain.entry(function.domain()).or_default().push(Arc::clone(function));
        }
        let domain = |(id, functions): (DomainId, Vec<_>)| Domain {
            id,
            addresses: Addresses::new(&in_all(&functions), kept_off.iter().cloned()),
            functions,
            mappings: BTreeMap::new(),
            bars: BTreeMap::new(),
            kept: BTreeMap::new(),
            kept_bytes: 0,
            next_kept: 0,
        };
        Self { domains: by_domain.into_iter().map(domain).collect(), most_kept_bytes }
    }

    fn domain(&mut self, function: &Arc<dyn Function>) -> Result<&mut Domain, PinError> {
        let id = function.domain();
        self.domains.iter_mut().find(|domain| domain.id == id).ok_or(PinError::NoFunction)
    }

    /// Makes a memory reachable for a function, and returns its first address.
    pub fn pin(
        &mut self,
        function: &Arc<dyn Function>,
        memory: MemoryId,
        pages: &Arc<Pages>,
    ) -> Result<u64, PinError> {
        let domain = self.domain(function)?;
        if let Some(mapping) = domain.mappings.get_mut(&memory) {
            if !mapping.pinned.insert(function.id()) {
                return Err(PinError::Already);
            }
            if domain.kept.remove(&mapping.kept_since).is_some() {
                domain.kept_bytes -= mapping.bytes;
            }
            return Ok(mapping.iova);
        }
        let bytes = pages.bytes();
        let alignment = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { SMALL_PAGE_BYTES };
        let iova = domain
            .map(bytes, alignment, |function, iova| function.map_dma(iova, pages, 0, bytes))?;
        let pinned = BTreeSet::from([function.id()]);
        // `next_kept` is at least 1 for kept mappings, so 0 is never a key.
        domain.mappings.insert(memory, Mapping { iova, bytes, pinned, kept_since: 0 });
        Ok(iova)
    }

    /// Ends a pin. The mapping is kept for the next pin of the same memory while room lasts.
    pub fn unpin(
        &mut self,
        function: &Arc<dyn Function>,
        memory: MemoryId,
    ) -> Result<(), PinError> {
        let most = self.most_kept_bytes;
        let domain = self.domain(function)?;
        let mapping = domain.mappings.get_mut(&memory).ok_or(PinError::NotPinned)?;
        if !mapping.pinned.remove(&function.id()) {
            return Err(PinError::NotPinned);
        }
        if mapping.pinned.is_empty() {
            domain.next_kept += 1;
            mapping.kept_since = domain.next_kept;
            domain.kept.insert(domain.next_kept, memory);
            domain.kept_bytes += mapping.bytes;
            domain.keep_at_most(most).map_err(PinError::Function)?;
        }
        Ok(())
    }

    /// Whether a function has a memory pinned.
    pub fn is_pinned(&self, function: &Arc<dyn Function>, memory: MemoryId) -> bool {
        let id = function.domain();
        let domain = self.domains.iter().find(|domain| domain.id == id);
        let mapping = domain.and_then(|domain| domain.mappings.get(&memory));
        mapping.is_some_and(|mapping| mapping.pinned.contains(&function.id()))
    }

    /// Unmaps a memory from every domain because it is about to be freed.
    pub fn forget(&mut self, memory: MemoryId) {
        for domain in &mut self.domains {
            // If this fails the function is gone, or the kernel keeps the pages for it.
            let _ = domain.unmap(memory);
        }
    }

    /// Removes all mappings.
    pub fn clear(&mut self) {
        for domain in &mut self.domains {
            let memories: Vec<_> = domain.mappings.keys().copied().collect();
            for memory in memories {
                let _ = domain.unmap(memory);
            }
            let bars: Vec<_> = domain.bars.keys().copied().collect();
            for (peer, bar) in bars {
                let _ = domain.unmap_bar(peer, bar);
            }
        }
    }

    /// Makes the parts of a peer's BAR that are mapped into the program reachable, and returns the
    /// address at which the BAR begins.
    pub fn pin_bar(
        &mut self,
        function: &Arc<dyn Function>,
        peer: &Arc<dyn Function>,
        bar: u8,
    ) -> Result<u64, PinError> {
        let domain = self.domain(function)?;
        let key = (peer.id(), bar);
        let iova = match domain.bars.get(&key) {
            Some(pinned) => pinned.iova,
            None => {
                let iova = domain.map_bar(peer, bar)?;
                let pinned = PinnedBar { iova, peer: Arc::clone(peer), pins: BTreeMap::new() };
                domain.bars.insert(key, pinned);
                iova
            }
        };
        let pins = domain.bars.get_mut(&key).map(|pinned| &mut pinned.pins);
        *pins.ok_or(PinError::NotPinned)?.entry(function.id()).or_default() += 1;
        Ok(iova)
    }

    /// Ends one pin of a BAR.
    pub fn unpin_bar(
        &mut self,
        function: &Arc<dyn Function>,
        peer: RoutingId,
        bar: u8,
    ) -> Result<(), PinError> {
        let domain = self.domain(function)?;
        let pinned = domain.bars.get_mut(&(peer, bar)).ok_or(PinError::NotPinned)?;
        let pins = pinned.pins.get_mut(&function.id()).ok_or(PinError::NotPinned)?;
        *pins -= 1;
        if *pins == 0 {
            pinned.pins.remove(&function.id());
        }
        if pinned.pins.is_empty() {
            domain.unmap_bar(peer, bar).map_err(PinError::Function)?;
        }
        Ok(())
    }
}

/// Returns a BAR's size rounded up to whole pages.
fn bar_bytes(region: &Region) -> Option<u64> {
    region.bytes.checked_next_multiple_of(SMALL_PAGE_BYTES)
}

impl Domain {
    /// Returns a function that can make calls for the domain, if possible one that is not lost.
    fn mapper(&self) -> &Arc<dyn Function> {
        let there = self.functions.iter().find(|function| function.lost().is_none());
        there.unwrap_or(&self.functions[0])
    }

    /// Maps something at free addresses. A full domain first drops the mappings that are only kept.
    fn map(
        &mut self,
        bytes: u64,
        alignment: u64,
        map: impl Fn(&Arc<dyn Function>, u64) -> Result<()>,
    ) -> Result<u64, PinError> {
        let most = self.functions.iter().filter_map(|function| function.most_mappings()).min();
        if most.is_some_and(|most| self.mappings.len() as u64 >= most.into()) {
            self.keep_at_most(0).map_err(PinError::Function)?;
        }
        let iova = match self.addresses.take(bytes, alignment) {
            Some(iova) => iova,
            None => {
                self.keep_at_most(0).map_err(PinError::Function)?;
                self.addresses.take(bytes, alignment).ok_or(PinError::NoAddresses)?
            }
        };
        let mut mapped = map(self.mapper(), iova);
        if !self.kept.is_empty()
            && let Err(FunctionError::System { errno: ENOSPC, .. }) = mapped
        {
            mapped = self.keep_at_most(0).and_then(|()| map(self.mapper(), iova));
        }
        if let Err(error) = mapped {
            self.addresses.give_back(iova, bytes);
            return Err(PinError::Function(error));
        }
        Ok(iova)
    }

    /// Unmaps the memories kept longest until at most `bytes` are kept.
    fn keep_at_most(&mut self, bytes: u64) -> Result<()> {
        while self.kept_bytes > bytes
            && let Some((_, &memory)) = self.kept.first_key_value()
        {
            self.unmap(memory)?;
        }
        Ok(())
    }

    /// Unmaps a memory, pinned or kept, if it is mapped.
    fn unmap(&mut self, memory: MemoryId) -> Result<()> {
        let Some(mapping) = self.mappings.remove(&memory) else { return Ok(()) };
        if self.kept.remove(&mapping.kept_since).is_some() {
            self.kept_bytes -= mapping.bytes;
        }
        // Addresses that could not be unmapped are not given out again.
        self.mapper().unmap_dma(mapping.iova, mapping.bytes)?;
        self.addresses.give_back(mapping.iova, mapping.bytes);
        Ok(())
    }

    /// Maps the parts of a BAR that are mapped into the program, at their offsets in the BAR.
    fn map_bar(&mut self, peer: &Arc<dyn Function>, bar: u8) -> Result<u64, PinError> {
        let parts = peer.region(bar).map_or(&[][..], |region| &region.parts);
        let Some(region) = peer.region(bar).filter(|_| !parts.is_empty()) else {
            let what = format!("BAR{bar} that other functions can be given");
            let why = "nothing of it is mapped into the program";
            return Err(PinError::Function(FunctionError::unsupported(peer.name(), what, why)));
        };
        let bytes = bar_bytes(region).ok_or(PinError::NoAddresses)?;
        let alignment = bytes.min(HUGE_PAGE_BYTES).next_power_of_two();
        let iova = self.addresses.take(bytes, alignment).ok_or(PinError::NoAddresses)?;
        let mapper = self.mapper();
        for (index, part) in parts.iter().enumerate() {
            let (mapped, length) = (&part.uncached, part.uncached.bytes());
            if let Err(error) = mapper.map_peer(iova + part.offset, mapped, 0, length) {
                for part in &parts[..index] {
                    let _ = mapper.unmap_dma(iova + part.offset, part.uncached.bytes());
                }
                self.addresses.give_back(iova, bytes);
                return Err(PinError::Function(error));
            }
        }
        Ok(iova)
    }

    fn unmap_bar(&mut self, peer: RoutingId, bar: u8) -> Result<()> {
        let Some(pinned) = self.bars.remove(&(peer, bar)) else { return Ok(()) };
        let Some(region) = pinned.peer.region(bar) else { return Ok(()) };
        let mapper = self.mapper();
        for part in &region.parts {
            mapper.unmap_dma(pinned.iova + part.offset, part.uncached.bytes())?;
        }
        if let Some(bytes) = bar_bytes(region) {
            self.addresses.give_back(pinned.iova, bytes);
        }
        Ok(())
    }
}
