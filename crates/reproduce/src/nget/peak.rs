// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duration and bandwidth of gets by their size, for one to 64 in flight, on both machines.

use crosslane_explain::size_words;
use crosslane_report::{Scale, Series, SeriesKind};
use rayon::prelude::*;

use super::published::shown;
use super::{ALL_IN_FLIGHT, Context, MODES, Machine, plot};
use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};

/// Sizes of a get, bytes.
const SIZES: [u64; 11] =
    [64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Gets in flight.
const IN_FLIGHT: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Sizes at which the peak is compared: of 1 KiB and more.
const PEAK_SIZES: [u64; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// Scenarios of this experiment.
pub(super) const SCENARIOS: u64 = (SIZES.len() * IN_FLIGHT.len() * Machine::ALL.len()) as u64;

/// A point of the curves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    machine: Machine,
    size_bytes: u64,
    in_flight: u32,
    /// From a get's request until its notification is seen, the median, us.
    duration_us: f64,
    bytes_per_second: f64,
    over_theory: f64,
}

fn measure(
    context: &Context<'_>,
    sizes: &[u64],
    in_flight: &[u32],
) -> Result<Vec<Point>, ReproduceError> {
    let mut jobs = Vec::new();
    for machine in Machine::ALL {
        for size in sizes {
            jobs.extend(in_flight.iter().map(|count| (machine, *size, *count)));
        }
    }
    let point = |&(machine, size_bytes, in_flight): &(Machine, u64, u32)| {
        let found = context.gets(&context.lab, machine, MODES, (size_bytes, in_flight))?;
        Ok(Point {
            machine,
            size_bytes,
            in_flight,
            duration_us: found.measured.durations.typical_ps as f64 / 1e6,
            bytes_per_second: found.measured.bytes_per_second(),
            over_theory: found.over_theory(),
        })
    };
    jobs.par_iter().map(point).collect()
}

fn peaks(context: &Context<'_>, points: &[Point]) -> Result<Vec<Row>, ReproduceError> {
    let is_peak =
        |point: &&Point| point.in_flight == ALL_IN_FLIGHT && PEAK_SIZES.contains(&point.size_bytes);
    let row = |point: &Point| {
        let size = size_words(point.size_bytes);
        context.figures.compare_peak(point.machine, &size, point.over_theory)
    };
    points.iter().filter(is_peak).map(row).collect()
}

/// The peak on both machines.
pub(super) fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    peaks(context, &measure(context, &PEAK_SIZES, &[ALL_IN_FLIGHT])?)
}

/// The same of fewer sizes.
pub(super) fn quick(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    peaks(context, &measure(context, &PEAK_SIZES[..2], &[ALL_IN_FLIGHT])?)
}

fn table(
    points: &[Point],
    machine: Machine,
    what: &'static str,
    value: impl Fn(&Point) -> String,
) -> Table {
    const HEADINGS: [&str; 7] = ["N = 1", "2", "4", "8", "16", "32", "64"];
    let mut columns = vec![(what, Align::Left)];
    columns.extend(HEADINGS.map(|heading| (heading, Align::Right)));
    let mut table = Table::new(&columns);
    for size in SIZES {
        let of_size =
            points.iter().filter(|point| point.machine == machine && point.size_bytes == size);
        table.row(std::iter::once(size_words(size)).chain(of_size.map(&value)).collect::<Vec<_>>());
    }
    table
}

fn curves(points: &[Point], value: impl Fn(&Point) -> f64) -> Vec<Series> {
    let mut series = Vec::new();
    for machine in Machine::ALL {
        for count in [1, 8, ALL_IN_FLIGHT] {
            let of_curve =
                points.iter().filter(|point| (point.machine, point.in_flight) == (machine, count));
            series.push(Series {
                name: format!("{}, N = {count}", machine.words()),
                kind: SeriesKind::Ours,
                points: of_curve.map(|point| (point.size_bytes as f64, value(point))).collect(),
            });
        }
    }
    series
}

pub(super) fn run(context: &Context<'_>) -> Result<Experiment, ReproduceError> {
    let points = measure(context, &SIZES, &IN_FLIGHT)?;
    let megabytes = |point: &Point| point.bytes_per_second / 1e6;
    let peak = context.figures.peak()? * 4e3;
    let mut bandwidth = curves(&points, megabytes);
    bandwidth.push(Series {
        name: "the document's peak, 1 KiB and more".to_owned(),
        kind: SeriesKind::Published,
        points: PEAK_SIZES.map(|size| (size as f64, peak)).to_vec(),
    });
    let mut rows = peaks(context, &points)?;
    for point in &points {
        let conditions = format!(
            "{}; {}; N = {}",
            point.machine.words(),
            size_words(point.size_bytes),
            point.in_flight
        );
        rows.push(shown("nget_duration", conditions.clone(), "us", point.duration_us));
        rows.push(shown("nget_bandwidth", conditions, "MB/s", megabytes(point)));
    }
    let text = vec![
        "The micro-benchmark as in the document's pseudo-code, with M = 1: N - 1 gets are \
         started, then in each loop one more is started and the oldest awaited. Duration is from \
         before a get's request until its notification is seen, the median; bandwidth is that of \
         the whole run. Buffers are mapped beforehand, requests are mapped stores, \
         and user memory is polled. Links are in mode sink."
            .to_owned(),
        "One constant is fitted, the share of completions that the hub sends in single lines of \
         64 B, to the peak of 64 KiB on gpu1. That the peak is there from 1 KiB on, and that gpu2 \
         has it too, is predicted. The latencies of both machines are assumptions: the document's \
         plots of them are lost, so no duration is compared."
            .to_owned(),
    ];
    let mut tables = Vec::new();
    for machine in Machine::ALL {
        let (duration, rate) = match machine {
            Machine::Gpu1 => ("duration on gpu1, us", "bandwidth on gpu1, MB/s"),
            Machine::Gpu2 => ("duration on gpu2, us", "bandwidth on gpu2, MB/s"),
        };
        tables.push(table(&points, machine, duration, |point| format!("{:.2}", point.duration_us)));
        tables.push(table(&points, machine, rate, |point| format!("{:.0}", megabytes(point))));
    }
    let durations = curves(&points, |point| point.duration_us);
    let both = "machine comparison";
    let plots = vec![
        plot(format!("Nget duration, {both}"), "duration", "us", Scale::Logarithmic, durations),
        plot(format!("Nget bandwidth, {both}"), "bandwidth", "MB/s", Scale::Linear, bandwidth),
    ];
    Ok(Experiment {
        title: "Duration and bandwidth of the get engine on two machines",
        text,
        tables,
        plots,
        why: Vec::new(),
        rows,
    })
}
