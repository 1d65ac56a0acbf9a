// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue in a ring of slots, for small items that every TLP puts and takes.

/// A queue of copies. It grows when it is full, and never shrinks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring<T> {
    /// None, or a power of two of them.
    slots: Vec<T>,
    first: usize,
    length: usize,
}

impl<T: Copy + Default> Ring<T> {
    pub const fn new() -> Self {
        Self { slots: Vec::new(), first: 0, length: 0 }
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Slot of an item, if there are slots.
    #[inline]
    fn slot(&self, at: usize) -> usize {
        self.first.wrapping_add(at) & self.slots.len().wrapping_sub(1)
    }

    /// The item behind `at` others.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        if at < self.length { Some(&self.slots[self.slot(at)]) } else { None }
    }

    /// The first item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.length > 0 { Some(&self.slots[self.first]) } else { None }
    }

    /// The first item of a queue that must have one.
    #[inline]
    pub fn first(&self) -> &T {
        &self.slots[self.first]
    }

    /// The last item.
    #[inline(always)]
    pub fn back(&self) -> Option<&T> {
        self.get(self.length.wrapping_sub(1))
    }

    /// Adds an item behind all.
    #[inline(always)]
    pub fn push_back(&mut self, item: T) {
        if self.length == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.length);
        self.slots[slot] = item;
        self.length += 1;
    }

    /// Doubles the slots. The item to be added is none of its business: if it were, the item would
    /// have to be in memory whether there is room or not.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.slots.rotate_left(self.first);
        self.first = 0;
        self.slots.resize((2 * self.length).max(4), T::default());
    }

    /// Removes the first item; there must be one.
    #[inline]
    pub fn drop_front(&mut self) {
        self.first = self.slot(1);
        self.length -= 1;
    }

    /// Takes the item behind `at` others.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let item = *self.get(at)?;
        for later in at + 1..self.length {
            let (from, to) = (self.slot(later), self.slot(later - 1));
            self.slots[to] = self.slots[from];
        }
        self.length -= 1;
        Some(item)
    }

    /// Adds an item to a queue that is sorted by `key`, behind all that are not greater.
    #[inline(always)]
    pub fn insert_by(&mut self, item: T, key: impl Fn(&T) -> u64) {
        let is_last = self.back().is_none_or(|last| key(last) <= key(&item));
        self.push_back(item);
        if !is_last {
            self.sift(key);
        }
    }

    /// Moves the last item forward to its place among the others, which are sorted.
    #[inline(never)]
    fn sift(&mut self, key: impl Fn(&T) -> u64) {
        for at in (1..self.length).rev() {
            let (before, own) = (self.slot(at - 1), self.slot(at));
            if key(&self.slots[before]) <= key(&self.slots[own]) {
                return;
            }
            self.slots.swap(before, own);
        }
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Equal to a standard queue, whatever is done.
        #[test]
        fn is_a_queue(steps in prop::collection::vec((0u8..6, 0u64..20), 0..200)) {
            let mut ring: Ring<(u64, usize)> = Ring::new();
            let mut model = VecDeque::new();
            for (number, (step, value)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        prop_assert_eq!(ring.front().copied(), model.pop_front());
                        if ring.len() > 0 {
                            ring.drop_front();
                        }
                    }
                    1 => prop_assert_eq!(ring.remove(value as usize), model.remove(value as usize)),
                    2 if value == 0 => {
                        ring.clear();
                        model.clear();
                    }
                    // Sorted if it was.
                    3.. if model.iter().is_sorted() => {
                        let at = model.partition_point(|other: &(u64, usize)| other.0 <= value);
                        ring.insert_by((value, number), |item| item.0);
                        model.insert(at, (value, number));
                    }
                    _ => {
                        ring.push_back((value, number));
                        model.push_back((value, number));
                    }
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!((ring.front(), ring.back()), (model.front(), model.back()));
                prop_assert!((0..ring.len()).map(|at| ring.get(at)).eq(model.iter().map(Some)));
            }
        }
    }
}
