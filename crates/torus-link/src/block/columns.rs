// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of blocks to the columns that the layers above take: eight to each row, as on 8b/10b lanes.
//!
//! Read first: `docs/torus-link.md`, *64b/66b*.

use super::align::Received;
use super::{BLOCK_BYTES, Content, IDLE_BYTE, SET_BYTE, SKIP_BYTE};
use crate::code::{COMMA, COMMAND, IDLE, SKIP, Symbol};
use crate::frame::COMMAND_BYTE;
use crate::lanes::{MAX_LANES, Received as ReceivedSymbol};

/// Columns of a row.
pub const ROW_COLUMNS: usize = 8;

/// A column; `None` where nothing is to be taken.
pub type Column = Option<[ReceivedSymbol; MAX_LANES]>;

/// Rows of a training set that are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Nothing,
    SecondHalf,
    Padding(u8),
}

/// Turns rows into columns.
#[derive(Clone, Debug)]
pub struct Columns {
    lanes: usize,
    set: Set,
}

impl Columns {
    /// Creates one for this number of lanes, with nothing of a training set before.
    pub const fn new(lanes: usize) -> Self {
        Self { lanes, set: Set::Nothing }
    }

    /// Returns the columns of the next row. The block of lane 0 tells a row of a training set and a
    /// skip row; any other row is blocks of frames, one lane behind the other.
    pub fn take(&mut self, row: &[Received; MAX_LANES]) -> [Column; ROW_COLUMNS] {
        let was = std::mem::replace(&mut self.set, Set::Nothing);
        match (row[0], was) {
            (Some(Content::Control([SET_BYTE, ..])), _) => {
                self.set = Set::SecondHalf;
                std::array::from_fn(|at| Some(self.across(row, |block| first_half(block, at))))
            }
            (Some(Content::Control(_)), _) if row[0] == Some(Content::filler(SKIP_BYTE)) => {
                let is_skip = |block| block == Content::filler(SKIP_BYTE);
                let mut columns = [None; ROW_COLUMNS];
                columns[0] = Some(self.across(row, |block| is_skip(block).then_some(COMMA)));
                columns[1] = Some([Some(SKIP); MAX_LANES]);
                columns
            }
            (Some(Content::Control(_)), _) | (_, Set::Nothing) => self.along(row),
            (_, Set::SecondHalf) => {
                self.set = Set::Padding(2);
                std::array::from_fn(|at| Some(self.across(row, |block| second_half(block, at))))
            }
            (_, Set::Padding(rows)) => {
                self.set = if rows > 1 { Set::Padding(rows - 1) } else { Set::Nothing };
                [None; ROW_COLUMNS]
            }
        }
    }

    /// A column with one symbol out of the block of each lane.
    fn across(
        &self,
        row: &[Received; MAX_LANES],
        symbol: impl Fn(Content) -> ReceivedSymbol,
    ) -> [ReceivedSymbol; MAX_LANES] {
        let mut column = [None; MAX_LANES];
        for (to, block) in column.iter_mut().zip(&row[..self.lanes]) {
            *to = block.and_then(&symbol);
        }
        column
    }

    /// Columns of blocks that follow each other, each with as many bytes as there are lanes.
    fn along(&self, row: &[Received; MAX_LANES]) -> [Column; ROW_COLUMNS] {
        let symbols: Vec<ReceivedSymbol> =
            row[..self.lanes].iter().flat_map(|block| symbols(*block)).collect();
        std::array::from_fn(|at| {
            let mut column = [None; MAX_LANES];
            column[..self.lanes].copy_from_slice(&symbols[at * self.lanes..][..self.lanes]);
            Some(column)
        })
    }
}

fn first_half(block: Content, at: usize) -> ReceivedSymbol {
    let Content::Control(bytes @ [SET_BYTE, ..]) = block else { return None };
    Some(if at == 0 { COMMA } else { Symbol::Data(bytes[at]) })
}

fn second_half(block: Content, at: usize) -> ReceivedSymbol {
    let Content::Data(bytes) = block else { return None };
    Some(Symbol::Data(bytes[at]))
}

/// The eight symbols of a block of frames; a block that is none has errors.
fn symbols(block: Received) -> [ReceivedSymbol; BLOCK_BYTES] {
    match block {
        Some(Content::Data(bytes)) => bytes.map(|byte| Some(Symbol::Data(byte))),
        Some(Content::Control(bytes @ [COMMAND_BYTE, ..])) => {
            let mut symbols = bytes.map(|byte| Some(Symbol::Data(byte)));
            symbols[0] = Some(COMMAND);
            symbols
        }
        block if block == Some(Content::filler(IDLE_BYTE)) => [Some(IDLE); BLOCK_BYTES],
        _ => [None; BLOCK_BYTES],
    }
}
