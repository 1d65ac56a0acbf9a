// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench halo`: nearest-neighbour exchange of a lattice in a torus.

pub mod arguments;

use std::sync::Arc;

use crosslane::driver::network_processor::{Modes, Requests};
use crosslane::experiment::{HaloOptions, Scenario, Tori, halo_on};
use crosslane::lab::Lab;
use crosslane::open::DeviceName;
use crosslane::pcie::units::Picoseconds;

use crate::bench::{Bench, Runs, opened};
use crate::error::{CommandError, usage};
use crate::files::Where;
use crate::place_argument::Named;
use arguments::HaloArguments;

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
        return Err(usage("--open is for cards: the table `torus` of a lab says `wrap`"));
    }
    if lab.file().tori.len() != 1 {
        return Err(usage(format!("lab {} does not have one torus (a list `torus`)", lab.name())));
    }
    let labs: Vec<Lab> = match &arguments.nodes {
        None => vec![lab.clone()],
        Some(nodes) => {
            let tori = nodes.0.iter().map(|sizes| lab.with_torus(sizes));
            tori.collect::<Result<_, _>>()?
        }
    };
    let options = options(arguments, TIMEOUT);
    let scenario = |lab| Scenario::new(Arc::new(lab), options).with_seed(arguments.seed);
    let runs = Runs { at_once: false, ..Runs::new("tori", arguments.why) };
    bench(arguments, Where::Lab(&lab))?.in_lab(labs.into_iter().map(scenario).collect(), runs)
}

fn bench<'a>(arguments: &HaloArguments, place: Where<'a>) -> Result<Bench<'a>, CommandError> {
    Bench::new("halo", place, arguments.seed, &arguments.shown)
}

/// Runs it between cards: all nodes in this program.
fn on_cards(arguments: &HaloArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    let sizes = sizes(arguments, names.len())?;
    let bench = bench(arguments, Where::Cards(names))?;
    let session = opened(names)?;
    let bus = session.bus();
    let modes = |function| Modes::default().with_requests(Requests::fastest(bus, function));
    let cards = session.cards().iter();
    let nodes: Vec<(&str, Modes)> =
        cards.map(|card| (card.endpoint.as_str(), modes(card.function))).collect();
    let options = options(arguments, CARD_TIMEOUT);
    bench.on_cards(&session, (&[options], "tori"), async |options| {
        let outcome = halo_on(bus, &nodes, &sizes, arguments.open, *options).await?;
        Ok((outcome.name(), outcome))
    })
}

/// Returns the sizes of the torus that the cards make.
fn sizes(arguments: &HaloArguments, cards: usize) -> Result<Vec<u16>, CommandError> {
    let nodes = |sizes: &[u16]| sizes.iter().map(|&size| usize::from(size)).product::<usize>();
    let tori = arguments.nodes.as_ref().map(|nodes| &nodes.0[..]);
    match tori {
        _ if cards < 2 => Err(usage("--device: a torus has two nodes at least")),
        None => Ok(Tori::even(cards as u32)),
        Some([sizes]) if nodes(sizes) == cards => Ok(sizes.clone()),
        Some(_) => Err(usage(format!(
            "--nodes: cards make one torus, and --device names {cards} of its nodes"
        ))),
    }
}

fn options(arguments: &HaloArguments, timeout: Picoseconds) -> HaloOptions {
    HaloOptions::new(arguments.lattice, arguments.site_bytes)
        .with_exchanges(arguments.exchanges)
        .with_seed(arguments.seed)
        .with_timeout(timeout)
}
