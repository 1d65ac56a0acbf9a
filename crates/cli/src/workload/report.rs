// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a person reads them: rows as `perftest` prints them, the plan, why it was not
//! faster, and the use of each link.

use std::fmt::Write as _;

use crosslane_bench::Carrier;
use crosslane_bench::{Expected, Job, WorkloadFlow, WorkloadOutcome, size_words};
use crosslane_driver::Plan;
use crosslane_results::Latencies;

use crate::link_use::{link_rows, sharing};
use crate::quantity::{mebibytes, megabytes, microseconds, percent};
use crate::table::{Align, Table};
use crate::why::{Why, has_column};

/// What every row begins with: sizes and times, as `perftest` prints them.
pub const TIMES: [(&str, Align); 7] = [
    ("bytes", Align::Right),
    ("iterations", Align::Right),
    ("min us", Align::Right),
    ("typical", Align::Right),
    ("average", Align::Right),
    ("p99", Align::Right),
    ("max", Align::Right),
];

/// The same of transfers, with how many are on their way at once.
pub fn transfer_columns() -> Vec<(&'static str, Align)> {
    let [bytes, iterations, times @ ..] = TIMES;
    [bytes, iterations, ("in flight", Align::Right)].into_iter().chain(times).collect()
}

/// Columns that a narrow terminal leaves out, the least important first.
pub const SPARE: [&str; 10] = [
    "average",
    "max",
    "MiB/s",
    "TLP B",
    "app MB/s",
    "less DLLPs",
    "p99",
    "iterations",
    "ceiling MB/s",
    "in flight",
];

/// The whole page: rows, then what belongs to the last scenario.
#[must_use]
pub fn page(outcomes: &[WorkloadOutcome], whys: &[Why]) -> String {
    let Some(last) = outcomes.last() else { return String::new() };
    if outcomes.iter().any(|outcome| outcome.round_trips.is_some()) {
        return latency_page(outcomes, whys);
    }
    let mut page = String::new();
    // Where a size failed the others are shown; the errors stand behind the page.
    if outcomes.iter().all(|outcome| outcome.flows.is_empty()) {
        return page;
    }
    if let [flow] = &last.flows[..] {
        page.push_str(&heading(flow, last));
    }
    page.push_str(&flow_rows(outcomes, whys));
    page.push('\n');
    if last.flows.is_empty() {
        return page;
    }
    if outcomes.len() > 1 {
        let _ = writeln!(page, "In the run of {}:\n", size_words(last.job.size_bytes()));
    }
    page.push_str(&details(last));
    page.push_str(&whys.last().map(Why::block).unwrap_or_default());
    page.push_str("Links while data moved, percent of the time; right of SKP: idle, by reason\n\n");
    page.push_str(&link_rows(&last.directions, last.span));
    page
}

/// Who moves what, in which TLPs, and which link sets the ceiling.
fn heading(flow: &WorkloadFlow, outcome: &WorkloadOutcome) -> String {
    let measured = &flow.measured;
    let mut heading =
        format!("{}, {}, every byte compared\n", measured.name, job_words(&outcome.job));
    if let Some(ceiling) = &flow.ceiling {
        let _ = writeln!(
            heading,
            "ceiling: {} ({}), {} with {} DW headers",
            ceiling.link,
            ceiling.rate,
            ceiling.carrier.word(),
            ceiling.tlps.header_dw
        );
    }
    heading.push_str(&plan_words(&measured.plan, flow.expected()));
    if !outcome.ports_set.is_empty() {
        let _ = writeln!(heading, "set to another payload first: {}", outcome.ports_set.join(", "));
    }
    heading.push('\n');
    heading
}

/// How it was run, in words.
pub fn job_words(job: &Job) -> String {
    let (Job::Write(options) | Job::Read(options) | Job::Peer(options) | Job::Chain(options)) =
        *job
    else {
        return "ping-pong".to_owned();
    };
    use crosslane_driver::{DescriptorSource, Notification};
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

/// The way, what to expect of it, and why there is no faster one.
pub fn plan_words(plan: &Plan, expected: Expected) -> String {
    let path: Vec<&str> = plan.path.iter().map(|function| function.name.as_str()).collect();
    let (payload, rate) = (plan.max_payload_bytes, megabytes(expected.bytes_per_second));
    let mut words = format!("plan: {}; ", path.join(" -> "));
    let _ = match expected.carrier {
        Carrier::Writes => write!(words, "payloads of {payload} B, {rate} MB/s expected"),
        Carrier::Completions => write!(words, "payloads up to {payload} B, {rate} MB/s at most"),
    };
    for refusal in &plan.refused {
        let _ = write!(words, "\nnot faster: {refusal}");
    }
    words.push('\n');
    words
}

fn flow_rows(outcomes: &[WorkloadOutcome], whys: &[Why]) -> String {
    let several = outcomes.iter().any(|outcome| outcome.flows.len() > 1);
    let mut columns = vec![("flow", Align::Left)];
    if !several {
        columns.clear();
    }
    columns.extend(transfer_columns());
    columns.extend([
        ("TLP B", Align::Right),
        ("app MB/s", Align::Right),
        ("MB/s", Align::Right),
        ("MiB/s", Align::Right),
        ("ceiling MB/s", Align::Right),
        ("less DLLPs", Align::Right),
        ("of it %", Align::Right),
    ]);
    if has_column(whys) {
        columns.push(("bottleneck", Align::Left));
    }
    let mut table = Table::new(&columns).least_first(&SPARE);
    for (outcome, why) in outcomes.iter().zip(whys) {
        for flow in &outcome.flows {
            let name = several.then(|| flow.measured.name.clone());
            let bottleneck = has_column(whys).then(|| why.cell());
            table.row(name.into_iter().chain(flow_cells(flow, &outcome.job)).chain(bottleneck));
        }
    }
    table.to_string()
}

fn flow_cells(flow: &WorkloadFlow, job: &Job) -> Vec<String> {
    let none = || "-".to_owned();
    let measured = &flow.measured;
    let ceiling = flow.ceiling.as_ref();
    let rate = measured.hardware_bytes_per_second();
    let mut cells = transfer_cells(flow, job);
    cells.extend([
        ceiling.map_or_else(none, |c| length_words(c.tlps.payload_bytes())),
        megabytes(measured.application_bytes_per_second()),
        megabytes(rate),
        mebibytes(rate),
        ceiling.map_or_else(none, |c| megabytes(c.ceiling.bytes_per_second)),
        ceiling.map_or_else(none, |c| megabytes(c.ceiling.less_dllps_bytes_per_second)),
        flow.share().map_or_else(none, percent),
    ]);
    cells
}

/// The cells of [`transfer_columns`].
pub fn transfer_cells(flow: &WorkloadFlow, job: &Job) -> Vec<String> {
    let measured = &flow.measured;
    let counts = [measured.size_bytes, measured.iterations, job.in_flight()];
    let counts = counts.map(|count| count.to_string()).into_iter();
    counts.chain(latency_cells(&measured.statistics())).collect()
}

/// Five numbers, in microseconds.
pub fn latency_cells(latencies: &Latencies) -> [String; 5] {
    [
        latencies.min_ps,
        latencies.typical_ps,
        latencies.average_ps,
        latencies.p99_ps,
        latencies.max_ps,
    ]
    .map(microseconds)
}

/// An average length: whole where it is whole.
fn length_words(bytes: f64) -> String {
    if bytes.fract() == 0.0 { format!("{bytes:.0}") } else { format!("{bytes:.1}") }
}

/// What is told once, of the last scenario.
fn details(outcome: &WorkloadOutcome) -> String {
    let mut text = String::new();
    if outcome.flows.len() > 1 {
        text.push_str(&sums(outcome));
    }
    let slowest = outcome.flows.iter().min_by(|a, b| {
        let rate = |flow: &WorkloadFlow| flow.measured.hardware_bytes_per_second();
        rate(a).total_cmp(&rate(b))
    });
    let Some(flow) = slowest else { return text };
    if outcome.flows.len() > 1 {
        let _ = writeln!(text, "Of the slowest flow, {}:", flow.measured.name);
    }
    let measured = &flow.measured;
    if let Some(first) = measured.post_to_first_tlp {
        let what = if measured.channels[0].kind == crosslane_driver::ChannelKind::H2c {
            "first read request"
        } else {
            "first data TLP"
        };
        let _ = write!(text, "{what} {} us after the post", microseconds(first.0));
        if let Some(registration) = measured.registration {
            let apart = microseconds(registration.0);
            let _ = write!(text, "; registering the memory took {apart} us, apart");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Several flows together.
fn sums(outcome: &WorkloadOutcome) -> String {
    let sum = |rate: fn(&crosslane_bench::Measured) -> f64| {
        outcome.flows.iter().map(|flow| rate(&flow.measured)).sum::<f64>()
    };
    let mut text = format!(
        "sum of the flows' rates: {} MB/s by the engines' timers, {} MB/s as the applications see \
         it\n",
        megabytes(sum(crosslane_bench::Measured::hardware_bytes_per_second)),
        megabytes(sum(crosslane_bench::Measured::application_bytes_per_second))
    );
    if let Some(common) = &outcome.common {
        let rate = common.bytes_per_second();
        let _ = writeln!(
            text,
            "while all were active, {} us: {} MB/s ({} MiB/s)",
            microseconds(common.to.since(common.from).0),
            megabytes(rate),
            mebibytes(rate)
        );
    }
    text.push_str(&sharing(&outcome.directions, outcome.span));
    text
}

fn latency_page(outcomes: &[WorkloadOutcome], whys: &[Why]) -> String {
    let mut page = String::new();
    let round_trips = || outcomes.iter().filter_map(|outcome| outcome.round_trips.as_ref());
    if let Some(first) = round_trips().next() {
        let _ = writeln!(page, "{}, one way: half of a round trip", first.name);
        page.push_str(&plan_words(&first.plan, Expected::of_writes(&first.plan)));
        page.push('\n');
    }
    let mut columns = TIMES.to_vec();
    if has_column(whys) {
        columns.push(("bottleneck", Align::Left));
    }
    let mut table = Table::new(&columns).least_first(&SPARE);
    for (outcome, why) in outcomes.iter().zip(whys) {
        let Some(trips) = &outcome.round_trips else { continue };
        let counts = [trips.message_bytes.to_string(), trips.round_trips.len().to_string()];
        let bottleneck = has_column(whys).then(|| why.cell());
        table.row(counts.into_iter().chain(latency_cells(&trips.one_way())).chain(bottleneck));
    }
    page.push_str(&table.to_string());
    let block = whys.last().map(Why::block).unwrap_or_default();
    if !block.is_empty() {
        let _ = write!(page, "\n{}", block.trim_end());
        page.push('\n');
    }
    page
}
