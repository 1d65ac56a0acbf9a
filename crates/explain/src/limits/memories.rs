// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memories: of hosts, and behind the BARs of endpoints.

use std::sync::Arc;

use crosslane_fabric::parameters::{CompleterParameters, Latency};
use crosslane_lab::LabFile;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

use super::Spot;
use super::requesters::edit_part;
use super::ways::{Requester, Target, Transfer, Ways};

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

    fn edit(self, file: &mut LabFile, edit: impl FnOnce(&mut CompleterParameters)) {
        match self {
            Self::Host(index) => {
                edit(&mut Arc::make_mut(&mut file.hosts[index].part).parameters.completer);
            }
            Self::Endpoint(index) => {
                edit_part(file, index, |part| edit(&mut part.parameters.completer));
            }
        }
    }

    /// A limit of this memory.
    fn spot(
        self,
        file: &LabFile,
        kind: LimitKind,
        words: String,
        lifted: &str,
        edit: impl Fn(&mut CompleterParameters) + Send + Sync + 'static,
    ) -> Spot {
        let role = match self {
            Self::Host(_) => "host",
            Self::Endpoint(_) => "endpoint",
        };
        let change = move |file: &mut LabFile| self.edit(file, &edit);
        Spot::new(kind, self.name(file), words, lifted, change).in_role(role)
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
    let mut add =
        |memory: Memory, written: bool, read: bool, touched: bool, payload: u32| match uses
            .iter_mut()
            .find(|it| it.memory == memory)
        {
            Some(it) => {
                it.written |= written;
                it.read |= read;
                it.touched |= touched;
                it.payload_bytes = it.payload_bytes.min(payload);
            }
            None => uses.push(Use { memory, written, read, touched, payload_bytes: payload }),
        };
    for transfer in &ways.transfers {
        let first = transfer.completions.first();
        let payload = first.map_or(u32::MAX, |first| ways.ends(*first).0.max_payload_bytes);
        let (writes, reads) = (transfer.writes, transfer.reads);
        match transfer.target {
            Target::Host(index) => add(Memory::Host(index), writes, reads, writes, payload),
            Target::Memory(index) => add(Memory::Endpoint(index), writes, reads, writes, payload),
            Target::Lane(_) => {}
        }
        if let Requester::Engine(_) | Requester::Processor(_) = transfer.requester {
            // Status blocks are written there, and descriptors read from there.
            add(Memory::Host(transfer.host), false, false, true, u32::MAX);
        }
    }
    uses
}

pub(super) fn spots(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    uses(ways).iter().flat_map(|it| writes(file, it).into_iter().chain(reads(file, it))).collect()
}

/// Formats a rate, `2 GB/s`, with as many decimals as it needs.
pub(super) fn rate_words(bytes_per_second: f64) -> String {
    let words = format!("{:.3}", bytes_per_second / 1e9);
    format!("{} GB/s", words.trim_end_matches('0').trim_end_matches('.'))
}

fn writes(file: &LabFile, it: &Use) -> Vec<Spot> {
    let mut spots = Vec::new();
    let (memory, p) = (it.memory, it.memory.get(file));
    let paced = p.write_bytes_per_second.is_finite() || p.write_overhead > Picoseconds::ZERO;
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
        spots.push(memory.spot(file, kind, words, "any rate", |p| {
            p.write_bytes_per_second = f64::INFINITY;
            p.write_overhead = Picoseconds::ZERO;
        }));
    }
    if it.touched && p.partial_line > Picoseconds::ZERO {
        let words = format!(
            "the {} for each line of {} B that is written in part in the memory of {{}}",
            p.partial_line, p.line_bytes
        );
        let kind = LimitKind::PartialLines;
        spots.push(memory.spot(file, kind, words, "none", |p| p.partial_line = Picoseconds::ZERO));
    }
    spots
}

fn reads(file: &LabFile, it: &Use) -> Vec<Spot> {
    let mut spots = Vec::new();
    let (memory, p) = (it.memory, it.memory.get(file));
    if it.read && p.read_bytes_per_second.is_finite() {
        let rate = rate_words(p.read_bytes_per_second);
        let words = format!("the {rate} at which the memory of {{}} is read");
        let kind = LimitKind::MemoryRead;
        spots.push(
            memory.spot(file, kind, words, "any rate", |p| p.read_bytes_per_second = f64::INFINITY),
        );
    }
    if it.read && p.read_slots < u32::MAX {
        let words = match p.read_slots {
            1 => "one read at once in the memory of {}".to_owned(),
            slots => format!("the {slots} reads at once in the memory of {{}}"),
        };
        let kind = LimitKind::ReadSlots;
        spots.push(memory.spot(file, kind, words, "any number", |p| p.read_slots = u32::MAX));
    }
    if it.read && p.completion_bytes < it.payload_bytes && it.payload_bytes < u32::MAX {
        let (now, best) = (p.completion_bytes, it.payload_bytes);
        let words = format!("completions of {now} B of {{}} ({best} B are possible)");
        let (kind, lifted) = (LimitKind::CompletionSize, format!("{best} B"));
        spots.push(memory.spot(file, kind, words, &lifted, move |p| p.completion_bytes = best));
    }
    if it.read && p.completion_single_share > 0.0 {
        let percent = p.completion_single_share * 100.0;
        let unit = p.read_completion_boundary_bytes;
        let words = format!("the {percent:.3} % of {{}}'s completions in single units of {unit} B");
        let kind = LimitKind::CompletionSize;
        spots.push(memory.spot(file, kind, words, "none", |p| p.completion_single_share = 0.0));
    }
    spots.extend(latency(file, it));
    spots
}

/// Latency of a memory, including the ports of its root complex and IOTLB hits.
fn latency(file: &LabFile, it: &Use) -> Option<Spot> {
    let (memory, p) = (it.memory, it.memory.get(file));
    let in_port = match memory {
        Memory::Host(index) => {
            let port = &file.hosts[index].part.port;
            let iommu = file.hosts[index].part.parameters.iommu;
            let hit = iommu.map_or(Picoseconds::ZERO, |iommu| iommu.hit);
            port.receive_latency + port.transmit_latency + hit
        }
        Memory::Endpoint(_) => Picoseconds::ZERO,
    };
    let answer = if it.read { p.read_latency.base } else { p.write_latency };
    let none = in_port + p.read_latency.base + p.write_latency == Picoseconds::ZERO;
    if none && p.read_latency == Latency::default() {
        return None;
    }
    let what = if it.read { "answers" } else { "shows what was written" };
    let words = format!("the {} after which {{}} {what}", answer + in_port);
    let role = if it.read { "read" } else { "written" };
    let edit = move |file: &mut LabFile| {
        memory.edit(file, |p| {
            p.read_latency = Latency::default();
            p.write_latency = Picoseconds::ZERO;
        });
        if let Memory::Host(index) = memory {
            let part = Arc::make_mut(&mut file.hosts[index].part);
            part.port.receive_latency = Picoseconds::ZERO;
            part.port.transmit_latency = Picoseconds::ZERO;
            part.parameters.iommu.iter_mut().for_each(|iommu| iommu.hit = Picoseconds::ZERO);
        }
    };
    let kind = LimitKind::MemoryLatency;
    Some(Spot::new(kind, memory.name(file), words, "none", edit).in_role(role))
}
