// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of vfio-user as values: what both ends of a socket say to each other. Pure: no
//! socket, no clock.
//!
//! Read first: QEMU's `docs/interop/vfio-user.rst`, and `linux/vfio.h`, whose structures most
//! payloads are. All numbers are in the byte order of the machine, as the specification has it.
//! What has more bytes than its structure is taken all the same: structures grow at their end.

mod payload;

use serde_json::{Value, json};
use thiserror::Error;

pub use payload::{
    Area, DeviceInfo, DmaAccess, DmaMap, DmaUnmap, InterruptAction, InterruptData, InterruptInfo,
    RegionAccess, RegionInfo, SetInterrupts,
};

/// Bytes of the header before each message.
pub const HEADER_BYTES: usize = 16;
/// Most bytes of data of one read or write: `max_data_xfer_size` where nobody says another.
pub const MAX_DATA_BYTES: u32 = 1 << 20;
/// Longest message that is read: the data of one write, and its structures.
pub const MAX_MESSAGE_BYTES: u32 = MAX_DATA_BYTES + 4096;
/// Most file descriptors of one message, both ways: QEMU sends so many by itself.
pub const MAX_DESCRIPTORS: usize = 8;
/// `max_dma_maps` where nobody says another.
pub const DEFAULT_MAX_MAPPINGS: u32 = 65_535;
/// Major version of the protocol.
pub const MAJOR: u16 = 0;
/// Latest minor version of it that there is.
pub const MINOR: u16 = 1;
/// Regions of a PCI device: six BARs, ROM, configuration space, VGA.
pub const REGIONS: u32 = 9;
/// The region that is configuration space.
pub const CONFIG_REGION: u32 = 7;
/// Kinds of interrupts of a PCI device: INTx, MSI, MSI-X, errors, requests of the device.
pub const INTERRUPT_KINDS: u32 = 5;
/// The kind that is MSI.
pub const MSI: u32 = 1;
/// The kind that is MSI-X.
pub const MSIX: u32 = 2;

const TYPE_MASK: u32 = 0xf;
const TYPE_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A length that no message has.
    #[error("a message says that it has {bytes} B; {HEADER_BYTES} to {MAX_MESSAGE_BYTES} can be")]
    BadLength {
        /// What it says.
        bytes: u32,
    },
    /// Neither a command nor a reply.
    #[error("a message has type {kind}; 0 is a command and 1 a reply")]
    BadType {
        /// Its type.
        kind: u32,
    },
    /// A structure that is not whole.
    #[error("{what} needs {need} B and has {have}")]
    TooShort {
        /// Which.
        what: &'static str,
        /// Bytes that it needs at least.
        need: usize,
        /// Bytes that came.
        have: usize,
    },
    /// More data than one message carries.
    #[error("{what} is for {bytes} B; {MAX_DATA_BYTES} are the most")]
    TooMuchData {
        /// Which message.
        what: &'static str,
        /// Bytes that it is for.
        bytes: u64,
    },
    /// The text behind a version.
    #[error("the capabilities behind the version cannot be read: {why}")]
    BadCapabilities {
        /// What is wrong with them.
        why: String,
    },
    /// The list of what of a region can be mapped.
    #[error("the list of capabilities of region {region} leads astray: {why}")]
    BadAreas {
        /// Which region.
        region: u32,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Command {
    /// The first: which version, and what the sender can.
    Version = 1,
    /// Memory that the device may reach.
    DmaMap = 2,
    /// No longer.
    DmaUnmap = 3,
    /// What kind of device, how many regions and interrupts.
    DeviceInfo = 4,
    /// Size of a region, and what of it can be mapped.
    RegionInfo = 5,
    /// Descriptors that stand for stores to a region.
    RegionIoDescriptors = 6,
    /// How many interrupts of a kind.
    InterruptInfo = 7,
    /// Which descriptors interrupts signal.
    SetInterrupts = 8,
    /// Reads from a region.
    RegionRead = 9,
    /// Writes to a region.
    RegionWrite = 10,
    /// The server reads memory of the client.
    DmaRead = 11,
    /// The server writes memory of the client.
    DmaWrite = 12,
    /// Resets the device.
    Reset = 13,
}

impl Command {
    const ALL: [Self; 13] = [
        Self::Version,
        Self::DmaMap,
        Self::DmaUnmap,
        Self::DeviceInfo,
        Self::RegionInfo,
        Self::RegionIoDescriptors,
        Self::InterruptInfo,
        Self::SetInterrupts,
        Self::RegionRead,
        Self::RegionWrite,
        Self::DmaRead,
        Self::DmaWrite,
        Self::Reset,
    ];

    /// The command of that number, if it is known here.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|command| *command as u16 == number)
    }
}

/// What stands before each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Chosen by who sends a command, and repeated in its reply.
    pub id: u16,
    /// Which command; see [`Command::from_number`].
    pub command: u16,
    /// Bytes of the whole message, with this header.
    pub bytes: u32,
    flags: u32,
    /// Of a reply that is an error: why, as Linux numbers errors. May be 0 all the same.
    pub errno: u32,
}

impl Header {
    /// Of a command with so many bytes behind the header.
    #[must_use]
    pub const fn command(id: u16, command: Command, payload_bytes: usize) -> Self {
        let bytes = (HEADER_BYTES + payload_bytes) as u32;
        Self { id, command: command as u16, bytes, flags: 0, errno: 0 }
    }

    /// Of the reply to a command.
    #[must_use]
    pub const fn reply(self, payload_bytes: usize) -> Self {
        let bytes = (HEADER_BYTES + payload_bytes) as u32;
        Self { bytes, flags: TYPE_REPLY, errno: 0, ..self }
    }

    /// Of the reply that says no.
    #[must_use]
    pub const fn refusal(self, errno: i32) -> Self {
        let bytes = HEADER_BYTES as u32;
        Self { bytes, flags: TYPE_REPLY | FLAG_ERROR, errno: errno.unsigned_abs(), ..self }
    }

    /// The same command, which wants no reply.
    #[must_use]
    pub const fn without_reply(self) -> Self {
        Self { flags: self.flags | FLAG_NO_REPLY, ..self }
    }

    /// Whether it answers a command.
    #[must_use]
    pub const fn is_reply(&self) -> bool {
        self.flags & TYPE_MASK == TYPE_REPLY
    }

    /// Whether it is a reply that says no.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        self.flags & FLAG_ERROR != 0
    }

    /// Whether a command wants to be answered.
    #[must_use]
    pub const fn wants_reply(&self) -> bool {
        self.flags & FLAG_NO_REPLY == 0
    }

    /// Bytes behind the header.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.bytes as usize - HEADER_BYTES
    }

    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.id.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.errno.to_ne_bytes());
        bytes
    }

    /// From the socket.
    ///
    /// # Errors
    /// A length or a type that no message has: what follows cannot be trusted.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let mut fields = Fields { what: "a header", bytes };
        let (id, command) = (fields.u16()?, fields.u16()?);
        let (length, flags, errno) = (fields.u32()?, fields.u32()?, fields.u32()?);
        if !(HEADER_BYTES as u32..=MAX_MESSAGE_BYTES).contains(&length) {
            return Err(ProtocolError::BadLength { bytes: length });
        }
        let kind = flags & TYPE_MASK;
        if kind > TYPE_REPLY {
            return Err(ProtocolError::BadType { kind });
        }
        Ok(Self { id, command, bytes: length, flags, errno })
    }
}

/// Numbers one behind the other.
struct Fields<'a> {
    what: &'static str,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(what: &'static str, bytes: &'a [u8], need: usize) -> Result<Self, ProtocolError> {
        match bytes.len() >= need {
            true => Ok(Self { what, bytes }),
            false => Err(ProtocolError::TooShort { what, need, have: bytes.len() }),
        }
    }

    fn next<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let Some((first, rest)) = self.bytes.split_first_chunk::<N>() else {
            let have = self.bytes.len();
            return Err(ProtocolError::TooShort { what: self.what, need: N, have });
        };
        self.bytes = rest;
        Ok(*first)
    }

    fn u16(&mut self) -> Result<u16, ProtocolError> {
        self.next().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, ProtocolError> {
        self.next().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, ProtocolError> {
        self.next().map(u64::from_ne_bytes)
    }
}

/// What an end of a connection can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// File descriptors that it takes with one message.
    pub max_descriptors: u32,
    /// Bytes that it takes or gives with one read or write.
    pub max_data_bytes: u32,
    /// Ranges of memory that may be mapped for it at once.
    pub max_mappings: u32,
}

impl Capabilities {
    /// What this project's ends can.
    pub const OURS: Self = Self {
        max_descriptors: MAX_DESCRIPTORS as u32,
        max_data_bytes: MAX_DATA_BYTES,
        max_mappings: DEFAULT_MAX_MAPPINGS,
    };
    /// What holds where an end says nothing.
    pub const UNSAID: Self = Self {
        max_descriptors: 1,
        max_data_bytes: MAX_DATA_BYTES,
        max_mappings: DEFAULT_MAX_MAPPINGS,
    };
}

/// The first message and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Both ends must have the same.
    pub major: u16,
    /// The lower of the two ends' holds.
    pub minor: u16,
    /// What the sender can.
    pub capabilities: Capabilities,
}

impl Version {
    /// As it goes over the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.major.to_ne_bytes().to_vec();
        bytes.extend(self.minor.to_ne_bytes());
        let Capabilities { max_descriptors, max_data_bytes, max_mappings } = self.capabilities;
        let text = json!({ "capabilities": {
            "max_msg_fds": max_descriptors,
            "max_data_xfer_size": max_data_bytes,
            "max_dma_maps": max_mappings,
        }});
        bytes.extend(text.to_string().into_bytes());
        bytes.push(0);
        bytes
    }

    /// From the socket.
    ///
    /// # Errors
    /// No version, or capabilities that are no text of the kind that they should be.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("a version", bytes, 4)?;
        let (major, minor) = (fields.u16()?, fields.u16()?);
        let text = fields.bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut capabilities = Capabilities::UNSAID;
        if !text.is_empty() {
            let bad = |why: String| ProtocolError::BadCapabilities { why };
            let all: Value =
                serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
            let said = &all["capabilities"];
            let number = |key: &str, otherwise: u32| match &said[key] {
                Value::Null => Ok(otherwise),
                value => value
                    .as_u64()
                    .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
                    .ok_or_else(|| bad(format!("{key} is {value}, not a number"))),
            };
            capabilities = Capabilities {
                max_descriptors: number("max_msg_fds", capabilities.max_descriptors)?,
                max_data_bytes: number("max_data_xfer_size", capabilities.max_data_bytes)?,
                max_mappings: number("max_dma_maps", capabilities.max_mappings)?,
            };
        }
        Ok(Self { major, minor, capabilities })
    }
}
