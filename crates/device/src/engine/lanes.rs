// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive queues: writes of other devices into BAR 1, the FIFO that each fills, and the credits
//! returned for them. A full queue may block everything behind it.

use std::collections::VecDeque;

use crosslane_fabric::{DevicePort, Received};
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::lane::{self, control};

use super::arbiter::{Built, in_turn};
use super::user::Checker;
use super::{Engine, Taken};
use crate::kit::{Held, RegisterFile};
use crate::parameters::EngineParameters;

/// Clocks without new data after which an empty FIFO returns its credits. Without this delay, each
/// write of a stream that is drained as fast as it comes would be answered by a credit. At 250 MHz
/// it is 1 us, longer than the pauses of a stream at a quarter of a Gen3 x4 link.
pub(super) const CREDIT_DELAY_CLOCKS: u64 = 256;

/// Ring buffer of bytes with a latency.
pub(super) struct Fifo {
    /// Empty until the first byte comes.
    bytes: Vec<u8>,
    capacity: usize,
    /// Index of the oldest byte.
    head: usize,
    length: usize,
    /// Time that bytes take through the FIFO, ps.
    latency_ps: u64,
    /// Newest bytes, which may not be taken yet: earliest time and count of each push.
    fresh: VecDeque<(u64, usize)>,
}

impl Fifo {
    pub fn new(capacity_bytes: u32, latency_ps: u64) -> Self {
        Self {
            bytes: Vec::new(),
            capacity: capacity_bytes as usize,
            head: 0,
            length: 0,
            latency_ps,
            fresh: VecDeque::new(),
        }
    }

    /// Returns the number of bytes that may be taken now, and when there are more; `u64::MAX` if
    /// all may be taken now.
    pub fn ready(&self, now_ps: u64) -> (u32, u64) {
        let (mut fresh, mut next_ps) = (0, u64::MAX);
        for (from_ps, bytes) in self.fresh.iter().rev().take_while(|(from_ps, _)| *from_ps > now_ps)
        {
            (fresh, next_ps) = (fresh + bytes, *from_ps);
        }
        assert!(fresh <= self.length, "{fresh} B are fresh, of {} B", self.length);
        ((self.length - fresh) as u32, next_ps)
    }

    pub fn length(&self) -> u32 {
        self.length as u32
    }

    /// Returns the number of bytes that still fit.
    pub fn room(&self) -> u32 {
        (self.capacity - self.length) as u32
    }

    pub fn capacity(&self) -> u32 {
        self.capacity as u32
    }

    pub fn clear(&mut self) {
        (self.head, self.length) = (0, 0);
        self.fresh.clear();
    }

    /// Returns the index of a byte, given without wrapping around.
    const fn wrapped(&self, index: usize) -> usize {
        if index < self.capacity { index } else { index - self.capacity }
    }

    /// Appends bytes, which must fit.
    pub fn push(&mut self, bytes: &[u8], now_ps: u64) {
        let (count, room) = (bytes.len(), self.room());
        assert!(count <= room as usize, "{count} B are put into a FIFO with room for {room} B");
        if self.latency_ps > 0 {
            while self.fresh.front().is_some_and(|(from_ps, _)| *from_ps <= now_ps) {
                self.fresh.pop_front();
            }
            self.fresh.push_back((now_ps + self.latency_ps, bytes.len()));
        }
        self.bytes.resize(self.capacity, 0);
        let at = self.wrapped(self.head + self.length);
        let first = bytes.len().min(self.capacity - at);
        self.bytes[at..at + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.length += bytes.len();
    }

    /// Takes out the oldest bytes, which must be present.
    pub fn pop(&mut self, out: &mut [u8]) {
        let (count, length) = (out.len(), self.length);
        assert!(count <= length, "{count} B are taken out of a FIFO that holds {length} B");
        let first = out.len().min(self.capacity - self.head);
        let (one, two) = out.split_at_mut(first);
        one.copy_from_slice(&self.bytes[self.head..self.head + first]);
        two.copy_from_slice(&self.bytes[..two.len()]);
        self.head = self.wrapped(self.head + out.len());
        self.length -= out.len();
    }

    /// Takes out everything, in at most two pieces.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let first = self.length.min(self.capacity - self.head);
        take(&self.bytes[self.head..self.head + first]);
        take(&self.bytes[..self.length - first]);
        self.clear();
    }
}

/// TLP waiting for room in a receive queue, or behind one that does.
pub(super) struct Stalled {
    pub held: Held,
    pub payload: Vec<u8>,
}

/// Payload of a TLP that is being taken.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Arrived(Received),
    Stalled(&'a [u8]),
}

impl Payload<'_> {
    pub fn bytes<'a>(&'a self, port: &'a DevicePort<'_>) -> &'a [u8] {
        match self {
            Self::Arrived(tlp) => port.payload(*tlp),
            Self::Stalled(bytes) => bytes,
        }
    }
}

/// Receive queue.
pub(super) struct Lane {
    pub registers: RegisterFile,
    pub overflow: bool,
    pub fifo: Fifo,
    pub received: u32,
    pub drained: u32,
    /// `drained` as last told to the sender.
    returned: u32,
    /// Time at which the last of the `drained` bytes leaves the FIFO, at a beat per clock.
    drained_ps: u64,
    /// Time at which enough bytes have left to tell the sender at once; `u64::MAX` if too few have.
    quarter_ps: u64,
    /// Time at which the credit is due to be sent; `u64::MAX` if no time is known.
    due_ps: u64,
    /// Latency of bytes in a queue that feeds nothing, ps.
    drain_ps: u64,
    /// Bytes of a beat, and time of a clock.
    beat_bytes: u32,
    clock_ps: u64,
    pub checker: Checker,
    pub first_ps: Option<u64>,
    pub last_ps: u64,
    /// High words, latched when the low words were read: first, last.
    pub latched: [u32; 2],
}

impl Lane {
    pub fn new(p: &EngineParameters) -> Self {
        Self {
            registers: RegisterFile::new(lane::WRITTEN),
            overflow: false,
            fifo: Fifo::new(p.lane_fifo_bytes, p.clocks_ps(p.stream_latency_clocks)),
            received: 0,
            drained: 0,
            returned: 0,
            drained_ps: 0,
            quarter_ps: u64::MAX,
            due_ps: u64::MAX,
            drain_ps: p.drain_ps(),
            beat_bytes: p.datapath_bytes,
            clock_ps: p.clock.0,
            checker: Checker::default(),
            first_ps: None,
            last_ps: 0,
            latched: [0; 2],
        }
    }

    fn is_set(&self, field: crosslane_regs::Field) -> bool {
        field.get(self.registers.get(lane::CONTROL)) != 0
    }

    /// Takes out bytes for a channel.
    pub fn take_out(&mut self, out: &mut [u8], now_ps: u64) {
        self.fifo.pop(out);
        let bytes = out.len() as u32;
        self.note_drained(bytes, now_ps + self.beats_ps(bytes));
        self.assert_agrees();
    }

    /// Asserts that the FIFO holds exactly the bytes received and not drained, and that the sender
    /// was told of no more than the drained ones.
    fn assert_agrees(&self) {
        let (received, drained) = (self.received, self.drained);
        let (inside, held) = (received.wrapping_sub(drained), self.fifo.length());
        assert!(inside == held, "{received} B have come and {drained} B left, {held} B are inside");
        let (capacity, returned) = (self.fifo.capacity(), self.returned);
        assert!(held <= capacity, "{held} B are in a FIFO of {capacity} B");
        let behind = drained.wrapping_sub(returned) as i32;
        assert!(behind >= 0, "{returned} B were returned, and {drained} B have left");
    }

    /// Returns the time of `bytes` at a beat per clock.
    fn beats_ps(&self, bytes: u32) -> u64 {
        u64::from(bytes.div_ceil(self.beat_bytes)) * self.clock_ps
    }

    /// Notes that bytes leave the FIFO, the last at `end_ps` or after the bytes before them.
    fn note_drained(&mut self, bytes: u32, end_ps: u64) {
        self.drained = self.drained.wrapping_add(bytes);
        self.drained_ps = end_ps.max(self.drained_ps + self.beats_ps(bytes));
        if self.quarter_ps == u64::MAX {
            self.quarter_ps = self.next_quarter_ps();
        }
    }

    /// Returns when the drained bytes exceed those told to the sender by a quarter of the FIFO.
    fn next_quarter_ps(&self) -> u64 {
        let unreturned = self.drained.wrapping_sub(self.returned);
        match unreturned.checked_sub(self.fifo.capacity() / 4) {
            Some(behind) => {
                self.drained_ps.saturating_sub(u64::from(behind / self.beat_bytes) * self.clock_ps)
            }
            None => u64::MAX,
        }
    }

    /// Updates and returns the credit for the sender: the bytes that have left the FIFO by now.
    fn give_credit(&mut self, now_ps: u64) -> u32 {
        let clocks = self.drained_ps.saturating_sub(now_ps).div_ceil(self.clock_ps);
        let unreturned = self.drained.wrapping_sub(self.returned);
        let inside = (clocks * u64::from(self.beat_bytes)).min(u64::from(unreturned)) as u32;
        let before = self.returned;
        self.returned = self.drained.wrapping_sub(inside);
        let more = self.returned.wrapping_sub(before) as i32;
        assert!(more >= 0, "{before} B were returned, and now {} B", self.returned);
        self.quarter_ps = self.next_quarter_ps();
        self.returned
    }

    /// Empties the FIFO of a queue that feeds nothing.
    pub fn drain(&mut self, now_ps: u64) {
        if self.fifo.length() > 0 {
            let bytes = self.fifo.length();
            self.note_drained(bytes, now_ps + self.drain_ps + self.beats_ps(bytes));
            self.fifo.drain(|piece| self.checker.check(piece));
            self.assert_agrees();
        }
    }

    /// Executes `control.restart`.
    pub fn restart(&mut self) {
        self.fifo.clear();
        (self.received, self.drained, self.returned, self.drained_ps) = (0, 0, 0, 0);
        self.quarter_ps = u64::MAX;
        self.overflow = false;
        self.checker.restart();
    }

    pub fn reset_counters(&mut self) {
        (self.first_ps, self.last_ps) = (None, 0);
    }

    /// Computes when the credit is due to be sent.
    fn settle_due_time(&mut self) {
        let unreturned = self.drained.wrapping_sub(self.returned);
        self.due_ps = if unreturned == 0 || !self.is_set(control::RETURN_CREDITS) {
            u64::MAX
        } else if self.quarter_ps != u64::MAX {
            self.quarter_ps
        } else if self.fifo.length() == 0 {
            self.drained_ps + CREDIT_DELAY_CLOCKS * self.clock_ps
        } else {
            u64::MAX
        };
    }
}

impl Engine {
    /// Whether a TLP must stay behind those waiting for a receive queue. PCIe 6.x 2.4.1 would let
    /// completions with relaxed ordering pass, but the engine has one input queue.
    pub(super) fn must_wait_behind_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Takes stalled TLPs while they have room.
    pub(super) fn take_stalled(&mut self, port: &mut DevicePort<'_>) {
        while let Some(Stalled { held, payload }) = self.stalled.pop_front() {
            match self.take(&held, Payload::Stalled(&payload), port) {
                Taken::Full => {
                    self.stalled.push_front(Stalled { held, payload });
                    return;
                }
                Taken::Now => held.release(port),
                Taken::Later => {}
            }
            self.spare.push(payload);
        }
    }

    /// Takes a write into BAR 1.
    pub(super) fn take_lane_write(
        &mut self,
        offset: u64,
        header: &Header,
        payload: &[u8],
        now_ps: u64,
    ) -> Taken {
        let number = (offset / self.lane_window_bytes.max(1)) as usize;
        let is_routed = self.user.is_routed_lane(number);
        let Some(lane) = self.lanes.get_mut(number) else { return Taken::Now };
        let is_whole = header.request_bytes() as usize == payload.len();
        if !is_whole || header.poisoned || !lane.is_set(control::ENABLE) {
            lane.overflow = true;
            return Taken::Now;
        }
        let bytes = payload.len() as u32;
        if is_routed && lane.fifo.room() < bytes {
            // A write longer than the FIFO would wait for ever.
            if !lane.is_set(control::DROP_WHEN_FULL) && bytes <= lane.fifo.capacity() {
                return Taken::Full;
            }
            lane.overflow = true;
            return Taken::Now;
        }
        lane.received = lane.received.wrapping_add(bytes);
        lane.first_ps.get_or_insert(now_ps);
        lane.last_ps = now_ps;
        if is_routed {
            lane.fifo.push(payload, now_ps);
            self.wake = true;
        } else {
            lane.checker.check(payload);
            lane.note_drained(bytes, now_ps + lane.drain_ps);
            self.wake |= lane.is_set(control::RETURN_CREDITS);
        }
        lane.assert_agrees();
        self.settle_credit_time(number);
        self.ping_returned(number, bytes, now_ps);
        Taken::Now
    }

    /// Computes when the next credit write is due, after a change of a queue.
    pub(super) fn settle_credit_time(&mut self, number: usize) {
        self.lanes[number].settle_due_time();
        let is_known = self.lanes[number].due_ps != u64::MAX;
        self.crediting = self.crediting & !(1 << number) | u32::from(is_known) << number;
        let times = in_turn(0, self.crediting).map(|number| self.lanes[number].due_ps);
        self.credit_ps = times.fold(u64::MAX, u64::min);
    }

    /// Sends a due credit write, taking the queues in turn.
    pub(super) fn build_credit(&mut self, port: &mut DevicePort<'_>) -> Built {
        let now_ps = port.now_ps();
        if !self.function.is_bus_master {
            return Built::Nothing(u64::MAX);
        }
        if self.credit_ps > now_ps {
            return Built::Nothing(self.credit_ps);
        }
        let mut turn = in_turn(self.credit_turn, self.crediting);
        let number = turn.find(|number| self.lanes[*number].due_ps <= now_ps);
        let number = number.expect("one of them is due first");
        self.credit_turn = number + 1;
        let lane = &mut self.lanes[number];
        let drained = lane.give_credit(now_ps);
        let address = BusAddress(lane.registers.wide(lane::CREDIT_LOW) & !3);
        let header = Header::memory_write(port.routing_id(), address, 4);
        self.settle_credit_time(number);
        self.send(header, port, |payload| payload.copy_from_slice(&drained.to_le_bytes()));
        Built::Tlp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_round_in_order() {
        let mut fifo = Fifo::new(16, 0);
        let (mut next_in, mut next_out) = (0_u8, 0_u8);
        for length in [5, 11, 3, 16, 1, 7, 9, 16, 2] {
            let bytes: Vec<u8> = (0..length).map(|n| next_in.wrapping_add(n)).collect();
            next_in = next_in.wrapping_add(length);
            fifo.push(&bytes, 0);
            let mut out = vec![0; usize::from(length)];
            if length % 2 == 0 {
                fifo.drain(|piece| {
                    for byte in piece {
                        assert_eq!(*byte, next_out);
                        next_out = next_out.wrapping_add(1);
                    }
                });
                continue;
            }
            fifo.pop(&mut out);
            assert_eq!(out, bytes);
            next_out = next_out.wrapping_add(length);
        }
        assert_eq!((fifo.length(), fifo.room(), next_in), (0, 16, next_out));
    }

    #[test]
    fn bytes_take_their_time() {
        let mut fifo = Fifo::new(16, 100);
        fifo.push(&[1; 3], 10);
        fifo.push(&[2; 5], 60);
        assert_eq!(
            [10, 109, 110, 159, 160].map(|now_ps| fifo.ready(now_ps)),
            [(0, 110), (0, 110), (3, 160), (3, 160), (8, u64::MAX)]
        );
        fifo.pop(&mut [0; 3]);
        assert_eq!((fifo.ready(110), fifo.length()), ((0, 160), 5));
        fifo.push(&[3], 300);
        assert_eq!((fifo.ready(399), fifo.ready(400)), ((5, 400), (6, u64::MAX)));
    }
}
