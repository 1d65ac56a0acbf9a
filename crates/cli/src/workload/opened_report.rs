// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What opened cards have brought, for a person and for a program. Why it was not faster is what
//! the engines' counters and the plan say: nothing can be lifted on a board to see what it gives.

use std::fmt::Write as _;

use crosslane_bench::ChannelReport;
use crosslane_bench::Expected;
use crosslane_report::runs::{SERVED, SERVED_LATENCY};

use super::opened::OpenedRun;
use super::report::{
    SPARE, TIMES, job_words, latency_cells, plan_words, transfer_cells, transfer_columns,
};
use crate::quantity::{mebibytes, megabytes, percent};
use crate::table::{Align, Table};

/// The page.
#[must_use]
pub fn page(runs: &[OpenedRun], is_served: bool, no_why: bool) -> String {
    let mut page = String::new();
    if runs.iter().any(|run| run.round_trips.is_some()) {
        page.push_str(&latency_page(runs));
        if is_served {
            let _ = writeln!(page, "({SERVED_LATENCY})");
        }
    } else if let Some(last) = runs.last() {
        page.push_str(&flows_page(runs, last, is_served));
        if is_served {
            let _ = writeln!(page, "({SERVED})\n");
        }
        if !no_why {
            page.push_str(&why(last, is_served));
        }
    }
    page
}

fn flows_page(runs: &[OpenedRun], last: &OpenedRun, is_served: bool) -> String {
    let mut page = String::new();
    if let [flow] = &last.flows[..] {
        let words = job_words(&last.job);
        let _ = writeln!(page, "{}, {words}, every byte compared", flow.measured.name);
        page.push_str(&plan_words(&flow.measured.plan, flow.expected()));
        page.push('\n');
    }
    let several = runs.iter().any(|run| run.flows.len() > 1);
    let mut columns = vec![("flow", Align::Left)];
    if !several {
        columns.clear();
    }
    columns.extend(transfer_columns());
    columns.push(("app MB/s", Align::Right));
    // What the engines' timers say of served cards is in another time than all else.
    if !is_served {
        columns.extend([
            ("MB/s", Align::Right),
            ("MiB/s", Align::Right),
            ("plan MB/s", Align::Right),
            ("of it %", Align::Right),
        ]);
    }
    let mut table = Table::new(&columns).least_first(&SPARE);
    for (run, flow) in runs.iter().flat_map(|run| run.flows.iter().map(move |flow| (run, flow))) {
        let measured = &flow.measured;
        let rate = measured.hardware_bytes_per_second();
        let plan = flow.expected().bytes_per_second;
        let mut cells: Vec<String> = several.then(|| measured.name.clone()).into_iter().collect();
        cells.extend(transfer_cells(flow, &run.job));
        cells.push(megabytes(measured.application_bytes_per_second()));
        if !is_served {
            cells.extend([
                megabytes(rate),
                mebibytes(rate),
                megabytes(plan),
                if plan > 0.0 { percent(rate / plan) } else { "-".to_owned() },
            ]);
        }
        table.row(cells);
    }
    let _ = writeln!(page, "{table}");
    page
}

/// `no descriptor`, and the clocks without one; each reason that an engine counts.
fn idle(channel: &ChannelReport) -> [(&'static str, u64); 6] {
    let counters = &channel.counters;
    [
        ("held back by the link", counters.link_clocks.into()),
        ("without a tag", counters.no_tag_clocks.into()),
        ("without a descriptor", channel.no_descriptor_clocks()),
        ("without data in the stream", counters.no_data_clocks.into()),
        ("without the peer's credit", counters.no_credit_clocks.into()),
        ("between descriptors", counters.gap_clocks.into()),
    ]
}

fn why(run: &OpenedRun, is_served: bool) -> String {
    let clock = if is_served { ", in clocks of their own time" } else { "" };
    let mut text =
        format!("Why not faster: what the engines have counted while data moved{clock}\n\n");
    for flow in &run.flows {
        for channel in &flow.measured.channels {
            let counters = &channel.counters;
            let clocks = counters.last_clocks.saturating_sub(counters.first_clocks);
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
            let _ = writeln!(text, "{}, {clocks} clocks: {words}", flow.measured.name);
        }
    }
    text.push('\n');
    text
}

fn latency_page(runs: &[OpenedRun]) -> String {
    let mut page = String::new();
    let trips = || runs.iter().filter_map(|run| run.round_trips.as_ref());
    if let Some(first) = trips().next() {
        let _ = writeln!(page, "{}, one way: half of a round trip", first.name);
        page.push_str(&plan_words(&first.plan, Expected::of_writes(&first.plan)));
        page.push('\n');
    }
    let mut table = Table::new(&TIMES).least_first(&SPARE);
    for trips in trips() {
        let counts = [trips.message_bytes.to_string(), trips.round_trips.len().to_string()];
        table.row(counts.into_iter().chain(latency_cells(&trips.one_way())));
    }
    let _ = writeln!(page, "{table}");
    page
}

/// Said of data that are not right.
#[must_use]
pub fn wrong_sentence(words: u64) -> String {
    format!("{words} words of 4 B are not what was sent")
}
