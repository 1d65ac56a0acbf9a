// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How reads are answered: the payloads of the completions in the trace against the table of
//! every legal answer, `labs/published/completion-split-cases.csv`, which was worked out by hand.

#[path = "support/log.rs"]
mod log;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use crosslane_fabric::parameters::CompletionCut;
use crosslane_fabric::*;
use crosslane_pcie::units::BusAddress;
use log::Log;
use support::*;

const TABLE: &str = include_str!("../../../labs/published/completion-split-cases.csv");

/// Start address, length and read completion boundary of a read.
type Read = (u64, u32, u32);
type Answers = BTreeSet<Vec<u32>>;

/// The legal answers of each read of the table.
fn table() -> BTreeMap<Read, Answers> {
    let mut cases: BTreeMap<Read, Answers> = BTreeMap::new();
    for line in TABLE.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let address = u64::from_str_radix(fields[0].trim_start_matches("0x"), 16).unwrap();
        let (length, boundary) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let answer: Vec<u32> = fields[3].split('+').map(|part| part.parse().unwrap()).collect();
        assert_eq!(answer.len(), fields[4].parse().unwrap());
        assert!(cases.entry((address, length, boundary)).or_default().insert(answer));
    }
    assert_eq!(cases.len(), 4);
    cases
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Completer {
    Host,
    Endpoint,
}

/// Reads the same bytes many times and collects how they were answered.
fn observed(read: Read, completer: Completer, cut: Option<(CompletionCut, u32)>) -> Answers {
    let (address, length, boundary) = read;
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.completer.read_completion_boundary_bytes = boundary;
    if let Some((cut, bytes)) = cut {
        settings.completer.completion_cut = cut;
        settings.completer.completion_bytes = bytes;
    }
    let mut stand = one_switch(&settings, 2);
    stand.fabric.set_shuffle(cut.is_none());
    let log = Log::of(&mut stand.fabric);
    let base = match completer {
        Completer::Host => 1 << 20,
        Completer::Endpoint => stand.bar(1).0,
    };
    let mut flow = stand.flow(0, FlowKind::Read, BusAddress(base + address), length.into());
    // One place, one read at a time: completions in the order of time belong together.
    flow.window_bytes = u64::from(length).next_multiple_of(64);
    flow.outstanding = 1;
    flow.operations = 600;
    stand.run(vec![flow]);
    let mut answers = Answers::new();
    let (mut answer, mut left) = (Vec::new(), length);
    for tlp in log.tlps(stand.direction(0, Way::Down)) {
        let payload = tlp.header.payload_bytes();
        // Each says how many bytes were to come before it (PCIe 6.x 2.3.1.1).
        assert_eq!(u32::from(tlp.header.byte_count), left);
        answer.push(payload);
        left -= payload;
        if left == 0 {
            answers.insert(std::mem::take(&mut answer));
            left = length;
        }
    }
    assert!(answer.is_empty() && !answers.is_empty());
    answers
}

/// Each way to cut gives one answer, and that is in the table: the shortest one, the finest one
/// with completions of one boundary, and something in between.
#[test]
fn every_cut_is_legal() {
    for (read, legal) in table() {
        let (_, _, boundary) = read;
        let shortest = legal.iter().min_by_key(|answer| answer.len()).unwrap();
        let finest = legal.iter().max_by_key(|answer| answer.len()).unwrap();
        let longest_cut = observed(read, Completer::Host, Some((CompletionCut::Longest, 256)));
        assert_eq!(longest_cut, BTreeSet::from([shortest.clone()]));
        let aligned = observed(read, Completer::Host, Some((CompletionCut::Aligned, boundary)));
        assert_eq!(aligned, BTreeSet::from([finest.clone()]));
        for cut in [CompletionCut::Longest, CompletionCut::Aligned] {
            for bytes in [128, 256] {
                let answers = observed(read, Completer::Host, Some((cut, bytes)));
                assert!(answers.is_subset(&legal), "{read:?} {cut:?} {bytes}: {answers:?}");
                assert!(answers.iter().flatten().all(|payload| *payload <= bytes));
            }
        }
    }
}

/// Shuffled, a completer gives every legal answer sooner or later, and no other.
#[test]
fn shuffled_cuts_are_all_the_legal_ones() {
    for (read, legal) in table() {
        assert_eq!(observed(read, Completer::Host, None), legal, "{read:?}");
        // Endpoints have a boundary of 128 B.
        if read.2 == 128 {
            assert_eq!(observed(read, Completer::Endpoint, None), legal, "{read:?}");
        }
    }
}
