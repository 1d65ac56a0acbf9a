// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine, or the way to some of its cards, as a lab file: values of configuration space with
//! the provenance `sysfs`, and values that are in no register from the library of parts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crosslane_pcie::config::{Bar, BarKind, MINIMUM_BAR_BYTES};
use crosslane_sysfs::{Address, LinkCode, PciFunction, Tree};

use crate::Machine;
use crate::assumptions::{ENGINE, HOP, HOP_PEERS, UNSEEN, UNSEEN_LINK, typical_link};
use crate::library::{Library, Part, PartKind};
use crate::plan::{LinkPlan, Plan};
use crate::ports::{best_rate, capability, rates};
use crate::seen::MadeUp;
use crate::taken::{PartsTaken, Taken};

/// Name of the host in the lab.
pub const HOST: &str = "host";
/// Registers for BARs of an endpoint.
const BARS: usize = 6;
/// Largest BAR of a lab, bytes.
const MOST_BAR_BYTES: u64 = 1 << 40;
/// Most sockets of a host in a lab, as crate `fabric` has it.
const MOST_SOCKETS: usize = 8;
/// Most tags of a requester in a lab.
const MOST_TAGS: u32 = 1024;

/// Lines for a host or a switch whose ports redirect requests.
const REDIRECTS: &str = "# ACS Control of a port: P2P Request Redirect is on.\nacs = true\n";

/// A machine, or the way to some of its cards, as a lab.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The lab file.
    pub text: String,
    /// Assumptions for what the dumps do not show, and things left out, a sentence each.
    pub gaps: Vec<String>,
    /// Parts of the library that its devices were taken for, root complexes first.
    pub parts: Vec<Taken>,
    /// Names of the endpoints in it.
    names: BTreeMap<Address, String>,
}

impl Exported {
    /// Returns the name of an endpoint in the lab; empty if it is not in it.
    pub fn name(&self, endpoint: Address) -> &str {
        self.names.get(&endpoint).map_or("", String::as_str)
    }

    /// Returns the endpoints of the lab with their names, by address.
    pub fn endpoints(&self) -> impl Iterator<Item = (Address, &str)> {
        self.names.iter().map(|(address, name)| (*address, name.as_str()))
    }
}

/// Returns the name of a switch; where no dump shows its address, `switch-unseen-0` and so on.
fn switch_name(plan: &Plan<'_>, address: Address) -> String {
    if !MadeUp::is(address) {
        return name("switch", address);
    }
    let before = plan.switches.range(..address).filter(|(address, _)| MadeUp::is(**address));
    format!("switch-unseen-{}", before.count())
}

/// Returns `card-03-00-0`, with the domain in front if it is not 0.
fn name(word: &str, address: Address) -> String {
    let text = address.to_string();
    let text = text.strip_prefix("0000:").unwrap_or(&text).replace([':', '.'], "-");
    format!("{word}-{text}")
}

/// A size of payloads or read requests that a lab can have: registers may hold reserved codes.
pub(crate) fn size(bytes: u32) -> u32 {
    bytes.clamp(128, 4096)
}

/// Writes a constant that was read.
pub(crate) fn read(text: &mut String, key: &str, value: impl std::fmt::Display, source: &str) {
    let _ = writeln!(text, "{key} = {{ value = {value}, source = \"sysfs: {source}\" }}");
}

/// Writes constants that are assumed.
pub(crate) fn assume(text: &mut String, constants: &[(&str, &str, &str)]) {
    for (key, value, source) in constants {
        let _ = writeln!(text, "{key} = {{ value = {value}, source = \"{source}\" }}");
    }
}

fn redirects(ports: &[&PciFunction]) -> bool {
    let mut ports = ports.iter().filter_map(|port| port.configuration.acs());
    ports.any(|acs| acs.redirects_requests())
}

/// Returns the cards and everything above them as a lab file, with the library's constants for what
/// no register says; with `engine` the cards have this project's engine.
///
/// # Errors
/// The reason for which the cards cannot be described as a lab, a sentence.
pub fn export(
    tree: &Tree,
    lab_name: &str,
    cards: &[&PciFunction],
    engine: bool,
    library: &Library,
) -> Result<Exported, String> {
    let plan = Plan::of_cards(tree, cards)?;
    let listed: Vec<String> = cards.iter().map(|card| card.address.to_string()).collect();
    let summary = format!(
        "The way between host memory and {}, as this machine has it.",
        listed.join(" and ")
    );
    // A program drives a card through VFIO, whose IOMMU translates for every card in a group.
    let groups = cards.iter().filter_map(|card| card.iommu_group.as_ref());
    let has_iommu = groups.clone().any(|group| !group.is_made_up);
    let names = cards.iter().map(|card| (card.address, name("card", card.address))).collect();
    let gaps = Gaps::default();
    let (described, parts) = (&BTreeMap::new(), PartsTaken::of(library));
    Writer { plan: &plan, described, names, engine, parts, gaps }
        .write(lab_name, &summary, has_iommu)
}

/// Returns a machine as a lab file: every endpoint with a link above it, the switches and root
/// ports above them, payload and read sizes as they are set, and the library's constants for what
/// no register says. Links that no dump shows are left out, with what is below them.
///
/// # Errors
/// The reason for which nothing can be described as a lab, a sentence.
pub fn export_machine(
    machine: &Machine,
    lab_name: &str,
    library: &Library,
) -> Result<Exported, String> {
    let assumed = |function: &PciFunction| {
        let part = library.part(PartKind::Endpoint, Some(function));
        let best = part.best_link("port").filter(|_| !part.devices.is_empty());
        let is_placed = machine.placed.contains(&function.address);
        is_placed.then(|| best.unwrap_or_else(|| typical_link(function.class)))
    };
    let plan = Plan::of_machine(&machine.tree, &assumed);
    let mut gaps = Gaps::default();
    if plan.links.is_empty() {
        let why = plan.left_out.first();
        let why = why.map_or_else(String::new, |(address, why)| format!(" ({address}: {why})"));
        return Err(format!("no endpoint with a link above it is shown{why}"));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (address, endpoint) in &plan.endpoints {
        let word = word(endpoint);
        let count = counts.entry(word).or_default();
        names.insert(*address, format!("{word}{count}"));
        *count += 1;
    }
    let used = |address: &Address| {
        plan.endpoints.contains_key(address)
            || plan.switches.contains_key(address)
            || plan.links.iter().any(|link| link.port.is_some_and(|port| port.address == *address))
    };
    for link in plan.links.iter().filter(|link| link.lower.express().is_none()) {
        gaps.of(
            link.lower.address,
            "registers are not shown; payload and read sizes are assumed".to_owned(),
        );
    }
    for (address, _) in plan.endpoints.iter().filter(|(_, it)| Plan::is_on_root_bus(it)) {
        gaps.of(
            *address,
            "no port is above it, as in a virtual machine; a root port of its own is assumed, and \
             the machine may have switches and other cards that share its way"
                .to_owned(),
        );
    }
    for link in plan.links.iter().filter(|link| link.is_assumed) {
        let what = format!("no dump shows the link above it; {} is assumed", link.rate);
        gaps.of(link.lower.address, what);
    }
    machine.remarks.iter().for_each(|remark| gaps.general(remark.clone()));
    for (address, what) in machine.gaps.iter().filter(|(address, _)| used(address)) {
        gaps.of(*address, what.clone());
    }
    for (address, why) in &plan.left_out {
        gaps.of(*address, format!("left out: {why}"));
    }
    let translated = |function: &PciFunction| {
        let group = function.iommu_group.as_ref();
        group.is_some_and(|group| !group.kind.is_empty()) && function.is_translated()
    };
    let has_iommu = plan.endpoints.values().copied().any(translated);
    let groups = plan.endpoints.values().filter_map(|function| function.iommu_group.as_ref());
    if groups.clone().next().is_some() && groups.clone().all(|group| group.kind.is_empty()) {
        gaps.general(
            "IOMMU groups are shown, but not whether the IOMMU translates: the lab has none"
                .to_owned(),
        );
    }
    let nodes = plan.numa_nodes().len();
    if nodes > 1 {
        let mut sentence = format!(
            "endpoints are at {nodes} NUMA nodes: each is a socket of the lab, as far from each \
             other one as assumed"
        );
        if nodes > MOST_SOCKETS {
            let _ =
                write!(sentence, "; a lab has {MOST_SOCKETS} at most, and the last has the rest");
        }
        gaps.general(sentence);
    }
    let summary = format!(
        "A machine with {} and {}, as dumps show it.",
        counted(plan.endpoints.len(), "endpoint", "endpoints"),
        counted(plan.switches.len(), "switch", "switches")
    );
    let (described, parts) = (&machine.names, PartsTaken::of(library));
    Writer { plan: &plan, described, names, engine: false, parts, gaps }
        .write(lab_name, &summary, has_iommu)
}

/// Returns a number with its noun: `1 switch`, `2 switches`.
fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Assumptions of a lab and things left out, each with the functions that it holds for.
#[derive(Default)]
struct Gaps(Vec<(String, Vec<Address>)>);

impl Gaps {
    fn of(&mut self, address: Address, what: String) {
        match self.0.iter_mut().find(|(other, _)| *other == what) {
            Some((_, addresses)) => addresses.push(address),
            None => self.0.push((what, vec![address])),
        }
    }

    fn general(&mut self, sentence: String) {
        self.0.push((sentence, Vec::new()));
    }

    /// Returns a sentence for each. A function without an address has its name in the lab.
    fn sentences(&self, name: impl Fn(Address) -> String) -> Vec<String> {
        /// Most functions that are named.
        const NAMED: usize = 4;
        let shown = |address: &Address| match MadeUp::is(*address) {
            true => name(*address),
            false => address.to_string(),
        };
        let sentence = |(what, addresses): &(String, Vec<Address>)| {
            let named: Vec<String> = addresses.iter().take(NAMED).map(shown).collect();
            let named = named.join(", ");
            match addresses.len() {
                0 => what.clone(),
                count if count > NAMED => {
                    format!("{named} and {} more: {what}", count - NAMED)
                }
                _ => format!("{named}: {what}"),
            }
        };
        self.0.iter().map(sentence).collect()
    }
}

/// Returns the word of an endpoint's name, by what it is.
fn word(endpoint: &PciFunction) -> &'static str {
    /// Vendors of graphics processors; others make display controllers of servers.
    const GRAPHICS: [u16; 3] = [0x10de, 0x1002, 0x8086];
    match (endpoint.class >> 16, endpoint.class >> 8) {
        (_, 0x0108) => "nvme",
        (_, 0x0302 | 0x0380) => "gpu",
        (0x03, _) if GRAPHICS.contains(&endpoint.vendor) => "gpu",
        (0x03, _) => "display",
        (0x02, _) => "nic",
        (0x01, _) => "storage",
        (0x0c, _) => "controller",
        _ => "card",
    }
}

/// Writer of a lab file.
struct Writer<'a> {
    plan: &'a Plan<'a>,
    /// Names that dumps give to functions.
    described: &'a BTreeMap<Address, String>,
    names: BTreeMap<Address, String>,
    engine: bool,
    parts: PartsTaken<'a>,
    gaps: Gaps,
}

/// Tables of parts, each only once: equal instances share one.
#[derive(Default)]
struct Parts(Vec<(String, String)>);

impl Parts {
    /// Returns the name of the part with these lines, in which `@` stands for its own.
    fn share(&mut self, name: &str, lines: String) -> String {
        if let Some((name, _)) = self.0.iter().find(|(_, other)| *other == lines) {
            return name.clone();
        }
        self.0.push((name.to_owned(), lines));
        name.to_owned()
    }

    fn write(&self, text: &mut String) {
        for (name, lines) in &self.0 {
            text.push_str(&lines.replace('@', name));
        }
    }
}

impl Writer<'_> {
    fn write(mut self, lab: &str, summary: &str, has_iommu: bool) -> Result<Exported, String> {
        let mut head = String::from(
            "# SPDX-License-Identifier: Apache-2.0 OR MIT\n#\n\
             # Made by `crosslane lab import` or `crosslane device doctor`. Values that no\n\
             # register says are of the library of parts, whose name stands in brackets behind a\n\
             # source: better ones may be written in their place.\n",
        );
        let mut text = format!("[lab]\nformat = 1\nname = \"{lab}\"\nsummary = \"{summary}\"\n\n");
        let sockets = self.plan.numa_nodes().len().clamp(1, MOST_SOCKETS);
        let (host, others) = self.parts.host(self.plan);
        others.into_iter().for_each(|(port, what)| self.gaps.of(port, what));
        let (roots, links) = (self.plan.ports(None), self.plan.links_below(None));
        host_part(&mut text, host, &roots, &links, sockets, has_iommu);
        let mut parts = Parts::default();
        let mut instances = String::new();
        self.host(&mut instances);
        for (address, upstream) in &self.plan.switches {
            let name = switch_name(self.plan, *address);
            let ports = self.plan.ports(Some(*address));
            let taken = self.parts.take(PartKind::Switch, upstream);
            let part = parts.share(
                &name,
                switch_part(
                    taken,
                    upstream,
                    self.plan.link_above(*address),
                    &ports,
                    &self.plan.links_below(Some(*address)),
                ),
            );
            let _ = writeln!(instances, "\n[[switch]]\nname = \"{name}\"\npart = \"{part}\"");
            if redirects(&ports) {
                instances.push_str(REDIRECTS);
            }
        }
        for (address, endpoint) in &self.plan.endpoints {
            let name = self.name(*address);
            let described = self.described.get(address).map(String::as_str);
            let taken = self.parts.take(PartKind::Endpoint, endpoint);
            let (lines, missing) = endpoint_part(
                taken,
                endpoint,
                self.plan.link_above(*address),
                described,
                self.engine,
            )?;
            missing.into_iter().for_each(|what| self.gaps.of(*address, what));
            let part = parts.share(&name, lines);
            instances.push('\n');
            if name != self::name("card", *address) {
                let node = endpoint.numa_node.map(|node| format!(", NUMA node {node}"));
                let product = (!taken.is_general())
                    .then(|| format!(": {} [{}]", taken.summary.trim_end_matches('.'), taken.name));
                let (node, product) = (node.unwrap_or_default(), product.unwrap_or_default());
                let shown = match MadeUp::is(*address) {
                    true => "No dump shows its address".to_owned(),
                    false => address.to_string(),
                };
                let _ = writeln!(instances, "# {shown}{node}{product}");
            }
            let _ = writeln!(instances, "[[endpoint]]\nname = \"{name}\"\npart = \"{part}\"");
        }
        for link in &self.plan.links {
            self.link(link, &mut parts, &mut instances);
            let payloads = self.payloads(link);
            let least = self.payload(link).unwrap_or_default();
            for (address, bytes) in payloads.into_iter().filter(|(_, bytes)| *bytes > least) {
                let what = format!(
                    "Max_Payload_Size is {bytes} B, and {least} B elsewhere below the same root \
                     port: the machine may report malformed TLPs; {least} B is taken for all"
                );
                self.gaps.of(address, what);
            }
        }
        parts.write(&mut text);
        text.push_str(&instances);
        let gaps = self.gaps.sentences(|address| self.name(address));
        for (index, gap) in gaps.iter().enumerate() {
            head.push_str(if index == 0 { "#\n# Not shown:\n" } else { "" });
            let _ = writeln!(head, "#   {gap}");
        }
        let (parts, names) = (self.parts.taken, self.names);
        Ok(Exported { text: format!("{head}\n{text}"), gaps, parts, names })
    }

    /// Returns the name of a switch, by its upstream port, or of an endpoint.
    fn name(&self, address: Address) -> String {
        self.names.get(&address).cloned().unwrap_or_else(|| switch_name(self.plan, address))
    }

    fn host(&self, text: &mut String) {
        let _ = writeln!(text, "\n[[host]]\nname = \"{HOST}\"\npart = \"host\"");
        text.push_str(
            "buffers = { value = \"below-4-gib\", source = \"assumption: I/O virtual addresses are \
             given out from the bottom\" }\n",
        );
        let endpoints = self.plan.endpoints.values().filter_map(|endpoint| endpoint.express());
        let reads = endpoints.map(|express| size(express.max_read_request_bytes)).max();
        match reads {
            Some(bytes) => read(
                text,
                "max_read_request_bytes",
                bytes,
                "Device Control, the largest of all endpoints, each of which has its own below",
            ),
            None => assume(text, &[("max_read_request_bytes", "512", UNSEEN)]),
        }
        if redirects(&self.plan.ports(None)) {
            text.push_str(REDIRECTS);
        }
    }

    fn link(&self, link: &LinkPlan<'_>, parts: &mut Parts, text: &mut String) {
        let mut lines = "\n[part.@]\nkind = \"link\"\n".to_owned();
        for (key, value) in [("generation", link.rate.speed), ("width", link.rate.lanes)] {
            match link.is_assumed {
                true => assume(&mut lines, &[(key, &value.to_string(), UNSEEN_LINK)]),
                false => read(&mut lines, key, value, "Link Status"),
            }
        }
        lines.push_str("flight_ns = { value = 1, source = \"assumption: 15 cm of board\" }\n");
        let LinkCode { speed, lanes } = link.rate;
        let assumed = if link.is_assumed { "assumed-" } else { "" };
        let part = parts.share(&format!("{assumed}gen{speed}x{lanes}"), lines);
        let upper = link.switch.map_or_else(|| HOST.to_owned(), |it| self.name(it));
        let lower = self.name(link.lower.address);
        let _ = writeln!(text, "\n[[link]]\nupper = \"{upper}\"");
        if let Some(port) = link.port {
            let _ = writeln!(text, "upper_port = \"{}\"", name("port", port.address));
        }
        if let Some((node, socket)) = self.socket(link) {
            let _ = writeln!(text, "# NUMA node {node}\nsocket = {socket}");
        }
        let _ = writeln!(text, "lower = \"{lower}\"\npart = \"{part}\"");
        if let Some(bytes) = self.payload(link) {
            read(
                text,
                "max_payload_limit_bytes",
                bytes,
                "Device Control, the least of this root port and all below it",
            );
        }
    }

    /// The NUMA node of a root port and its socket in the lab; `None` for another port, where no
    /// dump shows it, and if all are at one.
    fn socket(&self, root: &LinkPlan<'_>) -> Option<(u32, usize)> {
        let nodes = self.plan.numa_nodes();
        let node = self.plan.numa_node(root).filter(|_| root.switch.is_none())?;
        let socket = nodes.iter().position(|other| *other == node)?.min(MOST_SOCKETS - 1);
        (nodes.len() > 1).then_some((node, socket))
    }

    /// The least Max_Payload_Size that is set at a root port and below it; `None` for another port,
    /// and where no dump shows it.
    fn payload(&self, root: &LinkPlan<'_>) -> Option<u32> {
        self.payloads(root).into_iter().map(|(_, bytes)| bytes).min()
    }

    /// Max_Payload_Size of a root port and of each function below it; empty for another port.
    fn payloads(&self, root: &LinkPlan<'_>) -> Vec<(Address, u32)> {
        if root.switch.is_some() {
            return Vec::new();
        }
        let ends = root.port.into_iter().chain(self.plan.below(root));
        let set = |end: &PciFunction| Some((end.address, size(end.express()?.max_payload_bytes)));
        ends.filter_map(set).collect()
    }
}

fn identity(text: &mut String, function: &PciFunction) {
    let (vendor, device) = (function.vendor, function.device);
    if (vendor, device) == crate::seen::NO_IDENTITY {
        assume(text, &[("identity", "\"fffe:ffff\"", UNSEEN)]);
    } else {
        read(text, "identity", format!("\"{vendor:04x}:{device:04x}\""), "Vendor ID and Device ID");
    }
}

fn host_part(
    text: &mut String,
    part: &Part,
    roots: &[&PciFunction],
    links: &[&LinkPlan<'_>],
    sockets: usize,
    has_iommu: bool,
) {
    text.push_str("[part.host]\nkind = \"root-complex\"\n");
    let _ = writeln!(text, "summary = \"{}\"", part.summary);
    if let Some(root) = roots.first() {
        identity(text, root);
    }
    part.fill(text, "");
    if sockets > 1 {
        read(text, "sockets", sockets, "numa_node of the functions");
    }
    text.push_str("\n[part.host.port]\n");
    match roots {
        [] => rates(text, part, links),
        roots => capability(text, roots, links, true),
    }
    part.fill(text, "port");
    text.push_str("\n[part.host.memory]\n");
    let boundaries = roots.iter().filter_map(|it| it.express());
    let boundary = boundaries.map(|it| it.read_completion_boundary_bytes.clamp(64, 128)).max();
    if let Some(bytes) = boundary {
        read(text, "read_completion_boundary_bytes", bytes, "Link Control of the root port");
    }
    // No completion is shorter than the boundary.
    let is_below = |key| part.value("memory", key).is_some_and(|value| value.contains("= 64"));
    let source = "assumption: no less than the boundary";
    for (key, value) in
        [("short_completion_bytes", "128"), ("completion_bytes", "256, low = 128, high = 256")]
    {
        if boundary == Some(128) && is_below(key) {
            assume(text, &[(key, value, source)]);
        }
    }
    for table in ["memory", "peer_to_peer", "cache", "cpu", "iommu"] {
        if !part.has(table) || (table == "iommu" && !has_iommu) {
            continue;
        }
        if table != "memory" {
            let _ = write!(text, "\n[part.host.{table}]\n");
        }
        part.fill(text, table);
    }
    if sockets > 1 {
        text.push_str("\n[part.host.hop]\n");
        assume(text, &HOP);
        text.push_str("\n[part.host.hop.peer_to_peer]\n");
        assume(text, &HOP_PEERS);
    }
}

/// Returns the lines of a switch's part.
fn switch_part(
    part: &Part,
    upstream: &PciFunction,
    link: Option<&LinkPlan<'_>>,
    ports: &[&PciFunction],
    links: &[&LinkPlan<'_>],
) -> String {
    let mut text = "\n[part.@]\nkind = \"switch\"\n".to_owned();
    let _ = writeln!(text, "summary = \"{}\"", part.summary);
    identity(&mut text, upstream);
    part.fill(&mut text, "");
    text.push_str("\n[part.@.port]\n");
    match ports {
        [] => rates(&mut text, part, links),
        ports => capability(&mut text, ports, links, true),
    }
    part.fill(&mut text, "port");
    text.push_str("\n[part.@.upstream_port]\n");
    let shown = upstream.link().map(|(_, best)| best).into_iter();
    best_rate(&mut text, shown, link.as_slice(), "Link Capabilities");
    if let Some(express) = upstream.express() {
        let payload = size(express.max_payload_supported_bytes);
        read(&mut text, "max_payload_bytes", payload, "Device Capabilities");
    }
    text
}

/// Returns the BARs that a lab can have: those of 64 bits take the next register too.
fn bars(card: &PciFunction) -> Vec<Bar> {
    let mut bars = card.bars.clone();
    bars.sort_by_key(|bar| bar.index);
    let mut free = 0;
    bars.retain(|bar| {
        let end = bar.index + 1 + usize::from(bar.kind.is_64_bit());
        let fits = (MINIMUM_BAR_BYTES..=MOST_BAR_BYTES).contains(&bar.size_bytes);
        let is_kept = fits && bar.index >= free && end <= BARS;
        free = if is_kept { end } else { free };
        is_kept
    });
    bars
}

/// Returns the lines of an endpoint's part, and what they assume because it is not shown.
fn endpoint_part(
    part: &Part,
    card: &PciFunction,
    link: Option<&LinkPlan<'_>>,
    described: Option<&str>,
    engine: bool,
) -> Result<(String, Option<String>), String> {
    let mut text = "\n[part.@]\nkind = \"endpoint\"\n".to_owned();
    // Names come from outside.
    let fits = |c: &char| !c.is_control() && !matches!(c, '"' | '\\' | '@');
    let called: String = described.unwrap_or_default().chars().filter(fits).collect();
    let class = card.class_words();
    let _ = match called.is_empty() {
        true if part.is_general() => writeln!(text, "summary = \"A {class}.\""),
        true => writeln!(text, "summary = \"{}\"", part.summary),
        false => writeln!(text, "summary = \"{called}, a {class}.\""),
    };
    identity(&mut text, card);
    read(&mut text, "class_code", format!("0x{:06x}", card.class), "Class Code");
    let mut missing = None;
    let bars = bars(card);
    for bar in &bars {
        let _ = writeln!(text, "\n[part.@.bar{}]", bar.index);
        let decodes = match bar.kind {
            BarKind::Memory32 { prefetchable: false } => "memory32",
            BarKind::Memory32 { prefetchable: true } => "memory32-prefetchable",
            BarKind::Memory64 { prefetchable: false } => "memory64",
            BarKind::Memory64 { prefetchable: true } => "memory64-prefetchable",
        };
        read(&mut text, "decodes", format!("\"{decodes}\""), "the BAR's flags");
        read(&mut text, "size_bytes", bar.size_bytes, "the BAR's size");
    }
    if bars.is_empty() {
        missing = Some("no BAR is shown; one of 64 MiB is assumed".to_owned());
        text.push_str("\n[part.@.bar0]\n");
        let decodes = ("decodes", "\"memory64-prefetchable\"", UNSEEN);
        assume(&mut text, &[decodes, ("size_bytes", "67_108_864", UNSEEN)]);
    }
    text.push_str("\n[part.@.port]\n");
    // The library's port has all that is assumed of such a card.
    if link.is_none_or(|link| !link.is_assumed) {
        capability(&mut text, &[card], link.as_slice(), false);
    }
    part.fill(&mut text, "port");
    text.push_str("\n[part.@.memory]\n");
    part.fill(&mut text, "memory");
    text.push_str("\n[part.@.requester]\n");
    if let Some(express) = card.express() {
        let tags = express.tags().min(MOST_TAGS);
        let source = "what Device Control allows; the card may use fewer";
        read(&mut text, "tags", tags, source);
        let (write, reads) =
            (size(express.max_payload_bytes), size(express.max_read_request_bytes));
        read(&mut text, "max_write_bytes", write, "Max_Payload_Size of Device Control");
        read(&mut text, "max_read_bytes", reads, "Max_Read_Request_Size of Device Control");
    }
    part.fill(&mut text, "requester");
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
             clock_ns = { value = 4, source = \"assumption: 250 MHz\" }\n\
             \n[part.@.engine]\n",
        );
        assume(&mut text, &ENGINE);
    }
    Ok((text, missing))
}
