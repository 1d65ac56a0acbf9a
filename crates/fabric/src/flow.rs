// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows: what a generic requester (an endpoint, or a core of a processor) is told to move, and
//! what came of it.

use crosslane_pcie::units::{BusAddress, Picoseconds};

use crate::topology::NodeId;

/// A flow of one fabric, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// What each operation of a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKind {
    /// Memory writes. Done when the last byte can be seen at the target.
    Write,
    /// Memory reads. Done when the last byte is at the requester.
    Read,
    /// A write, and a read of the same bytes posted behind it. Done when the read is.
    WriteRead,
}

/// Who moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowSource {
    /// The generic requester of an endpoint.
    Endpoint(NodeId),
    /// One core of a root complex, with uncached stores and loads.
    Core {
        /// The root complex.
        root_complex: NodeId,
        /// Core number, from 0.
        core: u16,
    },
}

/// One flow: operations of one size to or from one window, one after the other.
///
/// Operation `n` touches `operation_bytes` at `target + (n x stride) modulo window`, where the
/// stride is the operation's size rounded up to 64 bytes; or, where the flow is scattered, at some
/// other multiple of the stride. Every byte that moves is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Shown in reports.
    pub name: String,
    /// Who moves the data.
    pub source: FlowSource,
    /// What is done.
    pub kind: FlowKind,
    /// First address of the window, in the source's host.
    pub target: BusAddress,
    /// Size of the window in bytes.
    pub window_bytes: u64,
    /// Bytes of one operation.
    pub operation_bytes: u64,
    /// Longest payload of one write TLP (a store's width for a core), or longest read request,
    /// in bytes; never more than the function's Max_Payload_Size or Max_Read_Request_Size unless
    /// `force` is set.
    pub tlp_bytes: Option<u32>,
    /// Build TLPs of `tlp_bytes` even where the function's own setting forbids it: the error
    /// then shows where it is found.
    pub force: bool,
    /// Number of operations.
    pub operations: u64,
    /// Operations in flight at once.
    pub outstanding: u32,
    /// Whether the TLPs carry the relaxed ordering attribute.
    pub relaxed_ordering: bool,
    /// Whether the operations go to the places of the window in an order without a pattern, the
    /// same in each round, and to all of the window however few they are.
    pub scattered: bool,
    /// When the first operation is posted.
    pub start: Picoseconds,
}

/// What came of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowReport {
    /// Operations that are done.
    pub operations: u64,
    /// Payload bytes of these operations.
    pub bytes: u64,
    /// Request TLPs that the requester built.
    pub tlps: u64,
    /// When the first operation was posted.
    pub first_post: Picoseconds,
    /// When the last operation was done.
    pub last_done: Picoseconds,
    /// When the first operation was done.
    pub first_done: Picoseconds,
    /// Time of each operation in picoseconds, post to done, in the order of completion.
    pub latencies_ps: Vec<u64>,
    /// What went wrong, a sentence each (bounded; the count is [`Self::failed`]).
    pub errors: Vec<String>,
    /// Operations that failed.
    pub failed: u64,
}

impl FlowReport {
    /// Payload bytes per second from the first post to the last operation's end.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let span = self.last_done.since(self.first_post).as_seconds();
        if span > 0.0 { self.bytes as f64 / span } else { 0.0 }
    }

    /// Payload bytes per second between the ends of the first and of the last operation: the
    /// rate once the pipe is full. `None` with fewer than two operations.
    #[must_use]
    pub fn steady_bytes_per_second(&self) -> Option<f64> {
        let span = self.last_done.since(self.first_done).as_seconds();
        if self.operations < 2 || span <= 0.0 {
            return None;
        }
        let share = (self.operations - 1) as f64 / self.operations as f64;
        Some(self.bytes as f64 * share / span)
    }
}
