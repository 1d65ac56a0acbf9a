// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of workloads.

use crosslane_driver::ChannelKind;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_results::{Account, Better, Ceiling, DirectionLoad, Figure};

use super::{Measurement, Workload};
use crate::latency::RoundTrips;
use crate::links::DirectionOutcome;
use crate::measured::Measured;
use crate::together::Common;

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
    #[must_use]
    pub fn expected_bytes_per_second(&self) -> f64 {
        let plan = &self.measured.plan;
        let first = self.measured.channels.first().map(|channel| channel.kind);
        // The plan alone takes host memory to be below 4 GiB.
        let is_high = self.ceiling.as_ref().is_some_and(|ceiling| ceiling.header_dw == 4);
        match first == Some(ChannelKind::C2h) && is_high {
            true => plan.expected_at(BusAddress(1 << 32)),
            false => plan.expected_bytes_per_second,
        }
    }

    /// Returns the rate by the engine's timers as a share of the ceiling less DLLPs.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling.as_ref()?.less_dllps_bytes_per_second;
        (ceiling > 0.0).then(|| self.measured.hardware_bytes_per_second() / ceiling)
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
    pub common: Option<Common>,
    /// Every direction that data crossed, counted over `span`.
    pub directions: Vec<DirectionOutcome>,
    /// The same of every direction of the lab, over `span`; of large labs, of those that data
    /// crossed. None of a latency.
    pub loads: Vec<DirectionLoad>,
    /// The account of the busiest of `directions` in `span`.
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
            directions: Vec::new(),
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
    #[must_use]
    pub fn on_cards(workload: Workload, measurement: Measurement) -> Self {
        let wrong = measurement.wrong_words();
        let errors = (wrong > 0).then(|| format!("{wrong} words of 4 B are not what was sent"));
        let outcome = Self {
            error_count: u64::from(wrong > 0),
            errors: errors.into_iter().collect(),
            ..Self::new(workload)
        };
        match measurement {
            Measurement::RoundTrips(trips) => Self { round_trips: Some(trips), ..outcome },
            Measurement::Flows(together) => {
                let flow = |measured| WorkloadFlow { measured, ceiling: None };
                Self { flows: together.flows.into_iter().map(flow).collect(), ..outcome }
            }
        }
    }

    /// Returns the number of words of 4 B that were not what was sent.
    #[must_use]
    pub fn wrong_words(&self) -> u64 {
        let trips = self.round_trips.as_ref().map_or(0, |trips| trips.data_errors.words);
        trips + self.flows.iter().map(|flow| flow.measured.data_errors.words).sum::<u64>()
    }

    /// Returns the figure of the run, as [`WorkloadRun::figure`](super::WorkloadRun::figure) has
    /// it; none if it failed.
    #[must_use]
    pub fn figure(&self) -> Option<Figure> {
        let flows: Vec<&Measured> = self.flows.iter().map(|flow| &flow.measured).collect();
        match &self.round_trips {
            Some(round_trips) => Some(one_way_of(round_trips)),
            None => (!flows.is_empty()).then(|| rate_of(&flows)),
        }
    }
}

/// All bytes of all flows, from the first beginning to the last end.
pub(super) fn rate_of(flows: &[&Measured]) -> Figure {
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let started = flows.iter().map(|flow| flow.started).min().unwrap_or_default();
    let ended = flows.iter().map(|flow| flow.ended).max().unwrap_or_default();
    let seconds = ended.since(started).as_seconds();
    let value = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    Figure { value, better: Better::Higher }
}

/// The typical time one way.
pub(super) fn one_way_of(round_trips: &RoundTrips) -> Figure {
    Figure { value: round_trips.one_way().typical_ps as f64, better: Better::Lower }
}
