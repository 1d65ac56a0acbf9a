// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each direction of a link did in a run, for a person and for a program.

use std::fmt::Write as _;

use crosslane_fabric::{DirectionId, Fabric, IdleReason, LinkCounters};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;
use serde_json::{Map, Value, json};

use crate::quantity::{mebibytes, megabytes, percent};
use crate::table::{Align, Table};

/// One direction of a link that the flows use.
#[derive(Clone, Debug)]
pub struct DirectionOutcome {
    /// Which.
    pub id: DirectionId,
    /// `fpga1 -> sw1.p1`.
    pub name: String,
    /// Rate of the link.
    pub rate: LinkRate,
    /// What it did.
    pub counters: LinkCounters,
    /// Flows whose data cross it, by their place among the flows.
    pub data_of: Vec<usize>,
}

/// `fpga1 -> sw1.p1`.
#[must_use]
pub fn direction_name(fabric: &Fabric, id: DirectionId) -> String {
    let (from, to) = fabric.direction_ends(id);
    format!("{} -> {}", fabric.port(from).name, fabric.port(to).name)
}

/// A sentence for the busiest direction that several flows share, if there is one.
#[must_use]
pub fn sharing(directions: &[DirectionOutcome], span: Picoseconds) -> String {
    let load = |direction: &DirectionOutcome| {
        payload_rate(direction, span) / shared_ceiling(direction, span).max(1.0)
    };
    let shared = directions.iter().filter(|direction| direction.data_of.len() > 1);
    // The first of the busiest ones along the way.
    let busiest = shared.rev().max_by(|a, b| load(a).total_cmp(&load(b)));
    let Some(direction) = busiest else { return String::new() };
    // Not the sum of the flows' rates: each of those is over the flow's own time.
    let together = payload_rate(direction, span);
    let ceiling = shared_ceiling(direction, span);
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
    let mut table = Table::new(&columns);
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

/// The same for a program: shares are fractions of one.
#[must_use]
pub fn link_json(direction: &DirectionOutcome, span: Picoseconds) -> Value {
    let counters = &direction.counters;
    let share = |bytes| wire_share(direction.rate, bytes, span);
    let idle: Map<String, Value> = IdleReason::ALL
        .into_iter()
        .map(|reason| {
            let idle = counters.idle_ps[reason as usize] as f64 / span.0.max(1) as f64;
            (reason.to_string().replace(' ', "_"), json!(idle))
        })
        .collect();
    json!({
        "direction": direction.name,
        "generation": direction.rate.generation.number(),
        "width": direction.rate.width.lanes(),
        "flows": direction.data_of,
        "bytes_per_second": payload_rate(direction, span),
        "ceiling_bytes_per_second": shared_ceiling(direction, span),
        "tlps": counters.tlps,
        "replayed_tlps": counters.replayed_tlps,
        "acks": counters.acks,
        "naks": counters.naks,
        "update_fcs": counters.update_fcs,
        "payload_bytes": counters.payload_bytes,
        "header_bytes": counters.header_bytes,
        "replayed_bytes": counters.replayed_bytes,
        "dllp_bytes": counters.dllp_bytes,
        "skp_bytes": counters.skp_bytes,
        "share": {
            "payload": share(counters.payload_bytes),
            "header": share(counters.header_bytes),
            "replay": share(counters.replayed_bytes),
            "dllp": share(counters.dllp_bytes),
            "skp": share(counters.skp_bytes),
            "idle": idle,
        },
    })
}
