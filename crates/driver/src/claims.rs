// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of a buffer that belong to the device at the moment.

use std::collections::BTreeMap;
use std::ops::Range;

/// Parts of one buffer that are in flight. A part that the device writes overlaps no other; parts
/// that it only reads may overlap each other.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// End of each part that the device writes, by its start.
    written: BTreeMap<u64, u64>,
    /// Number of readers of each part (start, end).
    read: BTreeMap<(u64, u64), u32>,
    /// Length of the longest part ever read: no part that starts further ahead can overlap.
    longest_read_bytes: u64,
}

impl Claims {
    /// Finds a part in flight that overlaps `part` and is written by the device.
    pub fn written_in(&self, part: &Range<u64>) -> Option<Range<u64>> {
        // Written parts are disjoint: only the last one that starts before the end can overlap.
        let (&start, &end) = self.written.range(..part.end).next_back()?;
        (end > part.start).then_some(start..end)
    }

    /// Finds a part in flight that overlaps `part`.
    pub fn any_in(&self, part: &Range<u64>) -> Option<Range<u64>> {
        let from = part.start.saturating_sub(self.longest_read_bytes);
        let read =
            self.read.range((from, 0)..(part.end, 0)).find(|((_, end), _)| *end > part.start);
        self.written_in(part).or_else(|| read.map(|(&(start, end), _)| start..end))
    }

    /// Returns whether no part is in flight.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.read.is_empty()
    }

    /// Gives a part to the device.
    ///
    /// # Errors
    /// The part that overlaps.
    pub fn take(&mut self, part: &Range<u64>, device_writes: bool) -> Result<(), Range<u64>> {
        let taken = if device_writes { self.any_in(part) } else { self.written_in(part) };
        if let Some(taken) = taken {
            return Err(taken);
        }
        assert!(!part.is_empty(), "a part of no bytes is given away: {part:?}");
        if device_writes {
            let there = self.written.insert(part.start, part.end);
            assert!(there.is_none(), "{part:?} is given away, and is to {there:?} already");
        } else {
            *self.read.entry((part.start, part.end)).or_insert(0) += 1;
            self.longest_read_bytes = self.longest_read_bytes.max(part.end - part.start);
        }
        Ok(())
    }

    /// Takes back a part given by [`take`](Self::take).
    pub fn give_back(&mut self, part: &Range<u64>, device_writes: bool) {
        if device_writes {
            let end = self.written.remove(&part.start);
            assert!(end == Some(part.end), "{part:?} is given back, and was taken to {end:?}");
            return;
        }
        let key = (part.start, part.end);
        let count = self.read.get_mut(&key);
        let count = count.unwrap_or_else(|| panic!("{part:?} is given back, and is not read"));
        *count -= 1;
        if *count == 0 {
            self.read.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_parts_exclude_all_others() {
        let mut claims = Claims::default();
        claims.take(&(100..200), true).unwrap();
        for (part, device_writes) in [(0..101, true), (199..300, false), (120..130, false)] {
            assert_eq!(claims.take(&part, device_writes), Err(100..200), "{part:?}");
        }
        claims.take(&(0..100), true).unwrap();
        claims.take(&(200..300), false).unwrap();
        assert_eq!(claims.take(&(150..250), true), Err(100..200));
        claims.give_back(&(100..200), true);
        assert_eq!(claims.take(&(150..250), true), Err(200..300));
        claims.give_back(&(200..300), false);
        claims.take(&(150..250), true).unwrap();
        claims.give_back(&(150..250), true);
        claims.give_back(&(0..100), true);
        assert!(claims.is_empty());
    }

    #[test]
    #[should_panic(expected = "1..2 is given back, and was taken to None")]
    fn a_part_given_back_twice_is_noticed() {
        let mut claims = Claims::default();
        claims.take(&(1..2), true).unwrap();
        claims.give_back(&(1..2), true);
        claims.give_back(&(1..2), true);
    }

    #[test]
    fn parts_that_are_read_may_overlap() {
        let mut claims = Claims::default();
        claims.take(&(0..1000), false).unwrap();
        claims.take(&(900..1100), false).unwrap();
        claims.take(&(900..1100), false).unwrap();
        assert_eq!(claims.take(&(500..510), true), Err(0..1000));
        assert_eq!(claims.written_in(&(0..2000)), None);
        claims.give_back(&(0..1000), false);
        claims.take(&(500..510), true).unwrap();
        claims.give_back(&(900..1100), false);
        assert_eq!(claims.any_in(&(1000..1001)), Some(900..1100), "claimed twice, given back once");
    }
}
