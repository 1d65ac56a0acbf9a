// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One frame over line bits with bit errors, for models that work with whole frames but need the
//! exact effect of bit errors.
//!
//! Read first: `docs/torus-link.md`, *Symbols and columns*.

use crate::code::{CODE_BITS, COMMAND, Decoder, Encoder, Symbol};
use crate::frame::{COMMAND_BYTE, Damaged, Frame, LONG_DATAGRAM_SYMBOLS};

/// Number of line bits of a frame; the `flips` of [`transfer`] are below it.
pub fn line_bits(frame: &Frame) -> usize {
    frame.symbols() * CODE_BITS
}

/// Returns the frame received when the line bits `flips` of `frame`, counted in the order of one
/// lane, are wrong (a position named twice is right again). Positions behind the frame's end are
/// ignored.
///
/// # Errors
/// [`Damaged`] if the received frame is recognised as damaged. (A wrong frame with a matching CRC
/// is returned.)
pub fn transfer(frame: &Frame, flips: impl IntoIterator<Item = usize>) -> Result<Frame, Damaged> {
    let mut changed = [0_u16; LONG_DATAGRAM_SYMBOLS];
    for flip in flips {
        if let Some(code) = changed.get_mut(flip / CODE_BITS) {
            *code ^= 1 << (CODE_BITS - 1 - flip % CODE_BITS);
        }
    }
    let sent = frame.encode();
    let mut bytes = [0; LONG_DATAGRAM_SYMBOLS];
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    for (at, byte) in sent.as_slice().iter().enumerate() {
        let is_command = at == 0 && sent.begins_with_control();
        let mut code = encoder.encode(if is_command { COMMAND } else { Symbol::Data(*byte) });
        code.0 ^= changed[at];
        bytes[at] = match decoder.decode(code) {
            Ok(Symbol::Data(byte)) if !is_command => byte,
            Ok(COMMAND) if is_command => COMMAND_BYTE,
            // With a wrong first symbol, a frame of another length begins, or none.
            Ok(_) if at == 0 => return Err(Damaged::Begin),
            Ok(_) => return Err(Damaged::Control),
            Err(_) => return Err(Damaged::Symbol),
        };
    }
    Frame::decode(&bytes[..frame.symbols()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Command, Datagram, Header, payload_bytes};
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        prop_oneof![
            (any::<u32>(), any::<[u8; 32]>(), any::<bool>()).prop_map(|(word, bytes, is_long)| {
                let payload = 0..payload_bytes(is_long);
                let payload = payload.map(|at| bytes[at % 32] ^ at as u8).collect();
                Frame::Datagram(Datagram { header: Header::from_word(word), payload })
            }),
            (0..1_u32 << 24)
                .prop_filter_map("an operation", |bits| Command::from_word(bits << 8 | 0x5c).ok())
                .prop_map(Frame::Command),
        ]
    }

    proptest! {
        #[test]
        fn without_errors_it_comes_as_it_is(frame in frames(), at in 0..2640_usize) {
            prop_assert_eq!(transfer(&frame, []), Ok(frame.clone()));
            prop_assert_eq!(transfer(&frame, [at, at]), Ok(frame.clone()));
            prop_assert_eq!(transfer(&frame, [line_bits(&frame)]), Ok(frame));
        }

        /// One wrong bit changes one byte at most, which the CRC detects.
        #[test]
        fn one_wrong_bit_is_damage(frame in frames(), at in 0..2640_usize) {
            let at = at % line_bits(&frame);
            prop_assert!(transfer(&frame, [at]).is_err());
        }

        #[test]
        fn two_to_four_wrong_bits_are_damage(
            frame in frames(),
            flips in prop::collection::btree_set(0..80_usize, 2..=4),
        ) {
            prop_assert!(transfer(&frame, flips).is_err());
        }

        #[test]
        fn many_wrong_bits_are_damage(
            frame in frames(),
            flips in prop::collection::btree_set(0..80_usize, 5..60),
        ) {
            prop_assert!(transfer(&frame, flips).is_err());
        }
    }
}
