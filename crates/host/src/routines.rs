// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Costs of a host's C library storing into a BAR's aperture. Programs from papers call it; ours do
//! not.

use crosslane_pcie::units::Picoseconds;

/// A loop of 32-bit stores, and a copy routine with its choices by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routines {
    /// Time of a call of the loop, without its stores.
    pub burst_call: Picoseconds,
    /// Time of a call of the copy routine, without its stores.
    pub copy_call: Picoseconds,
    /// Width of the copy's stores up to `copy_narrow_until_bytes`, bytes.
    pub copy_narrow_bytes: u32,
    /// The longest copy with narrow stores, bytes.
    pub copy_narrow_until_bytes: u64,
    /// Width of the stores of a longer copy, bytes.
    pub copy_wide_bytes: u32,
    /// Bytes at the end of a longer copy that are stored twice.
    pub copy_tail_bytes: u64,
    /// The shortest copy that uses a string instruction, bytes: it stores byte by byte in uncached
    /// memory, in write-combined memory as wide as the processor can.
    pub copy_string_from_bytes: u64,
}
