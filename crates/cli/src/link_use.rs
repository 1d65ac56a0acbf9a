// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each direction of a link did in a run, for a person and for a program.

use std::fmt::Write as _;

use crosslane_bench::{DirectionOutcome, busiest_shared, wire_share};
use crosslane_fabric::{IdleReason, LinkCounters};
use crosslane_pcie::units::Picoseconds;

use crate::quantity::{mebibytes, megabytes, percent};
use crate::table::{Align, Table};

/// A sentence for the busiest direction that several flows share, if there is one.
#[must_use]
pub fn sharing(directions: &[DirectionOutcome], span: Picoseconds) -> String {
    let Some(direction) = busiest_shared(directions, span) else { return String::new() };
    // Not the sum of the flows' rates: each of those is over the flow's own time.
    let together = direction.payload_rate(span);
    let ceiling = direction.shared_ceiling(span);
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

/// Columns that a narrow terminal leaves out, the least important first: counts, then the reasons
/// that took the least time, then figures that are nearly the same on every link.
fn spare(directions: &[DirectionOutcome], reasons: &[IdleReason]) -> Vec<String> {
    let idle_ps = |reason: &IdleReason| -> u64 {
        directions.iter().map(|it| it.counters.idle_ps[*reason as usize]).sum()
    };
    let mut reasons = reasons.to_vec();
    reasons.sort_by_key(idle_ps);
    // The reason that took most time stays.
    reasons.pop();
    let reasons = reasons.iter().map(IdleReason::to_string);
    let counts = ["TLPs".to_owned()].into_iter();
    counts.chain(reasons).chain(["SKP", "DLLP", "replay", "rate"].map(str::to_owned)).collect()
}

/// The use of each direction, in percent of `span`.
#[must_use]
pub fn link_rows(directions: &[DirectionOutcome], span: Picoseconds) -> String {
    let reasons: Vec<IdleReason> = IdleReason::ALL
        .into_iter()
        .filter(|reason| directions.iter().any(|d| d.counters.idle_ps[*reason as usize] > 0))
        .collect();
    let replays = directions.iter().any(|d| d.counters.replayed_bytes > 0);
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
    let mut table = Table::new(&columns).least_first(&spare(directions, &reasons));
    for direction in directions {
        let share = |bytes| percent(wire_share(direction.rate, bytes, span));
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
        let whole = span.0.max(1) as f64;
        let idle =
            |reason: &IdleReason| direction.counters.idle_ps[*reason as usize] as f64 / whole;
        cells.extend(reasons.iter().map(|reason| percent(idle(reason))));
        table.row(cells);
    }
    table.to_string()
}
