// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of every pair of a lab's endpoints, and of each with host memory: one way and both ways at
//! once, and the time of a short read.
//!
//! Pairs that are alike in everything that a flow meets on its way are run once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crosslane_experiment::parallel;
use crosslane_experiment::{
    Choices, ExperimentError, FlowRequest, PlannedFlow, Progress, Scenario, TrafficOutcome,
    TrafficWork,
};
use crosslane_fabric::{FlowKind, NodeKind};
use crosslane_lab::{Lab, RunningLab};
use crosslane_results::topology::{FigureRange, Matrix, MatrixNode, MatrixPair, Way};

/// Operations in flight.
const OUTSTANDING: u32 = 4;
/// Most bytes of an operation.
const OPERATION_BYTES: u64 = 256 << 10;
/// Bytes that a flow moves.
const MOVED_BYTES: u64 = 4 << 20;
/// Smallest window for which a rate is measured: a page for each operation.
const LEAST_ROOM_BYTES: u64 = 4096 * OUTSTANDING as u64;
/// Bytes of a short read, and how many are made one after the other.
const SHORT_BYTES: u64 = 64;
const SHORT_READS: u64 = 8;

/// An endpoint, or the memory of its host.
struct End {
    name: String,
    host: usize,
    /// Bytes behind its largest BAR; all of host memory.
    room_bytes: u64,
    /// Longest payload that it writes, bytes.
    max_write_bytes: u32,
    is_memory: bool,
    /// Socket, if the host has several.
    socket: Option<u16>,
}

/// Runs of a pair of ends.
struct Pair {
    from: usize,
    to: usize,
    way: Way,
    /// Everything that its runs depend on; pairs with the same have the same figures.
    likeness: String,
    /// The least Max_Payload_Size on its way, if not all are equal and no root complex cuts longer
    /// writes into it: what is therefore written.
    payload_bytes: Option<u32>,
}

/// Figures of a run of each kind.
#[derive(Clone, Default)]
struct Figures {
    one_way: Option<f64>,
    both_ways: Option<f64>,
    latency_ns: Option<f64>,
    problem: Option<String>,
}

/// Measures all pairs of a lab: where its constants have ranges, at both ends of them too.
///
/// # Errors
/// A lab that cannot be built, and a run that fails for another reason than its way.
pub fn matrix(lab: &Arc<Lab>, progress: &dyn Progress) -> Result<Matrix, ExperimentError> {
    let mut matrix = typical(lab, progress)?;
    for extreme in lab.extremes()?.into_iter().flatten() {
        let found = typical(&Arc::new(extreme), progress)?;
        // Constants change no way, so that the pairs come in the same order.
        for (pair, other) in matrix.pairs.iter_mut().zip(&found.pairs) {
            widen(pair, other);
        }
    }
    Ok(matrix)
}

/// Widens the ranges of a pair's figures by those of the same pair at one end.
fn widen(pair: &mut MatrixPair, other: &MatrixPair) {
    let wider = |range: &mut Option<FigureRange>, figure: Option<f64>, other: Option<f64>| {
        if let Some((figure, other)) = figure.zip(other) {
            let known = range.unwrap_or(FigureRange { low: figure, high: figure });
            let (low, high) = (known.low.min(other), known.high.max(other));
            *range = (low < high).then_some(FigureRange { low, high });
        }
    };
    wider(
        &mut pair.one_way_range_bytes_per_second, pair.one_way_bytes_per_second,
        other.one_way_bytes_per_second,
    );
    wider(
        &mut pair.both_ways_range_bytes_per_second,
        pair.both_ways_bytes_per_second,
        other.both_ways_bytes_per_second,
    );
    wider(&mut pair.read_latency_range_ns, pair.read_latency_ns, other.read_latency_ns);
}

/// Measures all pairs with the values of the constants.
fn typical(lab: &Arc<Lab>, progress: &dyn Progress) -> Result<Matrix, ExperimentError> {
    let All { ends, pairs, closed } = All::of(lab)?;
    let mut alike: BTreeMap<&str, &Pair> = BTreeMap::new();
    for pair in &pairs {
        alike.entry(&pair.likeness).or_insert(pair);
    }
    let alike: Vec<_> = alike.into_iter().collect();
    let figures = parallel::try_map(&alike, |(likeness, pair)| {
        Ok::<_, ExperimentError>((*likeness, measure(lab, &ends, pair, progress)?))
    })?;
    let figures: BTreeMap<&str, Figures> = figures.into_iter().collect();
    let row = |from: usize, to: usize, way, found: Figures| MatrixPair {
        from: ends[from].name.clone(),
        to: ends[to].name.clone(),
        way,
        one_way_bytes_per_second: found.one_way,
        both_ways_bytes_per_second: found.both_ways,
        read_latency_ns: found.latency_ns,
        problem: found.problem,
        ..MatrixPair::default()
    };
    let measured = pairs.iter().map(|pair| {
        let found = figures.get(pair.likeness.as_str()).cloned().unwrap_or_default();
        row(pair.from, pair.to, pair.way, found)
    });
    let closed = closed.into_iter().map(|(from, to, problem)| {
        row(from, to, Way::None, Figures { problem: Some(problem), ..Figures::default() })
    });
    let pairs = measured.chain(closed).collect();
    let node = |end: &End| MatrixNode {
        name: end.name.clone(),
        is_memory: end.is_memory,
        socket: end.socket,
    };
    Ok(Matrix { lab: lab.name().to_owned(), nodes: ends.iter().map(node).collect(), pairs })
}

/// All pairs of a lab.
struct All {
    ends: Vec<End>,
    pairs: Vec<Pair>,
    /// Pairs without a way: from, to, and why.
    closed: Vec<(usize, usize, String)>,
}

impl All {
    fn of(lab: &Arc<Lab>) -> Result<Self, ExperimentError> {
        let running = lab.build(1)?;
        let ends = ends(lab, &running);
        let (mut pairs, mut closed) = (Vec::new(), Vec::new());
        for (from, first) in ends.iter().enumerate() {
            for (to, second) in ends.iter().enumerate() {
                let both_memory = first.is_memory && second.is_memory;
                if from == to || first.host != second.host || both_memory {
                    continue;
                }
                match pair(lab, &running, &ends, from, to) {
                    Ok(pair) => pairs.push(pair),
                    Err(problem) => closed.push((from, to, problem)),
                }
            }
        }
        Ok(Self { ends, pairs, closed })
    }
}

/// The run of a pair one way.
pub(crate) struct OneWay {
    /// Name of the node that the data come from.
    pub from: String,
    /// Name of the node that they go to.
    pub to: String,
    /// The same for pairs that are alike.
    pub likeness: String,
    /// The run.
    pub scenario: Scenario<TrafficWork>,
}

/// Returns the run one way of each pair that has a way.
pub(crate) fn one_ways(lab: &Arc<Lab>) -> Result<Vec<OneWay>, ExperimentError> {
    let All { ends, pairs, .. } = All::of(lab)?;
    let ways = pairs.into_iter().map(|pair| OneWay {
        from: ends[pair.from].name.clone(),
        to: ends[pair.to].name.clone(),
        scenario: Scenario::new(lab.clone(), one_way(&ends, &pair)),
        likeness: pair.likeness,
    });
    Ok(ways.collect())
}

/// The endpoints of each host in the order of their addresses, then the memory of each socket.
fn ends(lab: &Lab, running: &RunningLab) -> Vec<End> {
    let mut ends = Vec::new();
    for (host, found) in running.hosts.iter().enumerate() {
        let functions = found.tree.functions.iter().enumerate();
        let endpoints = functions
            .filter(|(_, function)| running.fabric.node(function.node).kind == NodeKind::Endpoint);
        let sockets = found.socket_buffers.len();
        // The root port above a function stands before it.
        let socket_of = |index: usize| {
            let mut above = index;
            while let Some(parent) = found.tree.functions[above].parent {
                above = parent;
            }
            let port = running.fabric.port(found.tree.functions[above].port);
            (sockets > 1).then_some(port.socket)
        };
        ends.extend(endpoints.map(|(index, function)| End {
            name: running.fabric.node(function.node).name.clone(),
            host,
            room_bytes: function.bars.iter().map(|bar| bar.size_bytes).max().unwrap_or(0),
            max_write_bytes: max_write_bytes(lab, &running.fabric.node(function.node).name),
            is_memory: false,
            socket: socket_of(index),
        }));
        ends.extend((0_u16..).zip(&found.socket_buffers).map(|(socket, buffers)| End {
            name: match sockets {
                1 => found.name.clone(),
                _ => format!("{}.numa{socket}", found.name),
            },
            host,
            room_bytes: buffers.end - buffers.start,
            max_write_bytes: u32::MAX,
            is_memory: true,
            socket: (sockets > 1).then_some(socket),
        }));
    }
    ends
}

/// The flow that moves data from one end to another: the endpoint writes, or reads from memory.
fn flow(ends: &[End], from: usize, to: usize, payload_bytes: Option<u32>) -> FlowRequest {
    let (from, to) = (&ends[from], &ends[to]);
    let (source, target, kind) = match from.is_memory {
        true => (to, from, FlowKind::Read),
        false => (from, to, FlowKind::Write),
    };
    let bytes = (target.room_bytes / u64::from(OUTSTANDING)).min(OPERATION_BYTES);
    let payload_bytes = payload_bytes.filter(|_| kind == FlowKind::Write);
    let payload_bytes = payload_bytes.map(|bytes| bytes.min(source.max_write_bytes));
    FlowRequest::new(&source.name, &target.name, kind, bytes).with_payload_bytes(payload_bytes)
}

/// The work of a pair one way.
fn one_way(ends: &[End], pair: &Pair) -> TrafficWork {
    let there = flow(ends, pair.from, pair.to, pair.payload_bytes);
    let operations = (MOVED_BYTES / there.operation_bytes.max(1)).max(1);
    work(vec![there], operations, OUTSTANDING)
}

fn work(flows: Vec<FlowRequest>, operations: u64, outstanding: u32) -> TrafficWork {
    let choices = Choices::default().with_operations(operations).with_outstanding(outstanding);
    TrafficWork { flows, choices, shuffle: false }
}

/// Finds the way of a pair, and what its runs depend on.
fn pair(
    lab: &Arc<Lab>,
    running: &RunningLab,
    ends: &[End],
    from: usize,
    to: usize,
) -> Result<Pair, String> {
    let target = if ends[from].is_memory { from } else { to };
    if ends[target].room_bytes < LEAST_ROOM_BYTES {
        let (name, room) = (&ends[target].name, ends[target].room_bytes);
        return Err(format!("{name} has no BAR larger than {room} B"));
    }
    let request = flow(ends, from, to, None);
    let scenario = Scenario::new(lab.clone(), work(vec![request], 1, 1));
    let planned = scenario.plan(running).map_err(|error| error.to_string())?;
    let planned = planned.first().ok_or("no flow was planned")?;
    let fabric = &running.fabric;
    let is_one_socket = ends[from].socket == ends[to].socket;
    let way = way(running, planned, is_one_socket);
    let mut likeness = format!("{way:?} ");
    for name in [&ends[from].name, &ends[to].name] {
        let part = lab.file().endpoints.iter().find(|endpoint| endpoint.name == *name);
        let _ = write!(likeness, "{:?} ", part.map(|endpoint| &endpoint.part));
    }
    let own = lab.file().peers_between(&ends[from].name, &ends[to].name);
    let _ = write!(likeness, "{:?} ", own.map(|peers| peers.peer_to_peer));
    // Addresses above 4 GiB have a longer header.
    let _ = write!(likeness, "{} ", planned.flow.target.0 >> 32 != 0);
    for direction in planned.requests.iter().chain(&planned.completions) {
        let (sender, receiver) = fabric.direction_ends(*direction);
        let _ = write!(likeness, "{:?} ", fabric.link(direction.link).parameters);
        for port in [sender, receiver].map(|port| fabric.port(port)) {
            let node = fabric.node(port.node);
            let switches = lab.file().switches.iter();
            let switch = switches.clone().find(|switch| switch.name == node.name);
            let bytes = port.config.max_payload_bytes();
            let part = switch.map(|switch| (&switch.part, switch.acs));
            let _ = write!(likeness, "{:?} {bytes} {part:?} ", node.kind);
        }
    }
    let payload_bytes = least_payload_bytes(lab, running, planned);
    Ok(Pair { from, to, way, likeness, payload_bytes })
}

/// Returns the least Max_Payload_Size on the way of a flow, if not all are equal and no root
/// complex cuts what it passes on (PCIe 6.x 1.3.1).
fn least_payload_bytes(lab: &Lab, running: &RunningLab, planned: &PlannedFlow) -> Option<u32> {
    let fabric = &running.fabric;
    let ends = planned.requests.iter().chain(&planned.completions).flat_map(|direction| {
        let (sender, receiver) = fabric.direction_ends(*direction);
        [sender, receiver]
    });
    let payloads: Vec<u32> =
        ends.map(|port| fabric.port(port).config.max_payload_bytes()).collect();
    let cuts = matches!(way(running, planned, true), Way::RootComplex | Way::Sockets)
        && lab.file().hosts.iter().any(|host| host.part.parameters.cuts_peers);
    let least = payloads.iter().min().copied().filter(|_| !cuts);
    least.filter(|least| payloads.iter().any(|bytes| bytes != least))
}

/// Returns the payload for the writes of a flow on whose way functions are set to different ones.
pub(crate) fn uneven_payload_bytes(
    lab: &Lab,
    running: &RunningLab,
    planned: &PlannedFlow,
) -> Option<u32> {
    let least = least_payload_bytes(lab, running, planned)?;
    Some(least.min(max_write_bytes(lab, &planned.from)))
}

/// Returns the longest payload that an endpoint writes; no limit for another node.
fn max_write_bytes(lab: &Lab, name: &str) -> u32 {
    let part = lab.file().endpoints.iter().find(|endpoint| endpoint.name == name);
    part.map_or(u32::MAX, |endpoint| endpoint.part.parameters.requester.max_write_bytes)
}

/// The kind of way that a flow takes.
fn way(running: &RunningLab, planned: &PlannedFlow, is_one_socket: bool) -> Way {
    let fabric = &running.fabric;
    let nodes = planned.requests.iter().map(|direction| {
        let receiver = fabric.direction_ends(*direction).1;
        fabric.node(fabric.port(receiver).node).kind
    });
    let nodes: Vec<NodeKind> = nodes.collect();
    let ends_there = nodes.last() == Some(&NodeKind::RootComplex);
    let switches = nodes.iter().filter(|kind| **kind == NodeKind::Switch).count();
    match (nodes.contains(&NodeKind::RootComplex), switches) {
        (true, _) if !is_one_socket => Way::Sockets,
        (true, _) if ends_there => Way::Memory,
        (true, _) => Way::RootComplex,
        (false, 1) => Way::OneSwitch,
        (false, _) => Way::Switches,
    }
}

fn measure(
    lab: &Arc<Lab>,
    ends: &[End],
    pair: &Pair,
    progress: &dyn Progress,
) -> Result<Figures, ExperimentError> {
    let run = |work: TrafficWork| Scenario::new(lab.clone(), work).run(progress, None);
    let alone = one_way(ends, pair);
    let operations = alone.choices.operations.unwrap_or(1);
    let mut figures = Figures::default();
    let mut rate = |outcome: &TrafficOutcome| {
        let problem = outcome.deadlock.iter().chain(&outcome.errors).next();
        figures.problem = figures.problem.take().or(problem.cloned());
        let rates = outcome.flows.iter().map(|flow| flow.report.bytes_per_second());
        problem.is_none().then(|| rates.sum())
    };
    let there = alone.flows[0].clone();
    let one_way = rate(&run(alone)?);
    // The way back has a window of its own to have room in.
    let back_fits = ends[pair.to].is_memory || ends[pair.from].room_bytes >= LEAST_ROOM_BYTES;
    let both_ways = match back_fits {
        true => {
            let back = flow(ends, pair.to, pair.from, pair.payload_bytes);
            let flows = match there.to == back.to {
                // Two flows of one memory share it.
                true => [there, back].map(|mut flow| {
                    flow.operation_bytes /= 2;
                    flow
                }),
                false => [there, back],
            };
            rate(&run(work(flows.into(), operations, OUTSTANDING))?)
        }
        false => None,
    };
    if ends[pair.from].is_memory {
        return Ok(Figures { one_way, both_ways, ..figures });
    }
    let (reader, read) = (&ends[pair.from].name, &ends[pair.to].name);
    let short = FlowRequest::new(reader, read, FlowKind::Read, SHORT_BYTES);
    let outcome = run(work(vec![short], SHORT_READS, 1))?;
    let latency = outcome.flows.first().map(|flow| flow.latencies.typical_ps as f64 / 1e3);
    let is_read = outcome.deadlock.is_none() && outcome.errors.is_empty();
    Ok(Figures { one_way, both_ways, latency_ns: latency.filter(|_| is_read), ..figures })
}
