// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bottlenecks of network processors.

use std::sync::Arc;

use crosslane_driver::network_processor::{Modes, Requests};
use crosslane_experiment::{GetWork, HaloOptions, Lattice, NgetOptions, Scenario};
use crosslane_explain::explain;
use crosslane_lab::{Lab, open};
use crosslane_results::{Explanation, LimitKind};

fn gets(lab: Lab, modes: Modes, size_bytes: u64, in_flight: u32) -> Scenario<GetWork> {
    let options = NgetOptions::enough(size_bytes, in_flight, 1, 1);
    let options = options.with_loops(options.loops.min(64));
    Scenario::new(Arc::new(lab), GetWork { processor: "fpga1".to_owned(), modes, options })
}

fn named(explanation: &Explanation, kind: LimitKind, words: &str) {
    let first = &explanation.steps.first().expect("a bottleneck").limits;
    let found = first.iter().any(|limit| limit.kind == kind && limit.words == words);
    assert!(found, "{first:?}");
    assert!(explanation.steps[0].gain > 0.1, "{explanation:?}");
}

#[test]
fn few_tags_hold_long_gets() {
    let lab = open("nget").unwrap().with_constant("part.stratix4.requester.tags", 2.0).unwrap();
    let explanation = explain(&gets(lab, Modes::FASTEST, 16 << 10, 32), None, 1, &|_| ()).unwrap();
    named(&explanation, LimitKind::Tags, "the 2 tags of fpga1");
}

#[test]
fn one_get_at_a_time_holds_short_gets() {
    let explanation =
        explain(&gets(open("nget").unwrap(), Modes::FASTEST, 64, 1), None, 1, &|_| ());
    named(&explanation.unwrap(), LimitKind::Outstanding, "one get of fpga1 at a time");
}

#[test]
fn system_calls_hold_many_short_gets() {
    let modes = Modes::FASTEST.with_requests(Requests::SystemCall);
    let explanation = explain(&gets(open("nget").unwrap(), modes, 64, 64), None, 1, &|_| ());
    named(&explanation.unwrap(), LimitKind::SystemCall, "the system call for each get of fpga1");
}

#[test]
fn slow_cables_hold_an_exchange() {
    let lab = open("torus").unwrap().with_torus(&[2]).unwrap();
    let lab = lab.edited(|file| {
        let cable = &mut file.tori[0].parameters;
        (cable.lanes, cable.lane_bits_per_second) = (1, 2_500_000_000);
    });
    let options = HaloOptions::new(Lattice::new([4; 4]).unwrap(), 256);
    let case = Scenario::new(Arc::new(lab.unwrap()), options);
    let explanation = explain(&case, None, 1, &|_| ()).unwrap();
    let words = "the cables of the torus, x1 at 2.5 Gb/s";
    named(&explanation, LimitKind::LinkGeneration, words);
}
