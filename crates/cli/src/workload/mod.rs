// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench write|read|p2p|latency|chain`: workloads through the driver, on any lab whose
//! endpoints have a DMA engine.

pub mod arguments;

use std::sync::Arc;

use crosslane::driver::DescriptorSource;
use crosslane::experiment::{
    Ends, EngineWork, NoObserver, Options, Scenario, SizeRange, Workload, WorkloadOutcome,
};
use crosslane::host::PageSize;
use crosslane::lab::{EngineKind, Lab, RunningLab};
use crosslane::open::DeviceName;
use crosslane::pcie::units::Picoseconds;
use crosslane_report::output::Kind;
use crosslane_report::text::Notes;

use crate::bench::{Bench, Runs, opened, run_on};
use crate::error::{CommandError, usage};
use crate::files::{Where, output_of};
use crate::place_argument::Named;
use arguments::{
    ChainArguments, DescriptorWord, HostMemoryArguments, LatencyArguments, ManyArguments,
    PeerArguments, ReadArguments, TransferArguments, WorkloadArguments, WriteArguments,
};

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
        Ok(Workload::Write(options(size, transfer, Some(many), Some(*memory), common)?))
    })?;
    let ends = Ends::WithHost {
        options: ("--to", "--from"),
        host: to.as_deref(),
        card: from.as_deref(),
        flows: many.flows,
    };
    run("write", common, ends, &workloads)
}

/// `bench read`.
///
/// # Errors
/// As [`write()`].
pub fn read(arguments: &ReadArguments) -> Result<(), CommandError> {
    let ReadArguments { from, to, transfer, memory, many, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        Ok(Workload::Read(options(size, transfer, Some(many), Some(*memory), common)?))
    })?;
    let ends = Ends::WithHost {
        options: ("--from", "--to"),
        host: from.as_deref(),
        card: to.as_deref(),
        flows: many.flows,
    };
    run("read", common, ends, &workloads)
}

/// `bench p2p`.
///
/// # Errors
/// As [`write()`].
pub fn peer(arguments: &PeerArguments) -> Result<(), CommandError> {
    let PeerArguments { between, transfer, many, common } = arguments;
    let workloads = workloads(&transfer.size, |size| {
        let options = options(size, transfer, Some(many), None, common)?;
        if options.descriptors == DescriptorSource::Table {
            return Err(usage("--descriptors table: a peer channel has no table"));
        }
        Ok(Workload::Peer(options.with_credits(!between.no_credits)))
    })?;
    let (from, to) = between.ends();
    let ends = Ends::Pairs { from, to, flows: many.flows };
    run("p2p", common, ends, &workloads)
}

/// `bench latency`.
///
/// # Errors
/// As [`write()`].
pub fn latency(arguments: &LatencyArguments) -> Result<(), CommandError> {
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
    let ends = Ends::Pairs { from, to, flows: 1 };
    run("latency", common, ends, &workloads)
}

/// `bench chain`.
///
/// # Errors
/// As [`write()`].
pub fn chain(arguments: &ChainArguments) -> Result<(), CommandError> {
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
) -> Result<(), CommandError> {
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
            return run_on_cards(bench, &names, &flows, workloads);
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
fn check_options(common: &WorkloadArguments) -> Result<(), CommandError> {
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

/// Opens the cards, runs each workload and prints; `flows` are the places of each flow's cards.
fn run_on_cards(
    bench: Bench<'_>,
    names: &[DeviceName],
    flows: &[Vec<usize>],
    workloads: &[Workload],
) -> Result<(), CommandError> {
    let session = opened(names)?;
    let devices = run_on(&session, async { Ok(session.devices().await?) })?;
    let cards = flows.iter().map(|flow| flow.iter().map(|card| devices[*card].clone()).collect());
    let cards: Vec<Vec<_>> = cards.collect();
    bench.on_cards(&session, (workloads, "sizes"), async |workload| {
        let measured = workload.run(&cards, &NoObserver).await?;
        let outcome = WorkloadOutcome::on_cards(*workload, measured);
        Ok((format!("{} B", workload.size_bytes()), outcome))
    })
}

/// The lab, and one like it that runs, to name its links.
fn load(name: &str, common: &WorkloadArguments) -> Result<(Arc<Lab>, RunningLab), CommandError> {
    let kind = common.engines.kind()?;
    let mut lab = Lab::load(name)?;
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
    memory: Option<HostMemoryArguments>,
    common: &WorkloadArguments,
) -> Result<Options, CommandError> {
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
