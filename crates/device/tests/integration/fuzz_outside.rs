// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes sent from an endpoint outside: what is refused has no effect, what is sent never
//! breaks the fabric.
//!
//! `cargo test` tries some hundred random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use crosslane_fabric::ErrorKind;
use crosslane_pcie::tlp::layout;
use crosslane_pcie::units::Picoseconds;

use crate::outside::Bench;
use crate::support::settings;

/// Random inputs in a plain run of the tests.
const ITERATIONS: usize = 2_000;
/// Time between two TLPs.
const APART: Picoseconds = Picoseconds::from_ns(300);

/// Kind, tag, enables, length and address of one TLP.
type Sent = (u8, u8, u8, u8, u32);

/// Makes the bytes of a TLP that is often right.
fn bytes_of(&(kind, tag, enables, length, address): &Sent, id: u16) -> Vec<u8> {
    let [first, fourth] =
        [[0x00, 0x20, 0x40, 0x60, 0x0a, 0x4a, 0x04, kind][usize::from(kind) % 8], length];
    let mut bytes = vec![first, 0, kind & 0x40, fourth];
    bytes.extend(if kind & 0x80 == 0 { id } else { address as u16 }.to_be_bytes());
    bytes.extend([tag, if length == 1 { enables & 0xf } else { enables | 0x18 }]);
    if first & 0x20 != 0 {
        bytes.extend(u32::from(enables >> 6).to_be_bytes());
    }
    bytes.extend((address & !3).to_be_bytes());
    let payload = if first & 0x40 == 0 { 0 } else { 4 * usize::from(length) };
    bytes.resize(bytes.len() + payload, tag);
    bytes
}

#[test]
fn fuzz_any_tlps_from_outside() {
    bolero::check!().with_iterations(ITERATIONS).with_type::<Vec<Sent>>().for_each(|all| {
        let mut bench = Bench::new(&settings());
        let id = bench.id.0;
        for sent in all.iter().take(50) {
            let bytes = bytes_of(sent, id);
            if let Ok((header, payload)) = layout::read(&bytes) {
                let _ = bench.send(header, payload);
            }
            let until = Picoseconds(bench.fabric().now().0 + APART.0);
            bench.fabric().run_window(until);
        }
        bench.fabric().run(None);
        for error in bench.fabric().errors() {
            assert!(!matches!(error.kind, ErrorKind::Ordering { .. }), "{error}");
            assert!(!matches!(error.kind, ErrorKind::PayloadTooLarge { .. }), "{error}");
        }
    });
}
