// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks in cards: their pace, and their reads in flight.

use std::sync::Arc;

use crosslane_experiment::Workload;
use crosslane_explain::THRESHOLD;
use crosslane_lab::Lab;
use crosslane_results::LimitKind::{
    Datapath, DescriptorFetch, DescriptorGap, IdleClocks, PeerWindow, ReadLength,
    ReadingDescriptors, SlowReader, Staging, Tags,
};
use crosslane_results::Use;

use crate::planted::runs::{
    base, base_with, chain, edited, four_writes, peers, reads, small_reads, small_writes,
    through_driver, transfers, with_card, writes,
};
use crate::planted::{
    CHAIN, PEERS, Planted, READS, SAME_FIGURE, SMALL_READS, SMALL_WRITES, WRITES, explained,
};

#[test]
fn tags() {
    let run = |tags| reads(base_with(&[("part.card.requester.tags", tags)]));
    let planted = Planted { case: run(4.0), without: run(256.0), base: &READS };
    planted.is_named(Tags, "card5", "the 4 tags of card5");
}

/// With all tags enabled, only longer reads could help.
#[test]
fn reads_that_are_short_by_design() {
    let run = |bytes, requested: u32| {
        let lab = base_with(&[
            ("part.card.requester.tags", 256.0),
            ("part.card.requester.max_read_bytes", bytes),
            ("part.host.memory.read_latency_ns", 12_000.0),
            ("part.host.memory.read_slots", 512.0),
        ]);
        reads(lab.edited(|file| file.hosts[0].max_read_request_bytes = requested).unwrap())
    };
    let planted = Planted { case: run(128.0, 512), without: run(4096.0, 4096), base: &READS };
    let words = "reads of 128 B, the longest that card5 can ask for";
    planted.is_named(ReadLength, "card5", words);
}

/// Staging memory for less than all tags.
#[test]
fn staging() {
    let run = |bytes| reads(base_with(&[("part.card.engine.staging_bytes", bytes)]));
    let planted = Planted { case: run(2048.0), without: run(1_048_576.0), base: &READS };
    planted.is_named(Staging, "card5", "the staging memory of 2 KiB of card5");
}

#[test]
fn idle_clocks() {
    let run = |clocks| writes(base_with(&[("part.card.requester.idle_clocks_per_tlp", clocks)]));
    let planted = Planted { case: run(12.0), without: run(0.0), base: &WRITES };
    planted.is_named(IdleClocks, "card5", "the 12 idle clocks after each TLP of card5");
}

/// An idle clock exists too, and is not the reason.
#[test]
fn datapath() {
    let run = |bytes| {
        writes(base_with(&[
            ("part.card.requester.datapath_bytes", bytes),
            ("part.card.requester.idle_clocks_per_tlp", 1.0),
        ]))
    };
    let planted = Planted { case: run(8.0), without: run(16.0), base: &WRITES };
    planted.is_named(Datapath, "card5", "the datapath of card5, 8 B each 4 ns");
}

#[test]
fn gap_after_each_descriptor() {
    let run = |ns| small_writes(base_with(&[("part.card.requester.operation_gap_ns", ns)]));
    let planted = Planted { case: run(1500.0), without: run(0.0), base: &SMALL_WRITES };
    planted.is_named(DescriptorGap, "card5", "the gap of 1.5 us after each descriptor of card5");
}

/// The equal gaps of four cards are one limit.
#[test]
fn gaps_of_four_cards() {
    let run = |ns| four_writes(base_with(&[("part.card.requester.operation_gap_ns", ns)]));
    let base = explained(&run(0.0));
    let planted = Planted { case: run(20_000.0), without: run(0.0), base: &base };
    let words = "the gap of 20 us after each descriptor of card1 to card4";
    planted.is_named(DescriptorGap, "card1 to card4", words);
}

#[test]
fn fetches_of_single_descriptors() {
    let run = |batch: f64| {
        let lab = base_with(&[("part.card.engine.fetch_batch", batch)]);
        through_driver(lab, Workload::Write(transfers(1 << 10, 64)), &[&["card5"]])
    };
    let base = explained(&run(32.0));
    let planted = Planted { case: run(1.0), without: run(128.0), base: &base };
    planted.is_named(DescriptorFetch, "card5", "the descriptor fetches of card5, one by one");
}

#[test]
fn one_reading_descriptor() {
    let run = |count| small_reads(base_with(&[("part.card.engine.reading_descriptors", count)]));
    let planted = Planted { case: run(1.0), without: run(1000.0), base: &SMALL_READS };
    let words = "the one descriptor at a time that is read for by card5";
    planted.is_named(ReadingDescriptors, "card5", words);
}

#[test]
fn window_of_a_peer() {
    let run = |bytes| peers(base_with(&[("part.card.engine.lane_fifo_bytes", bytes)]));
    let planted = Planted { case: run(1024.0), without: run(1_048_576.0), base: &PEERS };
    planted.is_named(PeerWindow, "card6", "the receive queue of card6, a credit window of 1 KiB");
}

/// The second card of a chain drains its receive queue more slowly than the first one sends.
#[test]
fn slow_reader_of_a_lane() {
    let lab = |bytes: u32| -> Lab {
        with_card(6, |part| {
            part.edit_requester(|requester| requester.datapath_bytes = bytes);
        })
    };
    let planted = Planted { case: chain(lab(4)), without: chain(lab(8)), base: &CHAIN };
    planted.is_named(
        SlowReader,
        "card6",
        "the way out of the receive queue of card6, 4 B each 4 ns",
    );
}

/// A card that only receives drains its receive queue more slowly than data arrive.
#[test]
fn slow_receiver_of_peer_writes() {
    for bytes in [4_u32, 8] {
        let lab = |bytes: u32| {
            with_card(6, |part| part.edit_requester(|requester| requester.datapath_bytes = bytes))
        };
        let (case, without) = (peers(lab(bytes)), peers(lab(bytes * 2)));
        let words = format!("the way out of the receive queue of card6, {bytes} B each 4 ns");
        Planted { case, without, base: &PEERS }.is_named(SlowReader, "card6", &words);
    }
}

/// Sender and receiver are equally slow: neither gains alone.
#[test]
fn peers_as_slow_as_each_other() {
    let run = |bytes: u32| {
        peers(edited(&base(), |file| {
            for card in [5, 6] {
                let part = Arc::make_mut(&mut file.endpoints[card - 1].part);
                part.edit_requester(|requester| requester.datapath_bytes = bytes);
                // A header would make the sender alone a little slower.
                part.engine.as_mut().unwrap().header_on_datapath = false;
            }
        }))
    };
    let found = explained(&run(8));
    let named: Vec<_> = found.steps[0].limits.iter().map(|limit| limit.words.as_str()).collect();
    let sender = "the datapath of card5, 8 B each 4 ns";
    let receiver = "the way out of the receive queue of card6, 8 B each 4 ns";
    assert_eq!(named, [sender, receiver], "{:#?}", found.trials);
    let off = found.steps[0].value / run(16).figure().unwrap().value - 1.0;
    assert!(off.abs() < SAME_FIGURE, "{off}");
    let alone = found.trials.iter().filter(|trial| named.contains(&trial.limit.words.as_str()));
    assert!(alone.clone().count() == 2 && alone.clone().all(|trial| trial.gain < THRESHOLD));
}

/// Tags run out because the datapath takes the completions slowly: that wait disappears with the
/// datapath, and the wait for few tags is no consequence of another limit.
#[test]
fn tags_that_wait_for_the_datapath() {
    // The staging memory is no larger than the tags need: the run does not fit into it.
    let staging = ("part.card.engine.staging_bytes", 32_768.0);
    let run = |constant, value| explained(&reads(base_with(&[staging, (constant, value)])));
    let found = run("part.card.requester.datapath_bytes", 8.0);
    assert_eq!(found.steps[0].limits[0].kind, Datapath, "{:#?}", found.trials);
    let wait = found.consequence.unwrap();
    assert_eq!(wait.what, Use::NoTag);
    assert!(wait.share > 0.2 && wait.share_without < wait.share / 2.0, "{wait:?}");
    assert_eq!(run("part.card.requester.tags", 4.0).consequence, None);
}
