// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks in memories, of the host and behind BARs.

use crosslane_fabric::FlowKind;
use crosslane_results::LimitKind::{
    CompletionSize, MemoryLatency, MemoryRead, MemoryWrite, PartialLines, ReadSlots, SlowReader,
};

use crate::planted::runs::{base, base_with, generic, reads, with_card, with_host, writes};
use crate::planted::{Planted, READS, WRITES, explained};

#[test]
fn rate_of_writes() {
    let run =
        |rate| writes(with_host(|part| part.parameters.completer.write_bytes_per_second = rate));
    let planted = Planted { case: run(2e9), without: run(f64::INFINITY), base: &WRITES };
    let words = "the 2 GB/s at which the memory of host0 takes writes";
    planted.is_named(MemoryWrite, "host0", words);
}

/// Writes of 200 B at multiples of 256 B end in the middle of a line.
#[test]
fn partial_lines() {
    let run = |ns| {
        let lab = base_with(&[("part.host.memory.partial_line_ns", ns)]);
        generic(lab, 1024, &[("card5", "host0", FlowKind::Write, 200)])
    };
    let base = explained(&run(0.0));
    let planted = Planted { case: run(100.0), without: run(0.0), base: &base };
    let words = "the 100 ns for each line of 64 B that is written in part in the memory of host0";
    planted.is_named(PartialLines, "host0", words);
}

#[test]
fn rate_of_reads() {
    let run =
        |rate| reads(with_host(|part| part.parameters.completer.read_bytes_per_second = rate));
    let planted = Planted { case: run(2e9), without: run(f64::INFINITY), base: &READS };
    planted.is_named(MemoryRead, "host0", "the 2 GB/s at which the memory of host0 is read");
}

#[test]
fn reads_at_once() {
    let run = |slots| reads(base_with(&[("part.host.memory.read_slots", slots)]));
    let planted = Planted { case: run(1.0), without: run(65_536.0), base: &READS };
    planted.is_named(ReadSlots, "host0", "one read at once in the memory of host0");
}

/// A core waits for each of its loads, so only a shorter latency helps.
#[test]
fn latency_of_loads() {
    let run = |lab| generic(lab, 200, &[("host0", "card5", FlowKind::Read, 64)]);
    let slow = base_with(&[("part.card.memory.read_latency_ns", 5000.0)]);
    let none = base_with(&[
        ("part.card.memory.read_latency_ns", 0.0),
        ("part.card.memory.write_latency_ns", 0.0),
    ]);
    let base = explained(&run(base()));
    let planted = Planted { case: run(slow), without: run(none), base: &base };
    planted.is_named(MemoryLatency, "card5", "the 5 us after which card5 answers");
}

#[test]
fn short_completions() {
    let run = |bytes| reads(base_with(&[("part.host.memory.completion_bytes", bytes)]));
    let planted = Planted { case: run(64.0), without: run(256.0), base: &READS };
    let words = "completions of 64 B of host0 (256 B are possible)";
    planted.is_named(CompletionSize, "host0", words);
}

#[test]
fn completions_in_single_units() {
    let run =
        |share| reads(with_host(|part| part.parameters.completer.completion_single_share = share));
    let planted = Planted { case: run(0.75), without: run(0.0), base: &READS };
    let words = "the 75.000 % of host0's completions in single units of 64 B";
    planted.is_named(CompletionSize, "host0", words);
}

#[test]
fn slow_memory_behind_a_bar() {
    let run = |rate| {
        let lab = with_card(6, |part| part.parameters.completer.write_bytes_per_second = rate);
        generic(lab, 1024, &[("card5", "card6", FlowKind::Write, 1024)])
    };
    let base = explained(&run(8e9));
    let planted = Planted { case: run(1e9), without: run(f64::INFINITY), base: &base };
    let words = "the 1 GB/s at which the memory of card6 takes writes";
    planted.is_named(SlowReader, "card6", words);
}
