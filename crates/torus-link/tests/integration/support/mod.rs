// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two link ends joined by wires that lose or damage frames, and hosts that send numbered datagrams
//! and take them. Simulated time, exact.

pub mod cable;

use crosslane_torus_link::frame::CHANNELS;
use crosslane_torus_link::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// Effect of the wire on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Comes,
    Damaged,
    /// The frame is lost: the receiver sees idle columns.
    Vanishes,
}

/// One host with its link end.
pub struct Side {
    pub end: LinkEnd,
    /// Datagrams still to be submitted on each channel.
    pub to_send: [u32; CHANNELS],
    submitted: [u32; CHANNELS],
    /// Datagrams received on each channel.
    pub taken: [u32; CHANNELS],
    /// Time at which each datagram's buffer is freed, and its channel.
    frees: VecDeque<(u64, Channel)>,
    /// Time for which the host holds a datagram; `u64::MAX` until it is told.
    pub hold_ps: u64,
    arrivals: VecDeque<(u64, Result<Frame, Damaged>)>,
    wire_free_at_ps: u64,
    /// Symbols put on the wire.
    pub symbols: u64,
    pub first_taken_at_ps: u64,
    pub last_taken_at_ps: u64,
}

/// Payload of datagram `number` of a channel.
pub fn payload(side: usize, channel: Channel, number: u32) -> Payload {
    let mut bytes = [0; 128];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4] = channel.number();
    bytes[5] = side as u8;
    Arc::new(bytes)
}

impl Side {
    fn new(parameters: EndParameters) -> Self {
        Self {
            end: LinkEnd::new(parameters),
            to_send: [0; CHANNELS],
            submitted: [0; CHANNELS],
            taken: [0; CHANNELS],
            frees: VecDeque::new(),
            hold_ps: 0,
            arrivals: VecDeque::new(),
            wire_free_at_ps: 0,
            symbols: 0,
            first_taken_at_ps: 0,
            last_taken_at_ps: 0,
        }
    }

    fn submit(&mut self, side: usize) {
        for channel in Channel::ALL {
            let at = channel.index();
            while self.to_send[at] > 0 && self.end.room(channel) > 0 {
                let number = self.submitted[at];
                let what = payload(side, channel, number);
                let kind = if number.is_multiple_of(3) { Kind::Last } else { Kind::Middle };
                self.end.submit(channel, kind, (number % 64) as u8, (number % 8192) as u16, what);
                self.submitted[at] += 1;
                self.to_send[at] -= 1;
            }
        }
    }

    /// Checks that this is the next datagram of its channel.
    fn take(&mut self, datagram: Datagram, far: usize, now_ps: u64) {
        let header = datagram.header;
        let number = self.taken[header.channel.index()];
        assert_eq!(datagram.payload, payload(far, header.channel, number), "{header:?}");
        assert_eq!(u32::from(header.tag), number % 64);
        assert_eq!(u32::from(header.index), number % 8192);
        assert_eq!(header.kind == Kind::Last, number.is_multiple_of(3));
        self.taken[header.channel.index()] += 1;
        if self.first_taken_at_ps == 0 {
            self.first_taken_at_ps = now_ps;
        }
        self.last_taken_at_ps = now_ps;
        self.frees.push_back((now_ps.saturating_add(self.hold_ps), header.channel));
    }

    pub fn all_taken(&self) -> u32 {
        self.taken.iter().sum()
    }

    /// Frees all held datagrams now.
    pub fn let_go(&mut self, now_ps: u64) {
        self.frees.iter_mut().for_each(|free| free.0 = now_ps);
    }
}

/// A link with its two hosts.
pub struct Pair<F> {
    pub sides: [Side; 2],
    pub now_ps: u64,
    pub symbol_ps: u64,
    pub latency_ps: u64,
    /// Decides the fate of a frame that side `.0` sends now.
    pub fate: F,
    frames: u64,
}

impl<F: FnMut(usize, &Frame, u64) -> Fate> Pair<F> {
    /// Creates a pair with both ends up. `symbol_ps` is the time of a symbol on all lanes together.
    pub fn new(parameters: EndParameters, symbol_ps: u64, latency_ps: u64, fate: F) -> Self {
        let sides = [Side::new(parameters), Side::new(parameters)];
        let mut pair = Self { sides, now_ps: 0, symbol_ps, latency_ps, fate, frames: 0 };
        for side in 0..2 {
            pair.up(side);
        }
        pair
    }

    pub fn up(&mut self, side: usize) {
        let far = self.sides[1 - side].end.parameters().channel_datagrams;
        self.sides[side].end.up(far, self.now_ps);
    }

    /// Takes both ends down and loses the frames on their way.
    pub fn cut(&mut self) {
        for side in &mut self.sides {
            side.end.down();
            side.arrivals.clear();
            side.wire_free_at_ps = self.now_ps;
        }
    }

    /// Runs until nothing is left to do, or until `until_ps`. Returns whether nothing is left.
    ///
    /// # Panics
    /// If an end that had nothing to send wants to be woken at once, or sends far too many frames.
    pub fn run(&mut self, until_ps: u64) -> bool {
        loop {
            let now_ps = self.now_ps;
            let mut next_ps = u64::MAX;
            for at in 0..2 {
                self.work(at);
                let side = &self.sides[at];
                if side.wire_free_at_ps > now_ps {
                    next_ps = next_ps.min(side.wire_free_at_ps);
                } else if let Some(wake_ps) = side.end.wakes_at_ps() {
                    assert!(wake_ps > now_ps, "woken at {wake_ps}, now {now_ps}");
                    next_ps = next_ps.min(wake_ps);
                }
            }
            for side in &self.sides {
                let arrival = side.arrivals.front().map(|arrival| arrival.0);
                let free = side.frees.front().map(|free| free.0).filter(|at| *at != u64::MAX);
                next_ps = arrival.into_iter().chain(free).fold(next_ps, u64::min);
            }
            if next_ps == u64::MAX {
                return true;
            }
            if next_ps > until_ps {
                self.now_ps = until_ps;
                return false;
            }
            assert!(next_ps >= now_ps);
            self.now_ps = next_ps;
        }
    }

    /// Does all that is due at side `at` now.
    fn work(&mut self, at: usize) {
        let now_ps = self.now_ps;
        let side = &mut self.sides[at];
        while side.arrivals.front().is_some_and(|arrival| arrival.0 <= now_ps) {
            let (_, frame) = side.arrivals.pop_front().expect("there is one");
            if let Some(datagram) = side.end.receive(frame, now_ps) {
                side.take(datagram, 1 - at, now_ps);
            }
        }
        while side.frees.front().is_some_and(|free| free.0 <= now_ps) {
            let (_, channel) = side.frees.pop_front().expect("there is one");
            side.end.free(channel);
        }
        side.submit(at);
        if side.wire_free_at_ps > now_ps {
            return;
        }
        let Some(frame) = side.end.next_frame(now_ps) else { return };
        self.frames += 1;
        assert!(self.frames < 1_000_000, "frames without end: {frame:?}");
        side.symbols += frame.symbols() as u64;
        let sent_ps = now_ps + frame.symbols() as u64 * self.symbol_ps;
        side.wire_free_at_ps = sent_ps;
        let comes = match (self.fate)(at, &frame, now_ps) {
            Fate::Comes => Some(Ok(frame)),
            Fate::Damaged => Some(Err(Damaged::Crc)),
            Fate::Vanishes => None,
        };
        if let Some(frame) = comes {
            self.sides[1 - at].arrivals.push_back((sent_ps + self.latency_ps, frame));
        }
    }

    /// Asserts that every datagram was delivered once and both ends know it.
    pub fn assert_done(&self, datagrams: [u32; 2]) {
        for (at, side) in self.sides.iter().enumerate() {
            assert_eq!(side.all_taken(), datagrams[1 - at], "to side {at}");
            assert_eq!(u64::from(datagrams[at]), side.end.counters().sent, "by side {at}");
            assert!(side.end.is_settled(), "side {at}: {:?}", side.end);
            assert_eq!(side.end.wakes_at_ps(), None);
            assert_eq!(side.end.counters().overruns, 0);
            assert_eq!(side.end.counters().stale, 0);
            for channel in Channel::ALL {
                let far = self.sides[1 - at].end.parameters().channel_datagrams;
                assert_eq!(side.end.credit(channel), usize::from(far), "{channel:?}");
            }
        }
    }
}
