// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows: orders to a generic requester (an endpoint, or a core of a processor) to move data, and
//! their results.

use crosslane_pcie::units::{BusAddress, Picoseconds};

use crate::host_access::Region;
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
    /// Mapping through which a core reads: of write-combined memory, by streaming loads of whole
    /// lines of 64 B. Everything else is uncached.
    pub region: Region,
    /// Whether the TLPs carry the relaxed ordering attribute.
    pub relaxed_ordering: bool,
    /// Whether the operations visit the aperture in an order without a pattern, the same in each
    /// round, spread over all of it even if they are few.
    pub scattered: bool,
    /// Time of the first post.
    pub start: Picoseconds,
}

/// Operations begin at multiples of this many bytes from the target.
const OPERATION_ALIGNMENT_BYTES: u64 = 64;

impl Flow {
    /// Returns the distance between operations of a size, bytes.
    pub fn stride_of(operation_bytes: u64) -> u64 {
        operation_bytes.next_multiple_of(OPERATION_ALIGNMENT_BYTES)
    }

    /// Returns the distance of one operation from the next, bytes.
    pub fn stride_bytes(&self) -> u64 {
        Self::stride_of(self.operation_bytes)
    }

    /// Returns the places that its operations have: those of the window, if they visit all of them.
    pub(crate) fn slots(&self) -> u64 {
        let places = (self.window_bytes / self.stride_bytes()).max(1);
        if self.scattered { places } else { places.min(self.operations.max(1)) }
    }

    /// Returns the address of an operation's first byte.
    pub fn address(&self, operation: u64) -> BusAddress {
        self.target.offset(self.place(operation, self.slots()) * self.stride_bytes())
    }

    /// Returns the place of an operation, among `slots`.
    pub(crate) fn place(&self, operation: u64, slots: u64) -> u64 {
        let place = operation % slots;
        if self.scattered { scatter(place, slots) } else { place }
    }
}

/// Permutes the numbers below `count` into an order without a pattern.
fn scatter(number: u64, count: u64) -> u64 {
    const FACTORS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
    let mask = count.next_power_of_two() - 1;
    let shift = (mask.count_ones() / 2).max(1);
    let mut place = number;
    // An odd factor and a shift permute the numbers below the power of two. Results beyond `count`
    // are permuted again until they are below.
    loop {
        for factor in FACTORS {
            place = place.wrapping_mul(factor) & mask;
            place ^= place >> shift;
        }
        if place < count {
            return place;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_places_are_all_places_once_and_follow_nothing() {
        for count in [1, 2, 3, 64, 1000, 4096, 24_576] {
            let places: Vec<u64> = (0..count).map(|number| scatter(number, count)).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..count), "{count}");
            if count < 1000 {
                continue;
            }
            // A uniform order stays in the same sixteenth for 1 of 16 steps.
            let part = |place: &u64| place * 16 / count;
            let same = places.windows(2).filter(|two| part(&two[0]) == part(&two[1])).count();
            let share = same as f64 / count as f64;
            assert!((share - 1.0 / 16.0).abs() < 0.02, "{count}: {share}");
        }
    }
}
