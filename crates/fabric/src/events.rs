// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event core: a hierarchy of timing wheels. Events of equal time come out in the order of
//! scheduling, independent of addresses or hashing. Before them come those of cables between
//! devices, in the order of device and token: their place depends on nothing but themselves, so
//! that a device sees the same order whether the sender is simulated here or elsewhere.
//!
//! The fine wheel covers one turn of 4.2 us, which is longer than any latency of a healthy fabric.
//! Its slots are so narrow that few events share one, in a sorted list, and so few that the wheel
//! stays in the cache. Later events wait in a coarser wheel, in the order of scheduling, until
//! their turn begins.

mod cables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cables::Cables;

/// Width of a fine slot, 2^10 ps; of a turn of the fine wheel, which is a slot of the first coarser
/// wheel, 2^22 ps = 4.2 us; of turns of the coarser wheels, 2^32 ps = 4.3 ms and 2^42 ps = 4.4 s.
const FINE_BITS: u32 = 10;
const TURN_BITS: [u32; 3] = [22, 32, 42];

/// Kind of an event; its two numbers are given in brackets. Kinds that are not work come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
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
    /// A cable brings something to a device. Only [`Events::schedule_cable`] schedules it. (node,
    /// token)
    Cable,
    /// A processor core continues. (node, core)
    Core,
    /// A stalled node may take TLPs again. (node, -)
    StallEnd,
    /// The IOMMU has translated a request. (node, index among those that wait)
    Translated,
    /// A TLP has crossed from one socket of a host to another. (node, index among those that do)
    Crossed,
    /// The crossbar of a switch may take another TLP. (node, -)
    Crossbar,
    /// A joined completion of a peer has left. (node, index among those that have not)
    JoinedLeft,
    /// A part of a read of a peer could not leave. (node, root port and tag)
    PartLost,
    /// Like `DeviceTimer`, but does not keep the simulation alive. (node, token)
    Deadline,
    /// The load of a processor core may have timed out. Like `Deadline`. (node, core)
    LoadTimeout,
    /// Parts of reads of peers may have timed out. Like `Deadline`. (node, root port)
    PartTimeout,
    /// A link may come up. Like `Deadline`. (link, -)
    LinkUp,
}

impl EventKind {
    /// Whether the event is work to be done before the fabric is quiet.
    #[inline]
    const fn is_work(self) -> bool {
        (self as u8) < Self::Deadline as u8
    }
}

/// An event. In this order of its fields they are copied one by one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Event {
    pub time_ps: u64,
    pub target: u32,
    pub kind: EventKind,
    pub data: u32,
}

/// Index of no event.
const NONE: u32 = u32::MAX;

/// A pending event, and the one behind it in its list.
#[derive(Clone, Copy, Debug)]
struct Pending {
    time_ps: u64,
    target: u32,
    next: u32,
    data: u32,
    kind: EventKind,
}

impl Pending {
    #[inline]
    fn event(&self) -> Event {
        let Self { time_ps, target, data, kind, .. } = *self;
        Event { time_ps, kind, target, data }
    }
}

/// A list of events: its first and its last; both are `NONE` in an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

/// Storage of all pending events.
#[derive(Debug)]
struct Arena {
    all: Vec<Pending>,
    /// First of the unused places, which are joined by `next`.
    free: u32,
    /// Number of events, with those of cables, which are stored elsewhere.
    used: u64,
    /// Event put into the middle of a list last: others of the same time follow it.
    middle: u32,
}

impl Arena {
    #[inline]
    fn get(&self, at: u32) -> &Pending {
        &self.all[at as usize]
    }

    fn new() -> Self {
        let mut arena = Self { all: Vec::new(), free: NONE, used: 0, middle: NONE };
        arena.grow();
        arena
    }

    /// Adds unused places, at least as many as there are places.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let first = self.all.len() as u32;
        let end = first + first.max(64);
        self.all.extend((first..end).map(|at| Pending {
            time_ps: 0,
            target: NONE,
            next: if at + 1 < end { at + 1 } else { NONE },
            data: NONE,
            kind: EventKind::Arrive,
        }));
        self.free = first;
    }

    /// Stores an event, for now in no list. There is always an unused place.
    #[inline]
    fn add(&mut self, event: Event) -> u32 {
        self.used += 1;
        let at = self.free;
        let Event { time_ps, kind, target, data } = event;
        let place = &mut self.all[at as usize];
        self.free = place.next;
        *place = Pending { time_ps, target, next: NONE, data, kind };
        at
    }

    /// Makes sure that there is an unused place again.
    #[inline]
    fn keep_room(&mut self) {
        if self.free == NONE {
            self.grow();
        }
    }

    /// Appends an event to a list.
    #[inline]
    fn append(&mut self, list: &mut List, event: Event) {
        let at = self.add(event);
        match list.last {
            NONE => list.first = at,
            last => self.all[last as usize].next = at,
        }
        list.last = at;
        self.keep_room();
    }

    /// Puts an event into a list that is sorted by time, behind all that are not later.
    #[inline]
    fn insert(&mut self, list: &mut List, event: Event) {
        let at = self.add(event);
        if list.last == NONE {
            list.first = at;
        } else {
            let last = &mut self.all[list.last as usize];
            if last.time_ps > event.time_ps {
                return self.link_in_middle(list, at);
            }
            last.next = at;
        }
        list.last = at;
        self.keep_room();
    }

    /// Links a stored event that is not the last into a sorted list.
    #[inline(never)]
    fn link_in_middle(&mut self, list: &mut List, at: u32) {
        let time_ps = self.get(at).time_ps;
        let is_before = |other: &Pending| other.time_ps <= time_ps;
        // `middle` is of another list if it lies in another slot.
        let same_slot = |other: &Pending| other.time_ps >> FINE_BITS == time_ps >> FINE_BITS;
        let mut before = match self.all.get(self.middle as usize) {
            Some(other) if same_slot(other) && is_before(other) => self.middle,
            _ if is_before(self.get(list.first)) => list.first,
            _ => NONE,
        };
        self.middle = at;
        if before == NONE {
            self.all[at as usize].next = std::mem::replace(&mut list.first, at);
        } else {
            while is_before(self.get(self.get(before).next)) {
                before = self.get(before).next;
            }
            let next = std::mem::replace(&mut self.all[before as usize].next, at);
            self.all[at as usize].next = next;
        }
        self.keep_room();
    }

    /// Takes the first event of a list that is not empty.
    #[inline]
    fn take_first(&mut self, list: &mut List) -> Event {
        let first = list.first;
        let place = &mut self.all[first as usize];
        let event = place.event();
        list.first = std::mem::replace(&mut place.next, self.free);
        if list.first == NONE {
            list.last = NONE;
        }
        self.free = first;
        self.used -= 1;
        if first == self.middle {
            self.middle = NONE;
        }
        event
    }

    /// Time of the earliest event of a list in any order.
    fn earliest_ps(&self, list: List) -> Option<u64> {
        let first = self.all.get(list.first as usize);
        let all = std::iter::successors(first, |event| self.all.get(event.next as usize));
        all.map(|event| event.time_ps).min()
    }

    /// Keeps the events of a list for which `keep` returns true, in their order.
    fn retain(&mut self, list: &mut List, keep: &mut impl FnMut(&Event) -> bool) {
        let mut old = std::mem::replace(list, List::EMPTY);
        while old != List::EMPTY {
            let event = self.take_first(&mut old);
            if keep(&event) {
                self.append(list, event);
            }
        }
    }
}

/// Lists of one turn of a wheel, by slot: of up to 4096 slots, of which a bitmap of two levels
/// finds the first that is not empty. `SHIFT` is the number of bits of time below the number of a
/// slot.
struct Wheel<const SHIFT: u32, const SLOTS: usize, const WORDS: usize> {
    turn: u64,
    slots: Box<[List; SLOTS]>,
    occupied: Box<[u64; WORDS]>,
    /// One bit for each word of `occupied` that is not 0.
    words: u64,
}

impl<const SHIFT: u32, const SLOTS: usize, const WORDS: usize> Wheel<SHIFT, SLOTS, WORDS> {
    fn new() -> Self {
        const { assert!(SLOTS == WORDS * 64 && WORDS <= 64 && SLOTS.is_power_of_two()) };
        Self {
            turn: 0,
            slots: Box::new([List::EMPTY; SLOTS]),
            occupied: Box::new([0; WORDS]),
            words: 0,
        }
    }

    /// The list of the slot of a time in this turn, to add to.
    #[inline]
    fn slot(&mut self, time_ps: u64) -> &mut List {
        let at = (time_ps >> SHIFT) as usize % SLOTS;
        if self.slots[at].first == NONE {
            self.occupied[at / 64] |= 1 << (at % 64);
            self.words |= 1 << (at / 64);
        }
        &mut self.slots[at]
    }

    /// Index of the first slot that is not empty.
    #[inline]
    fn first(&self) -> Option<usize> {
        if self.words == 0 {
            return None;
        }
        let at = self.words.trailing_zeros() as usize % WORDS;
        Some((at * 64 + self.occupied[at].trailing_zeros() as usize) % SLOTS)
    }

    /// Time at which a slot begins.
    #[inline]
    fn begins_ps(&self, slot: usize) -> u64 {
        (self.turn * SLOTS as u64 + slot as u64) << SHIFT
    }

    /// Notes that a slot is empty.
    #[inline]
    fn note_empty(&mut self, slot: usize) {
        let word = &mut self.occupied[slot / 64 % WORDS];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.words &= !(1 << (slot / 64));
        }
    }

    /// Empties the first slot that is not empty, if it begins by `limit_ps`. Returns when it
    /// begins, and its list.
    fn take_first(&mut self, limit_ps: u64) -> Option<(u64, List)> {
        let slot = self.first()?;
        let begins_ps = self.begins_ps(slot);
        if begins_ps > limit_ps {
            return None;
        }
        self.note_empty(slot);
        Some((begins_ps, std::mem::replace(&mut self.slots[slot], List::EMPTY)))
    }

    /// Keeps the events for which `keep` returns true.
    fn retain(&mut self, arena: &mut Arena, keep: &mut impl FnMut(&Event) -> bool) {
        for slot in 0..SLOTS {
            if self.slots[slot] != List::EMPTY {
                arena.retain(&mut self.slots[slot], keep);
                if self.slots[slot] == List::EMPTY {
                    self.note_empty(slot);
                }
            }
        }
    }
}

/// The queue of all events of a fabric, and its clock.
pub(crate) struct Events {
    now_ps: u64,
    cables: Cables,
    arena: Arena,
    fine: Wheel<FINE_BITS, 4096, 64>,
    middle: Wheel<{ TURN_BITS[0] }, 1024, 16>,
    coarse: Wheel<{ TURN_BITS[1] }, 1024, 16>,
    /// Events beyond the turn of the last coarse wheel, by turn.
    distant: BTreeMap<u64, List>,
    /// Number of pending events that are not work.
    idle: u64,
    /// Events handled since the start.
    pub processed: u64,
}

impl Events {
    pub fn new() -> Self {
        Self {
            now_ps: 0,
            cables: Cables::new(),
            arena: Arena::new(),
            fine: Wheel::new(),
            middle: Wheel::new(),
            coarse: Wheel::new(),
            distant: BTreeMap::new(),
            idle: 0,
            processed: 0,
        }
    }

    /// Simulated time in picoseconds.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Number of pending events that are work.
    #[inline]
    pub fn work(&self) -> u64 {
        self.arena.used - self.idle
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.arena.used == 0
    }

    /// Schedules an event; a time in the past counts as now.
    #[inline]
    pub fn schedule(&mut self, time_ps: u64, kind: EventKind, target: u32, data: u32) {
        if !kind.is_work() {
            self.idle += 1;
        }
        self.put(time_ps.max(self.now_ps), kind, target, data);
    }

    /// Puts an event into its wheel.
    #[inline(never)]
    fn put(&mut self, time_ps: u64, kind: EventKind, target: u32, data: u32) {
        if time_ps >> TURN_BITS[0] == self.fine.turn {
            let event = Event { time_ps, kind, target, data };
            self.arena.insert(self.fine.slot(time_ps), event);
        } else {
            self.schedule_later(time_ps, kind, target, data);
        }
    }

    /// Schedules an event of a cable. It comes before all other events of its time.
    pub fn schedule_cable(&mut self, time_ps: u64, target: u32, data: u32) {
        self.arena.used += 1;
        self.cables.add(time_ps.max(self.now_ps), target, data);
    }

    /// Schedules an event outside the turn of the fine wheel.
    #[inline(never)]
    fn schedule_later(&mut self, time_ps: u64, kind: EventKind, target: u32, data: u32) {
        let event = Event { time_ps, kind, target, data };
        let [fine, middle, last] = TURN_BITS.map(|bits| event.time_ps >> bits);
        if fine < self.fine.turn {
            // The clock has not moved to the turn yet; what comes before it goes first.
            let begins_ps = self.fine.begins_ps(0);
            self.arena.insert(self.fine.slot(begins_ps), event);
            return;
        }
        let list = if middle == self.middle.turn {
            self.middle.slot(event.time_ps)
        } else if last == self.coarse.turn {
            self.coarse.slot(event.time_ps)
        } else {
            self.distant.entry(last).or_insert(List::EMPTY)
        };
        self.arena.append(list, event);
    }

    /// Turns the wheels on to the turn of the next event, unless it begins after `limit_ps`.
    /// Returns whether it did. The order is kept: none of its events can have been scheduled into a
    /// finer wheel before.
    #[cold]
    fn begin_turn(&mut self, limit_ps: u64) -> bool {
        let begun = if self.middle.words != 0 {
            self.middle.take_first(limit_ps)
        } else if self.coarse.words != 0 {
            self.coarse.take_first(limit_ps)
        } else {
            let first = self.distant.first_entry();
            let first = first.filter(|first| first.key() << TURN_BITS[2] <= limit_ps);
            first.map(|first| first.remove_entry()).map(|(turn, list)| (turn << TURN_BITS[2], list))
        };
        let Some((begins_ps, mut list)) = begun else { return false };
        let [fine, middle, coarse] = TURN_BITS.map(|bits| begins_ps >> bits);
        (self.fine.turn, self.middle.turn, self.coarse.turn) = (fine, middle, coarse);
        while list != List::EMPTY {
            let event = self.arena.take_first(&mut list);
            assert_of!(
                event.time_ps >= begins_ps,
                [begins_ps, event],
                "{event:?} lies in the turn that begins at {begins_ps} ps"
            );
            if event.time_ps >> TURN_BITS[0] == fine {
                self.arena.insert(self.fine.slot(event.time_ps), event);
            } else {
                let Event { time_ps, kind, target, data } = event;
                self.schedule_later(time_ps, kind, target, data);
            }
        }
        true
    }

    /// Returns the slot of the next event, which is in the fine wheel then, if that is due by
    /// `limit_ps`.
    #[inline]
    fn first(&mut self, limit_ps: u64) -> Option<usize> {
        loop {
            if let Some(slot) = self.fine.first() {
                let first = self.arena.get(self.fine.slots[slot].first);
                return (first.time_ps <= limit_ps).then_some(slot);
            }
            if !self.begin_turn(limit_ps) {
                return None;
            }
        }
    }

    /// Takes the first event of a slot that is not empty.
    #[inline]
    fn take(&mut self, slot: usize) -> Event {
        let list = &mut self.fine.slots[slot];
        let event = self.arena.take_first(list);
        if list.first == NONE {
            self.fine.note_empty(slot);
        }
        if !event.kind.is_work() {
            self.idle -= 1;
        }
        event
    }

    /// Returns the next event without taking it.
    pub fn peek(&mut self) -> Option<Event> {
        let cable = self.cables.first();
        let limit_ps = cable.map_or(u64::MAX, |event| event.time_ps);
        let Some(slot) = self.first(limit_ps) else { return cable };
        let first = self.arena.get(self.fine.slots[slot].first).event();
        cable.filter(|cable| cable.time_ps <= first.time_ps).or(Some(first))
    }

    /// Returns the time of the next event. The wheels are not turned on, so that events before it
    /// still find their slots.
    pub fn next_ps(&self) -> Option<u64> {
        let list = if let Some(slot) = self.fine.first() {
            Some(self.fine.slots[slot])
        } else if let Some(slot) = self.middle.first() {
            Some(self.middle.slots[slot])
        } else if let Some(slot) = self.coarse.first() {
            Some(self.coarse.slots[slot])
        } else {
            self.distant.first_key_value().map(|(_, list)| *list)
        };
        let first = list.and_then(|list| self.arena.earliest_ps(list));
        let cable = self.cables.first_ps();
        first.into_iter().chain(cable).min()
    }

    /// Drops the next event unless it is work. The clock does not move.
    pub fn discard(&mut self) {
        if self.peek().is_some_and(|event| !event.kind.is_work())
            && let Some(slot) = self.first(u64::MAX)
            && !self.arena.get(self.fine.slots[slot].first).kind.is_work()
        {
            self.take(slot);
        }
    }

    /// Takes the next event if it is due by `limit_ps`, and moves the clock to it.
    #[inline(always)]
    pub fn pop(&mut self, limit_ps: u64) -> Option<Event> {
        // One at the very beginning has no moment before it.
        if self.cables.before_ps < limit_ps.max(1) {
            return self.pop_before_cable(limit_ps);
        }
        let slot = self.first(limit_ps)?;
        let event = self.take(slot);
        self.begin(event);
        Some(event)
    }

    /// Does the same where the first event of a cable is due, or comes at 1 ps.
    #[inline(never)]
    fn pop_before_cable(&mut self, limit_ps: u64) -> Option<Event> {
        let cable_ps = self.cables.first_ps()?;
        let slot = if cable_ps == 0 { None } else { self.first(self.cables.before_ps) };
        let event = match slot {
            Some(slot) => self.take(slot),
            None if cable_ps > limit_ps => return None,
            None => {
                self.arena.used -= 1;
                self.cables.take_first()?
            }
        };
        self.begin(event);
        Some(event)
    }

    /// Moves the clock to an event.
    #[inline]
    fn begin(&mut self, event: Event) {
        let (time_ps, now_ps) = (event.time_ps, self.now_ps);
        assert_of!(
            time_ps >= now_ps,
            [time_ps, now_ps],
            "an event of {time_ps} ps comes at {now_ps} ps"
        );
        self.now_ps = time_ps;
        self.processed += 1;
    }

    /// Advances the clock without an event, but never past one.
    pub fn advance_to(&mut self, time_ps: u64) {
        let time_ps = self.cables.first_ps().map_or(time_ps, |cable_ps| cable_ps.min(time_ps));
        let first = self.first(time_ps).map(|slot| self.fine.slots[slot].first);
        let next_ps = first.map_or(time_ps, |first| self.arena.get(first).time_ps);
        self.now_ps = self.now_ps.max(next_ps);
    }

    /// Removes a direction's arrivals for which `is_lost` returns true, and returns their packets,
    /// earliest first. Visits every pending event.
    pub fn remove_arrivals(&mut self, direction: u32, is_lost: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut lost = Vec::new();
        let mut keep = |event: &Event| {
            let is_arrival = event.kind == EventKind::Arrive && event.target == direction;
            let goes = is_arrival && is_lost(event.data);
            if goes {
                lost.push((event.time_ps, event.data));
            }
            !goes
        };
        self.fine.retain(&mut self.arena, &mut keep);
        self.middle.retain(&mut self.arena, &mut keep);
        self.coarse.retain(&mut self.arena, &mut keep);
        self.distant.retain(|_, list| {
            self.arena.retain(list, &mut keep);
            *list != List::EMPTY
        });
        // A wire carries one after the other, so the times differ.
        lost.sort_unstable();
        lost.into_iter().map(|(_, packet)| packet).collect()
    }
}
