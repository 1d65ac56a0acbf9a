// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench halo`: nearest-neighbour exchange of a lattice in a torus.

pub mod arguments;

use std::sync::Arc;

use crosslane::driver::network_processor::{Modes, Requests};
use crosslane::experiment::{HaloOptions, HaloRun, halo_on};
use crosslane::lab::Lab;
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::Flow;
use crosslane_report::text::Notes;

use crate::bench_outcome::Runs;
use crate::error::CommandError;
use crate::interrupt::is_asked;
use crate::output_file::OutputFile;
use crate::place_argument::Named;
use crate::progress::Steps;
use crate::report_file::{Where, report_of};
use crate::why::{Why, explained};
use crate::workload::{refused, run_on};
use arguments::{HaloArguments, even_sizes};

/// Longest time of an exchange in a lab.
const TIMEOUT: Picoseconds = Picoseconds::from_secs(1);
/// Longest time of an exchange on cards: a server may simulate them.
const CARD_TIMEOUT: Picoseconds = Picoseconds::from_secs(60);

/// Runs the benchmark.
///
/// # Errors
/// A lab without a torus, an impossible size, cards that make none, a run that fails, or wrong
/// data.
pub fn run(arguments: &HaloArguments) -> Result<(), CommandError> {
    match Named::or_lab("torus", arguments.lab.as_deref(), &arguments.device)? {
        Named::Cards(names) => on_cards(arguments, &names),
        named => in_lab(arguments, &named.whole_lab("all nodes of the torus take part")?),
    }
}

/// Runs it in a lab. Large tori take gigabytes: they are run one after the other.
fn in_lab(arguments: &HaloArguments, lab: &str) -> Result<(), CommandError> {
    let lab = Lab::load(lab)?;
    if arguments.open {
        let sentence = "--open is for cards: the table `torus` of a lab says `wrap`";
        return Err(CommandError::Usage(sentence.to_owned()));
    }
    if lab.file().tori.len() != 1 {
        let problem = format!("lab {} does not have one torus (a list `torus`)", lab.name());
        return Err(CommandError::Usage(problem));
    }
    let labs: Vec<Lab> = match &arguments.nodes {
        None => vec![lab.clone()],
        Some(nodes) => {
            let tori = nodes.tori.iter().map(|sizes| lab.with_torus(sizes));
            tori.collect::<Result<_, _>>()?
        }
    };
    let file = report_of(arguments.report.as_ref())?;
    let steps = Steps::new(labs.len() as u64, "tori");
    let (options, seed) = (options(arguments, TIMEOUT), arguments.seed);
    let runs = labs.into_iter().map(|lab| HaloRun { lab: Arc::new(lab), options, seed });
    let runs: Vec<HaloRun> = runs.collect();
    let mut flows = Vec::new();
    for run in &runs {
        let outcome = run.run()?;
        let flow = outcome.flow(arguments.exchanges);
        steps.done(&flow.name, outcome.now);
        flows.push(flow);
        if is_asked() {
            break;
        }
    }
    steps.finish();
    let whys = match arguments.why {
        true => explained(&runs, &flows, &[], arguments.json),
        false => Vec::new(),
    };
    show(arguments, Where::Lab(&lab), &steps, (flows, whys), file)
}

/// Runs it between cards: all nodes in this program.
fn on_cards(arguments: &HaloArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    let sizes = sizes(arguments, names.len())?;
    let file = report_of(arguments.report.as_ref())?;
    let session = Session::open_all(names, SessionOptions::default()).map_err(refused)?;
    let bus = session.bus();
    let modes = |function| Modes { requests: Requests::fastest(bus, function), ..Modes::default() };
    let cards = session.cards().iter();
    let nodes: Vec<(&str, Modes)> =
        cards.map(|card| (card.endpoint.as_str(), modes(card.function))).collect();
    let options = options(arguments, CARD_TIMEOUT);
    let steps = Steps::new(1, "tori");
    let outcome = run_on(&session, async {
        let outcome = halo_on(bus, &nodes, &sizes, arguments.open, options).await;
        outcome.map_err(|error| CommandError::Card(error.to_string()))
    })?;
    let flow = outcome.flow(arguments.exchanges);
    steps.done(&flow.name, outcome.now);
    steps.finish();
    show(arguments, Where::Cards(names), &steps, (vec![flow], Vec::new()), file)
}

/// Returns the sizes of the torus that the cards make.
fn sizes(arguments: &HaloArguments, cards: usize) -> Result<Vec<u16>, CommandError> {
    let nodes = |sizes: &[u16]| sizes.iter().map(|&size| usize::from(size)).product::<usize>();
    let tori = arguments.nodes.as_ref().map(|nodes| &nodes.tori[..]);
    match tori {
        _ if cards < 2 => {
            Err(CommandError::Usage("--device: a torus has two nodes at least".to_owned()))
        }
        None => Ok(even_sizes(cards as u32)),
        Some([sizes]) if nodes(sizes) == cards => Ok(sizes.clone()),
        Some(_) => Err(CommandError::Usage(format!(
            "--nodes: cards make one torus, and --device names {cards} of its nodes"
        ))),
    }
}

fn options(arguments: &HaloArguments, timeout: Picoseconds) -> HaloOptions {
    HaloOptions {
        lattice: arguments.lattice,
        site_bytes: arguments.site_bytes,
        exchanges: arguments.exchanges,
        seed: arguments.seed,
        timeout,
    }
}

fn show(
    arguments: &HaloArguments,
    place: Where<'_>,
    steps: &Steps,
    (flows, whys): (Vec<Flow>, Vec<Why>),
    file: Option<OutputFile>,
) -> Result<(), CommandError> {
    let is_wrong = flows.iter().filter_map(Flow::exchange).any(|it| it.buffers_wrong > 0);
    let runs = Runs { bench: "halo", place, seed: arguments.seed, flows, whys };
    runs.show(Some(steps), arguments.json, Notes::default(), file)?;
    if is_wrong { Err(CommandError::Run) } else { Ok(()) }
}
