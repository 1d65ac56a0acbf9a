// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of this machine as plain data.

use crosslane_results::machine as results;
use crosslane_vfio::Placement;
use crosslane_vfio::sysfs::{Address, ErrorCounters, LinkCode, Machine, PciFunction, Tree};

/// Base class of bridges (PCI code and ID assignment).
const BRIDGES: u32 = 0x06;

/// Vendors whose numbers the boards' cores have by default: AMD, formerly Xilinx, and Altera.
const AMD: u16 = 0x10ee;
const ALTERA: u16 = 0x1172;
/// Vendor, subsystem ID and name of each board that `gateware/boards` has a bitstream for.
const BOARDS: [(u16, u16, &str); 8] = [
    (AMD, 0xa050, "u50"),
    (AMD, 0xa250, "u250"),
    (AMD, 0xc118, "vcu118"),
    (AMD, 0xc705, "kc705"),
    (AMD, 0xc709, "vc709"),
    (AMD, 0xf100, "litefury"),
    (AMD, 0xf200, "nitefury"),
    (ALTERA, 0x51d0, "s10dx"),
];

/// Returns the name of a board of this project, by its vendor ID and its subsystem.
pub(super) fn board(vendor: u16, subsystem: (u16, u16)) -> Option<&'static str> {
    let mut boards = BOARDS.iter().filter(|(of, ..)| vendor == *of);
    boards.find(|(of, id, _)| subsystem == (*of, *id)).map(|(.., name)| *name)
}

/// Returns a serial number as 16 digits.
pub(super) fn serial_number(number: u64) -> String {
    format!("{number:016x}")
}

/// Returns the function and every bridge above it, the root port first.
pub fn path_from_root<'a>(tree: &'a Tree, function: &'a PciFunction) -> Vec<&'a PciFunction> {
    let mut path = tree.above(function.address);
    path.reverse();
    path.push(function);
    path
}

/// Lists the functions of a machine, optionally with bridges and ports.
pub(super) fn functions(tree: &Tree, with_bridges: bool) -> impl Iterator<Item = &PciFunction> {
    tree.functions().filter(move |function| with_bridges || function.class >> 16 != BRIDGES)
}

/// Describes the functions of a machine in few words, optionally with bridges and ports.
pub fn list(tree: &Tree, with_bridges: bool) -> results::FunctionList {
    results::FunctionList { functions: functions(tree, with_bridges).map(summary).collect() }
}

fn summary(function: &PciFunction) -> results::FunctionSummary {
    let link = function.link();
    results::FunctionSummary {
        address: function.address.to_string(),
        vendor: format!("{:04x}", function.vendor),
        device: format!("{:04x}", function.device),
        class: format!("{:06x}", function.class),
        class_words: function.class_words().to_owned(),
        kind: function.kind.to_string(),
        driver: function.driver.clone(),
        iommu_group: function.iommu_group.as_ref().map(|group| group.number),
        link: link.map(|(now, _)| now.to_string()),
        link_capability: link.map(|(_, best)| best.to_string()),
        numa_node: function.numa_node,
    }
}

/// Describes a function of a machine and every bridge above it.
pub fn describe(machine: &Machine, tree: &Tree, function: &PciFunction) -> results::FunctionPath {
    let mut path = path_from_root(tree, function);
    path.pop();
    let above = path.into_iter().map(described).collect();
    let buffers = placement(machine, function).to_string();
    results::FunctionPath { function: described(function), above, buffers }
}

/// Returns the place of buffers for a function: tried out on this machine, planned for others.
pub(super) fn placement(machine: &Machine, function: &PciFunction) -> Placement {
    Placement::of_card(function.numa_node, machine)
}

fn described(function: &PciFunction) -> results::Function {
    let (express, link) = (function.express(), function.link());
    let acs = function.configuration.acs();
    let code = |code: LinkCode| results::LinkCode { generation: code.speed, lanes: code.lanes };
    let group = function.iommu_group.as_ref().map(|group| results::IommuGroup {
        number: group.number,
        kind: group.kind.clone(),
        members: group.members.iter().map(Address::to_string).collect(),
    });
    let bars = function.bars.iter().map(|bar| results::Bar {
        index: bar.index,
        address: bar.base.to_string(),
        bytes: bar.size_bytes,
        bits: if bar.kind.is_64_bit() { 64 } else { 32 },
        prefetchable: bar.kind.is_prefetchable(),
        write_combined: function.combined_bars.iter().any(|&it| usize::from(it) == bar.index),
    });
    results::Function {
        address: function.address.to_string(),
        kind: function.kind.to_string(),
        kind_is_read: function.kind_is_read,
        vendor: format!("{:04x}", function.vendor),
        device: format!("{:04x}", function.device),
        class: format!("{:06x}", function.class),
        class_words: function.class_words().to_owned(),
        revision: function.revision,
        subsystem: format!("{:04x}:{:04x}", function.subsystem.0, function.subsystem.1),
        board: board(function.vendor, function.subsystem).map(str::to_owned),
        serial_number: function.configuration.serial_number().map(serial_number),
        driver: function.driver.clone(),
        driver_override: function.driver_override.clone(),
        iommu_group: group,
        numa_node: function.numa_node,
        memory_enabled: function.configuration.memory_enabled(),
        bus_master: function.configuration.bus_master(),
        link: link.map(|(now, _)| code(now)),
        link_capability: link.map(|(_, best)| code(best)),
        max_payload_bytes: express.map(|it| it.max_payload_bytes),
        max_payload_supported_bytes: express.map(|it| it.max_payload_supported_bytes),
        max_read_request_bytes: express.map(|it| it.max_read_request_bytes),
        extended_tags: express.map(|it| it.extended_tags),
        extended_tags_supported: express.map(|it| it.extended_tags_supported),
        ten_bit_tags: express.map(|it| it.ten_bit_tags),
        ten_bit_tags_supported: express.map(|it| it.ten_bit_tags_supported),
        relaxed_ordering: express.map(|it| it.relaxed_ordering),
        function_level_reset: express.map(|it| it.function_level_reset),
        configuration_bytes: function.configuration.readable_bytes(),
        interrupt_vectors: function.configuration.vectors(),
        acs_enabled: acs.map(|acs| acs.enabled_words()),
        acs_redirects: acs.map(|acs| acs.redirects_requests()),
        bars: bars.collect(),
        errors: function.errors.as_ref().map(error_counts),
    }
}

fn error_counts(errors: &ErrorCounters) -> results::ErrorCounts {
    let by_name = |counters: &[(String, u64)]| counters.iter().cloned().collect();
    results::ErrorCounts {
        correctable: by_name(&errors.correctable),
        non_fatal: by_name(&errors.non_fatal),
        fatal: by_name(&errors.fatal),
    }
}

/// Returns `Gen3 x4`, followed by the highest rate if that is more.
pub(super) fn link_words((now, best): (LinkCode, LinkCode)) -> String {
    let is_less = now.speed < best.speed || now.lanes < best.lanes;
    if is_less { format!("{now} (of {best})") } else { now.to_string() }
}

/// Returns the error counters of a function that are not 0.
pub(super) fn error_words(function: &PciFunction) -> String {
    let counts = function.errors.as_ref().map(error_counts);
    counts.map_or("the kernel has no counters".to_owned(), |counts| counts.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_known_by_all_of_its_numbers() {
        assert_eq!(board(0x10ee, (0x10ee, 0xc705)), Some("kc705"));
        assert_eq!(board(0x1172, (0x1172, 0x51d0)), Some("s10dx"));
        for (vendor, subsystem) in [
            (0x10ee, (0x10ee, 7)),
            (0x10ee, (0x1234, 0xc705)),
            (0x1234, (0x10ee, 0xc705)),
            (0x1172, (0x1172, 0xc705)),
            (0x10ee, (0x1172, 0x51d0)),
        ] {
            assert_eq!(board(vendor, subsystem), None);
        }
        assert_eq!(serial_number(0x1f), "000000000000001f");
    }
}
