// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a person reads them: rows as `perftest` prints them, then the use of each link.

use std::fmt::Write as _;

use crosslane_bench::{TrafficFlow, TrafficOutcome, size_words};
use crosslane_fabric::FlowSource;

use crate::link_use::{link_rows, sharing};
use crate::quantity::{mebibytes, megabytes, microseconds, percent};
use crate::table::{Align, Table};
use crate::why::{Why, has_column};

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

/// The whole page: the rows of each flow, then the links of the last scenario.
#[must_use]
pub fn page(outcomes: &[TrafficOutcome], whys: &[Why]) -> String {
    let mut page = String::new();
    let Some(last) = outcomes.last() else { return page };
    if let [flow] = &last.flows[..] {
        page.push_str(&flow_heading(flow, last));
    }
    page.push_str(&flow_rows(outcomes, whys));
    page.push('\n');
    page.push_str(&sharing(&last.directions, last.simulated));
    page.push_str(&whys.last().map(Why::block).unwrap_or_default());
    if outcomes.len() > 1 {
        let sizes: Vec<String> =
            last.flows.iter().map(|f| size_words(f.planned.flow.operation_bytes)).collect();
        let _ = write!(page, "Links in the run of {}", sizes.join(", "));
    } else {
        page.push_str("Links");
    }
    page.push_str(", percent of the time; right of SKP: idle, by reason\n\n");
    page.push_str(&link_rows(&last.directions, last.simulated));
    page
}

/// Who moves what, in which TLPs, and which link sets the ceiling.
fn flow_heading(flow: &TrafficFlow, outcome: &TrafficOutcome) -> String {
    let planned = &flow.planned;
    let memory = match planned.flow.source {
        FlowSource::Core { .. } => "uncached",
        FlowSource::Endpoint(_) => "by its own engine",
    };
    let mut heading = format!("{} {memory}", planned.words());
    if planned.flow.relaxed_ordering {
        heading.push_str(", relaxed ordering");
    }
    if let Some(ceiling) = &flow.ceiling {
        let direction = outcome.directions.iter().find(|other| other.id == ceiling.direction);
        if let Some(direction) = direction {
            let _ = write!(
                heading,
                "\nceiling: {} ({}), {} with {} DW headers",
                direction.name,
                direction.rate,
                ceiling.carrier.word(),
                ceiling.tlps.header_dw
            );
        }
    }
    heading.push_str("\n\n");
    heading
}

/// A row for each flow and size; the flow is named where there are several.
fn flow_rows(outcomes: &[TrafficOutcome], whys: &[Why]) -> String {
    let count = outcomes.last().map_or(0, |outcome| outcome.flows.len());
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
        for (outcome, why) in outcomes.iter().zip(whys) {
            let flow = &outcome.flows[index];
            let name = (count > 1).then(|| flow.planned.words());
            let bottleneck = has_column(whys).then(|| why.cell());
            table.row(name.into_iter().chain(flow_cells(flow)).chain(bottleneck));
        }
    }
    let mut rows = table.to_string();
    if outcomes.iter().flat_map(|o| &o.flows).any(|f| f.ceiling.is_some_and(|c| c.is_estimate)) {
        rows.push_str("~ for regular completions; --shuffle cuts them at random\n");
    }
    rows
}

fn flow_cells(flow: &TrafficFlow) -> [String; 14] {
    let latencies = &flow.latencies;
    let none = || "-".to_owned();
    let time = |ps| if flow.operations > 0 { microseconds(ps) } else { none() };
    let ceiling = flow.ceiling;
    let about = if ceiling.is_some_and(|c| c.is_estimate) { "~" } else { "" };
    [
        flow.planned.flow.operation_bytes.to_string(),
        flow.operations.to_string(),
        flow.planned.in_flight().to_string(),
        time(latencies.min_ps),
        time(latencies.typical_ps),
        time(latencies.average_ps),
        time(latencies.p99_ps),
        time(latencies.max_ps),
        ceiling.map_or_else(none, |c| about.to_owned() + &payload_words(c.tlps.payload_bytes())),
        megabytes(flow.bytes_per_second),
        mebibytes(flow.bytes_per_second),
        ceiling.map_or_else(none, |c| about.to_owned() + &megabytes(c.bytes_per_second)),
        ceiling.map_or_else(none, |c| about.to_owned() + &megabytes(c.less_dllps_bytes_per_second)),
        flow.share().map_or_else(none, |share| about.to_owned() + &percent(share)),
    ]
}

/// An average length: whole where it is whole.
fn payload_words(bytes: f64) -> String {
    if bytes.fract() == 0.0 { format!("{bytes:.0}") } else { format!("{bytes:.1}") }
}
