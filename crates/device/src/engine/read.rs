// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of host memory: tags, the staging memory reserved with each, where completions are
//! reassembled, and the passage of H2C data into the stream, in order.

use crosslane_fabric::{DevicePort, ErrorKind};
use crosslane_pcie::link::PAGE_BYTES;
use crosslane_pcie::tlp::{CompletionStatus, Header};
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::channel::control;
use crosslane_regs::engine::{ChannelError, StreamSource};
use crosslane_regs::ring_descriptor;

use super::Engine;
use super::channel::{Current, Fault, Kind};
use super::lanes::Payload;
use crate::kit::{self, Answered, ReadError, TagState, part_bytes, report_unexpected};
use crate::parameters::{EngineParameters, FETCH_TAGS};

/// Clocks from a completion's last data until the gateware counts its space in the receive buffer
/// as free.
const BUFFER_CLOCKS: u32 = 4;

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

    /// Returns the number of a channel's reads that wait for completions, with those given up if
    /// `with_orphans`.
    pub fn waiting_of(&self, channel: usize, with_orphans: bool) -> usize {
        let waits = |tag: &&Tag| {
            let is_open = if with_orphans { tag.is_open() } else { tag.state == TagState::Waiting };
            is_open && tag.purpose.channel == channel
        };
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

impl Engine {
    /// Returns the length of an H2C channel's next read.
    fn next_read_bytes(&self, index: usize, current: &Current) -> u32 {
        let address = current.descriptor.address.wrapping_add(u64::from(current.built));
        let left = current.descriptor.bytes - current.built;
        let left = left.min(self.left_of_copy(index, current));
        part_bytes(address, left.into(), self.channels[index].limit_bytes)
    }

    /// Returns when an H2C channel may send its next read: when a tag is free, the staging memory
    /// has room for a longest read, and a copier in turn has its earlier data in the card's memory.
    /// A read's room stays reserved until its data have been taken. The link core's receive buffer
    /// must take its completions, too. `u64::MAX` if no time is known.
    pub(super) fn reads_ps(&self, index: usize, current: &Current) -> u64 {
        let channel = &self.channels[index];
        let p = &self.parameters;
        let untaken = if channel.number == 0 { self.stream.length() } else { 0 };
        let reserved = channel.unread_bytes + untaken + p.max_read_bytes;
        let Some(room) = p.staging_bytes.checked_sub(reserved) else { return u64::MAX };
        // Data being drained may overlap with this much room.
        let clocks = room / p.datapath_bytes;
        let room_ps = channel.drained_ps.saturating_sub(p.clocks_ps(clocks));
        let ps = room_ps.max(self.tags.table.free_ps()).max(self.copies_ps(index, current));
        ps.max(self.completions_ps())
    }

    /// Returns when the receive buffer of the link core has room for the completions of any read
    /// beside those that may still come. `u64::MAX` if no time is known.
    pub(super) fn completions_ps(&self) -> u64 {
        if self.completions_fit() { self.buffer_room_ps } else { u64::MAX }
    }

    /// Notes whether the receive buffer has room again.
    fn note_buffer_room(&mut self, was_full: bool, now_ps: u64) {
        if was_full && self.completions_fit() {
            self.buffer_room_ps = now_ps + self.parameters.clocks_ps(BUFFER_CLOCKS);
        }
    }

    fn completions_fit(&self) -> bool {
        let (p, taken) = (&self.parameters, self.tags.table.to_come());
        let longest = p.longest_read_credits();
        taken.headers + longest.headers <= p.completion_header_credits
            && taken.data + longest.data <= p.completion_data_credits
    }

    /// Asserts that the next TLP lies within its descriptor and a page of 4 KiB, and obeys the
    /// function's limit unless the host permits longer ones.
    pub(super) fn assert_fits(
        &self,
        index: usize,
        current: &Current,
        address: u64,
        bytes: u32,
        allowed_bytes: u32,
    ) {
        let left = current.descriptor.bytes - current.built;
        assert!(
            bytes > 0 && bytes <= left,
            "a TLP of {bytes} B, and {left} B are left: {current:?}"
        );
        let in_page = address % PAGE_BYTES + u64::from(bytes);
        assert!(in_page <= PAGE_BYTES, "{bytes} B at {address:#x} cross a boundary of 4 KiB");
        let is_allowed = self.channels[index].control(control::OVERSIZE) != 0;
        assert!(
            is_allowed || bytes <= allowed_bytes,
            "a TLP of {bytes} B, and the function is set to {allowed_bytes} B"
        );
    }

    /// Sends the next read of an H2C channel.
    pub(super) fn build_read(&mut self, index: usize, port: &mut DevicePort<'_>) {
        let Some(mut current) = self.channels[index].current else { return };
        let bytes = self.next_read_bytes(index, &current);
        let address = current.descriptor.address.wrapping_add(u64::from(current.built));
        self.assert_fits(index, &current, address, bytes, self.function.max_read_request_bytes);
        current.built += bytes;
        let channel = &mut self.channels[index];
        channel.current = Some(current);
        channel.unread_bytes += bytes;
        let untaken = if channel.number == 0 { self.stream.length() } else { 0 };
        let (reserved, room) = (channel.unread_bytes + untaken, self.parameters.staging_bytes);
        assert!(reserved <= room, "{reserved} B are staged or on their way, in {room} B");
        let ends = current.built == current.descriptor.bytes;
        let relaxed = channel.control(control::RELAXED_ORDERING) != 0;
        let now_ps = port.now_ps();
        let deadline_ps = now_ps + self.parameters.completion_timeout.0;
        let tag = self.tags.begin(None, index, address, bytes, deadline_ps);
        let channel = &mut self.channels[index];
        channel.reads.push_back(tag);
        let id = port.routing_id();
        let mut header =
            Header::memory_read(id, self.tags.table.on_the_wire(tag), BusAddress(address), bytes);
        header.attributes.relaxed_ordering = relaxed && self.function.relaxed_ordering;
        self.time_outs.at(deadline_ps, port);
        self.send(header, port, |_| {});
        let channel = &mut self.channels[index];
        // The last time is the arrival of the last data.
        channel.note_tlp(now_ps, 0);
        if ends {
            channel.current = None;
            channel.begin_gap(self.engine_free_ps, self.parameters.descriptor_gap.0);
        }
    }

    /// Handles the earliest deadline.
    pub(super) fn time_out(&mut self, port: &mut DevicePort<'_>) {
        let timeout = self.parameters.completion_timeout;
        let now_ps = port.now_ps();
        let mut waiting = Vec::new();
        let was_full = !self.completions_fit();
        let next = self.tags.time_out(now_ps, timeout.0, |tag, channel| {
            port.report(ErrorKind::CompletionTimeout { tag, timeout });
            waiting.push(channel);
        });
        self.note_buffer_room(was_full, now_ps);
        self.time_outs.reset();
        if let Some(next_ps) = next {
            self.time_outs.at(next_ps, port);
        }
        for channel in waiting {
            self.advance_reads(channel, now_ps);
        }
        // The time-out may also have freed tags.
        self.wake = true;
        self.go_on(port);
    }

    pub(super) fn take_completion(
        &mut self,
        header: &Header,
        payload: Payload<'_>,
        port: &mut DevicePort<'_>,
    ) {
        let was_full = !self.completions_fit();
        let answered = if header.requester == port.routing_id() {
            self.tags.complete(header, payload.bytes(port))
        } else {
            Answered::Unexpected
        };
        self.note_buffer_room(was_full, port.now_ps());
        match answered {
            Answered::Unexpected => report_unexpected(header, port),
            // An orphan's tag may have become free.
            Answered::Dropped(_) => self.wake = true,
            Answered::Taken(tag, _) => {
                let slot = *self.tags.get(tag);
                if slot.error.is_some() {
                    report_refusal(header, slot.address, slot.bytes, port);
                } else if self.tags.is_for_data(tag) {
                    self.channels[slot.purpose.channel].note_data(port.now_ps());
                }
                self.advance_reads(slot.purpose.channel, port.now_ps());
                self.wake = true;
            }
        }
    }

    /// Passes on a channel's arrived descriptors, and its data in order.
    pub(super) fn advance_reads(&mut self, index: usize, now_ps: u64) {
        self.take_descriptors(index, now_ps);
        self.deliver(index, now_ps);
    }

    /// Whether the stream of an H2C channel feeds a channel and is not just drained.
    pub(super) fn stream_is_routed(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        channel.number == 0 && self.user.feeds(StreamSource::H2c) && !self.in_memory(index)
    }

    /// Moves data that have arrived in order into the stream: frees their tags and completes their
    /// descriptors, whether or not the data are taken.
    pub(super) fn deliver(&mut self, index: usize, now_ps: u64) {
        if self.channels[index].kind != Kind::H2c {
            return;
        }
        let in_memory = self.in_memory(index);
        let is_routed = self.stream_is_routed(index);
        let is_checked = self.channels[index].number == 0;
        let seen_ps = now_ps + self.parameters.drain_ps();
        while let Some(tag) = self.channels[index].reads.front().copied() {
            let slot = *self.tags.get(tag);
            let owner = slot.purpose.channel;
            assert!(
                owner == index,
                "channel {index} waits for tag {tag}, which channel {owner} has"
            );
            let data = self.tags.data(tag, slot.purpose.delivered);
            let bytes = data.len() as u32;
            if let Some(board) = self.board.as_mut().filter(|_| in_memory) {
                if board.has_failed() {
                    return;
                }
                board.take_in(data, now_ps);
            } else if is_routed {
                self.stream.push(data, now_ps);
                self.ends.enter(bytes);
            } else {
                if is_checked {
                    self.user.h2c_check.check(data);
                }
                let p = &self.parameters;
                let clocks = bytes.div_ceil(p.datapath_bytes);
                let channel = &mut self.channels[index];
                let begin_ps = channel.drained_ps.max(seen_ps);
                channel.drained_ps = begin_ps + p.clocks_ps(clocks);
            }
            self.tags.table.get_mut(tag).purpose.delivered += bytes;
            // Data for memory are delivered once they are there.
            if !in_memory {
                self.note_delivered(index, bytes, now_ps);
            }
            if let Some(error) = slot.channel_error() {
                let address = slot.address.wrapping_add(u64::from(slot.good));
                let fault = Fault { error, address };
                match self.board.as_mut().filter(|_| in_memory) {
                    Some(board) => board.fail(fault, now_ps),
                    None => self.stop(index, fault, now_ps),
                }
                return;
            }
            if !slot.is_whole() {
                return;
            }
            self.channels[index].reads.pop_front();
            self.tags.give_back(tag, seen_ps);
        }
    }

    /// Counts delivered bytes and completes descriptors that are delivered whole.
    pub(super) fn note_delivered(&mut self, index: usize, bytes: u32, now_ps: u64) {
        let channel = &mut self.channels[index];
        channel.counters.bytes += u64::from(bytes);
        let unread = channel.unread_bytes;
        assert!(bytes <= unread, "{bytes} B are delivered, of {unread} B that are on their way");
        channel.unread_bytes -= bytes;
        let from_ps = now_ps + self.parameters.clocks_ps(self.parameters.stream_latency_clocks);
        let mut left = bytes;
        while left > 0 {
            let channel = &mut self.channels[index];
            let front = channel.reading.front_mut();
            let front = front.unwrap_or_else(|| panic!("{left} of {bytes} B are of no descriptor"));
            let part = left.min(front.bytes - front.delivered);
            front.delivered += part;
            left -= part;
            if front.delivered == front.bytes {
                let bits = front.control;
                channel.reading.pop_front();
                channel.complete(bits, from_ps);
                self.descriptor_delivered(index, bits, left);
            }
        }
    }

    /// Stops a channel and gives up its tags.
    pub(super) fn stop(&mut self, index: usize, fault: Fault, now_ps: u64) {
        self.give_up_tags(index);
        self.channels[index].stop(fault);
        self.settle_running(index);
        self.forget_memory(index);
        self.command_stopped(index);
        self.channels[index].note_wait(None, now_ps, now_ps);
        self.wake = true;
    }

    /// Notes whether a channel is running.
    pub(super) fn settle_running(&mut self, index: usize) {
        let is_running = self.channels[index].is_running();
        self.running = self.running & !(1 << index) | u32::from(is_running) << index;
    }

    /// Returns the number of a channel's reads in flight. One that has stopped has given them up,
    /// but they still reach memory: whoever gives that back waits for their end.
    pub(super) fn in_flight(&self, index: usize) -> usize {
        self.tags.waiting_of(index, self.channels[index].is_stopped())
    }

    /// Gives up the reads of a channel that are in flight.
    pub(super) fn give_up_tags(&mut self, index: usize) {
        let channel = &self.channels[index];
        for tag in channel.reads.iter().chain(&channel.fetches) {
            self.tags.abandon(*tag);
        }
    }
}

/// Reports a refused or bad completion.
fn report_refusal(header: &Header, address: u64, bytes: u32, port: &mut DevicePort<'_>) {
    let status = match header.status {
        CompletionStatus::UnsupportedRequest => "Unsupported Request",
        CompletionStatus::CompleterAbort => "Completer Abort",
        _ if header.poisoned => "poisoned data",
        _ => "a completion that does not fit",
    };
    port.report(ErrorKind::ReadRefused { address: BusAddress(address), bytes, status });
}
