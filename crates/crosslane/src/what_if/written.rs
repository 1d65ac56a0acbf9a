// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a lab file with changes in it. The changes of a node or a link are written into its
//! own table, where they overrule its part, which others may share. Those of a range such as
//! `fpga{1..8}` that change get tables of their own. Comments stay.

use std::collections::BTreeMap;

use crosslane_fabric::IO_LARGE_PAGE_BYTES;
use crosslane_fabric::parameters::{PortParameters, RequesterParameters};
use crosslane_lab::file::{EndpointInstance, HostInstance, LinkInstance, SwitchInstance};
use crosslane_lab::{Lab, LabError, LabFile, Provenance};
use crosslane_pcie::link::LinkRate;
use toml_edit::{ArrayOfTables, Decor, DocumentMut, Item, Table, TableLike, Value};

use super::apply::{FITTED_IOMMU, apply};
use super::change::Change;
use super::{WhatIfError, tree};
use crate::edit::{Names, forget_positions, further, quoted};

/// First words of a file that was written before.
const WRITTEN: &str = "# Changed by";
/// Keys of a port's best rate, and of a link's rate.
const BEST_RATE: [&str; 2] = ["max_generation", "max_width"];
const RATE: [&str; 2] = ["generation", "width"];
/// The table of an IOMMU in a root complex's part, and the key of its longest page.
const IOMMU: &str = "iommu";
const LARGEST_PAGE: &str = "largest_page_bytes";

/// Returns the text of a lab's file with changes. All else stays as it is written, comments
/// included; a first line says that `command` has written it. A lab in a variant stays a lab with
/// variants: what is written for nodes and links holds in all of them.
///
/// # Errors
/// An impossible change, one of flows alone, and a file that is written so that a change cannot be
/// added.
pub fn written(lab: &Lab, changes: &[Change], command: &str) -> Result<String, WhatIfError> {
    if let Some(change) = changes.iter().find(|change| change.is_of_flows()) {
        let problem = "relaxed ordering is a choice of flows, which no lab file has".to_owned();
        return Err(WhatIfError::change(change, problem));
    }
    let after = apply(lab, changes)?.lab;
    let cannot = |problem: String| WhatIfError::Unwritten { problem };
    let words: Vec<String> = changes.iter().map(Change::to_string).collect();
    let source = format!("what-if {}", words.join(" "));
    let text = with_constants(lab, changes, &source)?;
    let base = again(lab, &text)?;
    let document = text.parse::<DocumentMut>().map_err(|error| cannot(error.to_string()))?;
    let mut writer = Writer { document, source };
    writer.write(base.file(), after.file()).map_err(cannot)?;
    let text = writer.document.to_string();
    let rest = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with(WRITTEN) => rest,
        _ => &text,
    };
    let text = format!("{WRITTEN} `{command}`.\n{rest}");
    match difference(again(lab, &text)?.file(), after.file()) {
        None => Ok(text),
        Some(name) => {
            let problem = format!("the file has {name} in a form that these changes do not reach");
            Err(cannot(problem))
        }
    }
}

/// Returns the text of a lab's file with other values of its constants.
fn with_constants(lab: &Lab, changes: &[Change], source: &str) -> Result<String, WhatIfError> {
    let mut values = BTreeMap::new();
    for change in changes {
        let Change::Set { path, value } = change else { continue };
        let Some(constant) = lab.constants().find(|it| it.path() == *path) else { continue };
        let number: f64 = value
            .parse()
            .map_err(|_| WhatIfError::change(change, format!("{value} is not a number")))?;
        let number = if constant.is_whole() { number.round() } else { number };
        let source = sourced(constant.provenance == Provenance::Sysfs, source);
        values.insert(path.clone(), (number, source));
    }
    let values = values.into_iter().map(|(path, (value, source))| (path, value, source));
    lab.file().rewritten(&values.collect::<Vec<_>>()).map_err(unwritten)
}

/// Returns a source. Values of registers stay such: they change with further settings.
fn sourced(is_register: bool, source: &str) -> String {
    let kind = if is_register { Provenance::Sysfs } else { Provenance::Assumption };
    format!("{}: {source}", kind.word())
}

fn unwritten(error: LabError) -> WhatIfError {
    WhatIfError::Unwritten { problem: error.problem.to_string() }
}

/// Reads a lab's text again, in the variant that was chosen.
fn again(lab: &Lab, text: &str) -> Result<Lab, WhatIfError> {
    let read = Lab::from_text(lab.origin(), text).map_err(unwritten)?;
    match lab.variant() {
        Some(variant) => read.with_variant(variant).map_err(unwritten),
        None => Ok(read),
    }
}

/// Returns the name of the first node that two files do not have alike, or whose link differs.
fn difference(one: &LabFile, other: &LabFile) -> Option<String> {
    let is_same_host = |a: &HostInstance, b: &HostInstance| {
        let parts = [&a.part, &b.part].map(|it| (&it.identity, &it.parameters, &it.port));
        let settings = [a, b].map(|it| {
            (it.buffers, it.numa_node, it.max_read_request_bytes, it.max_payload_limit_bytes)
        });
        parts[0] == parts[1]
            && a.part.routines == b.part.routines
            && settings[0] == settings[1]
            && (&a.name, a.acs) == (&b.name, b.acs)
    };
    let is_same_switch = |a: &SwitchInstance, b: &SwitchInstance| {
        (&a.name, &a.part, a.acs) == (&b.name, &b.part, b.acs)
    };
    // Devices have their requesters' sizes; flows, which are compared, are those of requesters.
    let is_same_endpoint = |a: &EndpointInstance, b: &EndpointInstance| {
        let parts = [&a.part, &b.part].map(|it| (&it.parameters, &it.port, it.registers));
        a.name == b.name && parts[0] == parts[1]
    };
    let is_same_link = |a: &LinkInstance, b: &LinkInstance| {
        let ends = [a, b].map(|it| (&it.upper, &it.upper_port, it.socket, &it.lower));
        let rates = [a, b].map(|it| (it.parameters, it.max_payload_limit_bytes));
        ends[0] == ends[1] && rates[0] == rates[1]
    };
    let mut files = [one.clone(), other.clone()];
    files.iter_mut().for_each(tree::name_ports);
    let [one, other] = &files;
    first_unlike(&one.hosts, &other.hosts, is_same_host, |it| &it.name)
        .or_else(|| first_unlike(&one.switches, &other.switches, is_same_switch, |it| &it.name))
        .or_else(|| first_unlike(&one.endpoints, &other.endpoints, is_same_endpoint, |it| &it.name))
        .or_else(|| first_unlike(&one.links, &other.links, is_same_link, |it| &it.lower))
}

fn first_unlike<T>(
    one: &[T],
    other: &[T],
    is_same: impl Fn(&T, &T) -> bool,
    name: impl Fn(&T) -> &String,
) -> Option<String> {
    let unlike = one.iter().zip(other).find(|(a, b)| !is_same(a, b)).map(|(a, _)| name(a).clone());
    unlike.or_else(|| (one.len() != other.len()).then(|| other.last().map(&name).cloned())?)
}

/// A key of the table of a node or a link, or of a table in it, and what it becomes.
#[derive(Clone, Debug, PartialEq)]
struct Edit {
    table: &'static str,
    key: String,
    new: New,
}

/// New value of a key.
#[derive(Clone, Debug, PartialEq)]
enum New {
    /// A constant; with the source that it has where the changes are none.
    Constant { value: String, is_register: bool, source: Option<String> },
    /// A name, a number or a truth without a source.
    Plain(String),
    /// None: the key is left out.
    Gone,
}

impl Edit {
    fn constant(table: &'static str, key: &str, value: impl ToString, is_register: bool) -> Self {
        let new = New::Constant { value: value.to_string(), is_register, source: None };
        Self { table, key: key.to_owned(), new }
    }

    fn plain(key: &str, text: impl ToString) -> Self {
        Self { table: "", key: key.to_owned(), new: New::Plain(text.to_string()) }
    }

    fn gone(key: &str) -> Self {
        Self { table: "", key: key.to_owned(), new: New::Gone }
    }

    /// Sets or removes a limit of payloads.
    fn limit(bytes: Option<u32>) -> Self {
        const KEY: &str = "max_payload_limit_bytes";
        bytes.map_or_else(|| Self::gone(KEY), |bytes| Self::constant("", KEY, bytes, true))
    }

    fn rate(table: &'static str, keys: [&str; 2], rate: LinkRate) -> [Self; 2] {
        let numbers = [rate.generation.number(), rate.width.lanes()];
        let [generation, width] = [0, 1].map(|at| (keys[at], numbers[at]));
        [generation, width].map(|(key, number)| Self::constant(table, key, number, false))
    }
}

fn best_rate(port: &PortParameters) -> LinkRate {
    port.capability.max_rate
}

fn of_host(was: &HostInstance, is: &HostInstance) -> Result<Vec<Edit>, String> {
    let mut edits = Vec::new();
    if was.max_read_request_bytes != is.max_read_request_bytes {
        let bytes = is.max_read_request_bytes;
        edits.push(Edit::constant("", "max_read_request_bytes", bytes, true));
    }
    if was.max_payload_limit_bytes != is.max_payload_limit_bytes {
        edits.push(Edit::limit(is.max_payload_limit_bytes));
    }
    if was.acs != is.acs {
        edits.push(Edit::plain("acs", is.acs));
    }
    if best_rate(&was.part.port) != best_rate(&is.part.port) {
        edits.extend(Edit::rate("port", BEST_RATE, best_rate(&is.part.port)));
    }
    match [was, is].map(|it| it.part.parameters.iommu.is_some()) {
        [false, true] => edits.extend(fitted_iommu()?),
        [true, false] => edits.push(Edit::gone(IOMMU)),
        _ => {}
    }
    Ok(edits)
}

/// Returns the constants of the IOMMU that a host gets, each with its source there.
fn fitted_iommu() -> Result<Vec<Edit>, String> {
    let lab = Lab::load(FITTED_IOMMU).map_err(|error| error.to_string())?;
    let constants = lab.constants().filter(|constant| constant.place.ends_with(".iommu"));
    let edit = |(key, value, source): (&str, String, String)| {
        let new = New::Constant { value, is_register: false, source: Some(source) };
        Edit { table: IOMMU, key: key.to_owned(), new }
    };
    let mut edits: Vec<Edit> = constants
        .filter(|constant| constant.key != LARGEST_PAGE)
        .map(|it| {
            let source = format!("{}: {} [{FITTED_IOMMU}]", it.provenance, it.source);
            edit((&it.key, it.value.clone(), source))
        })
        .collect();
    let source = format!("{}: pages of 2 MiB, as kernels map them", Provenance::Assumption);
    edits.push(edit((LARGEST_PAGE, IO_LARGE_PAGE_BYTES.to_string(), source)));
    Ok(edits)
}

fn of_switch(was: &SwitchInstance, is: &SwitchInstance) -> Vec<Edit> {
    let mut edits = Vec::new();
    if was.acs != is.acs {
        edits.push(Edit::plain("acs", is.acs));
    }
    let [down, up] = [&is.part.downstream, &is.part.upstream].map(best_rate);
    if best_rate(&was.part.downstream) != down {
        edits.extend(Edit::rate("port", BEST_RATE, down));
    }
    // The upstream port has the constants of the others where it has none of its own.
    if [&was.part.downstream, &was.part.upstream].map(best_rate) != [down, up] {
        edits.extend(Edit::rate("upstream_port", BEST_RATE, up));
    }
    edits
}

fn of_endpoint(was: &EndpointInstance, is: &EndpointInstance) -> Vec<Edit> {
    let mut edits = Vec::new();
    let [old, new] = [was, is].map(|it| &it.part.parameters.requester);
    let registers = is.part.registers;
    type Field = (&'static str, fn(&RequesterParameters) -> u32, bool);
    let fields: [Field; 3] = [
        ("tags", |it| it.tags.into(), registers.tags),
        ("max_write_bytes", |it| it.max_write_bytes, registers.max_write_bytes),
        ("max_read_bytes", |it| it.max_read_bytes, registers.max_read_bytes),
    ];
    for (key, of, is_register) in fields {
        if of(old) != of(new) {
            edits.push(Edit::constant("requester", key, of(new), is_register));
        }
    }
    let [old, new] = [was, is].map(|it| &it.part.port.capability);
    if old.extended_tags != new.extended_tags {
        edits.push(Edit::constant("port", "extended_tags", new.extended_tags, false));
    }
    if old.max_rate != new.max_rate {
        edits.extend(Edit::rate("port", BEST_RATE, new.max_rate));
    }
    edits
}

fn of_link(was: &LinkInstance, is: &LinkInstance) -> Vec<Edit> {
    let mut edits = Vec::new();
    if was.socket != is.socket {
        edits.push(Edit::plain("socket", is.socket));
    }
    if was.max_payload_limit_bytes != is.max_payload_limit_bytes {
        edits.push(Edit::limit(is.max_payload_limit_bytes));
    }
    if was.parameters.rate != is.parameters.rate {
        edits.extend(Edit::rate("", RATE, is.parameters.rate));
    }
    edits
}

/// Splits the number at the end of a name.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[head.len()..];
    let is_plain = digits == "0" || !digits.starts_with('0');
    Some((head, digits.parse().ok().filter(|_| is_plain)?))
}

/// Whether the name of a port is the next one behind another; both may be left out.
fn follows(one: Option<&str>, next: Option<&str>) -> bool {
    match (one, next) {
        (None, None) => true,
        (Some(one), Some(next)) => numbered(one)
            .zip(numbered(next))
            .is_some_and(|(one, next)| one.0 == next.0 && one.1.checked_add(1) == Some(next.1)),
        _ => false,
    }
}

/// Returns the word for some names that follow one another.
fn joined(first: &str, last: &str) -> String {
    match (numbered(first), numbered(last)) {
        (Some((head, low)), Some((_, high))) if first != last => format!("{head}{{{low}..{high}}}"),
        _ => first.to_owned(),
    }
}

/// A link as it is to be written.
struct Link {
    upper: String,
    /// Name of its port where it is not that which it gets by itself.
    port: Option<String>,
    edits: Vec<Edit>,
    is_changed: bool,
}

fn links_of(base: &LabFile, after: &LabFile) -> Vec<Link> {
    let mut unnamed = after.clone();
    unnamed.links.iter_mut().for_each(|link| link.upper_port = None);
    tree::name_ports(&mut unnamed);
    let both = base.links.iter().zip(&after.links).zip(&unnamed.links);
    let link = |((was, is), unnamed): ((&LinkInstance, &LinkInstance), &LinkInstance)| {
        let is_needed =
            |port: &&String| was.upper_port.is_some() || unnamed.upper_port.as_ref() != Some(*port);
        let port = is.upper_port.as_ref().filter(is_needed).cloned();
        let edits = of_link(was, is);
        let is_changed = !edits.is_empty() || was.upper != is.upper || was.upper_port != port;
        Link { upper: is.upper.clone(), port, edits, is_changed }
    };
    both.map(link).collect()
}

struct Writer {
    document: DocumentMut,
    /// Source of constants that change, without the word for its kind.
    source: String,
}

impl Writer {
    /// Writes the differences between a file, which is that of the document, and a changed one.
    fn write(&mut self, base: &LabFile, after: &LabFile) -> Result<(), String> {
        let mut hosts = BTreeMap::new();
        for (was, is) in base.hosts.iter().zip(&after.hosts) {
            hosts.insert(is.name.clone(), of_host(was, is)?);
        }
        self.remove_iommus(&mut hosts)?;
        self.nodes("host", &hosts)?;
        let switches = base.switches.iter().zip(&after.switches);
        let switches = switches.map(|(was, is)| (is.name.clone(), of_switch(was, is)));
        self.nodes("switch", &switches.collect())?;
        let endpoints = base.endpoints.iter().zip(&after.endpoints);
        let endpoints = endpoints.map(|(was, is)| (is.name.clone(), of_endpoint(was, is)));
        self.nodes("endpoint", &endpoints.collect())?;
        self.links(&links_of(base, after))
    }

    /// Returns the tables `[[kind]]`.
    fn list(&mut self, kind: &str) -> Result<&mut ArrayOfTables, String> {
        let list = self.document.get_mut(kind).and_then(Item::as_array_of_tables_mut);
        list.ok_or_else(|| format!("the file has {kind} as a list in one line, not [[{kind}]]"))
    }

    fn nodes(&mut self, kind: &str, edits: &BTreeMap<String, Vec<Edit>>) -> Result<(), String> {
        if edits.values().all(Vec::is_empty) {
            return Ok(());
        }
        let source = self.source.clone();
        let list = self.list(kind)?;
        let mut tables = ArrayOfTables::new();
        for table in list.iter() {
            let names = Names::of(table.get("name").and_then(Item::as_str).unwrap_or_default());
            let of = |index: usize| edits.get(&names.name(index)).map_or(&[][..], Vec::as_slice);
            let indexes: Vec<usize> = (0..names.count).collect();
            for run in indexes.chunk_by(|one, other| of(*one) == of(*other)) {
                let mut own = if run[0] == 0 { table.clone() } else { further(table) };
                let mut all = of(run[0]).to_vec();
                if run.len() < names.count {
                    all.push(Edit::plain("name", quoted(&names.word(run[0], run.len()))));
                }
                all.iter().for_each(|edit| put(&mut own, edit, &source));
                tables.push(own);
            }
        }
        *list = tables;
        Ok(())
    }

    fn links(&mut self, links: &[Link]) -> Result<(), String> {
        if !links.iter().any(|link| link.is_changed) {
            return Ok(());
        }
        let (source, mut rest) = (self.source.clone(), links);
        let list = self.list("link")?;
        let mut tables = ArrayOfTables::new();
        for table in list.iter() {
            let lower = Names::of(table.get("lower").and_then(Item::as_str).unwrap_or_default());
            let (of_table, others) = rest.split_at(lower.count.min(rest.len()));
            rest = others;
            if !of_table.iter().any(|link| link.is_changed) {
                tables.push(table.clone());
                continue;
            }
            let is_alike = |one: &Link, other: &Link| {
                (&one.upper, &one.edits) == (&other.upper, &other.edits)
                    && follows(one.port.as_deref(), other.port.as_deref())
            };
            let mut done = 0;
            for run in of_table.chunk_by(is_alike) {
                let mut own = if done == 0 { table.clone() } else { further(table) };
                let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
                let mut all = first.edits.clone();
                all.push(Edit::plain("upper", quoted(&first.upper)));
                all.push(Edit::plain("lower", quoted(&lower.word(done, run.len()))));
                all.push(match (&first.port, &last.port) {
                    (Some(first), Some(last)) => {
                        Edit::plain("upper_port", quoted(&joined(first, last)))
                    }
                    _ => Edit::gone("upper_port"),
                });
                all.iter().for_each(|edit| put(&mut own, edit, &source));
                tables.push(own);
                done += run.len();
            }
        }
        *list = tables;
        Ok(())
    }

    /// Takes the IOMMU out of the parts of hosts that lose it; hosts with one get a copy of the
    /// part if it is also that of another host.
    fn remove_iommus(&mut self, edits: &mut BTreeMap<String, Vec<Edit>>) -> Result<(), String> {
        let loses = |edits: &[Edit]| edits.contains(&Edit::gone(IOMMU));
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for table in self.list("host")?.iter() {
            let word = |key: &str| table.get(key).and_then(Item::as_str).unwrap_or_default();
            let names = Names::of(word("name"));
            let of_part = parts.entry(word("part").to_owned()).or_default();
            of_part.extend((0..names.count).map(|index| names.name(index)));
        }
        for (part, hosts) in parts {
            let (losers, others): (Vec<String>, Vec<String>) =
                hosts.into_iter().partition(|host| edits.get(host).is_some_and(|it| loses(it)));
            let Some(first) = losers.first() else { continue };
            if others.is_empty() {
                self.in_parts(|parts| parts.get_mut(&part).into_iter().for_each(without_iommu));
                continue;
            }
            let copy = format!("{part}-of-{first}");
            self.in_parts(|parts| {
                let Some(mut own) = parts.get(&part).cloned() else { return };
                without_iommu(&mut own);
                forget_positions(&mut own);
                if let Some(table) = own.as_table_mut() {
                    table.decor_mut().set_prefix(format!("\n# As {part}, without an IOMMU.\n"));
                }
                parts.insert(&copy, own);
            });
            for host in losers {
                edits.entry(host).or_default().push(Edit::plain("part", quoted(&copy)));
            }
        }
        Ok(())
    }

    /// Changes the parts, and those of every variant.
    fn in_parts(&mut self, mut change: impl FnMut(&mut dyn TableLike)) {
        let parts = self.document.get_mut("part").and_then(Item::as_table_like_mut);
        parts.into_iter().for_each(&mut change);
        let variants = self.document.get_mut("variant").and_then(Item::as_table_like_mut);
        for (_, variant) in variants.into_iter().flat_map(TableLike::iter_mut) {
            let parts = variant.as_table_like_mut().and_then(|it| it.get_mut("part"));
            parts.and_then(Item::as_table_like_mut).into_iter().for_each(&mut change);
        }
    }
}

/// Removes the IOMMU of a part; one that has nothing else stays a part.
fn without_iommu(part: &mut Item) {
    if let Some(table) = part.as_table_like_mut() {
        table.remove(IOMMU);
    }
    if let Some(table) = part.as_table_mut().filter(|table| table.is_empty()) {
        table.set_implicit(false);
    }
}

/// Makes one edit in the table of a node or a link.
fn put(table: &mut Table, edit: &Edit, source: &str) {
    let place: Option<&mut dyn TableLike> = match edit.table {
        "" => Some(table),
        name => table.entry(name).or_insert_with(toml_edit::table).as_table_like_mut(),
    };
    let Some(place) = place else { return };
    let text = match &edit.new {
        New::Gone => {
            place.remove(&edit.key);
            return;
        }
        New::Plain(text) => text.clone(),
        New::Constant { value, is_register, source: own } => {
            let before = place.get(&edit.key).and_then(|it| it.get("source")?.as_str());
            let is_register =
                before.map_or(*is_register, |it| it.starts_with(Provenance::Sysfs.word()));
            let source = own.clone().unwrap_or_else(|| sourced(is_register, source));
            format!("{{ value = {value}, source = {} }}", quoted(&source))
        }
    };
    // The texts are ours.
    let Ok(mut value) = text.parse::<Value>() else { return };
    let before = place.get(&edit.key).and_then(Item::as_value);
    *value.decor_mut() = before.map_or_else(|| Decor::new(" ", ""), |it| it.decor().clone());
    match place.get_mut(&edit.key) {
        Some(item) => {
            *item = Item::Value(value);
            // A comment above it was about the value that it had.
            if let Some(mut key) = place.key_mut(&edit.key).filter(|_| edit.key == "socket") {
                key.leaf_decor_mut().clear();
            }
        }
        None => drop(place.insert(&edit.key, Item::Value(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_follow_one_another_are_joined() {
        assert!(follows(Some("down9"), Some("down10")) && follows(None, None));
        assert!(!follows(Some("down1"), Some("up2")) && !follows(None, Some("down1")));
        assert!(!follows(Some("slot01"), Some("slot02")), "a range has no zeros in front");
        assert_eq!(joined("down3", "down5"), "down{3..5}");
        assert_eq!(joined("slot01", "slot01"), "slot01");
    }
}
