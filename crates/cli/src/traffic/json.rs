// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a program reads them. Rates are in bytes per second, times in picoseconds, shares
//! are fractions of one.

use crosslane_fabric::FlowSource;
use crosslane_fabric::IdleReason;
use serde_json::{Map, Value, json};

use super::report::{payload_rate, shared_ceiling, wire_share};
use super::scenario::{DirectionOutcome, FlowOutcome, Outcome};
use crate::flow_argument::kind_word;

/// One object for all scenarios.
#[must_use]
pub fn document(lab: &str, seed: u64, outcomes: &[Outcome]) -> Value {
    let scenarios: Vec<Value> = outcomes.iter().map(scenario).collect();
    json!({
        "bench": "traffic",
        "lab": lab,
        "seed": seed,
        "version": env!("CARGO_PKG_VERSION"),
        "scenarios": scenarios,
    })
}

fn scenario(outcome: &Outcome) -> Value {
    let flows: Vec<Value> = outcome.flows.iter().map(|flow| flow_json(flow, outcome)).collect();
    let links: Vec<Value> =
        outcome.directions.iter().map(|direction| link_json(direction, outcome)).collect();
    json!({
        "flows": flows,
        "links": links,
        "simulated_ps": outcome.simulated.0,
        "tlp_hops": outcome.tlp_hops,
        "errors": outcome.deadlock.iter().chain(&outcome.errors).collect::<Vec<_>>(),
        "error_count": outcome.error_count,
    })
}

fn flow_json(flow: &FlowOutcome, outcome: &Outcome) -> Value {
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

fn link_json(direction: &DirectionOutcome, outcome: &Outcome) -> Value {
    let counters = &direction.counters;
    let span = outcome.simulated;
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
