// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stages of a transfer, with their times.

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};
use strum::Display;

/// A part of a transfer that can fail, wait, or limit it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[strum(serialize_all = "lowercase")]
pub enum Stage {
    /// Connecting, and checking that both ends know the key.
    Connection,
    /// Checking the request, and whether it is allowed.
    Request,
    /// Allocating memory and registering it.
    Registration,
    /// Reading the other node's memory into a slot, by the network.
    #[strum(to_string = "RDMA read")]
    RdmaRead,
    /// Moving data between a slot and the FPGA's memory or stream.
    #[strum(to_string = "DMA")]
    Dma,
    /// Writing a slot into the other node's memory, by the network.
    #[strum(to_string = "RDMA write")]
    RdmaWrite,
    /// Copying the caller's data into the ring of a local transfer.
    #[strum(to_string = "copying into the ring")]
    CopyIn,
    /// DMA from the host (H2C) of a local transfer.
    #[strum(to_string = "DMA from the host")]
    Transmit,
    /// DMA to the host, or within the card (C2H), of a local transfer.
    #[strum(to_string = "DMA to the host")]
    Receive,
    /// Copying data out of the ring of a local transfer.
    #[strum(to_string = "copying out of the ring")]
    CopyOut,
    /// Reconfiguring a card, and opening it again.
    Reload,
}

/// Statistics of a stage in one transfer. Times are in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageStatistics {
    /// The stage.
    pub stage: Stage,
    /// Bytes moved.
    pub bytes: u64,
    /// Number of operations: reads, writes, DMA transfers, copies.
    pub operations: u64,
    /// Operations repeated because another client's had failed before them.
    pub retries: u64,
    /// Time with at least one operation in flight.
    pub busy_ps: u64,
    /// Time with work to do but no slot for it.
    pub waiting_for_slot_ps: u64,
}

impl StageStatistics {
    /// Starts at zero.
    pub const fn new(stage: Stage) -> Self {
        Self { stage, bytes: 0, operations: 0, retries: 0, busy_ps: 0, waiting_for_slot_ps: 0 }
    }

    /// Returns the bytes per second of its busy time; 0 if it was never busy.
    pub fn bytes_per_second_busy(&self) -> f64 {
        match self.busy_ps {
            0 => 0.0,
            busy_ps => self.bytes as f64 / Picoseconds(busy_ps).as_seconds(),
        }
    }
}
