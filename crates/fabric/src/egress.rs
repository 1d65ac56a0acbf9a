// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What waits to be sent on one direction of a link, and the choice of the next TLP: round robin
//! between sources, oldest first within a source, passing only where the ordering table allows
//! it.
//!
//! A source is an ingress port of a switch, a root port from which peer traffic comes, or the
//! node itself. Each source has a queue for each class.

use crosslane_pcie::ordering::{Passing, may_pass};

use crate::packet::{NONE, PacketIndex, Packets};

/// How far into a queue the shuffle mode looks for something that may pass.
const SHUFFLE_DEPTH: usize = 16;

/// The first packet of a queue, with what the choice needs to know of it.
#[derive(Clone, Copy, Debug)]
struct Head {
    index: PacketIndex,
    order: u64,
    ready_ps: u64,
    data_credits: u32,
    wire_bytes: u32,
}

const NO_HEAD: Head =
    Head { index: NONE, order: u64::MAX, ready_ps: 0, data_credits: 0, wire_bytes: 0 };

#[derive(Clone, Debug)]
struct SourceQueue {
    heads: [Head; 3],
    tail: [PacketIndex; 3],
    /// One bit for each class that has a head.
    classes: u8,
}

/// What may be sent now: header and data credits left, by class.
pub(crate) struct Room {
    pub header: [u64; 3],
    pub data: [u64; 3],
    /// Wire bytes left in the replay buffer.
    pub replay_bytes: u64,
}

/// Why nothing can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// One bit for each class of which something lacks credits.
    pub no_credit: u8,
    /// Something finds the replay buffer full.
    pub replay_buffer: bool,
    /// The earliest time at which something is ready that is not ready yet (ps); `u64::MAX` for
    /// never.
    pub later_ps: u64,
}

impl Refusal {
    /// Nothing is there at all.
    const NOTHING: Self = Self { no_credit: 0, replay_buffer: false, later_ps: u64::MAX };

    /// Whether something is there that DLLPs could set free.
    pub fn lacks_something(&self) -> bool {
        self.no_credit != 0 || self.replay_buffer
    }
}

/// What the choice came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Send this one; it has left its queue.
    Send(PacketIndex),
    /// Nothing can be sent now.
    Refuse(Refusal),
}

/// The queues of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Egress {
    sources: Vec<SourceQueue>,
    /// One bit for each source that is not empty.
    waiting: u64,
    /// Source after the one that was served last.
    turn: u32,
    order: u64,
    /// Wire bytes that wait.
    pub bytes: u64,
    /// TLPs that wait.
    pub length: u32,
}

impl Egress {
    pub fn new(sources: usize) -> Self {
        let empty = SourceQueue { heads: [NO_HEAD; 3], tail: [NONE; 3], classes: 0 };
        Self { sources: vec![empty; sources], waiting: 0, turn: 0, order: 0, bytes: 0, length: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    #[inline]
    pub fn push(&mut self, packets: &mut Packets, source: u32, index: PacketIndex) {
        self.order += 1;
        let packet = packets.get_mut(index);
        packet.next = NONE;
        packet.queue_order = self.order;
        self.bytes += u64::from(packet.wire_bytes);
        self.length += 1;
        let class = packet.class().index();
        let queue = &mut self.sources[source as usize];
        if queue.classes & (1 << class) == 0 {
            queue.heads[class] = head(packets, index);
            queue.classes |= 1 << class;
        } else {
            packets.get_mut(queue.tail[class]).next = index;
        }
        queue.tail[class] = index;
        self.waiting |= 1 << source;
    }

    /// Chooses and takes the next TLP.
    #[inline]
    pub fn choose(&mut self, packets: &mut Packets, now_ps: u64, room: &Room) -> Choice {
        let mut refusal = Refusal::NOTHING;
        let (mut pending, turn) = (self.waiting, self.turn);
        while pending != 0 {
            let ahead = pending & (u64::MAX << turn);
            let source = if ahead != 0 { ahead } else { pending }.trailing_zeros();
            pending &= !(1 << source);
            if let Some(index) = self.choose_from(packets, source, now_ps, room, &mut refusal) {
                self.turn = (source + 1) % 64;
                self.take_head(packets, source, index);
                return Choice::Send(index);
            }
        }
        Choice::Refuse(refusal)
    }

    /// The first of a source's three heads, oldest first, that may go now and may pass the older
    /// ones.
    #[inline]
    fn choose_from(
        &self,
        packets: &Packets,
        source: u32,
        now_ps: u64,
        room: &Room,
        refusal: &mut Refusal,
    ) -> Option<PacketIndex> {
        let queue = &self.sources[source as usize];
        if queue.classes.is_power_of_two() {
            let class = queue.classes.trailing_zeros() as usize;
            let head = &queue.heads[class];
            return is_ready(head, class, now_ps, room, refusal).then_some(head.index);
        }
        let mut left = queue.classes;
        let mut stuck = 0_u8;
        while left != 0 {
            // The oldest head that has not been looked at.
            let mut class = left.trailing_zeros() as usize;
            for other in class + 1..3 {
                if left & (1 << other) != 0 && queue.heads[other].order < queue.heads[class].order {
                    class = other;
                }
            }
            left &= !(1 << class);
            let head = &queue.heads[class];
            if is_ready(head, class, now_ps, room, refusal) {
                let passes = (0..3)
                    .filter(|first| stuck & (1 << first) != 0)
                    .all(|first| may_pass_plainly(packets, head.index, queue.heads[first].index));
                if passes {
                    return Some(head.index);
                }
            }
            stuck |= 1 << class;
        }
        None
    }

    fn take_head(&mut self, packets: &Packets, source: u32, index: PacketIndex) {
        let packet = packets.get(index);
        let class = packet.class().index();
        let queue = &mut self.sources[source as usize];
        debug_assert_eq!(queue.heads[class].index, index);
        if packet.next == NONE {
            queue.heads[class] = NO_HEAD;
            queue.tail[class] = NONE;
            queue.classes &= !(1 << class);
            if queue.classes == 0 {
                self.waiting &= !(1 << source);
            }
        } else {
            queue.heads[class] = head(packets, packet.next);
        }
        self.bytes -= u64::from(packet.wire_bytes);
        self.length -= 1;
    }

    /// As [`choose`](Self::choose), but at random among everything that the ordering table
    /// allows to go next.
    pub fn choose_shuffled(
        &mut self,
        packets: &mut Packets,
        now_ps: u64,
        room: &Room,
        random: &mut fastrand::Rng,
    ) -> Choice {
        let mut refusal = Refusal::NOTHING;
        let mut able: Vec<(u32, PacketIndex)> = Vec::new();
        for source in (0..64).filter(|source| self.waiting & (1 << source) != 0) {
            let mut queued = self.in_order(packets, source);
            queued.truncate(SHUFFLE_DEPTH);
            for (at, &index) in queued.iter().enumerate() {
                let second = &packets.get(index).header;
                let free = queued[..at]
                    .iter()
                    .all(|&first| may_pass(second, &packets.get(first).header) != Passing::No);
                if !free {
                    continue;
                }
                let class = packets.get(index).class().index();
                if is_ready(&head(packets, index), class, now_ps, room, &mut refusal) {
                    able.push((source, index));
                }
            }
        }
        if able.is_empty() {
            return Choice::Refuse(refusal);
        }
        let (source, index) = able[random.usize(..able.len())];
        self.unlink(packets, source, index);
        Choice::Send(index)
    }

    /// The packets of a source, oldest first.
    fn in_order(&self, packets: &Packets, source: u32) -> Vec<PacketIndex> {
        let mut all = Vec::new();
        for head in &self.sources[source as usize].heads {
            let mut at = head.index;
            let mut depth = 0;
            while at != NONE && depth < SHUFFLE_DEPTH {
                all.push(at);
                at = packets.get(at).next;
                depth += 1;
            }
        }
        all.sort_by_key(|&index| packets.get(index).queue_order);
        all
    }

    /// Takes a packet out of the middle of its queue.
    fn unlink(&mut self, packets: &mut Packets, source: u32, index: PacketIndex) {
        let class = packets.get(index).class().index();
        let first = self.sources[source as usize].heads[class].index;
        if first == index {
            self.take_head(packets, source, index);
            return;
        }
        let mut before = first;
        while packets.get(before).next != index {
            before = packets.get(before).next;
        }
        let next = packets.get(index).next;
        packets.get_mut(before).next = next;
        if next == NONE {
            self.sources[source as usize].tail[class] = before;
        }
        self.bytes -= u64::from(packets.get(index).wire_bytes);
        self.length -= 1;
    }
}

/// A packet as the head of a queue.
#[inline]
fn head(packets: &Packets, index: PacketIndex) -> Head {
    let packet = packets.get(index);
    Head {
        index,
        order: packet.queue_order,
        ready_ps: packet.ready_ps,
        data_credits: packet.data_credits,
        wire_bytes: packet.wire_bytes,
    }
}

/// Whether a packet may go now; if not, adds why.
#[inline]
fn is_ready(head: &Head, class: usize, now_ps: u64, room: &Room, refusal: &mut Refusal) -> bool {
    if head.ready_ps > now_ps {
        refusal.later_ps = refusal.later_ps.min(head.ready_ps);
    } else if room.header[class] == 0 || room.data[class] < u64::from(head.data_credits) {
        refusal.no_credit |= 1 << class;
    } else if room.replay_bytes < u64::from(head.wire_bytes) {
        refusal.replay_buffer = true;
    } else {
        return true;
    }
    false
}

/// The table, without ID-based ordering: it would have to hold against everything in between.
#[inline]
fn may_pass_plainly(packets: &Packets, second: PacketIndex, first: PacketIndex) -> bool {
    let mut second = packets.get(second).header;
    second.attributes.id_based_ordering = false;
    may_pass(&second, &packets.get(first).header) != Passing::No
}
