// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory card of an endpoint: the table `memory_card` of its part.

use crosslane_device::{FIFO_BAR, MEMORY_BAR, MemoryCard, MemoryCardParameters, ParameterError};
use crosslane_fabric::parameters::EndpointParameters;

use super::table::Table;
use crate::error::LabError;

const KEYS: [&str; 8] = [
    "banks",
    "bank_bytes",
    "beat_bytes",
    "write_interval_ns",
    "beat_ns",
    "read_latency_ns",
    "fifo_window_bytes",
    "fifo_bytes",
];

/// Reads the memory card of an endpoint's part; `None` if the part is something else.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<MemoryCardParameters>, LabError> {
    let Some(table) = part.table("memory_card")? else { return Ok(None) };
    table.only(&KEYS)?;
    if part.has("engine") {
        return Err(part.bad("memory_card", "a card has an engine or is a memory card".into()));
    }
    let number = |key: &str, most: u64| table.whole(key, 0..=most);
    let parameters = MemoryCardParameters {
        banks: number("banks", u8::MAX.into())? as u8,
        bank_bytes: number("bank_bytes", u64::MAX >> 1)?,
        beat_bytes: number("beat_bytes", u32::MAX.into())? as u32,
        write_interval: table.ns("write_interval_ns")?,
        beat: table.ns("beat_ns")?,
        read_latency: table.ns("read_latency_ns")?,
        fifo_window_bytes: number("fifo_window_bytes", u32::MAX.into())? as u32,
        fifo_bytes: number("fifo_bytes", u32::MAX.into())? as u32,
    };
    if let Err(error) = parameters.check() {
        let (ParameterError::OutOfRange { name, .. } | ParameterError::NoPowerOfTwo { name, .. }) =
            error;
        let key = match name {
            "write_interval (ps)" => "write_interval_ns",
            "beat (ps)" => "beat_ns",
            "read_latency (ps)" => "read_latency_ns",
            _ => name,
        };
        return Err(table.bad(key, format!("a memory card's {error}")));
    }
    let memory_bytes = u64::from(parameters.banks) * parameters.bank_bytes;
    for (index, key, need, what) in [
        (0, "bar0", MemoryCard::REGISTER_BYTES.into(), "a memory card's registers"),
        (FIFO_BAR, "bar2", parameters.fifo_window_bytes.into(), "the window of its FIFO"),
        (MEMORY_BAR, "bar4", memory_bytes, "its banks"),
    ] {
        let Some(bar) = endpoint.bars[index] else { return Err(part.missing(key)) };
        let have = bar.size_bytes;
        if have < need {
            let bar = part.needed_table(key)?;
            return Err(bar.bad("size_bytes", format!("{what} take {need} B, not {have} B")));
        }
    }
    Ok(Some(parameters))
}
