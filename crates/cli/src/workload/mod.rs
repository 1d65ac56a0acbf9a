// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench write|read|p2p|latency|chain`: workloads through the driver, on any lab whose
//! endpoints have a DMA engine.

pub mod arguments;
mod ends;
mod opened;

use std::sync::Arc;

use crosslane::driver::{DescriptorSource, Notification};
use crosslane::experiment::{
    EngineWork, Options, Scenario, Workload, default_in_flight, default_operations,
};
use crosslane::host::PageSize;
use crosslane::lab::{EngineKind, Lab, RunningLab};
use crosslane::pcie::units::Picoseconds;
use crosslane_report::text::Notes;

use crate::bench::{Bench, Runs};
use crate::error::CommandError;
use crate::output_file::{Kind, OutputFile};
use crate::place_argument::Named;
use crate::report_file::Where;
use crate::size::SizeRange;
use arguments::{
    ChainArguments, DescriptorWord, HostMemoryArguments, LatencyArguments, ManyArguments,
    NotifyWord, PagesWord, PeerArguments, ReadArguments, TransferArguments, WorkloadArguments,
    WriteArguments,
};
use ends::{Ends, LabCards};
pub use opened::{card_failed, refused, run_on};

/// Descriptors of a ring at least: more than are posted by default.
const LEAST_RING_ENTRIES: u32 = 1024;
/// Most that a ring can have (docs/engine.md).
const MAX_RING_ENTRIES: u32 = 1 << 16;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;
/// Descriptors of a ring for each transfer that is posted: one, and one more where its memory is
/// in two pieces.
const DESCRIPTORS_PER_TRANSFER: u32 = 2;
/// A transfer has failed if it takes longer than this and what its size adds.
const LEAST_TIMEOUT: Picoseconds = Picoseconds::from_ms(100);
/// Time that each byte on its way adds, picoseconds: as at 10 MB/s, far slower than any link.
const TIMEOUT_PS_PER_BYTE: u64 = 100_000;
/// A round trip has failed if it takes longer.
const ROUND_TRIP_TIMEOUT: Picoseconds = Picoseconds::from_ms(10);

/// `bench write`.
///
/// # Errors
/// A lab, a card or an end that does not exist, an output that cannot be written, and
/// [`CommandError::Run`] if anything went wrong in a run.
pub fn write(arguments: &WriteArguments) -> Result<(), CommandError> {
    let WriteArguments { from, to, transfer, memory, many, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        Ok(Workload::Write(host_options(options(size, transfer, Some(many), common)?, *memory)?))
    })?;
    let ends = Ends::WithHost {
        options: ("--to", "--from"),
        host: to.as_deref(),
        card: from.as_deref(),
        flows: many.flows,
    };
    run("write", common, &ends, &workloads)
}

/// `bench read`.
///
/// # Errors
/// As [`write()`].
pub fn read(arguments: &ReadArguments) -> Result<(), CommandError> {
    let ReadArguments { from, to, transfer, memory, many, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        Ok(Workload::Read(host_options(options(size, transfer, Some(many), common)?, *memory)?))
    })?;
    let ends = Ends::WithHost {
        options: ("--from", "--to"),
        host: from.as_deref(),
        card: to.as_deref(),
        flows: many.flows,
    };
    run("read", common, &ends, &workloads)
}

/// `bench p2p`.
///
/// # Errors
/// As [`write()`].
pub fn peer(arguments: &PeerArguments) -> Result<(), CommandError> {
    let PeerArguments { from, to, no_credits, transfer, many, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        let options = options(size, transfer, Some(many), common)?;
        if options.descriptors == DescriptorSource::Table {
            return Err(usage("--descriptors table: a peer channel has no table".into()));
        }
        Ok(Workload::Peer(Options { credits: !no_credits, ..options }))
    })?;
    let ends = Ends::Pairs { from: from.as_deref(), to: to.as_deref(), flows: many.flows };
    run("p2p", common, &ends, &workloads)
}

/// `bench latency`.
///
/// # Errors
/// As [`write()`].
pub fn latency(arguments: &LatencyArguments) -> Result<(), CommandError> {
    let LatencyArguments { from, to, size, iterations, no_credits, common } = arguments;
    let workloads = workloads(size, |size| {
        if u32::try_from(size).is_err() {
            let most = u32::MAX - 3;
            return Err(usage(format!("--size {size}: one command moves up to {most} B")));
        }
        Ok(Workload::Latency(Options {
            size_bytes: size,
            iterations: *iterations,
            payload_bytes: common.payload,
            credits: !no_credits,
            seed: pattern_seed(common.seed),
            timeout: ROUND_TRIP_TIMEOUT,
            ..Options::default()
        }))
    })?;
    let ends = Ends::Pairs { from: from.as_deref(), to: to.as_deref(), flows: 1 };
    run("latency", common, &ends, &workloads)
}

/// `bench chain`.
///
/// # Errors
/// As [`write()`].
pub fn chain(arguments: &ChainArguments) -> Result<(), CommandError> {
    let ChainArguments { from, to, no_credits, transfer, memory, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        let options = options(size, transfer, None, common)?;
        let options = Options { outstanding: 1, credits: !no_credits, ..options };
        Ok(Workload::Chain(host_options(options, *memory)?))
    })?;
    run("chain", common, &Ends::Row { from: from.as_deref(), to: to.as_deref() }, &workloads)
}

/// Runs each workload in the lab or on the cards that the user names, and prints.
fn run(
    bench: &str,
    common: &WorkloadArguments,
    ends: &Ends<'_>,
    workloads: &[Workload],
) -> Result<(), CommandError> {
    let shown = (common.seed, common.json, common.report.as_ref());
    let modes = workloads.last().map(modes).unwrap_or_default();
    let (lab, endpoints) = match common.place.named()? {
        Named::Lab { lab, endpoints } => (lab, endpoints),
        Named::Cards(names) => {
            opened::check_options(common)?;
            let flows = ends.on_cards(&names)?;
            let mut bench = Bench::new(bench, Where::Cards(&names), shown)?;
            bench.notes = Notes { modes: &modes, has_counters: !common.no_why, ..bench.notes };
            return opened::run(bench, &names, &flows, workloads);
        }
    };
    let (lab, running) = load(&lab, common)?;
    let first = endpoints.first().and_then(Option::as_deref);
    let last = endpoints.last().filter(|_| endpoints.len() > 1).and_then(Option::as_deref);
    let flows = ends.in_lab(&LabCards::of(&lab, &running)?, first, last)?;
    if common.trace.is_some() && workloads.len() > 1 {
        let sentence = "--trace writes one run; give --size one size instead of a range";
        return Err(usage(sentence.into()));
    }
    let mut bench = Bench::new(bench, Where::Lab(&lab), shown)?;
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
        trace: common.trace.as_deref().map(|path| (path, common.trace_unit, running)),
        engines: Some(&common.engines),
        ..Runs::new("sizes", !common.no_why)
    };
    bench.in_lab(scenarios, runs)
}

/// The lab, and one like it that runs, to name its links.
fn load(name: &str, common: &WorkloadArguments) -> Result<(Arc<Lab>, RunningLab), CommandError> {
    let kind = common.engines.kind()?;
    let mut lab = Lab::load(name)?;
    let running = lab.build_engines(common.seed)?;
    lab = lab.with_engines(kind);
    if let Some(file) = &common.trace_fst {
        if kind != EngineKind::Rtl {
            return Err(usage("--trace-fst is of the gateware: --engine rtl".into()));
        }
        // The simulator writes it itself: it is only seen that it can be.
        OutputFile::file(file, Kind::Data)?;
        lab = lab.with_rtl_trace(file);
    }
    Ok((Arc::new(lab), running))
}

fn usage(sentence: String) -> CommandError {
    CommandError::Usage(sentence)
}

fn workloads(
    sizes: &SizeRange,
    workload: impl Fn(u64) -> Result<Workload, CommandError>,
) -> Result<Vec<Workload>, CommandError> {
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
    common: &WorkloadArguments,
) -> Result<Options, CommandError> {
    let by_default = match transfer.descriptors {
        DescriptorWord::Ring => default_in_flight(size) as u32,
        DescriptorWord::Table | DescriptorWord::Command => 1,
    };
    let iterations = transfer.iterations.unwrap_or_else(|| default_operations(size));
    let wanted = many.and_then(|many| many.outstanding);
    let outstanding = u64::from(wanted.unwrap_or(by_default)).min(iterations) as u32;
    let ring = (outstanding * DESCRIPTORS_PER_TRANSFER).next_power_of_two();
    let descriptors = match transfer.descriptors {
        DescriptorWord::Table => DescriptorSource::Table,
        DescriptorWord::Ring => DescriptorSource::Ring { entries: ring.max(LEAST_RING_ENTRIES) },
        DescriptorWord::Command => DescriptorSource::CommandPort,
    };
    if wanted.is_some_and(|wanted| wanted > 1) && descriptors == DescriptorSource::CommandPort {
        return Err(usage("--outstanding: the command port takes one transfer at a time".into()));
    }
    let flows = many.map_or(1, |many| u64::from(many.flows));
    let on_the_way = size.saturating_mul(u64::from(outstanding)).saturating_mul(flows);
    let timeout = LEAST_TIMEOUT.0.saturating_add(on_the_way.saturating_mul(TIMEOUT_PS_PER_BYTE));
    Ok(Options {
        size_bytes: size,
        iterations,
        outstanding,
        descriptors,
        notification: match transfer.notify {
            NotifyWord::Poll => Notification::Poll,
            NotifyWord::Interrupt => Notification::Interrupt,
        },
        payload_bytes: common.payload,
        oversize: common.payload.is_some(),
        seed: pattern_seed(common.seed),
        timeout: Picoseconds(timeout),
        ..Options::default()
    })
}

/// Transfers with host memory have no command port, and as many descriptors as their memory has
/// pieces.
fn host_options(
    mut options: Options,
    memory: HostMemoryArguments,
) -> Result<Options, CommandError> {
    if options.descriptors == DescriptorSource::CommandPort {
        let sentence = "--descriptors command: the command port starts writes to other cards, p2p";
        return Err(usage(sentence.into()));
    }
    if memory.pages == PagesWord::Small {
        options.pages = PageSize::Small;
        // The first page may begin in its middle.
        let each = options.size_bytes.div_ceil(PAGE_BYTES) + 1;
        let needed = each.saturating_mul(options.outstanding.into());
        if let DescriptorSource::Ring { entries } = &mut options.descriptors {
            let needed = needed.min(MAX_RING_ENTRIES.into()) as u32;
            *entries = needed.next_power_of_two().max(LEAST_RING_ENTRIES);
        }
    }
    Ok(options)
}

/// Formats the modes of transfers: `descriptors in a ring, polled`.
fn modes(workload: &Workload) -> String {
    let options = workload.options();
    if let Workload::Latency(_) = workload {
        return "ping-pong".to_owned();
    }
    let descriptors = match options.descriptors {
        DescriptorSource::Table => "descriptors in the engine's table",
        DescriptorSource::Ring { .. } => "descriptors in a ring",
        DescriptorSource::CommandPort => "by the command port",
    };
    let notification = match options.notification {
        Notification::Poll => "polled",
        Notification::Interrupt | Notification::InterruptOnly => "with interrupts",
    };
    format!("{descriptors}, {notification}")
}
