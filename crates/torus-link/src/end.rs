// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data link at the level of frames: each datagram is delivered once and in order, despite lost
//! and damaged frames.
//!
//! Read first: `docs/torus-link.md`, from *Sequence and retry* to *Priority*.
//!
//! The owner of a [`LinkEnd`] asks it for the [next frame](LinkEnd::next_frame) when the wire is
//! free: after each action (`up`, `submit`, `receive`, `free`), when the previous frame has been
//! sent, and at [`LinkEnd::wakes_at_ps`] if it had none. Frames received while the link is down are
//! ignored.

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
    /// Creates an end that is down and has no state.
    ///
    /// # Panics
    /// If the parameters fail [`EndParameters::check`].
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

    /// Marks the link as trained; each channel's receive buffer at the other end holds
    /// `far_channel_datagrams`. Unacknowledged datagrams are repeated behind a RESTART.
    pub fn up(&mut self, far_channel_datagrams: u16, _now_ps: u64) {
        self.is_up = true;
        self.counters.trainings += 1;
        self.sender.up(far_channel_datagrams);
        self.receiver.up();
    }

    /// Marks the lanes as lost. Queued and unacknowledged datagrams are kept.
    pub const fn down(&mut self) {
        self.is_up = false;
    }

    /// Clears everything but the counters and takes the end down. The other end must be reset too.
    pub fn reset(&mut self) {
        self.is_up = false;
        self.sender = Sender::new();
        self.receiver = Receiver::new();
    }

    /// Datagrams of `channel` that [`LinkEnd::submit`] takes now.
    pub fn room(&self, channel: Channel) -> usize {
        usize::from(self.parameters.queue_datagrams)
            .saturating_sub(self.sender.queue_length(channel))
    }

    /// Queues a datagram for transmission on `channel`, whether the link is up or not.
    ///
    /// # Panics
    /// If [`LinkEnd::room`] is 0.
    pub fn submit(&mut self, channel: Channel, kind: Kind, tag: u8, index: u16, payload: Payload) {
        assert!(self.room(channel) > 0, "the queue of {channel:?} is full");
        self.sender.queue(channel, Queued { kind, tag, index, payload });
    }

    /// Returns the frame to put on the wire at `now_ps`, if any.
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

    /// Takes a frame received at `now_ps`. A returned datagram occupies the receive buffer of its
    /// channel until [`LinkEnd::free`].
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

    /// Frees the receive buffer of one datagram of `channel`.
    ///
    /// # Panics
    /// If the buffer is empty.
    pub fn free(&mut self, channel: Channel) {
        self.receiver.free(channel, &self.parameters);
    }

    /// Time at which [`LinkEnd::next_frame`] may return a frame without any further action, later
    /// than when it last returned none. `None` if it will not.
    pub fn wakes_at_ps(&self) -> Option<u64> {
        let at_ps = self.sender.deadline_ps().min(self.receiver.wakes_at_ps());
        (self.is_up && at_ps != NEVER_PS).then_some(at_ps)
    }

    /// Counters since creation or the last clearing.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sizes and times of this end.
    pub const fn parameters(&self) -> &EndParameters {
        &self.parameters
    }

    /// Whether the link is up: after [`LinkEnd::up`] and before [`LinkEnd::down`].
    pub const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether nothing is queued or unacknowledged.
    pub fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    /// Whether the end is idle and both ends are known to agree, so that nothing is sent without
    /// new datagrams.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && !self.sender.restart_is_due() && self.receiver.is_settled()
    }

    /// Whether the end waits for a RESTART.
    pub const fn is_in_error(&self) -> bool {
        self.receiver.is_in_error()
    }

    /// Datagrams sent and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.sender.unacknowledged()
    }

    /// Datagrams of `channel` that the other end has room for, as far as known.
    pub fn credit(&self, channel: Channel) -> usize {
        usize::from(self.sender.credit(channel.index()))
    }

    /// Sequence number of the next datagram to be delivered.
    pub const fn expected(&self) -> u8 {
        self.receiver.expected()
    }

    /// Time-outs since the last acknowledgement; at 4 the lanes must be trained again.
    pub const fn timeouts_in_a_row(&self) -> u32 {
        self.sender.timeouts_in_a_row
    }
}
