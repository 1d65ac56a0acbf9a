// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of a BAR that the host stores into and loads from, uncached or write-combined.

use std::fmt;
use std::ops::Range;

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::{
    AnyBus, Bus, BusError, ErrorKind, FunctionInfo, Mapping, RegisterAddress, Stores, setters,
};
use crosslane_pcie::units::RoutingId;

use crate::access::find_function;
use crate::error::{DriverError, Result};

/// Bytes that a processor combines: a line of its buffers.
pub const LINE_BYTES: u64 = 64;
/// The widest store of a general register, bytes.
const WORD_BYTES: u32 = 8;

/// Kind of device behind a window, which decides how it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Memory: a byte holds the value stored last, whatever the order and size of the packets.
    Memory,
    /// A FIFO that takes writes within the first bytes of the window, in their order of arrival.
    Fifo {
        /// Number of bytes that it decodes.
        decoded_bytes: u64,
    },
    /// Registers: each store or load may have a side effect.
    Registers,
}

/// Options of a window: part of a BAR, mapping and contents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowOptions {
    /// Number of the BAR.
    pub bar: u8,
    /// Range of bytes within the BAR.
    pub range: Range<u64>,
    /// Mapping: uncached or write-combined.
    pub mapping: Mapping,
    /// Kind of device behind it.
    pub contents: Contents,
}

impl WindowOptions {
    /// Options of an uncached window on registers, the contents that permit the least.
    pub const fn new(bar: u8, range: Range<u64>) -> Self {
        Self { bar, range, mapping: Mapping::Uncached, contents: Contents::Registers }
    }
}

setters!(WindowOptions {
    with_mapping(mapping: Mapping),
    with_contents(contents: Contents),
});

/// A window into a function's BAR. Clones are the same window.
#[derive(Clone)]
pub struct Window {
    bus: AnyBus,
    function: RoutingId,
    /// Name for messages: `f1 BAR4`.
    place: String,
    options: WindowOptions,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({}, {:?})", self.place, self.options)
    }
}

impl Window {
    /// Opens a window into a function's BAR.
    ///
    /// A write-combined one is refused where combining would be wrong: on registers, since stores
    /// may be merged and reordered; on a FIFO that decodes less than a whole line of 64 B, since
    /// two stores to one address arrive as one; and on a BAR that cannot be combined (not
    /// prefetchable, or the platform has no such mapping).
    ///
    /// # Errors
    /// No such function, a range beyond the BAR, or a refusal as above.
    pub fn open(bus: impl Bus, function: RoutingId, options: WindowOptions) -> Result<Self> {
        let bus = AnyBus::new(bus);
        let info = find_function(&bus, function)?.0.function;
        let window = Self { place: place(&info, options.bar), bus, function, options };
        window.check(&info)?;
        Ok(window)
    }

    fn check(&self, info: &FunctionInfo) -> Result<()> {
        let WindowOptions { bar, range, mapping, contents } = &self.options;
        let bar_bytes = info.bars.iter().find(|it| it.index == usize::from(*bar));
        let Some(bar_bytes) = bar_bytes.map(|bar| bar.size_bytes) else {
            return Err(self.refused(InvalidArgument, "there is no such BAR"));
        };
        if range.is_empty() || range.end > bar_bytes {
            let problem = format!("{range:#x?} is not a part of its {bar_bytes} B");
            return Err(self.refused(InvalidArgument, problem));
        }
        if *mapping == Mapping::Uncached {
            return Ok(());
        }
        match contents {
            Contents::Registers => {
                let why = "registers cannot be write-combined: stores would be merged, and come \
                           in any order";
                return Err(self.refused(InvalidArgument, why));
            }
            Contents::Fifo { decoded_bytes } if *decoded_bytes < LINE_BYTES => {
                return Err(self.refused(
                    InvalidArgument,
                    format!(
                        "a FIFO that decodes {decoded_bytes} B cannot be write-combined: what is \
                     stored twice to one address arrives once; it would have to decode a line of \
                     {LINE_BYTES} B"
                    ),
                ));
            }
            Contents::Fifo { .. } if !range.start.is_multiple_of(LINE_BYTES) => {
                let why = format!("a FIFO at {:#x} does not begin with a line", range.start);
                return Err(self.refused(InvalidArgument, why));
            }
            Contents::Fifo { .. } | Contents::Memory => {}
        }
        self.bus
            .check_mapping(self.function, *bar, *mapping)
            .map_err(|source| DriverError::Bus { device: info.name.clone(), source })
    }

    fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        DriverError::refused(&self.place, kind, problem)
    }

    fn at(&self, offset_bytes: u64, bytes: usize) -> Result<RegisterAddress> {
        let size = self.size_bytes();
        if offset_bytes.checked_add(bytes as u64).is_none_or(|end| end > size) {
            let problem =
                format!("{bytes} B at {offset_bytes:#x} reach beyond a window of {size} B");
            return Err(self.refused(InvalidArgument, problem));
        }
        let offset_bytes = self.options.range.start + offset_bytes;
        Ok(RegisterAddress { function: self.function, bar: self.options.bar, offset_bytes })
    }

    /// Returns its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.options.range.end - self.options.range.start
    }

    /// Returns its mapping.
    pub fn mapping(&self) -> Mapping {
        self.options.mapping
    }

    /// Returns the bus that it was opened on.
    pub fn bus(&self) -> &AnyBus {
        &self.bus
    }

    /// Returns the same window with accesses made by another core of the host.
    pub fn on_core(&self, core: u16) -> Self {
        Self { bus: self.bus.on_core(core), ..self.clone() }
    }

    /// Stores with the general registers: 8 B at a time, less at unaligned ends.
    ///
    /// # Errors
    /// A range beyond the window, or a FIFO: see [`push`](Self::push).
    pub async fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.store(offset_bytes, bytes, WORD_BYTES).await
    }

    /// Stores 32-bit words one by one, little-endian.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub async fn write_burst(&self, offset_bytes: u64, words: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.store(offset_bytes, &bytes, 4).await
    }

    /// Stores with the widest stores of the processor.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub async fn copy(&self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.store(offset_bytes, bytes, self.bus.widest_store_bytes()).await
    }

    /// Stores with a given width; narrower at unaligned ends.
    ///
    /// # Errors
    /// See [`write`](Self::write); also a width that the processor does not have.
    pub async fn store(&self, offset_bytes: u64, bytes: &[u8], width_bytes: u32) -> Result<()> {
        if let Contents::Fifo { .. } = self.options.contents {
            return Err(
                self.refused(InvalidArgument, "a FIFO is pushed into, not stored to a place")
            );
        }
        let at = self.at(offset_bytes, bytes.len())?;
        self.store_at(at, bytes, width_bytes).await
    }

    async fn store_at(&self, at: RegisterAddress, bytes: &[u8], width_bytes: u32) -> Result<()> {
        let stores = Stores { width_bytes, mapping: self.options.mapping };
        self.bus.store(at, bytes, stores).await.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: BusError) -> DriverError {
        DriverError::Bus { device: self.place.clone(), source }
    }

    /// Pushes bytes into the FIFO. Uncached: in stores of 8 B, to the decoded addresses in turn.
    /// Write-combined: in whole lines of 64 B, each spread over the line, so that no store
    /// overwrites another and each line leaves as one write.
    ///
    /// # Errors
    /// Not a FIFO; write-combined, a length that is not a multiple of 64 B: the pieces of a partial
    /// line may leave in any order.
    pub async fn push(&self, bytes: &[u8]) -> Result<()> {
        let Contents::Fifo { decoded_bytes } = self.options.contents else {
            return Err(self.refused(InvalidArgument, "it is not a FIFO"));
        };
        let (step, width) = match self.options.mapping {
            Mapping::WriteCombined if !(bytes.len() as u64).is_multiple_of(LINE_BYTES) => {
                return Err(self.refused(InvalidArgument, format!(
                    "{} B are not whole lines of {LINE_BYTES} B, and the pieces of a part may come \
                     in any order",
                    bytes.len()
                )));
            }
            Mapping::WriteCombined => (LINE_BYTES, self.bus.widest_store_bytes()),
            Mapping::Uncached => {
                let word = decoded_bytes.clamp(1, WORD_BYTES.into());
                (1 << word.ilog2(), WORD_BYTES)
            }
        };
        for piece in bytes.chunks(step as usize) {
            let at = self.at(0, piece.len())?;
            self.store_at(at, piece, width).await?;
        }
        Ok(())
    }

    /// Loads bytes. The core waits for each 8 B. Stores that this core has combined but not flushed
    /// may be missing if the window is write-combined.
    ///
    /// # Errors
    /// A range beyond the window, or no answer.
    pub async fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<()> {
        let at = self.at(offset_bytes, into.len())?;
        let loaded = self.bus.load(at, into, self.options.mapping).await;
        loaded.map_err(|source| self.failed(source))
    }

    /// Waits until everything that this core has stored has left it completely (a fence).
    ///
    /// # Errors
    /// See [`Bus::fence`].
    pub async fn flush(&self) -> Result<()> {
        self.bus.fence().await.map_err(|source| self.failed(source))
    }
}

fn place(info: &FunctionInfo, bar: u8) -> String {
    format!("{} BAR{bar}", info.name)
}
