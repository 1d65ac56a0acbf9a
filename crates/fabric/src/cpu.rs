// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processor activity of a root complex beside stores and loads: work that occupies a core, and
//! interrupts.

use std::ops::Range;

use crosslane_pcie::units::Picoseconds;

use crate::completer::Pace;
use crate::fabric::Fabric;
use crate::parameters::CpuParameters;
use crate::topology::NodeId;

/// Bus addresses of interrupt messages rather than memory: a write there is an MSI.
pub const INTERRUPT_ADDRESSES: Range<u64> = 0xfee0_0000..0xfef0_0000;

/// Most interrupts kept for readers; further ones are only counted.
pub(crate) const MAX_INTERRUPTS: usize = 1 << 16;

/// Work that occupies a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreWork {
    /// One system call, in and out.
    SystemCall,
    /// Pinning this number of 4 KiB pages.
    PinPages(u64),
    /// Writing to this number of pages for the first time.
    TouchPages(u64),
    /// Copying this number of bytes.
    Copy(u64),
    /// Any other work, by its time.
    Time(Picoseconds),
}

/// An interrupt message that has reached a root complex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Data of the message: the vector, in the low bits.
    pub data: u32,
    /// Time at which it reached the root complex.
    pub arrived: Picoseconds,
    /// Time at which the first instruction of its handler runs, after all earlier writes are
    /// visible.
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
    /// Occupies a core of a root complex with `work`, after its earlier work. Returns the time at
    /// which the work is done; `None` if the core does not exist.
    pub fn spend(
        &mut self,
        root_complex: NodeId,
        core: u16,
        work: CoreWork,
    ) -> Option<Picoseconds> {
        self.with_root(root_complex.0, |root, fabric| root.processor.spend(fabric, core, work))
            .flatten()
    }

    /// Total busy time of a root complex's cores so far: work, stores, and loads with their round
    /// trip. Activity while they wait for memory or interrupts is not included. `None` if
    /// `root_complex` is not a root complex.
    pub fn busy(&mut self, root_complex: NodeId) -> Option<Picoseconds> {
        self.with_root(root_complex.0, |root, _| Picoseconds(root.processor.busy_ps()))
    }

    /// Interrupt messages that a root complex has received, oldest first, and their total number
    /// (at most 65,536 are kept).
    pub fn interrupts(&mut self, root_complex: NodeId) -> (Vec<Interrupt>, u64) {
        let both = self.with_root(root_complex.0, |root, _| root.interrupts());
        both.unwrap_or_default()
    }
}
