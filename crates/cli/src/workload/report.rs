// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of workloads as text: rows as `perftest` prints them, the plan, what limits the run,
//! and the use of each link.

use std::fmt::Write as _;

use crosslane::driver::{DescriptorSource, Notification};
use crosslane::experiment::{Workload, size_words};
use crosslane::results::{Ceiling, Channel, Flow, Latencies, PlanSummary, Scenario, Transfers};
use crosslane_report::runs::{SERVED, SERVED_LATENCY};

use crate::link_use::{link_rows, rate_words, sharing};
use crate::quantity::{mebibytes, megabytes, microseconds, percent};
use crate::table::{Align, Table};
use crate::why::{Why, has_column};

/// First columns of every row: sizes and times, as `perftest` prints them.
const TIMES: [(&str, Align); 7] = [
    ("bytes", Align::Right),
    ("iterations", Align::Right),
    ("min us", Align::Right),
    ("typical", Align::Right),
    ("average", Align::Right),
    ("p99", Align::Right),
    ("max", Align::Right),
];

/// Further columns of a lab, whose links are known.
const OF_LINKS: [(&str, Align); 7] = [
    ("TLP B", Align::Right),
    ("app MB/s", Align::Right),
    ("MB/s", Align::Right),
    ("MiB/s", Align::Right),
    ("ceiling MB/s", Align::Right),
    ("less DLLPs", Align::Right),
    ("of it %", Align::Right),
];

/// Further columns of cards. Served ones have the first alone: their engines' timers may run in
/// another time.
const OF_CARDS: [(&str, Align); 5] = [
    ("app MB/s", Align::Right),
    ("MB/s", Align::Right),
    ("MiB/s", Align::Right),
    ("plan MB/s", Align::Right),
    ("of it %", Align::Right),
];

/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 10] = [
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

/// Formats runs in a lab: their rows, then details of the last one.
#[must_use]
pub fn page(scenarios: &[Scenario], workloads: &[Workload], whys: &[Why]) -> String {
    let Some(last) = scenarios.last() else { return String::new() };
    if scenarios.iter().any(|scenario| scenario.latency.is_some()) {
        let mut page = latency_rows(scenarios, whys);
        let block = whys.last().map(Why::block).unwrap_or_default();
        if !block.is_empty() {
            let _ = writeln!(page, "\n{}", block.trim_end());
        }
        return page;
    }
    let mut page = String::new();
    // If one size failed the others are shown; the errors stand behind the page.
    if scenarios.iter().all(|scenario| scenario.flows.is_empty()) {
        return page;
    }
    page.push_str(&heading(last, workloads));
    page.push_str(&flow_rows(scenarios, whys, &OF_LINKS, lab_cells));
    page.push('\n');
    if last.flows.is_empty() {
        return page;
    }
    if let (true, Some(bytes)) = (scenarios.len() > 1, last.bytes) {
        let _ = writeln!(page, "In the run of {}:\n", size_words(bytes));
    }
    page.push_str(&details(last));
    page.push_str(&whys.last().map(Why::block).unwrap_or_default());
    page.push_str("Links while data moved, percent of the time; right of SKP: idle, by reason\n\n");
    page.push_str(&link_rows(&last.links));
    page
}

/// Formats runs on cards. Nothing can be lifted there, so what limits them is what the engines'
/// counters and the plan tell.
#[must_use]
pub fn cards_page(
    scenarios: &[Scenario],
    workloads: &[Workload],
    is_served: bool,
    no_why: bool,
) -> String {
    let mut page = String::new();
    if scenarios.iter().any(|scenario| scenario.latency.is_some()) {
        let _ = writeln!(page, "{}", latency_rows(scenarios, &[]));
        if is_served {
            let _ = writeln!(page, "({SERVED_LATENCY})");
        }
    } else if let Some(last) = scenarios.last() {
        page.push_str(&heading(last, workloads));
        let columns = if is_served { &OF_CARDS[..1] } else { &OF_CARDS };
        let _ = writeln!(page, "{}", flow_rows(scenarios, &[], columns, card_cells));
        if is_served {
            let _ = writeln!(page, "({SERVED})\n");
        }
        if !no_why {
            page.push_str(&waits(last, is_served));
        }
    }
    page
}

/// The ends, the way of working, the link that sets the ceiling, and the plan of a single flow.
fn heading(last: &Scenario, workloads: &[Workload]) -> String {
    let ([flow], Some(workload)) = (&last.flows[..], workloads.last()) else {
        return String::new();
    };
    let mut heading = format!("{}, {}, every byte compared\n", flow.name, mode_words(workload));
    if let Some(ceiling) = &flow.ceiling {
        heading.push_str(&ceiling_words(ceiling, last));
        heading.push('\n');
    }
    if let Some(transfers) = flow.transfers() {
        heading.push_str(&plan_words(&transfers.plan, reads(transfers)));
    }
    if !last.ports_set.is_empty() {
        let _ = writeln!(heading, "set to another payload first: {}", last.ports_set.join(", "));
    }
    heading.push('\n');
    heading
}

/// Formats the direction of a ceiling: `ceiling: fpga1 -> sw1.p1 (Gen2 x4), writes with …`.
pub fn ceiling_words(ceiling: &Ceiling, scenario: &Scenario) -> String {
    let name = ceiling.direction.as_deref().unwrap_or_default();
    let link = scenario.links.iter().find(|link| link.direction == name);
    let (rate, header_dw) = (link.map(rate_words).unwrap_or_default(), ceiling.header_dw);
    format!("ceiling: {name} ({rate}), {} with {header_dw} DW headers", ceiling.carrier)
}

/// Whether the data cross their first link in completions.
fn reads(transfers: &Transfers) -> bool {
    transfers.channels.first().is_some_and(|channel| channel.kind == "h2c")
}

fn mode_words(workload: &Workload) -> String {
    let Some(options) = workload.options() else { return "ping-pong".to_owned() };
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

/// Formats the path, the rate to expect of it, and the reasons for which there is no faster one.
fn plan_words(plan: &PlanSummary, is_read: bool) -> String {
    let (path, payload) = (plan.path.join(" -> "), plan.max_payload_bytes);
    let rate = megabytes(plan.expected_bytes_per_second);
    let mut words = match is_read {
        false => format!("plan: {path}; payloads of {payload} B, {rate} MB/s expected"),
        true => format!("plan: {path}; payloads up to {payload} B, {rate} MB/s at most"),
    };
    for refusal in &plan.not_faster {
        let _ = write!(words, "\nnot faster: {refusal}");
    }
    words.push('\n');
    words
}

/// Formats a row for each flow of each run; flows are named where a run has several.
fn flow_rows(
    scenarios: &[Scenario],
    whys: &[Why],
    more: &[(&str, Align)],
    cells: fn(&Flow) -> Vec<String>,
) -> String {
    let several = scenarios.iter().any(|scenario| scenario.flows.len() > 1);
    let [bytes, iterations, times @ ..] = TIMES;
    let mut columns = vec![("flow", Align::Left)];
    if !several {
        columns.clear();
    }
    columns.extend([bytes, iterations, ("in flight", Align::Right)].into_iter().chain(times));
    columns.extend(more);
    if has_column(whys) {
        columns.push(("bottleneck", Align::Left));
    }
    let mut table = Table::new(&columns).least_first(&SPARE);
    for (index, scenario) in scenarios.iter().enumerate() {
        for flow in &scenario.flows {
            let name = several.then(|| flow.name.clone()).into_iter();
            let counts = [flow.bytes, flow.iterations, flow.in_flight.unwrap_or_default()];
            let counts = counts.map(|count| count.to_string()).into_iter();
            let times = latency_cells(&flow.latency.unwrap_or_default());
            let own = cells(flow).into_iter().take(more.len());
            let bottleneck = whys.get(index).filter(|_| has_column(whys)).map(Why::cell);
            table.row(name.chain(counts).chain(times).chain(own).chain(bottleneck));
        }
    }
    table.to_string()
}

/// The cells of [`OF_LINKS`].
fn lab_cells(flow: &Flow) -> Vec<String> {
    let none = || "-".to_owned();
    let (ceiling, rate) = (flow.ceiling.as_ref(), flow.rate().unwrap_or_default());
    vec![
        ceiling.map_or_else(none, |it| length_words(it.payload_bytes)),
        megabytes(flow.application_bytes_per_second.unwrap_or_default()),
        megabytes(rate),
        mebibytes(rate),
        ceiling.map_or_else(none, |it| megabytes(it.bytes_per_second)),
        ceiling.map_or_else(none, |it| megabytes(it.less_dllps_bytes_per_second)),
        flow.share_of_ceiling.map_or_else(none, percent),
    ]
}

/// The cells of [`OF_CARDS`].
fn card_cells(flow: &Flow) -> Vec<String> {
    let rate = flow.rate().unwrap_or_default();
    let plan = flow.transfers().map_or(0.0, |it| it.plan.expected_bytes_per_second);
    vec![
        megabytes(flow.application_bytes_per_second.unwrap_or_default()),
        megabytes(rate),
        mebibytes(rate),
        megabytes(plan),
        if plan > 0.0 { percent(rate / plan) } else { "-".to_owned() },
    ]
}

/// Formats the five numbers of latencies, in microseconds.
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

/// Formats an average length; whole if it is whole.
pub fn length_words(bytes: f64) -> String {
    if bytes.fract() == 0.0 { format!("{bytes:.0}") } else { format!("{bytes:.1}") }
}

/// Formats sums of several flows, and the begin of the slowest.
fn details(scenario: &Scenario) -> String {
    let several = scenario.flows.len() > 1;
    let mut text = if several { sums(scenario) } else { String::new() };
    let rate = |flow: &Flow| flow.rate().unwrap_or_default();
    let slowest = scenario.flows.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)));
    let Some(flow) = slowest else { return text };
    if several {
        let _ = writeln!(text, "Of the slowest flow, {}:", flow.name);
    }
    let transfers = flow.transfers();
    if let Some((transfers, first_ps)) =
        transfers.and_then(|transfers| Some((transfers, transfers.post_to_first_tlp_ps?)))
    {
        let first = if reads(transfers) { "first read request" } else { "first data TLP" };
        let _ = write!(text, "{first} {} us after the post", microseconds(first_ps));
        if let Some(registration_ps) = transfers.registration_ps {
            let apart = microseconds(registration_ps);
            let _ = write!(text, "; registering the memory took {apart} us, apart");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn sums(scenario: &Scenario) -> String {
    let sum = |rate: fn(&Flow) -> Option<f64>| {
        megabytes(scenario.flows.iter().filter_map(rate).sum::<f64>())
    };
    let mut text = format!(
        "sum of the flows' rates: {} MB/s by the engines' timers, {} MB/s as the applications see \
         it\n",
        sum(Flow::rate),
        sum(|flow| flow.application_bytes_per_second)
    );
    if let Some(all) = &scenario.while_all_active {
        let _ = writeln!(
            text,
            "while all were active, {} us: {} MB/s ({} MiB/s)",
            microseconds(all.to_ps - all.from_ps),
            megabytes(all.bytes_per_second),
            mebibytes(all.bytes_per_second)
        );
    }
    text.push_str(&sharing(&scenario.links));
    text
}

fn latency_rows(scenarios: &[Scenario], whys: &[Why]) -> String {
    let mut page = String::new();
    let latencies = || scenarios.iter().filter_map(|scenario| scenario.latency.as_ref());
    if let Some(first) = latencies().next() {
        let _ = writeln!(page, "{}, one way: half of a round trip", first.name);
        if let Some(plan) = &first.plan {
            page.push_str(&plan_words(plan, false));
        }
        page.push('\n');
    }
    let mut columns = TIMES.to_vec();
    if has_column(whys) {
        columns.push(("bottleneck", Align::Left));
    }
    let mut table = Table::new(&columns).least_first(&SPARE);
    for (index, scenario) in scenarios.iter().enumerate() {
        let Some(latency) = &scenario.latency else { continue };
        let counts = [latency.bytes.to_string(), latency.round_trips.to_string()];
        let bottleneck = whys.get(index).filter(|_| has_column(whys)).map(Why::cell);
        table.row(counts.into_iter().chain(latency_cells(&latency.one_way)).chain(bottleneck));
    }
    page + &table.to_string()
}

/// Clocks in which a channel was idle, by reason.
fn idle(channel: &Channel) -> [(&'static str, u64); 6] {
    [
        ("held back by the link", channel.link_clocks.into()),
        ("without a tag", channel.no_tag_clocks.into()),
        ("without a descriptor", channel.no_descriptor_clocks),
        ("without data in the stream", channel.no_data_clocks.into()),
        ("without the peer's credit", channel.no_credit_clocks.into()),
        ("between descriptors", channel.gap_clocks.into()),
    ]
}

/// Formats the idle clocks of each channel while data moved.
fn waits(scenario: &Scenario, is_served: bool) -> String {
    let clock = if is_served { ", in clocks of their own time" } else { "" };
    let mut text =
        format!("Why not faster: what the engines have counted while data moved{clock}\n\n");
    for flow in &scenario.flows {
        for channel in flow.transfers().iter().flat_map(|transfers| &transfers.channels) {
            let clocks = channel.last_clocks.saturating_sub(channel.first_clocks);
            let share = |part: u64| part as f64 / clocks.max(1) as f64;
            let mut idle: Vec<(&str, u64)> =
                idle(channel).into_iter().filter(|(_, count)| *count > 0).collect();
            idle.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let words: Vec<String> =
                idle.iter().map(|(what, n)| format!("{} % {what}", percent(share(*n)))).collect();
            let words = match words.is_empty() {
                true => "never idle".to_owned(),
                false => words.join(", "),
            };
            let _ = writeln!(text, "{}, {clocks} clocks: {words}", flow.name);
        }
    }
    text.push('\n');
    text
}
