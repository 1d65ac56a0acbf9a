// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arbitrary bytes as dumps: a sentence, or a machine whose lab can be read.

use std::path::Path;

use crosslane_lab::Lab;
use crosslane_twin::{export_machine, read, read_text};

use crate::LIBRARY;
use crate::dumps::SERVER;
use crate::places::{LSTOPO, LSTOPO_V, TOPO, TREE};

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
    bolero::check!().for_each(|bytes: &[u8]| try_text(bytes));
}

/// An edit: a line, what to do with it, and another line or a length.
type Edit = (u16, u8, u8);

/// Returns a text with some lines replaced, doubled, left out or cut.
fn edited(text: &str, edits: &[Edit]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut edited = lines.clone();
    for &(place, kind, other) in edits.iter().take(16) {
        let place = usize::from(place) % edited.len();
        let other = usize::from(other) % lines.len().max(64);
        let line = lines[other % lines.len()];
        match kind % 4 {
            0 => edited[place] = line,
            1 => edited[place] = "",
            2 => edited[place] = &edited[place][..edited[place].len().min(other)],
            _ => edited.insert(place, line),
        }
    }
    edited.join("\n")
}

#[test]
fn fuzz_edited_listings() {
    bolero::check!().with_type::<Vec<Edit>>().for_each(|edits| {
        try_text(edited(SERVER, edits).as_bytes());
    });
}

#[test]
fn fuzz_trees() {
    bolero::check!().for_each(|bytes: &[u8]| try_text(&[b"-[0000:00]-", bytes].concat()));
}

#[test]
fn fuzz_topologies_in_words() {
    bolero::check!().for_each(|bytes: &[u8]| try_text(&[b"HostBridge\n", bytes].concat()));
}

#[test]
fn fuzz_matrices() {
    bolero::check!()
        .for_each(|bytes: &[u8]| try_text(&[b"GPU0 GPU1 NIC0 CPU Affinity\n", bytes].concat()));
}

/// Each dump of places, and all of them in one text, with some lines changed.
#[test]
fn fuzz_edited_places() {
    let all = [TREE, LSTOPO, LSTOPO_V, TOPO].concat();
    bolero::check!().with_type::<(u8, Vec<Edit>)>().for_each(|(which, edits)| {
        let text = [TREE, LSTOPO, LSTOPO_V, TOPO, &all][usize::from(*which) % 5];
        try_text(edited(text, edits).as_bytes());
    });
}

#[test]
fn fuzz_topologies() {
    bolero::check!().for_each(|bytes: &[u8]| {
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
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut whole = bytes.to_vec();
        whole.resize(whole.len().max(512), 0);
        whole[257..262].copy_from_slice(b"ustar");
        std::fs::write(&file, &whole).expect("a file for tests");
        if let Ok(machine) = read(std::slice::from_ref(&file)) {
            let _ = export_machine(&machine, "twin", &LIBRARY);
        }
    });
}
