// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Choices of the program that moves data, and the levers of each kind of run.

use crosslane_driver::{DescriptorSource, Notification};
use crosslane_experiment::{Options, PlannedFlow, Registration, TrafficRun, Workload, WorkloadRun};
use crosslane_fabric::FlowKind;
use crosslane_host::PageSize;
use crosslane_results::{Limit, LimitKind};

use super::payloads::{self, Asked};
use super::requesters::{descriptors, windows};
use super::ways::{Requester, Transfer, Ways, traffic_ways, workload_ways};
use super::{levers_of, list, of_lab};
use crate::error::ExplainError;
use crate::search::{Lever, Liftable};

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
fn dllps<C: Clone + 'static>(
    ways: &Ways,
    free: impl Fn(&mut C) + Send + Sync + 'static,
) -> Lever<C> {
    let mut names: Vec<String> = Vec::new();
    for (direction, _) in ways.data_directions() {
        names.push(ways.direction_name(direction));
    }
    let place = match names.len() {
        0..=2 => list(&names),
        count => format!("the {count} directions that data cross"),
    };
    let words = "Acks and UpdateFCs beside the data".to_owned();
    lever(LimitKind::Dllps, (&place, words, "they take no time"), free)
}

impl Asked for WorkloadRun {
    fn set_max_payload(&mut self, bytes: u32) {
        self.max_payload_bytes = Some(bytes);
    }

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

impl Liftable for WorkloadRun {
    fn levers(&self, first: &Self) -> Result<Vec<Lever<Self>>, ExplainError> {
        let ways = workload_ways(self)?;
        let file = self.lab.file();
        let mut spots = of_lab(&self.lab, &first.lab, &ways);
        if self.workload.keeps_windows() {
            spots.extend(windows(file, &ways));
        }
        if let Some(source) = self.workload.options().map(|options| options.descriptors)
            && source != DescriptorSource::CommandPort
        {
            let from_ring = matches!(source, DescriptorSource::Ring { .. });
            spots.extend(descriptors(file, &ways, from_ring));
        }
        let mut levers = levers_of(spots);
        levers.extend(payloads::levers(self, &ways));
        levers.push(dllps(&ways, |run: &mut Self| run.dllps_free = true));
        levers.extend(program(self));
        Ok(levers)
    }
}

/// The choices of the host's program.
fn program(case: &WorkloadRun) -> Vec<Lever<WorkloadRun>> {
    let (Some(options), Some(flow)) = (case.workload.options(), case.flows.first()) else {
        return Vec::new();
    };
    let host = flow.memory.name.as_str();
    let choose = |kind, words: String, lifted: &str, set: fn(&mut Options)| {
        lever(kind, (host, words, lifted), move |run: &mut WorkloadRun| {
            run.workload.options_mut().into_iter().for_each(set);
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

fn outstanding(case: &WorkloadRun, options: &Options, host: &str) -> Option<Lever<WorkloadRun>> {
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
    Some(lever(LimitKind::Outstanding, (host, words, &lifted), move |run: &mut WorkloadRun| {
        if let Some(options) = run.workload.options_mut() {
            options.outstanding = many as u32;
            if let DescriptorSource::Ring { entries } = &mut options.descriptors {
                *entries = needed.max(*entries);
            }
        }
    }))
}

impl Asked for TrafficRun {
    fn set_max_payload(&mut self, bytes: u32) {
        self.max_payload_bytes = Some(bytes);
    }

    fn asked_bytes(&self) -> Option<u32> {
        self.flows.iter().filter_map(|flow| flow.payload_bytes).min()
    }

    fn can_have(&self, _payload_bytes: u32) -> bool {
        true
    }

    fn ask_for_longest(&mut self) {
        for flow in &mut self.flows {
            flow.payload_bytes = None;
        }
    }
}

impl Liftable for TrafficRun {
    fn levers(&self, first: &Self) -> Result<Vec<Lever<Self>>, ExplainError> {
        let ways = traffic_ways(self)?;
        let mut levers = levers_of(of_lab(&self.lab, &first.lab, &ways));
        levers.extend(payloads::levers(self, &ways));
        levers.push(dllps(&ways, |run: &mut Self| run.dllps_free = true));
        levers.extend(strict_ordering(self, &ways));
        levers.extend(in_flight(self, &ways)?);
        Ok(levers)
    }
}

/// Read completions that share a direction with posted writes.
fn strict_ordering(case: &TrafficRun, ways: &Ways) -> Option<Lever<TrafficRun>> {
    if case.choices.relaxed || case.choices.relaxed_reads {
        return None;
    }
    let file = case.lab.file();
    let writes: Vec<&Transfer> = ways.transfers.iter().filter(|it| it.writes).collect();
    let meets = |read: &&Transfer| {
        let shared = |direction| writes.iter().any(|it| it.requests.contains(direction));
        read.reads && read.completions.iter().any(shared)
    };
    let mut names: Vec<String> = Vec::new();
    for read in ways.transfers.iter().filter(meets) {
        let name = match read.requester {
            Requester::Engine(index) | Requester::Generic(index) | Requester::Processor(index) => {
                &file.endpoints[index].name
            }
            Requester::Core(index) => &file.hosts[index].name,
        };
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        return None;
    }
    let place = list(&names);
    let words = format!("the completions for {place}, which wait behind posted writes");
    let said = (place.as_str(), words, "reads with relaxed ordering");
    Some(lever(LimitKind::StrictOrdering, said, |run: &mut TrafficRun| {
        run.choices.relaxed_reads = true;
    }))
}

fn in_flight(case: &TrafficRun, ways: &Ways) -> Result<Option<Lever<TrafficRun>>, ExplainError> {
    let planned = case.plan(&case.lab.build(case.seed)?)?;
    let Some(now) = planned.iter().map(|flow| flow.in_flight()).min() else { return Ok(None) };
    let room = planned.iter().map(|planned| {
        let stride = planned.flow.operation_bytes.next_multiple_of(64).max(1);
        planned.flow.operations.min(planned.flow.window_bytes / stride)
    });
    let many = room.min().unwrap_or(0).min(MANY);
    let is_load = |flow: &&PlannedFlow| {
        flow.flow.kind == FlowKind::Read && flow.in_flight() == 1 && flow.flow.outstanding > 1
    };
    if many <= now || planned.iter().any(|flow| is_load(&flow)) {
        return Ok(None);
    }
    let file = case.lab.file();
    let mut names: Vec<String> = Vec::new();
    for requester in ways.requesters() {
        names.push(match requester {
            Requester::Engine(index) | Requester::Generic(index) | Requester::Processor(index) => {
                file.endpoints[index].name.clone()
            }
            Requester::Core(index) => file.hosts[index].name.clone(),
        });
    }
    let place = list(&names);
    let words = match now {
        1 => format!("one operation at a time, which {place} posts"),
        _ => format!("the {now} operations at once that {place} posts"),
    };
    let lifted = format!("{many} at once");
    Ok(Some(lever(
        LimitKind::Outstanding,
        (&place, words, &lifted),
        move |run: &mut TrafficRun| {
            run.choices.outstanding = Some(many as u32);
        },
    )))
}
