// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench halo`: nearest-neighbour exchange of a lattice in a torus.

pub mod arguments;
mod cards;

use crosslane_bench::HaloOptions;
use crosslane_lab::Lab;
use crosslane_pcie::units::Picoseconds;
use crosslane_report::{Axis, Block, Page, Plot, Scale, Section, Series, SeriesKind};
use crosslane_reproduce::nget::{HaloOutcome, HaloRun};
use crosslane_results::{Detail, Exchange, Flow, Platform, Scenario};

use crate::bench_outcome::bench_outcome;
use crate::error::CommandError;
use crate::interrupt::is_asked;
use crate::output::{print, print_json};
use crate::output_file::not_written;
use crate::place_argument::Named;
use crate::progress::Steps;
use crate::quantity::{megabytes, microseconds, percent};
use crate::report_file::{Where, bench_page, report_of, write_page};
use crate::table::{Align, Table};
use arguments::HaloArguments;

/// An exchange that takes longer has failed.
const TIMEOUT: Picoseconds = Picoseconds::from_secs(1);
/// What a page is about.
const EXCHANGE: &str = "Nearest-neighbour exchange";

/// Runs it. Large tori take gigabytes: they are run one after the other.
///
/// # Errors
/// A lab without a torus, a size that it cannot have, and what does not run; wrong data.
pub fn run(arguments: &HaloArguments) -> Result<(), CommandError> {
    let lab = match Named::or_lab("torus", arguments.lab.as_deref(), &arguments.device)? {
        Named::Cards(names) => return cards::run(arguments, &names),
        named => Lab::load(&named.whole_lab("all nodes of the torus take part")?)?,
    };
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
    let mut outcomes = Vec::new();
    for lab in &labs {
        let (options, seed) = (options(arguments, TIMEOUT), arguments.seed);
        let outcome = HaloRun { lab, options, seed }.run()?;
        steps.done(&sizes_words(&outcome.sizes), outcome.now);
        outcomes.push(outcome);
        if is_asked() {
            break;
        }
    }
    steps.finish();
    if arguments.json {
        let platform = Platform::Lab { lab: lab.name().to_owned() };
        let scenarios = outcomes.iter().map(|one| scenario(one, arguments.exchanges)).collect();
        let interrupted = steps.watch.interrupted();
        print_json(&bench_outcome("halo", platform, arguments.seed, scenarios, interrupted))?;
    } else {
        print(&page(&lab, &outcomes))?;
    }
    steps.watch.end(&not_written([&file]))?;
    if let Some(file) = &file {
        write_page(&report(&lab, &outcomes), file)?;
    }
    match outcomes.iter().all(|outcome| outcome.checked().1 == 0) {
        true => Ok(()),
        false => Err(CommandError::Run),
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

/// `4 x 2 x 2`.
fn sizes_words(sizes: &[u16]) -> String {
    sizes.iter().map(u16::to_string).collect::<Vec<_>>().join(" x ")
}

fn page(lab: &Lab, outcomes: &[HaloOutcome]) -> String {
    let mut table = Table::new(&[
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
    ])
    .least_first(&["directions", "largest face B", "of its link %", "MB/s to a host"]);
    let first = outcomes.first().map_or(0.0, |outcome| outcome.exchange.as_seconds());
    for outcome in outcomes {
        let (checked, wrong) = outcome.checked();
        let (link, host) = (outcome.link_bytes_per_second(), outcome.node_bytes_per_second());
        table.row([
            outcome.nodes.len().to_string(),
            sizes_words(&outcome.sizes),
            outcome.directions.to_string(),
            outcome.face_bytes.to_string(),
            microseconds(outcome.exchange.0),
            megabytes(link),
            percent(link / outcome.link_rate),
            megabytes(host),
            percent(host / outcome.host_rate),
            percent(first / outcome.exchange.as_seconds()),
            checked.to_string(),
            wrong.to_string(),
        ]);
    }
    let rates = outcomes.first().map_or(String::new(), |outcome| {
        format!(
            "a torus link carries {} MB/s of payload each way, the host's link {} MB/s of writes\n",
            megabytes(outcome.link_rate),
            megabytes(outcome.host_rate)
        )
    });
    format!("lab {}, simulated time\n{rates}\n{table}", lab.name())
}

fn scenario(outcome: &HaloOutcome, exchanges: u32) -> Scenario {
    let (checked, wrong) = outcome.checked();
    let flow = Flow {
        name: sizes_words(&outcome.sizes),
        bytes: outcome.node_bytes,
        iterations: exchanges.into(),
        bytes_per_second: Some(outcome.node_bytes_per_second()),
        detail: Detail::Exchange(Exchange {
            nodes: outcome.nodes.len(),
            sizes: outcome.sizes.clone(),
            exchange_ns: outcome.exchange.as_ns(),
            buffers_compared: checked,
            buffers_wrong: wrong,
            elapsed_ns: Some(outcome.exchange.as_ns() * f64::from(exchanges)),
            directions: Some(outcome.directions),
            face_bytes: Some(outcome.face_bytes),
            link_bytes_per_second: Some(outcome.link_bytes_per_second()),
            link_rate_bytes_per_second: Some(outcome.link_rate),
            host_rate_bytes_per_second: Some(outcome.host_rate),
        }),
        ..Flow::default()
    };
    Scenario { bytes: Some(flow.bytes), flows: vec![flow], ..Scenario::default() }
}

fn report(lab: &Lab, outcomes: &[HaloOutcome]) -> Page {
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    let plot = |title: &str, y, value: &dyn Fn(&HaloOutcome) -> f64| {
        let point = |outcome: &HaloOutcome| (outcome.nodes.len() as f64, value(outcome));
        let points = outcomes.iter().map(point).collect();
        let series = Series { name: "all directions".to_owned(), kind: SeriesKind::Ours, points };
        Plot {
            title: title.to_owned(),
            x: axis("nodes", "", Scale::Logarithmic),
            y,
            series: vec![series],
        }
    };
    let time = axis("an exchange", "us", Scale::Linear);
    let share = axis("of the host's link", "%", Scale::Linear);
    let plots = [
        plot("Weak scaling: time of an exchange", time, &|one| one.exchange.as_ns() / 1e3),
        plot("Rate to each host", share, &|one| 1e2 * one.node_bytes_per_second() / one.host_rate),
    ];
    let blocks = plots.map(Block::Plot).into();
    bench_page("halo", Where::Lab(lab), vec![Section { title: EXCHANGE.to_owned(), blocks }])
}
