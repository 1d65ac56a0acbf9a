// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine of an endpoint: the table `engine` of its part.

use crosslane_device::EngineParameters;
use crosslane_fabric::parameters::{EndpointParameters, PortParameters};

use super::table::Table;
use super::{card_memory, model};
use crate::error::Result;

/// Size of an engine's registers in BAR0, bytes (`docs/engine.md`).
const REGISTER_BYTES: u64 = 1 << 16;
/// Smallest aperture of a receive queue, bytes: a TLP never crosses a multiple of it.
const LEAST_LANE_WINDOW_BYTES: u64 = 4096;

/// Reads the engine of an endpoint's part; `None` if it has none.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    port: &PortParameters,
) -> Result<Option<EngineParameters>> {
    let card_memory = card_memory::read(part)?;
    let Some(table) = part.table("engine")? else { return Ok(None) };
    // An engine must have a datapath; a generic requester need not.
    if endpoint.requester.datapath_bytes == 0 {
        return Err(part.needed_table("requester")?.missing("datapath_bytes"));
    }
    // A receive queue must have room for a whole TLP.
    let payload_bytes = u64::from(port.capability.max_payload_bytes);
    let bytes = table.whole("lane_fifo_bytes")?;
    if bytes < payload_bytes {
        let problem = format!("{bytes} B do not hold a payload of its port, {payload_bytes} B");
        return Err(table.bad("lane_fifo_bytes", problem));
    }
    let parameters = model::read(part, endpoint, ("engine", "an engine"), &[])?;
    let Some(parameters) = parameters.map(|it| EngineParameters { card_memory, ..it }) else {
        return Ok(None);
    };
    let lanes = u64::from(parameters.lanes);
    let apertures = [
        (0, REGISTER_BYTES, "an engine's registers"),
        (1, lanes * LEAST_LANE_WINDOW_BYTES, &*format!("the windows of {lanes} lanes")),
    ];
    model::check_bars(part, endpoint, &apertures)?;
    Ok(Some(parameters))
}
