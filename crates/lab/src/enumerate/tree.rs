// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The enumerated tree of a host, as `lspci -tv` would show it.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use crosslane_fabric::{NodeId, PortId};
use crosslane_pcie::config::{Bar, PortType};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

/// A function: a port of a root complex, of a switch or of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Port of the function in the fabric.
    pub port: PortId,
    /// Node of the function in the fabric.
    pub node: NodeId,
    /// Name of the port.
    pub name: String,
    /// Bus, device and function.
    pub routing_id: RoutingId,
    /// The bridge above it, an index into [`HostTree::functions`].
    pub parent: Option<usize>,
    /// The functions on the bus below it, likewise.
    pub children: Vec<usize>,
    /// Type of its port.
    pub port_type: PortType,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class code, 24 bits.
    pub class_code: u32,
    /// BARs of the function, placed.
    pub bars: Vec<Bar>,
    /// Buses below a bridge.
    pub buses: Option<RangeInclusive<u8>>,
    /// Addresses below 4 GiB that a bridge forwards downwards.
    pub memory_window: Option<RangeInclusive<u64>>,
    /// Prefetchable addresses that a bridge forwards downwards.
    pub prefetchable_window: Option<RangeInclusive<u64>>,
    /// Largest payload supported, bytes.
    pub max_payload_supported_bytes: u32,
    /// Largest payload set (Max_Payload_Size), bytes.
    pub max_payload_bytes: u32,
    /// Largest read request set (Max_Read_Request_Size), bytes.
    pub max_read_request_bytes: u32,
    /// Rate to which its link has trained.
    pub link: Option<LinkRate>,
    /// Whether it supports 8-bit tags, which are then enabled.
    pub extended_tags: bool,
    /// Whether it supports 10-bit tags, which are then enabled.
    pub ten_bit_tags: bool,
    /// Whether it redirects peer-to-peer requests to the root complex (ACS).
    pub redirects: bool,
    /// Offset of its PCI Express capability, bytes.
    pub(super) express: u16,
}

/// The tree of one host after enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTree {
    /// The host.
    pub host: HostId,
    /// Functions of the tree; each follows the bridge above it.
    pub functions: Vec<Function>,
    /// Host memory: below the hole for 32-bit windows, and above it.
    pub memory: Vec<Range<u64>>,
    /// The range below 4 GiB that holds all windows and BARs there.
    pub windows_32: Range<u64>,
    /// The range above memory that holds 64-bit windows and BARs.
    pub windows_64: Range<u64>,
    /// Highest bus number in use.
    pub last_bus: u8,
}

impl HostTree {
    /// Finds a function by name.
    pub fn find(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// Finds the function and the BAR that hold an address.
    pub fn at_address(&self, address: BusAddress) -> Option<(&Function, &Bar)> {
        self.functions
            .iter()
            .flat_map(|function| function.bars.iter().map(move |bar| (function, bar)))
            .find(|(_, bar)| bar.contains(address))
    }

    /// Lists the functions on the path from one to the other, both included; it leads through the
    /// root complex if they share no bridge.
    pub fn path(&self, from: &Function, to: &Function) -> Vec<&Function> {
        let up = |start: &Function| {
            let mut indexes = Vec::new();
            let mut at = self.functions.iter().position(|f| f.port == start.port);
            while let Some(index) = at {
                indexes.push(index);
                at = self.functions[index].parent;
            }
            indexes
        };
        let (mut left, mut right) = (up(from), up(to));
        // Common ancestors above the lowest shared bridge are not on the path. Nor is a switch's
        // upstream port: siblings meet on the bus below it.
        while let (Some(one), Some(other)) = (left.last(), right.last()) {
            if one != other {
                break;
            }
            if left.len() == 1 || right.len() == 1 {
                right.pop();
                break;
            }
            left.pop();
            right.pop();
        }
        left.into_iter()
            .chain(right.into_iter().rev())
            .map(|index| &self.functions[index])
            .collect()
    }

    fn depth(&self, function: &Function) -> usize {
        let parents = |index: &usize| self.functions[*index].parent;
        std::iter::successors(function.parent, parents).count()
    }
}

/// Prints one line a function, its children indented.
impl fmt::Display for HostTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "host {}: buses 00-{:02x}", self.host.0, self.last_bus)?;
        for range in &self.memory {
            writeln!(f, "  memory  {}", span(range.start, range.end - 1))?;
        }
        for range in [&self.windows_32, &self.windows_64].into_iter().filter(|r| !r.is_empty()) {
            writeln!(f, "  windows {}", span(range.start, range.end - 1))?;
        }
        for function in &self.functions {
            let indent = "  ".repeat(self.depth(function) + 1);
            write!(f, "{indent}{} {}", function.routing_id, function.name)?;
            write!(f, " [{:04x}:{:04x}]", function.vendor, function.device)?;
            if let Some(link) = function.link {
                write!(f, " {link}")?;
            }
            write!(f, " MPS {}", function.max_payload_bytes)?;
            write!(f, " MRRS {}", function.max_read_request_bytes)?;
            if let Some(buses) = &function.buses {
                write!(f, " buses {:02x}-{:02x}", buses.start(), buses.end())?;
            }
            let windows = [&function.memory_window, &function.prefetchable_window];
            for window in windows.into_iter().flatten() {
                write!(f, " window {}", span(*window.start(), *window.end()))?;
            }
            for bar in &function.bars {
                let last = bar.base.0 + (bar.size_bytes - 1);
                write!(f, " BAR{} {}", bar.index, span(bar.base.0, last))?;
            }
            writeln!(f, "{}", if function.redirects { " ACS redirect" } else { "" })?;
        }
        Ok(())
    }
}

fn span(first: u64, last: u64) -> String {
    format!("{first:#x}-{last:#x}")
}
