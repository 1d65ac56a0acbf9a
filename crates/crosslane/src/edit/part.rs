// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts: taken from the library into a file, and the best link between two.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crosslane_lab::file::parts::PartKind;
use crosslane_lab::{LibraryPart, library};
use toml_edit::{DocumentMut, Item, Table};

use super::file::File;
use super::names::{forget_positions, quoted};
use super::{EditError, Result};

/// Table of the library's root complexes that a lab has only if it asks for it: without, addresses
/// are those of the memory.
const IOMMU: &str = "iommu";

/// The library of parts that the program has.
static LIBRARY: LazyLock<Vec<LibraryPart>> =
    LazyLock::new(|| library().expect("a test reads the program's library"));

/// Reads a table that is written here.
pub(super) fn parsed(lines: &str) -> Table {
    let document = lines.parse::<DocumentMut>().expect("the lines are TOML");
    let mut item = Item::Table(document.as_table().clone());
    forget_positions(&mut item);
    item.into_table().unwrap_or_default()
}

/// Returns the kind of a part of the file. One of the library is copied into the file first.
pub(super) fn taken(file: &mut File, name: &str) -> Result<String> {
    let part = |file: &File| {
        let part = file.document.get("part")?.as_table_like()?.get(name)?;
        Some(part.get("kind")?.as_str()?.to_owned())
    };
    if let Some(kind) = part(file) {
        return Ok(kind);
    }
    let found = LIBRARY.iter().find(|part| part.name == name);
    let unknown = || EditError::Unknown { what: "part", name: name.to_owned() };
    let found = found.ok_or_else(unknown)?;
    let table = parsed(&lines(found));
    let parts = file.document.entry("part").or_insert_with(|| {
        let mut parts = Table::new();
        parts.set_implicit(true);
        Item::Table(parts)
    });
    let form = || EditError::Form { place: "part".to_owned() };
    parts.as_table_like_mut().ok_or_else(form)?.insert(name, Item::Table(table));
    Ok(found.kind.word().to_owned())
}

/// Returns the lines of a part of the library, relative to its table.
fn lines(part: &LibraryPart) -> String {
    let mut text = format!("kind = \"{}\"\n", part.kind.word());
    let _ = writeln!(text, "summary = {}", quoted(&part.summary));
    let mut tables: Vec<&str> = part.constants.iter().map(|it| it.table.as_str()).collect();
    tables.sort_by_key(|table| !table.is_empty());
    let mut done = Vec::new();
    for table in tables.into_iter().filter(|table| *table != IOMMU) {
        if done.contains(&table) {
            continue;
        }
        done.push(table);
        if !table.is_empty() {
            let _ = writeln!(text, "\n[{table}]");
        }
        for found in part.constants.iter().filter(|it| it.table == table) {
            let constant = &found.constant;
            let source = format!("{}: {} [{}]", constant.provenance, constant.source, found.part);
            let (key, value) = (&constant.key, constant.written());
            let _ = writeln!(text, "{key} = {{ {value}, source = {} }}", quoted(&source));
        }
    }
    if part.kind == PartKind::Endpoint && !done.iter().any(|table| table.starts_with("bar")) {
        text.push_str(
            "\n[bar0]\n\
             decodes = { value = \"memory64-prefetchable\", source = \"assumption: any\" }\n\
             size_bytes = { value = 67_108_864, source = \"assumption: any\" }\n",
        );
    }
    text
}

/// Returns a whole number, which may have a source beside it.
fn whole(value: &Item) -> Option<i64> {
    value.get("value").unwrap_or(value).as_integer()
}

/// Returns the best generation and width of a link between a node and a node of a part below it.
pub(super) fn best_rate(file: &File, upper: &str, part: &str) -> Result<(i64, i64)> {
    let (_, above) = file.node(upper)?;
    let of = |table: Option<&Item>, port: &str, key: &str| whole(table?.get(port)?.get(key)?);
    let parts = file.document.get("part");
    let own = above.get("part").and_then(Item::as_str).and_then(|name| parts?.get(name));
    let part = parts.and_then(|parts| parts.get(part));
    let best = |key: &str, otherwise: i64| {
        let overruled = above.get("port").and_then(|port| whole(port.get(key)?));
        let upper = overruled.or_else(|| of(own, "port", key));
        let lower = of(part, "upstream_port", key).or_else(|| of(part, "port", key));
        upper.unwrap_or(otherwise).min(lower.unwrap_or(otherwise))
    };
    Ok((best("max_generation", 3), best("max_width", 4)))
}
