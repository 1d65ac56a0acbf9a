// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridged transfers: benchmarks, and files to and from cards.

use serde::{Deserialize, Serialize};

use crate::bench::Interrupted;
use crate::explanation::Explanation;

/// Outcome of `crosslane bridge bench`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bridge {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// `bridge`.
    pub bench: String,
    /// The lab, or network and card.
    #[serde(rename = "where")]
    pub place: String,
    /// Random seed.
    #[serde(default)]
    pub seed: u64,
    /// Version of the program.
    #[serde(default)]
    pub version: String,
    /// The transfers.
    pub transfers: Vec<BridgeTransfer>,
    /// The gain of overlap.
    #[serde(default)]
    pub overlap: Vec<Overlap>,
    /// How far it came, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// One kind of bridged transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BridgeTransfer {
    /// `put`, `get`, ….
    pub path: String,
    /// `pipelined` or `naive`.
    pub mode: String,
    /// Bytes of a transfer.
    pub bytes: u64,
    /// Clients at once.
    pub clients: usize,
    /// Duration of each transfer of the first client, seconds.
    pub seconds: Vec<f64>,
    /// Rate of all clients together.
    pub bytes_per_second: f64,
    /// Words of 4 B that differ from those sent.
    #[serde(default)]
    pub wrong_words: u64,
    /// The server's report of the transfer of median time; old files have none.
    #[serde(default)]
    pub report: Option<BridgeReport>,
    /// The slowest stage, in a sentence.
    #[serde(default)]
    pub why_not_faster: String,
    /// Explanation of the transfers; absent if it was not requested or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Reason for which there is no explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_explained: Option<String>,
}

/// Gain of overlapping the stages of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// `put`, `get`, ….
    pub path: String,
    /// Bytes of a transfer.
    pub bytes: u64,
    /// Duration without overlap over duration with it.
    pub naive_over_pipelined: f64,
    /// Upper bound of that ratio, by the stages alone.
    pub bound: f64,
    /// The ratio as a share of its bound.
    pub share: f64,
}

/// A server's report of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BridgeReport {
    /// Path: `ToFpga`, `FromFpga`, `RoundTrip`, `ToPeer` or `WithinNode`.
    pub path: String,
    /// `Pipelined` or `Naive`.
    pub mode: String,
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
    /// The stages, in the order of the data's path.
    pub stages: Vec<BridgeStage>,
    /// Steps of a naive transfer.
    pub steps: Vec<BridgeStep>,
    /// Processor time of the server, ps, if known, including its other work in that time.
    pub processor_ps: Option<u64>,
    /// CRC-32 (IEEE 802.3) of the data in the server's slots, if requested.
    pub checksum: Option<u32>,
    /// Bytes that the card has moved meanwhile, for all clients; 0 in old files.
    #[serde(default)]
    pub card_bytes: u64,
    /// An equal share of them: for each byte its part by the number of clients that had a transfer
    /// under way; 0 in old files.
    #[serde(default)]
    pub fair_share_bytes: u64,
    /// The way of a copy within the server's node, and why it is no shorter one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
}

/// Statistics of a stage in one transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BridgeStage {
    /// The stage: `RdmaRead`, ….
    pub stage: String,
    /// Name of the stage in words: `RDMA read`.
    #[serde(default)]
    pub words: String,
    /// Bytes moved.
    pub bytes: u64,
    /// Number of operations: reads, writes, DMA transfers, copies.
    pub operations: u64,
    /// Operations repeated because another client's had failed before them.
    pub retries: u64,
    /// Time with at least one operation in flight, ps.
    pub busy_ps: u64,
    /// Time with work to do but no slot for it, ps.
    pub waiting_for_slot_ps: u64,
}

/// One step of a naive transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BridgeStep {
    /// The work of the step.
    pub what: String,
    /// Duration of the step, ps.
    pub time_ps: u64,
}

/// Outcome of `crosslane bridge put`, `get`, `roundtrip` and `copy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BridgeCopy {
    /// Source and target.
    pub what: String,
    /// Bytes.
    pub bytes: u64,
    /// Duration, seconds.
    pub seconds: f64,
    /// Rate of the transfer, bytes per second.
    pub bytes_per_second: f64,
    /// CRC-32 of the data, the same at both ends, in hexadecimal digits.
    pub crc32: Option<String>,
    /// Number of times that the transfer was resumed.
    pub network: String,
    /// Number of times that it was resumed.
    pub retries: u32,
    /// The server's reports of the transfers.
    pub transfers: Vec<BridgeReport>,
    /// Slowest stage of each transfer, in a sentence.
    pub why_not_faster: Vec<String>,
}
