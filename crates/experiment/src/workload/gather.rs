// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of runs in a lab, gathered after their end.

use crosslane_fabric::{ChannelKind, ChannelWaits, DirectionId, ErrorRecord, LinkCounters};
use crosslane_lab::{Ending, Simulation};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Account, DirectionLoad, TimeUse, Use};

use super::Measurement;
use super::ceiling::{data_tlps, flow_ceiling};
use super::ends::FlowEnds;
use super::outcome::{WorkloadFlow, WorkloadOutcome};
use super::run::{Unfinished, WorkloadRun};
use super::segments::Segment;
use super::watch::Watch;
use crate::account::{Feeding, OF_LINKS, busiest, refined};
use crate::ceiling::Carrier;
use crate::links::{DirectionOutcome, direction_load, direction_name, uses};
use crate::measured::{ChannelReport, Measured};
use crate::together::Together;

impl WorkloadRun {
    pub(super) fn gather(
        &self,
        simulation: &Simulation,
        watch: &Watch<'_>,
        ways: &[Vec<Segment>],
        ending: Ending<Measurement, Unfinished>,
        ports_set: Vec<String>,
    ) -> WorkloadOutcome {
        let mut errors: Vec<String> = ending.left.iter().map(ToString::to_string).collect();
        let brought = match ending.program {
            Ok(Ok(brought)) => Some(brought),
            Ok(Err(Unfinished::Failed(error))) => {
                errors.push(error.to_string());
                None
            }
            Ok(Err(Unfinished::Interrupted)) => None,
            Err(stuck) => {
                errors.push(stuck.to_string());
                None
            }
        };
        errors.extend(brought.iter().flat_map(Measurement::wrong_data));
        let mut outcome = WorkloadOutcome {
            span: Some(Picoseconds::ZERO),
            simulated: simulation.now(),
            ports_set,
            ..WorkloadOutcome::new(self.workload)
        };
        match brought {
            None => {}
            Some(Measurement::RoundTrips(round_trips)) => {
                outcome.round_trips = Some(round_trips);
            }
            Some(Measurement::Flows(together)) => {
                let (from, to) = span_of(&together);
                if let Some((counted, span)) = watch.between(from, to) {
                    outcome.span = Some(span);
                    outcome.directions = directions_of(simulation, watch, ways, &counted);
                    outcome.loads = loads_of(simulation, watch, &counted, span);
                    outcome.account =
                        account_of(simulation, &outcome.directions, ways, &together, span);
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
        outcome.error_count = ending.error_count + errors.len() as u64;
        // Errors of ports come first: they are the reason for those that follow.
        errors.splice(0..0, first_errors(&ending.errors));
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
        let (carrier, tlps) = data_tlps(&self.lab, &self.workload, simulation, &measured, ends);
        let ceiling = flow_ceiling(simulation, ends, &way_counters, span, carrier, tlps);
        WorkloadFlow { measured, ceiling }
    }
}

/// The first error of each kind that each port has detected: thousands may follow that say the
/// same of the next packet.
fn first_errors(errors: &[ErrorRecord]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut sentences = Vec::new();
    for error in errors {
        let key = (error.port, std::mem::discriminant(&error.kind));
        if !seen.contains(&key) {
            seen.push(key);
            sentences.push(error.to_string());
        }
    }
    sentences
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
    together: &Together,
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
        // The waits of each of several flows count by their number.
        for loss in losses(
            &waits_of(simulation, segment, together),
            segment,
            direction.id,
            directions,
            &all,
        ) {
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

/// The waits of the engine of a segment: by the device's own count, or else, as of gateware, by the
/// registers that the driver has read. Those do not tell a host that has posted nothing from
/// descriptors that are not fetched yet.
fn waits_of(simulation: &Simulation, segment: &Segment, together: &Together) -> ChannelWaits {
    let kind = match segment.channel {
        crosslane_driver::ChannelKind::H2c => ChannelKind::H2c,
        crosslane_driver::ChannelKind::C2h => ChannelKind::C2h,
        crosslane_driver::ChannelKind::Peer => ChannelKind::Peer,
    };
    let (name, counted) = simulation.with_fabric(|fabric| {
        let name = fabric.node(segment.engine).name.clone();
        (name, fabric.channel_waits(segment.engine, kind))
    });
    if let Some(waits) = counted {
        return waits;
    }
    let mut reports = together.flows.iter().flat_map(|flow| &flow.channels);
    let read = reports.find(|report| report.device == name && report.kind == segment.channel);
    read.map(ChannelReport::waits).unwrap_or_default()
}

/// Returns the waits of those who feed a direction in a segment: its engine by its counters, and
/// the links before it.
fn losses(
    waits: &ChannelWaits,
    segment: &Segment,
    id: DirectionId,
    directions: &[DirectionOutcome],
    all: &[Vec<TimeUse>],
) -> Vec<TimeUse> {
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
