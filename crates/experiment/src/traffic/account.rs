// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accounts of links while generic flows ran.

use crosslane_fabric::{DirectionId, Fabric, FlowSource, LinkCounters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Account, DirectionLoad, TimeUse, Use};

use super::plan::PlannedFlow;
use crate::account::{Feeding, OF_LINKS, busiest, refined};
use crate::links::{direction_load, direction_name, uses};
use crate::samples::Samples;

pub(super) fn loads_of(
    fabric: &Fabric,
    samples: &Samples,
    counted: &[LinkCounters],
    span: Picoseconds,
) -> Vec<DirectionLoad> {
    let load =
        |(id, counters): (&DirectionId, &LinkCounters)| direction_load(fabric, *id, counters, span);
    samples.directions.iter().zip(counted).map(load).collect()
}

/// The account of the busiest direction with data.
pub(super) fn account_of(
    fabric: &Fabric,
    planned: &[PlannedFlow],
    samples: &Samples,
    counted: &[LinkCounters],
    span: Picoseconds,
) -> Option<Account> {
    let rate = |id: &DirectionId| fabric.link(id.link).parameters.rate;
    let uses_of = |id: &DirectionId| {
        let index = samples.directions.iter().position(|other| other == id);
        index.map_or_else(Vec::new, |index| uses(rate(id), &counted[index]))
    };
    let mut with_data: Vec<DirectionId> = Vec::new();
    for flow in planned {
        let (writes, reads) = flow.data_directions();
        for id in writes.iter().chain(reads) {
            if !with_data.contains(id) {
                with_data.push(*id);
            }
        }
    }
    let all: Vec<Vec<TimeUse>> = with_data.iter().map(uses_of).collect();
    let at = busiest(&all)?;
    let id = with_data[at];
    let mut feeding = Feeding::default();
    let crossing: Vec<&PlannedFlow> = planned
        .iter()
        .filter(|flow| {
            let (writes, reads) = flow.data_directions();
            writes.contains(&id) || reads.contains(&id)
        })
        .collect();
    for flow in &crossing {
        for loss in losses(flow, id, uses_of) {
            feeding.add(loss.what, loss.share / crossing.len() as f64);
        }
    }
    Some(Account {
        direction: direction_name(fabric, id),
        link: rate(&id).to_string(),
        span_ps: span.0,
        uses: refined(&all[at], &feeding, Use::NothingToSend),
        iommus: Vec::new(),
    })
}

/// Returns the waits of those who feed a direction: the links before it, and of a requester whose
/// writes or reads it is, what its own link was idle for.
fn losses(
    flow: &PlannedFlow,
    id: DirectionId,
    uses_of: impl Fn(&DirectionId) -> Vec<TimeUse>,
) -> Vec<TimeUse> {
    let (writes, reads) = flow.data_directions();
    let way = if reads.contains(&id) { reads } else { writes };
    let mut losses: Vec<TimeUse> = Vec::new();
    let mut at_least = |what: Use, share: f64| match losses.iter_mut().find(|l| l.what == what) {
        Some(loss) => loss.share = loss.share.max(share),
        None => losses.push(TimeUse { what, share }),
    };
    for before in way.iter().take_while(|other| **other != id) {
        for entry in uses_of(before).iter().filter(|entry| OF_LINKS.contains(&entry.what)) {
            at_least(entry.what, entry.share);
        }
    }
    if matches!(flow.flow.source, FlowSource::Endpoint(_))
        && let Some(first) = flow.requests.first()
    {
        let own = [Use::SenderPace, Use::NoTag];
        for entry in uses_of(first).iter().filter(|entry| own.contains(&entry.what)) {
            at_least(entry.what, entry.share);
        }
    }
    losses
}
