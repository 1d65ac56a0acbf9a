// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data link at the level of frames: each datagram is delivered once and in order, whatever
//! happens to frames on their way.
//!
//! Read first: `docs/torus-link.md`, from *Sequence and retry* to *Priority*.
//!
//! Whoever owns a [`LinkEnd`] asks it for the [next frame](LinkEnd::next_frame) when the wire is
//! free: after anything was done to it (`up`, `submit`, `receive`, `free`), when the frame before
//! has been sent, and at [`LinkEnd::wakes_at_ps`] if it had none. Frames that come in while the
//! link is down are ignored.

mod parameters;
mod receiver;
mod sender;

pub use parameters::{
    Counters, EndParameters, MAX_CHANNEL_DATAGRAMS, MAX_RETRY_DATAGRAMS, ParameterError,
};

use crate::frame::{Channel, Command, Damaged, Datagram, Frame, Kind, Operation, Payload};
use receiver::Receiver;
use sender::{Queued, Sender};

/// A time that never comes.
const NEVER_PS: u64 = u64::MAX;

/// One end of a link: both directions of the data link protocol.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    parameters: EndParameters,
    is_up: bool,
    sender: Sender,
    receiver: Receiver,
    counters: Counters,
}

impl LinkEnd {
    /// An end that is down and knows nothing.
    ///
    /// # Panics
    /// The parameters cannot be: see [`EndParameters::check`].
    #[must_use]
    pub fn new(parameters: EndParameters) -> Self {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        Self {
            parameters,
            is_up: false,
            sender: Sender::new(),
            receiver: Receiver::new(),
            counters: Counters::default(),
        }
    }

    /// Training has ended, at `now_ps`: the other end's receive buffers have so many datagrams of
    /// each channel. What was unacknowledged is sent again behind a RESTART.
    pub fn up(&mut self, far_channel_datagrams: u16, _now_ps: u64) {
        self.is_up = true;
        self.counters.trainings += 1;
        self.sender.up(far_channel_datagrams);
        self.receiver.up();
    }

    /// The lanes are lost. What is queued and unacknowledged is kept.
    pub const fn down(&mut self) {
        self.is_up = false;
    }

    /// Forgets all but the counters, and is down. The other end must forget, too.
    pub fn reset(&mut self) {
        self.is_up = false;
        self.sender = Sender::new();
        self.receiver = Receiver::new();
    }

    /// Sets all counters to 0.
    pub fn clear_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// Datagrams of `channel` that [`LinkEnd::submit`] takes now.
    #[must_use]
    pub fn room(&self, channel: Channel) -> usize {
        usize::from(self.parameters.queue_datagrams)
            .saturating_sub(self.sender.queue_length(channel))
    }

    /// Puts a datagram into the transmit queue of `channel`, whether the link is up or not.
    ///
    /// # Panics
    /// There is no room for it.
    pub fn submit(&mut self, channel: Channel, kind: Kind, tag: u8, index: u16, payload: Payload) {
        assert!(self.room(channel) > 0, "the queue of {channel:?} is full");
        self.sender.queue(channel, Queued { kind, tag, index, payload });
    }

    /// What to put on the wire at `now_ps`, if anything is to be.
    pub fn next_frame(&mut self, now_ps: u64) -> Option<Frame> {
        if !self.is_up {
            return None;
        }
        self.sender.look_at_time(now_ps, &mut self.counters);
        self.receiver.look_at_time(now_ps, &self.parameters);
        if let Some(command) = self.next_command(now_ps) {
            self.counters.commands += 1;
            return Some(Frame::Command(command));
        }
        self.sender.next(now_ps, &self.parameters, &mut self.counters).map(Frame::Datagram)
    }

    fn next_command(&mut self, now_ps: u64) -> Option<Command> {
        let parameters = &self.parameters;
        let receiver = &mut self.receiver;
        let operation = if receiver.take_nack(now_ps, parameters) {
            self.counters.nacks += 1;
            Operation::NotAcknowledge
        } else if self.sender.restart_is_due() {
            self.counters.restarts += 1;
            let channel = receiver.channel_to_tell();
            let sequence = self.sender.take_restart(now_ps, parameters);
            let freed = receiver.tell(channel, now_ps, parameters);
            return Some(Command { operation: Operation::Restart, sequence, channel, freed });
        } else if let Some(channel) = receiver.confirm.take() {
            let sequence = receiver.acknowledge(now_ps, parameters);
            let freed = self.sender.known_freed(channel);
            return Some(Command { operation: Operation::Confirm, sequence, channel, freed });
        } else if let Some(channel) = receiver.take_ask() {
            let freed = receiver.tell(channel, now_ps, parameters);
            let sequence = receiver.acknowledge(now_ps, parameters);
            return Some(Command { operation: Operation::Count, sequence, channel, freed });
        } else if receiver.acknowledge_is_due(parameters) {
            Operation::Acknowledge
        } else {
            return None;
        };
        let channel = receiver.channel_to_tell();
        let freed = receiver.tell(channel, now_ps, parameters);
        let sequence = receiver.acknowledge(now_ps, parameters);
        Some(Command { operation, sequence, channel, freed })
    }

    /// What has come in at `now_ps`. A datagram that is returned holds a place in the receive
    /// buffer of its channel until [`LinkEnd::free`].
    pub fn receive(&mut self, frame: Result<Frame, Damaged>, now_ps: u64) -> Option<Datagram> {
        if !self.is_up {
            return None;
        }
        match frame {
            Err(_) => {
                self.counters.damaged += 1;
                self.receiver.enter_error();
                None
            }
            Ok(Frame::Command(command)) => {
                self.command(command, now_ps);
                None
            }
            Ok(Frame::Datagram(datagram)) => self
                .receiver
                .datagram(&datagram.header, &self.parameters, &mut self.counters)
                .then_some(datagram),
        }
    }

    fn command(&mut self, command: Command, now_ps: u64) {
        let Command { operation, sequence, channel, freed } = command;
        if operation == Operation::Confirm {
            self.receiver.confirmed(channel, freed);
        } else {
            self.sender.count(channel, freed, &mut self.counters);
        }
        if operation == Operation::Restart {
            if !self.receiver.restart(sequence) {
                self.counters.stale += 1;
            }
            return;
        }
        let fits = self.sender.acknowledged(sequence, now_ps, &self.parameters, &mut self.counters);
        match operation {
            Operation::NotAcknowledge if fits => self.sender.not_acknowledged(),
            Operation::Count => self.receiver.confirm.insert(channel),
            _ => {}
        }
    }

    /// A datagram of `channel` has left the receive buffer.
    ///
    /// # Panics
    /// There is none in it.
    pub fn free(&mut self, channel: Channel) {
        self.receiver.free(channel, &self.parameters);
    }

    /// When [`LinkEnd::next_frame`] may have something even if nothing is done before: later than
    /// when it last had nothing. None if it will not.
    #[must_use]
    pub fn wakes_at_ps(&self) -> Option<u64> {
        let at_ps = self.sender.deadline_ps().min(self.receiver.wakes_at_ps());
        (self.is_up && at_ps != NEVER_PS).then_some(at_ps)
    }

    /// What has been counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sizes and times.
    #[must_use]
    pub const fn parameters(&self) -> &EndParameters {
        &self.parameters
    }

    /// Between [`LinkEnd::up`] and [`LinkEnd::down`].
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Nothing is queued and nothing is unacknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    /// Idle, and both ends are known to agree: without new datagrams nothing more is sent.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_idle() && !self.sender.restart_is_due() && self.receiver.is_settled()
    }

    /// A RESTART is waited for.
    #[must_use]
    pub const fn is_in_error(&self) -> bool {
        self.receiver.is_in_error()
    }

    /// Datagrams sent and not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.sender.unacknowledged()
    }

    /// Datagrams of `channel` that the other end has room for, as far as is known.
    #[must_use]
    pub fn credit(&self, channel: Channel) -> usize {
        usize::from(self.sender.credit(channel.index()))
    }

    /// Number of the next datagram to be delivered.
    #[must_use]
    pub const fn expected(&self) -> u8 {
        self.receiver.expected()
    }

    /// Time-outs since something was last acknowledged: with 4 the lanes are to be trained anew.
    #[must_use]
    pub const fn timeouts_in_a_row(&self) -> u32 {
        self.sender.timeouts_in_a_row
    }
}
