// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench nget`: the micro-benchmark of the network processor's get engine.

pub mod arguments;

use std::sync::Arc;

use crosslane::driver::network_processor::{Modes, Requests};
use crosslane::experiment::{NgetOptions, NgetRun, nget_on};
use crosslane::host::Mapping;
use crosslane::lab::Lab;
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::results::{Account, Flow};
use crosslane_report::text::Notes;

use crate::bench_outcome::Runs;
use crate::error::CommandError;
use crate::interrupt::{is_asked, kept};
use crate::output_file::OutputFile;
use crate::place_argument::Named;
use crate::progress::Steps;
use crate::report_file::{Where, report_of};
use crate::why::{Why, explained};
use crate::workload::{refused, run_on};
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
    let endpoints = lab.file().endpoints.iter();
    let all: Vec<String> = endpoints
        .filter(|endpoint| endpoint.part.network_processor.is_some())
        .map(|endpoint| endpoint.name.clone())
        .collect();
    if all.is_empty() {
        return Err(CommandError::Usage(format!(
            "lab {} has no network processor: no endpoint whose part has a table \
             `network_processor`",
            lab.name()
        )));
    }
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        let first = all[..all.len().min(8)].join(", ");
        let problem = format!("{unknown} is no network processor; there are {first}");
        return Err(CommandError::Usage(problem));
    }
    Ok(match wanted {
        [] => all.into_iter().take(MOST_NODES).collect(),
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
    NgetOptions { loops: arguments.loops.unwrap_or(options.loops), ..options }
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

fn in_lab(arguments: &NgetArguments, lab: &str, named: Vec<String>) -> Result<(), CommandError> {
    let lab = Lab::load(lab)?;
    let wanted = if named.is_empty() { arguments.node.clone() } else { named };
    let nodes = nodes(&lab, &wanted)?.into_iter();
    let jobs = jobs(arguments, nodes.map(|node| (node, COMBINED)))?.into_iter();
    let lab = Arc::new(lab);
    let runs = jobs.map(|(processor, modes, in_flight, size)| {
        let options = options(arguments, size, in_flight);
        NgetRun { lab: lab.clone(), processor, modes, options, seed: arguments.seed }
    });
    let runs: Vec<NgetRun> = runs.collect();
    let file = report_of(arguments.report.as_ref())?;
    let steps = Steps::new(runs.len() as u64, "runs");
    let made = steps.watch.each(&runs, |run| {
        let outcome = run.run()?;
        steps.shown(&run.name(), outcome.now);
        let flow = outcome.flow(&run.processor, run.modes);
        Ok::<_, CommandError>(Some((flow, outcome.account)))
    });
    steps.finish();
    let (runs, made) = kept(runs, made?);
    let (flows, accounts): (Vec<Flow>, Vec<Account>) = made.into_iter().unzip();
    let whys = match arguments.why {
        true => explained(&runs, &flows, &accounts, arguments.json),
        false => Vec::new(),
    };
    show(arguments, Where::Lab(&lab), &steps, (flows, whys), file)
}

fn on_cards(arguments: &NgetArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    if !arguments.node.is_empty() {
        let sentence = "--node names endpoints of a lab; --device names the cards here";
        return Err(CommandError::Usage(sentence.to_owned()));
    }
    let file = report_of(arguments.report.as_ref())?;
    let session = Session::open_all(names, SessionOptions::default()).map_err(refused)?;
    let bus = session.bus();
    let cards = session.cards().iter().map(|card| (card, Requests::fastest(bus, card.function)));
    let jobs = jobs(arguments, cards)?;
    let steps = Steps::new(jobs.len() as u64, "runs");
    let mut flows = Vec::new();
    for (card, modes, in_flight, size) in jobs {
        let options = options(arguments, size, in_flight);
        let measured = run_on(&session, async {
            // Errors name the card.
            let measured = nget_on(bus.clone(), &card.endpoint, modes, &options).await;
            measured.map_err(|error| CommandError::Card(error.to_string()))
        })?;
        steps.done(&card.name, measured.elapsed());
        flows.push(measured.flow(&card.name, modes));
        if is_asked() {
            break;
        }
    }
    steps.finish();
    show(arguments, Where::Cards(names), &steps, (flows, Vec::new()), file)
}

fn show(
    arguments: &NgetArguments,
    place: Where<'_>,
    steps: &Steps,
    (flows, whys): (Vec<Flow>, Vec<Why>),
    file: Option<OutputFile>,
) -> Result<(), CommandError> {
    let is_wrong = flows.iter().filter_map(Flow::gets).any(|gets| gets.gets_wrong > 0);
    let runs = Runs { bench: "nget", place, seed: arguments.seed, flows, whys };
    runs.show(Some(steps), arguments.json, Notes::default(), file)?;
    if is_wrong { Err(CommandError::Run) } else { Ok(()) }
}

fn check(arguments: &NgetArguments, runs: usize) -> Result<(), CommandError> {
    if let Some(size) = arguments.size.sizes().find(|size| *size > MAX_GET_BYTES) {
        return Err(CommandError::Usage(format!("--size {size}: a get has 1 MiB at most")));
    }
    let per_loop = arguments.per_loop;
    if let Some(count) = arguments.in_flight.iter().find(|count| **count < per_loop) {
        let problem = format!("-m {per_loop} is more than the {count} gets in flight");
        return Err(CommandError::Usage(problem));
    }
    match runs {
        0..=MAX_RUNS => Ok(()),
        _ => Err(CommandError::Usage(format!("{runs} runs; {MAX_RUNS} are possible"))),
    }
}
