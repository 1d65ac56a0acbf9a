// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IOMMU of a root complex: the table `iommu` of its part.

use crosslane_fabric::parameters::IommuParameters;
use crosslane_fabric::{IO_LARGE_PAGE_BYTES, IO_PAGE_BYTES, MAX_IO_WALKS, MAX_IOTLB_ENTRIES};

use super::table::Table;
use crate::error::Result;

const KEYS: [&str; 7] = [
    "iotlb_entries", "hit_ns", "walk_ns", "walks", "largest_page_bytes", "map_page_ns",
    "invalidate_ns",
];

/// Reads the IOMMU of a root complex; `None` if it has none.
pub(super) fn read(part: &Table<'_>) -> Result<Option<IommuParameters>> {
    let Some(table) = part.table("iommu")? else { return Ok(None) };
    table.only(&KEYS)?;
    let largest_page_bytes =
        table.power_of_two("largest_page_bytes", IO_PAGE_BYTES..=IO_LARGE_PAGE_BYTES)?;
    if ![IO_PAGE_BYTES, IO_LARGE_PAGE_BYTES].contains(&largest_page_bytes) {
        let problem = format!(
            "pages are of {IO_PAGE_BYTES} or {IO_LARGE_PAGE_BYTES} B, not {largest_page_bytes} B"
        );
        return Err(table.bad("largest_page_bytes", problem));
    }
    Ok(Some(IommuParameters {
        iotlb_entries: table.whole("iotlb_entries", 1..=MAX_IOTLB_ENTRIES.into())? as u32,
        hit: table.ns("hit_ns")?,
        walk: table.ns("walk_ns")?,
        walks: table.whole("walks", 1..=MAX_IO_WALKS.into())? as u32,
        largest_page_bytes,
        map_page: table.ns_or_off("map_page_ns")?,
        invalidate: table.ns_or_off("invalidate_ns")?,
    }))
}
