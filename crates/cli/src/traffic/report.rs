// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of generated traffic as text: rows as `perftest` prints them, then the use of each
//! link.

use std::fmt::Write as _;

use crosslane::experiment::size_words;
use crosslane::results::{Detail, Flow, Scenario};

use crate::link_use::{link_rows, sharing};
use crate::quantity::{mebibytes, megabytes, percent};
use crate::table::{Align, Table};
use crate::why::{Why, has_column};
use crate::workload::report::{ceiling_words, latency_cells, length_words};

/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 9] = [
    "average",
    "max",
    "MiB/s",
    "TLP B",
    "less DLLPs",
    "p99",
    "iterations",
    "ceiling MB/s",
    "in flight",
];

/// Formats runs: the rows of each flow, then the links of the last run. `is_relaxed` tells whether
/// requests carry the relaxed ordering attribute.
#[must_use]
pub fn page(scenarios: &[Scenario], whys: &[Why], is_relaxed: bool) -> String {
    let mut page = String::new();
    let Some(last) = scenarios.last() else { return page };
    if let [flow] = &last.flows[..] {
        page.push_str(&flow_heading(flow, last, is_relaxed));
    }
    page.push_str(&flow_rows(scenarios, whys));
    page.push('\n');
    page.push_str(&sharing(&last.links));
    page.push_str(&whys.last().map(Why::block).unwrap_or_default());
    if scenarios.len() > 1 {
        let sizes: Vec<String> = last.flows.iter().map(|flow| size_words(flow.bytes)).collect();
        let _ = write!(page, "Links in the run of {}", sizes.join(", "));
    } else {
        page.push_str("Links");
    }
    page.push_str(", percent of the time; right of SKP: idle, by reason\n\n");
    page.push_str(&link_rows(&last.links));
    page
}

/// Formats the ends, and the link that sets the ceiling.
fn flow_heading(flow: &Flow, scenario: &Scenario, is_relaxed: bool) -> String {
    let is_core = matches!(&flow.detail, Detail::Traffic(traffic) if traffic.is_core);
    let memory = if is_core { "uncached" } else { "by its own engine" };
    let mut heading = format!("{} {memory}", flow.name);
    if is_relaxed {
        heading.push_str(", relaxed ordering");
    }
    if let Some(ceiling) = &flow.ceiling {
        let _ = write!(heading, "\n{}", ceiling_words(ceiling, scenario));
    }
    heading.push_str("\n\n");
    heading
}

/// Formats a row for each flow and size; flows are named where there are several.
fn flow_rows(scenarios: &[Scenario], whys: &[Why]) -> String {
    let count = scenarios.last().map_or(0, |scenario| scenario.flows.len());
    let mut columns = vec![("flow", Align::Left)];
    if count == 1 {
        columns.clear();
    }
    columns.extend([
        ("bytes", Align::Right),
        ("iterations", Align::Right),
        ("in flight", Align::Right),
        ("min us", Align::Right),
        ("typical", Align::Right),
        ("average", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("TLP B", Align::Right),
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
    for index in 0..count {
        for (scenario, why) in scenarios.iter().zip(whys) {
            let flow = &scenario.flows[index];
            let name = (count > 1).then(|| flow.name.clone());
            let bottleneck = has_column(whys).then(|| why.cell());
            table.row(name.into_iter().chain(flow_cells(flow)).chain(bottleneck));
        }
    }
    let mut rows = table.to_string();
    let mut flows = scenarios.iter().flat_map(|scenario| &scenario.flows);
    if flows.any(|flow| flow.ceiling.as_ref().is_some_and(|ceiling| ceiling.is_estimate)) {
        rows.push_str("~ for regular completions; --shuffle cuts them at random\n");
    }
    rows
}

fn flow_cells(flow: &Flow) -> Vec<String> {
    let none = || "-".to_owned();
    let ceiling = flow.ceiling.as_ref();
    let about = if ceiling.is_some_and(|it| it.is_estimate) { "~" } else { "" };
    let of_ceiling = |text: Option<String>| text.map_or_else(none, |text| about.to_owned() + &text);
    let rate = flow.rate().unwrap_or_default();
    let mut cells = vec![
        flow.bytes.to_string(),
        flow.iterations.to_string(),
        flow.in_flight.unwrap_or_default().to_string(),
    ];
    cells.extend(match flow.latency.filter(|_| flow.iterations > 0) {
        Some(latencies) => latency_cells(&latencies),
        None => std::array::from_fn(|_| none()),
    });
    cells.extend([
        of_ceiling(ceiling.map(|it| length_words(it.payload_bytes))),
        megabytes(rate),
        mebibytes(rate),
        of_ceiling(ceiling.map(|it| megabytes(it.bytes_per_second))),
        of_ceiling(ceiling.map(|it| megabytes(it.less_dllps_bytes_per_second))),
        of_ceiling(flow.share_of_ceiling.map(percent)),
    ]);
    cells
}
