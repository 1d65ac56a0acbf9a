// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card and the ports above it as a lab file: values of configuration space with the provenance
//! `sysfs`, and values that are in no register as assumptions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crosslane_pcie::config::{BarKind, MINIMUM_BAR_BYTES};
use crosslane_vfio::sysfs::{Address, Express, Kind, LinkCode, PciFunction, Tree};

/// Name of the host in the lab.
pub const HOST: &str = "host";
/// Largest BAR of a lab, bytes.
const MOST_BAR_BYTES: u64 = 1 << 40;
/// Most tags of a requester in a lab.
const MOST_TAGS: u32 = 1024;

/// A constant that is in no register: key, value as written in the file, source.
type Constant = (&'static str, &'static str, &'static str);

const NEVER: &str = "assumption: no register says it; never in the way";
const SERVER: &str = "assumption: as the server of the lab pciebench";
const NO_INFLUENCE: &str = "assumption: no influence on what devices send";
const FITTED: &str = "assumption: as pciebench:iommu, where it is fitted";
const OURS: &str = "assumption: this project's engine";
const OPENED: &str = "assumption: the card says how many it has when it is opened";
const TYPICAL: &str = "assumption: typical";
const SECOND: &str = "assumption: every second";

/// Credits, buffers and latencies of a port, which are in no register.
const PORT: [Constant; 9] = [
    ("posted_headers", "\"infinite\"", NEVER),
    ("posted_data", "\"infinite\"", NEVER),
    ("nonposted_headers", "\"infinite\"", NEVER),
    ("nonposted_data", "\"infinite\"", NEVER),
    ("completion_headers", "\"infinite\"", NEVER),
    ("completion_data", "\"infinite\"", NEVER),
    ("replay_buffer_bytes", "\"infinite\"", NEVER),
    ("ack_tlps", "2", SECOND),
    ("update_fc_tlps", "2", SECOND),
];

const LATENCY: [Constant; 2] =
    [("receive_latency_ns", "100", TYPICAL), ("transmit_latency_ns", "100", TYPICAL)];

/// Host memory behind the root ports, without the read completion boundary.
const HOST_MEMORY: [Constant; 4] = [
    ("completion_cut", "\"aligned\"", SERVER),
    ("read_slots", "64", SERVER),
    (
        "read_latency_ns",
        "132",
        "assumption: as the server of the lab pciebench, where it is fitted",
    ),
    ("write_latency_ns", "50", SERVER),
];

const PEER_TO_PEER: [Constant; 2] = [
    ("allowed", "true", "assumption: no register says whether root ports pass on to each other"),
    ("latency_ns", "500", SERVER),
];

const CPU: [Constant; 8] = [
    ("cores", "4", NO_INFLUENCE),
    ("uncached_store_ns", "100", NO_INFLUENCE),
    ("store_queue", "8", NO_INFLUENCE),
    ("uncached_load_ns", "50", NO_INFLUENCE),
    ("interrupt_ns", "2000", NO_INFLUENCE),
    ("system_call_ns", "200", NO_INFLUENCE),
    ("pin_page_ns", "100", NO_INFLUENCE),
    ("copy_gb_per_s", "8", NO_INFLUENCE),
];

/// The IOMMU, if the machine has one: the size of its IOTLB is in no register.
const IOMMU: [Constant; 7] = [
    ("iotlb_entries", "112", FITTED),
    ("hit_ns", "0", FITTED),
    ("walk_ns", "253", FITTED),
    ("walks", "5", FITTED),
    (
        "largest_page_bytes",
        "2_097_152",
        "assumption: super pages of 2 MiB, as Linux uses for huge pages",
    ),
    ("map_page_ns", "50", "assumption: an entry of the table, written and flushed"),
    ("invalidate_ns", "1000", "assumption: one queued invalidation, waited for"),
];

/// This project's engine, if the card has it.
const ENGINE: [Constant; 15] = [
    ("header_on_datapath", "false", OURS),
    ("reading_descriptors", "64", OURS),
    ("register_latency_ns", "20", "assumption: five clocks"),
    ("request_latency_clocks", "11", "fit: gateware, from a descriptor to its first read"),
    ("write_latency_clocks", "3", "fit: gateware, from a descriptor to its first write, less that"),
    ("fetch_latency_clocks", "7", "fit: gateware, from the doorbell to the fetch"),
    ("stream_latency_clocks", "11", "fit: gateware, from the last data to the status block"),
    ("h2c_channels", "1", OPENED),
    ("c2h_channels", "1", OPENED),
    ("peer_channels", "1", OPENED),
    ("lanes", "8", OPENED),
    ("lane_fifo_bytes", "16_384", OPENED),
    ("staging_bytes", "65_536", "assumption: a longest read for each tag"),
    ("table_descriptors", "1024", OURS),
    ("fetch_batch", "16", OURS),
];

/// Lines for a host or a switch whose ports redirect requests.
const REDIRECTS: &str = "# ACS Control of a port: P2P Request Redirect is on.\nacs = true\n";

/// The path of a machine to some cards, as a lab.
pub struct Exported {
    /// The lab file.
    pub text: String,
    /// Names of the cards in it.
    names: BTreeMap<Address, String>,
}

impl Exported {
    /// Returns the name of a card in the lab.
    pub fn name(&self, card: Address) -> &str {
        self.names.get(&card).map_or("", String::as_str)
    }
}

/// Returns `card-03-00-0`, with the domain in front if it is not 0.
fn name(word: &str, address: Address) -> String {
    let text = address.to_string();
    let text = text.strip_prefix("0000:").unwrap_or(&text).replace([':', '.'], "-");
    format!("{word}-{text}")
}

/// The ports and links above one card.
struct Way<'a> {
    /// Functions from the root port down, the card last.
    functions: Vec<(&'a PciFunction, Express)>,
}

impl<'a> Way<'a> {
    fn new(tree: &'a Tree, card: &'a PciFunction) -> Result<Self, String> {
        if !card.kind.is_linked_endpoint() {
            return Err(format!("{} is a {}: there is no link above it", card.address, card.kind));
        }
        let mut functions = tree.above(card.address);
        functions.reverse();
        functions.push(card);
        let with_express = functions.into_iter().map(|function| {
            let express = function.express().ok_or_else(|| {
                format!(
                    "the PCI Express capability of {} cannot be seen; root sees it",
                    function.address
                )
            })?;
            Ok((function, express))
        });
        let way = Self { functions: with_express.collect::<Result<_, String>>()? };
        way.check()?;
        Ok(way)
    }

    /// Checks for a root port, then switches of two ports each, then the card, with every link up.
    fn check(&self) -> Result<(), String> {
        for (index, (function, _)) in self.functions.iter().enumerate() {
            let is_last = index + 1 == self.functions.len();
            let fits = match index {
                0 => function.kind == Kind::RootPort,
                _ if is_last => index % 2 == 1,
                _ if index % 2 == 1 => function.kind == Kind::UpstreamPort,
                _ => function.kind == Kind::DownstreamPort,
            };
            if !fits {
                return Err(format!(
                    "{} is a {}, which no lab has at that place",
                    function.address, function.kind
                ));
            }
        }
        for [(_, _), (lower, express)] in self.links() {
            if express.link.rate().is_none() {
                return Err(format!(
                    "the link above {} is {}, a rate that no lab has",
                    lower.address, express.link
                ));
            }
        }
        Ok(())
    }

    /// Lists the ends of each link, the upper first.
    fn links(&self) -> impl Iterator<Item = [&(&'a PciFunction, Express); 2]> {
        self.functions.chunks(2).filter_map(|pair| match pair {
            [upper, lower] => Some([upper, lower]),
            _ => None,
        })
    }
}

/// Writes a constant that was read.
fn read(text: &mut String, key: &str, value: impl std::fmt::Display, source: &str) {
    let _ = writeln!(text, "{key} = {{ value = {value}, source = \"sysfs: {source}\" }}");
}

/// Writes constants that are assumed.
fn assume(text: &mut String, constants: &[Constant]) {
    for (key, value, source) in constants {
        let _ = writeln!(text, "{key} = {{ value = {value}, source = \"{source}\" }}");
    }
}

/// Returns the highest rate and the largest width of some links, for ports of one part.
fn best(links: impl Iterator<Item = LinkCode>) -> (u8, u8) {
    links.fold((1, 1), |(speed, lanes), link| {
        // Generations beyond those of labs are reduced to the highest.
        (speed.max(link.speed.min(5)), lanes.max(known_width(link.lanes)))
    })
}

/// Returns the largest width of labs with no more than `lanes` lanes.
fn known_width(lanes: u8) -> u8 {
    [32, 16, 12, 8, 4, 2, 1].into_iter().find(|&width| width <= lanes).unwrap_or(1)
}

/// Writes the capabilities of a port.
fn capability(text: &mut String, ports: &[&(&PciFunction, Express)], has_acs: bool) {
    let (speed, lanes) = best(ports.iter().map(|(_, express)| express.link_capability));
    read(text, "max_generation", speed, "Link Capabilities");
    read(text, "max_width", lanes, "Link Capabilities");
    let payload = ports.iter().map(|(_, express)| express.max_payload_supported_bytes).min();
    read(text, "max_payload_bytes", payload.unwrap_or(128), "Device Capabilities");
    let tags = ports.iter().all(|(_, express)| express.extended_tags_supported);
    read(text, "extended_tags", tags, "Device Capabilities");
    if has_acs {
        let acs = ports.iter().any(|(port, _)| port.configuration.acs().is_some());
        read(text, "acs", acs, "whether the capability is there");
    }
}

fn redirects(ports: &[&(&PciFunction, Express)]) -> bool {
    ports
        .iter()
        .any(|(port, _)| port.configuration.acs().is_some_and(|acs| acs.redirects_requests()))
}

/// Returns the cards and everything above them as a lab file; with `engine` the cards have this
/// project's engine.
///
/// # Errors
/// The reason for which the cards cannot be described as a lab, a sentence.
pub fn export(
    tree: &Tree,
    lab_name: &str,
    cards: &[&PciFunction],
    engine: bool,
) -> Result<Exported, String> {
    let ways: Vec<Way<'_>> =
        cards.iter().map(|card| Way::new(tree, card)).collect::<Result<_, String>>()?;
    let all: BTreeMap<Address, (&PciFunction, Express)> = ways
        .iter()
        .flat_map(|way| way.functions.iter().map(|&(it, express)| (it.address, (it, express))))
        .collect();
    let of = |kind: Kind| all.values().filter(move |(it, _)| it.kind == kind).collect::<Vec<_>>();
    let listed: Vec<String> = cards.iter().map(|card| card.address.to_string()).collect();
    let mut text = format!(
        "# SPDX-License-Identifier: Apache-2.0 OR MIT\n#\n\
         # Read from a machine's configuration space by `crosslane device doctor`. Functions\n\
         # beside the way are left out. Values that no register says are assumptions: better ones\n\
         # may be written in their place.\n\n\
         [lab]\nformat = 1\nname = \"{lab_name}\"\n\
         summary = \"The way between host memory and {}, as this machine has it.\"\n\n",
        listed.join(" and ")
    );
    let roots = of(Kind::RootPort);
    host_part(&mut text, &roots);
    // A program drives a card through VFIO, whose IOMMU translates for every card in a group.
    if cards.iter().any(|card| card.iommu_group.as_ref().is_some_and(|it| !it.is_made_up)) {
        text.push_str("\n[part.host.iommu]\n");
        assume(&mut text, &IOMMU);
    }
    for (upstream, express) in of(Kind::UpstreamPort) {
        let lower: Vec<&(&PciFunction, Express)> =
            all.values().filter(|(port, _)| port.parent == Some(upstream.address)).collect();
        switch_part(&mut text, upstream, express, &lower);
    }
    let mut names = BTreeMap::new();
    for way in &ways {
        if let Some((card, express)) = way.functions.last() {
            names.insert(card.address, name("card", card.address));
            card_part(&mut text, card, express, engine)?;
        }
    }
    links(&mut text, &ways);
    let payload = all.values().map(|(_, express)| express.max_payload_bytes).min();
    let reads =
        ways.iter().filter_map(|way| way.functions.last()).map(|(_, it)| it.max_read_request_bytes);
    instances(&mut text, &all, payload.unwrap_or(128), reads.max().unwrap_or(512));
    Ok(Exported { text, names })
}

fn identity(text: &mut String, function: &PciFunction) {
    let ids = format!("\"{:04x}:{:04x}\"", function.vendor, function.device);
    read(text, "identity", ids, "Vendor ID and Device ID");
}

fn host_part(text: &mut String, roots: &[&(&PciFunction, Express)]) {
    text.push_str("[part.host]\nkind = \"root-complex\"\n");
    text.push_str("summary = \"The root ports on the way, and a memory like a server's.\"\n");
    if let Some((root, _)) = roots.first() {
        identity(text, root);
    }
    text.push_str(
        "memory_bytes = { value = 8_589_934_592, source = \"assumption: 8 GiB, no \
                   influence\" }\n\n[part.host.port]\n",
    );
    capability(text, roots, true);
    assume(text, &PORT);
    assume(text, &LATENCY);
    let boundary =
        roots.iter().map(|(_, it)| it.read_completion_boundary_bytes).max().unwrap_or(64);
    text.push_str("\n[part.host.memory]\n");
    read(text, "read_completion_boundary_bytes", boundary, "Link Control of the root port");
    let _ = writeln!(
        text,
        "completion_bytes = {{ value = {boundary}, source = \"assumption: one for each boundary, \
         as the server of the lab pciebench\" }}"
    );
    assume(text, &HOST_MEMORY);
    text.push_str("\n[part.host.peer_to_peer]\n");
    assume(text, &PEER_TO_PEER);
    text.push_str("\n[part.host.cpu]\n");
    assume(text, &CPU);
}

fn switch_part(
    text: &mut String,
    upstream: &PciFunction,
    express: &Express,
    lower: &[&(&PciFunction, Express)],
) {
    let part = name("switch", upstream.address);
    let _ = writeln!(text, "\n[part.{part}]\nkind = \"switch\"\nsummary = \"A switch.\"");
    identity(text, upstream);
    text.push_str(
        "latency_ns = { value = 120, source = \"assumption: product briefs say 100 to 150\" }\n\
         forwarding = { value = \"cut-through\", source = \"assumption: as most switches\" }\n",
    );
    let _ = writeln!(text, "\n[part.{part}.port]");
    capability(text, lower, true);
    assume(text, &PORT);
    let _ = writeln!(text, "\n[part.{part}.upstream_port]");
    let (speed, lanes) = best(std::iter::once(express.link_capability));
    read(text, "max_generation", speed, "Link Capabilities");
    read(text, "max_width", lanes, "Link Capabilities");
    read(text, "max_payload_bytes", express.max_payload_supported_bytes, "Device Capabilities");
}

fn card_part(
    text: &mut String,
    card: &PciFunction,
    express: &Express,
    engine: bool,
) -> Result<(), String> {
    let part = name("card", card.address);
    let _ = writeln!(text, "\n[part.{part}]\nkind = \"endpoint\"");
    let _ = writeln!(text, "summary = \"A {}.\"", card.class_words());
    identity(text, card);
    read(text, "class_code", format!("0x{:06x}", card.class), "Class Code");
    for bar in &card.bars {
        if !(MINIMUM_BAR_BYTES..=MOST_BAR_BYTES).contains(&bar.size_bytes) {
            continue;
        }
        let _ = writeln!(text, "\n[part.{part}.bar{}]", bar.index);
        let decodes = match bar.kind {
            BarKind::Memory32 { prefetchable: false } => "memory32",
            BarKind::Memory32 { prefetchable: true } => "memory32-prefetchable",
            BarKind::Memory64 { prefetchable: false } => "memory64",
            BarKind::Memory64 { prefetchable: true } => "memory64-prefetchable",
        };
        read(text, "decodes", format!("\"{decodes}\""), "the BAR's flags");
        read(text, "size_bytes", bar.size_bytes, "the BAR's size");
    }
    let _ = writeln!(text, "\n[part.{part}.port]");
    let function = (card, *express);
    capability(text, &[&function], false);
    assume(text, &PORT);
    assume(text, &LATENCY);
    let _ = writeln!(text, "\n[part.{part}.memory]");
    text.push_str(
        "completion_bytes = { value = 128, source = \"assumption: any\" }\n\
         completion_cut = { value = \"longest\", source = \"assumption: any\" }\n\
         read_slots = { value = 16, source = \"assumption: any\" }\n\
         read_latency_ns = { value = 50, source = \"assumption: memory on the chip\" }\n\
         write_latency_ns = { value = 0, source = \"assumption: memory on the chip\" }\n",
    );
    let _ = writeln!(text, "\n[part.{part}.requester]");
    let tags = express.tags().min(MOST_TAGS);
    read(text, "tags", tags, "what Device Control allows; the card may use fewer");
    let (write, reads) = (express.max_payload_bytes, express.max_read_request_bytes);
    read(text, "max_write_bytes", write, "Max_Payload_Size of Device Control");
    read(text, "max_read_bytes", reads, "Max_Read_Request_Size of Device Control");
    text.push_str(
        "completion_timeout_ns = { value = 50_000_000, source = \"clause: PCIe 6.x 7.5.3.16, 50 \
         ms\" }\n",
    );
    if engine {
        let size = |index: usize| {
            let found = card.bars.iter().find(|bar| bar.index == index);
            found.map_or(0, |bar| bar.size_bytes)
        };
        if size(0) < 65_536 || size(1) == 0 {
            return Err(format!(
                "{} has not the BARs of this project's engine: BAR0 of 64 KiB, and BAR1",
                card.address
            ));
        }
        text.push_str(
            "datapath_bytes = { value = 32, source = \"assumption: 256 bits\" }\n\
             clock_ns = { value = 4, source = \"assumption: 250 MHz\" }\n",
        );
        let _ = writeln!(text, "\n[part.{part}.engine]");
        assume(text, &ENGINE);
    }
    Ok(())
}

/// Writes a part for each link, since each may have trained to another rate.
fn links(text: &mut String, ways: &[Way<'_>]) {
    let mut done = Vec::new();
    for [_, (lower, express)] in ways.iter().flat_map(Way::links) {
        if done.contains(&lower.address) {
            continue;
        }
        done.push(lower.address);
        let _ = writeln!(text, "\n[part.{}]\nkind = \"link\"", name("link", lower.address));
        read(text, "generation", express.link.speed, "Link Status");
        read(text, "width", express.link.lanes, "Link Status");
        text.push_str("flight_ns = { value = 1, source = \"assumption: 15 cm of board\" }\n");
    }
}

fn instances(
    text: &mut String,
    all: &BTreeMap<Address, (&PciFunction, Express)>,
    payload_bytes: u32,
    read_bytes: u32,
) {
    let of = |kind: Kind| all.values().filter(move |(it, _)| it.kind == kind).collect::<Vec<_>>();
    let _ = writeln!(text, "\n[[host]]\nname = \"{HOST}\"\npart = \"host\"");
    text.push_str(
        "buffers = { value = \"below-4-gib\", source = \"assumption: I/O virtual addresses are \
         given out from the bottom\" }\n",
    );
    read(text, "max_read_request_bytes", read_bytes, "Device Control of the card");
    read(
        text,
        "max_payload_limit_bytes",
        payload_bytes,
        "the least Max_Payload_Size that is set on the way",
    );
    if redirects(&of(Kind::RootPort)) {
        text.push_str(REDIRECTS);
    }
    for (upstream, _) in of(Kind::UpstreamPort) {
        let part = name("switch", upstream.address);
        let _ = writeln!(text, "\n[[switch]]\nname = \"{part}\"\npart = \"{part}\"");
        let lower: Vec<_> =
            all.values().filter(|(port, _)| port.parent == Some(upstream.address)).collect();
        if redirects(&lower) {
            text.push_str(REDIRECTS);
        }
    }
    for (card, _) in all.values().filter(|(it, _)| it.kind.is_linked_endpoint()) {
        let part = name("card", card.address);
        let _ = writeln!(text, "\n[[endpoint]]\nname = \"{part}\"\npart = \"{part}\"");
    }
    for (lower, _) in
        all.values().filter(|(it, _)| it.kind.is_linked_endpoint() || it.kind == Kind::UpstreamPort)
    {
        let Some((port, _)) = lower.parent.and_then(|parent| all.get(&parent)) else { continue };
        // The upper end is a port of the host, or of the switch whose upstream port is above it.
        let upper = match (port.kind, port.parent) {
            (Kind::DownstreamPort, Some(upstream)) => name("switch", upstream),
            _ => HOST.to_owned(),
        };
        let word = if lower.kind == Kind::UpstreamPort { "switch" } else { "card" };
        let _ = writeln!(
            text,
            "\n[[link]]\nupper = \"{upper}\"\nupper_port = \"{}\"\nlower = \"{}\"\npart = \"{}\"",
            name("port", port.address),
            name(word, lower.address),
            name("link", lower.address)
        );
    }
}
