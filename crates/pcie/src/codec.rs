// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as bytes.
//!
//! Read first: base specification 2.2 (formats), non-FLIT mode. A packet here is its header, in
//! big-endian double words, and its payload, without prefixes, ECRC, or the framing, sequence
//! number and LCRC of the layers below.
//!
//! The decoder is strict. Fields that [`Header`] does not hold (traffic class, address type,
//! processing hints, digest, reserved bits) must be 0, so that every decoded packet encodes to the
//! same bytes. Messages are refused in both directions because [`Header`] holds no message code;
//! type 1 configuration requests, locked reads, I/O and atomic operations are refused too.
//!
//! ```
//! use crosslane_pcie::tlp::Header;
//! use crosslane_pcie::{BusAddress, RoutingId, codec};
//!
//! let header = Header::memory_write(RoutingId::new(3, 0, 0), BusAddress(0xfe00_0001), 2);
//! let mut bytes = Vec::new();
//! codec::encode(&header, &[0, 0xaa, 0xbb, 0], &mut bytes)?;
//! assert_eq!(bytes[..4], [0x40, 0, 0, 1], "MWr with 3 DW header, one DW of data");
//! assert_eq!(codec::decode(&bytes)?, (header, &[0, 0xaa, 0xbb, 0][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::link::PAGE_BYTES;
use crate::tlp::{Attributes, CompletionStatus, Header, TlpKind};
use crate::units::{BusAddress, RoutingId, Tag};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// Longest payload and read, in DW (PCIe 6.x 2.2.2); coded as 0 in the ten bits of Length.
pub const MAX_LENGTH_DW: u16 = 1024;
/// Longest header without prefixes, bytes.
pub const MAX_HEADER_BYTES: usize = 16;

/// Fmt, bit 0: the header has four double words. (Bit 1: data follows; PCIe 6.x 2.2.1.)
const FMT_FOUR_DW: u8 = 0b001;
const FMT_DATA: u8 = 0b010;
/// Type of memory requests, type 0 configuration requests and completions (PCIe 6.x 2.2.1).
const TYPE_MEMORY: u8 = 0b0_0000;
const TYPE_CONFIGURATION_0: u8 = 0b0_0100;
const TYPE_COMPLETION: u8 = 0b0_1010;

/// Format rule that a header breaks, found while encoding or decoding.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// The length is not allowed for this kind.
    #[error("{kind:?} with a length of {length_dw} DW; it can have {least} to {most}")]
    Length {
        /// Kind of the TLP.
        kind: TlpKind,
        /// Length in the header.
        length_dw: u16,
        /// Smallest length allowed.
        least: u16,
        /// Largest length allowed.
        most: u16,
    },
    /// The byte enables do not match the length (PCIe 6.x 2.2.5).
    #[error("byte enables first {first:04b} and last {last:04b} do not go with {length_dw} DW")]
    ByteEnables {
        /// Byte enables of the first DW.
        first: u8,
        /// Byte enables of the last DW.
        last: u8,
        /// Length of the request in DW.
        length_dw: u16,
    },
    /// The address does not point at the first enabled byte.
    #[error("address {address} is not that of the first byte enabled by {first:04b}")]
    FirstByte {
        /// Address in the header.
        address: BusAddress,
        /// Byte enables of the first DW.
        first: u8,
    },
    /// The request crosses a 4 KiB boundary (PCIe 6.x 2.2.7).
    #[error("{length_dw} DW at {address} cross a 4 KiB boundary")]
    PageCrossing {
        /// Address of the request's first byte.
        address: BusAddress,
        /// Length of the request in DW.
        length_dw: u16,
    },
    /// The tag has more than ten bits (PCIe 6.x 2.2.6.2).
    #[error("tag {tag} does not fit in ten bits")]
    Tag {
        /// Tag in the header.
        tag: u16,
    },
    /// The byte count is outside 1 to 4096 (PCIe 6.x 2.2.9.1).
    #[error("a byte count of {byte_count}; a completion can have 1 to 4096")]
    ByteCount {
        /// Byte count in the header.
        byte_count: u16,
    },
    /// The address of a completion has more than seven bits.
    #[error("the lower address {address} of a completion has more than seven bits")]
    LowerAddress {
        /// Address in the header.
        address: BusAddress,
    },
    /// The register offset of a configuration request is not that of a DW in configuration space.
    #[error("register offset {offset} is not that of a DW of configuration space")]
    RegisterOffset {
        /// Offset in the header.
        offset: BusAddress,
    },
    /// A configuration request has an attribute set (PCIe 6.x 2.2.7.1.2 requires all to be 0).
    #[error("a configuration request must have no attributes")]
    ConfigurationAttributes,
}

/// Error of [`encode`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EncodeError {
    /// The header breaks a format rule.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The payload's length differs from the header's.
    #[error("a payload of {payload_bytes} bytes under a header that says {header_bytes}")]
    PayloadLength {
        /// Length of the payload in bytes.
        payload_bytes: usize,
        /// Length that the header states, in bytes.
        header_bytes: u32,
    },
    /// The TLP is a message, and the header holds no message code.
    #[error("a message cannot be encoded: its code and routing are not in the header")]
    Message,
}

/// Error of [`decode`]. Offsets are in bytes from the start of the header.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The header breaks a format rule.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The packet is shorter than its header and length require.
    #[error("the packet ends after {have_bytes} bytes; {needed_bytes} are needed")]
    TooShort {
        /// Bytes required.
        needed_bytes: usize,
        /// Bytes given.
        have_bytes: usize,
    },
    /// The packet is longer than its header and length allow.
    #[error("the packet has {have_bytes} bytes, but header and payload are {expected_bytes}")]
    TooLong {
        /// Length of header and payload in bytes.
        expected_bytes: usize,
        /// Bytes given.
        have_bytes: usize,
    },
    /// The format and type are not modelled; this includes prefixes.
    #[error(
        "byte 0 is 0x{byte:02x}: format {:03b}, type {:05b} is not known here",
        byte >> 5,
        byte & 0x1f
    )]
    UnknownType {
        /// First byte of the header.
        byte: u8,
    },
    /// A field that must be 0 is not: reserved, or not held by [`Header`].
    #[error("{field} at byte {offset} is {value}; it must be 0")]
    NotZero {
        /// Name of the field.
        field: &'static str,
        /// Offset of the byte that holds its lowest bit.
        offset: usize,
        /// Value of the field.
        value: u16,
    },
    /// A 4 DW header has an address below 4 GiB (PCIe 6.x 2.2.4.1).
    #[error("address {address} is below 4 GiB, but the header has four DW")]
    LongAddress {
        /// Address of the first DW.
        address: BusAddress,
    },
    /// The completion status is reserved (PCIe 6.x 2.2.9.1).
    #[error("completion status {status:03b} at byte 6 is reserved")]
    Status {
        /// The three status bits.
        status: u8,
    },
}

/// Appends the packet to `out`, which stays unchanged on an error.
///
/// Fields that the kind does not have are ignored.
///
/// # Errors
/// [`EncodeError`] if the header breaks a rule, the payload's length differs from the header's, or
/// the TLP is a message.
pub fn encode(header: &Header, payload: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if header.kind == TlpKind::Message {
        return Err(EncodeError::Message);
    }
    check(header)?;
    if payload.len() != header.payload_bytes() as usize {
        return Err(EncodeError::PayloadLength {
            payload_bytes: payload.len(),
            header_bytes: header.payload_bytes(),
        });
    }
    let mut bytes = [0; MAX_HEADER_BYTES];
    let header_bytes = header.header_dw() as usize * 4;
    encode_first_dw(header, &mut bytes);
    let tag = header.tag.0.to_be_bytes()[1];
    let byte_enables = header.last_byte_enables << 4 | header.first_byte_enables;
    match header.kind {
        TlpKind::MemoryWrite | TlpKind::MemoryRead => {
            bytes[4..6].copy_from_slice(&header.requester.0.to_be_bytes());
            bytes[6..8].copy_from_slice(&[tag, byte_enables]);
            let address = (header.address.0 & !3).to_be_bytes();
            let low =
                if header.address.needs_four_dw_header() { &address[..] } else { &address[4..] };
            bytes[8..header_bytes].copy_from_slice(low);
        }
        TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => {
            bytes[4..6].copy_from_slice(&header.requester.0.to_be_bytes());
            bytes[6..8].copy_from_slice(&[tag, byte_enables]);
            bytes[8..10].copy_from_slice(&header.completer.0.to_be_bytes());
            bytes[10..12].copy_from_slice(&(header.address.0 as u16).to_be_bytes());
        }
        TlpKind::Completion | TlpKind::CompletionData => {
            bytes[4..6].copy_from_slice(&header.completer.0.to_be_bytes());
            // 4096 is coded as 0 (PCIe 6.x 2.2.9.1).
            let count = (header.byte_count & 0xfff) | (header.status as u16) << 13;
            bytes[6..8].copy_from_slice(&count.to_be_bytes());
            bytes[8..10].copy_from_slice(&header.requester.0.to_be_bytes());
            bytes[10..12].copy_from_slice(&[tag, header.address.0 as u8]);
        }
        TlpKind::Message => unreachable!("refused above"),
    }
    out.extend_from_slice(&bytes[..header_bytes]);
    out.extend_from_slice(payload);
    Ok(())
}

/// Encodes the double word that begins every header (PCIe 6.x 2.2.1.1).
fn encode_first_dw(header: &Header, bytes: &mut [u8; MAX_HEADER_BYTES]) {
    let packet_type = match header.kind {
        TlpKind::MemoryWrite | TlpKind::MemoryRead => TYPE_MEMORY,
        TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => TYPE_CONFIGURATION_0,
        TlpKind::Completion | TlpKind::CompletionData => TYPE_COMPLETION,
        TlpKind::Message => unreachable!("refused by the caller"),
    };
    let data = if header.has_data() { FMT_DATA } else { 0 };
    let long = if header.header_dw() == 4 { FMT_FOUR_DW } else { 0 };
    bytes[0] = (data | long) << 5 | packet_type;
    let tag = header.tag.0;
    let attributes = header.attributes;
    bytes[1] = ((tag >> 9 & 1) as u8) << 7
        | ((tag >> 8 & 1) as u8) << 3
        | u8::from(attributes.id_based_ordering) << 2;
    // 1024 is coded as 0 (PCIe 6.x 2.2.2).
    let [length_high, length_low] = (header.length_dw & 0x3ff).to_be_bytes();
    bytes[2] = u8::from(header.poisoned) << 6
        | u8::from(attributes.relaxed_ordering) << 5
        | u8::from(attributes.no_snoop) << 4
        | length_high;
    bytes[3] = length_low;
}

/// Decodes the one packet in `bytes` to its header and its payload, a slice of `bytes`.
///
/// # Errors
/// See [`DecodeError`]. Never panics, whatever the bytes.
pub fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), DecodeError> {
    // Twelve bytes are the shortest header; the first byte says if it is longer.
    let &[first, ..] = need(bytes, 12)?;
    let format = first >> 5;
    let has_data = format & FMT_DATA != 0;
    let has_four_dw = format & FMT_FOUR_DW != 0;
    let kind = match (first & 0x1f, has_data) {
        (TYPE_MEMORY, true) => TlpKind::MemoryWrite,
        (TYPE_MEMORY, false) => TlpKind::MemoryRead,
        (TYPE_CONFIGURATION_0, true) => TlpKind::ConfigurationWrite,
        (TYPE_CONFIGURATION_0, false) => TlpKind::ConfigurationRead,
        (TYPE_COMPLETION, true) => TlpKind::CompletionData,
        (TYPE_COMPLETION, false) => TlpKind::Completion,
        _ => return Err(DecodeError::UnknownType { byte: first }),
    };
    if format > (FMT_DATA | FMT_FOUR_DW) || (has_four_dw && !kind.is_routed_by_address()) {
        return Err(DecodeError::UnknownType { byte: first });
    }
    let header_bytes = if has_four_dw { 16 } else { 12 };
    need(bytes, header_bytes)?;
    let mut header = decode_first_dw(kind, bytes)?;
    match kind {
        TlpKind::MemoryWrite | TlpKind::MemoryRead => {
            decode_memory(&mut header, bytes, has_four_dw)?;
        }
        TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => {
            decode_configuration(&mut header, bytes)?;
        }
        TlpKind::Completion | TlpKind::CompletionData => decode_completion(&mut header, bytes)?,
        TlpKind::Message => unreachable!("no message is decoded"),
    }
    check(&header)?;
    let expected_bytes = header_bytes + header.payload_bytes() as usize;
    need(bytes, expected_bytes)?;
    if bytes.len() > expected_bytes {
        return Err(DecodeError::TooLong { expected_bytes, have_bytes: bytes.len() });
    }
    Ok((header, &bytes[header_bytes..]))
}

/// Checks that at least `needed_bytes` are present.
fn need(bytes: &[u8], needed_bytes: usize) -> Result<&[u8; 12], DecodeError> {
    let too_short = DecodeError::TooShort { needed_bytes, have_bytes: bytes.len() };
    if bytes.len() < needed_bytes {
        return Err(too_short);
    }
    bytes.first_chunk().ok_or(too_short)
}

fn zero(field: &'static str, offset: usize, value: u16) -> Result<(), DecodeError> {
    if value == 0 { Ok(()) } else { Err(DecodeError::NotZero { field, offset, value }) }
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes([bytes[offset], bytes[offset + 1]])
}

/// Decodes the double word that begins every header; all other fields stay 0.
fn decode_first_dw(kind: TlpKind, bytes: &[u8]) -> Result<Header, DecodeError> {
    let (second, third) = (bytes[1], bytes[2]);
    zero("traffic class", 1, u16::from(second >> 4 & 7))?;
    zero("lightweight notification or reserved bit", 1, u16::from(second >> 1 & 1))?;
    zero("processing hint", 1, u16::from(second & 1))?;
    zero("digest", 2, u16::from(third >> 7))?;
    zero("address type", 2, u16::from(third >> 2 & 3))?;
    let mut length_dw = u16_at(bytes, 2) & 0x3ff;
    if kind == TlpKind::Completion {
        zero("length of a completion without data", 3, length_dw)?;
    } else if length_dw == 0 {
        length_dw = MAX_LENGTH_DW;
    }
    let tag_high = u16::from(second >> 7) << 9 | u16::from(second >> 3 & 1) << 8;
    Ok(Header {
        kind,
        attributes: Attributes {
            relaxed_ordering: third & 1 << 5 != 0,
            no_snoop: third & 1 << 4 != 0,
            id_based_ordering: second & 1 << 2 != 0,
        },
        poisoned: third & 1 << 6 != 0,
        status: CompletionStatus::Successful,
        first_byte_enables: 0,
        last_byte_enables: 0,
        length_dw,
        requester: RoutingId(0),
        completer: RoutingId(0),
        tag: Tag(tag_high),
        byte_count: 0,
        address: BusAddress(0),
    })
}

/// Decodes requester, tag and byte enables, common to all requests (PCIe 6.x 2.2.5, 2.2.6).
fn decode_request(header: &mut Header, bytes: &[u8]) {
    header.requester = RoutingId(u16_at(bytes, 4));
    header.tag.0 |= u16::from(bytes[6]);
    header.last_byte_enables = bytes[7] >> 4;
    header.first_byte_enables = bytes[7] & 0xf;
}

fn decode_memory(header: &mut Header, bytes: &[u8], has_four_dw: bool) -> Result<(), DecodeError> {
    decode_request(header, bytes);
    let dw = |offset| u64::from(u16_at(bytes, offset)) << 16 | u64::from(u16_at(bytes, offset + 2));
    let (last_dw, high) = if has_four_dw { (12, dw(8) << 32) } else { (8, 0) };
    zero("address bits 1:0", last_dw + 3, u16::from(bytes[last_dw + 3] & 3))?;
    let address = BusAddress(high | dw(last_dw));
    if has_four_dw && !address.needs_four_dw_header() {
        return Err(DecodeError::LongAddress { address });
    }
    header.address = address.offset(first_byte_offset(header.first_byte_enables));
    Ok(())
}

fn decode_configuration(header: &mut Header, bytes: &[u8]) -> Result<(), DecodeError> {
    decode_request(header, bytes);
    header.completer = RoutingId(u16_at(bytes, 8));
    zero("reserved bits", 10, u16::from(bytes[10] >> 4))?;
    zero("reserved bits", 11, u16::from(bytes[11] & 3))?;
    header.address = BusAddress(u16_at(bytes, 10).into());
    Ok(())
}

fn decode_completion(header: &mut Header, bytes: &[u8]) -> Result<(), DecodeError> {
    header.completer = RoutingId(u16_at(bytes, 4));
    header.status = match bytes[6] >> 5 {
        0 => CompletionStatus::Successful,
        1 => CompletionStatus::UnsupportedRequest,
        2 => CompletionStatus::ConfigurationRetry,
        4 => CompletionStatus::CompleterAbort,
        status => return Err(DecodeError::Status { status }),
    };
    zero("byte count modified", 6, u16::from(bytes[6] >> 4 & 1))?;
    header.byte_count = match u16_at(bytes, 6) & 0xfff {
        0 => 4096,
        count => count,
    };
    header.requester = RoutingId(u16_at(bytes, 8));
    header.tag.0 |= u16::from(bytes[10]);
    zero("reserved bit", 11, u16::from(bytes[11] >> 7))?;
    header.address = BusAddress(bytes[11].into());
    Ok(())
}

/// Offset of the first enabled byte in its DW; 0 if none is enabled.
fn first_byte_offset(first_byte_enables: u8) -> u64 {
    if first_byte_enables == 0 { 0 } else { first_byte_enables.trailing_zeros().into() }
}

/// Checks the rules that hold for encoding and decoding alike.
fn check(header: &Header) -> Result<(), HeaderError> {
    let &Header { kind, length_dw, address, .. } = header;
    let (least, most) = match kind {
        TlpKind::Completion => (0, 0),
        TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => (1, 1),
        _ => (1, MAX_LENGTH_DW),
    };
    if !(least..=most).contains(&length_dw) {
        return Err(HeaderError::Length { kind, length_dw, least, most });
    }
    if header.tag.0 > 0x3ff {
        return Err(HeaderError::Tag { tag: header.tag.0 });
    }
    match kind {
        TlpKind::Completion | TlpKind::CompletionData => {
            if !(1..=4096).contains(&header.byte_count) {
                return Err(HeaderError::ByteCount { byte_count: header.byte_count });
            }
            if address.0 > 0x7f {
                return Err(HeaderError::LowerAddress { address });
            }
        }
        TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite => {
            check_byte_enables(header)?;
            if address.0 > 0xffc || !address.0.is_multiple_of(4) {
                return Err(HeaderError::RegisterOffset { offset: address });
            }
            if header.attributes != Attributes::default() {
                return Err(HeaderError::ConfigurationAttributes);
            }
        }
        TlpKind::MemoryWrite | TlpKind::MemoryRead | TlpKind::Message => {
            check_byte_enables(header)?;
            let first = header.first_byte_enables;
            if address.0 % 4 != first_byte_offset(first) {
                return Err(HeaderError::FirstByte { address, first });
            }
            if (address.0 & !3) % PAGE_BYTES + u64::from(length_dw) * 4 > PAGE_BYTES {
                return Err(HeaderError::PageCrossing { address, length_dw });
            }
        }
    }
    Ok(())
}

/// Checks byte enables against length (PCIe 6.x 2.2.5): a request of one DW has no last enables;
/// longer ones need some in both. Gaps are allowed in one DW, and in an aligned pair of DW.
fn check_byte_enables(header: &Header) -> Result<(), HeaderError> {
    let (first, last) = (header.first_byte_enables, header.last_byte_enables);
    let length_dw = header.length_dw;
    let is_in_four_bits = first <= 0xf && last <= 0xf;
    let has_no_holes = matches!(first, 0b1000 | 0b1100 | 0b1110 | 0b1111)
        && matches!(last, 0b0001 | 0b0011 | 0b0111 | 0b1111);
    let is_legal = match length_dw {
        1 => last == 0,
        2 if header.address.0 & 4 == 0 => first != 0 && last != 0,
        _ => has_no_holes,
    };
    if is_in_four_bits && is_legal {
        Ok(())
    } else {
        Err(HeaderError::ByteEnables { first, last, length_dw })
    }
}
