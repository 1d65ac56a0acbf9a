// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storms: whole labs in which everything happens at once. Random engines, channels, transfers,
//! deadlines and cancels; futures and channels dropped in the middle; links that go down, bus
//! masters that are switched off, reads that go astray. What must hold all the same is asserted
//! where it is looked at: `line.rs` for the data and results of a channel, `watched.rs` for what
//! the devices touch.
//!
//! A storm is a number. `CROSSLANE_STORM_SEED=17 cargo test -p crosslane-driver --test storm`
//! replays one and says what happens; `CROSSLANE_STORM_SEEDS=2000` runs so many (`make storm`).

mod flaps;
mod line;
mod scene;
mod storm;
mod stream;
mod watched;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use storm::Weather;

/// Storms of a plain run of the tests.
const SEEDS: u64 = 120;
/// Storms of that run that are made twice.
const TWICE: u64 = 6;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Runs storms on all cores; says how many seeds failed.
fn run(seeds: std::ops::Range<u64>, is_loud: bool) -> Vec<Weather> {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new((Vec::new(), Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let weather = catch_unwind(AssertUnwindSafe(|| storm::run(seed, is_loud)));
                    let mut done = done.lock().unwrap();
                    match weather {
                        Ok(weather) => done.0.push(weather),
                        Err(_) => {
                            eprintln!(
                                "failed: CROSSLANE_STORM_SEED={seed} cargo test -p \
                                 crosslane-driver --test storm"
                            );
                            done.1.push(seed);
                        }
                    }
                }
            });
        }
    });
    let (weather, mut failed) = done.into_inner().unwrap();
    failed.sort_unstable();
    assert!(failed.is_empty(), "these storms failed: {failed:?}");
    weather
}

#[test]
fn storms() {
    if let Some(seed) = number("CROSSLANE_STORM_SEED") {
        run(seed..seed + 1, true);
        return;
    }
    let first = number("CROSSLANE_STORM_FIRST").unwrap_or(0);
    let count = number("CROSSLANE_STORM_SEEDS").unwrap_or(SEEDS);
    let weather = run(first..first + count, false);
    let sum = |what: fn(&Weather) -> u64| weather.iter().map(what).sum::<u64>();
    println!(
        "{count} storms: {} TLPs on wires, {} words looked at, {} restarts, {} links down, {} \
         other faults",
        sum(|w| w.tlps),
        sum(|w| w.words),
        sum(|w| w.upsets),
        sum(|w| w.links_down),
        sum(|w| w.faults),
    );
    if count >= SEEDS {
        // A storm in which nothing happens shows nothing.
        assert!(sum(|w| w.words) > count * 1_000);
        assert!(sum(|w| w.upsets) > count && sum(|w| w.links_down) > count / 8);
    }
}

#[test]
fn the_same_storm_twice_is_the_same() {
    if number("CROSSLANE_STORM_SEED").is_some() {
        return;
    }
    for seed in 0..TWICE {
        assert_eq!(storm::run(seed, false), storm::run(seed, false), "seed {seed}");
    }
}
