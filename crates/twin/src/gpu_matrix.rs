// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matrices of `nvidia-smi topo -m`: the kind of way between each two GPUs and adapters, and the
//! NUMA node of each. No address, link or register is in them.
//!
//! ```text
//!         GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
//! GPU0     X      PIX     SYS     0-15            0
//! GPU1    PIX      X      SYS     0-15            0
//! NIC0    SYS     SYS      X
//! ```
//!
//! Beside another dump the GPUs are its GPUs by NVIDIA, in the order of their addresses, as
//! `nvidia-smi` counts them, and the adapters likewise. Alone, switches are made up that give these
//! kinds of ways.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crosslane_sysfs::{Address, Kind};

use crate::lspci::{BRIDGE, shown, without_quotes};
use crate::seen::{Inventory, MadeUp, Seen};

/// Most devices of a matrix.
const MOST_DEVICES: usize = 256;
/// Vendors of GPUs and of adapters that such a matrix lists by themselves.
const NVIDIA: u16 = 0x10de;
const MELLANOX: u16 = 0x15b3;
/// Base classes of display and network controllers, and the classes of those that no dump shows.
const DISPLAY: u32 = 0x03;
const NETWORK: u32 = 0x02;
const GPU: u32 = 0x03_0200;
const ADAPTER: u32 = 0x02_0000;

/// Kind of way between two devices, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// `PIX`: by one switch.
    Switch,
    /// `PXB`: by several switches below one root port.
    Switches,
    /// `PHB`: by a host bridge.
    HostBridge,
    /// `NODE`: by host bridges of one NUMA node.
    Node,
    /// `SYS`, once `SOC`: by the way between NUMA nodes.
    System,
    /// `NV4`: by so many links of NVLink; the way over PCI Express is not shown.
    Direct,
}

impl Way {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "PIX" => Self::Switch,
            "PXB" => Self::Switches,
            "PHB" => Self::HostBridge,
            "NODE" => Self::Node,
            "SYS" | "SOC" => Self::System,
            _ => {
                let links = word.strip_prefix("NV").filter(|links| !links.is_empty())?;
                links.bytes().all(|byte| byte.is_ascii_digit()).then_some(Self::Direct)?
            }
        })
    }
}

/// A GPU or an adapter.
#[derive(Clone, Debug, Default, PartialEq)]
struct Device {
    name: String,
    /// Name of the adapter for RDMA, such as `mlx5_0`.
    described: Option<String>,
    numa_node: Option<u32>,
}

impl Device {
    fn is_gpu(&self) -> bool {
        self.name.starts_with("GPU")
    }
}

/// A matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Matrix {
    file: String,
    devices: Vec<Device>,
    /// The ways that are shown, from a device to one behind it.
    ways: BTreeMap<(usize, usize), Way>,
}

/// Removes the escape sequences with which headings are underlined.
fn plain(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    text
}

/// Whether a word is the name of a GPU or an adapter: `GPU0`, `NIC1`, `mlx5_0`.
fn is_device(word: &str) -> bool {
    let begins = ["GPU", "NIC", "mlx", "bnxt", "irdma", "rdma", "roce", "ib"];
    let has_number = word.ends_with(|c: char| c.is_ascii_digit());
    begins.iter().any(|begin| word.starts_with(begin)) && has_number
}

/// Reads the first matrix of a text, if it has one.
pub(crate) fn read(text: &str, file: &str) -> Option<Matrix> {
    // Its remarks are a part of the lab: they name the file, not its folder.
    let name = Path::new(file).file_name().unwrap_or(file.as_ref()).to_string_lossy();
    let mut matrix = Matrix { file: name.into_owned(), ..Matrix::default() };
    let mut has_nodes = false;
    for line in text.lines() {
        let line = plain(without_quotes(line));
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else { continue };
        if matrix.devices.is_empty() {
            let names = words.iter().take_while(|word| is_device(word));
            let names: Vec<&str> = names.copied().take(MOST_DEVICES).collect();
            let is_heading = match words.get(names.len()) {
                None => names.len() > 1,
                Some(next) => *next == "CPU" && !names.is_empty(),
            };
            if is_heading && names.iter().any(|name| name.starts_with("GPU")) {
                let device = |name: &&str| Device { name: shown(name), ..Device::default() };
                matrix.devices = names.iter().map(device).collect();
                has_nodes = line.contains("NUMA Affinity");
            }
            continue;
        }
        if let Some((name, adapter)) = line.trim().split_once(": ") {
            let mut devices = matrix.devices.iter_mut();
            if let Some(device) = devices.find(|device| device.name == name) {
                device.described = Some(shown(adapter));
            }
            continue;
        }
        let Some(row) = matrix.devices.iter().position(|device| device.name == *first) else {
            continue;
        };
        let count = matrix.devices.len();
        for (column, word) in words[1..].iter().take(count).enumerate() {
            if let Some(way) = Way::read(word).filter(|_| column != row) {
                matrix.ways.insert((row.min(column), row.max(column)), way);
            }
        }
        // Behind the ways: processors, then nodes, of which there may be several.
        let node = words.get(1 + count + 1).and_then(|word| word.parse().ok());
        matrix.devices[row].numa_node = node.filter(|_| has_nodes);
    }
    (!matrix.ways.is_empty() || matrix.devices.len() == 1).then_some(matrix)
}

/// A device's group: the first of those that are joined to it by some ways.
fn groups(matrix: &Matrix, most: Way) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..matrix.devices.len()).collect();
    for (&(one, other), way) in &matrix.ways {
        if *way <= most {
            let [low, high] = [one, other].map(|at| groups[at]);
            let (low, high) = (low.min(high), low.max(high));
            groups.iter_mut().filter(|group| **group == high).for_each(|group| *group = low);
        }
    }
    groups
}

impl Matrix {
    /// Adds what it shows to the functions of other dumps, or all that it has where these have
    /// neither GPUs nor adapters. Returns remarks, a sentence each.
    pub fn join(mut self, inventory: &mut Inventory, number: usize) -> Vec<String> {
        let mut remarks: Vec<String> =
            self.direct_words().into_iter().chain(self.infer_nodes()).collect();
        let gpus = addresses(inventory, DISPLAY, Some(NVIDIA));
        let adapters = [Some(MELLANOX), None].map(|vendor| addresses(inventory, NETWORK, vendor));
        let [own_gpus, own_adapters] = [true, false].map(|is_gpu| {
            let own = (0..self.devices.len()).filter(|at| self.devices[*at].is_gpu() == is_gpu);
            own.collect::<Vec<usize>>()
        });
        let mut made = self.functions(number);
        let is_told = inventory.functions.values().all(|seen| seen.class.is_some());
        if gpus.is_empty() && adapters[1].is_empty() && is_told {
            inventory.functions.extend(made.bridges);
            inventory.functions.extend(made.devices);
            return remarks;
        }
        let adapters = adapters.into_iter().find(|known| known.len() == own_adapters.len());
        let mut parents = BTreeSet::new();
        for (what, own, known) in
            [("GPUs", &own_gpus, Some(gpus.clone())), ("adapters", &own_adapters, adapters)]
        {
            if own.is_empty() {
                continue;
            }
            let Some(known) = known.filter(|known| known.len() == own.len()) else {
                let why = match is_told {
                    true => "another number than the other dumps show",
                    false => "and the other dumps do not show what is one",
                };
                let (file, count) = (&self.file, own.len());
                remarks.push(format!("{file} has {count} {what}, {why}: they are left out"));
                continue;
            };
            for (at, address) in own.iter().zip(known) {
                let has_bridge = is_below_a_bridge(inventory, address);
                let Some(seen) = inventory.functions.get_mut(&address) else { continue };
                let (_, own) = &mut made.devices[*at];
                seen.numa_node = seen.numa_node.or(own.numa_node);
                if let Some(parent) = own.parent.filter(|_| !has_bridge) {
                    seen.parent = Some(parent);
                    parents.insert(parent);
                }
            }
        }
        // Switches that are needed, and those above them.
        while let Some(next) = parents.pop_first() {
            if let Some((_, bridge)) = made.bridges.iter().find(|(address, _)| *address == next) {
                parents.extend(bridge.parent);
                inventory.functions.insert(next, bridge.clone());
            }
        }
        remarks
    }

    /// Tells which devices are joined by links that a lab does not have.
    fn direct_words(&self) -> Option<String> {
        let direct = self.ways.iter().filter(|(_, way)| **way == Way::Direct);
        let first = direct.clone().map(|(pair, _)| *pair).next()?;
        let [one, other] = [first.0, first.1].map(|at| self.devices[at].name.as_str());
        let others = match direct.count() - 1 {
            0 => String::new(),
            1 => " and 1 other pair".to_owned(),
            more => format!(" and {more} other pairs"),
        };
        Some(format!(
            "{one} and {other}{others} are joined by NVLink, which a lab does not have; their way \
             over PCI Express is not in {}",
            self.file
        ))
    }

    /// Gives devices without a NUMA node that of those near them; if none has one, numbers those
    /// that are apart.
    fn infer_nodes(&mut self) -> Option<String> {
        let groups = groups(self, Way::Node);
        let apart: BTreeSet<usize> = groups.iter().copied().collect();
        let is_known = self.devices.iter().any(|device| device.numa_node.is_some());
        let is_numbered =
            !is_known && apart.len() > 1 && self.ways.values().any(|way| *way == Way::System);
        for (number, group) in (0..).zip(&apart) {
            let of_group: Vec<usize> =
                (0..groups.len()).filter(|at| groups[*at] == *group).collect();
            let known = of_group.iter().find_map(|at| self.devices[*at].numa_node);
            let node = known.or_else(|| is_numbered.then_some(number));
            for at in of_group {
                let device = &mut self.devices[at];
                device.numa_node = device.numa_node.or(node);
            }
        }
        is_numbered.then(|| {
            format!(
                "NUMA nodes are not in {}: devices with SYS between them have nodes of their \
                     own",
                self.file
            )
        })
    }

    /// Makes functions of the devices, and switches for the ways that are shown.
    fn functions(&self, number: usize) -> Made {
        let mut addresses =
            MadeUp::Device.addresses().map(|address| MadeUp::of_file(address, number));
        let mut next = || addresses.next().unwrap_or_default();
        let file = &self.file;
        let seen = || Seen { file: file.clone(), is_place_only: true, ..Seen::default() };
        let mut made = Made::default();
        let endpoints: Vec<Address> = self.devices.iter().map(|_| next()).collect();
        let mut switch = |parent: Option<Address>, made: &mut Made| {
            let (class, kind) = (Some(BRIDGE << 8), Some(Kind::UpstreamPort));
            let address = next();
            made.bridges.push((address, Seen { parent, class, kind, ..seen() }));
            address
        };
        let (inner, outer) = (groups(self, Way::Switch), groups(self, Way::Switches));
        let mut of_group: BTreeMap<(usize, usize), Address> = BTreeMap::new();
        let mut tops: BTreeMap<usize, Address> = BTreeMap::new();
        for (at, device) in self.devices.iter().enumerate() {
            let (group, all) = (inner[at], outer[at]);
            let count = outer.iter().filter(|other| **other == all).count();
            let is_one =
                (0..inner.len()).filter(|it| outer[*it] == all).all(|it| inner[it] == group);
            let parent = (count > 1).then(|| {
                let top =
                    (!is_one).then(|| *tops.entry(all).or_insert_with(|| switch(None, &mut made)));
                *of_group.entry((all, group)).or_insert_with(|| switch(top, &mut made))
            });
            let name = match &device.described {
                Some(described) => format!("{} ({described})", device.name),
                None => device.name.clone(),
            };
            let class = if device.is_gpu() { GPU } else { ADAPTER };
            let (class, kind, name) = (Some(class), Some(Kind::Endpoint), Some(name));
            let numa_node = device.numa_node;
            let own = Seen { parent, class, kind, name, numa_node, ..seen() };
            made.devices.push((endpoints[at], own));
        }
        made
    }
}

/// Functions that are made of a matrix: devices in its order, and switches.
#[derive(Default)]
struct Made {
    devices: Vec<(Address, Seen)>,
    bridges: Vec<(Address, Seen)>,
}

/// Lists the functions of a base class and perhaps of a vendor, by address.
fn addresses(inventory: &Inventory, base_class: u32, vendor: Option<u16>) -> Vec<Address> {
    let is_such = |seen: &Seen| {
        let is_of_vendor = |vendor| seen.identity.is_some_and(|(own, _)| own == vendor);
        seen.class.is_some_and(|class| class >> 16 == base_class) && vendor.is_none_or(is_of_vendor)
    };
    let functions = inventory.functions.iter().filter(|(_, seen)| is_such(seen));
    functions.map(|(address, _)| *address).collect()
}

/// Whether a dump shows the bridge above a function.
fn is_below_a_bridge(inventory: &Inventory, address: Address) -> bool {
    let Address { domain, id } = address;
    let leads_to = |(bridge, seen): (&Address, &Seen)| {
        bridge.domain == domain && seen.buses.is_some_and(|(bus, _)| bus == id.bus())
    };
    inventory.functions.get(&address).is_some_and(|seen| seen.parent.is_some())
        || inventory.functions.iter().any(leads_to)
}
