// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers behind BAR 0.

use crosslane_pcie::tlp::Header;
use crosslane_regs::Written;

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

/// Words of the registers that software writes, with the access that the register map gives them.
#[derive(Clone, Debug, Default)]
pub struct RegisterFile {
    written: &'static [Written],
    words: Vec<u32>,
}

impl RegisterFile {
    /// Creates a register file, all zero, with these registers that software writes.
    pub fn new(written: &'static [Written]) -> Self {
        let words = written.iter().map(|register| register.offset / 4 + 1).max().unwrap_or(0);
        Self { written, words: vec![0; words as usize] }
    }

    /// Returns the value of a register; 0 if software does not write it.
    pub fn get(&self, offset: u32) -> u32 {
        self.words.get(offset as usize / 4).copied().unwrap_or(0)
    }

    /// Returns the value of a pair of registers, by the offset of the low one.
    pub fn wide(&self, low: u32) -> u64 {
        u64::from(self.get(low + 4)) << 32 | u64::from(self.get(low))
    }

    /// Sets the value of a register that software writes.
    pub fn set(&mut self, offset: u32, value: u32) {
        self.words[offset as usize / 4] = value;
    }

    /// Takes a write by software: keeps the bits that the register keeps. Returns these and the
    /// bits that act once; `None` if software does not write the register.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<u32> {
        let register = self.written.iter().find(|register| register.offset == offset)?;
        self.set(offset, value & register.keeps);
        Some(value & (register.keeps | register.acts))
    }
}
