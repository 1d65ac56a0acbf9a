// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tags and the staging memory reserved with each, where completions are reassembled.

use std::collections::VecDeque;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Tag as WireTag;
use crosslane_regs::engine::ChannelError;
use crosslane_regs::ring_descriptor;

use crate::parameters::{EngineParameters, FETCH_TAGS};

/// Tags available to every requester once extended tags are enabled: eight bits (PCIe 6.x 2.2.6.2).
const EXTENDED_TAGS: u16 = 256;

/// State of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// Its read is waiting for completions.
    Waiting,
    /// Its read is fully answered; the data wait to be taken.
    Answered,
    /// Its read was given up; further completions are dropped.
    Orphan,
    /// Timed out. Unusable until its deadline.
    Quarantine,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tag {
    state: State,
    /// Channel that issued the read.
    pub channel: usize,
    pub address: u64,
    pub bytes: u32,
    /// Bytes answered so far, good or bad.
    received: u32,
    /// Good bytes from the start of the read.
    pub good: u32,
    /// Bytes that have entered the stream.
    pub delivered: u32,
    /// Error of the byte after the good ones.
    pub error: Option<ChannelError>,
    /// Whether the tag is still in its channel's queue.
    in_line: bool,
    deadline_ps: u64,
    /// Free descriptor tags: earliest time of reuse.
    free_ps: u64,
    /// Number of uses, modulo `turns`.
    turn: u16,
}

impl Tag {
    /// Whether all data have arrived good.
    pub fn is_whole(&self) -> bool {
        self.good == self.bytes
    }
}

/// Effect of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// No read is waiting for it.
    Unexpected,
    /// The read was given up.
    Dropped,
    /// The state of this tag's channel has changed.
    Taken,
}

/// All tags: first those for descriptors, by channel, then those for data.
pub(super) struct Tags {
    tags: Vec<Tag>,
    /// Free data tags and the earliest time to take each, the longest unused first.
    free: VecDeque<(u16, u64)>,
    /// Number of descriptor tags, which come first.
    fetch_tags: u16,
    /// Descriptor tag that each channel used last, counted from its first.
    fetch_turns: Vec<u16>,
    /// Wire numbers of one round of all tags: a power of two, so that the low bits of a wire number
    /// are the tag.
    numbers: u16,
    /// Rounds in the range of the wire.
    turns: u16,
    read_bytes: usize,
    fetch_bytes: usize,
    staging: Vec<u8>,
}

impl Tags {
    pub fn new(p: &EngineParameters) -> Self {
        let fetch_tags = p.channels() * FETCH_TAGS;
        let read_bytes = p.max_read_bytes as usize;
        let fetch_bytes = usize::from(p.fetch_batch) * ring_descriptor::BYTES as usize;
        let count = fetch_tags + p.tags;
        let numbers = count.next_power_of_two();
        let turns = (EXTENDED_TAGS / numbers).max(1);
        let staging_bytes =
            usize::from(fetch_tags) * fetch_bytes + usize::from(p.tags) * read_bytes;
        // The first use has turn 0.
        let unused = Tag { turn: turns - 1, ..Tag::default() };
        Self {
            turns,
            numbers,
            tags: vec![unused; usize::from(count)],
            free: (fetch_tags..count).map(|tag| (tag, 0)).collect(),
            fetch_tags,
            fetch_turns: vec![FETCH_TAGS - 1; usize::from(p.channels())],
            read_bytes,
            fetch_bytes,
            staging: vec![0; staging_bytes],
        }
    }

    pub fn get(&self, tag: u16) -> &Tag {
        &self.tags[usize::from(tag)]
    }

    pub fn get_mut(&mut self, tag: u16) -> &mut Tag {
        &mut self.tags[usize::from(tag)]
    }

    /// Returns when a data tag is free; `u64::MAX` if no time is known.
    pub fn free_ps(&self) -> u64 {
        self.free.front().map_or(u64::MAX, |(_, from_ps)| *from_ps)
    }

    pub fn is_for_data(&self, tag: u16) -> bool {
        tag >= self.fetch_tags
    }

    /// Returns a free descriptor tag of a channel, and the earliest time to take it.
    pub fn free_fetch_tag(&self, channel: usize) -> Option<(u16, u64)> {
        let first = channel as u16 * FETCH_TAGS;
        // In turn, as with data tags: a returned tag rests longest.
        let last = self.fetch_turns[channel];
        let mut turn = (1..=FETCH_TAGS).map(|ahead| first + (last + ahead) % FETCH_TAGS);
        let tag = turn.find(|tag| self.get(*tag).state == State::Free)?;
        Some((tag, self.get(tag).free_ps))
    }

    /// Returns the tag in a request on the wire. It includes the number of uses, as far as eight
    /// bits allow, so that a duplicate completion is not taken for the answer of the tag's next
    /// read.
    pub fn on_the_wire(&self, tag: u16) -> WireTag {
        WireTag(tag + self.get(tag).turn * self.numbers)
    }

    /// Returns the tag of a completion if the completion answers its current read.
    pub fn of_completion(&self, header: &Header) -> Option<u16> {
        let tag = header.tag.0 % self.numbers;
        let is_one = usize::from(tag) < self.tags.len();
        (is_one && self.on_the_wire(tag) == header.tag).then_some(tag)
    }

    /// Takes a data tag for a read. A data tag must be free.
    pub fn take(&mut self, channel: usize, address: u64, bytes: u32, deadline_ps: u64) -> u16 {
        let (tag, _) = self.free.pop_front().expect("free_ps was asked before");
        self.begin(tag, channel, address, bytes, deadline_ps);
        tag
    }

    /// Begins a read with a free tag.
    pub fn begin(&mut self, tag: u16, channel: usize, address: u64, bytes: u32, deadline_ps: u64) {
        let turn = (self.get(tag).turn + 1) % self.turns;
        let state = self.get(tag).state;
        assert!(state == State::Free, "tag {tag} is taken for {bytes} B, and is {state:?}");
        let room = if self.is_for_data(tag) { self.read_bytes } else { self.fetch_bytes };
        assert!(bytes > 0 && bytes as usize <= room, "{bytes} B for tag {tag} of {room} B");
        if !self.is_for_data(tag) {
            self.fetch_turns[channel] = tag % FETCH_TAGS;
        }
        *self.get_mut(tag) = Tag {
            state: State::Waiting,
            channel,
            address,
            bytes,
            in_line: true,
            deadline_ps,
            turn,
            ..Tag::default()
        };
    }

    /// Returns a tag whose read is fully answered and taken. It may be reused from `from_ps`.
    pub fn give_back(&mut self, tag: u16, from_ps: u64) {
        let slot = self.get_mut(tag);
        assert!(slot.state != State::Free, "tag {tag} is given back twice: {slot:?}");
        (slot.state, slot.free_ps) = (State::Free, from_ps);
        if self.is_for_data(tag) {
            self.free.push_back((tag, from_ps));
            let (free, all) = (self.free.len(), self.tags.len() - usize::from(self.fetch_tags));
            assert!(free <= all, "{free} tags for data are free, of {all}");
        }
    }

    /// Gives up the read of a tag on behalf of its channel.
    pub fn abandon(&mut self, tag: u16) {
        let slot = self.get_mut(tag);
        assert!(slot.in_line, "tag {tag} is given up twice: {slot:?}");
        slot.in_line = false;
        match slot.state {
            State::Waiting => slot.state = State::Orphan,
            State::Answered => self.give_back(tag, 0),
            State::Free | State::Orphan | State::Quarantine => {}
        }
    }

    /// Whether the read is fully answered.
    pub fn is_answered(&self, tag: u16) -> bool {
        self.get(tag).state == State::Answered
    }

    /// Returns the number of tags that are not free.
    pub fn in_use(&self) -> usize {
        self.tags.iter().filter(|tag| tag.state != State::Free).count()
    }

    /// Returns the number of reads waiting for completions, including those given up.
    pub fn waiting(&self) -> usize {
        let waits = |tag: &&Tag| matches!(tag.state, State::Waiting | State::Orphan);
        self.tags.iter().filter(waits).count()
    }

    /// Returns the number of a channel's reads that wait for completions.
    pub fn waiting_of(&self, channel: usize) -> usize {
        let waits = |tag: &&Tag| tag.state == State::Waiting && tag.channel == channel;
        self.tags.iter().filter(waits).count()
    }

    /// Returns the offset of a tag's bytes in the staging memory.
    fn place(&self, tag: u16) -> usize {
        let (tag, fetch_tags) = (usize::from(tag), usize::from(self.fetch_tags));
        if tag < fetch_tags {
            tag * self.fetch_bytes
        } else {
            fetch_tags * self.fetch_bytes + (tag - fetch_tags) * self.read_bytes
        }
    }

    /// Returns the good bytes of a read, starting at `from`.
    pub fn data(&self, tag: u16, from: u32) -> &[u8] {
        let (at, slot) = (self.place(tag), self.get(tag));
        assert!(slot.state != State::Free, "data of tag {tag} are taken, which is free");
        assert!(from <= slot.good, "data of tag {tag} are taken from {from} on: {slot:?}");
        &self.staging[at + from as usize..at + slot.good as usize]
    }

    /// Takes a completion. The byte count gives its position, relative to the end of the read.
    pub fn complete(&mut self, header: &Header, payload: &[u8]) -> Answered {
        let Some(tag) = self.of_completion(header) else { return Answered::Unexpected };
        let slot = self.get_mut(tag);
        match slot.state {
            State::Free | State::Answered => return Answered::Unexpected,
            State::Quarantine => return Answered::Dropped,
            State::Waiting | State::Orphan => {}
        }
        let wrong = fault_of(slot, header);
        let (skip, bytes) = part_of(slot, header);
        let ends = match wrong {
            Some(ChannelError::MalformedCompletion) => false,
            Some(ChannelError::UnsupportedRequest | ChannelError::CompleterAbort) => true,
            _ => {
                slot.received += bytes;
                slot.received == slot.bytes
            }
        };
        let is_within = slot.good <= slot.received && slot.received <= slot.bytes;
        assert!(is_within, "{bytes} B more for tag {tag}: {slot:?}");
        let is_good = wrong.is_none() && slot.error.is_none();
        if slot.error.is_none() {
            slot.error = wrong;
        }
        if is_good {
            slot.good = slot.received;
        }
        if slot.state == State::Orphan {
            if ends {
                self.give_back(tag, 0);
            }
            return Answered::Dropped;
        }
        if ends {
            slot.state = State::Answered;
        }
        if is_good {
            let end = self.place(tag) + self.get(tag).good as usize;
            let data = &payload[skip as usize..(skip + bytes) as usize];
            self.staging[end - data.len()..end].copy_from_slice(data);
        }
        Answered::Taken
    }

    /// Times out overdue reads and calls `expired` for each one still wanted, with its tag on the
    /// wire. Returns the time of the next check.
    pub fn time_out(
        &mut self,
        now_ps: u64,
        timeout_ps: u64,
        mut expired: impl FnMut(u16, &Tag),
    ) -> Option<u64> {
        let numbers = self.numbers;
        for number in 0..self.tags.len() as u16 {
            let slot = self.get_mut(number);
            if slot.deadline_ps > now_ps {
                continue;
            }
            match slot.state {
                State::Waiting | State::Orphan => {
                    if slot.state == State::Waiting {
                        slot.error.get_or_insert(ChannelError::CompletionTimeout);
                        expired(number + slot.turn * numbers, slot);
                    }
                    slot.state = State::Quarantine;
                    slot.deadline_ps = now_ps + timeout_ps;
                }
                // A channel that has not reached the tag keeps it.
                State::Quarantine if slot.in_line => slot.deadline_ps = now_ps + timeout_ps,
                State::Quarantine => self.give_back(number, 0),
                State::Free | State::Answered => {}
            }
        }
        let all = self.tags.len() - usize::from(self.fetch_tags);
        let data = self.tags.iter().skip(usize::from(self.fetch_tags));
        let used = data.filter(|tag| tag.state != State::Free).count();
        let free = self.free.len();
        assert!(free + used == all, "of {all} tags for data {free} are free and {used} in use");
        let open = self
            .tags
            .iter()
            .filter(|tag| matches!(tag.state, State::Waiting | State::Orphan | State::Quarantine));
        open.map(|tag| tag.deadline_ps).min()
    }
}

/// Returns the part of a read that a valid completion carries: bytes to skip in the payload's first
/// double word, and length.
fn part_of(tag: &Tag, header: &Header) -> (u32, u32) {
    let skip = tag.address.wrapping_add(u64::from(tag.received)) as u32 & 3;
    let left = tag.bytes - tag.received;
    (skip, header.payload_bytes().saturating_sub(skip).min(left))
}

/// Returns the error of a completion, if any (PCIe 6.x 2.3.2; in order within a read: 2.4.1).
fn fault_of(tag: &Tag, header: &Header) -> Option<ChannelError> {
    match header.status {
        CompletionStatus::UnsupportedRequest => return Some(ChannelError::UnsupportedRequest),
        CompletionStatus::CompleterAbort => return Some(ChannelError::CompleterAbort),
        // Only configuration requests may get this status.
        CompletionStatus::ConfigurationRetry => return Some(ChannelError::MalformedCompletion),
        CompletionStatus::Successful => {}
    }
    // A byte count of 0 means 4096.
    let count = if header.byte_count == 0 { 4096 } else { u32::from(header.byte_count) };
    let left = tag.bytes - tag.received;
    let (skip, bytes) = part_of(tag, header);
    let address = tag.address.wrapping_add(u64::from(tag.received));
    let fits = header.kind == TlpKind::CompletionData
        && count == left
        && header.payload_bytes() > 0
        // Not a double word more than what is left takes.
        && header.payload_bytes() == (skip + bytes).next_multiple_of(4)
        && header.address.0 & 0x7f == address & 0x7f;
    // Only the last completion may end off a read completion boundary.
    let end = address.wrapping_add(u64::from(bytes));
    if !fits || (bytes < left && end % READ_COMPLETION_BOUNDARY_BYTES != 0) {
        return Some(ChannelError::MalformedCompletion);
    }
    header.poisoned.then_some(ChannelError::Poisoned)
}

/// Smallest read completion boundary (PCIe 6.x 2.3.1.1), bytes.
const READ_COMPLETION_BOUNDARY_BYTES: u64 = 64;
