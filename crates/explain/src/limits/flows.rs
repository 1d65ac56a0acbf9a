// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows of data: of engines through the driver, and of generic requesters. Their payloads, and the
//! choices of the program that moves the data.

use std::sync::Arc;

use crosslane_driver::{DescriptorSource, Notification};
use crosslane_experiment::{
    EngineWork, Options, PlannedFlow, Registration, Scenario, TrafficWork, Workload,
};
use crosslane_fabric::IO_PAGE_BYTES;
use crosslane_fabric::parameters::Parameters;
use crosslane_host::PageSize;
use crosslane_lab::LabFile;
use crosslane_results::{Limit, LimitKind, distinct};

use super::memories::completion_bytes;
use super::requesters::{descriptors, windows};
use super::ways::{PortInfo, Requester, Transfer, Ways, traffic_ways, workload_ways};
use super::{
    Explainable, Levers, PAGE_BYTES, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Spots, Transfers,
    dllps, lengthened, lever, levers_of, lift, list,
};
use crate::search::Lever;

/// Most transfers in flight of a workload that are tried.
const MANY_TRANSFERS: u64 = 64;
/// Most bytes of these transfers, and thus of host memory.
const MANY_BYTES: u64 = 64 << 20;
/// Most descriptors of a ring (docs/engine.md).
const MOST_RING_ENTRIES: u64 = 1 << 16;
/// Fewest and most round trips of a shortened ping-pong. In a lab all are alike, except for the SKP
/// ordered sets and DLLPs that delay some.
const SHORT_ROUND_TRIPS: (u64, u64) = (4, 100);

impl Explainable for EngineWork {
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let Self { workload, flows } = &scenario.work;
        let options = workload.options();
        if let Workload::Latency(_) = workload {
            return with_fewer_rounds(scenario, *options);
        }
        let transfers = Transfers {
            count: options.iterations,
            size_bytes: options.size_bytes,
            outstanding: options.outstanding.into(),
        };
        let is_shared = flows.len() > 1 || matches!(workload, Workload::Chain(_));
        let bytes = if is_shared { SHORT_SHARED_BYTES } else { SHORT_BYTES };
        let with = |(transfers, words): Short<Transfers>| {
            let mut short = scenario.clone();
            let options = short.work.workload.options_mut();
            (options.iterations, options.size_bytes) = (transfers.count, transfers.size_bytes);
            (short, words)
        };
        let held = iotlb_bytes(scenario, options.pages);
        transfers.shortened(bytes, held).into_iter().map(with).collect()
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let ways = workload_ways(scenario)?;
        let workload = &scenario.work.workload;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        if workload.keeps_windows() {
            windows(&mut spots);
        }
        match workload.options().descriptors {
            _ if matches!(workload, Workload::Latency(_)) => {}
            DescriptorSource::CommandPort => {}
            source => descriptors(&mut spots, matches!(source, DescriptorSource::Ring { .. })),
        }
        let mut levers = levers_of(spots);
        levers.extend(payload_levers(scenario, &ways));
        levers.push(dllps(&ways));
        levers.extend(program(&scenario.work));
        Ok(levers)
    }
}

/// Largest IOTLB, as memory of the pages that it holds, that a shortened run still exceeds: beyond
/// it the run would be too long.
const MOST_HELD_BYTES: u64 = 16 << 20;

fn with_fewer_rounds(
    scenario: &Scenario<EngineWork>,
    options: Options,
) -> Vec<Short<Scenario<EngineWork>>> {
    let most = SHORT_BYTES / options.size_bytes.max(1);
    let least = most.clamp(SHORT_ROUND_TRIPS.0, SHORT_ROUND_TRIPS.1);
    lengthened(|times| {
        let rounds = (least * times).min(options.iterations);
        let mut short = scenario.clone();
        short.work.workload.options_mut().iterations = rounds;
        let words = format!("{rounds} round trips instead of {}", options.iterations);
        (short, (rounds != options.iterations).then_some(words))
    })
}

/// Returns the memory that the IOTLBs of the flows' hosts hold, bytes; 0 without an IOTLB, or if it
/// holds so much that walks do not matter.
fn iotlb_bytes(case: &Scenario<EngineWork>, pages: PageSize) -> u64 {
    let hosts = &case.lab.file().hosts;
    let held = case.work.flows.iter().filter_map(|flow| {
        let iommu = hosts.get(flow.host)?.part.parameters.iommu?;
        let page_bytes = match pages {
            PageSize::Small => IO_PAGE_BYTES,
            PageSize::Huge => iommu.largest_page_bytes,
        };
        Some(u64::from(iommu.iotlb_entries).saturating_mul(page_bytes))
    });
    held.filter(|bytes| *bytes <= MOST_HELD_BYTES).max().unwrap_or(0)
}

impl Asked for EngineWork {
    fn asked_bytes(&self) -> Option<u32> {
        self.workload.options().payload_bytes
    }

    /// A ping-pong message is a power of two, or a whole number of payloads.
    fn can_have(&self, payload_bytes: u32) -> bool {
        let message = self.workload.options().size_bytes;
        !matches!(self.workload, Workload::Latency(_))
            || message.is_power_of_two()
            || message.is_multiple_of(payload_bytes.into())
    }

    fn ask_for_longest(&mut self) {
        let options = self.workload.options_mut();
        (options.payload_bytes, options.oversize) = (None, false);
    }
}

/// The choices of the host's program.
fn program(case: &EngineWork) -> Vec<Lever<EngineWork>> {
    let (Some(flow), options) = (case.flows.first(), case.workload.options()) else {
        return Vec::new();
    };
    if let Workload::Latency(_) = case.workload {
        return Vec::new();
    }
    let host = flow.memory.name.as_str();
    let choose = |kind, words: String, lifted: &str, set: fn(&mut Options)| {
        lever::<EngineWork>(kind, (host, words, lifted), move |run| {
            set(run.work.workload.options_mut());
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

fn outstanding(case: &EngineWork, options: &Options, host: &str) -> Option<Lever<EngineWork>> {
    let one_at_a_time = options.registration == Registration::Within
        || match options.descriptors {
            DescriptorSource::CommandPort => true,
            DescriptorSource::Table => case.workload.has_card_memory(),
            DescriptorSource::Ring { .. } => false,
        }
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
    Some(lever::<EngineWork>(LimitKind::Outstanding, said, move |run| {
        let options = run.work.workload.options_mut();
        options.outstanding = many as u32;
        if let DescriptorSource::Ring { entries } = &mut options.descriptors {
            *entries = needed.max(*entries);
        }
    }))
}

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
            // More than a core's loads allow cannot be asked for.
            outstanding: planned
                .flow
                .outstanding
                .min(planned.most_in_flight.unwrap_or(u32::MAX))
                .into(),
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
        levers.extend(payload_levers(scenario, &ways));
        levers.push(dllps(&ways));
        levers.extend(strict_ordering(scenario, &ways));
        levers.extend(in_flight(scenario, &planned, &ways));
        levers.extend(loads(scenario, &planned));
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
    let room = planned.iter().enumerate().map(|(at, flow)| {
        let stride = flow.flow.operation_bytes.next_multiple_of(64).max(1);
        let is_copy = flow.is_copied || planned.get(at + 1).is_some_and(|next| next.is_copied);
        // The window of a copy is that of its buffers, of which there may be more.
        let window_bytes = match is_copy {
            true => flow.flow.window_bytes.max(MANY_BYTES),
            false => flow.flow.window_bytes,
        };
        flow.flow.operations.min(window_bytes / stride)
    });
    let of_loads = planned.iter().filter_map(|planned| planned.most_in_flight).map(u64::from);
    let many = room.chain(of_loads).min().unwrap_or(0).min(MANY);
    if many <= now {
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

/// Loads that cores have in flight, where they may have several: a core that waits for each of its
/// loads does so by its architecture, and only a shorter latency helps it.
fn loads(case: &Scenario<TrafficWork>, planned: &[PlannedFlow]) -> Option<Lever<TrafficWork>> {
    let (file, is_streaming) = (case.lab.file(), case.work.choices.write_combined);
    let host_of = |flow: &PlannedFlow| file.hosts.iter().position(|host| host.name == flow.from);
    let of_cores = || planned.iter().filter(|flow| flow.most_in_flight.is_some());
    let hosts = distinct(of_cores().filter_map(host_of));
    let in_flight = |index: &usize| {
        let cpu = &file.hosts[*index].part.parameters.cpu;
        match cpu.combining.filter(|_| is_streaming) {
            Some(it) => (it.streaming_loads, it.fastest().streaming_loads),
            None => (cpu.loads_in_flight, cpu.fastest().loads_in_flight),
        }
    };
    let may_have = |(now, many): &(u16, u16)| (is_streaming || *now > 1) && now < many;
    let (now, many) = hosts.iter().map(in_flight).min().filter(may_have)?;
    let place = list(&hosts.iter().map(|at| file.hosts[*at].name.clone()).collect::<Vec<_>>());
    let words = match is_streaming {
        false => format!("the {now} loads at once of a core of {place}"),
        true => format!("the {now} lines at once that a core of {place} reads"),
    };
    let lifted = format!("{many} at once");
    let limit = Limit { kind: LimitKind::LoadsInFlight, place, words, lifted };
    // As many operations as the loads allow are as many as possible.
    let most = of_cores().filter_map(|flow| flow.most_in_flight).min();
    let is_all = case.work.choices.outstanding >= most;
    let lift = Box::new(move |case: &Scenario<TrafficWork>| {
        let mut case = case.edited(|file| {
            for index in &hosts {
                let cpu = &mut Arc::make_mut(&mut file.hosts[*index].part).parameters.cpu;
                match cpu.combining.as_mut().filter(|_| is_streaming) {
                    Some(combining) => lift!(combining => streaming_loads),
                    None => lift!(cpu => loads_in_flight),
                }
            }
        })?;
        if is_all {
            case.work.choices.outstanding = None;
        }
        Ok(case)
    });
    Some(Lever { limit, lift })
}

/// Work with payloads.
pub(super) trait Asked: Explainable {
    /// Returns the longest payload or read request that the run asks for, bytes, if any.
    fn asked_bytes(&self) -> Option<u32>;

    /// Returns whether it can be made with payloads of that size.
    fn can_have(&self, _payload_bytes: u32) -> bool {
        true
    }

    /// Asks for the longest payloads or read requests that are allowed.
    fn ask_for_longest(&mut self);
}

/// Returns the longest write and the longest read request that a requester builds, bytes.
fn own_limits(file: &LabFile, requester: Requester) -> Option<(u32, u32)> {
    let p = &file.endpoints[requester.endpoint()?].part.parameters.requester;
    Some((p.max_write_bytes, p.max_read_bytes))
}

fn by_endpoints<'a>(
    ways: &'a Ways,
    which: impl Fn(&Transfer) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a Transfer)> {
    let all = ways.transfers.iter().filter(move |transfer| which(transfer));
    all.filter_map(|transfer| Some((transfer.requester.endpoint()?, transfer)))
}

fn names(file: &LabFile, endpoints: &[usize]) -> String {
    let names = endpoints.iter().map(|index| file.endpoints[*index].name.clone());
    list(&names.collect::<Vec<_>>())
}

pub(super) fn payload_levers<W: Asked>(case: &Scenario<W>, ways: &Ways) -> Vec<Lever<W>> {
    max_payload(case, ways).into_iter().chain(max_read_request(case, ways)).collect()
}

/// Writes and completions as long as all ports on the paths support.
fn max_payload<W: Asked>(case: &Scenario<W>, ways: &Ways) -> Option<Lever<W>> {
    let file = case.lab.file();
    let ports: Vec<&PortInfo> = ways.ports();
    let able = |port: &&PortInfo| port.parameters.get(file).capability.max_payload_bytes;
    let best = u32::from(ports.iter().map(able).min()?);
    let set = ports.iter().map(|port| port.max_payload_bytes).min()?;
    let writers: Vec<(usize, u32)> = by_endpoints(ways, |transfer| transfer.writes)
        .filter_map(|(index, it)| Some((index, own_limits(file, it.requester)?.0)))
        .collect();
    let asked = case.work.asked_bytes().filter(|_| !writers.is_empty());
    let built = writers.iter().map(|(_, bytes)| *bytes).min().unwrap_or(u32::MAX);
    let now = built.min(set).min(asked.unwrap_or(u32::MAX));
    let cuts_completions = ways.transfers.iter().any(|transfer| {
        transfer.reads && set < best && completion_bytes(file, transfer).is_some_and(|it| it > set)
    });
    if (writers.is_empty() || now >= best) && !cuts_completions || !case.work.can_have(best) {
        return None;
    }
    let mut endpoints: Vec<usize> = writers.iter().map(|(index, _)| *index).collect();
    endpoints.dedup();
    let host = &file.hosts[ways.transfers.first()?.host].name;
    let (place, words) = if asked == Some(now) && now < set.min(built) {
        let names = names(file, &endpoints);
        (names.clone(), format!("payloads of {now} B of {names}, as they were asked for"))
    } else if built < set {
        endpoints.retain(|index| writers.contains(&(*index, built)));
        let names = names(file, &endpoints);
        (names.clone(), format!("writes of {built} B, the longest that {names} can build"))
    } else {
        let words = format!("Max_Payload_Size of {set} B on the way ({best} B are possible)");
        (host.clone(), words)
    };
    let limit = Limit { kind: LimitKind::MaxPayload, place, words, lifted: format!("{best} B") };
    let lift = Box::new(move |case: &Scenario<W>| {
        let mut case = case.edited(|file| {
            for index in &endpoints {
                let part = Arc::make_mut(&mut file.endpoints[*index].part);
                part.edit_requester(|p| p.max_write_bytes = best.max(p.max_write_bytes));
            }
        })?;
        if !endpoints.is_empty() {
            case.work.ask_for_longest();
        }
        case.max_payload_bytes = Some(best);
        Ok(case)
    });
    Some(Lever { limit, lift })
}

/// Read requests as long as their requesters can build.
fn max_read_request<W: Asked>(case: &Scenario<W>, ways: &Ways) -> Option<Lever<W>> {
    let file = case.lab.file();
    let asked = case.work.asked_bytes().unwrap_or(u32::MAX);
    let mut endpoints: Vec<usize> = Vec::new();
    let (mut now, mut best, mut hosts) = (u32::MAX, 0, Vec::new());
    for (index, transfer) in by_endpoints(ways, |transfer| transfer.reads) {
        let (_, own) = own_limits(file, transfer.requester)?;
        let set = file.hosts[transfer.host].max_read_request_bytes;
        if set.min(asked) < own {
            endpoints.push(index);
            hosts.push(transfer.host);
            now = now.min(set.min(asked));
            best = best.max(own);
        }
    }
    if endpoints.is_empty() {
        return None;
    }
    endpoints.dedup();
    let place = names(file, &endpoints);
    let words = match asked == now {
        true => format!("reads of {now} B of {place}, as they were asked for"),
        false => format!("Max_Read_Request_Size of {now} B of {place} ({best} B are possible)"),
    };
    let limit =
        Limit { kind: LimitKind::MaxReadRequest, place, words, lifted: format!("{best} B") };
    let lift = Box::new(move |case: &Scenario<W>| {
        let mut case = case.edited(|file| {
            for host in &hosts {
                let set = &mut file.hosts[*host].max_read_request_bytes;
                *set = best.max(*set);
            }
        })?;
        case.work.ask_for_longest();
        Ok(case)
    });
    Some(Lever { limit, lift })
}
