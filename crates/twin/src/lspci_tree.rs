// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of `lspci -t`, also with `-v`, `-n`, `-nn` and `-D`: buses, bridges and functions, and
//! with `-v` their names. No register, link or class is in them.
//!
//! ```text
//! -+-[0000:16]---01.0-[17-1b]----00.0-[18-1b]--+-00.0-[19]----00.0  Example GPU
//!  |                                           \-01.0-[1a]--+-00.0  Example NIC
//!  |                                                        \-00.1  Example NIC
//!  \-[0000:00]-+-00.0  Example Host Bridge
//!              \-1f.0  Example LPC
//! ```
//!
//! A branch (`+` or `\`) belongs to the bus whose first branch stands above it, in the same column.
//!
//! Read first: `ls-tree.c` of pciutils.

use std::collections::BTreeMap;

use crosslane_pcie::units::RoutingId;
use crosslane_sysfs::Address;

use crate::lspci::{BRIDGE, hex, identified, without_quotes};
use crate::seen::{Inventory, Seen};

/// Deepest nesting of buses that is followed.
const DEEPEST: usize = 64;
/// Most columns of a tree: each level takes 20.
const MOST_COLUMNS: usize = 4096;

/// Reads the trees in a text; other lines are left alone.
///
/// # Errors
/// A line that contradicts an earlier one: its number from 1, and half a sentence.
pub(crate) fn read(text: &str, file: &str) -> Result<Inventory, (usize, String)> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        for (address, seen) in reader.line(without_quotes(line)) {
            let seen = Seen { file: file.to_owned(), is_place_only: true, ..seen };
            reader.inventory.add(address, seen).map_err(|what| (number, what))?;
        }
    }
    Ok(reader.inventory)
}

/// A bus of the tree.
#[derive(Clone, Copy, Debug)]
struct Bus {
    domain: u32,
    number: u8,
    bridge: Option<Address>,
}

#[derive(Default)]
struct Reader {
    inventory: Inventory,
    /// Buses with further branches, by the column of these; none for the list of host bridges.
    branches: BTreeMap<usize, Option<Bus>>,
}

impl Reader {
    /// Takes a line. Returns the functions in it.
    fn line(&mut self, line: &str) -> Vec<(Address, Seen)> {
        let rest = line.trim_start_matches([' ', '|']);
        let column = line.len() - rest.len();
        let bus = match rest.chars().next() {
            // Not indented: the beginning of a tree.
            Some('-') if rest.starts_with("-[") || rest.starts_with("-+-[") => {
                self.branches.clear();
                None
            }
            Some('+' | '\\') => match self.branches.get(&column) {
                Some(bus) => *bus,
                None => return Vec::new(),
            },
            _ => {
                // Between two trees there is something else.
                if !rest.is_empty() {
                    self.branches.clear();
                }
                return Vec::new();
            }
        };
        drop(self.branches.split_off(&(column + 1)));
        if rest.starts_with('\\') {
            self.branches.remove(&column);
        }
        self.chain(line, column, bus)
    }

    /// Takes what follows a branch: functions, and the buses below them.
    fn chain(&mut self, line: &str, mut at: usize, mut bus: Option<Bus>) -> Vec<(Address, Seen)> {
        let mut found: Vec<(Address, Seen)> = Vec::new();
        for _ in 0..DEEPEST {
            while let Some(byte) = line.as_bytes().get(at) {
                match byte {
                    _ if at > MOST_COLUMNS => break,
                    b'+' | b'\\' => {
                        if *byte == b'+' {
                            self.branches.insert(at, bus);
                        }
                        at += 1;
                    }
                    b'-' => at += 1,
                    _ => break,
                }
            }
            let Some(rest) = line.get(at..) else { break };
            if let Some(inside) = rest.strip_prefix('[') {
                let last = found.last_mut();
                let Some((buses, _)) = inside.split_once(']') else { break };
                let domain = bus.map_or(0, |bus| bus.domain);
                let Some((domain, first, end)) = bus_range(buses, domain) else { break };
                let bridge = last.map(|(address, seen)| {
                    seen.buses = Some((first, end));
                    *address
                });
                bus = Some(Bus { domain, number: first, bridge });
                at += buses.len() + 2;
                continue;
            }
            let Some(on) = bus else { break };
            let Some((id, length)) = function(rest, on.number) else { break };
            let mut seen = Seen { parent: on.bridge, ..Seen::default() };
            let behind = rest.get(length..).unwrap_or_default();
            let is_bridge = behind.starts_with('-');
            if is_bridge {
                seen.class = Some(BRIDGE << 8);
            } else if let Some(name) = behind.strip_prefix("  ") {
                (seen.identity, seen.name) = identified(name);
            }
            found.push((Address { domain: on.domain, id }, seen));
            at += length;
            if !is_bridge {
                return found;
            }
        }
        // A bridge whose buses are cut off.
        if let Some((_, seen)) = found.last_mut().filter(|(_, seen)| seen.buses.is_none()) {
            let doubt = "the tree is cut behind it; what is below it is missing";
            seen.doubts.push(doubt.to_owned());
        }
        found
    }
}

/// Reads `0000:17`, `17-1b` or `17`: the domain, and the first and the last bus.
fn bus_range(text: &str, domain: u32) -> Option<(u32, u8, u8)> {
    let (domain, buses) = match text.rsplit_once(':') {
        Some((digits, buses)) => (hex(digits)?, buses),
        None => (domain, text),
    };
    let (first, last) = buses.split_once('-').unwrap_or((buses, buses));
    Some((domain, hex(first)?.try_into().ok()?, hex(last)?.try_into().ok()?))
}

/// Reads `1f.3` at the beginning, and how long it is.
fn function(text: &str, bus: u8) -> Option<(RoutingId, usize)> {
    let (device, rest) = text.split_once('.').filter(|(device, _)| device.len() == 2)?;
    let function = hex(rest.get(..1)?).filter(|number| *number < 8)?;
    let device = hex(device).filter(|number| *number < 32)?;
    Some((RoutingId::new(bus, device as u8, function as u8), 4))
}
