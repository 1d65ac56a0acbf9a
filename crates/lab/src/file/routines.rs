// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Store routines of a host's C library, used on apertures: the table `cpu.routines` of its part.

use crosslane_host::Routines;

use super::table::Table;
use crate::error::Result;

/// Reads the routines of a host's processor, whose widest store has `widest` bytes.
pub(super) fn read(cpu: &Table<'_>, widest: u32) -> Result<Option<Routines>> {
    let Some(table) = cpu.table("routines")? else { return Ok(None) };
    let width = |key: &str| match table.whole(key)? as u32 {
        bytes if bytes > widest => {
            Err(table.bad(key, format!("no store has more than {widest} B")))
        }
        bytes => Ok(bytes),
    };
    Ok(Some(Routines {
        burst_call: table.ns("burst_call_ns")?,
        copy_call: table.ns("copy_call_ns")?,
        copy_narrow_bytes: width("copy_narrow_bytes")?,
        copy_narrow_until_bytes: table.whole("copy_narrow_until_bytes")?,
        copy_wide_bytes: width("copy_wide_bytes")?,
        copy_tail_bytes: table.whole("copy_tail_bytes")?,
        copy_string_from_bytes: table.whole("copy_string_from_bytes")?,
    }))
}
