// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of devices, such as `lab:kc705:crosslane/kc705`, `vfio:01:00.0` or `mem:1G`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crosslane_host::{RdmaError, kinds};
use crosslane_lab::LabError;
use crosslane_pcie::units::bytes_of;
use crosslane_vfio::FunctionError;
use crosslane_vfio::sysfs::Address;
use thiserror::Error;

/// The name of a device to open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceName {
    /// A simulated card of a lab: `lab:LAB` or `lab:LAB:VARIANT`, optionally followed by
    /// `/ENDPOINT`. LAB is the name of a shipped lab or the path of a lab file.
    Lab(LabDevice),
    /// A function of this machine that is bound to VFIO: `vfio:0000:01:00.0`; the domain is
    /// optional.
    Vfio(Address),
    /// A device of a vfio-user server, by the path of its socket: `vfio-user:PATH`.
    VfioUser(PathBuf),
    /// Memory of this machine that stands for a card's, of this many bytes: `mem:1G`.
    Memory(u64),
    /// A file, or a DAX device, that stands for a card's memory: `file:PATH`.
    File(PathBuf),
    /// No memory: it takes all data and gives zeros. `null:`.
    Null,
}

/// Size of a page, bytes: memory that stands for a card's has whole pages.
const PAGE_BYTES: u64 = 4096;

/// A card of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabDevice {
    /// Name or path of the lab, with an optional variant; see
    /// [`Lab::load`](crosslane_lab::Lab::load).
    pub lab: String,
    /// Name of the endpoint; `None` for every engine of the first host that has one.
    pub endpoint: Option<String>,
}

/// Reason for which a device cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A text that is not the name of a device.
    #[error("{name:?} is not a device: {why}")]
    Name {
        /// The name as given.
        name: String,
        /// The reason.
        why: String,
    },
    /// No such lab, or a lab with a problem.
    #[error(transparent)]
    Lab(#[from] Box<LabError>),
    /// The lab has no such card.
    #[error("{lab} has no engine {endpoint:?}: {why}")]
    NoSuchCard {
        /// The name as given.
        lab: String,
        /// The endpoint as given.
        endpoint: String,
        /// The endpoints that it has.
        why: String,
    },
    /// No endpoint of the lab can move data by itself.
    #[error("{lab} has no endpoint with an engine{hint}")]
    NoCard {
        /// The name as given.
        lab: String,
        /// Variants that may have one.
        hint: String,
    },
    /// Cards that cannot be opened together.
    #[error("{first} and {other} cannot be used together: {why}")]
    Together {
        /// Name of one of the two cards.
        first: String,
        /// Name of the other card.
        other: String,
        /// The reason.
        why: &'static str,
    },
    /// Refused by the kernel or a server, or no answer.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// Memory that stands for a card's and cannot be had.
    #[error("{name}: {source}")]
    Memory {
        /// The name as given.
        name: String,
        /// The reason.
        source: RdmaError,
    },
    /// Memory that stands for a card's, where an engine is needed.
    #[error(
        "{name} is memory without a DMA engine: only a bridge can use it, as `crosslane bridge \
         serve --device {name}` does"
    )]
    NoEngine {
        /// The name as given.
        name: String,
    },
}

kinds!(OpenError {
    Self::Name { .. } | Self::Together { .. } => InvalidArgument,
    Self::NoSuchCard { .. } | Self::NoCard { .. } => NotFound,
    Self::Lab(error) => error.kind(),
    Self::Function(error) => error.kind(),
    Self::Memory { source, .. } => source.kind(),
    Self::NoEngine { .. } => Unsupported,
});

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
            Some(("mem", size)) => {
                return memory(size).map(Self::Memory).map_err(|why| wrong(&why));
            }
            Some(("file", "")) => return Err(wrong("the path of the file is missing")),
            Some(("file", path)) => return Ok(Self::File(path.into())),
            Some(("null", "")) => return Ok(Self::Null),
            Some(("null", _)) => return Err(wrong("nothing follows the colon of null:")),
            _ => {
                return Err(wrong(
                    "cards have names like lab:kc705:crosslane, vfio:01:00.0 and \
                     vfio-user:SOCKET, and memory has names like mem:1G, file:PATH and null:",
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

/// Parses the size of `mem:SIZE`, whole pages.
fn memory(size: &str) -> Result<u64, String> {
    if size.is_empty() {
        return Err("the size is missing, as in mem:1G".to_owned());
    }
    let bytes = bytes_of(size)
        .ok_or_else(|| format!("{size} is not a size; write 64M, 64MiB or 67108864"))?;
    match u64::try_from(bytes) {
        Err(_) => Err(format!("no machine has {size} of memory")),
        Ok(0) => Err("a card's memory has at least one page".to_owned()),
        Ok(bytes) if !bytes.is_multiple_of(PAGE_BYTES) => {
            Err(format!("{bytes} B are not a multiple of a page, {PAGE_BYTES} B"))
        }
        Ok(bytes) => Ok(bytes),
    }
}

/// Writes a size as short as it can be read.
fn short_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

impl DeviceName {
    /// Whether it stands for a card without having an engine: a bridge's server takes such names.
    pub const fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::File(_) | Self::Null)
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
            Self::Memory(bytes) => write!(f, "mem:{}", short_size(*bytes)),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Null => f.write_str("null:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crosslane_host::ErrorKind;

    use super::*;

    #[test]
    fn every_error_has_its_kind() {
        let name = String::new;
        let lab = Box::new(crosslane_lab::open("no such lab").expect_err("there is none"));
        let (first, other, why) = (name(), name(), "no");
        let function =
            FunctionError::System { function: name(), what: name(), errno: 16, remedy: name() };
        for (error, kind) in [
            (OpenError::Name { name: name(), why: name() }, ErrorKind::InvalidArgument),
            (lab.into(), ErrorKind::NotFound),
            (
                OpenError::NoSuchCard { lab: name(), endpoint: name(), why: name() },
                ErrorKind::NotFound,
            ),
            (OpenError::NoCard { lab: name(), hint: name() }, ErrorKind::NotFound),
            (OpenError::Together { first, other, why }, ErrorKind::InvalidArgument),
            (function.into(), ErrorKind::Busy),
            (
                OpenError::Memory {
                    name: name(),
                    source: RdmaError::LongMessage { bytes: 2, most: 1 },
                },
                ErrorKind::InvalidArgument,
            ),
            (OpenError::NoEngine { name: name() }, ErrorKind::Unsupported),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
