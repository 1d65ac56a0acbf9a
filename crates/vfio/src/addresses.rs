// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free I/O virtual addresses of one domain.

use std::ops::RangeInclusive;

use rangemap::RangeInclusiveSet;

/// Lowest address that is given out: many devices take 0 for "none", and a PC has its legacy ranges
/// below 1 MiB.
const LOWEST: u64 = 1 << 20;
/// Addresses that an x86 processor takes as interrupts, not memory (Intel SDM 3A, 12.11.1).
pub(crate) const INTERRUPT_WINDOW: RangeInclusive<u64> = 0xfee0_0000..=0xfeef_ffff;

/// Free addresses, given out lowest first: a request below 4 GiB has the short header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    free: RangeInclusiveSet<u64>,
}

impl Addresses {
    /// All of `usable` except the ranges in `kept_off`.
    pub fn new(
        usable: &[RangeInclusive<u64>],
        kept_off: impl IntoIterator<Item = RangeInclusive<u64>>,
    ) -> Self {
        let mut free: RangeInclusiveSet<u64> = usable.iter().cloned().collect();
        free.remove(0..=LOWEST - 1);
        free.remove(INTERRUPT_WINDOW);
        kept_off.into_iter().for_each(|range| free.remove(range));
        Self { free }
    }

    /// Takes the lowest free run of `bytes` at a multiple of `alignment`, a power of two.
    pub fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let more = bytes.checked_sub(1)?;
        let run = self.free.iter().find_map(|free| {
            let first = free.start().checked_next_multiple_of(alignment)?;
            Some(first..=first.checked_add(more).filter(|last| last <= free.end())?)
        })?;
        self.free.remove(run.clone());
        Some(*run.start())
    }

    /// Frees a run that was taken.
    pub fn give_back(&mut self, first: u64, bytes: u64) {
        self.free.insert(first..=first + (bytes - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const PAGE: u64 = 4096;

    #[test]
    fn gaps_bars_and_the_interrupt_window_are_never_given_out() {
        let usable = [0..=0xfedf_ffff, 0xfef0_0000..=0x1_ffff_ffff];
        let bars = [2 * MIB..=3 * MIB - 1, 0xfec0_0000..=0x1_0000_0fff];
        let mut addresses = Addresses::new(&usable, bars.clone());
        let mut taken = Vec::new();
        while let Some(first) = addresses.take(MIB, PAGE) {
            let last = first + MIB - 1;
            assert!(usable.iter().any(|range| range.contains(&first) && range.contains(&last)));
            for bar in &bars {
                assert!(last < *bar.start() || first > *bar.end(), "{first:#x} is in {bar:x?}");
            }
            taken.push(first);
        }
        assert_eq!(&taken[..3], [MIB, 3 * MIB, 4 * MIB], "lowest first");
        assert_eq!(taken.last(), Some(&(0x1_fff0_0000 - MIB + 0x1000)));
        // The usable addresses, less 1 MiB at the bottom and the two BARs, in whole MiB.
        let high = (0x1_ffff_ffff_u64 - 0x1_0000_1000) / MIB;
        assert_eq!(taken.len() as u64, (0xfec0_0000 / MIB - 2) + high);
        for first in &taken {
            addresses.give_back(*first, MIB);
        }
        assert_eq!(addresses, Addresses::new(&usable, bars), "all of it is free again");
    }

    #[test]
    fn alignment_and_the_end_of_all_addresses() {
        let mut addresses = Addresses::new(&[MIB..=u64::MAX], []);
        assert_eq!(addresses.take(PAGE, PAGE), Some(MIB));
        assert_eq!(addresses.take(3 * MIB, 2 * MIB), Some(2 * MIB));
        assert_eq!(addresses.take(PAGE, PAGE), Some(MIB + PAGE), "the hole is used");
        assert_eq!(addresses.take(u64::MAX, PAGE), None);
        assert_eq!(addresses.take(0, PAGE), None);
        let most = u64::MAX - 0xfef0_0000 + 1;
        assert_eq!(addresses.take(most, PAGE), Some(0xfef0_0000));
        addresses.give_back(0xfef0_0000, most);
        assert_eq!(addresses.take(most, PAGE), Some(0xfef0_0000));
    }

    #[test]
    fn whatever_is_taken_and_given_back_is_disjoint_and_whole_in_the_end() {
        let mut rng = crosslane_random::Random::with_seed(7);
        let usable = [MIB..=40 * MIB - 1, 64 * MIB..=90 * MIB - 1];
        let mut addresses = Addresses::new(&usable, []);
        let whole = addresses.clone();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for _ in 0..5000 {
            if rng.bool() {
                let bytes = rng.u64(1..=500) * PAGE;
                let Some(first) = addresses.take(bytes, PAGE << rng.u32(..10)) else { continue };
                let overlaps =
                    |&(other, length): &(u64, u64)| first < other + length && other < first + bytes;
                assert!(!taken.iter().any(overlaps));
                taken.push((first, bytes));
            } else if !taken.is_empty() {
                let (first, bytes) = taken.swap_remove(rng.usize(..taken.len()));
                addresses.give_back(first, bytes);
            }
        }
        for (first, bytes) in taken {
            addresses.give_back(first, bytes);
        }
        assert_eq!(addresses, whole);
    }
}
