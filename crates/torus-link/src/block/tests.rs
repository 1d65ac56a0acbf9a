// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::frame::{Command, Datagram, Header, payload_bytes};
use proptest::prelude::*;

fn frames() -> impl Strategy<Value = Frame> {
    let datagram = (any::<u32>(), any::<[u8; 32]>(), any::<bool>());
    prop_oneof![
        datagram.prop_map(|(word, bytes, is_long)| {
            let payload = (0..payload_bytes(is_long)).map(|at| bytes[at % 32] ^ at as u8);
            let (header, payload) = (Header::from_word(word), payload.collect());
            Frame::Datagram(Datagram { header, payload })
        }),
        (0..1_u32 << 24)
            .prop_filter_map("an operation", |bits| Command::from_word(bits << 8 | 0x5c).ok())
            .prop_map(Frame::Command),
    ]
}

/// Line bits by the definition: each is the bit that is sent, and those 39 and 58 before.
fn scrambled_by_definition(before: &[u64], payload: u64) -> Vec<u64> {
    let mut line = before.to_vec();
    for at in 0..64 {
        let bit = payload >> at & 1;
        line.push(bit ^ line[line.len() - 39] ^ line[line.len() - 58]);
    }
    line.split_off(before.len())
}

#[test]
fn blocks_have_the_bits_of_the_page() {
    let mut scrambler = Scrambler::new(0);
    let block = scrambler.encode(Content::Data([1, 0, 0, 0, 0, 0, 0, 0]));
    // Data: 0, then 1; the scrambler's taps repeat the only bit.
    assert_eq!(block, Block { header: 0b10, payload: 1 | 1 << 39 | 1 << 58 });
    let block = Scrambler::new(0).encode(Content::filler(IDLE_BYTE));
    assert_eq!(block.header, 0b01);
    let wrong = Block { header: 0b11, ..block };
    assert_eq!(Scrambler::new(0).decode(wrong), Err(Damaged::Symbol));
    assert_eq!(Scrambler::new(0).decode(block), Ok(Content::Control([0x7c, 0, 0, 0, 0, 0, 0, 0])));
}

proptest! {
    #[test]
    fn scrambling_is_as_defined(state: u64, payload: u64) {
        let before: Vec<u64> = (0..58).map(|at| state >> at & 1).collect();
        let line = Scrambler::new(state).scramble(payload);
        let bits: Vec<u64> = (0..64).map(|at| line >> at & 1).collect();
        prop_assert_eq!(bits, scrambled_by_definition(&before, payload));
    }

    /// A descrambler that begins anywhere is right from the second block on.
    #[test]
    fn blocks_come_back(states: [u64; 2], payloads: [[u8; 8]; 4], controls: [bool; 4]) {
        let [mut sender, mut receiver] = states.map(Scrambler::new);
        for (at, (bytes, is_control)) in payloads.into_iter().zip(controls).enumerate() {
            let content = if is_control { Content::Control(bytes) } else { Content::Data(bytes) };
            let received = receiver.decode(sender.encode(content));
            prop_assert!(at == 0 || received == Ok(content));
        }
    }

    #[test]
    fn one_wrong_line_bit_is_wrong_three_times(state: u64, payloads: [u64; 2], at in 0..64_usize) {
        let mut sender = Scrambler::new(state);
        let mut receiver = sender;
        let wrong = payloads.map(|payload| {
            let line = sender.scramble(payload);
            (line, payload)
        });
        let first = receiver.descramble(wrong[0].0 ^ 1 << at) ^ wrong[0].1;
        let second = receiver.descramble(wrong[1].0) ^ wrong[1].1;
        let expected = [at, at + 39, at + 58].iter().fold(0_u128, |all, at| all | 1 << at);
        prop_assert_eq!(u128::from(first) | u128::from(second) << 64, expected);
    }

    #[test]
    fn frames_come_back(frame in frames()) {
        let bytes = frame.encode();
        let all: Vec<Content> = blocks(&bytes).collect();
        prop_assert_eq!(all.len(), blocks_of(&frame));
        prop_assert_eq!(frame_of(&all), Ok(frame));
    }

    /// `transfer` does to frames, one behind the other, what scramblers, a line with wrong bits and
    /// descramblers do.
    #[test]
    fn transfer_is_what_the_lanes_do(
        frames in prop::collection::vec(frames(), 1..5),
        lanes in prop::sample::select(vec![1_usize, 4, 8]),
        flips in prop::collection::vec(0..1000_usize, 0..6),
    ) {
        let mut scramblers = [Scrambler::default(); 8];
        let mut descramblers = scramblers;
        let (mut from, mut spill) = (0, Spill::new());
        for frame in frames {
            let count = blocks_of(&frame);
            let bits = from * BLOCK_BITS..(from + count) * BLOCK_BITS;
            let mut received = Vec::new();
            for (at, content) in blocks(&frame.encode()).enumerate() {
                let block = from + at;
                let mut line = scramblers[block % lanes].encode(content);
                for flip in flips.iter().filter(|flip| **flip / BLOCK_BITS == block) {
                    match flip % BLOCK_BITS {
                        bit @ 0..2 => line.header ^= 1 << bit,
                        bit => line.payload ^= 1 << (bit - 2),
                    }
                }
                received.push(descramblers[block % lanes].decode(line));
            }
            let received: Result<Vec<Content>, Damaged> = received.into_iter().collect();
            let inside = flips.iter().filter(|flip| bits.contains(flip));
            let inside = inside.map(|flip| flip - bits.start);
            let (found, behind) = transfer(&frame, lanes, inside, &spill);
            prop_assert_eq!(found, received.and_then(|blocks| frame_of(&blocks)));
            (from, spill) = (from + count, behind);
        }
    }
}

/// Remainder of the CRC of each bit of a frame that is wrong alone.
fn remainders(bytes: usize) -> Vec<u32> {
    let content = bytes - 4;
    let right = crc32fast::hash(&vec![0; content]);
    let of_content = (0..8 * content).map(|at| {
        let mut wrong = vec![0; content];
        wrong[at / 8] = 1 << (at % 8);
        crc32fast::hash(&wrong) ^ right
    });
    of_content.chain((0..32).map(|at| 1 << at)).collect()
}

/// Wrong line bits of a frame and of the blocks before it, whose repetitions come into it: up to
/// three of a datagram, or of a command, leave a remainder or do no harm.
#[test]
fn up_to_three_wrong_line_bits_are_found() {
    for (bytes, lanes) in [(8, 1), (8, 4), (136, 1), (136, 8), (264, 4)] {
        let (count, of_bit) = (bytes / 8, remainders(bytes));
        let mut all = Vec::new();
        for block in 0..2 * lanes + count {
            for bit in 0..64 {
                let wrong = [bit, bit + TAPS[0], bit + TAPS[1]].into_iter().filter_map(|at| {
                    let block = (block + at / 64 * lanes).checked_sub(2 * lanes)?;
                    (block < count).then_some(block * 64 + at % 64)
                });
                let wrong: Vec<usize> = wrong.collect();
                let remainder = wrong.iter().fold(0, |sum, bit| sum ^ of_bit[*bit]);
                // Of a command the bits themselves, too: it may be that they cancel each other.
                let bits =
                    wrong.iter().filter(|_| count == 1).fold(0_u64, |sum, bit| sum ^ 1 << bit);
                if !wrong.is_empty() {
                    all.push((remainder, bits));
                }
            }
        }
        all.sort_unstable();
        assert!(all[0].0 != 0 && all.windows(2).all(|two| two[0].0 != two[1].0));
        let mut is_any = vec![false; 1 << 16];
        all.iter().for_each(|(remainder, _)| is_any[*remainder as usize & 0xffff] = true);
        for (at, first) in all.iter().enumerate() {
            for second in &all[at + 1..] {
                let sum = first.0 ^ second.0;
                if is_any[sum as usize & 0xffff]
                    && let Ok(found) = all.binary_search_by_key(&sum, |one| one.0)
                {
                    let left = first.1 ^ second.1 ^ all[found].1;
                    assert!(count == 1 && left == 0, "{bytes} B, {lanes} lanes: {sum:#x}");
                }
            }
        }
    }
}
