// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generated constants agree with docs/engine.md and the maps, and the functions beside them
//! split words into fields and join them.

use crosslane_regs::engine::{self, ChannelError, ChannelState, DescriptorSource, StreamSource};
use crosslane_regs::{Array, Field, Memory, ring_descriptor, status_block, table_descriptor};

#[test]
fn parts_of_the_map_lie_where_the_map_has_them() {
    assert_eq!((engine::GLOBAL, engine::USER, engine::BYTES), (0, 0x2000, 64 << 10));
    assert_eq!(engine::H2C, Array { base: 0x3000, stride: 0x100, count: 4 });
    assert_eq!(engine::LANES, Array { base: 0x4000, stride: 0x40, count: 16 });
    assert_eq!(engine::MSIX_TABLE, Memory { base: 0x1000, bytes: 32 * 16 });
    assert_eq!(engine::C2H_TABLE, Memory { base: 0xc000, bytes: 1024 * 16 });
    assert_eq!(engine::PEER.at(1) + engine::channel::CREDIT, 0x3980);
    assert_eq!(engine::LANES.at(15) + engine::lane::LAST_HIGH, 0x43f4);
    assert_eq!(engine::USER + engine::user::PING_MOST, 0x2054);
}

/// The values that a driver reads from an engine after a reset.
#[test]
fn reset_values_hold_the_fields_of_the_map() {
    assert_eq!(engine::global::ID_RESET.to_be_bytes(), *b"XLNE");
    assert_eq!(engine::global::version::MAJOR.get(engine::global::VERSION_RESET), 1);
    assert_eq!(engine::global::version::MINOR.get(engine::global::VERSION_RESET), 0);
    let counts = engine::global::COUNTS_RESET;
    let fields = engine::global::counts::LANES.get(counts);
    assert_eq!((engine::global::counts::H2C.get(counts), fields), (1, 8));
    assert_eq!(engine::global::CLOCK_RESET, 4000);
}

#[test]
fn a_field_takes_no_bits_but_its_own() {
    let error = engine::channel::status::ERROR;
    assert_eq!(error, Field { shift: 4, width: 4 });
    assert_eq!(error.mask(), 0xf0);
    assert_eq!(error.get(0xffff_ff5f), 5);
    assert_eq!(error.put(0x1f), 0xf0);
    let restart = engine::channel::control::RESTART;
    assert_eq!((restart.mask(), restart.put(1)), (1 << 31, 1 << 31));
    let whole = Field { shift: 0, width: 32 };
    assert_eq!((whole.mask(), whole.get(u32::MAX), whole.put(7)), (u32::MAX, u32::MAX, 7));
}

#[test]
#[should_panic(expected = "fewer register files")]
fn an_array_has_an_end() {
    engine::LANES.at(16);
}

#[test]
fn encodings_know_what_they_mean() {
    for bits in 0..10 {
        assert_eq!(ChannelError::from_bits(bits).map(ChannelError::bits), Some(bits));
    }
    assert_eq!(ChannelError::from_bits(10), None);
    assert_eq!(ChannelState::from_bits(2), Some(ChannelState::Stopped));
    assert_eq!(ChannelState::from_bits(3), None);
    assert_eq!(DescriptorSource::CommandPort.bits(), 2);
    assert_eq!(StreamSource::from_bits(1), Some(StreamSource::H2c));
}

#[test]
fn layouts_have_the_sizes_that_the_document_gives() {
    let sizes = [table_descriptor::BYTES, ring_descriptor::BYTES, status_block::BYTES];
    assert_eq!(sizes, [16, 32, 32]);
    assert_eq!(ring_descriptor::LENGTH, 0x10);
    assert_eq!(status_block::TIME_HIGH, 0x1c);
    // One set of flags serves both kinds of descriptor.
    assert_eq!(table_descriptor::control::AWAIT_CREDIT, ring_descriptor::control::AWAIT_CREDIT);
}
