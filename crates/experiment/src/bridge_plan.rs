// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridged transfers over paths, sizes and modes, by one client or several at once, and the gain of
//! overlap.

use crosslane_bridge::{Client, Mode, Path, Report};
use crosslane_host::{Clock, Rdma};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{BridgeReport, BridgeStage, BridgeStep, BridgeTransfer, Overlap};
use futures_util::future::try_join_all;

use crate::bridged::{BridgedMeasured, BridgedOptions, bridged};
use crate::error::Result;
use crate::measured::rate;

/// Transfers to measure: every combination.
#[derive(Clone, Debug)]
pub struct BridgePlan {
    /// Paths of the data.
    pub paths: Vec<Path>,
    /// Pipelined, naive or both.
    pub modes: Vec<Mode>,
    /// Bytes of a transfer, shared by the clients.
    pub sizes: Vec<u64>,
    /// Transfers of each kind.
    pub iterations: u64,
    /// Seed of the data.
    pub seed: u32,
    /// Longest time of each transfer.
    pub timeout: Picoseconds,
}

/// One kind of transfer, measured.
#[derive(Debug)]
pub struct BridgeLine {
    /// Path of the data.
    pub path: Path,
    /// Pipelined or naive.
    pub mode: Mode,
    /// Bytes of a transfer of all clients.
    pub size_bytes: u64,
    /// Number of clients.
    pub clients: usize,
    /// Transfers of the first client.
    pub measured: BridgedMeasured,
    /// Bytes of all clients over the time of the slowest.
    pub bytes_per_second: f64,
    /// Words of 4 B that differ from those sent.
    pub wrong_words: u64,
}

impl BridgePlan {
    /// Makes the transfers, all clients at once; each has its share of the card's memory from
    /// `address` on.
    ///
    /// # Errors
    /// Impossible transfers, and failures on the way.
    pub async fn measure<R: Rdma, C: Clock>(
        &self,
        clients: &[Client<R, C>],
        (card, address): (&str, u64),
    ) -> Result<Vec<BridgeLine>> {
        let mut lines = Vec::new();
        for &path in &self.paths {
            for &size_bytes in &self.sizes {
                for &mode in &self.modes {
                    let size = size_bytes / clients.len() as u64;
                    let options = |index: u64| {
                        BridgedOptions::new(path, mode, card, size)
                            .with_address(address + index * size)
                            .with_iterations(self.iterations)
                            .with_seed(self.seed.wrapping_add(index as u32))
                            .with_timeout(self.timeout)
                    };
                    let runs = clients
                        .iter()
                        .zip(0..)
                        .map(async |(client, index)| bridged(client, &options(index)).await);
                    lines.push(BridgeLine::new(path, mode, size_bytes, try_join_all(runs).await?));
                }
            }
        }
        Ok(lines)
    }
}

impl BridgeLine {
    fn new(path: Path, mode: Mode, size_bytes: u64, measured: Vec<BridgedMeasured>) -> Self {
        let clients = measured.len();
        let wrong_words = measured.iter().map(|one| one.data_errors.words).sum();
        // Clients begin together and have the same to do: all is done when the slowest is.
        let slowest = measured.iter().map(BridgedMeasured::median).max().unwrap_or_default();
        let bytes_per_second = rate(size_bytes, slowest);
        let measured = measured.into_iter().next().expect("there is a client");
        Self { path, mode, size_bytes, clients, measured, bytes_per_second, wrong_words }
    }

    /// Returns the server's report on the transfer of median time.
    ///
    /// # Panics
    /// If no transfer was made.
    #[must_use]
    pub fn report(&self) -> &Report {
        self.measured.report().expect("each transfer has a report")
    }

    /// Returns the transfers as plain data.
    #[must_use]
    pub fn result(&self) -> BridgeTransfer {
        BridgeTransfer {
            path: self.path.to_string(),
            mode: self.mode.to_string(),
            bytes: self.size_bytes,
            clients: self.clients,
            seconds: self.measured.times.iter().map(|time| time.as_seconds()).collect(),
            bytes_per_second: self.bytes_per_second,
            wrong_words: self.wrong_words,
            report: Some(bridge_report(self.report())),
            why_not_faster: self.report().why_not_faster(),
        }
    }
}

/// Returns a server's report as plain data.
#[must_use]
pub fn bridge_report(report: &Report) -> BridgeReport {
    let stages = report.stages.iter().map(|stage| BridgeStage {
        stage: format!("{:?}", stage.stage),
        words: stage.stage.to_string(),
        bytes: stage.bytes,
        operations: stage.operations,
        retries: stage.retries,
        busy_ps: stage.busy_ps,
        waiting_for_slot_ps: stage.waiting_for_slot_ps,
    });
    let steps = report.steps.iter();
    BridgeReport {
        path: format!("{:?}", report.path),
        mode: format!("{:?}", report.mode),
        bytes: report.bytes,
        elapsed_ps: report.elapsed_ps,
        start_ps: report.start_ps,
        slot_bytes: report.slot_bytes,
        chunks: report.chunks,
        is_zero_copy: report.is_zero_copy,
        stages: stages.collect(),
        steps: steps.map(|it| BridgeStep { what: it.what.clone(), time_ps: it.time_ps }).collect(),
        processor_ps: report.processor_ps,
        checksum: report.checksum,
    }
}

/// Returns the gain of overlap, naive over pipelined, and its bound, for each pair of the same
/// transfer.
#[must_use]
pub fn overlaps(lines: &[BridgeLine]) -> Vec<Overlap> {
    let naive = lines.iter().filter(|line| line.mode == Mode::Naive);
    let pairs = naive.filter_map(|naive| {
        let pipelined = lines.iter().find(|line| {
            line.mode == Mode::Pipelined
                && (line.path, line.size_bytes) == (naive.path, naive.size_bytes)
        })?;
        // Of the naive transfer each stage was alone while it worked.
        let alone: Vec<u64> = naive.report().stages.iter().map(|stage| stage.busy_ps).collect();
        let slowest = alone.iter().max().copied().filter(|slowest| *slowest > 0)?;
        let ratio = naive.report().elapsed_ps as f64 / pipelined.report().elapsed_ps.max(1) as f64;
        let bound = alone.iter().sum::<u64>() as f64 / slowest as f64;
        Some(Overlap {
            path: naive.path.to_string(),
            bytes: naive.size_bytes,
            naive_over_pipelined: ratio,
            bound,
            share: ratio / bound,
        })
    });
    pairs.collect()
}
