// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line: every command, option and example.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use crosslane::experiment::{FlowArgument, parse_register_size, parse_size};

use crate::bridge_command::arguments::BridgeCommand;
use crate::calibrate_command::CalibrateArguments;
use crate::completions::{self, Known};
use crate::device_command::arguments::DeviceCommand;
use crate::engine_argument::EngineArguments;
use crate::fit_command::FitArguments;
use crate::halo_command::HaloArguments;
use crate::items::ItemsArguments;
use crate::link_command::LinkArguments;
use crate::manual_command::ManualArguments;
use crate::merge_command::MergeArguments;
use crate::nget_command::NgetArguments;
use crate::operations_command::OperationsArguments;
use crate::overhead_command::OverheadArguments;
use crate::packets_command::PacketsArguments;
use crate::place_argument::PlaceArguments;
use crate::serve_command::ServeArguments;
use crate::sweep_command::SweepArguments;
use crate::torture_command::TortureArguments;
use crate::ui_command::UiArguments;
use crate::values::{one_of, parse_setting, whole};
use crate::what_if_command::{TuneArguments, WhatIfArguments};
use crate::workload::{
    ChainArguments, LatencyArguments, PeerArguments, ReadArguments, WriteArguments,
};

/// Most operations of one flow: a bound on the memory that their latencies take.
pub const MAX_OPERATIONS: u64 = 100_000_000;
/// Most integers of a pass of `bench mmio`: 64 MiB.
const MAX_INTEGERS: u64 = 1 << 24;
/// Most operations in flight of one flow.
pub const MAX_OUTSTANDING: u32 = 1 << 16;

/// Simulates PCI Express systems, finds their bottlenecks, drives their cards, and bridges them to
/// RDMA networks.
#[derive(Debug, Parser)]
#[command(
    name = "crosslane",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  crosslane lab list
  crosslane topo rosta
  crosslane bench p2p --lab rosta --from fpga1 --to fpga5
  crosslane bench traffic --lab rosta --flow fpga1:fpga2:write:64K
  crosslane reproduce rosta

Results go to standard output, errors and progress to standard error.
Files are tried before the work begins, appear when they are complete, and never replace a file
that is something else. Ctrl-C in long work prints what there is so far, as a part of the whole (in
JSON: `interrupted`), and writes no files; a second one ends it at once.
Exit codes: 0 all is well, 1 something failed, 2 the command line is wrong, 130 after Ctrl-C.
Set NO_COLOR to have no colours. Tables and sentences fit the terminal, or as many columns as
COLUMNS says; with --wide tables have all their columns."
)]
pub struct Cli {
    /// Show all columns of tables and whole lines of lab files, however narrow the terminal is.
    #[arg(long, global = true)]
    pub wide: bool,
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List, show and check lab files, and serve their devices
    #[command(after_help = "\
Examples:
  crosslane lab list
  crosslane lab show rosta
  crosslane lab check my-lab.toml
  crosslane lab serve kc705:crosslane --device kc705 --socket kc705.sock")]
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Show the PCI tree of a lab, with every link's ceiling
    Topo(TopoArguments),
    /// Compare a lab with itself after changes: settings, places, links
    WhatIf(Box<WhatIfArguments>),
    /// Search for the settings and places that make flows faster, and print the commands
    Tune(TuneArguments),
    /// Open the lab in a browser, with runs, cards and bridges of this machine
    Ui(UiArguments),
    /// Measure rates and latencies, in a lab or on cards
    #[command(after_help = "\
Examples:
  crosslane bench write --lab rosta:crosslane
  crosslane bench p2p --lab rosta --from fpga1 --to fpga5 --size 64..64K
  crosslane bench latency --lab rosta
  crosslane bench traffic --lab rosta --flow fpga1:host:write:64K
  crosslane bench p2p --help

`mmio` needs a memory card, `nget`, `halo` and `link` need network processors, `traffic` runs
between any endpoints of a lab; all others need a DMA engine. All but `traffic` go through the
driver, and all but `traffic` also run on cards outside a lab (--device).")]
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Run published experiments in their lab, beside the published figures
    Reproduce(ReproduceArguments),
    /// Compare labs with published or your own measurements, and rank their constants
    Validate(ValidateArguments),
    /// Fit constants of a lab to your own measurements, and predict the others
    Calibrate(CalibrateArguments),
    /// Run random labs, workloads and faults by seed
    Torture(TortureArguments),
    /// Show the results of the shards of `bench sweep`, `torture` or `validate`
    Merge(MergeArguments),
    /// Compare two `--json` results
    Compare(CompareArguments),
    /// Split measured times into link time and fixed time, by least squares
    Fit(FitArguments),
    /// Move data between other nodes and cards, over RDMA
    #[command(after_help = "\
Examples:
  crosslane bridge providers
  crosslane bridge serve --device lab:kc705:crosslane
  crosslane bridge put data.bin 127.0.0.1:7471/fpga0:0x0
  crosslane bridge get 127.0.0.1:7471/fpga0:0x0 back.bin --bytes 64M
  crosslane bridge bench --lab sbdt:crosslane --size 4M")]
    Bridge {
        #[command(subcommand)]
        command: BridgeCommand,
    },
    /// List and manage PCI devices of this machine
    #[command(after_help = "\
Examples:
  crosslane device list
  crosslane device info 03:00.0
  crosslane device doctor 03:00.0
  crosslane device bind 03:00.0
  crosslane device set-mps --path 03:00.0 host 256")]
    Device {
        #[command(subcommand)]
        command: DeviceCommand,
    },
    /// Write man pages, or the same as Markdown
    Manual(ManualArguments),
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  crosslane completions bash > ~/.local/share/bash-completion/completions/crosslane
  crosslane completions fish > ~/.config/fish/completions/crosslane.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Commands for lab files.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the shipped labs
    #[command(after_help = "\
Examples:
  crosslane lab list
  crosslane lab list --json")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check a lab file
    #[command(after_help = "\
Examples:
  crosslane lab check my-lab.toml
  crosslane lab check my-lab.toml --json
  crosslane lab show minimal --file > my-lab.toml    a lab to begin with

A warning is a card whose datapath is slower than its link. Notes say which switches have more
bandwidth below than above, and which cards cannot reach each other. The exit code is 0 with
both.")]
    Check {
        /// The lab file.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a lab from dumps of a machine: what lspci, sysfs, hwloc, NCCL or nvidia-smi show of it
    #[command(after_help = "\
Examples:
  crosslane lab import server.txt -o server.toml
  crosslane topo server.toml --matrix
  crosslane lab import server.txt nccl.xml    what one does not show may be in the other

Here server.txt is what `lspci -vvvnnD > server.txt` has written on the machine, run by root. A
dump is a listing of `lspci -vvv`, also as pasted into an issue (with -xxxx its bytes count more
than its words), a folder or tar file of /sys/bus/pci, hwloc's XML (`lstopo machine.xml`), or
NCCL's (NCCL_TOPO_DUMP_FILE). Less is in `lspci -tvnn`, `lstopo-no-graphics` and `nvidia-smi topo
-m`, which show where devices are: they fill gaps of the others, and links are assumed where these
texts are all there is. The lab has every endpoint with a link above it. What no register
says comes from a library of parts, by PCI ID, as a range where nobody publishes it. What the dumps
do not show is assumed, and listed.")]
    Import {
        /// Dumps of one machine.
        #[arg(required = true, value_hint = ValueHint::AnyPath)]
        dumps: Vec<PathBuf>,
        /// Write the lab to this file, and print its endpoints [default: print the lab].
        #[arg(short, long, value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Print the endpoints and the gaps as JSON.
        #[arg(long, requires = "output")]
        json: bool,
    },
    /// Describe all keys of lab files: values, defaults and meanings, as Markdown
    #[command(after_help = "\
Examples:
  crosslane lab keys > lab-keys.md")]
    Keys,
    /// Print the JSON Schema of lab files, with which editors complete keys
    #[command(after_help = "\
Examples:
  crosslane lab schema > lab.schema.json

Taplo and Even Better TOML use it for a lab file that begins with #:schema ./lab.schema.json.")]
    Schema,
    /// Show the constants of a lab, with their sources
    #[command(after_help = "\
Examples:
  crosslane lab show rosta
  crosslane lab show rosta --json
  crosslane lab show minimal --file > my-lab.toml    the lab file itself, to copy")]
    Show {
        /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant.
        #[arg(value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
            hide_possible_values = true)]
        lab: String,
        /// Print JSON.
        #[arg(long, conflicts_with = "file")]
        json: bool,
        /// Print the lab file as it is.
        #[arg(long)]
        file: bool,
    },
    /// Serve devices of a lab as PCI functions on sockets (vfio-user)
    Serve(ServeArguments),
}

/// Arguments of `topo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane topo rosta
  crosslane topo rosta --svg rosta.svg
  crosslane topo my-lab.toml --json
  crosslane topo my-lab.toml --matrix    what every pair of endpoints can move

The tree is in the style of `lspci -tv`. A link's ceiling is its rate less encoding and SKP
ordered sets, times payload over payload, framing, header and LCRC, for TLPs of Max_Payload_Size
with 3 DW headers (addresses below 4 GiB) and 4 DW headers. DLLPs depend on the traffic and are
not taken off here. A link of generation 6 has the rate of the TLP bytes of its FLITs, without
framing and LCRC. MB/s is 1000000 bytes a second, MiB/s is 1048576.

Where constants of the lab have ranges, the figures of --matrix have them too.")]
pub struct TopoArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: String,
    /// Show, for every pair of endpoints and for each with host memory, what is between them, what
    /// they can move one way and both ways, and the time of a short read.
    #[arg(long, conflicts_with = "svg")]
    pub matrix: bool,
    /// Draw the tree into this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Benchmarks.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// An engine writes to host memory, through the driver
    Write(WriteArguments),
    /// An engine reads host memory, through the driver
    Read(ReadArguments),
    /// An engine writes to another one, through the driver
    P2p(PeerArguments),
    /// One-way latency between two engines, by ping-pong
    Latency(LatencyArguments),
    /// Chain of engines: host -> FPGA 1 -> ... -> FPGA n -> host
    Chain(ChainArguments),
    /// Stores of the host into a card's memory, uncached or write-combined
    Mmio(MmioArguments),
    /// Gets of a network processor from host memory: N in flight, M started and awaited in a loop
    Nget(Box<NgetArguments>),
    /// Nearest-neighbour exchange of a lattice in a torus of network processors
    Halo(Box<HaloArguments>),
    /// Test of the cables of a torus by generators and checkers: errors, retries, margins
    Link(Box<LinkArguments>),
    /// Transfers over any parameters of a lab: links, payloads, tags, sizes, constants
    Sweep(Box<SweepArguments>),
    /// Time of one small operation, from the call to the data, and its parts
    Operations(OperationsArguments),
    /// Time of single register accesses and transfers on a card
    Overhead(OverheadArguments),
    /// Packets a second by their size: host to card to host
    Packets(PacketsArguments),
    /// Flows between generic requesters and memories: rate, latency, ceiling, use of each link
    Traffic(TrafficArguments),
}

/// Arguments of `bench mmio`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench mmio --lab aws-f1                   16 integers, uncached: 16 writes
  crosslane bench mmio --lab aws-f1 -w -v             the same, write-combined: one
  crosslane bench mmio --lab aws-f1 -i 1024 -p 100 -w -c
  crosslane bench mmio --lab aws-f1 --size 64K --custom
  crosslane bench mmio --lab aws-f1 --all --report mmio
  crosslane bench mmio --device lab:aws-f1/f1 -i 1024

The card is an endpoint whose part has a table `memory_card`, or with vfio: and vfio-user: a
function with that card's registers, where times are this machine's and --custom is this project's
copy. burst is a loop of 32-bit stores, custom the copy routine of the host's C library, as the
lab's table `cpu.routines` says which stores it makes; without that table, and with --own-copy, it
is this project's copy, with the widest stores that the processor has. The time ends when the core
may go on behind the last store; a fence follows, and then every word in the card's memory is
compared (of more than 64 KiB, one of each line).")]
pub struct MmioArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// The card [default: the lab's first memory card].
    #[arg(long, value_name = "NAME", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub card: Option<String>,
    /// Integers of 32 bits that a pass stores.
    #[arg(short, long, value_name = "N", default_value_t = 16,
        value_parser = whole::<u64>(1..=MAX_INTEGERS), conflicts_with = "all")]
    pub integers: u64,
    /// The same in bytes, a multiple of 4: 64, 4K or 4KiB (4096).
    #[arg(long, value_name = "SIZE", value_parser = parse_integers,
        conflicts_with_all = ["integers", "all"])]
    pub size: Option<u64>,
    /// Passes [default: 1; with --all 100, but fewer of large blocks].
    #[arg(short, long, alias = "iterations", value_name = "N",
        value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub passes: Option<u64>,
    /// Store through the write-combined mapping.
    #[arg(short, long, conflicts_with = "all")]
    pub write_combined: bool,
    /// Store with the copy routine instead of a loop of 32-bit stores.
    #[arg(short, long, conflicts_with = "all")]
    pub custom: bool,
    /// Use this project's own copy routine.
    #[arg(long)]
    pub own_copy: bool,
    /// 64 B to 4 MiB in all four modes.
    #[arg(long)]
    pub all: bool,
    /// Show what the card has counted, as its metrics command does.
    #[arg(short, long)]
    pub verbose: bool,
    /// Skip the bottleneck search.
    #[arg(long)]
    pub no_why: bool,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Arguments of `bench traffic`.
#[derive(Args, Debug)]
#[command(mut_arg("device", |device| device.help("A lab, as lab:NAME, in place of --lab")))]
#[command(after_help = "\
Flows: FROM:TO:KIND:SIZE[:PAYLOAD]
  FROM     an endpoint, or a host: its core 0 with uncached stores and loads, of which as many
           are in flight as the lab's cpu.loads_in_flight says: one, if it is left out
  TO       a host: its memory; an endpoint: what is behind its largest BAR; or an endpoint's
           BAR by number, as in fpga2.bar0. `host` is the host of a lab that has only one.
           `*` is every endpoint, in FROM and in TO: *:*:write:1M is a flow for each pair
  KIND     write, read, or writeread (a write, and a read of the same bytes behind it); copy, to
           another endpoint by way of host memory: FROM writes chunks of SIZE there, and TO reads
           each when it is there, while --outstanding buffers hold others [2; 1 is a copy without
           double buffering]; or what a device sends: nic-receive (writes of 1500 B),
           nic-transmit (reads of 1500 B), nvme-read (writes of 4 KiB), nvme-write (reads of
           4 KiB), where SIZE may be left out. These are the data alone: no descriptors, status,
           doorbells and interrupts
  SIZE     bytes of one operation: 64, 4K or 4KiB (4096), 1MiB, 1MB (1000000); 64..1M is a sweep
           over the powers of two, and 64,96,1K..4K one over a list, whose runs share the
           machine's cores
  PAYLOAD  bytes of one write TLP or read request; of a core's store or load, up to 64. An
           endpoint sends it as asked, up to the longest that any port of the lab supports, even
           where its own port is set to less: the first port that it is too large for reports a
           malformed TLP

Examples:
  crosslane bench traffic --lab rosta --flow fpga1:host:write:64K
  crosslane bench traffic --lab rosta --flow fpga1:fpga2:write:64..1M --mps 256
  crosslane bench traffic --lab rosta --flow fpga1:fpga5:write:64K --flow fpga2:fpga6:write:64K
  crosslane bench traffic --lab pciebench --flow nfp:host:read:64 --outstanding 1
  crosslane bench traffic --lab rosta --flow fpga1:host:read:4K --operations 20 --trace t.pftrace
  crosslane bench traffic --lab pciebench --flow nfp:host:read:64 --window 64M --random
  crosslane bench traffic --lab rosta --flow fpga1:fpga5:copy:256K --outstanding 1
  crosslane bench traffic --lab rosta --flow '*:fpga1:write:64K' --in-turn --operations 20
  crosslane bench traffic --lab pciebench --flow nfp:host:read:64 --set part.nfp.requester.tags=32

Flows of one endpoint share its requester: tags, datapath, and the least time between operations
(read_interval_ns, write_interval_ns of the lab file).

Times are in microseconds, from an operation's post to its end: a write ends when its last byte
can be seen at the target, a read when its last byte is at the requester. `typical` is the
median. MB/s is 1000000 bytes a second, MiB/s is 1048576. The ceiling is that of the slowest link
on the way, for the TLPs that are sent; percentages are of the ceiling less the DLLPs that this
run sent in that direction. A trace is opened with https://ui.perfetto.dev.")]
pub struct TrafficArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// A flow; may be given many times, all run at once.
    #[arg(long = "flow", value_name = "FLOW", required = true)]
    pub flows: Vec<FlowArgument>,
    /// Operations of each flow [default: by size, about 8 MiB of data, but 16 to
    /// 10000 operations; of more than 4 MiB, as many as are 64 MiB, but at least 2].
    #[arg(long, alias = "iterations", value_name = "N",
        value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub operations: Option<u64>,
    /// Operations of a flow in flight at once [default: by size, about 256 KiB of data, but
    /// 2 to 64 operations; 1 for writeread, 2 for copy].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_OUTSTANDING))]
    pub outstanding: Option<u32>,
    /// Memory over which the operations of each flow go, one behind the other and then again
    /// [default: up to 4 MiB of the flow's part of the target].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub window: Option<u64>,
    /// Let operations visit that memory in an order without a pattern.
    #[arg(long)]
    pub random: bool,
    /// Begin that memory this far behind the start of the flow's part of the target; any number of
    /// bytes, so that operations are not aligned.
    #[arg(long, value_name = "SIZE", value_parser = parse_offset, default_value = "0")]
    pub offset: u64,
    /// Let cores read through a write-combined mapping, by streaming loads: each reads a line of
    /// 64 B, and as many are in flight as the lab's cpu.combining.streaming_loads says.
    #[arg(long)]
    pub write_combined: bool,
    /// Run the flows one after the other, each alone.
    #[arg(long)]
    pub in_turn: bool,
    /// Another value of a number of the lab file, by its path; may be given many times.
    #[arg(long, value_name = "PATH=N", value_parser = parse_setting)]
    pub set: Vec<(String, f64)>,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Set the relaxed ordering attribute in all requests.
    #[arg(long)]
    pub relaxed: bool,
    /// Reorder TLPs as far as the ordering rules allow.
    #[arg(long)]
    pub shuffle: bool,
    /// First set Max_Payload_Size to N bytes in every function that the flows pass, as `setpci`
    /// would.
    #[arg(long, value_name = "N", value_parser = parse_register_size)]
    pub mps: Option<u32>,
    /// Skip the bottleneck search: a sweep is then many times faster.
    #[arg(long)]
    pub no_why: bool,
    #[command(flatten)]
    pub shown: ShownArguments,
    #[command(flatten)]
    pub trace: TraceArguments,
}

/// Arguments of `reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane reproduce                        a list of the reproductions
  crosslane reproduce rosta
  crosslane reproduce rosta --json > rosta.json
  crosslane reproduce rosta --report rosta     then open rosta/index.html

Each published figure stands beside the same measurement in the lab. A row is an input (a constant
was taken from it), a fit (constants were fitted to it), predicted, or context (never a pass
mark). Rows out of tolerance are marked; the exit code is 1 only if something did not run.
Every byte that is moved is compared. Same seed, same output.")]
pub struct ReproduceArguments {
    /// The reproduction [default: list them].
    #[arg(value_parser = Known(completions::reproductions), hide_possible_values = true)]
    pub name: Option<String>,
    /// List the reproductions.
    #[arg(long, conflicts_with_all = ["name", "json"])]
    pub list: bool,
    #[command(flatten)]
    pub engines: EngineArguments,
    /// Print JSON.
    #[arg(long, requires = "name")]
    pub json: bool,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "name")]
    pub report: Option<PathBuf>,
}

/// Arguments of `validate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane validate pciebench
  crosslane validate pciebench --json
  crosslane validate my-lab.toml --csv flows.csv
  crosslane validate my-lab.toml --csv flows.csv --items parts --shard 0/4

Without a set all published ones: every shipped lab that has measurements beside it. To find the
constants that matter each is raised by 10 % (counts by 1 at least), and the experiments are
run again in a shorter form. With all sets this takes a few minutes; several machines can share
it (docs/shards.md): an item is a constant, or the rows of a set.

Your own measurements are a file of comma-separated values: a heading, then one figure a line.
  flow         FROM:TO:KIND as in `bench traffic` (write, read, writeread), or moved by the engine
               of a card and its driver: CARD:HOST:c2h, HOST:CARD:h2c, CARD:CARD:p2p
  size         bytes of one operation: 64, 4K, 1M
  value        the figure
  unit         GB/s, MB/s, GiB/s, MiB/s, Gbit/s, Gb/s, Mbit/s; or ns, us, ms, s, for the median
               latency [left out: GB/s]
  what         rate or latency; left out, the unit says it
  outstanding  operations in flight [left out: by size as `bench traffic`, 1 for a latency]
  window       memory that they go through, over and over: 8K, 64M [left out: up to 4M]
  tolerance    the largest error that is allowed, as a fraction [left out: 0.1]
  use          fit or predict, for `crosslane calibrate`
  note         any text
The first three are needed; any field of the others may be empty. A lab file can name such files:
[[measurements]] with file = \"flows.csv\", a path from its folder.")]
pub struct ValidateArguments {
    /// Sets of measurements by the name of their lab, or lab files; `:VARIANT` behind one chooses
    /// a variant.
    #[arg(value_name = "SET", value_hint = ValueHint::AnyPath,
        value_parser = Known(completions::sets), hide_possible_values = true)]
    pub sets: Vec<String>,
    /// Compare the lab with the measurements of this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "sets")]
    pub csv: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, conflicts_with = "items")]
    pub json: bool,
    #[command(flatten)]
    pub items: ItemsArguments,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench p2p --lab rosta --size 4K..16K --json > document.json
  crosslane bench p2p --lab rosta:crosslane --size 4K..16K --json > ours.json
  crosslane compare document.json ours.json
  crosslane compare document.json ours.json --report compared

Figures that both results have stand side by side, with what limits each run. A change is that of
the second result against the first; a value that is worse by more than 1 % is marked.")]
pub struct CompareArguments {
    /// A result that `bench`, `bridge bench` or `reproduce` printed with `--json`.
    #[arg(value_name = "A.json", value_hint = ValueHint::FilePath)]
    pub first: PathBuf,
    /// Another one.
    #[arg(value_name = "B.json", value_hint = ValueHint::FilePath)]
    pub second: PathBuf,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Forms of an outcome.
#[derive(Args, Clone, Debug)]
pub struct ShownArguments {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
}

/// Trace of a run.
#[derive(Args, Clone, Debug)]
pub struct TraceArguments {
    /// Write a Perfetto trace of the run; not with a sweep.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// Time that a nanosecond of the trace stands for.
    #[arg(long, value_name = "UNIT", default_value = "ns", requires = "trace",
        value_parser = one_of(&TRACE_UNITS))]
    pub trace_unit: u64,
}

/// Time of one nanosecond of a trace file, picoseconds: the format knows no shorter time.
const TRACE_UNITS: [(&str, &str, u64); 2] = [
    ("ns", "A nanosecond; shorter times are rounded down", 1000),
    ("ps", "A picosecond: exact, and all times read a thousand times too long", 1),
];

/// A size, or 0.
fn parse_offset(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_size(text) }
}

/// A size in whole integers of 32 bits; the integers.
fn parse_integers(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    match bytes / 4 {
        integers @ 1..=MAX_INTEGERS if bytes.is_multiple_of(4) => Ok(integers),
        _ => Err(format!("{text} is not a multiple of 4 B from 4 B to 64 MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
