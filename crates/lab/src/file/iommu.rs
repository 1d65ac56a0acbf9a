// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IOMMU of a root complex: the table `iommu` of its part.

use crosslane_fabric::parameters::IommuParameters;

use super::table::Table;
use crate::error::Result;

/// Reads the IOMMU of a root complex; `None` if it has none.
pub(super) fn read(part: &Table<'_>) -> Result<Option<IommuParameters>> {
    let Some(table) = part.table("iommu")? else { return Ok(None) };
    Ok(Some(IommuParameters {
        iotlb_entries: table.whole("iotlb_entries")? as u32,
        hit: table.ns("hit_ns")?,
        walk: table.ns("walk_ns")?,
        walks: table.whole("walks")? as u32,
        largest_page_bytes: table.whole("largest_page_bytes")?,
        map_page: table.ns("map_page_ns")?,
        invalidate: table.ns("invalidate_ns")?,
    }))
}
