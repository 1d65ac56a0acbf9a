// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of generic requesters, with the choices about their operations.

use crosslane_experiment::{PlannedFlow, Scenario, TrafficWork};
use crosslane_fabric::FlowKind;
use crosslane_lab::LabFile;
use crosslane_results::{LimitKind, distinct};

use super::payloads::{self, Asked};
use super::ways::{Requester, Transfer, Ways, traffic_ways};
use super::{Spots, dllps, lever, levers_of, list};
use crate::explainable::{
    Explainable, Levers, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers, lengthened,
};
use crate::search::Lever;

/// Most operations in flight that are tried: enough of the smallest to cover any round trip.
const MANY: u64 = 1024;

impl Explainable for TrafficWork {
    /// Shortens only the number of operations if flows differ in operation size: the number is the
    /// same for all of them.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let running = scenario.lab.build(scenario.seed).ok();
        let planned = running.and_then(|running| scenario.plan(&running).ok());
        let Some(planned) = planned else { return vec![(scenario.clone(), None)] };
        let of = |planned: &PlannedFlow| Transfers {
            count: planned.flow.operations,
            size_bytes: planned.flow.operation_bytes,
            outstanding: planned.flow.outstanding.into(),
        };
        let flows: Vec<Transfers> = planned.iter().map(of).collect();
        let Some((first, others)) = flows.split_first() else { return Vec::new() };
        let bytes = if others.is_empty() { SHORT_BYTES } else { SHORT_SHARED_BYTES };
        if others.iter().all(|flow| flow == first) {
            let with = |(transfers, words): Short<Transfers>| {
                let mut short = scenario.clone();
                if words.is_some() {
                    short.work.choices.operations = Some(transfers.count);
                    short.work.choices.outstanding = Some(first.outstanding as u32);
                    let flows = short.work.flows.iter_mut();
                    flows.for_each(|flow| flow.operation_bytes = transfers.size_bytes);
                }
                (short, words)
            };
            return first.shortened(bytes, 0).into_iter().map(with).collect();
        }
        let most = flows.iter().map(|flow| flow.count).max().unwrap_or_default();
        lengthened(|times| {
            let bytes = SHORT_SHARED_BYTES * times;
            let counts = flows.iter().map(|flow| flow.shortened(bytes, 0).swap_remove(0).0.count);
            let count = counts.max().unwrap_or_default();
            if count >= most {
                return (scenario.clone(), None);
            }
            let mut short = scenario.clone();
            short.work.choices.operations = Some(count);
            (short, Some(format!("{count} operations of each flow")))
        })
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let running = scenario.lab.build(scenario.seed)?;
        let planned = scenario.plan(&running)?;
        let ways = traffic_ways(scenario, &running, &planned);
        let mut levers = levers_of(Spots::of(&scenario.lab, &first.lab, &ways));
        levers.extend(payloads::levers(scenario, &ways));
        levers.push(dllps(&ways));
        levers.extend(strict_ordering(scenario, &ways));
        levers.extend(in_flight(scenario, &planned, &ways));
        Ok(levers)
    }
}

impl Asked for TrafficWork {
    fn asked_bytes(&self) -> Option<u32> {
        self.flows.iter().filter_map(|flow| flow.payload_bytes).min()
    }

    fn ask_for_longest(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.payload_bytes = None);
    }
}

/// Read completions that share a direction with posted writes.
fn strict_ordering(case: &Scenario<TrafficWork>, ways: &Ways) -> Option<Lever<TrafficWork>> {
    if case.work.choices.relaxed || case.work.choices.relaxed_reads {
        return None;
    }
    let writes: Vec<&Transfer> = ways.transfers.iter().filter(|it| it.writes).collect();
    let meets = |read: &&Transfer| {
        let shared = |direction| writes.iter().any(|it| it.requests.contains(direction));
        read.reads && read.completions.iter().any(shared)
    };
    let requesters = ways.transfers.iter().filter(meets).map(|read| read.requester);
    let names = names_of(case.lab.file(), requesters);
    if names.is_empty() {
        return None;
    }
    let place = list(&names);
    let words = format!("the completions for {place}, which wait behind posted writes");
    let said = (place.as_str(), words, "reads with relaxed ordering");
    Some(lever::<TrafficWork>(LimitKind::StrictOrdering, said, |run| {
        run.work.choices.relaxed_reads = true;
    }))
}

/// Returns the names of requesters, each once.
fn names_of(file: &LabFile, requesters: impl IntoIterator<Item = Requester>) -> Vec<String> {
    distinct(requesters.into_iter().map(|requester| requester.name(file).to_owned()))
}

fn in_flight(
    case: &Scenario<TrafficWork>,
    planned: &[PlannedFlow],
    ways: &Ways,
) -> Option<Lever<TrafficWork>> {
    let now = planned.iter().map(PlannedFlow::in_flight).min()?;
    let room = planned.iter().map(|planned| {
        let stride = planned.flow.operation_bytes.next_multiple_of(64).max(1);
        planned.flow.operations.min(planned.flow.window_bytes / stride)
    });
    let many = room.min().unwrap_or(0).min(MANY);
    let is_load = |flow: &PlannedFlow| {
        flow.flow.kind == FlowKind::Read && flow.in_flight() == 1 && flow.flow.outstanding > 1
    };
    if many <= now || planned.iter().any(is_load) {
        return None;
    }
    let place = list(&names_of(case.lab.file(), ways.requesters()));
    let words = match now {
        1 => format!("one operation at a time, which {place} posts"),
        _ => format!("the {now} operations at once that {place} posts"),
    };
    let said = (place.as_str(), words, &*format!("{many} at once"));
    Some(lever::<TrafficWork>(LimitKind::Outstanding, said, move |run| {
        run.work.choices.outstanding = Some(many as u32);
    }))
}
