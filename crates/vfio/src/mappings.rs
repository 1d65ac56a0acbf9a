// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is mapped for DMA, by domain, and the cache of mappings that nobody uses for the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crosslane_pcie::units::RoutingId;

use crate::addresses::Addresses;
use crate::function::{DomainId, Function, FunctionError};
use crate::memory::{HUGE_PAGE_BYTES, Mapped, Pages, SMALL_PAGE_BYTES};

/// Error number of "no space": the domain holds no more mappings.
const ENOSPC: i32 = 28;

/// One of a process's memories.
pub(crate) type MemoryId = u64;

/// What a function may already have.
#[derive(Debug)]
pub(crate) enum PinError {
    /// It has it.
    Already,
    /// It does not have it.
    NotPinned,
    /// There is no such function.
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
    /// For whom; empty while it is only kept.
    pinned: BTreeSet<RoutingId>,
    /// Place in the order of those that are kept.
    kept_since: u64,
}

/// Functions that share their mappings.
struct Domain {
    id: DomainId,
    functions: Vec<Arc<dyn Function>>,
    addresses: Addresses,
    mappings: BTreeMap<MemoryId, Mapping>,
    /// Memories that nobody has pinned and that are still mapped, oldest first.
    kept: BTreeMap<u64, MemoryId>,
    kept_bytes: u64,
    next_kept: u64,
}

/// The mappings of all functions of a bus.
pub(crate) struct Mappings {
    domains: Vec<Domain>,
    /// How much may stay mapped without being pinned, bytes in each domain.
    most_kept_bytes: u64,
}

/// The addresses that every one of the functions can use.
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
    /// Nothing is mapped yet. Addresses in `kept_off` are never used.
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

    /// Makes a memory reachable for a function, and says from which address on.
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
        // Numbers of those that are kept begin at 1.
        domain.mappings.insert(memory, Mapping { iova, bytes, pinned, kept_since: 0 });
        Ok(iova)
    }

    /// Ends that. The mapping is kept for the next pin of the same memory while there is room.
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

    /// Unmaps a memory everywhere: it is about to be freed.
    pub fn forget(&mut self, memory: MemoryId) {
        for domain in &mut self.domains {
            // Where that fails the function is gone, or the kernel keeps the pages for it.
            let _ = domain.unmap(memory);
        }
    }

    /// Unmaps all that is mapped.
    pub fn clear(&mut self) {
        for domain in &mut self.domains {
            let memories: Vec<_> = domain.mappings.keys().copied().collect();
            for memory in memories {
                let _ = domain.unmap(memory);
            }
        }
    }

    /// Makes a part of a BAR of another function reachable, and says from which address on.
    pub fn map_peer(
        &mut self,
        function: &Arc<dyn Function>,
        mapped: &Mapped,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, PinError> {
        self.domain(function)?.map(bytes, SMALL_PAGE_BYTES, |function, iova| {
            function.map_peer(iova, mapped, offset, bytes)
        })
    }

    /// Ends that.
    pub fn unmap_peer(
        &mut self,
        function: &Arc<dyn Function>,
        iova: u64,
        bytes: u64,
    ) -> Result<(), PinError> {
        let domain = self.domain(function)?;
        domain.mapper().unmap_dma(iova, bytes).map_err(PinError::Function)?;
        domain.addresses.give_back(iova, bytes);
        Ok(())
    }
}

impl Domain {
    /// One of the functions, to call for all of them: one that is there, if any is.
    fn mapper(&self) -> &Arc<dyn Function> {
        let there = self.functions.iter().find(|function| function.lost().is_none());
        there.unwrap_or(&self.functions[0])
    }

    /// Maps something at free addresses. Where the domain is full, what is only kept goes first.
    fn map(
        &mut self,
        bytes: u64,
        alignment: u64,
        map: impl Fn(&Arc<dyn Function>, u64) -> Result<(), FunctionError>,
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

    /// Unmaps what has been kept longest until no more than so many bytes are.
    fn keep_at_most(&mut self, bytes: u64) -> Result<(), FunctionError> {
        while self.kept_bytes > bytes
            && let Some((_, &memory)) = self.kept.first_key_value()
        {
            self.unmap(memory)?;
        }
        Ok(())
    }

    /// Unmaps a memory, pinned or kept, if it is mapped.
    fn unmap(&mut self, memory: MemoryId) -> Result<(), FunctionError> {
        let Some(mapping) = self.mappings.remove(&memory) else { return Ok(()) };
        if self.kept.remove(&mapping.kept_since).is_some() {
            self.kept_bytes -= mapping.bytes;
        }
        // Addresses that could not be unmapped are not given out again.
        self.mapper().unmap_dma(mapping.iova, mapping.bytes)?;
        self.addresses.give_back(mapping.iova, mapping.bytes);
        Ok(())
    }
}
