// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench traffic`: flows between generic requesters and memories.

use std::sync::Arc;

use crosslane::experiment::{Choices, Scenario, TrafficWork};
use crosslane::lab::Lab;

use crate::arguments::TrafficArguments;
use crate::bench::{Bench, Runs};
use crate::error::{Result, usage};
use crate::files::Where;

/// Runs every scenario and prints the outcomes.
///
/// # Errors
/// A lab or a flow that is impossible, an output that cannot be written, and
/// [`Run`](crate::error::CommandError::Run) if anything went wrong in a run.
pub fn run(arguments: &TrafficArguments) -> Result<()> {
    let why = "its flows are a lab's generators, which --flow names";
    let lab = Arc::new(Lab::load(&arguments.place.named()?.whole_lab(why)?)?);
    let scenario = |sizes: Vec<u64>| {
        let flows = arguments.flows.iter().zip(sizes).map(|(f, size)| f.request(size)).collect();
        let choices = Choices::default()
            .with_operations(arguments.operations)
            .with_outstanding(arguments.outstanding)
            .with_relaxed(arguments.relaxed);
        let work = TrafficWork { flows, choices, shuffle: arguments.shuffle };
        let scenario = Scenario::new(Arc::clone(&lab), work).with_seed(arguments.seed);
        Scenario { max_payload_bytes: arguments.mps, ..scenario }
    };
    let scenarios: Vec<_> = scenario_sizes(arguments)?.into_iter().map(scenario).collect();
    if arguments.trace.trace.is_some() && scenarios.len() > 1 {
        return Err(usage("--trace writes one run; give each --flow one size instead of a range"));
    }
    // An impossible flow is said before anything runs, and is the first one of the line.
    let running = lab.build(arguments.seed)?;
    let mut bytes = 0_u64;
    for scenario in &scenarios {
        bytes = bytes.saturating_add(scenario.total_bytes(&running)?);
    }
    let mut bench = Bench::new("traffic", Where::Lab(&lab), arguments.seed, &arguments.shown)?;
    bench.notes.modes = if arguments.relaxed { "relaxed ordering" } else { "" };
    let runs = Runs::new("sizes", !arguments.no_why);
    bench.in_lab(
        scenarios,
        Runs { bytes: Some(bytes), trace: Some((&arguments.trace, running)), ..runs },
    )
}

/// Returns the sizes of the flows in each scenario: one scenario for each size of the ranges, which
/// all have the same number of sizes, or one.
fn scenario_sizes(arguments: &TrafficArguments) -> Result<Vec<Vec<u64>>> {
    let sizes: Vec<Vec<u64>> = arguments.flows.iter().map(|f| f.sizes.sizes().collect()).collect();
    let count = sizes.iter().map(Vec::len).max().unwrap_or(0);
    for (flow, sizes) in arguments.flows.iter().zip(&sizes) {
        if sizes.len() != 1 && sizes.len() != count {
            return Err(usage(format!(
                "--flow {flow}: a range of {} sizes beside one of {count}; ranges of one run need \
                 the same number of sizes",
                sizes.len()
            )));
        }
    }
    let of_scenario = |index: usize| sizes.iter().map(|s| s[index.min(s.len() - 1)]).collect();
    Ok((0..count).map(of_scenario).collect())
}
