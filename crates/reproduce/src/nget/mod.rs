// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `nget`: the network processor of the document, two hosts with a card each, in
//! the lab of that name.
//!
//! Read first: `published`, what each figure is held to; then the experiments, a module each:
//! `peak`, duration and bandwidth of gets; `completions`, what the hub's fragmentation costs;
//! `modes`, of the driver; `link`, its latency, and other machines; `own`, our engine.

mod completions;
mod link;
mod modes;
mod neighbours;
mod own;
mod peak;
mod published;

use std::sync::Arc;

use crosslane_bench::{NgetOptions, NgetOutcome, NgetRun};
use crosslane_driver::network_processor::{Buffers, Modes, Requests};
use crosslane_host::{Mapping, Waiting};
use crosslane_lab::Lab;
use crosslane_report::{Axis, Plot, Scale, Series};

use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::watch::{Watch, may_begin};
use published::Figures;

/// Gets in flight where the engine is to be as fast as it can.
const ALL_IN_FLIGHT: u32 = 64;
/// The driver's modes of the curves: memory that the driver has mapped, mapped stores, polling of
/// user memory. Those with the least cost.
const MODES: Modes = Modes {
    buffers: Buffers::Mapped,
    requests: Requests::Stores(Mapping::WriteCombined),
    waiting: Waiting::Polling,
};

/// Scenarios that [`experiments`] runs.
pub const SCENARIOS: u64 =
    peak::SCENARIOS + completions::SCENARIOS + modes::SCENARIOS + link::SCENARIOS + own::SCENARIOS;

/// A machine of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Gpu1,
    Gpu2,
}

impl Machine {
    const ALL: [Self; 2] = [Self::Gpu1, Self::Gpu2];

    const fn words(self) -> &'static str {
        match self {
            Self::Gpu1 => "gpu1 (X5570)",
            Self::Gpu2 => "gpu2 (E5540)",
        }
    }

    /// Its part in the lab.
    const fn part(self) -> &'static str {
        match self {
            Self::Gpu1 => "x5570",
            Self::Gpu2 => "e5540",
        }
    }

    /// Its card.
    const fn processor(self) -> &'static str {
        match self {
            Self::Gpu1 => "fpga1",
            Self::Gpu2 => "fpga2",
        }
    }
}

/// What all experiments have in common.
pub struct Context<'a> {
    lab: Lab,
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
        Self::of(crosslane_lab::open("nget")?, seed, watch)
    }

    /// Another lab with the same measurements.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(lab: Lab, seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        let figures = Figures::read(&lab)?;
        Ok(Self { lab, seed, watch, figures })
    }

    /// Rows of the file of published figures.
    #[must_use]
    pub fn published_rows(&self) -> usize {
        self.figures.count()
    }

    /// The lab, or a variant of it.
    fn lab(&self, variant: Option<&str>) -> Result<Lab, ReproduceError> {
        Ok(match variant {
            Some(variant) => self.lab.with_variant(variant)?,
            None => self.lab.clone(),
        })
    }

    /// Share of gpu1's completions that go out in single lines.
    fn single_share(&self) -> f64 {
        self.lab.file().hosts[0].part.parameters.completer.completion_single_share
    }

    /// Gets of a size, so many in flight, one started and awaited in each loop.
    fn gets(
        &self,
        lab: &Lab,
        machine: Machine,
        modes: Modes,
        (size_bytes, in_flight): (u64, u32),
    ) -> Result<NgetOutcome, ReproduceError> {
        may_begin(self.watch)?;
        let options = NgetOptions::enough(size_bytes, in_flight, 1, self.seed);
        let (lab, processor) = (Arc::new(lab.clone()), machine.processor().to_owned());
        let run = NgetRun { lab, processor, modes, options, seed: self.seed };
        let outcome = run.run()?;
        self.watch.done(&run.name(), outcome.now);
        Ok(outcome)
    }
}

/// A plot by the size of a get.
fn plot(title: String, label: &str, unit: &str, scale: Scale, series: Vec<Series>) -> Plot {
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    let x = axis("bytes of a get", "B", Scale::Logarithmic);
    Plot { title, x, y: axis(label, unit, scale), series }
}

/// Every experiment, in order, each scenario in a lab of its own; `done` gets them as they end.
///
/// # Errors
/// An experiment that does not run as it should, or was interrupted.
pub fn experiments(
    context: &Context<'_>,
    done: &mut Vec<Experiment>,
) -> Result<(), ReproduceError> {
    for run in [peak::run, completions::run, modes::run, link::run, own::run] {
        done.push(run(context)?);
    }
    Ok(())
}

/// The rows that are compared, and no others.
///
/// # Errors
/// As [`experiments`].
pub fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    Ok([peak::compared(context)?, vec![link::compared(context)?]].concat())
}

/// The same with gets of fewer sizes: for sweeps over the lab's constants.
///
/// # Errors
/// As [`experiments`].
pub fn quick(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    Ok([peak::quick(context)?, vec![link::compared(context)?]].concat())
}
