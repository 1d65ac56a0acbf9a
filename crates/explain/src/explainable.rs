// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work whose scenarios can be repeated with one thing changed.

use crosslane_experiment::{Scenario, Work};
use crosslane_results::quantity::size_words;

use crate::error::ExplainError;
use crate::search::Lever;

/// The limits of a scenario.
pub type Levers<W> = Result<Vec<Lever<W>>, ExplainError>;

/// Work whose scenarios can be explained.
pub trait Explainable: Work + 'static {
    /// Returns scenarios that can be explained in place of one, the preferred one first: a long run
    /// with fewer or shorter transfers, then with more of them, each with a description of how it
    /// was shortened. A run that is short enough to be made many times is itself among them,
    /// without description.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>>;

    /// Lists the limits of a scenario. `first` is the scenario before anything was lifted: the
    /// capabilities of its ports tell a link that is trained down from one that was made faster.
    ///
    /// # Errors
    /// A lab that cannot be built.
    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self>;
}

/// A run that is explained in place of another, and how it was shortened; `None` for the run
/// itself.
pub type Short<C> = (C, Option<String>);

/// Factors by which a shortened run is lengthened, in bytes and transfers, one after the other,
/// until it is as fast as the whole run.
const LENGTHS: [u64; 4] = [1, 2, 4, 8];

/// Returns a shortened run for each of [`LENGTHS`], up to the first that is the whole run.
pub(crate) fn lengthened<C>(short: impl Fn(u64) -> Short<C>) -> Vec<Short<C>> {
    let mut all: Vec<Short<C>> = Vec::new();
    for times in LENGTHS {
        if all.last().is_none_or(|(_, words)| words.is_some()) {
            all.push(short(times));
        }
    }
    all
}

/// Bytes that a shortened run moves, as far as the numbers below allow: enough time for every
/// buffer and credit window on the path to fill and empty many times.
pub(crate) const SHORT_BYTES: u64 = 1 << 20;
/// The same for each of several flows, or for each card of a chain.
pub(crate) const SHORT_SHARED_BYTES: u64 = 512 << 10;
/// Most transfers of a shortened run before it is lengthened.
const SHORT_TRANSFERS: u64 = 1024;
/// Least number of times that the transfers in flight are posted anew: with fewer, the beginning
/// would count for more than in the whole run.
const SHORT_ROUNDS: u64 = 4;
/// Least length of a shortened transfer. The time around a transfer counts for a little more than
/// in the whole run, and for much more if transfers are shorter.
const SHORT_TRANSFER_BYTES: u64 = 128 << 10;

/// A shortened transfer that must exceed some cache is a multiple of this.
const PAGE_BYTES: u64 = 4096;

/// A flow's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub count: u64,
    pub size_bytes: u64,
    pub outstanding: u64,
}

impl Transfers {
    const fn bytes(self) -> u64 {
        self.count.saturating_mul(self.size_bytes)
    }

    /// Returns transfers that can be explained in place of these, for [`Explainable::shortened`]:
    /// first about `bytes` of them, then up to the last of [`LENGTHS`] times as many. If the
    /// transfers in flight exceed `held_bytes`, they still do afterwards: a cache of that size must
    /// be as useless to the shortened run.
    pub(crate) fn shortened(self, bytes: u64, held_bytes: u64) -> Vec<Short<Self>> {
        let first = self.cut(bytes, 1, held_bytes);
        let mut found = vec![first];
        for times in LENGTHS {
            found.push(self.cut(bytes, times, held_bytes));
            found.push(self.fewer(bytes, times));
        }
        found.push(self);
        let most = bytes.saturating_mul(LENGTHS[LENGTHS.len() - 1]);
        found.retain(|other| *other == first || other.bytes() <= most);
        found[1..].sort_by_key(|other| other.bytes());
        let mut shortened: Vec<Short<Self>> = Vec::new();
        for transfers in found {
            if !shortened.iter().any(|(known, _)| *known == transfers) {
                shortened.push((transfers, self.words_of(transfers)));
            }
            if transfers == self {
                break;
            }
        }
        shortened
    }

    /// Returns fewer and shorter transfers of about `times` times `bytes`, enough to be posted
    /// several times over.
    fn cut(self, bytes: u64, times: u64, held_bytes: u64) -> Self {
        let bytes = bytes.saturating_mul(times);
        let rounds = self.outstanding.max(1).saturating_mul(SHORT_ROUNDS);
        let count = (bytes / self.size_bytes).min(SHORT_TRANSFERS * times).max(rounds);
        let count = count.min(self.count);
        let most = (bytes / count).max(SHORT_TRANSFER_BYTES);
        let at_once = self.outstanding.clamp(1, self.count.max(1));
        let beyond = match self.size_bytes.saturating_mul(at_once) > held_bytes {
            true => (held_bytes / at_once + 1).next_multiple_of(PAGE_BYTES),
            false => 0,
        };
        let most = most.max(beyond);
        Self { count, size_bytes: self.size_bytes.min(most), ..self }
    }

    /// Returns fewer transfers of the same length: with one in flight, the beginning and the end of
    /// each matter.
    fn fewer(self, bytes: u64, times: u64) -> Self {
        let count = (bytes.saturating_mul(times) / self.size_bytes).min(SHORT_TRANSFERS * times);
        Self { count: count.max(self.outstanding).max(1).min(self.count), ..self }
    }

    /// Describes how `short` was shortened from these.
    fn words_of(self, short: Self) -> Option<String> {
        Some(match (short.count < self.count, short.size_bytes < self.size_bytes) {
            (false, false) => return None,
            (true, false) => {
                let noun = if short.count == 1 { "transfer" } else { "transfers" };
                format!("{} {noun} instead of {}", short.count, self.count)
            }
            (false, true) if short.count == 1 => {
                format!(
                    "{} instead of {}",
                    size_words(short.size_bytes),
                    size_words(self.size_bytes)
                )
            }
            (_, true) => format!(
                "{} transfers of {} instead of {} of {}",
                short.count,
                size_words(short.size_bytes),
                self.count,
                size_words(self.size_bytes)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(count: u64, size_bytes: u64, outstanding: u64) -> Option<String> {
        let transfers = Transfers { count, size_bytes, outstanding };
        transfers.shortened(SHORT_BYTES, 0).swap_remove(0).1
    }

    #[test]
    fn long_runs_become_about_a_mebibyte() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for (run, words) in [
            ((10_000, 64, 64), "1024 transfers instead of 10000"),
            ((2048, 4 * kib, 64), "256 transfers instead of 2048"),
            ((128, 64 * kib, 4), "16 transfers instead of 128"),
            ((16, mib, 2), "8 transfers of 128 KiB instead of 16 of 1 MiB"),
            ((16, 4 * mib, 1), "4 transfers of 256 KiB instead of 16 of 4 MiB"),
            ((1, 4 * mib, 1), "1 MiB instead of 4 MiB"),
            ((2, 4 * mib, 2), "2 transfers of 512 KiB instead of 2 of 4 MiB"),
        ] {
            let (count, size, outstanding) = run;
            assert_eq!(shortened(count, size, outstanding).as_deref(), Some(words), "{run:?}");
        }
    }

    #[test]
    fn short_runs_are_made_as_they_are() {
        for (count, size, outstanding) in [(1, 64, 1), (1, 1 << 20, 1), (16, 65536, 4)] {
            assert_eq!(shortened(count, size, outstanding), None);
        }
    }

    #[test]
    fn each_of_several_moves_half_as_much() {
        let transfers = Transfers { count: 16, size_bytes: 1 << 20, outstanding: 1 };
        let (short, _) = transfers.shortened(SHORT_SHARED_BYTES, 0).swap_remove(0);
        assert_eq!((short.count, short.size_bytes), (4, 128 << 10));
    }

    /// A working set beyond an IOTLB stays beyond it when shortened.
    #[test]
    fn what_is_beyond_a_size_stays_beyond_it() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for ((count, size_bytes, outstanding), held, expected) in [
            ((16, mib, 2), 448 * kib, (8, 228 * kib)),
            ((16, mib, 2), 1792 * kib, (8, 900 * kib)),
            ((16, mib, 2), 2 * mib, (8, 128 * kib)),
            ((16, mib, 2), 0, (8, 128 * kib)),
            ((16, mib, 1), 1020 * kib, (4, mib)),
            ((2, 4 * mib, 8), 448 * kib, (2, 512 * kib)),
        ] {
            let transfers = Transfers { count, size_bytes, outstanding };
            let (short, _) = transfers.shortened(SHORT_BYTES, held).swap_remove(0);
            let short = (short.count, short.size_bytes);
            assert_eq!(short, expected, "{count} of {size_bytes}, {outstanding}, {held}");
        }
    }

    #[test]
    fn all_that_is_posted_at_once_is_posted_again() {
        assert_eq!(
            shortened(10_000, 1 << 20, 64).as_deref(),
            Some("256 transfers of 128 KiB instead of 10000 of 1 MiB")
        );
    }

    /// Each run after the first is longer, up to eight times the bytes, and up to the run itself.
    #[test]
    fn shortened_runs_are_lengthened_in_steps() {
        let (kib, mib) = (1 << 10, 1 << 20);
        let steps = |count, size_bytes, outstanding| {
            let transfers = Transfers { count, size_bytes, outstanding };
            let steps = transfers.shortened(SHORT_SHARED_BYTES, 0);
            steps.into_iter().map(|(it, _)| (it.count, it.size_bytes)).collect::<Vec<_>>()
        };
        // One at a time: a whole transfer says more than several shortened ones.
        assert_eq!(
            steps(16, mib, 1),
            [(4, 128 * kib), (1, mib), (4, 256 * kib), (4, 512 * kib), (2, mib), (4, mib)]
        );
        assert_eq!(steps(4, mib, 1).last(), Some(&(4, mib)));
        let transfers = Transfers { count: 4, size_bytes: mib, outstanding: 1 };
        assert_eq!(transfers.shortened(SHORT_SHARED_BYTES, 0).pop().unwrap().1, None);
        // A run that cannot be shortened is the only one.
        assert_eq!(steps(10_000, mib, 64), [(256, 128 * kib)]);
        assert_eq!(steps(16, kib, 4), [(16, kib)]);
    }
}
