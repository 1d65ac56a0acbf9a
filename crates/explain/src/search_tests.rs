// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search in runs whose figures are arithmetic: each is that of the slowest stage.

use std::sync::{Arc, LazyLock, Mutex};

use crosslane_experiment::ExperimentError;
use crosslane_fabric::trace::TraceSink;
use crosslane_lab::Lab;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{ScenarioResult, TimeUse};

use super::*;
use crate::limits::Levers;
use crosslane_results::LimitKind::{
    self, BitErrors, Datapath, IdleClocks, Link, MaxPayload, MemoryLatency, MemoryWrite, ReadSlots,
    ReplayBuffer, SharedLink, Tags,
};

/// A stage of the path: its rate, and its rate with its limit lifted.
#[derive(Clone, Copy)]
struct Stage {
    kind: LimitKind,
    now: f64,
    lifted: f64,
}

#[derive(Clone)]
struct Pipe {
    stages: Vec<Stage>,
    better: Better,
    /// Whether the second stage is a detour around the first.
    detour: bool,
    /// Shorter runs, each by the rate of its only stage and its description.
    shorter: Vec<(f64, &'static str)>,
}

impl Pipe {
    fn new(stages: &[(LimitKind, f64, f64)]) -> Self {
        let stages = stages.iter().map(|(kind, now, lifted)| Stage {
            kind: *kind,
            now: *now,
            lifted: *lifted,
        });
        let stages = stages.collect();
        Self { stages, better: Better::Higher, detour: false, shorter: Vec::new() }
    }

    fn scenario(&self) -> Scenario<Self> {
        static LAB: LazyLock<Arc<Lab>> = LazyLock::new(|| Arc::new(Lab::load("minimal").unwrap()));
        Scenario::new(LAB.clone(), self.clone())
    }

    fn explained(&self) -> Explanation {
        explain(&self.scenario(), None, STEPS, &|_| ()).unwrap()
    }
}

/// Outcome of a run.
struct Flow(Figure);

impl Outcome for Flow {
    fn result(&self) -> ScenarioResult {
        unreachable!("a search needs figures alone")
    }

    fn figure(&self) -> Option<Figure> {
        Some(self.0)
    }

    fn simulated(&self) -> Picoseconds {
        Picoseconds::ZERO
    }

    fn wrong_data(&self) -> Option<String> {
        self.0.value.is_nan().then(|| "no number".to_owned())
    }
}

impl Work for Pipe {
    type Outcome = Flow;

    fn name(&self, _lab: &Lab) -> String {
        "pipe".to_owned()
    }

    /// A rate is that of the slowest stage; a latency is the sum of all stages.
    fn run(
        scenario: &Scenario<Self>,
        _: &dyn Progress,
        _: Option<Box<dyn TraceSink>>,
    ) -> Result<Flow, ExperimentError> {
        let Self { mut stages, better, detour, .. } = scenario.work.clone();
        if detour {
            stages[0].now = stages[0].now.max(stages[1].now);
        }
        let times = stages.iter().enumerate().filter(|(index, _)| !detour || *index != 1);
        let times = times.map(|(_, stage)| stage.now);
        let value = match better {
            Better::Higher => times.fold(f64::INFINITY, f64::min),
            Better::Lower => times.sum(),
        };
        Ok(Flow(Figure { value, better }))
    }
}

impl Explainable for Pipe {
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let pipe = &scenario.work;
        let short = |(value, words): &(f64, &str)| {
            let stages = vec![Stage { now: *value, ..pipe.stages[0] }];
            let short = Self { stages, shorter: Vec::new(), ..pipe.clone() };
            (short.scenario(), Some((*words).to_owned()))
        };
        match pipe.shorter.is_empty() {
            true => vec![(scenario.clone(), None)],
            false => pipe.shorter.iter().map(short).collect(),
        }
    }

    fn levers(scenario: &Scenario<Self>, _first: &Scenario<Self>) -> Levers<Self> {
        let stages = scenario.work.stages.iter().enumerate();
        let stages = stages.filter(|(_, stage)| stage.now != stage.lifted);
        let lever = |(index, stage): (usize, &Stage)| Lever {
            limit: Limit {
                kind: stage.kind,
                place: "here".into(),
                words: format!("{:?}", stage.kind),
                lifted: "less".into(),
            },
            lift: Box::new(move |scenario: &Scenario<Self>| {
                let mut scenario = scenario.clone();
                let stage = &mut scenario.work.stages[index];
                stage.now = stage.lifted;
                Ok(scenario)
            }),
        };
        Ok(stages.map(lever).collect())
    }
}

fn steps(explanation: &Explanation) -> Vec<Vec<LimitKind>> {
    let kinds = |step: &Step| step.limits.iter().map(|limit| limit.kind).collect();
    explanation.steps.iter().map(kinds).collect()
}

#[test]
fn the_bottleneck_is_named_and_then_the_next_one() {
    let stages = [(Tags, 2.0, 9.0), (MemoryWrite, 3.0, 9.0), (Datapath, 5.0, 10.0)];
    let found = Pipe::new(&stages).explained();
    assert_eq!(steps(&found), [[Tags], [MemoryWrite]]);
    assert_eq!((found.figure.value, found.steps[0].value, found.steps[1].value), (2.0, 3.0, 5.0));
    assert_eq!((found.steps[0].gain, found.trials[0].gain), (0.5, 0.5));
    assert!((found.steps[1].gain - 2.0 / 3.0).abs() < 1e-9);
    let trials: Vec<LimitKind> = found.trials.iter().map(|trial| trial.limit.kind).collect();
    assert_eq!(trials, [Tags, MemoryWrite, Datapath], "the best first, then the most specific");
}

#[test]
fn gains_that_are_too_small_are_none() {
    let found = Pipe::new(&[(Tags, 1.0, 1.0099), (IdleClocks, 2.0, 3.0)]).explained();
    assert_eq!(steps(&found), [[]; 0] as [[LimitKind; 0]; 0]);
    let found = Pipe::new(&[(Tags, 1.0, 1.0101), (IdleClocks, 2.0, 3.0)]).explained();
    assert_eq!(steps(&found), [[Tags]]);
}

#[test]
fn a_faster_link_comes_behind_what_wastes_a_full_one() {
    for (share, first) in [(0.031, MaxPayload), (0.029, Link)] {
        let named = best_of(&[(MaxPayload, share), (Link, 0.95)], Better::Higher);
        assert_eq!(named, Some(first), "{share}");
    }
    assert_eq!(best_of(&[(BitErrors, 0.02), (SharedLink, 0.015)], Better::Higher), Some(BitErrors));
    assert_eq!(best_of(&[(BitErrors, 0.4), (Link, 0.5)], Better::Lower), Some(Link));
}

/// Returns the limit named for these gains.
fn best_of(gains: &[(LimitKind, f64)], better: Better) -> Option<LimitKind> {
    let levers: Vec<Lever<Pipe>> = gains
        .iter()
        .map(|(kind, _)| Lever {
            limit: Limit {
                kind: *kind,
                place: String::new(),
                words: String::new(),
                lifted: String::new(),
            },
            lift: Box::new(|scenario: &Scenario<Pipe>| Ok(scenario.clone())),
        })
        .collect();
    let tried: Vec<Tried> = gains
        .iter()
        .map(|(_, gain)| Tried { figure: Figure { value: 1.0 + gain, better }, gain: *gain })
        .collect();
    bottleneck(better, &levers, &tried).map(|index| levers[index].limit.kind)
}

#[test]
fn of_equal_gains_the_most_specific_is_named() {
    for (gains, first) in [
        (&[(MemoryLatency, 0.50), (Tags, 0.46)][..], Tags),
        (&[(MemoryLatency, 0.50), (Tags, 0.44)], MemoryLatency),
        (&[(MemoryLatency, 0.0109), (Tags, 0.0101)], Tags),
        (&[(SharedLink, 0.9), (Link, 0.9)], SharedLink),
        (&[(Tags, 0.009)], Tags),
    ] {
        let expected = (gains.len() > 1).then_some(first);
        assert_eq!(best_of(gains, Better::Higher), expected, "{gains:?}");
    }
    let parts = [(MemoryLatency, 0.50), (Tags, 0.46)];
    assert_eq!(best_of(&parts, Better::Lower), Some(MemoryLatency), "of a latency the largest");
}

#[test]
fn limits_that_hold_a_run_together_are_one_step() {
    let stages =
        [(Tags, 2.0, 9.0), (MemoryWrite, 6.0, 9.0), (Datapath, 2.0, 10.0), (IdleClocks, 2.01, 9.0)];
    let found = Pipe::new(&stages).explained();
    assert_eq!(steps(&found), [vec![Tags, Datapath, IdleClocks], vec![MemoryWrite]]);
    // As it is, each of four alone, all, all but each, the three; the next step begins without
    // them; then the remaining one.
    assert_eq!(runs_of(&Pipe::new(&stages), STEPS), 1 + 4 + 1 + 4 + 1 + 1 + 1);
    assert_eq!((found.steps[0].value, found.steps[0].gain), (6.0, 2.0));
    assert!(found.trials.iter().all(|trial| trial.gain < THRESHOLD));
}

/// Two parallel paths, of which the better one counts: lifting either is enough.
#[test]
fn of_two_that_would_do_the_least_specific_is_left_out() {
    let mut pipe = Pipe::new(&[(Tags, 2.0, 9.0), (Datapath, 2.0, 9.0), (MemoryWrite, 2.0, 9.0)]);
    pipe.detour = true;
    assert_eq!(steps(&pipe.explained())[0], [Tags, MemoryWrite]);
}

#[test]
fn many_small_gains_are_no_bottleneck() {
    let small = |kind| (kind, 0.9, 0.0);
    let kinds = [Tags, Datapath, MemoryWrite].map(small);
    let mut pipe = Pipe::new(&[&kinds[..], &[(MemoryLatency, 97.3, 97.3)]].concat());
    pipe.better = Better::Lower;
    assert_eq!(pipe.explained().steps, []);
}

#[test]
fn of_a_latency_each_part_is_as_good_as_its_time() {
    let mut pipe =
        Pipe::new(&[(MemoryLatency, 300.0, 0.0), (Link, 500.0, 250.0), (Tags, 1.0, 0.0)]);
    pipe.better = Better::Lower;
    let found = pipe.explained();
    assert_eq!(steps(&found), [[MemoryLatency], [Link]]);
    assert!((found.steps[0].gain - 300.0 / 801.0).abs() < 1e-9);
}

/// Returns the number of runs that explain one, each of which is reported.
fn runs_of(pipe: &Pipe, steps: usize) -> usize {
    let told = Mutex::new(Vec::new());
    explain(&pipe.scenario(), None, steps, &|runs| told.lock().unwrap().push(runs)).unwrap();
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    assert!(told.iter().copied().eq(1..=told.len()), "{told:?}");
    told.len()
}

#[test]
fn each_run_is_counted() {
    // One run as it is and one without tags; then no limit is left.
    let pipe = Pipe::new(&[(Tags, 2.0, 9.0), (MemoryWrite, 3.0, 3.0)]);
    assert_eq!(runs_of(&pipe, STEPS), 2);
}

/// Limits that are seldom reached share a run if it is the same without all of them.
#[test]
fn spare_limits_share_a_run_unless_one_is_reached() {
    let spare = Pipe::new(&[(Tags, 2.0, 9.0), (ReplayBuffer, 10.0, 12.0), (ReadSlots, 11.0, 12.0)]);
    assert_eq!(runs_of(&spare, 1), 3);
    let trials = spare.explained().trials;
    assert_eq!(trials.iter().map(|trial| trial.gain).collect::<Vec<_>>(), [3.5, 0.0, 0.0]);
    let reached = Pipe::new(&[(ReplayBuffer, 2.0, 9.0), (ReadSlots, 3.0, 12.0)]);
    assert_eq!(runs_of(&reached, 1), 4);
    assert_eq!(steps(&reached.explained()), [[ReplayBuffer], [ReadSlots]]);
}

/// The bottleneck alone is the same, and takes no runs for the next one.
#[test]
fn a_single_step_takes_its_own_runs_only() {
    let pipe = Pipe::new(&[(Tags, 2.0, 9.0), (MemoryWrite, 3.0, 4.0), (Datapath, 5.0, 6.0)]);
    let (one, both) = (explain(&pipe.scenario(), None, 1, &|_| ()).unwrap(), pipe.explained());
    assert_eq!(
        (steps(&one), steps(&both)),
        (vec![vec![Tags]], vec![vec![Tags], vec![MemoryWrite]])
    );
    assert_eq!((runs_of(&pipe, 1), runs_of(&pipe, STEPS)), (4, 6));
}

#[test]
fn a_run_without_a_limit_that_fails_names_the_limit() {
    let mut pipe = Pipe::new(&[(Tags, 2.0, f64::NAN)]);
    pipe.better = Better::Lower;
    let error = explain(&pipe.scenario(), None, STEPS, &|_| ()).map(drop);
    assert_eq!(error.unwrap_err().to_string(), "without Tags: the run failed: no number");
}

#[test]
fn more_limits_than_can_be_tried_are_an_error() {
    let stages = vec![(Tags, 2.0, 3.0); MAX_RUNS + 1];
    let error =
        explain(&Pipe::new(&stages).scenario(), None, STEPS, &|_| ()).map(drop).unwrap_err();
    assert!(matches!(error, ExplainError::TooManyLimits { limits, .. } if limits == MAX_RUNS + 1));
}

/// The shortest run that is as fast as the measured one is explained; if there is none, the
/// closest, with a warning.
#[test]
fn a_run_is_lengthened_until_it_is_as_fast() {
    let mut pipe = Pipe::new(&[(Tags, 100.0, 200.0)]);
    pipe.shorter = vec![(70.0, "shortest"), (98.0, "longer"), (100.0, "longest")];
    let higher = |value| Some(Figure { value, better: Better::Higher });
    let explained = |measured| explain(&pipe.scenario(), measured, STEPS, &|_| ()).unwrap();
    let found = explained(higher(100.0));
    assert_eq!((found.shortened.as_deref(), found.figure.value), (Some("longer"), 98.0));
    assert_eq!((found.unlike(), found.measured), (None, higher(100.0)));
    // Without a measured figure the shortest run is enough.
    let found = explained(None);
    assert_eq!((found.shortened.as_deref(), found.unlike()), (Some("shortest"), None));
    let found = explained(higher(125.0));
    assert_eq!(found.shortened.as_deref(), Some("longest"));
    assert!((found.unlike().unwrap() + 0.2).abs() < 1e-9, "{:?}", found.unlike());
}

fn account(direction: &str, uses: &[(Use, f64)]) -> Account {
    let uses = uses.iter().map(|(what, share)| TimeUse { what: *what, share: *share });
    Account {
        direction: direction.to_owned(),
        link: "Gen4 x8".to_owned(),
        span_ps: 1000,
        uses: uses.collect(),
        iommus: Vec::new(),
    }
}

#[test]
fn only_the_longest_wait_of_another_name_is_taken() {
    let uses = [(Use::Payload, 0.5), (Use::NoTag, 0.4), (Use::SenderPace, 0.1)];
    let reads = account("host -> card", &uses);
    assert_eq!(to_explain(&reads, &[LimitKind::Datapath]), Some(Use::NoTag));
    assert_eq!(to_explain(&reads, &[LimitKind::Datapath, LimitKind::Tags]), None);
    let busy = account("host -> card", &[(Use::Payload, 0.95), (Use::NoTag, 0.05)]);
    assert_eq!(to_explain(&busy, &[LimitKind::Datapath]), None);
    let silent = account("host -> card", &[(Use::Payload, 0.1), (Use::NothingToSend, 0.9)]);
    assert_eq!(to_explain(&silent, &[LimitKind::Flight]), None);
}

#[test]
fn a_wait_that_stays_is_no_consequence() {
    let reads = account("host -> card", &[(Use::Payload, 0.5), (Use::NoTag, 0.4)]);
    let of = |direction, left| {
        consequence(Use::NoTag, &reads, &account(direction, &[(Use::NoTag, left)]))
    };
    let gone = Consequence { what: Use::NoTag, share: 0.4, share_without: 0.1 };
    assert_eq!(of("host -> card", 0.1), Some(gone));
    assert_eq!(of("host -> card", 0.3), None);
    assert_eq!(of("card -> host", 0.1), None);
}
