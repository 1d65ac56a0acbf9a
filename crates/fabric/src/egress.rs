// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Egress queues of one direction of a link, and the choice of the next TLP: round robin between
//! sources, oldest first within a source, passing only where the ordering table allows it.
//!
//! A source is an ingress port of a switch, a root port that sends peer traffic, or the node
//! itself. Each source has a queue for each class.

use std::collections::VecDeque;

use crosslane_pcie::ordering::{Passing, may_pass};
use crosslane_pcie::tlp::Class;
use crosslane_random::Random;

use crate::packet::{PacketIndex, Packets};
use crate::receiver::CreditCount;

/// Depth to which the shuffle mode searches a queue for a TLP that may pass.
const SHUFFLE_DEPTH: usize = 16;

/// A packet in a queue with the fields that the choice needs, since queues are read in order but
/// the packets are scattered in memory.
#[derive(Clone, Copy, Debug)]
struct Queued {
    index: PacketIndex,
    /// Position in the order of arrival.
    order: u64,
    ready_ps: u64,
    data_credits: u32,
    wire_bytes: u32,
}

#[derive(Clone, Debug, Default)]
struct SourceQueue {
    /// One queue for each class, oldest first.
    queues: [VecDeque<Queued>; 3],
    /// One bit for each class that is not empty.
    classes: u8,
    /// Whether the last TLP of this source was posted.
    posted_last: bool,
}

impl SourceQueue {
    /// The oldest TLP of a class that is not empty.
    #[inline]
    fn first(&self, class: usize) -> &Queued {
        let Some(first) = self.queues[class].front() else { no_tlp(0, class) };
        first
    }
}

/// Resources for sending now: header and data credits left, by class.
pub(crate) struct Room<'a> {
    pub credits: &'a [CreditCount; 3],
    /// Wire bytes left in the replay buffer.
    pub replay_bytes: u64,
    /// Whether DLLPs may have arrived that were not taken in; if so, no TLP is passed over for lack
    /// of credits.
    pub stale: bool,
}

/// Reasons why nothing can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Classes with a TLP that lacks credits, one bit each.
    pub no_credit: u8,
    /// Whether a TLP finds the replay buffer full.
    pub replay_buffer: bool,
    /// Earliest time at which another TLP becomes ready (ps); `u64::MAX` for never.
    pub later_ps: u64,
}

impl Refusal {
    /// The refusal of empty queues.
    const NOTHING: Self = Self { no_credit: 0, replay_buffer: false, later_ps: u64::MAX };

    /// Whether DLLPs could unblock a TLP.
    pub fn lacks_something(&self) -> bool {
        self.no_credit != 0 || self.replay_buffer
    }
}

/// Result of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Send this packet, now removed from its queue.
    Send(PacketIndex),
    /// Send no TLP now.
    Refuse(Refusal),
}

/// The queues of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Egress {
    sources: Vec<SourceQueue>,
    /// Whether the first source combines several: a root complex's cores and its memory. Its posted
    /// requests then take turns with the rest, so that a store does not wait for all queued
    /// completions.
    first_is_mixed: bool,
    /// One bit for each source that is not empty.
    waiting: u64,
    /// Source after the one served last.
    turn: u32,
    order: u64,
    /// Wire bytes queued.
    pub bytes: u64,
    /// Wire bytes queued of non-posted requests.
    pub nonposted_bytes: u64,
    /// TLPs queued.
    pub length: u32,
}

impl Egress {
    pub fn new(sources: usize, first_is_mixed: bool) -> Self {
        assert_of!(
            sources <= u64::BITS as usize,
            [sources],
            "{sources} sources, and a bit for each of 64"
        );
        Self {
            sources: vec![SourceQueue::default(); sources],
            first_is_mixed,
            waiting: 0,
            turn: 0,
            order: 0,
            bytes: 0,
            nonposted_bytes: 0,
            length: 0,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Number of posted requests queued from the first source.
    pub fn posted_of_first(&self) -> usize {
        self.sources[0].queues[Class::Posted.index()].len()
    }

    #[inline]
    pub fn push(&mut self, packets: &Packets, source: u32, index: PacketIndex) {
        self.order += 1;
        self.length += 1;
        let packet = packets.get(index);
        self.bytes += u64::from(packet.wire_bytes);
        let class = packet.class().index();
        if packet.class() == Class::NonPosted {
            self.nonposted_bytes += u64::from(packet.wire_bytes);
        }
        let queue = &mut self.sources[source as usize];
        queue.queues[class].push_back(Queued {
            index,
            order: self.order,
            ready_ps: packet.ready_ps,
            data_credits: packet.data_credits,
            wire_bytes: packet.wire_bytes,
        });
        queue.classes |= 1 << class;
        self.waiting |= 1 << source;
    }

    /// Chooses and takes the next TLP.
    #[inline]
    pub fn choose(&mut self, packets: &Packets, now_ps: u64, room: &Room<'_>) -> Choice {
        let mut refusal = Refusal::NOTHING;
        let (mut pending, turn) = (self.waiting, self.turn);
        while pending != 0 {
            let ahead = pending & (u64::MAX << turn);
            let source = if ahead != 0 { ahead } else { pending }.trailing_zeros();
            pending &= !(1 << source);
            if let Some(class) = self.choose_from(packets, source, now_ps, room, &mut refusal) {
                if room.stale && refusal.lacks_something() {
                    break;
                }
                self.turn = (source + 1) % 64;
                return Choice::Send(self.take(source, class, 0));
            }
        }
        Choice::Refuse(refusal)
    }

    /// The class of a source whose first TLP may go now, passing older ones of other classes if it
    /// may.
    #[inline]
    fn choose_from(
        &self,
        packets: &Packets,
        source: u32,
        now_ps: u64,
        room: &Room<'_>,
        refusal: &mut Refusal,
    ) -> Option<usize> {
        let (number, source) = (source, &self.sources[source as usize]);
        if source.classes.is_power_of_two() {
            let class = source.classes.trailing_zeros() as usize;
            let first = source.first(class);
            return is_ready(first, class, now_ps, room, refusal).then_some(class);
        }
        if self.first_is_mixed && number == 0 && !source.posted_last {
            // Posted requests may pass both other classes.
            let posted = Class::Posted.index();
            if let Some(first) = source.queues[posted].front()
                && is_ready(first, posted, now_ps, room, refusal)
            {
                return Some(posted);
            }
        }
        let mut left = source.classes;
        let mut stuck = [None; 3];
        while left != 0 {
            // The oldest not yet considered.
            let classes = (0..3).filter(|class| left & (1 << class) != 0);
            let class = classes.min_by_key(|class| source.first(*class).order)?;
            left &= !(1 << class);
            let first = source.first(class);
            if is_ready(first, class, now_ps, room, refusal) {
                let older = stuck.iter().flatten();
                let mut older = older.map(|older: &Queued| older.index);
                if older.all(|older| may_pass_plainly(packets, first.index, older)) {
                    return Some(class);
                }
            }
            stuck[class] = Some(*first);
        }
        None
    }

    /// Removes the packet at a position from the queue of a source and class.
    #[inline]
    fn take(&mut self, source: u32, class: usize, at: usize) -> PacketIndex {
        let queue = &mut self.sources[source as usize];
        let taken =
            if at == 0 { queue.queues[class].pop_front() } else { queue.queues[class].remove(at) };
        queue.posted_last = class == Class::Posted.index();
        if queue.queues[class].is_empty() {
            queue.classes &= !(1 << class);
            if queue.classes == 0 {
                self.waiting &= !(1 << source);
            }
        }
        let Some(taken) = taken else { no_tlp(at, class) };
        let (bytes, taken_bytes, length) = (self.bytes, u64::from(taken.wire_bytes), self.length);
        assert_of!(
            bytes >= taken_bytes && length > 0,
            [taken_bytes, bytes, length],
            "{taken_bytes} B leave a queue of {bytes} B in {length} TLPs"
        );
        self.bytes -= taken_bytes;
        self.length -= 1;
        if class == Class::NonPosted.index() {
            let bytes = self.nonposted_bytes;
            assert_of!(
                bytes >= taken_bytes,
                [taken_bytes, bytes],
                "{taken_bytes} B of a request leave {bytes} B of them"
            );
            self.nonposted_bytes -= taken_bytes;
        }
        taken.index
    }

    /// Like [`choose`](Self::choose), but at random among all TLPs that the ordering table lets go
    /// next.
    pub fn choose_shuffled(
        &mut self,
        packets: &Packets,
        now_ps: u64,
        room: &Room<'_>,
        random: &mut Random,
    ) -> Choice {
        let mut refusal = Refusal::NOTHING;
        let mut able: Vec<(u32, usize, usize)> = Vec::new();
        for source in (0..64).filter(|source| self.waiting & (1 << source) != 0) {
            let queued = self.in_order(source);
            for (rank, (class, at, second)) in queued.iter().enumerate() {
                let header = &packets.get(second.index).header;
                let free = queued[..rank].iter().all(|(_, _, first)| {
                    may_pass(header, &packets.get(first.index).header) != Passing::No
                });
                if free && is_ready(second, *class, now_ps, room, &mut refusal) {
                    able.push((source, *class, *at));
                }
            }
        }
        if able.is_empty() || room.stale && refusal.lacks_something() {
            return Choice::Refuse(refusal);
        }
        let (source, class, at) = able[random.usize(..able.len())];
        Choice::Send(self.take(source, class, at))
    }

    /// Removes all packets, oldest first.
    pub fn drain(&mut self) -> Vec<PacketIndex> {
        let mut all = Vec::new();
        for source in &mut self.sources {
            all.extend(source.queues.iter_mut().flat_map(|queue| queue.drain(..)));
            source.classes = 0;
        }
        all.sort_unstable_by_key(|queued| queued.order);
        let bytes: u64 = all.iter().map(|queued| u64::from(queued.wire_bytes)).sum();
        let (length, counted) = (all.len(), (self.length as usize, self.bytes));
        assert_of!(
            (length, bytes) == counted,
            [length, bytes, counted],
            "{length} TLPs of {bytes} B were counted {counted:?}"
        );
        (self.waiting, self.bytes, self.nonposted_bytes, self.length) = (0, 0, 0, 0);
        all.into_iter().map(|queued| queued.index).collect()
    }

    /// The first packets of a source, oldest first, with their classes and positions.
    fn in_order(&self, source: u32) -> Vec<(usize, usize, Queued)> {
        let queues = self.sources[source as usize].queues.iter().enumerate();
        let mut all: Vec<_> = queues
            .flat_map(|(class, queue)| {
                let first = queue.iter().take(SHUFFLE_DEPTH).enumerate();
                first.map(move |(at, queued)| (class, at, *queued))
            })
            .collect();
        all.sort_by_key(|(_, _, queued)| queued.order);
        all.truncate(SHUFFLE_DEPTH);
        all
    }
}

/// Whether a packet may go now; if not, adds the reason.
#[inline]
fn is_ready(
    head: &Queued,
    class: usize,
    now_ps: u64,
    room: &Room<'_>,
    refusal: &mut Refusal,
) -> bool {
    if head.ready_ps > now_ps {
        refusal.later_ps = refusal.later_ps.min(head.ready_ps);
    } else if room.credits[class].header == 0
        || room.credits[class].data < u64::from(head.data_credits)
    {
        refusal.no_credit |= 1 << class;
    } else if room.replay_bytes < u64::from(head.wire_bytes) {
        refusal.replay_buffer = true;
    } else {
        return true;
    }
    false
}

/// Looks up the table without ID-based ordering, which would have to hold against all TLPs in
/// between.
#[inline]
fn may_pass_plainly(packets: &Packets, second: PacketIndex, first: PacketIndex) -> bool {
    let mut second = packets.get(second).header;
    second.attributes.id_based_ordering = false;
    may_pass(&second, &packets.get(first).header) != Passing::No
}

/// Panics because a queue claims a TLP that it does not hold.
#[cold]
#[inline(never)]
fn no_tlp(at: usize, class: usize) -> ! {
    panic!("a queue of class {class} has no TLP {at}");
}
