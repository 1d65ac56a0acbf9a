// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending half of a link end: queues, credits, sequence numbers, retry buffer.
//!
//! Read first: `docs/torus-link.md`, *Sequence and retry* and *Credits*.

use super::parameters::{EndParameters, MAX_CHANNEL_DATAGRAMS};
use super::{Counters, NEVER_PS};
use crate::frame::{CHANNELS, COUNT_MODULUS, Channel, Datagram, Header, Kind, Payload};
use std::collections::VecDeque;

/// Difference of counts, modulo their modulus.
const fn count_since(later: u16, earlier: u16) -> u16 {
    later.wrapping_sub(earlier) % COUNT_MODULUS
}

/// A datagram in a transmit queue.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub kind: Kind,
    pub tag: u8,
    pub index: u16,
    pub payload: Payload,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    queues: [VecDeque<Queued>; CHANNELS],
    /// Datagrams in all queues.
    queued: usize,
    /// Datagrams sent for the first time on each channel.
    sent: [u16; CHANNELS],
    /// Datagrams of each channel known to have left the far receive buffer.
    freed: [u16; CHANNELS],
    far_channel_datagrams: u16,
    /// Channel to be considered first.
    turn: usize,
    /// Sequence number of the oldest of `retry`, or of the next new datagram.
    oldest: u8,
    /// Unacknowledged datagrams, oldest first.
    retry: VecDeque<Datagram>,
    /// Index in `retry` of the next datagram to repeat; its length if none.
    repeat: usize,
    /// Whether RESTART must be sent before anything else of this half.
    restart: bool,
    /// Time-out of the oldest unacknowledged datagram.
    deadline_ps: u64,
    /// Time-outs since the last acknowledgement that removed a datagram.
    pub timeouts_in_a_row: u32,
}

impl Sender {
    pub fn new() -> Self {
        Self {
            queues: Default::default(),
            queued: 0,
            sent: [0; CHANNELS],
            freed: [0; CHANNELS],
            far_channel_datagrams: 0,
            turn: 0,
            oldest: 0,
            retry: VecDeque::new(),
            repeat: 0,
            restart: false,
            deadline_ps: NEVER_PS,
            timeouts_in_a_row: 0,
        }
    }

    pub fn up(&mut self, far_channel_datagrams: u16) {
        self.far_channel_datagrams = far_channel_datagrams.min(MAX_CHANNEL_DATAGRAMS);
        self.timeouts_in_a_row = 0;
        self.send_again();
    }

    /// Repeats all unacknowledged datagrams, if any, from the oldest on.
    fn send_again(&mut self) {
        self.restart = !self.retry.is_empty();
        self.repeat = 0;
        self.deadline_ps = NEVER_PS;
    }

    pub fn queue_length(&self, channel: Channel) -> usize {
        self.queues[channel.index()].len()
    }

    pub fn queue(&mut self, channel: Channel, queued: Queued) {
        self.queues[channel.index()].push_back(queued);
        self.queued += 1;
    }

    pub fn is_idle(&self) -> bool {
        self.queued == 0 && self.retry.is_empty()
    }

    pub fn unacknowledged(&self) -> usize {
        self.retry.len()
    }

    pub const fn restart_is_due(&self) -> bool {
        self.restart
    }

    pub const fn deadline_ps(&self) -> u64 {
        self.deadline_ps
    }

    pub const fn known_freed(&self, channel: Channel) -> u16 {
        self.freed[channel.index()]
    }

    /// Datagrams of a channel that fit into the far buffer.
    pub fn credit(&self, channel: usize) -> u16 {
        let taken = count_since(self.sent[channel], self.freed[channel]);
        self.far_channel_datagrams.saturating_sub(taken)
    }

    /// Begins a repeat if the oldest datagram has timed out.
    pub fn look_at_time(&mut self, now_ps: u64, counters: &mut Counters) {
        if now_ps >= self.deadline_ps {
            counters.timeouts += 1;
            self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_add(1);
            self.send_again();
        }
    }

    /// Takes the sequence number of the RESTART to send now.
    pub fn take_restart(&mut self, now_ps: u64, parameters: &EndParameters) -> u8 {
        self.restart = false;
        if !self.retry.is_empty() {
            self.deadline_ps = now_ps.saturating_add(parameters.retry_timeout_ps);
        }
        self.oldest
    }

    /// Removes the datagrams acknowledged by a command's sequence number. Returns false if the
    /// number is outside the window.
    pub fn acknowledged(
        &mut self,
        sequence: u8,
        now_ps: u64,
        parameters: &EndParameters,
        counters: &mut Counters,
    ) -> bool {
        let gone = usize::from(sequence.wrapping_sub(self.oldest));
        if gone > self.retry.len() {
            counters.stale += 1;
            return false;
        }
        if gone == 0 {
            return true;
        }
        self.retry.drain(..gone);
        self.oldest = sequence;
        self.repeat = self.repeat.saturating_sub(gone);
        self.timeouts_in_a_row = 0;
        self.deadline_ps = if self.retry.is_empty() || self.restart {
            NEVER_PS
        } else {
            now_ps.saturating_add(parameters.retry_timeout_ps)
        };
        true
    }

    /// Answers a NACK: the other end waits for a RESTART, even if nothing is to be repeated.
    pub fn not_acknowledged(&mut self) {
        self.send_again();
        self.restart = true;
    }

    /// Takes a count from the other end.
    pub fn count(&mut self, channel: Channel, freed: u16, counters: &mut Counters) {
        let at = channel.index();
        if count_since(freed, self.freed[at]) <= count_since(self.sent[at], self.freed[at]) {
            self.freed[at] = freed;
        } else {
            counters.stale += 1;
        }
    }

    /// Returns the datagram to send now, if any may be sent.
    pub fn next(
        &mut self,
        now_ps: u64,
        parameters: &EndParameters,
        counters: &mut Counters,
    ) -> Option<Datagram> {
        if let Some(datagram) = self.retry.get(self.repeat) {
            if self.repeat == 0 {
                self.deadline_ps = now_ps.saturating_add(parameters.retry_timeout_ps);
            }
            self.repeat += 1;
            counters.repeated += 1;
            return Some(datagram.clone());
        }
        if self.queued == 0 || self.retry.len() >= usize::from(parameters.retry_datagrams) {
            return None;
        }
        let at = (self.turn..self.turn + CHANNELS)
            .map(|at| at % CHANNELS)
            .find(|&at| !self.queues[at].is_empty() && self.credit(at) > 0)?;
        let Queued { kind, tag, index, payload } = self.queues[at].pop_front()?;
        self.queued -= 1;
        self.turn = (at + 1) % CHANNELS;
        self.sent[at] = self.sent[at].wrapping_add(1) % COUNT_MODULUS;
        counters.sent += 1;
        let sequence = self.oldest.wrapping_add(self.retry.len() as u8);
        let channel = Channel::ALL[at];
        let datagram = Datagram { header: Header { sequence, channel, kind, tag, index }, payload };
        if self.retry.is_empty() {
            self.deadline_ps = now_ps.saturating_add(parameters.retry_timeout_ps);
        }
        self.retry.push_back(datagram.clone());
        self.repeat = self.retry.len();
        Some(datagram)
    }
}
