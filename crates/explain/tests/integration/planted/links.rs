// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks in links.

use crosslane_results::LimitKind::{BitErrors, LinkGeneration, LinkWidth, SharedLink};

use crate::planted::runs::{base, base_with, edited, four_writes, writes};
use crate::planted::{Planted, WRITES, explained};

#[test]
fn shared_uplink() {
    let run = |lanes: f64, trained: f64| {
        four_writes(base_with(&[
            ("part.sw.upstream_port.max_width", lanes),
            ("part.uplink.width", trained),
        ]))
    };
    let base = explained(&run(16.0, 16.0));
    let planted = Planted { case: run(4.0, 4.0), without: run(8.0, 8.0), base: &base };
    let words = "the link sw.up -> host0.port0, Gen3 x4, which 4 flows share";
    // In the base lab the uplink and the cards' own links limit the flows alike.
    assert_eq!(base.steps[0].limits.len(), 2, "{:?}", base.steps[0]);
    let base = crosslane_results::Explanation { steps: Vec::new(), ..base.clone() };
    Planted { base: &base, ..planted }.is_named(SharedLink, "sw.up -> host0.port0", words);
}

#[test]
fn wrong_generation() {
    let run = |generation| writes(base_with(&[("part.slot.generation", generation)]));
    let planted = Planted { case: run(1.0), without: run(3.0), base: &WRITES };
    let words = "Gen1 of the link card5 -> host0.port1, whose ports have Gen3";
    planted.is_named(LinkGeneration, "card5 -> host0.port1", words);
}

#[test]
fn width_that_is_trained_down() {
    let run = |lanes| writes(base_with(&[("part.slot.width", lanes)]));
    let planted = Planted { case: run(1.0), without: run(4.0), base: &WRITES };
    let words = "width x1 of the link card5 -> host0.port1, whose ports have x4";
    planted.is_named(LinkWidth, "card5 -> host0.port1", words);
}

/// One cable of the switch is bad, which slows one flow of four, and thus the end of all.
#[test]
fn one_bad_cable_of_four() {
    let run = |lanes: u8| {
        four_writes(edited(&base(), |file| {
            let mut links = file.links.iter_mut();
            let link = links.find(|link| link.lower == "card3").unwrap();
            link.parameters.rate.width = crosslane_pcie::link::Width::new(lanes).unwrap();
        }))
    };
    let base = explained(&run(4));
    let planted = Planted { case: run(2), without: run(4), base: &base };
    let words = "width x2 of the link card3 -> sw.down2, whose ports have x4";
    planted.is_named(LinkWidth, "card3 -> sw.down2", words);
}

/// The link is full, and a faster one would gain more, but it spends much time on replays.
#[test]
fn bit_errors() {
    let run = |rate| writes(base_with(&[("part.slot.bit_error_rate", rate)]));
    let planted = Planted { case: run(2e-5), without: run(0.0), base: &WRITES };
    let words = "bit errors on the link card5 -> host0.port1, one in 50000";
    planted.is_named(BitErrors, "card5 -> host0.port1", words);
}
