// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Use of a lab's IOMMUs while a run's data moved.

use crosslane_fabric::{Fabric, IommuCounters, NodeKind};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::IommuUse;

/// Returns the use of an IOMMU in `span`; none if there is no IOMMU, or it was not asked.
pub(crate) fn iommu_use(
    fabric: &mut Fabric,
    host: HostId,
    counters: &IommuCounters,
    span: Picoseconds,
) -> Option<IommuUse> {
    let parameters = fabric.iommu(host)?;
    let root =
        |node: &&crosslane_fabric::Node| node.kind == NodeKind::RootComplex && node.host == host;
    let name = fabric.nodes().iter().find(root)?.name.clone();
    (counters.requests() > 0).then(|| IommuUse {
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
