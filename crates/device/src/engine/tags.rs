// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tags of the channels' reads, and the staging memory reserved with each, where completions are
//! reassembled.

use crosslane_pcie::tlp::Header;
use crosslane_regs::engine::ChannelError;
use crosslane_regs::ring_descriptor;

use crate::kit::{self, Answered, ReadError, TagState};
use crate::parameters::{EngineParameters, FETCH_TAGS};

/// Read of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    /// Channel that issued the read.
    pub channel: usize,
    /// Bytes that have entered the stream.
    pub delivered: u32,
    /// Whether the tag is still in its channel's queue.
    in_line: bool,
    /// Free descriptor tags: earliest time of reuse.
    free_ps: u64,
}

pub(super) type Tag = kit::Tag<Read>;

impl Tag {
    /// Whether it is answered, and all data have arrived good.
    pub fn is_whole(&self) -> bool {
        self.state == TagState::Answered && self.good == self.bytes
    }

    /// Returns the error of the byte after the good ones.
    pub fn channel_error(&self) -> Option<ChannelError> {
        self.error.map(|error| match error {
            ReadError::UnsupportedRequest => ChannelError::UnsupportedRequest,
            ReadError::CompleterAbort => ChannelError::CompleterAbort,
            ReadError::Malformed => ChannelError::MalformedCompletion,
            ReadError::Poisoned => ChannelError::Poisoned,
            ReadError::TimedOut => ChannelError::CompletionTimeout,
        })
    }
}

/// All tags: first those for descriptors, by channel, then those for data.
pub(super) struct Tags {
    pub table: kit::Tags<Read>,
    /// Number of descriptor tags, which come first.
    fetch_tags: u16,
    /// Descriptor tag that each channel used last, counted from its first.
    fetch_turns: Vec<u16>,
    read_bytes: usize,
    fetch_bytes: usize,
    /// Empty until the first read.
    staging: Vec<u8>,
}

impl Tags {
    pub fn new(p: &EngineParameters) -> Self {
        let fetch_tags = p.channels() * FETCH_TAGS;
        let read_bytes = p.max_read_bytes as usize;
        let fetch_bytes = usize::from(p.fetch_batch) * ring_descriptor::BYTES as usize;
        Self {
            table: kit::Tags::new(fetch_tags, p.tags),
            fetch_tags,
            fetch_turns: vec![FETCH_TAGS - 1; usize::from(p.channels())],
            read_bytes,
            fetch_bytes,
            staging: Vec::new(),
        }
    }

    pub fn get(&self, tag: u16) -> &Tag {
        self.table.get(tag)
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
        let tag = turn.find(|tag| self.get(*tag).state == TagState::Free)?;
        Some((tag, self.get(tag).purpose.free_ps))
    }

    /// Begins a read with a descriptor tag, or with a data tag if none is given. A data tag must be
    /// free.
    pub fn begin(
        &mut self,
        tag: Option<u16>,
        channel: usize,
        address: u64,
        bytes: u32,
        deadline_ps: u64,
    ) -> u16 {
        let room = if tag.is_none() { self.read_bytes } else { self.fetch_bytes };
        assert!(bytes > 0 && bytes as usize <= room, "a read of {bytes} B for a tag of {room} B");
        self.staging.resize(self.place(self.table.count()), 0);
        let read = Read { channel, in_line: true, ..Read::default() };
        let Some(tag) = tag else { return self.table.take(read, address, bytes, deadline_ps) };
        self.fetch_turns[channel] = tag % FETCH_TAGS;
        self.table.begin(tag, read, address, bytes, deadline_ps);
        tag
    }

    /// Returns a tag whose read is fully answered and taken. It may be reused from `from_ps`.
    pub fn give_back(&mut self, tag: u16, from_ps: u64) {
        self.table.get_mut(tag).purpose.free_ps = from_ps;
        self.table.give_back(tag, from_ps);
    }

    /// Gives up the read of a tag on behalf of its channel.
    pub fn abandon(&mut self, tag: u16) {
        let slot = self.table.get_mut(tag);
        assert!(slot.purpose.in_line, "tag {tag} is given up twice: {slot:?}");
        slot.purpose.in_line = false;
        self.table.abandon(tag);
    }

    /// Returns the number of reads waiting for completions, including those given up.
    pub fn waiting(&self) -> usize {
        self.table.iter().filter(|tag| tag.is_open()).count()
    }

    /// Returns the number of a channel's reads that wait for completions.
    pub fn waiting_of(&self, channel: usize) -> usize {
        let waits = |tag: &&Tag| tag.state == TagState::Waiting && tag.purpose.channel == channel;
        self.table.iter().filter(waits).count()
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
        assert!(slot.state != TagState::Free, "data of tag {tag} are taken, which is free");
        assert!(from <= slot.good, "data of tag {tag} are taken from {from} on: {slot:?}");
        &self.staging[at + from as usize..at + slot.good as usize]
    }

    /// Takes a completion, and its data into the staging memory.
    pub fn complete(&mut self, header: &Header, payload: &[u8]) -> Answered<Read> {
        let answered = self.table.complete(header);
        if let Answered::Taken(tag, Some((skip, bytes))) = answered {
            let end = self.place(tag) + self.get(tag).good as usize;
            let data = &payload[skip as usize..(skip + bytes) as usize];
            self.staging[end - data.len()..end].copy_from_slice(data);
        }
        answered
    }

    /// Times out overdue reads and calls `expired` for each one still wanted, with its tag on the
    /// wire. Returns the time of the next check.
    pub fn time_out(
        &mut self,
        now_ps: u64,
        timeout_ps: u64,
        mut expired: impl FnMut(u16, usize),
    ) -> Option<u64> {
        // A channel that has not reached the tag keeps it.
        self.table.time_out(
            now_ps,
            timeout_ps,
            |read| read.in_line,
            |tag, slot| {
                if slot.state == TagState::Waiting {
                    expired(tag.0, slot.purpose.channel);
                }
            },
        )
    }
}
