// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory card of an endpoint: the table `memory_card` of its part.

use crosslane_device::{FIFO_BAR, MEMORY_BAR, MemoryCard, MemoryCardParameters};
use crosslane_fabric::parameters::EndpointParameters;

use super::model;
use super::table::Table;
use crate::error::Result;

/// Reads the memory card of an endpoint's part; `None` if the part is something else.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<MemoryCardParameters>> {
    let name = ("memory_card", "a memory card");
    let parameters: Option<MemoryCardParameters> = model::read(part, endpoint, name, &["engine"])?;
    if let Some(parameters) = &parameters {
        let apertures = [
            (0, MemoryCard::REGISTER_BYTES.into(), "a memory card's registers"),
            (FIFO_BAR, parameters.fifo_window_bytes.into(), "the window of its FIFO"),
            (MEMORY_BAR, parameters.memory_bytes(), "its banks"),
        ];
        model::check_bars(part, endpoint, &apertures)?;
    }
    Ok(parameters)
}
