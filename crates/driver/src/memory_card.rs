// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card with memory that the host stores into, as its registers describe it
//! (`docs/memory-card.md`).

use std::fmt;

use crosslane_host::{AnyBus, Bus};
use crosslane_pcie::units::RoutingId;
use crosslane_regs::memory_card as map;

use crate::access::{Access, Circuit, REGISTER_BAR, find_endpoint};
use crate::error::Result;
use crate::window::{Window, WindowOptions};

/// BAR of the FIFO.
pub const FIFO_BAR: u8 = 2;
/// BAR of the memory.
pub const MEMORY_BAR: u8 = 4;
/// The parts of every memory card.
const CARD: Circuit = Circuit {
    name: "memory card",
    bars: &[(REGISTER_BAR, map::BYTES as u64)],
    id: (map::ID, map::ID_RESET),
    version: (map::VERSION, map::VERSION_RESET),
    major: map::version::MAJOR,
};

/// Traffic that has reached the card since its counters were last taken. They wrap at 2^32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardMetrics {
    /// Beats of each bank's data bus: written, read.
    pub beats: Vec<(u32, u32)>,
    /// Requests for memory by length: upper bound of the class in bytes, writes, reads. Empty
    /// classes are left out.
    pub sizes: Vec<(u32, u32, u32)>,
    /// Writes taken by the FIFO.
    pub fifo_writes: u32,
    /// Bytes taken by the FIFO.
    pub fifo_bytes: u32,
    /// Bytes lost, outside the FIFO's part of the BAR or because it was full.
    pub fifo_lost: u32,
}

impl CardMetrics {
    /// Iterates over the writes into memory by length: upper bound of the class in bytes and count,
    /// without empty classes.
    pub fn writes_by_length(&self) -> impl Iterator<Item = (u32, u32)> {
        let writes = self.sizes.iter().map(|&(bytes, writes, _)| (bytes, writes));
        writes.filter(|(_, writes)| *writes > 0)
    }

    /// Describes the writes in words: `16 of 4 B, 1 of 64 B`.
    pub fn writes_in_words(&self) -> String {
        let words = self.writes_by_length().map(|(bytes, writes)| format!("{writes} of {bytes} B"));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for CardMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bank, (writes, reads)) in self.beats.iter().enumerate() {
            writeln!(f, "DDR{bank}\n   write-count={writes}\n   read-count={reads}")?;
        }
        Ok(())
    }
}

/// An open memory card.
pub struct MemoryCard {
    bus: AnyBus,
    access: Access,
    banks: u32,
    fifo_window_bytes: u32,
}

impl MemoryCard {
    /// Opens the card by its function's name in the tree: checks that it is a memory card and
    /// enables its memory space.
    ///
    /// # Errors
    /// No such function, no such card there, another version, or a refusal by the platform.
    pub async fn open_by_name(bus: impl Bus, name: &str) -> Result<Self> {
        let bus = AnyBus::new(bus);
        let access = find_endpoint(&bus, name)?;
        let sizes = access.open(&bus, &CARD, access.read(&bus, map::SIZES)).await?;
        let banks = map::sizes::BANKS.get(sizes).min(map::BANKS.count);
        let fifo_window_bytes = map::sizes::FIFO_WINDOW_BYTES.get(sizes);
        Ok(Self { bus, access, banks, fifo_window_bytes })
    }

    /// Returns the bus that it was opened on.
    pub fn bus(&self) -> &AnyBus {
        &self.bus
    }

    /// Returns its function.
    pub fn function(&self) -> RoutingId {
        self.access.function.id
    }

    /// Returns how many bytes from the start of BAR 2 the FIFO decodes.
    pub fn fifo_window_bytes(&self) -> u32 {
        self.fifo_window_bytes
    }

    /// Opens a window into the card.
    ///
    /// # Errors
    /// See [`Window::open`].
    pub fn window(&self, options: WindowOptions) -> Result<Window> {
        Window::open(self.bus.clone(), self.function(), options)
    }

    async fn read(&self, offset: u32) -> Result<u32> {
        self.access.read(&self.bus, offset).await
    }

    /// Takes all counters at once and resets them.
    ///
    /// # Errors
    /// The card does not answer.
    pub async fn take_metrics(&self) -> Result<CardMetrics> {
        self.access.write(&self.bus, map::CONTROL, map::control::TAKE.put(1)).await?;
        let mut metrics = CardMetrics {
            fifo_writes: self.read(map::FIFO_WRITES).await?,
            fifo_bytes: self.read(map::FIFO_BYTES).await?,
            fifo_lost: self.read(map::FIFO_LOST).await?,
            ..CardMetrics::default()
        };
        for bank in 0..self.banks {
            let at = map::BANKS.at(bank);
            let writes = self.read(at + map::bank::WRITE_BEATS).await?;
            metrics.beats.push((writes, self.read(at + map::bank::READ_BEATS).await?));
        }
        for class in 0..map::SIZE_CLASSES.count {
            let at = map::SIZE_CLASSES.at(class);
            let writes = self.read(at + map::size_class::WRITES).await?;
            let reads = self.read(at + map::size_class::READS).await?;
            if writes > 0 || reads > 0 {
                metrics.sizes.push((1 << class, writes, reads));
            }
        }
        Ok(metrics)
    }

    /// Takes all bytes out of the FIFO, oldest first.
    ///
    /// # Errors
    /// The card does not answer.
    pub async fn drain_fifo(&self) -> Result<Vec<u8>> {
        self.take_fifo(u32::MAX).await
    }

    /// Takes at most so many bytes out of the FIFO, oldest first.
    ///
    /// # Errors
    /// The card does not answer.
    pub async fn take_fifo(&self, most: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Bytes pushed meanwhile are left for the next call.
        for _ in 0..self.read(map::FIFO_LEVEL).await?.min(most) {
            let word = self.read(map::FIFO_POP).await?;
            if map::fifo_pop::VALID.get(word) == 0 {
                break;
            }
            bytes.push(map::fifo_pop::BYTE_VALUE.get(word) as u8);
        }
        Ok(bytes)
    }
}
