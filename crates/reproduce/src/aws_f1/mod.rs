// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `aws-f1`: every measurement of "How to Use Write Combining to Improve PCIe Bus
//! Performance", through the driver's apertures, in the lab of that name.
//!
//! Each experiment has a module.

mod rates;
mod side_effects;

use crosslane_driver::MemoryCard;
use crosslane_experiment::{ExperimentError, MmioMeasured, MmioOptions, Program, mmio};
use crosslane_host::{Mapping, Routines};
use crosslane_lab::Simulation;
use crosslane_pcie::units::HostId;

use crate::context::Context;
use crate::error::{ReproduceError, Result};
use crate::experiment::size_words;
use crate::study::{Effort, Reproducible, Study};

/// The card.
const CARD: &str = "f1";
/// Passes of the paper's program for its table.
const PASSES: u64 = 100;
/// Bytes after which passes stop, each way: an uncached store always takes the same time, and
/// combined stores do once the buffers on the path are full.
const UNCACHED_BYTES: u64 = 16 << 10;
const COMBINED_BYTES: u64 = 4 << 20;

/// The largest block of a sweep over the lab's constants.
const QUICK_BYTES: u64 = 8 << 10;

/// A column of the paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    /// The paper's name.
    name: &'static str,
    /// Whether it uses the copy routine instead of the loop of 32-bit stores.
    custom: bool,
    /// Whether it is write-combined.
    combined: bool,
}

const MODES: [Mode; 4] = [
    Mode { name: "burst", custom: false, combined: false },
    Mode { name: "burst-wc", custom: false, combined: true },
    Mode { name: "custom", custom: true, combined: false },
    Mode { name: "custom-wc", custom: true, combined: true },
];

/// Returns the routines of the host's library.
fn routines(context: &Context<'_>) -> Result<Routines> {
    let host = context.lab().file().hosts.first();
    host.and_then(|host| host.part.routines)
        .ok_or_else(|| ReproduceError::experiment("lab aws-f1", "its host has no routines"))
}

/// Opens the card of a simulation.
async fn open(simulation: &Simulation) -> Result<MemoryCard, ExperimentError> {
    Ok(MemoryCard::open_by_name(simulation.bus(HostId(0)), CARD).await?)
}

/// Stores blocks in a separate lab.
fn stores(context: &Context<'_>, name: &str, options: &MmioOptions) -> Result<MmioMeasured> {
    context.run_verified(name, context.lab(), async |simulation| {
        mmio(&open(simulation).await?, options).await
    })
}

/// Stores blocks of one size in one mode.
fn measure(context: &Context<'_>, mode: Mode, size_bytes: u64) -> Result<MmioMeasured> {
    let (mapping, enough) = match mode.combined {
        true => (Mapping::WriteCombined, COMBINED_BYTES),
        false => (Mapping::Uncached, UNCACHED_BYTES),
    };
    let routines = routines(context)?;
    let program = match mode.custom {
        true => Program::Library(routines),
        false => Program::LibraryBurst(routines),
    };
    let passes = (enough / size_bytes).clamp(1, PASSES);
    let options = MmioOptions::new(size_bytes, program, mapping)
        .with_passes(passes)
        .with_seed(context.seed as u32);
    stores(context, &format!("{} of {}", mode.name, size_words(size_bytes)), &options)
}

/// The study.
pub(crate) const STUDY: Study = Study {
    labs: &["aws-f1"],
    figures: &[],
    reproducible: Some(Reproducible {
        name: "aws-f1",
        summary: "Write combining: host stores into an F1 card's memory, 17 sizes in four \
                      modes.",
        scenarios: MODES.len() as u64 * rates::SIZES + side_effects::SCENARIOS,
        has_engines: false,
        beside_gateware: 0,
        experiments: |context, done| {
            done.extend(rates::run(context)?);
            done.push(side_effects::run(context)?);
            Ok(())
        },
    }),
    compared: |context, effort| {
        let most = if effort == Effort::Full { u64::MAX } else { QUICK_BYTES };
        rates::compared(context, most)
    },
};
