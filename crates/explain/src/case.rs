// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs as one figure each, to be made again with something changed.

use crosslane_lab::Lab;

use crate::error::ExplainError;
use crate::explanation::Figure;

/// A run that can be made again with something changed.
pub trait Case: Clone + Send + Sync {
    /// Where it is made.
    fn lab(&self) -> &Lab;

    /// The same run in another lab, which has the same nodes.
    #[must_use]
    fn with_lab(self, lab: Lab) -> Self;

    /// Makes it: the rate of all flows together as the application sees it, from the first post to
    /// the last completion; or the typical latency one way.
    ///
    /// # Errors
    /// What keeps it from being made, and [`ExplainError::Failed`] where anything went wrong in it.
    fn figure(&self) -> Result<Figure, ExplainError>;

    /// The same with fewer or shorter transfers if it is long, and how in words. What holds a run
    /// is then found in a fraction of its time.
    fn shortened(&self) -> Option<(Self, String)>;
}

/// What a shortened run moves, bytes, as far as the numbers below allow: time enough for every
/// buffer and window on the way to fill and empty many times.
pub(crate) const SHORT_BYTES: u64 = 1 << 20;
/// The same of each of several flows, and through a row of cards: each moves as much.
pub(crate) const SHORT_SHARED_BYTES: u64 = 512 << 10;
/// Most transfers of it.
const SHORT_TRANSFERS: u64 = 1024;
/// Times that what is posted at once is posted anew, at least: else the beginning would count for
/// more than in the long run.
const SHORT_ROUNDS: u64 = 4;
/// No transfer is cut to less. The time around a transfer counts for a little more than in the
/// long run, and would count for much more if it were shorter.
const SHORT_TRANSFER_BYTES: u64 = 128 << 10;

/// Short transfers that are cut for what holds no more than some bytes are whole pages.
const PAGE_BYTES: u64 = 4096;

/// A flow's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub count: u64,
    pub size_bytes: u64,
    pub outstanding: u64,
}

impl Transfers {
    /// Fewer or shorter ones that move about `bytes`, and how in words; none where they are few and
    /// short enough.
    pub(crate) fn shortened(self, bytes: u64) -> Option<(Self, String)> {
        self.shortened_beyond(bytes, 0)
    }

    /// The same where those that are posted at once, if they are more than `held_bytes`, still are:
    /// what holds so much and no more has to be as little use to the short run.
    pub(crate) fn shortened_beyond(self, bytes: u64, held_bytes: u64) -> Option<(Self, String)> {
        let rounds = self.outstanding.max(1).saturating_mul(SHORT_ROUNDS);
        let count = (bytes / self.size_bytes).min(SHORT_TRANSFERS).max(rounds);
        let count = count.min(self.count);
        let most = (bytes / count).max(SHORT_TRANSFER_BYTES);
        let at_once = self.outstanding.clamp(1, self.count.max(1));
        let beyond = match self.size_bytes.saturating_mul(at_once) > held_bytes {
            true => (held_bytes / at_once + 1).next_multiple_of(PAGE_BYTES),
            false => 0,
        };
        let most = most.max(beyond);
        let short = Self { count, size_bytes: self.size_bytes.min(most), ..self };
        let words = match (short.count < self.count, short.size_bytes < self.size_bytes) {
            (false, false) => return None,
            (true, false) => format!("{} transfers instead of {}", short.count, self.count),
            (false, true) if count == 1 => {
                format!("{} B instead of {} B", short.size_bytes, self.size_bytes)
            }
            (_, true) => format!(
                "{} transfers of {} B instead of {} of {} B",
                short.count, short.size_bytes, self.count, self.size_bytes
            ),
        };
        Some((short, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(count: u64, size_bytes: u64, outstanding: u64) -> Option<String> {
        let transfers = Transfers { count, size_bytes, outstanding };
        transfers.shortened(SHORT_BYTES).map(|(_, words)| words)
    }

    #[test]
    fn long_runs_become_about_a_mebibyte() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for (run, words) in [
            ((10_000, 64, 64), "1024 transfers instead of 10000"),
            ((2048, 4 * kib, 64), "256 transfers instead of 2048"),
            ((128, 64 * kib, 4), "16 transfers instead of 128"),
            ((16, mib, 2), "8 transfers of 131072 B instead of 16 of 1048576 B"),
            ((16, 4 * mib, 1), "4 transfers of 262144 B instead of 16 of 4194304 B"),
            ((1, 4 * mib, 1), "1048576 B instead of 4194304 B"),
            ((2, 4 * mib, 2), "2 transfers of 524288 B instead of 2 of 4194304 B"),
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
        let (short, _) = transfers.shortened(SHORT_SHARED_BYTES).unwrap();
        assert_eq!((short.count, short.size_bytes), (4, 128 << 10));
    }

    /// What an IOTLB does not hold in the long run it does not hold in the short one.
    #[test]
    fn what_is_beyond_a_size_stays_beyond_it() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for ((count, size_bytes, outstanding), held, expected) in [
            ((16, mib, 2), 448 * kib, Some((8, 228 * kib))),
            ((16, mib, 2), 1792 * kib, Some((8, 900 * kib))),
            ((16, mib, 2), 2 * mib, Some((8, 128 * kib))),
            ((16, mib, 2), 0, Some((8, 128 * kib))),
            ((16, mib, 1), 1020 * kib, Some((4, mib))),
            ((2, 4 * mib, 8), 448 * kib, Some((2, 512 * kib))),
        ] {
            let transfers = Transfers { count, size_bytes, outstanding };
            let short = transfers.shortened_beyond(SHORT_BYTES, held);
            let short = short.map(|(short, _)| (short.count, short.size_bytes));
            assert_eq!(short, expected, "{count} of {size_bytes}, {outstanding}, {held}");
        }
    }

    #[test]
    fn all_that_is_posted_at_once_is_posted_again() {
        assert_eq!(
            shortened(10_000, 1 << 20, 64).as_deref(),
            Some("256 transfers of 131072 B instead of 10000 of 1048576 B")
        );
    }
}
