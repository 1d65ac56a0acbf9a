// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Demands of a run on a lab: requesters, targets, and the ports between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crosslane_bridge::Path;
use crosslane_experiment::{
    BridgeWork, Cargo, EngineWork, ExperimentError, PlannedFlow, Scenario, StoreWork, TrafficWork,
    TwoNodes, Workload, route,
};
use crosslane_fabric::parameters::PortParameters;
use crosslane_fabric::{
    DirectionId, Fabric, FlowKind, FlowSource, LinkDirection, NodeId, NodeKind,
};
use crosslane_lab::{Lab, LabFile, RunningLab};
use crosslane_results::distinct;

use crate::error::ExplainError;

/// Sender of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// The DMA engine of an endpoint, by its index in the lab file.
    Engine(usize),
    /// The generic requester of an endpoint.
    Generic(usize),
    /// The network processor of an endpoint.
    Processor(usize),
    /// The network adapter of an endpoint.
    Nic(usize),
    /// A core of a host.
    Core(usize),
}

impl Requester {
    /// Returns the endpoint, unless it is a core.
    pub const fn endpoint(self) -> Option<usize> {
        match self {
            Self::Engine(index)
            | Self::Generic(index)
            | Self::Processor(index)
            | Self::Nic(index) => Some(index),
            Self::Core(_) => None,
        }
    }

    /// Returns the name of the endpoint or the host.
    pub fn name(self, file: &LabFile) -> &str {
        match self {
            Self::Core(index) => &file.hosts[index].name,
            Self::Engine(index)
            | Self::Generic(index)
            | Self::Processor(index)
            | Self::Nic(index) => &file.endpoints[index].name,
        }
    }
}

/// Target of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Memory of a host.
    Host(usize),
    /// A receive queue of an endpoint's engine.
    Lane(usize),
    /// Memory behind a BAR of an endpoint.
    Memory(usize),
}

/// Source of an engine's writes, or target of its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    /// The requester's generator or checker, or none: the requester is not an engine.
    Own,
    /// Data that its H2C channel reads.
    Stream,
    /// A receive queue.
    Lane,
    /// The memory of its card.
    CardMemory,
}

/// Requests of one requester to one target.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    /// Index of its flow.
    pub flow: usize,
    /// The host of its tree.
    pub host: usize,
    pub requester: Requester,
    pub target: Target,
    pub feed: Feed,
    pub writes: bool,
    pub reads: bool,
    /// Path of its requests, and of their completions.
    pub requests: Vec<DirectionId>,
    pub completions: Vec<DirectionId>,
}

impl Transfer {
    /// Lists the directions that its data cross.
    pub fn data(&self) -> impl Iterator<Item = DirectionId> + use<'_> {
        let written = self.requests.iter().filter(|_| self.writes);
        written.chain(self.completions.iter().filter(|_| self.reads)).copied()
    }

    /// Lists all directions that its TLPs cross.
    pub fn all(&self) -> impl Iterator<Item = DirectionId> + use<'_> {
        self.requests.iter().chain(&self.completions).copied()
    }
}

/// Reference to the parameters of a port in a lab file. Downstream ports of a switch share theirs,
/// and so do root ports of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PortRef {
    Root(usize),
    Up(usize),
    Down(usize),
    Endpoint(usize),
}

impl PortRef {
    pub fn get(self, file: &LabFile) -> &PortParameters {
        match self {
            Self::Root(index) => &file.hosts[index].part.port,
            Self::Up(index) => &file.switches[index].part.upstream,
            Self::Down(index) => &file.switches[index].part.downstream,
            Self::Endpoint(index) => &file.endpoints[index].part.port,
        }
    }

    pub fn get_mut(self, file: &mut LabFile) -> &mut PortParameters {
        match self {
            Self::Root(index) => &mut Arc::make_mut(&mut file.hosts[index].part).port,
            Self::Up(index) => &mut Arc::make_mut(&mut file.switches[index].part).upstream,
            Self::Down(index) => &mut Arc::make_mut(&mut file.switches[index].part).downstream,
            Self::Endpoint(index) => &mut Arc::make_mut(&mut file.endpoints[index].part).port,
        }
    }

    /// Returns the name of its kind of port.
    pub const fn role(self) -> &'static str {
        match self {
            Self::Root(_) => "root port",
            Self::Up(_) => "upstream port",
            Self::Down(_) => "downstream port",
            Self::Endpoint(_) => "endpoint",
        }
    }
}

/// A port of a link: its name, its parameters, and its Max_Payload_Size.
#[derive(Clone, Debug)]
pub(super) struct PortInfo {
    pub name: String,
    pub parameters: PortRef,
    pub max_payload_bytes: u32,
}

/// All transfers of a run, and the ports of its lab.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    pub transfers: Vec<Transfer>,
    /// The ports of each link of the lab file: upper, lower.
    ports: Vec<[PortInfo; 2]>,
}

impl Ways {
    /// Makes it; `set` is the Max_Payload_Size that is set on the paths before anything moves.
    fn new(
        file: &LabFile,
        running: &RunningLab,
        transfers: Vec<Transfer>,
        set: Option<u32>,
    ) -> Self {
        let fabric = &running.fabric;
        let ports = (0_u32..)
            .zip(&file.links)
            .map(|(number, link)| {
                let ends = fabric.link(crosslane_fabric::LinkId(number));
                let info = |port, parameters| PortInfo {
                    name: fabric.port(port).name.clone(),
                    parameters,
                    max_payload_bytes: fabric.port(port).config.max_payload_bytes(),
                };
                let upper = match switch(file, &link.upper) {
                    Some(index) => PortRef::Down(index),
                    None => PortRef::Root(host(file, &link.upper)),
                };
                let lower = match switch(file, &link.lower) {
                    Some(index) => PortRef::Up(index),
                    None => PortRef::Endpoint(endpoint(file, &link.lower)),
                };
                [info(ends.upper, upper), info(ends.lower, lower)]
            })
            .collect();
        let mut ways = Self { transfers, ports };
        for link in ways.links() {
            let ports = &mut ways.ports[link];
            ports
                .iter_mut()
                .for_each(|port| port.max_payload_bytes = set.unwrap_or(port.max_payload_bytes));
        }
        ways
    }

    /// Returns the ports of a link, upper and lower.
    pub fn ports_of(&self, link: usize) -> &[PortInfo; 2] {
        &self.ports[link]
    }

    /// Returns the sending and the receiving port of a direction.
    pub fn ends(&self, direction: DirectionId) -> (&PortInfo, &PortInfo) {
        let [upper, lower] = &self.ports[link_of(direction)];
        match direction.heading {
            LinkDirection::Up => (lower, upper),
            LinkDirection::Down => (upper, lower),
        }
    }

    /// Names a direction: `fpga1 -> rc47a.down0`.
    pub fn direction_name(&self, direction: DirectionId) -> String {
        let (from, to) = self.ends(direction);
        format!("{} -> {}", from.name, to.name)
    }

    /// Lists each direction that data cross, with the flows of these data, in path order.
    pub fn data_directions(&self) -> Vec<(DirectionId, Vec<usize>)> {
        let mut directions: Vec<(DirectionId, Vec<usize>)> = Vec::new();
        for transfer in &self.transfers {
            for direction in transfer.data() {
                let known = directions.iter_mut().find(|(other, _)| *other == direction);
                match known {
                    Some((_, flows)) if flows.contains(&transfer.flow) => {}
                    Some((_, flows)) => flows.push(transfer.flow),
                    None => directions.push((direction, vec![transfer.flow])),
                }
            }
        }
        directions
    }

    /// Lists the hosts of some transfers.
    pub fn hosts(&self, which: impl Fn(&Transfer) -> bool) -> Vec<usize> {
        let transfers = self.transfers.iter().filter(|transfer| which(transfer));
        let mut hosts: Vec<usize> = transfers.map(|transfer| transfer.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Returns whether requests of a transfer come to a root port.
    pub fn reaches_root(&self, transfer: &Transfer) -> bool {
        let mut receivers = transfer.requests.iter().map(|it| self.ends(*it).1.parameters);
        receivers.any(|port| matches!(port, PortRef::Root(_)))
    }

    /// Returns the pair of root ports with a rule of its own that a transfer passes, by its index.
    pub fn peers(&self, file: &LabFile, transfer: &Transfer) -> Option<usize> {
        transfer.requests.windows(2).find_map(|pair| {
            let is_root = matches!(self.ends(pair[0]).1.parameters, PortRef::Root(_));
            let below = |direction| &file.links[link_of(direction)].lower;
            let own = file.peers_between(below(pair[0]), below(pair[1])).filter(|_| is_root)?;
            file.peers.iter().position(|peers| std::ptr::eq(peers, own))
        })
    }

    /// Returns whether requests of a transfer come in at a root port of one socket and leave by one
    /// of another.
    pub fn crosses_sockets(&self, file: &LabFile, transfer: &Transfer) -> bool {
        transfer.requests.windows(2).any(|pair| {
            let is_root = matches!(self.ends(pair[0]).1.parameters, PortRef::Root(_));
            let socket = |direction| file.links[link_of(direction)].socket;
            is_root && socket(pair[0]) != socket(pair[1])
        })
    }

    /// Lists the links that TLPs of the run cross, in the order of the lab file.
    pub fn links(&self) -> Vec<usize> {
        let mut links: Vec<usize> =
            self.transfers.iter().flat_map(Transfer::all).map(link_of).collect();
        links.sort_unstable();
        links.dedup();
        links
    }

    /// Lists the ports at the ends of these links.
    pub fn ports(&self) -> Vec<&PortInfo> {
        self.links().into_iter().flat_map(|link| &self.ports[link]).collect()
    }

    /// Groups ports by their parameters, with the names of those that share them.
    pub fn ports_by_parameters<'a>(
        ports: impl IntoIterator<Item = &'a PortInfo>,
    ) -> BTreeMap<PortRef, Vec<String>> {
        let mut by_parameters: BTreeMap<PortRef, Vec<String>> = BTreeMap::new();
        for port in ports {
            let names = by_parameters.entry(port.parameters).or_default();
            if !names.contains(&port.name) {
                names.push(port.name.clone());
            }
        }
        by_parameters
    }

    /// Lists the requesters, each once.
    pub fn requesters(&self) -> Vec<Requester> {
        distinct(self.transfers.iter().map(|transfer| transfer.requester))
    }
}

/// Returns the index of a direction's link in the lab file.
pub(super) const fn link_of(direction: DirectionId) -> usize {
    direction.link.0 as usize
}

fn switch(file: &LabFile, name: &str) -> Option<usize> {
    file.switches.iter().position(|switch| switch.name == name)
}

/// Returns the index of a host, which exists in a lab that was built.
fn host(file: &LabFile, name: &str) -> usize {
    file.hosts.iter().position(|host| host.name == name).unwrap_or_default()
}

fn endpoint(file: &LabFile, name: &str) -> usize {
    file.endpoints.iter().position(|endpoint| endpoint.name == name).unwrap_or_default()
}

fn no_endpoint(name: &str) -> ExperimentError {
    let problem = "the lab has no such endpoint".to_owned();
    ExperimentError::Refused { place: name.to_owned(), problem }
}

/// A transfer with its path.
struct Found<'a> {
    fabric: &'a Fabric,
    flow: usize,
    host: usize,
}

impl Found<'_> {
    fn transfer(
        &self,
        (from, requester): (NodeId, Requester),
        (to, target): (NodeId, Target),
        (writes, reads): (bool, bool),
        feed: Feed,
    ) -> Transfer {
        let completions = match reads {
            true => route(self.fabric, to, from, Cargo::Completions),
            false => Vec::new(),
        };
        let requests = route(self.fabric, from, to, Cargo::Requests);
        let (flow, host) = (self.flow, self.host);
        Transfer { flow, host, requester, target, feed, writes, reads, requests, completions }
    }
}

/// Returns the paths of a run of engines.
pub(super) fn workload_ways(run: &Scenario<EngineWork>) -> Result<Ways, ExplainError> {
    const WRITES: (bool, bool) = (true, false);
    const READS: (bool, bool) = (false, true);
    let running = run.lab.build_engines(run.seed)?;
    let file = run.lab.file();
    let mut transfers = Vec::new();
    for (flow, ends) in run.work.flows.iter().enumerate() {
        let found = Found { fabric: &running.fabric, flow, host: ends.host };
        let cards: Vec<(NodeId, usize)> =
            ends.cards.iter().map(|card| (card.node, endpoint(file, &card.name))).collect();
        let engine = |at: usize| (cards[at].0, Requester::Engine(cards[at].1));
        let lane = |at: usize| (cards[at].0, Target::Lane(cards[at].1));
        let memory = (ends.memory.node, Target::Host(ends.host));
        let last = cards.len() - 1;
        let workload = &run.work.workload;
        let feed = |at: usize| match at {
            0 if workload.has_card_memory() => Feed::CardMemory,
            0 if workload.reads_host() => Feed::Stream,
            0 => Feed::Own,
            _ => Feed::Lane,
        };
        if workload.reads_host() {
            let feed = if workload.has_card_memory() { Feed::CardMemory } else { Feed::Own };
            transfers.push(found.transfer(engine(0), memory, READS, feed));
        }
        if let Workload::PeerRead(_) = workload {
            let memory = (cards[0].0, Target::Memory(cards[0].1));
            transfers.push(found.transfer(engine(last), memory, READS, Feed::Own));
            continue;
        }
        if let Workload::PeerMemoryWrite(_) = workload {
            let memory = (cards[last].0, Target::Memory(cards[last].1));
            transfers.push(found.transfer(engine(0), memory, WRITES, Feed::Own));
            continue;
        }
        for at in 0..last {
            transfers.push(found.transfer(engine(at), lane(at + 1), WRITES, feed(at)));
        }
        if let Workload::Latency(_) = workload {
            transfers.push(found.transfer(engine(1), lane(0), WRITES, feed(1)));
        }
        if workload.writes_host() {
            transfers.push(found.transfer(engine(last), memory, WRITES, feed(last)));
        }
    }
    Ok(Ways::new(file, &running, transfers, run.max_payload_bytes))
}

/// Returns the paths of a core's stores.
pub(super) fn store_ways(run: &Scenario<StoreWork>) -> Result<Ways, ExplainError> {
    let running = run.lab.build_engines(run.seed)?;
    let (file, fabric) = (run.lab.file(), &running.fabric);
    let card = endpoint(file, &run.work.card);
    let missing = || no_endpoint(&run.work.card);
    let to = running.find(&run.work.card).ok_or_else(missing)?;
    let from = running.hosts.first().ok_or_else(missing)?.root_complex;
    let found = Found { fabric, flow: 0, host: 0 };
    let (core, memory) = ((from, Requester::Core(0)), (to, Target::Memory(card)));
    let transfer = found.transfer(core, memory, (true, false), Feed::Own);
    Ok(Ways::new(file, &running, vec![transfer], None))
}

/// Returns the requests of network processors for the memory of their hosts.
pub(super) fn network_ways(
    lab: &Lab,
    seed: u64,
    processors: &[&str],
    writes_and_reads: (bool, bool),
) -> Result<Ways, ExplainError> {
    let running = lab.build_engines(seed)?;
    let (file, fabric) = (lab.file(), &running.fabric);
    let mut transfers = Vec::new();
    for (flow, name) in processors.iter().enumerate() {
        let missing = || no_endpoint(name);
        let node = running.find(name).ok_or_else(missing)?;
        let host = usize::from(fabric.node(node).host.0);
        let memory = running.hosts.get(host).ok_or_else(missing)?.root_complex;
        let found = Found { fabric, flow, host };
        let from = (node, Requester::Processor(endpoint(file, name)));
        let to = (memory, Target::Host(host));
        transfers.push(found.transfer(from, to, writes_and_reads, Feed::Own));
    }
    Ok(Ways::new(file, &running, transfers, None))
}

/// Returns the paths of bridged transfers: of both adapters, and of the card.
pub(super) fn bridge_ways(run: &Scenario<BridgeWork>) -> Result<Ways, ExplainError> {
    let (nodes, running) = (TwoNodes::find(&run.lab)?, run.lab.build_engines(run.seed)?);
    let (file, fabric) = (run.lab.file(), &running.fabric);
    let paths = &run.work.plan.paths;
    let to_card = paths.iter().any(|path| *path != Path::FromFpga);
    let from_card = paths.iter().any(|path| *path != Path::ToFpga);
    let (writes, reads) = ((true, false), (false, true));
    let has_stream = paths.contains(&Path::RoundTrip);
    let ends = if has_stream { [Feed::Own, Feed::Stream] } else { [Feed::CardMemory; 2] };
    let [server, client] = nodes.adapters();
    let nic: fn(usize) -> Requester = Requester::Nic;
    let mut transfers = Vec::new();
    for (name, requester, is_wanted, way, feed) in [
        (client, nic, to_card, reads, Feed::Own),
        (server, nic, to_card, writes, Feed::Own),
        (nodes.card(), Requester::Engine, to_card, reads, ends[0]),
        (nodes.card(), Requester::Engine, from_card, writes, ends[1]),
        (server, nic, from_card, reads, Feed::Own),
        (client, nic, from_card, writes, Feed::Own),
    ] {
        let missing = || no_endpoint(name);
        let node = running.find(name).ok_or_else(missing)?;
        let host = usize::from(fabric.node(node).host.0);
        let memory = running.hosts.get(host).ok_or_else(missing)?.root_complex;
        let found = Found { fabric, flow: 0, host };
        let (from, to) = ((node, requester(endpoint(file, name))), (memory, Target::Host(host)));
        transfers.extend(is_wanted.then(|| found.transfer(from, to, way, feed)));
    }
    Ok(Ways::new(file, &running, transfers, run.max_payload_bytes))
}

/// Returns the paths of flows of generic requesters.
pub(super) fn traffic_ways(
    run: &Scenario<TrafficWork>,
    running: &RunningLab,
    planned: &[PlannedFlow],
) -> Ways {
    let (file, fabric) = (run.lab.file(), &running.fabric);
    let host_of = |node: NodeId| usize::from(fabric.node(node).host.0);
    let transfers = planned.iter().enumerate().map(|(flow, planned)| {
        let requester = match planned.flow.source {
            FlowSource::Core { root_complex, .. } => Requester::Core(host_of(root_complex)),
            FlowSource::Endpoint(node) => {
                Requester::Generic(endpoint(file, &fabric.node(node).name))
            }
        };
        let node = fabric.node(planned.target_node);
        let target = match node.kind {
            NodeKind::RootComplex => Target::Host(host_of(planned.target_node)),
            _ => Target::Memory(endpoint(file, &node.name)),
        };
        Transfer {
            flow,
            host: host_of(planned.target_node),
            requester,
            target,
            feed: Feed::Own,
            writes: planned.flow.kind != FlowKind::Read,
            reads: planned.flow.kind != FlowKind::Write,
            requests: planned.requests.clone(),
            completions: planned.completions.clone(),
        }
    });
    Ways::new(file, running, transfers.collect(), run.max_payload_bytes)
}
