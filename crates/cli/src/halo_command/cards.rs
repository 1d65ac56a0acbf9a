// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same exchange between network processors that are opened by name: all nodes in this
//! program, and times of this machine.

use crosslane_bench::{BenchError, HaloMeasured, HaloNode};
use crosslane_driver::network_processor::{Modes, Requests, TorusDimension};
use crosslane_open::{DeviceName, Session, SessionOptions};
use crosslane_pcie::units::Picoseconds;
use crosslane_report::{Block, Section};
use crosslane_results::{Detail, Exchange, Flow, Platform, Scenario};
use crosslane_torus::{Node, NodeOptions, Place};
use futures_util::future::try_join_all;

use super::arguments::{HaloArguments, even_sizes};
use super::{EXCHANGE, options, sizes_words};
use crate::bench_outcome::bench_outcome;
use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::place_argument::is_served;
use crate::quantity::{megabytes, microseconds};
use crate::report_file::{Where, bench_page, report_of, write_page};
use crate::table::{Align, Table};
use crate::workload::{refused, run_on};

/// An exchange that takes longer has failed: simulated cards take their time.
const TIMEOUT: Picoseconds = Picoseconds::from_secs(60);

/// Runs it and prints.
///
/// # Errors
/// A torus that does not have as many nodes as there are cards, cards that are none of this kind,
/// links that do not come up, and wrong data.
pub fn run(arguments: &HaloArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    let sizes = sizes(arguments, names.len())?;
    let file = report_of(arguments.report.as_ref())?;
    let session = Session::open_all(names, SessionOptions::default()).map_err(refused)?;
    let measured = run_on(&session, async {
        let measured = exchange(arguments, &session, &sizes).await;
        measured.map_err(|error| CommandError::Card(error.to_string()))
    })?;
    let faces = Faces::of(arguments, &sizes, &measured);
    match arguments.json {
        true => {
            let devices = names.iter().map(ToString::to_string).collect();
            let platform = Platform::Cards { devices, served: is_served(names) };
            let scenarios = vec![faces.scenario(arguments.exchanges)];
            print_json(&bench_outcome("halo", platform, arguments.seed, scenarios, None))?;
        }
        false => print(&format!("times are this machine's\n\n{}", faces.table()))?,
    }
    if let Some(file) = &file {
        let title = EXCHANGE.to_owned();
        let blocks = vec![Block::Table(faces.table().on_page(""))];
        let sections = vec![Section { title, blocks }];
        write_page(&bench_page("halo", Where::Cards(names), sections), file)?;
    }
    if faces.wrong > 0 { Err(CommandError::Run) } else { Ok(()) }
}

/// Sizes of the torus that the cards make.
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

/// Place of a node by its number.
fn place_of(number: u16, sizes: &[u16], is_open: bool) -> Place {
    let closed = Place::of_node(number, sizes);
    let dimensions = closed.dimensions().iter();
    let dimensions = dimensions.map(|dimension| TorusDimension { is_open, ..*dimension });
    Place::new(&dimensions.collect::<Vec<_>>())
}

async fn exchange(
    arguments: &HaloArguments,
    session: &Session,
    sizes: &[u16],
) -> Result<Vec<HaloMeasured>, BenchError> {
    let (bus, options) = (session.bus(), options(arguments, TIMEOUT));
    let mut opened = Vec::new();
    for (number, card) in (0..).zip(session.cards()) {
        let modes = Modes { requests: Requests::fastest(bus, card.function), ..Modes::default() };
        let node_options = NodeOptions { modes, ..NodeOptions::default() };
        let place = place_of(number, sizes, arguments.open);
        opened.push(Node::open(bus.clone(), &card.endpoint, place, node_options).await?);
    }
    // Links come up when both their ends are open.
    let nodes = opened.into_iter().map(|node| HaloNode::prepare(node, options));
    let nodes = try_join_all(nodes).await?;
    let measured = try_join_all(nodes.iter().map(HaloNode::exchange)).await?;
    for node in nodes {
        node.close().await?;
    }
    Ok(measured)
}

/// What came of it.
struct Faces {
    sizes: Vec<u16>,
    nodes: usize,
    /// From the first beginning to the last end, for each exchange.
    exchange: Picoseconds,
    /// Bytes that each node sends in an exchange.
    node_bytes: u64,
    checked: u64,
    wrong: u64,
}

impl Faces {
    fn of(arguments: &HaloArguments, sizes: &[u16], measured: &[HaloMeasured]) -> Self {
        let begun = measured.iter().map(|node| node.begun).min().unwrap_or_default();
        let ended = measured.iter().filter_map(|node| node.ended.last().copied()).max();
        let elapsed = ended.unwrap_or(begun).since(begun);
        let exchanges = u64::from(arguments.exchanges.max(1));
        Self {
            sizes: sizes.to_vec(),
            nodes: measured.len(),
            exchange: Picoseconds(elapsed.0 / exchanges),
            node_bytes: measured.first().map_or(0, |node| node.bytes / exchanges),
            checked: measured.iter().map(|node| node.checked).sum(),
            wrong: measured.iter().map(|node| node.wrong).sum(),
        }
    }

    fn bytes_per_second(&self) -> f64 {
        self.node_bytes as f64 / self.exchange.as_seconds()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("nodes", Align::Right),
            ("torus", Align::Left),
            ("bytes of a node", Align::Right),
            ("us an exchange", Align::Right),
            ("MB/s to a node", Align::Right),
            ("buffers compared", Align::Right),
            ("wrong", Align::Right),
        ]);
        table.row([
            self.nodes.to_string(),
            sizes_words(&self.sizes),
            self.node_bytes.to_string(),
            microseconds(self.exchange.0),
            megabytes(self.bytes_per_second()),
            self.checked.to_string(),
            self.wrong.to_string(),
        ]);
        table
    }

    fn scenario(&self, exchanges: u32) -> Scenario {
        let flow = Flow {
            name: sizes_words(&self.sizes),
            bytes: self.node_bytes,
            iterations: exchanges.into(),
            bytes_per_second: Some(self.bytes_per_second()),
            detail: Detail::Exchange(Exchange {
                nodes: self.nodes,
                sizes: self.sizes.clone(),
                exchange_ns: self.exchange.as_ns(),
                buffers_compared: self.checked,
                buffers_wrong: self.wrong,
                elapsed_ns: None,
                directions: None,
                face_bytes: None,
                link_bytes_per_second: None,
                link_rate_bytes_per_second: None,
                host_rate_bytes_per_second: None,
            }),
            ..Flow::default()
        };
        Scenario { bytes: Some(flow.bytes), flows: vec![flow], ..Scenario::default() }
    }
}
