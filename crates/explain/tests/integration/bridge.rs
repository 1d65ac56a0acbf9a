// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bottlenecks of bridged transfers, in the lab `sbdt`: each is named, and the rate without
//! it is that of a run that never had it.

use std::sync::Arc;

use crosslane_bridge::{Mode, Path, ServerOptions};
use crosslane_experiment::{BridgePlan, BridgeWork, Scenario};
use crosslane_explain::explain;
use crosslane_lab::{LabFile, open};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

type Run = Scenario<BridgeWork>;

fn run(path: Path, mode: Mode, server: ServerOptions, edit: impl FnOnce(&mut LabFile)) -> Run {
    let plan = BridgePlan {
        paths: vec![path],
        modes: vec![mode],
        sizes: vec![128 << 10],
        iterations: 1,
        seed: 1,
        timeout: Picoseconds::from_ms(1000),
    };
    let lab = Arc::new(open("sbdt:crosslane").unwrap().edited(edit).unwrap());
    Scenario::new(lab, BridgeWork { before: Vec::new(), plan, server, clients: 1 })
}

#[track_caller]
fn is_named(run: &Run, (kind, place, words): (LimitKind, &str, &str), without: &Run) {
    let why = explain(run, None, 1, &|_| ()).unwrap();
    assert_eq!((&why.shortened, why.figure), (&None, run.figure().unwrap()));
    let limits = why.steps[0].limits.iter();
    let named: Vec<_> = limits.map(|it| (it.kind, &*it.place, &*it.words)).collect();
    assert_eq!(named, [(kind, place, words)], "{:#?}", why.trials);
    assert_eq!(why.steps[0].value, without.figure().unwrap().value, "{words}");
    assert!(why.steps[0].gain > 0.1, "{:?}", why.steps);
}

#[test]
fn a_slow_network_is_named() {
    let network = |bits_per_second| {
        run(Path::ToFpga, Mode::Pipelined, ServerOptions::default(), move |file| {
            file.networks[0].parameters.bits_per_second = bits_per_second;
        })
    };
    let said = (LimitKind::Link, "fnic <-> rnic", "the network fnic <-> rnic, 1 GB/s");
    is_named(&network(8_000_000_000), said, &network(16_000_000_000));
}

#[test]
fn a_small_window_is_named() {
    let window = |window_bytes| {
        let server = ServerOptions::default().with_slots(64).with_slot_bytes(8 << 10);
        let server = server.with_least_chunk_bytes(8 << 10).with_window_bytes(window_bytes);
        run(Path::ToFpga, Mode::Pipelined, server, |_| ())
    };
    let words = "the 8 KiB in flight in the network for a client";
    let said = (LimitKind::Outstanding, "fpga-node", words);
    is_named(&window(8 << 10), said, &window(64 << 20));
}

#[test]
fn the_steps_of_a_naive_transfer_are_named() {
    let mode = |mode| run(Path::FromFpga, mode, ServerOptions::default(), |_| ());
    let words = "the steps of a naive transfer, one after the other";
    let said = (LimitKind::InTurn, "fpga-node", words);
    is_named(&mode(Mode::Naive), said, &mode(Mode::Pipelined));
}

/// Each stage has the pace that is asked for: the slowest of them is that.
#[test]
fn a_pace_that_is_asked_for_is_named() {
    let pace = |pace: Picoseconds| {
        let server = ServerOptions::default().with_pace(pace);
        run(Path::RoundTrip, Mode::Pipelined, server, |_| ())
    };
    let words = "the delay of each stage to 1 us for each KiB";
    let said = (LimitKind::DescriptorGap, "fpga-node", words);
    is_named(&pace(Picoseconds::from_ns(1000)), said, &pace(Picoseconds::ZERO));
}
