// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver as a case.

use std::sync::Arc;

use crosslane_experiment::{LatencyOptions, NoProgress, Workload, WorkloadRun};
use crosslane_fabric::IO_PAGE_BYTES;
use crosslane_host::PageSize;
use crosslane_lab::Lab;
use crosslane_results::{Account, Figure};

use super::{Case, LENGTHS, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers};
use crate::error::ExplainError;

/// Fewest and most round trips of a shortened ping-pong. In a lab all are alike, except for the SKP
/// ordered sets and DLLPs that delay some.
const SHORT_ROUND_TRIPS: (u64, u64) = (4, 100);

impl Case for WorkloadRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        Ok(self.figure()?)
    }

    fn account(&self) -> Result<Option<Account>, ExplainError> {
        Ok(self.run(&NoProgress, None)?.account)
    }

    fn shortened(&self) -> Vec<Short<Self>> {
        match self.workload {
            Workload::Latency(options) => with_fewer_rounds(self, options),
            Workload::Write(options)
            | Workload::Read(options)
            | Workload::Peer(options)
            | Workload::Chain(options) => {
                let transfers = Transfers {
                    count: options.iterations,
                    size_bytes: options.size_bytes,
                    outstanding: options.outstanding.into(),
                };
                let is_shared = self.flows.len() > 1 || matches!(self.workload, Workload::Chain(_));
                let bytes = if is_shared { SHORT_SHARED_BYTES } else { SHORT_BYTES };
                let held = iotlb_bytes(self, options.pages);
                let with = |(transfers, words): Short<Transfers>| {
                    (with_transfers(self, transfers.count, transfers.size_bytes), words)
                };
                transfers.shortened(bytes, held).into_iter().map(with).collect()
            }
        }
    }
}

/// Largest IOTLB, as memory of the pages that it holds, that a shortened run still exceeds: beyond
/// it the run would be too long.
const MOST_HELD_BYTES: u64 = 16 << 20;

fn with_transfers(case: &WorkloadRun, iterations: u64, size_bytes: u64) -> WorkloadRun {
    let mut run = case.clone();
    match &mut run.workload {
        Workload::Latency(_) => {}
        Workload::Write(options)
        | Workload::Read(options)
        | Workload::Peer(options)
        | Workload::Chain(options) => {
            (options.iterations, options.size_bytes) = (iterations, size_bytes);
        }
    }
    run
}

fn with_fewer_rounds(case: &WorkloadRun, options: LatencyOptions) -> Vec<Short<WorkloadRun>> {
    let most = SHORT_BYTES / u64::from(options.message_bytes).max(1);
    let short = most.clamp(SHORT_ROUND_TRIPS.0, SHORT_ROUND_TRIPS.1);
    let mut shortened = Vec::new();
    for rounds in LENGTHS.map(|times| (short * times).min(options.rounds)) {
        let run = WorkloadRun {
            workload: Workload::Latency(LatencyOptions { rounds, ..options }),
            ..case.clone()
        };
        if rounds == options.rounds {
            shortened.push((run, None));
            break;
        }
        let words = format!("{rounds} round trips instead of {}", options.rounds);
        shortened.push((run, Some(words)));
    }
    shortened
}

/// Returns the memory that the IOTLBs of the flows' hosts hold, bytes; 0 without an IOTLB, or if it
/// holds so much that walks do not matter.
fn iotlb_bytes(case: &WorkloadRun, pages: PageSize) -> u64 {
    let hosts = &case.lab.file().hosts;
    let held = case.flows.iter().filter_map(|flow| {
        let iommu = hosts.get(flow.host)?.part.parameters.iommu?;
        let page_bytes = match pages {
            PageSize::Small => IO_PAGE_BYTES,
            PageSize::Huge => iommu.largest_page_bytes,
        };
        Some(u64::from(iommu.iotlb_entries).saturating_mul(page_bytes))
    });
    held.filter(|bytes| *bytes <= MOST_HELD_BYTES).max().unwrap_or(0)
}
