// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duration and bandwidth of gets by size, for one to 64 in flight, on both machines.

use crosslane_driver::network_processor::Modes;
use crosslane_experiment::parallel;
use crosslane_report::{Axis, Scale, Series, Table};

use super::{ALL_IN_FLIGHT, MACHINES, Machine, gets};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paper_size, paragraphs, size_words};
use crate::plots::{by_size, ours, published};
use crate::study::Effort;

/// Sizes of a get, bytes.
const SIZES: [u64; 11] =
    [64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Gets in flight.
const IN_FLIGHT: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Sizes of the compared peak: 1 KiB and more.
const PEAK_SIZES: [u64; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// Quantity of the peak in the file of figures.
const PEAK: &str = "nget_peak_over_theory";

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 = (SIZES.len() * IN_FLIGHT.len() * MACHINES.len()) as u64;

/// A point of the curves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    machine: Machine,
    size_bytes: u64,
    in_flight: u32,
    /// Median time from a get's request until its notification is seen, us.
    duration_us: f64,
    bytes_per_second: f64,
    over_theory: f64,
}

fn measure(context: &Context<'_>, sizes: &[u64], in_flight: &[u32]) -> Result<Vec<Point>> {
    let mut jobs = Vec::new();
    for machine in MACHINES {
        for size in sizes {
            jobs.extend(in_flight.iter().map(|count| (machine, *size, *count)));
        }
    }
    let point = |&(machine, size_bytes, in_flight): &(Machine, u64, u32)| {
        let found = gets(context, context.lab(), machine, Modes::FASTEST, (size_bytes, in_flight))?;
        Ok(Point {
            machine,
            size_bytes,
            in_flight,
            duration_us: found.measured.durations.typical_ps as f64 / 1e6,
            bytes_per_second: found.measured.bytes_per_second(),
            over_theory: found.over_theory(),
        })
    };
    parallel::try_map(&jobs, point)
}

fn peaks(context: &Context<'_>, points: &[Point]) -> Vec<Row> {
    let is_peak =
        |point: &&Point| point.in_flight == ALL_IN_FLIGHT && PEAK_SIZES.contains(&point.size_bytes);
    let row = |point: &Point| {
        let case = format!("{}; {}", point.machine.name, paper_size(point.size_bytes));
        context.figures.case(PEAK, Some(&case)).compare(point.over_theory)
    };
    points.iter().filter(is_peak).map(row).collect()
}

/// Returns the rows of the peak on both machines.
pub(super) fn compared(context: &Context<'_>, effort: Effort) -> Result<Vec<Row>> {
    let sizes = if effort == Effort::Full { &PEAK_SIZES[..] } else { &PEAK_SIZES[..2] };
    Ok(peaks(context, &measure(context, sizes, &[ALL_IN_FLIGHT])?))
}

fn table(
    points: &[Point],
    machine: Machine,
    what: &str,
    value: impl Fn(&Point) -> String,
) -> Table {
    let mut table = Table::headed(&format!("{what} | N = 1: | 2: | 4: | 8: | 16: | 32: | 64:"));
    for size in SIZES {
        let of_size =
            points.iter().filter(|point| point.machine == machine && point.size_bytes == size);
        table.row(std::iter::once(size_words(size)).chain(of_size.map(&value)));
    }
    table
}

fn curves(points: &[Point], value: impl Fn(&Point) -> f64) -> Vec<Series> {
    let mut series = Vec::new();
    for machine in MACHINES {
        for count in [1, 8, ALL_IN_FLIGHT] {
            let of_curve =
                points.iter().filter(|point| (point.machine, point.in_flight) == (machine, count));
            let values = of_curve.map(|point| (point.size_bytes as f64, value(point)));
            series.push(ours(format!("{}, N = {count}", machine.words), values));
        }
    }
    series
}

pub(super) fn run(context: &Context<'_>) -> Result<Experiment> {
    let points = measure(context, &SIZES, &IN_FLIGHT)?;
    let megabytes = |point: &Point| point.bytes_per_second / 1e6;
    let peak = context.figures.case(PEAK, Some("gpu1; 1 KB")).value * 4e3;
    let mut bandwidth = curves(&points, megabytes);
    let of_paper = PEAK_SIZES.map(|size| (size as f64, peak));
    bandwidth.push(published("the paper's peak, 1 KiB and more", of_paper));
    let mut rows = peaks(context, &points);
    for point in &points {
        let conditions = format!(
            "{}; {}; N = {}",
            point.machine.words,
            size_words(point.size_bytes),
            point.in_flight
        );
        rows.push(Row::simulated("nget_duration", &conditions, "us", point.duration_us));
        rows.push(Row::simulated("nget_bandwidth", conditions, "MB/s", megabytes(point)));
    }
    let text = paragraphs([
        "The micro-benchmark as in the paper's pseudo-code, with M = 1: N - 1 gets are \
         started, then in each loop one more is started and the oldest awaited. Duration is from \
         before a get's request until its notification is seen, the median; bandwidth is that of \
         the whole run. Buffers are mapped beforehand, requests are mapped stores, \
         and user memory is polled. Links are in mode sink.",
        "One constant is fitted, the share of completions that the hub sends in single lines of \
         64 B, to the peak of 64 KiB on gpu1. That the peak is there from 1 KiB on, and that gpu2 \
         has it too, is predicted. The latencies of both machines are assumptions: the paper's \
         plots of them are lost, so no duration is compared.",
    ]);
    let mut tables = Vec::new();
    for machine in MACHINES {
        let name = machine.name;
        let (duration, rate) =
            (format!("duration on {name}, us"), format!("bandwidth on {name}, MB/s"));
        let duration_us = |point: &Point| format!("{:.2}", point.duration_us);
        tables.push(table(&points, machine, &duration, duration_us));
        let rate_mb_per_s = |point: &Point| format!("{:.0}", megabytes(point));
        tables.push(table(&points, machine, &rate, rate_mb_per_s));
    }
    let durations = curves(&points, |point| point.duration_us);
    let plot = |what: &str, y: Axis, series| {
        by_size(&format!("Nget {what}, machine comparison"), "a get", y, series)
    };
    let plots = vec![
        plot("duration", Axis::new("duration", "us", Scale::Logarithmic), durations),
        plot("bandwidth", Axis::new("bandwidth", "MB/s", Scale::Linear), bandwidth),
    ];
    Ok(Experiment {
        title: "Duration and bandwidth of the get engine on two machines",
        text,
        tables,
        plots,
        rows,
        ..Experiment::default()
    })
}
