// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host's access to its devices: registers, memory that devices reach, interrupts and time.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

use crate::error::{BusError, BusResult};
use crate::topology::Topology;

/// An address behind a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterAddress {
    /// The function that has the BAR.
    pub function: RoutingId,
    /// Number of the BAR, 0 to 5.
    pub bar: u8,
    /// Bytes from its beginning.
    pub offset_bytes: u64,
}

impl fmt::Display for RegisterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} BAR{} + {:#x}", self.function, self.bar, self.offset_bytes)
    }
}

/// The processor's treatment of a BAR's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// Every store is a separate write and every load a separate read, in program order.
    #[default]
    Uncached,
    /// Stores collect in combining buffers of 64 B. A buffer leaves when it is full, when another
    /// line needs it, and before [`Bus::fence`] and any uncached access: in any order, and two
    /// stores to one address may arrive as one. Loads do not see what the buffers hold.
    WriteCombined,
}

/// Width and mapping of the stores for a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stores {
    /// Bytes of each store: 1, 2, 4, 8, 16, 32 or 64, at most [`Bus::widest_store_bytes`].
    pub width_bytes: u32,
    /// Mapping of the BAR to store through.
    pub mapping: Mapping,
}

impl Stores {
    /// Uncached stores of `width_bytes`.
    pub const fn uncached(width_bytes: u32) -> Self {
        Self { width_bytes, mapping: Mapping::Uncached }
    }

    /// Write-combined stores of `width_bytes`.
    pub const fn combined(width_bytes: u32) -> Self {
        Self { width_bytes, mapping: Mapping::WriteCombined }
    }
}

/// Size of the pages that back a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// Pages of 4 KiB, as an ordinary allocation has, anywhere in physical memory.
    Small,
    /// Huge pages (2 MiB) if the system has any free, else small ones.
    Huge,
}

/// A run of bus addresses that maps a contiguous part of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address, as the function must send it.
    pub address: BusAddress,
    /// Length in bytes.
    pub bytes: u64,
}

/// Method by which a core learns that a word of memory has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The program polls the word and sees a change as soon as it is visible.
    #[default]
    Polling,
    /// One system call; the kernel looks at once and then at every tick of its polling interval.
    KernelPolling,
    /// The processor watches the word's line and rests until it is written: in the kernel by
    /// `monitor` and `mwait` within one system call, in a program by `umonitor` and `umwait`.
    Monitor,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Polling => "polling",
            Self::KernelPolling => "polling in the kernel",
            Self::Monitor => "monitor and wait",
        })
    }
}

/// Work of the host other than bus accesses. In the lab it takes the time that the processor's
/// model says; on a real machine the work takes real time and this does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWork {
    /// One system call, in and out.
    SystemCall,
    /// Copying this many bytes within memory.
    Copy(u64),
    /// The first write to this many pages of 4 KiB: the kernel gets and zeroes each.
    TouchPages(u64),
    /// Calls and loops that take this long on the modelled processor: a constant of the caller's.
    Time(Picoseconds),
}

/// A piece of host memory that devices may read and write. Data are copied in and out, never lent
/// as a slice, because a device may write at any time. Clones are the same memory; it is freed with
/// the last one.
pub trait DmaMemory: Clone + Send + Sync + 'static {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Checks that a range lies within the memory, as each access must before it begins.
    ///
    /// # Errors
    /// [`BusError::BeyondMemory`].
    fn check(&self, offset_bytes: u64, bytes: usize) -> BusResult<()> {
        let (bytes, size_bytes) = (bytes as u64, self.size_bytes());
        match offset_bytes.checked_add(bytes).is_some_and(|end| end <= size_bytes) {
            true => Ok(()),
            false => Err(BusError::BeyondMemory { offset_bytes, bytes, size_bytes }),
        }
    }

    /// Copies `into.len()` bytes out of the memory.
    ///
    /// # Errors
    /// [`BusError::BeyondMemory`].
    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> BusResult<()>;

    /// Copies `from` into the memory.
    ///
    /// # Errors
    /// [`BusError::BeyondMemory`].
    fn write(&self, offset_bytes: u64, from: &[u8]) -> BusResult<()>;

    /// Copies `bytes` from `offset_bytes` into other memory, from `into_offset_bytes` on.
    ///
    /// # Errors
    /// [`BusError::BeyondMemory`].
    fn copy_into(
        &self,
        offset_bytes: u64,
        into: &impl DmaMemory,
        into_offset_bytes: u64,
        bytes: u64,
    ) -> BusResult<()> {
        /// Bytes that are copied at once, so that they stay in a near cache.
        const STEP_BYTES: u64 = 32 << 10;
        let mut step = vec![0; STEP_BYTES.min(bytes) as usize];
        for at in (0..bytes).step_by(STEP_BYTES as usize) {
            let step = &mut step[..STEP_BYTES.min(bytes - at) as usize];
            self.read(offset_bytes + at, step)?;
            into.write(into_offset_bytes + at, step)?;
        }
        Ok(())
    }
}

/// One core's access to the devices and the memory of its host.
pub trait Bus: Topology + Clone + Send + Sync + 'static {
    /// Memory that devices reach.
    type Memory: DmaMemory;

    /// Whether all calls end in their first poll, but for those that wait for a time, a change of
    /// memory or an interrupt: true of hardware, where a core that accesses it waits.
    const AT_ONCE: bool = false;

    /// The current time.
    fn now(&self) -> Picoseconds;

    /// Returns the time that is `span` from now: a deadline.
    fn after(&self, span: Duration) -> Picoseconds {
        Picoseconds(self.now().0.saturating_add(Picoseconds::from(span).0))
    }

    /// Waits until `time`, without keeping the core busy.
    fn sleep_until(&self, time: Picoseconds) -> impl Future<Output = ()> + Send;

    /// Processor time that this program (in the lab: its host) has used so far, summed over its
    /// cores; `None` if nothing counts it.
    fn processor_time(&self) -> Option<Picoseconds>;

    /// Returns the bus of another core of the host; numbers beyond the last core wrap around.
    fn on_core(&self, core: u16) -> Self;

    /// Number of cores of the host.
    fn cores(&self) -> u16;

    /// Reads a 32-bit register: the core waits for the round trip.
    ///
    /// # Errors
    /// No such register, or no answer.
    fn read_register(&self, at: RegisterAddress) -> impl Future<Output = BusResult<u32>> + Send;

    /// Writes a 32-bit register. The write is posted: it has left the core when this returns, and
    /// arrives after everything the core wrote before.
    ///
    /// # Errors
    /// No such register.
    fn write_register(
        &self,
        at: RegisterAddress,
        value: u32,
    ) -> impl Future<Output = BusResult<()>> + Send;

    /// Bytes of the processor's widest store: 8, 16, 32 or 64.
    fn widest_store_bytes(&self) -> u32;

    /// Checks that a BAR can be mapped that way.
    ///
    /// # Errors
    /// No such BAR; [`BusError::CannotCombine`] if it is not prefetchable or the platform has no
    /// write-combined mapping.
    fn check_mapping(&self, function: RoutingId, bar: u8, mapping: Mapping) -> BusResult<()>;

    /// Stores a run of bytes, lowest address first, with shorter stores where one of the full width
    /// would be unaligned or too long. Uncached stores have left the core when this returns; for
    /// combined ones see [`Mapping`]. Once polled, the store completes even if its future is
    /// dropped.
    ///
    /// # Errors
    /// No such register, a width that the processor does not have, or a BAR that cannot be mapped
    /// that way.
    fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> impl Future<Output = BusResult<()>> + Send;

    /// Loads a run of bytes, lowest address first, with loads of 8 B, shorter where one would be
    /// unaligned or too long. The core waits for the round trip of each.
    ///
    /// # Errors
    /// No such register, no answer, or a BAR that cannot be mapped that way.
    fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> impl Future<Output = BusResult<()>> + Send;

    /// Waits until all stores of this core have left it: its combining buffers are empty.
    ///
    /// # Errors
    /// [`BusError::Busy`].
    fn fence(&self) -> impl Future<Output = BusResult<()>> + Send;

    /// Allocates zeroed memory that can be pinned.
    ///
    /// # Errors
    /// [`BusError::OutOfMemory`].
    fn allocate(&self, bytes: u64, pages: PageSize) -> BusResult<Self::Memory>;

    /// Makes memory reachable for a function and returns its bus addresses: segments that cover it
    /// in order, adjacent ones merged.
    ///
    /// # Errors
    /// Memory that is already pinned for the function.
    fn pin(
        &self,
        function: RoutingId,
        memory: &Self::Memory,
    ) -> impl Future<Output = BusResult<Vec<Segment>>> + Send;

    /// Ends a pin.
    ///
    /// # Errors
    /// Memory that is not pinned for the function.
    fn unpin(
        &self,
        function: RoutingId,
        memory: &Self::Memory,
    ) -> impl Future<Output = BusResult<()>> + Send;

    /// Keeps something that a device may still use after its last owner has dropped it, such as
    /// memory pinned for a device that does not answer, until the process or a lab's simulation
    /// ends.
    fn abandon(&self, what: Box<dyn Any + Send>) {
        std::mem::forget(what);
    }

    /// Makes a BAR of `peer` reachable for those requests of `function` that pass the root complex,
    /// and returns the address at which the BAR begins for them. Without an IOMMU that is its bus
    /// address, and nothing is mapped. A BAR may be pinned several times for a function, and stays
    /// pinned until each pin has ended.
    ///
    /// # Errors
    /// No such function or BAR.
    fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = BusResult<BusAddress>> + Send;

    /// Ends one pin of a BAR.
    ///
    /// # Errors
    /// A BAR that is not pinned for the function.
    fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = BusResult<()>> + Send;

    /// Polls the 32-bit little-endian word at `offset_bytes` (a multiple of 4) until it differs
    /// from `seen`; returns its new value.
    ///
    /// # Errors
    /// [`BusError::Deadline`], or an offset beyond the memory.
    fn wait_memory(
        &self,
        memory: &Self::Memory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> impl Future<Output = BusResult<u32>> + Send {
        self.wait_memory_by(Waiting::Polling, memory, offset_bytes, seen, deadline)
    }

    /// Checks that a core can wait for memory by `waiting`.
    ///
    /// # Errors
    /// [`BusError::CannotWait`].
    fn check_waiting(&self, waiting: Waiting) -> BusResult<()>;

    /// Waits like [`wait_memory`](Self::wait_memory), by any method that
    /// [`check_waiting`](Self::check_waiting) allows.
    ///
    /// # Errors
    /// Those of [`wait_memory`](Self::wait_memory), and [`BusError::CannotWait`].
    fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &Self::Memory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> impl Future<Output = BusResult<u32>> + Send;

    /// Lets a function send `vectors` interrupts, numbered from 0. Call it once for each function.
    ///
    /// # Errors
    /// [`BusError::NoSuchVector`] if the function has fewer.
    fn enable_interrupts(
        &self,
        function: RoutingId,
        vectors: u16,
    ) -> impl Future<Output = BusResult<()>> + Send;

    /// Sleeps until an interrupt of one vector arrives. Returns the number since the previous call,
    /// at least 1; one that came before the call counts.
    ///
    /// # Errors
    /// [`BusError::Deadline`], or a vector that is not enabled.
    fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> impl Future<Output = BusResult<u64>> + Send;

    /// Spends the core's time on work other than bus accesses.
    fn work(&self, work: HostWork) -> impl Future<Output = ()> + Send;
}
