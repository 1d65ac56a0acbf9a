// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transaction layer packets as values.
//!
//! Read first: base specification 2.2 (packet formats) and 2.3 (handling of received TLPs).

use crate::link::TLP_FRAMING_BYTES;
use crate::units::{BusAddress, RoutingId, Tag};

pub mod layout;
#[cfg(test)]
mod tests;

/// Types of TLP that the fabric carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TlpKind {
    /// MWr: posted, with data.
    MemoryWrite,
    /// MRd: non-posted, without data.
    MemoryRead,
    /// Cpl: completion without data (an error, or the answer to a non-posted write).
    Completion,
    /// CplD: completion with data.
    CompletionData,
    /// CfgRd0 and CfgRd1.
    ConfigurationRead,
    /// CfgWr0 and CfgWr1: non-posted, with data.
    ConfigurationWrite,
    /// Msg and MsgD: posted.
    Message,
}

/// The three flow-control and ordering classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Memory writes and messages.
    Posted = 0,
    /// Reads, and configuration and I/O requests.
    NonPosted = 1,
    /// Completions.
    Completion = 2,
}

impl Class {
    /// All classes in the order of their indices.
    pub const ALL: [Self; 3] = [Self::Posted, Self::NonPosted, Self::Completion];

    /// Index of the class in a table of three.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl TlpKind {
    /// Flow-control class of this kind.
    #[inline]
    pub const fn class(self) -> Class {
        match self {
            Self::MemoryWrite | Self::Message => Class::Posted,
            Self::MemoryRead | Self::ConfigurationRead | Self::ConfigurationWrite => {
                Class::NonPosted
            }
            Self::Completion | Self::CompletionData => Class::Completion,
        }
    }

    /// Whether the kind is routed by address (memory requests) rather than by ID.
    #[inline]
    pub const fn is_routed_by_address(self) -> bool {
        matches!(self, Self::MemoryWrite | Self::MemoryRead)
    }
}

/// Completion Status (PCIe 6.x 2.2.9.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionStatus {
    /// SC: the request was carried out.
    #[default]
    Successful = 0,
    /// UR: the request is unclaimed or unsupported.
    UnsupportedRequest = 1,
    /// CRS: the function is not ready yet (configuration requests only).
    ConfigurationRetry = 2,
    /// CA: the completer refuses the request.
    CompleterAbort = 4,
}

/// Attributes of a TLP that affect ordering or caching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// RO: the TLP may pass posted writes in front of it.
    pub relaxed_ordering: bool,
    /// NS: no snoop is needed. Carried, but without effect in the fabric.
    pub no_snoop: bool,
    /// IDO: the TLP is not ordered against those of other requesters.
    pub id_based_ordering: bool,
}

/// The header of a TLP as a flat structure. Fields that a kind does not have are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Type of the TLP.
    pub kind: TlpKind,
    /// Ordering and caching attributes.
    pub attributes: Attributes,
    /// EP: the payload is known to be bad.
    pub poisoned: bool,
    /// Completion status (completions).
    pub status: CompletionStatus,
    /// Byte enables of the first DW, bit 0 = lowest byte (requests).
    pub first_byte_enables: u8,
    /// Byte enables of the last DW; 0 if the request has only one DW (requests).
    pub last_byte_enables: u8,
    /// Length in DW, 1 to 1024; 0 for a completion without data.
    pub length_dw: u16,
    /// Function that sent the request. Completions are routed by it.
    pub requester: RoutingId,
    /// Function that answers (completions), or the target (configuration requests).
    pub completer: RoutingId,
    /// Transaction tag, which joins a completion to its request.
    pub tag: Tag,
    /// Bytes of the request still to come, including this completion, 1 to 4096 (completions).
    pub byte_count: u16,
    /// Address of the first enabled byte (requests), its low seven bits (completions), or the
    /// register offset (configuration requests).
    pub address: BusAddress,
}

impl Header {
    /// Builds a memory write of `length_bytes` (1 to 4096) to `address`, at any alignment. It must
    /// not cross a 4 KiB boundary.
    #[inline]
    pub fn memory_write(requester: RoutingId, address: BusAddress, length_bytes: u32) -> Self {
        Self::memory_request(TlpKind::MemoryWrite, requester, Tag(0), address, length_bytes)
    }

    /// Builds a memory read of `length_bytes` (1 to 4096) from `address`, at any alignment.
    #[inline]
    pub fn memory_read(
        requester: RoutingId,
        tag: Tag,
        address: BusAddress,
        length_bytes: u32,
    ) -> Self {
        Self::memory_request(TlpKind::MemoryRead, requester, tag, address, length_bytes)
    }

    #[inline]
    fn memory_request(
        kind: TlpKind,
        requester: RoutingId,
        tag: Tag,
        address: BusAddress,
        length_bytes: u32,
    ) -> Self {
        let (length_dw, first_byte_enables, last_byte_enables) = dw_span(address, length_bytes);
        Self {
            kind,
            attributes: Attributes::default(),
            poisoned: false,
            status: CompletionStatus::Successful,
            first_byte_enables,
            last_byte_enables,
            length_dw,
            requester,
            completer: RoutingId(0),
            tag,
            byte_count: 0,
            address,
        }
    }

    /// Builds the completion that answers `request` with the `length_bytes` of data at `address`
    /// (the full address; its low seven bits are kept) when `remaining_bytes` of the request are
    /// still to come.
    #[inline]
    pub fn completion_data(
        request: &Self,
        completer: RoutingId,
        address: BusAddress,
        length_bytes: u32,
        remaining_bytes: u32,
    ) -> Self {
        let (length_dw, ..) = dw_span(address, length_bytes);
        Self {
            kind: TlpKind::CompletionData,
            attributes: request.attributes,
            poisoned: false,
            status: CompletionStatus::Successful,
            first_byte_enables: 0,
            last_byte_enables: 0,
            length_dw,
            requester: request.requester,
            completer,
            tag: request.tag,
            // A zero-length read has a byte count of one (PCIe 6.x 2.3.1.1).
            byte_count: remaining_bytes.max(1) as u16,
            address: BusAddress(address.0 & 0x7f),
        }
    }

    /// Builds the completion without data that answers `request` with `status`: a refusal, or the
    /// success of a configuration write.
    ///
    /// For a read, it carries the byte count and lower address of the whole read; for other
    /// requests, a byte count of 4 and a lower address of 0 (PCIe 6.x 2.2.9.1).
    pub fn completion_error(
        request: &Self,
        completer: RoutingId,
        status: CompletionStatus,
    ) -> Self {
        let (byte_count, address) = match request.kind {
            TlpKind::MemoryRead => (request.request_bytes().max(1), request.address.0 & 0x7f),
            _ => (4, 0),
        };
        Self {
            kind: TlpKind::Completion,
            status,
            poisoned: false,
            first_byte_enables: 0,
            last_byte_enables: 0,
            length_dw: 0,
            completer,
            byte_count: byte_count as u16,
            address: BusAddress(address),
            ..*request
        }
    }

    /// Flow-control class of the TLP.
    #[inline]
    pub const fn class(&self) -> Class {
        self.kind.class()
    }

    /// Whether the TLP carries a payload.
    #[inline]
    pub const fn has_data(&self) -> bool {
        matches!(
            self.kind,
            TlpKind::MemoryWrite | TlpKind::CompletionData | TlpKind::ConfigurationWrite
        ) || matches!(self.kind, TlpKind::Message if self.length_dw > 0)
    }

    /// Payload length on the wire in bytes: whole DW, disabled bytes included.
    #[inline]
    pub const fn payload_bytes(&self) -> u32 {
        if self.has_data() { self.length_dw as u32 * 4 } else { 0 }
    }

    /// Header length in DW as sent: 4 for messages and memory requests at or above 4 GiB, otherwise
    /// 3.
    #[inline]
    pub const fn header_dw(&self) -> u32 {
        match self.kind {
            TlpKind::Message => 4,
            TlpKind::MemoryWrite | TlpKind::MemoryRead if self.address.needs_four_dw_header() => 4,
            _ => 3,
        }
    }

    /// Length of the TLP on the wire in bytes: framing, sequence number, header, payload, LCRC.
    #[inline]
    pub const fn wire_bytes(&self) -> u32 {
        TLP_FRAMING_BYTES + self.header_dw() * 4 + self.payload_bytes()
    }

    /// Bytes that a memory request asks for or writes according to its byte enables: from the first
    /// enabled byte of the first DW to the last enabled byte of the last DW.
    #[inline]
    pub const fn request_bytes(&self) -> u32 {
        if self.length_dw == 0 {
            return 0;
        }
        let first = self.first_byte_enables;
        if self.last_byte_enables == 0 {
            if first == 0 {
                return 0;
            }
            return 8 - first.leading_zeros() - first.trailing_zeros();
        }
        self.length_dw as u32 * 4
            - first.trailing_zeros()
            - (self.last_byte_enables.leading_zeros() - 4)
    }
}

/// Number of DW that `length_bytes` at `address` span, with the byte enables of the first and last
/// one (PCIe 6.x 2.2.5).
#[inline]
const fn dw_span(address: BusAddress, length_bytes: u32) -> (u16, u8, u8) {
    let skip = (address.0 & 3) as u32;
    let end = skip + length_bytes;
    let dw = end.div_ceil(4);
    let first = (0xf_u8 << skip) & 0xf;
    let last = 0xf_u8 >> ((4 - (end & 3)) & 3);
    if length_bytes == 0 {
        (1, 0, 0)
    } else if dw == 1 {
        (1, first & last, 0)
    } else {
        (dw as u16, first, last)
    }
}
