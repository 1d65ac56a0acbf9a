// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the driver stands on where there is hardware: PCI functions as VFIO shows them, memory
//! that they reach, a processor's stores into the mapped memory of a device, as wide as the
//! processor has them, and its rest until a device has written memory.
//!
//! Read first: [`Function`], then [`StoreWidth`] and [`UserMonitor`].

mod function;
mod memory;
mod monitor;
mod stores;
pub mod sysfs;

pub use function::{DomainId, Function, FunctionError, Part, Region};
pub use memory::{HUGE_PAGE_BYTES, Mapped, Pages, SMALL_PAGE_BYTES};
pub use monitor::{NoUserMonitor, UserMonitor};
pub use stores::StoreWidth;
