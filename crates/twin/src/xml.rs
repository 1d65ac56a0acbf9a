// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topologies in XML: that of hwloc (`lstopo machine.xml`), and that of NCCL
//! (`NCCL_TOPO_DUMP_FILE`).
//!
//! Both name functions, links and NUMA nodes, but neither registers nor BARs. hwloc has a link's
//! rate only as a number of bytes per second; NCCL leaves out root ports and the ports of switches.
//!
//! Read first: hwloc's `hwloc2.dtd` and its "PCI device attributes"; NCCL's `src/graph/xml.cc`.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_sysfs::{Address, Kind, LinkCode};
use roxmltree::{Document, Node, ParsingOptions};

use crate::lspci::{BRIDGE, hex, pair};
use crate::seen::{Inventory, Seen};

/// Most elements of a document.
const MOST_ELEMENTS: u32 = 1 << 20;
/// Deepest nesting of elements that is followed.
const DEEPEST: usize = 64;

/// Fault of a document: the line from 1, and half a sentence.
type Problem = (usize, String);

/// Reads a topology.
///
/// # Errors
/// XML that cannot be, a document of another kind, and contradictions.
pub(crate) fn read(text: &str, file: &str) -> Result<Inventory, Problem> {
    let whole = parse(text).map_err(|error| (error.pos().row as usize, error.to_string()));
    // What is pasted into an issue is often cut.
    let completed = if whole.is_err() { completed(text) } else { None };
    let (document, cut) = match completed.as_deref().map(parse) {
        Some(Ok(document)) => (document, whole.err()),
        _ => (whole?, None),
    };
    let root = document.root_element();
    let mut reader = Reader { inventory: Inventory::default(), file, last: None };
    match root.tag_name().name() {
        "topology" => reader.hwloc(root, &Place::default(), 0)?,
        "system" => reader.nccl(root, &Place::default(), 0)?,
        other => {
            return Err((1, format!("<{other}> is the root of neither hwloc's nor NCCL's XML")));
        }
    }
    if let Some(cut) = cut {
        let last = reader.last.and_then(|last| reader.inventory.functions.get_mut(&last));
        last.ok_or(cut)?.doubts.push("the XML is cut behind it; the rest is missing".to_owned());
    }
    Ok(reader.inventory)
}

fn parse(text: &str) -> Result<Document<'_>, roxmltree::Error> {
    // hwloc's documents name their DTD.
    let options =
        ParsingOptions { allow_dtd: true, nodes_limit: MOST_ELEMENTS, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
}

/// Completes a document that is cut: drops a tag without its end and closes all open elements.
fn completed(text: &str) -> Option<String> {
    let text = &text[..=text.rfind('>')?];
    let (mut open, mut rest) = (Vec::new(), text);
    while let Some((_, tag)) = rest.split_once('<') {
        let end = if tag.starts_with("!--") { "-->" } else { ">" };
        let (tag, behind) = tag.split_once(end)?;
        rest = behind;
        if tag.starts_with(['?', '!']) || tag.ends_with('/') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(name) => drop(open.pop().filter(|last| *last == name.trim())?),
            None => open.push(tag.split_whitespace().next()?),
        }
    }
    let closed: String = open.iter().rev().map(|name| format!("</{name}>")).collect();
    (!open.is_empty()).then(|| format!("{text}{closed}"))
}

/// Place of an element in the machine.
#[derive(Clone, Copy, Default)]
struct Place {
    numa_node: Option<u32>,
    parent: Option<Address>,
}

struct Reader<'a> {
    inventory: Inventory,
    file: &'a str,
    /// The function that was the last to be read.
    last: Option<Address>,
}

impl Reader<'_> {
    fn add(&mut self, node: Node<'_, '_>, address: Address, seen: Seen) -> Result<(), Problem> {
        let seen = Seen { file: self.file.to_owned(), ..seen };
        self.last = Some(address);
        self.inventory.add(address, seen).map_err(|what| (line_of(node), what))
    }

    /// Reads what is in an element of hwloc's.
    fn hwloc(&mut self, element: Node<'_, '_>, place: &Place, depth: usize) -> Result<(), Problem> {
        if depth > DEEPEST {
            return Err((line_of(element), format!("elements lie deeper than {DEEPEST}")));
        }
        // A NUMA node is a child of what it belongs to, beside the bridges (hwloc 2), or above
        // them (hwloc 1).
        let numa = element.children().find(|child| child.attribute("type") == Some("NUMANode"));
        let number = |node: Node<'_, '_>| node.attribute("os_index").and_then(|it| it.parse().ok());
        let own = (element.attribute("type") == Some("NUMANode")).then_some(element);
        let numa_node = own.or(numa).and_then(number).or(place.numa_node);
        let place = Place { numa_node, ..*place };
        for child in element.children().filter(Node::is_element) {
            let mut below = place;
            let is_pci = match child.attribute("type") {
                Some("PCIDev") => true,
                Some("Bridge") => child.attribute("bridge_type") == Some("1-1"),
                _ => false,
            };
            if is_pci {
                let (address, mut seen) = hwloc_function(child)?;
                (seen.parent, seen.numa_node) = (place.parent, place.numa_node);
                self.add(child, address, seen)?;
                below.parent = Some(address);
            }
            self.hwloc(child, &below, depth + 1)?;
        }
        Ok(())
    }

    /// Reads what is in an element of NCCL's.
    fn nccl(&mut self, element: Node<'_, '_>, place: &Place, depth: usize) -> Result<(), Problem> {
        if depth > DEEPEST {
            return Err((line_of(element), format!("elements lie deeper than {DEEPEST}")));
        }
        for child in element.children().filter(Node::is_element) {
            let mut below = *place;
            match child.tag_name().name() {
                "cpu" => below.numa_node = child.attribute("numaid").and_then(|it| it.parse().ok()),
                "pci" => {
                    let (address, mut seen) = nccl_function(child)?;
                    (seen.parent, seen.numa_node) = (place.parent, place.numa_node);
                    self.add(child, address, seen)?;
                    below.parent = Some(address);
                }
                _ => continue,
            }
            self.nccl(child, &below, depth + 1)?;
        }
        Ok(())
    }
}

/// The line of an element, from 1.
fn line_of(node: Node<'_, '_>) -> usize {
    node.document().text_pos_at(node.range().start).row as usize
}

/// The address in an attribute.
fn address_of(node: Node<'_, '_>, name: &str) -> Result<Address, Problem> {
    let text = node.attribute(name).unwrap_or("");
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        (line_of(node), format!("{name}=\"{shown}\" is not the address of a PCI function"))
    })
}

/// `0x15b3`.
fn number(text: &str) -> Option<u32> {
    hex(text.trim_start_matches("0x"))
}

fn id(text: Option<&str>) -> Option<u16> {
    text.and_then(number).and_then(|id| id.try_into().ok())
}

/// A function of hwloc's: `pci_type="0200 [15b3:1017] [15b3:0020] 00"`.
fn hwloc_function(node: Node<'_, '_>) -> Result<(Address, Seen), Problem> {
    let address = address_of(node, "pci_busid")?;
    let mut seen = Seen::default();
    let words = node.attribute("pci_type").unwrap_or("").split([' ', '[', ']']);
    let mut words = words.filter(|word| !word.is_empty());
    seen.class =
        words.next().and_then(hex).filter(|class| *class <= 0xffff).map(|class| class << 8);
    seen.identity = words.next().and_then(pair);
    seen.subsystem = words.next().and_then(pair);
    seen.revision = words.next().and_then(hex).and_then(|it| it.try_into().ok());
    if node.attribute("type") == Some("Bridge") {
        seen.buses = node.attribute("bridge_pci").and_then(number_range);
    }
    link(&mut seen, node.attribute("pci_link_speed").unwrap_or_default());
    Ok((address, seen))
}

/// Reads the buses below a bridge: `0000:[02-03]`.
pub(crate) fn number_range(text: &str) -> Option<(u8, u8)> {
    let (first, last) = text.split_once('[')?.1.split_once(']')?.0.split_once('-')?;
    Some((hex(first)?.try_into().ok()?, hex(last)?.try_into().ok()?))
}

/// Takes the rate of a link, GB/s, if it is one.
pub(crate) fn link(seen: &mut Seen, gigabytes_per_second: &str) {
    let speed = gigabytes_per_second.parse::<f64>().ok().filter(|speed| *speed > 0.0);
    let links = speed.map_or_else(Vec::new, links_of);
    if let ([first, others @ ..], Some(speed)) = (&links[..], speed) {
        seen.kernel_link = Some((*first, *first));
        if let [other, ..] = others {
            let what = format!("{speed:.2} GB/s may be {first} or {other}; {first} is taken");
            seen.link_doubt = Some(what);
        }
    }
}

/// The links of some number of GB/s, the widest first.
fn links_of(gigabytes_per_second: f64) -> Vec<LinkCode> {
    let mut found = Vec::new();
    for lanes in [16, 8, 4, 2, 1] {
        for speed in 1..=6 {
            let rate = Generation::from_number(speed).zip(Width::new(lanes));
            let Some((generation, width)) = rate else { continue };
            // hwloc counts all of a FLIT but its CRC and error correction.
            let rate = match generation {
                Generation::Gen6 => 8.0 * f64::from(lanes) * 242.0 / 256.0,
                _ => LinkRate { generation, width }.bytes_per_second() / 1e9,
            };
            if (rate - gigabytes_per_second).abs() < 0.01 * rate {
                found.push(LinkCode { speed, lanes });
            }
        }
    }
    found
}

/// A function of NCCL's.
fn nccl_function(node: Node<'_, '_>) -> Result<(Address, Seen), Problem> {
    let address = address_of(node, "busid")?;
    let mut seen = Seen {
        class: node.attribute("class").and_then(number).filter(|class| *class <= 0xff_ffff),
        identity: id(node.attribute("vendor")).zip(id(node.attribute("device"))),
        subsystem: id(node.attribute("subsystem_vendor"))
            .zip(id(node.attribute("subsystem_device"))),
        ..Seen::default()
    };
    let speed = node.attribute("link_speed").and_then(|speed| speed.split("GT/s").next());
    let lanes = node.attribute("link_width").and_then(|lanes| lanes.parse().ok());
    if let (Some(speed), Some(lanes)) = (speed.map(LinkCode::speed_of), lanes)
        && speed != 0
    {
        let link = LinkCode { speed, lanes };
        seen.kernel_link = Some((link, link));
    }
    // The ports of a switch are one element: that of its upstream port.
    seen.kind = Some(match seen.class.is_some_and(|class| class >> 8 == BRIDGE) {
        true => Kind::UpstreamPort,
        false => Kind::Endpoint,
    });
    Ok((address, seen))
}
