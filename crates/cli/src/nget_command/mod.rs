// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench nget`: the micro-benchmark of the network processor's get engine.

pub mod arguments;

use std::collections::BTreeSet;

use crosslane_driver::network_processor::{Buffers, Modes, Requests};
use crosslane_host::{Mapping, Waiting};
use crosslane_lab::Lab;
use crosslane_report::{Axis, Block, Page, Plot, Scale, Section, Series, SeriesKind};
use crosslane_reproduce::ReproduceError;
use crosslane_reproduce::nget::{NgetOutcome, NgetRun, nget_options};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::progress::Steps;
use crate::quantity::{mebibytes, megabytes, microseconds, percent};
use crate::report_file::{command_line, write_page};
use crate::table::{Align, Table};
use arguments::NgetArguments;

/// Network processors that are measured where none is named: a torus has thousands.
const MOST_NODES: usize = 2;
/// Longest get, bytes.
const MAX_GET_BYTES: u64 = 1 << 20;
/// Most runs.
const MAX_RUNS: usize = 10_000;

/// A run and what came of it.
struct Done {
    node: String,
    modes: Modes,
    outcome: NgetOutcome,
}

/// `user, combined, poll`.
fn words(modes: Modes) -> String {
    let buffers = match modes.buffers {
        Buffers::User => "user",
        Buffers::Copied => "copied",
        Buffers::Mapped => "mapped",
    };
    let requests = match modes.requests {
        Requests::SystemCall => "call",
        Requests::Stores(Mapping::Uncached) => "uncached",
        Requests::Stores(Mapping::WriteCombined) => "combined",
    };
    let waiting = match modes.waiting {
        Waiting::Polling => "poll",
        Waiting::KernelPolling => "kernel",
        Waiting::Monitor => "monitor",
    };
    format!("{buffers}, {requests}, {waiting}")
}

/// The lab's network processors, or those that are named.
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

/// Runs it.
///
/// # Errors
/// A lab without a network processor, numbers that cannot be, and what does not run.
pub fn run(arguments: &NgetArguments) -> Result<(), CommandError> {
    let lab = Lab::load(&arguments.lab)?;
    let mut jobs = Vec::new();
    for node in nodes(&lab, &arguments.node)? {
        for modes in arguments.modes() {
            for in_flight in &arguments.in_flight {
                for size in arguments.size.sizes() {
                    jobs.push((node.clone(), modes, *in_flight, size));
                }
            }
        }
    }
    check(arguments, jobs.len())?;
    let steps = Steps::new(jobs.len() as u64, "runs");
    let done: Result<Vec<Done>, ReproduceError> = jobs
        .into_par_iter()
        .map(|(node, modes, in_flight, size)| {
            let per_loop = arguments.per_loop;
            let mut options = nget_options(size, in_flight, per_loop, arguments.seed);
            options.loops = arguments.loops.unwrap_or(options.loops);
            let (lab, seed) = (&lab, arguments.seed);
            let run = NgetRun { lab, processor: &node, modes, options, seed };
            let outcome = run.run()?;
            steps.done(&run.name(), outcome.now);
            Ok(Done { node, modes, outcome })
        })
        .collect();
    steps.finish();
    let done = done?;
    if arguments.json {
        print_json(&to_json(&lab, &done, arguments.seed))?;
    } else {
        print(&page(&lab, &done))?;
    }
    match &arguments.report {
        Some(folder) => write_page(&report(&lab, &done), folder),
        None => Ok(()),
    }
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

fn page(lab: &Lab, done: &[Done]) -> String {
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("buffers, requests, waiting", Align::Left),
        ("bytes", Align::Right),
        ("N", Align::Right),
        ("M", Align::Right),
        ("K", Align::Right),
        ("us min", Align::Right),
        ("typical", Align::Right),
        ("average", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("us each", Align::Right),
        ("MB/s", Align::Right),
        ("MiB/s", Align::Right),
        ("of ceiling %", Align::Right),
        ("ceiling MB/s", Align::Right),
        ("completions B", Align::Right),
    ]);
    for Done { node, modes, outcome } in done {
        let measured = &outcome.measured;
        let (options, times) = (&measured.options, &measured.durations);
        table.row([
            node.clone(),
            words(*modes),
            options.size_bytes.to_string(),
            options.in_flight.to_string(),
            options.per_loop.to_string(),
            options.loops.to_string(),
            microseconds(times.min_ps),
            microseconds(times.typical_ps),
            microseconds(times.average_ps),
            microseconds(times.p99_ps),
            microseconds(times.max_ps),
            microseconds(measured.interval_ps().round() as u64),
            megabytes(measured.bytes_per_second()),
            mebibytes(measured.bytes_per_second()),
            percent(outcome.of_ceiling()),
            megabytes(outcome.ceiling_less_dllps),
            format!("{:.1}", outcome.completion_bytes),
        ]);
    }
    format!(
        "lab {}, simulated time; links in mode sink: data are read and counted, not compared\n\n\
         {table}",
        lab.name()
    )
}

fn to_json(lab: &Lab, done: &[Done], seed: u64) -> Value {
    let scenario = |Done { node, modes, outcome }: &Done| {
        let measured = &outcome.measured;
        let (options, times) = (&measured.options, &measured.durations);
        let name = format!("{node}, {}, N = {}", words(*modes), options.in_flight);
        json!({
            "bytes": options.size_bytes,
            "flows": [{
                "name": name,
                "node": node,
                "modes": words(*modes),
                "bytes": options.size_bytes,
                "in_flight": options.in_flight,
                "per_loop": options.per_loop,
                "loops": options.loops,
                "iterations": measured.gets(),
                "elapsed_ns": measured.elapsed().as_ns(),
                "bytes_per_second": measured.bytes_per_second(),
                "interval_ns": measured.interval_ps() / 1e3,
                "latency_ps": times,
                "datagrams": measured.datagrams,
                "completion_bytes": outcome.completion_bytes,
                "ceiling_bytes_per_second": outcome.ceiling,
                "ceiling_less_dllps_bytes_per_second": outcome.ceiling_less_dllps,
            }],
        })
    };
    json!({
        "bench": "nget",
        "lab": lab.name(),
        "seed": seed,
        "scenarios": done.iter().map(scenario).collect::<Vec<_>>(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// A curve for each node, modes and number in flight.
fn curves(done: &[Done], value: impl Fn(&NgetOutcome) -> f64) -> Vec<Series> {
    let name = |one: &Done| {
        let in_flight = one.outcome.measured.options.in_flight;
        format!("{}, {}, N = {in_flight}", one.node, words(one.modes))
    };
    let names: BTreeSet<String> = done.iter().map(name).collect();
    let curve = |wanted: String| {
        let of_curve = done.iter().filter(|one| name(one) == wanted);
        let point =
            |one: &Done| (one.outcome.measured.options.size_bytes as f64, value(&one.outcome));
        let points = of_curve.map(point).collect();
        Series { name: wanted, kind: SeriesKind::Ours, points }
    };
    names.into_iter().map(curve).collect()
}

fn report(lab: &Lab, done: &[Done]) -> Page {
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    let plot = |title: &str, y, series| Plot {
        title: title.to_owned(),
        x: axis("bytes of a get", "B", Scale::Logarithmic),
        y,
        series,
    };
    let duration = curves(done, |one| one.measured.durations.typical_ps as f64 / 1e6);
    let bandwidth = curves(done, |one| one.measured.bytes_per_second() / 1e6);
    let duration = plot("Nget duration", axis("duration", "us", Scale::Logarithmic), duration);
    let bandwidth = plot("Nget bandwidth", axis("bandwidth", "MB/s", Scale::Linear), bandwidth);
    let constants = crosslane_reproduce::page::constants(&[lab]);
    Page {
        title: format!("bench nget on {}", lab.name()),
        summary: lab.summary().to_owned(),
        facts: vec![
            ("command".to_owned(), command_line()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ],
        sections: vec![
            Section {
                title: "Gets from host memory".to_owned(),
                blocks: vec![Block::Plot(duration), Block::Plot(bandwidth)],
            },
            Section {
                title: "Constants and their provenance".to_owned(),
                blocks: vec![Block::Table(constants)],
            },
        ],
    }
}
