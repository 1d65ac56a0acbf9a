// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page that says which call of the Rust library is which in C and Python is complete, and its
//! names exist. Python's are compared by `crates/python/tests/test_languages.py`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::header::{crate_folder, declared};

/// Types whose public calls are all on the page, by their crates.
const TYPES: [(&str, &[&str]); 3] = [
    ("open", &["Session"]),
    (
        "driver",
        &[
            "Device", "User", "Channel", "ChannelOptions", "Buffer", "Peer", "PeerMemory", "Plan",
            "Window", "MemoryCard", "SlotSender", "SlotReceiver", "NetworkProcessor",
        ],
    ),
    ("bridge", &["Client", "FileClient", "LocalDma", "TransferOptions"]),
];
/// Crates that have the types of the page.
const CRATES: [&str; 7] = ["open", "driver", "bridge", "host", "network", "lab", "device"];

/// Rows of the page's tables: the cells of Rust, C and Python.
fn rows() -> Vec<[String; 3]> {
    let path = crate_folder().join("../../docs/languages.md");
    let page = fs::read_to_string(path).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("three cells: {cells:?}"))
    });
    rows.filter(|[rust, ..]: &[String; 3]| rust != "Rust" && !rust.starts_with("---")).collect()
}

/// Names in backticks of a cell.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

/// Names within the blocks of types in a crate, as `Type::name`: functions, variants and setters.
/// Public calls of implementations that are no trait's come with `true`.
fn names(of: &str) -> BTreeSet<(String, bool)> {
    let mut names = BTreeSet::new();
    for path in sources(&crate_folder().join("..").join(of).join("src")) {
        let text = fs::read_to_string(&path).expect("a source");
        let mut block: Option<(String, bool)> = None;
        for line in text.lines() {
            if line.starts_with('}') {
                block = None;
            }
            if let Some(found) = begins(line) {
                block = Some(found);
            }
            let Some((of, is_own)) = &block else { continue };
            let Some(inner) = line.strip_prefix("    ") else { continue };
            let is_setter = inner.starts_with("with_");
            let word = match inner.split_once("fn ") {
                Some((before, rest)) if !before.contains("//") => rest,
                _ => inner,
            };
            let end = word.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let name = &word[..end.unwrap_or(word.len())];
            let is_public = is_setter || inner.starts_with("pub ") && inner.contains("fn ");
            names.insert((format!("{of}::{name}"), *is_own && is_public));
        }
    }
    names
}

/// The type whose block a line begins, and whether its public calls are the type's own.
fn begins(line: &str) -> Option<(String, bool)> {
    let is_own = line.starts_with("impl") && !line.contains(" for ");
    let setters = line.strip_prefix("setters!(");
    let rest = match setters {
        Some(rest) => rest,
        None => {
            let opens = ["impl", "pub trait ", "pub enum "];
            let rest = opens.iter().find_map(|word| line.strip_prefix(word))?;
            let rest = rest.rsplit_once(" for ").map_or(rest, |(_, of)| of);
            // Parameters of an implementation come before its type.
            match rest.strip_prefix('<') {
                Some(inner) => inner.split_once("> ")?.1,
                None => rest,
            }
        }
    };
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_alphanumeric())?;
    Some((rest[..end].to_owned(), is_own || setters.is_some()))
}

#[test]
fn every_call_of_the_header_is_on_the_page() {
    let header = fs::read_to_string(crate_folder().join("include/crosslane.h")).expect("a header");
    let mut missing: BTreeSet<String> = declared().into_iter().collect();
    let calls = missing.clone();
    for [_, c, _] in rows() {
        for name in code(&c) {
            missing.remove(name);
            let is_there = match name.split_once('.') {
                Some((structure, member)) => {
                    let body = header.split_once(&format!("typedef struct {structure} {{"));
                    let body = body.and_then(|(_, rest)| rest.split_once("\n}"));
                    body.is_some_and(|(body, _)| body.contains(&format!("{member};")))
                }
                None if name.starts_with("crosslane_") => calls.contains(name),
                None => header.contains(name),
            };
            assert!(is_there, "docs/languages.md: {name} is not in crosslane.h");
        }
    }
    assert!(missing.is_empty(), "docs/languages.md has no row for {missing:?}");
}

#[test]
fn every_call_of_the_crates_is_on_the_page() {
    let known = CRATES.map(|name| (name, names(name)));
    let rows = rows();
    let on_page: BTreeSet<&str> = rows.iter().flat_map(|[rust, ..]| code(rust)).collect();
    let is_known =
        |name: &str| known.iter().any(|(_, names)| names.iter().any(|(it, _)| it == name));
    for name in
        on_page.iter().filter(|name| name.contains("::") && !name.starts_with(char::is_lowercase))
    {
        assert!(is_known(name), "docs/languages.md: the crates have no {name}");
    }
    for (of, types) in TYPES {
        let (_, names) = known.iter().find(|(name, _)| *name == of).expect("a crate of the list");
        for kind in types {
            let prefix = format!("{kind}::");
            let mut own =
                names.iter().filter(|(name, is_own)| *is_own && name.starts_with(&prefix));
            assert!(own.clone().count() > 1, "{of} has no {kind}");
            let missing = own.find(|(name, _)| !on_page.contains(name.as_str()));
            assert!(missing.is_none(), "docs/languages.md has no row for {missing:?} of {of}");
        }
    }
    // A row that is changed is found.
    assert!(!is_known("Channel::post_unheard") && is_known("Target::CardToCard"));
}
