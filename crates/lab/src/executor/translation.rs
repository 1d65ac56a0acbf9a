// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mappings of a host with an IOMMU for its devices: I/O virtual addresses of pinned memory,
//! and peers' BARs.
//!
//! I/O virtual addresses come from the range of the host's buffers. No BAR lies there, so a switch
//! never mistakes a request for memory for one to a peer, and headers are as long as without an
//! IOMMU. A BAR is mapped at its bus address, so a request arrives whichever way a switch routes
//! it.

use std::collections::BTreeMap;
use std::ops::Range;

use crosslane_fabric::{IO_LARGE_PAGE_BYTES, IO_PAGE_BYTES};
use crosslane_host::{BusError, BusResult, IoTranslation, PageSize, Segment};
use crosslane_pcie::config::Bar;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use rangemap::RangeSet;

use super::memory::LabMemory;
use super::shared::State;

/// I/O virtual addresses of one host's functions; each function has its own address space.
#[derive(Clone, Debug)]
pub(super) struct IoAddresses {
    range: Range<u64>,
    /// Runs in use, by function.
    used: BTreeMap<u16, RangeSet<u64>>,
    /// Pin count of each page-aligned run of BARs, by function and first address.
    bars: BTreeMap<(u16, u64), u32>,
}

impl IoAddresses {
    pub fn new(range: Range<u64>) -> Self {
        let start = range.start.next_multiple_of(IO_PAGE_BYTES);
        let end = range.end & !(IO_PAGE_BYTES - 1);
        Self { range: start..end.max(start), used: BTreeMap::new(), bars: BTreeMap::new() }
    }

    /// Takes whole pages: one run aligned to `align` if possible, else one run, else several. The
    /// range always suffices for memory of the host, which is no larger.
    pub fn take(&mut self, function: RoutingId, bytes: u64, align: u64) -> Vec<Range<u64>> {
        let used = self.used.entry(function.0).or_default();
        let gaps: Vec<Range<u64>> = used.gaps(&self.range).collect();
        let fitting = |align: u64| {
            gaps.iter().find_map(|gap| {
                let start = gap.start.next_multiple_of(align);
                let end = start.checked_add(bytes)?;
                (end <= gap.end).then_some(start..end)
            })
        };
        let mut runs = match fitting(align).or_else(|| fitting(IO_PAGE_BYTES)) {
            Some(run) => vec![run],
            None => {
                let mut left = bytes;
                let pieces = gaps.into_iter().map(|gap| {
                    let taken = left.min(gap.end - gap.start);
                    left -= taken;
                    gap.start..gap.start + taken
                });
                pieces.collect()
            }
        };
        runs.retain(|run| !run.is_empty());
        used.extend(runs.iter().cloned());
        runs
    }

    fn give_back(&mut self, function: RoutingId, runs: &[Range<u64>]) {
        let used = self.used.entry(function.0).or_default();
        runs.iter().for_each(|run| used.remove(run.clone()));
    }
}

/// The mapping of one pin of a memory.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    /// I/O virtual addresses.
    runs: Vec<Range<u64>>,
    /// Start of each mapping.
    begins: Vec<u64>,
}

impl State {
    /// Whether pins for a function need a mapping.
    fn is_mapped(&mut self, host: usize, function: RoutingId) -> bool {
        let direct = self.memories[host].direct.contains(&function);
        !direct && self.fabric.iommu(self.hosts[host]).is_some()
    }

    /// Returns the lab's description of a host's IOMMU; `None` if it has none.
    pub fn known_iommu(&mut self, host: HostId) -> Option<IoTranslation> {
        self.fabric.iommu(host).map(|iommu| IoTranslation {
            iotlb_pages: iommu.iotlb_entries,
            largest_page_bytes: iommu.largest_page_bytes,
            walk: iommu.walk,
            walks: iommu.walks,
        })
    }

    /// Returns the core's time for mapping a memory for a function.
    pub fn mapping_time(&mut self, memory: &LabMemory, function: RoutingId) -> Picoseconds {
        if !self.is_mapped(memory.host(), function) {
            return Picoseconds::ZERO;
        }
        let Some(iommu) = self.fabric.iommu(self.hosts[memory.host()]) else {
            return Picoseconds::ZERO;
        };
        let page_bytes = |pages| match pages {
            PageSize::Huge => IO_LARGE_PAGE_BYTES.min(iommu.largest_page_bytes),
            PageSize::Small => IO_PAGE_BYTES,
        };
        let pages: u64 = memory.runs().iter().map(|run| run.bytes / page_bytes(run.pages)).sum();
        Picoseconds(iommu.map_page.0.saturating_mul(pages))
    }

    /// Pins memory for a function, and maps it if the host has an IOMMU; existing pins are reused.
    /// Returns the addresses for the function to use.
    pub fn pin(&mut self, memory: &LabMemory, function: RoutingId) -> Vec<Segment> {
        let host = memory.host();
        if !self.is_mapped(host, function) {
            self.memories[host].pins.pin(memory.id(), function, None);
            return memory.segments();
        }
        let pinned = match self.memories[host].pins.mapped(memory.id(), function) {
            Some(mapped) => mapped.clone(),
            None => {
                let mapped = self.map(memory, function);
                self.memories[host].pins.pin(memory.id(), function, Some(mapped.clone()));
                mapped
            }
        };
        let mut left = memory.size();
        let mut segments = Vec::new();
        for run in &pinned.runs {
            let bytes = left.min(run.end - run.start);
            left -= bytes;
            if bytes > 0 {
                segments.push(Segment { address: BusAddress(run.start), bytes });
            }
        }
        segments
    }

    fn map(&mut self, memory: &LabMemory, function: RoutingId) -> Mapped {
        let (host, runs) = (memory.host(), memory.runs());
        let bytes = runs.iter().map(|run| run.bytes).sum();
        let is_huge = runs.iter().any(|run| run.pages == PageSize::Huge);
        let align = if is_huge { IO_LARGE_PAGE_BYTES } else { IO_PAGE_BYTES };
        let addresses = self.memories[host].io_addresses.take(function, bytes, align);
        let mut begins = Vec::new();
        let mut places = addresses.iter().cloned();
        let mut place = places.next().unwrap_or_default();
        for run in runs {
            let (mut target, end) = (run.address, run.address + run.bytes);
            while target < end {
                if place.is_empty() {
                    let Some(next) = places.next() else { break };
                    place = next;
                }
                let bytes = (end - target).min(place.end - place.start);
                let (from, to) = (BusAddress(place.start), BusAddress(target));
                let mapped = self.fabric.map_io(HostId(host as u16), function, from, to, bytes);
                mapped.expect("addresses that were free are whole pages, and not mapped");
                begins.push(place.start);
                place.start += bytes;
                target += bytes;
            }
        }
        Mapped { runs: addresses, begins }
    }

    /// Ends a pin: from now on the function's requests for that memory are faults. Returns the
    /// core's time for it, or `None` if it was not pinned.
    pub fn unpin(&mut self, host: usize, memory: u64, function: RoutingId) -> Option<Picoseconds> {
        let Some(mapped) = self.memories[host].pins.unpin(memory, function)? else {
            return Some(Picoseconds::ZERO);
        };
        let unmapping = self.unmap(host, function, &mapped.begins);
        self.memories[host].io_addresses.give_back(function, &mapped.runs);
        Some(unmapping)
    }

    /// Maps a BAR of a peer for a function once more. Returns the core's time for it; `None` if no
    /// mapping is needed.
    pub fn pin_bar(&mut self, host: usize, function: RoutingId, bar: &Bar) -> Option<Picoseconds> {
        if !self.is_mapped(host, function) {
            return None;
        }
        let (begin, bytes) = pages_of(bar);
        let count = self.memories[host].io_addresses.bars.entry((function.0, begin)).or_default();
        *count += 1;
        if *count > 1 {
            return Some(Picoseconds::ZERO);
        }
        let (id, at) = (HostId(host as u16), BusAddress(begin));
        let mapped = self.fabric.map_io(id, function, at, at, bytes);
        let pages = mapped.expect("no memory of the host has a BAR's address");
        let iommu = self.fabric.iommu(id)?;
        Some(Picoseconds(iommu.map_page.0.saturating_mul(pages)))
    }

    /// Ends one such pin. Returns the core's time for it; `None` if no mapping was needed.
    ///
    /// # Errors
    /// If the BAR is not mapped for the function.
    pub fn unpin_bar(
        &mut self,
        host: usize,
        function: RoutingId,
        bar: &Bar,
    ) -> BusResult<Option<Picoseconds>> {
        if !self.is_mapped(host, function) {
            return Ok(None);
        }
        let (begin, _) = pages_of(bar);
        let bars = &mut self.memories[host].io_addresses.bars;
        let Some(count) = bars.get_mut(&(function.0, begin)) else {
            let what = "is a BAR that is not pinned for the function";
            return Err(BusError::Pinning { address: bar.base.0, what });
        };
        *count -= 1;
        if *count > 0 {
            return Ok(Some(Picoseconds::ZERO));
        }
        bars.remove(&(function.0, begin));
        Ok(Some(self.unmap(host, function, &[begin])))
    }

    /// Ends mappings. Returns the core's time for it.
    fn unmap(&mut self, host: usize, function: RoutingId, begins: &[u64]) -> Picoseconds {
        let id = HostId(host as u16);
        let unmapped = begins.iter().map(|&begin| {
            let pages = self.fabric.unmap_io(id, function, BusAddress(begin));
            pages.expect("what is pinned is mapped")
        });
        let pages: u64 = unmapped.sum();
        let (map_page, invalidate) = match self.fabric.iommu(id) {
            Some(iommu) => (iommu.map_page.0, iommu.invalidate.0),
            None => (0, 0),
        };
        Picoseconds(map_page.saturating_mul(pages).saturating_add(invalidate))
    }
}

/// Returns the start and length of the whole pages that hold a BAR; they exceed it only if it is
/// smaller than a page.
fn pages_of(bar: &Bar) -> (u64, u64) {
    let begin = bar.base.0 & !(IO_PAGE_BYTES - 1);
    (begin, (bar.base.0 + bar.size_bytes).next_multiple_of(IO_PAGE_BYTES) - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = IO_PAGE_BYTES;
    const F: RoutingId = RoutingId(0x100);
    const G: RoutingId = RoutingId(0x200);

    /// First page and number of pages of each run.
    fn pages(runs: &[Range<u64>]) -> Vec<(u64, u64)> {
        runs.iter().map(|run| (run.start / PAGE, (run.end - run.start) / PAGE)).collect()
    }

    #[test]
    fn runs_are_whole_while_they_can_be_and_come_back() {
        let mut addresses = IoAddresses::new(PAGE + 1..11 * PAGE + 7);
        let first = addresses.take(F, 3 * PAGE, PAGE);
        assert_eq!(pages(&first), [(2, 3)]);
        // Aligned if possible, else unaligned.
        assert_eq!(pages(&addresses.take(F, PAGE, 8 * PAGE)), [(8, 1)]);
        assert_eq!(pages(&addresses.take(F, PAGE, 8 * PAGE)), [(5, 1)]);
        // Another function has the whole range.
        assert_eq!(pages(&addresses.take(G, 9 * PAGE, PAGE)), [(2, 9)]);
        // No run is long enough for the rest: two are taken.
        let rest = addresses.take(F, 4 * PAGE, PAGE);
        assert_eq!(pages(&rest), [(6, 2), (9, 2)]);
        addresses.give_back(F, &first);
        addresses.give_back(F, &rest);
        assert_eq!(addresses.take(F, 3 * PAGE, PAGE), first);
    }
}
