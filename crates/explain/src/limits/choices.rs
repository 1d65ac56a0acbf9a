// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Choices of the program that moves data, and the levers of each kind of run.

use crosslane_driver::{DescriptorSource, Notification};
use crosslane_experiment::{
    EngineWork, Options, PlannedFlow, Registration, Scenario, TrafficWork, Workload,
};
use crosslane_fabric::FlowKind;
use crosslane_host::PageSize;
use crosslane_lab::LabFile;
use crosslane_results::{Limit, LimitKind};

use super::payloads::{self, Asked};
use super::requesters::{descriptors, windows};
use super::ways::{Requester, Transfer, Ways, traffic_ways, workload_ways};
use super::{levers_of, list, of_lab};
use crate::error::ExplainError;
use crate::search::Lever;

type Levers<W> = Result<Vec<Lever<Scenario<W>>>, ExplainError>;

/// Most transfers or operations in flight that are tried: enough of the smallest to cover any round
/// trip.
const MANY: u64 = 1024;
/// Most transfers in flight of a workload that are tried.
const MANY_TRANSFERS: u64 = 64;
/// Most bytes of these transfers, and thus of host memory.
const MANY_BYTES: u64 = 64 << 20;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;
/// Most descriptors of a ring (docs/engine.md).
const MOST_RING_ENTRIES: u64 = 1 << 16;

pub(super) fn lever<C>(
    kind: LimitKind,
    (place, words, lifted): (&str, String, &str),
    lift: impl Fn(&mut C) + Send + Sync + 'static,
) -> Lever<C>
where
    C: Clone + 'static,
{
    let limit = Limit { kind, place: place.to_owned(), words, lifted: lifted.to_owned() };
    let lift = Box::new(move |case: &C| {
        let mut case = case.clone();
        lift(&mut case);
        Ok(case)
    });
    Lever { limit, lift }
}

/// The DLLPs in the direction of the data.
fn dllps<W: Clone + 'static>(ways: &Ways) -> Lever<Scenario<W>> {
    let directions = ways.data_directions().into_iter();
    let names: Vec<String> = directions.map(|(id, _)| ways.direction_name(id)).collect();
    let place = match names.len() {
        0..=2 => list(&names),
        count => format!("the {count} directions that data cross"),
    };
    let words = "Acks and UpdateFCs beside the data".to_owned();
    lever(LimitKind::Dllps, (&place, words, "they take no time"), |run: &mut Scenario<W>| {
        run.dllps_free = true;
    })
}

impl Asked for EngineWork {
    fn asked_bytes(&self) -> Option<u32> {
        match &self.workload {
            Workload::Latency(options) => options.payload_bytes,
            job => job.options()?.payload_bytes,
        }
    }

    /// A ping-pong message is a power of two, or a whole number of payloads.
    fn can_have(&self, payload_bytes: u32) -> bool {
        match &self.workload {
            Workload::Latency(options) => {
                let message = options.message_bytes;
                message.is_power_of_two() || message.is_multiple_of(payload_bytes)
            }
            _ => true,
        }
    }

    fn ask_for_longest(&mut self) {
        if let Workload::Latency(options) = &mut self.workload {
            options.payload_bytes = None;
        }
        if let Some(options) = self.workload.options_mut() {
            (options.payload_bytes, options.oversize) = (None, false);
        }
    }
}

/// Lists the limits of a run of engines.
pub(crate) fn of_engines(
    case: &Scenario<EngineWork>,
    first: &Scenario<EngineWork>,
) -> Levers<EngineWork> {
    let ways = workload_ways(case)?;
    let file = case.lab.file();
    let mut spots = of_lab(&case.lab, &first.lab, &ways);
    if case.work.workload.keeps_windows() {
        spots.extend(windows(file, &ways));
    }
    if let Some(source) = case.work.workload.options().map(|options| options.descriptors)
        && source != DescriptorSource::CommandPort
    {
        let from_ring = matches!(source, DescriptorSource::Ring { .. });
        spots.extend(descriptors(file, &ways, from_ring));
    }
    let mut levers = levers_of(spots);
    levers.extend(payloads::levers(case, &ways));
    levers.push(dllps(&ways));
    levers.extend(program(&case.work));
    Ok(levers)
}

/// The choices of the host's program.
fn program(case: &EngineWork) -> Vec<Lever<Scenario<EngineWork>>> {
    let (Some(options), Some(flow)) = (case.workload.options(), case.flows.first()) else {
        return Vec::new();
    };
    let host = flow.memory.name.as_str();
    let choose = |kind, words: String, lifted: &str, set: fn(&mut Options)| {
        lever(kind, (host, words, lifted), move |run: &mut Scenario<EngineWork>| {
            run.work.workload.options_mut().into_iter().for_each(set);
        })
    };
    let mut levers = Vec::new();
    if options.notification != Notification::Poll {
        let words = format!("interrupts, by which {host} learns of completions");
        levers.push(choose(LimitKind::Notification, words, "polling", |options| {
            options.notification = Notification::Poll;
        }));
    }
    if options.system_call {
        let words = format!("the system call on {host} for each transfer");
        levers.push(choose(LimitKind::SystemCall, words, "none", |options| {
            options.system_call = false;
        }));
    }
    if options.registration == Registration::Within {
        let words = format!("memory of {host} that is registered within each transfer");
        levers.push(choose(LimitKind::Registration, words, "registered before", |options| {
            options.registration = Registration::Before;
        }));
    }
    levers.extend(outstanding(case, options, host));
    levers
}

fn outstanding(
    case: &EngineWork,
    options: &Options,
    host: &str,
) -> Option<Lever<Scenario<EngineWork>>> {
    let one_at_a_time = options.registration == Registration::Within
        || options.descriptors == DescriptorSource::CommandPort
        || matches!(case.workload, Workload::Chain(_));
    let now = u64::from(options.outstanding);
    let many = (MANY_BYTES / options.size_bytes).clamp(2, MANY_TRANSFERS).min(options.iterations);
    if one_at_a_time || many <= now {
        return None;
    }
    let each = match options.pages {
        PageSize::Small => options.size_bytes.div_ceil(PAGE_BYTES) + 1,
        PageSize::Huge => 2,
    };
    let needed = (many * each).next_power_of_two().min(MOST_RING_ENTRIES) as u32;
    let words = match now {
        1 => format!("one transfer at a time, which {host} posts"),
        _ => format!("the {now} transfers at once that {host} posts"),
    };
    let lifted = format!("{many} at once");
    let said = (host, words, lifted.as_str());
    Some(lever(LimitKind::Outstanding, said, move |run: &mut Scenario<EngineWork>| {
        if let Some(options) = run.work.workload.options_mut() {
            options.outstanding = many as u32;
            if let DescriptorSource::Ring { entries } = &mut options.descriptors {
                *entries = needed.max(*entries);
            }
        }
    }))
}

impl Asked for TrafficWork {
    fn asked_bytes(&self) -> Option<u32> {
        self.flows.iter().filter_map(|flow| flow.payload_bytes).min()
    }

    fn ask_for_longest(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.payload_bytes = None);
    }
}

/// Lists the limits of a run of generic requesters.
pub(crate) fn of_traffic(
    case: &Scenario<TrafficWork>,
    first: &Scenario<TrafficWork>,
) -> Levers<TrafficWork> {
    let running = case.lab.build(case.seed)?;
    let planned = case.plan(&running)?;
    let ways = traffic_ways(case, &running, &planned);
    let mut levers = levers_of(of_lab(&case.lab, &first.lab, &ways));
    levers.extend(payloads::levers(case, &ways));
    levers.push(dllps(&ways));
    levers.extend(strict_ordering(case, &ways));
    levers.extend(in_flight(case, &planned, &ways));
    Ok(levers)
}

/// Read completions that share a direction with posted writes.
fn strict_ordering(
    case: &Scenario<TrafficWork>,
    ways: &Ways,
) -> Option<Lever<Scenario<TrafficWork>>> {
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
    Some(lever(LimitKind::StrictOrdering, said, |run: &mut Scenario<TrafficWork>| {
        run.work.choices.relaxed_reads = true;
    }))
}

/// Returns the names of requesters, each once.
fn names_of(file: &LabFile, requesters: impl IntoIterator<Item = Requester>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for requester in requesters {
        let name = requester.name(file);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn in_flight(
    case: &Scenario<TrafficWork>,
    planned: &[PlannedFlow],
    ways: &Ways,
) -> Option<Lever<Scenario<TrafficWork>>> {
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
    Some(lever(LimitKind::Outstanding, said, move |run: &mut Scenario<TrafficWork>| {
        run.work.choices.outstanding = Some(many as u32);
    }))
}
