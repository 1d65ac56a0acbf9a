// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes anything anywhere in configuration space.
//!
//! `cargo test` tries random inputs; `tools/corpus.py NAME` fuzzes with coverage and writes the
//! inputs that each run replays first.

use crosslane_pcie::config::{Capability, ConfigSpace, Identity, PortType};
use crosslane_pcie::link::{Generation, LinkRate, Width};

/// Random inputs in a plain run of the tests.
const ITERATIONS: usize = 100_000;

/// Any sequence of configuration writes leaves the views working and the identity unchanged.
#[test]
fn fuzz_configuration_writes() {
    let max_rate = LinkRate { generation: Generation::Gen3, width: Width::ALL[3] };
    let capability = Capability {
        max_payload_bytes: 256,
        max_rate,
        extended_tags: true,
        ten_bit_tags: false,
        acs: true,
    };
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
