// SPDX-License-Identifier: Apache-2.0 OR MIT
//! User circuit: routing of the streams, generator and checkers of their pattern, command port, and
//! ping-pong.

use crosslane_regs::engine::StreamSource;
use crosslane_regs::engine::user::{self, interconnect};

use super::Engine;
use super::channel::{Descriptor, Kind, Origin};
use crate::kit::RegisterFile;

/// Difference of consecutive words: 2^32 divided by the golden ratio. It is odd, so all 2^32 words
/// differ.
const STEP: u32 = 0x9e37_79b1;

const WORD_BYTES: u64 = 4;

fn word_at(seed: u32, number: u64) -> u32 {
    seed.wrapping_add((number as u32).wrapping_mul(STEP))
}

/// Writes the bytes of the pattern, starting with number `byte`: word n is seed + n x 9E3779B1h,
/// little-endian. The pattern is a byte stream; byte n belongs to word n / 4.
pub(super) fn fill_pattern(seed: u32, byte: u64, out: &mut [u8]) {
    let within = (byte % WORD_BYTES) as usize;
    let mut value = word_at(seed, byte / WORD_BYTES);
    // Finish the word that an earlier call began.
    let begun = value.to_le_bytes();
    let head = if within == 0 { 0 } else { (begun.len() - within).min(out.len()) };
    let (first, whole) = out.split_at_mut(head);
    if head > 0 {
        first.copy_from_slice(&begun[within..within + head]);
        value = value.wrapping_add(STEP);
    }
    let (words, last) = whole.as_chunks_mut::<4>();
    for chunk in words {
        *chunk = value.to_le_bytes();
        value = value.wrapping_add(STEP);
    }
    last.copy_from_slice(&value.to_le_bytes()[..last.len()]);
}

/// Checker of a byte stream against the pattern. It compares whole words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checker {
    pub enabled: bool,
    pub seed: u32,
    /// Number of the next word.
    word: u64,
    /// Bytes of the next word so far.
    begun: [u8; 4],
    begun_bytes: usize,
    /// Words that differed from the pattern.
    pub errors: u32,
    /// Number of the first wrong word.
    pub first: u32,
}

impl Checker {
    /// Starts over with the current settings.
    pub fn restart(&mut self) {
        (self.word, self.errors, self.first, self.begun_bytes) = (0, 0, 0, 0);
    }

    /// Checks the next bytes of the stream if the checker is enabled.
    pub fn check(&mut self, mut bytes: &[u8]) {
        if !self.enabled {
            return;
        }
        if self.begun_bytes > 0 {
            let (some, rest) = bytes.split_at(bytes.len().min(4 - self.begun_bytes));
            self.begun[self.begun_bytes..self.begun_bytes + some.len()].copy_from_slice(some);
            (self.begun_bytes, bytes) = (self.begun_bytes + some.len(), rest);
            if self.begun_bytes < 4 {
                return;
            }
            self.check_words(&[self.begun]);
        }
        let (words, last) = bytes.as_chunks::<4>();
        self.check_words(words);
        self.begun[..last.len()].copy_from_slice(last);
        self.begun_bytes = last.len();
    }

    fn check_words(&mut self, words: &[[u8; 4]]) {
        let mut value = word_at(self.seed, self.word);
        let mut difference = 0;
        for word in words {
            difference |= u32::from_le_bytes(*word) ^ value;
            value = value.wrapping_add(STEP);
        }
        if difference != 0 {
            self.note_errors(words);
        }
        self.word += words.len() as u64;
    }

    #[cold]
    fn note_errors(&mut self, words: &[[u8; 4]]) {
        for (at, word) in (self.word..).zip(words) {
            let expected = word_at(self.seed, at);
            if u32::from_le_bytes(*word) != expected {
                if self.errors == 0 {
                    self.first = at as u32;
                }
                self.errors = self.errors.saturating_add(1);
            }
        }
    }
}

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
            self.ends.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_takes_the_pattern_in_any_pieces_and_finds_each_wrong_word() {
        let mut whole = [0; 400];
        fill_pattern(7, 0, &mut whole);
        assert_eq!(whole[..8], [7, 0, 0, 0, 0xb8, 0x79, 0x37, 0x9e]);
        let mut piece = [0; 40];
        fill_pattern(7, 52, &mut piece);
        assert_eq!(piece, whole[52..92]);
        for (from, bytes) in [(0, 1), (1, 1), (1, 2), (2, 9), (3, 1), (3, 2), (53, 40), (54, 3)] {
            let mut piece = vec![0; bytes];
            fill_pattern(7, from as u64, &mut piece);
            assert_eq!(piece, whole[from..from + bytes], "{bytes} bytes from {from} on");
        }
        let mut checker = Checker { enabled: true, seed: 7, ..Checker::default() };
        let mut at = 0;
        for bytes in [4, 36, 1, 1, 3, 119, 2, 0, 234] {
            checker.check(&whole[at..at + bytes]);
            at += bytes;
        }
        assert_eq!((at, checker.errors, checker.word), (400, 0, 100));
        // A word counts once it is complete.
        checker.check(&[0; 3]);
        assert_eq!((checker.errors, checker.word), (0, 100));
        checker.check(&[0]);
        assert_eq!((checker.errors, checker.first), (1, 100));
        checker.restart();
        (whole[80], whole[84], whole[399]) = (!whole[80], !whole[84], !whole[399]);
        checker.check(&whole);
        assert_eq!((checker.errors, checker.first), (3, 20));
    }
}
