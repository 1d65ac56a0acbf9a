// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator's pattern in host memory.

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
    let mut data = Vec::new();
    extend(&mut data, seed, 0, bytes);
    data
}

/// Appends `bytes` of the pattern from word `first_word` on.
fn extend(data: &mut Vec<u8>, seed: u32, first_word: u64, bytes: u64) {
    let end = data.len() + bytes as usize;
    for word in first_word..first_word + bytes.div_ceil(WORD_BYTES) {
        data.extend_from_slice(&pattern_word(seed, word as u32).to_le_bytes());
    }
    data.truncate(end);
}

/// Writes the pattern from word `first_word` on into `bytes` of a buffer.
pub(crate) fn fill<B: Bus>(
    buffer: &Buffer<B>,
    offset_bytes: u64,
    bytes: u64,
    seed: u32,
    first_word: u64,
) -> Result<()> {
    fill_with(bytes, seed, first_word, |at, piece| Ok(buffer.write(offset_bytes + at, piece)?))
}

/// The same into any memory, from its beginning on.
pub(crate) fn fill_memory(memory: &impl DmaMemory, bytes: u64, seed: u32) -> Result<()> {
    fill_with(bytes, seed, 0, |at, piece| Ok(memory.write(at, piece)?))
}

fn fill_with(
    bytes: u64,
    seed: u32,
    first_word: u64,
    write: impl Fn(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut piece = Vec::new();
    for (at, length) in pieces(bytes) {
        piece.clear();
        extend(&mut piece, seed, first_word + at / WORD_BYTES, length);
        write(at, &piece)?;
    }
    Ok(())
}

/// Compares `bytes` of a buffer with the pattern from word `first_word` on.
pub(crate) fn compare<B: Bus>(
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

/// The same of any memory, from a byte on at a multiple of a word.
pub(crate) fn compare_memory(
    memory: &impl DmaMemory,
    offset_bytes: u64,
    bytes: u64,
    seed: u32,
    errors: &mut DataErrors,
) -> Result<()> {
    let read = |at, piece: &mut [u8]| Ok(memory.read(offset_bytes + at, piece)?);
    compare_with(bytes, seed, offset_bytes / WORD_BYTES, read, errors)
}

fn compare_with(
    bytes: u64,
    seed: u32,
    first_word: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
    errors: &mut DataErrors,
) -> Result<()> {
    let (mut piece, mut expected) = (vec![0; PIECE_BYTES.min(bytes) as usize], Vec::new());
    for (at, length) in pieces(bytes) {
        let piece = &mut piece[..length as usize];
        read(at, piece)?;
        let first = first_word + at / WORD_BYTES;
        expected.clear();
        extend(&mut expected, seed, first, length);
        let words = piece.chunks(WORD_BYTES as usize).zip(expected.chunks(WORD_BYTES as usize));
        for (word, (found, expected)) in (first..).zip(words) {
            if found != expected {
                errors.words += 1;
                errors.first_word.get_or_insert(word);
            }
        }
    }
    Ok(())
}

/// Beginnings and lengths of the pieces of so many bytes.
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
