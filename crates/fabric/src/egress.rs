// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What waits to be sent on one direction of a link, and the choice of the next TLP: round robin
//! between sources, oldest first within a source, passing only where the ordering table allows
//! it.
//!
//! A source is an ingress port of a switch, a root port from which peer traffic comes, or the
//! node itself. Each source has a queue for each class.

use crosslane_pcie::ordering::{Passing, may_pass};
use crosslane_pcie::tlp::Class;

use crate::packet::{NONE, PacketIndex, Packets};

/// How far into a queue the shuffle mode looks for something that may pass.
const SHUFFLE_DEPTH: usize = 16;

#[derive(Clone, Debug)]
struct SourceQueue {
    head: [PacketIndex; 3],
    tail: [PacketIndex; 3],
}

/// What may be sent now: header and data credits left, by class.
pub(crate) struct Room {
    pub header: [u64; 3],
    pub data: [u64; 3],
    /// Wire bytes left in the replay buffer.
    pub replay_bytes: u64,
}

/// What the choice came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Send this one; it has left its queue.
    Send(PacketIndex),
    /// Something is there, but not before this time (ps).
    Later(u64),
    /// Something is there that lacks credits of this class.
    NoCredit(Class),
    /// Something is there, but the replay buffer is full.
    ReplayBuffer,
    /// Nothing is there.
    Empty,
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
        let empty = SourceQueue { head: [NONE; 3], tail: [NONE; 3] };
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
        if queue.head[class] == NONE {
            queue.head[class] = index;
        } else {
            packets.get_mut(queue.tail[class]).next = index;
        }
        queue.tail[class] = index;
        self.waiting |= 1 << source;
    }

    /// Chooses and takes the next TLP.
    #[inline]
    pub fn choose(&mut self, packets: &mut Packets, now_ps: u64, room: &Room) -> Choice {
        let mut outcome = Choice::Empty;
        let (mut pending, turn) = (self.waiting, self.turn);
        while pending != 0 {
            let ahead = pending & (u64::MAX << turn);
            let source = if ahead != 0 { ahead } else { pending }.trailing_zeros();
            pending &= !(1 << source);
            match self.choose_from(packets, source, now_ps, room) {
                Choice::Send(index) => {
                    self.turn = (source + 1) % 64;
                    self.take_head(packets, source, index);
                    return Choice::Send(index);
                }
                other => outcome = worse(outcome, other),
            }
        }
        outcome
    }

    /// The first of a source's three heads, oldest first, that may go now and may pass the older
    /// ones.
    #[inline]
    fn choose_from(&self, packets: &Packets, source: u32, now_ps: u64, room: &Room) -> Choice {
        let heads = self.sources[source as usize].head;
        let mut outcome = Choice::Empty;
        let mut stuck = [NONE; 3];
        for step in 0..3 {
            // The oldest head that has not been looked at.
            let mut oldest = NONE;
            let mut order = u64::MAX;
            for class in 0..3 {
                let head = heads[class];
                if head != NONE && stuck[class] == NONE && packets.get(head).queue_order < order {
                    order = packets.get(head).queue_order;
                    oldest = head;
                }
            }
            if oldest == NONE {
                break;
            }
            let packet = packets.get(oldest);
            let passes = step == 0
                || stuck
                    .iter()
                    .all(|&first| first == NONE || may_pass_plainly(packets, oldest, first));
            let state = readiness(packets, oldest, now_ps, room);
            match state {
                Choice::Send(_) if passes => return state,
                Choice::Send(_) => {}
                other => outcome = worse(outcome, other),
            }
            stuck[packet.class().index()] = oldest;
        }
        outcome
    }

    fn take_head(&mut self, packets: &Packets, source: u32, index: PacketIndex) {
        let packet = packets.get(index);
        let class = packet.class().index();
        let queue = &mut self.sources[source as usize];
        debug_assert_eq!(queue.head[class], index);
        queue.head[class] = packet.next;
        if packet.next == NONE {
            queue.tail[class] = NONE;
            if queue.head == [NONE; 3] {
                self.waiting &= !(1 << source);
            }
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
        let mut outcome = Choice::Empty;
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
                match readiness(packets, index, now_ps, room) {
                    Choice::Send(_) => able.push((source, index)),
                    other => outcome = worse(outcome, other),
                }
            }
        }
        if able.is_empty() {
            return outcome;
        }
        let (source, index) = able[random.usize(..able.len())];
        self.unlink(packets, source, index);
        Choice::Send(index)
    }

    /// The packets of a source, oldest first.
    fn in_order(&self, packets: &Packets, source: u32) -> Vec<PacketIndex> {
        let mut all = Vec::new();
        for mut at in self.sources[source as usize].head {
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
        let head = self.sources[source as usize].head[class];
        if head == index {
            self.take_head(packets, source, index);
            return;
        }
        let mut before = head;
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

/// Whether a packet may go now; `Send` if so.
#[inline]
fn readiness(packets: &Packets, index: PacketIndex, now_ps: u64, room: &Room) -> Choice {
    let packet = packets.get(index);
    let class = packet.class();
    if packet.ready_ps > now_ps {
        Choice::Later(packet.ready_ps)
    } else if room.header[class.index()] == 0
        || room.data[class.index()] < u64::from(packet.data_credits)
    {
        Choice::NoCredit(class)
    } else if room.replay_bytes < u64::from(packet.wire_bytes) {
        Choice::ReplayBuffer
    } else {
        Choice::Send(index)
    }
}

/// The table, without ID-based ordering: it would have to hold against everything in between.
#[inline]
fn may_pass_plainly(packets: &Packets, second: PacketIndex, first: PacketIndex) -> bool {
    let mut second = packets.get(second).header;
    second.attributes.id_based_ordering = false;
    may_pass(&second, &packets.get(first).header) != Passing::No
}

/// Of two reasons not to send, the one to report: credits before time, the earlier time, and
/// anything before "empty".
fn worse(one: Choice, other: Choice) -> Choice {
    let rank = |choice: &Choice| match choice {
        Choice::Send(_) => 4,
        Choice::NoCredit(_) => 3,
        Choice::ReplayBuffer => 2,
        Choice::Later(_) => 1,
        Choice::Empty => 0,
    };
    match (one, other) {
        (Choice::Later(a), Choice::Later(b)) => Choice::Later(a.min(b)),
        _ if rank(&other) > rank(&one) => other,
        _ => one,
    }
}
