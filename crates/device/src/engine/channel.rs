// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State common to all channels: registers, descriptors in progress, status, and counters.

use std::collections::VecDeque;

pub(super) use crosslane_fabric::ChannelKind as Kind;
use crosslane_fabric::ChannelWaits;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::engine::channel::{self, control, status};
use crosslane_regs::engine::{ChannelError, ChannelState, DescriptorSource};
use crosslane_regs::{Field, ring_descriptor};

use super::packets::{PacketCounters, PacketState};
use super::push::Inline;
use crate::kit::RegisterFile;

/// Returns the largest power of two up to `value`; 1 for 0.
pub(super) fn floor_power(value: u32) -> u32 {
    1 << value.max(1).ilog2()
}

/// Reason for a channel to send nothing. The registers count the first two as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A descriptor is posted but not fetched yet.
    Descriptor,
    /// Nothing is posted.
    Post,
    Data,
    Tag,
    Link,
    Credit,
    Gap,
}

impl Descriptor {
    /// Whether data are copied within the card's memory.
    pub fn is_copied(&self) -> bool {
        ring_descriptor::control::TO_CARD.get(self.control) != 0
    }
}

impl Wait {
    pub const COUNT: usize = 7;
}

/// Next action of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Next {
    Tlp,
    Wait(Wait),
    /// Nothing until another operation of the channel ends, or the channel is off.
    #[default]
    Nothing,
}

/// Descriptor from a table, a ring or the command port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub address: u64,
    /// Address in the card's memory.
    pub card: u64,
    pub bytes: u32,
    /// Control bits in the ring format; the table format has the same bits.
    pub control: u32,
}

/// Origin of a write's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A descriptor of the host.
    Host,
    /// The user circuit's command port.
    Command,
    /// A ping-pong message.
    Ping,
}

/// Descriptor for which TLPs are being built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub descriptor: Descriptor,
    /// Bytes for which TLPs have been built.
    pub built: u32,
    pub origin: Origin,
}

impl Current {
    /// Whether data are copied within the card's memory.
    pub fn is_copied(&self) -> bool {
        self.descriptor.is_copied()
    }
}

/// H2C: a descriptor with reads in flight. C2H: one that is copied within the card's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub bytes: u32,
    /// Bytes that have entered the stream, or that the card's memory has confirmed.
    pub delivered: u32,
    pub control: u32,
}

/// Peer: a descriptor that has been sent and is not complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaiting {
    pub bytes: u32,
    pub control: u32,
    /// Value that `credit` must reach, if any.
    pub credit: Option<u32>,
}

/// Status block, interrupt or both waiting to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Earliest time to send: until then the reported data are on their way, and the block is
    /// being assembled.
    pub from_ps: u64,
    /// Descriptors complete by then, absolute.
    pub completed: u32,
    pub status: bool,
    pub interrupt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub error: ChannelError,
    pub address: u64,
}

/// Counters cleared by `reset_counters`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub bytes: u64,
    pub tlps: u32,
    pub fetched: u32,
    pub packets: PacketCounters,
    pub pushed: u32,
    pub pushes_dropped: u32,
    pub first_ps: Option<u64>,
    pub last_ps: u64,
    pub idle_ps: [u64; Wait::COUNT],
    /// `idle_ps` when the first TLP began, and when data last moved.
    pub idle_at_first_ps: [u64; Wait::COUNT],
    pub idle_at_last_ps: [u64; Wait::COUNT],
}

impl Counters {
    /// Returns the waits while data moved, in more detail than the registers have; `None` if
    /// nothing has moved.
    pub fn waits(&self) -> Option<ChannelWaits> {
        let first_ps = self.first_ps?;
        let of = |wait: Wait| {
            let last_ps = self.idle_at_last_ps[wait as usize];
            Picoseconds(last_ps.saturating_sub(self.idle_at_first_ps[wait as usize]))
        };
        Some(ChannelWaits {
            moving: Picoseconds(self.last_ps.saturating_sub(first_ps)),
            nothing_posted: of(Wait::Post),
            no_descriptor: of(Wait::Descriptor),
            gap: of(Wait::Gap),
            no_data: of(Wait::Data),
            no_tag: of(Wait::Tag),
            no_credit: of(Wait::Credit),
        })
    }
}

#[derive(Default)]
pub(super) struct Channel {
    pub kind: Kind,
    /// Number among the channels of its kind.
    pub number: usize,
    pub registers: RegisterFile,
    pub doorbell: u32,
    pub completed: u32,
    pub stopped_at: u32,
    pub error: ChannelError,
    pub error_address: u64,
    pub credit: u32,
    pub sent: u32,
    /// High words, latched when the low words were read: bytes, first, last.
    pub latched: [u32; 3],
    pub counters: Counters,
    /// Descriptors for which fetches have been sent, absolute.
    pub requested: u32,
    /// Descriptors taken up, absolute.
    pub begun: u32,
    /// Absolute number of the first descriptor of the last doorbell, and the time of that doorbell.
    posted_last: (u32, u64),
    /// Descriptors fetched or pushed and not begun, and when each arrived: up to two batches.
    pub waiting: VecDeque<(Descriptor, u64)>,
    /// Number, absolute, of a pushed descriptor that waits with data in its line, and these.
    pub inline: Option<(u32, Inline)>,
    /// Tags of descriptor fetches, in order.
    pub fetches: VecDeque<u16>,
    pub current: Option<Current>,
    /// Earliest time to take up a descriptor.
    pub gap_until_ps: u64,
    /// Tags of data reads, in stream order.
    pub reads: VecDeque<u16>,
    /// Bytes of `reads` that have not entered the stream. C2H: bytes of copies that the card's
    /// memory has not confirmed.
    pub unread_bytes: u32,
    /// Time at which the last bytes sent into an unconnected stream have left the staging memory
    /// and freed their room.
    pub drained_ps: u64,
    pub reading: VecDeque<Reading>,
    pub awaiting: VecDeque<Awaiting>,
    /// Takes effect when everything before it is done.
    pub fault: Option<Fault>,
    /// Reports due for complete descriptors, in order.
    pub due: VecDeque<Due>,
    pub packet: PacketState,
    pub sequence: u32,
    /// Number of the next byte of the generated stream.
    pub generated: u64,
    /// Longest TLP; 0 until it is computed for the current settings.
    pub limit_bytes: u32,
    /// Length of a write channel's next TLP; 0 until it is computed.
    pub next_bytes: u32,
    /// Next action when the arbiter last had its turn.
    pub next: Next,
    wait: Option<Wait>,
    wait_since_ps: u64,
    /// Whether the number of posted descriptors is to be checked.
    pub is_unchecked: bool,
    /// See [`is_running`](Self::is_running).
    is_running: bool,
}

impl Channel {
    pub fn new(kind: Kind, number: usize) -> Self {
        Self { kind, number, registers: RegisterFile::new(channel::WRITTEN), ..Self::default() }
    }

    /// Returns a field of the control register.
    pub fn control(&self, field: Field) -> u32 {
        field.get(self.registers.get(channel::CONTROL))
    }

    /// Clears a field of the control register.
    pub fn clear_control(&mut self, field: Field) {
        let control = self.registers.get(channel::CONTROL);
        self.registers.set(channel::CONTROL, control & !field.mask());
        self.settle_running();
    }

    /// Takes a write of a register: see [`RegisterFile::write`].
    pub fn write(&mut self, offset: u32, value: u32) -> Option<u32> {
        let written = self.registers.write(offset, value);
        (self.limit_bytes, self.next_bytes, self.is_unchecked) = (0, 0, true);
        self.settle_running();
        written
    }

    /// Computes whether the channel is running, after a change of what that depends on.
    fn settle_running(&mut self) {
        self.is_running = self.control(control::RUN) != 0 && !self.is_stopped();
    }

    /// Returns the longest TLP: the least of the channel's settings, the engine's limit, and the
    /// function's limit unless the host permits longer ones.
    pub fn longest_bytes(&self, own: u32, allowed: u32) -> u32 {
        let wanted = match self.registers.get(channel::PAYLOAD) {
            0 => own,
            bytes => floor_power(bytes).max(4).min(own),
        };
        let mut most =
            if self.control(control::OVERSIZE) != 0 { wanted } else { wanted.min(allowed) };
        if self.kind == Kind::Peer {
            for register in [channel::CREDIT_WINDOW, channel::APERTURE] {
                let bytes = self.registers.get(register);
                if bytes >= 4 {
                    most = most.min(floor_power(bytes));
                }
            }
        }
        most
    }

    pub fn is_stopped(&self) -> bool {
        self.error != ChannelError::None
    }

    /// Whether the channel may take up descriptors and build TLPs.
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether the channel may take up a descriptor or stop, even if nothing else happens.
    pub const fn may_change(&self) -> bool {
        self.current.is_none() || self.is_unchecked || self.fault.is_some()
    }

    pub fn source(&self) -> Option<DescriptorSource> {
        DescriptorSource::from_bits(self.control(control::SOURCE))
    }

    /// Returns the number of descriptors posted and not taken up.
    pub fn posted(&self) -> u32 {
        self.doorbell.wrapping_sub(self.begun)
    }

    /// Takes a doorbell.
    pub fn post(&mut self, doorbell: u32, now_ps: u64) {
        self.posted_last = (self.doorbell, now_ps);
        self.doorbell = doorbell;
    }

    /// Returns the time at which a posted descriptor was posted, or 0 if an earlier doorbell posted
    /// it.
    pub fn posted_ps(&self, number: u32) -> u64 {
        let (first, since_ps) = self.posted_last;
        if (number.wrapping_sub(first) as i32) < 0 { 0 } else { since_ps }
    }

    /// Returns the data of the next descriptor if they are in its line.
    pub fn next_inline(&self) -> Option<&Inline> {
        let next = self.inline.as_ref().filter(|(number, _)| *number == self.begun);
        next.map(|(_, data)| data)
    }

    /// Whether all work that it has begun is finished.
    pub fn has_finished(&self) -> bool {
        self.current.is_none()
            && self.reads.is_empty()
            && self.reading.is_empty()
            && self.awaiting.is_empty()
    }

    /// Returns the status register; `in_flight` is the number of TLPs waiting for an answer.
    pub fn status(&self, in_flight: usize) -> u32 {
        let state = if self.is_stopped() {
            ChannelState::Stopped
        } else if self.is_running()
            || in_flight > 0
            || !self.reads.is_empty()
            || (self.kind == Kind::C2h && self.unread_bytes > 0)
        {
            ChannelState::Running
        } else {
            ChannelState::Idle
        };
        status::STATE.put(state.bits())
            | status::ERROR.put(self.error.bits())
            | status::IN_FLIGHT.put(in_flight as u32)
    }

    /// Returns the number of bytes moved of descriptor `completed`.
    pub fn moved(&self) -> u32 {
        if let Some(reading) = self.reading.front() {
            return reading.delivered;
        }
        if let Some(awaiting) = self.awaiting.front() {
            return awaiting.bytes;
        }
        match self.current {
            Some(current) if current.origin == Origin::Host && self.kind != Kind::H2c => {
                current.built
            }
            _ => 0,
        }
    }

    /// Returns the number of bytes moved of descriptor `completed` as the registers show it.
    pub fn shown_moved(&self) -> u32 {
        if self.is_stopped() { self.stopped_at } else { self.moved() }
    }

    /// Returns the address of the next TLP, or 0 between descriptors.
    pub fn next_address(&self) -> u64 {
        if self.packet.record.is_some() {
            return self.record_address();
        }
        self.current
            .map_or(0, |current| current.descriptor.address.wrapping_add(u64::from(current.built)))
    }

    /// Completes a descriptor. The reports that its control bits request may be sent from
    /// `from_ps`.
    pub fn complete(&mut self, bits: u32, from_ps: u64) {
        let (begun, completed) = (self.begun, self.completed);
        let open = begun.wrapping_sub(completed) as i32;
        assert!(open > 0, "descriptor {completed} is complete, and {begun} were taken up");
        self.completed = completed.wrapping_add(1);
        self.is_unchecked = true;
        let enabled = |field| self.control(field) != 0;
        let asked = |field: Field| field.get(bits) != 0;
        self.fall_due(
            asked(ring_descriptor::control::STATUS) && enabled(control::STATUS_ENABLE),
            asked(ring_descriptor::control::INTERRUPT) && enabled(control::INTERRUPT_ENABLE),
            from_ps,
        );
    }

    /// Returns when the next report may be sent; `u64::MAX` if none is due.
    pub fn due_ps(&self) -> u64 {
        self.due.front().map_or(u64::MAX, |due| due.from_ps)
    }

    fn fall_due(&mut self, status: bool, interrupt: bool, from_ps: u64) {
        if status || interrupt {
            let completed = self.completed;
            let before = self.due.back().map_or(completed, |due| due.completed);
            let more = completed.wrapping_sub(before) as i32;
            assert!(more >= 0, "{completed} are complete, and {before} were before");
            self.due.push_back(Due { from_ps, completed, status, interrupt });
        }
    }

    /// Completes the descriptors whose credit has arrived. The report of the first may be sent from
    /// `from_ps`, and each further one a clock later.
    pub fn settle_credit(&mut self, mut from_ps: u64, clock_ps: u64) {
        while let Some(front) = self.awaiting.front().copied() {
            if front.credit.is_some_and(|end| (self.credit.wrapping_sub(end) as i32) < 0) {
                return;
            }
            self.awaiting.pop_front();
            self.complete(front.control, from_ps);
            from_ps += clock_ps;
        }
    }

    /// Stops the channel and sets its error registers. The caller takes back the tags.
    pub fn stop(&mut self, fault: Fault) {
        self.stopped_at = self.moved();
        self.error = fault.error;
        self.error_address = fault.address;
        self.settle_running();
        // One block reports the error and the descriptors completed before it.
        let from_ps = self.due.front().map_or(0, |due| due.from_ps);
        self.due.clear();
        let enabled = |field| self.control(field) != 0;
        self.fall_due(enabled(control::STATUS_ENABLE), enabled(control::INTERRUPT_ENABLE), from_ps);
        self.forget();
    }

    /// Discards all work in progress.
    fn forget(&mut self) {
        self.waiting.clear();
        self.inline = None;
        self.fetches.clear();
        self.current = None;
        self.packet.record = None;
        self.reads.clear();
        self.unread_bytes = 0;
        self.reading.clear();
        self.awaiting.clear();
        self.fault = None;
    }

    /// Executes `control.restart`: counts, credit and error return to their reset values.
    pub fn restart(&mut self) {
        self.forget();
        (self.doorbell, self.requested, self.begun, self.completed) = (0, 0, 0, 0);
        self.posted_last = (0, 0);
        (self.credit, self.sent, self.sequence, self.stopped_at) = (0, 0, 0, 0);
        (self.error, self.error_address, self.gap_until_ps) = (ChannelError::None, 0, 0);
        self.settle_running();
        self.due.clear();
        self.drained_ps = 0;
    }

    /// Records the reason for sending nothing from `from_ps`, which may be slightly in the future;
    /// `None` if it sends or is off.
    pub fn note_wait(&mut self, wait: Option<Wait>, from_ps: u64, now_ps: u64) {
        let goes_on = wait.is_none() || from_ps.max(self.wait_since_ps) <= now_ps;
        if wait == self.wait && goes_on {
            return;
        }
        if let Some(before) = self.wait {
            self.counters.idle_ps[before as usize] += now_ps.saturating_sub(self.wait_since_ps);
        }
        (self.wait, self.wait_since_ps) = (wait, from_ps.max(now_ps));
    }

    /// Returns the idle time for a reason up to `now_ps`.
    pub fn idle_ps(&self, wait: Wait, now_ps: u64) -> u64 {
        let is_this = self.wait == Some(wait);
        let running = if is_this { now_ps.saturating_sub(self.wait_since_ps) } else { 0 };
        self.counters.idle_ps[wait as usize] + running
    }

    /// Returns the idle time for all reasons up to `now_ps`.
    fn all_idle_ps(&self, now_ps: u64) -> [u64; Wait::COUNT] {
        let mut idle_ps = self.counters.idle_ps;
        if let Some(wait) = self.wait {
            idle_ps[wait as usize] += now_ps.saturating_sub(self.wait_since_ps);
        }
        idle_ps
    }

    /// Records a TLP begun at `now_ps` and handed on whole at `whole_ps`.
    pub fn note_tlp(&mut self, now_ps: u64, whole_ps: u64) {
        let idle_ps = self.all_idle_ps(now_ps);
        let counters = &mut self.counters;
        let first_ps = counters.first_ps.unwrap_or(now_ps);
        assert!(first_ps <= now_ps, "a TLP at {now_ps} ps, and the first was at {first_ps} ps");
        counters.tlps = counters.tlps.wrapping_add(1);
        if counters.first_ps.is_none() {
            (counters.first_ps, counters.idle_at_first_ps) = (Some(now_ps), idle_ps);
        }
        counters.last_ps = counters.last_ps.max(whole_ps);
        counters.idle_at_last_ps = idle_ps;
    }

    /// Records the beginning of data for which no TLP is sent: a burst copied within the card's
    /// memory, or data from the push aperture.
    pub fn note_begin(&mut self, now_ps: u64) {
        if self.counters.first_ps.is_none() {
            let idle_ps = self.all_idle_ps(now_ps);
            let counters = &mut self.counters;
            (counters.first_ps, counters.idle_at_first_ps) = (Some(now_ps), idle_ps);
        }
    }

    /// Records the arrival of read data.
    pub fn note_data(&mut self, now_ps: u64) {
        self.counters.last_ps = now_ps;
        self.counters.idle_at_last_ps = self.all_idle_ps(now_ps);
    }

    /// Begins the gap after a descriptor's last TLP; the datapath is free at `free_ps`.
    pub fn begin_gap(&mut self, free_ps: u64, gap_ps: u64) {
        self.gap_until_ps = free_ps + gap_ps;
        self.counters.idle_ps[Wait::Gap as usize] += gap_ps;
    }

    pub fn reset_counters(&mut self, now_ps: u64) {
        self.counters = Counters::default();
        self.wait_since_ps = self.wait_since_ps.max(now_ps);
    }
}
