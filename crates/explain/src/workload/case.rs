// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run through the driver as one figure.

use std::sync::Arc;

use crosslane_bench::{LatencyOptions, Measured, NoObserver, RoundTrips, Together};
use crosslane_fabric::IO_PAGE_BYTES;
use crosslane_host::PageSize;
use crosslane_lab::{Lab, Simulation};
use crosslane_results::{Account, Better, Figure};

use super::gather::{first_errors, wrong_words};
use super::job::{Brought, Job};
use super::run::WorkloadRun;
use crate::case::{Case, LENGTHS, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers};
use crate::error::ExplainError;
use crate::progress::NoProgress;

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

    fn account(&self) -> Result<Option<Account>, ExplainError> {
        Ok(self.run(&NoProgress, None)?.account)
    }

    fn shortened(&self) -> Vec<Short<Self>> {
        match self.job {
            Job::Latency(options) => self.with_fewer_rounds(options),
            Job::Write(options) | Job::Read(options) | Job::Peer(options) | Job::Chain(options) => {
                let transfers = Transfers {
                    count: options.iterations,
                    size_bytes: options.size_bytes,
                    outstanding: options.outstanding.into(),
                };
                let is_shared = self.flows.len() > 1 || matches!(self.job, Job::Chain(_));
                let bytes = if is_shared { SHORT_SHARED_BYTES } else { SHORT_BYTES };
                let held = self.iotlb_bytes(options.pages);
                let with = |(transfers, words): Short<Transfers>| {
                    (self.with_transfers(transfers.count, transfers.size_bytes), words)
                };
                transfers.shortened(bytes, held).into_iter().map(with).collect()
            }
        }
    }
}

/// More than this of a host's memory, in pages that an IOTLB holds, no shortened run is to go
/// beyond: it would be no short one.
const MOST_HELD_BYTES: u64 = 16 << 20;

impl WorkloadRun {
    fn with_transfers(&self, iterations: u64, size_bytes: u64) -> Self {
        let mut run = self.clone();
        match &mut run.job {
            Job::Latency(_) => {}
            Job::Write(options) | Job::Read(options) | Job::Peer(options) | Job::Chain(options) => {
                (options.iterations, options.size_bytes) = (iterations, size_bytes);
            }
        }
        run
    }

    fn with_fewer_rounds(&self, options: LatencyOptions) -> Vec<Short<Self>> {
        let most = SHORT_BYTES / u64::from(options.message_bytes).max(1);
        let short = most.clamp(SHORT_ROUND_TRIPS.0, SHORT_ROUND_TRIPS.1);
        let mut shortened = Vec::new();
        for rounds in LENGTHS.map(|times| (short * times).min(options.rounds)) {
            let run =
                Self { job: Job::Latency(LatencyOptions { rounds, ..options }), ..self.clone() };
            if rounds == options.rounds {
                shortened.push((run, None));
                break;
            }
            let words = format!("{rounds} round trips instead of {}", options.rounds);
            shortened.push((run, Some(words)));
        }
        shortened
    }

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

fn rate(together: &Together) -> Result<Figure, ExplainError> {
    for flow in &together.flows {
        if let Some(error) = wrong_words(&flow.name, flow.data_errors.words) {
            return Err(ExplainError::Failed(error));
        }
    }
    Ok(rate_of(&together.flows.iter().collect::<Vec<_>>()))
}

/// All bytes of all flows, from the first beginning to the last end.
pub(super) fn rate_of(flows: &[&Measured]) -> Figure {
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let started = flows.iter().map(|flow| flow.started).min().unwrap_or_default();
    let ended = flows.iter().map(|flow| flow.ended).max().unwrap_or_default();
    let seconds = ended.since(started).as_seconds();
    let value = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    Figure { value, better: Better::Higher }
}

fn one_way(round_trips: &RoundTrips) -> Result<Figure, ExplainError> {
    match wrong_words(&round_trips.name, round_trips.data_errors.words) {
        Some(error) => Err(ExplainError::Failed(error)),
        None => Ok(one_way_of(round_trips)),
    }
}

/// The typical time one way.
pub(super) fn one_way_of(round_trips: &RoundTrips) -> Figure {
    Figure { value: round_trips.one_way().typical_ps as f64, better: Better::Lower }
}
