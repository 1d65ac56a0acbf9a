// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tags of a requester: the read that each stands for, and what completions do to it.
//!
//! A tag whose read timed out stays out of use for another time-out, so that a late completion
//! cannot match its next read. The tag on the wire includes the number of uses, as far as eight
//! bits allow, for the same reason.

use std::collections::VecDeque;

use crosslane_pcie::link::PAGE_BYTES;
use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Tag as WireTag;

/// Tags available to every requester once extended tags are enabled: eight bits (PCIe 6.x 2.2.6.2).
const EXTENDED_TAGS: u16 = 256;
/// Smallest read completion boundary (PCIe 6.x 2.3.1.1), bytes.
const READ_COMPLETION_BOUNDARY_BYTES: u64 = 64;
/// Payload bytes of a data credit (PCIe 6.x 2.6.1).
const DATA_CREDIT_BYTES: u32 = 16;

/// State of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagState {
    /// The tag can be taken.
    #[default]
    Free,
    /// The tag's read is waiting for completions.
    Waiting,
    /// The tag's read is fully answered; the data wait to be taken.
    Answered,
    /// The tag's read was given up; further completions are dropped.
    Orphan,
    /// Timed out. Unusable until its deadline.
    Quarantine,
}

/// Credits that completions take in a receive buffer: one each for their headers, and one for each
/// 16 B of their data (PCIe 6.x 2.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletionCredits {
    /// Header credits.
    pub headers: u32,
    /// Data credits.
    pub data: u32,
}

impl CompletionCredits {
    /// Returns the credits that the completions of a read take at most: they may be cut at each
    /// Read Completion Boundary, of 64 B at least.
    pub fn of(address: u64, bytes: u32) -> Self {
        let units = |unit_bytes: u32| {
            let skipped = (address % u64::from(unit_bytes)) as u32;
            if bytes == 0 { 0 } else { (skipped + bytes).div_ceil(unit_bytes) }
        };
        Self {
            headers: units(READ_COMPLETION_BOUNDARY_BYTES as u32),
            data: units(DATA_CREDIT_BYTES),
        }
    }

    /// Returns the most credits that a read of up to `bytes` takes, at any address.
    pub fn most_of(bytes: u32) -> Self {
        let last_byte = PAGE_BYTES.saturating_sub(u64::from(bytes)).min(63);
        Self::of(last_byte, bytes)
    }

    fn change(&mut self, before: Self, after: Self) {
        self.headers = self.headers + after.headers - before.headers;
        self.data = self.data + after.data - before.data;
    }
}

/// Failure of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The completer does not support the request.
    UnsupportedRequest,
    /// The completer has aborted.
    CompleterAbort,
    /// A completion does not fit the read.
    Malformed,
    /// The data are poisoned.
    Poisoned,
    /// Not all completions have come in time.
    TimedOut,
}

/// Read that a tag stands for, or stood for last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tag<T> {
    /// State of the read.
    pub state: TagState,
    /// Purpose of the read, for its user.
    pub purpose: T,
    /// First address.
    pub address: u64,
    /// Length.
    pub bytes: u32,
    /// Bytes answered so far, good or bad.
    received: u32,
    /// Good bytes from the start of the read.
    pub good: u32,
    /// Error of the byte after the good ones.
    pub error: Option<ReadError>,
    deadline_ps: u64,
    /// Number of uses, modulo `turns`.
    turn: u16,
}

impl<T> Tag<T> {
    /// Whether completions are still expected, be it to drop them.
    pub fn is_open(&self) -> bool {
        matches!(self.state, TagState::Waiting | TagState::Orphan)
    }

    /// Returns the most credits of completions that may still come, also of a read that timed out.
    fn to_come(&self) -> CompletionCredits {
        let at = self.address.wrapping_add(self.received.into());
        match self.state {
            TagState::Free | TagState::Answered => CompletionCredits::default(),
            _ => CompletionCredits::of(at, self.bytes - self.received),
        }
    }
}

/// Effect of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered<T> {
    /// No read is waiting for it.
    Unexpected,
    /// The read was given up; holds its purpose if it ended with this completion.
    Dropped(Option<T>),
    /// The read of this tag has advanced by good data of the payload (bytes to skip, length) or
    /// has failed.
    Taken(u16, Option<(u32, u32)>),
}

/// All tags of a requester. The first of them, if so built, are taken by number only.
#[derive(Debug)]
pub struct Tags<T> {
    tags: Vec<Tag<T>>,
    /// Free tags and the earliest time to take each, the longest unused first.
    free: VecDeque<(u16, u64)>,
    /// Number of tags that are taken by number.
    numbered: u16,
    /// Wire numbers of one round of all tags: a power of two, so that the low bits of a wire number
    /// are the tag.
    numbers: u16,
    /// Rounds in the range of the wire.
    turns: u16,
    /// Most credits of completions that may still come.
    to_come: CompletionCredits,
}

impl<T: Copy + Default> Tags<T> {
    /// Creates `numbered` tags that are taken by number, and `count` others.
    pub fn new(numbered: u16, count: u16) -> Self {
        let all = numbered + count;
        let numbers = all.next_power_of_two();
        let turns = (EXTENDED_TAGS / numbers).max(1);
        // The first use has turn 0.
        let unused = Tag { turn: turns - 1, ..Tag::default() };
        let free = (numbered..all).map(|tag| (tag, 0)).collect();
        let to_come = CompletionCredits::default();
        Self { tags: vec![unused; usize::from(all)], free, numbered, numbers, turns, to_come }
    }

    /// Returns the state of a tag.
    pub fn get(&self, tag: u16) -> &Tag<T> {
        &self.tags[usize::from(tag)]
    }

    /// Returns the state of a tag, to change it.
    pub fn get_mut(&mut self, tag: u16) -> &mut Tag<T> {
        &mut self.tags[usize::from(tag)]
    }

    /// Returns all tags.
    pub fn iter(&self) -> impl Iterator<Item = &Tag<T>> {
        self.tags.iter()
    }

    /// Returns when a tag is free; `u64::MAX` if no time is known.
    pub fn free_ps(&self) -> u64 {
        self.free.front().map_or(u64::MAX, |(_, from_ps)| *from_ps)
    }

    /// Returns the number of tags.
    pub fn count(&self) -> u16 {
        self.tags.len() as u16
    }

    /// Returns the number of tags that are not free.
    pub fn in_use(&self) -> usize {
        self.tags.iter().filter(|tag| tag.state != TagState::Free).count()
    }

    /// Returns the most credits of completions that may still come for all reads, those given up
    /// and those that timed out included.
    pub fn to_come(&self) -> CompletionCredits {
        self.to_come
    }

    /// Returns the tag in a request on the wire.
    pub fn on_the_wire(&self, tag: u16) -> WireTag {
        WireTag(tag + self.get(tag).turn * self.numbers)
    }

    /// Takes the tag that has been free longest. One must be free.
    pub fn take(&mut self, purpose: T, address: u64, bytes: u32, deadline_ps: u64) -> u16 {
        let (tag, _) = self.free.pop_front().expect("a tag is free: it was looked for before");
        self.begin(tag, purpose, address, bytes, deadline_ps);
        tag
    }

    /// Begins a read with a free tag.
    pub fn begin(&mut self, tag: u16, purpose: T, address: u64, bytes: u32, deadline_ps: u64) {
        let turn = (self.get(tag).turn + 1) % self.turns;
        let state = self.get(tag).state;
        assert!(state == TagState::Free, "tag {tag} is taken for {bytes} B, and is {state:?}");
        let state = TagState::Waiting;
        let read = Tag { state, purpose, address, bytes, deadline_ps, turn, ..Tag::default() };
        self.to_come.change(CompletionCredits::default(), read.to_come());
        *self.get_mut(tag) = read;
    }

    /// Returns a tag whose read has ended. It may be taken again from `from_ps`.
    pub fn give_back(&mut self, tag: u16, from_ps: u64) {
        let before = std::mem::replace(&mut self.get_mut(tag).state, TagState::Free);
        assert!(before != TagState::Free, "tag {tag} is given back twice");
        if tag >= self.numbered {
            self.free.push_back((tag, from_ps));
            let (free, all) = (self.free.len(), self.tags.len() - usize::from(self.numbered));
            assert!(free <= all, "{free} tags are free, of {all}");
        }
    }

    /// Gives up the read of a tag.
    pub fn abandon(&mut self, tag: u16) {
        match self.get(tag).state {
            TagState::Waiting => self.get_mut(tag).state = TagState::Orphan,
            TagState::Answered => self.give_back(tag, 0),
            TagState::Free | TagState::Orphan | TagState::Quarantine => {}
        }
    }

    /// Gives up the reads for which `is_meant` returns true.
    pub fn abandon_all(&mut self, is_meant: impl Fn(&T) -> bool) {
        for tag in self
            .tags
            .iter_mut()
            .filter(|tag| tag.state == TagState::Waiting && is_meant(&tag.purpose))
        {
            tag.state = TagState::Orphan;
        }
    }

    /// Takes a completion. The byte count gives its position, relative to the end of the read.
    /// Refusals end a read; a completion that does not fit leaves it to its time-out.
    pub fn complete(&mut self, header: &Header) -> Answered<T> {
        let tag = header.tag.0 % self.numbers;
        if usize::from(tag) >= self.tags.len() || self.on_the_wire(tag) != header.tag {
            return Answered::Unexpected;
        }
        let read = self.get_mut(tag);
        match read.state {
            TagState::Free | TagState::Answered => return Answered::Unexpected,
            TagState::Quarantine => return Answered::Dropped(None),
            TagState::Waiting | TagState::Orphan => {}
        }
        let before = read.to_come();
        let error = read.error_of(header);
        let (skip, bytes) = read.part_of(header);
        let ends = match error {
            Some(ReadError::Malformed) => false,
            Some(ReadError::UnsupportedRequest | ReadError::CompleterAbort) => true,
            _ => {
                read.received += bytes;
                read.received == read.bytes
            }
        };
        let is_within = read.good <= read.received && read.received <= read.bytes;
        assert!(is_within, "{bytes} B more for tag {tag}, of {} B", read.bytes);
        read.error = read.error.or(error);
        let is_good = read.error.is_none();
        if is_good {
            read.good = read.received;
        }
        let is_orphan = read.state == TagState::Orphan;
        let purpose = read.purpose;
        if ends {
            read.state = TagState::Answered;
        }
        let after = read.to_come();
        self.to_come.change(before, after);
        if is_orphan {
            if ends {
                self.give_back(tag, 0);
            }
            return Answered::Dropped(ends.then_some(purpose));
        }
        Answered::Taken(tag, is_good.then_some((skip, bytes)))
    }

    /// Times out overdue reads and calls `expired` for each with its tag on the wire. Keeps tags
    /// out of use for another time-out, and longer where `keeps` says so. Returns the time of the
    /// next check.
    pub fn time_out(
        &mut self,
        now_ps: u64,
        timeout_ps: u64,
        keeps: impl Fn(&T) -> bool,
        mut expired: impl FnMut(WireTag, &Tag<T>),
    ) -> Option<u64> {
        for number in 0..self.tags.len() as u16 {
            let wire_tag = self.on_the_wire(number);
            let read = self.get_mut(number);
            if read.deadline_ps > now_ps {
                continue;
            }
            match read.state {
                TagState::Waiting | TagState::Orphan => {
                    if read.state == TagState::Waiting {
                        read.error.get_or_insert(ReadError::TimedOut);
                    }
                    expired(wire_tag, read);
                    read.state = TagState::Quarantine;
                    read.deadline_ps = now_ps + timeout_ps;
                }
                TagState::Quarantine if keeps(&read.purpose) => {
                    read.deadline_ps = now_ps + timeout_ps
                }
                TagState::Quarantine => {
                    let before = read.to_come();
                    self.to_come.change(before, CompletionCredits::default());
                    self.give_back(number, 0);
                }
                TagState::Free | TagState::Answered => {}
            }
        }
        let all = self.tags.len() - usize::from(self.numbered);
        let others = self.tags.iter().skip(usize::from(self.numbered));
        let (used, free) =
            (others.filter(|tag| tag.state != TagState::Free).count(), self.free.len());
        assert!(free + used == all, "of {all} tags {used} are in use and {free} free");
        let mut to_come = CompletionCredits::default();
        for tag in &self.tags {
            to_come.change(CompletionCredits::default(), tag.to_come());
        }
        assert!(to_come == self.to_come, "{:?} are counted, of {to_come:?}", self.to_come);
        let open = self
            .tags
            .iter()
            .filter(|tag| !matches!(tag.state, TagState::Free | TagState::Answered));
        open.map(|tag| tag.deadline_ps).min()
    }

    /// Drops all reads in flight, whose completions are lost, and calls `lost` for each.
    pub fn lose_all(&mut self, deadline_ps: u64, mut lost: impl FnMut(&T)) {
        for tag in &mut self.tags {
            if tag.is_open() {
                (tag.state, tag.deadline_ps) = (TagState::Quarantine, deadline_ps);
                lost(&tag.purpose);
            }
        }
    }
}

impl<T> Tag<T> {
    /// Returns the part of the read that a valid completion carries: bytes to skip in the payload's
    /// first double word, and length.
    fn part_of(&self, header: &Header) -> (u32, u32) {
        let skip = self.address.wrapping_add(u64::from(self.received)) as u32 & 3;
        let left = self.bytes - self.received;
        (skip, header.payload_bytes().saturating_sub(skip).min(left))
    }

    /// Returns the error of a completion, if any (PCIe 6.x 2.3.2; in order within a read: 2.4.1).
    fn error_of(&self, header: &Header) -> Option<ReadError> {
        match header.status {
            CompletionStatus::UnsupportedRequest => return Some(ReadError::UnsupportedRequest),
            CompletionStatus::CompleterAbort => return Some(ReadError::CompleterAbort),
            // Only configuration requests may get this status.
            CompletionStatus::ConfigurationRetry => return Some(ReadError::Malformed),
            CompletionStatus::Successful => {}
        }
        // A byte count of 0 means 4096.
        let count = if header.byte_count == 0 { 4096 } else { u32::from(header.byte_count) };
        let left = self.bytes - self.received;
        let (skip, bytes) = self.part_of(header);
        let address = self.address.wrapping_add(u64::from(self.received));
        // Only the last completion may end off a read completion boundary.
        let end = address.wrapping_add(u64::from(bytes));
        let is_cut = bytes == left || end % READ_COMPLETION_BOUNDARY_BYTES == 0;
        let fits = count == left
            && header.payload_bytes() > 0
            // Not a double word more than what is left takes.
            && header.payload_bytes() == (skip + bytes).next_multiple_of(4)
            && header.address.0 & 0x7f == address & 0x7f
            && is_cut;
        // The answer to a flush counts a byte that it does not have.
        if header.kind != TlpKind::CompletionData || !(fits || self.bytes == 0) {
            return Some(ReadError::Malformed);
        }
        header.poisoned.then_some(ReadError::Poisoned)
    }
}
