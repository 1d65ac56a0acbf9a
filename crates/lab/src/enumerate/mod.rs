// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enumeration, as firmware does it at start: numbers the buses, sizes and places the BARs, opens
//! the bridges' windows, enables the functions and sets payload and read sizes. Uses only
//! configuration reads and writes, as on a machine.
//!
//! Read first: base specification 7.3.1 (configuration accesses), 7.5.1.2.1 (BAR sizing) and
//! 7.5.1.3 (bridges).

mod access;
mod addresses;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crosslane_fabric::{Fabric, MMIO_HOLE, NodeId};
use crosslane_host::kinds;
use crosslane_pcie::config::{PortType, registers as reg};
use crosslane_pcie::units::{HostId, RoutingId};
use thiserror::Error;

use access::Access;
pub use access::set_max_payload;
use addresses::Room;
pub use tree::{Function, HostTree};

/// Range for windows below 4 GiB: the fabric's hole in memory, up to a PC's interrupt controllers
/// and boot ROM.
pub const WINDOWS_32: Range<u64> = MMIO_HOLE.start..0xfec0_0000;
/// End of the address space for windows above memory: 52 bits, as on x86.
pub const WINDOWS_64_END: u64 = 1 << 52;
/// Granularity of bridge windows, bytes (PCIe 6.x 7.5.1.3.8).
pub const WINDOW_GRANULE: u64 = 1 << 20;

/// The reason why a host's tree cannot be enumerated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnumerationError {
    /// The 256 bus numbers of the host are used up.
    #[error("{bridge} cannot get a bus number: its host has used all 256")]
    NoBusNumber {
        /// The bridge left without one.
        bridge: String,
    },
    /// The BARs do not fit into their address space.
    #[error("the BARs {space} need {need_bytes} bytes, but only {have_bytes} are available")]
    NoSpace {
        /// The address space: `below 4 GiB` or `above 4 GiB`.
        space: &'static str,
        /// Space that the BARs need, bytes.
        need_bytes: u64,
        /// Space available, bytes.
        have_bytes: u64,
    },
    /// A function does not keep a value written to its register.
    #[error("{function} ignores a write to its register 0x{offset:x}")]
    NotKept {
        /// The function.
        function: String,
        /// The register's offset, bytes.
        offset: u16,
    },
    /// A function does not support a payload size.
    #[error("{function} cannot be set to a payload of {bytes} bytes; it supports {supported}")]
    PayloadNotSupported {
        /// The function.
        function: String,
        /// The size asked for, bytes.
        bytes: u32,
        /// The largest supported size, bytes.
        supported: u32,
    },
}

kinds!(EnumerationError {
    Self::NoBusNumber { .. } | Self::NoSpace { .. } | Self::PayloadNotSupported { .. }
        => Unsupported,
    Self::NotKept { .. } => Failed,
});

/// The lab's settings for the enumeration of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Max_Read_Request_Size of every function, bytes.
    pub max_read_request_bytes: u32,
    /// Largest Max_Payload_Size, bytes; `None` for the largest that all functions support.
    pub max_payload_limit_bytes: Option<u32>,
    /// Root ports that have a Max_Payload_Size of their own, with all that is below them: by the
    /// name of the function below the root port, the largest, bytes.
    pub max_payload_limits: BTreeMap<String, u32>,
    /// Read completion boundary of the host that endpoints are told, bytes.
    pub read_completion_boundary_bytes: u32,
    /// Root complexes and switches whose lower ports redirect peer-to-peer requests (ACS).
    pub redirecting: BTreeSet<NodeId>,
}

/// Enumerates the tree of one host.
///
/// # Errors
/// See [`EnumerationError`]. The functions keep the settings made so far.
pub fn enumerate(
    fabric: &mut Fabric,
    host: HostId,
    policy: &Policy,
) -> Result<HostTree, EnumerationError> {
    let mut access = Access { fabric, host };
    let mut functions = Vec::new();
    let mut last_bus = 0;
    scan(&mut access, None, 0, &mut last_bus, &mut functions)?;
    let memory = access.fabric.memory_ranges(host);
    let windows_64_start =
        memory.iter().map(|range| range.end).max().unwrap_or(0).max(MMIO_HOLE.end);
    let [windows_32, windows_64] = place(&mut access, windows_64_start, &mut functions)?;
    let payloads = payloads(&functions, policy);
    for (function, max_payload_bytes) in functions.iter_mut().zip(payloads) {
        access.enable(function, policy, max_payload_bytes)?;
    }
    Ok(HostTree { host, functions, memory, windows_32, windows_64, last_bus })
}

/// Returns the Max_Payload_Size of each function: the largest that all functions of the host
/// support, but for those below root ports that have their own.
fn payloads(functions: &[Function], policy: &Policy) -> Vec<u32> {
    let mut trees: Vec<Option<usize>> = Vec::new();
    let mut least: BTreeMap<Option<usize>, u32> = BTreeMap::new();
    for (index, function) in functions.iter().enumerate() {
        let own = function.children.first().map(|&child| &functions[child].name);
        let own = own.and_then(|name| policy.max_payload_limits.get(name));
        let (tree, limit) = match (function.parent, own) {
            (Some(parent), _) => (trees[parent], None),
            (None, Some(&limit)) => (Some(index), Some(limit)),
            (None, None) => (None, policy.max_payload_limit_bytes),
        };
        trees.push(tree);
        let bytes = function.max_payload_supported_bytes.min(limit.unwrap_or(u32::MAX));
        least.entry(tree).and_modify(|least| *least = bytes.min(*least)).or_insert(bytes);
    }
    trees.iter().map(|tree| least[tree]).collect()
}

/// Finds the functions of one bus, depth first, and numbers the buses below its bridges.
fn scan(
    access: &mut Access<'_>,
    parent: Option<usize>,
    bus: u8,
    last_bus: &mut u8,
    functions: &mut Vec<Function>,
) -> Result<(), EnumerationError> {
    // The lower end of a link has device 0 only (PCIe 6.x 7.3.1).
    let below_link = parent.is_some_and(|index| functions[index].port_type.is_above_its_link());
    let devices = if below_link { 0..1 } else { 0..32 };
    for device in devices {
        let id = RoutingId::new(bus, device, 0);
        let Some(mut function) = access.probe(id) else { continue };
        function.parent = parent;
        let index = functions.len();
        if let Some(parent) = parent {
            functions[parent].children.push(index);
        }
        let is_bridge = function.port_type.is_bridge();
        let name = function.name.clone();
        functions.push(function);
        if !is_bridge {
            continue;
        }
        let Some(secondary) = last_bus.checked_add(1) else {
            return Err(EnumerationError::NoBusNumber { bridge: name });
        };
        *last_bus = secondary;
        // Forward all buses until the last one below is known.
        access.set_buses(&functions[index], bus, secondary, u8::MAX)?;
        scan(access, Some(index), secondary, last_bus, functions)?;
        access.set_buses(&functions[index], bus, secondary, *last_bus)?;
        functions[index].buses = Some(secondary..=*last_bus);
    }
    Ok(())
}

/// Names of the two address spaces, by index.
const SPACES: [&str; 2] = ["below 4 GiB", "above 4 GiB"];

/// Places every BAR and window; returns the two ranges that hold them.
fn place(
    access: &mut Access<'_>,
    windows_64_start: u64,
    functions: &mut [Function],
) -> Result<[Range<u64>; 2], EnumerationError> {
    // Sizes from the leaves up: children stand behind their parents.
    let mut rooms: Vec<[Room; 2]> = vec![[Room::NONE; 2]; functions.len()];
    for index in (0..functions.len()).rev() {
        for space in 0..2 {
            let items = addresses::items(&functions[index], &rooms, space);
            let (_, mut room) = addresses::pack(&items).ok_or_else(|| no_space(space, &items))?;
            if functions[index].port_type.is_bridge() {
                room = room.rounded(WINDOW_GRANULE).ok_or_else(|| no_space(space, &items))?;
            }
            rooms[index][space] = room;
        }
    }
    let top: Vec<usize> =
        (0..functions.len()).filter(|&index| functions[index].parent.is_none()).collect();
    let mut bases = vec![[0; 2]; functions.len()];
    let mut windows = [0..0, 0..0];
    for (space, window) in windows.iter_mut().enumerate() {
        let items: Vec<Room> = top.iter().map(|&index| rooms[index][space]).collect();
        let packed = addresses::pack(&items);
        let (offsets, room) = packed.ok_or_else(|| no_space(space, &items))?;
        *window = match space {
            0 => addresses::as_high_as_possible(room),
            _ => addresses::from(windows_64_start, room),
        }
        .ok_or_else(|| no_space(space, &[room]))?;
        for (&index, offset) in top.iter().zip(offsets) {
            bases[index][space] = window.start + offset;
        }
    }
    // Addresses from the root down.
    for index in 0..functions.len() {
        for space in 0..2 {
            let items = addresses::items(&functions[index], &rooms, space);
            let (offsets, _) = addresses::pack(&items).ok_or_else(|| no_space(space, &items))?;
            let base = bases[index][space];
            if functions[index].port_type.is_bridge() {
                for (&child, offset) in functions[index].children.clone().iter().zip(&offsets) {
                    bases[child][space] = base + offset;
                }
                access.set_window(&mut functions[index], space, base, rooms[index][space].size)?;
            } else {
                access.set_bars(&mut functions[index], space, base, &offsets)?;
            }
        }
    }
    Ok(windows)
}

fn no_space(space: usize, items: &[Room]) -> EnumerationError {
    let need_bytes = items.iter().fold(0_u64, |sum, room| sum.saturating_add(room.size));
    let have_bytes = match space {
        0 => WINDOWS_32.end - WINDOWS_32.start,
        _ => WINDOWS_64_END - MMIO_HOLE.end,
    };
    EnumerationError::NoSpace { space: SPACES[space], need_bytes, have_bytes }
}

/// Whether this kind of port can redirect peer-to-peer requests.
const fn can_redirect(port_type: PortType) -> bool {
    matches!(port_type, PortType::RootPort | PortType::DownstreamPort)
}

/// Value of the ACS control bits for redirection (PCIe 6.x 7.7.11.3).
const REDIRECT: u32 = reg::ACS_CONTROL_REQUEST_REDIRECT
    | reg::ACS_CONTROL_COMPLETION_REDIRECT
    | reg::ACS_CONTROL_UPSTREAM_FORWARDING;
