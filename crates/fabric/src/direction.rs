// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of a link: its transmitter, wire and receiver.
//!
//! DLLPs are computed lazily. A receiver notes when its buffer became free and what arrived; the
//! resulting Acks and UpdateFCs go on the wire of the other direction only when needed: by the next
//! TLP on that wire, or by a transmitter that needs the credits. The times equal those of an eager
//! model, since nothing else can use the wire in between. Links with bit errors are eager: each of
//! their DLLPs has an event.
//!
//! Read first: base specification 2.6 (flow control), 3.6 (Ack and Nak), 4.2.7 (SKP).

use std::collections::VecDeque;

use crosslane_pcie::credits::DATA_CREDIT_BYTES;
use crosslane_pcie::tlp::Class;
use crosslane_random::Random;

use crate::counters::{IdleReason, LinkCounters};
use crate::device::Intake;
use crate::egress::{Egress, Room};
use crate::events::{EventKind, Events};
use crate::injection::Disturbance;
use crate::packet::{PacketIndex, Packets};
use crate::receiver::{CreditCount, Dllp, Habit, Outbound, Pool, Receiver};
use crate::ring::Ring;
use crate::topology::{DirectionId, NodeKind};
use crate::trace::DllpKind;
use crate::wire::{Wire, WireTime};

/// Replays without progress until the link retrains: REPLAY_NUM counts 0 to 3 and rolls over (PCIe
/// 6.x 3.6.2.1).
pub(crate) const REPLAYS_BEFORE_RETRAINING: u32 = 4;

/// All classes, for a transmitter that waits for a resource common to them all.
pub(crate) const ALL_CLASSES: u8 = 0b111;

/// Time at which the wire of a link that is down becomes free: beyond all times, without overflow.
const NEVER_FREE_PS: u64 = u64::MAX / 2;

/// A TLP that waits for its Ack (links with bit errors only).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacked {
    pub sequence: u64,
    pub packet: PacketIndex,
}

/// One direction of a link. Fields that every TLP needs come first, in the order of their use, so
/// that they share few cache lines.
#[repr(C)]
pub(crate) struct Direction {
    /// Time of the scheduled Pick; `u64::MAX` for none.
    pub pick_ps: u64,
    /// End of the link's retraining.
    pub silent_until_ps: u64,
    /// Position in `replay` of the next TLP to send again; `None` when not replaying.
    pub replay_at: Option<usize>,
    pub transmitting_node: u32,
    pub transmitter: NodeKind,
    /// Classes that wait for credits or replay buffer, one bit each; `None` if not blocked.
    pub blocked: Option<u8>,
    /// Whether DLLPs get events, because the link has or had bit errors.
    pub eager: bool,
    /// Whether the link is down.
    pub is_down: bool,
    /// Whether the receiver passes a TLP on once its header has arrived.
    pub receiver_cuts_through: bool,
    idle_reason: IdleReason,
    /// Wire time of a DLLP in ticks, or 0 in a diagnosis.
    pub dllp_ticks: u64,
    /// DLLPs that wait for this direction's wire.
    pub outbound: Outbound,
    pub egress: Egress,
    pub wire: Wire,
    /// Time up to which the wire was taken, or idle time is recorded.
    idle_since: WireTime,
    /// TLPs sent for the first time since the start; their wire bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    acked_bytes: u64,
    pub replay_capacity: u64,
    pub flight_ps: u64,
    pub counters: LinkCounters,
    pub receiver: Receiver,
    /// Errors injected into this direction on purpose.
    pub disturbance: Option<Box<Disturbance>>,
    pub receiving_port: u32,
    pub receiving_node: u32,
    /// Position of the receiving port among those of its node.
    pub receiving_place: u32,
    /// Stretch of addresses at the receiver that the last request went to.
    pub route_found: u32,
    pub id: DirectionId,
    /// DLLPs on their way to this direction's transmitter, by arrival.
    pub inbound: Ring<Dllp>,
    acked: u64,
    idle_skp_ticks: u64,
    idle_ticks: [u64; IdleReason::COUNT],
    /// Time from the last byte in to the logic of the receiving node.
    pub receive_latency_ps: u64,
    /// Intake rate of the device behind the receiver, and the time of its last TLP.
    pub intake: Intake,
    pub last_arrival_ps: u64,
    /// Time of the scheduled Wake; `u64::MAX` for none.
    pub wake_ps: u64,
    /// ln(1 - bit error rate): log probability that a bit arrives clean.
    pub log_clean_bit: f64,
    pub replay: VecDeque<Unacked>,
    pub replay_number: u32,
    pub replay_limit_ps: u64,
    pub replay_deadline_ps: u64,
    pub replay_event_ps: u64,
    pub retrain_ps: u64,
    /// Time at which the link comes up by itself; `u64::MAX` for never.
    pub up_ps: u64,
    /// Time at which the wire would have been free, had the link stayed up.
    free_when_up: WireTime,
}

/// Inputs for building a direction.
pub(crate) struct DirectionSetup {
    pub id: DirectionId,
    pub transmitting: (u32, NodeKind),
    /// Port, node, and position of the port among those of the node.
    pub receiving: (u32, u32, u32),
    pub receiver_cuts_through: bool,
    pub receive_latency_ps: u64,
    pub intake: Intake,
    pub flight_ps: u64,
    pub wire: Wire,
    pub bit_error_rate: f64,
    pub capacity: [CreditCount; 3],
    pub replay_capacity: u64,
    pub retrain_ps: u64,
    pub sources: usize,
    pub first_source_is_mixed: bool,
}

impl Direction {
    pub fn new(setup: DirectionSetup) -> Self {
        Self {
            id: setup.id,
            transmitting_node: setup.transmitting.0,
            transmitter: setup.transmitting.1,
            receiving_port: setup.receiving.0,
            receiving_node: setup.receiving.1,
            receiving_place: setup.receiving.2,
            route_found: 0,
            receiver_cuts_through: setup.receiver_cuts_through,
            receive_latency_ps: setup.receive_latency_ps,
            intake: setup.intake,
            last_arrival_ps: 0,
            flight_ps: setup.flight_ps,
            dllp_ticks: u64::from(setup.wire.dllp_bytes) * setup.wire.byte_ticks,
            wire: setup.wire,
            pick_ps: u64::MAX,
            wake_ps: u64::MAX,
            blocked: None,
            eager: setup.bit_error_rate > 0.0,
            log_clean_bit: (-setup.bit_error_rate).ln_1p(),
            egress: Egress::new(setup.sources, setup.first_source_is_mixed),
            sent: 0,
            sent_bytes: 0,
            acked: 0,
            acked_bytes: 0,
            replay_capacity: setup.replay_capacity,
            replay: VecDeque::new(),
            replay_at: None,
            replay_number: 0,
            replay_limit_ps: 0,
            replay_deadline_ps: u64::MAX,
            replay_event_ps: u64::MAX,
            retrain_ps: setup.retrain_ps,
            silent_until_ps: 0,
            is_down: false,
            up_ps: u64::MAX,
            free_when_up: WireTime::default(),
            inbound: Ring::new(),
            outbound: Outbound::new(),
            receiver: Receiver::new(setup.capacity),
            disturbance: None,
            counters: LinkCounters::default(),
            idle_reason: IdleReason::NothingToSend,
            idle_since: WireTime::default(),
            idle_skp_ticks: 0,
            idle_ticks: [0; IdleReason::COUNT],
        }
    }

    /// The queues, and the resources for sending from them; `stale` if DLLPs may have arrived that
    /// were not taken in.
    #[inline]
    pub fn egress_and_room(&mut self, stale: bool) -> (&mut Egress, Room<'_>) {
        let unacked_bytes = self.sent_bytes - self.acked_bytes;
        let replay_bytes = self.replay_capacity.saturating_sub(unacked_bytes);
        (&mut self.egress, Room { pools: &self.receiver.pools, replay_bytes, stale })
    }

    /// Queues a TLP that has its place in the order of `source`, and schedules a Pick. Returns
    /// whether the link is down instead.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        packets: &mut Packets,
        events: &mut Events,
        source: u32,
        index: PacketIndex,
    ) -> bool {
        let (ready_ps, class) = self.egress.push(packets, source, index);
        if self.blocked.is_none_or(|classes| classes & (1 << class.index()) == 0) {
            self.schedule_pick(events, ready_ps.max(self.wire.free.ceil_ps()));
            return false;
        }
        self.is_down
    }

    /// Schedules a Pick at `time_ps`, or now if that has passed, unless an earlier one is.
    #[inline(always)]
    pub fn schedule_pick(&mut self, events: &mut Events, time_ps: u64) {
        let time_ps = time_ps.max(events.now_ps());
        if time_ps < self.pick_ps {
            self.pick_ps = time_ps;
            events.schedule(time_ps, EventKind::Pick, self.id.index(), 0);
        }
    }

    /// Whether any class has fewer credits than one largest TLP needs.
    #[inline]
    pub fn is_short_of_credits(&self) -> bool {
        let [posted, nonposted, completions] = &self.receiver.pools;
        let is_short = |pool: &Pool, data: u64| pool.left.header == 0 || pool.left.data < data;
        let largest = self.receiver.largest_data;
        is_short(posted, largest) || is_short(nonposted, 0) || is_short(completions, largest)
    }

    /// Whether non-posted requests must wait for credits, as far as is known.
    pub fn lacks_nonposted_credits(&self) -> bool {
        self.receiver.pools[Class::NonPosted.index()].left.header == 0
    }

    /// Uses the credits of a TLP that is sent for the first time.
    #[inline(always)]
    pub fn consume(&mut self, class: Class, data: u32, wire_bytes: u32) {
        self.receiver.pools[class.index()].consume(class, data);
        self.sent += 1;
        self.sent_bytes += u64::from(wire_bytes);
    }

    /// Keeps a copy of the TLP sent last until it is acknowledged.
    pub fn keep(&mut self, unacked: Unacked) {
        let sequence = unacked.sequence;
        self.replay.push_back(unacked);
        let (sent, acked, kept) = (self.sent, self.acked, self.replay.len() as u64);
        assert_of!(
            sequence + 1 == sent,
            [sequence, sent],
            "TLP {sequence} is kept, and {sent} were sent"
        );
        assert_of!(
            kept == sent - acked,
            [kept, sent, acked],
            "{kept} TLPs are kept: {sent} sent, {acked} acknowledged"
        );
    }

    /// Whether a full receive buffer, and not the return of its credits, blocks a TLP of this
    /// class.
    pub fn receiver_is_full(&self, class: Class) -> bool {
        let pool = &self.receiver.pools[class.index()];
        pool.freed == pool.returned && pool.granted() == pool.limit()
    }

    /// Records idle time up to `now` and continues with another reason.
    pub fn idle(&mut self, now_ps: u64, reason: IdleReason) -> bool {
        self.note_idle_up_to(now_ps);
        std::mem::replace(&mut self.idle_reason, reason) != reason
    }

    /// Reason why the wire is idle while it is.
    pub fn reason(&self) -> IdleReason {
        self.idle_reason
    }

    /// Records idle time up to now, less the SKP ordered sets due in it.
    fn note_idle_up_to(&mut self, now_ps: u64) {
        let now = WireTime::at(now_ps);
        if now > self.wire.free {
            self.wire.begin(now);
        }
        self.note_idle(now);
    }

    /// Records idle time. An ordered set that extends beyond its end is deducted from the next.
    #[inline]
    fn note_idle(&mut self, until: WireTime) {
        let gap = until.ticks_since(self.idle_since);
        if gap > 0 {
            let skp = self.wire.skp_ticks - self.idle_skp_ticks;
            self.idle_ticks[self.idle_reason as usize] += gap.saturating_sub(skp);
            self.idle_skp_ticks += skp.min(gap);
            self.idle_since = until;
        }
    }

    /// Takes the wire for `ticks` for what is ready at `ready`; returns start and end.
    #[inline(always)]
    pub fn occupy(&mut self, ready: WireTime, ticks: u64) -> (WireTime, WireTime) {
        assert_of!(!self.is_down, [ticks], "{:?} is down, and sends for {ticks} ticks", self.id);
        let start = self.wire.begin(ready);
        let end = start.plus_ticks(ticks);
        self.wire.free = end;
        if start == self.idle_since {
            self.idle_since = end;
        } else {
            self.note_use(start, end);
        }
        (start, end)
    }

    /// Records that the wire is in use from `start` to `end`, and idle up to then.
    #[inline(never)]
    fn note_use(&mut self, start: WireTime, end: WireTime) {
        self.note_idle(start);
        if start < self.idle_since {
            // A DLLP computed late takes time that was recorded as idle.
            let taken = self.idle_since.min(end).ticks_since(start);
            let idle = &mut self.idle_ticks[self.idle_reason as usize];
            *idle = idle.saturating_sub(taken);
        }
        self.idle_since = self.idle_since.max(end);
    }

    /// Keeps the wire silent until `until_ps`.
    pub fn silence(&mut self, now_ps: u64, until_ps: u64, reason: IdleReason) {
        self.idle(now_ps, reason);
        self.silent_until_ps = until_ps;
        self.wire.free = self.wire.free.max(WireTime::at(until_ps));
    }

    /// Takes the link down: the wire takes nothing, and both ends forget each other's state.
    pub fn go_down(&mut self) {
        self.is_down = true;
        self.blocked = Some(ALL_CLASSES);
        (self.pick_ps, self.wake_ps) = (u64::MAX, u64::MAX);
        self.free_when_up = self.wire.free;
        self.wire.free = WireTime::at(NEVER_FREE_PS);
        (self.acked, self.acked_bytes) = (self.sent, self.sent_bytes);
        (self.replay_at, self.replay_number) = (None, 0);
        self.replay_deadline_ps = u64::MAX;
        self.inbound.clear();
        self.outbound.clear();
        self.receiver.begin_anew(self.sent, self.sent_bytes);
    }

    /// Brings the link up with the credits of the buffer that is free now. Everything freed by now
    /// must have been absorbed.
    pub fn come_up(&mut self, now_ps: u64, reason: IdleReason) {
        self.idle(now_ps, reason);
        self.is_down = false;
        self.up_ps = u64::MAX;
        self.blocked = None;
        self.silent_until_ps = 0;
        self.wire.free = self.free_when_up.max(WireTime::at(now_ps));
        self.outbound.clear();
        self.receiver.begin_anew(self.sent, self.sent_bytes);
        for pool in &mut self.receiver.pools {
            let (capacity, used) = (pool.capacity, pool.outstanding());
            assert_of!(
                used.header <= capacity.header && used.data <= capacity.data,
                [capacity, used],
                "a buffer of {capacity:?} has {used:?} in use as its link comes up"
            );
            pool.left = pool.granted().less(pool.consumed);
        }
    }

    /// Counters up to `now`.
    pub fn read_counters(&mut self, now_ps: u64) -> LinkCounters {
        self.note_idle_up_to(now_ps);
        let mut counters = self.counters;
        counters.tlps = self.sent;
        counters.header_bytes = self.sent_bytes - counters.payload_bytes;
        let dllps = counters.acks + counters.naks + counters.update_fcs;
        counters.dllp_bytes = dllps * u64::from(self.wire.dllp_bytes);
        let idle = WireTime::default().plus_ticks(self.idle_ticks.iter().sum()).floor_ps();
        assert_of!(
            idle <= now_ps,
            [idle, now_ps],
            "the wire was idle for {idle} ps by {now_ps} ps"
        );
        counters.skp_bytes = self.wire.skp_bytes;
        let per_ps = crosslane_pcie::link::TICKS_PER_PS;
        for (idle, ticks) in counters.idle_ps.iter_mut().zip(self.idle_ticks) {
            *idle = ticks / per_ps;
        }
        counters
    }

    /// Changes the bit error rate. DLLPs with events keep them, since the replay buffer depends on
    /// them.
    pub fn set_bit_error_rate(&mut self, rate: f64) {
        self.log_clean_bit = (-rate).ln_1p();
        if rate > 0.0 && !self.eager {
            self.eager = true;
            // All sent TLPs have arrived; no copies were kept.
            (self.acked, self.acked_bytes) = (self.sent, self.sent_bytes);
        }
    }

    /// Draws whether a TLP or DLLP of `bytes` bytes arrives corrupt.
    #[inline]
    pub fn is_corrupted(&self, bytes: u32, random: &mut Random) -> bool {
        self.eager && random.f64() >= (self.log_clean_bit * f64::from(bytes) * 8.0).exp()
    }

    /// Whether all credits are back and nothing waits, as in a quiet fabric. While a link is down
    /// its transmitter knows no credits, and a device whose answers cannot leave keeps what it
    /// received: there, each used credit must belong to a TLP that the device holds.
    pub fn is_quiet(&self) -> bool {
        let credits = self.receiver.pools.iter().all(|pool| {
            if self.is_down {
                return pool.outstanding() == pool.held;
            }
            let back = pool.left == pool.capacity || pool.is_infinite;
            back && pool.consumed == pool.freed
        });
        credits && self.egress.is_empty() && self.replay.is_empty() && self.acked == self.sent
    }
}

/// Contents of the DLLPs that have arrived at a transmitter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Whether any arrived.
    pub any: bool,
    /// Whether a Nak arrived.
    pub nak: bool,
}

impl Direction {
    /// Sets the limits that follow from the receiving port's configuration.
    pub fn set_limits(&mut self, ack: Habit, update_fc: Habit, max_payload_bytes: u32) {
        self.receiver.max_payload_bytes = max_payload_bytes;
        self.receiver.largest_data = u64::from(max_payload_bytes / DATA_CREDIT_BYTES);
        self.receiver.set_habits(ack, update_fc);
    }

    /// Whether a DLLP, a replay or silence comes before the next TLP. Eager directions may always
    /// have a replay.
    #[inline]
    pub fn is_held_up(&self, now_ps: u64) -> bool {
        self.eager || self.silent_until_ps > now_ps || self.dllp_waits()
    }

    /// Whether another DLLP is due when the wire becomes free.
    #[inline]
    pub fn dllp_waits(&self) -> bool {
        // A wire is free before the end of time, when no DLLP waits.
        self.outbound.first_ps <= self.wire.free.ceil_ps()
    }

    /// Takes in the DLLPs that have reached the transmitter by `now`. TLPs whose copies are no
    /// longer needed go to `acknowledged`.
    pub fn take_inbound(&mut self, now_ps: u64, acknowledged: &mut Vec<PacketIndex>) -> News {
        let mut news = News::default();
        while let Some(&Dllp { time_ps, count, amount, kind }) = self.inbound.front()
            && time_ps <= now_ps
        {
            self.inbound.drop_front();
            news.any = true;
            match kind {
                DllpKind::UpdateFc(class) => {
                    self.receiver.pools[class.index()].update_limit(class, count, amount);
                }
                DllpKind::Ack | DllpKind::Nak => {
                    news.nak |= kind == DllpKind::Nak;
                    self.take_ack(count, amount, now_ps, acknowledged);
                }
            }
        }
        news
    }

    /// Takes an Ack or Nak of all `count` TLPs so far, which have `amount` wire bytes.
    #[inline]
    fn take_ack(
        &mut self,
        count: u64,
        amount: u64,
        now_ps: u64,
        acknowledged: &mut Vec<PacketIndex>,
    ) {
        if count <= self.acked {
            return;
        }
        let (received, sent) = (count, self.sent);
        assert_of!(
            received <= sent,
            [received, sent],
            "{received} TLPs are acknowledged, and {sent} were sent"
        );
        let (received, sent) = (amount, self.sent_bytes);
        assert_of!(
            received <= sent,
            [received, sent],
            "{received} B are acknowledged, and {sent} B were sent"
        );
        (self.acked, self.acked_bytes) = (count, amount);
        if self.eager {
            self.drop_copies(now_ps, acknowledged);
        }
    }

    /// Gives up the copies of TLPs that are acknowledged, and starts the replay timer anew.
    #[cold]
    fn drop_copies(&mut self, now_ps: u64, acknowledged: &mut Vec<PacketIndex>) {
        self.replay_number = 0;
        while let Some(first) = self.replay.front()
            && first.sequence < self.acked
        {
            acknowledged.push(first.packet);
            self.replay.pop_front();
            self.replay_at = self.replay_at.map(|at| at.saturating_sub(1));
        }
        if let Some(first) = self.replay.front() {
            let (sequence, acked) = (first.sequence, self.acked);
            assert_of!(
                sequence == acked,
                [sequence, acked],
                "TLP {sequence} is kept first, {acked} are acknowledged"
            );
        }
        if self.replay_at.is_some_and(|at| at >= self.replay.len()) {
            self.replay_at = None;
        }
        self.replay_deadline_ps = if self.replay.is_empty() {
            u64::MAX
        } else {
            now_ps.saturating_add(self.replay_limit_ps)
        };
    }

    /// Lower bound on the time at which another DLLP reaches this direction's transmitter.
    /// `reverse` is the other direction of the link.
    pub fn next_news_ps(&self, reverse: &Self) -> Option<u64> {
        if let Some(first) = self.inbound.front() {
            return Some(first.time_ps);
        }
        let due = reverse.outbound.first_ps.min(self.receiver.next_event_ps());
        if due == u64::MAX {
            return None;
        }
        let start = reverse.wire.free.max(WireTime::at(due));
        let end = start.plus_ticks(reverse.dllp_ticks);
        Some(end.ceil_ps() + reverse.flight_ps)
    }
}

#[cfg(test)]
mod tests {
    use crosslane_pcie::link::{Generation, LinkRate, Width};

    use super::*;
    use crate::topology::{LinkDirection, LinkId};

    fn direction() -> Direction {
        let (generation, width) = (Generation::from_number(3), Width::new(4));
        let rate = LinkRate { generation: generation.unwrap(), width: width.unwrap() };
        Direction::new(DirectionSetup {
            id: DirectionId { link: LinkId(0), heading: LinkDirection::Down },
            transmitting: (0, NodeKind::Switch),
            receiving: (1, 1, 0),
            receiver_cuts_through: false,
            receive_latency_ps: 0,
            intake: Intake::AT_ONCE,
            flight_ps: 0,
            wire: Wire::new(rate, false),
            bit_error_rate: 0.0,
            capacity: [CreditCount { header: 4, data: 64 }; 3],
            replay_capacity: 4096,
            retrain_ps: 0,
            sources: 1,
            first_source_is_mixed: false,
        })
    }

    /// Unaccounted credits are found even on a link that is down.
    #[test]
    fn a_dead_link_may_owe_only_what_a_device_holds() {
        let mut dead = direction();
        assert!(dead.is_quiet());
        dead.consume(Class::NonPosted, 0, 20);
        dead.consume(Class::Posted, 4, 84);
        dead.go_down();
        dead.receiver.hold(Class::NonPosted, 0);
        assert!(!dead.is_quiet(), "the write has leaked");
        dead.receiver.hold(Class::Posted, 3);
        assert!(!dead.is_quiet(), "a data credit has leaked");
        dead.receiver.let_go(Class::Posted, 3);
        dead.receiver.hold(Class::Posted, 4);
        assert!(dead.is_quiet());
        dead.receiver.let_go(Class::NonPosted, 0);
        assert!(!dead.is_quiet(), "the read was let go of, and its credit has leaked");
    }
}
