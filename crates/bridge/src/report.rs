// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a transfer has taken, and why it was not faster.

use std::fmt;

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, StageStatistics};

/// The way that data take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Path {
    /// From a remote node's memory into the FPGA's.
    ToFpga,
    /// From the FPGA's memory into a remote node's.
    FromFpga,
    /// From a remote node's memory through the FPGA's stream into a remote node's.
    RoundTrip,
    /// From the memory of this server's FPGA into that of another server's.
    ToPeer,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToFpga => "remote -> FPGA",
            Self::FromFpga => "FPGA -> remote",
            Self::RoundTrip => "remote -> FPGA -> remote",
            Self::ToPeer => "FPGA -> FPGA of another node",
        })
    }
}

/// How the stages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Each chunk goes on as soon as it is there, while others are in the other stages.
    Pipelined,
    /// All data in one piece, one step after the other, with memory that is got and registered
    /// for each transfer.
    Naive,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipelined => "pipelined",
            Self::Naive => "naive",
        })
    }
}

/// One step of a naive transfer, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is done.
    pub what: String,
    /// Time that it took, ps.
    pub time_ps: u64,
}

/// What a server says of a transfer that is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The way.
    pub path: Path,
    /// How.
    pub mode: Mode,
    /// Bytes that have gone the whole way.
    pub bytes: u64,
    /// From the request until all of them had, at the server, ps.
    pub elapsed_ps: u64,
    /// Until the first operation began, ps.
    pub start_ps: u64,
    /// Size of a slot, bytes: no chunk is longer.
    pub slot_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Whether the network has moved the data without copies of its own.
    pub is_zero_copy: bool,
    /// The stages, in the order in which the data go through them.
    pub stages: Vec<StageStatistics>,
    /// Steps of a naive transfer.
    pub steps: Vec<Step>,
    /// Processor time of the server, ps, where that is known: of all that it did meanwhile.
    pub processor_ps: Option<u64>,
    /// CRC-32 (IEEE 802.3) of the data as they lay in the server's slots, if it was asked for.
    pub checksum: Option<u32>,
}

/// A stage that is busy for this part of the time limits the transfer.
const LIMITING: f64 = 0.9;

impl Report {
    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        match self.elapsed_ps {
            0 => 0.0,
            elapsed_ps => self.bytes as f64 / Picoseconds(elapsed_ps).as_seconds(),
        }
    }

    /// Seconds of processor time at the server for each GiB.
    #[must_use]
    pub fn processor_seconds_per_gib(&self) -> Option<f64> {
        let gib = self.bytes as f64 / f64::from(1 << 30);
        self.processor_ps
            .filter(|_| self.bytes > 0)
            .map(|time_ps| Picoseconds(time_ps).as_seconds() / gib)
    }

    /// The part of the time in which a stage was busy.
    #[must_use]
    pub fn busy(&self, stage: &StageStatistics) -> f64 {
        match self.elapsed_ps {
            0 => 0.0,
            elapsed_ps => stage.busy_ps as f64 / elapsed_ps as f64,
        }
    }

    /// The stage that was busy longest.
    #[must_use]
    pub fn slowest(&self) -> Option<&StageStatistics> {
        self.stages.iter().max_by_key(|stage| stage.busy_ps)
    }

    /// Why it was not faster, a sentence or two.
    #[must_use]
    pub fn why_not_faster(&self) -> String {
        let Some(slowest) = self.slowest() else {
            return "nothing was moved".to_owned();
        };
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        let rate = slowest.bytes_per_second_busy() / 1e6;
        let stage = slowest.stage;
        let busy = self.busy(slowest);
        if self.mode == Mode::Naive {
            let sum: u64 = self.stages.iter().map(|stage| stage.busy_ps).sum();
            let moving = sum as f64 / self.elapsed_ps.max(1) as f64;
            return format!(
                "the steps follow each other: data move for {} of the time, the rest is memory \
                 and messages; the longest stage is the {stage}, {} of the time",
                percent(moving),
                percent(busy)
            );
        }
        if busy >= LIMITING {
            let waits: Vec<String> = self
                .stages
                .iter()
                .filter(|other| other.stage != stage && other.waiting_for_slot_ps > 0)
                .map(|other| {
                    let part = other.waiting_for_slot_ps as f64 / self.elapsed_ps.max(1) as f64;
                    format!("; the {} waited for slots {} of it", other.stage, percent(part))
                })
                .collect();
            return format!(
                "the {stage} limits: busy {} of the time, at {rate:.1} MB/s{}",
                percent(busy),
                waits.concat()
            );
        }
        let start = self.start_ps as f64 / self.elapsed_ps.max(1) as f64;
        format!(
            "no stage is busy throughout: the {stage} is for {}, the time until data moved was {}, \
             the rest is the filling and draining of the pipeline and what each of its {} chunks \
             takes beside its data",
            percent(busy),
            percent(start),
            self.chunks
        )
    }
}

/// The stages of a path, in the order in which the data go through them.
#[must_use]
pub const fn stages_of(path: Path) -> &'static [Stage] {
    match path {
        Path::ToFpga => &[Stage::RdmaRead, Stage::Dma],
        Path::FromFpga => &[Stage::Dma, Stage::RdmaWrite],
        // The other server reads.
        Path::ToPeer => &[Stage::Dma, Stage::RdmaRead],
        Path::RoundTrip => &[Stage::RdmaRead, Stage::Dma, Stage::RdmaWrite],
    }
}
