// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs as read from a lab file, and the running labs built from them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crosslane_fabric::parameters::CpuParameters;
use crosslane_fabric::{Fabric, IO_PAGE_BYTES, NodeId, NodeKind, PortId};
use crosslane_host::{ErrorKind, Reason};
use crosslane_pcie::config::PortType;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

use crate::engines::{EngineKind, Engines};
use crate::enumerate::{HostTree, Policy, enumerate};
use crate::error::{LabError, Problem, Result, nearest};
use crate::file::constant::{Constant, ValueRange};
use crate::file::parts::EndpointPart;
use crate::file::{HostBuffers, HostInstance, LabFile, MAX_FILE_BYTES, no_socket};
use crate::shipped::shipped;
use crate::wiring::{self, Border, Endpoints};

/// First address for DMA buffers: firmware and old devices use the first MiB of a PC's memory.
const LEGACY_BYTES: u64 = 1 << 20;

/// A lab, read and checked, from which fabrics are built.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Name for errors: the path, or the name of a shipped lab.
    origin: String,
    variant: Option<String>,
    replaced: BTreeMap<String, f64>,
    /// NUMA node of all hosts' buffers, if not that of the file.
    numa_node: Option<u16>,
    file: LabFile,
    engines: Engines,
}

impl Lab {
    /// Loads a shipped lab by name or a lab file by path; either may be followed by `:` and the
    /// name of a variant.
    ///
    /// # Errors
    /// If the lab does not exist or has a problem.
    pub fn load(name_or_path: &str) -> Result<Self> {
        if let Some((name, variant)) = name_or_path.rsplit_once(':') {
            // A path may contain a colon too, but a variant's name contains no slash and no dot.
            if !variant.is_empty() && !variant.contains(['/', '.']) {
                return Self::load(name)?.with_variant(variant);
            }
        }
        if let Some(lab) = shipped().iter().find(|lab| lab.name == name_or_path) {
            return Self::from_text(&format!("{}.toml", lab.name), lab.text);
        }
        Self::from_text(name_or_path, &read_file(name_or_path)?)
    }

    /// Reads a lab from the text of a lab file; `name` stands for the file in errors.
    ///
    /// # Errors
    /// The first problem of the text, with its position.
    pub fn from_text(name: &str, text: &str) -> Result<Self> {
        Self::parsed(name, text, None, BTreeMap::new())
    }

    fn parsed(
        origin: &str,
        text: &str,
        variant: Option<String>,
        replaced: BTreeMap<String, f64>,
    ) -> Result<Self> {
        let file = LabFile::parse(origin, text, variant.as_deref(), &replaced)?;
        wiring::check(&file)?;
        let engines = Engines::default();
        let (origin, numa_node) = (origin.to_owned(), None);
        Ok(Self { origin, variant, replaced, numa_node, file, engines })
    }

    /// Returns `lab`, read anew, with what has been chosen beside its file.
    fn again(&self, mut lab: Self) -> Self {
        lab.engines = self.engines.clone();
        lab.set_numa_node(self.numa_node);
        lab
    }

    fn set_numa_node(&mut self, node: Option<u16>) {
        self.numa_node = node;
        for host in &mut self.file.hosts {
            host.numa_node = node.unwrap_or(host.numa_node);
        }
    }

    /// Returns the same lab with the constants of one of its variants. Constants set by
    /// [`with_constant`](Self::with_constant) are kept, except those that the variant overrules.
    ///
    /// # Errors
    /// If the lab has no such variant.
    pub fn with_variant(&self, name: &str) -> Result<Self> {
        let mut replaced = self.replaced.clone();
        if !replaced.is_empty() {
            let none = BTreeMap::new();
            let plain = Self::parsed(&self.origin, self.file.text(), Some(name.to_owned()), none)?;
            let known: BTreeSet<String> = plain.constants().map(Constant::path).collect();
            replaced.retain(|path, _| known.contains(path));
        }
        let lab = Self::parsed(&self.origin, self.file.text(), Some(name.to_owned()), replaced)?;
        Ok(self.again(lab))
    }

    /// Returns the same lab with one constant set to another number (in the unit of its key), for
    /// sweeps and sensitivity studies. Numbers are rounded where the constant is a whole number.
    ///
    /// # Errors
    /// If no number in force has that path, such as one that the variant replaces, or the value is
    /// not allowed.
    pub fn with_constant(&self, path: &str, value: f64) -> Result<Self> {
        let mut replaced = self.replaced.clone();
        replaced.insert(path.to_owned(), value);
        self.with_replaced(replaced)
    }

    /// Returns the same lab with these numbers for constants.
    fn with_replaced(&self, replaced: BTreeMap<String, f64>) -> Result<Self> {
        let lab = Self::parsed(&self.origin, self.file.text(), self.variant.clone(), replaced)?;
        Ok(self.again(lab))
    }

    /// Returns the same lab with the DMA buffers of every host in the memory of a socket: its NUMA
    /// node.
    ///
    /// # Errors
    /// If a host has no such socket.
    pub fn with_numa_node(&self, node: u16) -> Result<Self> {
        for host in &self.file.hosts {
            let count = host.part.parameters.socket_count();
            if node >= count {
                let (key, problem) = (format!("{}.numa_node", host.name), no_socket(node, count));
                let problem = Problem::BadValue { key, problem };
                return Err(LabError::nowhere(problem));
            }
        }
        let mut lab = self.clone();
        lab.set_numa_node(Some(node));
        Ok(lab)
    }

    /// Returns the same lab at the slow and at the fast end of its constants' ranges (see
    /// [`ValueRange`]); `None` if no constant in force has one. An
    /// [edited](Self::edited) lab has none.
    ///
    /// # Errors
    /// Ends that contradict other constants, such as a buffer too small for one payload.
    pub fn extremes(&self) -> Result<Option<[Self; 2]>> {
        let ranges: Vec<(String, ValueRange)> =
            self.constants().filter_map(|it| Some((it.path(), it.range?))).collect();
        if ranges.is_empty() {
            return Ok(None);
        }
        let at = |is_fast: bool| {
            let mut replaced = self.replaced.clone();
            replaced.extend(ranges.iter().map(|(path, range)| (path.clone(), range.end(is_fast))));
            self.with_replaced(replaced)
        };
        Ok(Some([at(false)?, at(true)?]))
    }

    /// Returns the same lab with engines of this kind. Whether the gateware is available and fits
    /// each engine is checked only when the lab is built.
    #[must_use]
    pub fn with_engines(mut self, kind: EngineKind) -> Self {
        self.engines.kind = kind;
        self
    }

    /// Returns the same lab with the gateware's waveforms traced to files: `file` with the
    /// endpoint's name before its extension. Each fabric that is built starts them afresh.
    #[must_use]
    pub fn with_rtl_trace(mut self, file: &Path) -> Self {
        self.engines.trace = Some(file.to_owned());
        self
    }

    /// Returns the same lab with its hosts, switches, endpoints and links changed by `edit`.
    /// [`constants`](Self::constants) and [`file`](Self::file)'s text remain those of the file, and
    /// choosing a variant or constant afterwards discards the edit. Ranges are forgotten.
    ///
    /// # Errors
    /// If the edited lab can no longer be wired.
    pub fn edited(&self, edit: impl FnOnce(&mut LabFile)) -> Result<Self> {
        let mut lab = self.clone();
        edit(&mut lab.file);
        lab.file.constants.iter_mut().for_each(|constant| constant.range = None);
        wiring::check(&lab.file)?;
        Ok(lab)
    }

    /// Returns the same lab with the link above a switch or an endpoint at a rate, and the ports
    /// whose maxima that raises: a root complex and a switch have one for all ports of a kind. It
    /// is an edit, as of [`edited`](Self::edited).
    ///
    /// # Errors
    /// If nothing with a link above it has that name.
    pub fn with_link(&self, lower: &str, rate: LinkRate) -> Result<(Self, Vec<String>)> {
        let mut raised = None;
        let lab = self.edited(|file| raised = file.set_link(lower, rate))?;
        raised.map(|raised| (lab, raised)).ok_or_else(|| {
            let names = self.file.links.iter().map(|link| link.lower.as_str());
            let (name, suggestion) = (lower.to_owned(), nearest(lower, names));
            let what = "switch or endpoint";
            LabError::nowhere(Problem::UnknownName { what, name, suggestion })
        })
    }

    /// Returns the lab's name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the lab's description, one sentence.
    pub fn summary(&self) -> &str {
        &self.file.summary
    }

    /// Returns the name of the chosen variant, if any.
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// Returns the path of its file, or of a shipped lab the name of that.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the parsed lab file.
    pub const fn file(&self) -> &LabFile {
        &self.file
    }

    /// Returns the names of the endpoints whose part has something, in the order of the file.
    pub fn endpoints_with(&self, has: impl Fn(&EndpointPart) -> bool) -> Vec<&str> {
        let endpoints = self.file.endpoints.iter().filter(|endpoint| has(&endpoint.part));
        endpoints.map(|endpoint| endpoint.name.as_str()).collect()
    }

    /// Returns the constants in force, in the order of the file, each with its source.
    pub fn constants(&self) -> impl Iterator<Item = &Constant> {
        self.file.constants.iter()
    }

    /// Builds the fabric and enumerates every host, at time zero. All randomness comes from `seed`.
    /// Every endpoint is a generic one, which moves data by [`Flow`](crosslane_fabric::Flow)s.
    ///
    /// # Errors
    /// If the fabric rejects the lab or a host cannot be enumerated, with the position in the file.
    pub fn build(&self, seed: u64) -> Result<RunningLab> {
        self.build_with(seed, Endpoints::Generic)
    }

    /// Builds the fabric like [`build`](Self::build), but with devices: an endpoint whose part has
    /// a table `engine`, `memory_card`, `nic` or `network_processor` is that device, and NICs and
    /// tori are joined by their links. The other endpoints are generic.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_engines(&self, seed: u64) -> Result<RunningLab> {
        self.build_with(seed, Endpoints::Engines)
    }

    /// Builds the fabric like [`build`](Self::build), but with the named endpoints as
    /// [`OutsideDevice`](crosslane_device::outside::OutsideDevice)s: their logic is a program or a
    /// circuit outside of the lab.
    ///
    /// # Errors
    /// As [`build`](Self::build), and names that are not those of endpoints.
    pub fn build_outside(&self, seed: u64, endpoints: &[&str]) -> Result<RunningLab> {
        let known = self.endpoints_with(|_| true);
        if let Some(name) = endpoints.iter().find(|name| !known.contains(name)) {
            let suggestion = nearest(name, known.iter().copied());
            let name = (*name).to_owned();
            let problem = Problem::UnknownName { what: "endpoint", name, suggestion };
            return Err(LabError::nowhere(problem));
        }
        self.build_with(seed, Endpoints::Outside(endpoints))
    }

    fn build_with(&self, seed: u64, endpoints: Endpoints<'_>) -> Result<RunningLab> {
        let (mut fabric, border) = wiring::build(&self.file, &self.engines, seed, endpoints)?;
        let mut hosts = Vec::new();
        for (id, host) in (0_u16..).zip(&self.file.hosts) {
            hosts.push(self.start(&mut fabric, HostId(id), host, endpoints)?);
        }
        let names = fabric.nodes().iter().enumerate();
        let names = names.map(|(id, node)| (node.name.clone(), NodeId(id as u32))).collect();
        Ok(RunningLab { fabric, border, hosts, names })
    }

    fn start(
        &self,
        fabric: &mut Fabric,
        id: HostId,
        host: &HostInstance,
        endpoints: Endpoints<'_>,
    ) -> Result<RunningHost> {
        let policy = self.policy(fabric, id, host);
        let tree = enumerate(fabric, id, &policy).map_err(|source| {
            self.file.error(host.span.clone(), &host.name, Problem::Enumeration { source })
        })?;
        let root_complex = fabric
            .nodes()
            .iter()
            .position(|node| node.kind == NodeKind::RootComplex && node.host == id)
            .map(|index| NodeId(index as u32))
            .expect("every host of a lab has its root complex");
        let mut buffers = fabric.socket_memory(id).into_iter().map(|[low, high]| {
            let buffers = match host.buffers {
                HostBuffers::Below4Gib => low.start.max(LEGACY_BYTES)..low.end,
                HostBuffers::Above4Gib => high,
            };
            (!buffers.is_empty()).then_some(buffers).ok_or_else(|| {
                let key = format!("{}.buffers", host.name);
                let bytes = host.part.parameters.memory_bytes;
                let problem = format!("{bytes} B of host memory do not reach there");
                let problem = Problem::BadValue { key: key.clone(), problem };
                self.file.error(host.span.clone(), &key, problem)
            })
        });
        let socket_buffers = buffers.by_ref().collect::<Result<Vec<Range<u64>>>>()?;
        let buffers = socket_buffers[usize::from(host.numa_node)].clone();
        let name = host.name.clone();
        let direct = self.map_generic(fabric, id, &tree, &socket_buffers, endpoints);
        let mut cpu = host.part.parameters.cpu;
        cpu.cores = fabric.host_cores(root_complex);
        let numa_node = host.numa_node;
        Ok(RunningHost {
            id,
            name,
            root_complex,
            tree,
            buffers,
            socket_buffers,
            numa_node,
            cpu,
            direct,
        })
    }

    /// Maps buffers and BARs one to one for the generic endpoints of a host with an IOMMU, since
    /// flows pin no memory. Returns their functions.
    fn map_generic(
        &self,
        fabric: &mut Fabric,
        id: HostId,
        tree: &HostTree,
        buffers: &[Range<u64>],
        endpoints: Endpoints<'_>,
    ) -> Vec<RoutingId> {
        if fabric.iommu(id).is_none() {
            return Vec::new();
        }
        let root_ports = tree.functions.iter().filter(|it| it.port_type == PortType::RootPort);
        let windows = root_ports.flat_map(|function| {
            let config = &fabric.port(function.port).config;
            [config.memory_window(), config.prefetchable_window()].into_iter().flatten()
        });
        let mut ranges: Vec<Range<u64>> =
            windows.map(|window| *window.start()..window.end() + 1).collect();
        let whole = |address: u64| address & !(IO_PAGE_BYTES - 1);
        ranges.extend(
            buffers
                .iter()
                .map(|buffers| whole(buffers.start + (IO_PAGE_BYTES - 1))..whole(buffers.end)),
        );
        let is_generic = |name: &str| {
            let mut all = self.file.endpoints.iter();
            all.any(|endpoint| endpoint.name == name && endpoints.is_generic(endpoint))
        };
        let ends = tree.functions.iter().filter(|it| it.port_type == PortType::Endpoint);
        let direct: Vec<RoutingId> = ends
            .filter(|function| is_generic(&function.name))
            .map(|function| fabric.routing_id(function.port))
            .collect();
        for function in &direct {
            for range in &ranges {
                let (at, bytes) = (BusAddress(range.start), range.end - range.start);
                let mapped = fabric.map_io(id, *function, at, at, bytes);
                mapped.expect("windows and memory are whole pages, apart from each other");
            }
        }
        direct
    }

    fn policy(&self, fabric: &Fabric, id: HostId, host: &HostInstance) -> Policy {
        let wishes = |name: &str| {
            self.file.hosts.iter().any(|host| host.acs && host.name == name)
                || self.file.switches.iter().any(|switch| switch.acs && switch.name == name)
        };
        let nodes = fabric.nodes().iter().enumerate();
        let redirecting = nodes
            .filter(|(_, node)| node.host == id && node.kind != NodeKind::Endpoint)
            .filter(|(_, node)| wishes(&node.name))
            .map(|(index, _)| NodeId(index as u32))
            .collect();
        let parameters = &host.part.parameters;
        let links = self.file.links.iter().filter(|link| link.upper == host.name);
        let limits = links.filter_map(|link| {
            let is_switch = self.file.switches.iter().any(|switch| switch.name == link.lower);
            let port = if is_switch { format!("{}.up", link.lower) } else { link.lower.clone() };
            Some((port, link.max_payload_limit_bytes?))
        });
        Policy {
            max_payload_limits: limits.collect(),
            max_read_request_bytes: host.max_read_request_bytes,
            max_payload_limit_bytes: host.max_payload_limit_bytes,
            read_completion_boundary_bytes: parameters.completer.read_completion_boundary_bytes,
            redirecting,
        }
    }
}

/// Loads a shipped lab by name or a lab file by path: [`Lab::load`].
///
/// # Errors
/// As [`Lab::load`].
pub fn open(name_or_path: &str) -> Result<Lab> {
    Lab::load(name_or_path)
}

fn read_file(path: &str) -> Result<String> {
    let unreadable =
        |reason: Reason| LabError::nowhere(Problem::Unreadable { path: path.to_owned(), reason });
    let file = std::fs::File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => LabError::nowhere(Problem::NoSuchLab {
            name: path.to_owned(),
            shipped: shipped().iter().map(|lab| lab.name).collect::<Vec<_>>().join(", "),
        }),
        _ => unreadable(error.into()),
    })?;
    let mut bytes = Vec::new();
    let most = MAX_FILE_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| unreadable(error.into()))?;
    let not_text = || Reason::new(ErrorKind::InvalidArgument, "it is not a text file (UTF-8)");
    String::from_utf8(bytes).map_err(|_| unreadable(not_text()))
}

/// A lab as built: its fabric, with every host enumerated.
pub struct RunningLab {
    /// The fabric.
    pub fabric: Fabric,
    /// Cut cables, if this is a part of a lab.
    pub(crate) border: Option<Border>,
    /// The hosts, in the order of their [`HostId`].
    pub hosts: Vec<RunningHost>,
    pub(crate) names: BTreeMap<String, NodeId>,
}

pub(crate) fn find_port(
    fabric: &Fabric,
    names: &BTreeMap<String, NodeId>,
    name: &str,
) -> Option<PortId> {
    let node = *names.get(name.split('.').next()?)?;
    let ports = &fabric.node(node).ports;
    ports.iter().copied().find(|&port| fabric.port(port).name == name)
}

impl RunningLab {
    /// Finds a node by name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Finds a port by name, such as `rha25.up`; an endpoint's port has the endpoint's name.
    pub fn find_port(&self, name: &str) -> Option<PortId> {
        find_port(&self.fabric, &self.names, name)
    }
}

/// One host of a running lab.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningHost {
    /// Number of the host in the fabric.
    pub id: HostId,
    /// Name of the host.
    pub name: String,
    /// Root complex of the host.
    pub root_complex: NodeId,
    /// The tree found by its enumeration.
    pub tree: HostTree,
    /// Memory from which its programs get their DMA buffers: that of `numa_node`.
    pub buffers: Range<u64>,
    /// Memory for DMA buffers by socket.
    pub socket_buffers: Vec<Range<u64>>,
    /// Socket whose memory its programs' buffers lie in.
    pub numa_node: u16,
    /// Constants of the host's processors, with the cores of all sockets.
    pub cpu: CpuParameters,
    /// With an IOMMU: the functions of generic endpoints, for which its buffers and all BARs are
    /// mapped one to one.
    pub direct: Vec<RoutingId>,
}
