// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab file as a document that is edited: its lists of nodes and links, and its tables by path.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{ArrayOfTables, Decor, DocumentMut, Item, Table, TableLike, Value};

use super::names::{Names, further, quoted};
use super::{EditError, Result};

/// Lists of nodes, whose tables have names.
pub(super) const NODES: [&str; 3] = ["host", "switch", "endpoint"];
/// Columns of the lists: names that are counted up together in ranges; the first one has the most.
const COLUMNS: [(&str, &[&str]); 6] = [
    ("host", &["name"]),
    ("switch", &["name"]),
    ("endpoint", &["name"]),
    ("link", &["lower", "upper", "upper_port"]),
    ("network", &["first", "second"]),
    ("peers", &["first", "second"]),
];

/// Returns the columns of a list.
fn columns(kind: &str) -> &'static [&'static str] {
    COLUMNS.iter().find(|(name, _)| *name == kind).map_or(&[], |(_, columns)| columns)
}

fn word<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Item::as_str)
}

/// The file.
pub(super) struct File {
    pub document: DocumentMut,
}

/// The fate of a row of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// It stays, with its neighbours.
    Kept,
    /// It gets a table of its own.
    Alone,
    /// It goes.
    Gone,
}

impl File {
    /// Reads a file, which has to be TOML, but no whole lab.
    pub fn parsed(text: &str) -> Result<Self> {
        let document = text.parse::<DocumentMut>();
        document.map(|document| Self { document }).map_err(|error| EditError::Syntax {
            problem: error.message().to_owned(),
            line: error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count()),
        })
    }

    /// Returns the tables of a list; none if there is no such list.
    pub fn list(&self, kind: &str) -> impl Iterator<Item = &Table> {
        self.document.get(kind).and_then(Item::as_array_of_tables).into_iter().flatten()
    }

    /// Returns the list, which is made if there is none.
    pub fn list_mut(&mut self, kind: &'static str) -> Result<&mut ArrayOfTables> {
        let item =
            self.document.entry(kind).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        item.as_array_of_tables_mut().ok_or(EditError::Form { place: kind.to_owned() })
    }

    /// Returns the names in the rows of a table, by column.
    pub fn rows(kind: &str, table: &Table) -> Vec<Vec<String>> {
        let of = |key: &&str| word(table, key).map(Names::of);
        let names: Vec<Option<Names<'_>>> = columns(kind).iter().map(of).collect();
        let count = names.first().and_then(Option::as_ref).map_or(0, |names| names.count);
        let name = |names: &Option<Names<'_>>, row: usize| {
            names.as_ref().map_or_else(String::new, |it| it.name(row * it.count / count.max(1)))
        };
        (0..count).map(|row| names.iter().map(|names| name(names, row)).collect()).collect()
    }

    /// Returns every row of a list, with its table: a node, a link, or a pair.
    pub fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (Vec<String>, &'a Table)> {
        self.list(kind)
            .flat_map(move |table| Self::rows(kind, table).into_iter().map(move |it| (it, table)))
    }

    /// Returns the kind of a node and its table.
    pub fn node(&self, name: &str) -> Result<(&'static str, &Table)> {
        let found = NODES.into_iter().find_map(|kind| {
            let mut all = self.all(kind);
            all.find(|(row, _)| row[0] == name).map(|(_, table)| (kind, table))
        });
        found.ok_or_else(|| EditError::Unknown { what: "node", name: name.to_owned() })
    }

    /// Returns all names of nodes.
    pub fn names(&self) -> BTreeSet<String> {
        NODES.iter().flat_map(|kind| self.all(kind)).map(|(mut row, _)| row.remove(0)).collect()
    }

    /// Returns the node above each node.
    pub fn above(&self) -> BTreeMap<String, String> {
        self.all("link").map(|(mut row, _)| (row.remove(0), row.swap_remove(0))).collect()
    }

    /// Returns a node and all that is below it.
    pub fn below(&self, node: &str) -> BTreeSet<String> {
        let mut below: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (lower, upper) in self.above() {
            below.entry(upper).or_default().push(lower);
        }
        let (mut found, mut next) = (BTreeSet::new(), vec![node.to_owned()]);
        while let Some(name) = next.pop() {
            next.extend(below.remove(&name).unwrap_or_default());
            found.insert(name);
        }
        found
    }

    /// Parts a list anew: ranges whose rows do not become the same are divided. Comments above a
    /// table stay at the first of its pieces.
    pub fn divide(&mut self, kind: &str, of: impl Fn(&[String]) -> Row) {
        let Some(list) = self.document.get_mut(kind).and_then(Item::as_array_of_tables_mut) else {
            return;
        };
        let mut tables = ArrayOfTables::new();
        for table in list.iter() {
            let rows = Self::rows(kind, table);
            if rows.iter().all(|row| of(row) == Row::Kept) || rows.is_empty() {
                tables.push(table.clone());
                continue;
            }
            // Nodes that share their upper end among ranges: one table for each upper end.
            let is_shared = |column: &&str| {
                let count = word(table, column).map_or(1, |it| Names::of(it).count);
                count > 1 && count < rows.len()
            };
            let shared = columns(kind).iter().position(is_shared);
            let is_run = |one: &(usize, &Vec<String>), other: &(usize, &Vec<String>)| {
                of(one.1) == of(other.1)
                    && of(one.1) != Row::Alone
                    && shared.is_none_or(|column| one.1[column] == other.1[column])
            };
            let numbered: Vec<(usize, &Vec<String>)> = rows.iter().enumerate().collect();
            let mut is_first = true;
            for run in numbered.chunk_by(is_run).filter(|run| of(run[0].1) != Row::Gone) {
                let mut own = if is_first { table.clone() } else { further(table) };
                is_first = false;
                for column in columns(kind) {
                    let Some(names) = word(table, column).map(Names::of) else { continue };
                    let text = match names.count == rows.len() {
                        true => names.word(run[0].0, run.len()),
                        false => names.name(run[0].0 * names.count / rows.len()),
                    };
                    put(&mut own, column, &quoted(&text));
                }
                tables.push(own);
            }
        }
        if tables.is_empty() {
            self.document.remove(kind);
        } else {
            *list = tables;
        }
    }

    /// Returns the table of one node, or of the link above it, which gets one of its own if it was
    /// in a range.
    pub fn own(&mut self, kind: &'static str, name: &str) -> Result<&mut Table> {
        self.divide(kind, |row| if row[0] == name { Row::Alone } else { Row::Kept });
        let what = if kind == "link" { "link above" } else { kind };
        let key = columns(kind)[0];
        let found = self.document.get_mut(kind).and_then(Item::as_array_of_tables_mut);
        let found = found.and_then(|list| list.iter_mut().find(|it| word(it, key) == Some(name)));
        found.ok_or_else(|| EditError::Unknown { what, name: name.to_owned() })
    }

    /// Returns the table of a path such as `part.v7.requester`, `endpoint.fpga1.requester` or
    /// `link.fpga1`; tables that are missing are made.
    pub fn table(&mut self, path: &str) -> Result<&mut dyn TableLike> {
        let mut words = path.split('.');
        let (first, name) = (words.next().unwrap_or_default(), words.next());
        let kind = NODES.into_iter().chain(["link"]).find(|kind| *kind == first);
        let mut table: &mut dyn TableLike = match (kind, name) {
            (Some(kind), Some(name)) => self.own(kind, name)?,
            _ => {
                words = path.split('.');
                self.document.as_table_mut()
            }
        };
        for word in words {
            let item = table.entry(word).or_insert_with(toml_edit::table);
            let found = item.as_table_like_mut();
            table = found.ok_or_else(|| EditError::Form { place: path.to_owned() })?;
        }
        Ok(table)
    }

    /// Removes tables without a key at the end of a path that was left empty.
    pub fn remove_empty(&mut self, path: &str) -> Result<()> {
        let Some((outer, last)) = path.rsplit_once('.') else { return Ok(()) };
        // Tables of parts and nodes stay.
        if outer.split('.').count() < 2 {
            return Ok(());
        }
        let table = self.table(outer)?;
        if table.get(last).and_then(Item::as_table_like).is_some_and(TableLike::is_empty) {
            table.remove(last);
        }
        Ok(())
    }

    /// Gives a node another name, wherever it is named.
    pub fn rename(&mut self, kind: &'static str, node: &str, name: &str) -> Result<()> {
        put(self.own(kind, node)?, "name", &quoted(name));
        for (kind, columns) in &COLUMNS[NODES.len()..] {
            self.replace(kind, &columns[..2], node, name);
            let names_it = |row: &[String]| row[..2].iter().any(|word| word == node);
            self.divide(kind, |row| if names_it(row) { Row::Alone } else { Row::Kept });
            self.replace(kind, &columns[..2], node, name);
        }
        Ok(())
    }

    /// Replaces a name in the columns of a list, but for those in ranges.
    fn replace(&mut self, kind: &str, columns: &[&str], node: &str, name: &str) {
        let list = self.document.get_mut(kind).and_then(Item::as_array_of_tables_mut);
        for table in list.into_iter().flat_map(ArrayOfTables::iter_mut) {
            for column in columns {
                if word(table, column) == Some(node) {
                    put(table, column, &quoted(name));
                }
            }
        }
    }
}

/// Sets a key to a value that is written as TOML. Its comment stays.
pub(super) fn put(table: &mut dyn TableLike, key: &str, text: &str) {
    // The texts are ours.
    let Ok(mut value) = text.parse::<Value>() else { return };
    let before = table.get(key).and_then(Item::as_value);
    *value.decor_mut() = before.map_or_else(|| Decor::new(" ", ""), |it| it.decor().clone());
    match table.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => drop(table.insert(key, Item::Value(value))),
    }
}
