// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte patterns that generic requesters move: each 8-byte word differs from every other of its
//! operation and from those of other operations, to reveal lost, stale, duplicated or misplaced
//! TLPs.

const WORD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Pattern key of an operation.
#[inline]
pub(crate) fn key(flow: u32, operation: u64) -> u64 {
    let mut z = (u64::from(flow) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ operation;
    z = (z ^ (z >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[inline]
fn word(key: u64, index: u64) -> [u8; 8] {
    key.wrapping_add(index.wrapping_mul(WORD_STEP)).to_le_bytes()
}

/// Writes the bytes of the pattern from `offset` on.
#[inline]
pub(crate) fn fill(key: u64, offset: u64, out: &mut [u8]) {
    if offset.is_multiple_of(8) {
        let (words, tail) = out.as_chunks_mut::<8>();
        let mut value = key.wrapping_add((offset / 8).wrapping_mul(WORD_STEP));
        for chunk in words {
            *chunk = value.to_le_bytes();
            value = value.wrapping_add(WORD_STEP);
        }
        tail.copy_from_slice(&value.to_le_bytes()[..tail.len()]);
        return;
    }
    for (at, byte) in (offset..).zip(out) {
        *byte = word(key, at / 8)[(at % 8) as usize];
    }
}

/// Whether `bytes` equal the pattern from `offset` on.
#[inline]
pub(crate) fn matches(key: u64, offset: u64, bytes: &[u8]) -> bool {
    if offset.is_multiple_of(8) {
        let (words, tail) = bytes.as_chunks::<8>();
        let mut value = key.wrapping_add((offset / 8).wrapping_mul(WORD_STEP));
        let mut difference = 0;
        for chunk in words {
            difference |= u64::from_le_bytes(*chunk) ^ value;
            value = value.wrapping_add(WORD_STEP);
        }
        return difference == 0 && *tail == value.to_le_bytes()[..tail.len()];
    }
    (offset..).zip(bytes).all(|(at, byte)| *byte == word(key, at / 8)[(at % 8) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_at_any_offset_agree_with_the_whole() {
        let mut whole = [0; 100];
        fill(7, 0, &mut whole);
        for start in 0..40 {
            for length in 0..50 {
                let mut piece = vec![0; length];
                fill(7, start as u64, &mut piece);
                assert_eq!(piece, whole[start..start + length]);
                assert!(matches(7, start as u64, &piece));
            }
        }
        whole[9] ^= 1;
        assert!(!matches(7, 0, &whole) && !matches(7, 1, &whole[1..]));
        assert!(!matches(key(1, 3), 0, &[0; 16]));
    }
}
