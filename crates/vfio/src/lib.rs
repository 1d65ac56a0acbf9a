// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the driver stands on where there is hardware. So far: a processor's stores into the mapped
//! memory of a device, as wide as the processor has them, and its rest until a device has written
//! memory. The buses over VFIO stand on it.
//!
//! Read first: [`StoreWidth`], [`UserMonitor`].

mod monitor;
mod stores;

pub use monitor::{NoUserMonitor, UserMonitor};
pub use stores::StoreWidth;
