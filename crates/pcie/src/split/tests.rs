// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of splitting, against the published cases and by property.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PUBLISHED: &str = include_str!("../../../../labs/published/completion-split-cases.csv");

/// Start, length and boundary of a read.
type Read = (u64, u32, u32);

fn published() -> BTreeMap<Read, Vec<Vec<u32>>> {
    let mut cases: BTreeMap<Read, Vec<Vec<u32>>> = BTreeMap::new();
    for line in PUBLISHED.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let start = u64::from_str_radix(fields[0].trim_start_matches("0x"), 16).unwrap();
        let read = (start, fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let lengths: Vec<u32> = fields[3].split('+').map(|text| text.parse().unwrap()).collect();
        assert_eq!(lengths.len(), fields[4].parse::<usize>().unwrap(), "{line}");
        cases.entry(read).or_default().push(lengths);
    }
    cases
}

#[test]
fn published_cases_are_all_the_legal_ones() {
    let cases = published();
    assert_eq!(cases.values().map(Vec::len).sum::<usize>(), 26);
    for ((start, length, rcb), listed) in cases {
        let generated = all_legal_completions(BusAddress(start), length, rcb, 256);
        assert_eq!(generated.len(), listed.len(), "{length} bytes at {start:#x}");
        let generated: BTreeSet<_> = generated.into_iter().collect();
        assert_eq!(generated, listed.into_iter().collect(), "{length} bytes at {start:#x}");
    }
}

fn lengths(pieces: impl Iterator<Item = (BusAddress, u32)>) -> Vec<u32> {
    pieces.map(|(_, length)| length).collect()
}

#[test]
fn completions_of_the_published_reads() {
    let cut = |start, length, rcb, max| lengths(completions(BusAddress(start), length, rcb, max));
    assert_eq!(cut(0x20, 256, 64, 256), [256]);
    assert_eq!(cut(0x20, 256, 64, 128), [96, 128, 32]);
    assert_eq!(cut(0x20, 256, 64, 64), [32, 64, 64, 64, 32]);
    assert_eq!(cut(0x60, 200, 128, 128), [32, 128, 40]);
    assert_eq!(cut(0x60, 200, 128, 256), [200]);
    assert_eq!(cut(0x10, 200, 128, 128), [112, 88]);
    assert_eq!(cut(0x3c, 128, 64, 64), [4, 64, 60]);
    assert_eq!(cut(0x3c, 128, 64, 128), [128]);
}

#[test]
fn completions_in_aligned_pieces() {
    let cut =
        |start, length, rcb, max| lengths(completions_aligned(BusAddress(start), length, rcb, max));
    assert_eq!(cut(0x20, 256, 64, 64), [32, 64, 64, 64, 32]);
    assert_eq!(cut(0x20, 256, 64, 256), [224, 32]);
    assert_eq!(cut(0x20, 64, 64, 128), [64]);
    assert_eq!(cut(0x60, 64, 64, 128), [32, 32]);
}

#[test]
fn a_payload_counts_whole_double_words() {
    // 128 bytes at 0x3 touch 33 double words.
    assert_eq!(lengths(completions(BusAddress(3), 128, 64, 128)), [125, 3]);
    assert_eq!(lengths(completions(BusAddress(3), 125, 64, 128)), [125]);
    assert_eq!(lengths(requests(BusAddress(3), 256, 128)), [125, 128, 3]);
    assert!(!is_legal_completion_cut(BusAddress(3), 128, 64, 128, &[128]));
    assert!(is_legal_completion_cut(BusAddress(3), 128, 64, 256, &[128]));
}

#[test]
fn reads_and_transfers_of_nothing() {
    let one: Vec<_> = completions(BusAddress(0x40), 0, 64, 64).collect();
    assert_eq!(one, [(BusAddress(0x40), 0)]);
    assert!(is_legal_completion_cut(BusAddress(0x40), 0, 64, 64, &[0]));
    assert!(!is_legal_completion_cut(BusAddress(0x40), 0, 64, 64, &[]));
    assert!(!is_legal_completion_cut(BusAddress(0x40), 64, 64, 64, &[64, 0]));
    assert_eq!(requests(BusAddress(0x40), 0, 128).next(), None);
}

#[test]
fn requests_stay_within_pages() {
    let cut = |start, length, max| lengths(requests(BusAddress(start), length, max));
    assert_eq!(cut(0xf80, 512, 256), [128, 256, 128]);
    assert_eq!(cut(0x10, 512, 256), [256, 256]);
    assert_eq!(cut(0x10, 8192, 4096), [4080, 4096, 16]);
    // A limit that does not divide 4 KiB leaves a short piece at the end of each page.
    assert_eq!(cut(0, 8192, 3072), [3072, 1024, 3072, 1024]);
    assert_eq!(cut(u64::MAX - 63, 64, 128), [64]);
    let aligned = |start, length, max| lengths(requests_aligned(BusAddress(start), length, max));
    assert_eq!(aligned(0x10, 512, 256), [240, 256, 16]);
    assert_eq!(aligned(0xf81, 512, 256), [127, 256, 129]);
}

#[test]
#[should_panic(expected = "crosses a 4 KiB boundary")]
fn a_read_across_pages_is_a_programmer_error() {
    let _ = completions(BusAddress(0xfc0), 128, 64, 64);
}

#[test]
#[should_panic(expected = "run past the last address")]
fn a_transfer_past_the_last_address_is_a_programmer_error() {
    let _ = requests(BusAddress(u64::MAX - 62), 64, 128);
}

/// A legal read: start, length, boundary, and the most that one completion carries.
fn any_read() -> impl Strategy<Value = (BusAddress, u32, u32, u32)> {
    (any::<u32>(), 0_u64..4096, 1_u64..=4096, 0_u32..2, 0_u32..6).prop_map(
        |(page, offset, length, boundary, more)| {
            let rcb = 64 << boundary;
            let length = length.min(4096 - offset) as u32;
            (BusAddress(u64::from(page) * 4096 + offset), length, rcb, rcb << more)
        },
    )
}

proptest! {
    #[test]
    fn completions_are_legal_and_fewest((address, length, rcb, max) in any_read()) {
        let pieces: Vec<_> = completions(address, length, rcb, max).collect();
        let aligned: Vec<_> = completions_aligned(address, length, rcb, max).collect();
        for pieces in [&pieces, &aligned] {
            let mut at = address;
            for &(start, length) in pieces {
                prop_assert_eq!(start, at);
                at = at.offset(length.into());
            }
            let cut = lengths(pieces.iter().copied());
            prop_assert!(is_legal_completion_cut(address, length, rcb, max, &cut));
        }
        prop_assert!(pieces.len() <= aligned.len());
        for &(start, length) in &aligned {
            let max = u64::from(max);
            prop_assert_eq!(start.0 / max, (start.0 + u64::from(length) - 1) / max);
        }
        // Every piece ends at the last boundary within reach of one payload.
        for &(start, length) in &pieces[..pieces.len() - 1] {
            prop_assert!(start.0 % 4 + u64::from(length + rcb) > max.into());
        }
    }

    #[test]
    fn fewest_of_all_legal_ways(
        offset in 0_u64..512, length in 1_u32..700, boundary in 0_u32..2, more in 0_u32..3,
    ) {
        let (address, rcb) = (BusAddress(offset), 64 << boundary);
        let max = rcb << more;
        let all = all_legal_completions(address, length, rcb, max);
        let cut = lengths(completions(address, length, rcb, max));
        prop_assert!(all.contains(&cut));
        prop_assert_eq!(all.iter().map(Vec::len).min(), Some(cut.len()));
        prop_assert!(all.contains(&lengths(completions_aligned(address, length, rcb, max))));
        prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn requests_are_legal_and_longest(
        start in any::<u64>(), length in 0_u64..20_000, max in 1_u32..=1024, power in 2_u32..=12,
    ) {
        let start = start.min(u64::MAX - length);
        let cut_longest: Vec<_> = requests(BusAddress(start), length, max * 4).collect();
        let cut_aligned: Vec<_> = requests_aligned(BusAddress(start), length, 1 << power).collect();
        for (pieces, max) in [(&cut_longest, max * 4), (&cut_aligned, 1 << power)] {
            let mut at = start;
            for &(address, length) in pieces {
                prop_assert_eq!(address.0, at);
                prop_assert!(length > 0);
                prop_assert!(address.0 % 4 + u64::from(length) <= max.into());
                let last = address.0 + u64::from(length - 1);
                prop_assert_eq!(address.0 / PAGE_BYTES, last / PAGE_BYTES);
                at = last.wrapping_add(1);
            }
            prop_assert_eq!(at, start.wrapping_add(length));
        }
        for &(address, length) in cut_longest.iter().rev().skip(1) {
            let full = address.0 % 4 + u64::from(length) == u64::from(max * 4);
            prop_assert!(full || (address.0 + u64::from(length)) % PAGE_BYTES == 0);
        }
        for &(address, _) in cut_aligned.iter().skip(1) {
            prop_assert_eq!(address.0 % (1 << power), 0);
        }
    }
}
