// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allocation of a host's pages.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_host::PageSize;
use rangemap::RangeSet;

pub(super) const SMALL_PAGE_BYTES: u64 = 4 << 10;
pub(super) const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Adjacent huge pages broken into small ones at once, if that many are free: 32 MiB, so that the
/// pages of a memory of a few MiB lie far apart.
const HUGE_PAGES_BROKEN: u64 = 16;

/// A run of addresses, with the size of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRun {
    pub address: u64,
    pub bytes: u64,
    pub pages: PageSize,
}

impl PageRun {
    pub const fn page_count(&self) -> u64 {
        match self.pages {
            PageSize::Small => self.bytes / SMALL_PAGE_BYTES,
            PageSize::Huge => self.bytes / HUGE_PAGE_BYTES,
        }
    }
}

/// The memory for buffers of a host's programs.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Numbers of the free huge pages.
    huge: RangeSet<u64>,
    /// Numbers of the huge pages that were broken, in runs.
    broken: Vec<Range<u64>>,
    /// The ends, which do not fill a huge page.
    ends: [Range<u64>; 2],
    /// Free small pages, in the order of allocation: never two neighbours in a row.
    small: VecDeque<u64>,
    /// Small pages in use.
    small_used: u64,
    free_bytes: u64,
    total_bytes: u64,
}

impl Pages {
    pub fn new(range: Range<u64>) -> Self {
        let start = range.start.next_multiple_of(SMALL_PAGE_BYTES);
        let end = (range.end & !(SMALL_PAGE_BYTES - 1)).max(start);
        let first = start.next_multiple_of(HUGE_PAGE_BYTES).min(end);
        let last = (end & !(HUGE_PAGE_BYTES - 1)).max(first);
        let huge = (first < last).then_some(first / HUGE_PAGE_BYTES..last / HUGE_PAGE_BYTES);
        let mut pages = Self {
            huge: huge.into_iter().collect(),
            broken: Vec::new(),
            ends: [start..first, last..end],
            small: VecDeque::new(),
            small_used: 0,
            free_bytes: end - start,
            total_bytes: end - start,
        };
        for end in pages.ends.clone() {
            pages.scatter(end);
        }
        pages
    }

    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub const fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Takes runs of whole pages for `bytes`; `None`, with nothing taken, if too few are free.
    pub fn take(&mut self, bytes: u64, pages: PageSize) -> Option<Vec<PageRun>> {
        let needed = bytes.checked_next_multiple_of(SMALL_PAGE_BYTES)?;
        if needed > self.free_bytes {
            return None;
        }
        let mut runs = Vec::new();
        let mut left = needed;
        if pages == PageSize::Huge {
            self.take_huge(&mut left, &mut runs);
        }
        self.take_small(left, &mut runs);
        Some(runs)
    }

    /// Takes huge pages while any are free: one run if one is long enough, else the longest.
    fn take_huge(&mut self, left: &mut u64, runs: &mut Vec<PageRun>) {
        while *left > 0 {
            let wanted = left.div_ceil(HUGE_PAGE_BYTES);
            let count = |run: &Range<u64>| run.end - run.start;
            let fitting = self.huge.iter().find(|run| count(run) >= wanted);
            let longest = || self.huge.iter().max_by_key(|run| count(run));
            let Some(run) = fitting.or_else(longest) else { return };
            let taken = run.start..run.end.min(run.start + wanted);
            self.huge.remove(taken.clone());
            let (address, bytes) = (taken.start * HUGE_PAGE_BYTES, count(&taken) * HUGE_PAGE_BYTES);
            runs.push(PageRun { address, bytes, pages: PageSize::Huge });
            self.free_bytes -= bytes;
            *left = left.saturating_sub(bytes);
        }
    }

    fn take_small(&mut self, bytes: u64, runs: &mut Vec<PageRun>) {
        let mut last = None;
        for _ in 0..bytes / SMALL_PAGE_BYTES {
            let Some(address) = self.next_small(last) else { return };
            last = Some(address);
            self.free_bytes -= SMALL_PAGE_BYTES;
            self.small_used += 1;
            let bytes = SMALL_PAGE_BYTES;
            runs.push(PageRun { address, bytes, pages: PageSize::Small });
        }
    }

    /// Takes the next small page that is not a neighbour of the last one, if possible.
    fn next_small(&mut self, last: Option<u64>) -> Option<u64> {
        if self.small.is_empty() {
            self.break_huge();
        }
        let beside =
            |address: u64| last.is_some_and(|last| last.abs_diff(address) == SMALL_PAGE_BYTES);
        for _ in 0..self.small.len().min(3) {
            let address = self.small.pop_front()?;
            if !beside(address) {
                return Some(address);
            }
            self.small.push_back(address);
        }
        self.small.pop_front()
    }

    /// Breaks some huge pages at the upper end into small ones.
    fn break_huge(&mut self) {
        let Some(last) = self.huge.last() else { return };
        let taken = last.start.max(last.end.saturating_sub(HUGE_PAGES_BROKEN))..last.end;
        self.huge.remove(taken.clone());
        self.scatter(taken.start * HUGE_PAGE_BYTES..taken.end * HUGE_PAGE_BYTES);
        self.broken.push(taken);
    }

    /// Adds the small pages of a range so that neighbours do not follow each other.
    fn scatter(&mut self, range: Range<u64>) {
        let count = (range.end - range.start) / SMALL_PAGE_BYTES;
        let step = step(count);
        let page = |index: u64| range.start + index * step % count * SMALL_PAGE_BYTES;
        self.small.extend((0..count).map(page));
    }

    pub fn give_back(&mut self, runs: &[PageRun]) {
        for run in runs {
            self.free_bytes += run.bytes;
            match run.pages {
                PageSize::Huge => {
                    let first = run.address / HUGE_PAGE_BYTES;
                    self.huge.insert(first..first + run.page_count());
                }
                PageSize::Small => {
                    self.small_used -= 1;
                    self.small.push_back(run.address);
                }
            }
        }
        if self.small_used == 0 {
            self.mend();
        }
    }

    /// Makes all broken pages whole again, once no small page is in use.
    fn mend(&mut self) {
        self.small.clear();
        self.huge.extend(self.broken.drain(..));
        for end in self.ends.clone() {
            self.scatter(end);
        }
    }
}

/// Returns a step that visits each of `count` positions once, each far from the last: near the
/// golden section, and coprime to `count`.
fn step(count: u64) -> u64 {
    const fn divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    let near = count * 618 / 1000;
    (near..count).find(|&step| step > 0 && divisor(step, count) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn disjoint(runs: &[PageRun], range: &Range<u64>) {
        let mut seen = BTreeSet::new();
        for run in runs {
            assert!(range.start <= run.address && run.address + run.bytes <= range.end);
            for page in 0..run.bytes / SMALL_PAGE_BYTES {
                assert!(seen.insert(run.address + page * SMALL_PAGE_BYTES), "{run:x?}");
            }
        }
    }

    #[test]
    fn small_pages_are_never_neighbours_in_order() {
        let range = MIB..2048 * MIB;
        let mut pages = Pages::new(range.clone());
        let mut all = Vec::new();
        for bytes in [4 * MIB, 1, 4096, 4097, 40 * MIB, 4 * MIB] {
            let runs = pages.take(bytes, PageSize::Small).unwrap();
            assert_eq!(runs.len() as u64, bytes.div_ceil(SMALL_PAGE_BYTES));
            for pair in runs.windows(2) {
                assert_ne!(pair[0].address.abs_diff(pair[1].address), SMALL_PAGE_BYTES);
            }
            all.push(runs);
        }
        disjoint(&all.concat(), &range);
        // Give them back in another order, and take them again.
        for index in [2, 0, 4] {
            pages.give_back(&all[index]);
        }
        let again = pages.take(30 * MIB, PageSize::Small).unwrap();
        for pair in again.windows(2) {
            assert_ne!(pair[0].address.abs_diff(pair[1].address), SMALL_PAGE_BYTES);
        }
    }

    #[test]
    fn pages_that_come_back_in_order_do_not_go_out_in_order() {
        let mut pages = Pages::new(0..2 * MIB);
        let mut single: Vec<_> =
            (0..512).map(|_| pages.take(1, PageSize::Small).unwrap()[0]).collect();
        single.sort_by_key(|run| run.address);
        // Keep one, so that the small pages are not made whole.
        pages.give_back(&single[1..]);
        let runs = pages.take(500 * SMALL_PAGE_BYTES, PageSize::Small).unwrap();
        for pair in runs.windows(2) {
            assert_ne!(pair[0].address.abs_diff(pair[1].address), SMALL_PAGE_BYTES);
        }
    }

    #[test]
    fn huge_pages_lie_together_while_they_can() {
        let mut pages = Pages::new(MIB..64 * MIB + 4096);
        let first = pages.take(5 * MIB, PageSize::Huge).unwrap();
        assert_eq!(first, [PageRun { address: 2 * MIB, bytes: 6 * MIB, pages: PageSize::Huge }]);
        let second = pages.take(2 * MIB, PageSize::Huge).unwrap();
        pages.give_back(&first);
        // The run of 6 MiB is free again, as are 54 MiB behind the second.
        let long = pages.take(58 * MIB, PageSize::Huge).unwrap();
        assert_eq!(long.iter().map(|run| run.bytes / MIB).collect::<Vec<_>>(), [54, 4]);
        assert!(long.iter().all(|run| run.address.is_multiple_of(HUGE_PAGE_BYTES)));
        // 2 MiB of huge pages are left, and at the ends 1 MiB and a page of small ones.
        assert_eq!(pages.free_bytes(), 3 * MIB + 4096);
        let rest = pages.take(3 * MIB, PageSize::Huge).unwrap();
        assert_eq!(rest.iter().map(PageRun::page_count).sum::<u64>(), 1 + 256);
        assert_eq!(pages.take(8192, PageSize::Small), None);
        for runs in [&long, &second, &rest] {
            pages.give_back(runs);
        }
        assert_eq!(pages.free_bytes(), 63 * MIB + 4096);
        let whole = pages.take(62 * MIB, PageSize::Huge).unwrap();
        assert_eq!(whole.len(), 1);
    }

    #[test]
    fn broken_pages_are_whole_again_once_nobody_has_one() {
        let range = 0..32 * MIB;
        let mut pages = Pages::new(range);
        let small = pages.take(1, PageSize::Small).unwrap();
        // All are broken: no huge page is left, but small ones are.
        assert_eq!(pages.take(2 * MIB, PageSize::Huge).unwrap().len(), 512);
        pages.give_back(&small);
        assert_eq!(pages.take(u64::MAX, PageSize::Huge), None);
    }

    #[test]
    fn a_range_that_is_smaller_than_a_huge_page() {
        for range in [MIB..MIB, MIB..MIB + 4095, MIB + 1..MIB + 3 * 4096, 3 * MIB..5 * MIB] {
            let mut pages = Pages::new(range.clone());
            let free = pages.free_bytes();
            let runs = pages.take(free, PageSize::Huge).unwrap();
            disjoint(&runs, &range);
            assert_eq!(
                (runs.iter().map(|run| run.bytes).sum::<u64>(), pages.free_bytes()),
                (free, 0)
            );
            assert_eq!(pages.take(1, PageSize::Small), None);
        }
    }
}
