// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench traffic`: flows between generic requesters and memories.

use std::sync::Arc;

use crosslane::experiment::{Choices, FlowArgument, FlowRequest, Scenario, TrafficWork, at_once};
use crosslane::lab::{Lab, RunningLab};
use crosslane::results::quantity::size_words;

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
    let mut lab = Lab::load(&arguments.place.named()?.whole_lab(why)?)?;
    for (path, value) in &arguments.set {
        lab = lab.with_constant(path, *value)?;
    }
    let lab = Arc::new(lab);
    let running = lab.build(arguments.seed)?;
    let flows = expanded(&arguments.flows, &running)?;
    let scenario = |flows: Vec<FlowRequest>| {
        let choices = Choices::default()
            .with_operations(arguments.operations)
            .with_outstanding(arguments.outstanding)
            .with_relaxed(arguments.relaxed)
            .with_window_bytes(arguments.window)
            .with_random(arguments.random)
            .with_offset_bytes(arguments.offset)
            .with_write_combined(arguments.write_combined);
        let work = TrafficWork { flows, choices, shuffle: arguments.shuffle };
        let scenario = Scenario::new(Arc::clone(&lab), work).with_seed(arguments.seed);
        Scenario { max_payload_bytes: arguments.mps, ..scenario }
    };
    let alone = |flow: &FlowArgument| -> Vec<Vec<FlowRequest>> {
        flow.sizes.sizes().map(|bytes| flow.requests(bytes)).collect()
    };
    let requests = match arguments.in_turn {
        true => flows.iter().flat_map(alone).collect(),
        false => at_once(&flows).map_err(usage)?,
    };
    let scenarios: Vec<_> = requests.into_iter().map(scenario).collect();
    if arguments.trace.trace.is_some() && scenarios.len() > 1 {
        return Err(usage(match arguments.in_turn {
            true => "--trace writes one run, and --in-turn makes several",
            false => "--trace writes one run; give each --flow one size instead of a range",
        }));
    }
    // An impossible flow is said before anything runs, and is the first one of the line.
    let mut bytes = 0_u64;
    for scenario in &scenarios {
        bytes = bytes.saturating_add(scenario.total_bytes(&running)?);
    }
    let modes = modes(arguments);
    let mut bench = Bench::new("traffic", Where::Lab(&lab), arguments.seed, &arguments.shown)?;
    bench.notes.modes = &modes;
    let what = if arguments.in_turn { "runs" } else { "sizes" };
    let runs = Runs::new(what, !arguments.no_why);
    bench.in_lab(
        scenarios,
        Runs { bytes: Some(bytes), trace: Some((&arguments.trace, running)), ..runs },
    )
}

/// Returns flows with the endpoints that `*` stands for.
///
/// # Errors
/// A `*` that stands for none.
pub fn expanded(flows: &[FlowArgument], lab: &RunningLab) -> Result<Vec<FlowArgument>> {
    let mut all = Vec::new();
    for flow in flows {
        let found = flow.expanded(lab);
        if found.is_empty() {
            return Err(usage(format!("--flow {flow}: the lab has no such endpoints of one host")));
        }
        all.extend(found);
    }
    Ok(all)
}

/// Returns what the outcomes do not say of the runs, in words.
fn modes(arguments: &TrafficArguments) -> String {
    let mut modes = Vec::new();
    if arguments.relaxed {
        modes.push("relaxed ordering".to_owned());
    }
    if arguments.random {
        modes.push("random addresses".to_owned());
    }
    if arguments.flows.iter().any(|flow| flow.is_copy) {
        modes.push("copies by way of host memory".to_owned());
    }
    if let Some(bytes) = arguments.window {
        modes.push(format!("windows of {}", size_words(bytes)));
    }
    if arguments.offset > 0 {
        modes.push(format!("{} behind the start", size_words(arguments.offset)));
    }
    modes.extend(arguments.set.iter().map(|(path, value)| format!("{path} = {value}")));
    modes.join(", ")
}
