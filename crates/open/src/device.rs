// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of devices, such as `lab:kc705:crosslane/kc705` or `vfio:01:00.0`, and what they open.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crosslane_lab::{EngineKind, Lab, LabError, Simulation};
use crosslane_pcie::units::{HostId, RoutingId};
use crosslane_vfio::FunctionError;
use crosslane_vfio::sysfs::Address;
use thiserror::Error;

/// What a program is told to open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceName {
    /// A card of a lab, simulated: `lab:LAB`, `lab:LAB:VARIANT`, either with `/ENDPOINT` behind
    /// it. LAB is the name of a shipped lab or the path of a lab file.
    Lab(LabDevice),
    /// A function of this machine that has VFIO for its driver: `vfio:0000:01:00.0`, where the
    /// domain may be left out.
    Vfio(Address),
    /// What a server shows on a socket: `vfio-user:PATH`.
    VfioUser(PathBuf),
}

/// A card of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabDevice {
    /// As [`Lab::load`] takes it: name or path, and the variant if there is one.
    pub lab: String,
    /// Name of the endpoint; none: every engine of the first host that has one.
    pub endpoint: Option<String>,
}

/// What cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Not the name of a device.
    #[error("{name:?} is no device: {why}")]
    Name {
        /// As it was given.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The lab is not there, or has a problem.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// The lab has no such card.
    #[error("{lab} has no engine {endpoint:?}: {why}")]
    NoSuchCard {
        /// As it was given.
        lab: String,
        /// The endpoint that was asked for.
        endpoint: String,
        /// Which it has.
        why: String,
    },
    /// No endpoint of the lab can move data by itself.
    #[error("{lab} has no endpoint with an engine{hint}")]
    NoCard {
        /// As it was given.
        lab: String,
        /// Variants that may have one.
        hint: String,
    },
    /// Cards that cannot be opened together.
    #[error("{first} and {other} cannot be used together: {why}")]
    Together {
        /// The one.
        first: String,
        /// The other.
        other: String,
        /// What stands against it.
        why: &'static str,
    },
    /// The kernel or a server refused, or does not answer.
    #[error(transparent)]
    Function(#[from] FunctionError),
}

impl FromStr for DeviceName {
    type Err = OpenError;

    fn from_str(name: &str) -> Result<Self, OpenError> {
        let wrong = |why: &str| OpenError::Name { name: name.to_owned(), why: why.to_owned() };
        let rest = match name.split_once(':') {
            Some(("lab", rest)) => rest,
            Some(("vfio", "")) => return Err(wrong("the address is missing")),
            Some(("vfio", address)) => {
                let address = address.parse();
                return address.map(Self::Vfio).map_err(|error| wrong(&error.to_string()));
            }
            Some(("vfio-user", "")) => return Err(wrong("the path of the socket is missing")),
            Some(("vfio-user", path)) => return Ok(Self::VfioUser(path.into())),
            _ => {
                return Err(wrong(
                    "cards have names like lab:kc705:crosslane, vfio:01:00.0 and vfio-user:SOCKET",
                ));
            }
        };
        let (lab, endpoint) = match rest.rsplit_once('/') {
            // A path ends in the name of a file, with an ending or a variant; an endpoint's name
            // has neither dot nor colon.
            Some((lab, endpoint)) if !endpoint.contains(['.', ':']) => (lab, Some(endpoint)),
            _ => (rest, None),
        };
        if lab.is_empty() {
            return Err(wrong("the lab is missing"));
        }
        if endpoint.is_some_and(str::is_empty) {
            return Err(wrong("the endpoint behind the slash is missing"));
        }
        let (lab, endpoint) = (lab.to_owned(), endpoint.map(str::to_owned));
        Ok(Self::Lab(LabDevice { lab, endpoint }))
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lab(LabDevice { lab, endpoint }) => {
                write!(f, "lab:{lab}")?;
                endpoint.as_ref().map_or(Ok(()), |endpoint| write!(f, "/{endpoint}"))
            }
            Self::Vfio(address) => write!(f, "vfio:{address}"),
            Self::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
        }
    }
}

/// A card of an open lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabCard {
    /// Name of its endpoint.
    pub name: String,
    /// Its function.
    pub function: RoutingId,
}

/// A lab that was built, and the cards in it that were asked for: all of one host.
pub struct OpenLab {
    /// The lab; its bus is [`Simulation::bus`] of [`host`](Self::host).
    pub simulation: Simulation,
    /// The host that has the cards.
    pub host: HostId,
    /// The cards, in the order of the lab file.
    pub cards: Vec<LabCard>,
}

impl LabDevice {
    /// Builds the lab, with engines of this kind.
    ///
    /// # Errors
    /// No such lab or card, or what is wrong with the lab, with its place.
    pub fn open(&self, engines: EngineKind, seed: u64) -> Result<OpenLab, OpenError> {
        let lab = Lab::load(&self.lab).map_err(Box::new)?.with_engines(engines);
        let all: Vec<&str> =
            lab.file().endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        let with_engine = lab.file().endpoints.iter().filter(|one| one.part.engine.is_some());
        let names: Vec<String> = with_engine.map(|endpoint| endpoint.name.clone()).collect();
        if let Some(endpoint) = self.endpoint.as_ref().filter(|one| !names.contains(one)) {
            let why = match all.contains(&endpoint.as_str()) {
                true => "this endpoint has none".to_owned(),
                false if names.is_empty() => "it has none at all".to_owned(),
                false => format!("it has {}", names.join(", ")),
            };
            let (lab, endpoint) = (self.lab.clone(), endpoint.clone());
            return Err(OpenError::NoSuchCard { lab, endpoint, why });
        }
        let is_asked = |name: &String| self.endpoint.as_ref().is_none_or(|one| one == name);
        let asked: Vec<String> = names.into_iter().filter(is_asked).collect();
        let running = lab.build_engines(seed).map_err(Box::new)?;
        // Every endpoint that was enumerated is in the tree of one host.
        let cards_of = |tree: &crosslane_lab::enumerate::HostTree| -> Vec<LabCard> {
            let cards = asked.iter().filter_map(|name| {
                let function = tree.find(name)?.routing_id;
                Some(LabCard { name: name.clone(), function })
            });
            cards.collect()
        };
        let mut hosts = running.hosts.iter().map(|host| (host.id, cards_of(&host.tree)));
        let Some((host, cards)) = hosts.find(|(_, cards)| !cards.is_empty()) else {
            return Err(OpenError::NoCard { lab: self.lab.clone(), hint: hint(&lab) });
        };
        Ok(OpenLab { simulation: Simulation::new(running), host, cards })
    }
}

/// Variants that there are, for a lab that lacks what is asked for.
fn hint(lab: &Lab) -> String {
    let names: Vec<&str> =
        lab.file().variants.iter().map(|variant| variant.name.as_str()).collect();
    match (lab.variant(), names.as_slice()) {
        (Some(_), _) | (None, []) => String::new(),
        (None, names) => format!("; it has variants: {}", names.join(", ")),
    }
}
