// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver as one figure.

use std::sync::Arc;

use crosslane_bench::{NoObserver, RoundTrips, Together};
use crosslane_fabric::IO_PAGE_BYTES;
use crosslane_host::PageSize;
use crosslane_lab::{Lab, Simulation};

use super::gather::{first_errors, wrong_words};
use super::job::{Brought, Job};
use super::run::WorkloadRun;
use crate::case::{Case, SHORT_BYTES, SHORT_SHARED_BYTES, Transfers};
use crate::error::ExplainError;
use crate::explanation::{Better, Figure};

/// Fewest and most round trips of a shortened ping-pong. In a lab every one is like every other,
/// except for what SKP ordered sets and DLLPs add to some.
const SHORT_ROUND_TRIPS: (u64, u64) = (4, 100);

impl Case for WorkloadRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        let simulation = Simulation::new(self.lab.build_engines(self.seed)?);
        simulation.with_fabric(|fabric| fabric.set_dllps_free(self.dllps_free));
        self.set_payloads(&simulation)?;
        let failed = |error: &dyn std::error::Error| ExplainError::Failed(error.to_string());
        let brought = simulation
            .run("bench", self.drive(&simulation, &NoObserver))
            .map_err(|stuck| failed(&stuck))?
            .map_err(|error| failed(&error))?;
        simulation.finish().map_err(|stuck| failed(&stuck))?;
        if let Some(error) = simulation.with_fabric(|fabric| first_errors(fabric)).pop() {
            return Err(ExplainError::Failed(error));
        }
        match brought {
            Brought::Flows(together) => rate(&together),
            Brought::RoundTrips(round_trips) => one_way(&round_trips),
        }
    }

    fn shortened(&self) -> Option<(Self, String)> {
        let mut short = self.clone();
        let words = match &mut short.job {
            Job::Latency(options) => {
                let most = SHORT_BYTES / u64::from(options.message_bytes).max(1);
                let rounds = most.clamp(SHORT_ROUND_TRIPS.0, SHORT_ROUND_TRIPS.1);
                if options.rounds <= rounds {
                    return None;
                }
                let words = format!("{rounds} round trips instead of {}", options.rounds);
                options.rounds = rounds;
                words
            }
            Job::Write(options) | Job::Read(options) | Job::Peer(options) | Job::Chain(options) => {
                let transfers = Transfers {
                    count: options.iterations,
                    size_bytes: options.size_bytes,
                    outstanding: options.outstanding.into(),
                };
                let is_shared = self.flows.len() > 1 || matches!(self.job, Job::Chain(_));
                let bytes = if is_shared { SHORT_SHARED_BYTES } else { SHORT_BYTES };
                let held = self.iotlb_bytes(options.pages);
                let (transfers, words) = transfers.shortened_beyond(bytes, held)?;
                options.iterations = transfers.count;
                options.size_bytes = transfers.size_bytes;
                words
            }
        };
        Some((short, words))
    }
}

/// More than this of a host's memory, in pages that an IOTLB holds, no shortened run is to go
/// beyond: it would be no short one.
const MOST_HELD_BYTES: u64 = 16 << 20;

impl WorkloadRun {
    /// What the IOTLBs of the flows' hosts hold of their memory, bytes; nothing where there is
    /// none, or it is so much that no walk matters.
    fn iotlb_bytes(&self, pages: PageSize) -> u64 {
        let hosts = &self.lab.file().hosts;
        let held = self.flows.iter().filter_map(|flow| {
            let iommu = hosts.get(flow.host)?.part.parameters.iommu?;
            let page_bytes = match pages {
                PageSize::Small => IO_PAGE_BYTES,
                PageSize::Huge => iommu.largest_page_bytes,
            };
            Some(u64::from(iommu.iotlb_entries).saturating_mul(page_bytes))
        });
        held.filter(|bytes| *bytes <= MOST_HELD_BYTES).max().unwrap_or(0)
    }
}

/// All bytes of all flows, from the first beginning to the last end.
fn rate(together: &Together) -> Result<Figure, ExplainError> {
    let flows = &together.flows;
    for flow in flows {
        if let Some(error) = wrong_words(&flow.name, flow.data_errors.words) {
            return Err(ExplainError::Failed(error));
        }
    }
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let started = flows.iter().map(|flow| flow.started).min().unwrap_or_default();
    let ended = flows.iter().map(|flow| flow.ended).max().unwrap_or_default();
    let seconds = ended.since(started).as_seconds();
    let value = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    Ok(Figure { value, better: Better::Higher })
}

fn one_way(round_trips: &RoundTrips) -> Result<Figure, ExplainError> {
    match wrong_words(&round_trips.name, round_trips.data_errors.words) {
        Some(error) => Err(ExplainError::Failed(error)),
        None => {
            let value = round_trips.one_way().typical_ps as f64;
            Ok(Figure { value, better: Better::Lower })
        }
    }
}
