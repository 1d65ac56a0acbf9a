// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 64b/66b code: blocks of eight bytes with a sync header of two bits, and the
//! self-synchronous scrambler of IEEE 802.3 clause 49.
//!
//! Read first: `docs/torus-link.md`, *64b/66b*. Bit 0 of a [`Block`] is sent first.

mod align;
mod columns;
mod rows;

pub use align::{Aligner, MAX_SKEW_ROWS, Received, Row};
pub use columns::{Column, Columns, ROW_COLUMNS};
pub use rows::{Rows, SentRow};

use crate::frame::{COMMAND_BYTE, COMMAND_SYMBOLS, Damaged, Frame, FrameBytes};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 8;
/// Line bits of a block.
pub const BLOCK_BITS: usize = 66;
/// Fewest rows from the beginning of a skip row to the next.
pub const SKIP_INTERVAL_ROWS: u32 = 1_280;
/// Distances at which the descrambler repeats a wrong line bit.
pub const TAPS: [usize; 2] = [39, 58];

/// Type of an idle block, whose other bytes are 0.
pub const IDLE_BYTE: u8 = 0x7c;
/// Type of a skip block, whose other bytes are 0.
pub const SKIP_BYTE: u8 = 0x1c;
/// Rows of a training set: the control blocks of its first half, the data blocks of its second,
/// and data blocks of zeros, so that lanes a row apart are told from those of the next set.
pub const SET_ROWS: usize = 4;

/// Type of the first block of a training set.
pub const SET_BYTE: u8 = 0xbc;

/// Line bits of the sync headers, the bit that is sent first lowest.
const DATA_HEADER: u8 = 0b10;
const CONTROL_HEADER: u8 = 0b01;

/// The 66 line bits of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Sync header, two bits, never scrambled.
    pub header: u8,
    /// Eight bytes, scrambled on the line.
    pub payload: u64,
}

impl Block {
    /// The block of the lowest 66 bits of `bits`, of which bit 0 is sent first.
    pub const fn from_bits(bits: u128) -> Self {
        Self { header: bits as u8 & 3, payload: (bits >> 2) as u64 }
    }

    /// Its line bits; bit 0 is sent first.
    pub const fn bits(self) -> u128 {
        self.header as u128 | (self.payload as u128) << 2
    }
}

/// Content of a block, without scrambling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Eight bytes of a datagram, or of the second half of a training set.
    Data([u8; BLOCK_BYTES]),
    /// The block's type and seven bytes.
    Control([u8; BLOCK_BYTES]),
}

impl Content {
    /// A skip or idle block, by its type.
    pub const fn filler(kind: u8) -> Self {
        Self::Control([kind, 0, 0, 0, 0, 0, 0, 0])
    }
}

/// State of a scrambler or descrambler: the last 58 line bits, the latest in bit 57. Both ends
/// begin with any state; they agree after 58 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scrambler(u64);

impl Default for Scrambler {
    fn default() -> Self {
        Self((1 << 58) - 1)
    }
}

impl Scrambler {
    /// Creates one with the lowest 58 bits of `state`.
    pub const fn new(state: u64) -> Self {
        Self(state & ((1 << 58) - 1))
    }

    /// The bit that the next line bit differs by: those 39 and 58 before.
    const fn mask(self) -> u64 {
        (self.0 >> (58 - TAPS[0]) ^ self.0) & 1
    }

    const fn push(&mut self, line: u64) {
        self.0 = self.0 >> 1 | line << 57;
    }

    /// Scrambles the payload of a block.
    pub fn scramble(&mut self, payload: u64) -> u64 {
        (0..64).fold(0, |line, at| {
            let bit = (payload >> at & 1) ^ self.mask();
            self.push(bit);
            line | bit << at
        })
    }

    /// Returns what was scrambled to `line`.
    pub fn descramble(&mut self, line: u64) -> u64 {
        (0..64).fold(0, |payload, at| {
            let bit = line >> at & 1;
            let plain = bit ^ self.mask();
            self.push(bit);
            payload | plain << at
        })
    }

    /// Encodes a block of the lane.
    pub fn encode(&mut self, content: Content) -> Block {
        let (header, bytes) = match content {
            Content::Data(bytes) => (DATA_HEADER, bytes),
            Content::Control(bytes) => (CONTROL_HEADER, bytes),
        };
        Block { header, payload: self.scramble(u64::from_le_bytes(bytes)) }
    }

    /// Decodes a block of the lane.
    ///
    /// # Errors
    /// [`Damaged::Symbol`] if the sync header is neither; the state advances all the same.
    pub fn decode(&mut self, block: Block) -> Result<Content, Damaged> {
        let bytes = self.descramble(block.payload).to_le_bytes();
        match block.header & 3 {
            DATA_HEADER => Ok(Content::Data(bytes)),
            CONTROL_HEADER => Ok(Content::Control(bytes)),
            _ => Err(Damaged::Symbol),
        }
    }
}

/// Returns the blocks of a frame in order: a command is one control block, whose type is its first
/// byte; a datagram is data blocks alone.
pub fn blocks(frame: &FrameBytes) -> impl Iterator<Item = Content> + '_ {
    let is_command = frame.begins_with_control();
    frame.as_slice().chunks_exact(BLOCK_BYTES).map(move |chunk| {
        let mut bytes = [0; BLOCK_BYTES];
        bytes.copy_from_slice(chunk);
        if is_command { Content::Control(bytes) } else { Content::Data(bytes) }
    })
}

/// Decodes a frame from as many blocks as one has.
///
/// # Errors
/// [`Damaged`] if the blocks are no valid frame.
pub fn frame_of(blocks: &[Content]) -> Result<Frame, Damaged> {
    let bytes: Vec<u8> = match blocks {
        [Content::Control(bytes)] if bytes[0] == COMMAND_BYTE => bytes.to_vec(),
        [Content::Control(_), ..] => return Err(Damaged::Begin),
        _ => {
            let mut all = Vec::with_capacity(blocks.len() * BLOCK_BYTES);
            for block in blocks {
                let Content::Data(bytes) = block else { return Err(Damaged::Control) };
                all.extend(bytes);
            }
            if all.len() == COMMAND_SYMBOLS {
                return Err(Damaged::Begin);
            }
            all
        }
    };
    Frame::decode(&bytes)
}

/// Number of blocks of a frame.
pub fn blocks_of(frame: &Frame) -> usize {
    frame.symbols() / BLOCK_BYTES
}

/// Wrong bits of blocks behind a frame, by their block, counted from the frame's end: what the
/// descramblers make of wrong line bits in the frame.
pub type Spill = Vec<(usize, u64)>;

/// Returns the frame received when line bits are wrong, and the wrong bits behind it. `flips` are
/// counted through the blocks of the frame in order, 66 to each; block *n* lies in lane *n* mod
/// `lanes`, counted from that of the frame's first. `spill` are wrong bits from before.
///
/// # Errors
/// [`Damaged`] in place of the frame if what is received is recognised as damaged.
pub fn transfer(
    frame: &Frame,
    lanes: usize,
    flips: impl IntoIterator<Item = usize>,
    spill: &[(usize, u64)],
) -> (Result<Frame, Damaged>, Spill) {
    let count = blocks_of(frame);
    // Wrong bits of each block: its header's, and its payload's behind the descrambler.
    let mut headers = vec![0_u8; count];
    let mut payloads = vec![0_u64; count + 2 * lanes];
    for &(block, bits) in spill {
        if let Some(payload) = payloads.get_mut(block) {
            *payload ^= bits;
        }
    }
    for flip in flips {
        let (block, bit) = (flip / BLOCK_BITS, flip % BLOCK_BITS);
        if block >= count {
            continue;
        }
        let Some(bit) = bit.checked_sub(2) else {
            headers[block] ^= 1 << bit;
            continue;
        };
        for distance in [0, TAPS[0], TAPS[1]] {
            // The next block of the same lane follows in the next row.
            let at = bit + distance;
            payloads[block + at / 64 * lanes] ^= 1 << (at % 64);
        }
    }
    let sent = frame.encode();
    let received: Result<Vec<Content>, Damaged> = blocks(&sent)
        .zip(headers.iter().zip(&payloads))
        .map(|(content, (header, wrong))| {
            let (is_data, bytes) = match content {
                Content::Data(bytes) => (true, bytes),
                Content::Control(bytes) => (false, bytes),
            };
            let bytes = (u64::from_le_bytes(bytes) ^ wrong).to_le_bytes();
            match (header, is_data) {
                (0, true) | (3, false) => Ok(Content::Data(bytes)),
                (0, false) | (3, true) => Ok(Content::Control(bytes)),
                _ => Err(Damaged::Symbol),
            }
        })
        .collect();
    let behind = payloads[count..].iter().copied().enumerate();
    let spill = behind.filter(|(_, wrong)| *wrong != 0).collect();
    (received.and_then(|blocks| frame_of(&blocks)), spill)
}

#[cfg(test)]
mod line_tests;
#[cfg(test)]
mod rows_tests;
#[cfg(test)]
mod tests;
