// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arbitrary bytes as a configuration space that was read from a machine.
//!
//! `cargo test` tries some ten thousand random inputs for each target; `tools/corpus.py NAME`
//! fuzzes one with coverage and writes the inputs that each run replays first.

use crosslane_vfio::sysfs::Configuration;

/// Random inputs of each target in a plain run of the tests.
const ITERATIONS: usize = 20_000;

/// Decodes everything: it comes to an end, and stays within the ranges of its registers.
fn decode_all(bytes: &[u8]) {
    let space = Configuration::new(bytes.to_vec());
    assert_eq!(space.readable_bytes(), bytes.len());
    for id in [0x05, 0x10, 0x11] {
        if let Some(offset) = space.capability(id) {
            assert!((0x40..0x100).contains(&offset) && offset.is_multiple_of(4));
            assert_eq!(bytes[usize::from(offset)], id);
        }
    }
    for id in [0x0001, 0x0003, 0x000d, 0x001d] {
        if let Some(offset) = space.extended_capability(id) {
            let at = usize::from(offset);
            assert_eq!(u16::from_le_bytes([bytes[at], bytes[at + 1]]), id);
        }
    }
    if let Some(express) = space.express() {
        for size in [
            express.max_payload_bytes, express.max_payload_supported_bytes,
            express.max_read_request_bytes,
        ] {
            assert!(size.is_power_of_two() && (128..=4096).contains(&size));
        }
        assert!([32, 256, 768].contains(&express.tags()));
        let _ = (express.link.rate(), express.link_capability.to_string());
    }
    if let Some(kind) = space.kind() {
        let _ = (kind.to_string(), kind.port_type(), kind.is_bridge());
    }
    assert!(space.vectors() <= 2048);
    let _ = (space.acs().map(|acs| acs.enabled_words()), space.buses(), space.command());
    let _ = (space.error_reporting(), space.containment(), space.serial_number());
}

#[test]
fn fuzz_configuration_of_any_bytes() {
    bolero::check!().with_iterations(ITERATIONS).for_each(decode_all);
}

/// Bytes that resemble a configuration space: lists of capabilities with random pointers, in a
/// space of one of the lengths that the kernel shows.
#[test]
fn fuzz_configuration_with_lists() {
    type Random = (u8, Vec<(u8, u8)>, Vec<(u8, u8, u8)>);
    bolero::check!().with_iterations(ITERATIONS).with_type::<Random>().for_each(
        |(length, capabilities, extended)| {
            let length = [64, 128, 256, 4096][usize::from(*length) % 4];
            let mut bytes = vec![0; 4096];
            bytes[6] = 0x10;
            bytes[0x34] = capabilities.first().map_or(0x40, |(at, _)| at & 0xfc);
            for pair in capabilities.windows(2) {
                let [(at, kind), (next, _)] = pair else { continue };
                let at = usize::from(at & 0xfc);
                bytes[at] = [0x05, 0x10, 0x11][usize::from(*kind) % 3];
                bytes[at + 1] = *next;
                bytes[at + 2] = *kind;
            }
            let mut at = 0x100;
            for (kind, low, high) in extended {
                let next = usize::from(*low) << 4 & 0xff0 | usize::from(*high) & 0xc;
                bytes[at] = [0x01, 0x0d, 0x1d][usize::from(*kind) % 3];
                bytes[at + 2..at + 4].copy_from_slice(&((next as u16) << 4 | 1).to_le_bytes());
                at = next.max(0x100);
            }
            bytes.truncate(length);
            decode_all(&bytes);
        },
    );
}
