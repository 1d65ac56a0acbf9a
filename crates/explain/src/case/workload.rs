// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver as a case.

use crosslane_experiment::{EngineWork, LatencyOptions, Scenario, Workload};
use crosslane_fabric::IO_PAGE_BYTES;
use crosslane_host::PageSize;

use super::{Explainable, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers, lengthened};
use crate::error::ExplainError;
use crate::limits;
use crate::search::Lever;

/// Fewest and most round trips of a shortened ping-pong. In a lab all are alike, except for the SKP
/// ordered sets and DLLPs that delay some.
const SHORT_ROUND_TRIPS: (u64, u64) = (4, 100);

impl Explainable for EngineWork {
    const HAS_ACCOUNT: bool = true;

    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let Self { workload, flows } = &scenario.work;
        let options = match workload {
            Workload::Latency(options) => return with_fewer_rounds(scenario, *options),
            Workload::Write(it) | Workload::Read(it) | Workload::Peer(it) | Workload::Chain(it) => {
                it
            }
        };
        let transfers = Transfers {
            count: options.iterations,
            size_bytes: options.size_bytes,
            outstanding: options.outstanding.into(),
        };
        let is_shared = flows.len() > 1 || matches!(workload, Workload::Chain(_));
        let bytes = if is_shared { SHORT_SHARED_BYTES } else { SHORT_BYTES };
        let with = |(transfers, words): Short<Transfers>| {
            let mut short = scenario.clone();
            if let Some(options) = short.work.workload.options_mut() {
                (options.iterations, options.size_bytes) = (transfers.count, transfers.size_bytes);
            }
            (short, words)
        };
        let held = iotlb_bytes(scenario, options.pages);
        transfers.shortened(bytes, held).into_iter().map(with).collect()
    }

    fn levers(
        scenario: &Scenario<Self>,
        first: &Scenario<Self>,
    ) -> Result<Vec<Lever<Scenario<Self>>>, ExplainError> {
        limits::of_engines(scenario, first)
    }
}

/// Largest IOTLB, as memory of the pages that it holds, that a shortened run still exceeds: beyond
/// it the run would be too long.
const MOST_HELD_BYTES: u64 = 16 << 20;

fn with_fewer_rounds(
    scenario: &Scenario<EngineWork>,
    options: LatencyOptions,
) -> Vec<Short<Scenario<EngineWork>>> {
    let most = SHORT_BYTES / u64::from(options.message_bytes).max(1);
    let least = most.clamp(SHORT_ROUND_TRIPS.0, SHORT_ROUND_TRIPS.1);
    lengthened(|times| {
        let rounds = (least * times).min(options.rounds);
        let mut short = scenario.clone();
        short.work.workload = Workload::Latency(LatencyOptions { rounds, ..options });
        let words = format!("{rounds} round trips instead of {}", options.rounds);
        (short, (rounds != options.rounds).then_some(words))
    })
}

/// Returns the memory that the IOTLBs of the flows' hosts hold, bytes; 0 without an IOTLB, or if it
/// holds so much that walks do not matter.
fn iotlb_bytes(case: &Scenario<EngineWork>, pages: PageSize) -> u64 {
    let hosts = &case.lab.file().hosts;
    let held = case.work.flows.iter().filter_map(|flow| {
        let iommu = hosts.get(flow.host)?.part.parameters.iommu?;
        let page_bytes = match pages {
            PageSize::Small => IO_PAGE_BYTES,
            PageSize::Huge => iommu.largest_page_bytes,
        };
        Some(u64::from(iommu.iotlb_entries).saturating_mul(page_bytes))
    });
    held.filter(|bytes| *bytes <= MOST_HELD_BYTES).max().unwrap_or(0)
}
