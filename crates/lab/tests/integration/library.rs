// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library of parts: the program's own, and files with one fault each.

use std::collections::BTreeMap;

use crosslane_lab::file::library::parts_of;
use crosslane_lab::file::parts::PartKind;
use crosslane_lab::{Lab, LibraryConstant, LibraryPart, Match, library};

fn parts() -> Vec<LibraryPart> {
    library().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_file_of_the_library_is_in_the_program() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/parts");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        names.extend(parts_of("file", &text).unwrap().into_iter().map(|part| part.name));
    }
    let mut own: Vec<String> = parts().into_iter().map(|part| part.name).collect();
    names.sort();
    own.sort();
    assert_eq!(names, own);
    own.dedup();
    assert_eq!(names, own, "a name twice");
}

#[test]
fn no_device_is_matched_by_two_parts() {
    let mut known: BTreeMap<(PartWord, u32), String> = BTreeMap::new();
    for part in parts() {
        for found in &part.matches {
            let ids: Vec<u32> = match found {
                Match::Devices { vendor, devices } => {
                    { devices.clone().map(|device| u32::from(*vendor) << 16 | u32::from(device)) }
                        .collect()
                }
                Match::Class(class) => vec![u32::from(*class)],
            };
            for id in ids {
                // A class may be one of switches and one of endpoints; no ID is both.
                let kind = if id >> 16 == 0 { part.kind.word() } else { "" };
                let other = known.insert((kind, id), part.name.clone());
                assert_eq!(other, None, "{id:08x} is {} too", part.name);
            }
        }
    }
    assert!(known.len() > 5000, "{}", known.len());
}

type PartWord = &'static str;

#[test]
fn one_part_of_each_kind_stands_for_all_others() {
    for kind in [PartKind::RootComplex, PartKind::Switch, PartKind::Endpoint] {
        let parts = parts();
        let general = parts.iter().filter(|part| part.kind == kind && part.matches.is_empty());
        assert_eq!(general.count(), 1, "{}", kind.word());
    }
}

/// A lab with one of each kind, of which one is the part.
fn lab_of(part: &LibraryPart, all: &[LibraryPart]) -> String {
    let mut text = "[lab]\nname = \"one\"\nsummary = \"One part.\"\n".to_owned();
    for (kind, name) in [
        (PartKind::RootComplex, "host"),
        (PartKind::Switch, "switch"),
        (PartKind::Endpoint, "card"),
    ] {
        let general = all.iter().find(|other| other.kind == kind && other.matches.is_empty());
        let chosen = if part.kind == kind { part } else { general.unwrap() };
        let mut tables: BTreeMap<&str, String> = BTreeMap::new();
        for LibraryConstant { table, constant, .. } in &chosen.constants {
            let line = format!(
                "{} = {{ {}, source = \"{}: {}\" }}\n",
                constant.key,
                constant.written(),
                constant.provenance,
                constant.source
            );
            tables.entry(table).or_default().push_str(&line);
        }
        let own = tables.remove("").unwrap();
        text += &format!("[part.{name}]\nkind = \"{}\"\n{own}", kind.word());
        for (table, lines) in tables {
            text += &format!("[part.{name}.{table}]\n{lines}");
        }
    }
    text + "[part.link]\nkind = \"link\"\n\
            generation = { value = 1, source = \"assumption: all have it\" }\n\
            width = { value = 1, source = \"assumption: all have it\" }\n\
            flight_ns = { value = 1, source = \"assumption: any\" }\n\
            [[host]]\nname = \"host\"\npart = \"host\"\n\
            buffers = { value = \"below-4-gib\", source = \"assumption: any\" }\n\
            [[switch]]\nname = \"switch\"\npart = \"switch\"\n\
            [[endpoint]]\nname = \"card\"\npart = \"card\"\n\
            [[link]]\nupper = \"host\"\nlower = \"switch\"\npart = \"link\"\n\
            [[link]]\nupper = \"switch\"\nlower = \"card\"\npart = \"link\"\n"
}

#[test]
fn every_part_builds_a_lab_at_both_ends_too() {
    let all = parts();
    for part in &all {
        let text = lab_of(part, &all);
        let of_text = || {
            let lab = Lab::from_text(&part.name, &text)?;
            lab.build(1)?;
            lab.extremes()?.into_iter().flatten().try_for_each(|lab| lab.build(1).map(drop))
        };
        of_text().unwrap_or_else(|error| panic!("{error}"));
        // Texts are pasted into lab files.
        let pasted = part.constants.iter().map(|found| &found.constant.source);
        for words in pasted.chain([&part.summary]) {
            assert!(!words.contains(['"', '\\', '@']), "{}: {words}", part.name);
        }
    }
}

/// A part has the constants of the one that it is like, and its own in their place.
#[test]
fn a_part_is_like_another() {
    let parts = parts();
    let values = |name: &str, key: &str| {
        let part = parts.iter().find(|part| part.name == name).unwrap();
        let found: Vec<_> = part.constants.iter().filter(|it| it.constant.key == key).collect();
        assert_eq!(found.len(), 1, "{name} {key}");
        let LibraryConstant { part, table, constant } = found[0];
        (part.clone(), table.clone(), constant.written())
    };
    let [own, like] = ["intel-haswell-ep", "intel-broadwell-ep"];
    assert_eq!(values(own, "read_latency_ns").0, own);
    assert_eq!(values(like, "read_latency_ns").0, like);
    assert_ne!(values(own, "read_latency_ns").2, values(like, "read_latency_ns").2);
    assert_eq!(values(own, "completion_cut"), values(like, "completion_cut"));
    assert_eq!(values(like, "latency_ns").1, "peer_to_peer");
    assert_eq!(values(like, "memory_bytes").0, "root-complex");
    assert_eq!(values(like, "memory_bytes").1, "");
}

#[test]
fn a_fault_of_a_library_is_named_with_its_place() {
    const GOOD: &str = "\
[part.a]
kind = \"switch\"
summary = \"A switch.\"
matches = [\"10b5:8747\", \"10b5:8748-8749\", \"class 0604\"]
identity = { value = \"10b5:8747\", source = \"assumption: any\" }
latency_ns = { value = 100, low = 90, high = 150, source = \"data sheet: any\" }
forwarding = { value = \"cut-through\", source = \"assumption: any\" }
[part.a.port]
max_generation = { value = 3, source = \"assumption: any\" }
max_width = { value = 16, source = \"assumption: any\" }
max_payload_bytes = { value = 512, source = \"assumption: any\" }
posted_headers = { value = 8, source = \"assumption: any\" }
posted_data = { value = 64, source = \"assumption: any\" }
nonposted_headers = { value = 8, source = \"assumption: any\" }
nonposted_data = { value = 8, source = \"assumption: any\" }
completion_headers = { value = 8, source = \"assumption: any\" }
completion_data = { value = 64, source = \"assumption: any\" }
replay_buffer_bytes = { value = 4096, source = \"assumption: any\" }
ack_tlps = { value = 1, source = \"assumption: any\" }
update_fc_tlps = { value = 1, source = \"assumption: any\" }
[part.b]
kind = \"switch\"
like = \"a\"
summary = \"Another.\"
latency_ns = { value = 200, source = \"data sheet: any\" }
";
    let good = parts_of("good.toml", GOOD).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(good[0].matches.len(), 3);
    assert_eq!(good[1].matches, []);
    let changes = [
        ("10b5:8748-8749", "10b5:8749-8748"),
        ("10b5:8748-8749", "10b5:874"),
        ("class 0604", "bridge"),
        ("\"class 0604\"", "7"),
        ("matches = [", "matches = \"10b5:8747\" # ["),
        ("like = \"a\"", "like = \"aa\""),
        ("like = \"a\"", "like = \"b\""),
        ("[part.b]\nkind = \"switch\"", "[part.b]\nkind = \"endpoint\""),
        ("[part.b]\nkind = \"switch\"", "[part.b]\nkind = \"link\""),
        ("summary = \"Another.\"", ""),
        ("summary = \"Another.\"", "summary = \"Another.\"\nlanes = 4"),
        ("latency_ns = { value = 200,", "latency_ns = { value = 200, low = 300, high = 400,"),
        ("update_fc_tlps = ", "# "),
        ("[part.a]\n", "[lab]\nname = \"x\"\n[part.a]\n"),
    ];
    let errors = changes.map(|(from, to)| {
        assert_eq!(GOOD.matches(from).count(), 1, "{from}");
        let error = parts_of("bad.toml", &GOOD.replace(from, to)).unwrap_err();
        format!("{from:?} -> {to:?}\n    {error}\n")
    });
    insta::assert_snapshot!(errors.concat());
}
