// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host's C library does when it stores into a window: the table `cpu.routines` of its part.
//! Programs of a document call it; our own do not.

use crosslane_pcie::units::Picoseconds;

use super::table::Table;
use crate::error::LabError;

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

const KEYS: [&str; 7] = [
    "burst_call_ns",
    "copy_call_ns",
    "copy_narrow_bytes",
    "copy_narrow_until_bytes",
    "copy_wide_bytes",
    "copy_tail_bytes",
    "copy_string_from_bytes",
];

/// Reads the routines of a host's processor, whose widest store is `widest` bytes.
pub(super) fn read(cpu: &Table<'_>, widest: u32) -> Result<Option<Routines>, LabError> {
    let Some(table) = cpu.table("routines")? else { return Ok(None) };
    table.only(&KEYS)?;
    let width = |key: &str| Ok(table.power_of_two(key, 1..=widest.into())? as u32);
    let bytes = |key: &str| table.whole(key, 0..=1 << 32);
    Ok(Some(Routines {
        burst_call: table.ns("burst_call_ns")?,
        copy_call: table.ns("copy_call_ns")?,
        copy_narrow_bytes: width("copy_narrow_bytes")?,
        copy_narrow_until_bytes: bytes("copy_narrow_until_bytes")?,
        copy_wide_bytes: width("copy_wide_bytes")?,
        copy_tail_bytes: bytes("copy_tail_bytes")?,
        copy_string_from_bytes: bytes("copy_string_from_bytes")?,
    }))
}
