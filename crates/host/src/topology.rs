// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI Express tree of a host and the configuration space of every port in it.

use crosslane_pcie::config::{Bar, PortType};
use crosslane_pcie::units::{Picoseconds, RoutingId};

use crate::error::TopologyError;

/// A function as the host has enumerated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Bus, device and function number.
    pub id: RoutingId,
    /// The bridge above it; none for a root port.
    pub parent: Option<RoutingId>,
    /// What people call it: its name in the lab, its slot on a real machine.
    pub name: String,
    /// What it is.
    pub port_type: PortType,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Its BARs as they were placed, in the order of their numbers.
    pub bars: Vec<Bar>,
}

/// What is known of the IOMMU that translates a function's requests, where anything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoTranslation {
    /// Pages that its IOTLB holds, of all functions together.
    pub iotlb_pages: u32,
    /// Its largest pages, bytes.
    pub largest_page_bytes: u64,
    /// A walk of its table, for a page that is not held.
    pub walk: Picoseconds,
    /// Walks at once, at least 1.
    pub walks: u32,
}

/// The tree of one host. Configuration accesses are rare and are made outside of transfers, so
/// they are plain calls.
pub trait Topology {
    /// Every function, each behind the bridge above it.
    ///
    /// # Errors
    /// Where the platform does not show its tree.
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError>;

    /// Whether an IOMMU translates the addresses of a function's requests where they reach the root
    /// complex. A tree that says nothing else has none.
    ///
    /// # Errors
    /// No such function.
    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        let _ = function;
        Ok(false)
    }

    /// What is known of the IOMMU that does. No register of a real one says how large its IOTLB is
    /// or how long a walk takes, so a tree that says nothing else knows nothing.
    ///
    /// # Errors
    /// As [`is_translated`](Self::is_translated).
    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        self.is_translated(function).map(|_| None)
    }

    /// One DW of a function's configuration space; `offset` in bytes, a multiple of 4.
    ///
    /// # Errors
    /// No such function, or an offset that is no DW.
    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError>;

    /// Writes those bytes of a DW whose bit of `byte_enables` (bit 0: lowest byte) is set.
    ///
    /// # Errors
    /// As [`config_read`](Self::config_read), and where the platform forbids it.
    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError>;
}
