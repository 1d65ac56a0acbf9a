// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memories: of hosts, behind the BARs of endpoints, and of the cards of engines.

use std::sync::Arc;

use crosslane_fabric::parameters::{CompleterParameters, Parameters};
use crosslane_lab::LabFile;
use crosslane_lab::file::parts::{CardMemoryParameters, Copying};
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::ways::{Feed, Requester, Target, Transfer, Ways};
use super::{NO_TIME, Spots, lift, lift_port_latency, port_latency, with_symbols};

/// A memory of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Host(usize),
    Endpoint(usize),
}

impl Memory {
    fn name(self, file: &LabFile) -> &str {
        match self {
            Self::Host(index) => &file.hosts[index].name,
            Self::Endpoint(index) => &file.endpoints[index].name,
        }
    }

    fn get(self, file: &LabFile) -> &CompleterParameters {
        match self {
            Self::Host(index) => &file.hosts[index].part.parameters.completer,
            Self::Endpoint(index) => &file.endpoints[index].part.parameters.completer,
        }
    }

    fn get_mut(self, file: &mut LabFile) -> &mut CompleterParameters {
        match self {
            Self::Host(index) => {
                &mut Arc::make_mut(&mut file.hosts[index].part).parameters.completer
            }
            Self::Endpoint(index) => {
                &mut Arc::make_mut(&mut file.endpoints[index].part).parameters.completer
            }
        }
    }

    /// Adds a limit of this memory.
    fn add(
        self,
        spots: &mut Spots<'_>,
        kind: LimitKind,
        (words, lifted): (String, &str),
        edit: impl Fn(&mut CompleterParameters) + Send + Sync + 'static,
    ) {
        let change = move |file: &mut LabFile| edit(self.get_mut(file));
        let spot = spots.add(kind, self.name(spots.file), words, lifted, change);
        spot.role = match self {
            Self::Host(_) => "host",
            Self::Endpoint(_) => "endpoint",
        };
    }
}

/// Returns the longest completion of a transfer's reads, bytes; `None` for a receive queue, which
/// is never read.
pub(super) fn completion_bytes(file: &LabFile, transfer: &Transfer) -> Option<u32> {
    let memory = match transfer.target {
        Target::Host(index) => Memory::Host(index),
        Target::Memory(index) => Memory::Endpoint(index),
        Target::Lane(_) => return None,
    };
    Some(memory.get(file).completion_bytes)
}

/// The use that a run makes of a memory.
struct Use {
    memory: Memory,
    /// Whether data are written to it.
    written: bool,
    /// Whether data are read from it.
    read: bool,
    /// Whether anything is written to it, including an engine's status.
    touched: bool,
    /// Max_Payload_Size of the port that its completions leave through, bytes.
    payload_bytes: u32,
}

fn uses(ways: &Ways) -> Vec<Use> {
    let mut uses: Vec<Use> = Vec::new();
    let mut add = |new: Use| match uses.iter_mut().find(|it| it.memory == new.memory) {
        Some(it) => {
            it.written |= new.written;
            it.read |= new.read;
            it.touched |= new.touched;
            it.payload_bytes = it.payload_bytes.min(new.payload_bytes);
        }
        None => uses.push(new),
    };
    for transfer in &ways.transfers {
        let first = transfer.completions.first();
        let payload_bytes = first.map_or(u32::MAX, |first| ways.ends(*first).0.max_payload_bytes);
        let (written, read) = (transfer.writes, transfer.reads);
        let memory = match transfer.target {
            Target::Host(index) => Some(Memory::Host(index)),
            Target::Memory(index) => Some(Memory::Endpoint(index)),
            Target::Lane(_) => None,
        };
        if let Some(memory) = memory {
            add(Use { memory, written, read, touched: written, payload_bytes });
        }
        if let Requester::Engine(_) | Requester::Processor(_) | Requester::Nic(_) =
            transfer.requester
        {
            // Status blocks are written there, and descriptors read from there.
            let (memory, payload_bytes) = (Memory::Host(transfer.host), u32::MAX);
            add(Use { memory, written: false, read: false, touched: true, payload_bytes });
        }
    }
    uses
}

pub(super) fn find(spots: &mut Spots<'_>) {
    for it in uses(spots.ways) {
        writes(spots, &it);
        if it.read {
            reads(spots, &it);
        }
        latency(spots, &it);
        cache(spots, it.memory);
    }
    for transfer in &spots.ways.transfers {
        if let (Feed::CardMemory, Requester::Engine(index)) = (transfer.feed, transfer.requester) {
            card(spots, index, transfer.writes);
        }
    }
}

/// Formats a rate, `2 GB/s`, with as many decimals as it needs.
pub(super) fn rate_words(bytes_per_second: f64) -> String {
    let words = format!("{:.3}", bytes_per_second / 1e9);
    format!("{} GB/s", words.trim_end_matches('0').trim_end_matches('.'))
}

fn writes(spots: &mut Spots<'_>, it: &Use) {
    let (memory, p) = (it.memory, it.memory.get(spots.file));
    let paced = p.write_bytes_per_second.is_finite() || p.write_overhead > NO_TIME;
    if it.written && paced {
        let rate = match p.write_bytes_per_second {
            rate if rate.is_finite() => format!("the {} at which", rate_words(rate)),
            _ => format!("the {} for each write with which", p.write_overhead),
        };
        let kind = match memory {
            Memory::Host(_) => LimitKind::MemoryWrite,
            Memory::Endpoint(_) => LimitKind::SlowReader,
        };
        let words = format!("{rate} the memory of {{}} takes writes");
        memory.add(
            spots,
            kind,
            (words, "any rate"),
            |p| lift!(p => write_bytes_per_second, write_overhead),
        );
    }
    if it.touched && p.partial_line > NO_TIME {
        let words = format!(
            "the {} for each line of {} B that is written in part in the memory of {{}}",
            p.partial_line, p.line_bytes
        );
        memory.add(spots, LimitKind::PartialLines, (words, "none"), |p| lift!(p => partial_line));
    }
}

fn reads(spots: &mut Spots<'_>, it: &Use) {
    let (memory, p) = (it.memory, it.memory.get(spots.file));
    if p.read_bytes_per_second.is_finite() {
        let rate = rate_words(p.read_bytes_per_second);
        let words = format!("the {rate} at which the memory of {{}} is read");
        memory.add(
            spots,
            LimitKind::MemoryRead,
            (words, "any rate"),
            |p| lift!(p => read_bytes_per_second),
        );
    }
    if p.read_slots < u32::MAX {
        let words = match p.read_slots {
            1 => "one read at once in the memory of {}".to_owned(),
            slots => format!("the {slots} reads at once in the memory of {{}}"),
        };
        memory.add(spots, LimitKind::ReadSlots, (words, "any number"), |p| lift!(p => read_slots));
    }
    let (now, which) = match p.short_read_bytes {
        0 => (p.completion_bytes, String::new()),
        most => (p.short_completion_bytes, format!(" for reads of up to {most} B")),
    };
    if now < it.payload_bytes && it.payload_bytes < u32::MAX {
        let best = it.payload_bytes;
        let words = format!("completions of {now} B of {{}}{which} ({best} B are possible)");
        let said = (words, &*format!("{best} B"));
        memory.add(spots, LimitKind::CompletionSize, said, move |p| {
            (p.completion_bytes, p.short_read_bytes) = (best, 0);
        });
    }
    if p.completion_single_share > 0.0 {
        let percent = p.completion_single_share * 100.0;
        let unit = p.read_completion_boundary_bytes;
        let words = format!("the {percent:.3} % of {{}}'s completions in single units of {unit} B");
        memory.add(
            spots,
            LimitKind::CompletionSize,
            (words, "none"),
            |p| lift!(p => completion_single_share),
        );
    }
}

/// Cache of a host: what it costs that lines are missing, or have to leave.
fn cache(spots: &mut Spots<'_>, memory: Memory) {
    let Memory::Host(index) = memory else { return };
    let part = &spots.file.hosts[index].part;
    let Some(cache) = part.parameters.cache.filter(|cache| cache.miss > NO_TIME) else { return };
    let words =
        format!("the {} longer that {{}} takes where a line is not in its cache", cache.miss);
    let name = memory.name(spots.file);
    let spot = spots.add(LimitKind::MemoryLatency, name, words, "none", move |file| {
        Arc::make_mut(&mut file.hosts[index].part).parameters.cache = None;
    });
    spot.role = "cache";
}

/// Latency of a memory, including the ports of its root complex and IOTLB hits.
fn latency(spots: &mut Spots<'_>, it: &Use) {
    let (file, memory, p) = (spots.file, it.memory, it.memory.get(spots.file));
    let (in_port, symbols) = match memory {
        Memory::Host(index) => {
            let part = &file.hosts[index].part;
            let hit = part.parameters.iommu.map_or(NO_TIME, |iommu| iommu.hit);
            let (fixed, symbols) = port_latency(&part.port);
            (fixed + hit, symbols)
        }
        Memory::Endpoint(_) => (NO_TIME, 0),
    };
    let none = in_port + p.read_latency + p.write_latency == NO_TIME && symbols == 0;
    let never_later = p.read_jitter + p.read_tail == NO_TIME && p.read_tail_probability == 0.0;
    if none && never_later {
        return;
    }
    let (answer, what, role) = match it.read {
        true => (p.read_latency, "answers", "read"),
        false => (p.write_latency, "shows what was written", "written"),
    };
    let words = format!("the {} after which {{}} {what}", with_symbols(answer + in_port, symbols));
    let name = memory.name(file);
    let spot = spots.add(LimitKind::MemoryLatency, name, words, "none", move |file| {
        let p = memory.get_mut(file);
        lift!(p => read_latency, read_jitter, write_latency, read_tail, read_tail_probability);
        if let Memory::Host(index) = memory {
            let part = Arc::make_mut(&mut file.hosts[index].part);
            lift_port_latency(&mut part.port);
            part.parameters.iommu.iter_mut().for_each(|p| lift!(p => hit));
        }
    });
    spot.role = role;
}

/// The memory of an engine's card, if that reads or writes it.
fn card(spots: &mut Spots<'_>, index: usize, is_read: bool) {
    let Some(p) = spots.file.endpoints[index].part.engine.and_then(|it| it.card_memory) else {
        return;
    };
    let mut add = |kind, words: String, lifted: String, edit: fn(&mut CardMemoryParameters)| {
        let spot = spots.endpoint(index, kind, words, lifted, move |part| {
            part.engine.iter_mut().filter_map(|it| it.card_memory.as_mut()).for_each(edit);
        });
        spot.role = if is_read { "card memory, read" } else { "card memory, written" };
    };
    let (any, none) = (|| "any rate".to_owned(), || "none".to_owned());
    let rate = if is_read { LimitKind::MemoryRead } else { LimitKind::SlowReader };
    let bus = rate_words(f64::from(p.axi_bytes) / p.axi_clock.as_seconds());
    let words = format!("the {bus} of the bus to the memory on {{}}");
    add(rate, words, any(), |p| lift!(p => axi_clock));
    let dram = rate_words(2.0 * f64::from(p.dram_bus_bytes) / p.dram_clock.as_seconds());
    let words = format!("the {dram} of the DRAM on {{}}, less rows and refreshes");
    add(
        rate,
        words,
        any(),
        |p| lift!(p => dram_clock, dram_row_change, dram_refresh_interval, dram_refresh),
    );
    let (latency, does) = match is_read {
        true => (p.read_latency, "answers"),
        false => (p.write_latency, "confirms a write"),
    };
    if latency > NO_TIME {
        let words = format!("the {latency} after which the memory on {{}} {does}");
        add(LimitKind::MemoryLatency, words, none(), |p| lift!(p => read_latency, write_latency));
    }
    if p.copying == Copying::InTurn {
        let words = "the copier of {}, which reads a burst and then writes it".to_owned();
        add(LimitKind::InTurn, words, "both at once".to_owned(), |p| {
            p.copying = Copying::Overlapped;
        });
    }
    let best = p.fastest();
    let burst = p.burst_bytes();
    let longest = CardMemoryParameters { burst_beats: best.burst_beats, ..p }.burst_bytes();
    if burst < longest {
        let words = format!("bursts of {burst} B to the memory on {{}}");
        add(LimitKind::PieceLength, words, size_words(longest.into()), |p| {
            lift!(p => burst_beats);
            p.read_ahead_bytes = p.read_ahead_bytes.max(p.burst_bytes());
        });
    }
    let (ahead, most) = (p.read_ahead_bytes, best.read_ahead_bytes);
    if is_read && ahead < most {
        let words = format!("the {} that {{}} reads ahead of its memory", size_words(ahead.into()));
        add(LimitKind::Staging, words, size_words(most.into()), |p| lift!(p => read_ahead_bytes));
    }
}
