// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gets of network processors, and exchanges of a halo between the nodes of a torus: their columns
//! and plots.

use std::collections::BTreeSet;

use crosslane_results::quantity::{megabytes, microseconds, percent};
use crosslane_results::{Bench, Exchange, Flow, Gets, LinkSoak, Platform};

use crate::page::{Block, Section};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::table::{Field, Table};

/// Returns the gets of each flow.
pub fn gets(bench: &Bench) -> Vec<(&Flow, &Gets)> {
    bench.flows().filter_map(|flow| Some((flow, flow.gets()?))).collect()
}

/// Exchanges of a halo in one torus.
pub struct Halo<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// Exchanges of the torus.
    pub exchange: &'a Exchange,
    /// Duration of an exchange in the first torus, nanoseconds.
    pub first_ns: f64,
}

impl Halo<'_> {
    /// Formats the duration of an exchange.
    pub fn us(&self) -> String {
        microseconds((self.exchange.exchange_ns * 1e3).round() as u64)
    }

    /// Returns the rate to a node.
    pub fn node_rate(&self) -> f64 {
        self.flow.rate().unwrap_or_default()
    }
}

/// Returns the exchanges of each flow.
pub fn halos(bench: &Bench) -> Vec<Halo<'_>> {
    let first_ns = bench.flows().find_map(Flow::exchange).map_or(0.0, |first| first.exchange_ns);
    bench
        .flows()
        .filter_map(|flow| Some(Halo { flow, exchange: flow.exchange()?, first_ns }))
        .collect()
}

/// Returns the share of a rate; 0 if the rate is not known.
pub fn share(of: f64, rate: Option<f64>) -> f64 {
    rate.map_or(0.0, |rate| of / rate)
}

/// Returns a table of exchanges between cards.
pub fn card_table(bench: &Bench) -> Table {
    fn fields<'a>() -> [Field<Halo<'a>>; 7] {
        [
            ("nodes:", |halo| halo.exchange.nodes.to_string()),
            ("torus", |halo| halo.flow.name.clone()),
            ("bytes of a node:", |halo| halo.flow.bytes.to_string()),
            ("us an exchange:", Halo::us),
            ("MB/s to a node:", |halo| megabytes(halo.node_rate())),
            ("buffers compared:", |halo| halo.exchange.buffers_compared.to_string()),
            ("wrong:", |halo| halo.exchange.buffers_wrong.to_string()),
        ]
    }
    Table::of(&fields(), &halos(bench))
}

/// Returns the tests of links, an end of a cable each.
pub fn soaks(bench: &Bench) -> Vec<&LinkSoak> {
    bench.flows().filter_map(Flow::soak).collect()
}

/// Formats the rate of wrong bits: an estimate, or a bound if nothing was damaged.
fn bit_errors(end: &LinkSoak) -> String {
    match end.bit_error_rate_below {
        Some(bound) => format!("< {bound:.1e}"),
        None => format!("{:.1e}", end.damage_per_bit),
    }
}

/// Formats counts with spaces between them; where all are alike, as `8 x 0`.
fn counts(counts: &[u64]) -> String {
    match counts {
        [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|count| count == first) => {
            format!("{} x {first}", counts.len())
        }
        _ => counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// Formats what the elastic buffer did: dropped, doubled, slipped.
fn skips(end: &LinkSoak) -> String {
    format!("{}/{}/{}", end.dropped, end.doubled, end.slipped)
}

/// Returns a table of the tests of links, a row for each end of each cable.
pub fn soak_table(bench: &Bench) -> Table {
    let fields: [Field<&LinkSoak>; 19] = [
        ("end", |end| format!("{} link {}", end.node, end.link)),
        ("from", |end| format!("{} link {}", end.far_node, end.far_link)),
        ("state", |end| end.state.clone()),
        ("lanes:", |end| end.lanes.to_string()),
        ("sent:", |end| end.sent.to_string()),
        ("right:", |end| end.right.to_string()),
        ("wrong:", |end| end.wrong.to_string()),
        ("lost:", |end| end.lost.to_string()),
        ("of the line %:", |end| percent(end.share_of_line)),
        ("repeated:", |end| end.repeated.to_string()),
        ("damaged:", |end| end.damaged.to_string()),
        ("NACKs:", |end| end.nacks.to_string()),
        ("restarts:", |end| end.restarts.to_string()),
        ("time-outs:", |end| end.timeouts.to_string()),
        ("trainings:", |end| end.trainings.to_string()),
        ("losses:", |end| end.losses.to_string()),
        ("skips -/+/slips", |end| skips(end)),
        ("errors of lanes", |end| counts(&end.lane_errors)),
        ("errors a bit:", |end| bit_errors(end)),
    ];
    Table::of(&fields, &soaks(bench))
}

/// Returns the section of a page on tests of links.
pub fn soak_section(bench: &Bench) -> Section {
    let blocks = vec![Block::Table(soak_table(bench))];
    Section { title: "Torus links under test".to_owned(), blocks }
}

/// Returns the section of a page on gets: duration and rate, with a curve for each node, modes and
/// number in flight.
pub fn gets_section(bench: &Bench) -> Section {
    let gets = gets(bench);
    let plot = |title: &str, y, value: fn(&Flow, &Gets) -> f64| {
        let names: BTreeSet<&String> = gets.iter().map(|(flow, _)| &flow.name).collect();
        let curve = |name: &String| {
            let of_curve = gets.iter().filter(|(flow, _)| flow.name == *name);
            let points = of_curve.map(|(flow, gets)| (flow.bytes as f64, value(flow, gets)));
            Series::ours(name, points)
        };
        Block::Plot(Plot {
            title: title.to_owned(),
            x: Axis::new("bytes of a get", "B", Scale::Logarithmic),
            y,
            series: names.into_iter().map(curve).collect(),
        })
    };
    let duration = Axis::new("duration", "us", Scale::Logarithmic);
    let bandwidth = Axis::new("bandwidth", "MB/s", Scale::Linear);
    let blocks = vec![
        plot("Nget duration", duration, |_, gets| gets.latency_ps.typical_ps as f64 / 1e6),
        plot("Nget bandwidth", bandwidth, |flow, _| flow.rate().unwrap_or_default() / 1e6),
    ];
    Section { title: "Gets from host memory".to_owned(), blocks }
}

/// Returns the section of a page on exchanges: their scaling in a lab, a table on cards.
pub fn halo_section(bench: &Bench) -> Section {
    let halos = halos(bench);
    let plot = |title: &str, y, value: fn(&Halo<'_>) -> f64| {
        let points = halos.iter().map(|halo| (halo.exchange.nodes as f64, value(halo)));
        Block::Plot(Plot {
            title: title.to_owned(),
            x: Axis::new("nodes", "", Scale::Logarithmic),
            y,
            series: vec![Series::ours("all directions", points)],
        })
    };
    let blocks = match bench.platform {
        Platform::Cards { .. } => vec![Block::Table(card_table(bench))],
        Platform::Lab { .. } => {
            let time = Axis::new("an exchange", "us", Scale::Linear);
            let of_link = Axis::new("of the host's link", "%", Scale::Linear);
            vec![
                plot("Weak scaling: time of an exchange", time, |halo| {
                    halo.exchange.exchange_ns / 1e3
                }),
                plot("Rate to each host", of_link, |halo| {
                    1e2 * share(halo.node_rate(), halo.exchange.host_rate_bytes_per_second)
                }),
            ]
        }
    };
    Section { title: "Nearest-neighbour exchange".to_owned(), blocks }
}
