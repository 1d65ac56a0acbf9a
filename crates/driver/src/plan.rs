// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: the route that data take, its expected rate, and why no faster route is used.
//!
//! Read first: base specification 6.12 (Access Control Services); `crosslane_pcie::ceiling`.

use crosslane_host::{FunctionInfo, IoTranslation, PageSize, Topology, TopologyError, kinds};
use crosslane_pcie::ceiling::{
    COMPLETION_HEADER_DW, link_ceiling_bytes_per_second, link_payload_ceiling,
};
use crosslane_pcie::config::PortType;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::{BusAddress, RoutingId};
use strum::Display;
use thiserror::Error;

use self::translation::{Streamed, walked_bytes_per_second};

use crate::ports::{LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES, Port};

mod translation;

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathEnd {
    /// Host memory.
    HostMemory,
    /// Target behind a function's BARs.
    Function(RoutingId),
}

/// Reason for which a faster route is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A port of the path redirects peer requests to the root complex (ACS).
    AcsRedirect {
        /// Name of the port.
        port: String,
    },
    /// The ends meet only in the root complex.
    ThroughRootComplex,
    /// An IOMMU translates the requests.
    Iommu {
        /// Name of the function that sends them.
        function: String,
        /// Constants of the IOMMU, if known: a real one does not reveal the size of its IOTLB.
        known: Option<IoTranslation>,
    },
    /// Longer payloads would be possible if these ports were set to them.
    MaxPayload {
        /// Payload in force, bytes.
        in_force_bytes: u32,
        /// Longest payload that all ports of the path support, bytes.
        possible_bytes: u32,
        /// Names of the ports that are set to less.
        ports: Vec<String>,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AcsRedirect { port } => {
                write!(f, "{port} redirects peer requests to the root complex (ACS)")
            }
            Self::ThroughRootComplex => f.write_str("the ends meet only in the root complex"),
            Self::Iommu { function, known } => {
                write!(
                    f,
                    "the IOMMU translates what {function} sends to the root complex: each page \
                     that its IOTLB "
                )?;
                match known {
                    Some(IoTranslation { iotlb_pages, walk, walks, .. }) => write!(
                        f,
                        "of {iotlb_pages} pages does not hold costs a walk of its table, {walk} \
                         each and {walks} at once"
                    ),
                    None => f.write_str(
                        "does not hold costs a walk of its table; how many it holds and how long \
                         a walk takes is not known here, and is left out of the expected rate",
                    ),
                }
            }
            Self::MaxPayload { in_force_bytes, possible_bytes, ports } => write!(
                f,
                "payloads are {in_force_bytes} B where {possible_bytes} B are possible: {} {} set \
                 to less",
                ports.join(", "),
                if ports.len() == 1 { "is" } else { "are" }
            ),
        }
    }
}

/// Kind of address by which a request names its target.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// The bus address, which switches route by: nothing on the path translates.
    #[strum(to_string = "bus addresses")]
    Bus,
    /// An I/O virtual address, which the IOMMU of the root complex translates: the target must be
    /// mapped for the source, memory by [`Bus::pin`](crosslane_host::Bus::pin), a peer's BAR by
    /// [`Bus::pin_bar`](crosslane_host::Bus::pin_bar).
    #[strum(to_string = "I/O virtual addresses, which the IOMMU translates")]
    Mapped,
}

/// The route between two ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Every port of the path, from source to target.
    pub path: Vec<FunctionInfo>,
    /// Largest payload that every port of the path takes, bytes.
    pub max_payload_bytes: u32,
    /// Payload bytes per second that the slowest link can carry with that payload and the header
    /// that the addresses need, without DLLPs. Assumes host memory below 4 GiB;
    /// [`expected_at`](Self::expected_at) takes a known address. If the constants of an IOMMU on
    /// the path are known, it is at most the rate at which each small page needs a walk;
    /// [`streaming`](Self::streaming) takes known memory. If they are unknown the IOMMU is left
    /// out, as [`refused`](Self::refused) then says.
    pub expected_bytes_per_second: f64,
    /// Name of the port at the upper end of that link.
    pub slowest_link: String,
    /// Whether the path goes through the root complex.
    pub through_root_complex: bool,
    /// Kind of address by which requests name the target.
    pub addressing: Addressing,
    /// Reasons for which no faster route is used; empty if no route is faster.
    pub refused: Vec<Refusal>,
    /// Rate of the slowest link.
    link_rate: LinkRate,
    /// Known constants of the IOMMU that translates the requests of an end's function.
    iommu: Option<IoTranslation>,
    /// Limit that the IOMMU's walks set, bytes per second.
    walked_bytes_per_second: f64,
    /// Whether completions carry the data, for whose header the address does not matter.
    is_of_reads: bool,
}

/// Reason for which a plan is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The topology cannot be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A payload size that no register can hold or some port does not support.
    #[error("{port} supports payloads up to {most_bytes} B, not {bytes} B")]
    PayloadUnsupported {
        /// Name of the port.
        port: String,
        /// Payload size asked for, bytes.
        bytes: u32,
        /// Largest payload size that the port supports, bytes.
        most_bytes: u32,
    },
    /// A payload size other than a power of two from 128 to 4096.
    #[error("{bytes} B is not a payload size: it must be a power of two from 128 to 4096")]
    NoPayloadSize {
        /// Payload size asked for, bytes.
        bytes: u32,
    },
    /// A port does not keep the payload size written to it; all ports have their old sizes back.
    #[error("{port} does not keep a payload size of {bytes} B")]
    PayloadNotKept {
        /// Name of the port.
        port: String,
        /// Payload size asked for, bytes.
        bytes: u32,
    },
    /// A port's link has no rate.
    #[error("the link below {port} is down")]
    LinkDown {
        /// Name of the port at the link's upper end.
        port: String,
    },
    /// A port redirects to the root complex, and one above it does not: the latter refuses requests
    /// from below whose target is below it (PCIe 6.x 6.12.1.1: redirection must be set all the way
    /// up).
    #[error(
        "{redirects} redirects peer requests to the root complex (ACS), and {refuses} above it \
         does not: it refuses them, as their target is below it"
    )]
    RedirectedHalfWay {
        /// Name of the port that redirects.
        redirects: String,
        /// Name of the port above it that does not.
        refuses: String,
    },
    /// Both ends are the same, with no link between them.
    #[error("no link on the path from {from} to {to}")]
    SamePlace {
        /// Name of the source.
        from: String,
        /// Name of the target.
        to: String,
    },
}

kinds!(PlanError {
    Self::Topology(error) => error.kind(),
    Self::PayloadUnsupported { .. } | Self::RedirectedHalfWay { .. } => Unsupported,
    Self::NoPayloadSize { .. } | Self::SamePlace { .. } => InvalidArgument,
    Self::PayloadNotKept { .. } => Failed,
    Self::LinkDown { .. } => LinkDown,
});

/// Header length in DW of a write below 4 GiB, and above (PCIe 6.x 2.2.4.1).
const fn header_dw(address: BusAddress) -> u32 {
    if address.needs_four_dw_header() { 4 } else { 3 }
}

impl Plan {
    /// Makes the plan for writes from one end to the other.
    ///
    /// # Errors
    /// An unknown function, a link that is down, or two ends that are the same.
    pub fn new(topology: &dyn Topology, from: PathEnd, to: PathEnd) -> Result<Self, PlanError> {
        let functions = topology.functions()?;
        let redirects = |info: &FunctionInfo| Port::new(topology, info)?.redirects();
        let (path, turn) = way(&functions, from, to, redirects)?;
        let mut refused = Vec::new();
        match &turn {
            Turn::Redirected(port) => refused.push(Refusal::AcsRedirect { port: port.clone() }),
            Turn::RootComplex => refused.push(Refusal::ThroughRootComplex),
            Turn::Switch | Turn::HostMemory => {}
        }
        let addressing = addressing(topology, from, &turn)?;
        let iommu = known_iommu(topology, [from, to], &turn)?;
        if let (Addressing::Mapped, Some(source)) = (addressing, path.first()) {
            refused.push(Refusal::Iommu { function: source.name.clone(), known: iommu });
        }
        let (mut in_force_bytes, mut possible_bytes) = (MOST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES);
        let mut set = Vec::new();
        for info in &path {
            let port = Port::new(topology, info)?;
            let supported_bytes = port.max_payload_supported_bytes()?;
            let bytes = port.max_payload_bytes()?.min(supported_bytes);
            in_force_bytes = in_force_bytes.min(bytes);
            possible_bytes = possible_bytes.min(supported_bytes);
            set.push((&info.name, bytes));
        }
        if possible_bytes > in_force_bytes {
            let mut ports: Vec<String> = Vec::new();
            for (name, bytes) in set {
                if bytes < possible_bytes && !ports.contains(name) {
                    ports.push(name.clone());
                }
            }
            refused.push(Refusal::MaxPayload { in_force_bytes, possible_bytes, ports });
        }
        let (slowest_link, link_rate) = slowest(topology, &path)?;
        let translated = iommu.as_ref().filter(|_| addressing == Addressing::Mapped);
        let walked = translated
            .map_or(f64::INFINITY, |iommu| walked_bytes_per_second(iommu, Streamed::WORST));
        let header_dw = header_dw(target_address(&path));
        let of_link = link_payload_ceiling(link_rate, header_dw, in_force_bytes);
        Ok(Self {
            path,
            max_payload_bytes: in_force_bytes,
            expected_bytes_per_second: of_link.min(walked),
            slowest_link,
            through_root_complex: matches!(turn, Turn::Redirected(_) | Turn::RootComplex),
            addressing,
            refused,
            link_rate,
            iommu,
            walked_bytes_per_second: walked,
            is_of_reads: false,
        })
    }

    /// Makes the plan for reads of the memory behind a function's BAR by another function: the path
    /// is that of the data, from the memory to the reader. What completions are shorter than the
    /// path allows, and what a root complex cuts reads of peers into, is left out.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn of_reads(
        topology: &dyn Topology,
        reader: PathEnd,
        memory: PathEnd,
    ) -> Result<Self, PlanError> {
        Ok(Self::new(topology, reader, memory)?.into_reads())
    }

    /// Returns the plan of reads by the source of these writes.
    #[must_use]
    pub(crate) fn into_reads(self) -> Self {
        let mut plan = Self { is_of_reads: true, ..self };
        plan.expected_bytes_per_second = plan.expected_at(BusAddress(0));
        plan.path.reverse();
        plan
    }

    /// Adapts the plan to an engine at one of its ends that reads or writes `memory_bytes` of host
    /// memory, in pages of this size, again and again: the rate is limited by the IOMMU's walks if
    /// its constants are known. Assumes that nothing else uses the IOMMU and that the engine has
    /// enough in flight to keep the walks busy.
    #[must_use]
    pub fn streaming(mut self, memory_bytes: u64, pages: PageSize) -> Self {
        let memory = Streamed { bytes: memory_bytes, pages };
        let walked = |iommu: &IoTranslation| walked_bytes_per_second(iommu, memory);
        self.walked_bytes_per_second = self.iommu.as_ref().map_or(f64::INFINITY, walked);
        self.expected_bytes_per_second = self.expected_at(target_address(&self.path));
        self
    }

    /// Returns the expected rate of writes to `address`, payload bytes per second; see
    /// [`expected_bytes_per_second`](Self::expected_bytes_per_second).
    pub fn expected_at(&self, address: BusAddress) -> f64 {
        let (rate, payload_bytes) = (self.link_rate, self.max_payload_bytes);
        let header_dw = if self.is_of_reads { COMPLETION_HEADER_DW } else { header_dw(address) };
        let of_link = link_payload_ceiling(rate, header_dw, payload_bytes);
        of_link.min(self.walked_bytes_per_second)
    }
}

/// Returns a typical target address of a path: the largest BAR at its end, or 0 if that is a root
/// port.
fn target_address(path: &[FunctionInfo]) -> BusAddress {
    let bars = path.last().into_iter().flat_map(|info| &info.bars);
    bars.max_by_key(|bar| bar.size_bytes).map_or(BusAddress(0), |bar| bar.base)
}

/// Point at which a path turns round.
enum Turn {
    HostMemory,
    Switch,
    /// In the root complex: no switch is above both ends.
    RootComplex,
    /// In the root complex: this port redirects.
    Redirected(String),
}

/// Determines how requests must name a target behind a turn: a switch that turns a request round
/// routes by its untranslated address; an IOMMU sits where devices' requests reach the root
/// complex.
fn addressing(
    topology: &dyn Topology,
    from: PathEnd,
    turn: &Turn,
) -> Result<Addressing, TopologyError> {
    Ok(match (from, turn) {
        (PathEnd::HostMemory, _) | (PathEnd::Function(_), Turn::Switch) => Addressing::Bus,
        (PathEnd::Function(id), _) if topology.is_translated(id)? => Addressing::Mapped,
        (PathEnd::Function(_), _) => Addressing::Bus,
    })
}

/// Finds the known constants of the IOMMU for the function at an end of a path: for requests that
/// it sends along the path or, if one end is memory, for its reads.
fn known_iommu(
    topology: &dyn Topology,
    ends: [PathEnd; 2],
    turn: &Turn,
) -> Result<Option<IoTranslation>, TopologyError> {
    let function = ends.into_iter().find_map(|place| match place {
        PathEnd::Function(id) => Some(id),
        PathEnd::HostMemory => None,
    });
    match (function, turn) {
        (Some(id), Turn::HostMemory | Turn::RootComplex | Turn::Redirected(_)) => {
            topology.translation(id)
        }
        _ => Ok(None),
    }
}

/// Returns a function and every bridge above it.
fn way_up(functions: &[FunctionInfo], id: RoutingId) -> Result<Vec<&FunctionInfo>, PlanError> {
    let find = |id: RoutingId| {
        functions
            .iter()
            .find(|info| info.id == id)
            .ok_or(PlanError::Topology(TopologyError::NoSuchFunction(id)))
    };
    let mut way = vec![find(id)?];
    // A tree has no more levels than functions; a circle of parents ends the walk here.
    while let Some(parent) = way.last().and_then(|info| info.parent) {
        if way.len() > functions.len() {
            break;
        }
        way.push(find(parent)?);
    }
    Ok(way)
}

fn name_of(functions: &[FunctionInfo], place: PathEnd) -> String {
    match place {
        PathEnd::HostMemory => "host memory".to_owned(),
        PathEnd::Function(id) => functions
            .iter()
            .find(|info| info.id == id)
            .map_or_else(|| id.to_string(), |info| info.name.clone()),
    }
}

/// Returns every port from one end to the other, in the order of passing, and the turn.
fn way(
    functions: &[FunctionInfo],
    from: PathEnd,
    to: PathEnd,
    redirects: impl Fn(&FunctionInfo) -> Result<bool, TopologyError>,
) -> Result<(Vec<FunctionInfo>, Turn), PlanError> {
    let up = match from {
        PathEnd::HostMemory => Vec::new(),
        PathEnd::Function(id) => way_up(functions, id)?,
    };
    let mut down = match to {
        PathEnd::HostMemory => Vec::new(),
        PathEnd::Function(id) => way_up(functions, id)?,
    };
    if from == to {
        let (from, to) = (name_of(functions, from), name_of(functions, to));
        return Err(PlanError::SamePlace { from, to });
    }
    let mut turn = match (from, to) {
        (PathEnd::Function(_), PathEnd::Function(_)) => Turn::RootComplex,
        _ => Turn::HostMemory,
    };
    let mut path = Vec::new();
    let (mut up_ends, mut down_begins) = (up.len(), down.len());
    // A switch sends a packet from one of its lower ports down another: both are children of its
    // upstream port, which is not passed.
    for (index, port) in up.iter().enumerate() {
        let meets = port.port_type == PortType::DownstreamPort;
        let other = down
            .iter()
            .position(|other| meets && other.parent == port.parent && other.id != port.id);
        let Some(other) = other else { continue };
        if redirects(port)? {
            for above in up[index + 1..].iter().filter(|above| down.contains(above)) {
                if above.port_type == PortType::DownstreamPort && !redirects(above)? {
                    let (redirects, refuses) = (port.name.clone(), above.name.clone());
                    return Err(PlanError::RedirectedHalfWay { redirects, refuses });
                }
            }
            turn = Turn::Redirected(port.name.clone());
        } else {
            turn = Turn::Switch;
            (up_ends, down_begins) = (index + 1, other + 1);
        }
        break;
    }
    down.truncate(down_begins);
    path.extend(up[..up_ends].iter().map(|&info| info.clone()));
    path.extend(down.iter().rev().map(|&info| info.clone()));
    Ok((path, turn))
}

/// Returns whether two ports are the ends of a link, the first one the upper.
fn is_link(upper: &FunctionInfo, lower: &FunctionInfo) -> bool {
    upper.port_type.is_above_its_link() && lower.parent == Some(upper.id)
}

/// Finds the upper port of the slowest link of the path, and its rate.
fn slowest(
    topology: &dyn Topology,
    path: &[FunctionInfo],
) -> Result<(String, LinkRate), PlanError> {
    let mut slowest: Option<(String, LinkRate)> = None;
    for pair in path.windows(2) {
        let upper = match pair {
            [a, b] if is_link(a, b) => a,
            [a, b] if is_link(b, a) => b,
            _ => continue,
        };
        let port = Port::new(topology, upper)?;
        let rate = port.link()?.filter(|_| !port.link_is_down().unwrap_or(false));
        let Some(rate) = rate else {
            return Err(PlanError::LinkDown { port: upper.name.clone() });
        };
        let is_slower = |(_, than): &(String, LinkRate)| {
            link_ceiling_bytes_per_second(rate) < link_ceiling_bytes_per_second(*than)
        };
        if slowest.as_ref().is_none_or(is_slower) {
            slowest = Some((upper.name.clone(), rate));
        }
    }
    let end = |info: Option<&FunctionInfo>| info.map_or(String::new(), |info| info.name.clone());
    slowest.ok_or_else(|| PlanError::SamePlace { from: end(path.first()), to: end(path.last()) })
}

/// Finds the upper port of a link of the path that is down. Ports below it cannot be read.
pub(crate) fn link_down(topology: &dyn Topology, path: &[FunctionInfo]) -> Option<String> {
    let uppers = path.iter().filter(|info| info.port_type.is_above_its_link());
    let is_down = |info: &&FunctionInfo| {
        Port::new(topology, info).and_then(|port| port.link_is_down()).unwrap_or(false)
    };
    uppers.into_iter().find(is_down).map(|info| info.name.clone())
}

/// Returns the largest payload that all these ports take, in bytes, and the name of the port that
/// sets it.
pub(crate) fn least_payload(
    topology: &dyn Topology,
    ports: &[FunctionInfo],
) -> Result<(u32, String), TopologyError> {
    let mut least = (MOST_PAYLOAD_BYTES, String::new());
    for info in ports {
        let port = Port::new(topology, info)?;
        let bytes = port.max_payload_bytes()?.min(port.max_payload_supported_bytes()?);
        if bytes < least.0 {
            least = (bytes, info.name.clone());
        }
    }
    Ok(least)
}

/// Returns every port of the path between two ends.
pub(crate) fn path(
    topology: &dyn Topology,
    from: PathEnd,
    to: PathEnd,
) -> Result<Vec<FunctionInfo>, PlanError> {
    let redirects = |info: &FunctionInfo| Port::new(topology, info)?.redirects();
    Ok(way(&topology.functions()?, from, to, redirects)?.0)
}

/// Returns the path in an earlier state of the tree; skips functions that have gone since.
pub(crate) fn path_as_it_was(
    topology: &dyn Topology,
    functions: &[FunctionInfo],
    from: PathEnd,
    to: PathEnd,
) -> Vec<FunctionInfo> {
    let redirects = |info: &FunctionInfo| {
        Ok(Port::new(topology, info).and_then(|port| port.redirects()).unwrap_or(false))
    };
    way(functions, from, to, redirects).map_or_else(|_| Vec::new(), |(path, _)| path)
}

/// Sets Max_Payload_Size of every port of the path between two ends, as `setpci` would, and nothing
/// else. Returns the names of the ports.
///
/// # Errors
/// A port does not support it: then nothing is changed.
pub fn set_max_payload_on_path(
    topology: &dyn Topology,
    from: PathEnd,
    to: PathEnd,
    bytes: u32,
) -> Result<Vec<String>, PlanError> {
    let is_size =
        bytes.is_power_of_two() && (LEAST_PAYLOAD_BYTES..=MOST_PAYLOAD_BYTES).contains(&bytes);
    if !is_size {
        return Err(PlanError::NoPayloadSize { bytes });
    }
    let path = path(topology, from, to)?;
    let mut ports: Vec<(&FunctionInfo, Port<'_>, u32)> = Vec::new();
    for info in &path {
        if ports.iter().any(|(other, ..)| other.id == info.id) {
            continue;
        }
        let port = Port::new(topology, info)?;
        let most_bytes = port.max_payload_supported_bytes()?;
        if bytes > most_bytes {
            return Err(PlanError::PayloadUnsupported {
                port: info.name.clone(),
                bytes,
                most_bytes,
            });
        }
        let before_bytes = port.max_payload_bytes()?;
        ports.push((info, port, before_bytes));
    }
    for (index, (info, port, _)) in ports.iter().enumerate() {
        let failure = match port.set_max_payload(bytes) {
            Ok(true) => continue,
            Ok(false) => PlanError::PayloadNotKept { port: info.name.clone(), bytes },
            Err(error) => PlanError::Topology(error),
        };
        for (_, port, before_bytes) in &ports[..=index] {
            // The first failure is the one to report.
            let _ = port.set_max_payload(*before_bytes);
        }
        return Err(failure);
    }
    Ok(ports.iter().map(|(info, ..)| info.name.clone()).collect())
}
