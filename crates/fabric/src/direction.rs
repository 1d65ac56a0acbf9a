// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of a link: its transmitter, its wire, its receiver.
//!
//! DLLPs are worked out late. A receiver notes when its buffer got free and what arrived; the
//! Acks and UpdateFCs that follow from that are put on the wire of the other direction only when
//! somebody wants to know: the next TLP on that wire, or a transmitter that needs the credits.
//! The times are those that an eager model would give, since nothing else can use a wire in
//! between. Links with bit errors are eager: each of their DLLPs has an event.
//!
//! Read first: base specification 2.6 (flow control), 3.6 (Ack and Nak), 4.2.7 (SKP).

use std::collections::VecDeque;

use crosslane_pcie::credits::{DATA_CREDIT_BYTES, UPDATE_FC_LIMIT_PS};
use crosslane_pcie::link::DLLP_BYTES;
use crosslane_pcie::tlp::Class;

use crate::counters::{IdleReason, LinkCounters};
use crate::egress::{Egress, Room};
use crate::packet::PacketIndex;
use crate::topology::DirectionId;
use crate::trace::{DllpKind, TraceEvent, TraceRecord, TraceSink};
use crate::wire::{Wire, WireTime};
use crosslane_pcie::units::Picoseconds;

/// Credits and bytes without limit, far from overflow.
pub(crate) const UNLIMITED: u64 = u64::MAX / 4;

/// Times that a TLP may be sent again before the link retrains: REPLAY_NUM counts 0 to 3 and
/// rolls over (PCIe 6.x 3.6.2.1).
pub(crate) const REPLAYS_BEFORE_RETRAINING: u32 = 4;

/// Receive buffers freed or DLLPs waiting before they are worked out although nobody asked: a
/// bound on memory.
const LATE_LIMIT: usize = 64;

/// Header and data credits since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CreditCount {
    pub header: u64,
    pub data: u64,
}

/// A DLLP: waiting for the wire (time = due), or on its way (time = arrival).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dllp {
    pub time_ps: u64,
    pub kind: DllpKind,
    /// UpdateFC: credits granted since the start, so that a lost one heals.
    pub granted: CreditCount,
    /// Ack and Nak: TLPs that arrived in order since the start, and their wire bytes.
    pub received: u64,
    pub received_bytes: u64,
}

/// A piece of a receive buffer that becomes free.
#[derive(Clone, Copy, Debug)]
struct Release {
    time_ps: u64,
    class: Class,
    data: u32,
}

/// Credits that are free and not yet returned (or TLPs that are not yet acknowledged).
#[derive(Clone, Copy, Debug, Default)]
struct Unreturned {
    tlps: u32,
    data: u64,
    since_ps: u64,
}

/// A rule for summing up TLPs in one DLLP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    pub tlps: u32,
    pub within_ps: u64,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub ack: Habit,
    pub update_fc: Habit,
    /// Advertised at the start; `UNLIMITED` for an infinite pool.
    pub capacity: [CreditCount; 3],
    /// Data credits of one largest TLP.
    pub largest_data: u64,
    /// Credits used by TLPs in the buffer or on the wire.
    outstanding: [CreditCount; 3],
    /// Credits granted since the start, the advertisement included.
    granted: [CreditCount; 3],
    releases: VecDeque<Release>,
    unreturned: [Unreturned; 3],
    /// Nothing here turns into a DLLP before this time.
    next_due_ps: u64,
    /// TLPs accepted in order.
    pub accepted: u64,
    accepted_bytes: u64,
    unacknowledged: Unreturned,
    /// A Nak has been sent and the TLP that it asks for has not come yet.
    nak_scheduled: bool,
}

/// A TLP that waits for its Ack (links with bit errors only).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacked {
    pub sequence: u64,
    pub packet: PacketIndex,
}

/// One direction of a link.
pub(crate) struct Direction {
    pub id: DirectionId,
    pub transmitting_node: u32,
    pub receiving_port: u32,
    pub receiving_node: u32,
    /// Whether the receiver passes a TLP on when its header is there.
    pub receiver_cuts_through: bool,
    /// From the last byte in to the logic of the receiving node.
    pub receive_latency_ps: u64,
    pub flight_ps: u64,
    pub wire: Wire,
    /// Time of the Pick that is scheduled; `u64::MAX` for none.
    pub pick_ps: u64,
    /// Time of the Wake that is scheduled; `u64::MAX` for none.
    pub wake_ps: u64,
    /// The transmitter lacks credits or replay buffer: one bit for each class that waits.
    pub blocked: Option<u8>,
    /// DLLPs get events: the link has bit errors.
    pub eager: bool,
    /// ln(1 - bit error rate): what a bit adds to the logarithm of arriving clean.
    pub log_clean_bit: f64,
    used: [CreditCount; 3],
    limit: [CreditCount; 3],
    pub egress: Egress,
    /// TLPs sent for the first time since the start, and their wire bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    acked: u64,
    acked_bytes: u64,
    pub replay_capacity: u64,
    pub replay: VecDeque<Unacked>,
    /// Position in `replay` of the next TLP to send again; `None` when not replaying.
    pub replay_at: Option<usize>,
    pub replay_number: u32,
    pub replay_limit_ps: u64,
    pub replay_deadline_ps: u64,
    pub replay_event_ps: u64,
    pub retrain_ps: u64,
    /// The link retrains until then.
    pub silent_until_ps: u64,
    /// DLLPs on their way to this direction's transmitter, by arrival.
    inbound: VecDeque<Dllp>,
    /// DLLPs that wait for this direction's wire, by due time.
    outbound: VecDeque<Dllp>,
    pub receiver: Receiver,
    pub counters: LinkCounters,
    idle_reason: IdleReason,
    idle_since: WireTime,
    idle_skp_ticks: u64,
    idle_ticks: [u64; IdleReason::COUNT],
}

/// Everything that a direction is made from.
pub(crate) struct DirectionSetup {
    pub id: DirectionId,
    pub transmitting_node: u32,
    pub receiving: (u32, u32),
    pub receiver_cuts_through: bool,
    pub receive_latency_ps: u64,
    pub flight_ps: u64,
    pub wire: Wire,
    pub bit_error_rate: f64,
    pub capacity: [CreditCount; 3],
    pub replay_capacity: u64,
    pub retrain_ps: u64,
    pub sources: usize,
}

impl Direction {
    pub fn new(setup: DirectionSetup) -> Self {
        // The habits and limits follow the Max_Payload_Size; see `set_limits`.
        let never = Habit { tlps: 1, within_ps: 0 };
        Self {
            id: setup.id,
            transmitting_node: setup.transmitting_node,
            receiving_port: setup.receiving.0,
            receiving_node: setup.receiving.1,
            receiver_cuts_through: setup.receiver_cuts_through,
            receive_latency_ps: setup.receive_latency_ps,
            flight_ps: setup.flight_ps,
            wire: setup.wire,
            pick_ps: u64::MAX,
            wake_ps: u64::MAX,
            blocked: None,
            eager: setup.bit_error_rate > 0.0,
            log_clean_bit: (-setup.bit_error_rate).ln_1p(),
            used: [CreditCount::default(); 3],
            limit: setup.capacity,
            egress: Egress::new(setup.sources),
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
            inbound: VecDeque::new(),
            outbound: VecDeque::new(),
            receiver: Receiver {
                ack: never,
                update_fc: never,
                capacity: setup.capacity,
                largest_data: 0,
                outstanding: [CreditCount::default(); 3],
                granted: setup.capacity,
                releases: VecDeque::new(),
                unreturned: [Unreturned::default(); 3],
                next_due_ps: u64::MAX,
                accepted: 0,
                accepted_bytes: 0,
                unacknowledged: Unreturned::default(),
                nak_scheduled: false,
            },
            counters: LinkCounters::default(),
            idle_reason: IdleReason::NothingToSend,
            idle_since: WireTime::default(),
            idle_skp_ticks: 0,
            idle_ticks: [0; IdleReason::COUNT],
        }
    }

    /// What the transmitter may send; `stale` where DLLPs may have arrived that were not taken in.
    #[inline]
    pub fn room(&self, stale: bool) -> Room {
        let mut room = Room { header: [0; 3], data: [0; 3], replay_bytes: 0, stale };
        for class in 0..3 {
            room.header[class] = self.limit[class].header - self.used[class].header;
            room.data[class] = self.limit[class].data - self.used[class].data;
        }
        room.replay_bytes = self.replay_capacity.saturating_sub(self.sent_bytes - self.acked_bytes);
        room
    }

    /// Notes the use of credits by a TLP that is sent for the first time.
    #[inline]
    pub fn consume(&mut self, class: Class, data: u32, wire_bytes: u32) {
        let used = &mut self.used[class.index()];
        used.header += 1;
        used.data += u64::from(data);
        let outstanding = &mut self.receiver.outstanding[class.index()];
        outstanding.header += 1;
        outstanding.data += u64::from(data);
        self.sent += 1;
        self.sent_bytes += u64::from(wire_bytes);
    }

    /// Whether the receiver's buffer itself, not the way of the credits, keeps a TLP of this
    /// class from being sent.
    pub fn receiver_is_full(&self, class: Class) -> bool {
        let r = &self.receiver;
        let free = r.unreturned[class.index()].tlps > 0
            || r.granted[class.index()] != self.limit[class.index()];
        !free
    }

    /// Notes idle time up to `now` and goes on with another reason.
    pub fn idle(&mut self, now_ps: u64, reason: IdleReason) -> bool {
        self.note_idle_up_to(now_ps);
        std::mem::replace(&mut self.idle_reason, reason) != reason
    }

    /// Why the wire is idle, when it is.
    pub fn reason(&self) -> IdleReason {
        self.idle_reason
    }

    /// Notes idle time up to now, less the SKP ordered sets that were due in it.
    fn note_idle_up_to(&mut self, now_ps: u64) {
        let now = WireTime::at(now_ps);
        if now > self.wire.free {
            self.wire.begin(now);
        }
        self.note_idle(now);
    }

    /// Notes idle time. What an ordered set takes beyond its end is taken off the next.
    fn note_idle(&mut self, until: WireTime) {
        let gap = until.ticks_since(self.idle_since);
        if gap > 0 {
            let skp = self.wire.skp_ticks - self.idle_skp_ticks;
            self.idle_ticks[self.idle_reason as usize] += gap.saturating_sub(skp);
            self.idle_skp_ticks += skp.min(gap);
            self.idle_since = until;
        }
    }

    /// Takes the wire for `bytes` that are ready at `ready`, and gives start and end.
    #[inline]
    pub fn occupy(&mut self, ready: WireTime, bytes: u32) -> (WireTime, WireTime) {
        let start = self.wire.begin(ready);
        self.note_idle(start);
        let end = start.plus_ticks(u64::from(bytes) * self.wire.byte_ticks);
        self.wire.free = end;
        self.idle_since = end;
        (start, end)
    }

    /// Keeps the wire silent until `until_ps`.
    pub fn silence(&mut self, now_ps: u64, until_ps: u64, reason: IdleReason) {
        self.idle(now_ps, reason);
        self.silent_until_ps = until_ps;
        self.wire.free = self.wire.free.max(WireTime::at(until_ps));
    }

    /// Counters up to `now`.
    pub fn read_counters(&mut self, now_ps: u64) -> LinkCounters {
        self.note_idle_up_to(now_ps);
        let mut counters = self.counters;
        counters.skp_bytes = self.wire.skp_bytes;
        let per_ps = crosslane_pcie::link::TICKS_PER_PS;
        for (idle, ticks) in counters.idle_ps.iter_mut().zip(self.idle_ticks) {
            *idle = ticks / per_ps;
        }
        counters
    }

    /// Whether a TLP or DLLP of so many bytes arrives corrupt.
    #[inline]
    pub fn is_corrupted(&self, bytes: u32, random: &mut fastrand::Rng) -> bool {
        self.eager && random.f64() >= (self.log_clean_bit * f64::from(bytes) * 8.0).exp()
    }

    /// Notes that a TLP leaves the receive buffer at `time_ps`. Returns whether the late work has
    /// piled up.
    #[inline]
    pub fn release(&mut self, time_ps: u64, class: Class, data: u32) -> bool {
        self.receiver.next_due_ps = self.receiver.next_due_ps.min(time_ps);
        let releases = &mut self.receiver.releases;
        let mut at = releases.len();
        while at > 0 && releases[at - 1].time_ps > time_ps {
            at -= 1;
        }
        let release = Release { time_ps, class, data };
        if at == releases.len() {
            releases.push_back(release);
        } else {
            releases.insert(at, release);
        }
        releases.len() > LATE_LIMIT
    }

    /// All credits are back and nothing waits: what must hold when the fabric is quiet.
    pub fn is_quiet(&self) -> bool {
        let credits = (0..3).all(|class| {
            let (limit, used) = (self.limit[class], self.used[class]);
            let capacity = self.receiver.capacity[class];
            let back = limit.header - used.header == capacity.header
                && limit.data - used.data == capacity.data;
            self.receiver.outstanding[class] == CreditCount::default()
                && (back || capacity == CreditCount { header: UNLIMITED, data: UNLIMITED })
        });
        credits && self.egress.is_empty() && self.replay.is_empty() && self.acked == self.sent
    }
}

/// What the DLLPs that have arrived at a transmitter brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Anything at all.
    pub any: bool,
    /// A Nak.
    pub nak: bool,
}

/// What became of a TLP at the receiver's data link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// In order and clean: it goes on to the transaction layer.
    Accepted,
    /// Corrupt, doubled or behind a gap.
    Dropped,
}

/// Both directions of a link: `wire` carries the DLLPs that the receiver of `other` sends.
pub(crate) struct LinkPair<'a> {
    pub wire: &'a mut Direction,
    pub other: &'a mut Direction,
}

/// The two directions of the link of direction `index`: itself first.
pub(crate) fn pair(directions: &mut [Direction], index: u32) -> LinkPair<'_> {
    let base = (index & !1) as usize;
    let (down, up) = directions[base..base + 2].split_at_mut(1);
    if index & 1 == 0 {
        LinkPair { wire: &mut down[0], other: &mut up[0] }
    } else {
        LinkPair { wire: &mut up[0], other: &mut down[0] }
    }
}

impl LinkPair<'_> {
    /// Brings `wire` up to `now`: works out which DLLPs the receiver of `other` had to send by
    /// then, and sends those that find the wire free.
    pub fn settle(
        &mut self,
        now_ps: u64,
        random: &mut fastrand::Rng,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) {
        self.absorb(now_ps);
        while let Some(first) = self.wire.outbound.front()
            && first.time_ps <= now_ps
            && self.wire.wire.free.ceil_ps() <= now_ps
        {
            let ready = WireTime::at(first.time_ps);
            let (start, end) = self.wire.occupy(ready, DLLP_BYTES);
            let Some(dllp) = self.take_merged(start.ps) else { break };
            self.send(dllp, start, end, random, trace);
        }
    }

    /// Takes the first DLLP, with all that it can stand for: a later Ack, or a later UpdateFC of
    /// its class, that is due when it takes the wire.
    fn take_merged(&mut self, start_ps: u64) -> Option<Dllp> {
        let waiting = &mut self.wire.outbound;
        let mut dllp = waiting.pop_front()?;
        let mut at = 0;
        while at < waiting.len() && waiting[at].time_ps <= start_ps {
            if waiting[at].kind == dllp.kind && dllp.kind != DllpKind::Nak {
                // Not always the newer one: an UpdateFC that was lost waits long for its turn.
                let other = waiting.remove(at)?;
                dllp.granted.header = dllp.granted.header.max(other.granted.header);
                dllp.granted.data = dllp.granted.data.max(other.granted.data);
                dllp.received = dllp.received.max(other.received);
                dllp.received_bytes = dllp.received_bytes.max(other.received_bytes);
            } else {
                at += 1;
            }
        }
        Some(dllp)
    }

    fn send(
        &mut self,
        dllp: Dllp,
        start: WireTime,
        end: WireTime,
        random: &mut fastrand::Rng,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) {
        let wire = &mut *self.wire;
        wire.counters.dllp_bytes += u64::from(DLLP_BYTES);
        match dllp.kind {
            DllpKind::Ack => wire.counters.acks += 1,
            DllpKind::Nak => wire.counters.naks += 1,
            DllpKind::UpdateFc(_) => wire.counters.update_fcs += 1,
        }
        let corrupt = wire.is_corrupted(DLLP_BYTES, random);
        if let Some(sink) = trace {
            sink.record(&TraceRecord {
                time: Picoseconds(start.ps),
                direction: wire.id,
                event: TraceEvent::Dllp {
                    kind: dllp.kind,
                    end: Picoseconds(end.ceil_ps()),
                    corrupt,
                },
            });
        }
        if corrupt {
            wire.counters.corrupt_dllps += 1;
            if let DllpKind::UpdateFc(_) = dllp.kind {
                // Credits are repeated at the latest after 30 us.
                let again = Dllp { time_ps: end.ceil_ps() + UPDATE_FC_LIMIT_PS, ..dllp };
                wire.put(again);
            }
        } else {
            let time_ps = end.ceil_ps() + wire.flight_ps;
            self.other.inbound.push_back(Dllp { time_ps, ..dllp });
        }
    }

    /// Turns freed buffers and received TLPs into DLLPs, as far as they are due by `now`. Whether
    /// an UpdateFC is due at once depends on what `other` has sent until the buffer got free, so
    /// this comes before each new TLP of `other`.
    pub fn absorb(&mut self, now_ps: u64) {
        let receiver = &mut self.other.receiver;
        if receiver.next_due_ps > now_ps {
            return;
        }
        loop {
            let release_ps = receiver.releases.front().map_or(u64::MAX, |first| first.time_ps);
            let (class, timer_ps) = receiver.first_update_timer();
            if timer_ps <= now_ps && timer_ps <= release_ps {
                let dllp = receiver.update(class, timer_ps);
                self.wire.put(dllp);
            } else if release_ps <= now_ps {
                let Some(release) = receiver.releases.pop_front() else { break };
                if let Some(dllp) = receiver.note_release(release) {
                    self.wire.put(dllp);
                }
            } else {
                break;
            }
        }
        let due = receiver.ack_timer_ps();
        if due <= now_ps {
            let dllp = receiver.acknowledge(DllpKind::Ack, due);
            self.wire.put(dllp);
        }
        receiver.next_due_ps = receiver.next_event_ps();
    }

    /// Passes a TLP of `wire`, numbered `sequence`, to the receiver's data link layer. Its last
    /// byte arrives at `tail_ps`. Acks and Naks go to `other`.
    pub fn receive(
        &mut self,
        sequence: u64,
        wire_bytes: u32,
        corrupt: bool,
        tail_ps: u64,
    ) -> Reception {
        let receiver = &mut self.wire.receiver;
        let due = receiver.ack_timer_ps();
        if due <= tail_ps {
            let dllp = receiver.acknowledge(DllpKind::Ack, due);
            self.other.put(dllp);
        }
        let receiver = &mut self.wire.receiver;
        if corrupt || sequence > receiver.accepted {
            self.wire.counters.corrupt_tlps += u64::from(corrupt);
            if !receiver.nak_scheduled {
                receiver.nak_scheduled = true;
                let dllp = receiver.acknowledge(DllpKind::Nak, tail_ps);
                self.other.put(dllp);
            }
            return Reception::Dropped;
        }
        if sequence < receiver.accepted {
            // Already here: its Ack was lost.
            let dllp = receiver.acknowledge(DllpKind::Ack, tail_ps);
            self.other.put(dllp);
            return Reception::Dropped;
        }
        receiver.nak_scheduled = false;
        receiver.accepted += 1;
        receiver.accepted_bytes += u64::from(wire_bytes);
        let pending = &mut receiver.unacknowledged;
        if pending.tlps == 0 {
            pending.since_ps = tail_ps;
        }
        pending.tlps += 1;
        let timer_ps = pending.since_ps + receiver.ack.within_ps;
        receiver.next_due_ps = receiver.next_due_ps.min(timer_ps);
        if pending.tlps >= receiver.ack.tlps {
            let dllp = receiver.acknowledge(DllpKind::Ack, tail_ps);
            self.other.put(dllp);
        }
        Reception::Accepted
    }
}

impl Receiver {
    /// The class whose freed credits have waited longest, and when they must be returned.
    fn first_update_timer(&self) -> (Class, u64) {
        let mut first = (Class::Posted, u64::MAX);
        for class in Class::ALL {
            let unreturned = self.unreturned[class.index()];
            if unreturned.tlps > 0 {
                let due = unreturned.since_ps + self.update_fc.within_ps;
                if due < first.1 {
                    first = (class, due);
                }
            }
        }
        first
    }

    /// When something here turns into a DLLP, as far as is known; `u64::MAX` for never.
    fn next_event_ps(&self) -> u64 {
        let release = self.releases.front().map_or(u64::MAX, |first| first.time_ps);
        release.min(self.first_update_timer().1).min(self.ack_timer_ps())
    }

    fn ack_timer_ps(&self) -> u64 {
        if self.unacknowledged.tlps == 0 {
            u64::MAX
        } else {
            self.unacknowledged.since_ps + self.ack.within_ps
        }
    }

    fn acknowledge(&mut self, kind: DllpKind, time_ps: u64) -> Dllp {
        self.unacknowledged.tlps = 0;
        Dllp {
            time_ps,
            kind,
            granted: CreditCount::default(),
            received: self.accepted,
            received_bytes: self.accepted_bytes,
        }
    }

    /// A TLP has left the buffer; its credits go back at once if enough have come together, or
    /// if the transmitter has less than one largest TLP left (PCIe 6.x 2.6.1.2).
    fn note_release(&mut self, release: Release) -> Option<Dllp> {
        let class = release.class.index();
        let capacity = self.capacity[class];
        let outstanding = &mut self.outstanding[class];
        let unreturned = &mut self.unreturned[class];
        // What the transmitter cannot use: the buffer in use, and what it has not been told of.
        let header_taken = outstanding.header + u64::from(unreturned.tlps);
        let data_taken = outstanding.data + unreturned.data;
        let starving = header_taken >= capacity.header
            || (release.data > 0 && capacity.data.saturating_sub(data_taken) < self.largest_data);
        if unreturned.tlps == 0 {
            unreturned.since_ps = release.time_ps;
        }
        unreturned.tlps += 1;
        unreturned.data += u64::from(release.data);
        let full = unreturned.tlps >= self.update_fc.tlps;
        outstanding.header -= 1;
        outstanding.data -= u64::from(release.data);
        let granted = &mut self.granted[class];
        granted.header += 1;
        granted.data += u64::from(release.data);
        if capacity.header >= UNLIMITED && capacity.data >= UNLIMITED {
            // An infinite pool is never updated.
            *unreturned = Unreturned::default();
            return None;
        }
        (full || starving).then(|| self.update(release.class, release.time_ps))
    }

    fn update(&mut self, class: Class, time_ps: u64) -> Dllp {
        self.unreturned[class.index()] = Unreturned::default();
        Dllp {
            time_ps,
            kind: DllpKind::UpdateFc(class),
            granted: self.granted[class.index()],
            received: 0,
            received_bytes: 0,
        }
    }
}

impl Direction {
    /// Takes over the habits and limits that follow from the receiving port's configuration.
    pub fn set_limits(&mut self, ack: Habit, update_fc: Habit, max_payload_bytes: u32) {
        self.receiver.ack = ack;
        self.receiver.update_fc = update_fc;
        self.receiver.largest_data = u64::from(max_payload_bytes / DATA_CREDIT_BYTES);
    }

    /// Puts a DLLP in line for this direction's wire, by due time.
    fn put(&mut self, dllp: Dllp) {
        let mut at = self.outbound.len();
        while at > 0 && self.outbound[at - 1].time_ps > dllp.time_ps {
            at -= 1;
        }
        if at == self.outbound.len() {
            self.outbound.push_back(dllp);
        } else {
            self.outbound.insert(at, dllp);
        }
    }

    /// Whether another DLLP is due when the wire becomes free.
    #[inline]
    pub fn dllp_waits(&self) -> bool {
        self.outbound.front().is_some_and(|first| first.time_ps <= self.wire.free.ceil_ps())
    }

    /// Whether DLLPs have piled up that nobody asked for.
    #[inline]
    pub fn has_late_work(&self) -> bool {
        self.outbound.len() > LATE_LIMIT
    }

    /// Takes in the DLLPs that have reached the transmitter by `now`. The TLPs whose copies are
    /// no longer needed go to `acknowledged`.
    pub fn take_inbound(&mut self, now_ps: u64, acknowledged: &mut Vec<PacketIndex>) -> News {
        let mut news = News::default();
        while let Some(first) = self.inbound.front()
            && first.time_ps <= now_ps
        {
            let Some(dllp) = self.inbound.pop_front() else { break };
            news.any = true;
            match dllp.kind {
                DllpKind::UpdateFc(class) => {
                    let limit = &mut self.limit[class.index()];
                    limit.header = limit.header.max(dllp.granted.header);
                    limit.data = limit.data.max(dllp.granted.data);
                }
                DllpKind::Ack | DllpKind::Nak => {
                    news.nak |= dllp.kind == DllpKind::Nak;
                    self.take_ack(&dllp, now_ps, acknowledged);
                }
            }
        }
        news
    }

    fn take_ack(&mut self, dllp: &Dllp, now_ps: u64, acknowledged: &mut Vec<PacketIndex>) {
        if dllp.received <= self.acked {
            return;
        }
        self.acked = dllp.received;
        self.acked_bytes = dllp.received_bytes;
        self.replay_number = 0;
        while let Some(first) = self.replay.front()
            && first.sequence < dllp.received
        {
            acknowledged.push(first.packet);
            self.replay.pop_front();
            self.replay_at = self.replay_at.map(|at| at.saturating_sub(1));
        }
        if self.replay_at.is_some_and(|at| at >= self.replay.len()) {
            self.replay_at = None;
        }
        self.replay_deadline_ps =
            if self.replay.is_empty() { u64::MAX } else { now_ps + self.replay_limit_ps };
    }

    /// The earliest time at which another DLLP can reach this direction's transmitter, as far as
    /// is known; a lower bound. `reverse` is the other direction of the link.
    pub fn next_news_ps(&self, reverse: &Self) -> Option<u64> {
        if let Some(first) = self.inbound.front() {
            return Some(first.time_ps);
        }
        let outbound = reverse.outbound.front().map_or(u64::MAX, |first| first.time_ps);
        let due = outbound.min(self.receiver.next_event_ps());
        if due == u64::MAX {
            return None;
        }
        let start = reverse.wire.free.max(WireTime::at(due));
        let end = start.plus_ticks(u64::from(DLLP_BYTES) * reverse.wire.byte_ticks);
        Some(end.ceil_ps() + reverse.flight_ps)
    }
}
