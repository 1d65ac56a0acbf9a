// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge bench`: rates of bridged transfers, pipelined beside naive.

use crosslane::bridge::{BridgeError, Client, Mode, Path, Report, ServerOptions, Stage};
use crosslane::experiment::{BridgedMeasured, BridgedOptions, ExperimentError, TwoNodes, bridged};
use crosslane::host::{Clock, Rdma};
use crosslane::lab::{Lab, Simulation};
use crosslane::network::MachineClock;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::{Bridge, BridgeTransfer, Outcome, Overlap, SCHEMA};
use crosslane_report::Table;
use futures_util::future::try_join_all;
use serde_json::json;

use super::arguments::{BenchArguments, ModeChoice, NetworkChoice, PathChoice};
use super::client::stage_lines;
use super::network;
use super::serve::{DEFAULT_NAME, beside, on_card, server_options};
use crate::error::CommandError;
use crate::output;
use crate::report_file::{report_of, write_outcome_page};
use crate::size::short_size;
use crate::terminal::shown;

/// Largest number of bytes that a naive transfer may have: its memory is got for it.
const MOST_NAIVE_BYTES: u64 = 1 << 31;

/// One kind of transfer, measured.
struct Line {
    path: Path,
    mode: Mode,
    size_bytes: u64,
    clients: usize,
    /// Of each transfer of the first client.
    measured: BridgedMeasured,
    /// Bytes of all clients over the time of all their transfers.
    bytes_per_second: f64,
    wrong_words: u64,
}

/// The transfers to measure.
struct Plan {
    paths: Vec<Path>,
    modes: Vec<Mode>,
    sizes: Vec<u64>,
    iterations: u64,
    seed: u32,
    timeout: Picoseconds,
}

impl Plan {
    fn of(arguments: &BenchArguments) -> Result<Self, CommandError> {
        let path = |choice: &PathChoice| match choice {
            PathChoice::Put => Path::ToFpga,
            PathChoice::Get => Path::FromFpga,
            PathChoice::Roundtrip => Path::RoundTrip,
        };
        let paths = match arguments.path.is_empty() {
            true => vec![Path::ToFpga, Path::FromFpga, Path::RoundTrip],
            false => arguments.path.iter().map(path).collect(),
        };
        let modes = match arguments.mode {
            ModeChoice::Pipelined => vec![Mode::Pipelined],
            ModeChoice::Naive => vec![Mode::Naive],
            ModeChoice::Both => vec![Mode::Naive, Mode::Pipelined],
        };
        let sizes: Vec<u64> = arguments.size.sizes().collect();
        let clients = u64::from(arguments.clients);
        if let Some(size) = sizes.iter().find(|size| !size.is_multiple_of(4 * clients)) {
            let why = format!("--size {size}: each of {clients} clients needs a multiple of 4 B");
            return Err(CommandError::Usage(why));
        }
        let timeout = Picoseconds(arguments.client.timeout * 1_000_000_000_000);
        let iterations = arguments.iterations.into();
        let seed = arguments.seed as u32;
        Ok(Self { paths, modes, sizes, iterations, seed, timeout })
    }

    /// Measures all of it.
    async fn measure<R: Rdma, C: Clock>(
        &self,
        clients: &[Client<R, C>],
        (card, address): (&str, u64),
    ) -> Result<Vec<Line>, ExperimentError> {
        let mut lines = Vec::new();
        for path in &self.paths {
            for size_bytes in &self.sizes {
                for mode in &self.modes {
                    let size = size_bytes / clients.len() as u64;
                    let options = |index: u64| BridgedOptions {
                        path: *path,
                        mode: *mode,
                        card: card.to_owned(),
                        address: address + index * size,
                        size_bytes: size,
                        iterations: self.iterations,
                        chunk_bytes: None,
                        seed: self.seed.wrapping_add(index as u32),
                        timeout: self.timeout,
                    };
                    let runs = clients
                        .iter()
                        .zip(0..)
                        .map(async |(client, index)| bridged(client, &options(index)).await);
                    let measured = try_join_all(runs).await?;
                    lines.push(Line::new(*path, *mode, *size_bytes, measured));
                }
            }
        }
        Ok(lines)
    }
}

impl Line {
    fn new(path: Path, mode: Mode, size_bytes: u64, measured: Vec<BridgedMeasured>) -> Self {
        let clients = measured.len();
        let wrong_words = measured.iter().map(|one| one.data_errors.words).sum();
        // Clients begin together and have the same to do: the slowest says when all is done.
        let slowest = measured.iter().map(BridgedMeasured::median).max().unwrap_or_default();
        let bytes_per_second = match slowest {
            Picoseconds::ZERO => 0.0,
            time => size_bytes as f64 / time.as_seconds(),
        };
        let measured = measured.into_iter().next().expect("there is a client");
        Self { path, mode, size_bytes, clients, measured, bytes_per_second, wrong_words }
    }

    fn report(&self) -> &Report {
        self.measured.report().expect("each transfer has a report")
    }

    fn result(&self) -> BridgeTransfer {
        BridgeTransfer {
            path: self.path.to_string(),
            mode: self.mode.to_string(),
            bytes: self.size_bytes,
            clients: self.clients,
            seconds: self.measured.times.iter().map(|time| time.as_seconds()).collect(),
            bytes_per_second: self.bytes_per_second,
            wrong_words: self.wrong_words,
            report: json!(self.report()),
            why_not_faster: self.report().why_not_faster(),
        }
    }
}

/// Returns the gain of overlap, naive over pipelined, and its bound, for each pair of the same
/// transfer.
fn overlaps(lines: &[Line]) -> Vec<Overlap> {
    let naive = lines.iter().filter(|line| line.mode == Mode::Naive);
    let pairs = naive.filter_map(|naive| {
        let pipelined = lines.iter().find(|line| {
            line.mode == Mode::Pipelined
                && (line.path, line.size_bytes) == (naive.path, naive.size_bytes)
        })?;
        // Of the naive transfer each stage was alone while it worked.
        let alone: Vec<u64> = naive.report().stages.iter().map(|stage| stage.busy_ps).collect();
        let slowest = alone.iter().max().copied().filter(|slowest| *slowest > 0)?;
        let ratio = naive.report().elapsed_ps as f64 / pipelined.report().elapsed_ps.max(1) as f64;
        let bound = alone.iter().sum::<u64>() as f64 / slowest as f64;
        Some(Overlap {
            path: naive.path.to_string(),
            bytes: naive.size_bytes,
            naive_over_pipelined: ratio,
            bound,
            share: ratio / bound,
        })
    });
    pairs.collect()
}

/// `bridge bench`.
///
/// # Errors
/// An impossible request, a failed transfer, and wrong data.
pub fn run(arguments: &BenchArguments) -> Result<(), CommandError> {
    let plan = Plan::of(arguments)?;
    let file = report_of(arguments.report.as_ref())?;
    let lab = arguments.lab.as_deref().map(Lab::load).transpose()?;
    let pace = Picoseconds::from_ns(arguments.pace.unwrap_or(0).into());
    let options = ServerOptions {
        most_naive_bytes: MOST_NAIVE_BYTES,
        pace,
        ..server_options(&arguments.ring)
    };
    let (lines, place) = match (&lab, &arguments.target) {
        (Some(lab), _) => in_lab(arguments, &plan, options, lab)?,
        (None, Some(target)) => {
            let (server, place) = (target.server.clone(), (target.card.as_str(), target.address));
            let clock = MachineClock::new();
            let (network, why) = network::open(arguments.client.network, &server, &clock)?;
            let running = async {
                let clients = connect(arguments, &network, &clock, &server).await?;
                measured(&plan, &clients, place).await
            };
            let lines = futures_executor::block_on(running)?;
            (lines, format!("network: {}, because {why}", network.name()))
        }
        (None, None) => in_this_program(arguments, &plan, options)?,
    };
    let outcome = outcome(arguments, &lines, &place);
    match arguments.client.json {
        true => output::print_json(&outcome)?,
        false => output::print(&page(&lines, &place))?,
    }
    if let Some(file) = file {
        write_outcome_page(&outcome, lab.as_ref(), &file)?;
    }
    match lines.iter().any(|line| line.wrong_words > 0) {
        true => Err(CommandError::Run),
        false => Ok(()),
    }
}

async fn measured<R: Rdma, C: Clock>(
    plan: &Plan,
    clients: &[Client<R, C>],
    place: (&str, u64),
) -> Result<Vec<Line>, CommandError> {
    plan.measure(clients, place).await.map_err(failed)
}

fn failed(error: ExperimentError) -> CommandError {
    match error {
        ExperimentError::Bridge(error) => CommandError::Bridge(error),
        error => CommandError::Bridge(BridgeError::of(Stage::Request, error)),
    }
}

async fn connect<R: Rdma>(
    arguments: &BenchArguments,
    network: &R,
    clock: &MachineClock,
    server: &str,
) -> Result<Vec<Client<R, MachineClock>>, CommandError> {
    let identity = network::identity(&arguments.client)?;
    let mut clients = Vec::new();
    for _ in 0..arguments.clients {
        let deadline = clock.after(std::time::Duration::from_secs(10));
        let (network, clock) = (network.clone(), clock.clone());
        clients.push(Client::connect(network, clock, server, &identity, deadline).await?);
    }
    Ok(clients)
}

/// Server and client in simulated time.
fn in_lab(
    arguments: &BenchArguments,
    plan: &Plan,
    options: ServerOptions,
    lab: &Lab,
) -> Result<(Vec<Line>, String), CommandError> {
    let nodes = TwoNodes::find(lab)?;
    let clients = arguments.clients.into();
    let card = nodes.card().to_owned();
    let program = async |_: &Simulation, clients: Vec<_>| plan.measure(&clients, (&card, 0)).await;
    let name = format!("bridge in lab {}", lab.name());
    let (lines, _) = nodes.run(lab, arguments.seed, &name, options, clients, program)?;
    Ok((lines.map_err(failed)?, format!("lab {}, simulated time", lab.name())))
}

/// A server within this program, and a real network.
fn in_this_program(
    arguments: &BenchArguments,
    plan: &Plan,
    options: ServerOptions,
) -> Result<(Vec<Line>, String), CommandError> {
    let clock = MachineClock::new();
    // Shared memory joins processes, and here is one.
    let choice = match arguments.client.network {
        NetworkChoice::Auto => NetworkChoice::Tcp,
        choice => choice,
    };
    let (network, why) = network::open(choice, "127.0.0.1:0", &clock)?;
    let device = &arguments.device;
    let (lines, name) = on_card(device, async |card| {
        beside((&network, &clock), card, options, async |server| {
            let clients = connect(arguments, &network, &clock, &server).await?;
            measured(plan, &clients, (DEFAULT_NAME, 0)).await
        })
        .await
    })?;
    let is_lab = device.starts_with("lab:");
    let how = if is_lab { ", which runs free" } else { "" };
    Ok((lines, format!("network: {name}, because {why}; card: {device}{how}")))
}

fn outcome(arguments: &BenchArguments, lines: &[Line], place: &str) -> Outcome {
    Outcome::Bridge(Bridge {
        schema: SCHEMA,
        bench: "bridge".to_owned(),
        place: place.to_owned(),
        seed: arguments.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        transfers: lines.iter().map(Line::result).collect(),
        overlap: overlaps(lines),
    })
}

fn page(lines: &[Line], place: &str) -> String {
    let mut table =
        Table::headed("path | mode | bytes: | clients: | typical ms: | MB/s: | limited by | busy:")
            .least_first(&["busy", "clients"]);
    for line in lines {
        let report = line.report();
        let slowest = report.slowest();
        table.row([
            line.path.to_string(),
            line.mode.to_string(),
            short_size(line.size_bytes),
            line.clients.to_string(),
            format!("{:.3}", line.measured.median().as_seconds() * 1e3),
            format!("{:.1}", line.bytes_per_second / 1e6),
            slowest.map_or_else(String::new, |stage| stage.stage.to_string()),
            slowest
                .map_or_else(String::new, |stage| format!("{:.1} %", 100.0 * report.busy(stage))),
        ]);
    }
    let mut page = format!("{place}\n\n{}", shown(&table));
    if let Some(last) = lines.last() {
        let (path, bytes) = (last.path, short_size(last.size_bytes));
        page += &format!("\n{path}, {}, {bytes}:\n", last.mode);
        page += &stage_lines(last.report());
        page += &format!("  why not faster: {}\n", last.report().why_not_faster());
    }
    for overlap in &overlaps(lines) {
        page += &format!(
            "\n{}, {}: naive takes {:.2} times as long as pipelined; the stages, each alone, allow \
             {:.2}: {:.1} % of it\n",
            overlap.path,
            short_size(overlap.bytes),
            overlap.naive_over_pipelined,
            overlap.bound,
            100.0 * overlap.share
        );
    }
    let wrong: u64 = lines.iter().map(|line| line.wrong_words).sum();
    page += &match wrong {
        0 => "\nall data were compared, none is wrong\n".to_owned(),
        wrong => format!("\n{wrong} words are WRONG\n"),
    };
    page
}
