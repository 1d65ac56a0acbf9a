// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench nget`: the micro-benchmark of the network processor's get engine.

pub mod arguments;
mod cards;

use std::collections::BTreeSet;

use crosslane_bench::{NgetMeasured, NgetOptions};
use crosslane_driver::network_processor::{Buffers, Modes, Requests};
use crosslane_host::{Mapping, Waiting};
use crosslane_lab::Lab;
use crosslane_report::{Axis, Block, Page, Plot, Scale, Section, Series, SeriesKind};
use crosslane_reproduce::ReproduceError;
use crosslane_reproduce::nget::{NgetOutcome, NgetRun, nget_options};
use crosslane_results::{Detail, Flow, Gets, Platform, Scenario};

use crate::bench_outcome::bench_outcome;
use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::output_file::not_written;
use crate::place_argument::Named;
use crate::progress::Steps;
use crate::quantity::{mebibytes, megabytes, microseconds, percent};
use crate::report_file::{Where, bench_page, report_of, write_page};
use crate::table::{Align, Table};
use arguments::NgetArguments;

/// Network processors that are measured where none is named: a torus has thousands.
const MOST_NODES: usize = 2;
/// Longest get, bytes.
const MAX_GET_BYTES: u64 = 1 << 20;
/// Most runs.
const MAX_RUNS: usize = 10_000;

/// How requests are written in labs where nothing is said.
const COMBINED: Requests = Requests::Stores(Mapping::WriteCombined);

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

/// What is to be run: who, how, how many in flight, and bytes.
type Job<T> = (T, Modes, u32, u64);

/// For each of `who`, with how it writes requests where nothing is said.
fn jobs<T: Clone>(
    arguments: &NgetArguments,
    who: impl IntoIterator<Item = (T, Requests)>,
) -> Result<Vec<Job<T>>, CommandError> {
    let mut jobs = Vec::new();
    for (one, usual) in who {
        for modes in arguments.modes(usual) {
            for in_flight in &arguments.in_flight {
                for size in arguments.size.sizes() {
                    jobs.push((one.clone(), modes, *in_flight, size));
                }
            }
        }
    }
    check(arguments, jobs.len())?;
    Ok(jobs)
}

fn options(arguments: &NgetArguments, size: u64, in_flight: u32) -> NgetOptions {
    let options = nget_options(size, in_flight, arguments.per_loop, arguments.seed);
    NgetOptions { loops: arguments.loops.unwrap_or(options.loops), ..options }
}

/// Runs it.
///
/// # Errors
/// A lab without a network processor, cards that are none, numbers that cannot be, and what does
/// not run.
pub fn run(arguments: &NgetArguments) -> Result<(), CommandError> {
    match Named::or_lab("nget", arguments.lab.as_deref(), &arguments.device)? {
        Named::Lab { lab, endpoints } => {
            let named = endpoints.into_iter().flatten().collect();
            in_lab(arguments, &lab, named)
        }
        Named::Cards(names) => cards::run(arguments, &names),
    }
}

fn in_lab(arguments: &NgetArguments, lab: &str, named: Vec<String>) -> Result<(), CommandError> {
    let lab = Lab::load(lab)?;
    let wanted = if named.is_empty() { arguments.node.clone() } else { named };
    let nodes = nodes(&lab, &wanted)?.into_iter();
    let jobs = jobs(arguments, nodes.map(|node| (node, COMBINED)))?;
    let file = report_of(arguments.report.as_ref())?;
    let steps = Steps::new(jobs.len() as u64, "runs");
    let one = |(node, modes, in_flight, size): &Job<String>| {
        let options = options(arguments, *size, *in_flight);
        let (lab, seed) = (&lab, arguments.seed);
        let run = NgetRun { lab, processor: node, modes: *modes, options, seed };
        let outcome = run.run()?;
        steps.shown(&run.name(), outcome.now);
        Ok::<_, ReproduceError>(Some(Done { node: node.clone(), modes: *modes, outcome }))
    };
    let done = steps.watch.each(&jobs, one);
    steps.finish();
    let done: Vec<Done> = done?.into_iter().flatten().collect();
    if arguments.json {
        let platform = Platform::Lab { lab: lab.name().to_owned() };
        let scenarios = done.iter().map(lab_flow).map(scenario).collect();
        let interrupted = steps.watch.interrupted();
        print_json(&bench_outcome("nget", platform, arguments.seed, scenarios, interrupted))?;
    } else {
        print(&page(&lab, &done))?;
    }
    steps.watch.end(&not_written([&file]))?;
    match file {
        Some(file) => {
            let measured = done.iter().map(|one| (&one.node[..], one.modes, &one.outcome.measured));
            write_page(&report(Where::Lab(&lab), &measured.collect::<Vec<_>>()), &file)
        }
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

/// Said above the table: nobody has the data.
const SINK: &str = "links in mode sink: data are read and counted, not compared";

/// Columns of what the benchmark itself has measured.
const MEASURED: [(&str, Align); 14] = [
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
];

/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 10] = [
    "average",
    "max",
    "MiB/s",
    "completions B",
    "p99",
    "typical",
    "K",
    "ceiling MB/s",
    "us each",
    "M",
];

fn measured_cells(node: &str, modes: Modes, measured: &NgetMeasured) -> Vec<String> {
    let (options, times) = (&measured.options, &measured.durations);
    vec![
        node.to_owned(),
        words(modes),
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
    ]
}

fn page(lab: &Lab, done: &[Done]) -> String {
    let mut columns = MEASURED.to_vec();
    columns.extend([
        ("of ceiling %", Align::Right),
        ("ceiling MB/s", Align::Right),
        ("completions B", Align::Right),
    ]);
    let mut table = Table::new(&columns).least_first(&SPARE);
    for Done { node, modes, outcome } in done {
        let mut row = measured_cells(node, *modes, &outcome.measured);
        row.extend([
            percent(outcome.of_ceiling()),
            megabytes(outcome.ceiling_less_dllps),
            format!("{:.1}", outcome.completion_bytes),
        ]);
        table.row(row);
    }
    format!("lab {}, simulated time; {SINK}\n\n{table}", lab.name())
}

fn flow(node: &str, modes: Modes, measured: &NgetMeasured) -> Flow {
    let options = &measured.options;
    Flow {
        name: format!("{node}, {}, N = {}", words(modes), options.in_flight),
        bytes: options.size_bytes,
        iterations: measured.gets(),
        in_flight: Some(options.in_flight.into()),
        bytes_per_second: Some(measured.bytes_per_second()),
        detail: Detail::Gets(Gets {
            node: node.to_owned(),
            modes: words(modes),
            per_loop: options.per_loop,
            loops: options.loops,
            elapsed_ns: measured.elapsed().as_ns(),
            interval_ns: measured.interval_ps() / 1e3,
            latency_ps: measured.durations,
            datagrams: measured.datagrams,
            completion_bytes: None,
            ceiling_bytes_per_second: None,
            ceiling_less_dllps_bytes_per_second: None,
        }),
        ..Flow::default()
    }
}

fn scenario(flow: Flow) -> Scenario {
    Scenario { bytes: Some(flow.bytes), flows: vec![flow], ..Scenario::default() }
}

fn lab_flow(Done { node, modes, outcome }: &Done) -> Flow {
    let mut flow = flow(node, *modes, &outcome.measured);
    if let Detail::Gets(gets) = &mut flow.detail {
        gets.completion_bytes = Some(outcome.completion_bytes);
        gets.ceiling_bytes_per_second = Some(outcome.ceiling);
        gets.ceiling_less_dllps_bytes_per_second = Some(outcome.ceiling_less_dllps);
    }
    flow
}

/// What a page shows: of which node, in which modes, and what was measured.
type OnPage<'a> = (&'a str, Modes, &'a NgetMeasured);

/// A curve for each node, modes and number in flight.
fn curves(done: &[OnPage<'_>], value: impl Fn(&NgetMeasured) -> f64) -> Vec<Series> {
    let name = |(node, modes, measured): &OnPage<'_>| {
        format!("{node}, {}, N = {}", words(*modes), measured.options.in_flight)
    };
    let names: BTreeSet<String> = done.iter().map(name).collect();
    let curve = |wanted: String| {
        let of_curve = done.iter().filter(|one| name(one) == wanted);
        let point = |one: &OnPage<'_>| (one.2.options.size_bytes as f64, value(one.2));
        let points = of_curve.map(point).collect();
        Series { name: wanted, kind: SeriesKind::Ours, points }
    };
    names.into_iter().map(curve).collect()
}

fn report(place: Where<'_>, done: &[OnPage<'_>]) -> Page {
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
    let duration = curves(done, |one| one.durations.typical_ps as f64 / 1e6);
    let bandwidth = curves(done, |one| one.bytes_per_second() / 1e6);
    let duration = plot("Nget duration", axis("duration", "us", Scale::Logarithmic), duration);
    let bandwidth = plot("Nget bandwidth", axis("bandwidth", "MB/s", Scale::Linear), bandwidth);
    let title = "Gets from host memory".to_owned();
    let blocks = vec![Block::Plot(duration), Block::Plot(bandwidth)];
    bench_page("nget", place, vec![Section { title, blocks }])
}
