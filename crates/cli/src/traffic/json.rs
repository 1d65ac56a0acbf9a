// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a program reads them. Rates are in bytes per second, times in picoseconds, shares
//! are fractions of one.

use crosslane_explain::{TrafficFlow, TrafficOutcome, kind_word};
use crosslane_fabric::FlowSource;
use serde_json::{Value, json};

use crate::link_use::link_json;
use crate::why::Why;

/// One object for all scenarios.
#[must_use]
pub fn document(lab: &str, seed: u64, outcomes: &[TrafficOutcome], whys: &[Why]) -> Value {
    let scenarios = outcomes.iter().zip(whys).map(|(outcome, why)| scenario(outcome, why));
    let scenarios: Vec<Value> = scenarios.collect();
    json!({
        "bench": "traffic",
        "lab": lab,
        "seed": seed,
        "version": env!("CARGO_PKG_VERSION"),
        "scenarios": scenarios,
    })
}

fn scenario(outcome: &TrafficOutcome, why: &Why) -> Value {
    let flows: Vec<Value> = outcome.flows.iter().map(|flow| flow_json(flow, outcome)).collect();
    let links: Vec<Value> = outcome
        .directions
        .iter()
        .map(|direction| link_json(direction, outcome.simulated))
        .collect();
    json!({
        "flows": flows,
        "why_not_faster": why.json(),
        "not_explained": why.not_explained(),
        "links": links,
        "link_loads": outcome.loads,
        "simulated_ps": outcome.simulated.0,
        "tlp_hops": outcome.tlp_hops,
        "errors": outcome.deadlock.iter().chain(&outcome.errors).collect::<Vec<_>>(),
        "error_count": outcome.error_count,
    })
}

fn flow_json(flow: &TrafficFlow, outcome: &TrafficOutcome) -> Value {
    let planned = &flow.planned;
    let ceiling = flow.ceiling.map(|ceiling| {
        let limit = outcome.directions.iter().find(|other| other.id == ceiling.direction);
        json!({
            "bytes_per_second": ceiling.bytes_per_second,
            "less_dllps_bytes_per_second": ceiling.less_dllps_bytes_per_second,
            "payload_bytes": ceiling.tlps.payload_bytes(),
            "carrier": ceiling.carrier.word(),
            "is_estimate": ceiling.is_estimate,
            "header_dw": ceiling.tlps.header_dw,
            "direction": limit.map(|direction| &direction.name),
        })
    });
    json!({
        "from": planned.from,
        "to": planned.to,
        "kind": kind_word(planned.flow.kind),
        "is_core": matches!(planned.flow.source, FlowSource::Core { .. }),
        "bytes": planned.flow.operation_bytes,
        "iterations": flow.operations,
        "failed": flow.failed,
        "outstanding": planned.flow.outstanding,
        "in_flight": planned.in_flight(),
        "target": planned.flow.target.0,
        "moved_bytes": flow.bytes,
        "request_tlps": flow.tlps,
        "latency": flow.latencies,
        "bytes_per_second": flow.bytes_per_second,
        "steady_bytes_per_second": flow.steady_bytes_per_second,
        "ceiling": ceiling,
        "share_of_ceiling": flow.share(),
    })
}
