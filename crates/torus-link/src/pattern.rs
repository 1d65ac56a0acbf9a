// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generator and checker of payloads for soak tests.
//!
//! Read first: `docs/torus-link.md`, *Pattern*.

use crate::frame::{Channel, Datagram, INDICES, Kind, PAYLOAD_BYTES, Payload};

/// Difference between successive words of the pattern.
pub const STEP: u32 = 0x9e37_79b1;
/// Channel of the generator's datagrams.
pub const CHANNEL: Channel = Channel::ALL[7];

const WORDS: u32 = PAYLOAD_BYTES as u32 / 4;

/// Generator of successive payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    word: u32,
    index: u16,
    payload_bytes: usize,
}

impl Generator {
    /// Starts a pattern of payloads of 128 B with the word `seed`.
    pub const fn new(seed: u32) -> Self {
        Self { word: seed, index: 0, payload_bytes: PAYLOAD_BYTES }
    }

    /// Makes payloads of `bytes`, a multiple of 4.
    #[must_use]
    pub const fn with_payload_bytes(self, payload_bytes: usize) -> Self {
        Self { payload_bytes, ..self }
    }

    /// Returns the index and payload of the next datagram; its channel is [`CHANNEL`], its kind
    /// [`Kind::Middle`], its tag 0.
    pub fn datagram(&mut self) -> (u16, Payload) {
        let mut payload = vec![0; self.payload_bytes];
        for bytes in payload.chunks_exact_mut(4) {
            bytes.copy_from_slice(&self.word.to_le_bytes());
            self.word = self.word.wrapping_add(STEP);
        }
        let index = self.index;
        self.index = (index + 1) % INDICES;
        (index, payload.into())
    }
}

/// Checks that each datagram follows the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checker {
    /// Word and index of the next datagram; `None` before the first.
    next: Option<(u32, u16)>,
}

impl Checker {
    /// Creates a checker that accepts any first datagram of the pattern.
    pub const fn new() -> Self {
        Self { next: None }
    }

    /// Whether `datagram` is the expected one. Continues behind it in either case.
    pub fn check(&mut self, datagram: &Datagram) -> bool {
        let header = &datagram.header;
        let words = datagram.payload.chunks_exact(4);
        let mut words = words.map(|word| u32::from_le_bytes(word.try_into().expect("of 4 bytes")));
        let first = words.next().expect("payloads have words");
        let (word, index) = self.next.unwrap_or((first, header.index));
        let mut last = first;
        let mut is_right = first == word
            && header.index == index
            && header.channel == CHANNEL
            && header.kind == Kind::Middle
            && header.tag == 0;
        for word in words {
            is_right &= word == last.wrapping_add(STEP);
            last = word;
        }
        self.next = Some((last.wrapping_add(STEP), (header.index + 1) % INDICES));
        is_right
    }
}

/// Distance in datagrams from the first word `from` to the first word `word`, modulo 2^27; 1 is the
/// next datagram. `None` if `word` does not begin a datagram.
pub const fn datagrams_between(from: u32, word: u32) -> Option<u32> {
    // The inverse of the step modulo 2^32, by Newton's method: each turn doubles the correct bits.
    let mut inverse = STEP;
    let mut turn = 0;
    while turn < 5 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(STEP.wrapping_mul(inverse)));
        turn += 1;
    }
    let words = word.wrapping_sub(from).wrapping_mul(inverse);
    if words.is_multiple_of(WORDS) { Some(words / WORDS) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Header;

    fn datagrams(seed: u32, count: usize) -> Vec<Datagram> {
        let mut generator = Generator::new(seed);
        let datagram = |(index, payload)| {
            let header =
                Header { sequence: 0, channel: CHANNEL, kind: Kind::Middle, tag: 0, index };
            Datagram { header, payload }
        };
        (0..count).map(|_| datagram(generator.datagram())).collect()
    }

    #[test]
    fn the_pattern_is_that_of_the_page() {
        let all = datagrams(5, 3);
        for n in 0..3 * 32_u32 {
            let payload = &all[n as usize / 32].payload;
            let at = n as usize % 32 * 4;
            let word = 5_u32.wrapping_add(n.wrapping_mul(0x9e37_79b1));
            assert_eq!(payload[at..at + 4], word.to_le_bytes());
        }
        assert_eq!(all[2].header.index, 2);
        assert_eq!(datagrams(0, 8_194)[8_193].header.index, 1);
    }

    #[test]
    fn what_is_lost_doubled_or_changed_is_found() {
        let all = datagrams(77, 10_000);
        let mut checker = Checker::new();
        let right = all[100..].iter().filter(|datagram| checker.check(datagram)).count();
        assert_eq!(right, 9_900, "it may begin anywhere");
        for wrong in [&[3, 5, 6][..], &[3, 3, 4], &[4, 3, 4]] {
            let mut checker = Checker::new();
            let seen: Vec<bool> = wrong.iter().map(|at| checker.check(&all[*at])).collect();
            assert_eq!(seen, [true, false, wrong[1] + 1 == wrong[2]]);
        }
        let mut changed = all[1].clone();
        for at in 0..PAYLOAD_BYTES {
            let mut checker = Checker::new();
            assert!(checker.check(&all[0]));
            let mut payload = all[1].payload.to_vec();
            payload[at] ^= 0x10;
            changed.payload = payload.into();
            assert!(!checker.check(&changed), "byte {at}");
        }
        for change in [
            (|header: &mut Header| header.tag = 1) as fn(&mut Header),
            |header| header.index += 1,
            |header| header.kind = Kind::Last,
            |header| header.channel = Channel::ALL[6],
        ] {
            let mut changed = all[1].clone();
            change(&mut changed.header);
            let mut checker = Checker::new();
            assert!(checker.check(&all[0]));
            assert!(!checker.check(&changed));
        }
    }

    #[test]
    fn how_many_are_missing_can_be_told() {
        let all = datagrams(9, 60);
        let first = |at: usize| u32::from_le_bytes(all[at].payload[..4].try_into().unwrap());
        for at in 0..60 {
            assert_eq!(datagrams_between(first(0), first(at)), Some(at as u32));
        }
        assert_eq!(datagrams_between(first(7), first(3)), Some((1 << 27) - 4));
        assert_eq!(datagrams_between(9, 10), None);
    }
}
