// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks of transfers through the driver, and of generated traffic: rows, the plan, what
//! limits the run, and the use of each link.

use std::fmt::Write as _;

use crosslane_results::quantity::{mebibytes, megabytes, microseconds, percent, size_words};
use crosslane_results::{
    Bench, Ceiling, Channel, Flow, IDLE_REASONS, Link, PlanSummary, Platform, ScenarioResult,
    Transfers,
};

use super::why::{block, last_block, push_bottlenecks};
use super::{Columns, Notes};
use crate::runs::run_page::{
    APPLICATION, BINARY_RATE, BYTES, CEILING, FLOW, IN_FLIGHT, ITERATIONS, LESS_DLLPS, MESSAGE,
    PAYLOAD, PLAN, RATE, ROUND_TRIPS, SHARE, SHARE_OF_PLAN, times,
};
use crate::runs::{SERVED, SERVED_LATENCY};
use crate::table::{Field, Table};

/// Columns of flows in a lab, whose links are known.
const OF_LINKS: [Field<Flow>; 7] =
    [PAYLOAD, APPLICATION, RATE, BINARY_RATE, CEILING, LESS_DLLPS, SHARE];
/// Columns of generated traffic.
const OF_TRAFFIC: [Field<Flow>; 6] = [
    (PAYLOAD.0, |flow| marked(flow, PAYLOAD)),
    RATE,
    BINARY_RATE,
    (CEILING.0, |flow| marked(flow, CEILING)),
    (LESS_DLLPS.0, |flow| marked(flow, LESS_DLLPS)),
    (SHARE.0, |flow| marked(flow, SHARE)),
];
/// Columns of cards. Served ones have the first alone: their engines' timers may run in another
/// time.
const OF_CARDS: [Field<Flow>; 5] = [APPLICATION, RATE, BINARY_RATE, PLAN, SHARE_OF_PLAN];

/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 10] = [
    "average", "max", "MiB/s", "TLP B", "app MB/s", "less DLLPs", "p99", "iterations",
    "ceiling MB/s", "in flight",
];

/// Formats transfers or ping-pongs: their rows, then details of the last run.
pub fn transfers(bench: &Bench, notes: Notes<'_>, columns: Columns) -> String {
    let Some(last) = bench.scenarios.last() else { return String::new() };
    if bench.scenarios.iter().any(|scenario| scenario.latency.is_some()) {
        let mut text = ping_pongs(&bench.scenarios, columns) + &last_block(&bench.scenarios);
        if let Platform::Cards { served, .. } = bench.platform {
            text.push('\n');
            if served {
                let _ = writeln!(text, "({SERVED_LATENCY})");
            }
        }
        return text;
    }
    match bench.platform {
        Platform::Lab { .. } => in_lab(bench, last, notes, columns),
        Platform::Cards { served, .. } => {
            let fields = if served { &OF_CARDS[..1] } else { &OF_CARDS };
            let mut text = heading(last, notes);
            let _ = writeln!(text, "{}", flow_table(bench, fields).to_text(columns.tables));
            if served {
                let _ = writeln!(text, "({SERVED})\n");
            }
            // Nothing can be lifted there: the engines' counters tell what limits a run.
            if notes.has_counters {
                text.push_str(&waits(last, served));
            }
            text
        }
    }
}

fn in_lab(bench: &Bench, last: &ScenarioResult, notes: Notes<'_>, columns: Columns) -> String {
    // If one size failed the others are shown; the errors stand behind the text.
    if bench.scenarios.iter().all(|scenario| scenario.flows.is_empty()) {
        return String::new();
    }
    let mut text = heading(last, notes);
    let _ = writeln!(text, "{}", flow_table(bench, &OF_LINKS).to_text(columns.tables));
    if last.flows.is_empty() {
        return text;
    }
    if let (true, Some(bytes)) = (bench.scenarios.len() > 1, last.bytes) {
        let _ = writeln!(text, "In the run of {}:\n", size_words(bytes));
    }
    text.push_str(&details(last));
    text.push_str(&block(last));
    text.push_str("Links while data moved, percent of the time; right of SKP: idle, by reason\n\n");
    text + &link_table(&last.links).to_text(columns.tables)
}

/// Formats generated traffic: the rows of each flow, then the links of the last run.
pub fn traffic(bench: &Bench, notes: Notes<'_>, columns: Columns) -> String {
    let Some(last) = bench.scenarios.last() else { return String::new() };
    let is_in_turn = bench.flows_in_turn();
    let is_named = is_in_turn || last.flows.len() > 1;
    let mut text = match &last.flows[..] {
        [flow] if !is_named => traffic_heading(flow, last, notes),
        _ if notes.modes.is_empty() => String::new(),
        _ => format!("{}\n\n", notes.modes),
    };
    text.push_str(&traffic_table(bench, last.flows.len(), is_named).to_text(columns.tables));
    let mut flows = bench.flows();
    if flows.any(is_estimate) {
        text.push_str("~ for regular completions; --shuffle cuts them at random\n");
    }
    let _ = write!(text, "\n{}{}", sharing(&last.links), block(last));
    if bench.scenarios.len() > 1 {
        let words = |flow: &Flow| match is_in_turn {
            true => format!("{} of {}", flow.name, size_words(flow.bytes)),
            false => size_words(flow.bytes),
        };
        let words: Vec<String> = last.flows.iter().map(words).collect();
        let _ = write!(text, "Links in the run of {}", words.join(", "));
    } else {
        text.push_str("Links");
    }
    text.push_str(", percent of the time; right of SKP: idle, by reason\n\n");
    text + &link_table(&last.links).to_text(columns.tables)
}

/// Formats the ends, and the link that sets the ceiling.
fn traffic_heading(flow: &Flow, scenario: &ScenarioResult, notes: Notes<'_>) -> String {
    let memory = match flow.traffic() {
        Some(traffic) if traffic.is_streaming => "by streaming loads",
        Some(traffic) if traffic.is_core => "uncached",
        _ => "by its own engine",
    };
    let mut heading = format!("{} {memory}", flow.name);
    if !notes.modes.is_empty() {
        let _ = write!(heading, ", {}", notes.modes);
    }
    if let Some(ceiling) = &flow.ceiling {
        let _ = write!(heading, "\n{}", ceiling_words(ceiling, scenario));
    }
    heading.push_str("\n\n");
    heading
}

/// Formats a field with a mark if it is estimated.
fn marked(flow: &Flow, (_, text): Field<Flow>) -> String {
    let text = text(flow);
    if is_estimate(flow) && text != "-" { format!("~{text}") } else { text }
}

fn is_estimate(flow: &Flow) -> bool {
    flow.ceiling.as_ref().is_some_and(|ceiling| ceiling.is_estimate)
}

/// Returns a table with the runs of the first flow, then those of the next one.
fn traffic_table(bench: &Bench, flows: usize, is_named: bool) -> Table {
    let rows = (0..flows).flat_map(|index| bench.scenarios.iter().map(move |one| (one, index)));
    let rows: Vec<(&ScenarioResult, &Flow)> =
        rows.map(|(one, index)| (one, &one.flows[index])).collect();
    rows_of(bench, is_named, &rows, &OF_TRAFFIC)
}

/// Returns a table with the flows of the first run, then those of the next one.
fn flow_table(bench: &Bench, more: &[Field<Flow>]) -> Table {
    let rows = bench.scenarios.iter().flat_map(|one| one.flows.iter().map(move |flow| (one, flow)));
    let rows: Vec<(&ScenarioResult, &Flow)> = rows.collect();
    let has_several = bench.scenarios.iter().any(|scenario| scenario.flows.len() > 1);
    // The same ends by writes and by reads have different names.
    let differ = rows.windows(2).any(|pair| pair[0].1.name != pair[1].1.name);
    rows_of(bench, has_several || differ, &rows, more)
}

/// Returns a table of flows with their runs, which are named if they differ.
fn rows_of(
    bench: &Bench,
    is_named: bool,
    rows: &[(&ScenarioResult, &Flow)],
    more: &[Field<Flow>],
) -> Table {
    let named = [FLOW].into_iter().filter(|_| is_named);
    let counts = [BYTES, ITERATIONS, IN_FLIGHT].into_iter().chain(times());
    let fields: Vec<Field<Flow>> = named.chain(counts).chain(more.iter().copied()).collect();
    let mut table = Table::of(&fields, rows.iter().map(|(_, flow)| *flow)).least_first(&SPARE);
    push_bottlenecks(&mut table, &bench.scenarios, rows.iter().map(|(scenario, _)| *scenario));
    table
}

/// Formats the ends, the modes, the link that sets the ceiling, and the plan of a single flow.
fn heading(last: &ScenarioResult, notes: Notes<'_>) -> String {
    let [flow] = &last.flows[..] else { return String::new() };
    let mut heading = format!("{}, {}, every byte compared\n", flow.name, notes.modes);
    if let Some(ceiling) = &flow.ceiling {
        let _ = writeln!(heading, "{}", ceiling_words(ceiling, last));
    }
    if let Some(transfers) = flow.transfers() {
        heading.push_str(&plan_words(&transfers.plan, is_read(transfers)));
    }
    if !last.ports_set.is_empty() {
        let _ = writeln!(heading, "set to another payload first: {}", last.ports_set.join(", "));
    }
    heading.push('\n');
    heading
}

/// Formats the direction of a ceiling: `ceiling: fpga1 -> sw1.p1 (Gen2 x4), writes with …`.
fn ceiling_words(ceiling: &Ceiling, scenario: &ScenarioResult) -> String {
    let name = ceiling.direction.as_deref().unwrap_or_default();
    let link = scenario.links.iter().find(|link| link.direction == name);
    let rate = link.map(|link| link.rate()).unwrap_or_default();
    format!("ceiling: {name} ({rate}), {} with {} DW headers", ceiling.carrier, ceiling.header_dw)
}

/// Returns whether the data cross their first link in completions.
fn is_read(transfers: &Transfers) -> bool {
    transfers.channels.first().is_some_and(|channel| channel.kind == "h2c")
}

/// Formats the path, its expected rate, and the reasons for which there is no faster one.
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

/// Formats sums of several flows, and the begin of the slowest.
fn details(scenario: &ScenarioResult) -> String {
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
        let first = if is_read(transfers) { "first read request" } else { "first data TLP" };
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

fn sums(scenario: &ScenarioResult) -> String {
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

/// Formats ping-pongs: the plan of the first one, and a row for each.
fn ping_pongs(scenarios: &[ScenarioResult], columns: Columns) -> String {
    let runs = || scenarios.iter().filter_map(|one| Some((one, one.latency.as_ref()?)));
    let mut text = String::new();
    if let Some((_, first)) = runs().next() {
        let _ = writeln!(text, "{}, one way: half of a round trip", first.name);
        if let Some(plan) = &first.plan {
            text.push_str(&plan_words(plan, false));
        }
        text.push('\n');
    }
    let fields: Vec<_> = [MESSAGE, ROUND_TRIPS].into_iter().chain(times()).collect();
    let mut table = Table::of(&fields, runs().map(|(_, latency)| latency)).least_first(&SPARE);
    push_bottlenecks(&mut table, scenarios, runs().map(|(scenario, _)| scenario));
    text + &table.to_text(columns.tables)
}

/// Returns the clocks in which a channel was idle, by reason.
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
fn waits(scenario: &ScenarioResult, is_served: bool) -> String {
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

/// Formats the busiest direction that several flows share, if there is one: the first of them along
/// the path.
fn sharing(links: &[Link]) -> String {
    let load = |link: &Link| link.bytes_per_second / link.ceiling_bytes_per_second.max(1.0);
    let shared = links.iter().filter(|link| link.flows.len() > 1);
    let busiest = shared.rev().max_by(|a, b| load(a).total_cmp(&load(b)));
    let Some(link) = busiest else { return String::new() };
    // Not the sum of the flows' rates: each of those is over the flow's own time.
    let (together, ceiling) = (link.bytes_per_second, link.ceiling_bytes_per_second);
    let mut text = format!(
        "{} flows share {} ({}): {} MB/s ({} MiB/s) together",
        link.flows.len(),
        link.direction,
        link.rate(),
        megabytes(together),
        mebibytes(together)
    );
    if ceiling > 0.0 {
        let _ = write!(
            text,
            ", {} % of the {} MB/s that it can carry",
            percent(together / ceiling),
            megabytes(ceiling)
        );
    }
    text.push_str("\n\n");
    text
}

/// Columns that a narrow terminal leaves out, the least important first: counts, then the reasons
/// that took the least time, then figures that are nearly the same on every link.
fn spare<'a>(links: &[Link], reasons: &[&'a str]) -> Vec<&'a str> {
    let share = |reason: &str| links.iter().map(|link| link.idle_share(reason)).sum::<f64>();
    let mut reasons = reasons.to_vec();
    reasons.sort_by(|a, b| share(a).total_cmp(&share(b)));
    // The reason that took most time stays.
    reasons.pop();
    ["TLPs"].into_iter().chain(reasons).chain(["SKP", "DLLP", "replay", "rate"]).collect()
}

const REPLAY: Field<Link> = ("replay:", |link| percent(link.share.replay));
const FIELDS: [Field<Link>; 7] = [
    ("direction", |link| link.direction.clone()),
    ("rate", Link::rate),
    ("TLPs:", |link| link.tlps.to_string()),
    ("payload:", |link| percent(link.share.payload)),
    ("header:", |link| percent(link.share.header)),
    ("DLLP:", |link| percent(link.share.dllp)),
    ("SKP:", |link| percent(link.share.skp)),
];

/// Returns a table of the use of each direction, in percent of the time.
fn link_table(links: &[Link]) -> Table {
    let mut fields = FIELDS.to_vec();
    if links.iter().any(|link| link.replayed_bytes > 0) {
        fields.insert(5, REPLAY);
    }
    let is_used = |reason: &&str| links.iter().any(|link| link.idle_share(reason) > 0.0);
    let reasons: Vec<&str> = IDLE_REASONS.into_iter().filter(is_used).collect();
    let mut table = Table::of(&fields, links).least_first(&spare(links, &reasons));
    for reason in reasons {
        let shares = links.iter().map(|link| percent(link.idle_share(reason)));
        table.push_column(&format!("{reason}:"), shares);
    }
    table
}
