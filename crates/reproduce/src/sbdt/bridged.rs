// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridged transfers (section 3 of the document): the naive steps, the pipeline by sizes of
//! transfers and of buffers (figure 11) and on three ways (figure 12).
//!
//! The document's transfers are of up to 512 MiB. Here they are of up to 128 MiB: from the filling
//! of the pipeline on, every chunk takes what the one before it took, so that the time of a longer
//! transfer is that of the longest here and what it takes more than the one before, as often as it
//! fits.

use crosslane_bench::{BridgedOptions, TwoNodes, bridged};
use crosslane_bridge::{CardWorking, Mode, Path, Report, ServerOptions, StageStatistics};
use crosslane_driver::Notification;
use crosslane_explain::size_words;
use crosslane_pcie::units::Picoseconds;
use crosslane_report::{Series, SeriesKind};
use rayon::prelude::*;

use super::local::figures::{ours, plot};
use super::published::context as context_row;
use super::{Context, RATE};
use crate::comparison::{Row, Tolerance};
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};
use crate::watch::may_begin;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The size of the document's figures, and of its buffers.
const WHOLE_BYTES: u64 = 512 * MIB;
const WHOLE_BUFFER_BYTES: u64 = 8 * MIB;
/// Sizes of buffers of figure 11, beside those of 8 MiB.
const BUFFERS: [u64; 6] = [64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 16 * MIB];
/// Sizes of transfers of figure 11.
const SIZES: [u64; 5] = [MIB, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB];
/// Sizes of transfers of figure 12, and the two from which that of 512 MiB follows.
const LONG_SIZES: [u64; 5] = [256 * KIB, MIB, 8 * MIB, 64 * MIB, 128 * MIB];
/// The size of the naive transfer, and the two from which it follows.
const NAIVE_BYTES: u64 = 320_000_000;
const NAIVE_SIZES: [u64; 2] = [64 * MIB, 128 * MIB];
/// What the naive time is held to.
const NAIVE: Tolerance =
    Tolerance { fraction: 0.1, reason: "one run, whose steps are given to the millisecond" };

/// Scenarios of this module.
pub(super) const SCENARIOS: u64 = (BUFFERS.len() + PATHS.len() + 1) as u64;

const PATHS: [Path; 3] = [Path::ToFpga, Path::FromFpga, Path::RoundTrip];

/// The document's name of a path in the file of figures, and the conditions.
const fn figure(path: Path) -> (&'static str, &'static str) {
    let quantity = match path {
        Path::ToFpga => "bridged_remote_to_fpga",
        Path::FromFpga | Path::ToPeer => "bridged_fpga_to_remote",
        Path::RoundTrip => "bridged_round_trip",
    };
    (quantity, "512 MB; 8 MB buffers")
}

/// A transfer that was measured.
#[derive(Clone, Debug)]
struct Point {
    path: Path,
    bytes: u64,
    elapsed: Picoseconds,
    registration: Picoseconds,
    report: Report,
}

impl Point {
    /// Megabytes per second.
    fn rate(&self) -> f64 {
        self.bytes as f64 * 1e6 / self.elapsed.0.max(1) as f64
    }
}

/// The document's server: one read and one chunk at a time, and the end of each learnt by an
/// interrupt.
fn of_document(buffer_bytes: u64) -> ServerOptions {
    ServerOptions {
        slots: 8,
        slot_bytes: buffer_bytes,
        least_chunk_bytes: buffer_bytes,
        window_bytes: buffer_bytes,
        card: CardWorking {
            posted_jobs: 1,
            notification: Notification::Interrupt,
            ..CardWorking::default()
        },
        ..ServerOptions::default()
    }
}

/// Makes transfers of each size on one path.
fn run(
    context: &Context<'_>,
    name: &str,
    buffer_bytes: u64,
    (path, mode): (Path, Mode),
    sizes: &[u64],
) -> Result<Vec<Point>, ReproduceError> {
    let failed = |problem: String| ReproduceError::experiment(name, problem);
    may_begin(context.watch)?;
    let lab = context.lab(None)?;
    let nodes = TwoNodes::find(&lab)?;
    let options = of_document(buffer_bytes);
    let card = nodes.card().to_owned();
    let ran = nodes.run(&lab, context.seed, name, options, 1, async |_, clients| {
        let mut points = Vec::new();
        for client in &clients {
            for size_bytes in sizes.iter().copied() {
                let options = BridgedOptions {
                    path,
                    mode,
                    card: card.clone(),
                    address: 0,
                    size_bytes,
                    iterations: 1,
                    chunk_bytes: None,
                    seed: context.seed as u32,
                    timeout: Picoseconds::from_ns(10_000_000_000),
                };
                let measured = bridged(client, &options).await.map_err(|e| e.to_string())?;
                if measured.data_errors.words > 0 {
                    return Err(format!("{} words are wrong", measured.data_errors.words));
                }
                let report = measured.report().ok_or("a transfer has no report")?.clone();
                let elapsed = measured.median();
                let registration = measured.registrations.first().copied().unwrap_or_default();
                points.push(Point { path, bytes: size_bytes, elapsed, registration, report });
            }
        }
        Ok(points)
    });
    let (points, now) = ran?;
    let points = points.map_err(failed)?;
    context.watch.done(name, now);
    Ok(points)
}

/// What a time that grows with the size is at a larger one.
pub(super) fn further(times: [(u64, u64); 2], bytes: u64) -> f64 {
    let [(less, less_ps), (more, more_ps)] = times;
    let growth = (more_ps as f64 - less_ps as f64) / (more - less) as f64;
    more_ps as f64 + growth * (bytes - more) as f64
}

/// Picoseconds of a larger transfer, from the last two sizes.
fn whole_ps(points: &[Point], bytes: u64, time_ps: impl Fn(&Point) -> u64) -> f64 {
    let [.., less, more] = points else { unreachable!("each curve has two sizes at least") };
    further([(less.bytes, time_ps(less)), (more.bytes, time_ps(more))], bytes)
}

/// Megabytes per second of a larger transfer.
fn whole_rate(points: &[Point], bytes: u64) -> f64 {
    bytes as f64 * 1e6 / whole_ps(points, bytes, |point| point.elapsed.0)
}

fn naive(context: &Context<'_>, sizes: &[u64]) -> Result<Vec<Point>, ReproduceError> {
    let name = "bridged, naive round trip";
    run(context, name, WHOLE_BUFFER_BYTES, (Path::RoundTrip, Mode::Naive), sizes)
}

fn pipelined(
    context: &Context<'_>,
    path: Path,
    buffer_bytes: u64,
    sizes: &[u64],
) -> Result<Vec<Point>, ReproduceError> {
    let name = format!("bridged, {path}, buffers of {}", size_words(buffer_bytes));
    run(context, &name, buffer_bytes, (path, Mode::Pipelined), sizes)
}

/// The rows of the three ways.
fn rows_of_paths(context: &Context<'_>, curves: &[Vec<Point>]) -> Result<Vec<Row>, ReproduceError> {
    let rows = PATHS.into_iter().zip(curves).map(|(path, points)| {
        let (quantity, conditions) = figure(path);
        let rate = whole_rate(points, WHOLE_BYTES);
        context.figures.compare(quantity, conditions, Some(rate), RATE, &path.to_string())
    });
    rows.collect()
}

/// The rows of the naive transfer: its time, and the same as a rate.
fn rows_of_naive(context: &Context<'_>, points: &[Point]) -> Result<Vec<Row>, ReproduceError> {
    let seconds = whole_ps(points, NAIVE_BYTES, |point| point.elapsed.0) / 1e12;
    let mebibytes = NAIVE_BYTES as f64 / seconds / MIB as f64;
    let all = "320e6 B";
    let compare = |quantity, value| {
        context.figures.compare(quantity, all, Some(value), NAIVE, "naive round trip")
    };
    Ok(vec![compare("naive_round_trip_time", seconds)?, compare("naive_round_trip", mebibytes)?])
}

pub(super) fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    let curves = all_paths(context, WHOLE_BUFFER_BYTES, &LONG_SIZES[3..])?;
    let mut rows = rows_of_paths(context, &curves)?;
    rows.extend(rows_of_naive(context, &naive(context, &NAIVE_SIZES)?)?);
    Ok(rows)
}

fn all_paths(
    context: &Context<'_>,
    buffer_bytes: u64,
    sizes: &[u64],
) -> Result<Vec<Vec<Point>>, ReproduceError> {
    PATHS.into_par_iter().map(|path| pipelined(context, path, buffer_bytes, sizes)).collect()
}

/// All experiments here; `local` are the document's curves of the same ways without a bridge.
pub(super) fn experiments(
    context: &Context<'_>,
    local: &[Series],
) -> Result<Vec<Experiment>, ReproduceError> {
    enum Kind {
        Path(Path),
        Buffers(u64),
        Naive,
    }
    let kinds: Vec<Kind> = PATHS
        .map(Kind::Path)
        .into_iter()
        .chain([Kind::Naive])
        .chain(BUFFERS.into_iter().rev().map(Kind::Buffers))
        .collect();
    let done: Result<Vec<(Kind, Vec<Point>)>, ReproduceError> = kinds
        .into_par_iter()
        .map(|kind| {
            let points = match kind {
                Kind::Path(path) => pipelined(context, path, WHOLE_BUFFER_BYTES, &LONG_SIZES),
                Kind::Buffers(bytes) => pipelined(context, Path::ToFpga, bytes, &SIZES),
                Kind::Naive => naive(context, &NAIVE_SIZES),
            };
            Ok((kind, points?))
        })
        .collect();
    let (mut paths, mut buffers, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, points) in done? {
        match kind {
            Kind::Path(_) => paths.push(points),
            Kind::Buffers(bytes) => buffers.push((bytes, points)),
            Kind::Naive => steps = points,
        }
    }
    buffers.push((WHOLE_BUFFER_BYTES, paths[0].clone()));
    buffers.sort_by_key(|(bytes, _)| *bytes);
    Ok(vec![
        naive_steps(context, &steps)?,
        by_buffers(context, &buffers)?,
        three_ways(context, &paths, local)?,
    ])
}

/// The document's steps: its words in the file of figures, and which of ours they are.
const STEPS: [(&str, &[&str]); 5] = [
    ("server buffers and registration", &["3:"]),
    ("RDMA read", &["4:"]),
    ("DMA", &["5:"]),
    ("client registration and notice for the way back", &["6:"]),
    ("RDMA write", &["7:"]),
];

fn naive_steps(context: &Context<'_>, points: &[Point]) -> Result<Experiment, ReproduceError> {
    let step_ps = |point: &Point, names: &[&str]| -> u64 {
        let is_it = |what: &str| names.iter().any(|name| what.starts_with(name));
        point.report.steps.iter().filter(|step| is_it(&step.what)).map(|step| step.time_ps).sum()
    };
    let mut rows = rows_of_naive(context, points)?;
    let mut table =
        Table::new(&[("step", Align::Left), ("document s", Align::Right), ("lab s", Align::Right)]);
    let first = "client buffers, registration, notice";
    let mut add = |words: &str, seconds: f64| -> Result<(), ReproduceError> {
        let quantity = "naive_step_time";
        let row = context.figures.compare(quantity, words, Some(seconds), NAIVE, words)?;
        let document = format!("{:.3}", row.published.unwrap_or(0.0));
        table.row([words.to_owned(), document, format!("{seconds:.3}")]);
        rows.push(row);
        Ok(())
    };
    add(first, whole_ps(points, NAIVE_BYTES, |point| point.registration.0) / 1e12)?;
    for (words, names) in STEPS {
        add(words, whole_ps(points, NAIVE_BYTES, |point| step_ps(point, names)) / 1e12)?;
    }
    let text = vec![
        "320 MB from the other node through the FPGA and back, one step after the other. What a \
         page takes to be registered (both nodes) and to be written to for the first time are \
         inputs, out of the document's first, second and fifth step; what the network and the DMA \
         take is not. The document's RDMA read is faster here than its own stand-alone maximum, \
         which the lab keeps to."
            .to_owned(),
        format!(
            "Transfers are of {} and {}; each step grows with the size.",
            size_words(NAIVE_SIZES[0]),
            size_words(NAIVE_SIZES[1])
        ),
    ];
    Ok(Experiment {
        title: "The naive steps (section 3.1)",
        text,
        tables: vec![table],
        plots: Vec::new(),
        why: Vec::new(),
        rows,
    })
}

/// A stage of a transfer.
fn stage(report: &Report, index: usize) -> StageStatistics {
    report.stages[index]
}

/// Figure 11.
fn by_buffers(
    context: &Context<'_>,
    buffers: &[(u64, Vec<Point>)],
) -> Result<Experiment, ReproduceError> {
    // What the document's card takes data at without a bridge.
    let local = context.figures.value("dma_cpu_to_fpga", "1 GB; 8 MB buffers")?;
    let mut table = Table::new(&[
        ("buffers", Align::Left),
        ("512 MiB: MB/s", Align::Right),
        ("of 7877 MB/s %", Align::Right),
        ("a chunk us", Align::Right),
        ("of that its data us", Align::Right),
        ("beside its data us", Align::Right),
    ]);
    let mut rows = Vec::new();
    let mut series = Vec::new();
    let mut serial = Vec::new();
    let mut shares = Vec::new();
    for (buffer, points) in buffers {
        let whole = whole_rate(points, WHOLE_BYTES);
        let Some(last) = points.last() else { continue };
        // Each chunk is alone in the card: what the stage takes for it is data and what is beside.
        let dma = stage(&last.report, 1);
        let chunk_us = dma.busy_ps as f64 / dma.operations.max(1) as f64 / 1e6;
        let data_us = *buffer as f64 / local;
        serial.push(chunk_us - data_us);
        shares.push((*buffer, whole / 78.77));
        table.row([
            size_words(*buffer),
            format!("{whole:.0}"),
            format!("{:.1}", whole / 78.77),
            format!("{chunk_us:.1}"),
            format!("{data_us:.1}"),
            format!("{:.1}", chunk_us - data_us),
        ]);
        let conditions = format!("512 MiB; {} buffers", size_words(*buffer));
        rows.push(context_row("remote to FPGA, figure 11", conditions, "MB/s", whole));
        let curve = points.iter().map(|point| (point.bytes as f64, point.rate()));
        let curve = curve.chain([(WHOLE_BYTES as f64, whole)]).collect();
        series.push(ours(format!("{} buffers", size_words(*buffer)), curve));
    }
    let (least, most) = serial
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), us| (least.min(*us), most.max(*us)));
    let share = |bytes: u64| shares.iter().find(|(buffer, _)| *buffer == bytes);
    let percent = |bytes| share(bytes).map_or(0.0, |(_, share)| *share);
    let text = vec![
        format!(
            "In the bridge each chunk is alone in the card: it is posted when the one before it is \
             known to be done. So each pays once what its report takes, from its interrupt until \
             the thread runs that waits for it (interrupt_ns of the lab, 84 us), with the doorbell \
             and the card's own latency {least:.0} to {most:.0} us, whatever its size. That is the \
             one serial cost, the same that the local call pays once for half a ring: there it is \
             hidden behind the other half, which is why sizes from 256 KiB on make no difference \
             locally and all the difference here."
        ),
        format!(
            "With 1 MiB and less the rate is far below the peak ({:.0} % of the link); from 2 MiB \
             on the document has 70 to 80 %, here it is {:.0} % with 2 MiB, {:.0} % with 4 MiB and \
             {:.0} % with 8 MiB. The document found 8 MiB the best; here 16 MiB gains some 2 % \
             more, because the first chunk's read, in which the card has nothing to do, costs a \
             transfer of 512 MiB less than the reports that it saves.",
            percent(MIB),
            percent(2 * MIB),
            percent(4 * MIB),
            percent(8 * MIB)
        ),
        "The document's transfers with buffers of 32 KiB and less failed. Nothing in what it \
         describes would make them; here they work."
            .to_owned(),
    ];
    Ok(Experiment {
        title: "Remote memory to FPGA memory, by sizes of buffers (figure 11)",
        text,
        tables: vec![table],
        plots: vec![plot("Figure 11: remote memory to FPGA memory", series)],
        why: Vec::new(),
        rows,
    })
}

/// Figure 12.
fn three_ways(
    context: &Context<'_>,
    curves: &[Vec<Point>],
    local: &[Series],
) -> Result<Experiment, ReproduceError> {
    let mut columns = vec![("transfer", Align::Left)];
    const NAMES: [&str; 3] = ["remote to FPGA", "FPGA to remote", "round trip"];
    columns.extend(NAMES.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (index, size) in LONG_SIZES.into_iter().enumerate() {
        let rates = curves.iter().map(|points| format!("{:.0}", points[index].rate()));
        table.row(std::iter::once(size_words(size)).chain(rates).collect::<Vec<_>>());
    }
    let whole = curves.iter().map(|points| format!("{:.0}", whole_rate(points, WHOLE_BYTES)));
    table.row(std::iter::once(size_words(WHOLE_BYTES)).chain(whole).collect::<Vec<_>>());
    let mut series = Vec::new();
    let mut why = Table::new(&[
        ("path", Align::Left),
        ("stage", Align::Left),
        ("busy %", Align::Right),
        ("waited for slots %", Align::Right),
    ]);
    for (path, points) in PATHS.into_iter().zip(curves) {
        let curve = points.iter().map(|point| (point.bytes as f64, point.rate()));
        let curve = curve.chain([(WHOLE_BYTES as f64, whole_rate(points, WHOLE_BYTES))]);
        series.push(ours(path.to_string(), curve.collect()));
        let (quantity, conditions) = figure(path);
        series.push(Series {
            name: path.to_string(),
            kind: SeriesKind::Published,
            points: vec![(WHOLE_BYTES as f64, context.figures.value(quantity, conditions)?)],
        });
        let Some(last) = points.last() else { continue };
        for stage in &last.report.stages {
            let waited = stage.waiting_for_slot_ps as f64 / last.report.elapsed_ps.max(1) as f64;
            why.row([
                last.path.to_string(),
                stage.stage.to_string(),
                format!("{:.1}", 100.0 * last.report.busy(stage)),
                format!("{:.1}", 100.0 * waited),
            ]);
        }
    }
    series.extend(local.iter().map(|curve| Series {
        name: format!("{}, without a bridge", curve.name),
        kind: SeriesKind::Ours,
        points: curve.points.clone(),
    }));
    let text = vec![
        "Stages overlap: the network reads the next chunk while the card takes this one. The card \
         is the slowest stage on every way, with the report of each chunk in its time; what the \
         bridge is slower than the local call is that report, and the first chunk's read."
            .to_owned(),
        "The round trip is faster than the local one, in the document and here: nothing is copied \
         in it."
            .to_owned(),
    ];
    Ok(Experiment {
        title: "Three bridged ways with buffers of 8 MiB (figure 12)",
        text,
        tables: vec![table, why],
        plots: vec![plot("Figure 12: three bridged ways, buffers of 8 MiB", series)],
        why: Vec::new(),
        rows: rows_of_paths(context, curves)?,
    })
}
