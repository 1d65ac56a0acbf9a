// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From columns to frames, idle columns and training sets.
//!
//! Read first: `docs/torus-link.md`, *Finding frames again*.

use super::MAX_LANES;
use super::align::Received;
use super::training::{SET_COLUMNS, TrainingSet};
use crate::code::{COMMA, COMMAND, IDLE, SKIP, Symbol};
use crate::frame::{COMMAND_BYTE, COMMAND_SYMBOLS, DATAGRAM_SYMBOLS, Damaged, Frame};

/// What a column ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame, or a hunt that begins.
    Frame(Result<Frame, Damaged>),
    /// An idle column without error in any lane.
    Idle,
    /// A training set, if it was good.
    Set(Option<TrainingSet>),
    /// The first column of a skip set or training set; whether it was one in all lanes.
    Comma(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    Frame { symbols: usize },
    Comma,
    Skip,
    Set,
    Hunt,
}

/// Takes deskewed columns.
#[derive(Clone, Debug)]
pub struct Deframer {
    lanes: usize,
    state: State,
    bytes: [u8; DATAGRAM_SYMBOLS],
    filled: usize,
    set: [[u8; SET_COLUMNS]; MAX_LANES],
    set_is_bad: bool,
}

/// At most two events: what was broken off, and what was whole at once.
pub type Events = [Option<Event>; 2];

const NOTHING: Events = [None, None];

fn one(event: Event) -> Events {
    [Some(event), None]
}

impl Deframer {
    /// Looks for a beginning.
    pub const fn new(lanes: usize) -> Self {
        Self {
            lanes,
            state: State::Hunt,
            bytes: [0; DATAGRAM_SYMBOLS],
            filled: 0,
            set: [[0; SET_COLUMNS]; MAX_LANES],
            set_is_bad: false,
        }
    }

    /// Forgets what has begun.
    pub const fn restart(&mut self) {
        self.state = State::Hunt;
    }

    /// Takes the next column.
    pub fn take(&mut self, column: &[Received; MAX_LANES]) -> Events {
        let first = column[0];
        let is_control = matches!(first, Some(Symbol::Control(_)));
        match self.state {
            State::Begin => self.begin(column),
            State::Hunt if is_control => self.begin(column),
            State::Hunt => NOTHING,
            State::Frame { .. } | State::Set if is_control => {
                let [begun, _] = self.begin(column);
                [Some(Event::Frame(Err(Damaged::Control))), begun]
            }
            State::Frame { symbols } => self.go_on(column, symbols),
            State::Set => self.collect(column),
            State::Comma => match first {
                Some(SKIP) => {
                    self.state = State::Skip;
                    NOTHING
                }
                Some(Symbol::Data(_)) => {
                    self.state = State::Set;
                    self.filled = 1;
                    self.set_is_bad = false;
                    self.collect(column)
                }
                _ => self.begin(column),
            },
            State::Skip if first == Some(SKIP) => NOTHING,
            State::Skip => self.begin(column),
        }
    }

    fn hunt(&mut self, damaged: Damaged) -> Events {
        self.state = State::Hunt;
        one(Event::Frame(Err(damaged)))
    }

    fn begin(&mut self, column: &[Received; MAX_LANES]) -> Events {
        let all = |symbol| column[..self.lanes].iter().all(|lane| *lane == Some(symbol));
        self.filled = 0;
        match column[0] {
            None => self.hunt(Damaged::Symbol),
            Some(Symbol::Data(_)) => self.go_on(column, DATAGRAM_SYMBOLS),
            Some(COMMAND) => self.go_on(column, COMMAND_SYMBOLS),
            Some(IDLE) => {
                self.state = State::Begin;
                if all(IDLE) { one(Event::Idle) } else { NOTHING }
            }
            Some(COMMA) => {
                self.state = State::Comma;
                one(Event::Comma(all(COMMA)))
            }
            Some(Symbol::Control(_)) => self.hunt(Damaged::Begin),
        }
    }

    /// A column of a frame.
    fn go_on(&mut self, column: &[Received; MAX_LANES], symbols: usize) -> Events {
        for lane in &column[..self.lanes] {
            self.bytes[self.filled] = match *lane {
                Some(Symbol::Data(byte)) => byte,
                Some(COMMAND) if self.filled == 0 => COMMAND_BYTE,
                Some(Symbol::Control(_)) => return self.hunt(Damaged::Control),
                None => return self.hunt(Damaged::Symbol),
            };
            self.filled += 1;
        }
        if self.filled < symbols {
            self.state = State::Frame { symbols };
            return NOTHING;
        }
        let frame = Frame::decode(&self.bytes[..symbols]);
        self.state = if frame.is_ok() { State::Begin } else { State::Hunt };
        one(Event::Frame(frame))
    }

    /// A column of a training set.
    fn collect(&mut self, column: &[Received; MAX_LANES]) -> Events {
        for (lane, symbol) in column[..self.lanes].iter().enumerate() {
            match *symbol {
                Some(Symbol::Data(byte)) => self.set[lane][self.filled] = byte,
                _ => self.set_is_bad = true,
            }
        }
        self.filled += 1;
        if self.filled < SET_COLUMNS {
            return NOTHING;
        }
        self.state = State::Begin;
        let set = TrainingSet::decode(&mut self.set[..self.lanes]);
        one(Event::Set(set.filter(|_| !self.set_is_bad)))
    }
}
