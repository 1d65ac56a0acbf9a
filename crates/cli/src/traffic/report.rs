// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a person reads them: rows as `perftest` prints them, then the use of each link.

use std::fmt::Write as _;

use crosslane_fabric::FlowSource;
use crosslane_fabric::{IdleReason, LinkCounters};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;

use super::scenario::{DirectionOutcome, FlowOutcome, Outcome};
use crate::quantity::{mebibytes, megabytes, microseconds, percent};
use crate::table::{Align, Table};

/// The whole page: the rows of each flow, then the links of the last scenario.
#[must_use]
pub fn page(outcomes: &[Outcome]) -> String {
    let mut page = String::new();
    let Some(last) = outcomes.last() else { return page };
    if let [flow] = &last.flows[..] {
        page.push_str(&flow_heading(flow, last));
    }
    page.push_str(&flow_rows(outcomes));
    page.push('\n');
    page.push_str(&sharing(last));
    if outcomes.len() > 1 {
        let sizes: Vec<String> =
            last.flows.iter().map(|f| f.planned.flow.operation_bytes.to_string()).collect();
        let _ = write!(page, "Links in the run of {} B", sizes.join(", "));
    } else {
        page.push_str("Links");
    }
    page.push_str(", percent of the time; right of SKP: idle, by reason\n\n");
    page.push_str(&link_rows(last));
    page
}

/// Who moves what, in which TLPs, and which link sets the ceiling.
fn flow_heading(flow: &FlowOutcome, outcome: &Outcome) -> String {
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
fn flow_rows(outcomes: &[Outcome]) -> String {
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
    let mut table = Table::new(&columns);
    for index in 0..count {
        for flow in outcomes.iter().map(|outcome| &outcome.flows[index]) {
            let name = (count > 1).then(|| flow.planned.words());
            table.row(name.into_iter().chain(flow_cells(flow)));
        }
    }
    let mut rows = table.to_string();
    if outcomes.iter().flat_map(|o| &o.flows).any(|f| f.ceiling.is_some_and(|c| c.is_estimate)) {
        rows.push_str("~ for regular completions; --shuffle cuts them at random\n");
    }
    rows
}

fn flow_cells(flow: &FlowOutcome) -> [String; 14] {
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

/// A sentence for the busiest direction that several flows share, if there is one.
fn sharing(outcome: &Outcome) -> String {
    let load = |direction: &DirectionOutcome| {
        payload_rate(direction, outcome.simulated)
            / shared_ceiling(direction, outcome.simulated).max(1.0)
    };
    let shared = outcome.directions.iter().filter(|direction| direction.data_of.len() > 1);
    // The first of the busiest ones along the way.
    let busiest = shared.rev().max_by(|a, b| load(a).total_cmp(&load(b)));
    let Some(direction) = busiest else { return String::new() };
    // Not the sum of the flows' rates: each of those is over the flow's own time.
    let together = payload_rate(direction, outcome.simulated);
    let ceiling = shared_ceiling(direction, outcome.simulated);
    let mut text = format!(
        "{} flows share {} ({}): {} MB/s ({} MiB/s) together",
        direction.data_of.len(),
        direction.name,
        direction.rate,
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

/// Payload that a direction carried in bytes per second, over the whole run.
#[must_use]
pub fn payload_rate(direction: &DirectionOutcome, span: Picoseconds) -> f64 {
    let seconds = span.as_seconds();
    if seconds > 0.0 { direction.counters.payload_bytes as f64 / seconds } else { 0.0 }
}

/// What a direction can carry of the mix of TLPs that it carried, less DLLPs, in bytes of
/// payload per second.
#[must_use]
pub fn shared_ceiling(direction: &DirectionOutcome, span: Picoseconds) -> f64 {
    let counters = &direction.counters;
    let tlp_bytes = counters.payload_bytes + counters.header_bytes;
    let seconds = span.as_seconds();
    if tlp_bytes == 0 || seconds <= 0.0 {
        return 0.0;
    }
    let packets = crosslane_pcie::ceiling::link_ceiling_bytes_per_second(direction.rate);
    let dllps = counters.dllp_bytes as f64 / seconds;
    (packets - dllps) * counters.payload_bytes as f64 / tlp_bytes as f64
}

/// Time that so many bytes take on a link, as a share of `span`.
#[must_use]
pub fn wire_share(rate: LinkRate, bytes: u64, span: Picoseconds) -> f64 {
    let seconds = span.as_seconds();
    if seconds > 0.0 { bytes as f64 / rate.bytes_per_second() / seconds } else { 0.0 }
}

fn link_rows(outcome: &Outcome) -> String {
    let reasons: Vec<IdleReason> = IdleReason::ALL
        .into_iter()
        .filter(|reason| {
            outcome.directions.iter().any(|d| d.counters.idle_ps[*reason as usize] > 0)
        })
        .collect();
    let replays = outcome.directions.iter().any(|d| d.counters.replayed_bytes > 0);
    let mut columns = vec![
        ("direction".to_owned(), Align::Left),
        ("rate".to_owned(), Align::Left),
        ("TLPs".to_owned(), Align::Right),
        ("payload".to_owned(), Align::Right),
        ("header".to_owned(), Align::Right),
    ];
    if replays {
        columns.push(("replay".to_owned(), Align::Right));
    }
    columns.push(("DLLP".to_owned(), Align::Right));
    columns.push(("SKP".to_owned(), Align::Right));
    columns.extend(reasons.iter().map(|reason| (reason.to_string(), Align::Right)));
    let columns: Vec<(&str, Align)> =
        columns.iter().map(|(heading, align)| (heading.as_str(), *align)).collect();
    let mut table = Table::new(&columns);
    for direction in &outcome.directions {
        let share = |bytes| percent(wire_share(direction.rate, bytes, outcome.simulated));
        let LinkCounters { payload_bytes, header_bytes, replayed_bytes, dllp_bytes, .. } =
            direction.counters;
        let mut cells = vec![
            direction.name.clone(),
            direction.rate.to_string(),
            direction.counters.tlps.to_string(),
            share(payload_bytes),
            share(header_bytes),
        ];
        if replays {
            cells.push(share(replayed_bytes));
        }
        cells.push(share(dllp_bytes));
        cells.push(share(direction.counters.skp_bytes));
        let span = outcome.simulated.0.max(1) as f64;
        let idle = |reason: &IdleReason| direction.counters.idle_ps[*reason as usize] as f64 / span;
        cells.extend(reasons.iter().map(|reason| percent(idle(reason))));
        table.row(cells);
    }
    table.to_string()
}
