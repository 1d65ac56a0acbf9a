// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An IOMMU: the table of each function's I/O virtual addresses, and the time of a look-up. Pure:
//! time is passed in as an argument.
//!
//! Read first: Intel Virtualization Technology for Directed I/O, architecture specification,
//! chapters 3 (second-stage translation) and 6 (caching of translations).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crosslane_pcie::kinds;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use thiserror::Error;

use crate::parameters::IommuParameters;

/// Bytes of a small page; every mapping consists of whole ones.
pub const IO_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a large page.
pub const IO_LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Most pages of an IOTLB; a bound on bad input.
pub const MAX_IOTLB_ENTRIES: u32 = 1 << 20;
/// Most walks at once; a bound on bad input.
pub const MAX_IO_WALKS: u32 = 1 << 10;

/// Error of mapping or unmapping.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IommuError {
    /// The host has no IOMMU.
    #[error("host {} has no IOMMU", .0.0)]
    NoIommu(HostId),
    /// The range is not whole pages within 64 bits.
    #[error(
        "{bytes} B at {address} for {target} are not whole pages of {IO_PAGE_BYTES} B within 64 \
         bits"
    )]
    NoPages {
        /// I/O virtual address.
        address: BusAddress,
        /// Bus address to map to.
        target: BusAddress,
        /// Length in bytes.
        bytes: u64,
    },
    /// A part of the range is mapped already.
    #[error("{bytes} B at {address} of {function} overlap what is mapped at {mapped}")]
    Overlap {
        /// Function that uses the addresses.
        function: RoutingId,
        /// I/O virtual address.
        address: BusAddress,
        /// Length in bytes.
        bytes: u64,
        /// First address of the existing mapping.
        mapped: BusAddress,
    },
    /// No mapping begins at this address.
    #[error("no mapping of {function} begins at {address}")]
    NotMapped {
        /// Function that uses the addresses.
        function: RoutingId,
        /// I/O virtual address.
        address: BusAddress,
    },
}

kinds!(IommuError {
    Self::NoIommu(_) => Unsupported,
    Self::NoPages { .. } => InvalidArgument,
    Self::Overlap { .. } => Busy,
    Self::NotMapped { .. } => NotFound,
});

/// Counters of an IOMMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IommuCounters {
    /// Requests with their page in the IOTLB.
    pub hits: u64,
    /// Requests that needed a walk.
    pub misses: u64,
    /// Requests that waited for a walk already under way for their page.
    pub joined: u64,
    /// Requests to unmapped addresses.
    pub faults: u64,
    /// Total time that misses waited for a free walk.
    pub queued: Picoseconds,
    /// Total time of walks; exceeds the time that has passed if several ran at once.
    pub walking: Picoseconds,
    /// Total time that requests waited for translation, without time behind others at their root
    /// port.
    pub waited: Picoseconds,
}

impl IommuCounters {
    /// Number of requests looked up.
    pub const fn requests(&self) -> u64 {
        self.hits + self.misses + self.joined
    }

    /// Adds the reading of another IOMMU.
    pub(crate) fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.joined += other.joined;
        self.faults += other.faults;
        self.queued.0 += other.queued.0;
        self.walking.0 += other.walking.0;
        self.waited.0 += other.waited.0;
    }

    /// Difference to the reading `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            joined: self.joined - earlier.joined,
            faults: self.faults - earlier.faults,
            queued: self.queued.since(earlier.queued),
            walking: self.walking.since(earlier.walking),
            waited: self.waited.since(earlier.waited),
        }
    }
}

/// A function and the first byte of one of its pages.
type Page = (u16, u64);

/// A contiguous range of a function's addresses.
#[derive(Clone, Debug)]
struct Mapping {
    bytes: u64,
    target: u64,
    /// Addresses mapped by large pages.
    large: Range<u64>,
}

impl Mapping {
    fn new(address: u64, target: u64, bytes: u64, largest_page_bytes: u64) -> Self {
        let fits = address % IO_LARGE_PAGE_BYTES == target % IO_LARGE_PAGE_BYTES;
        let first = address.checked_next_multiple_of(IO_LARGE_PAGE_BYTES).unwrap_or(u64::MAX);
        let end = (address + bytes) & !(IO_LARGE_PAGE_BYTES - 1);
        let is_large = fits && first < end && largest_page_bytes >= IO_LARGE_PAGE_BYTES;
        Self { bytes, target, large: if is_large { first..end } else { 0..0 } }
    }

    fn pages(&self) -> u64 {
        let large_bytes = self.large.end - self.large.start;
        large_bytes / IO_LARGE_PAGE_BYTES + (self.bytes - large_bytes) / IO_PAGE_BYTES
    }

    /// First byte of the page of an address.
    fn page(&self, address: u64) -> u64 {
        let bytes = if self.large.contains(&address) { IO_LARGE_PAGE_BYTES } else { IO_PAGE_BYTES };
        address & !(bytes - 1)
    }
}

/// The most recently used pages, fully associative; the least recently used one makes room.
#[derive(Debug, Default)]
struct Iotlb {
    /// Sequence number of the last use of each page.
    used: BTreeMap<Page, u64>,
    /// Page of each sequence number.
    order: BTreeMap<u64, Page>,
    uses: u64,
}

impl Iotlb {
    /// Whether the page is held; marks it as used.
    fn touch(&mut self, page: Page) -> bool {
        let Some(used) = self.used.get_mut(&page) else { return false };
        self.order.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.order.insert(self.uses, page);
        true
    }

    fn insert(&mut self, page: Page, entries: usize) {
        if self.touch(page) || entries == 0 {
            return;
        }
        if self.used.len() == entries
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        self.uses += 1;
        self.used.insert(page, self.uses);
        self.order.insert(self.uses, page);
        let (pages, uses) = (self.used.len(), self.order.len());
        assert!(pages == uses && pages <= entries, "{pages} pages, {uses} uses, {entries} entries");
    }

    fn invalidate(&mut self, function: u16, range: Range<u64>) {
        let pages: Vec<(Page, u64)> = self
            .used
            .range((function, range.start)..(function, range.end))
            .map(|(page, used)| (*page, *used))
            .collect();
        for (page, used) in pages {
            self.used.remove(&page);
            self.order.remove(&used);
        }
    }
}

/// The IOMMU of a root complex. Each function has a separate address space.
#[derive(Debug)]
pub(crate) struct Iommu {
    parameters: IommuParameters,
    mappings: BTreeMap<Page, Mapping>,
    iotlb: Iotlb,
    /// Time at which each concurrent walk is free.
    walks_free_ps: Vec<u64>,
    /// Pages on their way into the IOTLB, by time; `None` if the walk found nothing or the page was
    /// unmapped.
    walking: VecDeque<(u64, Option<Page>)>,
    pub counters: IommuCounters,
}

impl Iommu {
    pub fn new(parameters: IommuParameters) -> Self {
        let walks = parameters.walks.clamp(1, MAX_IO_WALKS) as usize;
        Self {
            parameters,
            mappings: BTreeMap::new(),
            iotlb: Iotlb::default(),
            walks_free_ps: vec![0; walks],
            walking: VecDeque::new(),
            counters: IommuCounters::default(),
        }
    }

    fn mapping(&self, function: RoutingId, address: u64) -> Option<(u64, &Mapping)> {
        let before = self.mappings.range((function.0, 0)..=(function.0, address)).next_back();
        let ((_, start), mapping) = before?;
        (address - start < mapping.bytes).then_some((*start, mapping))
    }

    /// Maps a range of a function's addresses, with large pages where both ends are aligned and the
    /// IOMMU supports them. Returns the number of pages.
    pub fn map(
        &mut self,
        function: RoutingId,
        address: BusAddress,
        target: BusAddress,
        bytes: u64,
    ) -> Result<u64, IommuError> {
        let whole = |number: u64| number.is_multiple_of(IO_PAGE_BYTES);
        let ends = (address.0.checked_add(bytes), target.0.checked_add(bytes));
        let (Some(end), Some(_), true) =
            (ends.0, ends.1, bytes > 0 && whole(bytes) && whole(address.0) && whole(target.0))
        else {
            return Err(IommuError::NoPages { address, target, bytes });
        };
        let below = self.mappings.range((function.0, 0)..(function.0, end)).next_back();
        if let Some(((_, start), there)) = below
            && start + there.bytes > address.0
        {
            let mapped = BusAddress(*start);
            return Err(IommuError::Overlap { function, address, bytes, mapped });
        }
        let largest_page_bytes = self.parameters.largest_page_bytes;
        let mapping = Mapping::new(address.0, target.0, bytes, largest_page_bytes);
        let pages = mapping.pages();
        self.mappings.insert((function.0, address.0), mapping);
        Ok(pages)
    }

    /// Ends the mapping that begins at an address, also in the IOTLB. Returns the number of pages.
    pub fn unmap(&mut self, function: RoutingId, address: BusAddress) -> Result<u64, IommuError> {
        let mapping = self.mappings.remove(&(function.0, address.0));
        let mapping = mapping.ok_or(IommuError::NotMapped { function, address })?;
        let range = address.0..address.0 + mapping.bytes;
        for (_, page) in &mut self.walking {
            if page.is_some_and(|(owner, at)| owner == function.0 && range.contains(&at)) {
                *page = None;
            }
        }
        self.iotlb.invalidate(function.0, range);
        Ok(mapping.pages())
    }

    /// Translates a function's request; `None` if any of its bytes is unmapped. A request does not
    /// cross a boundary of 4 KiB (PCIe 6.x 2.2.7), so it is in one page.
    pub fn translate(
        &self,
        function: RoutingId,
        address: BusAddress,
        bytes: u32,
    ) -> Option<BusAddress> {
        let (start, mapping) = self.mapping(function, address.0)?;
        let offset_bytes = address.0 - start;
        let fits = offset_bytes + u64::from(bytes) <= mapping.bytes;
        fits.then_some(BusAddress(mapping.target + offset_bytes))
    }

    /// Looks up a request that arrived at `now`; returns the time at which it is translated.
    pub fn look_up(&mut self, now_ps: u64, function: RoutingId, address: BusAddress) -> u64 {
        let done_ps = self.found(now_ps, function, address);
        assert!(done_ps >= now_ps, "asked at {now_ps} ps, translated at {done_ps} ps");
        self.counters.waited.0 += done_ps - now_ps;
        done_ps
    }

    fn found(&mut self, now_ps: u64, function: RoutingId, address: BusAddress) -> u64 {
        self.settle(now_ps);
        let page =
            self.mapping(function, address.0).map(|(_, it)| (function.0, it.page(address.0)));
        let hit_ps = self.parameters.hit.0;
        if page.is_some_and(|page| self.iotlb.touch(page)) {
            self.counters.hits += 1;
            return now_ps + hit_ps;
        }
        let on_its_way = self.walking.iter().find(|(_, other)| page.is_some() && *other == page);
        if let Some((done_ps, _)) = on_its_way {
            self.counters.joined += 1;
            return *done_ps + hit_ps;
        }
        self.counters.misses += 1;
        let first = self.walks_free_ps.iter_mut().min();
        let begin_ps = first.as_deref().copied().unwrap_or(0).max(now_ps);
        let done_ps = begin_ps + self.parameters.walk.0;
        if let Some(free_ps) = first {
            *free_ps = done_ps;
        }
        self.counters.queued.0 += begin_ps - now_ps;
        self.counters.walking.0 += done_ps - begin_ps;
        let last_ps = self.walking.back().map_or(0, |(done_ps, _)| *done_ps);
        assert!(done_ps >= last_ps, "a walk ends at {done_ps} ps, the one before at {last_ps} ps");
        self.walking.push_back((done_ps, page));
        done_ps + hit_ps
    }

    /// Puts the pages found by `now` into the IOTLB.
    fn settle(&mut self, now_ps: u64) {
        while let Some((done_ps, page)) = self.walking.front().copied()
            && done_ps <= now_ps
        {
            self.walking.pop_front();
            if let Some(page) = page {
                self.iotlb.insert(page, self.parameters.iotlb_entries as usize);
            }
        }
    }
}

#[cfg(test)]
#[path = "iommu_tests.rs"]
mod tests;
