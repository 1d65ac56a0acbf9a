// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateware against the behavioural model, TLP by TLP: the same workload on both in the same
//! lab. Only with `CROSSLANE_ENGINE=rtl`, where the gateware is built (`make check-rtl`).
//!
//! A TLP is identified by its source (the data of a channel, its descriptors, its status block,
//! credits, interrupts) and its number there. Both engines must send the same TLPs with the same
//! headers in the same order from each source.
//!
//! If one channel works alone, TLP *n* of each source has the same delay after its trigger (the
//! doorbell, or the first descriptors), within 3 clocks and 1 % of the time since the first. With
//! several at work single clocks decide their order: then the first TLP of each has the same delay,
//! and its data take the same time, within 3 clocks, 1 %, and one turn of the others. Long runs
//! have the same rates within 1 %. Transfers with the card's memory take the same time within 40
//! clocks, 8 for each of them, and 2 %.
//!
//! `CROSSLANE_SEEDS=17..18` chooses the random workloads.

mod lines;
mod memory;
mod rosta;
mod seen;
mod workload;

use std::ops::Range;

use crosslane_driver::{ChannelKind, ChannelOptions, DescriptorSource};
use crosslane_lab::EngineKind;
use lines::Lines;
use memory::Memory;
use rosta::Rosta;
use seen::{Part, Seen, Step};
use workload::{Route, Where, Workload};

const CLOCK_PS: i64 = 4_000;
const CLOCKS: i64 = 3;
/// Transfers with the card's memory take as long within this part of their time, these clocks, and
/// these for each transfer: the model has no time for the way from the memory's port to the
/// datapath, has a longer one for each copy, and in which order reads and writes of a copy meet in
/// the DRAM is a matter of clocks.
const MEMORY_PART: i64 = 50;
const MEMORY_CLOCKS: i64 = 40;
const COPY_CLOCKS: i64 = 8;
const REPLAY: &str = "CROSSLANE_ENGINE=rtl cargo test \
    --workspace --features crosslane-cli/rtl,crosslane-cosim/stand-in --test same_tlps";

fn is_wanted() -> bool {
    let is_rtl = std::env::var("CROSSLANE_ENGINE").is_ok_and(|engine| engine == "rtl");
    if !is_rtl {
        eprintln!("left out: CROSSLANE_ENGINE=rtl is not set");
    }
    is_rtl
}

/// Formats the surroundings of a difference, on both sides.
fn beside(model: &[Seen], rtl: &[Seen], at: usize) -> String {
    let side = |name: &str, seen: &[Seen]| {
        let lines = seen.iter().enumerate().skip(at.saturating_sub(2)).take(5).map(|(n, seen)| {
            let mark = if n == at { '>' } else { ' ' };
            format!("  {mark} {n:>4} {seen}\n")
        });
        format!(" {name}, of {}:\n{}", seen.len(), lines.collect::<String>())
    };
    side("model", model) + &side("gateware", rtl)
}

/// Times that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Times {
    Free,
    /// Start and duration of each channel's data.
    Rates,
    /// Time of each TLP.
    Each,
}

/// The largest difference of times in clocks (gateware less model), and its position.
type Worst = Vec<(String, i64)>;

fn compare_steps(model: &Step, rtl: &Step, times: Times, skp_ps: i64) -> Result<Worst, String> {
    let is_timed = times == Times::Each;
    let mut worst = Vec::new();
    let empty = Vec::new();
    let sources: std::collections::BTreeSet<_> =
        model.tlps.keys().chain(rtl.tlps.keys()).copied().collect();
    for source in &sources {
        let ours = model.tlps.get(source).unwrap_or(&empty);
        let theirs = rtl.tlps.get(source).unwrap_or(&empty);
        // One status block, or interrupt, may cover several descriptors: a matter of clocks. So is
        // whether a stream that shares its link pauses long enough for its credits to be returned.
        // Only the last of these is compared.
        let (ours, theirs) = match source.part {
            Part::Status(_) | Part::Interrupts => (last(ours), last(theirs)),
            Part::Credits if !is_timed => (last(ours), last(theirs)),
            _ => (&ours[..], &theirs[..]),
        };
        let fields = |seen: &Seen| seen.header;
        if let Some(at) = (0..ours.len().max(theirs.len()))
            .find(|&n| ours.get(n).map(fields) != theirs.get(n).map(fields))
        {
            let lines = beside(ours, theirs, at);
            return Err(format!("{source}: TLP {at} is another\n{lines}"));
        }
        if source.part == Part::Answers {
            continue;
        }
        let (Some(begin), Some(begin_rtl)) = (model.begin_ps(source), rtl.begin_ps(source)) else {
            return Err(format!("{source}: no doorbell was rung"));
        };
        let mut largest = 0;
        for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
            let since = a.time_ps as i64 - begin as i64;
            let since_rtl = b.time_ps as i64 - begin_rtl as i64;
            let difference = since_rtl - since;
            // TLPs that follow data are as late as the data.
            let moving = match source.part {
                Part::Status(_) | Part::Interrupts | Part::Credits => since,
                _ => (a.time_ps - ours[0].time_ps) as i64,
            };
            let bound = CLOCKS * CLOCK_PS + skp_ps + moving / 100;
            // The order of two TLPs is a matter of single clocks: data may precede a status block
            // here, and follow it there.
            let told = rtl.told_ps(source.device, begin_rtl, b.time_ps) as i64
                - model.told_ps(source.device, begin, a.time_ps) as i64;
            // In whole clocks: the model's edges are not aligned.
            let is_late = |late: i64| late.abs() >= bound + CLOCK_PS;
            let is_late = is_late(difference) && is_late(difference - told);
            if is_timed && is_late {
                let clocks = difference / CLOCK_PS;
                let lines = beside(ours, theirs, at);
                return Err(format!(
                    "{source}: TLP {at} comes {since_rtl} ps after the doorbell, not {since}: \
                     {clocks} clocks\n{lines}"
                ));
            }
            if difference.abs() > i64::abs(largest) {
                largest = difference;
            }
        }
        if let (Times::Rates, Part::Data(_), [first, .., last]) = (times, source.part, ours) {
            let (first_rtl, last_rtl) = (theirs[0], theirs[theirs.len() - 1]);
            let latency = (first.time_ps - begin) as i64;
            let latency_rtl = (first_rtl.time_ps - begin_rtl) as i64;
            let took = (model.end_ps(source, last) - first.time_ps) as i64;
            let took_rtl = (rtl.end_ps(source, &last_rtl) - first_rtl.time_ps) as i64;
            let turn = model.turn_ps(source.device) as i64;
            if (latency_rtl - latency).abs() > latency / 100 + turn + CLOCKS * CLOCK_PS {
                return Err(format!("{source}: begins after {latency_rtl} ps, not {latency}"));
            }
            if (took_rtl - took).abs() > took / 100 + turn + CLOCKS * CLOCK_PS {
                return Err(format!("{source}: takes {took_rtl} ps, not {took}"));
            }
        }
        worst.push((source.to_string(), largest / CLOCK_PS));
    }
    Ok(worst)
}

fn last(seen: &[Seen]) -> &[Seen] {
    &seen[seen.len().saturating_sub(1)..]
}

/// Runs a workload on both engines.
fn compare(workload: &Workload, times: Times) -> Result<Worst, String> {
    let (model, contents) = workload.run(EngineKind::Model);
    let (rtl, contents_rtl) = workload.run(EngineKind::Rtl);
    let mut worst = Vec::new();
    for (number, (model, rtl)) in model.iter().zip(&rtl).enumerate() {
        let step = compare_steps(model, rtl, times, workload.place.skp_ps())
            .map_err(|difference| format!("step {number}: {difference}"))?;
        worst.extend(step);
    }
    if contents != contents_rtl {
        return Err("what C2H wrote is not the same".to_owned());
    }
    Ok(worst)
}

/// Compares named cases, each of which says what it has found.
fn compare_all(cases: impl IntoIterator<Item = (String, impl FnOnce() -> Result<String, String>)>) {
    if !is_wanted() {
        return;
    }
    let mut failures = String::new();
    for (name, compared) in cases {
        match compared() {
            Ok(said) => println!("{name}: {said}"),
            Err(error) => failures += &format!("{name}: {error}\n"),
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn said(workload: &Workload, times: Times) -> Result<String, String> {
    compare(workload, times).map(|worst| format!("{worst:?}"))
}

/// One TLP, and a few, of each channel on its own.
#[test]
fn unloaded_latencies_are_the_same() {
    let table = ChannelOptions::default().with_descriptors(DescriptorSource::Table);
    let ring = ChannelOptions::default();
    let mut cases = Vec::new();
    for kind in [ChannelKind::H2c, ChannelKind::C2h, ChannelKind::Peer] {
        for (name, options) in [("table", table), ("ring", ring)] {
            if kind == ChannelKind::Peer && name == "table" {
                continue;
            }
            for bytes in [64, 128, 1024, 16_384] {
                let workload = Workload::single(kind, options, bytes);
                let compared = move || said(&workload, Times::Each);
                cases.push((format!("{kind} {name} {bytes} B"), compared));
            }
        }
    }
    compare_all(cases);
}

/// Several channels of an engine at once: equal rates within 1 %.
#[test]
fn rates_side_by_side_are_the_same() {
    use ChannelKind::{C2h, H2c, Peer};
    let mut cases = Vec::new();
    for (kinds, route) in [
        (&[C2h, H2c][..], Route::Nowhere),
        (&[Peer, H2c], Route::Nowhere),
        (&[C2h, Peer], Route::Nowhere),
        (&[C2h, Peer, H2c], Route::Nowhere),
        (&[C2h, H2c], Route::ToC2h),
        (&[Peer, H2c], Route::ToPeer),
        (&[C2h, Peer, H2c], Route::ToPeer),
    ] {
        for payload in [128, 256] {
            let workload = Workload::together(kinds, route, payload);
            let compared = move || said(&workload, Times::Rates);
            cases.push((format!("{kinds:?} {route:?}, payload {payload}"), compared));
        }
    }
    compare_all(cases);
}

/// A receive buffer that holds reads back: the same reads, at the same times.
#[test]
fn a_small_receive_buffer_is_the_same() {
    use ChannelKind::{C2h, H2c};
    let table = ChannelOptions::default().with_descriptors(DescriptorSource::Table);
    let ring = ChannelOptions::default();
    let mut cases = Vec::new();
    for (name, options) in [("table", table), ("ring", ring)] {
        for bytes in [64, 16_384, 262_144] {
            let alone = Workload::single(H2c, options, bytes);
            cases.push((format!("{name} {bytes} B"), alone, Times::Each));
        }
    }
    for seed in 0..8 {
        let alone = Workload::random_alone(Where::Rosta, seed);
        cases.push((format!("seed {seed}"), alone, Times::Each));
    }
    for route in [Route::Nowhere, Route::ToC2h] {
        let together = Workload::together(&[C2h, H2c], route, 256);
        cases.push((format!("{route:?}"), together, Times::Rates));
    }
    compare_all(cases.into_iter().map(|(name, workload, times)| {
        let workload = Workload { place: Where::Buffer, ..workload };
        (name, move || said(&workload, times))
    }));
}

fn compare_rosta(case: Rosta) -> Result<String, String> {
    let (mut model, mut rtl) = (case.run(EngineKind::Model), case.run(EngineKind::Rtl));
    for shown in [&mut model, &mut rtl] {
        // The number of polls depends on when the host polls.
        shown.step.tlps.retain(|source, _| source.part != Part::Answers);
    }
    let times = if case.is_timed() { Times::Each } else { Times::Free };
    let worst = compare_steps(&model.step, &rtl.step, times, Where::Rosta.skp_ps())?;
    for (flow, (a, b)) in model.rates.iter().zip(&rtl.rates).enumerate() {
        if (a - b).abs() > a / 100.0 {
            return Err(format!("flow {flow}: {:.1} MB/s, not {:.1}", b / 1e6, a / 1e6));
        }
    }
    for (a, b) in model.round_trips_ps.iter().zip(&rtl.round_trips_ps) {
        // Twice the bound, for both directions.
        if a.abs_diff(*b) as i64 > 2 * CLOCKS * CLOCK_PS {
            return Err(format!("a round trip takes {b} ps, not {a}"));
        }
    }
    Ok(format!("{worst:?} {:?} {:?}", model.rates, rtl.rates))
}

/// Workloads of the reproduction `rosta` on this project's engine.
#[test]
fn rosta_is_the_same() {
    compare_all(rosta::ALL.map(|case| (format!("{case:?}"), move || compare_rosta(case))));
}

fn seeds() -> Range<u64> {
    let given = std::env::var("CROSSLANE_SEEDS").unwrap_or_else(|_| "0..100".to_owned());
    let (first, end) = given.split_once("..").expect("CROSSLANE_SEEDS is a range");
    first.parse().unwrap()..end.parse().unwrap()
}

/// Compares a hundred workloads by seed.
fn compare_random(test: &str, random: impl Fn(u64) -> Workload, times: Times) {
    if !is_wanted() {
        return;
    }
    let mut failed = 0;
    for seed in seeds() {
        let workload = random(seed);
        match compare(&workload, times) {
            Ok(worst) => println!("seed {seed}: {worst:?}"),
            Err(error) => {
                failed += 1;
                let next = seed + 1;
                println!(
                    "seed {seed}: {error} again: CROSSLANE_SEEDS={seed}..{next} {REPLAY} {test}"
                );
                println!("{workload:?}\n");
            }
        }
    }
    assert_eq!(failed, 0, "workloads that are not the same on both; see above");
}

#[test]
fn random_workloads_of_one_channel_are_the_same() {
    compare_random("of_one", |seed| Workload::random_alone(Where::Rosta, seed), Times::Each);
}

/// Another link width and generation.
#[test]
fn random_workloads_of_minimal_are_the_same() {
    compare_random("minimal", |seed| Workload::random_alone(Where::Minimal, seed), Times::Each);
}

/// Packets, their records among the TLPs of C2H's data.
#[test]
fn random_packets_are_the_same() {
    compare_random("random_packets", Workload::packets, Times::Rates);
}

#[test]
fn random_workloads_of_several_channels_are_the_same() {
    compare_random("of_several", Workload::random, Times::Rates);
}

/// Pushed descriptors, data in their lines, lines that are dropped, and doorbells among them.
#[test]
fn random_lines_are_the_same() {
    compare_all(seeds().map(|seed| (format!("seed {seed}"), move || compare_lines(seed))));
}

/// Transfers with the card's memory, copies within it among them: the same TLPs, the same bytes in
/// both memories, and each step takes as long.
#[test]
fn random_transfers_with_the_cards_memory_are_the_same() {
    compare_all(seeds().map(|seed| (format!("seed {seed}"), move || compare_memory(seed))));
}

fn compare_memory(seed: u64) -> Result<String, String> {
    let memory = Memory::random(seed);
    let (model, rtl) = (memory.run(EngineKind::Model), memory.run(EngineKind::Rtl));
    if model.contents != rtl.contents {
        return Err(format!("other data, {memory:?}"));
    }
    let mut said = Vec::new();
    for (number, (ours, theirs)) in model.steps.iter().zip(&rtl.steps).enumerate() {
        // The last one compares the memory.
        let Some(step) = memory.steps.get(number) else { break };
        let at = format!("step {number}, {step:?}");
        // No TLP is timed by itself, so an SKP ordered set makes no difference.
        compare_steps(ours, theirs, Times::Free, 0)
            .map_err(|difference| format!("{at}: {difference}"))?;
        let (took, took_rtl) = (ours.took_ps() as i64, theirs.took_ps() as i64);
        let clocks = MEMORY_CLOCKS + COPY_CLOCKS * step.len() as i64;
        if (took_rtl - took).abs() > took / MEMORY_PART + clocks * CLOCK_PS {
            return Err(format!("{at}: takes {took_rtl} ps, not {took}"));
        }
        said.push((took_rtl - took) / CLOCK_PS);
    }
    Ok(format!("{said:?} clocks"))
}

fn compare_lines(seed: u64) -> Result<String, String> {
    let lines = Lines::random(seed);
    let (model, rtl) = (lines.run(EngineKind::Model), lines.run(EngineKind::Rtl));
    if model.told != rtl.told {
        let (ours, theirs) = (model.told.counts, rtl.told.counts);
        return Err(format!("other data, or counts: {ours:?} of the model, {theirs:?}"));
    }
    let mut worst = Vec::new();
    for (number, (ours, theirs)) in model.steps.iter().zip(&rtl.steps).enumerate() {
        let step = compare_steps(ours, theirs, Times::Each, Where::Pushing.skp_ps());
        let step = step.map_err(|difference| {
            format!("step {number}, {:?}: {difference}", lines.steps.get(number))
        })?;
        worst.extend(step);
    }
    Ok(format!("{worst:?}"))
}
