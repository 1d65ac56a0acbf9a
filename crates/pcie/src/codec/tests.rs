// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the codec: bytes written out by hand, round trips, and each refusal.

use super::*;
use proptest::prelude::*;

const REQUESTER: RoutingId = RoutingId::new(0x12, 3, 5);
const COMPLETER: RoutingId = RoutingId::new(0x34, 1, 0);

fn bytes_of(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(header, payload, &mut bytes).unwrap();
    bytes
}

fn refusal(header: &Header) -> EncodeError {
    let payload = vec![0; header.payload_bytes() as usize];
    let mut bytes = vec![7];
    let error = encode(header, &payload, &mut bytes).unwrap_err();
    assert_eq!(bytes, [7], "an error leaves nothing behind");
    error
}

fn configuration(kind: TlpKind, offset: u64, first_byte_enables: u8) -> Header {
    let read = Header::memory_read(REQUESTER, Tag(9), BusAddress(0), 4);
    let address = BusAddress(offset);
    Header { kind, first_byte_enables, completer: COMPLETER, address, ..read }
}

#[test]
fn memory_requests_by_hand() {
    let mut write = Header::memory_write(REQUESTER, BusAddress(0x8000_1001), 6);
    write.attributes.relaxed_ordering = true;
    write.tag = Tag(0x2a5);
    let payload = [0, 1, 2, 3, 4, 5, 6, 0];
    let expected = [
        0x40, 0x80, 0x20, 0x02, 0x12, 0x1d, 0xa5, 0x7e, 0x80, 0x00, 0x10, 0x00, 0, 1, 2, 3, 4, 5,
        6, 0,
    ];
    assert_eq!(bytes_of(&write, &payload), expected);

    let mut read = Header::memory_read(REQUESTER, Tag(0x100), BusAddress(0x12_3456_7000), 4096);
    read.attributes = Attributes { no_snoop: true, id_based_ordering: true, ..read.attributes };
    let expected = [
        0x20, 0x0c, 0x10, 0x00, 0x12, 0x1d, 0x00, 0xff, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56, 0x70,
        0x00,
    ];
    assert_eq!(bytes_of(&read, &[]), expected);
}

#[test]
fn completions_by_hand() {
    let read = Header::memory_read(REQUESTER, Tag(0x17), BusAddress(0x1010), 0xff0);
    let mut part = Header::completion_data(&read, COMPLETER, BusAddress(0x1fc), 4, 4096);
    part.poisoned = true;
    let expected = [
        0x4a, 0x00, 0x40, 0x01, 0x34, 0x08, 0x00, 0x00, 0x12, 0x1d, 0x17, 0x7c, 0xde, 0xad, 0xbe,
        0xef,
    ];
    assert_eq!(bytes_of(&part, &[0xde, 0xad, 0xbe, 0xef]), expected);

    let refused = Header::completion_error(&read, COMPLETER, CompletionStatus::CompleterAbort);
    let expected = [0x0a, 0x00, 0x00, 0x00, 0x34, 0x08, 0x8f, 0xf0, 0x12, 0x1d, 0x17, 0x10];
    assert_eq!(bytes_of(&refused, &[]), expected);
}

#[test]
fn configuration_requests_by_hand() {
    let read = configuration(TlpKind::ConfigurationRead, 0x10c, 0b1111);
    let expected = [0x04, 0x00, 0x00, 0x01, 0x12, 0x1d, 0x09, 0x0f, 0x34, 0x08, 0x01, 0x0c];
    assert_eq!(bytes_of(&read, &[]), expected);
    let write = configuration(TlpKind::ConfigurationWrite, 0x48, 0b0011);
    let expected =
        [0x44, 0x00, 0x00, 0x01, 0x12, 0x1d, 0x09, 0x03, 0x34, 0x08, 0x00, 0x48, 0x20, 0x50, 0, 0];
    assert_eq!(bytes_of(&write, &[0x20, 0x50, 0, 0]), expected);
}

#[test]
fn a_read_of_nothing_has_no_byte_enabled() {
    let flush = Header::memory_read(REQUESTER, Tag(0), BusAddress(0x40), 0);
    let bytes = bytes_of(&flush, &[]);
    assert_eq!((bytes[3], bytes[7]), (1, 0));
    assert_eq!(decode(&bytes), Ok((flush, &[][..])));
}

#[test]
fn headers_that_break_a_rule_are_refused() {
    let read = Header::memory_read(REQUESTER, Tag(1), BusAddress(0x1000), 64);
    let completion = Header::completion_data(&read, COMPLETER, BusAddress(0x1000), 64, 64);
    let config = configuration(TlpKind::ConfigurationRead, 4, 0xf);
    let relaxed = Attributes { relaxed_ordering: true, ..Attributes::default() };
    let at = BusAddress;
    for (header, expected) in [
        (Header { length_dw: 0, ..read }, "a length of 0 DW; it can have 1 to 1024"),
        (Header { length_dw: 1025, ..read }, "1025 DW"),
        (Header { length_dw: 1024, address: at(0x1004), ..read }, "cross a 4 KiB boundary"),
        (Header { last_byte_enables: 0, ..read }, "first 1111 and last 0000"),
        (Header { first_byte_enables: 0b0111, ..read }, "first 0111 and last 1111"),
        (Header { first_byte_enables: 0x1f, length_dw: 1, last_byte_enables: 0, ..read }, "1 DW"),
        (Header { address: at(0x1001), ..read }, "0x1001 is not that of the first byte"),
        (Header { tag: Tag(1024), ..read }, "tag 1024"),
        (Header { byte_count: 0, ..completion }, "a byte count of 0"),
        (Header { byte_count: 4097, ..completion }, "a byte count of 4097"),
        (Header { address: at(0x80), ..completion }, "lower address 0x80"),
        (Header { length_dw: 2, ..config }, "ConfigurationRead with a length of 2 DW"),
        (Header { address: at(6), ..config }, "register offset 0x6"),
        (Header { address: at(0x1000), ..config }, "register offset 0x1000"),
        (Header { attributes: relaxed, ..config }, "no attributes"),
    ] {
        let error = refusal(&header);
        assert!(matches!(error, EncodeError::Header(_)));
        assert!(error.to_string().contains(expected), "{error}");
    }
    let message = Header { kind: TlpKind::Message, ..read };
    assert_eq!(encode(&message, &[], &mut Vec::new()), Err(EncodeError::Message));
    let write = Header::memory_write(REQUESTER, BusAddress(0), 8);
    let error = encode(&write, &[0; 4], &mut Vec::new()).unwrap_err();
    assert_eq!(error, EncodeError::PayloadLength { payload_bytes: 4, header_bytes: 8 });
}

#[test]
fn holes_in_byte_enables() {
    let read = Header::memory_read(REQUESTER, Tag(1), BusAddress(0x1000), 4);
    let holes = Header { first_byte_enables: 0b0101, ..read };
    assert_eq!(decode(&bytes_of(&holes, &[])), Ok((holes, &[][..])));
    let pair = Header { length_dw: 2, last_byte_enables: 0b1010, ..holes };
    assert_eq!(decode(&bytes_of(&pair, &[])), Ok((pair, &[][..])));
    let across = Header { address: BusAddress(0x1004), ..pair };
    assert!(matches!(refusal(&across), EncodeError::Header(HeaderError::ByteEnables { .. })));
}

#[test]
fn bytes_that_are_no_packet_are_refused() {
    let read = Header::memory_read(REQUESTER, Tag(1), BusAddress(0x1000), 64);
    let completion = Header::completion_data(&read, COMPLETER, BusAddress(0x1000), 4, 64);
    let with = |header: &Header, changes: &[(usize, u8)]| {
        let mut bytes = bytes_of(header, &vec![0; header.payload_bytes() as usize]);
        for &(offset, value) in changes {
            bytes[offset] = value;
        }
        decode(&bytes).unwrap_err().to_string()
    };
    for (changes, expected) in [
        (&[(0, 0x80)][..], "format 100, type 00000"),
        (&[(0, 0x01)], "byte 0 is 0x01"),
        (&[(0, 0x05)], "type 00101"),
        (&[(0, 0x2a)], "byte 0 is 0x2a"),
        (&[(0, 0x34)], "byte 0 is 0x34"),
        (&[(1, 0x50)], "traffic class at byte 1 is 5; it must be 0"),
        (&[(1, 0x02)], "reserved bit at byte 1"),
        (&[(1, 0x01)], "processing hint at byte 1"),
        (&[(2, 0x80)], "digest at byte 2"),
        (&[(2, 0x08)], "address type at byte 2 is 2"),
        (&[(11, 0x03)], "address bits 1:0 at byte 11 is 3"),
        (&[(0, 0x20)], "the packet ends after 12 bytes; 16 are needed"),
        (&[(0, 0x40)], "the packet ends after 12 bytes; 76 are needed"),
    ] {
        let error = with(&read, changes);
        assert!(error.contains(expected), "{error}, not {expected}");
    }
    for (changes, expected) in [
        (&[(6, 0xe0)][..], "status 111 at byte 6"),
        (&[(6, 0x10)], "byte count modified at byte 6"),
        (&[(11, 0x80)], "reserved bit at byte 11"),
        (&[(3, 0)], "the packet ends after 16 bytes; 4108 are needed"),
        (&[(0, 0x0a)], "length of a completion without data at byte 3 is 1"),
        (&[(0, 0x0a), (3, 0)], "has 16 bytes, but header and payload are 12"),
    ] {
        let error = with(&completion, changes);
        assert!(error.contains(expected), "{error}, not {expected}");
    }
    let config = configuration(TlpKind::ConfigurationRead, 4, 0xf);
    assert!(with(&config, &[(10, 0x10)]).contains("reserved bits at byte 10 is 1"));
    assert!(with(&config, &[(11, 0x01)]).contains("reserved bits at byte 11 is 1"));
    let high = Header { address: BusAddress(1 << 32), ..read };
    assert!(with(&high, &[(11, 0)]).contains("address 0x0 is below 4 GiB"));
    assert_eq!(decode(&[0; 11]), Err(DecodeError::TooShort { needed_bytes: 12, have_bytes: 11 }));
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    any::<(bool, bool, bool)>().prop_map(|(relaxed_ordering, no_snoop, id_based_ordering)| {
        Attributes { relaxed_ordering, no_snoop, id_based_ordering }
    })
}

fn any_status() -> impl Strategy<Value = CompletionStatus> {
    prop_oneof![
        Just(CompletionStatus::Successful),
        Just(CompletionStatus::UnsupportedRequest),
        Just(CompletionStatus::ConfigurationRetry),
        Just(CompletionStatus::CompleterAbort),
    ]
}

/// Any header that can be sent, of each kind.
fn any_header() -> impl Strategy<Value = Header> {
    let memory = (any::<bool>(), any::<u64>(), any::<bool>(), 0_u32..=4096).prop_map(
        |(is_write, address, is_high, length)| {
            let address = if is_high { address } else { address & 0xffff_ffff };
            let length = length.min(4096 - (address % 4096) as u32);
            // Without an enabled byte the address is that of the DW.
            let address = BusAddress(if length == 0 { address & !3 } else { address });
            if is_write {
                Header::memory_write(REQUESTER, address, length)
            } else {
                Header::memory_read(REQUESTER, Tag(0), address, length)
            }
        },
    );
    let configuration_request =
        (any::<bool>(), 0_u64..1024, 0_u8..16).prop_map(|(write, dw, first)| {
            let kind = if write { TlpKind::ConfigurationWrite } else { TlpKind::ConfigurationRead };
            configuration(kind, dw * 4, first)
        });
    let completion = (any::<u64>(), 0_u32..=4096, 1_u32..=4096, any_status()).prop_map(
        |(address, length, remaining, status)| {
            let request = Header::memory_read(REQUESTER, Tag(0), BusAddress(0), 4);
            let length = length.min(4096 - (address % 4) as u32);
            if status == CompletionStatus::Successful {
                Header::completion_data(&request, COMPLETER, BusAddress(address), length, remaining)
            } else {
                Header::completion_error(&request, COMPLETER, status)
            }
        },
    );
    let ids = (any::<u16>(), any::<u16>(), 0_u16..1024, any::<bool>(), any_attributes());
    (prop_oneof![memory, configuration_request, completion], ids).prop_map(
        |(mut header, (requester, completer, tag, poisoned, attributes))| {
            header.requester = RoutingId(requester);
            header.tag = Tag(tag);
            header.poisoned = poisoned;
            if !header.kind.is_routed_by_address() {
                header.completer = RoutingId(completer);
            }
            if !matches!(header.kind, TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite) {
                header.attributes = attributes;
            }
            header
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_encoded_decodes_to_the_same(header in any_header(), seed in any::<u8>()) {
        let payload: Vec<u8> =
            (0..header.payload_bytes()).map(|index| (index as u8).wrapping_mul(seed)).collect();
        let bytes = bytes_of(&header, &payload);
        prop_assert_eq!(
            bytes.len() as u32 + crate::link::TLP_FRAMING_BYTES,
            header.wire_bytes()
        );
        prop_assert_eq!(decode(&bytes), Ok((header, &payload[..])));
        // One byte less or more makes it undecodable.
        prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        let longer = [&bytes[..], &[0]].concat();
        let is_too_long = matches!(decode(&longer), Err(DecodeError::TooLong { .. }));
        prop_assert!(is_too_long);
    }

    #[test]
    fn one_changed_bit_is_refused_or_another_packet(
        header in any_header(), bit in 0_usize..96,
    ) {
        let bytes = bytes_of(&header, &vec![0; header.payload_bytes() as usize]);
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok((other, payload)) = decode(&changed) {
            prop_assert_ne!(other, header);
            prop_assert_eq!(bytes_of(&other, payload), changed);
        }
    }
}
