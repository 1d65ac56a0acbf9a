// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search for settings and places that make flows faster.
//!
//! Every lever is tried alone; the one that gains most stays, and the others are
//! tried again beside it, until none gains [`THRESHOLD`]. If none does, all settings are tried
//! together: those without which the gain is the same are put back. Rates that differ by less than
//! [`EQUAL`] count as the same: of two ways to them the cheaper one stays.

mod commands;
mod levers;

use crosslane_experiment::parallel;
use crosslane_experiment::{ExperimentError, Progress};
use crosslane_explain::{CLEAR, SAME, STEPS, THRESHOLD, explain};
use crosslane_lab::Lab;
use crosslane_results::{Figure, TuneStep, TuneTrial, Tuning};

use crate::what_if::{Change, Changed, Flows, WhatIfError, apply, name};
use levers::Lever;

/// Largest difference of rates that count as equal, as a fraction: what a run and its lab are exact
/// to. Nobody moves a card for less.
pub const EQUAL: f64 = 0.01;

/// Extent of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuneOptions {
    /// Whether every endpoint stays at its port.
    pub in_place: bool,
    /// Whether to look for what limits the flows afterwards.
    pub why: bool,
}

/// Searches for settings and places that make flows faster. The lab stays as it is.
///
/// # Errors
/// Flows that are impossible or fail in the lab as it is, and an interruption.
pub fn tune(
    lab: &Lab,
    flows: &Flows,
    options: TuneOptions,
    progress: &dyn Progress,
) -> Result<Tuning, WhatIfError> {
    let search = Search { lab, flows, progress };
    let mut changes: Vec<Change> = Vec::new();
    let mut changed = apply(lab, &changes)?;
    let figure = search.figure(&changed)?;
    let (mut value, mut steps, mut alone) = (figure.value, Vec::new(), Vec::new());
    loop {
        let levers = levers::levers(&changed, flows, options)?;
        let tried = search.try_each(&changes, value, &levers)?;
        if steps.is_empty() {
            alone = trials(&levers, &tried);
        }
        let found = match best(&levers, &tried) {
            Some(best) => Some((vec![best], tried[best].value)),
            None => search.together(&changes, value, &levers)?,
        };
        let Some((found, better)) = found else { break };
        let chosen: Vec<&Lever> = found.iter().map(|index| &levers[*index]).collect();
        changes.extend(chosen.iter().flat_map(|lever| lever.changes.clone()));
        let next = apply(lab, &changes)?;
        let (commands, mut notes) = commands::between(&changed, &next, flows)?;
        notes.extend(next.notes.iter().filter(|note| !changed.notes.contains(note)).cloned());
        steps.push(TuneStep {
            words: chosen.iter().map(|lever| lever.words.clone()).collect(),
            options: chosen.iter().flat_map(|lever| lever.options()).collect(),
            value: better,
            gain: better / value - 1.0,
            commands,
            notes,
        });
        (value, changed) = (better, next);
    }
    let explained = options.why.then(|| -> Result<_, WhatIfError> {
        Ok(explain(&flows.scenario(&changed)?, None, STEPS, &|_| ())?)
    });
    let (why_not_faster, not_explained) = match explained {
        Some(Ok(why)) => (Some(why), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let whole = flows.requests.iter().filter(|flow| !flow.is_read_of_a_copy());
    let requests = whole.map(|flow| flow.label.clone()).collect();
    let lab = name(lab);
    Ok(Tuning { lab, flows: requests, figure, alone, steps, why_not_faster, not_explained })
}

/// Result of a lever beside others.
#[derive(Clone, Debug)]
struct Tried {
    value: f64,
    gain: f64,
    problem: Option<String>,
}

/// Returns the levers with their results, the best first.
fn trials(levers: &[Lever], tried: &[Tried]) -> Vec<TuneTrial> {
    let trial = |(lever, tried): (&Lever, &Tried)| TuneTrial {
        words: lever.words.clone(),
        options: lever.options(),
        value: tried.problem.is_none().then_some(tried.value),
        gain: tried.gain,
        problem: tried.problem.clone(),
    };
    let mut trials: Vec<TuneTrial> = levers.iter().zip(tried).map(trial).collect();
    trials.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    trials
}

/// Returns the lever that gains most. Of those with [equal](EQUAL) rates it is the cheapest, and
/// of several that cost the same the best, or the first.
fn best(levers: &[Lever], tried: &[Tried]) -> Option<usize> {
    let counts = |index: &usize| tried[*index].gain >= THRESHOLD;
    let gain = |index: usize| tried[index].gain;
    let most = |indexes: &[usize]| indexes.iter().map(|at| gain(*at)).fold(0.0, f64::max);
    let gaining: Vec<usize> = (0..tried.len()).filter(counts).collect();
    let least = (1.0 + most(&gaining)) * (1.0 - EQUAL) - 1.0;
    let equal: Vec<usize> = gaining.into_iter().filter(|index| gain(*index) >= least).collect();
    let cheapest = equal.iter().map(|index| levers[*index].cost()).min()?;
    let alike = equal.into_iter().filter(|index| levers[*index].cost() == cheapest);
    let alike: Vec<usize> = alike.collect();
    let best = most(&alike);
    alike.into_iter().find(|index| gain(*index) >= best - SAME)
}

struct Search<'a> {
    lab: &'a Lab,
    flows: &'a Flows,
    progress: &'a dyn Progress,
}

impl Search<'_> {
    /// Runs the flows in a lab.
    fn figure(&self, changed: &Changed) -> Result<Figure, WhatIfError> {
        let outcome = self.flows.scenario(changed)?.run(self.progress, None)?;
        let mut problems = outcome.errors.iter().chain(&outcome.deadlock);
        match problems.next() {
            Some(problem) => Err(WhatIfError::Flows { problem: problem.clone() }),
            None => Ok(outcome.figure),
        }
    }

    /// Returns the rate with more changes, or the reason for which the flows cannot run so.
    fn value(&self, changes: &[Change]) -> Result<Result<f64, String>, WhatIfError> {
        if self.progress.is_over() {
            return Err(ExperimentError::Interrupted.into());
        }
        let made = apply(self.lab, changes).and_then(|changed| self.figure(&changed));
        Ok(made.map(|figure| figure.value).map_err(|error| error.to_string()))
    }

    /// Tries each lever beside the changes so far. Runs are parallel, but the results do not depend
    /// on that.
    fn try_each(
        &self,
        changes: &[Change],
        before: f64,
        levers: &[Lever],
    ) -> Result<Vec<Tried>, WhatIfError> {
        let tried = |lever: &Lever| {
            let all: Vec<Change> = changes.iter().chain(&lever.changes).cloned().collect();
            Ok(match self.value(&all)? {
                Ok(value) => Tried { value, gain: value / before - 1.0, problem: None },
                Err(problem) => Tried { value: 0.0, gain: 0.0, problem: Some(problem) },
            })
        };
        parallel::try_map(levers, tried)
    }

    /// Tries the strongest settings together; returns those that are needed for the gain, and the
    /// rate with them.
    fn together(
        &self,
        changes: &[Change],
        before: f64,
        levers: &[Lever],
    ) -> Result<Option<(Vec<usize>, f64)>, WhatIfError> {
        let value = |chosen: &[usize]| {
            let more = chosen.iter().flat_map(|index| &levers[*index].changes);
            self.value(&changes.iter().chain(more).cloned().collect::<Vec<_>>())
        };
        let mut kept: Vec<usize> =
            (0..levers.len()).filter(|index| levers[*index].is_strongest).collect();
        if kept.len() < 2 {
            return Ok(None);
        }
        let Ok(all) = value(&kept)? else { return Ok(None) };
        if all / before - 1.0 < CLEAR {
            return Ok(None);
        }
        let mut found = all;
        // The dearest are put back first.
        for index in kept.clone().into_iter().rev() {
            let without: Vec<usize> = kept.iter().copied().filter(|it| *it != index).collect();
            if let Ok(less) = value(&without)?
                && less >= all * (1.0 - EQUAL)
            {
                (kept, found) = (without, less);
            }
        }
        Ok(Some((kept, found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use levers::Effort;

    /// Rates that differ by less than 1 % are equal; then the cheaper lever counts, and among those
    /// of one cost the better one.
    #[test]
    fn of_equal_gains_the_cheapest_is_best() {
        let best = |all: &[(f64, Effort, usize)]| {
            let tried = all.iter().map(|it| Tried { value: 0.0, gain: it.0, problem: None });
            let levers = all.iter().map(|&(_, effort, count)| Lever {
                words: String::new(),
                changes: vec![Change::Acs { node: None, redirects: false }; count],
                effort,
                is_strongest: false,
            });
            super::best(&levers.collect::<Vec<_>>(), &tried.collect::<Vec<_>>())
        };
        let (set, boot, place) = (Effort::Setting, Effort::Translation, Effort::Place);
        assert_eq!(best(&[(0.085, set, 1), (0.088, place, 1)]), Some(0));
        assert_eq!(best(&[(0.085, set, 1), (0.097, place, 1)]), Some(1));
        assert_eq!(best(&[(0.088, set, 2), (0.085, set, 1), (0.09, boot, 1)]), Some(1));
        assert_eq!(best(&[(0.080, set, 1), (0.088, set, 1), (0.0885, set, 1)]), Some(1));
        assert_eq!(best(&[(0.0, set, 1), (0.009, boot, 1)]), None);
        // Of ten times the rate, too.
        assert_eq!(best(&[(9.0, set, 1), (9.05, place, 1)]), Some(0));
    }
}
