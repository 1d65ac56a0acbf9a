// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows: orders to a generic requester (an endpoint, or a core of a processor) to move data, and
//! their results.

use crosslane_pcie::units::{BusAddress, Picoseconds};

use crate::topology::NodeId;

/// Index of a flow in its fabric, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// Action of each operation of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKind {
    /// Memory writes. An operation is done when its last byte is visible at the target.
    Write,
    /// Memory reads. An operation is done when its last byte is at the requester.
    Read,
    /// A write, and a read of the same bytes posted behind it. Done when the read is done.
    WriteRead,
}

/// Requester of a flow.
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

/// One flow: operations of one size to or from one aperture, one after the other.
///
/// Operation `n` touches `operation_bytes` at `target + (n x stride) modulo window_bytes`, where
/// the stride is the operation's size rounded up to 64 bytes; in a scattered flow, at another
/// multiple of the stride. Every byte moved is checked.
/// other multiple of the stride. Every byte that moves is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Name for reports.
    pub name: String,
    /// Requester that moves the data.
    pub source: FlowSource,
    /// Action of each operation.
    pub kind: FlowKind,
    /// First address of the aperture, in the source's host.
    pub target: BusAddress,
    /// Size of the aperture in bytes.
    pub window_bytes: u64,
    /// Bytes of one operation.
    pub operation_bytes: u64,
    /// Longest payload of one write TLP (a store's width for a core), or longest read request, in
    /// bytes; limited to the function's Max_Payload_Size or Max_Read_Request_Size unless `force` is
    /// set.
    pub tlp_bytes: Option<u32>,
    /// Build TLPs of `tlp_bytes` even if the function's setting forbids it, to show where the error
    /// is detected.
    pub force: bool,
    /// Number of operations.
    pub operations: u64,
    /// Operations in flight at once.
    pub outstanding: u32,
    /// Whether the TLPs carry the relaxed ordering attribute.
    pub relaxed_ordering: bool,
    /// Whether the operations visit the aperture in an order without a pattern, the same in each
    /// round, spread over all of it even if they are few.
    pub scattered: bool,
    /// Time of the first post.
    pub start: Picoseconds,
}

/// Result of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowReport {
    /// Operations done.
    pub operations: u64,
    /// Payload bytes of the operations done.
    pub bytes: u64,
    /// Request TLPs that the requester built.
    pub tlps: u64,
    /// Time of the first post.
    pub first_post: Picoseconds,
    /// Time at which the last operation was done.
    pub last_done: Picoseconds,
    /// Time at which the first operation was done.
    pub first_done: Picoseconds,
    /// Time of each operation in picoseconds, post to done, in the order of completion.
    pub latencies_ps: Vec<u64>,
    /// Errors, a sentence each (bounded; the count is [`Self::failed`]).
    pub errors: Vec<String>,
    /// Operations failed.
    pub failed: u64,
}

impl FlowReport {
    /// Payload bytes per second from the first post to the last operation's end.
    pub fn bytes_per_second(&self) -> f64 {
        let span = self.last_done.since(self.first_post).as_seconds();
        if span > 0.0 { self.bytes as f64 / span } else { 0.0 }
    }

    /// Payload bytes per second between the ends of the first and last operation, the rate once the
    /// pipe is full. `None` with fewer than two operations.
    pub fn steady_bytes_per_second(&self) -> Option<f64> {
        let span = self.last_done.since(self.first_done).as_seconds();
        if self.operations < 2 || span <= 0.0 {
            return None;
        }
        let share = (self.operations - 1) as f64 / self.operations as f64;
        Some(self.bytes as f64 * share / span)
    }
}
