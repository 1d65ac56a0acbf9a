// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the driver stands on where there is hardware: the bus over PCI functions as VFIO shows
//! them, memory that they reach, interrupts and time; a processor's stores into the mapped memory
//! of a device, as wide as the processor has them, and its rest until a device has written memory.
//!
//! Read first: [`VfioBus`], then [`Function`].

mod addresses;
mod block_on;
mod bus;
mod dma_memory;
mod flat;
mod function;
pub mod kernel;
mod mappings;
mod memory;
mod monitor;
mod reactor;
mod stores;
pub mod sysfs;
pub mod user;

pub use block_on::block_on;
pub use bus::{BusOptions, Tree, VfioBus};
pub use dma_memory::VfioMemory;
pub use function::{DomainId, Function, FunctionError, Part, Region};
pub use memory::{HUGE_PAGE_BYTES, Mapped, Pages, SMALL_PAGE_BYTES};
pub use monitor::{NoUserMonitor, UserMonitor};
pub use stores::StoreWidth;
