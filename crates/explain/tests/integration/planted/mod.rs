// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs with one planted bottleneck each, which the search has to name.
//!
//! `base.toml` is a lab in which only links limit runs. A plant changes one or two of its
//! constants, or a choice of the program. Each plant is tested for three things: the bottleneck is
//! named, with its place and words; the figure without it is that of a run that never had it; and
//! the same run without the plant has another bottleneck.

mod iommus;
mod links;
mod memories;
mod nodes;
mod ports;
mod programs;
mod requesters;
mod runs;

use std::sync::LazyLock;

use crosslane_experiment::{Scenario, Workload};
use crosslane_explain::{Explainable, STEPS, THRESHOLD, explain};
use crosslane_results::{Explanation, LimitKind};
use runs::{
    base, chain, one_at_a_time, peers, reads, small_reads, through_driver, transfers, writes,
};

/// Largest difference of equal figures: an UpdateFC more or less, or the beginning of a run.
const SAME_FIGURE: f64 = 0.002;

/// A run with one planted bottleneck.
struct Planted<'a, W> {
    /// The run.
    case: Scenario<W>,
    /// The same run, made without the bottleneck.
    without: Scenario<W>,
    /// Explanation of the same run without the plant.
    base: &'a Explanation,
}

fn explained<W: Explainable>(case: &Scenario<W>) -> Explanation {
    let (_, words) = W::shortened(case).swap_remove(0);
    assert_eq!(words, None, "the figures of a shortened run are not those of a whole");
    explain(case, None, STEPS, &|_| ()).unwrap()
}

impl<W: Explainable> Planted<'_, W> {
    /// Checks the named bottleneck. Returns the explanation.
    fn is_named(&self, kind: LimitKind, place: &str, words: &str) -> Explanation {
        let found = explained(&self.case);
        let step = found.steps.first().unwrap_or_else(|| panic!("{words}: nothing was named"));
        let [limit] = &step.limits[..] else { panic!("{words}: {:?}", step.limits) };
        let named = (limit.kind, limit.place.as_str(), limit.words.as_str());
        assert_eq!(named, (kind, place, words), "{:#?}", found.trials);
        let without = self.without.figure().unwrap().value;
        let off = step.value / without - 1.0;
        assert!(off.abs() < SAME_FIGURE, "{words}: {} instead of {without}", step.value);
        let of_base = self.base.trials.iter().filter(|trial| trial.limit.kind == kind);
        for trial in of_base {
            let is_planted = trial.limit.place != place || trial.gain < step.gain / 4.0;
            assert!(is_planted, "{words}: gains {} without the plant", trial.gain);
        }
        for limit in self.base.steps.iter().take(1).flat_map(|step| &step.limits) {
            assert_ne!((limit.kind, limit.place.as_str()), (kind, place), "without the plant");
        }
        found
    }
}

/// Explanation of writes in the base lab.
static WRITES: LazyLock<Explanation> = LazyLock::new(|| explained(&writes(base())));
static READS: LazyLock<Explanation> = LazyLock::new(|| explained(&reads(base())));
static SMALL_WRITES: LazyLock<Explanation> = LazyLock::new(|| {
    explained(&through_driver(base(), Workload::Write(transfers(4096, 64)), &[&["card5"]]))
});
static SMALL_READS: LazyLock<Explanation> = LazyLock::new(|| explained(&small_reads(base())));
static PEERS: LazyLock<Explanation> = LazyLock::new(|| explained(&peers(base())));
static CHAIN: LazyLock<Explanation> = LazyLock::new(|| explained(&chain(base())));
static ONE_AT_A_TIME: LazyLock<Explanation> = LazyLock::new(|| explained(&one_at_a_time(base())));

#[test]
fn without_a_plant_the_links_are_named_and_nothing_else() {
    let link = |explanation: &Explanation| {
        let step = &explanation.steps[0];
        let gains = explanation.trials.iter().filter(|trial| trial.gain >= THRESHOLD);
        let others: Vec<LimitKind> = gains.map(|trial| trial.limit.kind).collect();
        assert!(others.iter().all(|kind| kind.is_link()), "{others:?}");
        let limits = step.limits.iter().map(|limit| limit.words.clone());
        limits.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(link(&WRITES), "the link card5 -> host0.port1, Gen3 x4");
    assert_eq!(link(&SMALL_WRITES), "the link card5 -> host0.port1, Gen3 x4");
    assert_eq!(link(&PEERS), "the links card5 -> host0.port1 and host0.port2 -> card6, Gen3 x4");
}
