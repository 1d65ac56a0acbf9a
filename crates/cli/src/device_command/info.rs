// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device info`: one function, and the ports above it.

use std::fmt::Write as _;

use crosslane::machine::{
    Address, PciFunction, Tree, describe, error_words, link_words, path_from_root,
};
use crosslane::results::quantity::size_words;
use crosslane_report::Table;
use crosslane_report::text::fitted;
use crosslane_vfio::sysfs::Express;

use super::arguments::Output;
use super::machine;
use crate::error::CommandError;
use crate::output;
use crate::terminal::{columns, shown};

/// `device info`.
///
/// # Errors
/// A function that does not exist.
pub fn run(address: Address, output: &Output) -> Result<(), CommandError> {
    let tree = machine(&output.root).tree()?;
    let function = tree.function(address)?;
    if output.json {
        return output::print_json(&describe(&tree, function));
    }
    output::print(&page(&tree, function))
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
    let mut page = format!("{}\n\n", fitted(&heading, columns()));
    let mut table = Table::headed("what | value");
    for (what, value) in facts(function) {
        table.row([what.to_owned(), value]);
    }
    let _ = writeln!(page, "{}", shown(&table));
    let mut table =
        Table::headed("on the way from the root | kind | link | MPS: | of: | MRRS: | ACS")
            .least_first(&["MRRS", "of"]);
    for port in path_from_root(tree, function) {
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
    page.push_str(&shown(&table));
    page
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
