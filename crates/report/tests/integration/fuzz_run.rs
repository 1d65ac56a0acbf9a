// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of the program with random changes: reading them gives an error, or a run with a page
//! and a comparison, never a panic.

use bolero::TypeGenerator;
use crosslane_report::runs::{Comparison, page, values};
use crosslane_results::Outcome;

/// A shortened outcome as the program prints it.
const BENCH: &str = r#"{"bench": "write", "lab": "minimal", "seed": 1, "version": "0.1.0",
  "scenarios": [{"bytes": 4096, "flows": [{"name": "card0 -> host", "bytes": 4096,
    "iterations": 2, "latency": {"min_ps": 1, "typical_ps": 2, "average_ps": 2, "p99_ps": 3,
    "max_ps": 3}, "application_bytes_per_second": 3e9, "hardware": {"bytes_per_second": 3.1e9},
    "ceiling": {"bytes_per_second": 3.6e9, "less_dllps_bytes_per_second": 3.5e9,
    "direction": "card0 -> host0.port0"}, "share_of_ceiling": 0.9}],
    "links": [{"direction": "card0 -> host0.port0", "bytes_per_second": 3e9,
    "ceiling_bytes_per_second": 3.5e9, "generation": 3, "width": 4}], "errors": [],
    "why_not_faster": {"figure": {"value": 3e9, "better": "higher"}, "shortened": null,
    "account": {"direction": "card0 -> host0.port0", "link": "Gen3 x4", "span_ps": 1000,
    "uses": [{"use": "payload", "share": 0.9}, {"use": "no_tag", "share": 0.1}],
    "iommus": [{"host": "host0", "iotlb_entries": 112, "walk_ps": 253000, "walks": 5,
    "requests": 4096, "misses": 1024, "queued_ps": 7, "waited_ps": 9, "walks_at_once": 1.5}]},
    "steps": [{"limits": [{"kind": "tags", "place": "card0", "words": "2 tags of card0",
    "lifted": "with 256"}], "value": 3.5e9, "gain": 0.16}], "trials": []}},
  {"bytes": 8192, "latency": {"name": "a -> b", "one_way": {"min_ps": 1, "typical_ps": 2,
    "average_ps": 2, "p99_ps": 3, "max_ps": 3}}}]}"#;
const REPRODUCTION: &str = r#"{"reproduction": "rosta", "seed": 1, "version": "0.1.0",
  "rows": [{"quantity": "limit", "conditions": "x4", "unit": "MiB/s", "published": 1612.0,
  "simulated": 1612.6, "error": 0.0004, "kind": "input"}]}"#;
const OVERHEAD: &str = r#"{"bench": "overhead", "device": "lab:kc705", "seed": 1,
  "version": "0.1.0", "rows": [{"what": "register read", "rounds": 2, "bytes": null,
  "bus_ps": 1500000, "machine_ps": 7}, {"what": "small write", "rounds": 2, "bytes": 64,
  "bus_ps": 2000000, "machine_ps": 9}]}"#;
const SWEEP: &str = r#"{"bench": "sweep", "lab": "kc705", "card": "kc705", "seed": 1,
  "version": "0.1.0", "rows": [{"way": "to-card", "width": 4, "size_bytes": 1024,
  "transfer_ns": 2000.0, "bytes_per_second": 512e6, "wrong_words": 0}, {"way": "to-card",
  "width": 4, "size_bytes": 2048, "transfer_ns": 3000.0, "bytes_per_second": 600e6}]}"#;
const BRIDGE: &str = r#"{"bench": "bridge", "where": "lab sbdt", "seed": 1, "version": "0.1.0",
  "overlap": [{"path": "put", "bytes": 8192, "naive_over_pipelined": 1.9, "bound": 2.0,
  "share": 0.95}], "transfers": [{"path": "put", "mode": "naive", "bytes": 8192, "clients": 2,
  "seconds": [0.003, 0.001, 0.002], "bytes_per_second": 4e6, "wrong_words": 0,
  "why_not_faster": "the DMA limits"}]}"#;
/// Most changes to one text.
const MOST_CHANGES: usize = 8;

/// One change to a text.
#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    /// Inserts a character.
    Character { at: u16, character: char },
    /// Replaces text up to the next field with a number.
    Number { at: u16, number: f64 },
    /// Removes some bytes.
    Remove { at: u16, bytes: u8 },
    /// Copies some bytes to another position.
    Copy { from: u16, bytes: u8, to: u16 },
}

fn boundary(text: &str, at: u16) -> usize {
    let mut at = usize::from(at) % (text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the bytes between two positions, in either order.
fn between(text: &str, one: u16, other: u16) -> std::ops::Range<usize> {
    let (one, other) = (boundary(text, one), boundary(text, other));
    one.min(other)..one.max(other)
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut text = text.to_owned();
    for change in changes.iter().take(MOST_CHANGES) {
        match change {
            Change::Character { at, character } => text.insert(boundary(&text, *at), *character),
            Change::Number { at, number } => {
                let at = boundary(&text, *at);
                let end = text[at..].find([',', '}']).map_or(text.len(), |end| at + end);
                text.replace_range(at..end, &number.to_string());
            }
            Change::Remove { at, bytes } => {
                let range = between(&text, *at, at.saturating_add((*bytes).into()));
                text.replace_range(range, "");
            }
            Change::Copy { from, bytes, to } => {
                let range = between(&text, *from, from.saturating_add((*bytes).into()));
                let piece = text[range].to_owned();
                text.insert_str(boundary(&text, *to), &piece);
            }
        }
    }
    text
}

fn look_at(text: &str) {
    let Ok(run) = Outcome::parse(text) else { return };
    let _ = page(&run, "a command");
    let _ = values(&run);
    let comparison = Comparison::of(run.clone(), run);
    assert!(comparison.result.only_first.is_empty() && comparison.result.only_second.is_empty());
    let _ = comparison.page("a command", ["one", "two"]);
}

/// Returns outcomes of each kind: in a lab, on cards, a reproduction, and those with rows.
fn printed() -> [String; 6] {
    let cards = r#""devices": ["vfio:0000:01:00.0"], "served": true"#;
    let on_cards = BENCH.replace(r#""lab": "minimal""#, cards);
    let [of_lab, reproduction, overhead, sweep, bridge] =
        [BENCH, REPRODUCTION, OVERHEAD, SWEEP, BRIDGE].map(str::to_owned);
    [of_lab, on_cards, reproduction, overhead, sweep, bridge]
}

#[test]
fn what_is_printed_can_be_read() {
    for text in printed() {
        Outcome::parse(&text).unwrap();
        look_at(&text);
    }
}

#[test]
fn fuzz_run() {
    let printed = printed();
    bolero::check!().with_type::<(u8, Vec<Change>)>().for_each(|(which, changes)| {
        look_at(&changed(&printed[usize::from(*which) % printed.len()], changes));
    });
}
