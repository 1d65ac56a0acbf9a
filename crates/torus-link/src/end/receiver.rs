// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving half of a link end: which datagrams are delivered, what is acknowledged and when,
//! counts of what is free again.
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

    /// The first of the set, from channel `from` on and round.
    const fn first_from(self, from: u8) -> Option<Channel> {
        if self.0 == 0 {
            return None;
        }
        let offset = self.0.rotate_right(from as u32).trailing_zeros();
        Some(Channel::from_bits(from as u32 + offset))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Number of the next datagram to be delivered.
    expected: u8,
    /// A RESTART is waited for.
    error: bool,
    nack_is_due: bool,
    /// When the NACK is sent again; [`NEVER_PS`] outside of the error state.
    nack_at_ps: u64,
    /// Datagrams that came since the last acknowledgement.
    owed: u32,
    /// An acknowledgement is due, however few it stands for.
    at_once: bool,
    /// When what is owed and untold is due.
    due_at_ps: u64,
    /// What is owed and untold is due, all of it.
    flush: bool,
    /// Datagrams delivered on each channel.
    delivered: [u16; CHANNELS],
    /// Of those, as many have left the receive buffer.
    freed: [u16; CHANNELS],
    /// `freed` as it was told last.
    told: [u16; CHANNELS],
    /// `freed` has changed since.
    untold: ChannelSet,
    /// By so much that it does not wait.
    urgent: ChannelSet,
    /// The other end has not said that it knows.
    unconfirmed: ChannelSet,
    /// COUNT is to be sent.
    ask: ChannelSet,
    /// When COUNT is to be sent for an unconfirmed channel that has been told.
    ask_at_ps: [u64; CHANNELS],
    /// No later than the first of those.
    first_ask_at_ps: u64,
    /// CONFIRM is to be sent.
    pub confirm: ConfirmSet,
    /// Channel whose count is told next.
    turn: u8,
}

/// Channels for which the other end wants to know what is known here.
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

    /// What is unconfirmed is told anew; what was lost is being sent again.
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

    /// Nothing is to be told, now or later.
    pub const fn is_settled(&self) -> bool {
        !self.error
            && self.owed == 0
            && !self.at_once
            && self.untold.is_empty()
            && self.unconfirmed.is_empty()
            && self.confirm.is_empty()
    }

    /// A frame was lost, or may have been.
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
    }

    /// A RESTART has come. True: it fits.
    pub fn restart(&mut self, sequence: u8) -> bool {
        // 0 or behind, 1 to 127: ahead.
        let is_ahead = (1..128).contains(&sequence.wrapping_sub(self.expected));
        if !is_ahead {
            self.leave_error();
            self.at_once = true;
        }
        !is_ahead
    }

    /// A datagram has come. True: it is delivered.
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

    /// What the other end knows to be free.
    pub fn confirmed(&mut self, channel: Channel, freed: u16) {
        if freed != self.freed[channel.index()] || self.untold.contains(channel) {
            return;
        }
        self.unconfirmed.remove(channel);
        self.ask.remove(channel);
        self.ask_at_ps[channel.index()] = NEVER_PS;
        self.first_ask_at_ps = self.ask_at_ps.iter().copied().min().unwrap_or(NEVER_PS);
    }

    /// Makes due what is due by time.
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

    /// Whether a NACK is sent now, and then again after a time.
    pub fn take_nack(&mut self, now_ps: u64, parameters: &EndParameters) -> bool {
        if !self.nack_is_due {
            return false;
        }
        self.nack_is_due = false;
        self.nack_at_ps = now_ps.saturating_add(parameters.refresh_ps);
        true
    }

    /// The channel for which COUNT is sent now.
    pub const fn take_ask(&mut self) -> Option<Channel> {
        let first = self.ask.first_from(0);
        if let Some(channel) = first {
            self.ask.remove(channel);
        }
        first
    }

    /// Whether an ACK is to be sent now.
    pub const fn acknowledge_is_due(&self, parameters: &EndParameters) -> bool {
        self.at_once
            || self.flush
            || self.owed >= parameters.acknowledge_datagrams as u32
            || !self.urgent.is_empty()
    }

    /// The channel whose count the next command carries, if it may be any.
    pub fn channel_to_tell(&self) -> Channel {
        self.urgent
            .first_from(self.turn)
            .or(self.untold.first_from(self.turn))
            .unwrap_or(Channel::from_bits(u32::from(self.turn)))
    }

    /// A command that carries the count of `channel` is sent now.
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
        // What is merely said again does not put the question off.
        let is_asked = self.ask_at_ps[at] == NEVER_PS && !self.ask.contains(channel);
        if self.unconfirmed.contains(channel) && (is_new || is_asked) {
            self.ask_at_ps[at] = now_ps.saturating_add(parameters.refresh_ps);
            self.first_ask_at_ps = self.first_ask_at_ps.min(self.ask_at_ps[at]);
        }
        self.rearm(now_ps, parameters);
        self.freed[at]
    }

    /// A command that says what is expected is sent now.
    pub const fn acknowledge(&mut self, now_ps: u64, parameters: &EndParameters) -> u8 {
        self.owed = 0;
        self.at_once = false;
        self.rearm(now_ps, parameters);
        self.expected
    }

    /// After a command the rest has its time anew, if it is not being flushed.
    const fn rearm(&mut self, now_ps: u64, parameters: &EndParameters) {
        if self.owed == 0 && self.untold.is_empty() {
            self.flush = false;
            self.due_at_ps = NEVER_PS;
        } else if !self.flush {
            self.due_at_ps = now_ps.saturating_add(parameters.acknowledge_within_ps);
        }
    }
}
