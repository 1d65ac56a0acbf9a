// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers behind BAR 0.

use crosslane_pcie::tlp::Header;

/// Byte enables of a whole double word.
pub(super) const ALL_BYTES: u8 = 0xf;

/// Returns the double words of a write to registers, each with its offset. A double word that is
/// not written whole has no effect.
pub fn whole_words(
    offset: u64,
    header: &Header,
    payload: &[u8],
) -> impl Iterator<Item = (u32, u32)> {
    let enables = (header.first_byte_enables, header.last_byte_enables);
    let words = payload.as_chunks::<4>().0;
    let last = words.len().saturating_sub(1);
    words.iter().enumerate().filter_map(move |(at, word)| {
        let enables = match at {
            0 => enables.0,
            _ if at == last => enables.1,
            _ => ALL_BYTES,
        };
        let offset = (offset as u32 & !3) + at as u32 * 4;
        (enables == ALL_BYTES).then(|| (offset, u32::from_le_bytes(*word)))
    })
}
