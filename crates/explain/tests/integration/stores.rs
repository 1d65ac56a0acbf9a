// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of a core that stores into a memory card, in the lab `aws-f1`.

use std::sync::Arc;

use crosslane_experiment::{MmioOptions, Program, Scenario, StoreWork};
use crosslane_explain::{STEPS, explain};
use crosslane_host::Mapping;
use crosslane_lab::open;
use crosslane_results::LimitKind;

fn run(mapping: Mapping, program: Program, size_bytes: u64) -> Scenario<StoreWork> {
    let lab = Arc::new(open("aws-f1").unwrap());
    let card = lab.file().endpoints[0].name.clone();
    let options = MmioOptions::new(size_bytes, program, mapping);
    Scenario::new(lab, StoreWork { card, options })
}

fn named(run: &Scenario<StoreWork>) -> Vec<Vec<LimitKind>> {
    let explanation = explain(run, None, STEPS, &|_| ()).unwrap();
    let kinds = |step: &crosslane_results::Step| step.limits.iter().map(|it| it.kind).collect();
    explanation.steps.iter().map(kinds).collect()
}

#[test]
fn uncached_stores_should_be_combined_and_then_be_wider() {
    let run = run(Mapping::Uncached, Program::Burst, 64 << 10);
    assert_eq!(named(&run), [vec![LimitKind::UncachedStores], vec![LimitKind::StoreWidth]]);
}

#[test]
fn wide_stores_are_held_by_the_cards_memory() {
    let mut run = run(Mapping::WriteCombined, Program::Copy, 64 << 10);
    assert_eq!(named(&run)[0], [LimitKind::SlowReader]);
    // The named limit is the card's constant, and the gain is that of a faster card.
    let explanation = explain(&run, None, STEPS, &|_| ()).unwrap();
    let step = &explanation.steps[0];
    assert_eq!(step.limits[0].words, "the memory of f1, 33.846 ns for each write");
    run.lab =
        Arc::new(run.lab.with_constant("part.f1.memory_card.write_interval_ns", 0.0).unwrap());
    let faster = run.run(&(), None).unwrap().bytes_per_second();
    assert!((faster / step.value - 1.0).abs() < 1e-9, "{faster} {}", step.value);
    // A short run ends before it exceeds the queues of the card's memory.
    run.work.options.size_bytes = 1 << 10;
    assert!(!named(&run).concat().contains(&LimitKind::SlowReader));
}

#[test]
fn a_long_run_is_shortened() {
    let run = run(Mapping::WriteCombined, Program::Copy, 1 << 20);
    let words = explain(&run, None, STEPS, &|_| ()).unwrap().shortened.unwrap();
    assert_eq!(words, "1 x 256 KiB instead of 1 x 1 MiB");
}
