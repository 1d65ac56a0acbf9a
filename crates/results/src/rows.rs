// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of benchmarks that are lists of rows: single accesses, sweeps of a lab's parameters,
//! and bridged transfers.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bench::{Interrupted, Platform};
use crate::explanation::Explanation;
use crate::flow::Latencies;

/// Outcome of `crosslane bench overhead`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// `overhead`.
    pub bench: String,
    /// Name of the card.
    pub device: String,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// The accesses and transfers.
    pub rows: Vec<OverheadRow>,
}

/// One kind of access or transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverheadRow {
    /// The access or transfer.
    pub what: String,
    /// Number of repetitions.
    #[serde(default)]
    pub rounds: u64,
    /// Bytes of a transfer.
    pub bytes: Option<u64>,
    /// Average duration by the clock of the card's bus, which is simulated in a lab.
    pub bus_ps: u64,
    /// Average duration by the clock of this machine.
    #[serde(default)]
    pub machine_ps: u64,
}

/// Outcome of `crosslane bench operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// `operations`.
    pub bench: String,
    /// Name of the card.
    pub device: String,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// The operations.
    pub rows: Vec<OperationRow>,
    /// Rates with many operations in flight; empty where none were measured.
    #[serde(default)]
    pub rates: Vec<OperationRate>,
    /// A published time to compare with.
    pub published: PublishedTime,
}

/// Small operations of one kind and size, one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// The operation.
    pub what: String,
    /// Bytes of an operation.
    pub bytes: u64,
    /// Number of repetitions.
    #[serde(default)]
    pub rounds: u64,
    /// Time from the program's call until the data are at the other end; `None` where it cannot be
    /// seen.
    pub data_ps: Option<u64>,
    /// Part of it from the descriptor at the card to the data: the time of an operation that the
    /// card begins itself.
    pub card_ps: Option<u64>,
    /// Times from the call until the program knows that the operation is done.
    pub done: Latencies,
    /// Parts of the typical time, in their order; empty outside a lab.
    #[serde(default)]
    pub terms: Vec<Term>,
}

/// Rate of small operations of one kind and size, many in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRate {
    /// The operation.
    pub what: String,
    /// Bytes of an operation.
    pub bytes: u64,
    /// Number of operations.
    pub operations: u64,
    /// Time from the first operation's TLP to the end of the last, by the card's timers.
    pub ps: u64,
    /// Share of that time in which TLPs were on the link in the direction of the data; `None`
    /// outside a lab.
    pub link_share: Option<f64>,
}

impl OperationRate {
    /// Operations a second.
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.ps.max(1) as f64 * 1e12
    }
}

/// Part of the time of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The part.
    pub what: String,
    /// Its time.
    pub ps: u64,
}

/// A published time of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedTime {
    /// The operation.
    pub what: String,
    /// Bytes of the operation.
    pub bytes: u64,
    /// Its time.
    pub ps: u64,
    /// Provenance.
    pub source: String,
}

/// Outcome of `crosslane bench packets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Packets {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// `packets`.
    pub bench: String,
    /// Name of the card.
    pub device: String,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// The sizes.
    pub rows: Vec<PacketRow>,
}

/// Packets of one size, from host memory through a card's stream and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketRow {
    /// Bytes of a packet.
    pub bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Time from the first doorbell to the last packet received, by the clock of the card's bus.
    pub bus_ps: u64,
    /// Packets that were not received as they were sent.
    pub wrong: u64,
}

impl PacketRow {
    /// Returns the packets in a second.
    pub fn packets_per_second(&self) -> f64 {
        self.packets as f64 / self.bus_ps.max(1) as f64 * 1e12
    }

    /// Returns the bytes in a second, in each direction.
    pub fn bytes_per_second(&self) -> f64 {
        self.packets_per_second() * self.bytes as f64
    }
}

/// Outcome of `crosslane bench sweep`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// `sweep`.
    pub bench: String,
    /// The lab or the card.
    #[serde(flatten)]
    pub platform: Platform,
    /// Name of the card.
    pub card: String,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// The points.
    pub rows: Vec<SweepRow>,
    /// Ports whose highest rate is below that of a point's link, for which it was raised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised_ports: Vec<String>,
    /// Progress of the sweep, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepRow {
    /// Bytes of a transfer.
    pub size_bytes: u64,
    /// Duration of a transfer, nanoseconds.
    pub transfer_ns: f64,
    /// Rate of the transfers.
    pub bytes_per_second: f64,
    /// Words of 4 B that differ from those sent.
    #[serde(default)]
    pub wrong_words: u64,
    /// Explanation of the point; absent if it was not requested or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_faster: Option<Explanation>,
    /// Reason for which there is no explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_explained: Option<String>,
    /// The parameters of this point.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Parameter>,
}

/// Value of a parameter of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}
