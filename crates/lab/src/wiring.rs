// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wires a fabric from a lab file: its ports, and the links between them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crosslane_cosim::{CosimError, JoinedCards, NetworkCard};
use crosslane_device::network_processor::{CableEnd, NetworkProcessor, Outbox};
use crosslane_device::nic::Nic;
use crosslane_device::outside::OutsideDevice;
use crosslane_device::{Engine, MemoryCard};
use crosslane_fabric::{
    BuildError, Device, Fabric, FabricBuilder, MAX_DOWNSTREAM_PORTS, MAX_ROOT_PORTS, NodeId, PortId,
};
use crosslane_pcie::config::PortType;
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::engines::{EngineKind, Engines};
use crate::error::{LabError, Problem, Result, nearest};
use crate::file::{EndpointInstance, LabFile, LinkInstance, Share, TorusInstance, no_socket};

/// The instance behind a name: an index into the lab file's list of that kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Host(usize),
    Switch(usize),
    Endpoint(usize),
}

impl Named {
    const fn described(self) -> &'static str {
        match self {
            Self::Host(_) => "a host",
            Self::Switch(_) => "a switch",
            Self::Endpoint(_) => "an endpoint",
        }
    }
}

/// A link with both ends resolved.
struct Wire {
    upper: Named,
    lower: Named,
    port: String,
}

struct Wiring<'a> {
    lab: &'a LabFile,
    names: BTreeMap<&'a str, Named>,
    wires: Vec<Wire>,
    /// The link above each switch and endpoint, as an index.
    above: BTreeMap<&'a str, usize>,
    /// The links of both root ports of each pair of peers.
    peers: Vec<[usize; 2]>,
}

/// Checks that the links of a lab form trees.
///
/// # Errors
/// The first link or instance that does not fit, with its position.
pub(crate) fn check(lab: &LabFile) -> Result<()> {
    Wiring::new(lab).map(drop)
}

/// The kind of endpoints in a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoints<'a> {
    Generic,
    /// Devices where the lab has constants for one, generic otherwise.
    Engines,
    /// Endpoints whose logic is outside of the lab, by name; the others are generic.
    Outside(&'a [&'a str]),
}

impl Endpoints<'_> {
    /// Whether an endpoint is generic.
    pub fn is_generic(self, endpoint: &EndpointInstance) -> bool {
        match self {
            Self::Generic => true,
            Self::Engines => !endpoint.part.is_device(),
            Self::Outside(names) => !names.contains(&endpoint.name.as_str()),
        }
    }
}

/// Builds the fabric of a lab.
///
/// # Errors
/// As [`check`], and the errors of the fabric.
pub(crate) fn build(
    lab: &LabFile,
    engines: &Engines,
    seed: u64,
    endpoints: Endpoints<'_>,
) -> Result<(Fabric, Option<Border>)> {
    let wiring = Wiring::new(lab)?;
    let builder = wiring.builder(seed, endpoints, engines)?;
    let mut fabric = builder.build().map_err(|error| wiring.explain(error))?;
    for (peers, ports) in lab.peers.iter().zip(&wiring.peers) {
        let ports = ports.map(|link| {
            let name = &wiring.wires[link].port;
            let port = fabric.ports().iter().position(|port| port.name == *name);
            PortId(port.expect("each link has its ports") as u32)
        });
        fabric.set_peers(ports, peers.peer_to_peer);
    }
    let mut border = None;
    if endpoints == Endpoints::Engines {
        for network in &lab.networks {
            let ends = [&network.first, &network.second].map(|name| {
                let node = fabric.nodes().iter().position(|node| node.name == *name);
                NodeId(node.expect("both ends are endpoints") as u32)
            });
            let joined = Nic::join(&mut fabric, ends, network.parameters);
            assert!(joined, "both ends are NICs");
        }
        let joined = Arc::default();
        for torus in &lab.tori {
            border = lay_cables(&mut fabric, torus, engines.kind, &joined).or(border);
        }
    }
    Ok((fabric, border))
}

/// The cut cables of a part of a lab.
pub(crate) struct Border {
    /// What is sent to other parts.
    pub outbox: Outbox,
    /// Time that what is sent takes at least.
    pub lookahead: Picoseconds,
    share: Share,
    /// The nodes of the torus that are here.
    nodes: BTreeMap<u16, NodeId>,
}

impl Border {
    /// Number of parts.
    pub fn parts(&self) -> usize {
        usize::from(self.share.of_node.iter().max().map_or(0, |part| part + 1))
    }

    /// Part of a node of the torus.
    pub fn part_of(&self, node: u16) -> usize {
        usize::from(self.share.of_node[usize::from(node)])
    }

    /// Node in the fabric of a node of the torus that is here.
    pub fn node(&self, node: u16) -> NodeId {
        self.nodes[&node]
    }
}

/// Joins the nodes of a torus: in each dimension, each node's upward link to the next one's
/// downward link. Returns the border of a part. `cards` is shared by all cards of gateware.
fn lay_cables(
    fabric: &mut Fabric,
    torus: &TorusInstance,
    engines: EngineKind,
    cards: &Arc<JoinedCards>,
) -> Option<Border> {
    let numbers: BTreeMap<&str, usize> =
        fabric.nodes().iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let of_name = |name: &String| numbers.get(name.as_str()).map(|&node| NodeId(node as u32));
    let nodes: Vec<Option<NodeId>> = torus.nodes.iter().map(of_name).collect();
    let outbox = Outbox::default();
    for (lower, upper) in torus.torus.cables() {
        let end = |(node, link): (u16, u8)| Some((nodes[usize::from(node)]?, link));
        let away = |(node, link)| CableEnd { node, link };
        let parameters = torus.parameters;
        let joined = match (end(lower), end(upper)) {
            (Some(lower), Some(upper)) if engines == EngineKind::Rtl => {
                let errors = parameters.bit_error_rate;
                NetworkCard::join(fabric, [lower, upper], parameters.latency, errors, cards)
            }
            (Some(lower), Some(upper)) => {
                NetworkProcessor::join(fabric, [lower, upper], parameters)
            }
            (Some(here), None) => {
                NetworkProcessor::join_away(fabric, here, away(upper), parameters, &outbox)
            }
            (None, Some(here)) => {
                NetworkProcessor::join_away(fabric, here, away(lower), parameters, &outbox)
            }
            (None, None) => continue,
        };
        assert!(joined, "both ends are network processors with such links");
    }
    let here = (0..).zip(nodes).filter_map(|(number, node)| Some((number, node?)));
    let (share, lookahead) = (torus.share.clone()?, torus.parameters.latency);
    Some(Border { outbox, lookahead, share, nodes: here.collect() })
}

impl<'a> Wiring<'a> {
    fn new(lab: &'a LabFile) -> Result<Self> {
        let hosts = lab.hosts.iter().enumerate().map(|(i, host)| (&*host.name, Named::Host(i)));
        let switches =
            lab.switches.iter().enumerate().map(|(i, switch)| (&*switch.name, Named::Switch(i)));
        let endpoints = lab
            .endpoints
            .iter()
            .enumerate()
            .map(|(i, endpoint)| (&*endpoint.name, Named::Endpoint(i)));
        let names = hosts.chain(switches).chain(endpoints).collect();
        let (wires, peers) = (Vec::new(), Vec::new());
        let mut wiring = Self { lab, names, wires, above: BTreeMap::new(), peers };
        wiring.find_ends()?;
        wiring.check_every_node_is_linked()?;
        wiring.check_for_rings()?;
        wiring.find_peers()?;
        wiring.check_networks()?;
        wiring.check_tori()?;
        Ok(wiring)
    }

    /// Resolves the pairs of peers: two root ports of one host, each pair once.
    fn find_peers(&mut self) -> Result<()> {
        for (index, peers) in self.lab.peers.iter().enumerate() {
            let ends = [
                ("first", &peers.first, &peers.first_span),
                ("second", &peers.second, &peers.second_span),
            ];
            let mut links = [0; 2];
            for ((end, name, span), link) in ends.into_iter().zip(&mut links) {
                let key = format!("{}.{end}", peers.path);
                let found = self.named(name, span, &key)?;
                let needed = "a switch or an endpoint";
                let wrong = || self.wrong_kind(span, &key, name, found.described(), needed);
                *link = self.lab.root_link(name).ok_or_else(wrong)?;
            }
            let [first, second] = links;
            let port = |link: usize| &self.wires[link].port;
            let hosts = links.map(|link| &self.lab.links[link].upper);
            let mut others = self.peers.iter().zip(&self.lab.peers[..index]);
            let is_same = |other: &[usize; 2]| *other == links || *other == [second, first];
            let problem = if first == second {
                format!(
                    "{} and {} are below one root port, {}",
                    peers.first,
                    peers.second,
                    port(first)
                )
            } else if hosts[0] != hosts[1] {
                format!(
                    "{} is below {}, and {} below {}",
                    peers.first, hosts[0], peers.second, hosts[1]
                )
            } else if let Some((_, other)) = others.find(|(other, _)| is_same(other)) {
                let line = self.lab.line(other.first_span.start);
                format!("{} and {} are a pair already, in line {line}", port(first), port(second))
            } else {
                self.peers.push(links);
                continue;
            };
            let key = format!("{}.second", peers.path);
            let problem = Problem::BadValue { key: key.clone(), problem };
            return Err(self.lab.error(peers.second_span.clone(), &key, problem));
        }
        Ok(())
    }

    /// Checks that each end of a network link is a NIC, and that no NIC is used twice.
    fn check_networks(&self) -> Result<()> {
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        for network in &self.lab.networks {
            let ends = [
                ("first", &network.first, &network.first_span),
                ("second", &network.second, &network.second_span),
            ];
            for (end, name, span) in ends {
                let key = format!("{}.{end}", network.path);
                let found = match self.named(name, span, &key)? {
                    Named::Endpoint(index) if self.lab.endpoints[index].part.nic.is_some() => None,
                    Named::Endpoint(_) => Some("an endpoint without a table nic"),
                    other => Some(other.described()),
                };
                if let Some(found) = found {
                    return Err(self.wrong_kind(span, &key, name, found, "a NIC"));
                }
                self.claim(&mut taken, name, span, &key)?;
            }
        }
        Ok(())
    }

    /// Checks that each node of a torus is a network processor with enough links, and in one torus
    /// only.
    fn check_tori(&self) -> Result<()> {
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        for torus in &self.lab.tori {
            let key = format!("{}.nodes", torus.path);
            let need = 2 * torus.torus.dimensions().len();
            for (number, name) in torus.nodes.iter().enumerate() {
                if torus.share.as_ref().is_some_and(|share| !share.has(number)) {
                    continue;
                }
                let wrong =
                    |found| self.wrong_kind(&torus.span, &key, name, found, "a network processor");
                let part = match self.named(name, &torus.span, &key)? {
                    Named::Endpoint(index) => &self.lab.endpoints[index].part,
                    other => return Err(wrong(other.described())),
                };
                let Some(processor) = part.network_processor else {
                    return Err(wrong("an endpoint without a table network_processor"));
                };
                if usize::from(processor.links) < need {
                    let (have, count) = (processor.links, torus.torus.dimensions().len());
                    let problem =
                        format!("{count} dimensions need {need} links, and {name} has {have}");
                    let problem = Problem::BadValue { key: key.clone(), problem };
                    return Err(self.lab.error(torus.span.clone(), &key, problem));
                }
                if processor.long_datagrams != torus.parameters.long_datagrams {
                    let bytes = processor.payload_bytes();
                    let problem = format!(
                        "{name} has datagrams of {bytes} B, and another node of the torus has \
                         not: long_datagrams is the same in all of them"
                    );
                    let problem = Problem::BadValue { key: key.clone(), problem };
                    return Err(self.lab.error(torus.span.clone(), &key, problem));
                }
                self.claim(&mut taken, name, &torus.span, &key)?;
            }
        }
        Ok(())
    }

    /// Notes that an endpoint is used; refuses a second use.
    fn claim<'b>(
        &self,
        taken: &mut BTreeMap<&'b str, usize>,
        name: &'b str,
        span: &Range<usize>,
        key: &str,
    ) -> Result<()> {
        match taken.insert(name, span.start) {
            None => Ok(()),
            Some(first) => Err(self.taken(name, self.lab.line(first), span, key)),
        }
    }

    /// Returns the error of a name that stands for something else than is needed.
    fn wrong_kind(
        &self,
        span: &Range<usize>,
        key: &str,
        name: &str,
        found: &str,
        needed: &'static str,
    ) -> LabError {
        let (name, found) = (name.to_owned(), found.to_owned());
        self.lab.error(span.clone(), key, Problem::WrongKind { name, found, needed })
    }

    fn named(&self, name: &str, span: &Range<usize>, key: &str) -> Result<Named> {
        self.names.get(name).copied().ok_or_else(|| {
            let suggestion = nearest(name, self.names.keys().copied());
            let what = "host, switch or endpoint";
            let problem = Problem::UnknownName { what, name: name.to_owned(), suggestion };
            self.lab.error(span.clone(), key, problem)
        })
    }

    /// Resolves both ends of each link and names its ports.
    fn find_ends(&mut self) -> Result<()> {
        let mut ports: BTreeMap<String, usize> = BTreeMap::new();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, link) in self.lab.links.iter().enumerate() {
            let (upper, lower) = self.ends(link)?;
            let lower_key = format!("{}.lower", link.path);
            if let Some(&first) = self.above.get(link.lower.as_str()) {
                let port = lower_port(&link.lower, lower);
                let line = self.line_of(first);
                return Err(self.taken(&port, line, &link.lower_span, &lower_key));
            }
            self.above.insert(&link.lower, index);
            let count = counts.entry(&link.upper).or_insert(0);
            let port = self.upper_port(link, upper, *count)?;
            *count += 1;
            if let Some(&first) = ports.get(&port) {
                let key = format!("{}.upper_port", link.path);
                return Err(self.taken(&port, self.line_of(first), &link.upper_port_span, &key));
            }
            ports.insert(port.clone(), index);
            self.wires.push(Wire { upper, lower, port });
        }
        Ok(())
    }

    /// Resolves both ends of a link and checks their kinds.
    fn ends(&self, link: &LinkInstance) -> Result<(Named, Named)> {
        let upper_key = format!("{}.upper", link.path);
        let lower_key = format!("{}.lower", link.path);
        let upper = self.named(&link.upper, &link.upper_span, &upper_key)?;
        let lower = self.named(&link.lower, &link.lower_span, &lower_key)?;
        if let Named::Endpoint(_) = upper {
            let (needed, is) = ("a host or a switch", upper.described());
            return Err(self.wrong_kind(&link.upper_span, &upper_key, &link.upper, is, needed));
        }
        if let Named::Host(_) = lower {
            let (needed, is) = ("a switch or an endpoint", lower.described());
            return Err(self.wrong_kind(&link.lower_span, &lower_key, &link.lower, is, needed));
        }
        if link.max_payload_limit_bytes.is_some() && !matches!(upper, Named::Host(_)) {
            let key = format!("{}.max_payload_limit_bytes", link.path);
            let problem = "only the root ports of a host have one each".into();
            let problem = Problem::BadValue { key: key.clone(), problem };
            return Err(self.lab.error(link.upper_span.clone(), &key, problem));
        }
        self.check_socket(link, upper)?;
        Ok((upper, lower))
    }

    /// Checks that the host above a link has its socket.
    fn check_socket(&self, link: &LinkInstance, upper: Named) -> Result<()> {
        let problem = match upper {
            Named::Host(index) => {
                let count = self.lab.hosts[index].part.parameters.socket_count();
                if link.socket < count {
                    return Ok(());
                }
                no_socket(link.socket, count)
            }
            _ if link.socket == 0 => return Ok(()),
            _ => "only the root ports of a host are on sockets".to_owned(),
        };
        let key = format!("{}.socket", link.path);
        let problem = Problem::BadValue { key: key.clone(), problem };
        Err(self.lab.error(link.socket_span.clone(), &key, problem))
    }

    /// Names the port that a link makes at its upper end, which has `count` ports already.
    fn upper_port(&self, link: &LinkInstance, upper: Named, count: usize) -> Result<String> {
        let (what, limit, word) = match upper {
            Named::Host(_) => ("root ports", MAX_ROOT_PORTS, "port"),
            _ => ("downstream ports", MAX_DOWNSTREAM_PORTS, "down"),
        };
        if count == limit {
            let (what, count) = (format!("{what} of {}", link.upper), count + 1);
            let key = format!("{}.upper", link.path);
            let problem = Problem::TooMany { what, count, limit };
            return Err(self.lab.error(link.upper_span.clone(), &key, problem));
        }
        match link.upper_port.as_deref() {
            Some("up") if matches!(upper, Named::Switch(_)) => {
                let key = format!("{}.upper_port", link.path);
                let problem = "the port up of a switch is the one above it".into();
                let problem = Problem::BadValue { key: key.clone(), problem };
                Err(self.lab.error(link.upper_port_span.clone(), &key, problem))
            }
            Some(port) => Ok(format!("{}.{port}", link.upper)),
            None => Ok(format!("{}.{word}{count}", link.upper)),
        }
    }

    fn line_of(&self, link: usize) -> usize {
        self.lab.line(self.lab.links[link].upper_span.start)
    }

    fn taken(&self, port: &str, first_line: usize, span: &Range<usize>, key: &str) -> LabError {
        let problem = Problem::PortTaken { port: port.to_owned(), first_line };
        self.lab.error(span.clone(), key, problem)
    }

    fn check_every_node_is_linked(&self) -> Result<()> {
        let switches = self.lab.switches.iter().map(|switch| (&switch.name, &switch.span));
        let endpoints = self.lab.endpoints.iter().map(|endpoint| (&endpoint.name, &endpoint.span));
        for (name, span) in switches.chain(endpoints) {
            if !self.above.contains_key(name.as_str()) {
                let problem = Problem::NotLinked { name: name.clone() };
                return Err(self.lab.error(span.clone(), name, problem));
            }
        }
        Ok(())
    }

    /// Follows the links upwards from every switch; each walk must end at a host.
    fn check_for_rings(&self) -> Result<()> {
        let mut good: std::collections::BTreeSet<&str> = Default::default();
        for start in &self.lab.switches {
            let mut path: Vec<&str> = vec![&start.name];
            while let Some(&link) = path.last().and_then(|name| self.above.get(name)) {
                let upper = self.lab.links[link].upper.as_str();
                if good.contains(upper) {
                    break;
                }
                if let Some(first) = path.iter().position(|name| *name == upper) {
                    path.push(upper);
                    let problem = Problem::Loop { path: path[first..].join(" below ") };
                    let link = &self.lab.links[link];
                    let key = format!("{}.upper", link.path);
                    return Err(self.lab.error(link.upper_span.clone(), &key, problem));
                }
                path.push(upper);
            }
            good.extend(path);
        }
        Ok(())
    }

    fn builder(&self, seed: u64, kind: Endpoints<'_>, engines: &Engines) -> Result<FabricBuilder> {
        let lab = self.lab;
        let mut builder = FabricBuilder::new(seed);
        let hosts: Vec<NodeId> = (0_u16..)
            .zip(&lab.hosts)
            .map(|(id, host)| {
                builder.root_complex(&host.name, HostId(id), host.part.parameters.clone())
            })
            .collect();
        let switches: Vec<(NodeId, PortId)> = lab
            .switches
            .iter()
            .map(|switch| {
                let (part, name) = (&switch.part, lower_port(&switch.name, Named::Switch(0)));
                let node = builder.switch(&switch.name, part.parameters);
                let up = PortType::UpstreamPort;
                let port =
                    builder.switch_port(node, &name, up, part.identity, part.upstream.clone());
                (node, port)
            })
            .collect();
        let endpoints: Vec<PortId> = lab
            .endpoints
            .iter()
            .map(|endpoint| {
                add_endpoint(&mut builder, lab, endpoint, kind, engines).map_err(|source| {
                    let problem = Problem::Gateware { name: endpoint.name.clone(), source };
                    lab.error(endpoint.span.clone(), &endpoint.name, problem)
                })
            })
            .collect::<Result<_, _>>()?;
        for (link, wire) in lab.links.iter().zip(&self.wires) {
            let upper = match wire.upper {
                Named::Host(index) => {
                    let part = &lab.hosts[index].part;
                    let port = part.port.clone();
                    let port = builder.root_port(hosts[index], &wire.port, part.identity, port);
                    builder.set_socket(port, link.socket);
                    port
                }
                Named::Switch(index) => {
                    let (part, down) = (&lab.switches[index].part, PortType::DownstreamPort);
                    let port = part.downstream.clone();
                    builder.switch_port(switches[index].0, &wire.port, down, part.identity, port)
                }
                Named::Endpoint(_) => unreachable!("checked in find_ends"),
            };
            let lower = match wire.lower {
                Named::Switch(index) => switches[index].1,
                Named::Endpoint(index) => endpoints[index],
                Named::Host(_) => unreachable!("checked in find_ends"),
            };
            builder.link(&link_name(&wire.port, &link.lower), upper, lower, link.parameters);
        }
        Ok(builder)
    }

    /// Finds the position in the lab file of an error of the fabric.
    fn explain(&self, error: BuildError) -> LabError {
        let at_link = |name: &str| {
            let mut pairs = self.lab.links.iter().zip(&self.wires);
            pairs.find(|(link, wire)| link_name(&wire.port, &link.lower) == name)
        };
        let place = match &error {
            BuildError::RateTooHigh { link, .. } => {
                at_link(link).map(|(link, _)| self.lab.place(link.rate_span.clone(), &link.path))
            }
            BuildError::PortTaken { second: link, .. } | BuildError::WrongEnd { link, .. } => {
                at_link(link).map(|(link, _)| self.lab.place(link.lower_span.clone(), &link.path))
            }
            BuildError::NotConnected { node }
            | BuildError::UpstreamPorts { node, .. }
            | BuildError::Config { node, .. }
            | BuildError::CreditsTooFew { port: node, .. }
            | BuildError::BadValue { place: node, .. } => self.place_of(node),
            _ => None,
        };
        let problem = Problem::Build { source: error };
        match place {
            Some(place) => LabError::at(place, problem),
            None => self.lab.error(0..1, "", problem),
        }
    }

    fn place_of(&self, name: &str) -> Option<crate::error::Position> {
        let node = name.split('.').next().unwrap_or(name);
        let span = match *self.names.get(node)? {
            Named::Host(index) => &self.lab.hosts[index].span,
            Named::Switch(index) => &self.lab.switches[index].span,
            Named::Endpoint(index) => &self.lab.endpoints[index].span,
        };
        Some(self.lab.place(span.clone(), node))
    }
}

fn add_endpoint(
    builder: &mut FabricBuilder,
    lab: &LabFile,
    endpoint: &EndpointInstance,
    kind: Endpoints<'_>,
    engines: &Engines,
) -> Result<PortId, CosimError> {
    let (name, part) = (&endpoint.name, &endpoint.part);
    let mut msix = None;
    let device: Box<dyn Device> = if kind.is_generic(endpoint) {
        return Ok(builder.endpoint(name, part.parameters.clone(), part.port.clone()).1);
    } else if let Endpoints::Outside(_) = kind {
        msix = part.msix;
        Box::new(OutsideDevice::new())
    } else if let Some(engine) = part.engine {
        msix = Some(Engine::msix_request());
        engines.make(endpoint, engine)?
    } else if let Some(card) = part.memory_card {
        Box::new(MemoryCard::new(card))
    } else if let Some(nic) = part.nic {
        Box::new(Nic::new(nic))
    } else {
        let processor = part.network_processor.expect("it is one of these devices");
        engines.make_network(lab, endpoint, processor)?
    };
    let (identity, bars) = (part.parameters.identity, part.parameters.bars);
    Ok(builder.endpoint_with_device(name, identity, bars, msix, part.port.clone(), device).1)
}

/// Names the lower port of a link: an endpoint's port is named like the endpoint.
fn lower_port(node: &str, kind: Named) -> String {
    if kind.described() == "a switch" { format!("{node}.up") } else { node.to_owned() }
}

fn link_name(upper_port: &str, lower: &str) -> String {
    format!("{upper_port}-{lower}")
}
