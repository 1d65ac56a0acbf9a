// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of workloads.

use crosslane_driver::{ChannelKind, Plan};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_results::{
    Account, Better, Ceiling, Detail, DirectionLoad, Figure, Flow, Hardware, Link, PlanSummary,
    ScenarioResult, Together, Transfers,
};

use super::{Measurement, Workload};
use crate::latency::RoundTrips;
use crate::measured::{Measured, channel_word, total_rate};
use crate::scenario::Outcome;

/// Outcome of one flow.
#[derive(Clone, Debug)]
pub struct WorkloadFlow {
    /// Its measurement.
    pub measured: Measured,
    /// The rate that the links allow, where they are known.
    pub ceiling: Option<Ceiling>,
}

impl WorkloadFlow {
    /// Returns the rate that its plan lets expect, bytes per second. Of reads it is the most: the
    /// completer may cut completions shorter than the path allows.
    pub fn expected_bytes_per_second(&self) -> f64 {
        let plan = &self.measured.plan;
        let first = self.measured.channels.first().map(|channel| channel.kind.as_str());
        // The plan alone takes host memory to be below 4 GiB.
        let is_high = self.ceiling.as_ref().is_some_and(|ceiling| ceiling.header_dw == 4);
        match first == Some(channel_word(ChannelKind::C2h)) && is_high {
            true => plan.expected_at(BusAddress(1 << 32)),
            false => plan.expected_bytes_per_second,
        }
    }

    /// Returns the rate by the engine's timers as a share of the ceiling less DLLPs.
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling.as_ref()?.less_dllps_bytes_per_second;
        (ceiling > 0.0).then(|| self.measured.hardware_bytes_per_second() / ceiling)
    }

    /// Returns the flow as plain data.
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
                plan: summary_of(&measured.plan, self.expected_bytes_per_second()),
                wrong_words: measured.data_errors.words,
                first_wrong_word: measured.data_errors.first_word,
                channels: measured.channels.clone(),
                lanes: measured.lanes.clone(),
            })),
        }
    }
}

/// Outcome of a workload, in a lab or on cards.
#[derive(Clone, Debug)]
pub struct WorkloadOutcome {
    /// The workload.
    pub workload: Workload,
    /// Flow by flow; none of a ping-pong, or of a run that failed.
    pub flows: Vec<WorkloadFlow>,
    /// Round trips of a ping-pong.
    pub round_trips: Option<RoundTrips>,
    /// While all of several flows were active.
    pub common: Option<Together>,
    /// Every direction that data crossed, counted over `span`.
    pub links: Vec<Link>,
    /// The load of every direction of the lab, over `span`; of large labs, of those that data
    /// crossed. None of a latency.
    pub loads: Vec<DirectionLoad>,
    /// The account of the busiest of `links` in `span`.
    pub account: Option<Account>,
    /// The time in which data moved; of several flows, the time in which all did. Absent on cards.
    pub span: Option<Picoseconds>,
    /// Simulated time at the end; zero on cards.
    pub simulated: Picoseconds,
    /// Ports that were set to another Max_Payload_Size.
    pub ports_set: Vec<String>,
    /// Errors, a sentence each; no more than the fabric keeps.
    pub errors: Vec<String>,
    /// Number of errors.
    pub error_count: u64,
}

impl WorkloadOutcome {
    pub(super) const fn new(workload: Workload) -> Self {
        Self {
            workload,
            flows: Vec::new(),
            round_trips: None,
            common: None,
            links: Vec::new(),
            loads: Vec::new(),
            account: None,
            span: None,
            simulated: Picoseconds::ZERO,
            ports_set: Vec::new(),
            errors: Vec::new(),
            error_count: 0,
        }
    }

    /// Returns the outcome of a workload on cards, of whose links nothing is known but what the
    /// cards and the tree tell.
    pub fn on_cards(workload: Workload, measurement: Measurement) -> Self {
        let outcome = Self::new(workload);
        let mut outcome = match measurement {
            Measurement::RoundTrips(trips) => Self { round_trips: Some(trips), ..outcome },
            Measurement::Flows(together) => {
                let flow = |measured| WorkloadFlow { measured, ceiling: None };
                Self { flows: together.flows.into_iter().map(flow).collect(), ..outcome }
            }
        };
        outcome.errors = outcome.wrong_data().into_iter().collect();
        outcome.error_count = outcome.errors.len() as u64;
        outcome
    }

    /// Returns the number of words of 4 B that were not what was sent.
    pub fn wrong_words(&self) -> u64 {
        let trips = self.round_trips.as_ref().map_or(0, |trips| trips.data_errors.words);
        trips + self.flows.iter().map(|flow| flow.measured.data_errors.words).sum::<u64>()
    }
}

impl Outcome for WorkloadOutcome {
    fn result(&self) -> ScenarioResult {
        ScenarioResult {
            bytes: Some(self.workload.size_bytes()),
            flows: self.flows.iter().map(|flow| flow.result(&self.workload)).collect(),
            while_all_active: self.common,
            latency: self.round_trips.as_ref().map(RoundTrips::result),
            links: self.links.clone(),
            link_loads: self.loads.clone(),
            links_span_ps: self.span.map(|span| span.0),
            ports_set: self.ports_set.clone(),
            simulated_ps: self.span.map(|_| self.simulated.0),
            errors: self.errors.clone(),
            error_count: self.error_count,
            ..ScenarioResult::default()
        }
    }

    fn figure(&self) -> Option<Figure> {
        match &self.round_trips {
            Some(round_trips) => Some(one_way_of(round_trips)),
            None if self.flows.is_empty() => None,
            None => Some(rate_of(self.flows.iter().map(|flow| &flow.measured))),
        }
    }

    fn simulated(&self) -> Picoseconds {
        self.simulated
    }

    fn wrong_data(&self) -> Option<String> {
        let wrong = self.wrong_words();
        (wrong > 0).then(|| format!("{wrong} words of 4 B are not what was sent"))
    }

    fn has_errors(&self) -> bool {
        self.error_count > 0
    }

    fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }
}

/// All bytes of all flows, from the first beginning to the last end.
pub(super) fn rate_of<'a>(flows: impl Iterator<Item = &'a Measured>) -> Figure {
    total_rate(flows.map(|flow| (flow.bytes, flow.started, flow.ended)))
}

/// The typical time one way.
pub(super) fn one_way_of(round_trips: &RoundTrips) -> Figure {
    Figure { value: round_trips.one_way().typical_ps as f64, better: Better::Lower }
}

/// Returns a plan as plain data.
pub(crate) fn summary_of(plan: &Plan, expected_bytes_per_second: f64) -> PlanSummary {
    PlanSummary {
        path: plan.path.iter().map(|function| function.name.clone()).collect(),
        max_payload_bytes: plan.max_payload_bytes,
        expected_bytes_per_second,
        slowest_link: plan.slowest_link.clone(),
        through_root_complex: plan.through_root_complex,
        not_faster: plan.refused.iter().map(ToString::to_string).collect(),
    }
}
