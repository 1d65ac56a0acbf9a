// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns requested flows into flows of a fabric: names looked up, windows handed out, paths through
//! the tree found.

use std::ops::Range;

use crosslane_driver::LINE_BYTES;
use crosslane_fabric::{DirectionId, NodeId};
use crosslane_fabric::{Fabric, Flow, FlowKind, FlowSource, Node, NodeKind, Region};
use crosslane_host::setters;
use crosslane_lab::{RunningHost, RunningLab};
use crosslane_pcie::config::Bar;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_results::quantity::size_words;

use super::argument::kind_word;
use super::shape::CORE_ACCESS_BYTES;
use crate::error::{ExperimentError, Result};
use crate::options::{default_in_flight, default_operations};
use crate::route::{Cargo, route};

/// Most of a window that a flow walks through, unless one operation is larger or the user wants
/// another one.
const WINDOW_BYTES: u64 = 4 << 20;

/// Name of the host of a lab that has only one.
const ONLY_HOST: &str = "host";

/// Options of all flows of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choices {
    /// Operations of each flow, or by size.
    pub operations: Option<u64>,
    /// Operations in flight, or by size.
    pub outstanding: Option<u32>,
    /// Whether requests carry the relaxed ordering attribute.
    pub relaxed: bool,
    /// Whether only read requests do, so that their answers pass posted writes.
    pub relaxed_reads: bool,
    /// Memory over which the operations of a flow go, bytes, or up to 4 MiB.
    pub window_bytes: Option<u64>,
    /// Whether operations visit that memory in an order without a pattern.
    pub random: bool,
    /// Distance of that memory from the start of the flow's part of the target, bytes.
    pub offset_bytes: u64,
    /// Whether cores read through a write-combined mapping, by streaming loads.
    pub write_combined: bool,
}

setters!(Choices {
    with_operations(operations: impl Into<Option<u64>>),
    with_outstanding(outstanding: impl Into<Option<u32>>),
    with_relaxed(relaxed: bool),
    with_relaxed_reads(relaxed_reads: bool),
    with_window_bytes(window_bytes: impl Into<Option<u64>>),
    with_random(random: bool),
    with_offset_bytes(offset_bytes: u64),
    with_write_combined(write_combined: bool),
});

/// A flow as it is asked for; names are not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowRequest {
    /// Name of the flow in errors.
    pub label: String,
    /// The requester: an endpoint, or a host (its processor); `.numaN` behind a host's name says
    /// which socket's, if it is not to be the first.
    pub from: String,
    /// Owner of the memory: a host, or an endpoint, whose BAR leads to it; `.barN` behind the name
    /// says which one, if it is not to be the largest, and `.numaN` whose of several sockets, if it
    /// is not to be that of the host's programs.
    pub to: String,
    /// Write, read, or both.
    pub kind: FlowKind,
    /// Size of one operation, bytes.
    pub operation_bytes: u64,
    /// Longest payload of a write TLP or longest read request, if it is to be another one than
    /// the function's setting.
    pub payload_bytes: Option<u32>,
    /// Whether its requests carry the relaxed ordering attribute, as [`Choices::relaxed`] says of
    /// all flows.
    pub relaxed: bool,
    /// Its half of a copy from one endpoint to another by way of host memory.
    pub(crate) half: Option<Half>,
}

/// A half of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// The first endpoint writes into host memory.
    In,
    /// The second one reads it there; the first half is the flow before.
    Out,
}

setters!(FlowRequest {
    with_label(label: impl Into<String>),
    with_payload_bytes(payload_bytes: impl Into<Option<u32>>),
    with_relaxed(relaxed: bool),
});

impl FlowRequest {
    /// Whether it is the read of a copy, which belongs to the request before it.
    pub fn is_read_of_a_copy(&self) -> bool {
        self.half == Some(Half::Out)
    }

    /// Asks for a flow from a requester to a memory, with operations of so many bytes.
    pub fn new(from: &str, to: &str, kind: FlowKind, operation_bytes: u64) -> Self {
        let label = format!("{from}:{to}:{}", kind_word(kind));
        let (from, to) = (from.to_owned(), to.to_owned());
        let (payload_bytes, relaxed, half) = (None, false, None);
        Self { label, from, to, kind, operation_bytes, payload_bytes, relaxed, half }
    }

    /// Asks for a copy from one endpoint to another by way of host memory, in chunks of so many
    /// bytes: the flows of both, one behind the other. As many chunks as operations are in flight
    /// have room in memory, or two.
    pub fn copy(from: &str, to: &str, chunk_bytes: u64) -> [Self; 2] {
        let half = |from: &str, to: &str, kind, half| {
            let half = Some(half);
            Self { half, ..Self::new(from, to, kind, chunk_bytes) }
        };
        [half(from, to, FlowKind::Write, Half::In), half(to, from, FlowKind::Read, Half::Out)]
    }

    fn refused(&self, problem: String) -> ExperimentError {
        ExperimentError::refused(&self.label, problem)
    }
}

/// A flow that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFlow {
    /// Flow as the fabric runs it.
    pub flow: Flow,
    /// Name of the requester in the lab.
    pub from: String,
    /// Name of the memory in the lab.
    pub to: String,
    /// The node that answers reads.
    pub target_node: NodeId,
    /// Directions that writes and read requests cross.
    pub requests: Vec<DirectionId>,
    /// Directions that completions cross; empty where nothing is read.
    pub completions: Vec<DirectionId>,
    /// Operations that the requester may have in flight, if those of a core's loads limit it.
    pub most_in_flight: Option<u32>,
    /// Whether it reads what the flow before it writes.
    pub is_copied: bool,
}

impl PlannedFlow {
    /// The directions that carry the data of writes, and those that carry that of reads.
    pub fn data_directions(&self) -> (&[DirectionId], &[DirectionId]) {
        match self.flow.kind {
            FlowKind::Write => (&self.requests, &[]),
            FlowKind::Read => (&[], &self.completions),
            FlowKind::WriteRead => (&self.requests, &self.completions),
        }
    }

    /// Returns whether data of the flow cross a direction.
    pub fn carries_data(&self, id: DirectionId) -> bool {
        let (writes, reads) = self.data_directions();
        writes.contains(&id) || reads.contains(&id)
    }

    /// Operations in flight at once, as far as there are so many, and as a core's loads allow.
    pub fn in_flight(&self) -> u64 {
        let outstanding = self.flow.outstanding.min(self.most_in_flight.unwrap_or(u32::MAX));
        u64::from(outstanding).min(self.flow.operations)
    }

    /// Returns the flow in words: `fpga1 -> host, write`.
    pub fn words(&self) -> String {
        format!("{} -> {}, {}", self.from, self.to, kind_word(self.flow.kind))
    }
}

/// Names that a flow may use.
fn known_names(fabric: &Fabric) -> String {
    let nodes = fabric.nodes().iter().filter(|node| node.kind != NodeKind::Switch);
    let names: Vec<&str> = nodes.map(|node| node.name.as_str()).collect();
    names.join(", ")
}

/// Finds a node by name; `host` is the host of a lab with only one.
pub(super) fn find(lab: &RunningLab, name: &str) -> Option<NodeId> {
    lab.find(name).or_else(|| match &lab.hosts[..] {
        [host] if name == ONLY_HOST => Some(host.root_complex),
        _ => None,
    })
}

fn find_end(lab: &RunningLab, name: &str, request: &FlowRequest) -> Result<NodeId> {
    let fabric = &lab.fabric;
    match find(lab, name) {
        Some(id) if fabric.node(id).kind == NodeKind::Switch => Err(request.refused(format!(
            "{name} is a switch; flows begin and end at {}",
            known_names(fabric)
        ))),
        Some(id) => Ok(id),
        None => {
            Err(request.refused(format!("the lab has no {name}; it has {}", known_names(fabric))))
        }
    }
}

/// A memory that flows move data to or from.
#[derive(Clone, Debug, PartialEq)]
struct TargetMemory {
    /// Name of the memory as results have it: `host0`, `fpga2 BAR1`.
    name: String,
    addresses: Range<u64>,
}

/// A place at a node, as it stands behind the node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `.barN`
    Bar(usize),
    /// `.numaN`
    Numa(u16),
}

/// The socket of a host that a place names, if it names one.
fn socket_of(
    host: &RunningHost,
    place: Option<Place>,
    request: &FlowRequest,
) -> Result<Option<u16>> {
    let (name, count) = (&host.name, host.socket_buffers.len());
    match place {
        None => Ok(None),
        Some(Place::Bar(_)) => Err(request.refused(format!("{name} is a host and has no BARs"))),
        Some(Place::Numa(node)) if usize::from(node) < count => Ok(Some(node)),
        Some(Place::Numa(node)) => {
            let has = match count {
                1 => "one, numa0".to_owned(),
                _ => format!("{count}, numa0 to numa{}", count - 1),
            };
            Err(request.refused(format!("{name} has no NUMA node {node}; it has {has}")))
        }
    }
}

/// Returns the BARs of an endpoint.
pub(super) fn bars_of(fabric: &Fabric, node: &Node) -> Vec<Bar> {
    let port = node.ports.first().map(|&port| fabric.port(port));
    let ports = port.into_iter();
    ports.flat_map(|port| (0..6).filter_map(|index| port.config.bar(index))).collect()
}

/// The memory behind a name: a host's buffers, or the named BAR of an endpoint, or its largest.
fn memory_of(
    lab: &RunningLab,
    node: NodeId,
    place: Option<Place>,
    request: &FlowRequest,
) -> Result<TargetMemory> {
    let fabric = &lab.fabric;
    let name = fabric.node(node).name.clone();
    if let Some(host) = lab.hosts.iter().find(|host| host.root_complex == node) {
        return Ok(match socket_of(host, place, request)? {
            None => TargetMemory { name, addresses: host.buffers.clone() },
            Some(socket) => TargetMemory {
                name: format!("{name}.numa{socket}"),
                addresses: host.socket_buffers[usize::from(socket)].clone(),
            },
        });
    }
    let bar = match place {
        None => None,
        Some(Place::Bar(index)) => Some(index),
        Some(Place::Numa(_)) => {
            let problem = format!("{name} is an endpoint; only hosts have NUMA nodes");
            return Err(request.refused(problem));
        }
    };
    let bars = bars_of(fabric, fabric.node(node));
    let chosen = match bar {
        Some(index) => bars.iter().find(|bar| bar.index == index),
        // The first of the largest ones.
        None => bars.iter().rev().max_by_key(|bar| bar.size_bytes),
    };
    let Some(chosen) = chosen else {
        let has: Vec<String> = bars.iter().map(|bar| format!("BAR{}", bar.index)).collect();
        let has = if has.is_empty() { "no BAR".to_owned() } else { has.join(", ") };
        return Err(request.refused(format!("{name} has {has}")));
    };
    let addresses = chosen.base.0..chosen.base.0 + chosen.size_bytes;
    Ok(TargetMemory { name: format!("{name} BAR{}", chosen.index), addresses })
}

/// The name of a node, and the place behind it: `.barN` or `.numaN`.
pub(crate) fn split_place(text: &str) -> (&str, Option<Place>) {
    let placed = text.rsplit_once('.').and_then(|(name, place)| {
        let bar = place.strip_prefix("bar").and_then(|index| index.parse().ok()).map(Place::Bar);
        let numa = || place.strip_prefix("numa")?.parse().ok().map(Place::Numa);
        Some((name, Some(bar.or_else(numa)?)))
    });
    placed.unwrap_or((text, None))
}

fn check_ends(lab: &RunningLab, request: &FlowRequest, from: NodeId, to: NodeId) -> Result<()> {
    let fabric = &lab.fabric;
    if from == to {
        return Err(request
            .refused(format!("{} cannot move data to itself over PCI Express", request.from)));
    }
    let (from, to) = (fabric.node(from), fabric.node(to));
    if from.host != to.host {
        return Err(request.refused(format!(
            "{} and {} are in the trees of different hosts",
            from.name, to.name
        )));
    }
    Ok(())
}

/// The requester of a flow: an endpoint, or the first core of a host or of the socket named.
fn source(
    lab: &RunningLab,
    node: NodeId,
    place: Option<Place>,
    request: &FlowRequest,
) -> Result<FlowSource> {
    let Some(host) = lab.hosts.iter().find(|host| host.root_complex == node) else {
        return match place {
            None => Ok(FlowSource::Endpoint(node)),
            Some(_) => {
                let problem = format!("{} is not a requester; its endpoint is", request.from);
                Err(request.refused(problem))
            }
        };
    };
    let socket = socket_of(host, place, request)?.unwrap_or(0);
    let core = socket * (host.cpu.cores / host.socket_buffers.len() as u16);
    Ok(FlowSource::Core { root_complex: node, core })
}

/// Most operations of a size that a core has in flight by so many loads of `width` bytes, one
/// behind the other: the first may have its last load left, and the last have begun with one. The
/// first byte of an operation is at `address`.
fn operations_of(loads: u16, address: u64, bytes: u64, width: u64) -> u32 {
    let each = (address % width + bytes).div_ceil(width);
    match u64::from(loads) {
        1 => 1,
        loads => 2 + ((loads - 2) / each) as u32,
    }
}

/// Checks that a core can read through the mapping that is asked for, and returns the loads that it
/// has in flight with the width of each, bytes.
fn core_loads(host: &RunningHost, request: &FlowRequest, combined: bool) -> Result<(u16, u64)> {
    let cpu = &host.cpu;
    if !combined {
        let width = request.payload_bytes.unwrap_or(CORE_ACCESS_BYTES);
        return Ok((cpu.loads_in_flight, width.into()));
    }
    match cpu.combining.map(|combining| combining.streaming_loads) {
        Some(lines) if lines > 0 => Ok((lines, LINE_BYTES)),
        _ => Err(request.refused(format!(
            "the processor of {} has no streaming loads, which read write-combined memory: \
             cpu.combining.streaming_loads of its part is 0 or left out",
            host.name
        ))),
    }
}

/// The part of a memory that a flow works in.
struct Window {
    target: BusAddress,
    bytes: u64,
    /// Operations that have room beside each other.
    operations: u64,
}

/// Returns the share of a memory that one of `count` flows gets, and how much of it it walks
/// through: room for the operations in flight at least, where the user names their number.
fn window(
    memory: &TargetMemory,
    (index, count): (u64, u64),
    request: &FlowRequest,
    choices: &Choices,
) -> Result<Window> {
    // Shares begin at pages, so that no flow's requests are cut otherwise than another's.
    let size = memory.addresses.end - memory.addresses.start;
    let share = (size / count) & !0xfff;
    let (bytes, offset) = (request.operation_bytes, choices.offset_bytes);
    let room = share.saturating_sub(offset);
    let stride = Flow::stride_of(bytes);
    let wanted = choices.outstanding.map_or(1, u64::from);
    let own = choices.window_bytes.filter(|window| *window <= room);
    let operations = match (choices.window_bytes, own) {
        (Some(_), own) => own.unwrap_or(0) / stride,
        (None, _) => (WINDOW_BYTES / stride).max(wanted).min(room / stride),
    };
    if operations < wanted {
        let shared = if count > 1 { format!(", shared by {count} flows") } else { String::new() };
        let behind = if offset > 0 { format!(" behind {offset} B") } else { String::new() };
        let (has, at_once) = (size_words(size), format!("{wanted} x {bytes} B at once"));
        return Err(request.refused(match (choices.window_bytes, own) {
            (Some(window), None) => format!(
                "{} has {has}{shared}; that is no room for a window of {}{behind}",
                memory.name,
                size_words(window)
            ),
            (_, Some(window)) => {
                format!("a window of {} is no room for {at_once}", size_words(window))
            }
            (None, None) => {
                format!("{} has {has}{shared}; that is no room for {at_once}{behind}", memory.name)
            }
        }));
    }
    let target = BusAddress(memory.addresses.start + index * share + offset);
    Ok(Window { target, bytes: operations * stride, operations })
}

/// Operations in flight that suit a size.
fn default_outstanding(kind: FlowKind, bytes: u64) -> u64 {
    match kind {
        FlowKind::WriteRead => 1,
        _ => default_in_flight(bytes),
    }
}

/// Buffers of a copy, unless operations in flight are given.
const COPY_BUFFERS: u64 = 2;

/// Returns the host by whose memory a copy goes from one endpoint to another.
fn host_between(
    lab: &RunningLab,
    request: &FlowRequest,
    ends: [NodeId; 2],
    place: Option<Place>,
) -> Result<NodeId> {
    let fabric = &lab.fabric;
    let is_endpoint = |end: &NodeId| fabric.node(*end).kind == NodeKind::Endpoint;
    if !ends.iter().all(is_endpoint) || place.is_some() {
        let problem = "a copy goes from an endpoint to another by way of their host's memory";
        return Err(request.refused(problem.to_owned()));
    }
    let host = lab.hosts.iter().find(|host| host.id == fabric.node(ends[0]).host);
    let none = || request.refused("its endpoints have no host".to_owned());
    host.map(|host| host.root_complex).ok_or_else(none)
}

/// Makes the flows of a run ready.
///
/// # Errors
/// [`ExperimentError::Refused`] for the first that cannot be, with the flow and the name.
pub fn plan(
    lab: &RunningLab,
    requests: &[FlowRequest],
    choices: Choices,
) -> Result<Vec<PlannedFlow>> {
    let fabric = &lab.fabric;
    let mut ends = Vec::new();
    for request in requests {
        let (name, place) = split_place(&request.from);
        let from = find_end(lab, name, request)?;
        let source = source(lab, from, place, request)?;
        let (name, place) = split_place(&request.to);
        let to = find_end(lab, name, request)?;
        check_ends(lab, request, from, to)?;
        let (to, place) = match request.half {
            Some(_) => (host_between(lab, request, [from, to], place)?, None),
            None => (to, place),
        };
        ends.push(((from, source), to, memory_of(lab, to, place, request)?));
    }
    let mut planned: Vec<PlannedFlow> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let bytes = request.operation_bytes;
        let (from, to, memory) = &ends[index];
        let ((from, source), to) = (*from, *to);
        let of_same = |ends: &[((NodeId, FlowSource), NodeId, TargetMemory)]| {
            let is_same = |other: &TargetMemory| other.addresses == memory.addresses;
            ends.iter().filter(|(_, node, other)| *node == to && is_same(other)).count() as u64
        };
        let (before, count) = (of_same(&ends[..index]), of_same(&ends));
        let outstanding = choices.outstanding;
        let mut window = window(memory, (before, count), request, &choices)?;
        let kind = request.kind;
        if request.half.is_some() {
            if choices.random {
                return Err(request.refused("the chunks of a copy are in their order".to_owned()));
            }
            window.operations = outstanding.map_or(COPY_BUFFERS, u64::from).min(window.operations);
            window.bytes = window.operations * Flow::stride_of(bytes);
        }
        let first = planned.last().filter(|_| request.half == Some(Half::Out));
        if let Some(first) = first {
            window.target = first.flow.target;
        }
        let is_load = kind == FlowKind::Read && matches!(source, FlowSource::Core { .. });
        if choices.write_combined && !is_load {
            let problem = "only reads of a host's cores go through a write-combined mapping";
            return Err(request.refused(problem.to_owned()));
        }
        let host = lab.hosts.iter().find(|host| is_load && host.root_complex == from);
        let loads = host.map(|host| core_loads(host, request, choices.write_combined));
        let loads = loads.transpose()?;
        let most = loads.map(|(loads, width)| operations_of(loads, window.target.0, bytes, width));
        if let (Some(several), Some((loads, _)), Some(most)) = (outstanding, loads, most)
            && several > most
        {
            let name = &fabric.node(from).name;
            return Err(request.refused(match loads {
                1 => format!(
                    "{several} operations in flight: a core of {name} makes one load at a time"
                ),
                _ => format!(
                    "{several} operations in flight: a core of {name} has {loads} loads in \
                     flight, of at most {most} operations of {bytes} B"
                ),
            }));
        }
        let by_default = default_outstanding(kind, bytes).min(window.operations) as u32;
        let by_default = match (request.half, most) {
            (Some(_), _) => window.operations as u32,
            (None, Some(most)) if most > 1 => by_default.min(most),
            _ => by_default,
        };
        let flow = Flow {
            name: format!("{}:{}:{}", request.from, request.to, kind_word(kind)),
            source,
            kind,
            target: window.target,
            window_bytes: window.bytes,
            operation_bytes: bytes,
            tlp_bytes: request.payload_bytes,
            force: request.payload_bytes.is_some(),
            operations: choices.operations.unwrap_or_else(|| default_operations(bytes)),
            outstanding: outstanding.unwrap_or(by_default),
            scattered: choices.random,
            region: match choices.write_combined {
                true => Region::WriteCombined,
                false => Region::Uncached,
            },
            relaxed_ordering: choices.relaxed
                || request.relaxed
                || choices.relaxed_reads && kind == FlowKind::Read,
            start: Picoseconds::ZERO,
        };
        let completions = match kind {
            FlowKind::Write => Vec::new(),
            _ => route(fabric, to, from, Cargo::Completions),
        };
        planned.push(PlannedFlow {
            flow,
            from: fabric.node(from).name.clone(),
            to: memory.name.clone(),
            target_node: to,
            requests: route(fabric, from, to, Cargo::Requests),
            completions,
            most_in_flight: most,
            is_copied: request.half == Some(Half::Out),
        });
    }
    Ok(planned)
}
