// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab check`: what it warns of, and what it only notes; `lab keys` and `lab schema`.

use serde_json::Value;

use crate::run::{changed_lab, folder, json_of, run, stdout_of};

#[test]
fn slow_datapath_is_warned_of() {
    let path = changed_lab(
        "slow_datapath_is_warned_of",
        "minimal",
        &[("datapath_bytes = { value = 32,", "datapath_bytes = { value = 8,")],
    );
    // 8 B each 4 ns are 2 GB/s; the link carries 256 B in 276 B of its 3.93 GB/s.
    let sentence = "warning: the datapath of card0, 8 B each 4 ns, carries 2000.0 MB/s of payload \
                    in TLPs of 256 B, and its link, Gen3 x4, 3642.7 MB/s";
    let page = stdout_of(&format!("lab check {path}"));
    assert!(page.contains("lab minimal can be built, with 1 warning: 1 host"), "{page}");
    assert!(page.contains(sentence), "{page}");
    let json = json_of(&format!("lab check {path} --json"));
    let warnings = json["checked"][0]["warnings"].as_array().unwrap();
    assert_eq!((warnings.len(), &warnings[0]["kind"]), (1, &"datapath".into()));
    assert_eq!(warnings[0]["nodes"], serde_json::json!(["card0"]));
}

#[test]
fn shipped_labs_are_without_warnings() {
    for lab in json_of("lab list --json")["labs"].as_array().unwrap() {
        let name = lab["name"].as_str().unwrap();
        let path = changed_lab("shipped_labs_are_without_warnings", name, &[]);
        let json = json_of(&format!("lab check {path} --json"));
        for checked in json["checked"].as_array().unwrap() {
            assert_eq!(checked["warnings"], Value::Array(Vec::new()), "{name}");
            let notes = checked["notes"].as_array().unwrap();
            assert_eq!(!notes.is_empty(), name == "rosta", "{name}: {notes:?}");
        }
        let page = stdout_of(&format!("lab check {path}"));
        assert!(!page.contains("warning: "), "{page}");
    }
}

#[test]
fn links_in_flit_mode_are_noted() {
    let changes = [
        ("max_generation = { value = 3", "max_generation = { value = 6"),
        ("\ngeneration = { value = 3", "\ngeneration = { value = 6"),
        ("datapath_bytes = { value = 32,", "datapath_bytes = { value = 256,"),
    ];
    let path = changed_lab("links_in_flit_mode_are_noted", "minimal", &changes);
    let page = stdout_of(&format!("lab check {path}"));
    assert!(page.contains("lab minimal is fine"), "{page}");
    let sentence = "note: the link of card0 runs in FLIT mode: its rate is modelled (236 of 256 \
                    bytes of a FLIT carry TLPs";
    assert!(page.contains(sentence), "{page}");
    // 8 GB/s x 4 x 236/256, less SKP, x 256/268.
    let page = stdout_of(&format!("topo {path}"));
    assert!(page.contains("Gen6 x4") && page.contains("28099.2"), "{page}");
}

#[test]
fn shared_uplinks_and_forbidden_peers_are_noted() {
    let path = changed_lab("shared_uplinks_are_noted", "rosta", &[]);
    let page = stdout_of(&format!("lab check {path}"));
    let sentence = "note: the 4 links below rc47a and 1 more carry 8000.0 MB/s together, and its \
                    link up, Gen3 x4, 3938.5 MB/s";
    assert!(page.contains(sentence), "{page}");
    let cards = [
        ("name = \"card0\"", "name = \"card{0..1}\""),
        ("lower = \"card0\"", "lower = \"card{0..1}\""),
    ];
    let path = changed_lab("forbidden_peers_are_noted", "minimal", &cards);
    let sentence = "note: host0 forbids peer-to-peer between its root ports \
                    (part.host.peer_to_peer.allowed is false), so that these do not reach each \
                    other: card0 | card1";
    let page = stdout_of(&format!("lab check {path}"));
    assert!(page.contains(sentence), "{page}");
    assert!(page.contains("lab minimal is fine"), "{page}");
    let page = stdout_of(&format!("topo {path}"));
    assert_eq!(page.matches(sentence).count(), 1, "{page}");
    assert!(!stdout_of("topo minimal").contains("forbids"));
}

#[test]
fn keys_and_schema_are_those_of_the_tree() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/lab-keys.md")).unwrap();
    assert_eq!(stdout_of("lab keys"), page);
    let schema = std::fs::read_to_string(root.join("labs/lab.schema.json")).unwrap();
    let printed = stdout_of("lab schema").parse::<Value>();
    assert_eq!(printed.unwrap(), schema.parse::<Value>().unwrap());
}

/// A listing becomes a lab that the other commands take, and that only this program replaces.
#[test]
fn a_listing_becomes_a_lab() {
    let folder = folder("a_listing_becomes_a_lab");
    let (dump, lab) = (folder.join("server.txt"), folder.join("server.toml"));
    let listing = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/server.txt");
    std::fs::copy(listing, &dump).unwrap();
    let import = format!("lab import {} -o {}", dump.display(), lab.display());
    for _ in 0..2 {
        let page = stdout_of(&import);
        assert!(page.contains("nic0      0000:1b:00.0"), "{page}");
        assert!(page.contains("Gen3 x8 of Gen3 x16"), "{page}");
        assert!(page.contains("0000:1b:00.1: left out: a further function"), "{page}");
        assert!(page.contains("nvidia-ampere      NVIDIA GPU of the Ampere"), "{page}");
        assert!(page.contains("0000:19:00.0, 0000:1a:00.0"), "{page}");
    }
    let json = json_of(&format!("{import} --json"));
    assert_eq!(json["endpoints"][3]["name"], "nvme0");
    assert_eq!(json["gaps"].as_array().unwrap().len(), 4);
    assert_eq!(json["parts"][0]["part"], "intel-ice-lake-sp");
    let text = std::fs::read_to_string(&lab).unwrap();
    assert_eq!(stdout_of(&format!("lab import {}", dump.display())), text);
    let checked = stdout_of(&format!("lab check {}", lab.display()));
    assert!(checked.contains("is fine: 1 host, 5 links"), "{checked}");
    // Without its ranges, so that the matrix runs once.
    let known = text.lines().map(|line| match line.split_once(", low = ") {
        Some((value, rest)) => {
            format!("{value}, source{}\n", rest.split_once(", source").unwrap().1)
        }
        None => format!("{line}\n"),
    });
    std::fs::write(&lab, known.collect::<String>()).unwrap();
    let matrix = format!("topo {} --matrix", lab.display());
    let page = stdout_of(&matrix);
    // The drive is at the other NUMA node.
    let rows: Vec<Vec<&str>> = page.lines().map(|row| row.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["gpu0", "x", "PIX", "PIX", "SYS", "MEM", "SYS"]), "{page}");
    let matrix = json_of(&format!("{matrix} --json"));
    let pairs = matrix["pairs"].as_array().unwrap();
    let pair = |from: &str, to: &str| {
        let found = pairs.iter().find(|pair| pair["from"] == from && pair["to"] == to);
        found.unwrap_or_else(|| panic!("no {from} to {to}"))
    };
    let rate =
        |from: &str, to: &str| pair(from, to)["one_way_bytes_per_second"].as_f64().unwrap() / 1e9;
    // Gen4 x16 carries 31.4 GB/s less SKP; 256 of 280 B of a TLP are payload above 4 GiB.
    assert!((28.5..28.75).contains(&rate("gpu0", "gpu1")), "{}", rate("gpu0", "gpu1"));
    // The drive's root port takes 128 B, and its link is Gen3 x4.
    assert!((3.35..3.4).contains(&rate("gpu0", "nvme0")), "{}", rate("gpu0", "nvme0"));
    assert_eq!(pair("gpu0", "nvme0")["way"], "sockets");
    assert!(pair("gpu0", "host.numa0")["read_latency_range_ns"].is_null());
    assert!(pairs.iter().all(|pair| pair["problem"].is_null()), "{matrix}");
    assert!(pair("host.numa0", "gpu0")["read_latency_ns"].is_null());
    // What nobody publishes is a range, and so is what depends on it.
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/nccl.xml");
    let small = folder.join("nccl.toml");
    stdout_of(&format!("lab import {topology} -o {}", small.display()));
    let page = stdout_of(&format!("topo {} --matrix", small.display()));
    assert!(page.contains("gpu0     x   PIX   MEM"), "{page}");
    let last = page.lines().rfind(|line| line.starts_with("gpu0 ")).unwrap();
    let (typical, range) = last.rsplit_once(" (").unwrap_or_else(|| panic!("{page}"));
    let number = |text: &str| text.trim_end_matches(')').parse::<f64>().unwrap();
    let (low, high) = range.split_once('-').unwrap();
    let typical = number(typical.rsplit(' ').next().unwrap());
    assert!(number(low) < typical && typical < number(high), "{last}");
    std::fs::write(&lab, "mine").unwrap();
    let error = run(&import).stderr;
    assert!(error.contains("is not a lab file that crosslane has written"), "{error}");
    let error = run(&format!("lab import {}", lab.display())).stderr;
    assert!(error.contains("neither a listing of `lspci -vvv`"), "{error}");
}
