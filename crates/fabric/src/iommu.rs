// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An IOMMU: the table of each function's I/O virtual addresses, and the time that looking
//! something up in it takes. Pure: time comes in as an argument.
//!
//! Read first: Intel Virtualization Technology for Directed I/O, architecture specification,
//! chapters 3 (second-stage translation) and 6 (caching of translations).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use thiserror::Error;

use crate::parameters::IommuParameters;

/// Bytes of a small page: every mapping consists of whole ones.
pub const IO_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a large page.
pub const IO_LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Most pages that an IOTLB may hold, and most walks at once: bounds on bad input.
pub const MAX_IOTLB_ENTRIES: u32 = 1 << 20;
/// See [`MAX_IOTLB_ENTRIES`].
pub const MAX_IO_WALKS: u32 = 1 << 10;

/// A mapping that cannot be made or ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IommuError {
    /// A host whose devices' requests are not translated.
    #[error("host {} has no IOMMU", .0.0)]
    NoIommu(HostId),
    /// Not whole pages.
    #[error(
        "{bytes} B at {address} for {target} are not whole pages of {IO_PAGE_BYTES} B within 64 \
         bits"
    )]
    NoPages {
        /// I/O virtual address.
        address: BusAddress,
        /// Where it was to lead.
        target: BusAddress,
        /// Length, bytes.
        bytes: u64,
    },
    /// A part of it is mapped already.
    #[error("{bytes} B at {address} of {function} overlap what is mapped at {mapped}")]
    Overlap {
        /// Whose addresses.
        function: RoutingId,
        /// I/O virtual address.
        address: BusAddress,
        /// Length, bytes.
        bytes: u64,
        /// Where the mapping begins that is there.
        mapped: BusAddress,
    },
    /// No mapping begins there.
    #[error("no mapping of {function} begins at {address}")]
    NotMapped {
        /// Whose addresses.
        function: RoutingId,
        /// I/O virtual address.
        address: BusAddress,
    },
}

/// What an IOMMU has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IommuCounters {
    /// Requests whose page the IOTLB held.
    pub hits: u64,
    /// Requests for whose page the table had to be walked.
    pub misses: u64,
    /// Requests that waited for a walk for their page that was under way.
    pub joined: u64,
    /// Requests to addresses that were not mapped.
    pub faults: u64,
    /// Time that misses have waited until one of the walks was free, all together.
    pub queued: Picoseconds,
    /// Time that walks have taken, all together: more than what has passed where several went on
    /// at once.
    pub walking: Picoseconds,
    /// Time that requests have waited until they were translated, all together; not what they
    /// waited behind others at their root port.
    pub waited: Picoseconds,
}

impl IommuCounters {
    /// Requests that were looked up.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.hits + self.misses + self.joined
    }

    /// What was counted since `earlier`.
    #[must_use]
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

/// A function and the first byte of a page of its addresses.
type Page = (u16, u64);

/// A run of a function's addresses.
#[derive(Clone, Debug)]
struct Mapping {
    bytes: u64,
    target: u64,
    /// Addresses that large pages map.
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

    /// First byte of the page that an address is in.
    fn page(&self, address: u64) -> u64 {
        let bytes = if self.large.contains(&address) { IO_LARGE_PAGE_BYTES } else { IO_PAGE_BYTES };
        address & !(bytes - 1)
    }
}

/// The pages that were looked up last, any page in any place; the one that was not used for the
/// longest time makes room.
#[derive(Debug, Default)]
struct Iotlb {
    /// Number of the last use of each page.
    used: BTreeMap<Page, u64>,
    /// The page of each such number.
    order: BTreeMap<u64, Page>,
    uses: u64,
}

impl Iotlb {
    /// Whether it holds a page, which is used with that.
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

/// The IOMMU of a root complex. Each function has addresses of its own.
#[derive(Debug)]
pub(crate) struct Iommu {
    parameters: IommuParameters,
    mappings: BTreeMap<Page, Mapping>,
    iotlb: Iotlb,
    /// When each walk that can be at once is free.
    walks_free_ps: Vec<u64>,
    /// Pages on their way into the IOTLB, in the order of their times; none where there was
    /// nothing to find, or it has gone.
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

    /// Maps a run of a function's addresses, in large pages where both ends of them are aligned
    /// and the IOMMU has them. Returns the number of pages.
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

    /// Ends the mapping that begins at an address, in the IOTLB too. Returns the number of pages.
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

    /// Where a function's request leads, `None` where any of its bytes is not mapped. A request
    /// does not cross a boundary of 4 KiB (PCIe 6.x 2.2.7), so it is in one page.
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

    /// Takes a request that has come at `now`; returns when it is translated.
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

    /// Puts what has been found by `now` into the IOTLB.
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
