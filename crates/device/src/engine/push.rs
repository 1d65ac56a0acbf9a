// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors that the host pushes with their doorbell, and data inline in them.
//! `docs/engine.md`, "Pushed descriptors".

use crosslane_pcie::tlp::Header;
use crosslane_regs::engine::{C2H, DescriptorSource, H2C, PEER};
use crosslane_regs::push_line::{self, control};
use crosslane_regs::ring_descriptor;

use super::Engine;
use super::channel::{Descriptor, Kind, Reading};
use super::descriptors::{wide, word};

/// BAR of the push aperture, if the engine has one.
pub const PUSH_BAR: usize = 4;
/// Least size of that BAR, bytes.
pub const PUSH_BYTES: u64 = 4096;
/// Bytes of a channel's line.
const LINE_BYTES: u64 = push_line::BYTES as u64;
/// Clocks before its first TLP in which a descriptor has been taken up, and is in the pipeline.
const PIPELINE_CLOCKS: u32 = 6;
/// Descriptors within such a block take one TLP, whatever the settings.
const SINGLE_BYTES: u64 = 128;
/// Most bytes of data in a line.
const INLINE_BYTES: usize = push_line::DATA.bytes as usize;

/// Data of a descriptor that has them in its line.
pub(super) type Inline = [u8; INLINE_BYTES];

/// Decodes a whole line: the descriptor, and its data if they are in the line.
fn decoded(line: &[u8]) -> (Descriptor, Option<Inline>) {
    use ring_descriptor::control::{AWAIT_CREDIT, INTERRUPT, STATUS};
    let bits = word(line, push_line::CONTROL);
    let actions = INTERRUPT.put(control::INTERRUPT.get(bits))
        | STATUS.put(control::STATUS.get(bits))
        | AWAIT_CREDIT.put(control::AWAIT_CREDIT.get(bits));
    let address = wide(word(line, push_line::ADDRESS_LOW), word(line, push_line::ADDRESS_HIGH));
    let bytes = control::BYTES.get(bits);
    let mut data = [0; INLINE_BYTES];
    let from = push_line::DATA.base as usize;
    data.copy_from_slice(&line[from..from + INLINE_BYTES]);
    let inline = (control::INLINE.get(bits) != 0).then_some(data);
    (Descriptor { address, card: 0, bytes, control: actions }, inline)
}

impl Engine {
    /// Whether a BAR is the push aperture.
    pub(super) fn is_push_aperture(&self, bar: usize) -> bool {
        bar == PUSH_BAR && self.parameters.push
    }

    /// Returns the channel that a line belongs to. Lines lie in the order of the registers.
    fn channel_of_line(&self, line: u64) -> Option<usize> {
        let mut first = 0;
        for (kind, array) in [(Kind::H2c, H2C), (Kind::C2h, C2H), (Kind::Peer, PEER)] {
            let count = u64::from(array.count);
            if let Some(number) = line.checked_sub(first).filter(|number| *number < count) {
                return self.find_channel(kind, number as usize);
            }
            first += count;
        }
        None
    }

    /// Takes a write into the push aperture: the next descriptor of a channel, or nothing.
    pub(super) fn take_push(&mut self, offset: u64, header: &Header, payload: &[u8], now_ps: u64) {
        let Some(index) = self.channel_of_line(offset / LINE_BYTES) else { return };
        let bytes = u64::from(header.request_bytes());
        let is_whole = offset.is_multiple_of(LINE_BYTES)
            && bytes == LINE_BYTES
            && payload.len() as u64 == LINE_BYTES
            && !header.poisoned;
        let takes = self.takes_pushes(index);
        let places = self.places(index);
        let in_pipeline = self.in_pipeline(index, now_ps);
        let channel = &mut self.channels[index];
        let posted = channel.doorbell.wrapping_add(1);
        if !takes || !is_whole || word(payload, push_line::POSTED) != posted {
            let counters = &mut channel.counters;
            counters.pushes_dropped = counters.pushes_dropped.wrapping_add(1);
            return;
        }
        // The ring has the descriptor, too: where it cannot be the next, the line is a doorbell.
        let has_room =
            places.is_some_and(|places| posted.wrapping_sub(channel.completed) <= places);
        let is_next = channel.posted() == in_pipeline && channel.fault.is_none() && has_room;
        let number = channel.doorbell;
        channel.post(posted, now_ps);
        channel.is_unchecked = true;
        if is_next {
            let (descriptor, inline) = decoded(payload);
            channel.waiting.push_back((descriptor, now_ps));
            channel.inline = inline.map(|data| (number, data));
            channel.requested = posted;
            channel.counters.pushed = channel.counters.pushed.wrapping_add(1);
        }
        self.wake = true;
    }

    /// Returns the number of descriptors that have been taken up and have not begun their first
    /// TLP.
    fn in_pipeline(&self, index: usize, now_ps: u64) -> u32 {
        let (channel, p) = (&self.channels[index], &self.parameters);
        if channel.current.is_some() {
            return 0;
        }
        let latency_ps = p.clocks_ps(p.request_latency_clocks.saturating_sub(PIPELINE_CLOCKS));
        let mut taken_up = 0;
        for (descriptor, since_ps) in &channel.waiting {
            let number = channel.begun.wrapping_add(taken_up);
            let is_inline = channel.inline.is_some_and(|(inline, _)| inline == number);
            if is_inline || since_ps + latency_ps > now_ps {
                break;
            }
            taken_up += 1;
            // One at a time is cut into TLPs.
            let place = descriptor.address % SINGLE_BYTES;
            if place + u64::from(descriptor.bytes) > SINGLE_BYTES {
                break;
            }
        }
        taken_up
    }

    /// Returns the time at which the data in the line of a channel's next descriptor have been put
    /// into the staging memory, a beat a clock.
    pub(super) fn inline_ps(&self, index: usize) -> Option<u64> {
        let (descriptor, since_ps) = self.channels[index].waiting.front()?;
        let beats = descriptor.bytes.min(INLINE_BYTES as u32);
        let clocks = beats.div_ceil(self.parameters.datapath_bytes);
        Some(since_ps + self.parameters.clocks_ps(clocks))
    }

    /// Whether a channel takes descriptors from its line.
    fn takes_pushes(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        channel.is_running()
            && channel.source() == Some(DescriptorSource::Ring)
            && !self.in_memory(index)
            && !self.in_packets(index)
    }

    /// Whether a channel can have this descriptor with data in its line.
    pub(super) fn takes_inline(&self, index: usize, descriptor: &Descriptor) -> bool {
        self.channels[index].kind == Kind::H2c && descriptor.bytes as usize <= INLINE_BYTES
    }

    /// Whether data in an H2C channel's line must wait: for the descriptors before them, or for
    /// room as a read does.
    pub(super) fn must_wait_inline(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        if channel.next_inline().is_none() {
            return false;
        }
        let untaken = if channel.number == 0 { self.stream.length() } else { 0 };
        let p = &self.parameters;
        !channel.reading.is_empty() || untaken + p.max_read_bytes > p.staging_bytes
    }

    /// Moves the data of a descriptor from its line into the stream, and completes it.
    pub(super) fn deliver_inline(
        &mut self,
        index: usize,
        descriptor: Descriptor,
        inline: &Inline,
        now_ps: u64,
    ) {
        let Descriptor { bytes, control, .. } = descriptor;
        let data = &inline[..bytes as usize];
        let is_routed = self.stream_is_routed(index);
        let channel = &mut self.channels[index];
        channel.note_begin(now_ps);
        channel.note_data(now_ps);
        channel.reading.push_back(Reading { bytes, delivered: 0, control });
        channel.unread_bytes += bytes;
        if is_routed {
            self.stream.push(data, now_ps);
            self.ends.enter(bytes);
        } else {
            self.drain_data(index, data, now_ps);
        }
        self.note_delivered(index, bytes, now_ps);
        self.wake = true;
    }

    /// Takes data of an H2C channel that feeds nothing out of the staging memory: the first one's
    /// are checked.
    fn drain_data(&mut self, index: usize, data: &[u8], now_ps: u64) {
        if self.channels[index].number == 0 {
            self.user.h2c_check.check(data);
        }
        let p = &self.parameters;
        let drain_ps = p.clocks_ps((data.len() as u32).div_ceil(p.datapath_bytes));
        let channel = &mut self.channels[index];
        channel.drained_ps = channel.drained_ps.max(now_ps + p.drain_ps()) + drain_ps;
    }
}
