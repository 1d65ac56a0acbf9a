// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory on an engine's card: the table `card_memory` of its part.

use crosslane_device::{CardMemoryParameters, Copying, DramParameters};

use super::table::Table;
use crate::error::Result;

/// A copier that reads a burst and then writes it.
const IN_TURN: Copying = Copying::InTurn { turnaround_clocks: 0 };

/// Reads the memory of a part's card; `None` if it has none.
pub(super) fn read(part: &Table<'_>) -> Result<Option<CardMemoryParameters>> {
    let Some(table) = part.table("card_memory")? else { return Ok(None) };
    if !part.has("engine") {
        let problem = "nothing reaches it: the part has no table `engine`";
        return Err(part.bad("card_memory", problem.to_owned()));
    }
    let number = |key: &str| table.whole(key).map(|number| number as u32);
    let copying = match table.choice("copying", &[Copying::Overlapped, IN_TURN])? {
        Copying::Overlapped => Copying::Overlapped,
        Copying::InTurn { .. } => {
            Copying::InTurn { turnaround_clocks: number("turnaround_clocks")? }
        }
    };
    let parameters = CardMemoryParameters {
        bytes: table.whole("memory_bytes")?,
        axi_bytes: number("axi_bytes")?,
        axi_clock: table.ns("axi_clock_ns")?,
        burst_beats: number("burst_beats")?,
        read_ahead_bytes: number("read_ahead_bytes")?,
        read_latency: table.ns("read_latency_ns")?,
        write_latency: table.ns("write_latency_ns")?,
        copying,
        dram: DramParameters {
            channels: number("dram_channels")?,
            bus_bytes: number("dram_bus_bytes")?,
            clock: table.ns("dram_clock_ns")?,
            burst_transfers: number("dram_burst_transfers")?,
            row_bytes: number("dram_row_bytes")?,
            row_change: table.ns("dram_row_change_ns")?,
            refresh_interval: table.ns("dram_refresh_interval_ns")?,
            refresh: table.ns("dram_refresh_ns")?,
        },
    };
    if let Err(error) = parameters.check() {
        return Err(table.bad(error.key(), format!("a card memory's {error}")));
    }
    Ok(Some(parameters))
}
