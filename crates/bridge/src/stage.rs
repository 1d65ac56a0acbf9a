// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stages of a transfer: where its time goes, and which of them limits it.

use std::fmt;

use crosslane_host::Clock;
use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};

/// A part of a transfer that can fail, wait, or limit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Finding each other, and showing that both know the key.
    Connection,
    /// What is asked for, and whether it is allowed.
    Request,
    /// Getting memory and registering it.
    Registration,
    /// The network reads the other node's memory into a slot.
    RdmaRead,
    /// The FPGA moves data between a slot and its memory or stream.
    Dma,
    /// The network writes a slot into the other node's memory.
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

/// What a stage has done in one transfer. Times are in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageStatistics {
    /// Which.
    pub stage: Stage,
    /// Bytes that it has moved.
    pub bytes: u64,
    /// Operations: reads, writes, DMA transfers.
    pub operations: u64,
    /// Operations that were made again because another client's had failed before them.
    pub retries: u64,
    /// Time in which at least one operation was on its way.
    pub busy_ps: u64,
    /// Time in which it had something to do and no slot to do it with.
    pub waiting_for_slot_ps: u64,
}

impl StageStatistics {
    /// Nothing yet.
    #[must_use]
    pub const fn new(stage: Stage) -> Self {
        Self { stage, bytes: 0, operations: 0, retries: 0, busy_ps: 0, waiting_for_slot_ps: 0 }
    }

    /// Bytes per second while it was busy; 0 where it never was.
    #[must_use]
    pub fn bytes_per_second_busy(&self) -> f64 {
        match self.busy_ps {
            0 => 0.0,
            busy_ps => self.bytes as f64 / Picoseconds(busy_ps).as_seconds(),
        }
    }
}

/// Measures a stage while it works.
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

    /// An operation begins.
    pub fn begin(&mut self) {
        if self.on_their_way == 0 {
            self.since = self.clock.now();
        }
        self.on_their_way += 1;
    }

    /// An operation has ended and has moved so many bytes.
    pub fn end(&mut self, bytes: u64) {
        self.statistics.bytes += bytes;
        self.statistics.operations += 1;
        self.on_their_way = self.on_their_way.saturating_sub(1);
        if self.on_their_way == 0 {
            self.statistics.busy_ps += self.clock.now().since(self.since).0;
        }
    }

    /// So much time was spent in want of a slot.
    pub fn waited(&mut self, since: Picoseconds) {
        self.statistics.waiting_for_slot_ps += self.clock.now().since(since).0;
    }

    /// Operations were made again.
    pub fn repeated(&mut self, times: u64) {
        self.statistics.retries += times;
    }

    /// What it has done until now; operations that have not ended count as busy.
    pub fn statistics(&self) -> StageStatistics {
        let mut statistics = self.statistics;
        if self.on_their_way > 0 {
            statistics.busy_ps += self.clock.now().since(self.since).0;
        }
        statistics
    }
}
