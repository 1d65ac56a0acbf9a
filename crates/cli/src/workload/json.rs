// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as a program reads them. Rates are in bytes per second, times in picoseconds, shares
//! are fractions of one.

use crosslane_bench::{ChannelReport, LaneReport, RoundTrips};
use crosslane_driver::{ChannelKind, Plan};
use crosslane_explain::{Expected, Job, WorkloadFlow, WorkloadOutcome};
use serde_json::{Value, json};

use crate::link_use::link_json;
use crate::why::Why;

/// One object for all scenarios.
#[must_use]
pub fn document(
    bench: &str,
    lab: &str,
    seed: u64,
    outcomes: &[WorkloadOutcome],
    whys: &[Why],
) -> Value {
    let scenarios = outcomes.iter().zip(whys).map(|(outcome, why)| scenario(outcome, why));
    let scenarios: Vec<Value> = scenarios.collect();
    json!({
        "bench": bench,
        "lab": lab,
        "seed": seed,
        "version": env!("CARGO_PKG_VERSION"),
        "scenarios": scenarios,
    })
}

fn scenario(outcome: &WorkloadOutcome, why: &Why) -> Value {
    let flows: Vec<Value> =
        outcome.flows.iter().map(|flow| flow_json(flow, &outcome.job)).collect();
    let links: Vec<Value> =
        outcome.directions.iter().map(|link| link_json(link, outcome.span)).collect();
    let common = outcome.common.map(|common| {
        json!({
            "from_ps": common.from.0,
            "to_ps": common.to.0,
            "bytes": common.bytes,
            "bytes_per_second": common.bytes_per_second(),
        })
    });
    json!({
        "bytes": outcome.job.size_bytes(),
        "flows": flows,
        "while_all_active": common,
        "latency": outcome.round_trips.as_ref().map(latency_json),
        "why_not_faster": why.json(),
        "not_explained": why.not_explained(),
        "links": links,
        "link_loads": outcome.loads,
        "links_span_ps": outcome.span.0,
        "ports_set": outcome.ports_set,
        "simulated_ps": outcome.simulated.0,
        "errors": outcome.errors,
        "error_count": outcome.error_count,
    })
}

/// One flow of a job.
pub fn flow_json(flow: &WorkloadFlow, job: &Job) -> Value {
    let measured = &flow.measured;
    let ceiling = flow.ceiling.as_ref().map(|ceiling| {
        json!({
            "bytes_per_second": ceiling.ceiling.bytes_per_second,
            "less_dllps_bytes_per_second": ceiling.ceiling.less_dllps_bytes_per_second,
            "payload_bytes": ceiling.tlps.payload_bytes(),
            "carrier": ceiling.carrier.word(),
            "header_dw": ceiling.tlps.header_dw,
            "direction": ceiling.link,
        })
    });
    let channels: Vec<Value> = measured.channels.iter().map(channel_json).collect();
    let lanes: Vec<Value> = measured.lanes.iter().map(lane_json).collect();
    json!({
        "name": measured.name,
        "bytes": measured.size_bytes,
        "iterations": measured.iterations,
        "in_flight": job.in_flight(),
        "moved_bytes": measured.bytes,
        "latency": measured.statistics(),
        "started_ps": measured.started.0,
        "ended_ps": measured.ended.0,
        "application_bytes_per_second": measured.application_bytes_per_second(),
        "hardware": measured.hardware.map(|time| json!({
            "bytes": time.bytes,
            "first_ps": time.first.0,
            "last_ps": time.last.0,
            "bytes_per_second": time.bytes_per_second(),
        })),
        "ceiling": ceiling,
        "share_of_ceiling": flow.share(),
        "post_to_first_tlp_ps": measured.post_to_first_tlp.map(|time| time.0),
        "registration_ps": measured.registration.map(|time| time.0),
        "plan": plan_json(&measured.plan, flow.expected()),
        "wrong_words": measured.data_errors.words,
        "first_wrong_word": measured.data_errors.first_word,
        "channels": channels,
        "lanes": lanes,
    })
}

fn plan_json(plan: &Plan, expected: Expected) -> Value {
    let path: Vec<&str> = plan.path.iter().map(|function| function.name.as_str()).collect();
    let refused: Vec<String> = plan.refused.iter().map(ToString::to_string).collect();
    json!({
        "path": path,
        "max_payload_bytes": plan.max_payload_bytes,
        "expected_bytes_per_second": expected.bytes_per_second,
        "slowest_link": plan.slowest_link,
        "through_root_complex": plan.through_root_complex,
        "not_faster": refused,
    })
}

fn channel_json(channel: &ChannelReport) -> Value {
    let counters = &channel.counters;
    let kind = match channel.kind {
        ChannelKind::H2c => "h2c",
        ChannelKind::C2h => "c2h",
        ChannelKind::Peer => "peer",
    };
    json!({
        "device": channel.device,
        "kind": kind,
        "clock_ps": channel.clock.0,
        "bytes": counters.bytes,
        "tlps": counters.tlps,
        "fetched": counters.fetched,
        "first_clocks": counters.first_clocks,
        "last_clocks": counters.last_clocks,
        "no_descriptor_clocks": channel.no_descriptor_clocks(),
        "no_data_clocks": counters.no_data_clocks,
        "no_tag_clocks": counters.no_tag_clocks,
        "link_clocks": counters.link_clocks,
        "no_credit_clocks": counters.no_credit_clocks,
        "gap_clocks": counters.gap_clocks,
    })
}

fn lane_json(lane: &LaneReport) -> Value {
    let counters = &lane.counters;
    json!({
        "device": lane.device,
        "lane": lane.lane,
        "clock_ps": lane.clock.0,
        "received_bytes": counters.received_bytes,
        "drained_bytes": counters.drained_bytes,
        "overflow": counters.overflow,
        "first_clocks": counters.first_clocks,
        "last_clocks": counters.last_clocks,
    })
}

/// Round trips.
pub fn latency_json(round_trips: &RoundTrips) -> Value {
    json!({
        "name": round_trips.name,
        "bytes": round_trips.message_bytes,
        "round_trips": round_trips.round_trips.len(),
        "one_way": round_trips.one_way(),
        "plan": plan_json(&round_trips.plan, Expected::of_writes(&round_trips.plan)),
        "wrong_words": round_trips.data_errors.words,
    })
}
