// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of vfio-user as values, for both ends of a socket. Pure: no socket, no clock.
//!
//! Read first: QEMU's `docs/interop/vfio-user.rst`, and `linux/vfio.h`, whose structures most
//! payloads use. All numbers are in the machine's byte order, as the specification demands. A
//! payload may be longer than its structure: structures grow at their end.

mod payload;

use crosslane_host::kinds;
use serde_json::{Value, json};
use strum::FromRepr;
use thiserror::Error;

pub use payload::{
    Area, DeviceInfo, DmaAccess, DmaMap, DmaUnmap, InterruptAction, InterruptData, InterruptInfo,
    RegionAccess, RegionInfo, RegionIoDescriptors, SetInterrupts,
};

/// Bytes of the header before each message.
pub const HEADER_BYTES: usize = 16;
/// Most data of one read or write, bytes: the default of `max_data_xfer_size`.
pub const MAX_DATA_BYTES: u32 = 1 << 20;
/// Longest message that is accepted, bytes: the data of one write, and its structures.
pub const MAX_MESSAGE_BYTES: u32 = MAX_DATA_BYTES + 4096;
/// Most file descriptors of one message in either direction, as many as QEMU sends by default.
pub const MAX_DESCRIPTORS: usize = 8;
/// Most descriptors a message that an end may state to take: no message of Linux has as many.
const MOST_STATED_DESCRIPTORS: u32 = 1024;
/// Default of `max_dma_maps`.
pub const DEFAULT_MAX_MAPPINGS: u32 = 65_535;
/// Major version of the protocol.
pub const MAJOR: u16 = 0;
/// Latest minor version of the protocol.
pub const MINOR: u16 = 1;
/// Number of regions of a PCI device: six BARs, ROM, configuration space, VGA.
pub const REGIONS: u32 = 9;
/// Index of the region that is configuration space.
pub const CONFIG_REGION: u32 = 7;
/// Number of interrupt kinds of a PCI device: INTx, MSI, MSI-X, errors, requests of the device.
pub const INTERRUPT_KINDS: u32 = 5;
/// Index of the interrupt kind MSI.
pub const MSI: u32 = 1;
/// Index of the interrupt kind MSI-X.
pub const MSIX: u32 = 2;

const TYPE_MASK: u32 = 0xf;
const TYPE_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// Errors of decoding a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Bytes that the protocol does not have: a length or type of no message, a structure that is
    /// cut short, a list that cannot be read.
    #[error("{why}")]
    Malformed {
        /// The fault, with its values.
        why: String,
    },
    /// More data than one message carries.
    #[error("{what} is for {bytes} B; the limit is {MAX_DATA_BYTES}")]
    TooMuchData {
        /// Name of the message.
        what: &'static str,
        /// Bytes of data.
        bytes: u64,
    },
}

impl ProtocolError {
    /// The error of a structure that is cut short.
    fn too_short(what: &str, need: usize, have: usize) -> Self {
        Self::Malformed { why: format!("{what} needs {need} B and has {have}") }
    }
}

kinds!(ProtocolError {
    Self::TooMuchData { .. } => InvalidArgument,
    Self::Malformed { .. } => Data,
});

/// Kind of a message.
#[derive(Clone, Copy, Debug, FromRepr, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Command {
    /// Agrees on a version and tells the sender's limits; the first message.
    Version = 1,
    /// Maps memory for the device to reach.
    DmaMap = 2,
    /// Unmaps memory.
    DmaUnmap = 3,
    /// Asks for the kind of device, and its numbers of regions and interrupt kinds.
    DeviceInfo = 4,
    /// Asks for the size of a region and its mappable parts.
    RegionInfo = 5,
    /// Asks for descriptors that stand for stores to a region.
    RegionIoDescriptors = 6,
    /// Asks for the number of interrupts of a kind.
    InterruptInfo = 7,
    /// Sets the descriptors that interrupts signal.
    SetInterrupts = 8,
    /// Reads from a region.
    RegionRead = 9,
    /// Writes to a region.
    RegionWrite = 10,
    /// Reads memory of the client, for the server.
    DmaRead = 11,
    /// Writes memory of the client, for the server.
    DmaWrite = 12,
    /// Resets the device.
    Reset = 13,
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number that the sender of a command chooses, repeated in the reply.
    pub id: u16,
    /// Number of the command; see [`Command::from_repr`].
    pub command: u16,
    /// Bytes of the whole message, including this header.
    pub bytes: u32,
    flags: u32,
    /// Linux error number of a refusal; a refusal may also have 0.
    pub errno: u32,
}

impl Header {
    /// Header of a command with `payload_bytes` after it.
    pub const fn command(id: u16, command: Command, payload_bytes: usize) -> Self {
        let bytes = (HEADER_BYTES + payload_bytes) as u32;
        Self { id, command: command as u16, bytes, flags: 0, errno: 0 }
    }

    /// Header of the reply to this command.
    #[must_use]
    pub const fn reply(self, payload_bytes: usize) -> Self {
        let bytes = (HEADER_BYTES + payload_bytes) as u32;
        Self { bytes, flags: TYPE_REPLY, errno: 0, ..self }
    }

    /// Header of a refusal of this command.
    #[must_use]
    pub const fn refusal(self, errno: i32) -> Self {
        let bytes = HEADER_BYTES as u32;
        Self { bytes, flags: TYPE_REPLY | FLAG_ERROR, errno: errno.unsigned_abs(), ..self }
    }

    /// Returns the same command without a request for a reply.
    #[must_use]
    pub const fn without_reply(self) -> Self {
        Self { flags: self.flags | FLAG_NO_REPLY, ..self }
    }

    /// Whether it answers a command.
    pub const fn is_reply(&self) -> bool {
        self.flags & TYPE_MASK == TYPE_REPLY
    }

    /// Whether it is a refusal: a reply with an error.
    pub const fn is_refusal(&self) -> bool {
        self.flags & FLAG_ERROR != 0
    }

    /// Whether a command asks for a reply.
    pub const fn wants_reply(&self) -> bool {
        self.flags & FLAG_NO_REPLY == 0
    }

    /// Bytes after the header.
    pub const fn payload_bytes(&self) -> usize {
        self.bytes as usize - HEADER_BYTES
    }

    /// Encodes the header for the socket.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.id.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.errno.to_ne_bytes());
        bytes
    }

    /// Decodes a header from the socket.
    ///
    /// # Errors
    /// A length or a type that no message has: the following bytes cannot be trusted.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let header = Self::decode_unchecked(bytes);
        let (length, flags) = (header.bytes, header.flags);
        if !(HEADER_BYTES as u32..=MAX_MESSAGE_BYTES).contains(&length) {
            let why = format!(
                "a message gives its size as {length} B; {HEADER_BYTES} to {MAX_MESSAGE_BYTES} \
                 are valid"
            );
            return Err(ProtocolError::Malformed { why });
        }
        let kind = flags & TYPE_MASK;
        if kind > TYPE_REPLY {
            let why = format!("a message has type {kind}; 0 is a command and 1 a reply");
            return Err(ProtocolError::Malformed { why });
        }
        Ok(header)
    }

    /// Decodes a header with any length and type: enough to refuse it.
    pub(super) fn decode_unchecked(bytes: &[u8; HEADER_BYTES]) -> Self {
        let half = |at| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word =
            |at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (id, command) = (half(0), half(2));
        Self { id, command, bytes: word(4), flags: word(8), errno: word(12) }
    }
}

/// Reads consecutive numbers.
struct Fields<'a> {
    what: &'static str,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(what: &'static str, bytes: &'a [u8], need: usize) -> Result<Self, ProtocolError> {
        match bytes.len() >= need {
            true => Ok(Self { what, bytes }),
            false => Err(ProtocolError::too_short(what, need, bytes.len())),
        }
    }

    fn next<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let Some((first, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(ProtocolError::too_short(self.what, N, self.bytes.len()));
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

/// Limits of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Most file descriptors that it takes with one message.
    pub max_descriptors: u32,
    /// Most bytes that it takes or gives with one read or write.
    pub max_data_bytes: u32,
    /// Most ranges of memory that may be mapped for it at once.
    pub max_mappings: u32,
}

impl Capabilities {
    /// Limits of this project's ends.
    pub const OURS: Self = Self {
        max_descriptors: MAX_DESCRIPTORS as u32,
        max_data_bytes: MAX_DATA_BYTES,
        max_mappings: DEFAULT_MAX_MAPPINGS,
    };
    /// Limits of an end that states none.
    pub const UNSAID: Self = Self {
        max_descriptors: 1,
        max_data_bytes: MAX_DATA_BYTES,
        max_mappings: DEFAULT_MAX_MAPPINGS,
    };
}

/// Version and limits of an end: the first message and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major version, the same at both ends.
    pub major: u16,
    /// Minor version; the lower of both ends applies.
    pub minor: u16,
    /// Limits of the sender.
    pub capabilities: Capabilities,
}

impl Version {
    /// Encodes the payload for the socket.
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

    /// Decodes a payload from the socket.
    ///
    /// # Errors
    /// A payload that is too short, text without a zero at its end, or capabilities that are not
    /// the expected JSON.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::of("a version", bytes, 4)?;
        let (major, minor) = (fields.u16()?, fields.u16()?);
        if fields.bytes.last().is_some_and(|last| *last != 0) {
            return Err(bad("the text has no zero at its end".to_owned()));
        }
        let text = fields.bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let capabilities = match text {
            [] => Capabilities::UNSAID,
            text => Capabilities::decode(text)?,
        };
        Ok(Self { major, minor, capabilities })
    }
}

/// The error of capabilities that cannot be read.
fn bad(why: String) -> ProtocolError {
    let why = format!("cannot read the capabilities in the version message: {why}");
    ProtocolError::Malformed { why }
}

/// Returns a member of an object that must be one itself, if it exists.
fn object<'a>(of: &'a Value, key: &str) -> Result<&'a Value, ProtocolError> {
    match &of[key] {
        value @ (Value::Null | Value::Object(_)) => Ok(value),
        _ => Err(bad(format!("{key} is not an object"))),
    }
}

/// Returns a member of an object that must be a number, if it exists.
fn number(of: &Value, key: &str) -> Result<Option<u32>, ProtocolError> {
    match &of[key] {
        Value::Null => Ok(None),
        value => match value.as_u64() {
            Some(number) => Ok(Some(u32::try_from(number).unwrap_or(u32::MAX))),
            None => Err(bad(format!("{key} is not a number from 0"))),
        },
    }
}

impl Capabilities {
    fn decode(text: &[u8]) -> Result<Self, ProtocolError> {
        let all: Value = serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
        let said = object(&all, "capabilities")?;
        let max_descriptors = number(said, "max_msg_fds")?;
        if max_descriptors.is_some_and(|most| most > MOST_STATED_DESCRIPTORS) {
            return Err(bad(format!("max_msg_fds is more than {MOST_STATED_DESCRIPTORS}")));
        }
        // Migration and a second socket are not supported; what is said of them must be valid.
        let page_bytes = number(object(said, "migration")?, "pgsize")?;
        if page_bytes.is_some_and(|bytes| !bytes.is_power_of_two()) {
            return Err(bad("pgsize is not a power of two".to_owned()));
        }
        let twin = &object(said, "twin_socket")?["supported"];
        if !matches!(twin, Value::Null | Value::Bool(_)) {
            return Err(bad("twin_socket.supported is not a truth value".to_owned()));
        }
        let or = |number: Option<u32>, otherwise| number.unwrap_or(otherwise);
        Ok(Self {
            max_descriptors: or(max_descriptors, Self::UNSAID.max_descriptors),
            max_data_bytes: or(number(said, "max_data_xfer_size")?, Self::UNSAID.max_data_bytes),
            max_mappings: or(number(said, "max_dma_maps")?, Self::UNSAID.max_mappings),
        })
    }
}
