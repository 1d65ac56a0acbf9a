// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space of one function, as a value.
//!
//! Read first: base specification 7.5.1 (the two headers), 7.5.3 (the PCI Express capability),
//! 7.7.2 (MSI-X) and 7.7.11 (Access Control Services). The space is a table of double words, each
//! with masks of the bits that a write changes and those that a write of 1 clears; all others are
//! read-only. BAR sizing by writing all ones follows from the masks and needs no code.
//!
//! ```
//! use crosslane_pcie::config::*;
//! use crosslane_pcie::link::{Generation, LinkRate, Width};
//!
//! let max_rate = LinkRate { generation: Generation::Gen2, width: Width::new(4).unwrap() };
//! let capability = Capability {
//!     max_payload_bytes: 256,
//!     max_rate,
//!     extended_tags: true,
//!     ten_bit_tags: false,
//!     acs: false,
//! };
//! let bar = BarRequest { kind: BarKind::Memory32 { prefetchable: false }, size_bytes: 4096 };
//! let mut space = ConfigSpace::endpoint(
//!     Identity { vendor: 0x1234, device: 1, ..Identity::default() },
//!     capability,
//!     [Some(bar), None, None, None, None, None],
//! )?;
//! space.write(registers::BAR0, u32::MAX, 0xf);
//! assert_eq!(space.read(registers::BAR0), 0xffff_f000);
//! # Ok::<(), ConfigError>(())
//! ```

mod decode;
mod msix;
pub mod registers;
mod reset;
#[cfg(test)]
mod tests;
mod views;

use crate::kinds;
use crate::link::LinkRate;
use crate::units::BusAddress;
use strum::{Display, FromRepr};
use thiserror::Error;

pub use decode::{
    find_capability, find_extended_capability, rate_of_code, size_code, size_of_code,
};
pub use msix::{
    MAX_MSIX_VECTORS, MSIX_ENTRY_BYTES, MSIX_VECTORS_PER_PENDING_WORD, Msix, MsixRequest,
};

/// Bytes of a function's configuration space (PCIe 6.x 7.2).
pub const CONFIG_SPACE_BYTES: u16 = 4096;

/// Smallest memory range that a BAR may ask for, bytes (PCIe 6.x 7.5.1.2.1).
pub const MINIMUM_BAR_BYTES: u64 = 128;

/// Address range type of a base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarKind {
    /// Memory below 4 GiB; one register.
    Memory32 {
        /// Reads have no side effects and writes may be merged.
        prefetchable: bool,
    },
    /// Memory anywhere; two registers.
    Memory64 {
        /// Reads have no side effects and writes may be merged.
        prefetchable: bool,
    },
}

impl BarKind {
    /// Decodes the low bits of a BAR's register (PCIe 6.x 7.5.1.2.1); `None` for I/O ports.
    pub const fn of_register(register: u32) -> Option<Self> {
        let prefetchable = register & registers::BAR_PREFETCHABLE != 0;
        match register & registers::BAR_TYPE {
            registers::BAR_64_BIT => Some(Self::Memory64 { prefetchable }),
            other if other & registers::BAR_PORTS != 0 => None,
            _ => Some(Self::Memory32 { prefetchable }),
        }
    }

    /// Whether reads of the range have no side effects.
    pub const fn is_prefetchable(self) -> bool {
        match self {
            Self::Memory32 { prefetchable } | Self::Memory64 { prefetchable } => prefetchable,
        }
    }

    /// Whether the BAR takes two registers.
    pub const fn is_64_bit(self) -> bool {
        matches!(self, Self::Memory64 { .. })
    }
}

/// An address range that an endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BarRequest {
    /// Type of the range.
    pub kind: BarKind,
    /// Size in bytes: a power of two, at least [`MINIMUM_BAR_BYTES`].
    pub size_bytes: u64,
}

/// A base address register as programmed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bar {
    /// Number of the BAR, 0 to 5 (the lower one of a pair).
    pub index: usize,
    /// First address of the range.
    pub base: BusAddress,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Type of the range.
    pub kind: BarKind,
}

impl Bar {
    /// Whether `address` lies in the range.
    pub const fn contains(&self, address: BusAddress) -> bool {
        // The base is aligned to the size, a power of two.
        address.0 & !(self.size_bytes - 1) == self.base.0
    }
}

/// Device/Port Type of the PCI Express capability (PCIe 6.x 7.5.3.2).
#[derive(Clone, Copy, Debug, Display, FromRepr, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PortType {
    /// An endpoint: type 0 header.
    #[strum(to_string = "an endpoint's port")]
    Endpoint = 0b0000,
    /// A port of a root complex: type 1 header.
    #[strum(to_string = "a root port")]
    RootPort = 0b0100,
    /// The port of a switch towards the root complex: type 1 header.
    #[strum(to_string = "a switch's upstream port")]
    UpstreamPort = 0b0101,
    /// A port of a switch away from the root complex: type 1 header.
    #[strum(to_string = "a switch's downstream port")]
    DownstreamPort = 0b0110,
}

impl PortType {
    /// The four bits of the type in the register.
    pub const fn encoding(self) -> u8 {
        self as u8
    }

    /// Decodes the four bits of the register; `None` for types that are not modelled.
    pub const fn from_encoding(bits: u8) -> Option<Self> {
        Self::from_repr(bits)
    }

    /// Whether the header is of type 1.
    pub const fn is_bridge(self) -> bool {
        !matches!(self, Self::Endpoint)
    }

    /// Whether the port is at the upper end of its link (PCIe "downstream port").
    pub const fn is_above_its_link(self) -> bool {
        matches!(self, Self::RootPort | Self::DownstreamPort)
    }
}

/// Identification registers of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class code, 24 bits: base class, sub-class, programming interface.
    pub class_code: u32,
    /// Revision ID.
    pub revision: u8,
    /// Subsystem vendor ID (endpoints).
    pub subsystem_vendor: u16,
    /// Subsystem ID (endpoints).
    pub subsystem: u16,
}

/// Capabilities that a function advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capability {
    /// Largest supported payload, bytes: 128, 256, 512, 1024, 2048 or 4096.
    pub max_payload_bytes: u16,
    /// Highest generation and width of the link.
    pub max_rate: LinkRate,
    /// Whether the function can use 8-bit tags as requester.
    pub extended_tags: bool,
    /// Whether the function can use 10-bit tags as requester, and answers them as completer.
    pub ten_bit_tags: bool,
    /// Whether the port has Access Control Services. Only root ports and downstream ports can have
    /// them (PCIe 6.x 6.12.1); other functions ignore this field.
    pub acs: bool,
}

impl Capability {
    /// Checks that the registers can encode the values.
    ///
    /// # Errors
    /// [`ConfigError::MaxPayload`] if the payload has no code.
    pub const fn check(&self) -> Result<(), ConfigError> {
        let bytes = self.max_payload_bytes;
        if bytes.is_power_of_two() && bytes >= 128 && bytes <= 4096 {
            Ok(())
        } else {
            Err(ConfigError::MaxPayload { bytes })
        }
    }
}

/// Error of building a configuration space.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// No BAR can express the size.
    #[error("BAR {index} asks for {size_bytes} bytes; a power of two of at least 128 is needed")]
    BarSize {
        /// Number of the BAR.
        index: usize,
        /// Size asked for, in bytes.
        size_bytes: u64,
    },
    /// A 32-bit BAR asks for more than half of its address space.
    #[error("BAR {index} asks for {size_bytes} bytes; a 32-bit BAR can ask for 2147483648")]
    BarTooLarge {
        /// Number of the BAR.
        index: usize,
        /// Size asked for, in bytes.
        size_bytes: u64,
    },
    /// A 64-bit BAR lacks its second register, which is taken or does not exist.
    #[error("BAR {index} is a 64-bit BAR, but the register after it is taken or does not exist")]
    BarPair {
        /// Number of the BAR.
        index: usize,
    },
    /// The Max_Payload_Size has no code.
    #[error("a largest payload of {bytes} bytes has no code; known are 128 to 4096, powers of two")]
    MaxPayload {
        /// Payload asked for, in bytes.
        bytes: u16,
    },
    /// The number of interrupt vectors has no code.
    #[error("an MSI-X table of {vectors} vectors; 1 to {MAX_MSIX_VECTORS} are possible")]
    MsixVectors {
        /// Vectors asked for.
        vectors: u16,
    },
    /// The MSI-X table or pending bits are misaligned, beyond the BAR, or overlap.
    #[error(
        "the {bytes} bytes of the MSI-X {part} cannot be at {offset_bytes:#x} of BAR {bar}: they \
         must be at a multiple of 8, within the BAR, and apart from the other part"
    )]
    MsixPlace {
        /// "table" or "pending bits".
        part: &'static str,
        /// Number of the BAR.
        bar: u8,
        /// Offset in the BAR, in bytes.
        offset_bytes: u32,
        /// Length in bytes.
        bytes: u32,
    },
    /// The class code has more than 24 bits.
    #[error("class code 0x{class_code:x} does not fit in 24 bits")]
    ClassCode {
        /// Class code asked for.
        class_code: u32,
    },
}

kinds!(ConfigError {
    _ => InvalidArgument,
});

/// Errors that a function records in its Device Status register (PCIe 6.x 7.5.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DetectedError {
    /// Corrected by hardware, such as a bad LCRC.
    Correctable = 0,
    /// Uncorrected; the link is still good.
    NonFatal = 1,
    /// Uncorrected; the link can no longer be trusted.
    Fatal = 2,
    /// A request that the function does not support.
    UnsupportedRequest = 3,
}

/// One double word, with masks of the bits that a write affects; all others are read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Register {
    value: u32,
    /// RW bits, which take the written value.
    writable: u32,
    /// RW1C bits, which a write of 1 clears.
    cleared_by_one: u32,
}

/// Number of double words kept: the compatible space and the ACS capability after it. All others
/// read 0.
const REGISTERS: usize = (registers::EXTENDED_SPACE as usize + 8) / 4;

/// Configuration space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    port_type: PortType,
    bar_requests: [Option<BarRequest>; 6],
    registers: [Register; REGISTERS],
}

impl ConfigSpace {
    /// Builds the space of an endpoint with a type 0 header. A 64-bit BAR takes its slot and the
    /// next one, which must be `None`.
    ///
    /// # Errors
    /// [`ConfigError`] if no register can express a BAR, the class code or the payload.
    pub fn endpoint(
        identity: Identity,
        capability: Capability,
        bars: [Option<BarRequest>; 6],
    ) -> Result<Self, ConfigError> {
        capability.check()?;
        if identity.class_code > 0xff_ffff {
            return Err(ConfigError::ClassCode { class_code: identity.class_code });
        }
        for (index, bar) in bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let size_bytes = bar.size_bytes;
            if !size_bytes.is_power_of_two() || size_bytes < MINIMUM_BAR_BYTES {
                return Err(ConfigError::BarSize { index, size_bytes });
            }
            if !bar.kind.is_64_bit() && size_bytes > 1 << 31 {
                return Err(ConfigError::BarTooLarge { index, size_bytes });
            }
            if bar.kind.is_64_bit() && bars.get(index + 1) != Some(&None) {
                return Err(ConfigError::BarPair { index });
            }
        }
        let mut space = Self::blank(PortType::Endpoint, bars);
        space.reset_endpoint_header(identity);
        space.reset_express_capability(capability);
        Ok(space)
    }

    /// Builds the space of a port of a root complex or switch, with a type 1 header.
    ///
    /// # Panics
    /// If `port_type` is an endpoint, the class code has more than 24 bits, or the capability fails
    /// [`Capability::check`].
    pub fn bridge(port_type: PortType, identity: Identity, capability: Capability) -> Self {
        assert!(port_type.is_bridge(), "an endpoint has no type 1 header");
        assert!(identity.class_code <= 0xff_ffff, "a class code has 24 bits");
        assert!(capability.check().is_ok(), "{capability:?} is not a capability");
        let mut space = Self::blank(port_type, [None; 6]);
        space.reset_bridge_header(identity);
        space.reset_express_capability(capability);
        if capability.acs && port_type.is_above_its_link() {
            space.reset_acs_capability();
        }
        space
    }

    fn blank(port_type: PortType, bar_requests: [Option<BarRequest>; 6]) -> Self {
        Self { port_type, bar_requests, registers: [Register::default(); REGISTERS] }
    }

    /// Reads the double word at `offset` (bytes; the low two bits are ignored, as a configuration
    /// request has none). Registers that are not implemented read 0 (PCIe 6.x 7.5.1).
    pub fn read(&self, offset: u16) -> u32 {
        self.registers.get(usize::from(offset / 4)).map_or(0, |register| register.value)
    }

    /// Writes the bytes of `value` selected by `byte_enables` (bit 0 = lowest) to the double word
    /// at `offset` (bytes; the low two bits are ignored). Read-only bits keep their value, and
    /// registers that are not implemented ignore the write.
    pub fn write(&mut self, offset: u16, value: u32, byte_enables: u8) {
        let Some(register) = self.registers.get_mut(usize::from(offset / 4)) else { return };
        let enabled = (0..4)
            .filter(|byte| byte_enables & 1 << byte != 0)
            .fold(0, |mask, byte| mask | 0xff << (8 * byte));
        let writable = register.writable & enabled;
        let cleared = register.cleared_by_one & enabled & value;
        register.value = (register.value & !writable & !cleared) | (value & writable);
    }
}
