// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a lab that has run to what came of it.

use crosslane_bench::{LinkUse, Measured, Together, why_not_faster};
use crosslane_fabric::{DirectionId, Fabric, IdleReason, LinkCounters};
use crosslane_lab::Simulation;
use crosslane_pcie::units::Picoseconds;

use super::ceiling::{data_tlps, flow_ceiling};
use super::ends::FlowEnds;
use super::outcome::{WorkloadFlow, WorkloadOutcome};
use super::run::{Brought, WorkloadRun};
use super::watch::Watch;
use crate::links::{DirectionOutcome, direction_name};

impl WorkloadRun {
    pub(super) fn gather(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
        ways: &[Vec<DirectionId>],
        brought: Option<Brought>,
        ports_set: Vec<String>,
        mut errors: Vec<String>,
    ) -> WorkloadOutcome {
        let (found, found_count) =
            simulation.with_fabric(|fabric| (first_errors(fabric), fabric.error_count()));
        let mut outcome = WorkloadOutcome {
            job: self.job,
            flows: Vec::new(),
            round_trips: None,
            common: None,
            directions: Vec::new(),
            span: Picoseconds::ZERO,
            simulated: simulation.now(),
            ports_set,
            errors: Vec::new(),
            error_count: 0,
        };
        match brought {
            None => {}
            Some(Brought::RoundTrips(round_trips)) => {
                errors.extend(wrong_words(&round_trips.name, round_trips.data_errors.words));
                outcome.round_trips = Some(round_trips);
            }
            Some(Brought::Flows(together)) => {
                for flow in &together.flows {
                    errors.extend(wrong_words(&flow.name, flow.data_errors.words));
                }
                let (from, to) = span_of(&together);
                if let Some((counted, span)) = watch.between(from, to) {
                    outcome.span = span;
                    outcome.directions = directions_of(simulation, watch, ways, &counted);
                }
                outcome.common = together.common.filter(|_| together.flows.len() > 1);
                let flows = together.flows.into_iter().zip(&self.flows).zip(ways);
                outcome.flows = flows
                    .map(|((measured, ends), way)| {
                        self.flow_outcome(simulation, watch, measured, ends, way)
                    })
                    .collect();
            }
        }
        outcome.error_count = found_count + errors.len() as u64;
        // What a port has found comes first: it is the reason for what follows.
        errors.splice(0..0, found);
        outcome.errors = errors;
        outcome
    }

    fn flow_outcome(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
        measured: Measured,
        ends: &FlowEnds,
        way: &[DirectionId],
    ) -> WorkloadFlow {
        let (from, to) = moving(&measured);
        let Some((counted, span)) = watch.between(from, to) else {
            return WorkloadFlow { measured, ceiling: None, why: Vec::new() };
        };
        let counters = |id: &DirectionId| {
            let index = watch.directions.iter().position(|other| other == id);
            index.map_or_else(LinkCounters::default, |index| counted[index])
        };
        let way_counters: Vec<(DirectionId, LinkCounters)> =
            way.iter().map(|id| (*id, counters(id))).collect();
        let (carrier, tlps) = data_tlps(&self.lab, &self.job, simulation, &measured, ends);
        let ceiling = flow_ceiling(simulation, ends, &way_counters, span, carrier, tlps);
        // The busiest direction is the one that bounds, alone or shared.
        let uses = simulation.with_fabric(|fabric| {
            let link_use = |id: &DirectionId| link_use(fabric, *id, &counters(id), span);
            way.iter().map(link_use).collect::<Vec<_>>()
        });
        let busiest = uses.iter().min_by(|a, b| a.idle_share().total_cmp(&b.idle_share()));
        let why = why_not_faster(&measured, busiest);
        WorkloadFlow { measured, ceiling, why }
    }
}

/// The first error of each kind that each port has detected: thousands may follow that say the
/// same of the next packet.
pub(super) fn first_errors(fabric: &Fabric) -> Vec<String> {
    let mut seen = Vec::new();
    let mut sentences = Vec::new();
    for error in fabric.errors() {
        let key = (error.port, std::mem::discriminant(&error.kind));
        if !seen.contains(&key) {
            seen.push(key);
            sentences.push(error.to_string());
        }
    }
    sentences
}

pub(super) fn wrong_words(name: &str, words: u64) -> Option<String> {
    (words > 0).then(|| format!("{name}: {words} words of the data that arrived are wrong"))
}

/// The time in which a flow's data moved.
fn moving(measured: &Measured) -> (Picoseconds, Picoseconds) {
    measured.hardware.map_or((measured.started, measured.ended), |time| (time.first, time.last))
}

/// The time in which all flows' data moved, or any did if there is none.
fn span_of(together: &Together) -> (Picoseconds, Picoseconds) {
    let spans = || together.flows.iter().map(moving);
    let latest = spans().map(|(first, _)| first).max().unwrap_or_default();
    let earliest = spans().map(|(_, last)| last).min().unwrap_or_default();
    if latest < earliest {
        return (latest, earliest);
    }
    let first = spans().map(|(first, _)| first).min().unwrap_or_default();
    (first, spans().map(|(_, last)| last).max().unwrap_or_default())
}

fn directions_of(
    simulation: &Simulation,
    watch: &Watch<'_>,
    ways: &[Vec<DirectionId>],
    counted: &[LinkCounters],
) -> Vec<DirectionOutcome> {
    simulation.with_fabric(|fabric| {
        let direction = |(&id, counters): (&DirectionId, &LinkCounters)| DirectionOutcome {
            id,
            name: direction_name(fabric, id),
            rate: fabric.link(id.link).parameters.rate,
            counters: *counters,
            data_of: (0..ways.len()).filter(|flow| ways[*flow].contains(&id)).collect(),
        };
        watch.directions.iter().zip(counted).map(direction).collect()
    })
}

fn link_use(
    fabric: &Fabric,
    id: DirectionId,
    counters: &LinkCounters,
    span: Picoseconds,
) -> LinkUse {
    let idle =
        |reason: IdleReason| (reason.to_string(), Picoseconds(counters.idle_ps[reason as usize]));
    LinkUse {
        name: direction_name(fabric, id),
        rate: fabric.link(id.link).parameters.rate,
        span,
        dllp_bytes: counters.dllp_bytes,
        idle: IdleReason::ALL.into_iter().map(idle).filter(|(_, time)| time.0 > 0).collect(),
    }
}
