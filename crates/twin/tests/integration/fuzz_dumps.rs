// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arbitrary bytes as dumps: a sentence, or a machine whose lab can be read.

use std::path::Path;

use bolero::check;
use crosslane_lab::Lab;
use crosslane_twin::{export_machine, read, read_text};

use crate::LIBRARY;
use crate::dumps::SERVER;

/// Reads a text, and makes a lab of what it is.
fn try_text(bytes: &[u8]) {
    let Ok(machine) = read_text(Path::new("dump"), bytes) else { return };
    let Ok(exported) = export_machine(&machine, "twin", &LIBRARY) else { return };
    if let Err(error) = Lab::from_text("twin.toml", &exported.text) {
        panic!("{error}\n{}", exported.text);
    }
}

#[test]
fn fuzz_listings() {
    check!().for_each(|bytes: &[u8]| try_text(bytes));
}

/// A listing of a server with some lines replaced, doubled or left out.
#[test]
fn fuzz_edited_listings() {
    let lines: Vec<&str> = SERVER.lines().collect();
    check!().with_type::<Vec<(u16, u8, u8)>>().for_each(|edits| {
        let mut edited = lines.clone();
        for &(place, kind, other) in edits.iter().take(16) {
            let place = usize::from(place) % edited.len();
            let other = usize::from(other) % lines.len();
            match kind % 4 {
                0 => edited[place] = lines[other],
                1 => edited[place] = "",
                2 => edited[place] = &edited[place][..edited[place].len().min(other)],
                _ => edited.insert(place, lines[other]),
            }
        }
        try_text(edited.join("\n").as_bytes());
    });
}

#[test]
fn fuzz_topologies() {
    check!().for_each(|bytes: &[u8]| {
        for root in ["topology", "system"] {
            let inside = String::from_utf8_lossy(bytes);
            try_text(format!("<{root}>{inside}</{root}>").as_bytes());
        }
    });
}

#[test]
fn fuzz_archives() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz_archives");
    std::fs::create_dir_all(&folder).expect("a folder for tests");
    let file = folder.join("dump.tar");
    check!().for_each(|bytes: &[u8]| {
        let mut whole = bytes.to_vec();
        whole.resize(whole.len().max(512), 0);
        whole[257..262].copy_from_slice(b"ustar");
        std::fs::write(&file, &whole).expect("a file for tests");
        if let Ok(machine) = read(std::slice::from_ref(&file)) {
            let _ = export_machine(&machine, "twin", &LIBRARY);
        }
    });
}
