// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Little-endian words of the structures shared by host and device. Bytes past the end read as
//! zero.

/// Returns the 32-bit word at an offset.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// Returns the 64-bit word at an offset.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().copied().map_or(0, u64::from_le_bytes)
}
