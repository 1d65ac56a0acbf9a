// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes, ports and links of a fabric, and the builder that assembles them.

use crosslane_pcie::config::{
    BarRequest, ConfigError, ConfigSpace, Identity, MsixRequest, PortType,
};
use crosslane_pcie::kinds;
use crosslane_pcie::link::{LinkRate, MAX_PAYLOAD_BYTES};
use crosslane_pcie::units::HostId;
use thiserror::Error;

use crate::device::Device;
use crate::fabric::Fabric;
use crate::parameters::{
    EndpointParameters, LinkParameters, PortParameters, RootComplexParameters, SwitchParameters,
};
use crate::sockets::MAX_SOCKETS;

/// Most nodes of one fabric; a bound on bad input, far beyond any lab.
pub const MAX_NODES: usize = 1 << 16;
/// Most downstream ports of a switch: device numbers have five bits (PCIe 6.x 2.2.4.2).
pub const MAX_DOWNSTREAM_PORTS: usize = 32;
/// Most root ports of a root complex: the device numbers 1 to 31 on its bus 0.
pub const MAX_ROOT_PORTS: usize = 31;

/// Whole pages of memory, bytes: no request goes across their ends.
const MEMORY_PAGE_BYTES: u64 = 4096;
/// Most tags of a requester: ten bits.
const MAX_TAGS: u16 = 1024;

/// Index of a node in a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Index of a port in a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Index of a link in a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// Direction on a link, seen from the root complex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkDirection {
    /// Away from the root complex.
    Down,
    /// Towards the root complex.
    Up,
}

/// One direction of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectionId {
    /// The link.
    pub link: LinkId,
    /// Direction on that link.
    pub heading: LinkDirection,
}

impl DirectionId {
    pub(crate) const fn index(self) -> u32 {
        self.link.0 * 2 + matches!(self.heading, LinkDirection::Up) as u32
    }

    pub(crate) const fn from_index(index: u32) -> Self {
        Self {
            link: LinkId(index / 2),
            heading: if index & 1 == 0 { LinkDirection::Down } else { LinkDirection::Up },
        }
    }
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Root complex with memory and processor: the top of a host's tree.
    RootComplex,
    /// Switch with one upstream port.
    Switch,
    /// Endpoint with one port.
    Endpoint,
}

/// A root complex, switch or endpoint.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name in the lab.
    pub name: String,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Host in whose tree the node is.
    pub host: HostId,
    /// Ports in order, including the upstream port of a switch.
    pub ports: Vec<PortId>,
}

/// A port and the function that owns it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Name in the lab.
    pub name: String,
    /// Node that the port belongs to.
    pub node: NodeId,
    /// Device number of the port's function on its bus.
    pub device_number: u8,
    /// Constants of the port.
    pub parameters: PortParameters,
    /// Configuration space of the port's function. Written through
    /// [`Fabric::config_write`](crate::Fabric::config_write).
    pub config: ConfigSpace,
    /// Link of the port, if connected.
    pub link: Option<LinkId>,
    /// Socket of a root port; 0 for other ports.
    pub socket: u16,
}

/// A connection of two ports.
#[derive(Clone, Debug)]
pub struct Link {
    /// Name in the lab.
    pub name: String,
    /// The port nearer to the root complex.
    pub upper: PortId,
    /// The port farther from the root complex.
    pub lower: PortId,
    /// Constants of the link.
    pub parameters: LinkParameters,
}

/// Error of [`FabricBuilder`].
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two links use the same port.
    #[error("port {port} is on two links, {first} and {second}; a port has one link")]
    PortTaken {
        /// Name of the port.
        port: String,
        /// Link that uses the port already.
        first: String,
        /// Link that asks for it too.
        second: String,
    },
    /// An end of a link is on a port of the wrong type.
    #[error("link {link}: {port} cannot be its {end} end, it is {what}")]
    WrongEnd {
        /// Name of the link.
        link: String,
        /// Name of the port.
        port: String,
        /// "upper" or "lower".
        end: &'static str,
        /// Type of the port.
        what: String,
    },
    /// A link's rate or width exceeds that of its port.
    #[error("link {link} is {rate}, but port {port} does at most {most}")]
    RateTooHigh {
        /// Name of the link.
        link: String,
        /// Rate of the link.
        rate: LinkRate,
        /// Name of the port.
        port: String,
        /// Highest rate and width of the port.
        most: LinkRate,
    },
    /// A node has no link to a root complex.
    #[error("{node} has no path to a root complex; link it to a root port or a switch")]
    NotConnected {
        /// Name of the node.
        node: String,
    },
    /// A receive buffer is too small for one largest TLP.
    #[error(
        "port {port} has {have} data credits for {class} TLPs, fewer than the {need} that one \
         payload of {payload_bytes} B takes"
    )]
    CreditsTooFew {
        /// Name of the port.
        port: String,
        /// Class of the TLPs.
        class: &'static str,
        /// Data credits of the buffer.
        have: u32,
        /// Data credits of one largest TLP.
        need: u32,
        /// Max_Payload_Size supported, bytes.
        payload_bytes: u32,
    },
    /// A switch does not have exactly one upstream port.
    #[error("switch {node} has {count} upstream ports; a switch has exactly one")]
    UpstreamPorts {
        /// Name of the switch.
        node: String,
        /// Number of its upstream ports.
        count: usize,
    },
    /// A limit on a number of parts is exceeded.
    #[error("{what}: {count} is more than the {limit} that are possible")]
    TooMany {
        /// The parts, with their owner.
        what: String,
        /// Number of parts.
        count: usize,
        /// Highest number allowed.
        limit: usize,
    },
    /// A constant is out of range.
    #[error("{place}: {problem}")]
    BadValue {
        /// Part that the constant belongs to.
        place: String,
        /// Description of the problem, with the value.
        problem: String,
    },
    /// A configuration space cannot be built.
    #[error("{node}: {source}")]
    Config {
        /// Name of the node.
        node: String,
        /// Cause.
        source: ConfigError,
    },
}

kinds!(BuildError {
    Self::Config { source, .. } => source.kind(),
    _ => InvalidArgument,
});

pub(crate) enum Behaviour {
    RootComplex(Box<RootComplexParameters>),
    Switch(SwitchParameters),
    Generic(Box<EndpointParameters>),
    Device(Box<dyn Device>),
}

/// Assembles a fabric: nodes, then their ports, then links, then [`build`](Self::build).
pub struct FabricBuilder {
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ports: Vec<Port>,
    pub(crate) links: Vec<Link>,
    pub(crate) behaviours: Vec<Behaviour>,
    errors: Vec<BuildError>,
}

impl FabricBuilder {
    /// Starts an empty fabric. `seed` determines everything random in it.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            nodes: Vec::new(),
            ports: Vec::new(),
            links: Vec::new(),
            behaviours: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn node(&mut self, name: &str, kind: NodeKind, host: HostId, behaviour: Behaviour) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { name: name.to_owned(), kind, host, ports: Vec::new() });
        self.behaviours.push(behaviour);
        id
    }

    fn port(
        &mut self,
        node: NodeId,
        name: &str,
        device_number: u8,
        parameters: PortParameters,
        config: ConfigSpace,
    ) -> PortId {
        let id = PortId(self.ports.len() as u32);
        self.ports.push(Port {
            name: name.to_owned(),
            node,
            device_number,
            parameters,
            config,
            link: None,
            socket: 0,
        });
        self.nodes[node.0 as usize].ports.push(id);
        id
    }

    /// Adds a root complex, the top of the tree of `host`.
    pub fn root_complex(
        &mut self,
        name: &str,
        host: HostId,
        parameters: RootComplexParameters,
    ) -> NodeId {
        let behaviour = Behaviour::RootComplex(Box::new(parameters));
        self.node(name, NodeKind::RootComplex, host, behaviour)
    }

    /// Adds a root port; the first of a root complex is device 1 on its bus 0.
    pub fn root_port(
        &mut self,
        root_complex: NodeId,
        name: &str,
        identity: Identity,
        parameters: PortParameters,
    ) -> PortId {
        let number = self.nodes[root_complex.0 as usize].ports.len() as u8 + 1;
        let config = ConfigSpace::bridge(PortType::RootPort, identity, parameters.capability);
        self.port(root_complex, name, number, parameters, config)
    }

    /// Puts a root port on another socket than the first.
    pub fn set_socket(&mut self, root_port: PortId, socket: u16) {
        self.ports[root_port.0 as usize].socket = socket;
    }

    /// Adds a switch. Its host follows from the tree that it is linked into.
    pub fn switch(&mut self, name: &str, parameters: SwitchParameters) -> NodeId {
        self.node(name, NodeKind::Switch, HostId(0), Behaviour::Switch(parameters))
    }

    /// Adds a switch port, [`PortType::UpstreamPort`] or [`PortType::DownstreamPort`].
    pub fn switch_port(
        &mut self,
        switch: NodeId,
        name: &str,
        port_type: PortType,
        identity: Identity,
        parameters: PortParameters,
    ) -> PortId {
        let number = if port_type == PortType::UpstreamPort {
            0
        } else {
            let ports = &self.nodes[switch.0 as usize].ports;
            let is_down = |id: &&PortId| self.ports[id.0 as usize].config.port_type() == port_type;
            ports.iter().filter(is_down).count() as u8
        };
        let config = ConfigSpace::bridge(port_type, identity, parameters.capability);
        self.port(switch, name, number, parameters, config)
    }

    /// Adds a generic endpoint with its one port.
    pub fn endpoint(
        &mut self,
        name: &str,
        parameters: EndpointParameters,
        port: PortParameters,
    ) -> (NodeId, PortId) {
        let (identity, bars) = (parameters.identity, parameters.bars);
        let behaviour = Behaviour::Generic(Box::new(parameters));
        self.add_endpoint(name, identity, (bars, None), port, behaviour)
    }

    /// Adds an endpoint that behaves as `device`, with its one port. The device itself keeps the
    /// table and pending bits of its MSI-X capability, if it asks for one.
    pub fn endpoint_with_device(
        &mut self,
        name: &str,
        identity: Identity,
        bars: [Option<BarRequest>; 6],
        msix: Option<MsixRequest>,
        port: PortParameters,
        device: Box<dyn Device>,
    ) -> (NodeId, PortId) {
        self.add_endpoint(name, identity, (bars, msix), port, Behaviour::Device(device))
    }

    fn add_endpoint(
        &mut self,
        name: &str,
        identity: Identity,
        (bars, msix): ([Option<BarRequest>; 6], Option<MsixRequest>),
        port: PortParameters,
        behaviour: Behaviour,
    ) -> (NodeId, PortId) {
        let node = self.node(name, NodeKind::Endpoint, HostId(0), behaviour);
        let config =
            ConfigSpace::endpoint(identity, port.capability, bars).and_then(|config| match msix {
                Some(msix) => config.with_msix(msix),
                None => Ok(config),
            });
        let config = config.unwrap_or_else(|source| {
            self.errors.push(BuildError::Config { node: name.to_owned(), source });
            ConfigSpace::bridge(PortType::UpstreamPort, identity, port.capability)
        });
        let port = self.port(node, name, 0, port, config);
        (node, port)
    }

    /// Links `upper` (a root port or downstream port) with `lower` (an upstream port or an
    /// endpoint's port).
    pub fn link(
        &mut self,
        name: &str,
        upper: PortId,
        lower: PortId,
        parameters: LinkParameters,
    ) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        for (port, end, fits) in [
            (upper, "upper", [PortType::RootPort, PortType::DownstreamPort]),
            (lower, "lower", [PortType::UpstreamPort, PortType::Endpoint]),
        ] {
            let owner = &mut self.ports[port.0 as usize];
            let kind = owner.config.port_type();
            if !fits.contains(&kind) {
                self.errors.push(BuildError::WrongEnd {
                    link: name.to_owned(),
                    port: owner.name.clone(),
                    end,
                    what: kind.to_string(),
                });
            }
            let most = owner.parameters.capability.max_rate;
            let rate = parameters.rate;
            if rate.generation > most.generation || rate.width > most.width {
                let port = owner.name.clone();
                let link = name.to_owned();
                self.errors.push(BuildError::RateTooHigh { link, rate, port, most });
            }
            if let Some(first) = owner.link {
                self.errors.push(BuildError::PortTaken {
                    port: owner.name.clone(),
                    first: self.links[first.0 as usize].name.clone(),
                    second: name.to_owned(),
                });
            }
            owner.link = Some(id);
            owner.config.set_link_status(parameters.rate);
        }
        self.links.push(Link { name: name.to_owned(), upper, lower, parameters });
        id
    }

    /// Checks the parts and builds the fabric, at time zero and not yet enumerated.
    ///
    /// # Errors
    /// The first part that is invalid, by name.
    pub fn build(mut self) -> Result<Fabric, BuildError> {
        if let Some(error) = self.errors.into_iter().next() {
            return Err(error);
        }
        self.errors = Vec::new();
        self.check_sizes()?;
        self.check_ports()?;
        self.check_completers()?;
        self.find_hosts()?;
        Ok(Fabric::new(self))
    }

    fn check_sizes(&self) -> Result<(), BuildError> {
        if self.nodes.len() > MAX_NODES {
            let (count, limit) = (self.nodes.len(), MAX_NODES);
            return Err(BuildError::TooMany { what: "nodes of a fabric".into(), count, limit });
        }
        for node in &self.nodes {
            let (kind, limit) = match node.kind {
                NodeKind::RootComplex => (PortType::RootPort, MAX_ROOT_PORTS),
                _ => (PortType::DownstreamPort, MAX_DOWNSTREAM_PORTS),
            };
            let ports = node.ports.iter().map(|id| &self.ports[id.0 as usize]);
            let count = ports.filter(|port| port.config.port_type() == kind).count();
            if count > limit {
                let what = format!("downstream ports of {}", node.name);
                return Err(BuildError::TooMany { what, count, limit });
            }
            if node.kind == NodeKind::Switch {
                let up = |id: &&PortId| {
                    self.ports[id.0 as usize].config.port_type() == PortType::UpstreamPort
                };
                let count = node.ports.iter().filter(up).count();
                if count != 1 {
                    return Err(BuildError::UpstreamPorts { node: node.name.clone(), count });
                }
            }
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), BuildError> {
        for link in &self.links {
            let rate = link.parameters.bit_error_rate;
            if !(0.0..=0.1).contains(&rate) {
                return Err(BuildError::BadValue {
                    place: format!("link {}", link.name),
                    problem: format!("a bit error rate of {rate} is not between 0 and 0.1"),
                });
            }
        }
        for port in &self.ports {
            let p = &port.parameters;
            let bad = |problem: String| BuildError::BadValue { place: port.name.clone(), problem };
            if p.ack.tlps == 0 || p.update_fc.tlps == 0 {
                return Err(bad("a DLLP cannot sum up 0 TLPs; 1 is the least".into()));
            }
            let payload_bytes = u32::from(p.capability.max_payload_bytes);
            let need = payload_bytes.min(MAX_PAYLOAD_BYTES) / 16;
            for (index, class) in ["posted", "non-posted", "completion"].iter().enumerate() {
                let have = p.receive_credits[index];
                if have.header == 0 {
                    return Err(bad(format!("no header credit for {class} TLPs; 1 is the least")));
                }
                if index != 1 && have.data < need {
                    let (port, have) = (port.name.clone(), have.data);
                    let error =
                        BuildError::CreditsTooFew { port, class, have, need, payload_bytes };
                    return Err(error);
                }
            }
            if p.replay_buffer_bytes < payload_bytes + 24 {
                return Err(bad(format!(
                    "a replay buffer of {} B cannot hold one TLP of {payload_bytes} B payload",
                    p.replay_buffer_bytes
                )));
            }
        }
        Ok(())
    }

    /// Checks that completers can cut completions and that requesters and processors can progress.
    fn check_completers(&self) -> Result<(), BuildError> {
        for (node, behaviour) in self.nodes.iter().zip(&self.behaviours) {
            let bad = |problem: String| BuildError::BadValue { place: node.name.clone(), problem };
            let completer = match behaviour {
                Behaviour::RootComplex(root) => {
                    if root.cpu.cores == 0 || root.cpu.store_queue == 0 {
                        let (cores, queue) = (root.cpu.cores, root.cpu.store_queue);
                        return Err(bad(format!(
                            "{cores} cores with a store queue of {queue}; 1 is the least of both"
                        )));
                    }
                    if root.cpu.combining.is_some_and(|combining| combining.buffers == 0) {
                        return Err(bad("no write-combining buffer; 1 is the least".into()));
                    }
                    self.check_sockets(node, root).map_err(bad)?;
                    &root.completer
                }
                Behaviour::Generic(endpoint) => {
                    let tags = endpoint.requester.tags;
                    if !(1..=MAX_TAGS).contains(&tags) {
                        return Err(bad(format!("{tags} tags are not between 1 and {MAX_TAGS}")));
                    }
                    &endpoint.completer
                }
                Behaviour::Switch(_) | Behaviour::Device(_) => continue,
            };
            let boundary = completer.read_completion_boundary_bytes;
            if !matches!(boundary, 64 | 128) {
                return Err(bad(format!(
                    "a read completion boundary of {boundary} B; it is 64 or 128"
                )));
            }
            let longest = completer.completion_bytes;
            if !longest.is_power_of_two() || longest < boundary {
                return Err(bad(format!(
                    "completions of {longest} B; the length is a power of two of at least the \
                     read completion boundary, {boundary} B"
                )));
            }
            let share = completer.completion_single_share;
            if !(0.0..=1.0).contains(&share) {
                return Err(bad(format!("{share} of the completions in single units; 0 to 1")));
            }
            if completer.read_slots == 0 || !completer.line_bytes.is_power_of_two() {
                let (slots, line) = (completer.read_slots, completer.line_bytes);
                return Err(bad(format!(
                    "{slots} read slots and lines of {line} B; at least 1 slot is needed, and a \
                     line is a power of two"
                )));
            }
        }
        Ok(())
    }

    /// Checks the sockets of a root complex and the places of its ports.
    fn check_sockets(&self, node: &Node, root: &RootComplexParameters) -> Result<(), String> {
        let count = root.socket_count();
        if let Some(sockets) = &root.sockets {
            if !(2..=MAX_SOCKETS).contains(&count) {
                return Err(format!("{count} sockets; several are 2 to {MAX_SOCKETS}"));
            }
            let bytes = root.memory_bytes;
            if !bytes.is_multiple_of(MEMORY_PAGE_BYTES) {
                return Err(format!("{bytes} B of memory of each socket are not whole pages"));
            }
            sockets.hop.check().map_err(|error| error.to_string())?;
        }
        let mut ports = node.ports.iter().map(|id| &self.ports[id.0 as usize]);
        match ports.find(|port| port.socket >= count) {
            Some(Port { name, socket, .. }) => {
                Err(format!("{name} is on socket {socket}, and there are {count}"))
            }
            None => Ok(()),
        }
    }

    /// Assigns every node the host at the top of its tree.
    fn find_hosts(&mut self) -> Result<(), BuildError> {
        for index in 0..self.nodes.len() {
            let mut at = index;
            let mut steps = 0;
            while self.nodes[at].kind != NodeKind::RootComplex {
                let up = self.nodes[at].ports.iter().find_map(|id| {
                    let link = &self.links[self.ports[id.0 as usize].link?.0 as usize];
                    (link.lower == *id).then_some(link.upper)
                });
                steps += 1;
                let Some(up) = up.filter(|_| steps <= self.nodes.len()) else {
                    return Err(BuildError::NotConnected { node: self.nodes[index].name.clone() });
                };
                at = self.ports[up.0 as usize].node.0 as usize;
            }
            self.nodes[index].host = self.nodes[at].host;
        }
        Ok(())
    }
}
