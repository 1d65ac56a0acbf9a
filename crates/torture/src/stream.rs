// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of words each of which says where in the stream it belongs.

use crosslane_driver::User;

use crate::watched::WatchedBus;

/// The generator's step, and its inverse modulo 2^32.
const STEP: u32 = 0x9e37_79b1;
const INVERSE: u32 = inverse(STEP);
/// Guard words are those of positions from here on: no stream of a seed comes that far.
const GUARD: u32 = 0xf000_0000;

/// Newton's iteration: each round doubles the bits that are right.
const fn inverse(odd: u32) -> u32 {
    let (mut x, mut round) = (odd, 0);
    while round < 5 {
        x = x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

/// Words `from` and following of the stream of a seed, as bytes.
pub fn words(seed: u32, from: u32, bytes: u64) -> Vec<u8> {
    let count = (bytes / 4) as u32;
    (0..count).flat_map(|n| User::<WatchedBus>::pattern(seed, from + n).to_le_bytes()).collect()
}

/// The bytes that a part holds before the device writes it.
pub fn guard(seed: u32, bytes: u64) -> Vec<u8> {
    words(seed, GUARD, bytes)
}

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// What was there before.
    Guard,
    /// Its place in the stream.
    At(u32),
}

/// What the words of some bytes are.
pub fn places(seed: u32, bytes: &[u8]) -> Vec<Word> {
    let words = bytes.as_chunks::<4>().0.iter();
    let place = |word: &[u8; 4]| u32::from_le_bytes(*word).wrapping_sub(seed).wrapping_mul(INVERSE);
    words.map(|w| Some(place(w)).filter(|&p| p < GUARD).map_or(Word::Guard, Word::At)).collect()
}

/// The same in few words: `7..20 guard 25..30`.
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
    assert_eq!(places(77, &bytes), expected);
    assert!(places(77, &guard(77, 64)).iter().all(|word| *word == Word::Guard));
}
