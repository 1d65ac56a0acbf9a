// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory that answers reads incorrectly, to test how a device and its driver react.

use std::ops::Range;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::fabric::Fabric;

/// Fault of a device's read at the first byte of a bad range. Data before it in the same read are
/// answered normally, up to the completion that would hold the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryFault {
    /// The completion marks its data as poisoned (PCIe 6.x 2.7.2), and they are wrong.
    Poisoned,
    /// The read ends with Completer Abort (PCIe 6.x 2.3.1).
    CompleterAbort,
    /// The read ends with Unsupported Request (PCIe 6.x 2.3.1).
    UnsupportedRequest,
    /// No further completion comes; the requester's completion time-out has to detect it.
    NoAnswer,
    /// The rest comes later by this time. If that exceeds the requester's completion time-out (PCIe
    /// 6.x 2.8), nothing waits for it any more; beyond two of them, the requester may have reused
    /// the tag.
    Late(Picoseconds),
}

impl MemoryFault {
    /// Status of the completion that ends the read, if the fault sends one.
    const fn status(self) -> Option<CompletionStatus> {
        match self {
            Self::CompleterAbort => Some(CompletionStatus::CompleterAbort),
            Self::UnsupportedRequest => Some(CompletionStatus::UnsupportedRequest),
            Self::Poisoned | Self::NoAnswer | Self::Late(_) => None,
        }
    }
}

/// Treatment of a completion under a fault.
pub(crate) enum Answer {
    /// Send the completion, possibly with poisoned data.
    Data(Header),
    /// Send this completion, which ends the read.
    End(Header),
    /// Send nothing more.
    Nothing,
    /// Delay this completion and all behind it by this time, in ps.
    Later(u64),
}

/// Applies a fault to the completion `header`.
pub(crate) fn answer(fault: Option<MemoryFault>, header: &Header) -> Answer {
    match fault {
        None => Answer::Data(*header),
        Some(MemoryFault::Poisoned) => Answer::Data(Header { poisoned: true, ..*header }),
        Some(MemoryFault::NoAnswer) => Answer::Nothing,
        Some(MemoryFault::Late(by)) => Answer::Later(by.0),
        Some(fault) => fault.status().map_or(Answer::Nothing, |status| {
            let kind = TlpKind::Completion;
            Answer::End(Header { kind, status, poisoned: false, length_dw: 0, ..*header })
        }),
    }
}

/// Bad ranges of a memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryFaults {
    ranges: Vec<(Range<u64>, MemoryFault)>,
}

impl MemoryFaults {
    /// Fault of a read of `bytes` at `address` that touches a bad range.
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

impl Fabric {
    /// Makes a range of a host's memory answer devices' reads incorrectly from now on; `None` ends
    /// the fault of exactly this range. Returns false if the host does not exist.
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
