// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event core: a timing wheel with an overflow heap. Events of equal time come out in the order
//! of scheduling, independent of addresses or hashing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Width of a wheel slot: 2^12 ps = 4.096 ns, about the time of one small TLP.
const SLOT_BITS: u32 = 12;
/// Slots of the wheel: with 4.096 ns each it reaches 4.2 us ahead, beyond every latency of a
/// healthy fabric. Later events wait in the heap.
const SLOTS: usize = 1024;

/// Most handled events that the current slot keeps; a bound on memory.
const DONE_LIMIT: usize = 1 << 14;
/// An event for the current slot is inserted among this many of its last ones, or goes to a heap.
/// In a fabric of thousands of nodes in lockstep, a slot holds so many events that a longer search
/// would cost as much as the event.
const NEAR_END: usize = 32;

/// Kind of an event; its two numbers are given in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// A TLP reaches the receiver of a direction. (direction, packet)
    Arrive,
    /// A direction's transmitter chooses what to send. (direction, -)
    Pick,
    /// DLLPs of the other direction may unblock a transmitter. (direction, -)
    Wake,
    /// The replay timer of a direction may have run out. (direction, -)
    ReplayTimer,
    /// A read at a completer has its data. (node, read slot)
    ReadReady,
    /// A timer of a device expires. (node, token)
    DeviceTimer,
    /// A processor core continues. (node, core)
    Core,
    /// Like `DeviceTimer`, but does not keep the simulation alive. (node, token)
    Deadline,
    /// The load of a processor core may have timed out. Like `Deadline`. (node, core)
    LoadTimeout,
    /// A link may come up. Like `Deadline`. (link, -)
    LinkUp,
    /// A stalled node may take TLPs again. (node, -)
    StallEnd,
    /// The IOMMU has translated a request. (node, index among those that wait)
    Translated,
}

impl EventKind {
    /// Whether the event is work to be done before the fabric is quiet.
    const fn is_work(self) -> bool {
        !matches!(self, Self::Deadline | Self::LoadTimeout | Self::LinkUp)
    }

    const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::Arrive,
            1 => Self::Pick,
            2 => Self::Wake,
            3 => Self::ReplayTimer,
            4 => Self::ReadReady,
            5 => Self::DeviceTimer,
            6 => Self::Core,
            7 => Self::Deadline,
            8 => Self::LoadTimeout,
            9 => Self::LinkUp,
            10 => Self::StallEnd,
            _ => Self::Translated,
        }
    }
}

/// A heap entry: time, sequence number, kind and target, data.
type Queued = Reverse<(u64, u64, u32, u32)>;

/// Bits of an event's target; the kind is above them.
const TARGET_BITS: u32 = 28;

#[derive(Clone, Copy, Debug)]
struct Entry {
    time_ps: u64,
    kind_and_target: u32,
    data: u32,
}

impl Entry {
    #[inline]
    fn event(&self) -> Event {
        let kind = EventKind::from_bits(self.kind_and_target >> TARGET_BITS);
        let target = self.kind_and_target & ((1 << TARGET_BITS) - 1);
        Event { kind, target, data: self.data }
    }
}

/// A due event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub kind: EventKind,
    pub target: u32,
    pub data: u32,
}

/// The queue of all events of a fabric, and its clock.
pub(crate) struct Events {
    now_ps: u64,
    /// Absolute number of the current slot.
    slot: u64,
    /// Events of the current slot by time; the first `cursor` of them are done.
    current: Vec<Entry>,
    cursor: usize,
    /// Further events of the current slot, each scheduled after all in `current`.
    late: BinaryHeap<Queued>,
    slots: Vec<Vec<Entry>>,
    occupied: [u64; SLOTS / 64],
    overflow: BinaryHeap<Queued>,
    /// Sequence number of the last event put on a heap.
    sequence: u64,
    work: u64,
    /// Events handled since the start.
    pub processed: u64,
}

impl Events {
    pub fn new() -> Self {
        Self {
            now_ps: 0,
            slot: 0,
            current: Vec::new(),
            cursor: 0,
            late: BinaryHeap::new(),
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; SLOTS / 64],
            overflow: BinaryHeap::new(),
            sequence: 0,
            work: 0,
            processed: 0,
        }
    }

    /// Simulated time in picoseconds.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Number of pending events that are work.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Schedules an event; a time in the past counts as now.
    #[inline]
    pub fn schedule(&mut self, time_ps: u64, kind: EventKind, target: u32, data: u32) {
        assert_of!(
            target < 1 << TARGET_BITS,
            [target, kind],
            "an event for number {target} of {kind:?}"
        );
        let time_ps = time_ps.max(self.now_ps);
        let entry = Entry { time_ps, kind_and_target: (kind as u32) << TARGET_BITS | target, data };
        self.work += u64::from(kind.is_work());
        let slot = time_ps >> SLOT_BITS;
        if slot <= self.slot {
            self.schedule_now(entry);
        } else if slot < self.slot + SLOTS as u64 {
            let index = slot as usize % SLOTS;
            self.slots[index].push(entry);
            self.occupied[index / 64] |= 1 << (index % 64);
        } else {
            self.sequence += 1;
            let key = (time_ps, self.sequence, entry.kind_and_target, data);
            self.overflow.push(Reverse(key));
        }
    }

    /// Schedules an event of the current slot.
    #[inline]
    fn schedule_now(&mut self, entry: Entry) {
        if self.late.is_empty() {
            if self.cursor >= DONE_LIMIT {
                // A distant event keeps its slot current while others come before it.
                self.current.drain(..self.cursor);
                self.cursor = 0;
            }
            // Insert after all that are not later, mostly near the end.
            let mut at = self.current.len();
            let least = self.cursor.max(at.saturating_sub(NEAR_END));
            while at > least && self.current[at - 1].time_ps > entry.time_ps {
                at -= 1;
            }
            if at > least || at == self.cursor {
                self.current.insert(at, entry);
                return;
            }
        }
        self.sequence += 1;
        let Entry { time_ps, kind_and_target, data } = entry;
        self.late.push(Reverse((time_ps, self.sequence, kind_and_target, data)));
    }

    /// Returns the first of `late` if it precedes the first of `current`.
    #[inline]
    fn first_late(&self) -> Option<Entry> {
        let &Reverse((time_ps, _, kind_and_target, data)) = self.late.peek()?;
        let waits = self.current.get(self.cursor).is_some_and(|first| first.time_ps <= time_ps);
        (!waits).then_some(Entry { time_ps, kind_and_target, data })
    }

    /// Returns the next event, and whether it is in `late`.
    #[inline]
    fn first(&mut self) -> Option<(Entry, bool)> {
        if self.cursor == self.current.len() && self.late.is_empty() && !self.load() {
            return None;
        }
        match self.first_late() {
            Some(entry) => Some((entry, true)),
            None => Some((self.current[self.cursor], false)),
        }
    }

    #[inline]
    fn drop_first(&mut self, is_late: bool) {
        match is_late {
            true => drop(self.late.pop()),
            false => self.cursor += 1,
        }
    }

    /// Time of the next event.
    pub fn peek_ps(&mut self) -> Option<u64> {
        self.first().map(|(entry, _)| entry.time_ps)
    }

    /// Returns the next event without taking it.
    pub fn peek(&mut self) -> Option<Event> {
        self.first().map(|(entry, _)| entry.event())
    }

    /// Drops the next event unless it is work. The clock does not move.
    pub fn discard(&mut self) {
        let Some((entry, is_late)) = self.first() else { return };
        if !entry.event().kind.is_work() {
            self.drop_first(is_late);
        }
    }

    /// Takes the next event and moves the clock to it.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let (entry, is_late) = self.first()?;
        self.drop_first(is_late);
        let now_ps = self.now_ps;
        assert_of!(
            entry.time_ps >= now_ps,
            [entry, now_ps],
            "{:?} of {} ps comes at {now_ps} ps",
            entry.event(),
            entry.time_ps
        );
        self.now_ps = entry.time_ps;
        self.processed += 1;
        let event = entry.event();
        self.work -= u64::from(event.kind.is_work());
        Some(event)
    }

    /// Advances the clock without an event, but never past one.
    pub fn advance_to(&mut self, time_ps: u64) {
        let limit = self.peek_ps().unwrap_or(u64::MAX);
        self.now_ps = self.now_ps.max(time_ps.min(limit));
    }

    /// Removes a direction's arrivals for which `is_lost` returns true, and returns their packets,
    /// earliest first. Visits every pending event.
    pub fn remove_arrivals(&mut self, direction: u32, is_lost: impl Fn(u32) -> bool) -> Vec<u32> {
        let arrival = (EventKind::Arrive as u32) << TARGET_BITS | direction;
        let mut lost = Vec::new();
        let mut keep = |time_ps: u64, kind_and_target: u32, data: u32| {
            let goes = kind_and_target == arrival && is_lost(data);
            if goes {
                lost.push((time_ps, data));
            }
            !goes
        };
        let mut place = 0;
        let cursor = self.cursor;
        self.current.retain(|entry| {
            place += 1;
            place <= cursor || keep(entry.time_ps, entry.kind_and_target, entry.data)
        });
        self.late.retain(|Reverse((time_ps, _, kind_and_target, data))| {
            keep(*time_ps, *kind_and_target, *data)
        });
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.retain(|entry| keep(entry.time_ps, entry.kind_and_target, entry.data));
            if slot.is_empty() {
                self.occupied[index / 64] &= !(1 << (index % 64));
            }
        }
        self.overflow.retain(|Reverse((time_ps, _, kind_and_target, data))| {
            keep(*time_ps, *kind_and_target, *data)
        });
        let (work, all) = (self.work, lost.len() as u64);
        assert_of!(
            work >= all,
            [all, work],
            "{all} arrivals are lost, of {work} events that are work"
        );
        self.work -= all;
        // A wire carries one after the other, so the times differ.
        lost.sort_unstable();
        lost.into_iter().map(|(_, packet)| packet).collect()
    }

    /// Loads the next slot; returns false if no event is left.
    fn load(&mut self) -> bool {
        self.current.clear();
        self.cursor = 0;
        let in_wheel = self.next_occupied();
        let in_heap = self.overflow.peek().map(|Reverse(first)| first.0 >> SLOT_BITS);
        let Some(next) = in_wheel.into_iter().chain(in_heap).min() else {
            return false;
        };
        assert_of!(next >= self.slot, [next], "slot {next} comes behind slot {}", self.slot);
        self.slot = next;
        let index = next as usize % SLOTS;
        if in_wheel == Some(next) {
            std::mem::swap(&mut self.current, &mut self.slots[index]);
            self.occupied[index / 64] &= !(1 << (index % 64));
        }
        self.migrate();
        // The stable sort keeps equal times in the order of scheduling.
        self.current.sort_by_key(|entry| entry.time_ps);
        if let (Some(first), Some(last)) = (self.current.first(), self.current.last()) {
            let slots = (first.time_ps >> SLOT_BITS, last.time_ps >> SLOT_BITS);
            assert_of!(
                slots == (next, next),
                [slots, next],
                "events of slots {slots:?} lie in slot {next}"
            );
        }
        true
    }

    /// Moves the events now within the wheel's reach from the heap to the wheel. This keeps the
    /// order: no event can have been scheduled into their slot directly before, since every event
    /// for a slot out of reach goes to the heap.
    fn migrate(&mut self) {
        let limit = self.slot + SLOTS as u64;
        while let Some(Reverse(first)) = self.overflow.peek() {
            let slot = first.0 >> SLOT_BITS;
            if slot >= limit {
                break;
            }
            let Some(Reverse((time_ps, _, kind_and_target, data))) = self.overflow.pop() else {
                break;
            };
            let entry = Entry { time_ps, kind_and_target, data };
            if slot == self.slot {
                self.current.push(entry);
            } else {
                let index = slot as usize % SLOTS;
                self.slots[index].push(entry);
                self.occupied[index / 64] |= 1 << (index % 64);
            }
        }
    }

    /// Absolute number of the first occupied slot after the current one.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.slot as usize + 1) % SLOTS;
        let (word, bit) = (start / 64, start % 64);
        let words = self.occupied.len();
        for step in 0..=words {
            let at = (word + step) % words;
            let mut bits = self.occupied[at];
            if step == 0 {
                bits &= u64::MAX << bit;
            } else if step == words {
                bits &= !(u64::MAX << bit);
            }
            if bits != 0 {
                let index = at * 64 + bits.trailing_zeros() as usize;
                let ahead = (index + SLOTS - start) % SLOTS;
                return Some(self.slot + 1 + ahead as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a sorted list: same order, even when events schedule events.
        #[test]
        fn comes_out_in_order_of_time_then_of_scheduling(
            delays in prop::collection::vec((0u64..20_000_000, any::<bool>()), 1..200)
        ) {
            let mut events = Events::new();
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut next = 0u32;
            let mut add = |events: &mut Events, model: &mut Vec<(u64, u32)>, delay: u64| {
                let time = events.now_ps() + delay;
                events.schedule(time, EventKind::Arrive, 0, next);
                model.push((time, next));
                next += 1;
            };
            let mut delays = delays.into_iter();
            for (delay, _) in delays.by_ref().take(20) {
                add(&mut events, &mut model, delay);
            }
            while let Some(event) = events.pop() {
                let (at, &first) =
                    model.iter().enumerate().min_by_key(|(_, entry)| **entry).unwrap();
                prop_assert_eq!((events.now_ps(), event.data), first);
                model.swap_remove(at);
                if let Some((delay, short)) = delays.next() {
                    let delay = if short { delay % 5_000 } else { delay };
                    add(&mut events, &mut model, delay);
                    add(&mut events, &mut model, delay);
                    if short && delay.is_multiple_of(8) {
                        // Many events in the current slot, at only a few times.
                        for number in 0..60 {
                            add(&mut events, &mut model, delay % 7 * 500 + number % 3);
                        }
                    }
                }
            }
            prop_assert!(model.is_empty());
            prop_assert_eq!(events.work(), 0);
        }
    }
}
