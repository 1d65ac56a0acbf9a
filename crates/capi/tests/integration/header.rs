// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The committed header is what cbindgen makes of the sources. `CROSSLANE_UPDATE_HEADER=1` writes
//! it (`make c-header`).

use std::fs;
use std::path::PathBuf;

/// Files of `src` in the order of the header.
const SOURCES: [&str; 20] = [
    "error", "session", "device", "buffer", "channel", "completions", "counters", "packets",
    "peer", "commands", "window", "slots", "memory_card", "plan", "why", "dma", "network",
    "bridge", "bridge_transfer", "bridge_server",
];

/// Most lines of the layer for C++.
const MOST_LAYER_LINES: usize = 250;

pub fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn generated() -> String {
    let folder = crate_folder();
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a valid file");
    let builder = SOURCES.iter().fold(cbindgen::Builder::new().with_config(config), |it, name| {
        it.with_src(folder.join("src").join(name).with_extension("rs"))
    });
    let mut header = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut header);
    for_c(&String::from_utf8(header).expect("text"))
}

/// Leaves out what is said to Rust: the sections on safety.
fn for_c(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in header.lines() {
        let line = line.trim_end();
        let is_comment = line.trim_start().starts_with("//");
        if line == "// # Safety" {
            is_safety = true;
            // The empty line above it.
            kept.pop();
        }
        is_safety &= is_comment;
        if !is_safety {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn committed_header_is_that_of_the_sources() {
    let (path, generated) = (crate_folder().join("include/crosslane.h"), generated());
    if std::env::var_os("CROSSLANE_UPDATE_HEADER").is_some() {
        fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "include/crosslane.h is stale: `make c-header` writes it anew");
}

#[test]
fn header_has_every_source() {
    let lib = fs::read_to_string(crate_folder().join("src/lib.rs")).expect("the crate's root");
    let has_functions = |module: &&str| {
        let path = crate_folder().join("src").join(module).with_extension("rs");
        fs::read_to_string(path).is_ok_and(|text| text.contains("#[unsafe(no_mangle)]"))
    };
    let modules = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let mut with_functions: Vec<&str> = modules.filter(has_functions).collect();
    let mut sources = SOURCES.to_vec();
    with_functions.sort_unstable();
    sources.sort_unstable();
    assert_eq!(with_functions, sources);
}

#[test]
fn cpp_layer_stays_small() {
    let layer = crate_folder().join("include/crosslane.hpp");
    let lines = fs::read_to_string(layer).expect("the layer").lines().count();
    assert!(lines <= MOST_LAYER_LINES, "{lines} lines: what C has needs no second name");
}

/// Functions that the header declares.
pub fn declared() -> Vec<String> {
    let text = fs::read_to_string(crate_folder().join("include/crosslane.h")).expect("a header");
    let mut names: Vec<String> = Vec::new();
    let code = text.lines().filter(|line| !line.starts_with([' ', '/', '#']));
    for line in code {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("crosslane_") {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names
}
