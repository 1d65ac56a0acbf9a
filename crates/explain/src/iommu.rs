// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the IOMMUs of a lab did while a run's data moved.

use std::fmt;

use crosslane_fabric::{Fabric, IommuCounters, NodeKind};
use crosslane_pcie::units::{HostId, Picoseconds};
use serde::Serialize;

/// What the IOMMU of a host did in a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IommuUse {
    /// The host, as the lab calls it.
    pub host: String,
    /// Pages that its IOTLB holds.
    pub iotlb_entries: u32,
    /// Time of a walk, picoseconds.
    pub walk_ps: u64,
    /// Walks that can be at once.
    pub walks: u32,
    /// Requests that were looked up.
    pub requests: u64,
    /// Those of them whose page was not held, each of which had a walk.
    pub misses: u64,
    /// Those that waited for the walk of another one, for the same page.
    pub joined: u64,
    /// Time in walks, all together, picoseconds.
    pub walking_ps: u64,
    /// Time that misses have waited until a walk was free, all together, picoseconds.
    pub queued_ps: u64,
    /// Time that requests have waited for their translation, all together, picoseconds.
    pub waited_ps: u64,
    /// Walks at once, on average of the time that was counted.
    pub walks_at_once: f64,
}

impl IommuUse {
    /// What an IOMMU has counted in `span`; none where there is none, or it was not asked.
    pub(crate) fn of(
        fabric: &mut Fabric,
        host: HostId,
        counters: &IommuCounters,
        span: Picoseconds,
    ) -> Option<Self> {
        let parameters = fabric.iommu(host)?;
        let root = |node: &&crosslane_fabric::Node| {
            node.kind == NodeKind::RootComplex && node.host == host
        };
        let name = fabric.nodes().iter().find(root)?.name.clone();
        (counters.requests() > 0).then(|| Self {
            host: name,
            iotlb_entries: parameters.iotlb_entries,
            walk_ps: parameters.walk.0,
            walks: parameters.walks,
            requests: counters.requests(),
            misses: counters.misses,
            joined: counters.joined,
            walking_ps: counters.walking.0,
            queued_ps: counters.queued.0,
            waited_ps: counters.waited.0,
            walks_at_once: counters.walking.0 as f64 / span.0.max(1) as f64,
        })
    }
}

/// `IOMMU of host0: 25.0 % of 4096 requests missed an IOTLB of 112 pages; 1.25 of 5 walks of 253 ns
/// at once; a request waited 63.0 ns, 10.0 ns of it for a free walk`.
impl fmt::Display for IommuUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |ps: u64| ps as f64 / self.requests.max(1) as f64 / 1000.0;
        let missed = 100.0 * self.misses as f64 / self.requests.max(1) as f64;
        write!(
            f,
            "IOMMU of {}: {missed:.1} % of {} requests missed an IOTLB of {} pages; {:.2} of {} \
             walks of {} at once; a request waited {:.1} ns, {:.1} ns of it for a free walk",
            self.host,
            self.requests,
            self.iotlb_entries,
            self.walks_at_once,
            self.walks,
            Picoseconds(self.walk_ps),
            each(self.waited_ps),
            each(self.queued_ps),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_one_sentence() {
        let evidence = IommuUse {
            host: "host0".to_owned(),
            iotlb_entries: 112,
            walk_ps: 253_000,
            walks: 5,
            requests: 4096,
            misses: 1024,
            joined: 3,
            walking_ps: 1024 * 253_000,
            queued_ps: 40_960_000,
            waited_ps: 258_048_000,
            walks_at_once: 1.25,
        };
        assert_eq!(
            evidence.to_string(),
            "IOMMU of host0: 25.0 % of 4096 requests missed an IOTLB of 112 pages; 1.25 of 5 walks \
             of 253 ns at once; a request waited 63.0 ns, 10.0 ns of it for a free walk"
        );
    }
}
