// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads TLPs from any bytes: a refusal or a header that is written as the same bytes.
//!
//! `cargo test` tries random inputs; `tools/corpus.py NAME` fuzzes with coverage and writes the
//! inputs that each run replays first.

use crosslane_pcie::tlp::layout;

/// Random inputs in a plain run of the tests.
const ITERATIONS: usize = 100_000;

/// A TLP that is read can be written, but for reserved bits; nothing else changes.
#[test]
fn fuzz_layout_of_tlps() {
    bolero::check!().with_iterations(ITERATIONS).with_type::<Vec<u8>>().for_each(|bytes| {
        let mut bytes = bytes.clone();
        // The length is that of the bytes in half of the inputs, so that many are whole.
        if let [first, _, third, fourth, .., last] = &mut bytes[..]
            && *last & 1 == 0
        {
            *first &= 0x6a;
            *third &= 0x70;
            *fourth %= 8;
        }
        let Ok((header, payload)) = layout::read(&bytes) else { return };
        assert_eq!(payload.len() as u32, header.payload_bytes());
        assert!((1..=4096).contains(&header.byte_count) || header.byte_count == 0);
        let mut again = Vec::new();
        layout::write(&header, payload, &mut again);
        assert_eq!(layout::read(&again), Ok((header, payload)));
        assert_eq!(again.len(), bytes.len());
    });
}
