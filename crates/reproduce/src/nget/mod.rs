// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `nget`: the network processor of the paper, two hosts with a card each, in
//! the lab of that name.
//!
//! Each experiment has a module: `peak`, duration and bandwidth of gets; `completions`, cost of the
//! hub's fragmentation; `modes`, modes of the driver; `link`, its latency, and other machines;
//! `own`, our engine.

mod completions;
mod link;
mod modes;
mod neighbours;
mod own;
mod peak;

use std::sync::Arc;

use crosslane_driver::network_processor::Modes;
use crosslane_experiment::{GetWork, NgetOptions, NgetOutcome, Scenario};
use crosslane_lab::Lab;

use crate::context::Context;
use crate::error::Result;
use crate::study::{Reproducible, Study};

/// Gets in flight at which the engine reaches its highest rate.
const ALL_IN_FLIGHT: u32 = 64;
/// A machine of the paper.
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

    /// Returns its name.
    const fn name(self) -> &'static str {
        match self {
            Self::Gpu1 => "gpu1",
            Self::Gpu2 => "gpu2",
        }
    }

    /// Returns its card.
    const fn processor(self) -> &'static str {
        match self {
            Self::Gpu1 => "fpga1",
            Self::Gpu2 => "fpga2",
        }
    }
}

/// Makes gets of a size with `in_flight` in flight, one started and awaited in each loop.
fn gets(
    context: &Context<'_>,
    lab: &Lab,
    machine: Machine,
    modes: Modes,
    (size_bytes, in_flight): (u64, u32),
) -> Result<NgetOutcome> {
    context.may_begin()?;
    let options = NgetOptions::enough(size_bytes, in_flight, 1, context.seed);
    let work = GetWork { processor: machine.processor().to_owned(), modes, options };
    let run = Scenario::new(Arc::new(lab.clone()), work).with_seed(context.seed);
    let outcome = run.run(&(), None)?;
    context.done(&run.name(), outcome.now);
    Ok(outcome)
}

/// The study.
pub(crate) const STUDY: Study = Study {
    labs: &["nget"],
    figures: &[],
    reproducible: Some(Reproducible {
        name: "nget",
        summary: "Network processors of two Nehalem hosts: gets from host memory, \
                      fragmentation, driver modes, a torus link.",
        scenarios: peak::SCENARIOS
            + completions::SCENARIOS
            + modes::SCENARIOS
            + link::SCENARIOS
            + own::SCENARIOS,
        has_engines: false,
        experiments: |context, done| {
            for run in [peak::run, completions::run, modes::run, link::run, own::run] {
                done.push(run(context)?);
            }
            Ok(())
        },
    }),
    compared: |context, effort| {
        Ok([peak::compared(context, effort)?, vec![link::compared(context)?]].concat())
    },
};
