// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X table and its pending bits (PCIe 6.x 7.7.2).

use crosslane_pcie::config::ConfigSpace;

/// Words of an entry of the table (PCIe 6.x 7.7.2.2).
const ENTRY_WORDS: usize = 4;
const ENTRY_ADDRESS_LOW: usize = 0;
const ENTRY_ADDRESS_HIGH: usize = 1;
const ENTRY_DATA: usize = 2;
const ENTRY_CONTROL: usize = 3;
const ENTRY_MASKED: u32 = 1;

/// MSI-X table of a function with up to 32 vectors, and its pending bits.
#[derive(Debug)]
pub struct Msix {
    table: Vec<u32>,
    vectors: u32,
    /// Pending vectors, one bit each.
    pub pending: u32,
    /// Whether the function may send messages.
    is_enabled: bool,
}

impl Msix {
    /// Creates a table of `bytes` with every vector masked.
    pub fn new(vectors: u32, bytes: u32) -> Self {
        let mut table = vec![0; bytes as usize / 4];
        table.iter_mut().skip(ENTRY_CONTROL).step_by(ENTRY_WORDS).for_each(|word| {
            *word = ENTRY_MASKED;
        });
        Self { table, vectors, pending: 0, is_enabled: false }
    }

    /// Takes the settings of the configuration space.
    pub fn configured(&mut self, config: &ConfigSpace) {
        self.is_enabled = config.msix().is_some_and(|msix| msix.enabled && !msix.function_masked);
    }

    /// Returns a word of the table by its number.
    pub fn word(&self, number: usize) -> u32 {
        self.table[number]
    }

    /// Sets a word of the table by its number.
    pub fn set_word(&mut self, number: usize, value: u32) {
        self.table[number] =
            if number % ENTRY_WORDS == ENTRY_CONTROL { value & ENTRY_MASKED } else { value };
    }

    /// Makes a vector pending, if there is such a vector.
    pub fn request(&mut self, vector: u32) {
        if vector < self.vectors {
            self.pending |= 1 << vector;
        }
    }

    /// Takes a pending vector that may be sent. Returns address and data of its message.
    pub fn take(&mut self) -> Option<(u64, u32)> {
        if !self.is_enabled || self.pending == 0 {
            return None;
        }
        let vector = (0..self.vectors as usize).find(|vector| {
            let control = self.table[vector * ENTRY_WORDS + ENTRY_CONTROL];
            self.pending & 1 << vector != 0 && control & ENTRY_MASKED == 0
        })?;
        self.pending &= !(1 << vector);
        let entry = &self.table[vector * ENTRY_WORDS..];
        let high = u64::from(entry[ENTRY_ADDRESS_HIGH]) << 32;
        let address = high | u64::from(entry[ENTRY_ADDRESS_LOW] & !3);
        Some((address, entry[ENTRY_DATA]))
    }
}
