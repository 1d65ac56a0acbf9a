// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of words, each of which encodes its position in the stream.

use crosslane_driver::User;

/// The generator's step, and its inverse modulo 2^32.
const STEP: u32 = 0x9e37_79b1;
const INVERSE: u32 = inverse(STEP);
/// Position of the guard words: no stream of a seed gets that far.
const GUARD: u32 = 0xf000_0000;

/// Newton's iteration: each round doubles the number of correct bits.
const fn inverse(odd: u32) -> u32 {
    let (mut x, mut round) = (odd, 0);
    while round < 5 {
        x = x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

/// Returns words of a seed's stream, from position `from`, as bytes.
pub fn words(seed: u32, from: u32, bytes: u64) -> Vec<u8> {
    let mut words = vec![0; bytes as usize / 4 * 4];
    for (n, word) in (from..).zip(words.as_chunks_mut::<4>().0) {
        *word = User::pattern(seed, n).to_le_bytes();
    }
    words
}

/// Returns the bytes that a part holds before the device writes it.
pub fn guard(seed: u32, bytes: u64) -> Vec<u8> {
    words(seed, GUARD, bytes)
}

/// A word found in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A guard, not overwritten.
    Guard,
    /// A word of the stream, with its position.
    At(u32),
}

/// Decodes the words of some bytes.
pub fn places(seed: u32, bytes: &[u8]) -> impl Iterator<Item = Word> {
    bytes.as_chunks::<4>().0.iter().map(move |word| {
        let place = u32::from_le_bytes(*word).wrapping_sub(seed).wrapping_mul(INVERSE);
        if place < GUARD { Word::At(place) } else { Word::Guard }
    })
}

/// Describes words briefly: `7..20 guard 25..30`.
pub fn runs(words: &[Word]) -> String {
    let mut text = String::new();
    let mut from = 0;
    for to in 1..=words.len() {
        let goes_on = match (words[to - 1], words.get(to)) {
            (Word::Guard, Some(Word::Guard)) => true,
            (Word::At(one), Some(Word::At(next))) => *next == one + 1,
            _ => false,
        };
        if goes_on {
            continue;
        }
        match (words[from], words[to - 1]) {
            (Word::At(first), Word::At(last)) => text += &format!("{first}..{} ", last + 1),
            _ => text += &format!("{} guards ", to - from),
        }
        from = to;
    }
    text
}

#[test]
fn a_word_says_where_it_belongs() {
    let bytes = words(77, 1000, 4000);
    let expected: Vec<Word> = (1000..2000).map(Word::At).collect();
    assert!(places(77, &bytes).eq(expected));
    assert!(places(77, &guard(77, 64)).all(|word| word == Word::Guard));
}
