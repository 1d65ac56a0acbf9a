// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes as plain data.

use crate::RoundTrips;
use crosslane_driver::Plan;
use crosslane_fabric::{FlowSource, IdleReason};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{
    Account, Detail, Figure, Flow, Hardware, Latency, Link, LinkShares, PlanSummary,
    ScenarioResult, Traffic, Transfers,
};

use crate::links::{DirectionOutcome, wire_share};
use crate::scenario::Outcome;
use crate::traffic::{TrafficFlow, TrafficOutcome};
use crate::words::kind_word;
use crate::workload::{Workload, WorkloadFlow};

impl Outcome for TrafficOutcome {
    fn result(&self) -> ScenarioResult {
        let links = self.directions.iter().map(|direction| direction.result(self.simulated));
        ScenarioResult {
            flows: self.flows.iter().map(TrafficFlow::result).collect(),
            links: links.collect(),
            link_loads: self.loads.clone(),
            simulated_ps: Some(self.simulated.0),
            tlp_hops: Some(self.tlp_hops),
            errors: self.deadlock.iter().chain(&self.errors).cloned().collect(),
            error_count: self.error_count,
            ..ScenarioResult::default()
        }
    }

    fn figure(&self) -> Option<Figure> {
        Some(self.figure)
    }

    fn simulated(&self) -> Picoseconds {
        self.simulated
    }

    fn wrong_data(&self) -> Option<String> {
        None
    }

    fn has_errors(&self) -> bool {
        self.error_count > 0
    }

    fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    fn deadlock(&self) -> Option<&str> {
        self.deadlock.as_deref()
    }
}

impl TrafficFlow {
    /// Returns the flow as plain data.
    #[must_use]
    pub fn result(&self) -> Flow {
        let (planned, report) = (&self.planned, &self.report);
        let kind = kind_word(planned.flow.kind).to_owned();
        Flow {
            name: format!("{} -> {}, {kind}", planned.from, planned.to),
            bytes: planned.flow.operation_bytes,
            iterations: report.operations,
            in_flight: Some(planned.in_flight()),
            latency: Some(self.latencies),
            application_bytes_per_second: None,
            hardware: None,
            bytes_per_second: Some(report.bytes_per_second()),
            ceiling: self.ceiling.clone(),
            share_of_ceiling: self.share(),
            detail: Detail::Traffic(Traffic {
                from: planned.from.clone(),
                to: planned.to.clone(),
                kind,
                is_core: matches!(planned.flow.source, FlowSource::Core { .. }),
                failed: report.failed,
                outstanding: planned.flow.outstanding,
                target: planned.flow.target.0,
                moved_bytes: report.bytes,
                request_tlps: report.tlps,
                steady_bytes_per_second: report.steady_bytes_per_second(),
            }),
        }
    }
}

impl WorkloadFlow {
    /// Returns the flow as plain data.
    #[must_use]
    pub fn result(&self, workload: &Workload) -> Flow {
        let measured = &self.measured;
        let hardware = measured.hardware.map(|time| Hardware {
            bytes: time.bytes,
            first_ps: time.first.0,
            last_ps: time.last.0,
            bytes_per_second: time.bytes_per_second(),
        });
        Flow {
            name: measured.name.clone(),
            bytes: measured.size_bytes,
            iterations: measured.iterations,
            in_flight: Some(workload.options().outstanding.into()),
            latency: Some(measured.statistics()),
            application_bytes_per_second: Some(measured.application_bytes_per_second()),
            hardware,
            bytes_per_second: None,
            ceiling: self.ceiling.clone(),
            share_of_ceiling: self.share(),
            detail: Detail::Transfers(Box::new(Transfers {
                moved_bytes: measured.bytes,
                started_ps: measured.started.0,
                ended_ps: measured.ended.0,
                post_to_first_tlp_ps: measured.post_to_first_tlp.map(|time| time.0),
                registration_ps: measured.registration.map(|time| time.0),
                plan: plan(&measured.plan, self.expected_bytes_per_second()),
                wrong_words: measured.data_errors.words,
                first_wrong_word: measured.data_errors.first_word,
                channels: measured.channels.clone(),
                lanes: measured.lanes.clone(),
            })),
        }
    }
}

impl RoundTrips {
    /// Returns the round trips as plain data.
    #[must_use]
    pub fn result(&self) -> Latency {
        Latency {
            name: self.name.clone(),
            bytes: self.message_bytes,
            round_trips: self.round_trips.len(),
            one_way: self.one_way(),
            plan: Some(plan(&self.plan, self.plan.expected_bytes_per_second)),
            wrong_words: self.data_errors.words,
        }
    }
}

fn plan(plan: &Plan, expected_bytes_per_second: f64) -> PlanSummary {
    PlanSummary {
        path: plan.path.iter().map(|function| function.name.clone()).collect(),
        max_payload_bytes: plan.max_payload_bytes,
        expected_bytes_per_second,
        slowest_link: plan.slowest_link.clone(),
        through_root_complex: plan.through_root_complex,
        not_faster: plan.refused.iter().map(ToString::to_string).collect(),
    }
}

impl DirectionOutcome {
    /// Returns the use of the direction as plain data, in shares of `span`.
    #[must_use]
    pub fn result(&self, span: Picoseconds) -> Link {
        let counters = &self.counters;
        let share = |bytes| wire_share(self.rate, bytes, span);
        let idle = |reason: IdleReason| {
            let share = counters.idle_ps[reason as usize] as f64 / span.0.max(1) as f64;
            (reason.to_string().replace(' ', "_"), share)
        };
        Link {
            direction: self.name.clone(),
            generation: self.rate.generation.number(),
            width: self.rate.width.lanes(),
            flows: self.data_of.clone(),
            bytes_per_second: self.payload_rate(span),
            ceiling_bytes_per_second: self.shared_ceiling(span),
            tlps: counters.tlps,
            replayed_tlps: counters.replayed_tlps,
            acks: counters.acks,
            naks: counters.naks,
            update_fcs: counters.update_fcs,
            payload_bytes: counters.payload_bytes,
            header_bytes: counters.header_bytes,
            replayed_bytes: counters.replayed_bytes,
            dllp_bytes: counters.dllp_bytes,
            skp_bytes: counters.skp_bytes,
            share: LinkShares {
                payload: share(counters.payload_bytes),
                header: share(counters.header_bytes),
                replay: share(counters.replayed_bytes),
                dllp: share(counters.dllp_bytes),
                skp: share(counters.skp_bytes),
                idle: IdleReason::ALL.into_iter().map(idle).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_reasons_are_those_of_the_fabric() {
        let reasons = IdleReason::ALL.map(|reason| reason.to_string());
        assert_eq!(reasons, crosslane_results::IDLE_REASONS);
    }
}
