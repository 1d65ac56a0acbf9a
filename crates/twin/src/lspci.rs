// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listings of `lspci -vvv`, with or without `-n`, `-nn`, `-D` and `-x` to `-xxxx`, by root or not,
//! also as they are pasted into issues: indented, quoted, cut.
//!
//! Read first: `ls-caps.c` of pciutils for the words of a listing; base specification 7.5.3 for the
//! registers that they stand for.

use crosslane_pcie::config::{Bar, BarKind};
use crosslane_pcie::units::BusAddress;
use crosslane_sysfs::{Acs, Address, IommuGroup, Kind, LinkCode};

use crate::seen::{ExpressSeen, Inventory, Seen};

/// Classes by the names that `lspci` writes where it shows no numbers.
const CLASSES: [(&str, u32); 30] = [
    ("SCSI storage controller", 0x0100),
    ("IDE interface", 0x0101),
    ("RAID bus controller", 0x0104),
    ("SATA controller", 0x0106),
    ("Serial Attached SCSI controller", 0x0107),
    ("Non-Volatile memory controller", 0x0108),
    ("Mass storage controller", 0x0180),
    ("Ethernet controller", 0x0200),
    ("Infiniband controller", 0x0207),
    ("Network controller", 0x0280),
    ("VGA compatible controller", 0x0300),
    ("3D controller", 0x0302),
    ("Display controller", 0x0380),
    ("Multimedia controller", 0x0480),
    ("Audio device", 0x0403),
    ("Memory controller", 0x0580),
    ("Host bridge", 0x0600),
    ("ISA bridge", 0x0601),
    ("PCI bridge", 0x0604),
    ("Bridge", 0x0680),
    ("Serial controller", 0x0700),
    ("Communication controller", 0x0780),
    ("System peripheral", 0x0880),
    ("Co-processor", 0x0b40),
    ("USB controller", 0x0c03),
    ("SMBus", 0x0c05),
    ("Encryption controller", 0x1080),
    ("Performance counters", 0x1101),
    ("Signal processing controller", 0x1180),
    ("Processing accelerators", 0x1200),
];

/// Kinds of functions by the words behind `Express (v2)`; longer words before their parts.
const KINDS: [(&str, Kind); 10] = [
    ("Root Complex Integrated Endpoint", Kind::IntegratedEndpoint),
    ("Root Complex Event Collector", Kind::EventCollector),
    ("PCI-Express to PCI/PCI-X Bridge", Kind::BridgeToPci),
    ("PCI/PCI-X to PCI-Express Bridge", Kind::BridgeFromPci),
    ("Legacy Endpoint", Kind::LegacyEndpoint),
    ("Endpoint", Kind::Endpoint),
    ("Root Port", Kind::RootPort),
    ("Upstream Port", Kind::UpstreamPort),
    ("Downstream Port", Kind::DownstreamPort),
    ("Root Bridge", Kind::RootPort),
];

/// Flags of Access Control Services, lowest bit first.
const SERVICES: [&str; 7] =
    ["SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans"];

/// Registers that only the PCI Express capability has.
const EXPRESS: [&str; 8] =
    ["DevCap", "DevCtl", "DevSta", "LnkCap", "LnkCtl", "LnkSta", "DevCap2", "DevCtl2"];

/// Sizes of payloads, read requests and read completion boundaries (PCIe 6.x 7.5.3.4, 7.5.3.7).
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Base class of display controllers.
const DISPLAY: u32 = 0x03;
/// Class of a PCI bridge.
pub(crate) const BRIDGE: u32 = 0x0604;
/// Most bytes of a configuration space.
const MOST_CONFIGURATION_BYTES: usize = 4096;
/// Bytes of the header of a configuration space.
const HEADER_BYTES: usize = 64;

/// Reads a listing. The names of its functions are in no particular language; everything that is
/// used begins with words that `lspci` does not translate.
///
/// # Errors
/// A line that contradicts an earlier one: its number from 1, and half a sentence.
pub(crate) fn read(text: &str, file: &str) -> Result<Inventory, (usize, String)> {
    let mut inventory = Inventory::default();
    let mut current: Option<(Address, Listed)> = None;
    let mut begun = 0;
    let end = |current: Option<(Address, Listed)>, inventory: &mut Inventory, line| {
        let Some((address, listed)) = current else { return Ok(()) };
        inventory.add(address, listed.seen(file)).map_err(|what| (line, what))
    };
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start_matches(['>', '|', ' ', '\t', '\u{feff}', '\u{a0}']).trim_end();
        if let Some((address, rest)) = function_line(line) {
            end(current.take(), &mut inventory, begun)?;
            begun = number;
            current = Some((address, Listed::new(rest)));
        } else if let Some((_, listed)) = &mut current {
            listed.take(line);
        }
    }
    end(current, &mut inventory, begun)?;
    Ok(inventory)
}

/// Splits the first line of a function into its address and the rest.
fn function_line(line: &str) -> Option<(Address, &str)> {
    let (address, rest) = line.split_once(' ')?;
    Some((address.parse().ok()?, rest))
}

/// A function while it is read.
#[derive(Default)]
struct Listed {
    seen: Seen,
    /// The register whose fields come, such as `DevCtl`.
    register: String,
    /// Whether capabilities were hidden from who made the listing.
    is_denied: bool,
    has_configuration: bool,
    acs: Option<Acs>,
    /// Whether the link goes into L1 while nothing is sent.
    sleeps: bool,
    /// Whether the link is slower than its capability.
    is_slowed: bool,
}

impl Listed {
    /// Begins a function with the rest of its first line: `Ethernet controller [0200]: Intel
    /// Corporation I350 [8086:1521] (rev 01)`, the same without numbers, or only numbers.
    fn new(rest: &str) -> Self {
        let mut listed = Self::default();
        let seen = &mut listed.seen;
        let (rest, interface) = match rest.split_once(" (prog-if ") {
            Some((rest, interface)) => (rest, hex(interface.get(..2).unwrap_or("")).unwrap_or(0)),
            None => (rest, 0),
        };
        let (rest, revision) = match rest.split_once(" (rev ") {
            Some((rest, revision)) => (rest, hex(revision.get(..2).unwrap_or(""))),
            None => (rest, None),
        };
        seen.revision = revision.map(|revision| revision as u8);
        let (class, device) = rest.split_once(": ").unwrap_or((rest, ""));
        let word = class.strip_prefix("Class ").unwrap_or(class);
        let code =
            bracketed(class).or(Some(word)).and_then(|code| hex(code).filter(|_| code.len() == 4));
        let named = CLASSES.iter().find(|(name, _)| class.starts_with(name)).map(|it| it.1);
        seen.class = code.or(named).map(|class| class << 8 | interface);
        (seen.identity, seen.name) = identified(device);
        listed
    }

    /// Takes a line below the first one.
    fn take(&mut self, line: &str) {
        if self.take_bytes(line) {
            return;
        }
        let (word, rest) = line.split_once(':').unwrap_or(("", line));
        let rest = rest.trim();
        let seen = &mut self.seen;
        match word {
            "Subsystem" => seen.subsystem = bracketed(rest).map_or_else(|| pair(rest), pair),
            "Control" => seen.command = Some(command(rest)),
            "NUMA node" => seen.numa_node = rest.parse().ok(),
            "IOMMU group" => {
                seen.iommu_group = rest.parse().ok().map(|number| IommuGroup {
                    number,
                    kind: String::new(),
                    is_made_up: false,
                    members: Vec::new(),
                });
            }
            "Kernel driver in use" => seen.driver = Some(shown(rest)),
            "Bus" => seen.buses = buses(rest),
            "Capabilities" => self.take_capability(rest),
            _ if word.starts_with("Region ") => {
                let found = bar(word, rest);
                let is_new = |bar: &Bar| seen.bars.iter().all(|other| other.index != bar.index);
                let found = found.filter(is_new);
                seen.bars.extend(found);
            }
            _ if is_register(word) => {
                word.clone_into(&mut self.register);
                self.take_fields(rest);
            }
            _ => self.take_fields(line),
        }
    }

    /// Takes a line of bytes: `00: 86 80 21 15 ...`. Returns whether it is one.
    fn take_bytes(&mut self, line: &str) -> bool {
        let Some((offset, bytes)) = line.split_once(": ") else { return false };
        let fits = (2..=3).contains(&offset.len());
        let Some(offset) = hex(offset).filter(|_| fits) else { return false };
        let parsed: Option<Vec<u8>> = bytes
            .split_whitespace()
            .map(|byte| hex(byte).filter(|_| byte.len() == 2).map(|byte| byte as u8))
            .collect();
        let Some(bytes) = parsed.filter(|bytes| !bytes.is_empty() && bytes.len() <= 16) else {
            return false;
        };
        let have = &mut self.seen.configuration;
        if have.len() == offset as usize && have.len() + bytes.len() <= MOST_CONFIGURATION_BYTES {
            have.extend(bytes);
        }
        self.has_configuration = true;
        true
    }

    fn take_capability(&mut self, rest: &str) {
        self.register.clear();
        if rest.starts_with("<access denied>") {
            self.is_denied = true;
            return;
        }
        let Some((offset, what)) = rest.strip_prefix('[').and_then(|rest| rest.split_once("] "))
        else {
            return;
        };
        // `[a0]`, or `[148 v1]`.
        let offset = hex(offset.split(' ').next().unwrap_or("")).unwrap_or(0) as u16;
        if let Some(what) = what.strip_prefix("Express ") {
            let kind = KINDS.iter().find(|(words, _)| what.contains(words)).map(|it| it.1);
            self.seen.kind = kind;
            self.seen.express = Some(ExpressSeen { offset, ..ExpressSeen::default() });
        } else if let Some(what) = what.strip_prefix("MSI-X: ") {
            self.seen.vectors = number_behind(what, "Count=").unwrap_or(0);
        } else if let Some(what) = what.strip_prefix("MSI: ") {
            let most = what.split_once('/').and_then(|(_, most)| leading_number(most));
            self.seen.vectors = self.seen.vectors.max(most.unwrap_or(0));
        } else if what.starts_with("Access Control Services") {
            self.acs = Some(Acs { supported: 0, enabled: 0 });
        }
    }

    /// Takes fields of the present register.
    fn take_fields(&mut self, fields: &str) {
        let services = |fields: &str| {
            let bits = (0..).zip(SERVICES);
            bits.fold(0, |all, (bit, word)| all | u8::from(flag(fields, word) == Some(true)) << bit)
        };
        if let Some(acs) = &mut self.acs {
            match self.register.as_str() {
                "ACSCap" => acs.supported |= services(fields),
                "ACSCtl" => acs.enabled |= services(fields),
                _ => {}
            }
        }
        // A listing through `grep LnkSta` has registers without the capability's line.
        let is_express = EXPRESS.contains(&self.register.as_str()) && !self.is_denied;
        let Some(express) = (match is_express {
            true => Some(self.seen.express.get_or_insert_default()),
            false => self.seen.express.as_mut(),
        }) else {
            return;
        };
        let set = |field: &mut Option<bool>, word: &str| *field = flag(fields, word).or(*field);
        // A line that is cut within a number shows another one.
        let size = |field: &mut Option<u32>, word: &str| {
            let found = number_behind(fields, word);
            *field = found.filter(|bytes| SIZES.contains(bytes)).or(*field);
        };
        let link = |field: &mut Option<LinkCode>| {
            if let (Some(speed), Some(lanes)) = (speed_behind(fields), lanes_behind(fields)) {
                *field = Some(LinkCode { speed, lanes });
            }
        };
        match self.register.as_str() {
            "DevCap" => {
                size(&mut express.max_payload_supported_bytes, "MaxPayload ");
                set(&mut express.extended_tags_supported, "ExtTag");
                set(&mut express.function_level_reset, "FLReset");
            }
            "DevCtl" => {
                size(&mut express.max_payload_bytes, "MaxPayload ");
                size(&mut express.max_read_request_bytes, "MaxReadReq ");
                set(&mut express.extended_tags, "ExtTag");
                set(&mut express.relaxed_ordering, "RlxdOrd");
                set(&mut express.no_snoop, "NoSnoop");
            }
            "DevSta" => {
                // With the words of older versions.
                let words = [
                    ["CorrErr", ""],
                    ["NonFatalErr", "UncorrErr"],
                    ["FatalErr", ""],
                    ["UnsupReq", "UnsuppReq"],
                ];
                for (bit, words) in (0..).zip(words) {
                    let is_set = words.iter().any(|word| flag(fields, word) == Some(true));
                    express.detected_errors |= u8::from(is_set) << bit;
                }
            }
            "LnkCap" => {
                link(&mut express.link_capability);
            }
            "LnkCtl" => {
                size(&mut express.read_completion_boundary_bytes, "RCB ");
                self.sleeps |= fields.contains("L1 Enabled");
            }
            "LnkSta" => {
                link(&mut express.link);
                let speed = fields.split(", ").next().unwrap_or("");
                self.is_slowed |= speed.ends_with("(downgraded)");
                set(&mut express.link_active, "DLActive");
            }
            "DevCap2" => set(&mut express.ten_bit_tags_supported, "10BitTagReq"),
            "DevCtl2" => set(&mut express.ten_bit_tags, "10BitTagReq"),
            _ => {}
        }
    }

    /// Returns what the lines said.
    fn seen(self, file: &str) -> Seen {
        let mut seen = self.seen;
        file.clone_into(&mut seen.file);
        seen.acs = self.acs;
        if self.sleeps {
            let what = "ASPM L1 is on: links of a lab never sleep, and take no time to wake";
            seen.doubts.push(what.to_owned());
        }
        let links = seen.express.as_ref().and_then(|it| it.link.zip(it.link_capability));
        let is_slowed = self.is_slowed || links.is_some_and(|(now, best)| now.speed < best.speed);
        if is_slowed && seen.class.is_some_and(|class| class >> 16 == DISPLAY) {
            let what = "the link is slower than it can be, as those of idle graphics processors";
            seen.doubts.push(what.to_owned());
        }
        let has_bytes = seen.configuration.len() > HEADER_BYTES;
        if self.is_denied && !has_bytes {
            let what = "capabilities are hidden (lspci shows them to root)";
            seen.doubts.push(what.to_owned());
        } else if seen.express.is_none() && !has_bytes {
            // Without a capability it is conventional, but only if all capabilities are shown.
            seen.kind = None;
        } else if seen.kind.is_none()
            && !has_bytes
            && seen.class.is_none_or(|class| class >> 8 != BRIDGE)
        {
            seen.kind = Some(Kind::Endpoint);
            seen.doubts.push("the kind of function is not shown; an endpoint is taken".to_owned());
        }
        seen
    }
}

/// Whether a word is the name of a register as `lspci` abbreviates them: `DevCap2`, `LnkSta`.
fn is_register(word: &str) -> bool {
    let is_name = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let begins = ["Dev", "Lnk", "Slt", "Root", "ACS", "UE", "CE", "AER", "Atomic", "RCB", "Err"];
    is_name && !word.is_empty() && begins.iter().any(|begin| word.starts_with(begin))
}

/// Splits a device into its IDs and its name: `Intel Corporation I350 [8086:1521]`, one of both, or
/// `Device 8086:1521`.
pub(crate) fn identified(device: &str) -> (Option<(u16, u16)>, Option<String>) {
    let ids = bracketed(device).unwrap_or(device.trim_start_matches("Device "));
    let identity = pair(ids);
    let name = device.split_once(" [").map_or(device, |(name, _)| name);
    (identity, (identity.is_none() || name != ids).then(|| shown(name)))
}

/// Returns a line without the marks of a quotation.
pub(crate) fn without_quotes(line: &str) -> &str {
    let line = line.trim_start_matches('\u{feff}').trim_end();
    match line.trim_start().strip_prefix('>') {
        Some(quoted) => {
            let rest = quoted.trim_start_matches('>');
            rest.strip_prefix(' ').unwrap_or(rest)
        }
        None => line,
    }
}

/// Text from outside without control characters, of a bounded length.
pub(crate) fn shown(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(100).collect()
}

pub(crate) fn hex(digits: &str) -> Option<u32> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// The contents of the last brackets.
fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once('[')?;
    rest.split_once(']').map(|(inside, _)| inside)
}

/// `8086:1521`, alone or at the beginning.
pub(crate) fn pair(text: &str) -> Option<(u16, u16)> {
    let text = text.split_whitespace().next()?;
    let (vendor, device) = text.split_once(':').filter(|it| it.0.len() == 4 && it.1.len() == 4)?;
    Some((hex(vendor)? as u16, hex(device)? as u16))
}

/// Whether a flag is on: `ExtTag+`, or off: `ExtTag-`.
fn flag(fields: &str, word: &str) -> Option<bool> {
    fields.split([' ', '\t', ',']).find_map(|field| match field.strip_prefix(word) {
        Some("+") => Some(true),
        Some("-") => Some(false),
        _ => None,
    })
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn number_behind(fields: &str, word: &str) -> Option<u32> {
    leading_number(fields.split_once(word)?.1)
}

/// The speed of a link by its code; 0 if it is unknown.
fn speed_behind(fields: &str) -> Option<u8> {
    let (_, rest) = fields.split_once("Speed ")?;
    Some(LinkCode::speed_of(rest.split("GT/s").next()?))
}

fn lanes_behind(fields: &str) -> Option<u8> {
    let (_, rest) = fields.split_once("Width x")?;
    leading_number(rest)?.try_into().ok()
}

/// The Command register: its flags in the order of their bits.
fn command(flags: &str) -> u16 {
    let words = [
        "I/O", "Mem", "BusMaster", "SpecCycle", "MemWINV", "VGASnoop", "ParErr", "Stepping",
        "SERR", "FastB2B", "DisINTx",
    ];
    let bits = (0..).zip(words);
    bits.fold(0, |all, (bit, word)| all | u16::from(flag(flags, word) == Some(true)) << bit)
}

/// `primary=00, secondary=01, subordinate=04, sec-latency=0`.
fn buses(text: &str) -> Option<(u8, u8)> {
    let number = |word: &str| {
        let (_, rest) = text.split_once(word)?;
        hex(rest.get(..2)?).map(|bus| bus as u8)
    };
    Some((number("secondary=")?, number("subordinate=")?))
}

/// `Region 2`, and `Memory at c0000000 (64-bit, prefetchable) [disabled] [size=256M]`.
fn bar(word: &str, text: &str) -> Option<Bar> {
    let index = word.strip_prefix("Region ")?.parse().ok().filter(|index| *index < 6)?;
    let rest =
        text.strip_prefix("Memory at ").or_else(|| text.strip_prefix("[virtual] Memory at "))?;
    let address = rest.split(' ').next()?;
    let base = u64::from_str_radix(address, 16).unwrap_or(0);
    let (_, size) = rest.split_once("[size=")?;
    let unit = match size.trim_end_matches(']').chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => 0,
    };
    let size_bytes = u64::from(leading_number(size)?).checked_shl(unit)?;
    let prefetchable = !rest.contains("non-prefetchable");
    let kind = match rest.contains("64-bit") {
        true => BarKind::Memory64 { prefetchable },
        false => BarKind::Memory32 { prefetchable },
    };
    size_bytes.is_power_of_two().then_some(Bar { index, base: BusAddress(base), size_bytes, kind })
}
