// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of hwloc's `lstopo-no-graphics`, or of `lstopo -v`: packages, NUMA nodes, bridges and
//! devices, each two columns behind what it is in. Bridges have addresses, and links are shown,
//! only with `-v`; nothing has registers.
//!
//! ```text
//! Machine (125GB total)
//!   Package L#0
//!     NUMANode L#0 (P#0 62GB)
//!     HostBridge
//!       PCIBridge
//!         PCI 3b:00.0 (Ethernet)
//!           Net "ens1f0"
//! ```
//!
//! Read first: hwloc's `lstopo-text.c` and `hwloc_pci_class_string`.

use crosslane_sysfs::Address;

use crate::lspci::{BRIDGE, hex, pair, without_quotes};
use crate::seen::{Inventory, MadeUp, Seen};
use crate::xml::{link, number_range};

/// Classes by the words that hwloc has for them.
const CLASSES: [(&str, u32); 28] = [
    ("SCSI", 0x0100),
    ("IDE", 0x0101),
    ("RAID", 0x0104),
    ("ATA", 0x0105),
    ("SATA", 0x0106),
    ("SAS", 0x0107),
    ("NVMExp", 0x0108),
    ("Storage", 0x0180),
    ("Ethernet", 0x0200),
    ("InfiniBand", 0x0207),
    ("Fabric", 0x0208),
    ("Network", 0x0280),
    ("VGA", 0x0300),
    ("XGA", 0x0301),
    ("3D", 0x0302),
    ("Display", 0x0380),
    ("MultimediaVideo", 0x0400),
    ("MultimediaAudio", 0x0401),
    ("AudioDevice", 0x0403),
    ("Multimedia", 0x0480),
    ("RAM", 0x0500),
    ("Memory", 0x0580),
    ("Processor", 0x0b80),
    ("Co-Processor", 0x0b40),
    ("CoProc", 0x0b40),
    ("USB", 0x0c03),
    ("FibreChannel", 0x0c04),
    ("ProcAccel", 0x1200),
];

/// Words of the lines that are of interest.
const WORDS: [&str; 6] = ["Machine", "NUMANode", "HostBridge", "PCIBridge", "PCIDev", "PCI"];
/// Deepest nesting of lines that is followed.
const DEEPEST: usize = 256;

/// Reads the topology in a text; a text without a host bridge or a bridge has none.
///
/// # Errors
/// A line that contradicts an earlier one: its number from 1, and half a sentence.
pub(crate) fn read(text: &str, file: &str) -> Result<Inventory, (usize, String)> {
    let mut inventory = Inventory::default();
    let lines = || (1..).zip(text.lines().map(without_quotes));
    let is_topology = |line: &str| matches!(word(line), Some("HostBridge" | "PCIBridge"));
    if !lines().any(|(_, line)| is_topology(line)) {
        return Ok(inventory);
    }
    let mut open: Vec<Frame> = vec![Frame::default()];
    let mut made_up = MadeUp::Bridge.addresses();
    for (number, line) in lines() {
        let indent = line.len() - line.trim_start().len();
        if line.trim().is_empty() {
            continue;
        }
        while open.len() > 1 && open.last().is_some_and(|frame| frame.indent >= indent) {
            open.pop();
        }
        let mut frame = Frame { indent, ..inherited(&open) };
        match word(line) {
            Some("Machine") => open.truncate(1),
            Some("NUMANode") => {
                let node = number_behind_p(line);
                frame.numa_node = node;
                // hwloc 2 has it beside what belongs to it, hwloc 1 above that.
                if let Some(above) = open.last_mut() {
                    above.numa_nodes += 1;
                    above.numa_node = node.filter(|_| above.numa_nodes == 1);
                }
            }
            Some("HostBridge") => frame.parent = None,
            Some(what) => {
                let found = function(line, what == "PCIBridge");
                let (address, seen) = match found {
                    Some((Some(address), seen)) => (address, seen),
                    Some((None, seen)) => match made_up.next() {
                        Some(address) => (address, seen),
                        None => continue,
                    },
                    None => continue,
                };
                let (parent, numa_node) = (frame.parent, frame.numa_node);
                let file = file.to_owned();
                let seen = Seen { file, parent, numa_node, is_place_only: true, ..seen };
                inventory.add(address, seen).map_err(|what| (number, what))?;
                frame.parent = Some(address);
            }
            None => {}
        }
        if open.len() < DEEPEST {
            open.push(frame);
        }
    }
    Ok(inventory)
}

/// A line that others are in.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    indent: usize,
    numa_node: Option<u32>,
    numa_nodes: usize,
    parent: Option<Address>,
}

fn inherited(open: &[Frame]) -> Frame {
    open.last().map_or_else(Frame::default, |above| Frame { numa_nodes: 0, ..*above })
}

/// Returns the word of a line that is of interest.
fn word(line: &str) -> Option<&'static str> {
    let first = line.trim().split([' ', '(']).next()?;
    WORDS.into_iter().find(|word| *word == first)
}

/// The number behind `P#`.
fn number_behind_p(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("P#")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Reads a bridge or a device, as far as its line says what it is: `PCI 3b:00.0 (Ethernet)`, `PCI
/// 8086:1521` (hwloc 1), or `PCI L#4 (busid=0000:3b:00.0 id=8086:1521 class=0200(Ethernet)
/// link=2.00GB/s)`.
fn function(line: &str, is_bridge: bool) -> Option<(Option<Address>, Seen)> {
    let mut seen = Seen { class: is_bridge.then_some(BRIDGE << 8), ..Seen::default() };
    if let Some((_, fields)) = line.split_once("(busid=") {
        let mut fields = fields.split([' ', ')']);
        let address = fields.next()?.parse().ok()?;
        for field in fields {
            match field.split_once('=') {
                Some(("id", ids)) => seen.identity = pair(ids),
                Some(("class", class)) => {
                    let code = class.split('(').next().and_then(hex);
                    seen.class = code.filter(|code| *code <= 0xffff).map(|code| code << 8);
                }
                Some(("link", rate)) => link(&mut seen, rate.trim_end_matches("GB/s")),
                Some(("buses", buses)) => seen.buses = number_range(buses),
                _ => {}
            }
        }
        return Some((Some(address), seen));
    }
    if is_bridge {
        return Some((None, seen));
    }
    let rest = line.trim().strip_prefix("PCI ")?;
    let what = rest.split(' ').next()?;
    let class = rest.split_once('(').and_then(|(_, class)| class.split_once(')'));
    let class = class.and_then(|(class, _)| CLASSES.iter().find(|(word, _)| *word == class));
    seen.class = class.map(|(_, class)| class << 8);
    if let Ok(address) = what.parse() {
        return Some((Some(address), seen));
    }
    // hwloc 1 has the IDs there.
    seen.identity = Some(pair(what)?);
    seen.doubts.push("its address is not shown".to_owned());
    Some((None, seen))
}
