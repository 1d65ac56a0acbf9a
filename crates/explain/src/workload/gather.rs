// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a lab that has run to what came of it.

use crosslane_bench::{Carrier, Measured, Together};
use crosslane_device::Engine;
use crosslane_fabric::{DirectionId, Fabric, LinkCounters};
use crosslane_lab::Simulation;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Account, DirectionLoad, TimeUse, Use};

use super::ceiling::{data_tlps, flow_ceiling};
use super::ends::FlowEnds;
use super::job::Brought;
use super::outcome::{WorkloadFlow, WorkloadOutcome};
use super::run::WorkloadRun;
use super::segments::Segment;
use super::watch::Watch;
use crate::account::{Feeding, OF_LINKS, busiest, refined};
use crate::links::{DirectionOutcome, direction_load, direction_name, uses};

impl WorkloadRun {
    pub(super) fn gather(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
        ways: &[Vec<Segment>],
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
            loads: Vec::new(),
            account: None,
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
                    outcome.loads = loads_of(simulation, watch, &counted, span);
                    outcome.account = account_of(simulation, &outcome.directions, ways, span);
                    if let Some(account) = &mut outcome.account {
                        account.iommus = watch.iommus_between(from, to);
                    }
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
        way: &[Segment],
    ) -> WorkloadFlow {
        let (from, to) = moving(&measured);
        let Some((counted, span)) = watch.between(from, to) else {
            return WorkloadFlow { measured, ceiling: None };
        };
        let counters = |id: &DirectionId| {
            let index = watch.directions.iter().position(|other| other == id);
            index.map_or_else(LinkCounters::default, |index| counted[index])
        };
        let crossed = way.iter().flat_map(|segment| &segment.way);
        let way_counters: Vec<(DirectionId, LinkCounters)> =
            crossed.map(|id| (*id, counters(id))).collect();
        let (carrier, tlps) = data_tlps(&self.lab, &self.job, simulation, &measured, ends);
        let ceiling = flow_ceiling(simulation, ends, &way_counters, span, carrier, tlps);
        WorkloadFlow { measured, ceiling }
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
    ways: &[Vec<Segment>],
    counted: &[LinkCounters],
) -> Vec<DirectionOutcome> {
    let crosses =
        |flow: &usize, id: &DirectionId| ways[*flow].iter().any(|segment| segment.way.contains(id));
    simulation.with_fabric(|fabric| {
        let direction = |(id, counters): (&DirectionId, &LinkCounters)| DirectionOutcome {
            id: *id,
            name: direction_name(fabric, *id),
            rate: fabric.link(id.link).parameters.rate,
            counters: *counters,
            data_of: (0..ways.len()).filter(|flow| crosses(flow, id)).collect(),
        };
        watch.directions[..watch.used].iter().zip(counted).map(direction).collect()
    })
}

fn loads_of(
    simulation: &Simulation,
    watch: &Watch<'_>,
    counted: &[LinkCounters],
    span: Picoseconds,
) -> Vec<DirectionLoad> {
    simulation.with_fabric(|fabric| {
        let load = |(id, counters): (&DirectionId, &LinkCounters)| {
            direction_load(fabric, *id, counters, span)
        };
        watch.directions.iter().zip(counted).map(load).collect()
    })
}

/// The account of the busiest direction.
fn account_of(
    simulation: &Simulation,
    directions: &[DirectionOutcome],
    ways: &[Vec<Segment>],
    span: Picoseconds,
) -> Option<Account> {
    let all: Vec<Vec<TimeUse>> =
        directions.iter().map(|direction| uses(direction.rate, &direction.counters)).collect();
    let busiest = busiest(&all)?;
    let direction = &directions[busiest];
    let segments: Vec<&Segment> =
        ways.iter().flatten().filter(|segment| segment.way.contains(&direction.id)).collect();
    let mut feeding = Feeding::default();
    for segment in &segments {
        // What each of several flows waited for counts by their number.
        for loss in losses(simulation, segment, direction.id, directions, &all) {
            feeding.add(loss.what, loss.share / segments.len() as f64);
        }
    }
    let writes = segments.iter().any(|segment| segment.carrier == Carrier::Writes);
    let rest = if writes { Use::SenderPace } else { Use::NothingToSend };
    Some(Account {
        direction: direction.name.clone(),
        link: direction.rate.to_string(),
        span_ps: span.0,
        uses: refined(&all[busiest], &feeding, rest),
        iommus: Vec::new(),
    })
}

/// What those who feed a direction in a segment waited for: its engine by its own counters, and
/// the links before it.
fn losses(
    simulation: &Simulation,
    segment: &Segment,
    id: DirectionId,
    directions: &[DirectionOutcome],
    all: &[Vec<TimeUse>],
) -> Vec<TimeUse> {
    let waits = simulation.with_fabric(|fabric| {
        let engine: &mut Engine = fabric.device_as(segment.engine)?;
        engine.waits(segment.channel, 0)
    });
    let waits = waits.unwrap_or_default();
    let share = |time: Picoseconds| time.0 as f64 / waits.moving.0.max(1) as f64;
    let mut losses = vec![
        TimeUse { what: Use::Host, share: share(waits.nothing_posted) },
        TimeUse { what: Use::Descriptor, share: share(waits.no_descriptor) + share(waits.gap) },
        TimeUse { what: Use::Stream, share: share(waits.no_data) },
        TimeUse { what: Use::NoTag, share: share(waits.no_tag) },
        TimeUse { what: Use::PeerCredit, share: share(waits.no_credit) },
    ];
    let before = segment.way.iter().take_while(|other| **other != id);
    let before: Vec<&Vec<TimeUse>> = before
        .filter_map(|other| directions.iter().position(|direction| direction.id == *other))
        .map(|index| &all[index])
        .collect();
    for what in OF_LINKS {
        let of = |uses: &&Vec<TimeUse>| -> f64 {
            uses.iter().filter(|entry| entry.what == what).map(|entry| entry.share).sum()
        };
        let share = before.iter().map(of).fold(0.0, f64::max);
        losses.push(TimeUse { what, share });
    }
    losses.retain(|loss| loss.share > 0.0);
    losses
}
