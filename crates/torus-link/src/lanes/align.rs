// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Line bits to columns: bit alignment and decoding of each lane, and deskew.
//!
//! Read first: `docs/torus-link.md`, *Bring-up and loss*.

use super::{Column, MAX_LANES};
use crate::code::{COMMA, Code, Decoder, Disparity, Symbol};

/// Largest skew between lanes, in columns.
pub const MAX_SKEW_COLUMNS: u8 = 7;

/// Symbols kept per lane for its delay, a power of two.
const HISTORY: usize = 8;
/// Age that means no recent comma.
const LONG_AGO: u8 = u8::MAX;

/// Symbol received on a lane; `None` for an error.
pub type Received = Option<Symbol>;

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The last twenty bits, the newest in bit 0.
    bits: u32,
    /// Number of the newest bits that belong to the next symbol; `None` before the first comma.
    offset: Option<u8>,
    decoder: Decoder,
    history: [Received; HISTORY],
    was_comma: bool,
    /// Columns since a comma followed by data.
    age: u8,
}

impl Lane {
    fn restart(&mut self) {
        *self = Self { age: LONG_AGO, ..Self::default() };
    }

    /// Takes ten bits.
    fn take(&mut self, code: Option<Code>, clock: usize) {
        let symbol = code.and_then(|code| self.decode(code));
        let is_beginning = self.was_comma && matches!(symbol, Some(Symbol::Data(_)));
        self.age = if is_beginning { 0 } else { self.age.saturating_add(1) };
        self.was_comma = symbol == Some(COMMA);
        self.history[clock % HISTORY] = symbol;
    }

    fn decode(&mut self, code: Code) -> Received {
        self.bits = (self.bits << 10 | u32::from(code.0 & 0x3ff)) & 0xf_ffff;
        if self.offset.is_none() {
            let at = |offset: &u8| self.bits >> offset & 0x3ff;
            let is_comma = |offset: &u8| matches!(at(offset) >> 3, 0b0011111 | 0b1100000);
            let offset = (0..10).find(is_comma)?;
            let is_minus = at(&offset) >> 3 == 0b0011111;
            self.offset = Some(offset);
            self.decoder = Decoder::new(if is_minus { Disparity::Minus } else { Disparity::Plus });
        }
        let offset = self.offset?;
        self.decoder.decode(Code((self.bits >> offset & 0x3ff) as u16)).ok()
    }
}

/// Alignment, decoding and deskew of the lanes of a port.
#[derive(Clone, Debug)]
pub struct Aligner {
    lanes: usize,
    lane: [Lane; MAX_LANES],
    /// Columns by which each lane is delayed, once known.
    delays: Option<[u8; MAX_LANES]>,
    clock: usize,
}

impl Aligner {
    /// Creates an aligner without alignment.
    pub fn new(lanes: usize) -> Self {
        let mut aligner = Self { lanes, lane: Default::default(), delays: None, clock: 0 };
        aligner.restart();
        aligner
    }

    /// Discards alignment and deskew.
    pub fn restart(&mut self) {
        self.lane.iter_mut().for_each(Lane::restart);
        self.delays = None;
    }

    /// Takes ten line bits of each lane and returns a deskewed column once aligned.
    pub fn take(&mut self, column: &Column) -> Option<[Received; MAX_LANES]> {
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        let lanes = &mut self.lane[..self.lanes];
        for (lane, code) in lanes.iter_mut().zip(column) {
            lane.take(*code, clock);
        }
        if self.delays.is_none()
            && lanes.iter().all(|lane| lane.age <= MAX_SKEW_COLUMNS)
            && lanes.iter().any(|lane| lane.age == 0)
        {
            self.delays = Some(self.lane.map(|lane| lane.age));
        }
        let delays = self.delays?;
        let mut deskewed = [None; MAX_LANES];
        for (at, lane) in self.lane[..self.lanes].iter().enumerate() {
            deskewed[at] = lane.history[clock.wrapping_sub(usize::from(delays[at])) % HISTORY];
        }
        Some(deskewed)
    }
}
