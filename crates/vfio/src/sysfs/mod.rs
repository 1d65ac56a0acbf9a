// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI tree of a machine, [`crosslane_sysfs`], with what only Linux has: a program's rights to
//! its functions, drivers that it binds, and configuration space that it reads and writes.
//!
//! Read first: [`Tree`], [`PciFunction`], [`Segment`].

mod binding;
mod machine;
mod masking;
mod reload;
mod rights;
mod segment;

pub use binding::{BindOptions, Bound, VFIO_PCI, bind, in_the_way, unbind, why_kept};
use crosslane_sysfs::Result;
pub use crosslane_sysfs::{
    Acs, Address, Configuration, Described, ErrorCounters, Express, IommuGroup, Kind, LinkCode,
    PciFunction, SysfsError, Tree, class_words,
};
pub use machine::{Machine, User};
pub use reload::{CardReady, ReloadOptions, Reloaded, reload};
pub use rights::{
    ENOUGH_LOCKED_BYTES, HugePages, Right, huge_pages, iommu_groups, iommu_help, locking_right,
    rights, vfio_right, why_unavailable,
};
pub use segment::{ConfigurationWrites, Segment};
