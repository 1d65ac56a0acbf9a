// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ports and a cable of line bits with latency, skew between lanes, any bit alignment, bit
//! errors and cuts, in exact simulated time, column by column.

use crosslane_torus_link::code::Code;
use crosslane_torus_link::frame::{LONG_PAYLOAD_BYTES, PAYLOAD_BYTES};
use crosslane_torus_link::lanes::{Column, MAX_LANES};
use crosslane_torus_link::*;
use std::collections::VecDeque;

/// One direction of one lane.
#[derive(Clone, Debug)]
struct Line {
    on_the_way: VecDeque<Option<Code>>,
    /// Delay of symbols in bits.
    bit_offset: u32,
    last: Option<Code>,
}

impl Line {
    fn pass(&mut self, code: Option<Code>) -> Option<Code> {
        self.on_the_way.push_back(code);
        let code = self.on_the_way.pop_front().flatten();
        let last = std::mem::replace(&mut self.last, code)?;
        let both = u32::from(last.0) << 10 | u32::from(code?.0);
        Some(Code((both >> self.bit_offset & 0x3ff) as u16))
    }
}

/// Faults of one direction.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Probability that a bit is wrong.
    pub bit_error_rate: f64,
    random: crosslane_random::Random,
    /// Bits until the next wrong one.
    good_bits: u64,
}

impl Faults {
    pub fn new(bit_error_rate: f64, seed: u64) -> Self {
        let mut faults = Self {
            bit_error_rate,
            random: crosslane_random::Random::with_seed(seed),
            good_bits: 0,
        };
        faults.good_bits = faults.draw();
        faults
    }

    fn draw(&mut self) -> u64 {
        if self.bit_error_rate <= 0.0 {
            return u64::MAX;
        }
        // Length of a run of good bits, geometrically distributed.
        let uniform = 1.0 - self.random.f64();
        (uniform.ln() / (1.0 - self.bit_error_rate).ln()) as u64
    }

    fn spoil(&mut self, code: Code) -> Code {
        let mut bits = code.0;
        let mut left = 10;
        while self.good_bits < left {
            left -= self.good_bits + 1;
            bits ^= 1 << left;
            self.good_bits = self.draw();
        }
        self.good_bits -= left;
        Code(bits)
    }
}

pub struct Side {
    pub port: Port,
    lines: Vec<Line>,
    pub faults: Faults,
    /// Lanes cut at this side's output.
    pub cut: [bool; MAX_LANES],
    payload_bytes: usize,
    pub to_send: u32,
    submitted: u32,
    pub taken: u32,
    /// Datagrams received on each channel.
    order: [u32; 8],
    /// Datagrams held by a host that takes nothing.
    held: Vec<Channel>,
    pub takes: bool,
    pub first_taken_at_ps: u64,
    pub last_taken_at_ps: u64,
}

pub struct Cable {
    pub sides: [Side; 2],
    pub now_ps: u64,
    pub column_ps: u64,
}

/// Channel of a datagram; channels take turns.
fn channel(number: u32) -> Channel {
    Channel::from_bits(number)
}

fn payload(side: usize, number: u32, bytes: usize) -> Payload {
    // Arbitrary but reproducible bytes.
    let mut random = crosslane_random::Random::with_seed(u64::from(number) * 2 + side as u64);
    (0..bytes).map(|_| random.u8(..)).collect()
}

impl Cable {
    /// Creates two disabled ports. `skew_columns` and `bit_offsets` are those of the lanes of each
    /// direction.
    pub fn new(
        lanes: usize,
        column_ps: u64,
        latency_ps: u64,
        skew: [[(u8, u8); MAX_LANES]; 2],
    ) -> Self {
        let datagram_ps = (136 / lanes) as u64 * column_ps;
        let parameters = EndParameters::for_wire(datagram_ps, latency_ps);
        let columns = (latency_ps / column_ps) as usize;
        let side = |at: usize| Side {
            port: Port::new(lanes, parameters, 100 + at as u16),
            lines: (0..lanes)
                .map(|lane| Line {
                    on_the_way: vec![None; columns + usize::from(skew[at][lane].0)].into(),
                    bit_offset: u32::from(skew[at][lane].1),
                    last: None,
                })
                .collect(),
            faults: Faults::new(0.0, 0),
            cut: [false; MAX_LANES],
            payload_bytes: PAYLOAD_BYTES,
            to_send: 0,
            submitted: 0,
            taken: 0,
            order: [0; 8],
            held: Vec::new(),
            takes: true,
            first_taken_at_ps: 0,
            last_taken_at_ps: 0,
        };
        Self { sides: [side(0), side(1)], now_ps: 0, column_ps }
    }

    /// The same ports with datagrams of 256 B.
    pub fn with_long_datagrams(mut self, latency_ps: u64) -> Self {
        for (at, side) in self.sides.iter_mut().enumerate() {
            let lanes = side.lines.len();
            let datagram_ps = (264 / lanes) as u64 * self.column_ps;
            let parameters = EndParameters::for_wire(datagram_ps, latency_ps);
            side.port = Port::new(lanes, parameters, 100 + at as u16).with_long_datagrams();
            side.payload_bytes = LONG_PAYLOAD_BYTES;
        }
        self
    }

    pub fn enable(&mut self) {
        self.sides.iter_mut().for_each(|side| side.port.enable());
    }

    /// Runs until `done`, or for `columns` columns. Returns whether it is done.
    pub fn run(&mut self, columns: u64, done: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..columns {
            if done(self) {
                return true;
            }
            self.column();
        }
        done(self)
    }

    /// Cuts one lane of one direction after `after` columns, for `columns` columns.
    pub fn drop_lane(&mut self, after: u64, columns: u64, lane: usize, side: usize) {
        self.run(after, |_| false);
        self.sides[side].cut[lane] = true;
        self.run(columns, |_| false);
        self.sides[side].cut[lane] = false;
    }

    pub fn are_up(&self) -> bool {
        self.sides.iter().all(|side| side.port.state() == PortState::Up)
    }

    /// Whether every datagram has arrived and both ends know it.
    pub fn is_settled(&self) -> bool {
        (0..2).all(|at| {
            let side = &self.sides[at];
            side.to_send == 0
                && side.submitted == self.sides[1 - at].taken
                && side.port.end().is_settled()
        })
    }

    /// Runs one symbol time of both sides.
    fn column(&mut self) {
        self.now_ps += self.column_ps;
        for at in 0..2 {
            self.submit(at);
            let side = &mut self.sides[at];
            let mut column: Column = side.port.transmit(self.now_ps);
            for ((code, line), is_cut) in column.iter_mut().zip(&mut side.lines).zip(side.cut) {
                let sent = code.filter(|_| !is_cut).map(|code| side.faults.spoil(code));
                *code = line.pass(sent);
            }
            let far = &mut self.sides[1 - at];
            if let Some(datagram) = far.port.receive(&column, self.now_ps) {
                far.take(&datagram, at, self.now_ps);
            }
        }
    }

    fn submit(&mut self, at: usize) {
        let side = &mut self.sides[at];
        while side.to_send > 0 {
            let to = channel(side.submitted);
            if side.port.end().room(to) == 0 {
                return;
            }
            let number = side.submitted;
            let what = payload(at, number, side.payload_bytes);
            side.port.end_mut().submit(to, Kind::Last, 0, (number % 8192) as u16, what);
            side.submitted += 1;
            side.to_send -= 1;
        }
    }
}

impl Side {
    /// Delays a lane by one more column from now on.
    pub fn slip(&mut self, lane: usize) {
        let first = self.lines[lane].on_the_way.front().copied().flatten();
        self.lines[lane].on_the_way.push_front(first);
    }

    /// Checks a datagram. Channels take turns at the sender, but credits and room may differ, so
    /// the order holds only within a channel.
    fn take(&mut self, datagram: &Datagram, far: usize, now_ps: u64) {
        let header = datagram.header;
        let before = self.order[header.channel.index()];
        let number = before * 8 + u32::from(header.channel.number());
        assert_eq!(datagram.payload, payload(far, number, self.payload_bytes), "{header:?}");
        assert_eq!(u32::from(header.index), number % 8192);
        self.order[header.channel.index()] += 1;
        self.taken += 1;
        if self.first_taken_at_ps == 0 {
            self.first_taken_at_ps = now_ps;
        }
        self.last_taken_at_ps = now_ps;
        self.held.push(header.channel);
        if self.takes {
            for channel in self.held.drain(..) {
                self.port.end_mut().free(channel);
            }
        }
    }
}
