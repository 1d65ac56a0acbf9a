// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates at which the host stores into a window of a memory card, by which program and through
//! which mapping.

use crosslane_driver::{
    CardMetrics, Contents, LINE_BYTES, MEMORY_BAR, MemoryCard, Window, WindowOptions,
};
use crosslane_fabric::trace::TraceSink;
use crosslane_host::{AnyBus, Bus, HostWork, Mapping, Routines, setters};
use crosslane_lab::{Lab, Progress};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::{Better, Detail, Figure, Flow, Stores, WritesByLength};

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, rate};
use crate::pattern::{WORD_BYTES, pattern_bytes};
use crate::scenario::{Outcome, Scenario, Work, execute};

/// Longest data that are compared whole, bytes; of more, one word of each line of 64 B.
const COMPARED_BYTES: u64 = 64 << 10;

/// Routine that makes the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A loop of 32-bit stores.
    Burst,
    /// Our own copy: the widest stores that the processor has.
    Copy,
    /// The copy routine of a host's C library, as these say which stores it makes.
    Library(Routines),
    /// The loop of 32-bit stores of that library, with what a call of it takes.
    LibraryBurst(Routines),
}

/// Size, number and method of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MmioOptions {
    /// Bytes of a pass, a multiple of 4.
    pub size_bytes: u64,
    /// Passes, one behind the other without a fence between them, all to the same place.
    pub passes: u64,
    /// Routine that makes the stores.
    pub program: Program,
    /// Through which mapping.
    pub mapping: Mapping,
    /// Seed of the data.
    pub seed: u32,
}

setters!(MmioOptions {
    with_passes(passes: u64),
    with_seed(seed: u32),
});

impl MmioOptions {
    /// Returns options of one pass.
    pub const fn new(size_bytes: u64, program: Program, mapping: Mapping) -> Self {
        Self { size_bytes, passes: 1, program, mapping, seed: 1 }
    }

    /// Returns the name of the routine and the mapping: `burst`, `burst-wc`, `custom`, `custom-wc`.
    pub const fn name(&self) -> &'static str {
        match (self.program, self.mapping) {
            (Program::Burst | Program::LibraryBurst(_), Mapping::Uncached) => "burst",
            (Program::Burst | Program::LibraryBurst(_), Mapping::WriteCombined) => "burst-wc",
            (Program::Copy | Program::Library(_), Mapping::Uncached) => "custom",
            (Program::Copy | Program::Library(_), Mapping::WriteCombined) => "custom-wc",
        }
    }
}

/// Measurements of stores into a memory card.
#[derive(Clone, Debug, PartialEq)]
pub struct MmioMeasured {
    /// Options of the run.
    pub options: MmioOptions,
    /// Time from before the first store until the core may continue after the last.
    pub elapsed: Picoseconds,
    /// Time of the fence behind the last store.
    pub fence: Picoseconds,
    /// Counters of the card, from the first store to the end of the fence.
    pub metrics: CardMetrics,
    /// Errors in the card's memory afterwards.
    pub data_errors: DataErrors,
}

impl MmioMeasured {
    /// Bytes of all passes.
    pub fn bytes(&self) -> u64 {
        self.options.size_bytes * self.options.passes
    }

    /// Bytes per second, without the fence.
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.bytes(), self.elapsed)
    }
}

/// Stores into the card's memory, from its beginning on.
///
/// # Errors
/// An impossible size, a window that cannot be mapped so, and a failure of the run.
pub async fn mmio(card: &MemoryCard, options: &MmioOptions) -> Result<MmioMeasured> {
    let bus = card.bus();
    let MmioOptions { size_bytes, passes, mapping, .. } = *options;
    if size_bytes == 0 || !size_bytes.is_multiple_of(WORD_BYTES) || passes == 0 {
        let problem =
            format!("{passes} passes of {size_bytes} B; at least one of a multiple of 4 B");
        return Err(ExperimentError::refused("stores into a window", problem));
    }
    let window = |mapping| {
        let (range, contents) = (0..size_bytes, Contents::Memory);
        card.window(
            WindowOptions::new(MEMORY_BAR, range).with_mapping(mapping).with_contents(contents),
        )
    };
    let stored = window(mapping)?;
    let data = pattern_bytes(options.seed, size_bytes);
    card.take_metrics().await?;
    let begun = bus.now();
    for _ in 0..passes {
        pass(bus, &stored, &data, options).await?;
    }
    let elapsed = bus.now().since(begun);
    stored.flush().await?;
    let fence = bus.now().since(begun + elapsed);
    // The read of the counters comes behind all writes.
    let metrics = card.take_metrics().await?;
    let mut data_errors = DataErrors::default();
    compare(&window(Mapping::Uncached)?, &data, &mut data_errors).await?;
    Ok(MmioMeasured { options: *options, elapsed, fence, metrics, data_errors })
}

async fn pass(bus: &AnyBus, window: &Window, data: &[u8], options: &MmioOptions) -> Result<()> {
    match options.program {
        Program::Burst => window.store(0, data, 4).await?,
        Program::Copy => window.copy(0, data).await?,
        Program::LibraryBurst(routines) => {
            bus.work(HostWork::Time(routines.burst_call)).await;
            window.store(0, data, 4).await?;
        }
        Program::Library(routines) => {
            bus.work(HostWork::Time(routines.copy_call)).await;
            library_copy(bus, window, data, &routines).await?;
        }
    }
    Ok(())
}

/// Makes the stores of a library's copy routine.
async fn library_copy(
    bus: &AnyBus,
    window: &Window,
    data: &[u8],
    routines: &Routines,
) -> Result<()> {
    let (length, combined) = (data.len() as u64, window.mapping() == Mapping::WriteCombined);
    let width = if length >= routines.copy_string_from_bytes {
        // A string instruction moves more than a byte at a time in memory that is cached or
        // combined, and byte by byte in uncached memory.
        if combined { bus.widest_store_bytes() } else { 1 }
    } else if length <= routines.copy_narrow_until_bytes {
        routines.copy_narrow_bytes
    } else {
        routines.copy_wide_bytes
    };
    window.store(0, data, width).await?;
    let is_wide = length > routines.copy_narrow_until_bytes;
    if is_wide && length < routines.copy_string_from_bytes && !combined {
        // In combined memory these find their lines still in the buffers.
        let tail = length - routines.copy_tail_bytes.min(length);
        window.store(tail, &data[tail as usize..], width).await?;
    }
    Ok(())
}

/// Looks at what the card has.
async fn compare(window: &Window, data: &[u8], errors: &mut DataErrors) -> Result<()> {
    let whole = data.len() as u64 <= COMPARED_BYTES;
    let mut offset = 0;
    while offset < data.len() {
        // Of a line each time another word.
        let skip = if whole { 0 } else { offset / LINE_BYTES as usize % 8 * 8 };
        let at = (offset + skip).min(data.len() - 4);
        let mut found = [0; 8];
        let found = &mut found[..(data.len() - at).min(8)];
        window.read(at as u64, found).await?;
        for (number, (found, sent)) in found.chunks(4).zip(data[at..].chunks(4)).enumerate() {
            if found != sent {
                errors.words += 1;
                errors.first_word.get_or_insert((at / 4 + number) as u64);
            }
        }
        offset += if whole { 8 } else { LINE_BYTES as usize };
    }
    Ok(())
}

/// Stores of the first host's core into a memory card.
#[derive(Clone, Debug)]
pub struct StoreWork {
    /// The card, an endpoint's name.
    pub card: String,
    /// The stores.
    pub options: MmioOptions,
}

impl Work for StoreWork {
    type Outcome = MmioMeasured;

    fn name(&self, _lab: &Lab) -> String {
        self.options.name().to_owned()
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<MmioMeasured> {
        let run = scenario.begin(trace)?;
        let program = async {
            let bus = run.simulation().bus(HostId(0));
            let card = MemoryCard::open_by_name(bus, &scenario.work.card).await?;
            mmio(&card, &scenario.work.options).await
        };
        let ended = execute(&run, "bench mmio", progress, program)?;
        Ok(ended.into_result().map_err(ExperimentError::failed)?.value)
    }
}

impl Outcome for MmioMeasured {
    fn result(&self) -> crosslane_results::ScenarioResult {
        let sizes = self.metrics.writes_by_length();
        let sizes = sizes.map(|(up_to_bytes, writes)| WritesByLength { up_to_bytes, writes });
        let flow = Flow {
            name: self.options.name().to_owned(),
            bytes: self.options.size_bytes,
            iterations: self.options.passes,
            bytes_per_second: Some(self.bytes_per_second()),
            detail: Detail::Stores(Stores {
                elapsed_ns: self.elapsed.as_seconds() * 1e9,
                fence_ns: self.fence.as_seconds() * 1e9,
                wrong_words: self.data_errors.words,
                writes_by_length: sizes.collect(),
                beats_by_bank: self.metrics.beats.iter().map(|beats| beats.0).collect(),
            }),
            ..Flow::default()
        };
        flow.into()
    }

    fn figure(&self) -> Option<Figure> {
        Some(Figure { value: self.bytes_per_second(), better: Better::Higher })
    }

    fn simulated(&self) -> Picoseconds {
        self.elapsed
    }

    fn wrong_data(&self) -> Option<String> {
        let words = self.data_errors.words;
        (words > 0).then(|| format!("{words} words are not what was stored"))
    }

    fn details(&self) -> String {
        format!("\nfence behind it: {}\n{}", self.fence, self.metrics)
    }
}
