// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pattern of an engine's generator in host memory: the data of most experiments.

use crosslane_driver::{Buffer, fill_pattern, is_pattern, pattern_word};
use crosslane_host::DmaMemory;

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
    fill_pattern(out, seed, first_word as u32);
}

/// Compares data with the pattern from word `first_word` on; adds to `errors`.
pub fn compare_slice(data: &[u8], seed: u32, first_word: u64, errors: &mut DataErrors) {
    let (words, last) = data.as_chunks();
    let expected = |index: u32| pattern_word(seed, (first_word as u32).wrapping_add(index));
    let mut wrong = |index: usize| {
        errors.words += 1;
        errors.first_word.get_or_insert(first_word + index as u64);
    };
    if !is_pattern(words, seed, first_word as u32) {
        let all = words.iter().zip(0..).enumerate();
        all.filter(|(_, (word, index))| **word != expected(*index).to_le_bytes())
            .for_each(|(at, _)| wrong(at));
    }
    if *last != expected(words.len() as u32).to_le_bytes()[..last.len()] {
        wrong(words.len());
    }
}

/// Writes the pattern from word `first_word` on into `bytes` of a buffer.
///
/// # Errors
/// A range beyond the buffer's end, or one in flight.
pub fn fill(
    buffer: &Buffer,
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
pub fn compare(
    buffer: &Buffer,
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
    fn wrong_words_are_counted_to_the_last_byte() {
        let mut data = pattern_bytes(7, 23);
        let wrong = |data: &[u8], seed| {
            let mut errors = DataErrors::default();
            compare_slice(data, seed, 0, &mut errors);
            (errors.words, errors.first_word)
        };
        assert_eq!(wrong(&data, 7), (0, None));
        assert_eq!(wrong(&data, 8), (6, Some(0)));
        data[9] ^= 1;
        data[22] ^= 1;
        assert_eq!(wrong(&data, 7), (2, Some(2)));
        let mut part = [0; 8];
        fill_slice(&mut part, 7, 3);
        assert_eq!(part, data[12..20]);
    }

    #[test]
    fn pieces_cover_everything_once() {
        assert_eq!(pieces(0).count(), 0);
        assert_eq!(pieces(4).collect::<Vec<_>>(), [(0, 4)]);
        let odd = PIECE_BYTES + 8;
        assert_eq!(pieces(odd).collect::<Vec<_>>(), [(0, PIECE_BYTES), (PIECE_BYTES, 8)]);
    }
}
