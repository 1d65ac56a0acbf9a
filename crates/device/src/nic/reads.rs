// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of host memory that are under way, by tag: what each is for, and what its completions do.

use std::collections::VecDeque;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Tag as WireTag;

/// Tags that every requester may use once extended tags are enabled: eight bits (PCIe 6.x 2.2.6.2).
const EXTENDED_TAGS: u16 = 256;

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Work requests.
    Fetch,
    /// Payload of a packet, from an offset on.
    Payload { packet: u32, offset: u32 },
    /// To know that what was written before can be seen.
    Flush,
}

/// A read's queue pair and purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub pair: u32,
    pub purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    /// Its queue pair has failed: what comes is dropped.
    Orphan,
    /// Timed out: out of use until its deadline, so that a late completion meets no other read.
    Quarantine,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    state: State,
    target: Target,
    address: u64,
    bytes: u32,
    received: u32,
    deadline_ps: u64,
    turn: u16,
}

/// What a completion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completed {
    /// Nobody waits for it.
    Unexpected,
    /// Good data: the part of the payload, where in the read, and whether it is the last.
    Data { target: Target, skip: u32, offset: u32, bytes: u32, ends: bool },
    /// The read has failed.
    Failed { target: Target },
    /// It came for a read that was given up; the queue pair of one that has ended with it.
    Dropped(Option<u32>),
}

/// All tags.
pub(super) struct Reads {
    reads: Vec<Read>,
    /// Those that are free; the one that was used least lately comes first.
    free: VecDeque<u16>,
    /// Numbers on the wire that go with one use of all tags, and how often that goes into what the
    /// wire has: what comes twice for one read is not taken for the answer of the next.
    numbers: u16,
    turns: u16,
}

impl Reads {
    pub fn new(tags: u16) -> Self {
        let numbers = tags.next_power_of_two();
        let target = Target { pair: 0, purpose: Purpose::Flush };
        let (state, turns) = (State::Free, (EXTENDED_TAGS / numbers).max(1));
        let read =
            Read { state, target, address: 0, bytes: 0, received: 0, deadline_ps: 0, turn: 0 };
        let reads = vec![read; usize::from(tags)];
        Self { reads, free: (0..tags).collect(), numbers, turns }
    }

    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Tags that cannot be taken now.
    pub fn in_use(&self) -> usize {
        self.reads.len() - self.free.len()
    }

    /// Begins a read; its tag on the wire. One is free.
    pub fn begin(
        &mut self,
        target: Target,
        address: u64,
        bytes: u32,
        deadline_ps: u64,
    ) -> Option<WireTag> {
        let tag = self.free.pop_front()?;
        let read = &mut self.reads[usize::from(tag)];
        let turn = (read.turn + 1) % self.turns;
        let state = State::Waiting;
        *read = Read { state, target, address, bytes, received: 0, deadline_ps, turn };
        Some(WireTag(tag + turn * self.numbers))
    }

    fn release(&mut self, tag: u16) {
        self.reads[usize::from(tag)].state = State::Free;
        self.free.push_back(tag);
    }

    /// Takes a completion.
    pub fn complete(&mut self, header: &Header) -> Completed {
        let tag = header.tag.0 % self.numbers;
        let numbers = self.numbers;
        let Some(read) = self.reads.get_mut(usize::from(tag)) else {
            return Completed::Unexpected;
        };
        if tag + read.turn * numbers != header.tag.0 {
            return Completed::Unexpected;
        }
        match read.state {
            State::Free => return Completed::Unexpected,
            State::Quarantine => return Completed::Dropped(None),
            State::Waiting | State::Orphan => {}
        }
        let (target, is_orphan) = (read.target, read.state == State::Orphan);
        let Some((skip, offset, bytes)) = part(read, header) else {
            self.release(tag);
            return match is_orphan {
                true => Completed::Dropped(Some(target.pair)),
                false => Completed::Failed { target },
            };
        };
        read.received += bytes;
        let ends = read.received == read.bytes;
        if ends {
            self.release(tag);
        }
        match is_orphan {
            true => Completed::Dropped(ends.then_some(target.pair)),
            false => Completed::Data { target, skip, offset, bytes, ends },
        }
    }

    /// The reads of a queue pair are given up.
    pub fn abandon(&mut self, pair: u32) {
        for read in &mut self.reads {
            if read.state == State::Waiting && read.target.pair == pair {
                read.state = State::Orphan;
            }
        }
    }

    /// Times out what is due: calls `expired` for each with its tag on the wire. Returns when to
    /// look again.
    pub fn time_out(
        &mut self,
        now_ps: u64,
        timeout_ps: u64,
        mut expired: impl FnMut(u16, Target),
    ) -> Option<u64> {
        for tag in 0..self.reads.len() as u16 {
            let numbers = self.numbers;
            let read = &mut self.reads[usize::from(tag)];
            if read.deadline_ps > now_ps {
                continue;
            }
            match read.state {
                State::Waiting | State::Orphan => {
                    read.state = State::Quarantine;
                    read.deadline_ps = now_ps + timeout_ps;
                    expired(tag + read.turn * numbers, read.target);
                }
                State::Quarantine => self.release(tag),
                State::Free => {}
            }
        }
        let open = self.reads.iter().filter(|read| read.state != State::Free);
        open.map(|read| read.deadline_ps).min()
    }

    /// All reads that are under way have been lost: `lost` is called for each.
    pub fn lose_all(&mut self, deadline_ps: u64, mut lost: impl FnMut(Target)) {
        for read in &mut self.reads {
            if matches!(read.state, State::Waiting | State::Orphan) {
                read.state = State::Quarantine;
                read.deadline_ps = deadline_ps;
                lost(read.target);
            }
        }
    }
}

/// What a good completion carries of a read: bytes before it in the payload, its place in the read,
/// its bytes (PCIe 6.x 2.3.2; in order within a read: 2.4.1).
fn part(read: &Read, header: &Header) -> Option<(u32, u32, u32)> {
    let has_data = header.kind == TlpKind::CompletionData && !header.poisoned;
    if !has_data || header.status != CompletionStatus::Successful {
        return None;
    }
    if read.bytes == 0 {
        return Some((0, 0, 0));
    }
    let address = read.address + u64::from(read.received);
    let left = read.bytes - read.received;
    let skip = (address & 3) as u32;
    let bytes = header.payload_bytes().checked_sub(skip)?.min(left);
    // 0 stands for 4096.
    let count = if header.byte_count == 0 { 4096 } else { u32::from(header.byte_count) };
    let fits = bytes > 0
        && count == left
        && header.payload_bytes() == (skip + bytes).next_multiple_of(4)
        && header.address.0 & 0x7f == address & 0x7f;
    fits.then_some((skip, read.received, bytes))
}
