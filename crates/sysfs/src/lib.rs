// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI tree of a machine as Linux shows it in `/sys`: functions, their configuration space and
//! drivers. Nothing here needs Linux itself: a tree may also be that of a dump.
//!
//! Read first: [`Tree`], [`PciFunction`]; the kernel's `Documentation/ABI/testing/sysfs-bus-pci`.
//! Contents of `/sys` may be odd or incomplete: all are bounded and checked, and meaningless ones
//! are left out.

#![forbid(unsafe_code)]

mod address;
pub mod attribute;
mod configuration;
mod error;
mod function;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use address::Address;
use attribute::shown;
pub use configuration::{Acs, Configuration, Described, Express, Kind, LinkCode};
pub use error::{Result, SysfsError};
pub use function::{ErrorCounters, IommuGroup, PciFunction, class_words, is_vfio_driver};

/// Most functions that are read: a domain has no room for more.
const MOST_FUNCTIONS: usize = 1 << 16;
/// Most addresses that an error names.
const NAMED: usize = 12;

/// All PCI functions of a machine at the time when the tree was read.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    functions: BTreeMap<Address, PciFunction>,
}

impl Tree {
    /// Files of a function's folder that a tree is read from.
    pub const ATTRIBUTES: [&str; 14] = [
        "class", "config", "current_link_speed", "current_link_width", "device", "driver_override",
        "max_link_speed", "max_link_width", "numa_node", "resource", "revision",
        "subsystem_device", "subsystem_vendor", "vendor",
    ];

    /// Reads the tree below `root`, which is `/sys` (or a tree like it).
    ///
    /// # Errors
    /// [`SysfsError::NoBus`] for a machine without a PCI bus.
    pub fn read(root: &Path) -> Result<Self> {
        Ok(Self { root: root.to_owned(), ..Self::read_devices(&root.join("bus/pci/devices"))? })
    }

    /// Reads the tree of a folder with an entry for each function, such as `/sys/bus/pci/devices`.
    /// Entries that are folders and not links, as in a copy, have no place in a tree of devices;
    /// bus numbers then tell the bridge above each.
    ///
    /// # Errors
    /// [`SysfsError::NoBus`] for a folder that cannot be read.
    pub fn read_devices(path: &Path) -> Result<Self> {
        let no_bus =
            |error: std::io::Error| SysfsError::NoBus { path: path.to_owned(), why: error.into() };
        let mut functions = BTreeMap::new();
        for entry in std::fs::read_dir(path).map_err(no_bus)?.take(MOST_FUNCTIONS) {
            let entry = entry.map_err(no_bus)?;
            let Some(address) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // A function that disappears meanwhile is left out.
            if let Some(function) = PciFunction::read(&entry.path(), address) {
                functions.insert(address, function);
            }
        }
        // A domain has a root of its own, also where its functions lie in another's folders.
        for function in functions.values_mut() {
            let domain = function.address.domain;
            function.parent = function.parent.filter(|parent| parent.domain == domain);
        }
        Ok(Self::of(functions.into_values()))
    }

    /// Returns the tree of functions that are described elsewhere than in sysfs. A function hangs
    /// below the bridge of its domain that leads to its bus, or else below the parent that it has.
    pub fn of(functions: impl IntoIterator<Item = PciFunction>) -> Self {
        let all = functions.into_iter().map(|function| (function.address, function));
        let mut tree = Self { root: PathBuf::new(), functions: all.collect() };
        let bridges: BTreeMap<(u32, u8), Address> = tree
            .functions()
            .filter_map(|bridge| {
                let (secondary, _) = bridge.configuration.buses()?;
                Some(((bridge.address.domain, secondary), bridge.address))
            })
            // Bus 0 is that of the root; bridges that firmware has not set up say it too.
            .filter(|((_, bus), bridge)| *bus != 0 && *bus != bridge.id.bus())
            .collect();
        for function in tree.functions.values_mut() {
            let Address { domain, id } = function.address;
            let bridge = bridges.get(&(domain, id.bus())).copied();
            function.parent = bridge.filter(|bridge| bridge.id != id).or(function.parent);
        }
        tree.tie_parents();
        tree.tell_kinds_by_place();
        tree.gather_groups();
        tree
    }

    /// Removes parents that are missing.
    fn tie_parents(&mut self) {
        let known: BTreeSet<Address> = self.functions.keys().copied().collect();
        for function in self.functions.values_mut() {
            function.parent = function.parent.filter(|parent| known.contains(parent));
        }
    }

    /// Derives the kinds of functions whose capabilities cannot be seen: a bridge without one above
    /// it is a root port; the bridges below are in turn upstream and downstream ports of switches.
    fn tell_kinds_by_place(&mut self) {
        let unseen: Vec<Address> = self
            .functions
            .values()
            .filter(|function| !function.kind_is_read)
            .map(|function| function.address)
            .collect();
        for address in unseen {
            let is_bridge = self.functions[&address].class >> 8 == 0x0604;
            let kind = match (is_bridge, self.above(address).len()) {
                (true, 0) => Kind::RootPort,
                (true, bridges) if bridges % 2 == 1 => Kind::UpstreamPort,
                (true, _) => Kind::DownstreamPort,
                (false, 0) => Kind::Conventional,
                (false, _) => Kind::Endpoint,
            };
            if let Some(function) = self.functions.get_mut(&address) {
                function.kind = kind;
            }
        }
    }

    fn gather_groups(&mut self) {
        let mut groups: BTreeMap<u32, Vec<Address>> = BTreeMap::new();
        for function in self.functions.values() {
            if let Some(group) = &function.iommu_group {
                groups.entry(group.number).or_default().push(function.address);
            }
        }
        for group in self.functions.values_mut().filter_map(|it| it.iommu_group.as_mut()) {
            group.members = groups.get(&group.number).cloned().unwrap_or_default();
        }
    }

    /// The folder that it was read from: `/sys`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the tree again.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_again(&self) -> Result<Self> {
        Self::read(&self.root)
    }

    /// All functions, by address.
    pub fn functions(&self) -> impl Iterator<Item = &PciFunction> {
        self.functions.values()
    }

    /// Finds the function with this address.
    ///
    /// # Errors
    /// [`SysfsError::NoSuchFunction`].
    pub fn function(&self, address: Address) -> Result<&PciFunction> {
        self.functions.get(&address).ok_or_else(|| {
            let mut there: Vec<String> =
                self.functions.keys().take(NAMED).map(Address::to_string).collect();
            if self.functions.len() > NAMED {
                there.push(format!("{} more", self.functions.len() - NAMED));
            }
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            SysfsError::NoSuchFunction { address, there }
        })
    }

    /// Returns all bridges above a function, the nearest first.
    pub fn above(&self, address: Address) -> Vec<&PciFunction> {
        let mut bridges: Vec<&PciFunction> = Vec::new();
        let mut at = self.functions.get(&address);
        // A tree has no more levels than functions: parents in a circle end the walk.
        while let Some(parent) = at.and_then(|function| self.functions.get(&function.parent?)) {
            if bridges.len() > self.functions.len() {
                break;
            }
            bridges.push(parent);
            at = Some(parent);
        }
        bridges
    }

    /// Returns the functions directly below a bridge.
    pub fn below(&self, bridge: Address) -> impl Iterator<Item = &PciFunction> {
        self.functions.values().filter(move |function| function.parent == Some(bridge))
    }
}
