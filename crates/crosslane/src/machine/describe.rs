// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of this machine as plain data, and words for what a table or a sentence says of them.

use crosslane_results::machine as results;
use crosslane_results::quantity::size_words;
use crosslane_vfio::sysfs::{Address, ErrorCounters, Express, LinkCode, PciFunction, Tree};

/// Base class of bridges (PCI code and ID assignment).
const BRIDGES: u32 = 0x06;

/// Returns the function and every bridge above it, the root port first.
#[must_use]
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
#[must_use]
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

/// Describes a function and every bridge above it.
#[must_use]
pub fn describe(tree: &Tree, function: &PciFunction) -> results::FunctionPath {
    let mut path = path_from_root(tree, function);
    path.pop();
    let above = path.into_iter().map(described).collect();
    results::FunctionPath { function: described(function), above }
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
        relaxed_ordering: express.map(|it| it.relaxed_ordering),
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
    let Some(errors) = &function.errors else { return "the kernel has no counters".to_owned() };
    let kinds = [
        ("correctable", &errors.correctable),
        ("non-fatal", &errors.non_fatal),
        ("fatal", &errors.fatal),
    ];
    let words: Vec<String> = kinds
        .into_iter()
        .flat_map(|(kind, counters)| {
            counters.iter().map(move |(name, count)| format!("{count} {name} ({kind})"))
        })
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Returns a line on a function: kind, class, IDs.
#[must_use]
pub fn heading(function: &PciFunction) -> String {
    format!(
        "{}  {}, {} [{:04x}:{:04x}] revision {:02x}, subsystem {:04x}:{:04x}",
        function.address,
        kind_words(function),
        function.class_words(),
        function.vendor,
        function.device,
        function.revision,
        function.subsystem.0,
        function.subsystem.1,
    )
}

/// Returns the settings of a port: address, kind, link, Max_Payload_Size, the largest supported,
/// Max_Read_Request_Size, access control services.
#[must_use]
pub fn port_settings(port: &PciFunction) -> [String; 7] {
    let express = port.express();
    let size = |bytes: fn(&Express) -> u32| {
        express.as_ref().map_or("?".to_owned(), |express| bytes(express).to_string())
    };
    [
        port.address.to_string(),
        kind_words(port),
        port.link().map_or_else(|| "-".to_owned(), link_words),
        size(|it| it.max_payload_bytes),
        size(|it| it.max_payload_supported_bytes),
        size(|it| it.max_read_request_bytes),
        acs_words(port),
    ]
}

/// Returns the kind of a function, marked where it was derived from its position.
fn kind_words(function: &PciFunction) -> String {
    let guess = if function.kind_is_read { "" } else { " (by its position)" };
    format!("{}{guess}", function.kind)
}

/// Returns the access control services that are on at a port.
fn acs_words(port: &PciFunction) -> String {
    match port.configuration.acs() {
        Some(acs) if acs.enabled == 0 => "off".to_owned(),
        Some(acs) => acs.enabled_words(),
        None if port.configuration.readable_bytes() <= 256 && port.kind.is_bridge() => {
            "not visible".to_owned()
        }
        None => "-".to_owned(),
    }
}

fn on(is: bool) -> &'static str {
    if is { "on" } else { "off" }
}

/// Returns the properties of a function, each with its name.
#[must_use]
pub fn properties(function: &PciFunction) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let driver = function.driver.as_deref().unwrap_or("none");
    facts.push((
        "driver",
        match &function.driver_override {
            Some(only) => format!("{driver} (only {only} may take it)"),
            None => driver.to_owned(),
        },
    ));
    facts.push((
        "IOMMU group",
        function.iommu_group.as_ref().map_or("none".to_owned(), |group| {
            let members: Vec<String> = group.members.iter().map(Address::to_string).collect();
            let kind = if group.kind.is_empty() { "" } else { &format!(" ({})", group.kind) };
            format!("{}{kind}: {}", group.number, members.join(", "))
        }),
    ));
    let node = function.numa_node.map_or("none".to_owned(), |node| node.to_string());
    facts.push(("NUMA node", node));
    if let Some(link) = function.link() {
        facts.push(("link", link_words(link)));
    }
    let space = &function.configuration;
    if let (Some(memory), Some(master)) = (space.memory_enabled(), space.bus_master()) {
        let words = format!("memory {}, bus master {}", on(memory), on(master));
        facts.push(("command", words));
    }
    if let Some(express) = function.express() {
        facts.extend(express_facts(&express));
    }
    if space.readable_bytes() > 64 {
        facts.push(("interrupt vectors", space.vectors().to_string()));
    }
    for bar in &function.bars {
        let name = ["BAR0", "BAR1", "BAR2", "BAR3", "BAR4", "BAR5"][bar.index.min(5)];
        let prefetchable = if bar.kind.is_prefetchable() { ", prefetchable" } else { "" };
        let bits = if bar.kind.is_64_bit() { 64 } else { 32 };
        let combined = function.combined_bars.iter().any(|&it| usize::from(it) == bar.index);
        let combined = if combined { ", write-combined mapping" } else { "" };
        let size = size_words(bar.size_bytes);
        facts.push((name, format!("{size} at {}, {bits} bit{prefetchable}{combined}", bar.base)));
    }
    facts.push(("errors counted", error_words(function)));
    facts
}

fn express_facts(express: &Express) -> Vec<(&'static str, String)> {
    let (set, most) = (express.max_payload_bytes, express.max_payload_supported_bytes);
    let able = |is: bool| if is { "" } else { " (it has none)" };
    let read = express.max_read_request_bytes;
    vec![
        ("Max_Payload_Size", format!("{set} B of {most} B")),
        ("Max_Read_Request_Size", format!("{read} B")),
        (
            "Extended Tag",
            format!("{}{}", on(express.extended_tags), able(express.extended_tags_supported)),
        ),
        (
            "10-bit tags",
            format!("{}{}", on(express.ten_bit_tags), able(express.ten_bit_tags_supported)),
        ),
        ("relaxed ordering", on(express.relaxed_ordering).to_owned()),
        (
            "function-level reset",
            if express.function_level_reset { "yes" } else { "no" }.to_owned(),
        ),
    ]
}
