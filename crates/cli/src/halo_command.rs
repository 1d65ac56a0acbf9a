// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench halo`: nearest-neighbour exchange of a lattice in a torus.

use std::sync::Arc;

use clap::{Args, ValueHint};
use crosslane::experiment::{HaloOptions, Lattice, Scenario, halo_on, parse_size};
use crosslane::lab::{EngineKind, Lab};
use crosslane::open::DeviceName;
use crosslane::pcie::units::Picoseconds;

use crate::arguments::ShownArguments;
use crate::bench::{Bench, Runs, opened};
use crate::completions::{self, Known};
use crate::error::{Result, usage};
use crate::files::Where;
use crate::place_argument::Named;
use crate::processes::Processes;
use crate::torus_argument::{TorusArguments, nodes};
use crate::values::{CARD_TIMEOUT, whole};

/// Longest time of an exchange in a lab.
const TIMEOUT: Picoseconds = Picoseconds::from_secs(1);

/// Arguments of `bench halo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench halo                                      the 16 nodes of lab torus
  crosslane bench halo --lab torus --nodes 2..64
  crosslane bench halo --nodes 3x2 --lattice 8x8x8x8 --site-bytes 96
  crosslane bench halo --nodes 16 --iterations 4 --json
  crosslane bench halo --nodes 2..32 --report halo
  crosslane bench halo --lab nget:crosslane --nodes 2x2 --engine rtl
  crosslane bench halo --nodes 512 --iterations 1 --threads 0
  mpirun -n 2 crosslane bench halo --mpi --nodes 4096 --iterations 1

Each node has a part of a lattice of four dimensions. In an exchange it sends each of its faces to
the neighbour on that side and gets theirs: credits first, then gets, all directions at once, and
the next exchange begins when the last face is there. The time is that of the slowest node, from
when all nodes of a lab have begun. Every buffer's checksum is compared with what its neighbour has
sent. Percentages are of the torus link's payload rate (after 8b/10b, header, CRC and skip sets, one
way), and of what the host's link can carry with all directions loaded. With --nodes the lab's torus
is made in other sizes, each node as its first one. A dimension of one node has no links.

With --threads the lab is divided at the torus links, and each thread simulates a part of it: the
outcome is the same for any number. How long each computed, and for which other it waited longest,
is said on standard error.

With --mpi the lab is divided in the same way between the processes that mpirun or srun has started,
on one machine or several, and the first shows the outcome. All have to be started with the same
program and arguments. One that is killed ends the others, which say its rank and machine.

Cards of --device are the nodes in order, the first dimension counting fastest; their cables make
the torus of --nodes, its rings closed unless --open says otherwise. Times are this machine's.")]
pub struct HaloArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant
    /// [default: torus].
    #[arg(long, value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: Option<String>,
    #[command(flatten)]
    pub torus: TorusArguments,
    /// Sites of each node's part.
    #[arg(long, value_name = "LxLxLxL", default_value = "4x4x4x4")]
    pub lattice: Lattice,
    /// Bytes of a site that its neighbours need; a multiple of 4.
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_size)]
    pub site_bytes: u64,
    /// Exchanges, one after the other.
    #[arg(long = "iterations", alias = "exchanges", value_name = "N", default_value_t = 2,
        value_parser = whole::<u32>(1..=10_000))]
    pub exchanges: u32,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads that simulate a lab together, at most one for each host; 0: one for each core.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["device", "why"],
        value_parser = whole::<u32>(0..=1024))]
    pub threads: u32,
    /// Processes that mpirun or srun has started simulate a lab together, each one part.
    #[arg(long, conflicts_with_all = ["device", "why", "threads"])]
    pub mpi: bool,
    /// Also print a hash of everything on the links of the hosts: it is the same for any number of
    /// threads and processes.
    #[arg(long, conflicts_with_all = ["device", "json"])]
    pub trace_hash: bool,
    /// Look for what limits each run, in a lab: that takes many more runs.
    #[arg(long, conflicts_with = "device")]
    pub why: bool,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Runs the benchmark.
///
/// # Errors
/// A lab without a torus, an impossible size, cards that make none, a run that fails, or wrong
/// data.
pub fn run(arguments: &HaloArguments) -> Result<()> {
    match Named::or_lab("torus", arguments.lab.as_deref(), &arguments.torus.device)? {
        Named::Cards(names) => on_cards(arguments, &names),
        named => in_lab(arguments, &named.whole_lab("all nodes of the torus take part")?),
    }
}

/// Runs it in a lab, perhaps with other processes.
fn in_lab(arguments: &HaloArguments, lab: &str) -> Result<()> {
    let processes = Processes::begin(arguments.mpi)?;
    let outcome = simulate(arguments, lab, &processes);
    processes.end(outcome)
}

/// Runs it in a lab. Large tori take gigabytes: they are run one after the other.
fn simulate(arguments: &HaloArguments, lab: &str, processes: &Processes) -> Result<()> {
    let engines = arguments.torus.engines.kind()?;
    let lab = processes.same(Lab::load(lab))?.with_engines(engines);
    if engines == EngineKind::Rtl && (arguments.threads != 1 || arguments.mpi) {
        return Err(usage("--engine rtl: the gateware is simulated by one thread (--threads 1)"));
    }
    let labs = arguments.torus.labs(&lab)?;
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        threads => threads,
    };
    let options = options(arguments, TIMEOUT).with_threads(threads);
    let options = options.with_trace_hash(arguments.trace_hash);
    let scenario = |lab| {
        let scenario = Scenario::new(Arc::new(lab), options).with_seed(arguments.seed);
        scenario.with_carrier(processes.carrier())
    };
    let engines = Some(&arguments.torus.engines);
    let runs = Runs { at_once: false, engines, ..Runs::new("tori", arguments.why) };
    let is_silent = !processes.speaks();
    let shown = ShownArguments { json: arguments.shown.json, report: None };
    let shown = if is_silent { &shown } else { &arguments.shown };
    let mut bench = Bench::new("halo", Where::Lab(&lab), arguments.seed, shown)?;
    (bench.is_verbose, bench.is_silent) = (arguments.trace_hash, is_silent);
    bench.in_lab(labs.into_iter().map(scenario).collect(), runs)
}

/// Runs it between cards: all nodes in this program.
fn on_cards(arguments: &HaloArguments, names: &[DeviceName]) -> Result<()> {
    let sizes = arguments.torus.sizes_of_cards(names.len())?;
    let bench = Bench::new("halo", Where::Cards(names), arguments.seed, &arguments.shown)?;
    let session = opened(names, None)?;
    let bus = session.bus();
    let nodes = nodes(&session);
    let options = options(arguments, CARD_TIMEOUT);
    bench.on_cards(&session, (&[options], "tori"), async |options| {
        let outcome = halo_on(bus, &nodes, &sizes, arguments.torus.open, *options).await?;
        Ok((outcome.name(), outcome))
    })
}

fn options(arguments: &HaloArguments, timeout: Picoseconds) -> HaloOptions {
    HaloOptions::new(arguments.lattice, arguments.site_bytes)
        .with_exchanges(arguments.exchanges)
        .with_seed(arguments.seed)
        .with_timeout(timeout)
}
