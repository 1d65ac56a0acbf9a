// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab file as those see it who edit it: its tree and parts, and of a node every key that it can
//! have, with the declaration of the key. Files with errors can be seen as well.

use std::collections::BTreeMap;

use crosslane_lab::keys::{Absent, Key, KeyTable, Kind, ROOT};
use serde::Serialize;
use toml_edit::{Item, Table, TableLike, Value};

use super::file::{File, NODES};
use super::{EditError, Result, Scalar};

/// Tree and parts of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// Its nodes, hosts first.
    pub nodes: Vec<OutlineNode>,
    /// Its parts.
    pub parts: Vec<OutlinePart>,
}

/// A node of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutlineNode {
    /// Its name.
    pub name: String,
    /// `host`, `switch` or `endpoint`.
    pub kind: &'static str,
    /// Its part.
    pub part: String,
    /// The node above it, if there is a link.
    pub above: Option<String>,
    /// Paths of the tables that describe it and the link above it, as errors have them:
    /// `endpoint.fpga{1..8}`, `part.v7`, `link[2]`, `part.cable`.
    pub paths: Vec<String>,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutlinePart {
    /// Its name.
    pub name: String,
    /// Word for its kind.
    pub kind: String,
    /// Its description.
    pub summary: String,
}

fn text(table: &dyn TableLike, key: &str) -> String {
    table.get(key).and_then(Item::as_str).unwrap_or_default().to_owned()
}

/// Returns the tree and the parts of a file.
///
/// # Errors
/// A text that is not TOML.
pub fn outline(text_of_file: &str) -> Result<Outline> {
    let file = File::parsed(text_of_file)?;
    let part_path = |table: &Table| {
        let part = table.get("part").and_then(Item::as_str);
        part.map(|part| format!("part.{part}"))
    };
    let mut links = BTreeMap::new();
    for (index, table) in file.list("link").enumerate() {
        for mut row in File::rows("link", table) {
            let mut paths = vec![format!("link[{}]", index + 1)];
            paths.extend(part_path(table));
            links.insert(row.remove(0), (row.remove(0), paths));
        }
    }
    let mut nodes = Vec::new();
    for kind in NODES {
        for (mut row, table) in file.all(kind) {
            let name = row.remove(0);
            let (above, of_link) = links.remove(&name).unzip();
            let mut paths = vec![format!("{kind}.{}", text(table, "name"))];
            paths.extend(part_path(table));
            paths.extend(of_link.unwrap_or_default());
            nodes.push(OutlineNode { name, kind, part: text(table, "part"), above, paths });
        }
    }
    let parts = file.document.get("part").and_then(Item::as_table_like);
    let parts = parts.into_iter().flat_map(TableLike::iter).filter_map(|(name, part)| {
        let part = part.as_table_like()?;
        let (kind, summary) = (text(part, "kind"), text(part, "summary"));
        Some(OutlinePart { name: name.to_owned(), kind, summary })
    });
    Ok(Outline { nodes, parts: parts.collect() })
}

/// A node with all keys that it can have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// `host`, `switch` or `endpoint`.
    pub kind: &'static str,
    /// Its part.
    pub part: String,
    /// Nodes that have this part.
    pub alike: usize,
    /// Its tables, and those of the link above it.
    pub tables: Vec<TableView>,
}

/// A table of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableView {
    /// Its name below the node: `requester`, `link`, or empty for the node's own keys.
    pub name: String,
    /// Its subject.
    pub words: String,
    /// Path of the table that holds for this node alone.
    pub own: String,
    /// Path of the table of the part, or of the variant that is chosen; empty if there is no part.
    pub shared: String,
    /// Whether the file has no such table, neither here nor there.
    pub is_absent: bool,
    /// Its keys.
    pub keys: Vec<KeyView>,
}

/// A key of a table, and its value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyView {
    /// The key.
    pub key: &'static str,
    /// Its meaning.
    pub words: &'static str,
    /// Values that are allowed, in words.
    pub allowed: String,
    /// The same as JSON Schema.
    pub schema: serde_json::Value,
    /// Unit of its values; empty for plain numbers and words.
    pub unit: &'static str,
    /// Meaning of its absence: `error`, `-`, or the value that holds then.
    pub absent: String,
    /// Whether it is a constant, which has a source.
    pub is_constant: bool,
    /// Its value, if it has one.
    pub value: Option<Scalar>,
    /// Range of the value.
    pub range: Option<[f64; 2]>,
    /// Source of the value, its kind in front.
    pub source: Option<String>,
    /// Path of the table that it stands in.
    pub place: Option<String>,
}

fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::String(word) => Some(Scalar::Word(word.value().clone())),
        Value::Integer(number) => Some(Scalar::Whole(*number.value())),
        Value::Float(number) => Some(Scalar::Real(*number.value())),
        Value::Boolean(truth) => Some(Scalar::Truth(*truth.value())),
        _ => None,
    }
}

fn number(item: &Item) -> Option<f64> {
    item.as_float().or_else(|| item.as_integer().map(|number| number as f64))
}

/// Tables that the keys of a node may stand in, the strongest first: path and table.
type Places<'a> = Vec<(String, Option<&'a dyn TableLike>)>;

/// Returns the tables below some.
fn inner<'a>(places: &Places<'a>, name: &str) -> Places<'a> {
    let below = |(path, table): &(String, Option<&'a dyn TableLike>)| {
        let found = table.and_then(|table| table.get(name)?.as_table_like());
        (format!("{path}.{name}"), found)
    };
    places.iter().map(below).collect()
}

fn key_view(key: &Key, places: &Places<'_>) -> Option<KeyView> {
    // Names that must be there are the tree itself.
    if matches!(key.kind, Kind::Name) && key.absent == Absent::Error {
        return None;
    }
    let schema = key.kind.schema()?;
    let found = places
        .iter()
        .find_map(|(path, table)| Some((path, table.and_then(|table| table.get(key.name))?)));
    let constant = found.and_then(|(_, item)| item.as_table_like());
    let value = match (constant, found) {
        (Some(constant), _) => constant.get("value"),
        (None, found) => found.map(|(_, item)| item),
    };
    let ends = constant.and_then(|it| Some([number(it.get("low")?)?, number(it.get("high")?)?]));
    Some(KeyView {
        key: key.name,
        words: key.words.trim(),
        allowed: key.kind.words(),
        schema,
        unit: key.unit(),
        absent: key.absent_words(),
        is_constant: key.kind.is_constant(),
        value: value.and_then(Item::as_value).and_then(scalar),
        range: ends,
        source: constant.and_then(|it| it.get("source")?.as_str()).map(str::to_owned),
        place: found.map(|(path, _)| path.clone()),
    })
}

/// Adds a table and those in it.
fn tables(table: &'static KeyTable, name: &str, places: &Places<'_>, all: &mut Vec<TableView>) {
    let keys: Vec<KeyView> = table.all().filter_map(|key| key_view(key, places)).collect();
    let shared = places.get(1).map(|(path, _)| path.clone()).unwrap_or_default();
    all.push(TableView {
        name: name.to_owned(),
        words: table.words.trim().to_owned(),
        own: places[0].0.clone(),
        shared,
        is_absent: places.iter().all(|(_, table)| table.is_none()),
        keys,
    });
    for key in table.all() {
        let (Kind::Table(below) | Kind::Overrule(below)) = key.kind else { continue };
        let name = if name.is_empty() { key.name } else { &format!("{name}.{}", key.name) };
        tables(below, name, &inner(places, key.name), all);
    }
}

/// Returns the keys of a list of the file.
fn list(kind: &str) -> Option<&'static KeyTable> {
    let key = ROOT.all().find(|key| key.name == kind)?;
    match key.kind {
        Kind::List(table) => Some(table),
        _ => None,
    }
}

/// Returns a node with all its keys, as a variant of the lab has them.
///
/// # Errors
/// A text that is not TOML, and a name that no node has.
pub fn node(text_of_file: &str, variant: Option<&str>, name: &str) -> Result<NodeView> {
    let file = File::parsed(text_of_file)?;
    let (kind, table) = file.node(name)?;
    let part = text(table, "part");
    let places = |kind: &str, table: &'_ dyn TableLike| {
        let part = text(table, "part");
        let path = format!("{kind}.{name}");
        let mut paths = Vec::new();
        if !part.is_empty() {
            paths.extend(variant.map(|it| format!("variant.{it}.part.{part}")));
            paths.push(format!("part.{part}"));
        }
        (path, paths)
    };
    let found = |path: &String| {
        let mut item = file.document.as_item();
        for word in path.split('.') {
            item = item.get(word)?;
        }
        item.as_table_like()
    };
    let mut all = Vec::new();
    let link = file.all("link").find(|(row, _)| row[0] == name).map(|(_, table)| table);
    for (kind, table) in [Some((kind, table)), link.map(|it| ("link", it))].into_iter().flatten() {
        let (own, shared) = places(kind, table);
        let shared = shared.into_iter().map(|path| (path.clone(), found(&path)));
        let own = (own, Some(table as &dyn TableLike));
        let places: Places<'_> = std::iter::once(own).chain(shared).collect();
        let keys = list(kind).ok_or(EditError::Form { place: kind.to_owned() })?;
        let first = all.len();
        tables(keys, "", &places, &mut all);
        if kind == "link" {
            "link".clone_into(&mut all[first].name);
        }
    }
    let alike =
        NODES.iter().flat_map(|kind| file.list(kind)).filter(|it| text(*it, "part") == part);
    let alike = alike.map(|it| super::Names::of(&text(it, "name")).count).sum();
    Ok(NodeView { name: name.to_owned(), kind, part, alike, tables: all })
}
