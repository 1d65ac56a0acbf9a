// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator's pattern and its checker: word n is seed + n x 9E3779B1h, little-endian.

/// From one word to the next. 2^32 divided by the golden ratio: odd, so all 2^32 words differ.
const STEP: u32 = 0x9e37_79b1;

/// Writes the words of the pattern from number `word` on.
pub(super) fn fill(seed: u32, word: u64, out: &mut [u8]) {
    let mut value = seed.wrapping_add((word as u32).wrapping_mul(STEP));
    for chunk in out.as_chunks_mut::<4>().0 {
        *chunk = value.to_le_bytes();
        value = value.wrapping_add(STEP);
    }
}

/// Compares a stream of words with the pattern.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checker {
    pub enabled: bool,
    pub seed: u32,
    /// Number of the next word.
    word: u64,
    /// Words that were not what was expected.
    pub errors: u32,
    /// Number of the first of them.
    pub first: u32,
}

impl Checker {
    /// Begins anew, with the settings that it has.
    pub fn restart(&mut self) {
        (self.word, self.errors, self.first) = (0, 0, 0);
    }

    /// Compares what comes next, if it is switched on.
    pub fn check(&mut self, bytes: &[u8]) {
        if !self.enabled {
            return;
        }
        let words = bytes.as_chunks::<4>().0;
        let mut value = self.seed.wrapping_add((self.word as u32).wrapping_mul(STEP));
        let mut difference = 0;
        for word in words {
            difference |= u32::from_le_bytes(*word) ^ value;
            value = value.wrapping_add(STEP);
        }
        if difference != 0 {
            self.note_errors(words);
        }
        self.word += words.len() as u64;
    }

    #[cold]
    fn note_errors(&mut self, words: &[[u8; 4]]) {
        for (at, word) in (self.word..).zip(words) {
            let expected = self.seed.wrapping_add((at as u32).wrapping_mul(STEP));
            if u32::from_le_bytes(*word) != expected {
                if self.errors == 0 {
                    self.first = at as u32;
                }
                self.errors = self.errors.saturating_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_takes_the_pattern_in_any_pieces_and_finds_each_wrong_word() {
        let mut whole = [0; 400];
        fill(7, 0, &mut whole);
        assert_eq!(whole[..8], [7, 0, 0, 0, 0xb8, 0x79, 0x37, 0x9e]);
        let mut piece = [0; 40];
        fill(7, 13, &mut piece);
        assert_eq!(piece, whole[52..92]);
        let mut checker = Checker { enabled: true, seed: 7, ..Checker::default() };
        let mut at = 0;
        for words in [1, 9, 30, 60] {
            checker.check(&whole[at..at + words * 4]);
            at += words * 4;
        }
        assert_eq!((at, checker.errors), (400, 0));
        checker.restart();
        (whole[80], whole[84], whole[399]) = (!whole[80], !whole[84], !whole[399]);
        checker.check(&whole);
        assert_eq!((checker.errors, checker.first), (3, 20));
    }
}
