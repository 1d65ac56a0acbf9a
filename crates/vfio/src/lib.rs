// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver's bus on real hardware: PCI functions that VFIO provides, memory that they reach,
//! interrupts and time; stores into mapped device memory, as wide as the processor supports; and
//! waits with the core at rest until a device writes memory.
//!
//! Read first: [`VfioBus`], then [`Function`].

mod addresses;
mod bus;
mod dma_memory;
#[cfg(test)]
mod error_tests;
mod flat;
mod function;
pub mod kernel;
mod mappings;
mod memory;
mod monitor;
mod numa;
mod reactor;
mod stores;
pub mod sysfs;
pub mod user;

pub use bus::{BusOptions, Tree, VfioBus};
pub use dma_memory::VfioMemory;
pub use function::{DomainId, Function, FunctionError, Part, Region};
/// Runs a future to its end on this thread, which sleeps between wakes. To wait for several, join
/// or select them in one future.
pub use futures_executor::block_on;
pub use memory::{HUGE_PAGE_BYTES, Mapped, Pages, SMALL_PAGE_BYTES};
pub use monitor::{NoUserMonitor, UserMonitor};
pub use numa::{NumaNode, Placement};
pub use stores::StoreWidth;
