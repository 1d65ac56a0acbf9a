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
    /// Human-readable name of the function: as the lab has it, or its slot on a real machine.
    pub name: String,
    /// Endpoint, root port or switch port.
    pub port_type: PortType,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// BARs of the function as placed, in the order of their numbers.
    pub bars: Vec<Bar>,
}

/// Known properties of the IOMMU that translates a function's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoTranslation {
    /// Pages that its IOTLB holds for all functions together.
    pub iotlb_pages: u32,
    /// Size of the IOMMU's largest pages, bytes.
    pub largest_page_bytes: u64,
    /// Time of a walk of its page table, for a page that the IOTLB does not hold.
    pub walk: Picoseconds,
    /// Number of simultaneous walks, at least 1.
    pub walks: u32,
}

/// The PCI Express tree of one host. Configuration accesses are plain calls: they are rare and
/// happen outside of transfers.
pub trait Topology {
    /// Returns every function, each after the bridge above it.
    ///
    /// # Errors
    /// The platform does not show its tree.
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError>;

    /// Whether an IOMMU translates the addresses of a function's requests at the root complex. The
    /// default is no.
    ///
    /// # Errors
    /// No such function.
    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        let _ = function;
        Ok(false)
    }

    /// Known properties of the IOMMU that translates a function's requests. The default is `None`:
    /// no register of a real IOMMU gives its IOTLB's size or the time of a walk.
    ///
    /// # Errors
    /// Those of [`is_translated`](Self::is_translated).
    fn translation(&self, function: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        self.is_translated(function).map(|_| None)
    }

    /// Reads one DW of a function's configuration space; `offset` in bytes, a multiple of 4.
    ///
    /// # Errors
    /// No such function, or an offset that is not of a DW.
    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError>;

    /// Writes the bytes of a DW that `byte_enables` selects (bit 0: lowest byte).
    ///
    /// # Errors
    /// Those of [`config_read`](Self::config_read), and a platform that forbids the write.
    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError>;
}
