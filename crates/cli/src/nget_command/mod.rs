// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench nget`: the micro-benchmark of the network processor's get engine.

pub mod arguments;

use std::sync::Arc;

use crosslane::driver::network_processor::{Modes, Requests};
use crosslane::experiment::{GetWork, NgetMeasured, NgetOptions, Scenario, nget_on};
use crosslane::host::Mapping;
use crosslane::lab::Lab;
use crosslane::open::DeviceName;

use crate::bench::{Bench, Runs, opened};
use crate::error::{CommandError, usage};
use crate::files::Where;
use crate::place_argument::{Named, check_named};
use arguments::NgetArguments;

/// Network processors that are measured where none is named: a torus has thousands.
const MOST_NODES: usize = 2;
/// Longest get, bytes.
const MAX_GET_BYTES: u64 = 1 << 20;
/// Most runs.
const MAX_RUNS: usize = 10_000;

/// How requests are written in labs where nothing is said.
const COMBINED: Requests = Requests::Stores(Mapping::WriteCombined);

/// Returns the lab's network processors, or those that are named.
fn nodes(lab: &Lab, wanted: &[String]) -> Result<Vec<String>, CommandError> {
    let all = lab.endpoints_with(|part| part.network_processor.is_some());
    let processors = ("network processor", "network_processor");
    check_named(lab, processors, &all, wanted.iter().map(String::as_str))?;
    Ok(match wanted {
        [] => all.into_iter().take(MOST_NODES).map(str::to_owned).collect(),
        wanted => wanted.to_vec(),
    })
}

/// One run: network processor, modes, gets in flight, bytes.
type Job<T> = (T, Modes, u32, u64);

/// Returns the runs of each network processor, with how it writes requests where nothing is said.
fn jobs<T: Clone>(
    arguments: &NgetArguments,
    processors: impl IntoIterator<Item = (T, Requests)>,
) -> Result<Vec<Job<T>>, CommandError> {
    let mut jobs = Vec::new();
    for (processor, usual) in processors {
        for modes in arguments.modes(usual) {
            for in_flight in &arguments.in_flight {
                for size in arguments.size.sizes() {
                    jobs.push((processor.clone(), modes, *in_flight, size));
                }
            }
        }
    }
    check(arguments, jobs.len())?;
    Ok(jobs)
}

fn options(arguments: &NgetArguments, size: u64, in_flight: u32) -> NgetOptions {
    let options = NgetOptions::enough(size, in_flight, arguments.per_loop, arguments.seed);
    options.with_loops(arguments.loops.unwrap_or(options.loops))
}

/// Runs the benchmark.
///
/// # Errors
/// A lab without a network processor, cards without one, invalid numbers, a run that fails, or
/// wrong data.
pub fn run(arguments: &NgetArguments) -> Result<(), CommandError> {
    match Named::or_lab("nget", arguments.lab.as_deref(), &arguments.device)? {
        Named::Lab { lab, endpoints } => {
            let named = endpoints.into_iter().flatten().collect();
            in_lab(arguments, &lab, named)
        }
        Named::Cards(names) => on_cards(arguments, &names),
    }
}

fn bench<'a>(arguments: &NgetArguments, place: Where<'a>) -> Result<Bench<'a>, CommandError> {
    Bench::new("nget", place, arguments.seed, &arguments.shown)
}

fn in_lab(arguments: &NgetArguments, lab: &str, named: Vec<String>) -> Result<(), CommandError> {
    let lab = Arc::new(Lab::load(lab)?);
    let wanted = if named.is_empty() { arguments.node.clone() } else { named };
    let nodes = nodes(&lab, &wanted)?.into_iter();
    let scenarios = jobs(arguments, nodes.map(|node| (node, COMBINED)))?.into_iter();
    let scenarios = scenarios.map(|(processor, modes, in_flight, size)| {
        let options = options(arguments, size, in_flight);
        let work = GetWork { processor, modes, options };
        Scenario::new(lab.clone(), work).with_seed(arguments.seed)
    });
    let runs = Runs::new("runs", arguments.why);
    bench(arguments, Where::Lab(&lab))?.in_lab(scenarios.collect(), runs)
}

fn on_cards(arguments: &NgetArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    if !arguments.node.is_empty() {
        return Err(usage("--node names endpoints of a lab; --device names the cards here"));
    }
    let bench = bench(arguments, Where::Cards(names))?;
    let session = opened(names)?;
    let bus = session.bus();
    let cards = session.cards().iter().map(|card| (card, Requests::fastest(bus, card.function)));
    let jobs = jobs(arguments, cards)?;
    bench.on_cards(&session, (&jobs, "runs"), async |(card, modes, in_flight, size)| {
        let options = options(arguments, *size, *in_flight);
        let measured = nget_on(bus.clone(), &card.endpoint, *modes, &options).await?;
        let node = card.name.clone();
        Ok((node.clone(), NgetMeasured { node, ..measured }))
    })
}

fn check(arguments: &NgetArguments, runs: usize) -> Result<(), CommandError> {
    if let Some(size) = arguments.size.sizes().find(|size| *size > MAX_GET_BYTES) {
        return Err(usage(format!("--size {size}: a get has 1 MiB at most")));
    }
    let per_loop = arguments.per_loop;
    if let Some(count) = arguments.in_flight.iter().find(|count| **count < per_loop) {
        return Err(usage(format!("-m {per_loop} is more than the {count} gets in flight")));
    }
    match runs {
        0..=MAX_RUNS => Ok(()),
        _ => Err(usage(format!("{runs} runs; {MAX_RUNS} are possible"))),
    }
}
