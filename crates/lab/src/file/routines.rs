// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Store routines of a host's C library, used on apertures: the table `cpu.routines` of its part.

use crosslane_host::Routines;

use super::table::Table;
use crate::error::Result;

const KEYS: [&str; 7] = [
    "burst_call_ns", "copy_call_ns", "copy_narrow_bytes", "copy_narrow_until_bytes",
    "copy_wide_bytes", "copy_tail_bytes", "copy_string_from_bytes",
];

/// Reads the routines of a host's processor, whose widest store has `widest` bytes.
pub(super) fn read(cpu: &Table<'_>, widest: u32) -> Result<Option<Routines>> {
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
