// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference page and the JSON Schema of lab files are those of the declared keys.
//! `tools/test_lab_schema.py` checks the shipped labs by that schema.

use std::path::Path;

use crosslane_lab::keys;
use crosslane_lab::shipped;

/// Compares a file of the tree with what it has to be, or writes it anew.
#[track_caller]
fn same(path: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("CROSSLANE_UPDATE_KEYS").is_some() {
        std::fs::write(&file, expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap();
    assert!(found == expected, "{path} is not that of the keys: make lab-keys writes it anew");
}

#[test]
fn the_reference_page_is_that_of_the_keys() {
    same("docs/lab-keys.md", &keys::page());
}

#[test]
fn the_schema_is_that_of_the_keys() {
    let schema = keys::schema();
    // A line for each table, so that a change shows where it is.
    let mut text = String::from("{\n");
    for (name, value) in schema.as_object().unwrap() {
        match value.as_object() {
            None => text += &format!("{name:?}: {value},\n"),
            Some(tables) => {
                let lines: Vec<_> =
                    tables.iter().map(|(name, table)| format!("{name:?}: {table}")).collect();
                text += &format!("{name:?}: {{\n{}\n}},\n", lines.join(",\n"));
            }
        }
    }
    same("labs/lab.schema.json", &format!("{}\n}}\n", text.trim_end_matches(",\n")));
}

#[test]
fn every_key_of_the_shipped_labs_is_on_the_page() {
    let page = keys::page();
    for lab in shipped() {
        for line in lab.text.lines() {
            let Some((key, _)) = line.split_once(" = {") else { continue };
            assert!(page.contains(&format!("| `{key}` |")), "{}: {key}", lab.name);
        }
    }
}
