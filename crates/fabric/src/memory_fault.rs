// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory that answers reads badly, so that one can see how a device and its driver take it.

use std::ops::Range;

use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::fabric::Fabric;

/// What happens to a device's read at the first byte of a bad range. What lies before it in the
/// same read is answered as ever, up to the completion that would hold the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryFault {
    /// The completion says that its data are wrong (PCIe 6.x 2.7.2), and they are.
    Poisoned,
    /// The read ends with Completer Abort (PCIe 6.x 2.3.1).
    CompleterAbort,
    /// The read ends with Unsupported Request (PCIe 6.x 2.3.1).
    UnsupportedRequest,
    /// Nothing more comes: the requester's completion time-out has to find out.
    NoAnswer,
    /// The rest comes so much later than it would have come. Later than the requester's completion
    /// time-out (PCIe 6.x 2.8), and nobody waits for it any more; later than two of them, and a
    /// requester may have used the tag again.
    Late(Picoseconds),
}

impl MemoryFault {
    /// The status of the completion that ends the read, if the fault is one.
    const fn status(self) -> Option<CompletionStatus> {
        match self {
            Self::CompleterAbort => Some(CompletionStatus::CompleterAbort),
            Self::UnsupportedRequest => Some(CompletionStatus::UnsupportedRequest),
            Self::Poisoned | Self::NoAnswer | Self::Late(_) => None,
        }
    }
}

/// What becomes of a completion that a fault meets.
pub(crate) enum Answer {
    /// It is sent, perhaps with poisoned data.
    Data(Header),
    /// This one is sent, and ends the read.
    End(Header),
    /// Nothing more comes.
    Nothing,
    /// This one and all behind it come so much later, in ps.
    Later(u64),
}

/// What becomes of the completion `header` under a fault.
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
