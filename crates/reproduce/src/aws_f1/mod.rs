// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `aws-f1`: every measurement of "How to Use Write Combining to Improve PCIe Bus
//! Performance", through the driver's windows, in the lab of that name.
//!
//! Read first: `published`, what each row of the table is held to; then the experiments, one
//! module each.

mod published;
mod rates;
mod side_effects;

use crosslane_bench::{BenchError, MmioMeasured, MmioOptions, Program, mmio};
use crosslane_driver::MemoryCard;
use crosslane_explain::size_words;
use crosslane_host::{Mapping, Routines};
use crosslane_lab::{Lab, LabBus, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::watch::{Watch, may_begin};
use published::{Figures, Mode};

/// The card.
const CARD: &str = "f1";
/// Longest simulated time of one scenario; the longest takes 0.7 s.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// Passes of the document's program for its table.
const PASSES: u64 = 100;
/// In uncached memory every store takes the same time, and in combined memory nothing changes once
/// the buffers on the way are full: passes stop when so many bytes have been stored, each way.
const UNCACHED_BYTES: u64 = 16 << 10;
const COMBINED_BYTES: u64 = 4 << 20;

/// The largest block of a sweep over the lab's constants.
const QUICK_BYTES: u64 = 8 << 10;

/// Scenarios that [`experiments`] runs.
pub const SCENARIOS: u64 = 4 * published::SIZES + side_effects::SCENARIOS;

/// What all experiments have in common.
pub struct Context<'a> {
    lab: Lab,
    routines: Routines,
    seed: u64,
    watch: &'a dyn Watch,
    figures: Figures,
}

impl<'a> Context<'a> {
    /// The shipped lab.
    ///
    /// # Errors
    /// A lab or a file of figures that cannot be read.
    pub fn new(seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        Self::of(crosslane_lab::open("aws-f1")?, seed, watch)
    }

    /// Another lab with the same measurements.
    ///
    /// # Errors
    /// As [`new`](Self::new), and a lab whose host has no routines.
    pub fn of(lab: Lab, seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        let routines = lab.file().hosts.first().and_then(|host| host.part.routines);
        let routines = routines.ok_or_else(|| {
            ReproduceError::experiment(format!("lab {}", lab.name()), "its host has no routines")
        })?;
        let figures = Figures::read(&lab)?;
        Ok(Self { lab, routines, seed, watch, figures })
    }

    /// Rows of the file of published figures.
    #[must_use]
    pub fn published_rows(&self) -> usize {
        self.figures.count()
    }

    /// Runs host code in a lab of its own.
    fn run<T>(
        &self,
        name: &str,
        code: impl AsyncFnOnce(LabBus, MemoryCard<LabBus>) -> Result<T, BenchError>,
    ) -> Result<T, ReproduceError> {
        let failed = |problem: String| ReproduceError::experiment(name, problem);
        may_begin(self.watch)?;
        let simulation = Simulation::new(self.lab.build_engines(self.seed)?);
        simulation.set_time_limit(Some(TIME_LIMIT));
        let bus = simulation.bus(HostId(0));
        let result = simulation.run(name, async {
            let card = MemoryCard::open_by_name(bus.clone(), CARD).await?;
            code(bus, card).await
        });
        let value = result.map_err(|stuck| failed(stuck.to_string()))?;
        let value = value.map_err(|error| failed(error.to_string()))?;
        simulation.finish().map_err(|stuck| failed(stuck.to_string()))?;
        let (errors, now) = simulation.with_fabric(|fabric| (fabric.errors().len(), fabric.now()));
        if errors > 0 {
            return Err(failed(format!("{errors} errors on the links")));
        }
        self.watch.done(name, now);
        Ok(value)
    }

    /// What one mode does with blocks of one size.
    fn measure(&self, mode: Mode, size_bytes: u64) -> Result<MmioMeasured, ReproduceError> {
        let (mapping, enough) = match mode.combined {
            true => (Mapping::WriteCombined, COMBINED_BYTES),
            false => (Mapping::Uncached, UNCACHED_BYTES),
        };
        let program = match mode.custom {
            true => Program::Library(self.routines),
            false => Program::LibraryBurst(self.routines),
        };
        let passes = (enough / size_bytes).clamp(1, PASSES);
        let options = MmioOptions { size_bytes, passes, program, mapping, seed: self.seed as u32 };
        let name = format!("{} of {}", mode.name, size_words(size_bytes));
        let measured = self.run(&name, async |bus, card| mmio(&bus, &card, &options).await)?;
        match measured.data_errors.words {
            0 => Ok(measured),
            words => {
                let problem = format!("{words} words in the card's memory are wrong");
                Err(ReproduceError::experiment(name, problem))
            }
        }
    }
}

/// Every experiment, in order, each scenario in a lab of its own; `done` gets them as they end.
///
/// # Errors
/// An experiment that does not run as it should, or was interrupted.
pub fn experiments(
    context: &Context<'_>,
    done: &mut Vec<Experiment>,
) -> Result<(), ReproduceError> {
    done.extend(rates::run(context)?);
    done.push(side_effects::run(context)?);
    Ok(())
}

/// The rows that are compared, and no others.
///
/// # Errors
/// As [`experiments`].
pub fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    rates::compared(context, u64::MAX)
}

/// The same of blocks that take little time: for sweeps over the lab's constants.
///
/// # Errors
/// As [`experiments`].
pub fn quick(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    rates::compared(context, QUICK_BYTES)
}
