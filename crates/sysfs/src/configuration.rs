// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space as read from a machine: arbitrary bytes of any length, decoded as far as
//! they go.
//!
//! Read first: base specification 7.5.1 (the headers), 7.5.3 (the PCI Express capability), 7.8.4
//! (Advanced Error Reporting), 7.9.3 (Device Serial Number), 7.9.14 (Downstream Port Containment),
//! 7.7.11 (Access Control Services). Every byte of a function that does not answer reads 0xff.

use std::fmt;

use crosslane_pcie::config::{
    PortType, find_capability, find_extended_capability, registers as reg, size_of_code,
};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use strum::Display;

/// ID of the MSI capability (PCIe 6.x 7.7.1).
const CAPABILITY_MSI: u8 = 0x05;
/// ID of the Advanced Error Reporting extended capability (PCIe 6.x 7.8.4.1).
const EXTENDED_AER: u16 = 0x0001;
/// ID of the Downstream Port Containment extended capability (PCIe 6.x 7.9.14.1).
const EXTENDED_DPC: u16 = 0x001d;
/// ID of the Device Serial Number extended capability (PCIe 6.x 7.9.3.1).
const EXTENDED_SERIAL_NUMBER: u16 = 0x0003;
/// Device Capabilities 2: the function can send requests with 10-bit tags (PCIe 6.x 7.5.3.15).
const TEN_BIT_TAG_REQUESTER: u32 = 1 << 17;
/// Device Control 2: 10-Bit Tag Requester Enable (PCIe 6.x 7.5.3.16).
const TEN_BIT_TAG_ENABLE: u32 = 1 << 12;
/// Device Capabilities: the function supports Function Level Reset (PCIe 6.x 7.5.3.3).
const FUNCTION_LEVEL_RESET: u32 = 1 << 28;

/// Kind of a function, by its header and its PCI Express capability (PCIe 6.x 7.5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display)]
pub enum Kind {
    /// An endpoint.
    #[strum(to_string = "endpoint")]
    Endpoint,
    /// An endpoint that may use features deprecated by PCI Express (I/O space, locks).
    #[strum(to_string = "legacy endpoint")]
    LegacyEndpoint,
    /// A port of the root complex.
    #[strum(to_string = "root port")]
    RootPort,
    /// The upper port of a switch.
    #[strum(to_string = "upstream port of a switch")]
    UpstreamPort,
    /// A lower port of a switch.
    #[strum(to_string = "downstream port of a switch")]
    DownstreamPort,
    /// A bridge from PCI Express to PCI.
    #[strum(to_string = "bridge to PCI")]
    BridgeToPci,
    /// A bridge from PCI to PCI Express.
    #[strum(to_string = "bridge from PCI")]
    BridgeFromPci,
    /// A device within the root complex, without a link.
    #[strum(to_string = "endpoint within the root complex")]
    IntegratedEndpoint,
    /// The root complex's collector of errors of integrated endpoints.
    #[strum(to_string = "event collector of the root complex")]
    EventCollector,
    /// A device without a PCI Express capability.
    #[strum(to_string = "PCI device")]
    Conventional,
    /// A bridge without a PCI Express capability.
    #[strum(to_string = "PCI bridge")]
    ConventionalBridge,
    /// A code that no specification defines.
    #[strum(to_string = "PCI Express function of type {0}")]
    Unknown(u8),
}

impl Kind {
    /// Returns the port type in the tree of a host; `None` for bridges that are not PCI Express
    /// ports.
    pub const fn port_type(self) -> Option<PortType> {
        match self {
            Self::Endpoint
            | Self::LegacyEndpoint
            | Self::IntegratedEndpoint
            | Self::EventCollector
            | Self::Conventional => Some(PortType::Endpoint),
            Self::RootPort => Some(PortType::RootPort),
            Self::UpstreamPort => Some(PortType::UpstreamPort),
            Self::DownstreamPort => Some(PortType::DownstreamPort),
            Self::BridgeToPci
            | Self::BridgeFromPci
            | Self::ConventionalBridge
            | Self::Unknown(_) => None,
        }
    }

    /// Whether it is an endpoint with a link above it.
    pub const fn is_linked_endpoint(self) -> bool {
        matches!(self, Self::Endpoint | Self::LegacyEndpoint)
    }

    /// Whether other functions can be below it.
    pub const fn is_bridge(self) -> bool {
        matches!(
            self,
            Self::RootPort
                | Self::UpstreamPort
                | Self::DownstreamPort
                | Self::BridgeToPci
                | Self::BridgeFromPci
                | Self::ConventionalBridge
        )
    }
}

/// Speed and width from a link register; the codes may be unknown ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkCode {
    /// 1 for 2.5 GT/s, and so on (PCIe 6.x 7.5.3.6, 7.5.3.8).
    pub speed: u8,
    /// Number of lanes.
    pub lanes: u8,
}

impl LinkCode {
    /// Returns the code of a speed in GT/s as tools write it (`8`, `8.0`); 0 if there is none.
    pub fn speed_of(giga_transfers: &str) -> u8 {
        match giga_transfers.trim() {
            "2.5" => 1,
            "5.0" | "5" => 2,
            "8.0" | "8" => 3,
            "16.0" | "16" => 4,
            "32.0" | "32" => 5,
            "64.0" | "64" => 6,
            _ => 0,
        }
    }

    /// The rate, if it is one that is modelled.
    pub fn rate(self) -> Option<LinkRate> {
        let generation = Generation::from_number(self.speed)?;
        Some(LinkRate { generation, width: Width::new(self.lanes)? })
    }
}

/// Writes `Gen3 x8`, or `down`.
impl fmt::Display for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { speed: 0, .. } | Self { lanes: 0, .. } => f.write_str("down"),
            Self { speed, lanes } => write!(f, "Gen{speed} x{lanes}"),
        }
    }
}

/// Contents of the PCI Express capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Express {
    /// Offset of the capability, bytes.
    pub offset: u16,
    /// Largest Max_Payload_Size that is supported, bytes.
    pub max_payload_supported_bytes: u32,
    /// Max_Payload_Size that is set, bytes.
    pub max_payload_bytes: u32,
    /// Max_Read_Request_Size that is set, bytes.
    pub max_read_request_bytes: u32,
    /// Whether 8-bit tags are supported as requester.
    pub extended_tags_supported: bool,
    /// Whether 8-bit tags are enabled.
    pub extended_tags: bool,
    /// Whether 10-bit tags are supported as requester.
    pub ten_bit_tags_supported: bool,
    /// Whether 10-bit tags are enabled.
    pub ten_bit_tags: bool,
    /// Whether it may set the relaxed ordering attribute.
    pub relaxed_ordering: bool,
    /// Whether it may set the no snoop attribute.
    pub no_snoop: bool,
    /// Whether it supports Function Level Reset.
    pub function_level_reset: bool,
    /// Errors detected since they were last cleared: correctable, non-fatal, fatal, unsupported
    /// request, lowest bit first.
    pub detected_errors: u8,
    /// Fastest and widest link that it supports.
    pub link_capability: LinkCode,
    /// The present link.
    pub link: LinkCode,
    /// Whether the data link layer is up; `None` if the function does not report it.
    pub link_active: Option<bool>,
    /// Read completion boundary, bytes.
    pub read_completion_boundary_bytes: u32,
}

impl Express {
    /// Number of reads that one function can have in flight: 2 to the power of its enabled tag bits
    /// (10-bit tags exclude those that begin with 00, PCIe 6.x 2.2.6.2).
    pub const fn tags(&self) -> u32 {
        match (self.ten_bit_tags, self.extended_tags) {
            (true, _) => 768,
            (false, true) => 256,
            (false, false) => 32,
        }
    }
}

/// Access Control Services of a port (PCIe 6.x 7.7.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acs {
    /// Supported services: source validation, translation blocking, request redirect, completion
    /// redirect, upstream forwarding, egress control, direct translated; lowest bit first.
    pub supported: u8,
    /// Enabled services, with the same bits.
    pub enabled: u8,
}

impl Acs {
    /// Names of the bits, as in `lspci`.
    const WORDS: [&str; 7] = [
        "source validation", "translation blocking", "request redirect", "completion redirect",
        "upstream forwarding", "egress control", "direct translated",
    ];

    /// Whether peer requests that enter here are redirected to the root complex.
    pub const fn redirects_requests(self) -> bool {
        self.enabled & 0b100 != 0
    }

    /// Names of the enabled services; empty if none is enabled.
    pub fn enabled_words(self) -> String {
        let words = (0..).zip(Self::WORDS).filter(|(bit, _)| self.enabled >> bit & 1 != 0);
        words.map(|(_, word)| word).collect::<Vec<_>>().join(", ")
    }
}

/// What a text says about a function's configuration space, such as a listing of `lspci -vvv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Kind of the function; `None` if its capabilities are not shown.
    pub kind: Option<Kind>,
    /// The Command register.
    pub command: Option<u16>,
    /// The PCI Express capability.
    pub express: Option<Express>,
    /// Access Control Services.
    pub acs: Option<Acs>,
    /// Number of interrupt vectors.
    pub vectors: u32,
    /// Secondary and subordinate bus number of a bridge.
    pub buses: Option<(u8, u8)>,
}

/// Configuration space of one function, as far as it could be read or is described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    bytes: Vec<u8>,
    /// Counts where the bytes end.
    described: Box<Described>,
}

impl Configuration {
    /// Takes the bytes of a configuration space, the first at offset 0.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, described: Box::default() }
    }

    /// Adds a description, for what is not in the bytes.
    #[must_use]
    pub fn with_description(self, described: Described) -> Self {
        Self { described: Box::new(described), ..self }
    }

    /// The bytes that could be read, from offset 0 on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes that could be read: 4096 or 256; 64 without the right to see more.
    pub fn readable_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the function did not answer: all of its header reads as ones.
    pub fn is_absent(&self) -> bool {
        self.bytes.iter().take(64).all(|byte| *byte == 0xff)
    }

    /// The DW at `offset`, in bytes; `None` beyond the readable bytes.
    pub fn double_word(&self, offset: u16) -> Option<u32> {
        let from = usize::from(offset);
        let bytes = self.bytes.get(from..from.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn byte(&self, offset: u16) -> Option<u8> {
        self.bytes.get(usize::from(offset)).copied()
    }

    /// Offset of the capability with this ID; `None` if it is absent or cannot be seen.
    pub fn capability(&self, id: u8) -> Option<u16> {
        if self.is_absent() {
            return None;
        }
        // Bit 4 of Status tells whether the function has a list.
        if self.double_word(reg::COMMAND)? & reg::STATUS_CAPABILITIES_LIST == 0 {
            return None;
        }
        find_capability(id, |offset| self.double_word(offset).ok_or(())).ok()?
    }

    /// Offset of the extended capability with this ID; `None` if it is absent or cannot be seen.
    pub fn extended_capability(&self, id: u16) -> Option<u16> {
        find_extended_capability(id, |offset| self.double_word(offset).ok_or(())).ok()?
    }

    /// The device serial number; `None` if there is none or it cannot be seen. The boards of
    /// Crosslane have the identity of their bitstream there (docs/boards.md).
    pub fn serial_number(&self) -> Option<u64> {
        let at = self.extended_capability(EXTENDED_SERIAL_NUMBER)?;
        let half = |offset| self.double_word(at.checked_add(offset)?).map(u64::from);
        Some(half(8)? << 32 | half(4)?)
    }

    /// Whether the header is that of a bridge.
    pub fn is_bridge_header(&self) -> bool {
        self.byte(reg::HEADER_TYPE + 2).is_some_and(|kind| kind & 0x7f == 1)
    }

    /// Kind of the function; `None` if its capabilities cannot be seen.
    pub fn kind(&self) -> Option<Kind> {
        if self.bytes.len() <= 64 || self.is_absent() {
            return self.described.kind;
        }
        let Some(express) = self.capability(reg::CAPABILITY_PCI_EXPRESS) else {
            let bridge = self.is_bridge_header();
            return Some(if bridge { Kind::ConventionalBridge } else { Kind::Conventional });
        };
        let code = (self.double_word(express)? >> 20 & 0xf) as u8;
        Some(match code {
            0 => Kind::Endpoint,
            1 => Kind::LegacyEndpoint,
            4 => Kind::RootPort,
            5 => Kind::UpstreamPort,
            6 => Kind::DownstreamPort,
            7 => Kind::BridgeToPci,
            8 => Kind::BridgeFromPci,
            9 => Kind::IntegratedEndpoint,
            10 => Kind::EventCollector,
            code => Kind::Unknown(code),
        })
    }

    /// The Command register.
    pub fn command(&self) -> Option<u16> {
        self.double_word(reg::COMMAND).map_or(self.described.command, |word| Some(word as u16))
    }

    /// Whether the function may send requests.
    pub fn bus_master(&self) -> Option<bool> {
        Some(u32::from(self.command()?) & reg::COMMAND_BUS_MASTER != 0)
    }

    /// Whether its memory BARs are decoded.
    pub fn memory_enabled(&self) -> Option<bool> {
        Some(u32::from(self.command()?) & reg::COMMAND_MEMORY_SPACE != 0)
    }

    /// The PCI Express capability; `None` if it is absent or cannot be seen.
    pub fn express(&self) -> Option<Express> {
        self.read_express().or(self.described.express)
    }

    fn read_express(&self) -> Option<Express> {
        let offset = self.capability(reg::CAPABILITY_PCI_EXPRESS)?;
        let word = |at: u16| self.double_word(offset + at);
        let capabilities = word(reg::DEVICE_CAPABILITIES)?;
        let control = word(reg::DEVICE_CONTROL)?;
        let link = word(reg::LINK_CAPABILITIES)?;
        let status = word(reg::LINK_CONTROL)?;
        // Version 1 of the capability ends before the second set of registers.
        let version = word(reg::EXPRESS_CAPABILITIES)? >> 16 & 0xf;
        let second = |at: u16| if version >= 2 { word(at).unwrap_or(0) } else { 0 };
        let (capabilities_2, control_2) =
            (second(reg::DEVICE_CAPABILITIES_2), second(reg::DEVICE_CONTROL_2));
        let code = |register: u32| LinkCode {
            speed: (register & reg::LINK_SPEED_MASK) as u8,
            lanes: (register >> reg::LINK_CAPABILITIES_WIDTH_SHIFT & 0x3f) as u8,
        };
        let reports = link & reg::LINK_CAPABILITIES_ACTIVE_REPORTING != 0;
        let boundary = status & reg::LINK_CONTROL_READ_COMPLETION_BOUNDARY;
        Some(Express {
            offset,
            max_payload_supported_bytes: size_of_code(capabilities),
            max_payload_bytes: size_of_code(control >> reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT),
            max_read_request_bytes: size_of_code(control >> reg::DEVICE_CONTROL_MAX_READ_SHIFT),
            extended_tags_supported: capabilities & reg::DEVICE_CAPABILITIES_EXTENDED_TAG != 0,
            extended_tags: control & reg::DEVICE_CONTROL_EXTENDED_TAG != 0,
            ten_bit_tags_supported: capabilities_2 & TEN_BIT_TAG_REQUESTER != 0,
            ten_bit_tags: control_2 & TEN_BIT_TAG_ENABLE != 0,
            relaxed_ordering: control & reg::DEVICE_CONTROL_RELAXED_ORDERING != 0,
            no_snoop: control & reg::DEVICE_CONTROL_NO_SNOOP != 0,
            function_level_reset: capabilities & FUNCTION_LEVEL_RESET != 0,
            detected_errors: (control >> 16 & 0xf) as u8,
            link_capability: code(link),
            link: code(status >> reg::LINK_STATUS_SPEED_SHIFT),
            link_active: reports.then_some(status & reg::LINK_STATUS_ACTIVE != 0),
            read_completion_boundary_bytes: if boundary == 0 { 64 } else { 128 },
        })
    }

    /// Access Control Services; `None` if they are absent or cannot be seen.
    pub fn acs(&self) -> Option<Acs> {
        self.read_acs().or(self.described.acs)
    }

    fn read_acs(&self) -> Option<Acs> {
        let offset = self.extended_capability(reg::EXTENDED_CAPABILITY_ACS)?;
        let register = self.double_word(offset + reg::ACS_CONTROL)?;
        Some(Acs { supported: register as u8 & 0x7f, enabled: (register >> 16) as u8 & 0x7f })
    }

    /// Offset of Advanced Error Reporting.
    pub fn error_reporting(&self) -> Option<u16> {
        self.extended_capability(EXTENDED_AER)
    }

    /// Offset of Downstream Port Containment.
    pub fn containment(&self) -> Option<u16> {
        self.extended_capability(EXTENDED_DPC)
    }

    /// Number of interrupt vectors: those of MSI-X, else those of MSI; 0 without both.
    pub fn vectors(&self) -> u32 {
        if let Some(header) =
            self.capability(reg::CAPABILITY_MSIX).and_then(|offset| self.double_word(offset))
        {
            return (header >> reg::MSIX_TABLE_SIZE_SHIFT & reg::MSIX_TABLE_SIZE) + 1;
        }
        let header = self.capability(CAPABILITY_MSI).and_then(|offset| self.double_word(offset));
        // Multiple Message Capable, bits 3:1 of Message Control: 2 to the power of it, up to 32.
        header.map_or(self.described.vectors, |header| 1 << (header >> 17 & 7).min(5))
    }

    /// Secondary and subordinate bus number of a bridge; `None` for others.
    pub fn buses(&self) -> Option<(u8, u8)> {
        let Some(word) = self.double_word(reg::PRIMARY_BUS) else { return self.described.buses };
        let [_, secondary, subordinate, _] = word.to_le_bytes();
        self.is_bridge_header().then_some((secondary, subordinate))
    }
}
