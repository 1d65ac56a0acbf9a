// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench halo`: nearest-neighbour exchange of a lattice in a torus.

pub mod arguments;

use std::sync::Arc;

use crosslane::driver::network_processor::{Modes, Requests};
use crosslane::experiment::{HaloOptions, NoProgress, Scenario as Run, halo_on};
use crosslane::lab::Lab;
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::{Detail, Exchange, Flow};
use crosslane_report::{Axis, Block, Plot, Scale, Section, Series, SeriesKind};

use crate::bench_outcome::Runs;
use crate::error::CommandError;
use crate::interrupt::is_asked;
use crate::output_file::OutputFile;
use crate::place_argument::Named;
use crate::progress::Steps;
use crate::quantity::{megabytes, microseconds, percent};
use crate::report_file::{Where, report_of};
use crate::table::{Align, Table};
use crate::why::{Why, explained, has_column, why_block};
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
    let runs = labs.into_iter().map(|lab| Run::new(Arc::new(lab), options).with_seed(seed));
    let runs: Vec<Run<HaloOptions>> = runs.collect();
    let mut flows = Vec::new();
    for run in &runs {
        let outcome = run.run(&NoProgress, None)?;
        let flow = outcome.flow();
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
    let modes = |function| Modes::default().with_requests(Requests::fastest(bus, function));
    let cards = session.cards().iter();
    let nodes: Vec<(&str, Modes)> =
        cards.map(|card| (card.endpoint.as_str(), modes(card.function))).collect();
    let options = options(arguments, CARD_TIMEOUT);
    let steps = Steps::new(1, "tori");
    let outcome = run_on(&session, async {
        let outcome = halo_on(bus, &nodes, &sizes, arguments.open, options).await;
        outcome.map_err(|error| CommandError::Card(error.to_string()))
    })?;
    let flow = outcome.flow();
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
    let is_wrong = exchanges(&flows).any(|(_, exchange)| exchange.buffers_wrong > 0);
    let (text, blocks) = match place {
        Where::Lab(lab) => (lab_text(lab, &flows, &whys), plots(&flows)),
        Where::Cards(_) => {
            let table = card_table(&flows);
            let text = format!("times are this machine's\n\n{table}");
            (text, vec![Block::Table(table.on_page(""))])
        }
    };
    let title = "Nearest-neighbour exchange".to_owned();
    let runs = Runs { bench: "halo", place, seed: arguments.seed, flows, whys };
    runs.show(steps, arguments.json, &text, (vec![Section { title, blocks }], file))?;
    if is_wrong { Err(CommandError::Run) } else { Ok(()) }
}

/// Returns the flows with what only exchanges have.
fn exchanges(flows: &[Flow]) -> impl Iterator<Item = (&Flow, &Exchange)> {
    flows.iter().filter_map(|flow| match &flow.detail {
        Detail::Exchange(exchange) => Some((flow, exchange)),
        _ => None,
    })
}

/// Returns the share of a rate; 0 if the rate is not known.
fn share(of: f64, rate: Option<f64>) -> f64 {
    rate.map_or(0.0, |rate| of / rate)
}

fn exchange_us(exchange: &Exchange) -> String {
    microseconds((exchange.exchange_ns * 1e3).round() as u64)
}

fn card_table(flows: &[Flow]) -> Table {
    let mut table = Table::new(&[
        ("nodes", Align::Right),
        ("torus", Align::Left),
        ("bytes of a node", Align::Right),
        ("us an exchange", Align::Right),
        ("MB/s to a node", Align::Right),
        ("buffers compared", Align::Right),
        ("wrong", Align::Right),
    ]);
    for (flow, exchange) in exchanges(flows) {
        table.row([
            exchange.nodes.to_string(),
            flow.name.clone(),
            flow.bytes.to_string(),
            exchange_us(exchange),
            megabytes(flow.rate().unwrap_or(0.0)),
            exchange.buffers_compared.to_string(),
            exchange.buffers_wrong.to_string(),
        ]);
    }
    table
}

fn lab_text(lab: &Lab, flows: &[Flow], whys: &[Why]) -> String {
    let mut columns = vec![
        ("nodes", Align::Right),
        ("torus", Align::Left),
        ("directions", Align::Right),
        ("largest face B", Align::Right),
        ("us an exchange", Align::Right),
        ("MB/s of a link", Align::Right),
        ("of its rate %", Align::Right),
        ("MB/s to a host", Align::Right),
        ("of its link %", Align::Right),
        ("of the first %", Align::Right),
        ("buffers compared", Align::Right),
        ("wrong", Align::Right),
    ];
    columns.extend(has_column(whys).then_some(("bottleneck", Align::Left)));
    let mut table = Table::new(&columns).least_first(&[
        "directions",
        "largest face B",
        "of its link %",
        "MB/s to a host",
    ]);
    let first = exchanges(flows).next().map_or(0.0, |(_, exchange)| exchange.exchange_ns);
    for (index, (flow, exchange)) in exchanges(flows).enumerate() {
        let bottleneck = whys.get(index).filter(|_| has_column(whys)).map(Why::cell);
        let (link, host) = (exchange.link_bytes_per_second, flow.rate().unwrap_or(0.0));
        let cells = [
            exchange.nodes.to_string(),
            flow.name.clone(),
            exchange.directions.to_string(),
            exchange.face_bytes.to_string(),
            exchange_us(exchange),
            megabytes(link),
            percent(share(link, exchange.link_rate_bytes_per_second)),
            megabytes(host),
            percent(share(host, exchange.host_rate_bytes_per_second)),
            percent(first / exchange.exchange_ns),
            exchange.buffers_compared.to_string(),
            exchange.buffers_wrong.to_string(),
        ];
        table.row(cells.into_iter().chain(bottleneck));
    }
    let rates = exchanges(flows).next().map_or(String::new(), |(_, exchange)| {
        format!(
            "a torus link carries {} MB/s of payload each way, the host's link {} MB/s of writes\n",
            megabytes(exchange.link_rate_bytes_per_second.unwrap_or(0.0)),
            megabytes(exchange.host_rate_bytes_per_second.unwrap_or(0.0))
        )
    });
    format!("lab {}, simulated time\n{rates}\n{table}{}", lab.name(), why_block(whys))
}

fn plots(flows: &[Flow]) -> Vec<Block> {
    let plot = |title: &str, y, value: &dyn Fn(&Flow, &Exchange) -> f64| {
        let points = exchanges(flows);
        let points =
            points.map(|(flow, exchange)| (exchange.nodes as f64, value(flow, exchange))).collect();
        let series = Series { name: "all directions".to_owned(), kind: SeriesKind::Ours, points };
        Block::Plot(Plot {
            title: title.to_owned(),
            x: Axis::new("nodes", "", Scale::Logarithmic),
            y,
            series: vec![series],
        })
    };
    let time = Axis::new("an exchange", "us", Scale::Linear);
    let of_link = Axis::new("of the host's link", "%", Scale::Linear);
    vec![
        plot("Weak scaling: time of an exchange", time, &|_, one| one.exchange_ns / 1e3),
        plot("Rate to each host", of_link, &|flow, one| {
            1e2 * share(flow.rate().unwrap_or(0.0), one.host_rate_bytes_per_second)
        }),
    ]
}
