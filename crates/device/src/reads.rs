// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of host memory in flight, by tag: the purpose of each, and the effect of its completions.

use std::collections::VecDeque;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Tag as WireTag;

/// Tags available to every requester once extended tags are enabled: eight bits (PCIe 6.x 2.2.6.2).
const EXTENDED_TAGS: u16 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    /// Its user has failed; further completions are dropped.
    Orphan,
    /// Timed out. Unusable until its deadline, so that a late completion cannot match another read.
    Quarantine,
}

#[derive(Clone, Copy, Debug)]
struct Read<T> {
    state: State,
    /// Purpose of the last read with this tag.
    target: Option<T>,
    address: u64,
    bytes: u32,
    received: u32,
    deadline_ps: u64,
    turn: u16,
}

/// Effect of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed<T> {
    /// No read is waiting for it.
    Unexpected,
    /// Good data: bytes to skip in the payload, offset in the read, length, and whether it is the
    /// last.
    Data { target: T, skip: u32, offset: u32, bytes: u32, ends: bool },
    /// The read has failed.
    Failed { target: T },
    /// The completion was for an abandoned read; holds the read's purpose if the read ended with
    /// it.
    Dropped(Option<T>),
}

/// All tags. `T` is the purpose of a read.
pub(crate) struct Reads<T> {
    reads: Vec<Read<T>>,
    /// Free tags, the longest unused first.
    free: VecDeque<u16>,
    /// Wire numbers of one round of all tags, and the rounds in the range of the wire: a duplicate
    /// completion is not taken for the answer of the tag's next read.
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

    /// Returns the number of tags that are not free.
    pub fn in_use(&self) -> usize {
        self.reads.len() - self.free.len()
    }

    /// Begins a read and returns its tag on the wire. A tag must be free.
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

    /// Abandons the reads for which `is_given_up` returns true.
    pub fn abandon(&mut self, is_given_up: impl Fn(&T) -> bool) {
        for read in &mut self.reads {
            if read.state == State::Waiting && read.target.as_ref().is_some_and(&is_given_up) {
                read.state = State::Orphan;
            }
        }
    }

    /// Times out overdue reads and calls `expired` for each with its tag on the wire. Returns the
    /// time of the next check.
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

    /// Drops all reads in flight and calls `lost` for each.
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

/// Returns the part of a read that a good completion carries: bytes to skip in the payload, offset
/// in the read, length (PCIe 6.x 2.3.2; in order within a read: 2.4.1).
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
    // A byte count of 0 means 4096.
    let count = if header.byte_count == 0 { 4096 } else { u32::from(header.byte_count) };
    let fits = bytes > 0
        && count == left
        && header.payload_bytes() == (skip + bytes).next_multiple_of(4)
        && header.address.0 & 0x7f == address & 0x7f;
    fits.then_some((skip, read.received, bytes))
}
