// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs of a lab's engines, sorted by their source.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use crosslane_driver::ChannelKind;
use crosslane_fabric::trace::{HeaderLine, TraceEvent, TraceRecord};
use crosslane_fabric::{DirectionId, LinkDirection};
use crosslane_lab::Simulation;
use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_regs::engine::{self, channel, user};
use crosslane_regs::{push_line, status_block};

/// Size of the push aperture.
const PUSH_BYTES: u64 = 4096;
/// `rosta:crosslane` has one channel of each kind, each with four tags for descriptors.
const KINDS: [ChannelKind; 3] = [ChannelKind::H2c, ChannelKind::C2h, ChannelKind::Peer];
const FETCH_TAGS: u16 = 12;
/// Tags of an engine, rounded up to a power of two: the bits above count its uses.
pub const TAGS: u16 = 128;

/// Part of an engine that sends TLPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Answers,
    Credits,
    Interrupts,
    /// A channel's status block, by its address.
    Status(u64),
    Descriptors(u8),
    Data(u8),
}

/// A part of a certain engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub device: usize,
    pub part: Part,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fpga{} ", self.device + 1)?;
        match self.part {
            Part::Answers => f.write_str("register reads"),
            Part::Credits => f.write_str("credits"),
            Part::Interrupts => f.write_str("interrupts"),
            Part::Status(address) => write!(f, "status block at {address:#x}"),
            Part::Descriptors(at) => write!(f, "descriptors of {}", KINDS[usize::from(at)]),
            Part::Data(at) => write!(f, "data of {}", KINDS[usize::from(at)]),
        }
    }
}

/// A TLP on the link, and the time at which it begins.
#[derive(Clone, Copy)]
pub struct Seen {
    pub header: Header,
    pub time_ps: u64,
    pub end_ps: u64,
}

impl Seen {
    /// Time that it takes on the link.
    fn wire_ps(&self) -> u64 {
        self.end_ps - self.time_ps
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        let (first, last) = (header.first_byte_enables, header.last_byte_enables);
        let time = self.time_ps as f64 / 1e3;
        write!(f, "{time:>12.1} ns  {} enables {first:04b} {last:04b}", HeaderLine(header))
    }
}

/// Addresses in a lab.
pub struct Places {
    /// Link of each engine, and its BARs: base and size.
    pub links: Vec<DirectionId>,
    pub registers: Vec<u64>,
    pub lanes: Vec<(u64, u64)>,
    /// Memory that C2H channels write to, and the address of interrupts.
    pub buffers: Vec<(u64, u64)>,
    /// Tags of an engine, rounded up to a power of two.
    pub tags: u16,
    /// Base of the push aperture, if the engines have one.
    pub push: Option<u64>,
}

impl Places {
    pub fn of(links: Vec<DirectionId>, bars: &[[(u64, u64); 2]], buffers: Vec<(u64, u64)>) -> Self {
        let registers = bars.iter().map(|bars| bars[0].0).collect();
        let lanes = bars.iter().map(|bars| bars[1]).collect();
        Self { links, registers, lanes, buffers, tags: TAGS, push: None }
    }

    fn source(&self, device: usize, header: &Header) -> Source {
        let at = header.address.0;
        let is_in = |(base, bytes): &(u64, u64)| at >= *base && at - base < *bytes;
        let part = match header.kind {
            TlpKind::MemoryRead => match header.tag.0 % self.tags {
                tag @ 0..FETCH_TAGS => Part::Descriptors((tag / 4) as u8),
                _ => Part::Data(0),
            },
            TlpKind::MemoryWrite if self.buffers.iter().any(is_in) => Part::Data(1),
            TlpKind::MemoryWrite if self.lanes.iter().any(is_in) => Part::Data(2),
            TlpKind::MemoryWrite if self.registers.iter().any(|&base| is_in(&(base, 1 << 16))) => {
                Part::Credits
            }
            TlpKind::MemoryWrite if header.length_dw == 1 => Part::Interrupts,
            TlpKind::MemoryWrite if header.payload_bytes() == status_block::BYTES => {
                Part::Status(at)
            }
            // Memory that no source was registered for.
            TlpKind::MemoryWrite => Part::Data(1),
            _ => Part::Answers,
        };
        Source { device, part }
    }

    /// Channel that a completion brings the last of the requested descriptors to.
    fn fetched(&self, header: &Header) -> Option<u8> {
        let tag = header.tag.0 % self.tags;
        let is_last = u32::from(header.byte_count) <= header.payload_bytes();
        let fetches = header.kind == TlpKind::CompletionData && tag < FETCH_TAGS && is_last;
        fetches.then_some((tag / 4) as u8)
    }

    /// Channel that a whole line of the push aperture is for.
    fn line(&self, header: &Header) -> Option<u8> {
        let offset = header.address.0.checked_sub(self.push?)?;
        let is_whole = header.kind == TlpKind::MemoryWrite
            && header.payload_bytes() == push_line::BYTES
            && offset < PUSH_BYTES;
        let lines = [engine::H2C.count, engine::C2H.count, engine::PEER.count];
        let mut first = 0;
        let number = offset / u64::from(push_line::BYTES);
        let channel = lines.iter().position(|count| {
            first += u64::from(*count);
            number < first
        });
        channel.filter(|_| is_whole).map(|at| at as u8)
    }

    /// Channel whose doorbell a write rings, or that a command or message is for.
    fn doorbell(&self, device: usize, header: &Header) -> Option<u8> {
        if let Some(line) = self.line(header) {
            return Some(line);
        }
        let offset = header.address.0.checked_sub(self.registers[device])?;
        let arrays = [engine::H2C, engine::C2H, engine::PEER];
        let rings =
            |array: &crosslane_regs::Array| u64::from(array.at(0) + channel::DOORBELL) == offset;
        let commands =
            [user::COMMAND, user::PING].map(|register| u64::from(engine::USER + register));
        let is_command = commands.contains(&offset);
        let channel = arrays.iter().position(rings).or(is_command.then_some(2));
        let is_write = header.kind == TlpKind::MemoryWrite;
        channel.filter(|_| is_write).map(|at| at as u8)
    }
}

/// TLPs seen in one step of a workload.
#[derive(Default)]
pub struct Step {
    pub tlps: BTreeMap<Source, Vec<Seen>>,
    /// First doorbell of each channel of each engine.
    pub doorbells: BTreeMap<(usize, u8), u64>,
    /// Channels whose first doorbell was a line.
    pub lines: BTreeSet<(usize, u8)>,
    /// Arrival of the first descriptors of each channel that fetches them.
    pub descriptors: BTreeMap<(usize, u8), u64>,
    /// Arrival of the last data that an engine had read.
    pub read_ps: BTreeMap<usize, u64>,
    /// Register reads that arrived.
    pub reads: BTreeMap<usize, Vec<Seen>>,
}

impl Step {
    /// Time of a source's trigger: its channel's doorbell, or its first descriptors.
    pub fn begin_ps(&self, source: &Source) -> Option<u64> {
        let doorbell = |at: u8| self.doorbells.get(&(source.device, at));
        let own = match source.part {
            Part::Data(at) if self.lines.contains(&(source.device, at)) => doorbell(at),
            Part::Data(at) => self.descriptors.get(&(source.device, at)).or_else(|| doorbell(at)),
            Part::Descriptors(at) => doorbell(at),
            _ => None,
        };
        own.or_else(|| self.doorbells.values().min()).copied()
    }
}

impl Step {
    /// Time at which the data of a source have moved: read data arrive later than the read.
    pub fn end_ps(&self, source: &Source, last: &Seen) -> u64 {
        let read_ps = self.read_ps.get(&source.device).filter(|_| source.part == Part::Data(0));
        read_ps.copied().unwrap_or(last.time_ps)
    }

    /// Time from the first doorbell to the last status block.
    pub fn took_ps(&self) -> u64 {
        let is_status = |source: &Source| matches!(source.part, Part::Status(_));
        let blocks = self.tlps.iter().filter(|(source, _)| is_status(source));
        let last_ps = blocks.flat_map(|(_, seen)| seen).map(|seen| seen.time_ps).max();
        let begin_ps = self.doorbells.values().min();
        last_ps.expect("status was told") - begin_ps.expect("a doorbell was rung")
    }

    /// Link time of an engine's status blocks and interrupts between two times.
    pub fn told_ps(&self, device: usize, from_ps: u64, until_ps: u64) -> u64 {
        let tells = |part| matches!(part, Part::Status(_) | Part::Interrupts);
        let told = self.tlps.iter().filter(|(of, _)| of.device == device && tells(of.part));
        let within = |seen: &&Seen| (from_ps..until_ps).contains(&seen.time_ps);
        told.flat_map(|(_, seen)| seen.iter().filter(within)).map(Seen::wire_ps).sum()
    }

    /// Time of one turn of all but one of the sources of an engine, a TLP each.
    pub fn turn_ps(&self, device: usize) -> u64 {
        let of = |source: &Source| source.device == device && source.part != Part::Answers;
        let own = self.tlps.iter().filter(|(source, _)| of(source));
        let mut longest: Vec<u64> =
            own.filter_map(|(_, seen)| seen.iter().map(Seen::wire_ps).max()).collect();
        longest.sort_unstable();
        longest.iter().skip(1).sum()
    }
}

/// Trace records of a lab's links.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<TraceRecord>>>);

impl Recorder {
    pub fn of(simulation: &Simulation) -> Self {
        let recorder = Self::default();
        let records = recorder.0.clone();
        let sink = move |record: &TraceRecord| {
            if matches!(record.event, TraceEvent::Tlp { .. }) {
                records.lock().unwrap().push(*record);
            }
        };
        simulation.with_fabric(|fabric| fabric.set_trace(Box::new(sink)));
        recorder
    }

    /// Returns the TLPs seen from each of these times to the next.
    pub fn steps(&self, places: &Places, begins_ps: &[u64]) -> Vec<Step> {
        let mut steps: Vec<Step> = begins_ps.iter().map(|_| Step::default()).collect();
        let mut records = self.0.lock().unwrap().clone();
        records.sort_by_key(|record| record.time);
        for record in records {
            let time_ps = record.time.0;
            let Some(step) = begins_ps.iter().rposition(|begin| *begin <= time_ps) else {
                continue;
            };
            let step = &mut steps[step];
            let TraceEvent::Tlp { header, end, .. } = record.event else { continue };
            let link = |of: &DirectionId| of.link == record.direction.link;
            let Some(device) = places.links.iter().position(link) else { continue };
            let seen = Seen { header, time_ps, end_ps: end.0 };
            if record.direction.heading == LinkDirection::Up {
                step.tlps.entry(places.source(device, &header)).or_default().push(seen);
            } else if let Some(channel) = places.doorbell(device, &header) {
                let is_first = !step.doorbells.contains_key(&(device, channel));
                if is_first && places.line(&header).is_some() {
                    step.lines.insert((device, channel));
                }
                step.doorbells.entry((device, channel)).or_insert(seen.end_ps);
            } else if let Some(channel) = places.fetched(&header) {
                step.descriptors.entry((device, channel)).or_insert(seen.end_ps);
            } else if header.kind == TlpKind::CompletionData {
                step.read_ps.insert(device, seen.end_ps);
            } else if header.kind == TlpKind::MemoryRead {
                step.reads.entry(device).or_default().push(seen);
            }
        }
        steps
    }
}
