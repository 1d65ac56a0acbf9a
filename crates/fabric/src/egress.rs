// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Egress queues of one direction of a link, and the choice of the next TLP: round robin between
//! sources, oldest first within a source, passing only where the ordering table allows it.
//!
//! A source is an ingress port of a switch, a root port that sends peer traffic, or the node
//! itself. Each source has a queue for each class.

use crosslane_pcie::ordering::{Passing, may_pass};
use crosslane_pcie::tlp::Class;
use crosslane_random::Random;

use crate::packet::{NONE, Packet, PacketIndex, Packets};
use crate::receiver::Pool;

/// Depth to which the shuffle mode searches a queue for a TLP that may pass.
const SHUFFLE_DEPTH: usize = 16;

/// TLPs of one class, oldest first, joined by [`Packet::next`].
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: PacketIndex,
    last: PacketIndex,
}

impl Queue {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn iter<'a>(&self, packets: &'a Packets) -> impl Iterator<Item = PacketIndex> + use<'a> {
        let some = |index: PacketIndex| (index != NONE).then_some(index);
        std::iter::successors(some(self.first), move |at| some(packets.get(*at).next))
    }
}

/// The queues of a source. The alignment makes their addresses a shift.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct SourceQueue {
    queues: [Queue; 3],
    /// One bit for each class that is not empty.
    classes: u8,
    /// Whether the last TLP of this source was posted.
    posted_last: bool,
}

/// Resources for sending now.
pub(crate) struct Room<'a> {
    /// Credits of each class.
    pub pools: &'a [Pool; 3],
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

    /// The refusal of a TLP that becomes ready at this time.
    pub const fn until(later_ps: u64) -> Self {
        Self { later_ps, ..Self::NOTHING }
    }

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

/// Result of a look at the usual case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send this packet, now removed from its queue.
    Send(PacketIndex),
    /// The only TLP that may go first becomes ready at this time (ps).
    Later(u64),
    /// It is not the usual case.
    Unclear,
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
    /// TLPs that may go now, in shuffle mode: kept for its memory.
    able: Vec<(u32, usize, PacketIndex)>,
    /// Wire bytes queued.
    pub bytes: u64,
    /// Wire bytes queued of non-posted requests.
    pub nonposted_bytes: u64,
    /// Posted requests queued from the first source, if it combines several.
    pub posted_of_first: u32,
}

impl Egress {
    pub fn new(sources: usize, first_is_mixed: bool) -> Self {
        assert_of!(
            sources <= u64::BITS as usize,
            [sources],
            "{sources} sources, and a bit for each of 64"
        );
        Self {
            sources: vec![
                SourceQueue { queues: [Queue::EMPTY; 3], classes: 0, posted_last: false };
                sources
            ],
            first_is_mixed,
            waiting: 0,
            turn: 0,
            order: 0,
            able: Vec::new(),
            bytes: 0,
            nonposted_bytes: 0,
            posted_of_first: 0,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Number of TLPs queued.
    pub fn count(&self, packets: &Packets) -> usize {
        let queues = self.sources.iter().flat_map(|source| &source.queues);
        queues.map(|queue| queue.iter(packets).count()).sum()
    }

    /// Queues a TLP. Returns when it is ready, and its class.
    #[inline(always)]
    pub fn push(&mut self, packets: &mut Packets, source: u32, index: PacketIndex) -> (u64, Class) {
        self.order += 1;
        let packet = packets.get_mut(index);
        (packet.next, packet.order) = (NONE, self.order);
        let (ready_ps, class) = (packet.ready_ps, packet.class());
        let bytes = u64::from(packet.wire_bytes);
        self.bytes += bytes;
        if class == Class::NonPosted {
            self.nonposted_bytes += bytes;
        }
        if self.first_is_mixed {
            self.posted_of_first += u32::from(source == 0 && class == Class::Posted);
        }
        let from = &mut self.sources[source as usize];
        let queue = &mut from.queues[class.index()];
        if queue.first == NONE {
            queue.first = index;
            from.classes |= 1 << class.index();
            self.waiting |= 1 << source;
        } else {
            packets.get_mut(queue.last).next = index;
        }
        queue.last = index;
        (ready_ps, class)
    }

    /// Takes the next TLP in the usual case, in which the source whose turn it is has TLPs of one
    /// class, and the first of them can go now, or waits only to be ready and no other source has
    /// any. In any other case [`choose`](Self::choose) decides.
    #[inline(always)]
    pub fn take_next(&mut self, packets: &Packets, now_ps: u64, room: &Room<'_>) -> Next {
        let ahead = self.waiting & (u64::MAX << self.turn);
        let number = if ahead != 0 { ahead } else { self.waiting }.trailing_zeros();
        let Some(source) = self.sources.get(number as usize) else { return Next::Unclear };
        if !source.classes.is_power_of_two() {
            return Next::Unclear;
        }
        // Index of the only bit of three.
        let class = usize::from(source.classes >> 1);
        let head = packets.get(source.queues[class].first);
        if head.ready_ps > now_ps {
            let is_alone = self.waiting.is_power_of_two();
            return if is_alone { Next::Later(head.ready_ps) } else { Next::Unclear };
        }
        if !room.pools[class].has_room(head.data_credits)
            || room.replay_bytes < u64::from(head.wire_bytes)
        {
            return Next::Unclear;
        }
        self.turn = (number + 1) % 64;
        let index = source.queues[class].first;
        self.take(number, class, head);
        Next::Send(index)
    }

    /// Chooses and takes the next TLP.
    #[inline(never)]
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
                return Choice::Send(self.take_first(packets, source, class));
            }
        }
        Choice::Refuse(refusal)
    }

    /// The class of a source whose first TLP may go now, passing older ones of other classes if it
    /// may.
    #[inline(always)]
    fn choose_from(
        &self,
        packets: &Packets,
        number: u32,
        now_ps: u64,
        room: &Room<'_>,
        refusal: &mut Refusal,
    ) -> Option<usize> {
        let source = &self.sources[number as usize];
        if source.classes.is_power_of_two() {
            let class = usize::from(source.classes >> 1);
            let first = packets.get(source.queues[class].first);
            return is_ready(first, class, now_ps, room, refusal).then_some(class);
        }
        self.choose_among(packets, number, now_ps, room, refusal)
    }

    /// Like [`choose_from`](Self::choose_from), where several classes wait.
    #[inline(never)]
    fn choose_among(
        &self,
        packets: &Packets,
        number: u32,
        now_ps: u64,
        room: &Room<'_>,
        refusal: &mut Refusal,
    ) -> Option<usize> {
        let source = &self.sources[number as usize];
        if self.first_is_mixed && number == 0 && !source.posted_last {
            // Posted requests may pass both other classes.
            let posted = Class::Posted.index();
            if source.classes & (1 << posted) != 0 {
                let first = packets.get(source.queues[posted].first);
                if is_ready(first, posted, now_ps, room, refusal) {
                    return Some(posted);
                }
            }
        }
        let mut left = source.classes;
        let mut stuck = [NONE; 3];
        while left != 0 {
            // The oldest not yet considered.
            let first = |class: usize| packets.get(source.queues[class].first);
            let classes = (0..3).filter(|class| left & (1 << class) != 0);
            let class = classes.min_by_key(|class| first(*class).order)?;
            left &= !(1 << class);
            let own = source.queues[class].first;
            if is_ready(packets.get(own), class, now_ps, room, refusal) {
                let mut older = stuck.iter().filter(|older| **older != NONE);
                if older.all(|older| may_pass_plainly(packets, own, *older)) {
                    return Some(class);
                }
            }
            stuck[class] = own;
        }
        None
    }

    /// Removes the oldest TLP of a source and class.
    #[inline(always)]
    fn take_first(&mut self, packets: &Packets, source: u32, class: usize) -> PacketIndex {
        let index = self.sources[source as usize].queues[class].first;
        self.take(source, class, packets.get(index));
        index
    }

    /// Removes the oldest TLP of a source and class, which is `first`.
    #[inline(always)]
    fn take(&mut self, source: u32, class: usize, first: &Packet) {
        let from = &mut self.sources[source as usize];
        from.queues[class].first = first.next;
        from.posted_last = class == Class::Posted.index();
        if first.next == NONE {
            from.classes &= !(1 << class);
            if from.classes == 0 {
                self.waiting &= !(1 << source);
            }
        }
        self.note_taken(source, class, first.wire_bytes);
    }

    #[inline(always)]
    fn note_taken(&mut self, source: u32, class: usize, wire_bytes: u32) {
        let taken_bytes = u64::from(wire_bytes);
        let bytes = self.bytes;
        assert_of!(
            bytes >= taken_bytes,
            [taken_bytes, bytes],
            "{taken_bytes} B leave a queue of {bytes} B"
        );
        self.bytes -= taken_bytes;
        if class == Class::NonPosted.index() {
            let bytes = self.nonposted_bytes;
            assert_of!(
                bytes >= taken_bytes,
                [taken_bytes, bytes],
                "{taken_bytes} B of a request leave {bytes} B of them"
            );
            self.nonposted_bytes -= taken_bytes;
        }
        if self.first_is_mixed {
            self.posted_of_first -= u32::from(source == 0 && class == Class::Posted.index());
        }
    }

    /// Removes a TLP behind the first of its source and class.
    fn take_behind(
        &mut self,
        packets: &mut Packets,
        source: u32,
        class: usize,
        index: PacketIndex,
    ) -> PacketIndex {
        let queue = &mut self.sources[source as usize].queues[class];
        let before = queue.iter(packets).find(|at| packets.get(*at).next == index);
        let Some(before) = before else { panic!("a queue of class {class} has no TLP {index}") };
        packets.get_mut(before).next = packets.get(index).next;
        if queue.last == index {
            queue.last = before;
        }
        self.sources[source as usize].posted_last = class == Class::Posted.index();
        self.note_taken(source, class, packets.get(index).wire_bytes);
        index
    }

    /// Like [`choose`](Self::choose), but at random among all TLPs that the ordering table lets go
    /// next.
    pub fn choose_shuffled(
        &mut self,
        packets: &mut Packets,
        now_ps: u64,
        room: &Room<'_>,
        random: &mut Random,
    ) -> Choice {
        let mut refusal = Refusal::NOTHING;
        let mut able = std::mem::take(&mut self.able);
        able.clear();
        let mut waiting = self.waiting;
        while waiting != 0 {
            let source = waiting.trailing_zeros();
            waiting &= waiting - 1;
            let mut older = [NONE; SHUFFLE_DEPTH];
            for (rank, (class, index)) in self.in_order(packets, source).enumerate() {
                let second = packets.get(index);
                let free = older[..rank].iter().all(|first| {
                    may_pass(&second.header, &packets.get(*first).header) != Passing::No
                });
                if free && is_ready(second, class, now_ps, room, &mut refusal) {
                    able.push((source, class, index));
                }
                older[rank] = index;
            }
        }
        if able.is_empty() {
            // TLPs that must be able to pass the others may lie behind that depth.
            for source in (0..u64::BITS).filter(|source| self.waiting & (1 << source) != 0) {
                if let Some(class) = self.choose_from(packets, source, now_ps, room, &mut refusal) {
                    able.push((source, class, self.sources[source as usize].queues[class].first));
                }
            }
        }
        let chosen = match able.is_empty() || room.stale && refusal.lacks_something() {
            true => None,
            false => Some(able[random.usize(..able.len())]),
        };
        self.able = able;
        let Some((source, class, index)) = chosen else { return Choice::Refuse(refusal) };
        let is_first = self.sources[source as usize].queues[class].first == index;
        Choice::Send(match is_first {
            true => self.take_first(packets, source, class),
            false => self.take_behind(packets, source, class, index),
        })
    }

    /// Removes all packets, oldest first.
    pub fn drain(&mut self, packets: &Packets) -> Vec<PacketIndex> {
        let mut all = Vec::new();
        for source in &mut self.sources {
            for queue in &mut source.queues {
                all.extend(std::mem::replace(queue, Queue::EMPTY).iter(packets));
            }
            source.classes = 0;
        }
        all.sort_unstable_by_key(|index| packets.get(*index).order);
        let bytes: u64 = all.iter().map(|index| u64::from(packets.get(*index).wire_bytes)).sum();
        let counted = self.bytes;
        assert_of!(bytes == counted, [bytes, counted], "{bytes} B were counted as {counted}");
        (self.waiting, self.bytes, self.nonposted_bytes) = (0, 0, 0);
        self.posted_of_first = 0;
        all
    }

    /// The first packets of a source, oldest first, with their classes.
    fn in_order(
        &self,
        packets: &Packets,
        source: u32,
    ) -> impl Iterator<Item = (usize, PacketIndex)> {
        let mut heads = self.sources[source as usize].queues.map(|queue| queue.first);
        let next = move || {
            let waiting = (0..3).filter(|class| heads[*class] != NONE);
            let class = waiting.min_by_key(|class| packets.get(heads[*class]).order)?;
            let index = heads[class];
            heads[class] = packets.get(index).next;
            Some((class, index))
        };
        std::iter::from_fn(next).take(SHUFFLE_DEPTH)
    }
}

/// Whether a packet may go now; if not, adds the reason.
#[inline]
fn is_ready(
    head: &Packet,
    class: usize,
    now_ps: u64,
    room: &Room<'_>,
    refusal: &mut Refusal,
) -> bool {
    if head.ready_ps > now_ps {
        refusal.later_ps = refusal.later_ps.min(head.ready_ps);
    } else if !room.pools[class].has_room(head.data_credits) {
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

#[cfg(test)]
mod tests {
    use crosslane_pcie::tlp::Header;
    use crosslane_pcie::units::{BusAddress, RoutingId, Tag};
    use proptest::prelude::*;

    use super::*;
    use crate::receiver::{CreditCount, Receiver};

    fn header(class: u8, bytes: u32) -> Header {
        let (id, address) = (RoutingId(8), BusAddress(0));
        let read = Header::memory_read(id, Tag(0), address, bytes);
        match class {
            0 => Header::memory_write(id, address, bytes),
            1 => read,
            _ => Header::completion_data(&read, id, address, bytes, bytes),
        }
    }

    proptest! {
        /// The usual case is chosen as the general rule would choose.
        #[test]
        fn next_is_what_is_chosen(
            tlps in prop::collection::vec((0u32..3, 0u8..3, 1u32..64, 0u64..8, 0u64..6), 1..60),
            capacity in (1u64..6, 1u64..12),
            replay_bytes in 30u64..200,
            stale in any::<bool>(),
            is_mixed in any::<bool>(),
        ) {
            let mut packets = Packets::new(256);
            let mut egress = Egress::new(3, is_mixed);
            let capacity = CreditCount { header: capacity.0, data: capacity.1 };
            let mut receiver = Receiver::new([capacity; 3]);
            let mut now_ps = 0;
            for (source, class, bytes, delay_ps, step_ps) in tlps {
                let mut packet = Packet::new(header(class, bytes), 0);
                packet.ready_ps = now_ps + delay_ps;
                let index = packets.insert(packet);
                egress.push(&mut packets, source, index);
                now_ps += step_ps;
                let room = Room { pools: &receiver.pools, replay_bytes, stale };
                let mut general = egress.clone();
                let choice = general.choose(&packets, now_ps, &room);
                match egress.take_next(&packets, now_ps, &room) {
                    Next::Send(index) => prop_assert_eq!(choice, Choice::Send(index)),
                    Next::Later(later_ps) => {
                        prop_assert_eq!(choice, Choice::Refuse(Refusal::until(later_ps)));
                    }
                    Next::Unclear => egress = general.clone(),
                }
                prop_assert_eq!(format!("{egress:?}"), format!("{general:?}"));
                if let Choice::Send(index) = choice {
                    let packet = packets.get(index);
                    receiver.pools[packet.class().index()]
                        .consume(packet.class(), packet.data_credits);
                }
            }
        }
    }
}
