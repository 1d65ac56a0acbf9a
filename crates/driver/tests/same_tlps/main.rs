// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateware against the behavioural model, TLP by TLP: the same workload on both in the same
//! lab. Only with `CROSSLANE_ENGINE=rtl`, where the gateware is built (`make test-rtl`).
//!
//! A TLP is known by what sent it (the data of a channel, its descriptors, its status block,
//! credits, interrupts) and its number there. Both engines have to send the same TLPs with the same
//! headers in the same order from each source. Where one channel works alone, TLP *n* of each
//! source comes as long after the doorbell, but for 3 clocks and 1 % of the time since the first
//! one, and data take as long, but for 1 %. Where several are at work their order among each other
//! is free: which of them goes first is a matter of single clocks. `CROSSLANE_TIMES=1` holds these
//! to the same times, which most of them do not keep.
//!
//! `CROSSLANE_SEEDS=17..18` chooses the random workloads.

#[path = "../lab/setup.rs"]
#[allow(dead_code)]
mod setup;

mod seen;
mod workload;

use std::ops::Range;

use crosslane_driver::{ChannelKind, ChannelOptions, DescriptorSource};
use crosslane_lab::EngineKind;
use seen::{Part, Seen, Step};
use workload::Workload;

const CLOCK_PS: i64 = 4_000;
const CLOCKS: i64 = 3;
const REPLAY: &str = "CROSSLANE_ENGINE=rtl CROSSLANE_RTL_CARDS=gen2x4 cargo test \
    -p crosslane-driver -p crosslane-lab --features crosslane-lab/rtl --test same_tlps random";

fn is_wanted() -> bool {
    let is_rtl = std::env::var("CROSSLANE_ENGINE").is_ok_and(|engine| engine == "rtl");
    if !is_rtl {
        eprintln!("left out: CROSSLANE_ENGINE=rtl is not set");
    }
    is_rtl
}

/// The neighbourhood of a difference, on both sides.
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

/// The largest difference of times in clocks (gateware less model), and where.
type Worst = Vec<(String, i64)>;

fn compare_steps(model: &Step, rtl: &Step, is_timed: bool) -> Result<Worst, String> {
    // With several channels at work a clock may decide which of them goes first.
    let is_timed = is_timed || std::env::var_os("CROSSLANE_TIMES").is_some();
    let mut worst = Vec::new();
    let empty = Vec::new();
    let sources: std::collections::BTreeSet<_> =
        model.tlps.keys().chain(rtl.tlps.keys()).copied().collect();
    for source in &sources {
        let ours = model.tlps.get(source).unwrap_or(&empty);
        let theirs = rtl.tlps.get(source).unwrap_or(&empty);
        // One status block, or interrupt, may stand for several descriptors: how many of them are
        // complete when it is built is a matter of clocks. So is whether a stream that shares its
        // link pauses for long enough for its credits to be returned. Of these the last one counts.
        let (ours, theirs) = match source.part {
            Part::Status(_) | Part::Interrupts | Part::Credits if !is_timed => {
                (last(ours), last(theirs))
            }
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
            let (since, since_rtl) = ((a.time_ps - begin) as i64, (b.time_ps - begin_rtl) as i64);
            let difference = since_rtl - since;
            let moving = (a.time_ps - ours[0].time_ps) as i64;
            let is_late = difference.abs() > CLOCKS * CLOCK_PS + moving / 100;
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
        if let [first, .., last] = ours {
            let (first_rtl, last_rtl) = (theirs[0], theirs[theirs.len() - 1]);
            let took = (last.time_ps - first.time_ps) as i64;
            let took_rtl = (last_rtl.time_ps - first_rtl.time_ps) as i64;
            let is_data = matches!(source.part, Part::Data(_));
            if is_timed && is_data && (took_rtl - took).abs() > took / 100 + CLOCKS * CLOCK_PS {
                return Err(format!("{source}: took {took_rtl} ps, not {took}"));
            }
        }
        worst.push((source.to_string(), largest / CLOCK_PS));
    }
    Ok(worst)
}

fn last(seen: &[Seen]) -> &[Seen] {
    &seen[seen.len().saturating_sub(1)..]
}

/// Runs a workload on both.
fn compare(workload: &Workload, is_timed: bool) -> Result<Worst, String> {
    let (model, contents) = workload.run(EngineKind::Model);
    let (rtl, contents_rtl) = workload.run(EngineKind::Rtl);
    let mut worst = Vec::new();
    for (number, (model, rtl)) in model.iter().zip(&rtl).enumerate() {
        let step = compare_steps(model, rtl, is_timed)
            .map_err(|difference| format!("step {number}: {difference}"))?;
        worst.extend(step);
    }
    if contents != contents_rtl {
        return Err("what C2H wrote is not the same".to_owned());
    }
    Ok(worst)
}

/// One TLP, and a few, of each channel with nothing beside it.
#[test]
fn unloaded_latencies_are_the_same() {
    if !is_wanted() {
        return;
    }
    let table = ChannelOptions { descriptors: DescriptorSource::Table, ..Default::default() };
    let ring = ChannelOptions::default();
    let mut failures = String::new();
    for kind in [ChannelKind::H2c, ChannelKind::C2h, ChannelKind::Peer] {
        for (name, options) in [("table", table), ("ring", ring)] {
            if kind == ChannelKind::Peer && name == "table" {
                continue;
            }
            for bytes in [64, 128, 1024, 16_384] {
                let workload = Workload::single(kind, options, 0, bytes);
                match compare(&workload, true) {
                    Ok(worst) => println!("{kind} {name} {bytes} B: {worst:?}"),
                    Err(error) => failures += &format!("{kind} {name} {bytes} B: {error}"),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn seeds() -> Range<u64> {
    let given = std::env::var("CROSSLANE_SEEDS").unwrap_or_else(|_| "0..100".to_owned());
    let (first, end) = given.split_once("..").expect("CROSSLANE_SEEDS is a range");
    first.parse().unwrap()..end.parse().unwrap()
}

#[test]
fn random_workloads_are_the_same() {
    if !is_wanted() {
        return;
    }
    let mut failed = 0;
    for seed in seeds() {
        let workload = Workload::random(seed);
        match compare(&workload, false) {
            Ok(worst) => println!("seed {seed}: {worst:?}"),
            Err(error) => {
                failed += 1;
                let next = seed + 1;
                println!("seed {seed}: {error} again: CROSSLANE_SEEDS={seed}..{next} {REPLAY}");
                println!("{workload:?}\n");
            }
        }
    }
    assert_eq!(failed, 0, "workloads that are not the same on both; see above");
}
