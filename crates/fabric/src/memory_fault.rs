// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory that answers reads badly, so that one can see how a device and its driver take it.

use std::ops::Range;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::HostId;

use crate::fabric::Fabric;

/// What happens to a device's read at the first byte of a bad range. What lies before it in the
/// same read is answered as ever, up to the completion that would hold the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryFault {
    /// The completion says that its data are wrong (PCIe 6.x 2.7.2).
    Poisoned,
    /// The read ends with Completer Abort (PCIe 6.x 2.3.1).
    CompleterAbort,
    /// Nothing more comes: the requester's completion time-out has to find out.
    NoAnswer,
}

/// Bad ranges of a memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryFaults {
    ranges: Vec<(Range<u64>, MemoryFault)>,
}

impl MemoryFaults {
    /// The fault of `bytes` at `address`, if they touch a bad range.
    pub fn at(&self, address: u64, bytes: u32) -> Option<MemoryFault> {
        let end = address + u64::from(bytes);
        let hit = |(range, _): &&(Range<u64>, _)| range.start < end && address < range.end;
        self.ranges.iter().find(hit).map(|(_, fault)| *fault)
    }

    fn set(&mut self, range: Range<u64>, fault: Option<MemoryFault>) {
        self.ranges.retain(|(other, _)| *other != range);
        self.ranges.extend(fault.map(|fault| (range, fault)));
    }
}

/// The completion that ends a read where `piece` would have gone on.
pub(crate) fn abort(piece: &Header) -> Header {
    Header {
        kind: TlpKind::Completion,
        status: CompletionStatus::CompleterAbort,
        poisoned: false,
        length_dw: 0,
        ..*piece
    }
}

impl Fabric {
    /// Makes a range of a host's memory answer devices' reads badly from now on; `None` ends that
    /// for exactly this range. False where there is no such host.
    pub fn set_memory_fault(
        &mut self,
        host: HostId,
        range: Range<u64>,
        fault: Option<MemoryFault>,
    ) -> bool {
        let Some(node) = self.root(host) else { return false };
        self.with_root(node, |root, _| root.faults.set(range, fault)).is_some()
    }
}
