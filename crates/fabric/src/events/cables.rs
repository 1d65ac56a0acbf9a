// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of cables between devices.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Event, EventKind};

/// Events of cables: first come those of the earliest time, of the first device, of the lowest
/// token.
pub(super) struct Cables {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Last moment before the first one; the end of time if there is none.
    pub before_ps: u64,
}

impl Cables {
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), before_ps: u64::MAX }
    }

    /// Time of the first one.
    pub fn first_ps(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((time_ps, ..))| *time_ps)
    }

    pub fn first(&self) -> Option<Event> {
        self.heap.peek().map(|Reverse(first)| Self::event(*first))
    }

    pub fn add(&mut self, time_ps: u64, target: u32, data: u32) {
        self.heap.push(Reverse((time_ps, target, data)));
        self.note_first();
    }

    pub fn take_first(&mut self) -> Option<Event> {
        let first = self.heap.pop().map(|Reverse(first)| Self::event(first));
        self.note_first();
        first
    }

    fn note_first(&mut self) {
        self.before_ps = self.first_ps().map_or(u64::MAX, |first_ps| first_ps.saturating_sub(1));
    }

    const fn event((time_ps, target, data): (u64, u32, u32)) -> Event {
        Event { time_ps, kind: EventKind::Cable, target, data }
    }
}
