// SPDX-License-Identifier: Apache-2.0 OR MIT
//! User circuit: routing of the streams, checker of H2C data, command port, and ping-pong.

use crosslane_regs::engine::StreamSource;
use crosslane_regs::engine::user::{self, interconnect};

use super::Engine;
use super::channel::{Descriptor, Kind, Origin};
use super::pattern::Checker;
use crate::kit::RegisterFile;

/// Data source of a write channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    Generator,
    /// Data read by H2C channel 0.
    Stream,
    /// The card's memory.
    Memory,
    Lane(usize),
    Nothing,
}

/// Ping-pong: round trips of messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ping {
    rounds_left: u32,
    /// A message is waiting to be sent.
    is_ready: bool,
    /// Engine time at which the message's first TLP began; `None` before that.
    begun_clocks: Option<u64>,
    /// Bytes of its echo received so far.
    returned: u64,
    pub done: u32,
    pub sum_clocks: u64,
    pub least_clocks: u32,
    pub most_clocks: u32,
    pub latched: u32,
}

#[derive(Default)]
pub(super) struct User {
    pub registers: RegisterFile,
    /// Sources of the first C2H and the first peer channel, and the receive queue that can be one:
    /// `interconnect`, decoded.
    sources: [Option<StreamSource>; 2],
    lane: usize,
    pub h2c_check: Checker,
    /// Command waiting for the peer channel.
    command: Option<Descriptor>,
    /// Time at which the command or message was issued.
    command_since_ps: u64,
    /// Set from the start of a command to its end.
    pub is_busy: bool,
    pub command_done: u32,
    pub ping: Ping,
}

impl User {
    pub fn new() -> Self {
        let mut user = Self { registers: RegisterFile::new(user::WRITTEN), ..Self::default() };
        user.route();
        user
    }

    /// Takes the setting of the interconnect.
    pub fn route(&mut self) {
        let value = self.registers.get(user::INTERCONNECT);
        self.sources = [interconnect::C2H_SOURCE, interconnect::PEER_SOURCE]
            .map(|field| StreamSource::from_bits(field.get(value)));
        self.lane = interconnect::LANE.get(value) as usize;
    }

    /// Whether a stream feeds a channel.
    pub fn feeds(&self, source: StreamSource) -> bool {
        self.sources.contains(&Some(source))
    }

    pub fn is_routed_lane(&self, lane: usize) -> bool {
        lane == self.lane && self.feeds(StreamSource::Lane)
    }

    /// Returns the feed of the first channel of a kind. If both request the same stream, C2H gets
    /// it.
    pub fn feed(&self, kind: Kind, lanes: usize) -> Feed {
        let [c2h, peer] = self.sources;
        let source = match kind {
            Kind::C2h => c2h,
            Kind::Peer if peer == c2h && peer != Some(StreamSource::Generator) => None,
            Kind::Peer => peer,
            Kind::H2c => None,
        };
        match source {
            Some(StreamSource::Generator) => Feed::Generator,
            Some(StreamSource::H2c) => Feed::Stream,
            Some(StreamSource::Lane) if self.lane < lanes => Feed::Lane(self.lane),
            Some(StreamSource::Lane) | None => Feed::Nothing,
        }
    }

    fn command_descriptor(&self) -> Descriptor {
        let address = self.registers.wide(user::COMMAND_LOW);
        Descriptor { address, card: 0, bytes: self.registers.get(user::COMMAND_BYTES), control: 0 }
    }

    /// Executes `command.start`, which has no effect while a command is in progress.
    pub fn start_command(&mut self, now_ps: u64) {
        if !self.is_busy {
            self.is_busy = true;
            self.command_since_ps = now_ps;
            self.command = Some(self.command_descriptor());
        }
    }

    /// Executes `ping.start`.
    pub fn start_ping(&mut self, now_ps: u64) {
        self.command_since_ps = now_ps;
        let rounds = user::ping::ROUNDS.get(self.registers.get(user::PING));
        self.ping = Ping { rounds_left: rounds, is_ready: rounds > 0, ..Ping::default() };
    }
}

impl Engine {
    /// Whether the command port has a command or message for a channel.
    pub(super) fn command_waits(&self, index: usize) -> bool {
        index == self.index(Kind::Peer, 0)
            && (self.user.command.is_some() || self.user.ping.is_ready)
    }

    /// Returns when the pending command or message was issued.
    pub(super) fn command_since_ps(&self) -> u64 {
        self.user.command_since_ps
    }

    /// Takes the pending command or message.
    pub(super) fn take_command(&mut self) -> (Descriptor, Origin) {
        if let Some(command) = self.user.command.take() {
            return (command, Origin::Command);
        }
        self.user.ping.is_ready = false;
        (self.user.command_descriptor(), Origin::Ping)
    }

    /// Notes that the last TLP of a command or message has been sent.
    pub(super) fn command_written(&mut self, origin: Origin) {
        if origin == Origin::Command {
            self.user.is_busy = false;
            self.user.command_done = self.user.command_done.wrapping_add(1);
        }
    }

    /// Discards the commands of a channel that has stopped or restarted.
    pub(super) fn command_stopped(&mut self, index: usize) {
        if index == self.index(Kind::Peer, 0) {
            self.user.command = None;
            self.user.is_busy = false;
            self.user.ping.is_ready = false;
            self.user.ping.rounds_left = 0;
        }
    }

    /// Notes that the first TLP of a message has begun.
    pub(super) fn ping_begun(&mut self, now_ps: u64) {
        let clocks = self.clocks(now_ps);
        let ping = &mut self.user.ping;
        (ping.begun_clocks, ping.returned) = (Some(clocks), 0);
    }

    /// Notes that bytes have entered a receive queue.
    pub(super) fn ping_returned(&mut self, lane: usize, bytes: u32, now_ps: u64) {
        if self.user.ping.rounds_left == 0 || lane != self.user.lane {
            return;
        }
        let clocks = self.clocks(now_ps);
        let message_bytes = u64::from(self.user.registers.get(user::COMMAND_BYTES));
        let ping = &mut self.user.ping;
        let Some(begun_clocks) = ping.begun_clocks else { return };
        if ping.returned == 0 {
            let is_later = clocks >= begun_clocks;
            assert!(is_later, "a message of clock {begun_clocks} is back at clock {clocks}");
            let round = clocks - begun_clocks;
            ping.sum_clocks += round;
            let round = u32::try_from(round).unwrap_or(u32::MAX);
            let is_first = ping.done == 0;
            ping.least_clocks = if is_first { round } else { ping.least_clocks.min(round) };
            ping.most_clocks = ping.most_clocks.max(round);
        }
        ping.returned += u64::from(bytes);
        if ping.returned >= message_bytes {
            self.user.command_since_ps = now_ps;
            ping.begun_clocks = None;
            ping.done += 1;
            ping.rounds_left -= 1;
            ping.is_ready = ping.rounds_left > 0;
            self.wake = true;
        }
    }

    /// Drains the streams that feed nothing after a change of the interconnect.
    pub(super) fn settle_streams(&mut self, now_ps: u64) {
        for number in 0..self.lanes.len() {
            if !self.user.is_routed_lane(number) {
                self.lanes[number].drain(now_ps);
                self.settle_credit_time(number);
            }
        }
        if !self.user.feeds(StreamSource::H2c) {
            let (stream, checker) = (&mut self.stream, &mut self.user.h2c_check);
            stream.drain(|piece| checker.check(piece));
        }
    }
}
