// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as bytes, in the order of the specification: header (PCIe 6.x 2.2.1, without FLIT mode),
//! then payload, lowest address first. Framing, sequence number and LCRC are the link's and left
//! out, as are prefixes and the digest.
//!
//! [`read`] takes what the fabric carries from an endpoint: memory requests and completions of
//! traffic class 0. It refuses everything else, with the field and its value.

use thiserror::Error;

use super::{Attributes, CompletionStatus, Header, TlpKind};
use crate::kinds;
use crate::units::{BusAddress, RoutingId, Tag};

/// Fmt, the upper three bits, and Type of the TLPs that are read (PCIe 6.x 2.2.1).
const MEMORY_READ: u8 = 0x00;
const MEMORY_READ_64: u8 = 0x20;
const MEMORY_WRITE: u8 = 0x40;
const MEMORY_WRITE_64: u8 = 0x60;
const COMPLETION: u8 = 0x0a;
const COMPLETION_DATA: u8 = 0x4a;
/// Those that are only written.
const CONFIGURATION_READ: u8 = 0x04;
const CONFIGURATION_WRITE: u8 = 0x44;
const MESSAGE: u8 = 0x30;
/// Fmt bit: a header of 4 DW.
const FOUR_DW: u8 = 0x20;
/// Fmt bit: a payload follows.
const WITH_DATA: u8 = 0x40;

/// Bytes of a short header and of a long one.
const SHORT_BYTES: usize = 12;
const LONG_BYTES: usize = 16;
/// Bytes of a page, which no request may cross the end of (PCIe 6.x 2.2.7).
const PAGE_BYTES: u64 = 4096;

/// A TLP that cannot be read from bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The bytes are fewer or more than the header says.
    #[error("a TLP of {expected} B by its header has {found} B")]
    Length {
        /// Bytes that there are.
        found: usize,
        /// Bytes of header and payload; of a header that is not whole, the fewest.
        expected: usize,
    },
    /// Fmt and Type are those of a TLP that endpoints of a lab do not send.
    #[error(
        "a TLP of Fmt {fmt:#05b} and Type {tlp_type:#07b}: MRd, MWr, Cpl and CplD are possible"
    )]
    Kind {
        /// Fmt.
        fmt: u8,
        /// Type.
        tlp_type: u8,
    },
    /// A field asks for something that labs do not have.
    #[error("{field} is {value}: labs have none but 0")]
    Unsupported {
        /// Name of the field.
        field: &'static str,
        /// Value.
        value: u8,
    },
    /// The fields contradict the specification or each other.
    #[error("a malformed TLP: {0}")]
    Malformed(String),
}

kinds!(LayoutError {
    Self::Length { .. } | Self::Malformed(_) => Data,
    Self::Kind { .. } | Self::Unsupported { .. } => Unsupported,
});

const fn fmt_and_type(header: &Header) -> u8 {
    let byte = match header.kind {
        TlpKind::MemoryRead => MEMORY_READ,
        TlpKind::MemoryWrite => MEMORY_WRITE,
        TlpKind::Completion => COMPLETION,
        TlpKind::CompletionData => COMPLETION_DATA,
        TlpKind::ConfigurationRead => CONFIGURATION_READ,
        TlpKind::ConfigurationWrite => CONFIGURATION_WRITE,
        TlpKind::Message if header.length_dw > 0 => MESSAGE | WITH_DATA,
        TlpKind::Message => MESSAGE,
    };
    if header.header_dw() == 4 { byte | FOUR_DW } else { byte }
}

/// Appends a TLP to `out`: its header, then `payload`, whole DW.
pub fn write(header: &Header, payload: &[u8], out: &mut Vec<u8>) {
    let Attributes { relaxed_ordering, no_snoop, id_based_ordering } = header.attributes;
    let (tag, length) = (header.tag.0, header.length_dw % 1024);
    out.push(fmt_and_type(header));
    let high_tag = (tag >> 9 & 1) << 7 | (tag >> 8 & 1) << 3;
    out.push(high_tag as u8 | u8::from(id_based_ordering) << 2);
    let attributes = u8::from(relaxed_ordering) << 5 | u8::from(no_snoop) << 4;
    out.push(u8::from(header.poisoned) << 6 | attributes | (length >> 8) as u8);
    out.push(length as u8);
    match header.kind {
        TlpKind::Completion | TlpKind::CompletionData => {
            out.extend(header.completer.0.to_be_bytes());
            let count = header.byte_count % 4096;
            out.extend((u16::from(header.status as u8) << 13 | count).to_be_bytes());
            out.extend(header.requester.0.to_be_bytes());
            out.extend([tag as u8, header.address.0 as u8 & 0x7f]);
        }
        _ => {
            out.extend(header.requester.0.to_be_bytes());
            let enables = header.last_byte_enables << 4 | header.first_byte_enables;
            out.extend([tag as u8, enables]);
            match header.kind {
                TlpKind::MemoryRead | TlpKind::MemoryWrite => {
                    let address = (header.address.0 & !3).to_be_bytes();
                    out.extend(if header.header_dw() == 4 { &address[..] } else { &address[4..] });
                }
                TlpKind::Message => out.extend([0; 8]),
                _ => {
                    out.extend(header.completer.0.to_be_bytes());
                    out.extend((header.address.0 as u16 & 0xffc).to_be_bytes());
                }
            }
        }
    }
    out.extend(payload);
}

/// Reads a TLP, which is all of `bytes`. Returns its header and its payload.
///
/// # Errors
/// [`LayoutError`].
pub fn read(bytes: &[u8]) -> Result<(Header, &[u8]), LayoutError> {
    let short = |expected| LayoutError::Length { found: bytes.len(), expected };
    let Some((&[first, second, third, fourth], _)) = bytes.split_first_chunk() else {
        return Err(short(SHORT_BYTES));
    };
    let kind = match first {
        MEMORY_READ | MEMORY_READ_64 => TlpKind::MemoryRead,
        MEMORY_WRITE | MEMORY_WRITE_64 => TlpKind::MemoryWrite,
        COMPLETION => TlpKind::Completion,
        COMPLETION_DATA => TlpKind::CompletionData,
        _ => return Err(LayoutError::Kind { fmt: first >> 5, tlp_type: first & 0x1f }),
    };
    for (field, value) in [
        ("the traffic class", second >> 4 & 7),
        ("TH", second & 1),
        ("LN", second >> 1 & 1),
        ("TD", third >> 7),
        ("AT", third >> 2 & 3),
    ] {
        if value != 0 {
            return Err(LayoutError::Unsupported { field, value });
        }
    }
    let coded = u16::from(third & 3) << 8 | u16::from(fourth);
    let length_dw = if coded == 0 { 1024 } else { coded };
    let header_bytes = if first & FOUR_DW == 0 { SHORT_BYTES } else { LONG_BYTES };
    let payload_bytes = if first & WITH_DATA == 0 { 0 } else { usize::from(length_dw) * 4 };
    if bytes.len() != header_bytes + payload_bytes {
        return Err(short(header_bytes + payload_bytes));
    }
    let (fields, payload) = bytes.split_at(header_bytes);
    let half = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
    let high_tag = u16::from(second >> 7) << 9 | u16::from(second >> 3 & 1) << 8;
    let header = Header {
        kind,
        attributes: Attributes {
            relaxed_ordering: third >> 5 & 1 != 0,
            no_snoop: third >> 4 & 1 != 0,
            id_based_ordering: second >> 2 & 1 != 0,
        },
        poisoned: third >> 6 & 1 != 0,
        status: CompletionStatus::Successful,
        first_byte_enables: 0,
        last_byte_enables: 0,
        length_dw,
        requester: RoutingId(half(4)),
        completer: RoutingId(0),
        tag: Tag(high_tag | u16::from(fields[6])),
        byte_count: 0,
        address: BusAddress(0),
    };
    match kind {
        TlpKind::MemoryRead | TlpKind::MemoryWrite => {
            let low = u64::from(half(header_bytes - 4)) << 16 | u64::from(half(header_bytes - 2));
            let high = u64::from(half(8)) << 16 | u64::from(half(10));
            let address = if header_bytes == LONG_BYTES { high << 32 | low } else { low };
            if header_bytes == LONG_BYTES && !BusAddress(address).needs_four_dw_header() {
                let what = format!("a header of 4 DW for {address:#x}, which is below 4 GiB");
                return Err(LayoutError::Malformed(what));
            }
            memory_request(header, fields[7], address)
        }
        _ => {
            let [low_tag, lower_address] = half(10).to_be_bytes();
            let tag = Tag(high_tag | u16::from(low_tag));
            let length_dw = if kind == TlpKind::CompletionData { length_dw } else { coded };
            let header = Header {
                length_dw,
                requester: RoutingId(half(8)),
                completer: RoutingId(half(4)),
                tag,
                ..header
            };
            completion(header, half(6), lower_address)
        }
    }
    .map(|header| (header, payload))
}

fn malformed<T>(what: impl Into<String>) -> Result<T, LayoutError> {
    Err(LayoutError::Malformed(what.into()))
}

/// Completes the header of a memory request with its byte enables and its address as they are in
/// the TLP.
fn memory_request(header: Header, enables: u8, address: u64) -> Result<Header, LayoutError> {
    let (first, last, length_dw) = (enables & 0xf, enables >> 4, header.length_dw);
    if address & 3 != 0 {
        return Err(LayoutError::Unsupported { field: "PH", value: (address & 3) as u8 });
    }
    let is_run =
        |mask: u8| (mask >> mask.trailing_zeros().min(4)).wrapping_add(1).is_power_of_two();
    // The bytes of a request are one run (PCIe 6.x 2.2.5 allows others within two DW).
    let is_one_run = match length_dw {
        1 => last == 0 && is_run(first),
        _ => first >> 3 == 1 && is_run(first) && last & 1 == 1 && is_run(last),
    };
    if !is_one_run {
        return malformed(format!(
            "byte enables {first:#06b} and {last:#06b} of {length_dw} DW do not mark one run of \
             bytes"
        ));
    }
    let address = address + u64::from(first.trailing_zeros() % 4);
    let header = Header {
        first_byte_enables: first,
        last_byte_enables: last,
        address: BusAddress(address),
        ..header
    };
    let bytes = u64::from(header.request_bytes());
    if address % PAGE_BYTES + bytes > PAGE_BYTES {
        return malformed(format!("{bytes} B at {address:#x} cross a boundary of 4 KiB"));
    }
    Ok(header)
}

/// Completes the header of a completion with its status, byte count and lower address as they are
/// in the TLP.
fn completion(header: Header, counted: u16, lower_address: u8) -> Result<Header, LayoutError> {
    let has_data = header.kind == TlpKind::CompletionData;
    let status = match counted >> 13 {
        0 => CompletionStatus::Successful,
        1 => CompletionStatus::UnsupportedRequest,
        2 => CompletionStatus::ConfigurationRetry,
        4 => CompletionStatus::CompleterAbort,
        other => return malformed(format!("completion status {other} is reserved")),
    };
    if counted >> 12 & 1 != 0 {
        return Err(LayoutError::Unsupported { field: "BCM", value: 1 });
    }
    if has_data != (status == CompletionStatus::Successful) {
        let what = if has_data { "with data" } else { "without data" };
        return malformed(format!("a completion {what} of status {status:?}"));
    }
    if !has_data && header.length_dw != 0 {
        return malformed(format!("a completion without data of {} DW", header.length_dw));
    }
    if lower_address > 0x7f {
        return malformed(format!("lower address {lower_address:#x} has more than 7 bits"));
    }
    let byte_count = if counted & 0xfff == 0 { 4096 } else { counted & 0xfff };
    let first_bytes = u32::from(lower_address & 3);
    let carried = header.payload_bytes();
    // More than the last DW's rest beyond the byte count cannot belong to the read.
    if has_data && carried >= u32::from(byte_count) + first_bytes + 4 {
        return malformed(format!("{carried} B of data for a byte count of {byte_count}"));
    }
    let address = BusAddress(lower_address.into());
    Ok(Header { status, byte_count, address, ..header })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RoutingId = RoutingId::new(4, 0, 0);

    fn bytes_of(header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(header, payload, &mut bytes);
        bytes
    }

    #[test]
    fn a_read_is_laid_out_as_the_table_says() {
        let mut read = Header::memory_read(ID, Tag(0x2a5), BusAddress(0x12_3456_7001), 6);
        read.attributes.id_based_ordering = true;
        let bytes = [
            0x20, 0x84, 0x00, 0x02, 0x04, 0x00, 0xa5, 0x7e, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56,
            0x70, 0x00,
        ];
        assert_eq!(bytes_of(&read, &[]), bytes);
        assert_eq!(super::read(&bytes), Ok((read, &[][..])));
    }

    #[test]
    fn a_completion_is_laid_out_as_the_table_says() {
        let read = Header::memory_read(ID, Tag(7), BusAddress(0x1006), 4096 - 6);
        let header = Header::completion_data(&read, RoutingId(0x1234), read.address, 2, 4090);
        let bytes = [0x4a, 0, 0, 1, 0x12, 0x34, 0x0f, 0xfa, 0x04, 0x00, 0x07, 0x06, 1, 2, 3, 4];
        assert_eq!(bytes_of(&header, &[1, 2, 3, 4]), bytes);
        assert_eq!(super::read(&bytes), Ok((header, &[1, 2, 3, 4][..])));
    }

    #[test]
    fn what_is_written_is_read() {
        let whole = Header::memory_read(ID, Tag(1), BusAddress(0x1000), 4096);
        let mut write = Header::memory_write(ID, BusAddress(0x12_3456_7003), 250);
        write.attributes.relaxed_ordering = true;
        write.attributes.no_snoop = true;
        write.poisoned = true;
        for header in [
            whole,
            write,
            Header::memory_write(ID, BusAddress(0x2000), 4096),
            Header::memory_read(ID, Tag(1), BusAddress(0x1003), 0),
            Header::completion_data(&whole, ID, BusAddress(0x1000), 256, 4096),
            Header::completion_error(&whole, ID, CompletionStatus::CompleterAbort),
        ] {
            // Bytes of no length have no place in a DW.
            let header = match header.request_bytes() {
                0 if header.kind == TlpKind::MemoryRead => {
                    Header { address: BusAddress(header.address.0 & !3), ..header }
                }
                _ => header,
            };
            let payload: Vec<u8> = (0..header.payload_bytes()).map(|at| at as u8).collect();
            let bytes = bytes_of(&header, &payload);
            assert_eq!(read(&bytes), Ok((header, &payload[..])));
        }
    }

    #[test]
    fn each_bad_field_is_named() {
        let write = bytes_of(&Header::memory_write(ID, BusAddress(0x1000), 8), &[0; 8]);
        let high = Header::memory_read(ID, Tag(0), BusAddress(1 << 32), 4);
        let read = Header::memory_read(ID, Tag(0), BusAddress(0x1000), 64);
        let answer = Header::completion_data(&read, ID, read.address, 64, 64);
        let (high, answer) = (bytes_of(&high, &[]), bytes_of(&answer, &[0; 64]));
        for (bytes, at, value, error) in [
            (&write, 0, 0x60, "a TLP of 24 B by its header has 20 B"),
            (&write, 0, 0x44, "Fmt 0b010 and Type 0b00100"),
            (&write, 1, 0x10, "the traffic class is 1"),
            (&write, 1, 1, "TH is 1"),
            (&write, 2, 0x80, "TD is 1"),
            (&write, 2, 8, "AT is 2"),
            (&write, 3, 3, "a TLP of 24 B by its header has 20 B"),
            (&write, 7, 0xf0, "byte enables 0b0000 and 0b1111 of 2 DW"),
            (&write, 7, 0x0f, "byte enables 0b1111 and 0b0000 of 2 DW"),
            (&write, 7, 0xf5, "byte enables 0b0101"),
            (&write, 11, 1, "PH is 1"),
            (&high, 11, 0, "a header of 4 DW for 0x0, which is below 4 GiB"),
            (&answer, 6, 0x20, "a completion with data of status UnsupportedRequest"),
            (&answer, 6, 0x60, "status 3 is reserved"),
            (&answer, 6, 0x10, "BCM is 1"),
            (&answer, 7, 60, "64 B of data for a byte count of 60"),
            (&answer, 11, 0x80, "lower address 0x80"),
        ] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            let found = super::read(&bytes).unwrap_err().to_string();
            assert!(found.contains(error), "{found}, not {error}");
        }
        let crossing = Header::memory_read(ID, Tag(0), BusAddress(0x1ffc), 8);
        let found = super::read(&bytes_of(&crossing, &[])).unwrap_err().to_string();
        assert!(found.contains("8 B at 0x1ffc cross a boundary of 4 KiB"), "{found}");
        assert_eq!(super::read(&[0]).unwrap_err(), LayoutError::Length { found: 1, expected: 12 });
    }
}
