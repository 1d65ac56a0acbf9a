// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bottlenecks of transfers with a card's memory, as points of a sweep in the lab `kc705`:
//! each is named, and the rate without it is that of a point that never had it.

use std::sync::Arc;

use crosslane_experiment::sweep::{Axes, LabSweep, Point, SweepOptions, TransferKind};
use crosslane_explain::{Ran, explain};
use crosslane_lab::file::parts::{CardMemoryParameters, Copying};
use crosslane_lab::{Lab, open};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

/// Returns a lab whose card has another memory.
fn lab(name: &str, edit: impl Fn(&mut CardMemoryParameters)) -> Lab {
    let changed = open(name).unwrap().edited(|file| {
        let part = Arc::make_mut(&mut file.endpoints[0].part);
        edit(part.engine.as_mut().unwrap().card_memory.as_mut().unwrap());
    });
    changed.unwrap()
}

fn point(kind: TransferKind, outstanding: u32, bytes: u64) -> Point {
    let axes = Axes::default().with_kinds([kind]).with_sizes([bytes]);
    axes.with_outstanding([outstanding]).points().unwrap().remove(0)
}

/// Returns a sweep whose runs are short enough to be explained as they are.
fn sweep(lab: &Lab) -> LabSweep<'_> {
    LabSweep::new(lab, None, SweepOptions::default().with_iterations(Some(32))).unwrap()
}

fn rate(lab: &Lab, point: &Point) -> f64 {
    sweep(lab).measure(point, &()).unwrap().bytes_per_second
}

/// The first limit is of this kind, in these words; the rate without it is that of `without`.
#[track_caller]
fn is_named(lab: &Lab, point: &Point, (kind, words): (LimitKind, &str), without: f64) {
    let measured = rate(lab, point);
    let figure = Ran::rate(measured, 0).figure;
    let why = explain(&sweep(lab).scenario(point).unwrap(), figure, 1, &|_| ()).unwrap();
    assert_eq!((why.shortened, why.figure.value), (None, measured), "the run of the point itself");
    let step = &why.steps[0];
    let named: Vec<_> = step.limits.iter().map(|limit| (limit.kind, &*limit.words)).collect();
    assert_eq!(named, [(kind, words)], "{:#?}", why.trials);
    assert_eq!(step.value, without, "{words}");
    assert!(step.gain > 0.05, "{step:?}");
}

#[test]
fn a_copier_that_takes_turns_is_named() {
    let words = "the copier of kc705, which reads a burst and then writes it";
    for kind in [TransferKind::ToCard, TransferKind::FromCard] {
        let point = point(kind, 8, 16 << 10);
        let without = rate(&lab("kc705", |memory| memory.copying = Copying::Overlapped), &point);
        is_named(&lab("kc705", |_| ()), &point, (LimitKind::InTurn, words), without);
    }
}

#[test]
fn a_slow_bus_to_the_memory_is_named() {
    let slow = lab("kc705:crosslane", |memory| memory.axi_bytes = 4);
    let words = "the 0.4 GB/s of the bus to the memory on kc705";
    for (kind, limit) in [
        (TransferKind::ToCard, LimitKind::SlowReader),
        (TransferKind::FromCard, LimitKind::MemoryRead),
    ] {
        let point = point(kind, 8, 16 << 10);
        let fast = lab("kc705:crosslane", |memory| {
            (memory.axi_bytes, memory.axi_clock) = (4, Picoseconds(1));
        });
        is_named(&slow, &point, (limit, words), rate(&fast, &point));
    }
}

#[test]
fn little_read_ahead_of_a_distant_memory_is_named() {
    let distant = |ahead| {
        lab("kc705:crosslane", move |memory| {
            (memory.read_latency, memory.read_ahead_bytes) = (Picoseconds::from_ns(5000), ahead);
        })
    };
    let point = point(TransferKind::FromCard, 8, 16 << 10);
    let words = "the 1 KiB that kc705 reads ahead of its memory";
    let without = rate(&distant(1 << 20), &point);
    is_named(&distant(1 << 10), &point, (LimitKind::Staging, words), without);
}

/// A point with one transfer at a time is compared with the one with several.
#[test]
fn one_transfer_at_a_time_is_named() {
    let (lab, one) = (lab("kc705:crosslane", |_| ()), point(TransferKind::ToCard, 1, 1 << 10));
    let words = "one transfer at a time, which host0 posts";
    let many = Point { outstanding: Some(32), ..one.clone() };
    is_named(&lab, &one, (LimitKind::Outstanding, words), rate(&lab, &many));
}
