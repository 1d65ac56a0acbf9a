// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stages of a transfer, with their times.

use std::fmt;

use crosslane_host::Clock;
use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};

/// A part of a transfer that can fail, wait, or limit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Connecting, and checking that both ends know the key.
    Connection,
    /// Checking the request, and whether it is allowed.
    Request,
    /// Allocating memory and registering it.
    Registration,
    /// Reading the other node's memory into a slot, by the network.
    RdmaRead,
    /// Moving data between a slot and the FPGA's memory or stream.
    Dma,
    /// Writing a slot into the other node's memory, by the network.
    RdmaWrite,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "connection",
            Self::Request => "request",
            Self::Registration => "registration",
            Self::RdmaRead => "RDMA read",
            Self::Dma => "DMA",
            Self::RdmaWrite => "RDMA write",
        })
    }
}

/// Statistics of a stage in one transfer. Times are in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageStatistics {
    /// The stage.
    pub stage: Stage,
    /// Bytes moved.
    pub bytes: u64,
    /// Number of operations: reads, writes, DMA transfers.
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
    #[must_use]
    pub const fn new(stage: Stage) -> Self {
        Self { stage, bytes: 0, operations: 0, retries: 0, busy_ps: 0, waiting_for_slot_ps: 0 }
    }

    /// Returns the bytes per second of its busy time; 0 if it was never busy.
    #[must_use]
    pub fn bytes_per_second_busy(&self) -> f64 {
        match self.busy_ps {
            0 => 0.0,
            busy_ps => self.bytes as f64 / Picoseconds(busy_ps).as_seconds(),
        }
    }
}

/// Measures a stage at work.
#[derive(Debug)]
pub(crate) struct Meter<C> {
    clock: C,
    statistics: StageStatistics,
    on_their_way: u64,
    since: Picoseconds,
}

impl<C: Clock> Meter<C> {
    pub fn new(clock: C, stage: Stage) -> Self {
        let since = clock.now();
        Self { clock, statistics: StageStatistics::new(stage), on_their_way: 0, since }
    }

    /// Notes the start of an operation.
    pub fn begin(&mut self) {
        if self.on_their_way == 0 {
            self.since = self.clock.now();
        }
        self.on_their_way += 1;
    }

    /// Notes the end of an operation that moved `bytes` bytes.
    pub fn end(&mut self, bytes: u64) {
        self.statistics.bytes += bytes;
        self.statistics.operations += 1;
        self.on_their_way = self.on_their_way.saturating_sub(1);
        if self.on_their_way == 0 {
            self.statistics.busy_ps += self.clock.now().since(self.since).0;
        }
    }

    /// Adds the time since `since` as waiting for a slot.
    pub fn waited(&mut self, since: Picoseconds) {
        self.statistics.waiting_for_slot_ps += self.clock.now().since(since).0;
    }

    /// Counts repeated operations.
    pub fn repeated(&mut self, times: u64) {
        self.statistics.retries += times;
    }

    /// Returns the statistics so far; operations in flight count as busy.
    pub fn statistics(&self) -> StageStatistics {
        let mut statistics = self.statistics;
        if self.on_their_way > 0 {
            statistics.busy_ps += self.clock.now().since(self.since).0;
        }
        statistics
    }
}
