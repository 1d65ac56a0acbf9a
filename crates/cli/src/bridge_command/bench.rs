// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge bench`: rates of bridged transfers, pipelined beside naive.

use std::sync::Arc;

use crosslane::bridge::{BridgeError, Client, ServerOptions, Stage};
use crosslane::experiment::{
    BridgePlan, BridgeWork, ExperimentError, Scenario, TwoNodes, overlaps,
};
use crosslane::explain::Ran;
use crosslane::host::{Clock, Rdma};
use crosslane::lab::{Lab, Simulation};
use crosslane::network::{MachineClock, Provider, Trust};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::{Bridge, BridgeTransfer, Interrupted, Outcome, SCHEMA};
use crosslane_report::output::not_written;
use crosslane_report::text::Notes;

use super::arguments::{BenchArguments, PATHS};
use super::latency::{self, Latencies, Latency};
use super::matrix;
use super::serve::{DEFAULT_NAME, beside, on_card, server_options};
use super::{client_trust, identity, open_network};
use crate::bench::{explained, parts_of, platform, print_outcome};
use crate::error::{CommandError, Result, usage};
use crate::files::{Where, report_of, write_outcome_page};
use crate::output;
use crate::progress::Steps;

/// Largest number of bytes that a naive transfer may have: its memory is got for it.
const MOST_NAIVE_BYTES: u64 = 1 << 31;

/// Returns the transfers that are asked for.
fn plan(arguments: &BenchArguments) -> Result<BridgePlan> {
    let paths = match arguments.path.is_empty() {
        true => PATHS.map(|(_, _, path)| path).to_vec(),
        false => arguments.path.clone(),
    };
    let modes = arguments.mode.to_vec();
    let defaults = if arguments.latency { ("64..64K", 1000) } else { ("64M", 3) };
    let range = match &arguments.size {
        Some(range) => range.clone(),
        None => defaults.0.parse().map_err(usage)?,
    };
    let sizes: Vec<u64> = range.sizes().collect();
    let clients = u64::from(arguments.clients);
    if let Some(size) = sizes.iter().find(|size| !size.is_multiple_of(4 * clients)) {
        let why = format!("--size {size}: each of {clients} clients needs a multiple of 4 B");
        return Err(usage(why));
    }
    let timeout = Picoseconds(arguments.client.timeout * 1_000_000_000_000);
    let iterations = arguments.iterations.unwrap_or(defaults.1).into();
    let seed = arguments.seed as u32;
    Ok(BridgePlan { paths, modes, sizes, iterations, seed, timeout })
}

/// `bridge bench`.
///
/// # Errors
/// An impossible request, a failed transfer, and wrong data.
pub fn run(arguments: &BenchArguments) -> Result<()> {
    let plan = plan(arguments)?;
    if let Some(list) = &arguments.client.servers {
        return matrix::run(arguments, &plan, list);
    }
    let file = report_of(arguments.report.as_deref())?;
    let lab = arguments.lab.as_deref().map(Lab::load).transpose()?;
    let pace = Picoseconds::from_ns(arguments.pace.unwrap_or(0).into());
    let options =
        server_options(&arguments.ring).with_most_naive_bytes(MOST_NAIVE_BYTES).with_pace(pace);
    let steps = Steps::new(plan.kinds().len() as u64, "kinds of transfers");
    let (measured, place) = match (&lab, &arguments.target) {
        (Some(lab), _) => in_lab(arguments, &plan, options.clone(), lab, &steps)?,
        (None, Some(target)) => {
            let (server, place) = (target.server.clone(), (target.card.as_str(), target.address));
            let clock = MachineClock::new();
            let trust = client_trust(&arguments.client, &identity(&arguments.client)?)?;
            let (network, why) = open_network(arguments.client.network, &server, &clock, &trust)?;
            let running = async {
                let clients = connect(arguments, &network, &clock, &server).await?;
                measured(arguments, &plan, &clients, place, &steps).await
            };
            let measured = futures_executor::block_on(running)?;
            (measured, format!("network: {}, because {why}", network.name()))
        }
        (None, None) => in_this_program(arguments, &plan, options.clone(), &steps)?,
    };
    steps.finish();
    let (lines, failure) = match measured {
        Measured::Transfers(lines, failure) => (lines, failure),
        Measured::Latencies(latencies) => {
            match arguments.client.json {
                true => output::print_json(&Latencies {
                    schema: SCHEMA,
                    bench: "bridge latency",
                    place: &place,
                    seed: arguments.seed,
                    latencies: &latencies,
                })?,
                false => output::print(&latency::text(&latencies, &place))?,
            }
            let is_wrong = latencies.iter().any(Latency::is_wrong);
            return if is_wrong { Err(CommandError::Run) } else { Ok(()) };
        }
    };
    let is_wrong = lines.iter().any(|line| line.wrong_words > 0);
    let lines = match &lab {
        Some(lab) if arguments.why => with_why(arguments, &plan, &options, lab, lines),
        _ => lines,
    };
    let outcome = outcome(arguments, lines, place, steps.watch.interrupted());
    print_outcome(&outcome, arguments.client.json, Notes::default())?;
    steps.watch.end(&not_written([&file]))?;
    if let Some(file) = file {
        write_outcome_page(&outcome, lab.as_ref(), &file)?;
    }
    match (failure, is_wrong) {
        (Some(failure), _) => Err(failure),
        (None, true) => Err(CommandError::Run),
        (None, false) => Ok(()),
    }
}

/// The measurements of a command.
enum Measured {
    /// The kinds that were made, and the failure that ended them, if some were made before it.
    Transfers(Vec<BridgeTransfer>, Option<CommandError>),
    Latencies(Vec<Latency>),
}

async fn measured<R: Rdma, C: Clock>(
    arguments: &BenchArguments,
    plan: &BridgePlan,
    clients: &[Client<R, C>],
    place: (&str, u64),
    steps: &Steps,
) -> Result<Measured> {
    if arguments.latency {
        let latencies = latency::measure(plan, &clients[0], place, steps).await;
        return latencies.map(Measured::Latencies).map_err(failed);
    }
    let mut lines = Vec::new();
    let done = plan.measure(clients, place, steps, &mut lines).await.map_err(failed);
    match done {
        Err(error) if lines.is_empty() => Err(error),
        done => Ok(Measured::Transfers(lines, done.err())),
    }
}

fn failed(error: ExperimentError) -> CommandError {
    match error {
        ExperimentError::Bridge(error) => error.into(),
        error => BridgeError::of(Stage::Request, error).into(),
    }
}

async fn connect<R: Rdma>(
    arguments: &BenchArguments,
    network: &R,
    clock: &MachineClock,
    server: &str,
) -> Result<Vec<Client<R, MachineClock>>> {
    let identity = identity(&arguments.client)?;
    let mut clients = Vec::new();
    for _ in 0..arguments.clients {
        let time = std::time::Duration::from_secs(10);
        let (network, clock) = (network.clone(), clock.clone());
        clients.push(Client::connect(network, clock, server, &identity, time).await?);
    }
    Ok(clients)
}

/// Server and client in simulated time.
fn in_lab(
    arguments: &BenchArguments,
    plan: &BridgePlan,
    options: ServerOptions,
    lab: &Lab,
    steps: &Steps,
) -> Result<(Measured, String)> {
    let nodes = TwoNodes::find(lab)?;
    let clients = arguments.clients.into();
    let card = nodes.card().to_owned();
    let program = async |_: &Simulation, clients: Vec<_>| {
        measured(arguments, plan, &clients, (&card, 0), steps).await
    };
    let name = format!("bridge in lab {}", lab.name());
    let (lines, _) = nodes.run(lab, arguments.seed, &name, options, clients, program)?;
    let place = format!("lab {}, simulated time", platform(Where::Lab(lab)).name());
    Ok((lines?, place))
}

/// Searches for the limits of each kind of transfers that was made in a lab.
fn with_why(
    arguments: &BenchArguments,
    plan: &BridgePlan,
    server: &ServerOptions,
    lab: &Lab,
    lines: Vec<BridgeTransfer>,
) -> Vec<BridgeTransfer> {
    let (lab, clients) = (Arc::new(lab.clone()), arguments.clients.into());
    let scenario = |work| Scenario::new(Arc::clone(&lab), work).with_seed(arguments.seed);
    let kinds = BridgeWork::kinds(plan, server, clients).into_iter();
    let scenarios: Vec<_> = kinds.take(lines.len()).map(scenario).collect();
    let ran = lines.iter().map(|line| Ran::rate(line.bytes_per_second, line.wrong_words));
    let whys = explained(&scenarios, ran, arguments.client.json);
    let with = |(line, why)| {
        let (explanation, not_explained) = parts_of(why);
        BridgeTransfer { explanation, not_explained, ..line }
    };
    lines.into_iter().zip(whys).map(with).collect()
}

/// A server within this program, and a real network.
fn in_this_program(
    arguments: &BenchArguments,
    plan: &BridgePlan,
    options: ServerOptions,
    steps: &Steps,
) -> Result<(Measured, String)> {
    let clock = MachineClock::new();
    // Shared memory joins processes, and here is one.
    let choice = arguments.client.network.or(Some(Provider::Tls));
    let client = client_trust(&arguments.client, &identity(&arguments.client)?)?;
    let trust = Trust { accept: client.present.iter().cloned().collect(), ..client };
    let (network, why) = open_network(choice, "127.0.0.1:0", &clock, &trust)?;
    let device = &arguments.device;
    if device == "null:" {
        let why = "it keeps nothing, and this benchmark compares all data: take mem:SIZE";
        return Err(usage(format!("--device {device}: {why}")));
    }
    let (lines, name) = on_card(device, async |card| {
        beside((&network, &clock), card, options, async |server| {
            let clients = connect(arguments, &network, &clock, &server).await?;
            measured(arguments, plan, &clients, (DEFAULT_NAME, 0), steps).await
        })
        .await
    })?;
    let is_lab = device.starts_with("lab:");
    let how = if is_lab { ", which runs free" } else { "" };
    Ok((lines, format!("network: {name}, because {why}; card: {device}{how}")))
}

fn outcome(
    arguments: &BenchArguments,
    lines: Vec<BridgeTransfer>,
    place: String,
    interrupted: Option<Interrupted>,
) -> Outcome {
    Outcome::Bridge(Bridge {
        schema: SCHEMA,
        bench: "bridge".to_owned(),
        place,
        seed: arguments.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        overlap: overlaps(&lines),
        transfers: lines,
        interrupted,
    })
}
