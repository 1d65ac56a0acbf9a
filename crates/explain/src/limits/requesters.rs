// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requesters: the pace of DMA engines and generic endpoints, and their reads in flight.

use std::sync::Arc;

use crosslane_fabric::parameters::{EndpointParameters, RequesterParameters};
use crosslane_lab::LabFile;
use crosslane_lab::file::parts::{EndpointPart, EngineParameters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::Spot;
use super::ways::{Feed, Requester, Target, Ways};

/// Tags of 8 bits, which every completer accepts (PCIe 6.x 2.2.6.2).
const TAGS: u16 = 256;
/// Tags of a requester with 10-bit tags (PCIe 6.x 2.2.6.2).
const MOST_TAGS: u16 = 1024;
/// Tags that each channel of an engine reserves for its descriptors.
const FETCH_TAGS: u16 = 4;
/// Largest FIFO that is tried: more than any link carries in a round trip of credits.
const LARGE_FIFO_BYTES: u32 = 1 << 20;
/// Largest fetch of descriptors (docs/engine.md).
const LARGE_FETCH: u16 = 128;
/// Widest datapath of an engine, bytes.
const MOST_DATAPATH_BYTES: u32 = 1024;
/// Longest read that a register allows, bytes (PCIe 6.x 7.5.3.4).
const LONGEST_READ_BYTES: u32 = 4096;

/// Staging memory of a network processor beyond its longest read, bytes.
const NETWORK_STAGING_BYTES: u32 = 256;

/// Constants that engines and generic requesters have in common.
struct Pace {
    datapath_bytes: u32,
    clock: Picoseconds,
    idle_clocks: u32,
    gap: Picoseconds,
    tags: u16,
    most_tags: u16,
    max_read_bytes: u32,
}

fn pace(file: &LabFile, requester: Requester) -> Option<Pace> {
    let part = &file.endpoints[requester.endpoint()?].part;
    let p = &part.parameters.requester;
    match (requester, part.engine) {
        (Requester::Engine(_), Some(engine)) => Some(Pace {
            datapath_bytes: engine.datapath_bytes,
            clock: engine.clock,
            idle_clocks: engine.idle_clocks_per_tlp,
            gap: Picoseconds::ZERO,
            tags: engine.tags,
            most_tags: TAGS.min(MOST_TAGS - FETCH_TAGS * channels(&engine)),
            max_read_bytes: engine.max_read_bytes,
        }),
        _ => Some(Pace {
            datapath_bytes: p.datapath_bytes,
            clock: p.clock,
            idle_clocks: p.idle_clocks_per_tlp,
            gap: p.tlp_gap,
            tags: p.tags,
            most_tags: TAGS,
            max_read_bytes: p.max_read_bytes,
        }),
    }
}

fn channels(engine: &EngineParameters) -> u16 {
    [engine.h2c_channels, engine.c2h_channels, engine.peer_channels].map(u16::from).iter().sum()
}

/// Changes one endpoint, but no other of the same part.
pub(super) fn edit_part(file: &mut LabFile, endpoint: usize, edit: impl FnOnce(&mut EndpointPart)) {
    edit(Arc::make_mut(&mut file.endpoints[endpoint].part));
}

/// Changes a generic requester together with the engine or network processor of its part, which has
/// the same constants.
pub(super) fn edit_both(
    file: &mut LabFile,
    endpoint: usize,
    generic: impl FnOnce(&mut RequesterParameters),
    engine: impl FnOnce(&mut EngineParameters),
) {
    edit_part(file, endpoint, |part| {
        generic(&mut part.parameters.requester);
        if let Some(parameters) = &mut part.engine {
            engine(parameters);
        }
        if let Some(processor) = &mut part.network_processor {
            let same = &part.parameters.requester;
            processor.tags = same.tags;
            processor.max_write_bytes = same.max_write_bytes;
            processor.max_read_bytes = same.max_read_bytes;
            // Staging memory holds a longest read, and a partial datagram at each end.
            let least = same.max_read_bytes + NETWORK_STAGING_BYTES;
            processor.staging_bytes = processor.staging_bytes.max(least);
        }
    });
}

pub(super) fn spots(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = Vec::new();
    for requester in ways.requesters() {
        let Some(index) = requester.endpoint() else { continue };
        let name = &file.endpoints[index].name;
        let Some(pace) = pace(file, requester) else { continue };
        spots.extend(between_tlps(index, name, &pace));
        spots.extend(datapath(ways, requester, name, &pace));
        let reads = ways.transfers.iter().any(|it| it.requester == requester && it.reads);
        if reads {
            spots.extend(reads_in_flight(index, name, &pace));
        }
        if let Requester::Generic(_) = requester {
            spots.extend(operation_gaps(file, index, reads));
        }
    }
    spots.extend(receivers(file, ways));
    spots.extend(staging(file, ways));
    spots
}

/// Idle clocks and gaps after each TLP.
fn between_tlps(index: usize, name: &str, pace: &Pace) -> Option<Spot> {
    let words = match (pace.idle_clocks, pace.gap) {
        (0, Picoseconds::ZERO) => return None,
        (0, gap) => format!("the gap of {gap} after each TLP of {{}}"),
        (1, _) => "the idle clock after each TLP of {}".to_owned(),
        (clocks, _) => format!("the {clocks} idle clocks after each TLP of {{}}"),
    };
    Some(Spot::new(LimitKind::IdleClocks, name, words, "none", move |file| {
        let generic = |p: &mut RequesterParameters| {
            (p.idle_clocks_per_tlp, p.tlp_gap) = (0, Picoseconds::ZERO);
        };
        edit_both(file, index, generic, |p| p.idle_clocks_per_tlp = 0);
    }))
}

/// The datapath; for an engine that forwards the data of its receive queue, the drain of that
/// queue.
fn datapath(ways: &Ways, requester: Requester, name: &str, pace: &Pace) -> Option<Spot> {
    let index = requester.endpoint()?;
    let own: Vec<_> = ways.transfers.iter().filter(|it| it.requester == requester).collect();
    // Ping-pong has one message in flight, so no receive queue fills.
    let drains = own.into_iter().all(|it| it.feed == Feed::Lane) && !is_ping_pong(ways);
    let kind = if drains { LimitKind::SlowReader } else { LimitKind::Datapath };
    width(kind, index, name, (pace.datapath_bytes, pace.clock))
}

/// Width and clock of an endpoint's datapath, through which it sends or drains a receive queue.
fn width(
    kind: LimitKind,
    index: usize,
    name: &str,
    (bytes, clock): (u32, Picoseconds),
) -> Option<Spot> {
    if bytes == 0 || bytes > MOST_DATAPATH_BYTES / 2 {
        return None;
    }
    let words = match kind {
        LimitKind::SlowReader => {
            format!("the way out of the lane{{s}} of {{}}, {bytes} B each {clock}")
        }
        _ => format!("the datapath{{s}} of {{}}, {bytes} B each {clock}"),
    };
    Some(Spot::new(kind, name, words, "twice as wide", move |file| {
        edit_both(file, index, |p| p.datapath_bytes = bytes * 2, |p| p.datapath_bytes = bytes * 2);
    }))
}

/// Drains of receive queues in engines that only receive. An engine that also sends has one
/// datapath for both, which is its limit as a requester.
fn receivers(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let requesters = ways.requesters();
    let mut seen: Vec<usize> = Vec::new();
    let mut spots = Vec::new();
    for transfer in &ways.transfers {
        let Target::Lane(index) = transfer.target else { continue };
        if requesters.contains(&Requester::Engine(index)) || seen.contains(&index) {
            continue;
        }
        seen.push(index);
        let endpoint = &file.endpoints[index];
        let Some(engine) = endpoint.part.engine else { continue };
        let pace = (engine.datapath_bytes, engine.clock);
        spots.extend(width(LimitKind::SlowReader, index, &endpoint.name, pace));
    }
    spots
}

/// Returns whether each of two engines sends back what it received.
fn is_ping_pong(ways: &Ways) -> bool {
    ways.transfers.iter().all(|transfer| matches!(transfer.target, Target::Lane(_)))
}

fn reads_in_flight(index: usize, name: &str, pace: &Pace) -> Vec<Spot> {
    let mut spots = Vec::new();
    let (tags, most) = (pace.tags, pace.most_tags);
    if tags < most {
        let words = if tags == 1 {
            "the one tag of {}".to_owned()
        } else {
            format!("the {tags} tags of {{}}")
        };
        let lifted = format!("{most} tags");
        spots.push(Spot::new(LimitKind::Tags, name, words, lifted, move |file| {
            let engine = |p: &mut EngineParameters| hold_reads(p, |p| p.tags = most);
            edit_both(file, index, |p| p.tags = most, engine);
            // Tags beyond 5 bits have to be enabled.
            edit_part(file, index, |part| part.port.capability.extended_tags = true);
        }));
    }
    let bytes = pace.max_read_bytes;
    if bytes < LONGEST_READ_BYTES {
        let words = format!("reads of {bytes} B, the longest that {{}} can ask for");
        let lifted = size_words(LONGEST_READ_BYTES.into());
        spots.push(Spot::new(LimitKind::ReadLength, name, words, lifted, move |file| {
            let longest = LONGEST_READ_BYTES;
            let engine = |p: &mut EngineParameters| hold_reads(p, |p| p.max_read_bytes = longest);
            edit_both(file, index, |p| p.max_read_bytes = longest, engine);
            for host in &mut file.hosts {
                host.max_read_request_bytes = longest;
            }
        }));
    }
    spots
}

/// Gives an engine more or longer reads. Staging memory that held a longest read of every tag still
/// does afterwards.
fn hold_reads(engine: &mut EngineParameters, change: impl FnOnce(&mut EngineParameters)) {
    let read_bytes = |p: &EngineParameters| u32::from(p.tags) * p.max_read_bytes;
    let held_all = engine.staging_bytes >= read_bytes(engine);
    change(engine);
    let bytes = if held_all { read_bytes(engine).next_power_of_two() } else { 0 };
    engine.staging_bytes = engine.staging_bytes.max(bytes).max(least_staging_bytes(engine));
}

/// Returns the least staging memory of an engine: a longest read and a longest write.
pub(super) fn least_staging_bytes(engine: &EngineParameters) -> u32 {
    (engine.max_read_bytes + engine.max_write_bytes).next_power_of_two()
}

/// The gap between operations of a generic requester, or their interval.
fn operation_gaps(file: &LabFile, index: usize, reads: bool) -> Option<Spot> {
    let endpoint = &file.endpoints[index];
    let p = &endpoint.part.parameters.requester;
    let interval = if reads { p.read_interval } else { p.write_interval };
    let words = match (p.operation_gap, interval) {
        (Picoseconds::ZERO, Picoseconds::ZERO) => return None,
        (gap, interval) if gap >= interval => {
            format!("the gap of {gap} after each operation of {{}}")
        }
        (_, interval) => format!("the {interval} from one operation of {{}} to the next"),
    };
    let kind = LimitKind::DescriptorGap;
    Some(Spot::new(kind, &endpoint.name, words, "none", move |file| {
        edit_part(file, index, |part| {
            let p = &mut part.parameters.requester;
            p.operation_gap = Picoseconds::ZERO;
            p.write_interval = Picoseconds::ZERO;
            p.read_interval = Picoseconds::ZERO;
        });
    }))
}

/// The staging memory of engines that read, if another channel takes the data, or if it holds less
/// than a longest read of every tag.
fn staging(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (index, endpoint) in file.endpoints.iter().enumerate() {
        let Some(engine) = endpoint.part.engine else { continue };
        let mut own = ways.transfers.iter().filter(|it| it.requester == Requester::Engine(index));
        let is_taken = own.clone().any(|it| it.feed == Feed::Stream);
        let is_short = engine.staging_bytes < u32::from(engine.tags) * engine.max_read_bytes;
        let bytes = engine.staging_bytes;
        if bytes < LARGE_FIFO_BYTES && (is_taken || is_short && own.any(|it| it.reads)) {
            let words = format!("the staging memory of {} of {{}}", size_words(bytes.into()));
            let (kind, lifted) = (LimitKind::Staging, size_words(LARGE_FIFO_BYTES.into()));
            spots.push(Spot::new(kind, &endpoint.name, words, lifted, move |file| {
                edit_both(file, index, |_| (), |p| p.staging_bytes = LARGE_FIFO_BYTES);
            }));
        }
    }
    spots
}

/// The credit window of senders: the FIFO of the receive queue.
pub(super) fn windows(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = Vec::new();
    for transfer in &ways.transfers {
        let Target::Lane(index) = transfer.target else { continue };
        let endpoint = &file.endpoints[index];
        let bytes = endpoint.part.engine.map_or(u32::MAX, |engine| engine.lane_fifo_bytes);
        if bytes < LARGE_FIFO_BYTES {
            let words = format!("the lane{{s}} of {{}}, a window of {}", size_words(bytes.into()));
            let (kind, lifted) = (LimitKind::PeerWindow, size_words(LARGE_FIFO_BYTES.into()));
            spots.push(Spot::new(kind, &endpoint.name, words, lifted, move |file| {
                edit_both(file, index, |_| (), |p| p.lane_fifo_bytes = LARGE_FIFO_BYTES);
            }));
        }
    }
    spots
}

/// Costs of an engine for descriptors that the host posts.
pub(super) fn descriptors(file: &LabFile, ways: &Ways, from_ring: bool) -> Vec<Spot> {
    let mut spots = Vec::new();
    for requester in ways.requesters() {
        let Requester::Engine(index) = requester else { continue };
        let endpoint = &file.endpoints[index];
        let (Some(engine), name) = (endpoint.part.engine, &endpoint.name) else { continue };
        let gap = engine.descriptor_gap;
        if gap > Picoseconds::ZERO {
            let words = format!("the gap of {gap} after each descriptor of {{}}");
            spots.push(Spot::new(LimitKind::DescriptorGap, name, words, "none", move |file| {
                let generic = |p: &mut RequesterParameters| p.operation_gap = Picoseconds::ZERO;
                edit_both(file, index, generic, |p| p.descriptor_gap = Picoseconds::ZERO);
            }));
        }
        let batch = engine.fetch_batch;
        if from_ring && batch < LARGE_FETCH {
            let words = match batch {
                1 => "the descriptor fetches of {}, one by one".to_owned(),
                _ => format!("the descriptor fetches of {{}}, {batch} at once"),
            };
            let (kind, lifted) = (LimitKind::DescriptorFetch, format!("{LARGE_FETCH} at once"));
            spots.push(Spot::new(kind, name, words, lifted, move |file| {
                edit_both(file, index, |_| (), |p| p.fetch_batch = LARGE_FETCH);
            }));
        }
        let reads = ways.transfers.iter().any(|it| it.requester == requester && it.reads);
        let reading = engine.reading_descriptors;
        if reads && reading < u16::MAX {
            let words = match reading {
                1 => "the one descriptor at a time that is read for by {}".to_owned(),
                _ => format!("the {reading} descriptors at once that are read for by {{}}"),
            };
            let kind = LimitKind::ReadingDescriptors;
            spots.push(Spot::new(kind, name, words, "any number", move |file| {
                edit_both(file, index, |_| (), |p| p.reading_descriptors = u16::MAX);
            }));
        }
    }
    spots
}

/// Latency of an endpoint besides its datapath: of its port, and at the beginning and end of an
/// operation.
pub(super) fn latency(file: &LabFile, index: usize, is_generic: bool) -> Option<Spot> {
    let endpoint = &file.endpoints[index];
    let port = &endpoint.part.port;
    let p = &endpoint.part.parameters.requester;
    let own = [p.write_start, p.read_start, p.read_finish];
    let starts =
        is_generic && (own.iter().any(|time| time.0 > 0) || has_copy(&endpoint.part.parameters));
    let sum = port.receive_latency + port.transmit_latency;
    if sum == Picoseconds::ZERO && !starts {
        return None;
    }
    let words = match starts {
        true => format!("the {sum} between wire and requester of {{}}, and its own starts"),
        false => format!("the {sum} between wire and engine of {{}}, there and back"),
    };
    Some(Spot::new(LimitKind::EndpointLatency, &endpoint.name, words, "none", move |file| {
        edit_part(file, index, |part| {
            part.port.receive_latency = Picoseconds::ZERO;
            part.port.transmit_latency = Picoseconds::ZERO;
            let p = &mut part.parameters.requester;
            p.write_start = Picoseconds::ZERO;
            p.read_start = Picoseconds::ZERO;
            p.read_finish = Picoseconds::ZERO;
            p.copy_bytes_per_second = f64::INFINITY;
        });
    }))
}

fn has_copy(parameters: &EndpointParameters) -> bool {
    parameters.requester.copy_bytes_per_second.is_finite()
}
