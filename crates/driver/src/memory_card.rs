// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card with memory that the host stores into, as its registers describe it
//! (`docs/memory-card.md`).

use std::fmt;

use crosslane_host::ErrorKind::{NotFound, Unsupported};
use crosslane_host::{Bus, ErrorKind, RegisterAddress};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;
use crosslane_regs::memory_card as map;

use crate::error::DriverError;
use crate::ports::LOW_HALF;
use crate::window::{Window, WindowOptions};

/// BAR of the registers.
const REGISTER_BAR: u8 = 0;
/// BAR of the FIFO.
pub const FIFO_BAR: u8 = 2;
/// BAR of the memory.
pub const MEMORY_BAR: u8 = 4;
/// Major version of the register map that this driver supports.
const MAJOR: u32 = map::version::MAJOR.get(map::VERSION_RESET);

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
    #[must_use]
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
pub struct MemoryCard<B: Bus> {
    bus: B,
    function: RoutingId,
    name: String,
    banks: u32,
    fifo_window_bytes: u32,
}

impl<B: Bus> MemoryCard<B> {
    /// Opens the card by its function's name in the tree: checks that it is a memory card and
    /// enables its memory space.
    ///
    /// # Errors
    /// No such function, no such card there, another version, or a refusal by the platform.
    pub async fn open_by_name(bus: B, name: &str) -> Result<Self, DriverError> {
        let failed = |source| DriverError::Bus { device: name.to_owned(), source };
        let refused = |kind, problem: String| DriverError::refused(name, kind, problem);
        let functions = bus.functions().map_err(|error| failed(error.into()))?;
        let Some(info) = functions.into_iter().find(|info| info.name == name) else {
            return Err(refused(NotFound, "there is no such function".to_owned()));
        };
        let function = info.id;
        let before = bus.config_read(function, reg::COMMAND).map_err(|e| failed(e.into()))?;
        let on = before | reg::COMMAND_MEMORY_SPACE;
        bus.config_write(function, reg::COMMAND, on, LOW_HALF).map_err(|e| failed(e.into()))?;
        let bars = info.bars.iter().find(|bar| bar.index == usize::from(REGISTER_BAR));
        let bar_bytes = bars.map_or(0, |bar| bar.size_bytes);
        if bar_bytes < u64::from(map::BYTES) {
            let need = map::BYTES;
            return Err(refused(
                Unsupported,
                format!(
                    "it is no memory card: BAR{REGISTER_BAR} has {bar_bytes} B, the register map \
                 needs {need} B"
                ),
            ));
        }
        let name = name.to_owned();
        let mut card = Self { bus, function, name, banks: 0, fifo_window_bytes: 0 };
        let id = card.read(map::ID).await?;
        if id != map::ID_RESET {
            let want = map::ID_RESET;
            let problem =
                format!("it is no memory card: its first register is {id:#x} and not {want:#x}");
            return Err(card.refused(Unsupported, problem));
        }
        let major = map::version::MAJOR.get(card.read(map::VERSION).await?);
        if major != MAJOR {
            return Err(card.refused(
                Unsupported,
                format!("its register map has version {major}, this driver is written for {MAJOR}"),
            ));
        }
        let sizes = card.read(map::SIZES).await?;
        card.banks = map::sizes::BANKS.get(sizes).min(map::BANKS.count);
        card.fifo_window_bytes = map::sizes::FIFO_WINDOW_BYTES.get(sizes);
        Ok(card)
    }

    fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        DriverError::refused(&self.name, kind, problem)
    }

    /// Returns its function.
    #[must_use]
    pub fn function(&self) -> RoutingId {
        self.function
    }

    /// Returns how many bytes from the start of BAR 2 the FIFO decodes.
    #[must_use]
    pub fn fifo_window_bytes(&self) -> u32 {
        self.fifo_window_bytes
    }

    /// Opens a window into the card.
    ///
    /// # Errors
    /// See [`Window::open`].
    pub fn window(&self, options: WindowOptions) -> Result<Window<B>, DriverError> {
        Window::open(self.bus.clone(), self.function, options)
    }

    fn at(&self, offset: u32) -> RegisterAddress {
        let (function, bar) = (self.function, REGISTER_BAR);
        RegisterAddress { function, bar, offset_bytes: offset.into() }
    }

    async fn read(&self, offset: u32) -> Result<u32, DriverError> {
        let read = self.bus.read_register(self.at(offset)).await;
        read.map_err(|source| DriverError::Bus { device: self.name.clone(), source })
    }

    async fn write(&self, offset: u32, value: u32) -> Result<(), DriverError> {
        let written = self.bus.write_register(self.at(offset), value).await;
        written.map_err(|source| DriverError::Bus { device: self.name.clone(), source })
    }

    /// Takes all counters at once and resets them.
    ///
    /// # Errors
    /// The card does not answer.
    pub async fn take_metrics(&self) -> Result<CardMetrics, DriverError> {
        self.write(map::CONTROL, map::control::TAKE.put(1)).await?;
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
    pub async fn drain_fifo(&self) -> Result<Vec<u8>, DriverError> {
        let mut bytes = Vec::new();
        // Bytes pushed meanwhile are left for the next call.
        for _ in 0..self.read(map::FIFO_LEVEL).await? {
            let word = self.read(map::FIFO_POP).await?;
            if map::fifo_pop::VALID.get(word) == 0 {
                break;
            }
            bytes.push(map::fifo_pop::BYTE_VALUE.get(word) as u8);
        }
        Ok(bytes)
    }
}
