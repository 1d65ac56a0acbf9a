// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host's way to its devices: registers, memory that devices reach, interrupts and time.

use std::any::Any;
use std::fmt;
use std::future::Future;

use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

use crate::error::BusError;
use crate::topology::Topology;

/// A place behind a BAR.
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

/// How the processor treats the addresses of a BAR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// Every store is a write of its own, in the order of the program, and so is every load.
    #[default]
    Uncached,
    /// Stores collect in buffers of 64 B, which leave when they are full, when another line needs
    /// one, and before [`Bus::fence`] and any uncached access: in any order, and what is stored
    /// twice may arrive once. Loads do not see what is in the buffers.
    WriteCombined,
}

/// How a run of bytes is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stores {
    /// Of each store: 1, 2, 4, 8, 16, 32 or 64, at most
    /// [`Bus::widest_store_bytes`].
    pub width_bytes: u32,
    /// Through which mapping of the BAR.
    pub mapping: Mapping,
}

impl Stores {
    /// Uncached stores of this width.
    #[must_use]
    pub const fn uncached(width_bytes: u32) -> Self {
        Self { width_bytes, mapping: Mapping::Uncached }
    }

    /// Stores of this width that are combined.
    #[must_use]
    pub const fn combined(width_bytes: u32) -> Self {
        Self { width_bytes, mapping: Mapping::WriteCombined }
    }
}

/// Pages that memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB, as an ordinary allocation has: they lie anywhere.
    Small,
    /// Huge pages (2 MiB) where there are any, else small ones.
    Huge,
}

/// A run of bus addresses that stands for a run of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address, as the function must send it.
    pub address: BusAddress,
    /// Length in bytes.
    pub bytes: u64,
}

/// How a core learns that a word of memory has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The program polls the word: it sees the change as soon as it can be seen.
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

/// Work of the host that is not a bus access. In the lab it takes the time that the processor's
/// model says; on a real machine the work takes its own time and this does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWork {
    /// One system call, in and out.
    SystemCall,
    /// Copying so many bytes within memory.
    Copy(u64),
    /// Writing to so many pages of 4 KiB for the first time: the kernel gets and zeroes each.
    TouchPages(u64),
    /// Calls and loops that take so long on the processor that is modelled: a constant of the
    /// caller's.
    Time(Picoseconds),
}

/// A piece of host memory that devices may read and write. What a device may write is never
/// behind a slice: it is copied in and out. Clones are the same memory; it is given back when
/// the last one goes.
pub trait DmaMemory: Clone + Send + Sync + 'static {
    /// Its size.
    fn size_bytes(&self) -> u64;

    /// Copies out of it.
    ///
    /// # Errors
    /// [`BusError::BeyondMemory`].
    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BusError>;

    /// Copies into it.
    ///
    /// # Errors
    /// [`BusError::BeyondMemory`].
    fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BusError>;
}

/// One core's way to the devices and the memory of its host.
pub trait Bus: Topology + Clone + Send + Sync + 'static {
    /// Memory that devices reach.
    type Memory: DmaMemory;

    /// Time now.
    fn now(&self) -> Picoseconds;

    /// Waits until `time`, without keeping the core busy.
    fn sleep_until(&self, time: Picoseconds) -> impl Future<Output = ()>;

    /// The same bus from another core of the host; numbers beyond the last core wrap around.
    #[must_use]
    fn on_core(&self, core: u16) -> Self;

    /// How many cores the host has.
    fn cores(&self) -> u16;

    /// Reads a 32-bit register: the core waits for the round trip.
    ///
    /// # Errors
    /// No such register, or no answer.
    fn read_register(&self, at: RegisterAddress) -> impl Future<Output = Result<u32, BusError>>;

    /// Writes a 32-bit register: posted, so it has left the core when this returns, and arrives
    /// behind what the core wrote before.
    ///
    /// # Errors
    /// No such register.
    fn write_register(
        &self,
        at: RegisterAddress,
        value: u32,
    ) -> impl Future<Output = Result<(), BusError>>;

    /// The widest store that the processor has, bytes: 8, 16, 32 or 64.
    fn widest_store_bytes(&self) -> u32;

    /// Whether a BAR can be mapped that way.
    ///
    /// # Errors
    /// No such BAR; [`BusError::CannotCombine`] where it is not prefetchable or the platform has
    /// no write-combined mapping.
    fn check_mapping(&self, function: RoutingId, bar: u8, mapping: Mapping)
    -> Result<(), BusError>;

    /// Stores a run of bytes, lowest address first. A shorter store is used where one of the
    /// width would not be naturally aligned or reach too far. Uncached stores have left the core
    /// when this returns; for combined ones see [`Mapping`].
    /// Once its future has been polled it is made in whole, even if that is dropped.
    ///
    /// # Errors
    /// No such register, a width that the processor does not have, or a BAR that cannot be
    /// mapped so.
    fn store(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> impl Future<Output = Result<(), BusError>>;

    /// Loads a run of bytes, lowest address first, with loads of 8 B; shorter ones where one would
    /// not be naturally aligned or reach too far. The core waits for the round trip of each.
    ///
    /// # Errors
    /// No such register, no answer, or a BAR that cannot be mapped so.
    fn load(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> impl Future<Output = Result<(), BusError>>;

    /// Waits until everything that this core has stored is on its way: its buffers of combined
    /// writes are empty.
    ///
    /// # Errors
    /// [`BusError::Busy`].
    fn fence(&self) -> impl Future<Output = Result<(), BusError>>;

    /// Gets zeroed memory that can be pinned.
    ///
    /// # Errors
    /// [`BusError::OutOfMemory`].
    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<Self::Memory, BusError>;

    /// Makes memory reachable for a function, and says at which bus addresses: the segments
    /// cover it in order, and neighbours that could be one are one.
    ///
    /// # Errors
    /// Memory that is pinned for the function already.
    fn pin(
        &self,
        function: RoutingId,
        memory: &Self::Memory,
    ) -> impl Future<Output = Result<Vec<Segment>, BusError>>;

    /// Ends that.
    ///
    /// # Errors
    /// Memory that is not pinned for the function.
    fn unpin(
        &self,
        function: RoutingId,
        memory: &Self::Memory,
    ) -> impl Future<Output = Result<(), BusError>>;

    /// Keeps what a device may still use though nobody else holds it any more, such as memory that
    /// is pinned for one that does not answer: until the process ends, or a lab's simulation.
    fn abandon(&self, what: impl Any + Send) {
        std::mem::forget(what);
    }

    /// Makes a BAR of another function reachable for those requests of a function that go through
    /// the root complex, and says at which address the BAR begins for them. Where no IOMMU
    /// translates, that is its bus address, and there is nothing to do. A BAR may be pinned more
    /// than once for a function, and stays pinned until each of them has ended.
    ///
    /// # Errors
    /// No such function or BAR.
    fn pin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = Result<BusAddress, BusError>>;

    /// Ends one of these.
    ///
    /// # Errors
    /// A BAR that is not pinned for the function.
    fn unpin_bar(
        &self,
        function: RoutingId,
        peer: RoutingId,
        bar: u8,
    ) -> impl Future<Output = Result<(), BusError>>;

    /// Waits until the 32-bit little-endian word at `offset_bytes` (a multiple of 4) is no longer
    /// `seen`, as a core does that polls it; returns what it is then.
    ///
    /// # Errors
    /// [`BusError::Deadline`], or an offset beyond the memory.
    fn wait_memory(
        &self,
        memory: &Self::Memory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u32, BusError>>;

    /// Whether a core can wait for memory in that way. Every bus says it itself: one that forwards
    /// to another bus forwards this as well.
    ///
    /// # Errors
    /// [`BusError::CannotWait`].
    fn check_waiting(&self, waiting: Waiting) -> Result<(), BusError>;

    /// As [`wait_memory`](Self::wait_memory), which polls, in any way that
    /// [`check_waiting`](Self::check_waiting) allows.
    ///
    /// # Errors
    /// As there, and [`BusError::CannotWait`].
    fn wait_memory_by(
        &self,
        waiting: Waiting,
        memory: &Self::Memory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u32, BusError>>;

    /// Lets a function send `vectors` interrupts, numbered from 0; to be called once for each
    /// function.
    ///
    /// # Errors
    /// [`BusError::NoSuchVector`] where it has fewer.
    fn enable_interrupts(
        &self,
        function: RoutingId,
        vectors: u16,
    ) -> impl Future<Output = Result<(), BusError>>;

    /// Waits for interrupts of one vector, asleep. Returns how many have come since the last
    /// time, at least 1: one that came before the call counts.
    ///
    /// # Errors
    /// [`BusError::Deadline`], or a vector that is not enabled.
    fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<u64, BusError>>;

    /// Does work on the core that is no bus access.
    fn work(&self, work: HostWork) -> impl Future<Output = ()>;
}
