// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving end of a direction: its buffer, its Acks, and the return of its credits. The DLLPs
//! that it sends take the wire of the other direction, so both directions of a link work together
//! here ([`LinkPair`]).

use crosslane_pcie::credits::UPDATE_FC_LIMIT_PS;
use crosslane_pcie::link::DLLP_BYTES;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::direction::Direction;
use crate::ring::Ring;
use crate::trace::{DllpKind, TraceEvent, TraceRecord, TraceSink};
use crate::wire::WireTime;

/// Unlimited credits or bytes, without risk of overflow.
pub(crate) const UNLIMITED: u64 = u64::MAX / 4;

/// Freed receive buffers or waiting DLLPs that trigger processing before they are needed; a bound
/// on memory.
const LATE_LIMIT: usize = 16;

/// Header and data credits counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CreditCount {
    pub header: u64,
    pub data: u64,
}

impl CreditCount {
    /// The credits of a TLP.
    #[inline]
    pub fn of_tlp(data: u32) -> Self {
        Self { header: 1, data: u64::from(data) }
    }

    /// The sum of both counts.
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        Self { header: self.header + other.header, data: self.data + other.data }
    }

    /// The difference to another count, which must not be greater.
    #[inline]
    pub fn less(self, other: Self) -> Self {
        Self { header: self.header - other.header, data: self.data - other.data }
    }
}

/// A DLLP, queued (time = due) or on its way (time = arrival).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dllp {
    pub time_ps: u64,
    /// UpdateFC: header and data credits granted since the start, so that the next one makes up for
    /// a lost one. Ack and Nak: TLPs that arrived in order since the start, and their wire bytes.
    pub count: u64,
    pub amount: u64,
    pub kind: DllpKind,
}

impl Default for Dllp {
    fn default() -> Self {
        Self { time_ps: 0, count: 0, amount: 0, kind: DllpKind::Ack }
    }
}

/// DLLPs that wait for a wire, by due time.
#[derive(Debug)]
pub(crate) struct Outbound {
    waiting: Ring<Dllp>,
    /// Due time of the first; `u64::MAX` for none.
    pub first_ps: u64,
}

impl Outbound {
    pub const fn new() -> Self {
        Self { waiting: Ring::new(), first_ps: u64::MAX }
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
        self.first_ps = u64::MAX;
    }

    /// Whether too many have piled up.
    #[inline]
    pub fn is_late(&self) -> bool {
        self.waiting.len() > LATE_LIMIT
    }

    /// Adds one behind all that are not due later.
    #[inline(always)]
    pub fn put(&mut self, dllp: Dllp) {
        self.waiting.insert_by(dllp, |dllp| dllp.time_ps);
        self.first_ps = self.first_ps.min(dllp.time_ps);
    }

    /// Takes the first of those that wait, merged with those that it can stand for: a later Ack, or
    /// a later UpdateFC of its class, due when it takes the wire at `start_ps`.
    #[inline(always)]
    pub fn take_merged(&mut self, start_ps: u64) -> Dllp {
        let &Dllp { time_ps, mut count, mut amount, kind } = self.waiting.first();
        self.waiting.drop_front();
        self.first_ps = self.waiting.front().map_or(u64::MAX, |first| first.time_ps);
        if self.first_ps <= start_ps && kind != DllpKind::Nak {
            (count, amount) = self.merge(kind, count, amount, start_ps);
        }
        Dllp { time_ps, count, amount, kind }
    }

    /// Takes those of a kind that are due by `start_ps`; returns the newest contents of them and of
    /// another with these.
    #[cold]
    #[inline(never)]
    fn merge(
        &mut self,
        kind: DllpKind,
        mut count: u64,
        mut amount: u64,
        start_ps: u64,
    ) -> (u64, u64) {
        let mut at = 0;
        while let Some(other) = self.waiting.get(at).copied()
            && other.time_ps <= start_ps
        {
            if other.kind != kind {
                at += 1;
            } else {
                // Either may be newer, since the repeat of a lost UpdateFC waits long for its turn.
                self.waiting.remove(at);
                (count, amount) = (count.max(other.count), amount.max(other.amount));
            }
        }
        self.first_ps = self.waiting.front().map_or(u64::MAX, |first| first.time_ps);
        (count, amount)
    }
}

/// A part of a receive buffer that becomes free.
#[derive(Clone, Copy, Debug)]
struct Release {
    time_ps: u64,
    class: Class,
    data: u32,
}

impl Default for Release {
    fn default() -> Self {
        Self { time_ps: 0, class: Class::Posted, data: 0 }
    }
}

/// Limits for covering several TLPs with one DLLP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    pub tlps: u32,
    pub within_ps: u64,
}

/// The buffer of one class in credits, all counted since the start, as both ends of the direction
/// know them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    /// Credits advertised at the start; `UNLIMITED` for an infinite pool.
    pub capacity: CreditCount,
    /// Credits left to the transmitter, as far as UpdateFCs have told it.
    pub left: CreditCount,
    /// Credits consumed by TLPs that were sent.
    pub consumed: CreditCount,
    /// Credits of TLPs that have left the buffer.
    pub freed: CreditCount,
    /// Those of them that were returned by UpdateFCs.
    pub returned: CreditCount,
    /// Credits of TLPs in the buffer that a device holds.
    pub held: CreditCount,
    /// Time at which the first of those not yet returned was freed.
    pub freed_since_ps: u64,
    /// Whether the pool is infinite: it is never updated.
    pub is_infinite: bool,
}

impl Pool {
    fn new(capacity: CreditCount) -> Self {
        Self {
            capacity,
            left: capacity,
            consumed: CreditCount::default(),
            freed: CreditCount::default(),
            returned: CreditCount::default(),
            held: CreditCount::default(),
            freed_since_ps: 0,
            is_infinite: capacity.header >= UNLIMITED && capacity.data >= UNLIMITED,
        }
    }

    /// Credits that the transmitter may consume since the start, as far as UpdateFCs have told it.
    #[inline]
    pub fn limit(&self) -> CreditCount {
        self.consumed.plus(self.left)
    }

    /// Whether the transmitter has the credits of one more TLP.
    #[inline]
    pub fn has_room(&self, data: u32) -> bool {
        self.left.header > 0 && self.left.data >= u64::from(data)
    }

    /// Uses the credits of a TLP that is sent.
    #[inline]
    pub fn consume(&mut self, class: Class, data: u32) {
        let left = self.left;
        assert_of!(
            self.has_room(data),
            [class, data, left],
            "a TLP of {class:?} with {data} data credits is sent, and {left:?} are left"
        );
        let of_tlp = CreditCount::of_tlp(data);
        self.left = left.less(of_tlp);
        self.consumed = self.consumed.plus(of_tlp);
    }

    /// Credits used by TLPs in the buffer or on the wire.
    #[inline]
    pub fn outstanding(&self) -> CreditCount {
        self.consumed.less(self.freed)
    }

    /// Credits granted, including the advertisement.
    #[inline]
    pub fn granted(&self) -> CreditCount {
        self.capacity.plus(self.freed)
    }

    /// Takes the credits of a TLP out of the buffer, or off the wire on the way to it.
    #[inline]
    fn free(&mut self, class: Class, data: u32) {
        self.freed = self.freed.plus(CreditCount::of_tlp(data));
        let (freed, consumed) = (self.freed, self.consumed);
        assert_of!(
            freed.header <= consumed.header && freed.data <= consumed.data,
            [class, data, freed, consumed],
            "with a TLP of {class:?} with {data} data credits {freed:?} are free, and {consumed:?} \
             were used"
        );
    }

    /// Takes the limit of an UpdateFC.
    #[inline]
    pub fn update_limit(&mut self, class: Class, header: u64, data: u64) {
        let before = self.limit();
        self.left.header += header.saturating_sub(before.header);
        self.left.data += data.saturating_sub(before.data);
        let (limit, granted) = (self.limit(), self.granted());
        assert_of!(
            limit.header <= granted.header && limit.data <= granted.data,
            [class, limit, granted],
            "the transmitter may use {limit:?} of {class:?}, and {granted:?} was granted"
        );
    }
}

/// The receiving end of a direction.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub ack: Habit,
    update_fc: Habit,
    /// The buffer of each class.
    pub pools: [Pool; 3],
    /// Max_Payload_Size of the port, bytes, and data credits of one largest TLP.
    pub max_payload_bytes: u32,
    pub largest_data: u64,
    releases: Ring<Release>,
    /// Classes with free credits not yet returned, one bit each.
    waiting: u8,
    /// Time before which no DLLP becomes due here.
    pub next_due_ps: u64,
    /// Latest time for returning freed credits.
    update_due_ps: u64,
    /// TLPs accepted in order.
    pub accepted: u64,
    pub accepted_bytes: u64,
    /// TLPs not yet acknowledged, and the time by which they must be; `u64::MAX` for none.
    pub unacknowledged: u32,
    ack_due_ps: u64,
    /// Whether a Nak has been sent and its TLP has not come yet.
    pub nak_scheduled: bool,
}

impl Receiver {
    pub fn new(capacity: [CreditCount; 3]) -> Self {
        // The limits follow the Max_Payload_Size; see `Direction::set_limits`.
        let at_once = Habit { tlps: 1, within_ps: 0 };
        Self {
            ack: at_once,
            update_fc: at_once,
            pools: capacity.map(Pool::new),
            waiting: 0,
            max_payload_bytes: 0,
            largest_data: 0,
            releases: Ring::new(),
            next_due_ps: u64::MAX,
            update_due_ps: u64::MAX,
            accepted: 0,
            accepted_bytes: 0,
            unacknowledged: 0,
            ack_due_ps: u64::MAX,
            nak_scheduled: false,
        }
    }

    /// Removes the credits of an expected TLP that was lost.
    pub fn forget(&mut self, class: Class, data: u32) {
        self.pools[class.index()].free(class, data);
    }

    /// Hands a TLP to a device, which frees its buffer later.
    #[inline]
    pub fn hold(&mut self, class: Class, data: u32) {
        let pool = &mut self.pools[class.index()];
        pool.held = pool.held.plus(CreditCount::of_tlp(data));
        let (held, outstanding) = (pool.held, pool.outstanding());
        assert_of!(
            held.header <= outstanding.header && held.data <= outstanding.data,
            [held, class, outstanding],
            "a device holds {held:?} of {class:?}, and {outstanding:?} is used"
        );
    }

    /// Ends a device's hold on a TLP.
    #[inline]
    pub fn let_go(&mut self, class: Class, data: u32) {
        let held = &mut self.pools[class.index()].held;
        let data = u64::from(data);
        assert_of!(
            held.header >= 1 && held.data >= data,
            [class, data, held],
            "a device lets go of a TLP of {class:?} with {data} data credits, and holds {held:?}"
        );
        held.header -= 1;
        held.data -= data;
    }

    /// Resets all Acks and credits, because the link went down or has come up and advertises the
    /// whole buffer again. `accepted` TLPs of `accepted_bytes` have been sent.
    pub fn begin_anew(&mut self, accepted: u64, accepted_bytes: u64) {
        (self.accepted, self.accepted_bytes) = (accepted, accepted_bytes);
        (self.unacknowledged, self.ack_due_ps) = (0, u64::MAX);
        self.nak_scheduled = false;
        self.waiting = 0;
        for pool in &mut self.pools {
            pool.returned = pool.freed;
        }
        self.update_due_ps = u64::MAX;
        self.next_due_ps = self.next_event_ps();
    }

    /// Notes that a TLP leaves the buffer at `time_ps`. Returns whether deferred work has piled up.
    #[inline(always)]
    pub fn release(&mut self, time_ps: u64, class: Class, data: u32) -> bool {
        self.next_due_ps = self.next_due_ps.min(time_ps);
        let release = Release { time_ps, class, data };
        self.releases.insert_by(release, |release| release.time_ps);
        let leaving = self.releases.len();
        if leaving <= LATE_LIMIT {
            return false;
        }
        let used: u64 = self.pools.iter().map(|pool| pool.outstanding().header).sum();
        assert_of!(
            leaving as u64 <= used,
            [leaving, used],
            "{leaving} TLPs leave a buffer that holds {used}"
        );
        true
    }

    /// Changes the limits of Acks and UpdateFCs; credits that wait may then wait longer.
    pub fn set_habits(&mut self, ack: Habit, update_fc: Habit) {
        if self.unacknowledged > 0 {
            self.ack_due_ps = self.ack_due_ps - self.ack.within_ps + ack.within_ps;
        }
        (self.ack, self.update_fc) = (ack, update_fc);
        if self.waiting != 0 {
            self.update_due_ps = self.update_due_ps.max(self.first_update_timer().1);
        }
        self.next_due_ps = self.next_due_ps.min(self.next_event_ps());
    }

    /// Queues the DLLPs due by `now`.
    #[inline(always)]
    pub fn absorb(&mut self, now_ps: u64, outbound: &mut Outbound) {
        if self.next_due_ps <= now_ps {
            self.absorb_due(now_ps, outbound);
        }
    }

    #[inline(never)]
    fn absorb_due(&mut self, now_ps: u64, outbound: &mut Outbound) {
        self.queue_dllps(now_ps, outbound);
    }

    /// Queues the DLLPs due by `now`, and notes when the next is.
    #[inline(always)]
    fn queue_dllps(&mut self, now_ps: u64, outbound: &mut Outbound) {
        while let Some(&Release { time_ps, class, data }) = self.releases.front()
            && time_ps <= now_ps
        {
            let release = Release { time_ps, class, data };
            self.releases.drop_front();
            if self.update_due_ps <= release.time_ps {
                self.return_overdue(release.time_ps, outbound);
            }
            self.note_release(release, outbound);
        }
        if self.update_due_ps <= now_ps {
            self.return_overdue(now_ps, outbound);
        }
        if self.ack_due_ps <= now_ps {
            outbound.put(self.acknowledge(DllpKind::Ack, self.ack_due_ps));
        }
        self.next_due_ps = self.next_event_ps();
    }

    /// Returns the credits that have waited to their limit by `now`, longest wait first.
    #[cold]
    fn return_overdue(&mut self, now_ps: u64, outbound: &mut Outbound) {
        while self.update_due_ps <= now_ps {
            let (class, due_ps) = self.first_update_timer();
            assert!(due_ps <= now_ps, "credits due at {due_ps} ps are returned at {now_ps} ps");
            outbound.put(self.update(class, due_ps));
        }
    }

    /// The class whose freed credits have waited longest, and the time by which they must be
    /// returned.
    fn first_update_timer(&self) -> (Class, u64) {
        let mut first = (Class::Posted, u64::MAX);
        for class in Class::ALL {
            if self.waiting & (1 << class.index()) != 0 {
                let since_ps = self.pools[class.index()].freed_since_ps;
                let due = since_ps + self.update_fc.within_ps;
                if due < first.1 {
                    first = (class, due);
                }
            }
        }
        first
    }

    /// Time of the next DLLP from here, as far as known; `u64::MAX` for never.
    pub fn next_event_ps(&self) -> u64 {
        let release = self.releases.front().map_or(u64::MAX, |first| first.time_ps);
        release.min(self.update_due_ps).min(self.ack_due_ps)
    }

    #[inline]
    pub fn acknowledge(&mut self, kind: DllpKind, time_ps: u64) -> Dllp {
        (self.unacknowledged, self.ack_due_ps) = (0, u64::MAX);
        Dllp { time_ps, kind, count: self.accepted, amount: self.accepted_bytes }
    }

    /// Handles a TLP that has left the buffer. Its credits return at once if enough have
    /// accumulated, or if the transmitter has less than one largest TLP left (PCIe 6.x 2.6.1.2).
    #[inline(always)]
    fn note_release(&mut self, release: Release, outbound: &mut Outbound) {
        let Release { time_ps, class, data } = release;
        let (largest_data, most_tlps) = (self.largest_data, u64::from(self.update_fc.tlps));
        let pool = &mut self.pools[class.index()];
        // Credits that the transmitter cannot use: the buffer in use, and freed parts not yet
        // returned.
        let taken = pool.consumed.less(pool.returned);
        let starving = taken.header >= pool.capacity.header
            || (data > 0 && pool.capacity.data.saturating_sub(taken.data) < largest_data);
        pool.free(class, data);
        let unreturned_tlps = pool.freed.header - pool.returned.header;
        if pool.is_infinite {
            pool.returned = pool.freed;
        } else if unreturned_tlps >= most_tlps || starving {
            outbound.put(self.update(class, time_ps));
        } else if unreturned_tlps == 1 {
            pool.freed_since_ps = time_ps;
            self.waiting |= 1 << class.index();
            self.update_due_ps = self.update_due_ps.min(time_ps + self.update_fc.within_ps);
        }
    }

    #[inline]
    fn update(&mut self, class: Class, time_ps: u64) -> Dllp {
        let pool = &mut self.pools[class.index()];
        pool.returned = pool.freed;
        let CreditCount { header, data } = pool.granted();
        if self.waiting & (1 << class.index()) != 0 {
            self.waiting &= !(1 << class.index());
            self.update_due_ps =
                if self.waiting == 0 { u64::MAX } else { self.first_update_timer().1 };
        }
        Dllp { time_ps, kind: DllpKind::UpdateFc(class), count: header, amount: data }
    }
}

/// Outcome of a TLP at the receiver's data link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// In order and clean; passed to the transaction layer.
    Accepted,
    /// Corrupt, duplicate or behind a gap.
    Dropped,
}

/// Both directions of a link: `wire` carries the DLLPs that the receiver of `other` sends.
pub(crate) struct LinkPair<'a> {
    pub wire: &'a mut Direction,
    pub other: &'a mut Direction,
}

/// Borrows the two directions of the link of direction `index`, that direction first.
pub(crate) fn pair(directions: &mut [Direction], index: u32) -> LinkPair<'_> {
    let base = (index & !1) as usize;
    let (down, up) = directions[base..base + 2].split_at_mut(1);
    if index & 1 == 0 {
        LinkPair { wire: &mut down[0], other: &mut up[0] }
    } else {
        LinkPair { wire: &mut up[0], other: &mut down[0] }
    }
}

impl Direction {
    /// Counts a DLLP that is corrupt at the end of the wire. Credits are repeated after at most
    /// 30 us.
    #[cold]
    fn lose(&mut self, dllp: Dllp, end: WireTime) {
        self.counters.corrupt_dllps += 1;
        if let DllpKind::UpdateFc(_) = dllp.kind {
            let again = Dllp { time_ps: end.ceil_ps() + UPDATE_FC_LIMIT_PS, ..dllp };
            self.outbound.put(again);
        }
    }
}

impl LinkPair<'_> {
    /// The same pair for a shorter time.
    #[inline(always)]
    pub fn reborrow(&mut self) -> LinkPair<'_> {
        LinkPair { wire: self.wire, other: self.other }
    }

    /// Brings `wire` up to `now`: works out the DLLPs that the receiver of `other` had to send by
    /// then, and sends those that find the wire free. Returns whether one of them was corrupt.
    #[inline(never)]
    pub fn settle(
        mut self,
        now_ps: u64,
        random: &mut Random,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) -> bool {
        if self.other.receiver.next_due_ps <= now_ps {
            self.other.receiver.queue_dllps(now_ps, &mut self.wire.outbound);
        }
        let mut corrupt = false;
        while self.wire.outbound.first_ps <= now_ps && self.wire.wire.free.ceil_ps() <= now_ps {
            let ready = WireTime::at(self.wire.outbound.first_ps);
            let (start, end) = self.wire.occupy(ready, self.wire.dllp_ticks);
            let dllp = self.wire.outbound.take_merged(start.floor_ps());
            corrupt |= self.send(dllp, start, end, random, trace);
        }
        corrupt
    }

    /// Whether [`settle`](Self::settle) has something to do.
    #[inline]
    pub fn has_due(&self, now_ps: u64) -> bool {
        self.other.receiver.next_due_ps <= now_ps || self.wire.outbound.first_ps <= now_ps
    }

    /// Sends a DLLP. Returns whether it arrives corrupt.
    #[inline]
    fn send(
        &mut self,
        dllp: Dllp,
        start: WireTime,
        end: WireTime,
        random: &mut Random,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) -> bool {
        let wire = &mut *self.wire;
        match dllp.kind {
            DllpKind::Ack => wire.counters.acks += 1,
            DllpKind::Nak => wire.counters.naks += 1,
            DllpKind::UpdateFc(_) => wire.counters.update_fcs += 1,
        }
        let corrupt = wire.is_corrupted(DLLP_BYTES, random);
        if let Some(sink) = trace {
            let event =
                TraceEvent::Dllp { kind: dllp.kind, end: Picoseconds(end.ceil_ps()), corrupt };
            sink.record(&TraceRecord {
                time: Picoseconds(start.floor_ps()),
                direction: wire.id,
                event,
            });
            sink.says(dllp.count, dllp.amount);
        }
        if corrupt {
            wire.lose(dllp, end);
            return true;
        }
        let time_ps = end.ceil_ps() + wire.flight_ps;
        self.other.inbound.push_back(Dllp { time_ps, ..dllp });
        false
    }

    /// Turns freed buffers and received TLPs into DLLPs, as far as they are due by `now`. Whether
    /// an UpdateFC is due at once depends on the TLPs that `other` had sent when the buffer became
    /// free, so call this before each new TLP of `other`.
    #[inline]
    pub fn absorb(&mut self, now_ps: u64) {
        self.other.receiver.absorb(now_ps, &mut self.wire.outbound);
    }

    /// Passes a TLP of `wire`, numbered `sequence`, to the receiver's data link layer. Its last
    /// byte arrives at `tail_ps`. Acks and Naks go to `other`.
    #[inline(always)]
    pub fn receive<const EAGER: bool>(
        &mut self,
        sequence: u64,
        wire_bytes: u32,
        corrupt: bool,
        tail_ps: u64,
    ) -> Reception {
        let receiver = &mut self.wire.receiver;
        if receiver.ack_due_ps <= tail_ps {
            let dllp = receiver.acknowledge(DllpKind::Ack, receiver.ack_due_ps);
            self.other.outbound.put(dllp);
        }
        if EAGER {
            if self.drops(sequence, corrupt, tail_ps) {
                return Reception::Dropped;
            }
        } else {
            // Without bit errors nothing is lost, so nothing comes twice.
            let accepted = self.wire.receiver.accepted;
            assert_of!(
                sequence == accepted,
                [sequence, accepted],
                "TLP {sequence} arrives, {accepted} are here"
            );
        }
        let receiver = &mut self.wire.receiver;
        receiver.accepted += 1;
        receiver.accepted_bytes += u64::from(wire_bytes);
        receiver.unacknowledged += 1;
        if receiver.unacknowledged >= receiver.ack.tlps {
            let dllp = receiver.acknowledge(DllpKind::Ack, tail_ps);
            self.other.outbound.put(dllp);
        } else if receiver.unacknowledged == 1 {
            receiver.ack_due_ps = tail_ps + receiver.ack.within_ps;
            receiver.next_due_ps = receiver.next_due_ps.min(receiver.ack_due_ps);
        }
        Reception::Accepted
    }

    /// Whether the data link layer drops a TLP: one that is corrupt, behind a gap, or a duplicate.
    #[cold]
    fn drops(&mut self, sequence: u64, corrupt: bool, tail_ps: u64) -> bool {
        let sent = self.wire.sent;
        assert!(sequence < sent, "TLP {sequence} arrives, and {sent} were sent");
        let receiver = &mut self.wire.receiver;
        if corrupt || sequence > receiver.accepted {
            self.wire.counters.corrupt_tlps += u64::from(corrupt);
            if !receiver.nak_scheduled {
                receiver.nak_scheduled = true;
                let dllp = receiver.acknowledge(DllpKind::Nak, tail_ps);
                self.other.outbound.put(dllp);
            }
            return true;
        }
        if sequence < receiver.accepted {
            // A duplicate, because its Ack was lost.
            let dllp = receiver.acknowledge(DllpKind::Ack, tail_ps);
            self.other.outbound.put(dllp);
            return true;
        }
        receiver.nak_scheduled = false;
        false
    }
}
