// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to reads: the payloads of the completions in the trace against the table of every legal
//! answer, `labs/published/completion-split-cases.csv`, which was worked out by hand.

use crate::support::{self, log};

use std::collections::{BTreeMap, BTreeSet};

use crosslane_fabric::parameters::CompletionCut;
use crosslane_fabric::*;
use crosslane_pcie::units::BusAddress;
use log::Log;
use support::*;

const TABLE: &str = include_str!("../../../../labs/published/completion-split-cases.csv");

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

/// Completer of the reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Completer {
    Host,
    Endpoint,
}

/// Reads the same bytes many times and collects the answers.
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
    // One address and one read at a time, so completions in order of time belong together.
    flow.window_bytes = u64::from(length).next_multiple_of(64);
    flow.outstanding = 1;
    flow.operations = 600;
    stand.run(vec![flow]);
    let mut answers = Answers::new();
    let (mut answer, mut left) = (Vec::new(), length);
    for tlp in log.tlps(stand.direction(0, LinkDirection::Down)) {
        let payload = tlp.header.payload_bytes();
        // Each states the bytes left before it (PCIe 6.x 2.3.1.1).
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

/// Each cut rule gives one answer that is in the table: the shortest, the finest with completions
/// of one boundary, and one in between.
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

/// When shuffled, a completer eventually gives every legal answer, and no other.
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

/// A mixture has the completion sizes of its share, read for read, and the rate that they leave of
/// the link.
#[test]
fn a_share_in_single_units_has_the_sizes_and_the_rate_of_its_closed_form() {
    const READS: u64 = 4000;
    for (share, singles_in_100) in [(0.0, 0), (0.25, 25), (0.59, 59), (0.75, 75), (1.0, 100)] {
        let mut settings = Settings::ideal(rate(2, 8), 256);
        settings.completer.completion_cut = CompletionCut::Aligned;
        settings.completer.completion_single_share = share;
        settings.max_read_request = 512;
        let mut stand = direct(&settings);
        stand.fabric.set_dllps_free(true);
        let log = Log::of(&mut stand.fabric);
        let flow = stand.flow(0, FlowKind::Read, BusAddress(1 << 20), 512).times(READS).at_once(16);
        let report = stand.run_one(flow);
        let mut count = BTreeMap::new();
        for tlp in log.tlps(stand.direction(0, LinkDirection::Down)) {
            *count.entry(tlp.header.payload_bytes()).or_insert(0) += 1;
        }
        // Two completions of 256 B for each read. If 2^-32 does not divide the share, the last cut
        // may be missing.
        let long = READS * 2;
        let cut = long * singles_in_100 / 100;
        let seen = (count.remove(&64).unwrap_or(0), count.remove(&256).unwrap_or(0));
        assert!(count.is_empty(), "{share}: other sizes {count:?}");
        assert_eq!(seen.0 + 4 * seen.1, 4 * long, "{share}: all the bytes");
        assert!(seen.0.abs_diff(4 * cut) <= 4, "{share}: {seen:?}");
        let wire_bytes = 276.0 * (1.0 - share) + 4.0 * 84.0 * share;
        let expected = 4e9 * 256.0 / wire_bytes;
        assert_steady(&report, expected, 1e-3, share);
    }
}

#[test]
fn a_share_that_cannot_be_is_refused() {
    for share in [-0.1, 1.1, f64::NAN] {
        let mut settings = Settings::ideal(rate(2, 8), 256);
        settings.completer.completion_single_share = share;
        let mut builder = FabricBuilder::new(1);
        builder.root_complex("host", HOST, root_parameters(&settings));
        let error = builder.build().err().unwrap().to_string();
        let words = format!("{share} of the completions in single units; 0 to 1");
        assert!(error.ends_with(&words), "{error}");
    }
}

/// Short reads have completions of their own length.
#[test]
fn reads_up_to_a_length_are_answered_line_by_line() {
    for (bytes, expected) in [(256, vec![64; 4]), (512, vec![256; 2]), (192, vec![64; 3])] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.completer.short_read_bytes = 256;
        settings.completer.short_completion_bytes = 64;
        let mut stand = direct(&settings);
        let log = Log::of(&mut stand.fabric);
        let mut flow = stand.flow(0, FlowKind::Read, BusAddress(1 << 20), bytes);
        (flow.operations, flow.outstanding, flow.window_bytes) = (1, 1, 512);
        stand.run(vec![flow]);
        let tlps = log.tlps(stand.direction(0, LinkDirection::Down));
        let payloads: Vec<u32> = tlps.iter().map(|tlp| tlp.header.payload_bytes()).collect();
        assert_eq!(payloads, expected, "{bytes} B");
    }
}
