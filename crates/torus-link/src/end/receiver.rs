// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving half of a link end: delivery of datagrams, acknowledgements and counts of freed
//! buffers.
//!
//! Read first: `docs/torus-link.md`, *Sequence and retry* and *Credits*.

use super::parameters::EndParameters;
use super::{Counters, NEVER_PS};
use crate::frame::{CHANNELS, COUNT_MODULUS, Channel, Header};

/// A set of channels, bit 0 for channel 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChannelSet(u8);

impl ChannelSet {
    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn contains(self, channel: Channel) -> bool {
        self.0 >> channel.number() & 1 == 1
    }

    const fn insert(&mut self, channel: Channel) {
        self.0 |= 1 << channel.number();
    }

    const fn remove(&mut self, channel: Channel) {
        self.0 &= !(1 << channel.number());
    }

    /// First channel of the set from `from` on, cyclically.
    const fn first_from(self, from: u8) -> Option<Channel> {
        if self.0 == 0 {
            return None;
        }
        let offset = self.0.rotate_right(from as u32).trailing_zeros();
        Some(Channel::from_bits(from as u32 + offset))
    }
}

/// Halvings of `refresh_ps` until a NACK is repeated for the first time.
const NACK_HALVINGS: u8 = 2;

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Sequence number of the next datagram to be delivered.
    expected: u8,
    /// Whether the receiver waits for a RESTART.
    error: bool,
    nack_is_due: bool,
    /// Time to repeat the NACK; [`NEVER_PS`] outside the error state.
    nack_at_ps: u64,
    /// How often `refresh_ps` is halved for the next repetition of a NACK.
    halvings: u8,
    /// Datagrams received since the last acknowledgement.
    owed: u32,
    /// Whether an acknowledgement is due, however few datagrams it covers.
    at_once: bool,
    /// Time at which pending acknowledgements and counts are due.
    due_at_ps: u64,
    /// Whether all pending acknowledgements and counts are due.
    flush: bool,
    /// Datagrams delivered on each channel.
    delivered: [u16; CHANNELS],
    /// Datagrams of each channel that have left the receive buffer.
    freed: [u16; CHANNELS],
    /// Value of `freed` sent last.
    told: [u16; CHANNELS],
    /// Channels with `freed` changed since.
    untold: ChannelSet,
    /// Channels with a change large enough not to wait.
    urgent: ChannelSet,
    /// Channels whose count the other end has not confirmed.
    unconfirmed: ChannelSet,
    /// Channels for which COUNT is to be sent.
    ask: ChannelSet,
    /// Time to send COUNT for an unconfirmed channel whose count was sent.
    ask_at_ps: [u64; CHANNELS],
    /// Lower bound of those times.
    first_ask_at_ps: u64,
    /// Channels for which CONFIRM is to be sent.
    pub confirm: ConfirmSet,
    /// Channel whose count is sent next.
    turn: u8,
}

/// Channels for which the other end asks for the count known here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConfirmSet(ChannelSet);

impl ConfirmSet {
    pub const fn insert(&mut self, channel: Channel) {
        self.0.insert(channel);
    }

    pub const fn take(&mut self) -> Option<Channel> {
        let first = self.0.first_from(0);
        if let Some(channel) = first {
            self.0.remove(channel);
        }
        first
    }

    const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl Receiver {
    pub fn new() -> Self {
        Self {
            expected: 0,
            error: false,
            nack_is_due: false,
            nack_at_ps: NEVER_PS,
            halvings: NACK_HALVINGS,
            owed: 0,
            at_once: false,
            due_at_ps: NEVER_PS,
            flush: false,
            delivered: [0; CHANNELS],
            freed: [0; CHANNELS],
            told: [0; CHANNELS],
            untold: ChannelSet::default(),
            urgent: ChannelSet::default(),
            unconfirmed: ChannelSet::default(),
            ask: ChannelSet::default(),
            ask_at_ps: [NEVER_PS; CHANNELS],
            first_ask_at_ps: NEVER_PS,
            confirm: ConfirmSet::default(),
            turn: 0,
        }
    }

    /// Starts with the link up: unconfirmed counts are sent again, and lost datagrams are being
    /// repeated.
    pub fn up(&mut self) {
        self.leave_error();
        self.at_once = false;
        self.untold.0 |= self.unconfirmed.0;
        self.flush = !self.untold.is_empty();
        self.due_at_ps = NEVER_PS;
        self.ask = ChannelSet::default();
        self.ask_at_ps = [NEVER_PS; CHANNELS];
        self.first_ask_at_ps = NEVER_PS;
        self.confirm = ConfirmSet::default();
    }

    pub const fn expected(&self) -> u8 {
        self.expected
    }

    pub const fn is_in_error(&self) -> bool {
        self.error
    }

    pub fn wakes_at_ps(&self) -> u64 {
        self.nack_at_ps.min(self.due_at_ps).min(self.first_ask_at_ps)
    }

    /// Whether nothing needs to be sent, now or later.
    pub const fn is_settled(&self) -> bool {
        !self.error
            && self.owed == 0
            && !self.at_once
            && self.untold.is_empty()
            && self.unconfirmed.is_empty()
            && self.confirm.is_empty()
    }

    /// Enters the error state after a frame was, or may have been, lost.
    pub fn enter_error(&mut self) {
        if !self.error {
            self.error = true;
            self.nack_is_due = true;
        }
    }

    fn leave_error(&mut self) {
        self.error = false;
        self.nack_is_due = false;
        self.nack_at_ps = NEVER_PS;
        self.halvings = NACK_HALVINGS;
    }

    /// Takes a RESTART. Returns whether its sequence number fits.
    pub fn restart(&mut self, sequence: u8) -> bool {
        // 0 means equal or behind, 1 to 127 ahead.
        let is_ahead = (1..128).contains(&sequence.wrapping_sub(self.expected));
        if !is_ahead {
            self.leave_error();
            self.at_once = true;
        }
        !is_ahead
    }

    /// Takes a datagram. Returns whether it is delivered.
    pub fn datagram(
        &mut self,
        header: &Header,
        parameters: &EndParameters,
        counters: &mut Counters,
    ) -> bool {
        if self.error {
            counters.discarded += 1;
            return false;
        }
        match header.sequence.wrapping_sub(self.expected) {
            0 => {}
            1..128 => {
                counters.discarded += 1;
                self.enter_error();
                return false;
            }
            128.. => {
                counters.doubles += 1;
                self.owed = self.owed.saturating_add(1);
                return false;
            }
        }
        let at = header.channel.index();
        let held = self.delivered[at].wrapping_sub(self.freed[at]) % COUNT_MODULUS;
        if held >= parameters.channel_datagrams {
            counters.overruns += 1;
            self.enter_error();
            return false;
        }
        self.delivered[at] = self.delivered[at].wrapping_add(1) % COUNT_MODULUS;
        self.expected = self.expected.wrapping_add(1);
        self.owed = self.owed.saturating_add(1);
        counters.delivered += 1;
        true
    }

    pub fn free(&mut self, channel: Channel, parameters: &EndParameters) {
        let at = channel.index();
        assert_ne!(self.freed[at], self.delivered[at], "{channel:?} holds no datagram to be freed");
        self.freed[at] = self.freed[at].wrapping_add(1) % COUNT_MODULUS;
        self.untold.insert(channel);
        let untold = self.freed[at].wrapping_sub(self.told[at]) % COUNT_MODULUS;
        if untold >= parameters.urgent_datagrams() {
            self.urgent.insert(channel);
        }
    }

    /// Takes the count that the other end knows.
    pub fn confirmed(&mut self, channel: Channel, freed: u16) {
        if freed != self.freed[channel.index()] || self.untold.contains(channel) {
            return;
        }
        self.unconfirmed.remove(channel);
        self.ask.remove(channel);
        self.ask_at_ps[channel.index()] = NEVER_PS;
        self.first_ask_at_ps = self.ask_at_ps.iter().copied().min().unwrap_or(NEVER_PS);
    }

    /// Marks pending items as due by time.
    pub fn look_at_time(&mut self, now_ps: u64, parameters: &EndParameters) {
        if now_ps >= self.nack_at_ps {
            self.nack_is_due = true;
        }
        if self.owed == 0 && self.untold.is_empty() {
            self.due_at_ps = NEVER_PS;
        } else if self.due_at_ps == NEVER_PS && !self.flush {
            self.due_at_ps = now_ps.saturating_add(parameters.acknowledge_within_ps);
        }
        if now_ps >= self.due_at_ps {
            self.flush = true;
            self.due_at_ps = NEVER_PS;
        }
        if now_ps >= self.first_ask_at_ps {
            for channel in Channel::ALL {
                let at_ps = &mut self.ask_at_ps[channel.index()];
                if now_ps >= *at_ps {
                    *at_ps = NEVER_PS;
                    self.ask.insert(channel);
                }
            }
            self.first_ask_at_ps = self.ask_at_ps.iter().copied().min().unwrap_or(NEVER_PS);
        }
    }

    /// Returns whether to send a NACK now, and schedules its repetition: each waits twice as long
    /// as the one before, up to `refresh_ps`.
    pub fn take_nack(&mut self, now_ps: u64, parameters: &EndParameters) -> bool {
        if !self.nack_is_due {
            return false;
        }
        self.nack_is_due = false;
        self.nack_at_ps = now_ps.saturating_add(parameters.refresh_ps >> self.halvings);
        self.halvings = self.halvings.saturating_sub(1);
        true
    }

    /// Takes the channel for which COUNT is sent now.
    pub const fn take_ask(&mut self) -> Option<Channel> {
        let first = self.ask.first_from(0);
        if let Some(channel) = first {
            self.ask.remove(channel);
        }
        first
    }

    /// Whether to send an ACK now.
    pub const fn acknowledge_is_due(&self, parameters: &EndParameters) -> bool {
        self.at_once
            || self.flush
            || self.owed >= parameters.acknowledge_datagrams as u32
            || !self.urgent.is_empty()
    }

    /// The channel whose count the next command carries if it can choose.
    pub fn channel_to_tell(&self) -> Channel {
        self.urgent
            .first_from(self.turn)
            .or(self.untold.first_from(self.turn))
            .unwrap_or(Channel::from_bits(u32::from(self.turn)))
    }

    /// Notes that a command with the count of `channel` is sent now.
    pub fn tell(&mut self, channel: Channel, now_ps: u64, parameters: &EndParameters) -> u16 {
        let at = channel.index();
        let is_new = self.untold.contains(channel);
        if is_new {
            self.unconfirmed.insert(channel);
            self.ask.remove(channel);
            self.turn = (channel.number() + 1) % CHANNELS as u8;
        }
        self.told[at] = self.freed[at];
        self.untold.remove(channel);
        self.urgent.remove(channel);
        // A mere repetition does not postpone the question.
        let is_asked = self.ask_at_ps[at] == NEVER_PS && !self.ask.contains(channel);
        if self.unconfirmed.contains(channel) && (is_new || is_asked) {
            self.ask_at_ps[at] = now_ps.saturating_add(parameters.refresh_ps);
            self.first_ask_at_ps = self.first_ask_at_ps.min(self.ask_at_ps[at]);
        }
        self.rearm(now_ps, parameters);
        self.freed[at]
    }

    /// Notes that a command with the expected sequence number is sent now.
    pub const fn acknowledge(&mut self, now_ps: u64, parameters: &EndParameters) -> u8 {
        self.owed = 0;
        self.at_once = false;
        self.rearm(now_ps, parameters);
        self.expected
    }

    /// Restarts the delay of the remaining items after a command, unless they are being flushed.
    const fn rearm(&mut self, now_ps: u64, parameters: &EndParameters) {
        if self.owed == 0 && self.untold.is_empty() {
            self.flush = false;
            self.due_at_ps = NEVER_PS;
        } else if !self.flush {
            self.due_at_ps = now_ps.saturating_add(parameters.acknowledge_within_ps);
        }
    }
}
