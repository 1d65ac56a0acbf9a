// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effect of an IOMMU on a rate: page-table walks for pages missing from its IOTLB.

use crosslane_host::{IoTranslation, PageSize};

const SMALL_PAGE_BYTES: u64 = 4 << 10;
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Memory that is gone through again and again from start to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streamed {
    /// Length in bytes.
    pub bytes: u64,
    pub pages: PageSize,
}

impl Streamed {
    /// Worst case: more than any IOTLB holds, in the smallest pages.
    pub const WORST: Self = Self { bytes: u64::MAX, pages: PageSize::Small };
}

/// Returns the highest rate through an IOMMU to and from memory, bytes per second; infinite if its
/// IOTLB holds all of it. The IOTLB evicts the least recently used entry, so larger memory needs a
/// walk for each page every time, with up to `walks` at once. A device with little in flight, or
/// other users of the IOTLB, may get less.
pub(super) fn walked_bytes_per_second(iommu: &IoTranslation, memory: Streamed) -> f64 {
    let page_bytes = match memory.pages {
        PageSize::Small => SMALL_PAGE_BYTES,
        PageSize::Huge => HUGE_PAGE_BYTES.min(iommu.largest_page_bytes),
    };
    let walk_seconds = iommu.walk.as_seconds();
    let is_held = memory.bytes.div_ceil(page_bytes.max(1)) <= u64::from(iommu.iotlb_pages);
    if is_held || walk_seconds <= 0.0 {
        return f64::INFINITY;
    }
    page_bytes as f64 * f64::from(iommu.walks.max(1)) / walk_seconds
}

#[cfg(test)]
mod tests {
    use crosslane_pcie::units::Picoseconds;

    use super::*;

    #[test]
    fn walks_for_every_page_that_is_not_held() {
        let iommu = IoTranslation {
            iotlb_pages: 64,
            largest_page_bytes: HUGE_PAGE_BYTES,
            walk: Picoseconds::from_ns(1000),
            walks: 2,
        };
        let rate = |iommu: IoTranslation, bytes, pages| {
            walked_bytes_per_second(&iommu, Streamed { bytes, pages })
        };
        let held = 64 * SMALL_PAGE_BYTES;
        assert_eq!(rate(iommu, held, PageSize::Small), f64::INFINITY);
        // Two walks of 1 us at once: 4 KiB each, twice a microsecond.
        assert!((rate(iommu, held + 1, PageSize::Small) / 8.192e9 - 1.0).abs() < 1e-12);
        assert_eq!(rate(iommu, held + 1, PageSize::Huge), f64::INFINITY);
        let huge = rate(iommu, 65 * HUGE_PAGE_BYTES, PageSize::Huge);
        assert!((huge / (512.0 * 8.192e9) - 1.0).abs() < 1e-12);
        // An IOMMU without large pages has small ones only.
        let small = IoTranslation { largest_page_bytes: SMALL_PAGE_BYTES, ..iommu };
        assert!((rate(small, held + 1, PageSize::Huge) / 8.192e9 - 1.0).abs() < 1e-12);
        // A walk of no time limits nothing, and no walkers count as one.
        let free = IoTranslation { walk: Picoseconds::ZERO, ..iommu };
        assert_eq!(rate(free, u64::MAX, PageSize::Small), f64::INFINITY);
        let none = IoTranslation { walks: 0, iotlb_pages: 0, ..iommu };
        assert!((rate(none, 4, PageSize::Small) / 4.096e9 - 1.0).abs() < 1e-12);
    }
}
