// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Report of a transfer: its times, and why it was not faster.

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

use crate::stage::{Stage, StageStatistics};

/// The path of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
pub enum Path {
    /// From a remote node's memory into the FPGA's.
    #[strum(to_string = "remote -> FPGA")]
    ToFpga,
    /// From the FPGA's memory into a remote node's.
    #[strum(to_string = "FPGA -> remote")]
    FromFpga,
    /// From a remote node's memory through the FPGA's stream into a remote node's.
    #[strum(to_string = "remote -> FPGA -> remote")]
    RoundTrip,
    /// From the memory of this server's FPGA into that of another server's.
    #[strum(to_string = "FPGA -> FPGA of another node")]
    ToPeer,
    /// From the memory of one of this server's FPGAs into that of another.
    #[strum(to_string = "FPGA -> FPGA of the same node")]
    WithinNode,
}

/// Overlap of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// Each chunk moves to the next stage at once, while others are in the other stages.
    Pipelined,
    /// All data in one piece, one step after the other, in memory allocated and registered for each
    /// transfer.
    Naive,
}

/// Work of a naive transfer's step, numbered as in the sbdt paper; the client does the first two.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
    VariantArray,
)]
#[serde(into = "&'static str", try_from = "String")]
pub enum NaiveStep {
    /// Step 3: memory is allocated and registered.
    #[strum(to_string = "3: memory is got and registered")]
    Registration,
    /// Step 4.
    #[strum(to_string = "4: RDMA read of all")]
    RdmaRead,
    /// Step 5: the copy through the card's rings.
    #[strum(to_string = "5: DMA call")]
    Dma,
    /// Step 6: memory for the way back is registered, and the client told.
    #[strum(to_string = "6: memory is registered, and the client told")]
    WayBack,
    /// Step 7.
    #[strum(to_string = "7: RDMA write of all")]
    RdmaWrite,
}

impl NaiveStep {
    /// All of them, in order.
    pub const ALL: &[Self] = Self::VARIANTS;
}

impl TryFrom<String> for NaiveStep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let known = Self::ALL.iter().copied().find(|step| <&str>::from(*step) == text);
        known.ok_or_else(|| format!("no step of a naive transfer: {text}"))
    }
}

/// One step of a naive transfer, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The work of the step.
    pub what: NaiveStep,
    /// Duration of the step, ps.
    pub time_ps: u64,
}

/// A server's report of a complete transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The path of the data.
    pub path: Path,
    /// Pipelined or naive.
    pub mode: Mode,
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Time at the server from the request until all had arrived, ps.
    pub elapsed_ps: u64,
    /// Time until the first operation started, ps.
    pub start_ps: u64,
    /// Size of a slot, bytes; no chunk is longer.
    pub slot_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Whether the network moved the data without copying them.
    pub is_zero_copy: bool,
    /// Statistics of the stages, in the order of the data's path.
    pub stages: Vec<StageStatistics>,
    /// Steps of a naive transfer.
    pub steps: Vec<Step>,
    /// Processor time of the server, ps, if known, including its other work in that time.
    pub processor_ps: Option<u64>,
    /// CRC-32 (IEEE 802.3) of the data in the server's slots, if requested.
    pub checksum: Option<u32>,
    /// Bytes that the card has moved meanwhile, for all clients.
    pub card_bytes: u64,
    /// An equal share of them: for each byte its part by the number of clients that had a transfer
    /// under way.
    pub fair_share_bytes: u64,
    /// The way of a copy within the node, and why it is no shorter one.
    pub route: Option<String>,
}

/// Busy share of the time from which a stage counts as limiting.
const LIMITING: f64 = 0.9;

impl Report {
    /// Returns the bytes per second of the whole transfer.
    pub fn bytes_per_second(&self) -> f64 {
        match self.elapsed_ps {
            0 => 0.0,
            elapsed_ps => self.bytes as f64 / Picoseconds(elapsed_ps).as_seconds(),
        }
    }

    /// Returns the share of the time in which a stage was busy, 0 to 1.
    pub fn busy(&self, stage: &StageStatistics) -> f64 {
        match self.elapsed_ps {
            0 => 0.0,
            elapsed_ps => stage.busy_ps as f64 / elapsed_ps as f64,
        }
    }

    /// Returns the bytes that were moved as a ratio to an equal share: 1 if the client was alone or
    /// had what the others had, less if others had more.
    pub fn of_fair_share(&self) -> f64 {
        match self.fair_share_bytes {
            0 => 1.0,
            share => self.bytes as f64 / share as f64,
        }
    }

    /// Returns the stage that was busy longest.
    pub fn slowest(&self) -> Option<&StageStatistics> {
        self.stages.iter().max_by_key(|stage| stage.busy_ps)
    }

    /// Explains in a sentence or two why it was not faster.
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

/// Returns the stages of a path, in the order of the data.
pub const fn stages_of(path: Path) -> &'static [Stage] {
    match path {
        Path::ToFpga => &[Stage::RdmaRead, Stage::Dma],
        Path::FromFpga => &[Stage::Dma, Stage::RdmaWrite],
        // The other server does the RDMA read.
        Path::ToPeer => &[Stage::Dma, Stage::RdmaRead],
        Path::RoundTrip => &[Stage::RdmaRead, Stage::Dma, Stage::RdmaWrite],
        // One engine reads the other's memory, or else those that its route has.
        Path::WithinNode => {
            &[Stage::Dma, Stage::Receive, Stage::CopyIn, Stage::CopyOut, Stage::Transmit]
        }
    }
}
