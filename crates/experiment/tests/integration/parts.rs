// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One lab on several threads: whatever the number of parts, every figure, byte, counter and trace
//! is that of one thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane_device::network_processor::{LinkCounters, NetworkProcessor};
use crosslane_experiment::{HaloNode, HaloOptions, HaloOutcome, Lattice, Scenario};
use crosslane_fabric::trace::{self, TraceRecord, TraceSink};
use crosslane_lab::{CheckedRun, Lab, Part, PartsReport, Progress, WhyStuck};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

const LINKS: u8 = 8;

fn ns(time: u64) -> Picoseconds {
    Picoseconds::from_ns(time)
}

/// A small torus with cables of random constants.
fn lab(random: &mut Random) -> Lab {
    let sizes: [&[u16]; 9] =
        [&[2], &[3], &[5], &[2, 2], &[3, 2], &[4, 3], &[2, 3, 2], &[2, 2, 2, 2], &[3, 1, 2]];
    let sizes = sizes[random.usize(..sizes.len())];
    let lab = Lab::load("torus").and_then(|lab| lab.with_torus(sizes)).unwrap();
    let is_odd = random.bool();
    let edited = lab.edited(|file| {
        let cable = &mut file.tori[0].parameters;
        // Multiples of the processor's clock, where times are equal most often, and others.
        cable.latency = if is_odd { ns(random.u64(1..400)) } else { ns(4 * random.u64(1..100)) };
        cable.lanes = [1, 4, 8][random.usize(..3)];
        cable.bit_error_rate = [0.0, 0.0, 1e-6, 1e-5][random.usize(..4)];
        cable.bring_up = ns(random.u64(1..20_000));
        cable.end.retry_timeout_ps = 20_000_000;
        cable.end.refresh_ps = 5_000_000;
    });
    edited.unwrap()
}

/// Runs exchanges on that number of threads. Returns the outcome and the sorted trace.
fn run(lab: &Arc<Lab>, options: HaloOptions, threads: u32) -> (HaloOutcome, Vec<TraceRecord>) {
    let records = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let records = records.clone();
        let keep = move |record: &TraceRecord| records.lock().unwrap().push(*record);
        Box::new(keep) as Box<dyn TraceSink>
    };
    let scenario = Scenario::new(lab.clone(), options.with_threads(threads));
    let outcome = scenario.run(&(), Some(sink)).unwrap();
    let mut records = std::mem::take(&mut *records.lock().unwrap());
    if threads == 1 {
        trace::sort(&mut records);
    }
    (outcome, records)
}

#[track_caller]
fn assert_same(one: &[TraceRecord], other: &[TraceRecord], what: &str) {
    assert!(!one.is_empty());
    let different = one.iter().zip(other).position(|(one, other)| one != other);
    if let Some(at) = different {
        panic!("{what}: record {at} is\n{}\nnot\n{}", other[at], one[at]);
    }
    assert_eq!(one.len(), other.len(), "{what}");
}

#[test]
fn traces_do_not_depend_on_the_number_of_threads() {
    for seed in 0..12 {
        let mut random = Random::with_seed(seed);
        let lab = Arc::new(lab(&mut random));
        let extents = std::array::from_fn(|_| random.u32(1..4));
        let lattice = Lattice::new(extents).unwrap();
        let options = HaloOptions::new(lattice, 4 * random.u64(1..30));
        let options = options.with_exchanges(random.u32(1..3)).with_seed(seed);
        let (outcome, records) = run(&lab, options, 1);
        assert_eq!(outcome.checked().1, 0, "seed {seed}");
        for threads in [2, 3, 4] {
            let what = format!("seed {seed}, {threads} threads");
            let (same, others) = run(&lab, options, threads);
            assert_same(&records, &others, &what);
            assert_eq!(same, outcome, "{what}");
        }
    }
}
