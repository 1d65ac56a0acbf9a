// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: which way data take, at what rate, and why no faster way is taken.
//!
//! Read first: base specification 6.12 (Access Control Services); `crosslane_pcie::ceiling`.

use crosslane_host::{FunctionInfo, IoTranslation, PageSize, Topology, TopologyError};
use crosslane_pcie::ceiling::{link_ceiling_bytes_per_second, payload_efficiency};
use crosslane_pcie::config::PortType;
use crosslane_pcie::units::{BusAddress, RoutingId};
use thiserror::Error;

use self::translation::{Streamed, walked_bytes_per_second};

use crate::ports::{LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES, Port};

mod translation;

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Host memory.
    HostMemory,
    /// What is behind a function's BARs.
    Function(RoutingId),
}

/// Why a faster way is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A port on the way redirects peer requests to the root complex (ACS).
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
        /// What is known of it: a real one does not say how large its IOTLB is.
        known: Option<IoTranslation>,
    },
    /// Longer payloads would be possible if these ports were set to it.
    MaxPayload {
        /// Payload in force, bytes.
        in_force_bytes: u32,
        /// What all ports on the way support, bytes.
        possible_bytes: u32,
        /// Ports that are set to less.
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

/// How a request has to name its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// By its bus address: nothing on the way translates. Switches route by it.
    Bus,
    /// By an I/O virtual address, which the IOMMU of the root complex translates: the target has to
    /// be mapped for the source, memory by [`Bus::pin`](crosslane_host::Bus::pin), a peer's BAR by
    /// [`Bus::pin_bar`](crosslane_host::Bus::pin_bar).
    Mapped,
}

impl std::fmt::Display for Addressing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bus => "bus addresses",
            Self::Mapped => "I/O virtual addresses, which the IOMMU translates",
        })
    }
}

/// The way between two places.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Every port on the way, from source to target.
    pub path: Vec<FunctionInfo>,
    /// Largest payload that every port on the way takes, bytes.
    pub max_payload_bytes: u32,
    /// Payload bytes per second that the slowest link can carry with that payload and the
    /// header that the addresses need, without DLLPs. Host memory is taken to lie below 4 GiB;
    /// [`expected_at`](Self::expected_at) is for an address that is known. Where the constants of
    /// an IOMMU on the way are known, no more than its walks allow if each small page needs one;
    /// [`streaming`](Self::streaming) is for memory that is known. Where they are not, it is left
    /// out, which [`refused`](Self::refused) says.
    pub expected_bytes_per_second: f64,
    /// Name of the port at the upper end of that link.
    pub slowest_link: String,
    /// Whether it goes through the root complex.
    pub through_root_complex: bool,
    /// How requests name the target.
    pub addressing: Addressing,
    /// Why no faster way is taken; empty if there is none.
    pub refused: Vec<Refusal>,
    /// What the slowest link can carry of whole packets, bytes per second.
    link_bytes_per_second: f64,
    /// What is known of the IOMMU that the requests of the function at an end meet.
    iommu: Option<IoTranslation>,
    /// What walks leave of that.
    walked_bytes_per_second: f64,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The tree refused.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A payload size that no register can hold or some port does not support.
    #[error("{port} supports payloads up to {most_bytes} B, {bytes} B were asked for")]
    PayloadUnsupported {
        /// The port.
        port: String,
        /// What was asked for, bytes.
        bytes: u32,
        /// What it supports, bytes.
        most_bytes: u32,
    },
    /// A payload size that is no power of two from 128 to 4096.
    #[error("{bytes} B is no payload size: powers of two from 128 to 4096 are")]
    NoPayloadSize {
        /// What was asked for, bytes.
        bytes: u32,
    },
    /// A port that does not keep the payload size that is written; all are as they were.
    #[error("{port} does not keep a payload size of {bytes} B")]
    PayloadNotKept {
        /// The port.
        port: String,
        /// What was asked for, bytes.
        bytes: u32,
    },
    /// A port whose link has no rate.
    #[error("the link below {port} is down")]
    LinkDown {
        /// The port at the link's upper end.
        port: String,
    },
    /// A port redirects to the root complex, and one above it does not: it refuses what comes from
    /// below and is for what is below (PCIe 6.x 6.12.1.1, redirection needs it all the way up).
    #[error(
        "{redirects} redirects peer requests to the root complex (ACS), and {refuses} above it \
         does not: it refuses them, as their target is below it"
    )]
    RedirectedHalfWay {
        /// The port that redirects.
        redirects: String,
        /// The port above it that does not.
        refuses: String,
    },
    /// Two places with no link between them.
    #[error("there is no link on the way from {from} to {to}")]
    SamePlace {
        /// The source.
        from: String,
        /// The target.
        to: String,
    },
}

/// Header of a write below 4 GiB, and above (PCIe 6.x 2.2.4.1).
const fn header_dw(address: BusAddress) -> u32 {
    if address.needs_four_dw_header() { 4 } else { 3 }
}

impl Plan {
    /// The plan for writes from one place to the other.
    ///
    /// # Errors
    /// A function that is not there, a link that is down, or two places that are the same.
    pub fn new(topology: &impl Topology, from: Place, to: Place) -> Result<Self, PlanError> {
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
        let (slowest_link, link_bytes_per_second) = slowest(topology, &path)?;
        let translated = iommu.as_ref().filter(|_| addressing == Addressing::Mapped);
        let walked = translated
            .map_or(f64::INFINITY, |iommu| walked_bytes_per_second(iommu, Streamed::WORST));
        let efficiency = payload_efficiency(header_dw(target_address(&path)), in_force_bytes);
        Ok(Self {
            path,
            max_payload_bytes: in_force_bytes,
            expected_bytes_per_second: (link_bytes_per_second * efficiency).min(walked),
            slowest_link,
            through_root_complex: matches!(turn, Turn::Redirected(_) | Turn::RootComplex),
            addressing,
            refused,
            link_bytes_per_second,
            iommu,
            walked_bytes_per_second: walked,
        })
    }

    /// The same plan for an engine at one of its ends that goes through so much memory of the host
    /// in pages of this size again and again, reading or writing: what the walks of an IOMMU leave
    /// of it where its constants are known. It has the IOMMU alone, and enough in flight for its
    /// walks.
    #[must_use]
    pub fn streaming(mut self, memory_bytes: u64, pages: PageSize) -> Self {
        let memory = Streamed { bytes: memory_bytes, pages };
        let walked = |iommu: &IoTranslation| walked_bytes_per_second(iommu, memory);
        self.walked_bytes_per_second = self.iommu.as_ref().map_or(f64::INFINITY, walked);
        self.expected_bytes_per_second = self.expected_at(target_address(&self.path));
        self
    }

    /// What to expect of writes to `address`, payload bytes per second, as
    /// [`expected_bytes_per_second`](Self::expected_bytes_per_second).
    #[must_use]
    pub fn expected_at(&self, address: BusAddress) -> f64 {
        let efficiency = payload_efficiency(header_dw(address), self.max_payload_bytes);
        (self.link_bytes_per_second * efficiency).min(self.walked_bytes_per_second)
    }
}

/// The address that stands for the target of a path: that of the largest BAR at its end, where
/// that is no root port.
fn target_address(path: &[FunctionInfo]) -> BusAddress {
    let bars = path.last().into_iter().flat_map(|info| &info.bars);
    bars.max_by_key(|bar| bar.size_bytes).map_or(BusAddress(0), |bar| bar.base)
}

/// Where a path turns round.
enum Turn {
    /// In host memory.
    HostMemory,
    /// In a switch.
    Switch,
    /// In the root complex, for want of a switch above both ends.
    RootComplex,
    /// In the root complex, since this port redirects.
    Redirected(String),
}

/// How what a place sends has to name a target behind such a turn: a switch that turns a request
/// round itself routes by its address as it is; an IOMMU is where requests of devices reach the
/// root complex.
fn addressing(
    topology: &impl Topology,
    from: Place,
    turn: &Turn,
) -> Result<Addressing, TopologyError> {
    Ok(match (from, turn) {
        (Place::HostMemory, _) | (Place::Function(_), Turn::Switch) => Addressing::Bus,
        (Place::Function(id), _) if topology.is_translated(id)? => Addressing::Mapped,
        (Place::Function(_), _) => Addressing::Bus,
    })
}

/// What is known of the IOMMU that requests of the function at an end of a way meet: those that it
/// sends along it, or of two ends of which one is memory, those by which it reads.
fn known_iommu(
    topology: &impl Topology,
    ends: [Place; 2],
    turn: &Turn,
) -> Result<Option<IoTranslation>, TopologyError> {
    let function = ends.into_iter().find_map(|place| match place {
        Place::Function(id) => Some(id),
        Place::HostMemory => None,
    });
    match (function, turn) {
        (Some(id), Turn::HostMemory | Turn::RootComplex | Turn::Redirected(_)) => {
            topology.translation(id)
        }
        _ => Ok(None),
    }
}

/// A function and every bridge above it.
fn way_up(functions: &[FunctionInfo], id: RoutingId) -> Result<Vec<&FunctionInfo>, PlanError> {
    let find = |id: RoutingId| {
        functions
            .iter()
            .find(|info| info.id == id)
            .ok_or(PlanError::Topology(TopologyError::NoSuchFunction(id)))
    };
    let mut way = vec![find(id)?];
    // A tree has no more levels than functions: a parent that points in a circle ends the walk.
    while let Some(parent) = way.last().and_then(|info| info.parent) {
        if way.len() > functions.len() {
            break;
        }
        way.push(find(parent)?);
    }
    Ok(way)
}

fn name_of(functions: &[FunctionInfo], place: Place) -> String {
    match place {
        Place::HostMemory => "host memory".to_owned(),
        Place::Function(id) => functions
            .iter()
            .find(|info| info.id == id)
            .map_or_else(|| id.to_string(), |info| info.name.clone()),
    }
}

/// Every port from one place to the other, in the order of passing.
fn way(
    functions: &[FunctionInfo],
    from: Place,
    to: Place,
    redirects: impl Fn(&FunctionInfo) -> Result<bool, TopologyError>,
) -> Result<(Vec<FunctionInfo>, Turn), PlanError> {
    let up = match from {
        Place::HostMemory => Vec::new(),
        Place::Function(id) => way_up(functions, id)?,
    };
    let mut down = match to {
        Place::HostMemory => Vec::new(),
        Place::Function(id) => way_up(functions, id)?,
    };
    if from == to {
        let (from, to) = (name_of(functions, from), name_of(functions, to));
        return Err(PlanError::SamePlace { from, to });
    }
    let mut turn = match (from, to) {
        (Place::Function(_), Place::Function(_)) => Turn::RootComplex,
        _ => Turn::HostMemory,
    };
    let mut path = Vec::new();
    let (mut up_ends, mut down_begins) = (up.len(), down.len());
    // A switch turns a packet that came in at one of its lower ports down another: both are
    // children of its upstream port, which is not passed.
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

/// Whether two ports are the ends of a link, the first one the upper.
fn is_link(upper: &FunctionInfo, lower: &FunctionInfo) -> bool {
    upper.port_type.is_above_its_link() && lower.parent == Some(upper.id)
}

/// The upper port of the slowest link on the way, and its bytes per second.
fn slowest(topology: &impl Topology, path: &[FunctionInfo]) -> Result<(String, f64), PlanError> {
    let mut slowest: Option<(String, f64)> = None;
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
        let bytes_per_second = link_ceiling_bytes_per_second(rate);
        if slowest.as_ref().is_none_or(|(_, least)| bytes_per_second < *least) {
            slowest = Some((upper.name.clone(), bytes_per_second));
        }
    }
    let end = |info: Option<&FunctionInfo>| info.map_or(String::new(), |info| info.name.clone());
    slowest.ok_or_else(|| PlanError::SamePlace { from: end(path.first()), to: end(path.last()) })
}

/// The upper port of a link on the way that is down. What is below such a link cannot be asked.
pub(crate) fn link_down(topology: &impl Topology, path: &[FunctionInfo]) -> Option<String> {
    let uppers = path.iter().filter(|info| info.port_type.is_above_its_link());
    let is_down = |info: &&FunctionInfo| {
        Port::new(topology, info).and_then(|port| port.link_is_down()).unwrap_or(false)
    };
    uppers.into_iter().find(is_down).map(|info| info.name.clone())
}

/// Largest payload that every one of these ports takes, bytes, and the port that sets it.
pub(crate) fn least_payload(
    topology: &impl Topology,
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

/// Every port on the way between two places.
pub(crate) fn path(
    topology: &impl Topology,
    from: Place,
    to: Place,
) -> Result<Vec<FunctionInfo>, PlanError> {
    let redirects = |info: &FunctionInfo| Port::new(topology, info)?.redirects();
    Ok(way(&topology.functions()?, from, to, redirects)?.0)
}

/// The same in a tree as it once was: some of it may have gone since, and is passed over.
pub(crate) fn path_as_it_was(
    topology: &impl Topology,
    functions: &[FunctionInfo],
    from: Place,
    to: Place,
) -> Vec<FunctionInfo> {
    let redirects = |info: &FunctionInfo| {
        Ok(Port::new(topology, info).and_then(|port| port.redirects()).unwrap_or(false))
    };
    way(functions, from, to, redirects).map_or_else(|_| Vec::new(), |(path, _)| path)
}

/// Sets Max_Payload_Size of every port on the way from one place to the other, as `setpci` would,
/// and of nothing else. Returns the names of the ports.
///
/// # Errors
/// A port that does not support it: then nothing is changed.
pub fn set_max_payload_on_path(
    topology: &impl Topology,
    from: Place,
    to: Place,
    bytes: u32,
) -> Result<Vec<String>, PlanError> {
    let is_size =
        bytes.is_power_of_two() && (LEAST_PAYLOAD_BYTES..=MOST_PAYLOAD_BYTES).contains(&bytes);
    if !is_size {
        return Err(PlanError::NoPayloadSize { bytes });
    }
    let path = path(topology, from, to)?;
    let mut ports: Vec<(&FunctionInfo, Port<'_, _>, u32)> = Vec::new();
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
