// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds arbitrary bytes to the TLP decoder.
//!
//! `cargo test` tries random inputs for each target; `tools/corpus.py NAME` fuzzes one with
//! coverage and writes the inputs that each run replays first.

use crosslane_pcie::codec;
use crosslane_pcie::config::{Capability, ConfigSpace, Identity, PortType};
use crosslane_pcie::link::{Generation, LinkRate, Width};

/// Random inputs of each target in a plain run of the tests.
const ITERATIONS: usize = 100_000;

/// Checks that decoded bytes encode to themselves and have the size that the header states.
fn decode_and_encode_again(bytes: &[u8]) {
    let Ok((header, payload)) = codec::decode(bytes) else { return };
    assert_eq!(header.payload_bytes() as usize, payload.len());
    assert_eq!((header.header_dw() + 2) * 4 + header.payload_bytes(), header.wire_bytes());
    assert!(header.request_bytes() <= u32::from(header.length_dw) * 4);
    let mut again = Vec::new();
    codec::encode(&header, payload, &mut again).expect("a decoded packet can be encoded");
    assert_eq!(again, bytes);
}

#[test]
fn fuzz_decode_any_bytes() {
    bolero::check!().with_iterations(ITERATIONS).for_each(decode_and_encode_again);
}

/// Bits of the first twelve bytes that a packet of each type may have set. Byte 0 is the type.
const MEMORY_BITS: [u8; 12] = [0, 0x8c, 0x70, 3, 255, 255, 255, 255, 255, 255, 255, 255];
const CONFIGURATION_BITS: [u8; 12] = [0, 0x88, 0x40, 0, 255, 255, 255, 0x0f, 255, 255, 0x0f, 0xfc];
const COMPLETION_BITS: [u8; 12] = [0, 0x8c, 0x70, 3, 255, 255, 0x2f, 255, 255, 255, 255, 0x7f];

/// Nearly valid packets: a known type, few wrong must-be-zero fields, and a payload as long as the
/// header says. Random bytes alone seldom get past the first checks.
#[test]
fn fuzz_decode_nearly_packets() {
    const TYPES: [u8; 8] = [0x00, 0x20, 0x40, 0x60, 0x04, 0x44, 0x0a, 0x4a];
    bolero::check!().with_iterations(ITERATIONS).with_type::<(u8, [u8; 16], bool)>().for_each(
        |&(kind, random, is_exact)| {
            let kind = TYPES[usize::from(kind) % TYPES.len()];
            let mask = match kind & 0x1f {
                0x00 => MEMORY_BITS,
                0x04 => CONFIGURATION_BITS,
                _ => COMPLETION_BITS,
            };
            let mut bytes = random.to_vec();
            bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
            bytes[0] = kind;
            match kind {
                0x04 | 0x44 => bytes[3] = 1,
                0x0a => bytes[2..4].copy_from_slice(&[0, 0]),
                _ => bytes[2] &= 0x70,
            }
            let header_bytes = if kind & 0x20 == 0 { 12 } else { 16 };
            if kind & 0x1f == 0 {
                bytes[header_bytes - 1] &= 0xfc;
            }
            let length_bytes = match (kind & 0x40 != 0, bytes[3]) {
                (false, _) => 0,
                (true, 0) => 4096,
                (true, dw) => usize::from(dw) * 4,
            };
            bytes.resize(header_bytes + length_bytes + usize::from(!is_exact), 0x5a);
            decode_and_encode_again(&bytes);
        },
    );
}

/// Any sequence of configuration writes leaves the views working and the identity unchanged.
#[test]
fn fuzz_configuration_writes() {
    let max_rate = LinkRate { generation: Generation::Gen3, width: Width::ALL[3] };
    let capability =
        Capability { max_payload_bytes: 256, max_rate, extended_tags: true, acs: true };
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_type::<(bool, Vec<(u16, u32, u8)>)>()
        .for_each(|(is_root, writes)| {
            let port_type = if *is_root { PortType::RootPort } else { PortType::UpstreamPort };
            let fresh = ConfigSpace::bridge(port_type, Identity::default(), capability);
            let mut space = fresh.clone();
            for &(offset, value, byte_enables) in writes {
                // Half of the writes go to implemented registers.
                let offset = if value & 1 == 0 { offset % 0x110 } else { offset };
                space.write(offset, value, byte_enables);
            }
            for offset in [0x00, 0x08, 0x34, 0x40, 0x44, 0x4c, 0x64, 0x6c, 0x100, 0x108, 0xffc] {
                assert_eq!(space.read(offset), fresh.read(offset), "offset {offset:#x}");
            }
            assert_eq!(space.link_status(), max_rate);
            assert!((128..=256).contains(&space.max_payload_bytes()));
            assert!((128..=4096).contains(&space.max_read_request_bytes()));
            for window in [space.memory_window(), space.prefetchable_window()].into_iter().flatten()
            {
                assert!(window.start() <= window.end());
                assert_eq!((window.start() & 0xf_ffff, window.end() & 0xf_ffff), (0, 0xf_ffff));
            }
        });
}
