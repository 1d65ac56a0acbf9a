// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench write|read|p2p|latency|chain`: workloads through the driver, on any lab whose
//! endpoints have a DMA engine. Their command lines, then their runs.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use crosslane::experiment::{
    DescriptorSource, Ends, EngineWork, NoObserver, Notification, Options, Scenario, SizeRange,
    Workload, WorkloadOutcome, parse_payload, parse_register_size,
};
use crosslane::host::PageSize;
use crosslane::lab::{EngineKind, Lab, RunningLab};
use crosslane::open::DeviceName;
use crosslane::pcie::units::Picoseconds;
use crosslane_report::output::Kind;
use crosslane_report::text::Notes;

use crate::arguments::{MAX_OPERATIONS, ShownArguments, TraceArguments};
use crate::bench::{Bench, Runs, opened, run_on};
use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{Result, usage};
use crate::files::{Where, output_of};
use crate::place_argument::{Named, PlaceArguments};
use crate::values::{CARD_TIMEOUT, one_of, whole};

/// Most transfers that are posted at once: a quarter of the largest ring.
pub const MAX_POSTED: u32 = 1 << 14;
/// Most round trips of a ping-pong: one command covers them all.
pub const MAX_ROUNDS: u64 = 1_000_000;
/// Most flows at once: as many endpoints as a lab can have on one host.
pub const MAX_FLOWS: u16 = 256;

/// Arguments that every workload has.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub engines: EngineArguments,
    /// Write what happens in the gateware into FST files: FILE, with the name of the endpoint
    /// before its ending.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace_fst: Option<PathBuf>,
    /// Bytes of one write TLP or read request; see below.
    #[arg(long, value_name = "N", value_parser = parse_payload)]
    pub payload: Option<u32>,
    /// First set Max_Payload_Size to N bytes in every port on the path, and in no other.
    #[arg(long, value_name = "N", value_parser = parse_register_size)]
    pub mps: Option<u32>,
    /// Take the host's buffers and rings from the memory of this NUMA node: of this socket, in a
    /// lab, in place of the one that it names; on a machine in place of the card's.
    #[arg(long, value_name = "NODE")]
    pub numa: Option<u16>,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Skip the bottleneck search: a sweep is then many times faster.
    #[arg(long)]
    pub no_why: bool,
    #[command(flatten)]
    pub shown: ShownArguments,
    #[command(flatten)]
    pub trace: TraceArguments,
}

/// How transfers are made.
#[derive(Args, Clone, Debug)]
pub struct TransferArguments {
    /// Bytes of one transfer, a multiple of 4; 64..4M is a sweep over the powers of two.
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_transfer_sizes)]
    pub size: SizeRange,
    /// Transfers [default: by size, about 8 MiB of data, but 16 to 10000 transfers; of more than
    /// 4 MiB, as many as are 64 MiB, but at least 2].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub iterations: Option<u64>,
    /// Place of descriptors.
    #[arg(long, value_name = "WHERE", default_value = "ring")]
    pub descriptors: DescriptorWord,
    /// How the host is told of completions.
    #[arg(long, value_name = "HOW", default_value = "poll", value_parser = one_of(&NOTIFICATIONS))]
    pub notify: Notification,
}

/// Place of the data in host memory.
#[derive(Args, Clone, Copy, Debug)]
pub struct HostMemoryArguments {
    /// Pages that buffers are made of; each contiguous run of them is a descriptor.
    #[arg(long, value_name = "SIZE", default_value = "huge", value_parser = one_of(&PAGES))]
    pub pages: PageSize,
}

/// Engines at the ends of a path, and the credits between them.
#[derive(Args, Clone, Debug)]
pub struct BetweenArguments {
    /// The endpoint that sends, or that a chain begins with.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub from: Option<String>,
    /// The endpoint that receives, or that a chain ends with.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub to: Option<String>,
    /// Without credit windows between engines: a sender never stops, and a p2p transfer is complete
    /// when sent.
    #[arg(long)]
    pub no_credits: bool,
}

impl BetweenArguments {
    /// The ends, if they are named.
    pub fn ends(&self) -> (Option<&str>, Option<&str>) {
        (self.from.as_deref(), self.to.as_deref())
    }
}

/// How much is in flight.
#[derive(Args, Clone, Debug)]
pub struct ManyArguments {
    /// Transfers of a flow that are kept posted [default: by size, about 256 KiB of data, but 2
    /// to 64 transfers; 1 by the table and by the command port].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_POSTED))]
    pub outstanding: Option<u32>,
    /// Flows at once, each with a thread of its own, released together.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = whole::<u16>(1..=MAX_FLOWS))]
    pub flows: u16,
}

/// Place of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DescriptorWord {
    /// In the engine's own table, stored there by the processor (write and read).
    Table,
    /// In a ring in host memory, fetched in batches.
    Ring,
    /// At the user circuit's command port (p2p).
    Command,
}

/// Pages of buffers.
const PAGES: [(&str, &str, PageSize); 2] =
    [("small", "4 KiB, lying anywhere", PageSize::Small), ("huge", "2 MiB", PageSize::Huge)];
/// How the host is told of completions.
pub const NOTIFICATIONS: [(&str, &str, Notification); 2] = [
    ("poll", "A status block in memory is polled", Notification::Poll),
    ("interrupt", "The thread sleeps until an interrupt", Notification::Interrupt),
];

/// How a card's transfers with host memory are made.
#[derive(Args, Clone, Debug)]
pub struct WithHostArguments {
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub memory: HostMemoryArguments,
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Arguments of `bench write`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM is an endpoint whose part has a DMA engine [default: the lab's first]. With --flows N the N
endpoints from FROM on write at once, in the order of the lab file, going round.
PAYLOAD is sent as asked, up to the longest that the engine can build, even where a port on the
way is set to less: the first port that it is too large for reports a malformed TLP, and the
command fails.

Examples:
  crosslane bench write --lab rosta
  crosslane bench write --lab rosta:crosslane --size 64..4M
  crosslane bench write --lab rosta --flows 8 --size 4M --iterations 1
  crosslane bench write --lab rosta --payload 32 --descriptors table --notify interrupt
  crosslane bench write --lab rosta --pages small --size 4M

The generator's pattern goes to host memory, where every byte is compared. Times are in
microseconds, from a transfer's post until the host knows that it is complete. Rates are by the
engine's timers, from the first TLP to the last, and as the application sees them (app).
MB/s is 1000000 bytes a second, MiB/s is 1048576. The ceiling is that of the slowest link on the
way, for the TLPs that are sent; percentages are of the ceiling less the DLLPs that this run sent
in that direction. Registering the memory is measured apart.")]
pub struct WriteArguments {
    /// The endpoint that writes.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub from: Option<String>,
    /// The host whose memory is written [default: the endpoint's own, the only one possible].
    #[arg(long, value_name = "HOST")]
    pub to: Option<String>,
    #[command(flatten)]
    pub how: WithHostArguments,
}

/// Arguments of `bench read`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
TO is an endpoint whose part has a DMA engine [default: the lab's first]. With --flows N the N
endpoints from TO on read at once, in the order of the lab file, going round.
PAYLOAD is the length of a read request; more than Max_Read_Request_Size is asked for all the
same, up to the longest that the engine can build.

Examples:
  crosslane bench read --lab rosta
  crosslane bench read --lab rosta:crosslane --size 64..4M
  crosslane bench read --lab rosta --descriptors table --pages small --size 4M
  crosslane bench read --lab rosta --flows 4 --size 4M --iterations 1

The card's checker compares every word that it reads with the pattern in host memory. The ceiling
is for the completions that the host's memory really sends. For the rest see `bench write`.")]
pub struct ReadArguments {
    /// The host whose memory is read [default: the endpoint's own, the only one possible].
    #[arg(long, value_name = "HOST")]
    pub from: Option<String>,
    /// The endpoint that reads.
    #[arg(long, value_name = "ENDPOINT", value_parser = Known(completions::endpoints),
        hide_possible_values = true)]
    pub to: Option<String>,
    #[command(flatten)]
    pub how: WithHostArguments,
}

/// Arguments of `bench p2p`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM and TO are endpoints whose parts have DMA engines [default: the lab's first, and the one
behind FROM]. With --flows N the first goes from FROM to TO, the second from the endpoint behind
FROM to the one behind TO, and so on in the order of the lab file, going round.
PAYLOAD is sent as asked, up to the longest that the engine can build, even where a port on the
way is set to less: the first port that it is too large for reports a malformed TLP, and the
command fails. --mps sets the ports on the way first, and then longer payloads are the default.

Examples:
  crosslane bench p2p --lab rosta --from fpga1 --to fpga2
  crosslane bench p2p --lab rosta --from fpga1 --to fpga5 --mps 256
  crosslane bench p2p --lab rosta --from fpga1 --to fpga5 --flows 8 --size 4M --iterations 1
  crosslane bench p2p --lab rosta --descriptors command --no-credits
  crosslane bench p2p --lab rosta:memory --from fpga1 --to fpga5 --by both --size 4K..64K
  crosslane bench p2p --lab rosta:memory --from fpga1 --to fpga2 --by read --both-ways
  crosslane bench p2p --lab rosta:memory --from fpga1 --to fpga2 --by write-memory --size 4K..64K

--by read has TO read the memory of FROM's card, in place of FROM writing: FROM needs a memory and
a window into it in BAR2. It is filled first, and TO's checker compares. --by both makes each
size twice, by writes and by reads.

The sender's generator writes to a receive queue of the receiver, whose checker compares every word.
Unless --no-credits is given the receiver says what it has taken, and a transfer is complete when
it has taken all. With --by write-memory it writes into the memory of TO's card, which needs a
window into it: a transfer is complete when it is sent, and every byte is compared at the end. For
the rest see `bench write`.")]
pub struct PeerArguments {
    #[command(flatten)]
    pub between: BetweenArguments,
    /// How the data go from card to card.
    #[arg(long, value_name = "HOW", default_value = "write")]
    pub by: PeerWay,
    /// Move as much from TO to FROM at the same time, and so of each further pair.
    #[arg(long)]
    pub both_ways: bool,
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// How data go from card to card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerWay {
    /// FROM writes to a receive queue of TO.
    Write,
    /// FROM writes into the memory of TO's card.
    WriteMemory,
    /// TO reads the memory of FROM's card.
    Read,
    /// Each size by writes to a receive queue, then by reads.
    Both,
}

impl PeerWay {
    /// Whether it writes to a receive queue.
    const fn has_queue(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }

    /// Whether it reads.
    const fn has_reads(self) -> bool {
        matches!(self, Self::Read | Self::Both)
    }
}

/// Arguments of `bench latency`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM and TO are endpoints whose parts have DMA engines [default: the lab's first, and the one
behind FROM].

Examples:
  crosslane bench latency --lab rosta --from fpga1 --to fpga2
  crosslane bench latency --lab rosta --from fpga1 --to fpga5 --json
  crosslane bench latency --lab rosta --size 4..128

FROM sends a message, TO's circuit sends it straight back, and FROM's timer stops as its data
begin to come in. Times are half of a round trip, in microseconds. The data that come back are
compared.")]
pub struct LatencyArguments {
    #[command(flatten)]
    pub between: BetweenArguments,
    /// Bytes of a message: a power of two up to the payload, or a multiple of the payload;
    /// 4..128 is a sweep over the powers of two.
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_transfer_sizes)]
    pub size: SizeRange,
    /// Round trips.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = whole::<u64>(1..=MAX_ROUNDS))]
    pub iterations: u64,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Arguments of `bench chain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
FROM and TO are endpoints whose parts have DMA engines: the chain goes from FROM to TO through all
that are between them in the lab file [default: from the first to the last].

Examples:
  crosslane bench chain --lab rosta
  crosslane bench chain --lab rosta --from fpga1 --to fpga4 --size 256K
  crosslane bench chain --lab rosta:crosslane --json

The first card reads host memory and writes to the next one, and so on; the last one writes to
host memory, where every byte is compared. A transfer's time is from its post to its completion.
For the rest see `bench write`.")]
pub struct ChainArguments {
    #[command(flatten)]
    pub between: BetweenArguments,
    #[command(flatten)]
    pub transfer: TransferArguments,
    #[command(flatten)]
    pub memory: HostMemoryArguments,
    #[command(flatten)]
    pub common: WorkloadArguments,
}

/// Sizes of transfers: whole words.
fn parse_transfer_sizes(text: &str) -> Result<SizeRange, String> {
    let range: SizeRange = text.parse()?;
    let odd = range.sizes().find(|bytes| !bytes.is_multiple_of(4));
    match odd {
        Some(bytes) => Err(format!("{bytes} B is not a multiple of 4 B, an engine's word")),
        None => Ok(range),
    }
}

/// A round trip of a lab has failed if it takes longer.
const ROUND_TRIP_TIMEOUT: Picoseconds = Picoseconds::from_ms(10);

/// `bench write`.
///
/// # Errors
/// A lab, a card or an end that does not exist, an output that cannot be written, and
/// [`Run`](crate::error::CommandError::Run) if anything went wrong in a run.
pub fn write(arguments: &WriteArguments) -> Result<()> {
    let WriteArguments { from, to, how } = arguments;
    with_host("write", Workload::Write, how, ("--to", to.as_deref()), ("--from", from.as_deref()))
}

/// `bench read`.
///
/// # Errors
/// As [`write()`].
pub fn read(arguments: &ReadArguments) -> Result<()> {
    let ReadArguments { from, to, how } = arguments;
    with_host("read", Workload::Read, how, ("--from", from.as_deref()), ("--to", to.as_deref()))
}

/// Transfers between a host and a card, each by its option and its name.
fn with_host(
    bench: &str,
    workload: fn(Options) -> Workload,
    WithHostArguments { transfer, memory, many, common }: &WithHostArguments,
    (host_option, host): (&str, Option<&str>),
    (card_option, card): (&str, Option<&str>),
) -> Result<()> {
    let workloads = workloads(&transfer.size, |size| {
        Ok(workload(options(size, transfer, Some(many), Some(*memory), common)?))
    })?;
    let (options, flows) = ((host_option, card_option), many.flows);
    run(bench, common, Ends::WithHost { options, host, card, flows }, &workloads)
}

/// `bench p2p`.
///
/// # Errors
/// As [`write()`].
pub fn peer(arguments: &PeerArguments) -> Result<()> {
    let PeerArguments { between, by, both_ways, transfer, many, common } = arguments;
    if *by != PeerWay::Write && transfer.descriptors == DescriptorWord::Command {
        let problem = match by.has_reads() {
            true => "--descriptors command: the command port starts writes, no reads",
            false => "--descriptors command: the command port writes to receive queues alone",
        };
        return Err(usage(problem));
    }
    if between.no_credits && !by.has_queue() {
        return Err(usage("--no-credits: a card's memory has no receive queue"));
    }
    let mut workloads = Vec::new();
    for size in transfer.size.sizes() {
        let options = options(size, transfer, Some(many), None, common)?;
        if options.descriptors == DescriptorSource::Table && by.has_queue() {
            return Err(usage("--descriptors table: a peer channel has no table"));
        }
        if by.has_queue() {
            workloads.push(Workload::Peer(options.with_credits(!between.no_credits)));
        }
        if *by == PeerWay::WriteMemory {
            workloads.push(Workload::PeerMemoryWrite(options));
        }
        if by.has_reads() {
            workloads.push(Workload::PeerRead(options));
        }
    }
    let (from, to) = between.ends();
    let ends = Ends::Pairs { from, to, flows: many.flows, both_ways: *both_ways };
    run("p2p", common, ends, &workloads)
}

/// `bench latency`.
///
/// # Errors
/// As [`write()`].
pub fn latency(arguments: &LatencyArguments) -> Result<()> {
    let LatencyArguments { between, size, iterations, common } = arguments;
    let workloads = workloads(size, |size| {
        if u32::try_from(size).is_err() {
            let most = u32::MAX - 3;
            return Err(usage(format!("--size {size}: one command moves up to {most} B")));
        }
        Ok(Workload::Latency(
            Options::default()
                .with_size_bytes(size)
                .with_iterations(*iterations)
                .with_payload_bytes(common.payload)
                .with_credits(!between.no_credits)
                .with_seed(pattern_seed(common.seed))
                .with_timeout(ROUND_TRIP_TIMEOUT),
        ))
    })?;
    let (from, to) = between.ends();
    let ends = Ends::Pairs { from, to, flows: 1, both_ways: false };
    run("latency", common, ends, &workloads)
}

/// `bench chain`.
///
/// # Errors
/// As [`write()`].
pub fn chain(arguments: &ChainArguments) -> Result<()> {
    let ChainArguments { between, transfer, memory, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        let options = options(size, transfer, None, Some(*memory), common)?;
        let options = options.with_outstanding(1).with_credits(!between.no_credits);
        Ok(Workload::Chain(options.with_fitting_ring()))
    })?;
    let (from, to) = between.ends();
    run("chain", common, Ends::Row { from, to }, &workloads)
}

/// Runs each workload in the lab or on the cards that the user names, and prints.
fn run(
    bench: &str,
    common: &WorkloadArguments,
    ends: Ends<'_>,
    workloads: &[Workload],
) -> Result<()> {
    let modes = workloads.last().map(Workload::modes).unwrap_or_default();
    let (lab, endpoints) = match common.place.named()? {
        Named::Lab { lab, endpoints } => (lab, endpoints),
        Named::Cards(names) => {
            check_options(common)?;
            let cards: Vec<String> = names.iter().map(ToString::to_string).collect();
            // A name can be written in several ways.
            let is_card = |card: &str, name: &str| {
                name.parse::<DeviceName>().is_ok_and(|name| name.to_string() == card)
            };
            let flows = ends.on_cards(&cards, is_card)?;
            let mut bench = Bench::new(bench, Where::Cards(&names), common.seed, &common.shown)?;
            bench.notes = Notes { modes: &modes, has_counters: !common.no_why, ..bench.notes };
            return run_on_cards(bench, (&names, common.numa), &flows, workloads);
        }
    };
    let (lab, running) = load(&lab, common)?;
    let flows = ends.in_lab((&lab, &running), &endpoints)?;
    if common.trace.trace.is_some() && workloads.len() > 1 {
        return Err(usage("--trace writes one run; give --size one size instead of a range"));
    }
    let mut bench = Bench::new(bench, Where::Lab(&lab), common.seed, &common.shown)?;
    bench.notes.modes = &modes;
    let scenario = |workload: &Workload| {
        let work = EngineWork { workload: *workload, flows: flows.clone() };
        let scenario = Scenario::new(Arc::clone(&lab), work).with_seed(common.seed);
        Scenario { max_payload_bytes: common.mps, ..scenario }
    };
    let scenarios: Vec<_> = workloads.iter().map(scenario).collect();
    let bytes = scenarios.iter().map(|scenario| scenario.work.total_bytes());
    let runs = Runs {
        bytes: Some(bytes.fold(0, u64::saturating_add)),
        trace: Some((&common.trace, running)),
        engines: Some(&common.engines),
        ..Runs::new("sizes", !common.no_why)
    };
    bench.in_lab(scenarios, runs)
}

/// Rejects options that only labs have.
fn check_options(common: &WorkloadArguments) -> Result<()> {
    let given = [
        ("--engine", common.engines.engine != EngineKind::Model),
        ("--trace-fst", common.trace_fst.is_some()),
        ("--trace", common.trace.trace.is_some()),
        ("--mps", common.mps.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some(("--mps", _)) => Err(usage(
            "--mps: ports of a machine are set by `crosslane device set-mps`, before a run",
        )),
        Some((option, _)) => Err(usage(format!("{option} is for labs"))),
        None => Ok(()),
    }
}

/// Opens the cards, runs each workload and prints; `flows` are the places of each flow's cards. The
/// number behind the cards' names is that of a NUMA node for buffers.
fn run_on_cards(
    bench: Bench<'_>,
    (names, numa): (&[DeviceName], Option<u16>),
    flows: &[Vec<usize>],
    workloads: &[Workload],
) -> Result<()> {
    let session = opened(names, numa)?;
    let devices = run_on(&session, async { Ok(session.devices().await?) })?;
    let cards = flows.iter().map(|flow| flow.iter().map(|card| devices[*card].clone()).collect());
    let cards: Vec<Vec<_>> = cards.collect();
    bench.on_cards(&session, (workloads, "sizes"), async |workload| {
        let mut workload = *workload;
        workload.options_mut().timeout = CARD_TIMEOUT;
        let measured = workload.run(&cards, &NoObserver).await?;
        let outcome = WorkloadOutcome::on_cards(workload, measured);
        Ok((format!("{} B", workload.size_bytes()), outcome))
    })
}

/// The lab, and one like it that runs, to name its links.
fn load(name: &str, common: &WorkloadArguments) -> Result<(Arc<Lab>, RunningLab)> {
    let kind = common.engines.kind()?;
    let mut lab = Lab::load(name)?;
    if let Some(node) = common.numa {
        lab = lab.with_numa_node(node)?;
    }
    let running = lab.build_engines(common.seed)?;
    lab = lab.with_engines(kind);
    if let Some(file) = &common.trace_fst {
        if kind != EngineKind::Rtl {
            return Err(usage("--trace-fst is of the gateware: --engine rtl"));
        }
        // The simulator writes it itself: it is only seen that it can be.
        output_of(file, Kind::Data)?;
        lab = lab.with_rtl_trace(file);
    }
    Ok((Arc::new(lab), running))
}

fn workloads(
    sizes: &SizeRange,
    workload: impl Fn(u64) -> Result<Workload>,
) -> Result<Vec<Workload>> {
    sizes.sizes().map(workload).collect()
}

/// The pattern's seed from the run's.
const fn pattern_seed(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}

fn options(
    size: u64,
    transfer: &TransferArguments,
    many: Option<&ManyArguments>,
    memory: Option<HostMemoryArguments>,
    common: &WorkloadArguments,
) -> Result<Options> {
    let outstanding = many.and_then(|many| many.outstanding);
    let descriptors = match transfer.descriptors {
        DescriptorWord::Table => DescriptorSource::Table,
        DescriptorWord::Ring => DescriptorSource::Ring { entries: 0 },
        DescriptorWord::Command if outstanding.is_some_and(|count| count > 1) => {
            return Err(usage("--outstanding: the command port takes one transfer at a time"));
        }
        DescriptorWord::Command if memory.is_some() => {
            return Err(usage(
                "--descriptors command: the command port starts writes to other cards, p2p",
            ));
        }
        DescriptorWord::Command => DescriptorSource::CommandPort,
    };
    let options = Options::default()
        .with_size_bytes(size)
        .with_descriptors(descriptors)
        .with_notification(transfer.notify)
        .with_payload_bytes(common.payload)
        .with_oversize(common.payload.is_some())
        .with_pages(memory.map_or(PageSize::Huge, |memory| memory.pages))
        .with_seed(pattern_seed(common.seed));
    Ok(options.suited(transfer.iterations, outstanding, many.map_or(1, |many| many.flows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_whole_words() {
        assert!(parse_transfer_sizes("64..4M").is_ok());
        let error = parse_transfer_sizes("3").unwrap_err();
        assert_eq!(error, "3 B is not a multiple of 4 B, an engine's word");
        assert!(parse_transfer_sizes("1..64").is_err());
    }
}
