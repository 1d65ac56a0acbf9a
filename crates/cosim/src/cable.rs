// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a cable between two network processors: the words on their way to it, their wrong
//! bits, and whether the cable is cut.

use std::collections::VecDeque;

use crosslane_fabric::NodeId;
use crosslane_random::Random;

use crate::pins::LINE_WORDS;

/// Line bits of a word of every lane; `None` if there is no signal.
pub(crate) type Word = Option<[u32; LINE_WORDS]>;

/// End of a cable.
pub(crate) struct CableEnd {
    pub far: NodeId,
    pub far_link: u8,
    /// Latency in words.
    words: usize,
    /// Line bits of a word.
    bits: u64,
    /// Whether both ends send.
    pub is_live: bool,
    /// Whether no signal comes through.
    is_cut: bool,
    /// Words on their way here, oldest first.
    inbound: VecDeque<Word>,
    /// Share of the bits that arrive wrong.
    error_rate: f64,
    /// Line bits until the next wrong one, once drawn.
    clean_bits: Option<u64>,
    /// Stream of the wrong bits, for this direction alone.
    random: Random,
}

impl CableEnd {
    /// Creates an end without errors.
    pub fn new(far: NodeId, far_link: u8, words: usize, bits: u64, seed: u64) -> Self {
        Self {
            far,
            far_link,
            words,
            bits,
            is_live: false,
            is_cut: false,
            inbound: VecDeque::new(),
            error_rate: 0.0,
            clean_bits: None,
            random: Random::with_seed(seed),
        }
    }

    /// Begins or ends the exchange of words.
    pub fn set_live(&mut self, is_live: bool) {
        self.is_live = is_live;
        self.inbound.clear();
        if is_live {
            self.inbound.resize(self.words, None);
        }
    }

    /// Cuts or mends the way here. What is on it is lost.
    pub fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
        self.inbound.iter_mut().for_each(|word| *word = None);
    }

    /// Whether what the other end sends comes here.
    pub const fn is_heard(&self) -> bool {
        self.is_live && !self.is_cut
    }

    /// Sets the share of wrong bits from now on.
    pub fn set_error_rate(&mut self, rate: f64) {
        (self.error_rate, self.clean_bits) = (rate, None);
    }

    /// Takes a word from the other end.
    pub fn send(&mut self, mut word: [u32; LINE_WORDS]) {
        if self.error_rate > 0.0 {
            self.spoil(&mut word);
        }
        self.inbound.push_back((!self.is_cut).then_some(word));
    }

    /// Gives the word that arrives.
    pub fn receive(&mut self) -> Word {
        self.inbound.pop_front().flatten()
    }

    /// Inverts the bits of a word that arrive wrong.
    fn spoil(&mut self, word: &mut [u32; LINE_WORDS]) {
        let mut next_error = || self.random.geometric(self.error_rate);
        let mut clean_bits = self.clean_bits.unwrap_or_else(&mut next_error);
        while clean_bits < self.bits {
            word[(clean_bits / 32) as usize] ^= 1 << (clean_bits % 32);
            clean_bits = (clean_bits + 1).saturating_add(next_error());
        }
        self.clean_bits = Some(clean_bits - self.bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of eight lanes.
    const BITS: u64 = 160;

    fn end() -> CableEnd {
        let mut end = CableEnd::new(NodeId(0), 0, 3, BITS, 7);
        end.set_live(true);
        end
    }

    #[test]
    fn words_come_after_the_latency_and_none_if_cut() {
        let mut end = end();
        end.send([1; LINE_WORDS]);
        let came: Vec<Word> = (0..4).map(|_| end.receive()).collect();
        assert_eq!(came, [None, None, None, Some([1; LINE_WORDS])]);
        end.set_live(true);
        end.send([2; LINE_WORDS]);
        end.set_cut(true);
        end.send([3; LINE_WORDS]);
        end.set_cut(false);
        end.send([4; LINE_WORDS]);
        let came: Vec<Word> = (0..6).map(|_| end.receive()).collect();
        assert_eq!(came, [None, None, None, None, None, Some([4; LINE_WORDS])]);
    }

    #[test]
    fn bits_are_wrong_at_the_rate_that_is_set() {
        const WORDS: u64 = 20_000;
        let mut end = end();
        end.set_error_rate(1e-3);
        let mut wrong = 0;
        for _ in 0..WORDS {
            end.send([0; LINE_WORDS]);
            let word = end.receive().unwrap_or_default();
            wrong += word.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        }
        // Within five standard deviations of the 3,200 expected.
        let expected = WORDS * BITS / 1000;
        assert!(wrong.abs_diff(expected) < 283, "{wrong} bits are wrong, {expected} expected");
    }
}
