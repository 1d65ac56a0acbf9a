// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Line bits to rows of blocks: alignment and descrambling of each lane, and deskew.
//!
//! Read first: `docs/torus-link.md`, *64b/66b*.

use super::{BLOCK_BITS, Block, Content, SET_BYTE, Scrambler};
use crate::lanes::MAX_LANES;

/// Largest skew between aligned lanes, in rows.
pub const MAX_SKEW_ROWS: u8 = 1;

/// Headers in a row without an error after which a lane is aligned, and those among which its
/// errors are counted from then on.
const HEADERS: u8 = 64;
/// Errors among [`HEADERS`] after which the place is given up.
const HEADER_ERRORS: u8 = 16;
/// Age that means no recent beginning.
const LONG_AGO: u8 = u8::MAX;

/// Block received on a lane; `None` for a wrong header, or before the lane is aligned.
pub type Received = Option<Content>;

/// Blocks of all lanes that were sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whether each lane is aligned; before that training does not count.
    pub is_aligned: bool,
    /// The blocks, lane 0 first, once the lanes are deskewed.
    pub blocks: Option<[Received; MAX_LANES]>,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    /// The 66 bits before those that come, the earliest lowest.
    before: u128,
    /// Bits of `before` that come before the next block.
    place: usize,
    is_aligned: bool,
    headers: u8,
    errors: u8,
    descrambler: Scrambler,
    /// The block before the last.
    was: Received,
    last: Received,
    /// Rows since the first half of a training set.
    age: u8,
}

impl Lane {
    fn new() -> Self {
        Self {
            before: 0,
            place: 0,
            is_aligned: false,
            headers: 0,
            errors: 0,
            descrambler: Scrambler::default(),
            was: None,
            last: None,
            age: LONG_AGO,
        }
    }

    /// Tests its place anew.
    fn restart(&mut self) {
        let Self { before, place, descrambler, .. } = *self;
        *self = Self { before, place, descrambler, ..Self::new() };
    }

    /// Takes 66 bits; returns whether the lane was aligned before them.
    fn take(&mut self, line: Option<Block>) -> bool {
        let was_aligned = self.is_aligned && line.is_some();
        let bits = line.map_or(0, Block::bits);
        let here = self.before >> self.place | bits << (BLOCK_BITS - self.place);
        self.before = bits;
        let content = self.descrambler.decode(Block::from_bits(here));
        self.was = self.last;
        self.last = content.ok().filter(|_| was_aligned);
        let is_beginning = matches!(self.last, Some(Content::Control([SET_BYTE, ..])));
        self.age = if is_beginning { 0 } else { self.age.saturating_add(1) };
        if line.is_none() {
            (self.is_aligned, self.headers, self.errors) = (false, 0, 0);
        } else {
            self.count(content.is_ok());
        }
        was_aligned
    }

    /// Counts a header (IEEE 802.3 figure 49-12).
    const fn count(&mut self, is_right: bool) {
        self.headers += 1;
        self.errors += !is_right as u8;
        if self.errors >= HEADER_ERRORS || (!self.is_aligned && !is_right) {
            self.place = (self.place + 1) % BLOCK_BITS;
            (self.is_aligned, self.headers, self.errors) = (false, 0, 0);
        } else if self.headers == HEADERS {
            (self.is_aligned, self.headers, self.errors) = (true, 0, 0);
        }
    }
}

/// Alignment, descrambling and deskew of the lanes of a port.
#[derive(Clone, Debug)]
pub struct Aligner {
    lanes: usize,
    lane: [Lane; MAX_LANES],
    /// Rows by which each lane is delayed, once known.
    delays: Option<[u8; MAX_LANES]>,
}

impl Aligner {
    /// Creates an aligner without alignment.
    pub fn new(lanes: usize) -> Self {
        Self { lanes, lane: [Lane::new(); MAX_LANES], delays: None }
    }

    /// Discards alignment and deskew; each lane tests the place where it was first.
    pub fn restart(&mut self) {
        self.lane.iter_mut().for_each(Lane::restart);
        self.delays = None;
    }

    /// Takes 66 line bits of each lane, which may begin anywhere within a block; `None` without a
    /// signal.
    pub fn take(&mut self, line: &[Option<Block>; MAX_LANES]) -> Row {
        let lanes = &mut self.lane[..self.lanes];
        let mut is_aligned = true;
        for (lane, bits) in lanes.iter_mut().zip(line) {
            is_aligned &= lane.take(*bits);
        }
        if self.delays.is_none()
            && lanes.iter().all(|lane| lane.age <= MAX_SKEW_ROWS)
            && lanes.iter().any(|lane| lane.age == 0)
        {
            self.delays = Some(self.lane.map(|lane| lane.age));
        }
        let blocks = self.delays.map(|delays| {
            let mut row = [None; MAX_LANES];
            for (at, lane) in self.lane[..self.lanes].iter().enumerate() {
                row[at] = if delays[at] == 0 { lane.last } else { lane.was };
            }
            row
        });
        Row { is_aligned, blocks }
    }
}
