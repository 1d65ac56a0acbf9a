// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IOMMUs of hosts: misses of an IOTLB, and their page table walks.

use std::sync::Arc;

use crosslane_lab::LabFile;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

use super::Spot;
use super::ways::{PortRef, Requester, Transfer, Ways};

/// Returns whether any part of a transfer is translated: an engine's descriptors and status are in
/// host memory, so its requests always reach the root complex. A core's requests are not
/// translated.
fn is_translated(ways: &Ways, transfer: &Transfer) -> bool {
    let reaches_root = transfer
        .requests
        .iter()
        .any(|direction| matches!(ways.ends(*direction).1.parameters, PortRef::Root(_)));
    match transfer.requester {
        Requester::Engine(_) | Requester::Processor(_) => true,
        Requester::Generic(_) => reaches_root,
        Requester::Core(_) => false,
    }
}

pub(super) fn spots(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let translated = ways.transfers.iter().filter(|transfer| is_translated(ways, transfer));
    let mut hosts: Vec<usize> = translated.map(|transfer| transfer.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let spot = |index: usize| {
        let host = &file.hosts[index];
        let iommu = host.part.parameters.iommu?;
        if iommu.walk == Picoseconds::ZERO {
            return None;
        }
        let pages = match iommu.iotlb_entries {
            0 => "that holds no page".to_owned(),
            1 => "of one page".to_owned(),
            entries => format!("of {entries} pages"),
        };
        let at_once = match iommu.walks {
            0 | 1 => "one at once".to_owned(),
            walks => format!("{walks} at once"),
        };
        let walk = iommu.walk;
        let words = format!("misses of {{}}'s IOTLB {pages}, walks of {walk} for them, {at_once}");
        // A miss that takes no time equals a hit, even the first one of a page.
        let edit = move |file: &mut LabFile| {
            let parameters = &mut Arc::make_mut(&mut file.hosts[index].part).parameters;
            parameters.iommu.iter_mut().for_each(|iommu| iommu.walk = Picoseconds::ZERO);
        };
        Some(Spot::new(LimitKind::Iotlb, &host.name, words, "every page held", edit))
    };
    hosts.into_iter().filter_map(spot).collect()
}
