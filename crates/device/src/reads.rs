// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of host memory that are under way, by tag: what each is for, and what its completions do.

use std::collections::VecDeque;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Tag as WireTag;

/// Tags that every requester may use once extended tags are enabled: eight bits (PCIe 6.x 2.2.6.2).
const EXTENDED_TAGS: u16 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    /// Whom it was for has failed: what comes is dropped.
    Orphan,
    /// Timed out: out of use until its deadline, so that a late completion meets no other read.
    Quarantine,
}

#[derive(Clone, Copy, Debug)]
struct Read<T> {
    state: State,
    /// Of the read that the tag had last.
    target: Option<T>,
    address: u64,
    bytes: u32,
    received: u32,
    deadline_ps: u64,
    turn: u16,
}

/// What a completion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed<T> {
    /// Nobody waits for it.
    Unexpected,
    /// Good data: the part of the payload, where in the read, and whether it is the last.
    Data { target: T, skip: u32, offset: u32, bytes: u32, ends: bool },
    /// The read has failed.
    Failed { target: T },
    /// It came for a read that was given up; what that was for, if it has ended with it.
    Dropped(Option<T>),
}

/// All tags; `T` says what a read is for.
pub(crate) struct Reads<T> {
    reads: Vec<Read<T>>,
    /// Those that are free; the one that was used least lately comes first.
    free: VecDeque<u16>,
    /// Numbers on the wire that go with one use of all tags, and how often that goes into what the
    /// wire has: what comes twice for one read is not taken for the answer of the next.
    numbers: u16,
    turns: u16,
}

impl<T: Copy> Reads<T> {
    pub fn new(tags: u16) -> Self {
        let numbers = tags.next_power_of_two();
        let (state, turns) = (State::Free, (EXTENDED_TAGS / numbers).max(1));
        let (target, address, bytes, received, deadline_ps, turn) = (None, 0, 0, 0, 0, 0);
        let read = Read { state, target, address, bytes, received, deadline_ps, turn };
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
        target: T,
        address: u64,
        bytes: u32,
        deadline_ps: u64,
    ) -> Option<WireTag> {
        let tag = self.free.pop_front()?;
        let read = &mut self.reads[usize::from(tag)];
        let state = read.state;
        assert!(state == State::Free, "tag {tag} is taken for {bytes} B, and is {state:?}");
        let turn = (read.turn + 1) % self.turns;
        let (state, target) = (State::Waiting, Some(target));
        *read = Read { state, target, address, bytes, received: 0, deadline_ps, turn };
        Some(WireTag(tag + turn * self.numbers))
    }

    fn release(&mut self, tag: u16) {
        let before = std::mem::replace(&mut self.reads[usize::from(tag)].state, State::Free);
        assert!(before != State::Free, "tag {tag} is given back twice");
        self.free.push_back(tag);
        let (free, all) = (self.free.len(), self.reads.len());
        assert!(free <= all, "{free} tags are free, of {all}");
    }

    /// Takes a completion.
    pub fn complete(&mut self, header: &Header) -> Completed<T> {
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
        let is_orphan = read.state == State::Orphan;
        let Some(target) = read.target else { return Completed::Unexpected };
        let Some((skip, offset, bytes)) = part(read, header) else {
            self.release(tag);
            return match is_orphan {
                true => Completed::Dropped(Some(target)),
                false => Completed::Failed { target },
            };
        };
        read.received += bytes;
        let (received, all) = (read.received, read.bytes);
        assert!(received <= all, "{received} B have come for tag {tag}, of {all} B");
        let ends = read.received == read.bytes;
        if ends {
            self.release(tag);
        }
        match is_orphan {
            true => Completed::Dropped(ends.then_some(target)),
            false => Completed::Data { target, skip, offset, bytes, ends },
        }
    }

    /// The reads of those that `is_given_up` says are given up.
    pub fn abandon(&mut self, is_given_up: impl Fn(&T) -> bool) {
        for read in &mut self.reads {
            if read.state == State::Waiting && read.target.as_ref().is_some_and(&is_given_up) {
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
        mut expired: impl FnMut(u16, T),
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
                    if let Some(target) = read.target {
                        expired(tag + read.turn * numbers, target);
                    }
                }
                State::Quarantine => self.release(tag),
                State::Free => {}
            }
        }
        let open = self.reads.iter().filter(|read| read.state != State::Free);
        let (used, free, all) = (open.clone().count(), self.free.len(), self.reads.len());
        assert!(used + free == all, "of {all} tags {used} are in use and {free} free");
        open.map(|read| read.deadline_ps).min()
    }

    /// All reads that are under way have been lost: `lost` is called for each.
    pub fn lose_all(&mut self, deadline_ps: u64, mut lost: impl FnMut(T)) {
        for read in &mut self.reads {
            if matches!(read.state, State::Waiting | State::Orphan) {
                read.state = State::Quarantine;
                read.deadline_ps = deadline_ps;
                if let Some(target) = read.target {
                    lost(target);
                }
            }
        }
    }
}

/// What a good completion carries of a read: bytes before it in the payload, its place in the read,
/// its bytes (PCIe 6.x 2.3.2; in order within a read: 2.4.1).
fn part<T>(read: &Read<T>, header: &Header) -> Option<(u32, u32, u32)> {
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
