// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pattern of an engine's generator in host memory: the data of most experiments.

use crosslane_driver::{Buffer, pattern_word};
use crosslane_host::{Bus, DmaMemory};

use crate::error::Result;
use crate::measured::DataErrors;

/// Bytes of one word of the pattern.
pub(crate) const WORD_BYTES: u64 = 4;
/// Bytes that are copied at once: enough that the copies are few, and no more than a cache holds.
const PIECE_BYTES: u64 = 64 << 10;

/// Returns the first `bytes` of the pattern.
pub(crate) fn pattern_bytes(seed: u32, bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    fill_slice(&mut data, seed, 0);
    data
}

/// Writes the pattern from word `first_word` on.
pub fn fill_slice(out: &mut [u8], seed: u32, first_word: u64) {
    let (words, last) = out.as_chunks_mut();
    let mut number = first_word as u32;
    for word in words {
        *word = pattern_word(seed, number).to_le_bytes();
        number = number.wrapping_add(1);
    }
    last.copy_from_slice(&pattern_word(seed, number).to_le_bytes()[..last.len()]);
}

/// Compares data with the pattern from word `first_word` on; adds to `errors`.
pub fn compare_slice(data: &[u8], seed: u32, first_word: u64, errors: &mut DataErrors) {
    for (number, found) in (first_word..).zip(data.chunks(WORD_BYTES as usize)) {
        let expected = pattern_word(seed, number as u32).to_le_bytes();
        if *found != expected[..found.len()] {
            errors.words += 1;
            errors.first_word.get_or_insert(number);
        }
    }
}

/// Writes the pattern from word `first_word` on into `bytes` of a buffer.
///
/// # Errors
/// A range beyond the buffer's end, or one in flight.
pub fn fill<B: Bus>(
    buffer: &Buffer<B>,
    offset_bytes: u64,
    bytes: u64,
    seed: u32,
    first_word: u64,
) -> Result<()> {
    fill_with(bytes, seed, first_word, |at, piece| Ok(buffer.write(offset_bytes + at, piece)?))
}

/// Writes the pattern into the first `bytes` of any memory.
///
/// # Errors
/// A range that ends beyond the memory.
pub fn fill_memory(memory: &impl DmaMemory, bytes: u64, seed: u32) -> Result<()> {
    fill_with(bytes, seed, 0, |at, piece| Ok(memory.write(at, piece)?))
}

fn fill_with(
    bytes: u64,
    seed: u32,
    first_word: u64,
    write: impl Fn(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES.min(bytes) as usize];
    for (at, length) in pieces(bytes) {
        let piece = &mut piece[..length as usize];
        fill_slice(piece, seed, first_word + at / WORD_BYTES);
        write(at, piece)?;
    }
    Ok(())
}

/// Compares `bytes` of a buffer with the pattern from word `first_word` on; adds to `errors`.
///
/// # Errors
/// A range beyond the buffer's end, or one that the device writes.
pub fn compare<B: Bus>(
    buffer: &Buffer<B>,
    offset_bytes: u64,
    bytes: u64,
    seed: u32,
    first_word: u64,
    errors: &mut DataErrors,
) -> Result<()> {
    let read = |at, piece: &mut [u8]| Ok(buffer.read(offset_bytes + at, piece)?);
    compare_with(bytes, seed, first_word, read, errors)
}

/// Compares `bytes` of any memory with the pattern, from a byte at a multiple of 4 on; adds to
/// `errors`.
///
/// # Errors
/// A range that ends beyond the memory.
pub fn compare_memory(
    memory: &impl DmaMemory,
    offset_bytes: u64,
    bytes: u64,
    seed: u32,
    errors: &mut DataErrors,
) -> Result<()> {
    let read = |at, piece: &mut [u8]| Ok(memory.read(offset_bytes + at, piece)?);
    compare_with(bytes, seed, offset_bytes / WORD_BYTES, read, errors)
}

/// Compares `bytes` that `read` gets with the pattern from word `first_word` on; adds to `errors`.
///
/// # Errors
/// Those of `read`.
pub fn compare_with(
    bytes: u64,
    seed: u32,
    first_word: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
    errors: &mut DataErrors,
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES.min(bytes) as usize];
    for (at, length) in pieces(bytes) {
        let piece = &mut piece[..length as usize];
        read(at, piece)?;
        compare_slice(piece, seed, first_word + at / WORD_BYTES, errors);
    }
    Ok(())
}

/// Returns the beginnings and lengths of the pieces of a number of bytes.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes).step_by(PIECE_BYTES as usize).map(move |at| (at, PIECE_BYTES.min(bytes - at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        assert_eq!(pieces(0).count(), 0);
        assert_eq!(pieces(4).collect::<Vec<_>>(), [(0, 4)]);
        let odd = PIECE_BYTES + 8;
        assert_eq!(pieces(odd).collect::<Vec<_>>(), [(0, PIECE_BYTES), (PIECE_BYTES, 8)]);
    }
}
