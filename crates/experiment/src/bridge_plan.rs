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
    ) -> Result<Vec<BridgeTransfer>> {
        let mut transfers = Vec::new();
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
                    let measured = try_join_all(runs).await?;
                    transfers.push(transfer_of(path, mode, size_bytes, &measured));
                }
            }
        }
        Ok(transfers)
    }
}

/// Returns transfers of one kind by several clients: the times and the report are those of the
/// first client.
fn transfer_of(
    path: Path,
    mode: Mode,
    size_bytes: u64,
    measured: &[BridgedMeasured],
) -> BridgeTransfer {
    // Clients begin together and have the same to do: all is done when the slowest is.
    let slowest = measured.iter().map(BridgedMeasured::median).max().unwrap_or_default();
    let report = measured[0].report().expect("each transfer has a report");
    BridgeTransfer {
        path: path.to_string(),
        mode: mode.to_string(),
        bytes: size_bytes,
        clients: measured.len(),
        seconds: measured[0].times.iter().map(|time| time.as_seconds()).collect(),
        bytes_per_second: rate(size_bytes, slowest),
        wrong_words: measured.iter().map(|one| one.data_errors.words).sum(),
        report: Some(bridge_report(report)),
        why_not_faster: report.why_not_faster(),
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
pub fn overlaps(transfers: &[BridgeTransfer]) -> Vec<Overlap> {
    let of = |mode: Mode| {
        let mode = mode.to_string();
        transfers.iter().filter(move |one| one.mode == mode)
    };
    let pairs = of(Mode::Naive).filter_map(|naive| {
        let mut pipelined = of(Mode::Pipelined);
        let pipelined =
            pipelined.find(|one| (&one.path, one.bytes) == (&naive.path, naive.bytes))?;
        let (naive_report, report) = (naive.report.as_ref()?, pipelined.report.as_ref()?);
        // Of the naive transfer each stage was alone while it worked.
        let alone: Vec<u64> = naive_report.stages.iter().map(|stage| stage.busy_ps).collect();
        let slowest = alone.iter().max().copied().filter(|slowest| *slowest > 0)?;
        let ratio = naive_report.elapsed_ps as f64 / report.elapsed_ps.max(1) as f64;
        let bound = alone.iter().sum::<u64>() as f64 / slowest as f64;
        Some(Overlap {
            path: naive.path.clone(),
            bytes: naive.bytes,
            naive_over_pipelined: ratio,
            bound,
            share: ratio / bound,
        })
    });
    pairs.collect()
}
