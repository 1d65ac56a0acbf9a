// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processor of a root complex does beside stores and loads: work that occupies a core,
//! and interrupts.

use std::ops::Range;

use crosslane_pcie::units::Picoseconds;

use crate::completer::Pace;
use crate::fabric::Fabric;
use crate::parameters::CpuParameters;
use crate::topology::NodeId;

/// Bus addresses that are interrupt messages, not memory: a write there is an MSI.
pub const INTERRUPT_ADDRESSES: Range<u64> = 0xfee0_0000..0xfef0_0000;

/// Interrupts kept for whoever asks; further ones are counted only.
pub(crate) const MAX_INTERRUPTS: usize = 1 << 16;

/// Work that occupies a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreWork {
    /// One system call, in and out.
    SystemCall,
    /// Pinning so many pages of 4 KiB.
    PinPages(u64),
    /// Writing to so many pages for the first time.
    TouchPages(u64),
    /// Copying so many bytes.
    Copy(u64),
    /// Anything else.
    Time(Picoseconds),
}

/// An interrupt message that has reached a root complex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its data: the vector, in the low bits.
    pub data: u32,
    /// When it reached the root complex.
    pub arrived: Picoseconds,
    /// When the first instruction of its handler runs: behind all that was written before it.
    pub handled: Picoseconds,
}

/// Time that a piece of work takes, in ps.
pub(crate) fn work_ps(cpu: &CpuParameters, work: CoreWork) -> u64 {
    match work {
        CoreWork::SystemCall => cpu.system_call.0,
        CoreWork::PinPages(pages) => cpu.pin_page.0.saturating_mul(pages),
        CoreWork::TouchPages(pages) => cpu.touch_page.0.saturating_mul(pages),
        CoreWork::Copy(bytes) => Pace::new(cpu.copy_bytes_per_second).ps(bytes),
        CoreWork::Time(time) => time.0,
    }
}

impl Fabric {
    /// Occupies a core of a root complex with `work`, behind what it does already. Returns when
    /// the work is done; `None` where there is no such core.
    pub fn spend(
        &mut self,
        root_complex: NodeId,
        core: u16,
        work: CoreWork,
    ) -> Option<Picoseconds> {
        self.with_root(root_complex.0, |root, fabric| root.processor.spend(fabric, core, work))
            .flatten()
    }

    /// How long the cores of a root complex have been busy so far, all together: work, stores, and
    /// loads with their round trip. What they do while they wait for memory or interrupts is not
    /// known. `None` where there is no such root complex.
    pub fn busy(&mut self, root_complex: NodeId) -> Option<Picoseconds> {
        self.with_root(root_complex.0, |root, _| Picoseconds(root.processor.busy_ps()))
    }

    /// Interrupt messages that a root complex has received, oldest first, and how many there were
    /// in all (no more than 65,536 are kept).
    pub fn interrupts(&mut self, root_complex: NodeId) -> (Vec<Interrupt>, u64) {
        let both = self.with_root(root_complex.0, |root, _| root.interrupts());
        both.unwrap_or_default()
    }
}
