// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requesters: the pace of DMA engines and generic endpoints, and their reads in flight.

use crosslane_fabric::parameters::RequesterParameters;
use crosslane_lab::LabFile;
use crosslane_lab::file::parts::{EndpointPart, EngineParameters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::memories::rate_words;
use super::ways::{Feed, Requester, Target, Ways};
use super::{NO_TIME, Spots, lift_port_latency, port_latency, with_symbols};

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
            gap: NO_TIME,
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

/// Changes a generic requester together with the engine, network processor or adapter of its part,
/// which has the same constants.
pub(super) fn edit_both(
    part: &mut EndpointPart,
    generic: impl FnOnce(&mut RequesterParameters),
    engine: impl FnOnce(&mut EngineParameters),
) {
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
    if let Some(nic) = &mut part.nic {
        let same = &part.parameters.requester;
        nic.tags = same.tags;
        nic.max_write_bytes = same.max_write_bytes;
        nic.max_read_bytes = same.max_read_bytes;
    }
}

/// Adds a limit of an endpoint's engine.
fn engine(
    spots: &mut Spots<'_>,
    index: usize,
    kind: LimitKind,
    (words, lifted): (String, String),
    edit: fn(&mut EngineParameters),
) {
    spots.endpoint(index, kind, words, lifted, move |part| edit_both(part, |_| (), edit));
}

pub(super) fn find(spots: &mut Spots<'_>) {
    for requester in spots.ways.requesters() {
        let Some(index) = requester.endpoint() else { continue };
        let Some(pace) = pace(spots.file, requester) else { continue };
        between_tlps(spots, index, &pace);
        datapath(spots, requester, index, &pace);
        let reads = spots.reads(requester);
        if reads {
            reads_in_flight(spots, index, &pace);
        }
        if let Requester::Generic(_) = requester {
            operation_gaps(spots, index, reads);
            rates(spots, index);
        }
    }
    receivers(spots);
    staging(spots);
}

/// Idle clocks and gaps after each TLP.
fn between_tlps(spots: &mut Spots<'_>, index: usize, pace: &Pace) {
    let words = match (pace.idle_clocks, pace.gap) {
        (0, Picoseconds::ZERO) => return,
        (0, gap) => format!("the gap of {gap} after each TLP of {{}}"),
        (1, _) => "the idle clock after each TLP of {}".to_owned(),
        (clocks, _) => format!("the {clocks} idle clocks after each TLP of {{}}"),
    };
    spots.endpoint(index, LimitKind::IdleClocks, words, "none", |part| {
        let generic = |p: &mut RequesterParameters| {
            (p.idle_clocks_per_tlp, p.tlp_gap) = (0, NO_TIME);
        };
        edit_both(part, generic, |p| p.idle_clocks_per_tlp = 0);
    });
}

/// The datapath; for an engine that forwards the data of its receive queue, the drain of that
/// queue.
fn datapath(spots: &mut Spots<'_>, requester: Requester, index: usize, pace: &Pace) {
    let ways = spots.ways;
    let mut own = ways.transfers.iter().filter(|it| it.requester == requester);
    // Ping-pong has one message in flight, so no receive queue fills.
    let drains = own.all(|it| it.feed == Feed::Lane) && !is_ping_pong(ways);
    let kind = if drains { LimitKind::SlowReader } else { LimitKind::Datapath };
    width(spots, kind, index, (pace.datapath_bytes, pace.clock));
}

/// Width and clock of an endpoint's datapath, through which it sends or drains a receive queue.
fn width(spots: &mut Spots<'_>, kind: LimitKind, index: usize, (bytes, clock): (u32, Picoseconds)) {
    if bytes == 0 || bytes > MOST_DATAPATH_BYTES / 2 {
        return;
    }
    let what = match kind {
        LimitKind::SlowReader => "way out of the receive queue{s}",
        _ => "datapath{s}",
    };
    let words = format!("the {what} of {{}}, {bytes} B each {clock}");
    spots.endpoint(index, kind, words, "twice as wide", move |part| {
        edit_both(part, |p| p.datapath_bytes = bytes * 2, |p| p.datapath_bytes = bytes * 2);
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
        let Some(engine) = file.endpoints[index].part.engine else { continue };
        width(spots, LimitKind::SlowReader, index, (engine.datapath_bytes, engine.clock));
    }
}

/// Returns whether each of two engines sends back what it received.
fn is_ping_pong(ways: &Ways) -> bool {
    ways.transfers.iter().all(|transfer| matches!(transfer.target, Target::Lane(_)))
}

fn reads_in_flight(spots: &mut Spots<'_>, index: usize, pace: &Pace) {
    let (tags, most) = (pace.tags, pace.most_tags);
    if tags < most {
        let words = match tags {
            1 => "the one tag of {}".to_owned(),
            _ => format!("the {tags} tags of {{}}"),
        };
        spots.endpoint(index, LimitKind::Tags, words, format!("{most} tags"), move |part| {
            let engine = |p: &mut EngineParameters| hold_reads(p, |p| p.tags = most);
            edit_both(part, |p| p.tags = most, engine);
            // Tags beyond 5 bits have to be enabled.
            part.port.capability.extended_tags = true;
        });
    }
    let (bytes, longest) = (pace.max_read_bytes, LONGEST_READ_BYTES);
    if bytes < longest {
        let words = format!("reads of {bytes} B, the longest that {{}} can ask for");
        let lifted = size_words(longest.into());
        let name = &spots.file.endpoints[index].name;
        spots.add(LimitKind::ReadLength, name, words, lifted, move |file| {
            let part = std::sync::Arc::make_mut(&mut file.endpoints[index].part);
            let engine = |p: &mut EngineParameters| hold_reads(p, |p| p.max_read_bytes = longest);
            edit_both(part, |p| p.max_read_bytes = longest, engine);
            file.hosts.iter_mut().for_each(|host| host.max_read_request_bytes = longest);
        });
    }
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
        let p = &mut part.parameters.requester;
        (p.operation_gap, p.write_interval, p.read_interval) = (NO_TIME, NO_TIME, NO_TIME);
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
                "reads" => p.read_bytes_per_second = f64::INFINITY,
                _ => p.write_bytes_per_second = f64::INFINITY,
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
                edit_both(part, |p| p.operation_gap = NO_TIME, |p| p.descriptor_gap = NO_TIME);
            });
        }
        let batch = p.fetch_batch;
        if from_ring && batch < LARGE_FETCH {
            let words = match batch {
                1 => "the descriptor fetches of {}, one by one".to_owned(),
                _ => format!("the descriptor fetches of {{}}, {batch} at once"),
            };
            let said = (words, format!("{LARGE_FETCH} at once"));
            engine(spots, index, LimitKind::DescriptorFetch, said, |p| p.fetch_batch = LARGE_FETCH);
        }
        let reading = p.reading_descriptors;
        if reading < u16::MAX && spots.reads(requester) {
            let words = match reading {
                1 => "the one descriptor at a time that is read for by {}".to_owned(),
                _ => format!("the {reading} descriptors at once that are read for by {{}}"),
            };
            let said = (words, "any number".to_owned());
            engine(spots, index, LimitKind::ReadingDescriptors, said, |p| {
                p.reading_descriptors = u16::MAX;
            });
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
        (p.write_start, p.read_start, p.read_finish) = (NO_TIME, NO_TIME, NO_TIME);
        p.copy_bytes_per_second = f64::INFINITY;
    });
}
