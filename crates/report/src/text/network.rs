// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gets of network processors, and exchanges of a halo between the nodes of a torus.

use crosslane_results::quantity::{megabytes, microseconds, percent};
use crosslane_results::{Bench, Flow, Gets, LinkSoak, Platform};

use super::why::{last_block, push_bottlenecks};
use super::{Columns, Notes};
use crate::runs::network::{self, Halo, card_table, halos, share, soak_table};
use crate::runs::run_page::{BINARY_RATE, BYTES, IN_FLIGHT, LESS_DLLPS, RATE, SHARE, times};
use crate::table::{Field, Table, or_none};

/// Columns of gets that a narrow terminal leaves out, the least important first.
const SPARE_OF_GETS: [&str; 10] = [
    "average", "max", "MiB/s", "completions B", "p99", "typical", "K", "ceiling MB/s", "us each",
    "M",
];
/// Columns of tests of links that a narrow terminal leaves out, the least important first.
const SPARE_OF_SOAKS: [&str; 11] = [
    "skips -/+/slips", "lanes", "time-outs", "trainings", "from", "NACKs", "restarts",
    "errors of lanes", "sent", "losses", "errors a bit",
];
/// Columns of exchanges that a narrow terminal leaves out, the least important first.
const SPARE_OF_HALO: [&str; 4] =
    ["directions", "largest face B", "of its link %", "MB/s to a host"];

fn of_gets(flow: &Flow, words: fn(&Gets) -> String) -> String {
    flow.gets().map(words).unwrap_or_default()
}

/// Returns the columns of gets; `is_lab` adds the limits of the lab.
fn get_fields(is_lab: bool) -> Vec<Field<Flow>> {
    let [(_, least), times @ ..] = times();
    let mut fields: Vec<Field<Flow>> = vec![
        ("node", |flow| of_gets(flow, |gets| gets.node.clone())),
        ("buffers, requests, waiting", |flow| of_gets(flow, |gets| gets.modes.clone())),
        BYTES,
        ("N:", IN_FLIGHT.1),
        ("M:", |flow| of_gets(flow, |gets| gets.per_loop.to_string())),
        ("K:", |flow| of_gets(flow, |gets| gets.loops.to_string())),
        ("us min:", least),
    ];
    fields.extend(times);
    fields.extend([
        ("us each:", |flow| {
            of_gets(flow, |gets| microseconds((gets.interval_ns * 1e3).round() as u64))
        }),
        RATE,
        BINARY_RATE,
    ] as [Field<Flow>; 3]);
    let of_lab: [Field<Flow>; 3] = [
        ("of ceiling %:", SHARE.1),
        ("ceiling MB/s:", LESS_DLLPS.1),
        ("completions B:", |flow| {
            or_none(flow.ceiling.as_ref(), |it| format!("{:.1}", it.payload_bytes))
        }),
    ];
    fields.extend(of_lab.into_iter().filter(|_| is_lab));
    fields
}

/// Formats gets.
pub fn gets(bench: &Bench, columns: Columns) -> String {
    let times = match &bench.platform {
        Platform::Lab { .. } => format!("lab {}, simulated time", bench.platform.name()),
        Platform::Cards { .. } => "times are this machine's".to_owned(),
    };
    let gets = network::gets(bench);
    let fields = get_fields(bench.platform.is_lab());
    let flows = gets.iter().map(|(flow, _)| *flow);
    let mut table = Table::of(&fields, flows).least_first(&SPARE_OF_GETS);
    push_bottlenecks(&mut table, &bench.scenarios, &bench.scenarios);
    let compared: u32 = gets.iter().map(|(_, gets)| gets.gets_compared).sum();
    let wrong: u32 = gets.iter().map(|(_, gets)| gets.gets_wrong).sum();
    let compared = match (compared, wrong) {
        (0, _) => "no link has a cable, so that no data are compared".to_owned(),
        (compared, 0) => format!("{compared} more gets were compared in mode loopback"),
        (compared, wrong) => {
            format!("{wrong} of {compared} more gets in mode loopback were WRONG")
        }
    };
    let (table, why) = (table.to_text(columns.tables), last_block(&bench.scenarios));
    format!("{times}; links in mode sink; {compared}\n\n{table}{why}")
}

fn halo_fields<'a>() -> [Field<Halo<'a>>; 12] {
    [
        ("nodes:", |halo| halo.exchange.nodes.to_string()),
        ("torus", |halo| halo.flow.name.clone()),
        ("directions:", |halo| halo.exchange.directions.to_string()),
        ("largest face B:", |halo| halo.exchange.face_bytes.to_string()),
        ("us an exchange:", Halo::us),
        ("MB/s of a link:", |halo| megabytes(halo.exchange.link_bytes_per_second)),
        ("of its rate %:", |halo| {
            let exchange = halo.exchange;
            percent(share(exchange.link_bytes_per_second, exchange.link_rate_bytes_per_second))
        }),
        ("MB/s to a host:", |halo| megabytes(halo.node_rate())),
        ("of its link %:", |halo| {
            percent(share(halo.node_rate(), halo.exchange.host_rate_bytes_per_second))
        }),
        ("of the first %:", |halo| percent(halo.first_ns / halo.exchange.exchange_ns)),
        ("buffers compared:", |halo| halo.exchange.buffers_compared.to_string()),
        ("wrong:", |halo| halo.exchange.buffers_wrong.to_string()),
    ]
}

/// Formats exchanges of a halo.
pub fn exchanges(bench: &Bench, notes: Notes<'_>, columns: Columns) -> String {
    if !bench.platform.is_lab() {
        return format!(
            "times are this machine's\n\n{}",
            card_table(bench).to_text(columns.tables)
        );
    }
    let halos = halos(bench);
    let mut table = Table::of(&halo_fields(), &halos).least_first(&SPARE_OF_HALO);
    push_bottlenecks(&mut table, &bench.scenarios, &bench.scenarios);
    let rates = halos.first().map_or(String::new(), |halo| {
        format!(
            "a torus link carries {} MB/s of payload each way, the host's link {} MB/s of writes\n",
            megabytes(halo.exchange.link_rate_bytes_per_second.unwrap_or(0.0)),
            megabytes(halo.exchange.host_rate_bytes_per_second.unwrap_or(0.0))
        )
    });
    let (table, why) = (table.to_text(columns.tables), last_block(&bench.scenarios));
    let (lab, details) = (bench.platform.name(), notes.details);
    format!("lab {lab}, simulated time\n{rates}\n{table}{details}{why}")
}

/// Formats tests of links.
pub fn soaks(bench: &Bench, columns: Columns) -> String {
    let ends = network::soaks(bench);
    let place = match &bench.platform {
        Platform::Lab { .. } => format!("lab {}, simulated time", bench.platform.name()),
        Platform::Cards { .. } => "times are this machine's".to_owned(),
    };
    let elapsed_ns = ends.iter().map(|end| end.elapsed_ns).fold(0.0, f64::max);
    let sum = |count: fn(&LinkSoak) -> u64| ends.iter().map(|end| count(end)).sum::<u64>();
    let verdict = match (sum(|end| end.wrong), sum(|end| end.lost)) {
        (0, 0) => format!("all {} datagrams came, and were right", sum(|end| end.right)),
        (wrong, lost) => format!("{wrong} datagrams were WRONG, {lost} were LOST"),
    };
    let limit = ends.iter().find_map(|end| {
        let of_line = end.share_of_line / end.share_of_payload_rate?;
        Some(format!("a direction alone carries {} % of the line as payload\n", percent(of_line)))
    });
    let table = soak_table(bench).least_first(&SPARE_OF_SOAKS);
    let (table, why) = (table.to_text(columns.tables), last_block(&bench.scenarios));
    format!(
        "{place}; {} us of generators and checkers at both ends; {verdict}\n{}\n{table}{why}",
        microseconds((elapsed_ns * 1e3).round() as u64),
        limit.unwrap_or_default()
    )
}
