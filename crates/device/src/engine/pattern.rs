// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pattern of the generator, and its checker: word n is seed + n x 9E3779B1h, little-endian. The
//! pattern is a byte stream; byte n belongs to word n / 4.

/// Difference of consecutive words: 2^32 divided by the golden ratio. It is odd, so all 2^32 words
/// differ.
const STEP: u32 = 0x9e37_79b1;

const WORD_BYTES: u64 = 4;

fn word_at(seed: u32, number: u64) -> u32 {
    seed.wrapping_add((number as u32).wrapping_mul(STEP))
}

/// Writes the bytes of the pattern, starting with number `byte`.
pub(super) fn fill(seed: u32, byte: u64, out: &mut [u8]) {
    let within = (byte % WORD_BYTES) as usize;
    let mut value = word_at(seed, byte / WORD_BYTES);
    // Finish the word that an earlier call began.
    let begun = value.to_le_bytes();
    let head = if within == 0 { 0 } else { (begun.len() - within).min(out.len()) };
    let (first, whole) = out.split_at_mut(head);
    if head > 0 {
        first.copy_from_slice(&begun[within..within + head]);
        value = value.wrapping_add(STEP);
    }
    let (words, last) = whole.as_chunks_mut::<4>();
    for chunk in words {
        *chunk = value.to_le_bytes();
        value = value.wrapping_add(STEP);
    }
    last.copy_from_slice(&value.to_le_bytes()[..last.len()]);
}

/// Checker of a byte stream against the pattern. It compares whole words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checker {
    pub enabled: bool,
    pub seed: u32,
    /// Number of the next word.
    word: u64,
    /// Bytes of the next word so far.
    begun: [u8; 4],
    begun_bytes: usize,
    /// Words that differed from the pattern.
    pub errors: u32,
    /// Number of the first wrong word.
    pub first: u32,
}

impl Checker {
    /// Starts over with the current settings.
    pub fn restart(&mut self) {
        (self.word, self.errors, self.first, self.begun_bytes) = (0, 0, 0, 0);
    }

    /// Checks the next bytes of the stream if the checker is enabled.
    pub fn check(&mut self, mut bytes: &[u8]) {
        if !self.enabled {
            return;
        }
        if self.begun_bytes > 0 {
            let (some, rest) = bytes.split_at(bytes.len().min(4 - self.begun_bytes));
            self.begun[self.begun_bytes..self.begun_bytes + some.len()].copy_from_slice(some);
            (self.begun_bytes, bytes) = (self.begun_bytes + some.len(), rest);
            if self.begun_bytes < 4 {
                return;
            }
            self.check_words(&[self.begun]);
        }
        let (words, last) = bytes.as_chunks::<4>();
        self.check_words(words);
        self.begun[..last.len()].copy_from_slice(last);
        self.begun_bytes = last.len();
    }

    fn check_words(&mut self, words: &[[u8; 4]]) {
        let mut value = word_at(self.seed, self.word);
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
            let expected = word_at(self.seed, at);
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
        fill(7, 52, &mut piece);
        assert_eq!(piece, whole[52..92]);
        for (from, bytes) in [(0, 1), (1, 1), (1, 2), (2, 9), (3, 1), (3, 2), (53, 40), (54, 3)] {
            let mut piece = vec![0; bytes];
            fill(7, from as u64, &mut piece);
            assert_eq!(piece, whole[from..from + bytes], "{bytes} bytes from {from} on");
        }
        let mut checker = Checker { enabled: true, seed: 7, ..Checker::default() };
        let mut at = 0;
        for bytes in [4, 36, 1, 1, 3, 119, 2, 0, 234] {
            checker.check(&whole[at..at + bytes]);
            at += bytes;
        }
        assert_eq!((at, checker.errors, checker.word), (400, 0, 100));
        // A word counts once it is complete.
        checker.check(&[0; 3]);
        assert_eq!((checker.errors, checker.word), (0, 100));
        checker.check(&[0]);
        assert_eq!((checker.errors, checker.first), (1, 100));
        checker.restart();
        (whole[80], whole[84], whole[399]) = (!whole[80], !whole[84], !whole[399]);
        checker.check(&whole);
        assert_eq!((checker.errors, checker.first), (3, 20));
    }
}
