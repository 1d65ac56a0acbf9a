// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requesters: the pace of DMA engines and generic endpoints, and their reads in flight.

use std::sync::Arc;

use crosslane_fabric::parameters::{Parameters, RequesterParameters};
use crosslane_lab::LabFile;
use crosslane_lab::file::parts::{EndpointPart, EngineParameters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::memories::rate_words;
use super::ways::{Feed, Requester, Target, Ways};
use super::{NO_TIME, Spots, lift, lift_port_latency, port_latency, with_symbols};

/// Tags of 8 bits, which every completer accepts (PCIe 6.x 2.2.6.2).
const TAGS: u16 = 256;
/// Largest FIFO that is tried: more than any link carries in a round trip of credits.
const LARGE_FIFO_BYTES: u32 = 1 << 20;

/// Adds a limit of an endpoint's engine.
fn engine(
    spots: &mut Spots<'_>,
    index: usize,
    kind: LimitKind,
    (words, lifted): (String, String),
    edit: fn(&mut EngineParameters),
) {
    spots.endpoint(index, kind, words, lifted, move |part| {
        part.engine.iter_mut().for_each(edit);
    });
}

/// Constants of an endpoint's requester, which are also those of its device.
fn of(file: &LabFile, index: usize) -> RequesterParameters {
    file.endpoints[index].part.parameters.requester
}

pub(super) fn find(spots: &mut Spots<'_>) {
    for requester in spots.ways.requesters() {
        let Some(index) = requester.endpoint() else { continue };
        let is_generic = matches!(requester, Requester::Generic(_));
        between_tlps(spots, requester, index);
        datapath(spots, requester, index);
        let reads = spots.reads(requester);
        if reads {
            reads_in_flight(spots, index);
        }
        if is_generic {
            operation_gaps(spots, index, reads);
            rates(spots, index);
        }
    }
    receivers(spots);
    staging(spots);
}

/// Idle clocks and gaps after each TLP.
fn between_tlps(spots: &mut Spots<'_>, requester: Requester, index: usize) {
    let p = of(spots.file, index);
    let gap = if let Requester::Engine(_) = requester { NO_TIME } else { p.tlp_gap };
    let words = match (p.idle_clocks_per_tlp, gap) {
        (0, Picoseconds::ZERO) => return,
        (0, gap) => format!("the gap of {gap} after each TLP of {{}}"),
        (1, _) => "the idle clock after each TLP of {}".to_owned(),
        (clocks, _) => format!("the {clocks} idle clocks after each TLP of {{}}"),
    };
    spots.endpoint(index, LimitKind::IdleClocks, words, "none", |part| {
        part.edit_requester(|p| lift!(p => idle_clocks_per_tlp, tlp_gap));
    });
}

/// The datapath; for an engine that forwards the data of its receive queue, the drain of that
/// queue.
fn datapath(spots: &mut Spots<'_>, requester: Requester, index: usize) {
    let ways = spots.ways;
    let mut own = ways.transfers.iter().filter(|it| it.requester == requester);
    // Ping-pong has one message in flight, so no receive queue fills.
    let drains = own.all(|it| it.feed == Feed::Lane) && !is_ping_pong(ways);
    let kind = if drains { LimitKind::SlowReader } else { LimitKind::Datapath };
    width(spots, kind, index);
}

/// Width and clock of an endpoint's datapath, through which it sends or drains a receive queue.
fn width(spots: &mut Spots<'_>, kind: LimitKind, index: usize) {
    let p = of(spots.file, index);
    let (bytes, clock) = (p.datapath_bytes, p.clock);
    if bytes == 0 || bytes > p.fastest().datapath_bytes / 2 {
        return;
    }
    let what = match kind {
        LimitKind::SlowReader => "way out of the receive queue{s}",
        _ => "datapath{s}",
    };
    let words = format!("the {what} of {{}}, {bytes} B each {clock}");
    spots.endpoint(index, kind, words, "twice as wide", move |part| {
        part.edit_requester(|p| p.datapath_bytes = bytes * 2);
    });
}

/// Drains of receive queues in engines that only receive. An engine that also sends has one
/// datapath for both, which is its limit as a requester.
fn receivers(spots: &mut Spots<'_>) {
    let (file, ways) = (spots.file, spots.ways);
    let requesters = ways.requesters();
    let mut seen: Vec<usize> = Vec::new();
    for transfer in &ways.transfers {
        let Target::Lane(index) = transfer.target else { continue };
        if requesters.contains(&Requester::Engine(index)) || seen.contains(&index) {
            continue;
        }
        seen.push(index);
        if file.endpoints[index].part.engine.is_some() {
            width(spots, LimitKind::SlowReader, index);
        }
    }
}

/// Returns whether each of two engines sends back what it received.
fn is_ping_pong(ways: &Ways) -> bool {
    ways.transfers.iter().all(|transfer| matches!(transfer.target, Target::Lane(_)))
}

fn reads_in_flight(spots: &mut Spots<'_>, index: usize) {
    let p = of(spots.file, index);
    let tags = p.tags;
    if tags < TAGS {
        let words = match tags {
            1 => "the one tag of {}".to_owned(),
            _ => format!("the {tags} tags of {{}}"),
        };
        spots.endpoint(index, LimitKind::Tags, words, format!("{TAGS} tags"), |part| {
            hold_reads(part, |p| p.tags = TAGS);
            // Tags beyond 5 bits have to be enabled.
            part.port.capability.extended_tags = true;
        });
    }
    let built = spots.file.endpoints[index].part.engine;
    let credits_of = |p: EngineParameters| p.completion_header_credits;
    if let Some(p) = built.filter(|p| credits_of(*p) < credits_of(p.fastest())) {
        let credits = credits_of(p);
        let words = format!("the {credits} completions that the receive buffer of {{}} takes");
        engine(spots, index, LimitKind::Tags, (words, "any number".to_owned()), |p| {
            lift!(p => completion_header_credits, completion_data_credits);
        });
    }
    let (bytes, longest) = (p.max_read_bytes, p.fastest().max_read_bytes);
    if bytes < longest {
        let words = format!("reads of {bytes} B, the longest that {{}} can ask for");
        let lifted = size_words(longest.into());
        let name = &spots.file.endpoints[index].name;
        spots.add(LimitKind::ReadLength, name, words, lifted, move |file| {
            let part = Arc::make_mut(&mut file.endpoints[index].part);
            hold_reads(part, |p| lift!(p => max_read_bytes));
            file.hosts.iter_mut().for_each(|host| host.max_read_request_bytes = longest);
        });
    }
}

/// Gives a requester more or longer reads. Staging memory of an engine that held a longest read of
/// every tag still does afterwards.
fn hold_reads(part: &mut EndpointPart, change: impl FnOnce(&mut RequesterParameters)) {
    let read_bytes = |p: &EngineParameters| u32::from(p.tags) * p.max_read_bytes;
    let held_all = part.engine.is_some_and(|p| p.staging_bytes >= read_bytes(&p));
    part.edit_requester(change);
    for p in part.engine.iter_mut().filter(|_| held_all) {
        p.staging_bytes = p.staging_bytes.max(read_bytes(p).next_power_of_two());
    }
    // The receive buffer has to take the completions of a longest read.
    part.engine.iter_mut().for_each(Parameters::fit);
}

/// The gap between operations of a generic requester, or their interval.
fn operation_gaps(spots: &mut Spots<'_>, index: usize, reads: bool) {
    let p = &spots.file.endpoints[index].part.parameters.requester;
    let interval = if reads { p.read_interval } else { p.write_interval };
    let words = match (p.operation_gap, interval) {
        (Picoseconds::ZERO, Picoseconds::ZERO) => return,
        (gap, interval) if gap >= interval => {
            format!("the gap of {gap} after each operation of {{}}")
        }
        (_, interval) => format!("the {interval} from one operation of {{}} to the next"),
    };
    spots.endpoint(index, LimitKind::DescriptorGap, words, "none", |part| {
        lift!(part.parameters.requester => operation_gap, write_interval, read_interval);
    });
}

/// The rates at which a generic requester reads and writes.
fn rates(spots: &mut Spots<'_>, index: usize) {
    let p = &spots.file.endpoints[index].part.parameters.requester;
    let rates = [("reads", p.read_bytes_per_second), ("writes", p.write_bytes_per_second)];
    for (role, rate) in rates.into_iter().filter(|(_, rate)| rate.is_finite()) {
        let words = format!("the {} at which {{}} {role}", rate_words(rate));
        let spot = spots.endpoint(index, LimitKind::Datapath, words, "any rate", move |part| {
            let p = &mut part.parameters.requester;
            match role {
                "reads" => lift!(p => read_bytes_per_second),
                _ => lift!(p => write_bytes_per_second),
            }
        });
        spot.role = role;
    }
}

/// The staging memory of engines that read, if another channel takes the data, or if it holds less
/// than a longest read of every tag.
fn staging(spots: &mut Spots<'_>) {
    for (index, endpoint) in spots.file.endpoints.iter().enumerate() {
        let Some(p) = endpoint.part.engine else { continue };
        let requester = Requester::Engine(index);
        let mut own = spots.ways.transfers.iter().filter(|it| it.requester == requester);
        let is_taken = own.any(|it| match it.feed {
            Feed::Stream => true,
            Feed::CardMemory => it.reads,
            Feed::Own | Feed::Lane => false,
        });
        let is_short = p.staging_bytes < u32::from(p.tags) * p.max_read_bytes;
        let bytes = p.staging_bytes;
        if bytes < LARGE_FIFO_BYTES && (is_taken || is_short && spots.reads(requester)) {
            let words = format!("the staging memory of {} of {{}}", size_words(bytes.into()));
            let said = (words, size_words(LARGE_FIFO_BYTES.into()));
            engine(spots, index, LimitKind::Staging, said, |p| p.staging_bytes = LARGE_FIFO_BYTES);
        }
    }
}

/// The credit window of senders: the FIFO of the receive queue.
pub(super) fn windows(spots: &mut Spots<'_>) {
    for transfer in &spots.ways.transfers {
        let Target::Lane(index) = transfer.target else { continue };
        let part = &spots.file.endpoints[index].part;
        let bytes = part.engine.map_or(u32::MAX, |engine| engine.lane_fifo_bytes);
        if bytes < LARGE_FIFO_BYTES {
            let words = format!(
                "the receive queue{{s}} of {{}}, a credit window of {}",
                size_words(bytes.into())
            );
            let said = (words, size_words(LARGE_FIFO_BYTES.into()));
            engine(spots, index, LimitKind::PeerWindow, said, |p| {
                p.lane_fifo_bytes = LARGE_FIFO_BYTES;
            });
        }
    }
}

/// Costs of an engine for descriptors that the host posts.
pub(super) fn descriptors(spots: &mut Spots<'_>, from_ring: bool) {
    for requester in spots.ways.requesters() {
        let Requester::Engine(index) = requester else { continue };
        let Some(p) = spots.file.endpoints[index].part.engine else { continue };
        let gap = p.descriptor_gap;
        if gap > NO_TIME {
            let words = format!("the gap of {gap} after each descriptor of {{}}");
            spots.endpoint(index, LimitKind::DescriptorGap, words, "none", |part| {
                part.edit_requester(|p| lift!(p => operation_gap));
            });
        }
        let (batch, most) = (p.fetch_batch, p.fastest().fetch_batch);
        if from_ring && batch < most {
            let words = match batch {
                1 => "the descriptor fetches of {}, one by one".to_owned(),
                _ => format!("the descriptor fetches of {{}}, {batch} at once"),
            };
            let said = (words, format!("{most} at once"));
            engine(spots, index, LimitKind::DescriptorFetch, said, |p| lift!(p => fetch_batch));
        }
        let reading = p.reading_descriptors;
        if reading < u16::MAX && spots.reads(requester) {
            let words = match reading {
                1 => "the one descriptor at a time that is read for by {}".to_owned(),
                _ => format!("the {reading} descriptors at once that are read for by {{}}"),
            };
            let said = (words, "any number".to_owned());
            engine(
                spots,
                index,
                LimitKind::ReadingDescriptors,
                said,
                |p| lift!(p => reading_descriptors),
            );
        }
    }
}

/// Latency of an endpoint besides its datapath: of its port, and at the beginning and end of an
/// operation.
pub(super) fn latency(spots: &mut Spots<'_>, index: usize, is_generic: bool) {
    let part = &spots.file.endpoints[index].part;
    let p = &part.parameters.requester;
    let own = [p.write_start, p.read_start, p.read_finish].iter().any(|time| time.0 > 0);
    let starts = is_generic && (own || p.copy_bytes_per_second.is_finite());
    let (sum, symbols) = port_latency(&part.port);
    let is_none = sum == NO_TIME && symbols == 0;
    let sum = with_symbols(sum, symbols);
    let words = match starts {
        true => format!("the {sum} between wire and requester of {{}}, and its own starts"),
        false if is_none => return,
        false if part.nic.is_some() => {
            format!("the {sum} between wire and adapter of {{}}, there and back")
        }
        false => format!("the {sum} between wire and engine of {{}}, there and back"),
    };
    spots.endpoint(index, LimitKind::EndpointLatency, words, "none", |part| {
        lift_port_latency(&mut part.port);
        let p = &mut part.parameters.requester;
        lift!(p => write_start, read_start, read_finish, copy_bytes_per_second);
    });
}
