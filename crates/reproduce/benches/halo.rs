// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of a large torus on one core or several: 4,096 nodes in four dimensions, each of which
//! sends a halo of 4 KiB in each of eight directions, at datagram and TLP level. The checksum of
//! every buffer is compared.
//!
//! `cargo bench -p crosslane-reproduce --bench halo -- [NODES [EXCHANGES]] [--threads N]`: number
//! of nodes, a power of two, number of exchanges, and number of threads.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crosslane_experiment::{HaloOptions, Lattice, Scenario};
use crosslane_lab::{PartsReport, Progress};

/// Longest time on one core, seconds.
const GOAL_SECONDS: f64 = 60.0;

/// Returns four powers of two with this product.
fn sizes(nodes: u32) -> [u16; 4] {
    let bits = nodes.trailing_zeros();
    std::array::from_fn(|dimension| 1 << ((bits + 3 - dimension as u32) / 4))
}

/// Prints how the threads of a run spent their time.
struct Watch;

impl Progress for Watch {
    fn clock(&self) -> Option<fn() -> Duration> {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        Some(|| BEGIN.elapsed())
    }

    fn parted(&self, report: &PartsReport) {
        println!("{report}");
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut threads = 1;
    if let Some(at) = arguments.iter().position(|argument| argument == "--threads") {
        let number = arguments.get(at + 1).and_then(|number| number.parse().ok());
        threads = number.expect("--threads N");
        arguments.drain(at..at + 2);
    }
    let numbers: Vec<u32> = arguments.iter().filter_map(|number| number.parse().ok()).collect();
    let nodes = numbers.first().copied().unwrap_or(4096).next_power_of_two();
    let exchanges = numbers.get(1).copied().unwrap_or(1);
    // Faces of 64 sites of 64 B.
    let lattice = Lattice::new([4; 4]).expect("256 sites");
    let options = HaloOptions::new(lattice, 64).with_exchanges(exchanges).with_threads(threads);
    let begin = Instant::now();
    let lab = crosslane_lab::open("torus").and_then(|lab| lab.with_torus(&sizes(nodes)));
    let lab = lab.unwrap_or_else(|error| panic!("{error}"));
    let read = begin.elapsed();
    let run = Scenario::new(Arc::new(lab), options);
    let outcome = run.run(&Watch, None).unwrap_or_else(|error| panic!("{error}"));
    let seconds = begin.elapsed().as_secs_f64();
    let (checked, wrong) = outcome.checked();
    assert_eq!(wrong, 0, "buffers with a wrong checksum");
    let directions = outcome.directions as u64;
    assert_eq!(checked, u64::from(nodes) * directions * u64::from(exchanges), "all buffers");
    println!("threads               {threads}");
    println!("nodes                 {nodes} ({:?})", outcome.sizes);
    println!(
        "exchanges             {exchanges}, {directions} directions of {} B",
        outcome.face_bytes
    );
    println!("buffers compared      {checked}, {wrong} wrong");
    println!("simulated, each       {}", outcome.exchange);
    println!("lab made in           {:.1} s", read.as_secs_f64());
    println!("all of it in          {seconds:.1} s (goal: {GOAL_SECONDS} s)");
}
