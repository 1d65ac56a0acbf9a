// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of headers: sizes on the wire, byte enables, and contents of completions.

use super::*;
use proptest::prelude::*;

const REQUESTER: RoutingId = RoutingId::new(4, 0, 0);
const COMPLETER: RoutingId = RoutingId::new(0, 0, 0);
const LOW: BusAddress = BusAddress(0xfe00_0000);
const HIGH: BusAddress = BusAddress(0x38_0000_0000);

#[test]
fn overhead_on_the_wire() {
    for payload in [4, 64, 128, 256, 512, 4096] {
        let overhead = |header: Header| header.wire_bytes() - header.payload_bytes();
        assert_eq!(overhead(Header::memory_write(REQUESTER, LOW, payload)), 20);
        assert_eq!(overhead(Header::memory_write(REQUESTER, HIGH, payload)), 24);
        for (address, bytes) in [(LOW, 20), (HIGH, 24)] {
            let read = Header::memory_read(REQUESTER, Tag(0), address, payload);
            assert_eq!((read.wire_bytes(), read.payload_bytes()), (bytes, 0));
            // A completion is routed by ID, so a high address does not lengthen its header.
            let completion = Header::completion_data(&read, COMPLETER, address, payload, payload);
            assert_eq!(completion.wire_bytes(), 20 + payload);
        }
    }
}

#[test]
fn unaligned_writes_carry_whole_double_words() {
    let write = Header::memory_write(REQUESTER, BusAddress(0x1003), 2);
    assert_eq!((write.length_dw, write.payload_bytes()), (2, 8));
    assert_eq!((write.first_byte_enables, write.last_byte_enables), (0b1000, 0b0001));
    let write = Header::memory_write(REQUESTER, BusAddress(0x1001), 2);
    assert_eq!((write.length_dw, write.first_byte_enables), (1, 0b0110));
    assert_eq!(write.last_byte_enables, 0);
}

#[test]
fn a_message_has_data_where_it_has_a_length() {
    let write = Header::memory_write(REQUESTER, LOW, 4);
    let with = Header { kind: TlpKind::Message, ..write };
    let without = Header { length_dw: 0, ..with };
    assert_eq!((with.wire_bytes(), without.wire_bytes()), (28, 24));
    assert_eq!(with.class(), Class::Posted);
}

#[test]
fn refusals_of_reads_and_of_others() {
    let status = CompletionStatus::UnsupportedRequest;
    let read = Header::memory_read(REQUESTER, Tag(5), BusAddress(0x1083), 300);
    let refused = Header::completion_error(&read, COMPLETER, status);
    assert_eq!(refused.kind, TlpKind::Completion);
    assert_eq!((refused.byte_count, refused.address), (300, BusAddress(3)));
    assert_eq!((refused.tag, refused.requester), (Tag(5), REQUESTER));
    assert_eq!((refused.completer, refused.status), (COMPLETER, status));
    assert_eq!((refused.wire_bytes(), refused.request_bytes()), (20, 0));

    let flush = Header::memory_read(REQUESTER, Tag(5), LOW, 0);
    assert_eq!(Header::completion_error(&flush, COMPLETER, status).byte_count, 1);
    let answer = Header::completion_data(&flush, COMPLETER, LOW, 0, 0);
    assert_eq!((answer.byte_count, answer.length_dw), (1, 1));

    let config = Header {
        kind: TlpKind::ConfigurationWrite,
        address: BusAddress(0x48),
        length_dw: 1,
        first_byte_enables: 0b0011,
        last_byte_enables: 0,
        poisoned: true,
        ..read
    };
    let refused = Header::completion_error(&config, COMPLETER, status);
    assert_eq!((refused.byte_count, refused.address), (4, BusAddress(0)));
    assert!(!refused.poisoned, "the request was bad, not the answer");
}

proptest! {
    #[test]
    fn requests_know_their_bytes(offset in 0_u64..4096, length in 0_u32..=4096) {
        let length = length.min(4096 - offset as u32);
        for base in [LOW, HIGH] {
            let address = base.offset(offset);
            let write = Header::memory_write(REQUESTER, address, length);
            let read = Header::memory_read(REQUESTER, Tag(0), address, length);
            for header in [write, read] {
                prop_assert_eq!(header.request_bytes(), length);
                prop_assert_eq!(header.address, address);
                let last_dw = (offset + u64::from(length.max(1)) - 1) / 4;
                prop_assert_eq!(u64::from(header.length_dw), last_dw - offset / 4 + 1);
                prop_assert_eq!(header.last_byte_enables == 0, header.length_dw == 1);
                let enabled = header.first_byte_enables.count_ones()
                    + header.last_byte_enables.count_ones()
                    + u32::from(header.length_dw).saturating_sub(2) * 4;
                prop_assert_eq!(enabled, length);
            }
        }
    }

    #[test]
    fn completions_add_up_to_their_request(
        offset in 0_u64..4096, length in 1_u32..=4096, boundary in 0_u32..2, more in 0_u32..3,
    ) {
        let length = length.min(4096 - offset as u32);
        let rcb = 64 << boundary;
        let read = Header::memory_read(REQUESTER, Tag(3), LOW.offset(offset), length);
        let mut remaining = length;
        for (at, piece) in crate::split::completions(read.address, length, rcb, rcb << more) {
            let part = Header::completion_data(&read, COMPLETER, at, piece, remaining);
            prop_assert!(part.payload_bytes() <= rcb << more);
            prop_assert_eq!(part.address.0, at.0 & 0x7f);
            // The requester finds the offset from the end of its request and the byte count.
            let end = read.address.0 + u64::from(length);
            prop_assert_eq!(end - u64::from(part.byte_count), at.0);
            remaining -= piece;
        }
        prop_assert_eq!(remaining, 0);
    }
}
