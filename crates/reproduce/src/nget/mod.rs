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

/// A machine of the paper: its name, the same with its processor, and its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    name: &'static str,
    words: &'static str,
    card: &'static str,
}

const GPU1: Machine = Machine { name: "gpu1", words: "gpu1 (X5570)", card: "fpga1" };
const GPU2: Machine = Machine { name: "gpu2", words: "gpu2 (E5540)", card: "fpga2" };
const MACHINES: [Machine; 2] = [GPU1, GPU2];

/// Makes gets of a size with `in_flight` in flight, one started and awaited in each loop.
fn gets(
    context: &Context<'_>,
    lab: &Lab,
    machine: Machine,
    modes: Modes,
    (size_bytes, in_flight): (u64, u32),
) -> Result<NgetOutcome> {
    let options = NgetOptions::enough(size_bytes, in_flight, 1, context.seed);
    gets_as(context, lab, machine, modes, options)
}

/// Makes gets with these options.
fn gets_as(
    context: &Context<'_>,
    lab: &Lab,
    machine: Machine,
    modes: Modes,
    options: NgetOptions,
) -> Result<NgetOutcome> {
    context.may_begin()?;
    let work = GetWork { processor: machine.card.to_owned(), modes, options };
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
        has_engines: true,
        beside_gateware: own::SCENARIOS,
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
