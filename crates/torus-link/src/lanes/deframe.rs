// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Columns to frames, idle columns and training sets.
//!
//! Read first: `docs/torus-link.md`, *Finding frames again*.

use super::MAX_LANES;
use super::align::Received;
use super::training::{SET_COLUMNS, TrainingSet};
use crate::code::{COMMA, COMMAND, IDLE, SKIP, Symbol};
use crate::frame::{
    COMMAND_BYTE, COMMAND_SYMBOLS, DATAGRAM_SYMBOLS, Damaged, Frame, LONG_DATAGRAM_SYMBOLS,
};

/// Event at the end of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame, or the start of a search for one.
    Frame(Result<Frame, Damaged>),
    /// An idle column without error in any lane.
    Idle,
    /// A training set; `None` if it was bad.
    Set(Option<TrainingSet>),
    /// The first column of a skip or training set; true if all lanes agree.
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

/// Assembles deskewed columns into events.
#[derive(Clone, Debug)]
pub struct Deframer {
    lanes: usize,
    state: State,
    datagram_symbols: usize,
    bytes: [u8; LONG_DATAGRAM_SYMBOLS],
    filled: usize,
    set: [[u8; SET_COLUMNS]; MAX_LANES],
    set_is_bad: bool,
}

/// At most two events: one broken off, and one completed at once.
pub type Events = [Option<Event>; 2];

const NOTHING: Events = [None, None];

fn one(event: Event) -> Events {
    [Some(event), None]
}

impl Deframer {
    /// Creates a deframer that searches for the start of a frame.
    pub const fn new(lanes: usize) -> Self {
        Self {
            lanes,
            state: State::Hunt,
            datagram_symbols: DATAGRAM_SYMBOLS,
            bytes: [0; LONG_DATAGRAM_SYMBOLS],
            filled: 0,
            set: [[0; SET_COLUMNS]; MAX_LANES],
            set_is_bad: false,
        }
    }

    /// Takes datagrams of 264 symbols, not of 136.
    #[must_use]
    pub const fn with_long_datagrams(self) -> Self {
        Self { datagram_symbols: LONG_DATAGRAM_SYMBOLS, ..self }
    }

    /// Discards any partial frame or set.
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
            Some(Symbol::Data(_)) => self.go_on(column, self.datagram_symbols),
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

    /// Handles a further column of a frame.
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

    /// Handles a column of a training set.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Channel, Command, Operation};

    type Columns = Vec<[Received; MAX_LANES]>;

    fn all(symbol: Symbol) -> [Received; MAX_LANES] {
        [Some(symbol); MAX_LANES]
    }

    fn command() -> Frame {
        let operation = Operation::Acknowledge;
        Frame::Command(Command { operation, sequence: 9, channel: Channel::ALL[3], freed: 77 })
    }

    /// A command on four lanes.
    fn columns() -> Columns {
        let bytes = command().encode();
        let mut symbols: Vec<Received> =
            bytes.as_slice().iter().map(|byte| Some(Symbol::Data(*byte))).collect();
        symbols[0] = Some(COMMAND);
        let column = |part: &[Received]| {
            let mut column = [None; MAX_LANES];
            column[..4].copy_from_slice(part);
            column
        };
        symbols.chunks(4).map(column).collect()
    }

    fn events(columns: &Columns) -> Vec<Event> {
        let mut deframer = Deframer::new(4);
        columns.iter().flat_map(|column| deframer.take(column)).flatten().collect()
    }

    #[test]
    fn skip_sets_may_be_of_any_length() {
        for skips in 0..5 {
            let set = [vec![all(COMMA)], vec![all(SKIP); skips]].concat();
            let stream = [vec![all(IDLE)], set, columns(), columns()].concat();
            let whole = Event::Frame(Ok(command()));
            let wanted = [Event::Idle, Event::Comma(true), whole.clone(), whole];
            assert_eq!(events(&stream), wanted, "{skips}");
        }
    }

    #[test]
    fn a_hunt_is_one_damaged_frame_and_ends_at_a_control_symbol() {
        let data = all(Symbol::Data(5));
        let broken = [vec![all(IDLE), data, [None; MAX_LANES]], vec![data; 40]].concat();
        let damaged = Event::Frame(Err(Damaged::Symbol));
        let wanted = [Event::Idle, damaged, Event::Frame(Ok(command()))];
        assert_eq!(events(&[broken, columns()].concat()), wanted);
        // Broken off by the start of another.
        let stream = [vec![all(IDLE), data], columns()].concat();
        let wanted =
            [Event::Idle, Event::Frame(Err(Damaged::Control)), Event::Frame(Ok(command()))];
        assert_eq!(events(&stream), wanted);
        // A control symbol that begins nothing, and one in another lane.
        let stream = vec![all(IDLE), all(Symbol::Control(0xfc)), data, all(IDLE)];
        let wanted = [Event::Idle, Event::Frame(Err(Damaged::Begin)), Event::Idle];
        assert_eq!(events(&stream), wanted);
        let mut odd = data;
        odd[2] = Some(IDLE);
        let wanted = [Event::Idle, Event::Frame(Err(Damaged::Control)), Event::Idle];
        assert_eq!(events(&vec![all(IDLE), data, odd, all(IDLE)]), wanted);
    }

    #[test]
    fn training_sets_are_good_or_not() {
        let set = TrainingSet {
            version: 1,
            lanes: 4,
            channel_datagrams: 300,
            session: 0x1234,
            seen: 0xfedc,
            stage: 2,
            has_long_datagrams: true,
            is_in_order: true,
        };
        let column = |at: usize| {
            let mut column = [None; MAX_LANES];
            for (lane, symbol) in column.iter_mut().take(4).enumerate() {
                let byte = set.encode(lane as u8)[at];
                *symbol = Some(if at == 0 { COMMA } else { Symbol::Data(byte) });
            }
            column
        };
        let good: Columns = (0..SET_COLUMNS).map(column).collect();
        assert_eq!(events(&good), [Event::Comma(true), Event::Set(Some(set))]);
        for at in 1..SET_COLUMNS {
            for wrong in [None, Some(Symbol::Data(0xa5))] {
                let mut bad = good.clone();
                bad[at][3] = wrong;
                assert_eq!(events(&bad), [Event::Comma(true), Event::Set(None)], "{at}");
            }
        }
        let mut swapped = good;
        for column in &mut swapped[1..] {
            column.swap(1, 2);
        }
        let swapped = events(&swapped);
        let Event::Set(Some(swapped)) = &swapped[1] else { panic!("{swapped:?}") };
        assert!(!swapped.is_in_order);
    }
}
