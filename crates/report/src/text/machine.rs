// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI functions of a machine: lists, the findings of the doctor, and the outcomes of commands
//! that change or test them.

use std::fmt::Write as _;

use crosslane_results::machine::{
    Binding, Candidate, CardDiagnosis, Finding, Function, FunctionList, FunctionPath,
    FunctionSummary, LinkCode, MachineDiagnosis, MeasuredRate, PayloadSizes, PredictedRate, Reload,
    TestStep,
};
use crosslane_results::quantity::{count_words, mebibytes, megabytes, percent, size_words};

use super::{Columns, fitted};
use crate::table::{Field, Table, or_none};

const FUNCTION: [Field<FunctionSummary>; 7] = [
    ("address", |it| it.address.clone()),
    ("IDs", |it| format!("{}:{}", it.vendor, it.device)),
    ("class", |it| it.class_words.clone()),
    ("driver", |it| or_none(it.driver.clone(), |driver| driver)),
    ("group:", |it| or_none(it.iommu_group, |group| group.to_string())),
    ("link", |it| or_none(it.link.as_ref(), |link| link_words(link, it.link_capability.as_ref()))),
    ("node:", |it| or_none(it.numa_node, |node| node.to_string())),
];

/// Formats the rate of a link: `Gen3 x4 (of Gen3 x8)`.
fn link_words(link: &String, best: Option<&String>) -> String {
    match best.filter(|best| *best != link) {
        Some(best) => format!("{link} (of {best})"),
        None => link.clone(),
    }
}

/// Formats a list of functions.
pub fn functions(list: &FunctionList, columns: Columns) -> String {
    if list.functions.is_empty() {
        return "this machine shows no PCI functions; --all shows bridges too\n".to_owned();
    }
    let table = Table::of(&FUNCTION, &list.functions);
    table.least_first(&["node", "group", "link"]).to_text(columns.tables)
}

/// Name of a property.
const NUMA_NODE: &str = "NUMA node";

const PORT: [Field<Function>; 7] = [
    ("on the way from the root", |it| it.address.clone()),
    ("kind", kind_words),
    ("link", |it| or_none(it.link, |link| rates_words(link, it.link_capability))),
    ("MPS:", |it| bytes_or_unknown(it.max_payload_bytes)),
    ("of:", |it| bytes_or_unknown(it.max_payload_supported_bytes)),
    ("MRRS:", |it| bytes_or_unknown(it.max_read_request_bytes)),
    ("ACS", acs_words),
];

fn bytes_or_unknown(bytes: Option<u32>) -> String {
    bytes.map_or("?".to_owned(), |bytes| bytes.to_string())
}

fn rates_words(link: LinkCode, best: Option<LinkCode>) -> String {
    link_words(&link.to_string(), best.map(|best| best.to_string()).as_ref())
}

/// Returns the kind of a function, marked where it was derived from its position.
fn kind_words(function: &Function) -> String {
    let guess = if function.kind_is_read { "" } else { " (by its position)" };
    format!("{}{guess}", function.kind)
}

/// Returns the access control services that are on at a port.
fn acs_words(port: &Function) -> String {
    // The services of bridges are beyond the part that anyone may read.
    let is_hidden = port.configuration_bytes <= 256 && port.class.starts_with("0604");
    match port.acs_enabled.as_deref() {
        Some("") => "off".to_owned(),
        Some(words) => words.to_owned(),
        None if is_hidden => "not visible".to_owned(),
        None => "-".to_owned(),
    }
}

/// Formats a function in full, and the settings of the ports above it.
pub fn function(path: &FunctionPath, columns: Columns) -> String {
    let it = &path.function;
    let heading = format!(
        "{}  {}, {} [{}:{}] revision {:02x}, subsystem {}",
        it.address,
        kind_words(it),
        it.class_words,
        it.vendor,
        it.device,
        it.revision,
        it.subsystem,
    );
    let mut facts = Table::headed("what | value");
    for (what, value) in properties(it) {
        facts.row([what.to_owned(), value]);
        if what == NUMA_NODE {
            facts.row(["buffers".to_owned(), path.buffers.clone()]);
        }
    }
    let ports = Table::of(&PORT, path.above.iter().chain([it])).least_first(&["MRRS", "of"]);
    let [facts, ports] = [facts, ports].map(|table| table.to_text(columns.tables));
    format!("{}\n\n{facts}\n{ports}", fitted(&heading, columns))
}

/// Returns the properties of a function, each with its name.
fn properties(it: &Function) -> Vec<(&'static str, String)> {
    let on = |is: bool| if is { "on" } else { "off" };
    let driver = it.driver.as_deref().unwrap_or("none");
    let driver = match &it.driver_override {
        Some(only) => format!("{driver} (only {only} may take it)"),
        None => driver.to_owned(),
    };
    let group = it.iommu_group.as_ref().map_or("none".to_owned(), |group| {
        let kind = if group.kind.is_empty() { "" } else { &format!(" ({})", group.kind) };
        format!("{}{kind}: {}", group.number, group.members.join(", "))
    });
    let node = it.numa_node.map_or("none".to_owned(), |node| node.to_string());
    let mut facts = vec![("driver", driver), ("IOMMU group", group), (NUMA_NODE, node)];
    facts.extend(it.board.clone().map(|board| ("board", board)));
    let serial = |number: &String| match it.board {
        Some(_) => ("bitstream", number.clone()),
        None => ("serial number", number.clone()),
    };
    facts.extend(it.serial_number.as_ref().map(serial));
    facts.extend(it.link.map(|link| ("link", rates_words(link, it.link_capability))));
    if let (Some(memory), Some(master)) = (it.memory_enabled, it.bus_master) {
        facts.push(("command", format!("memory {}, bus master {}", on(memory), on(master))));
    }
    if let (Some(set), Some(most)) = (it.max_payload_bytes, it.max_payload_supported_bytes) {
        facts.push(("Max_Payload_Size", format!("{set} B of {most} B")));
    }
    facts.extend(it.max_read_request_bytes.map(|b| ("Max_Read_Request_Size", format!("{b} B"))));
    for (name, is_on, is_supported) in [
        ("Extended Tag", it.extended_tags, it.extended_tags_supported),
        ("10-bit tags", it.ten_bit_tags, it.ten_bit_tags_supported),
        ("relaxed ordering", it.relaxed_ordering, None),
    ] {
        let able = if is_supported == Some(false) { " (it has none)" } else { "" };
        facts.extend(is_on.map(|is_on| (name, format!("{}{able}", on(is_on)))));
    }
    let reset = |is: bool| ("function-level reset", if is { "yes" } else { "no" }.to_owned());
    facts.extend(it.function_level_reset.map(reset));
    if it.configuration_bytes > 64 {
        facts.push(("interrupt vectors", it.interrupt_vectors.to_string()));
    }
    for bar in &it.bars {
        let name = ["BAR0", "BAR1", "BAR2", "BAR3", "BAR4", "BAR5"][bar.index.min(5)];
        let prefetchable = if bar.prefetchable { ", prefetchable" } else { "" };
        let combined = if bar.write_combined { ", write-combined mapping" } else { "" };
        let (size, bits) = (size_words(bar.bytes), bar.bits);
        let words = format!("{size} at {}, {bits} bit{prefetchable}{combined}", bar.address);
        facts.push((name, words));
    }
    let errors = it.errors.as_ref().map(ToString::to_string);
    facts.push(("errors counted", errors.unwrap_or("the kernel has no counters".to_owned())));
    facts
}

const CANDIDATE: [Field<Candidate>; 5] = [
    ("address", |it| it.address.clone()),
    ("IDs", |it| format!("{}:{}", it.vendor, it.device)),
    ("class", |it| it.class_words.clone()),
    ("driver", |it| or_none(it.driver.clone(), |driver| driver)),
    ("more", |it| format!("crosslane device doctor {}", it.address)),
];

/// Formats the doctor's findings on a machine.
pub fn machine_diagnosis(diagnosis: &MachineDiagnosis, columns: Columns) -> String {
    let mut text = format!("this machine\n{}", findings(&diagnosis.findings, columns));
    match diagnosis.candidates.len() {
        0 => text.push_str("\nThere is no function that a program may have\n"),
        _ => {
            text.push_str("\nFunctions that a program may have\n\n");
            let candidates = Table::of(&CANDIDATE, &diagnosis.candidates);
            text.push_str(&candidates.to_text(columns.tables));
        }
    }
    if !diagnosis.kept.is_empty() {
        let count = count_words(diagnosis.kept.len(), "function is", "functions are");
        let _ = writeln!(text, "\n{count} the system's: `crosslane device list` has all");
    }
    text + &last_line(diagnosis.problems)
}

const PREDICTED: [Field<PredictedRate>; 5] = [
    ("what", |it| it.what.clone()),
    ("MB/s:", |it| or_none(it.bytes_per_second, megabytes)),
    ("MiB/s:", |it| or_none(it.bytes_per_second, mebibytes)),
    ("of ceiling:", |it| or_none(it.share(), |share| format!("{} %", percent(share)))),
    ("bottleneck", |it| {
        it.errors.first().or(it.deadlock.as_ref()).unwrap_or(&it.bottleneck).clone()
    }),
];

const MEASURED: [Field<MeasuredRate>; 4] = [
    ("what", |it| it.what.clone()),
    ("app MB/s:", |it| megabytes(it.application_bytes_per_second)),
    ("MB/s:", |it| megabytes(it.hardware_bytes_per_second)),
    ("MiB/s:", |it| mebibytes(it.hardware_bytes_per_second)),
];

/// Formats the doctor's findings on a card, and the rates of its paths.
pub fn card_diagnosis(diagnosis: &CardDiagnosis, columns: Columns) -> String {
    let mut text = format!("{}\n{}", diagnosis.address, findings(&diagnosis.findings, columns));
    if let Some(reason) = &diagnosis.not_predicted {
        let _ = writeln!(text, "\nNo rate is predicted: {reason}");
    }
    if !diagnosis.predicted.is_empty() {
        text.push_str("\nPredicted by the fabric model, from what was read and assumptions\n\n");
        let known = diagnosis.predicted.iter().filter(|it| it.bytes_per_second.is_some());
        let predicted = Table::of(&PREDICTED, known).least_first(&["MiB/s"]);
        text.push_str(&predicted.to_text(columns.tables));
    }
    if let Some(path) = &diagnosis.lab {
        let _ = writeln!(text, "\nThe lab is in {}", path.display());
    }
    if let Some(reason) = &diagnosis.not_measured {
        let _ = writeln!(text, "\nNo rate was measured: {reason}");
    } else if let Some(rates) = &diagnosis.measured {
        text.push_str(
            "\nMeasured, every byte compared: as the program sees it (app), and by the engine's \
             timers\n\n",
        );
        text.push_str(&Table::of(&MEASURED, rates).to_text(columns.tables));
    }
    text + &last_line(diagnosis.problems)
}

const FINDING: [Field<Finding>; 3] = [
    ("", |finding| finding.severity.word().to_owned()),
    ("what", |finding| finding.what.clone()),
    ("found", |finding| finding.found.clone()),
];

fn findings(findings: &[Finding], columns: Columns) -> String {
    let mut text = Table::of(&FINDING, findings).to_text(columns.tables);
    let help: Vec<&Finding> = findings.iter().filter(|finding| !finding.help.is_empty()).collect();
    if !help.is_empty() {
        text.push_str("\nWhat would help\n\n");
    }
    for finding in help {
        let _ = writeln!(text, "{}: {}", finding.what, finding.help);
    }
    text
}

fn last_line(problems: usize) -> String {
    match problems {
        0 => "\nno problems\n".to_owned(),
        count => format!("\n{}\n", count_words(count, "problem", "problems")),
    }
}

/// Formats the driver of a function before and after it was bound.
pub fn binding(binding: &Binding) -> String {
    let name = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "no driver".to_owned());
    let (before, now) = (name(&binding.before), name(&binding.driver));
    match before == now {
        true => format!("{} has {now}, as before\n", binding.address),
        false => format!("{} has {now} now; it had {before}\n", binding.address),
    }
}

/// Formats the functions that keep the kernel from opening a group, if there are any.
pub fn in_the_way(binding: &Binding) -> String {
    let mut text = String::new();
    if !binding.in_the_way.is_empty() {
        let _ = writeln!(
            text,
            "but the kernel opens none of group {} while these have another driver:",
            binding.iommu_group.map_or_else(|| "?".to_owned(), |group| group.to_string())
        );
    }
    for other in &binding.in_the_way {
        let (address, driver) = (&other.address, &other.driver);
        let _ = writeln!(text, "  sudo crosslane device bind {address}    # has {driver}");
    }
    text
}

/// Formats a card that was reconfigured.
pub fn reload(reload: &Reload) -> String {
    let mut text = format!(
        "{} is back after {:.1} s, with {}\n",
        reload.address,
        reload.took_seconds,
        reload.driver.as_deref().map_or("no driver".to_owned(), |it| format!("driver {it}")),
    );
    for note in &reload.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if !reload.recorded.is_empty() {
        let (port, errors) = (&reload.port, reload.recorded.join(", "));
        let _ = writeln!(text, "recorded by {port} meanwhile, and cleared: {errors}");
    }
    text
}

/// Formats the ports of a path that were set to payloads of `bytes`.
pub fn payload_sizes(sizes: &PayloadSizes, bytes: u32) -> String {
    let mut text = String::new();
    for port in &sizes.ports {
        let was = port.before_bytes.map_or("?".to_owned(), |bytes| bytes.to_string());
        let _ = writeln!(text, "{}: Max_Payload_Size {bytes} B (was {was} B)", port.address);
    }
    if !sizes.set_to_less.is_empty() {
        let _ = writeln!(
            text,
            "set to less, and below ports that may now send {bytes} B: packets to them may be \
             reported as malformed"
        );
    }
    for function in &sizes.set_to_less {
        let _ = writeln!(text, "  {}: {} B", function.address, function.bytes);
    }
    text
}

/// Formats `ok      12.3 ms  0000:01:00.0  write of 64 B`, and below it why the step failed.
pub fn test_step(step: &TestStep) -> String {
    let word = if step.error.is_none() { "ok" } else { "FAILED" };
    let took = step.took_ps as f64 / 1e9;
    let mut text = format!("{word:6} {took:10.3} ms  {}  {}\n", step.place, step.what);
    if let Some(sentence) = &step.error {
        let _ = writeln!(text, "       {sentence}");
    }
    text
}
