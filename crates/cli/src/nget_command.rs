// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench nget`: the micro-benchmark of the network processor's get engine.

use std::sync::Arc;

use clap::{Args, ValueHint};
use crosslane::experiment::{GetWork, NgetMeasured, NgetOptions, Scenario, SizeRange, nget_on};
use crosslane::host::{Mapping, Waiting};
use crosslane::lab::Lab;
use crosslane::open::DeviceName;
use crosslane::torus::{Buffers, Modes, Requests};

use crate::arguments::ShownArguments;
use crate::bench::{Bench, Runs, opened};
use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{Result, usage};
use crate::files::Where;
use crate::place_argument::{Named, check_named};
use crate::values::{one_of, whole};

/// Owner of the memory that the data are in.
const BUFFERS: [(&str, &str, Buffers); 3] = [
    ("user", "The program's, registered", Buffers::User),
    ("copied", "The program's, copied into the driver's", Buffers::Copied),
    ("mapped", "The driver's, mapped into the program", Buffers::Mapped),
];
/// How requests are written.
const REQUESTS: [(&str, &str, Requests); 3] = [
    ("call", "A system call for each", Requests::SystemCall),
    ("uncached", "Stores of the program", Requests::Stores(Mapping::Uncached)),
    ("combined", "Stores of the program, write-combined", Requests::Stores(Mapping::WriteCombined)),
];
/// How notifications are detected.
const WAITING: [(&str, &str, Waiting); 3] = [
    ("poll", "The program polls memory", Waiting::Polling),
    ("kernel", "The kernel polls memory", Waiting::KernelPolling),
    ("monitor", "The processor watches memory (monitor and mwait)", Waiting::Monitor),
];

/// Arguments of `bench nget`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench nget                                      1 KiB, one at a time, on both hosts
  crosslane bench nget --size 64..64K -n 1,8,64
  crosslane bench nget --lab nget:completions-64 --node fpga1 --size 16K -n 64
  crosslane bench nget --node fpga1 --size 4K --all-modes
  crosslane bench nget --lab nget:crosslane --size 64..16K -n 1,64 --report nget
  crosslane bench nget --lab nget:crosslane --engine rtl --node fpga1 --size 4K -n 64

The micro-benchmark of the nget paper: N - M gets are started, then in each of K loops M more are
started and M awaited, then the rest is awaited. Links, channels and tags differ among those in
flight. The engine reads the data from host memory and its links, in mode sink, drop them: what
is measured is the way there. A get's time is from before its request until its notification has
been seen, `us each` and MB/s are of the whole run. The ceiling is that of the
host's link for the completions that the host sends, less the DLLPs of the run.")]
pub struct NgetArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant
    /// [default: nget].
    #[arg(long, value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: Option<String>,
    /// A card, in place of a lab: vfio:ADDRESS of this machine, vfio-user:SOCKET of a server, or
    /// lab:LAB/ENDPOINT; several times for several cards, each in a run of its own.
    #[arg(long, value_name = "NAME", conflicts_with = "lab",
        value_parser = Known(completions::devices), hide_possible_values = true)]
    pub device: Vec<String>,
    /// Network processors, each in a run of its own [default: all of the lab, up to two].
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = Known(completions::endpoints), hide_possible_values = true)]
    pub node: Vec<String>,
    /// L: bytes of each get, up to 1M.
    #[arg(long, value_name = "SIZE", default_value = "1K")]
    pub size: SizeRange,
    /// N: gets in flight.
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_value = "1",
        value_parser = whole::<u32>(1..=64))]
    pub in_flight: Vec<u32>,
    /// M: gets that are started and awaited in each loop, at most N.
    #[arg(short = 'm', long, value_name = "M", default_value_t = 1,
        value_parser = whole::<u32>(1..=64))]
    pub per_loop: u32,
    /// K: loops [default: by size, about 4 MiB of data, but 16 to 1000, and four times N].
    #[arg(short = 'k', long = "iterations", alias = "loops", value_name = "K",
        value_parser = whole::<u64>(1..=1 << 20))]
    pub loops: Option<u64>,
    /// Owner of the memory that the data are in.
    #[arg(long, value_name = "WORD", default_value = "user", value_parser = one_of(&BUFFERS))]
    pub buffers: Buffers,
    /// How requests are written [default: combined; uncached on a card whose window cannot be
    /// mapped so].
    #[arg(long, value_name = "WORD", value_parser = one_of(&REQUESTS))]
    pub requests: Option<Requests>,
    /// How notifications are detected.
    #[arg(long, value_name = "WORD", default_value = "poll", value_parser = one_of(&WAITING))]
    pub waiting: Waiting,
    /// Every combination of buffers, requests and waiting.
    #[arg(long, conflicts_with_all = ["buffers", "requests", "waiting"])]
    pub all_modes: bool,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Look for what limits each run, in a lab: that takes many more runs.
    #[arg(long, conflicts_with = "device")]
    pub why: bool,
    #[command(flatten)]
    pub engines: EngineArguments,
    #[command(flatten)]
    pub shown: ShownArguments,
}

impl NgetArguments {
    /// The modes that are asked for; requests are written as `usual` where nothing is said.
    pub fn modes(&self, usual: Requests) -> Vec<Modes> {
        let one = |buffers, requests, waiting| {
            Modes::default().with_buffers(buffers).with_requests(requests).with_waiting(waiting)
        };
        if !self.all_modes {
            return vec![one(self.buffers, self.requests.unwrap_or(usual), self.waiting)];
        }
        let all =
            BUFFERS.iter().flat_map(|buffers| REQUESTS.iter().map(move |it| (buffers.2, it.2)));
        let all = all.flat_map(|(buffers, requests)| {
            WAITING.iter().map(move |waiting| one(buffers, requests, waiting.2))
        });
        all.collect()
    }
}

/// Network processors that are measured where none is named: a torus has thousands.
const MOST_NODES: usize = 2;
/// Longest get, bytes.
const MAX_GET_BYTES: u64 = 1 << 20;
/// Most runs.
const MAX_RUNS: usize = 10_000;

/// How requests are written in labs where nothing is said.
const COMBINED: Requests = Requests::Stores(Mapping::WriteCombined);

/// Returns the lab's network processors, or those that are named.
fn nodes(lab: &Lab, wanted: &[String]) -> Result<Vec<String>> {
    let all = lab.endpoints_with(|part| part.network_processor.is_some());
    let processors = ("network processor", "network_processor");
    check_named(lab, processors, &all, wanted.iter().map(String::as_str))?;
    Ok(match wanted {
        [] => all.into_iter().take(MOST_NODES).map(str::to_owned).collect(),
        wanted => wanted.to_vec(),
    })
}

/// One run: network processor, modes, gets in flight, bytes.
type Job<T> = (T, Modes, u32, u64);

/// Returns the runs of each network processor, with how it writes requests where nothing is said.
fn jobs<T: Clone>(
    arguments: &NgetArguments,
    processors: impl IntoIterator<Item = (T, Requests)>,
) -> Result<Vec<Job<T>>> {
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
    options.with_loops(arguments.loops.unwrap_or(options.loops))
}

/// Runs the benchmark.
///
/// # Errors
/// A lab without a network processor, cards without one, invalid numbers, a run that fails, or
/// wrong data.
pub fn run(arguments: &NgetArguments) -> Result<()> {
    match Named::or_lab("nget", arguments.lab.as_deref(), &arguments.device)? {
        Named::Lab { lab, endpoints } => {
            let named = endpoints.into_iter().flatten().collect();
            in_lab(arguments, &lab, named)
        }
        Named::Cards(names) => on_cards(arguments, &names),
    }
}

fn bench<'a>(arguments: &NgetArguments, place: Where<'a>) -> Result<Bench<'a>> {
    Bench::new("nget", place, arguments.seed, &arguments.shown)
}

fn in_lab(arguments: &NgetArguments, lab: &str, named: Vec<String>) -> Result<()> {
    let lab = Arc::new(Lab::load(lab)?.with_engines(arguments.engines.kind()?));
    let wanted = if named.is_empty() { arguments.node.clone() } else { named };
    let nodes = nodes(&lab, &wanted)?.into_iter();
    let scenarios = jobs(arguments, nodes.map(|node| (node, COMBINED)))?.into_iter();
    let scenarios = scenarios.map(|(processor, modes, in_flight, size)| {
        let options = options(arguments, size, in_flight);
        let work = GetWork { processor, modes, options };
        Scenario::new(lab.clone(), work).with_seed(arguments.seed)
    });
    let engines = Some(&arguments.engines);
    let runs = Runs { engines, ..Runs::new("runs", arguments.why) };
    bench(arguments, Where::Lab(&lab))?.in_lab(scenarios.collect(), runs)
}

fn on_cards(arguments: &NgetArguments, names: &[DeviceName]) -> Result<()> {
    arguments.engines.not_of_cards()?;
    if !arguments.node.is_empty() {
        return Err(usage("--node names endpoints of a lab; --device names the cards here"));
    }
    let bench = bench(arguments, Where::Cards(names))?;
    let session = opened(names, None)?;
    let bus = session.bus();
    let cards = session.cards().iter().map(|card| (card, Requests::fastest(bus, card.function)));
    let jobs = jobs(arguments, cards)?;
    bench.on_cards(&session, (&jobs, "runs"), async |(card, modes, in_flight, size)| {
        let options = options(arguments, *size, *in_flight);
        let measured = nget_on(bus.clone(), &card.endpoint, *modes, &options).await?;
        let node = card.name.clone();
        Ok((node.clone(), NgetMeasured { node, ..measured }))
    })
}

fn check(arguments: &NgetArguments, runs: usize) -> Result<()> {
    if let Some(size) = arguments.size.sizes().find(|size| *size > MAX_GET_BYTES) {
        return Err(usage(format!("--size {size}: a get has 1 MiB at most")));
    }
    let per_loop = arguments.per_loop;
    if let Some(count) = arguments.in_flight.iter().find(|count| **count < per_loop) {
        return Err(usage(format!("-m {per_loop} is more than the {count} gets in flight")));
    }
    match runs {
        0..=MAX_RUNS => Ok(()),
        _ => Err(usage(format!("{runs} runs; {MAX_RUNS} are possible"))),
    }
}
