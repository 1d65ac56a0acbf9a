// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device info`: one function, and the ports above it.

use std::fmt::Write as _;

use crosslane_explain::size_words;
use crosslane_vfio::sysfs::{Address, Express, LinkCode, PciFunction, Tree};
use serde_json::{Value, json};

use super::arguments::Output;
use super::list::link_words;
use super::machine;
use crate::error::CommandError;
use crate::output;
use crate::table::{Align, Table};
use crate::terminal::fitted;

/// `device info`.
///
/// # Errors
/// A function that is not there.
pub fn run(address: Address, output: &Output) -> Result<(), CommandError> {
    let tree = machine(&output.root).tree()?;
    let function = tree.function(address)?;
    if output.json {
        return output::print_json(&to_json(&tree, function));
    }
    output::print(&page(&tree, function))
}

/// The function and every bridge above it, the root port first.
pub fn way_down<'a>(tree: &'a Tree, function: &'a PciFunction) -> Vec<&'a PciFunction> {
    let mut way = tree.above(function.address);
    way.reverse();
    way.push(function);
    way
}

fn page(tree: &Tree, function: &PciFunction) -> String {
    let heading = format!(
        "{}  {}, {} [{:04x}:{:04x}] revision {:02x}, subsystem {:04x}:{:04x}",
        function.address,
        kind_words(function),
        function.class_words(),
        function.vendor,
        function.device,
        function.revision,
        function.subsystem.0,
        function.subsystem.1,
    );
    let mut page = format!("{}\n\n", fitted(&heading));
    let mut table = Table::new(&[("what", Align::Left), ("value", Align::Left)]);
    for (what, value) in facts(function) {
        table.row([what.to_owned(), value]);
    }
    let _ = writeln!(page, "{table}");
    let mut table = Table::new(&[
        ("on the way from the root", Align::Left),
        ("kind", Align::Left),
        ("link", Align::Left),
        ("MPS", Align::Right),
        ("of", Align::Right),
        ("MRRS", Align::Right),
        ("ACS", Align::Left),
    ])
    .least_first(&["MRRS", "of"]);
    for port in way_down(tree, function) {
        let express = port.express();
        let size = |bytes: fn(&Express) -> u32| {
            express.as_ref().map_or("?".to_owned(), |express| bytes(express).to_string())
        };
        table.row([
            port.address.to_string(),
            kind_words(port),
            port.link().map_or_else(|| "-".to_owned(), link_words),
            size(|it| it.max_payload_bytes),
            size(|it| it.max_payload_supported_bytes),
            size(|it| it.max_read_request_bytes),
            acs_words(port),
        ]);
    }
    page.push_str(&table.to_string());
    page
}

/// What a function is, and that it is told from its place where it is.
fn kind_words(function: &PciFunction) -> String {
    let guess = if function.kind_is_read { "" } else { " (by its place)" };
    format!("{}{guess}", function.kind)
}

/// What Access Control Services are on at a port.
pub fn acs_words(port: &PciFunction) -> String {
    match port.configuration.acs() {
        Some(acs) if acs.enabled == 0 => "off".to_owned(),
        Some(acs) => acs.enabled_words(),
        None if port.configuration.readable_bytes() <= 256 && port.kind.is_bridge() => {
            "not to be seen".to_owned()
        }
        None => "-".to_owned(),
    }
}

fn on(is: bool) -> &'static str {
    if is { "on" } else { "off" }
}

/// What is known of a function, each with its words.
fn facts(function: &PciFunction) -> Vec<(&'static str, String)> {
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
    facts.push(("errors counted", errors_words(function)));
    facts
}

/// Counters of errors that are not 0, in words.
pub fn errors_words(function: &PciFunction) -> String {
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

/// A link for a program.
fn link_json(link: LinkCode) -> Value {
    json!({ "generation": link.speed, "lanes": link.lanes })
}

/// A function for a program.
pub fn function_json(function: &PciFunction) -> Value {
    let express = function.express();
    let acs = function.configuration.acs();
    let link = function.link();
    let group = function.iommu_group.as_ref().map(|group| {
        let members: Vec<String> = group.members.iter().map(Address::to_string).collect();
        json!({ "number": group.number, "type": group.kind, "members": members })
    });
    let counters = |list: &[(String, u64)]| {
        Value::Object(list.iter().map(|(name, count)| (name.clone(), json!(count))).collect())
    };
    let bars: Vec<Value> = function
        .bars
        .iter()
        .map(|bar| {
            json!({
                "index": bar.index,
                "address": bar.base.to_string(),
                "bytes": bar.size_bytes,
                "bits": if bar.kind.is_64_bit() { 64 } else { 32 },
                "prefetchable": bar.kind.is_prefetchable(),
            })
        })
        .collect();
    json!({
        "address": function.address.to_string(),
        "kind": function.kind.to_string(),
        "kind_is_read": function.kind_is_read,
        "vendor": format!("{:04x}", function.vendor),
        "device": format!("{:04x}", function.device),
        "class": format!("{:06x}", function.class),
        "class_words": function.class_words(),
        "revision": function.revision,
        "subsystem": format!("{:04x}:{:04x}", function.subsystem.0, function.subsystem.1),
        "driver": function.driver,
        "driver_override": function.driver_override,
        "iommu_group": group,
        "numa_node": function.numa_node,
        "memory_enabled": function.configuration.memory_enabled(),
        "bus_master": function.configuration.bus_master(),
        "link": link.map(|(now, _)| link_json(now)),
        "link_capability": link.map(|(_, best)| link_json(best)),
        "max_payload_bytes": express.map(|it| it.max_payload_bytes),
        "max_payload_supported_bytes": express.map(|it| it.max_payload_supported_bytes),
        "max_read_request_bytes": express.map(|it| it.max_read_request_bytes),
        "extended_tags": express.map(|it| it.extended_tags),
        "extended_tags_supported": express.map(|it| it.extended_tags_supported),
        "ten_bit_tags": express.map(|it| it.ten_bit_tags),
        "relaxed_ordering": express.map(|it| it.relaxed_ordering),
        "interrupt_vectors": function.configuration.vectors(),
        "acs_enabled": acs.map(|acs| acs.enabled_words()),
        "acs_redirects": acs.map(|acs| acs.redirects_requests()),
        "bars": bars,
        "errors": function.errors.as_ref().map(|errors| json!({
            "correctable": counters(&errors.correctable),
            "non_fatal": counters(&errors.non_fatal),
            "fatal": counters(&errors.fatal),
        })),
    })
}

fn to_json(tree: &Tree, function: &PciFunction) -> Value {
    let above = tree.above(function.address);
    let above: Vec<Value> = above.into_iter().rev().map(function_json).collect();
    json!({ "function": function_json(function), "above": above })
}
