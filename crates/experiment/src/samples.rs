// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of links, read again and again, so that any span of a run can be cut out afterwards.

use crosslane_fabric::{
    DirectionId, Fabric, IommuCounters, LinkCounters, LinkDirection, LinkId, NodeKind,
};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::IommuUse;

use crate::iommu::iommu_use;

/// Labs with no more directions of links than this are counted as a whole; of larger ones, those
/// that the run's packets cross.
const MAX_DIRECTIONS: usize = 64;
/// Most samples that are kept; of a run that takes longer than thought every second one goes.
const MAX_SAMPLES: usize = 16_000;

/// Counters at one time.
#[derive(Debug)]
struct Sample {
    at: Picoseconds,
    counters: Vec<LinkCounters>,
    iommus: Vec<IommuCounters>,
}

/// Counters of some directions at many times.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Directions that are read; the first `used` of them are those that the run's packets cross.
    pub directions: Vec<DirectionId>,
    pub used: usize,
    /// Hosts with an IOMMU.
    iommus: Vec<HostId>,
    taken: Vec<Sample>,
}

impl Samples {
    /// Begins samples of a run whose packets cross these directions.
    pub fn new(fabric: &mut Fabric, used: Vec<DirectionId>) -> Self {
        let mut directions = used;
        let count = directions.len();
        if 2 * fabric.links().len() <= MAX_DIRECTIONS {
            let links = (0..fabric.links().len()).map(|link| LinkId(link as u32));
            let all = links.flat_map(|link| {
                [LinkDirection::Up, LinkDirection::Down]
                    .map(|heading| DirectionId { link, heading })
            });
            for direction in all {
                if !directions[..count].contains(&direction) {
                    directions.push(direction);
                }
            }
        }
        let roots = fabric.nodes().iter().filter(|node| node.kind == NodeKind::RootComplex);
        let mut iommus: Vec<HostId> = roots.map(|node| node.host).collect();
        iommus.retain(|host| fabric.iommu(*host).is_some());
        Self { directions, used: count, iommus, taken: Vec::new() }
    }

    /// Reads the counters. True if every second sample has been dropped to make room: samples of a
    /// longer run may be taken half as often from now on.
    pub fn take(&mut self, fabric: &mut Fabric) -> bool {
        let is_full = self.taken.len() >= MAX_SAMPLES;
        if is_full {
            let mut position = 0_usize;
            self.taken.retain(|_| {
                position += 1;
                position % 2 == 1
            });
        }
        let counters = self.directions.iter().map(|id| fabric.counters(*id)).collect();
        let iommus = self.iommus.iter().map(|host| fabric.iommu_counters(*host));
        let iommus = iommus.map(Option::unwrap_or_default).collect();
        self.taken.push(Sample { at: fabric.now(), counters, iommus });
        is_full
    }

    /// Returns the counts between two times, and their span: between the first and the last sample
    /// within them, or, where these are not two, between those around them.
    pub fn between(
        &self,
        from: Picoseconds,
        to: Picoseconds,
    ) -> Option<(Vec<LinkCounters>, Picoseconds)> {
        let (first, last) = self.around(from, to)?;
        let counted = last.counters.iter().zip(&first.counters);
        let counted = counted.map(|(last, first)| last.since(first)).collect();
        Some((counted, last.at.since(first.at)))
    }

    /// Returns the use of the IOMMUs in the same time, of those that were asked for anything.
    pub fn iommus_between(
        &self,
        fabric: &mut Fabric,
        from: Picoseconds,
        to: Picoseconds,
    ) -> Vec<IommuUse> {
        let Some((first, last)) = self.around(from, to) else { return Vec::new() };
        let span = last.at.since(first.at);
        let counted = last.iommus.iter().zip(&first.iommus).zip(&self.iommus);
        counted
            .filter_map(|((last, first), host)| iommu_use(fabric, *host, &last.since(first), span))
            .collect()
    }

    fn around(&self, from: Picoseconds, to: Picoseconds) -> Option<(&Sample, &Sample)> {
        let samples = &self.taken;
        let first = samples.partition_point(|sample| sample.at.0 < from.0);
        let last = samples.partition_point(|sample| sample.at.0 <= to.0).checked_sub(1)?;
        let (first, last) = if first < last {
            (first, last)
        } else {
            (first.saturating_sub(1), (last + 1).min(samples.len() - 1))
        };
        Some((samples.get(first)?, samples.get(last)?))
    }
}
