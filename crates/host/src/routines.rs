// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host's C library does when it stores into a window. Programs of a document call it; our
//! own do not.

use crosslane_pcie::units::Picoseconds;

/// A loop of 32-bit stores, and a copy routine with its choices by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routines {
    /// A call of the loop, beside its stores.
    pub burst_call: Picoseconds,
    /// A call of the copy routine, beside its stores.
    pub copy_call: Picoseconds,
    /// Width of the copy's stores up to `copy_narrow_until_bytes`.
    pub copy_narrow_bytes: u32,
    /// The longest copy with narrow stores, bytes.
    pub copy_narrow_until_bytes: u64,
    /// Width of the stores of a longer copy.
    pub copy_wide_bytes: u32,
    /// Bytes at the end of a longer copy that are stored once more.
    pub copy_tail_bytes: u64,
    /// The least copy for which a string instruction is taken, bytes: in uncached memory it
    /// stores byte by byte, in combined memory as wide as the processor can.
    pub copy_string_from_bytes: u64,
}
