// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The physical link's latency, and the paper's table of machines beside messages of the lab.

use crosslane_experiment::SendWay;
use crosslane_experiment::parallel;
use crosslane_report::Table;

use super::neighbours::one_way_ns;
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs};

/// Bytes of the messages: a word like a notification, and half of a datagram.
const SIZES: [u64; 2] = [8, 64];
/// The constant that comes from the paper.
const LATENCY: &str = "part.cable.latency_ns";

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 = 2 + (SIZES.len() * SendWay::ALL.len()) as u64;

/// Returns the time of a datagram through transceivers and cable: the time of a put, less that of
/// the same put without them.
fn link_latency_ns(context: &Context<'_>) -> Result<f64> {
    let none = context.lab().with_constant(LATENCY, 0.0)?;
    let with = one_way_ns(context, context.lab(), SendWay::Put, SIZES[0])?;
    Ok(with - one_way_ns(context, &none, SendWay::Put, SIZES[0])?)
}

/// Returns the row of the link's latency, an input.
pub(super) fn compared(context: &Context<'_>) -> Result<Row> {
    let latency = link_latency_ns(context)?;
    Ok(context.figures.case("link_latency", None).compare(latency))
}

pub(super) fn run(context: &Context<'_>) -> Result<Experiment> {
    let jobs: Vec<(SendWay, u64)> =
        SendWay::ALL.into_iter().flat_map(|way| SIZES.map(|size| (way, size))).collect();
    let times: Vec<f64> =
        parallel::try_map(&jobs, |(way, bytes)| one_way_ns(context, context.lab(), *way, *bytes))?;
    let mut rows = vec![compared(context)?];
    let tags = context.lab().file().endpoints[0].part.parameters.requester.tags;
    rows.push(context.figures.case("nget_in_flight_maximum", None).compare(f64::from(tags)));
    let mut table = Table::headed("machine | network latency ns: | bandwidth GB/s: | where from");
    let latencies = context.figures.iter().filter(|one| one.quantity == "network_latency");
    for latency in latencies {
        let machine = &latency.conditions;
        let bandwidth = context.figures.at("network_bandwidth", machine);
        table.row([
            machine.clone(),
            format!("{:.0}", latency.value),
            format!("{}", bandwidth.value),
            "the paper".to_owned(),
        ]);
        rows.extend([latency.compare(None), bandwidth.compare(None)]);
    }
    let torus = &context.lab().file().tori[0].parameters;
    let rate = f64::from(torus.lanes) * torus.lane_bits_per_second as f64 * 0.8 / 8e9;
    let links = context.lab().file().endpoints[0].part.network_processor;
    let links = links.map_or(0, |processor| processor.links);
    for ((way, bytes), ns) in jobs.iter().zip(&times) {
        table.row([
            format!("the lab: {way} of {bytes} B from gpu1 to gpu2's memory"),
            format!("{ns:.0}"),
            format!("{:.2}", rate * f64::from(links)),
            "simulated; latencies of hosts and card are assumptions".to_owned(),
        ]);
        let conditions = format!("{way} of {bytes} B, gpu1 to gpu2");
        rows.push(Row::simulated("message_latency", conditions, "ns", *ns));
    }
    let text = paragraphs([
        "The latency of transceiver, cable and transceiver is an input: the time of a put, less \
         that of the same put over a link without latency, is what was put in.",
        "The paper's other machines are context: their links, processors and definitions of \
         latency differ. The lab's messages are from before the first store until the program at \
         the other end sees the notification; bandwidth is that of six links after 8b/10b. The \
         paper had no second board in its link yet (its outlook: gpu1 to gpu2).",
    ]);
    Ok(Experiment {
        title: "The link's latency, and other machines",
        text,
        tables: vec![table],
        rows,
        ..Experiment::default()
    })
}
