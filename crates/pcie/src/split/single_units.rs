// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mixture of completion sizes: a share of the completions that span several units of the read
//! completion boundary is cut into single units.
//!
//! A host bridge joins lines from memory into one completion if they arrive together, and otherwise
//! sends each by itself. Both are legal (PCIe 6.x 2.3.1.1).

use super::{CompletionCuts, CutRule};
use crate::units::BusAddress;

/// The share 1, in the units of `share` and `carried`.
const WHOLE: u64 = 1 << 32;

/// Cuts a share of the completions, evenly and without randomness: of the first n that span several
/// units, `floor(n x share)` are cut.
///
/// ```
/// use crosslane_pcie::BusAddress;
/// use crosslane_pcie::split::{self, SingleUnits};
///
/// // Every second completion of 256 bytes goes out as four of 64 bytes.
/// let mut single_units = SingleUnits::new(0.5);
/// let lengths: Vec<u32> = split::completions(BusAddress(0), 1024, 64, 256)
///     .flat_map(|whole| single_units.cut(whole, 64).map(|(_, length)| length))
///     .collect();
/// assert_eq!(lengths, [256, 64, 64, 64, 64, 256, 64, 64, 64, 64]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleUnits {
    share: u64,
    /// Sum of the shares so far that no cut has used up, below [`WHOLE`].
    carried: u64,
}

impl SingleUnits {
    /// Cuts this share of the completions, 0 to 1, to the nearest 2^-32.
    ///
    /// # Panics
    /// If the share is not between 0 and 1.
    pub fn new(share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a share of {share}");
        Self { share: (share * WHOLE as f64).round() as u64, carried: 0 }
    }

    /// Whether the share is 0, so that nothing is cut.
    pub const fn is_off(&self) -> bool {
        self.share == 0
    }

    /// Returns the pieces that replace `whole` (address of its first byte, length in bytes), the
    /// next completion. One without a boundary inside it stays whole and does not count.
    pub fn cut(&mut self, whole: (BusAddress, u32), rcb_bytes: u32) -> CompletionCuts {
        let (address, length_bytes) = whole;
        let in_first = rcb_bytes - (address.0 % u64::from(rcb_bytes)) as u32;
        let mut in_units = false;
        if length_bytes > in_first {
            self.carried += self.share;
            in_units = self.carried >= WHOLE;
            self.carried %= WHOLE;
        }
        let (max_bytes, rule) = match in_units {
            true => (rcb_bytes, CutRule::EveryMultiple),
            false => (u32::MAX, CutRule::LastReached(rcb_bytes)),
        };
        CompletionCuts {
            address: address.0,
            remaining_bytes: length_bytes,
            max_bytes,
            rule,
            begins: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::{completions, is_legal_completion_cut};
    use proptest::prelude::*;

    /// Lengths of the pieces of each completion, for reads of 512 bytes in completions of 256.
    fn lengths(single_units: &mut SingleUnits, reads: u32) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        for read in 0..reads {
            let address = BusAddress(u64::from(read) * 512);
            for whole in completions(address, 512, 64, 256) {
                all.push(single_units.cut(whole, 64).map(|(_, length)| length).collect());
            }
        }
        all
    }

    #[test]
    fn the_share_is_exact_over_every_run_of_completions() {
        for (share, parts, of) in
            [(0.0, 0, 1), (0.25, 1, 4), (0.5, 1, 2), (0.59, 59, 100), (0.625, 5, 8), (1.0, 1, 1)]
        {
            let all = lengths(&mut SingleUnits::new(share), 4000);
            let mut cut = 0;
            for (index, pieces) in all.iter().enumerate() {
                match pieces.as_slice() {
                    [256] => {}
                    [64, 64, 64, 64] => cut += 1,
                    other => panic!("{other:?}"),
                }
                // 2^-32 does not divide 0.59, so one cut may come a completion late.
                let (exact, n) = (index as u64 + 1, index);
                let expected = exact * parts / of;
                let slack = u64::from(share == 0.59);
                assert!(cut <= expected + slack && cut + slack >= expected, "{share} {n} {cut}");
            }
        }
    }

    #[test]
    fn what_is_in_one_unit_does_not_count() {
        let mut single_units = SingleUnits::new(0.5);
        let mut pieces = |address, length| single_units.cut((BusAddress(address), length), 64);
        assert_eq!(pieces(0, 128).count(), 1);
        for (address, length) in [(0, 64), (0x20, 32), (0x3c, 4), (0x40, 0)] {
            let alone: Vec<_> = pieces(address, length).collect();
            assert_eq!(alone, [(BusAddress(address), length)]);
        }
        // The second that spans two: its first piece ends at the boundary.
        let second: Vec<_> = pieces(0x20, 100).collect();
        assert_eq!(second, [(BusAddress(0x20), 32), (BusAddress(0x40), 64), (BusAddress(0x80), 4)]);
    }

    proptest! {
        /// For any read and any share, the pieces together are a legal answer.
        #[test]
        fn mixtures_are_legal(
            page in 0_u64..1 << 20,
            start in 0_u32..4096,
            length in 0_u32..=4096,
            boundary in prop::sample::select(vec![64_u32, 128]),
            max in prop::sample::select(vec![128_u32, 256, 512, 4096]),
            share in 0.0..=1.0_f64,
        ) {
            let length = length.min(4096 - start);
            let address = BusAddress((page << 12) + u64::from(start));
            let mut single_units = SingleUnits::new(share);
            let cut: Vec<u32> = completions(address, length, boundary, max)
                .flat_map(|whole| single_units.cut(whole, boundary).map(|(_, bytes)| bytes))
                .collect();
            prop_assert!(is_legal_completion_cut(address, length, boundary, max, &cut));
        }
    }
}
